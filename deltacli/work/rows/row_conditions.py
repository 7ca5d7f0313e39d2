"""Check the conditions and expressions of a table on the rows of its files.

These are the SQL stored in a table: constraints, invariants, generated columns. Comparisons of columns are
evaluated by the engine of `where`. Everything else is evaluated by DuckDB, if it certainly means the same there as in
Spark; otherwise the result is Unchecked, a value with a reason. An error at run time, such as an overflow, raises
NotEvaluated, because the result in Spark (null or an error) depends on its settings. Results are never guessed.

Spec: CHECK Constraints; Column Invariants; Generated Columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowScalar
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import StructType, find_name_positions
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import StoredKind, StoredSql, list_stored_sql
from deltacli.rules.expressions.row_values import Violations
from deltacli.work.facts.row_facts import OpenFileContext
from deltacli.work.rows.compiled_conditions import (
    Condition,
    Expression,
    Unchecked,
    compile_condition,
    compile_expression,
)
from deltacli.work.rows.duckdb_evaluation import NotEvaluated

_MOST_FAILURES = 256
"""Most failures of a condition in a file before its other rows are skipped: enough to isolate a dozen rows."""


class _CompiledSql(NamedTuple):
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
    """The conditions that the rows of a table must satisfy: constraints, invariants and generated columns.

    A condition that depends on the time zone of a session is evaluated for `zone` (None: UTC). Two times within the
    hour that clocks of the zone repeat are compared by these clocks.

    Attributes:
        not_evaluated: The reason for each SQL text that cannot be evaluated.
    """

    def __init__(self, config: TableConfiguration, zone: str | None = None) -> None:
        self._zone = zone
        self.not_evaluated: dict[StoredSql, str] = {}
        self._compiled: list[_CompiledSql] = []
        if config.schema is not None:
            for stored in list_stored_sql(config):
                self._compile(stored, config.schema)

    @property
    def is_empty(self) -> bool:
        return not self._compiled

    def begin(self, _: OpenFileContext) -> _ConditionChecks:
        return _ConditionChecks(self._compiled)

    def _compile(self, stored: StoredSql, schema: StructType) -> None:
        """Compile an SQL text, or note why it is not evaluated."""
        if stored.text is None:
            self.not_evaluated[stored] = "it is not a string"
            return
        names = [column.name for column in schema.fields]
        compiled: Condition | Expression | Unchecked
        if stored.kind is StoredKind.GENERATION:
            positions = find_name_positions(stored.name, names)
            if len(positions) != 1:
                self.not_evaluated[stored] = "it generates a nested field"
                return
            column = schema.fields[positions[0]]
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
        shown = dict.fromkeys(names[position] for name in used for position in find_name_positions(name, names))
        self._compiled.append(_CompiledSql(stored, compiled, tuple(shown), self._zone))


class _ConditionChecks:
    def __init__(self, compiled: Sequence[_CompiledSql]) -> None:
        self._asked = [_ConditionCheck(sql) for sql in compiled]

    def take(self, batch: pa.RecordBatch) -> None:
        for check in self._asked:
            check.take(batch)

    def answer(self) -> list[Violations]:
        """Return violations and evaluation failures."""
        return [check.answer() for check in self._asked if check.rows or check.fault is not None]


class _ConditionCheck:
    """The results of one condition for the rows of one file."""

    def __init__(self, asked: _CompiledSql) -> None:
        self.rows = 0
        self.fault: str | None = None
        self._asked = asked
        self._first: str | None = None
        self._unjudged = 0
        self._failures = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Evaluate the condition on some rows. If the value of a row is uncertain, evaluate each half separately."""
        # An expression that fails in every row would otherwise be evaluated once for each row.
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
            self._first = _format_row(batch.select(list(self._asked.shown)).slice(row, 1))
        self.rows += count

    def answer(self) -> Violations:
        """Return the violations, and the rows that could not be evaluated."""
        assumes_utc = self._asked.compiled.assumes_utc
        return Violations(self._asked.stored, self.rows, self._first, assumes_utc, self.fault, self._unjudged)


_LONGEST = 80


def _format_row(row: pa.RecordBatch) -> str:
    """Return the columns of a batch of one row: `id=-1, name="x", day=null`; long values are shortened."""
    return ", ".join(f"{name}={_shorten(_format_value(row.column(name)[0]))}" for name in row.schema.names)


def _format_value(scalar: ArrowScalar) -> str:
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


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
