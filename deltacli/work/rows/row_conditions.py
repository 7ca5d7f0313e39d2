"""Check the conditions and expressions of a table on the rows of its files, with DuckDB.

These are the SQL stored in a table: constraints, invariants, generated columns. Comparisons of columns are
evaluated by the engine of `where`. Everything else is evaluated by DuckDB, if it certainly means the same there as in
Spark; otherwise the result is Unchecked, a value with a reason. An error at run time, such as an overflow, raises
NotEvaluated, because the result in Spark (null or an error) depends on its settings. Results are never guessed.

Spec: CHECK Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import Unreadable, UsageError, install_command
from deltacli.core.typing import ArrowArray, ArrowScalar
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.predicate.parse import Predicate, parse_predicate
from deltacli.delta.schema.to_arrow import arrow_schema
from deltacli.delta.schema.types import DataType, StructField, StructType, places_of
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import StoredKind, StoredSql, stored_sql
from deltacli.delta.sql.translation.translate import GIVEN, Translation, translate_condition, translate_generated
from deltacli.delta.sql.translation.values import ABSENT, Asked, NotTranslated
from deltacli.rules.expressions.row_values import Violations
from deltacli.work.file_facts import OpenFileContext

# -- evaluation with DuckDB --------------------------------------------------------------------------------------------

_SETTINGS: Mapping[str, str] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "temp_directory": "",
    "threads": "1",
}
_AFTERWARDS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    # An optimizer may rewrite `a + 1 > 5` to `a > 4`, which cannot overflow. With wrapping sums, the results differ.
    "PRAGMA disable_optimizer",
    "SET lock_configuration = true",
)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 in days since the epoch. Engines differ beyond, and on DuckDB's infinite dates."""
_MICROSECONDS_A_DAY = 86_400_000_000
_local = threading.local()


class NotEvaluated(Exception):
    """The value of a condition is uncertain for a row. The message is the reason, as the end of a sentence."""


def is_installed() -> bool:
    """Return whether DuckDB can be imported."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return False
    return True


def evaluate(sql: str, columns: Mapping[str, Any]) -> pa.BooleanArray:
    """Return the value of a condition for each row of some columns; null for unknown. Raises NotEvaluated."""
    import duckdb

    session = _session()
    session.register("rows_of_batch", pa.table(dict(columns)))
    try:
        answer = session.sql(f"SELECT {sql} AS answer FROM rows_of_batch").to_arrow_table()
    except (duckdb.Error, RecursionError) as fault:
        text = " ".join(str(fault).partition("LINE 1:")[0].split())
        raise NotEvaluated(text.partition(": ")[2][:200] or text[:200] or type(fault).__name__) from None
    finally:
        session.unregister("rows_of_batch")
    column = answer.column(0)
    if not pa.types.is_boolean(column.type):
        raise NotEvaluated(f"its value is of type {column.type}")
    return column.combine_chunks()


def columns_of(batch: pa.RecordBatch, asked: Iterable[Asked], zone: str | None = None) -> dict[str, ArrowArray]:
    """Return the columns that a query needs, under its names. Raises NotEvaluated for values it cannot handle.

    For a query that needs no columns, the number of rows is preserved.
    """
    columns: dict[str, Any] = {ABSENT: pa.nulls(batch.num_rows, pa.bool_())}
    for number, (column, is_presence) in enumerate(asked):
        values = batch.column(batch.schema.get_field_index(column.path[0]))
        for name in column.path[1:]:
            values = pc.struct_field(values, [values.type.get_field_index(name)])
        if is_presence:
            values = pc.if_else(pc.is_valid(values), pa.scalar(True), pa.scalar(None, pa.bool_()))
        columns[f"c{number}"] = handed_over(values, zone)
    return columns


def handed_over(values: ArrowArray, zone: str | None = None) -> ArrowArray:
    """Return values as passed to a query: times by the clocks of `zone` (None: UTC). Raises NotEvaluated."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return handed_over(pc.cast(values, kind.value_type), zone)
    if pa.types.is_timestamp(kind):
        if zone is not None and kind.tz is not None:
            values = _by_clocks(values, zone)
        values = pc.cast(values, pa.timestamp("us"))
        _require_years(
            pc.cast(values, pa.int64()), _FIRST_DAY * _MICROSECONDS_A_DAY, _LAST_DAY + 1, _MICROSECONDS_A_DAY
        )
    elif zone is not None and pa.types.is_nested(kind) and "tz=" in str(kind):
        raise NotEvaluated(f"it depends on times within a column in the zone {zone}")
    elif pa.types.is_date(kind):
        _require_years(pc.cast(values, pa.int32()), _FIRST_DAY, _LAST_DAY + 1, 1)
    try:
        # Strings in Parquet files are not always valid UTF-8.
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise NotEvaluated("a string is not UTF-8") from None
    return values


_OFFSET = re.compile("^(GMT|UTC)(?=[+-])")


def _by_clocks(values: ArrowArray, zone: str) -> ArrowArray:
    try:
        return pc.local_timestamp(pc.cast(values, pa.timestamp("us", _OFFSET.sub("", zone))))
    except pa.ArrowInvalid as fault:
        raise NotEvaluated(f"times cannot be converted to the zone {zone}: {' '.join(str(fault).split())}") from fault


def _require_years(numbers: Any, first: int, end: int, unit: int) -> None:
    limits = pc.min_max(numbers)
    least, most = limits["min"].as_py(), limits["max"].as_py()
    if least is not None and (least < first or most >= end * unit):
        raise NotEvaluated("a date is outside the years 1 to 9999")


def _session() -> Any:  # Any: a connection
    """Return the in-memory database of this thread."""
    session = getattr(_local, "session", None)
    if session is None or _local.process != os.getpid():
        import duckdb

        session = duckdb.connect(":memory:", config=dict(_SETTINGS))
        for statement in _AFTERWARDS:
            session.execute(statement)
        _local.session, _local.process = session, os.getpid()
    return session


# -- conditions of a table ---------------------------------------------------------------------------------------------

_MOST_FAILURES = 256
"""Most failures of a condition in a file before its other rows are skipped: enough to isolate a dozen rows."""


class _Compiled(NamedTuple):
    """A compiled SQL text and its columns. A generated column comes first."""

    stored: StoredSql
    compiled: Condition | Expression
    shown: tuple[str, ...]
    zone: str | None

    def broken(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return a mask of the rows that do not satisfy it."""
        zone = self.zone if self.compiled.assumes_utc else None
        if isinstance(self.compiled, Expression):
            return self.compiled.differences(batch, self.shown[0], zone)
        return self.compiled.violations(batch, zone)


class StoredConditions:
    """What the rows of a table must satisfy. `not_evaluated` has the reason for each text that cannot be evaluated.

    What depends on the time zone of a session is evaluated for `zone` (None: UTC). Two times within the hour that
    clocks of the zone repeat are compared by these clocks.
    """

    def __init__(self, config: TableConfiguration, zone: str | None = None) -> None:
        self._zone = zone
        self.not_evaluated: dict[StoredSql, str] = {}
        self._compiled: list[_Compiled] = []
        if config.schema is not None:
            for stored in stored_sql(config):
                self._compile(stored, config.schema)

    @property
    def is_empty(self) -> bool:
        return not self._compiled

    def begin(self, _: OpenFileContext) -> _AskedOfRows:
        return _AskedOfRows(self._compiled)

    def _compile(self, stored: StoredSql, schema: StructType) -> None:
        if stored.text is None:
            self.not_evaluated[stored] = "it is not a string"
            return
        names = [column.name for column in schema.fields]
        compiled: Condition | Expression | Unchecked
        if stored.kind is StoredKind.GENERATION:
            place = places_of(stored.name, names)
            if len(place) != 1:
                self.not_evaluated[stored] = "it generates a nested field"
                return
            column = schema.fields[place[0]]
            compiled = compile_expression(stored.text, schema, column.data_type)
        else:
            compiled = compile_condition(stored.text, schema, has_zone=self._zone is not None)
        if isinstance(compiled, Unchecked):
            self.not_evaluated[stored] = compiled.reason
            return
        if self._zone is not None and compiled.assumes_utc and "epoch_us(" in compiled.translation.sql:
            self.not_evaluated[stored] = f"it converts a timestamp to a number, and depends on the zone {self._zone}"
            return
        used = [path[0] for path in parse_expression(stored.text).columns]
        used = [stored.name, *used] if stored.kind is StoredKind.GENERATION else used
        shown = dict.fromkeys(names[place] for name in used for place in places_of(name, names))
        self._compiled.append(_Compiled(stored, compiled, tuple(shown), self._zone))


class _AskedOfRows:
    def __init__(self, compiled: Sequence[_Compiled]) -> None:
        self._asked = [_OneAsked(one) for one in compiled]

    def take(self, batch: pa.RecordBatch) -> None:
        for one in self._asked:
            one.take(batch)

    def answer(self) -> list[Violations]:
        """Return violations and evaluation failures."""
        return [one.answer() for one in self._asked if one.rows or one.fault is not None]


class _OneAsked:
    """The results of one condition for the rows of one file."""

    def __init__(self, asked: _Compiled) -> None:
        self.rows = 0
        self.fault: str | None = None
        self._asked = asked
        self._first: str | None = None
        self._unjudged = 0
        self._failures = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Evaluate the condition on some rows. If the value of a row is uncertain, evaluate each half separately."""
        if self._failures >= _MOST_FAILURES:
            self._unjudged += batch.num_rows
            return
        try:
            broken = self._asked.broken(batch)
        except NotEvaluated as fault:
            self.fault = self.fault or str(fault)
            self._failures += 1
            half = batch.num_rows // 2
            if half:
                self.take(batch.slice(0, half))
                self.take(batch.slice(half))
            else:
                self._unjudged += 1
            return
        count = broken.true_count
        if count and self._first is None:
            row = pc.index(broken, True).as_py()
            self._first = _row_text(batch.select(list(self._asked.shown)).slice(row, 1))
        self.rows += count

    def answer(self) -> Violations:
        """Return the violations, and the rows that could not be evaluated."""
        assumes_utc = self._asked.compiled.assumes_utc
        return Violations(self._asked.stored, self.rows, self._first, assumes_utc, self.fault, self._unjudged)


_LONGEST = 80


def _row_text(row: pa.RecordBatch) -> str:
    """Return the columns of a batch of one row: `id=-1, name="x", day=null`; long values are shortened."""
    return ", ".join(f"{name}={_cut(_text(row.column(name)[0]))}" for name in row.schema.names)


def _text(scalar: ArrowScalar) -> str:
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):  # a time beyond Python's calendar
        return str(scalar)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, str | list | dict) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


__all__ = ["Condition", "Expression", "NotEvaluated", "Unchecked", "compile_condition", "compile_expression"]


@dataclass(frozen=True)
class Unchecked:
    """An SQL text that is not evaluated. `reason` is the end of a sentence."""

    reason: str


@dataclass(frozen=True)
class Condition:
    """A condition for every row. `assumes_utc`: it depends on the writer's time zone, and is evaluated for UTC."""

    text: str
    translation: Translation
    predicate: Predicate | None

    @property
    def assumes_utc(self) -> bool:
        return self.translation.assumes_utc

    def violations(self, batch: pa.RecordBatch, zone: str | None = None) -> pa.BooleanArray:
        """Return true for rows where the condition is false or null; never null.

        The batch has the columns under their logical names, in the table's Arrow types. Times become those of the
        clocks of `zone` (None: UTC). Raises NotEvaluated.
        """
        if self.predicate is not None:
            return pc.invert(self.predicate.matches(batch))
        columns = columns_of(batch, self.translation.asked, zone)
        answer = evaluate(self.translation.sql, columns)
        return pc.invert(pc.fill_null(answer, False))


@dataclass(frozen=True)
class Expression:
    """The expression of a generated column. `assumes_utc` is as for a condition."""

    text: str
    translation: Translation

    @property
    def assumes_utc(self) -> bool:
        return self.translation.assumes_utc

    def differences(self, batch: pa.RecordBatch, column_name: str, zone: str | None = None) -> pa.BooleanArray:
        """Return true for rows where a column differs from the expression; two nulls are equal. Raises NotEvaluated."""
        columns = columns_of(batch, self.translation.asked, zone)
        given = batch.column(batch.schema.get_field_index(column_name))
        answer = evaluate(self.translation.sql, {**columns, GIVEN: handed_over(given, zone)})
        return pc.invert(pc.fill_null(answer, False))


def compile_condition(text: str, schema: StructType, *, has_zone: bool = False) -> Condition | Unchecked:
    """Compile a constraint or an invariant for a table schema, to be evaluated for UTC, or with `has_zone` for others,
    which `where` does not know.
    """
    try:
        translation = translate_condition(text, schema)
    except NotTranslated as fault:
        return Unchecked(str(fault))
    is_for_where = translation.is_plain and not (has_zone and translation.assumes_utc)
    predicate = _predicate(text, schema) if is_for_where else None
    if predicate is None:
        reason = _refusal(translation, schema, {})
        if reason is not None:
            return Unchecked(reason)
    return Condition(text, translation, predicate)


def compile_expression(text: str, schema: StructType, data_type: DataType) -> Expression | Unchecked:
    """Compile the expression of a generated column with the given type, for comparison with the column."""
    try:
        translation = translate_generated(text, schema, data_type)
    except NotTranslated as fault:
        return Unchecked(str(fault))
    reason = _refusal(translation, schema, {GIVEN: data_type})
    return Expression(text, translation) if reason is None else Unchecked(reason)


def _predicate(text: str, schema: StructType) -> Predicate | None:
    """Return the text as a predicate of `where`; None if that language does not support it."""
    try:
        return parse_predicate(text, schema)
    except UsageError:
        return None


def _refusal(translation: Translation, schema: StructType, others: dict[str, DataType]) -> str | None:
    """Return why DuckDB rejects a query on an empty batch; None if DuckDB accepts it."""
    if not is_installed():
        return f"DuckDB, which evaluates it, is not installed: {install_command('constraints')}"
    try:
        names = {asked.column.path[0] for asked in translation.asked}
        empty = arrow_schema(field for field in schema.fields if field.name in names).empty_table()
        given = {name: _empty_column(name, data_type) for name, data_type in others.items()}
        evaluate(translation.sql, {**columns_of(empty, translation.asked), **given})
    except (NotEvaluated, Unreadable) as fault:
        return str(fault)
    return None


def _empty_column(name: str, data_type: DataType) -> ArrowArray:
    empty = arrow_schema([StructField(name, data_type, True, {})]).empty_table()
    return handed_over(empty.column(0))
