"""Selection of the files that a recipient needs, by its hints.

A file is left out only if its partition values and statistics prove that the condition is true for none of its rows.
`limitHint` counts the rows of files for which they prove that it is true for all rows.

The language of SQL hints is that of `read --where` without what SQL dialects read differently: text in double quotes,
escapes, comments, casts that round, LIKE, and inexact numbers next to exact columns. Such a hint is skipped.

What is known of the columns of a condition in each file, for clients of all kinds. Partition values are exact, except
timestamps without a zone, which every client reads in its own zone, and floating-point numbers, which are compared as
floats or as doubles. Spec: SQL Expressions for Filtering.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.columns import Column, ColumnPath
from deltacli.delta.predicate.conditions import And, Condition
from deltacli.delta.predicate.prune import (
    Bounds,
    Exact,
    Known,
    is_partition,
    partition_source,
    path_in_files,
    possible,
    read_bounds,
)
from deltacli.delta.schema.type_changes import canonical_name
from deltacli.delta.schema.types import WHOLE_BITS, Kind, StructField, StructType
from deltacli.delta.sql.parser import Form, Node, parse_expression
from deltacli.sharing.hints.json_predicates import ZONE_MICROSECONDS, Reading, for_any_client, named_columns, read_json
from deltacli.sharing.protocol.parameters import LONGEST_SQL_HINT, MOST_SQL_HINTS, MOST_WORK

_ROWS_AT_ONCE = 65_536
_LONGEST_REASON = 400
_QUOTED = re.compile(r"'[^']*'?|\"[^\"]*\"?")
_UNPRINTABLE = re.compile(r"[^ -~]+")


@dataclass(frozen=True)
class Hints:
    """The hints of a request, as they were sent."""

    sql: tuple[str, ...] = ()
    json: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class HintResult:
    """The files to return.

    `kept` is True for each file that is returned, None if all are. `used`: a hint was applied, whether or not it left
    out a file. `reason` is one line of ASCII for a header and a log, without literals of the hints.
    """

    kept: pa.BooleanArray | None
    used: bool
    reason: str


def select_files(files: pa.Table | pa.RecordBatch, config: TableConfiguration, hints: Hints) -> HintResult:
    """Return which live files of a version a recipient needs. Never raises because of the hints or of statistics.

    `files` has `partitionValues`, `stats` and, if there are deletion vectors, `deletionVector`, as in the log.
    """
    condition, notes = _read(hints, config)
    if condition is not None and (work := files.num_rows * sum(1 for _ in named_columns(condition))) > MOST_WORK:
        condition, notes = None, _Notes((), (f"predicates skipped: {work:,} comparisons are too many",))
    if condition is None and hints.limit is None:
        return _result(None, files.num_rows, notes, hints)
    try:
        selected = _select(files, config, condition)
        limited = _limited(files, selected, hints, notes)
    except MemoryError:
        raise
    except _faults() as fault:
        return _result(None, files.num_rows, _Notes((), (f"skipped: {type(fault).__name__}",)), hints)
    return _result(limited[0], files.num_rows, limited[1], hints)


# -- reading hints ----------------------------------------------------------------------------------------------------


class _Notes(NamedTuple):
    """Which hints are used, and what was skipped and why."""

    used: tuple[str, ...]
    skipped: tuple[str, ...]

    def plus(self, *, used: str | None = None, skipped: str | None = None) -> _Notes:
        return _Notes((*self.used, *([used] if used else [])), (*self.skipped, *([skipped] if skipped else [])))


def _read(hints: Hints, config: TableConfiguration) -> tuple[Condition | None, _Notes]:
    notes, conditions = _Notes((), ()), list[Condition]()
    for name, reading in _readings(hints, config):
        problem = reading.problems[0] if reading.problems else "it has no usable part"
        if reading.condition is None or not any(True for _ in named_columns(reading.condition)):
            notes = notes.plus(skipped=f"{name} skipped: {problem}")
            continue
        conditions.append(reading.condition)
        notes = notes.plus(used=f"{name} used in part: {problem}" if reading.problems else f"{name} used")
    if not conditions:
        return None, notes
    return (conditions[0] if len(conditions) == 1 else And(tuple(conditions))), notes


def _readings(hints: Hints, config: TableConfiguration) -> Iterator[tuple[str, Reading]]:
    if config.schema is None:
        return
    for number, text in enumerate(hints.sql[:MOST_SQL_HINTS]):
        yield f"predicateHints[{number}]", _guarded(_read_sql, text, config)
    if len(hints.sql) > MOST_SQL_HINTS:
        yield "predicateHints", Reading(None, (f"only the first {MOST_SQL_HINTS} are read",))
    if hints.json is not None:
        yield "jsonPredicateHints", _guarded(read_json, hints.json, config)


def _guarded(read: Any, text: str, config: TableConfiguration) -> Reading:  # Any: `_read_sql` or `read_json`
    try:
        reading: Reading = read(text, config.schema)
    except MemoryError:
        raise
    except _faults() as fault:
        return Reading(None, (type(fault).__name__,))
    return reading


def _faults() -> tuple[type[Exception], ...]:
    """Return what a hint or a damaged statistic may cause that no check foresaw."""
    return DeltacliError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, pa.ArrowException


# -- selecting files --------------------------------------------------------------------------------------------------


class _Selected(NamedTuple):
    """Whether each file is kept, and whether the condition is true for all of its rows."""

    kept: ArrowArray
    is_certain: Any


def _select(files: pa.Table | pa.RecordBatch, config: TableConfiguration, condition: Condition | None) -> _Selected:
    if condition is None:
        every = pa.repeat(pa.scalar(True), files.num_rows)
        return _Selected(every, every)
    known = KnownColumns(named_columns(condition), config)
    narrow = pa.table(files.select(["partitionValues", "stats"]))
    parts = [_judge(batch, known, condition) for batch in narrow.to_batches(max_chunksize=_ROWS_AT_ONCE)]
    none = pa.array([], pa.bool_())
    return (
        _Selected(*(pa.concat_arrays([none, *arrays]) for arrays in zip(*parts, strict=True)))
        if parts
        else (_Selected(none, none))
    )


def _judge(files: pa.RecordBatch, known: KnownColumns, condition: Condition) -> _Selected:
    """Judge files by their partition values, and those that are left by their statistics."""
    count = files.num_rows
    answer = possible(condition, known.of_partitions(files), count)
    kept, is_certain = answer.true, _is_certain(answer)
    is_open = pc.and_(kept, pc.invert(is_certain))
    if not known.others or not pc.any(is_open).as_py():
        return _Selected(kept, is_certain)
    rows = pc.indices_nonzero(is_open)
    rest = files if len(rows) == count else pc.take(files, rows)
    answer = possible(condition, known.of_statistics(rest), len(rows))
    return _Selected(
        pc.replace_with_mask(kept, is_open, answer.true), pc.replace_with_mask(is_certain, is_open, _is_certain(answer))
    )


def _is_certain(answer: Any) -> Any:  # Any: `Possible`
    return pc.and_(answer.true, pc.invert(pc.or_(answer.false, answer.null)))


# -- limiting ---------------------------------------------------------------------------------------------------------


def _limited(files: pa.Table | pa.RecordBatch, selected: _Selected, hints: Hints, notes: _Notes) -> tuple[Any, _Notes]:
    """Return the kept files up to the one that completes the wanted number of rows."""
    if hints.limit is None:
        return selected.kept, notes
    if hints.limit <= 0:
        return selected.kept, notes.plus(skipped="limitHint skipped: it is not positive")
    if notes.skipped:
        return selected.kept, notes.plus(skipped="limitHint skipped: a predicate was skipped")
    rows = pc.if_else(pc.and_(selected.kept, selected.is_certain), _row_counts(files), 0)
    before = pc.subtract(pc.cumulative_sum(rows), rows)
    is_needed = pc.less(before, hints.limit)
    return pc.and_(selected.kept, is_needed), notes.plus(used="limitHint used")


def _row_counts(files: pa.Table | pa.RecordBatch) -> Any:
    """Return the rows of each file without the deleted ones; 0 where that is unknown."""
    records = extract_num_records_column(_whole(files, "stats"))
    if "deletionVector" in files.schema.names:
        vectors = _whole(files, "deletionVector")
        deleted = pc.if_else(pc.is_valid(vectors), pc.struct_field(vectors, ["cardinality"]), pa.scalar(0, pa.int64()))
        is_plain = pc.and_(pc.greater_equal(deleted, 0), pc.less_equal(deleted, records))
        records = pc.if_else(pc.fill_null(is_plain, False), pc.subtract(records, deleted), 0)
    records = pc.fill_null(records, 0)
    # A larger number is wrong, and a sum of them could overflow.
    return pc.if_else(pc.and_(pc.greater(records, 0), pc.less(records, 1 << 40)), records, 0)


def _whole(files: pa.Table | pa.RecordBatch, name: str) -> Any:
    column = files.column(name)
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


# -- the answer -------------------------------------------------------------------------------------------------------


def _result(kept: Any, total: int, notes: _Notes, hints: Hints) -> HintResult:
    count = total if kept is None else pc.sum(kept).as_py() or 0
    said = [f"{count} of {total} files", *notes.used, *notes.skipped]
    if not (hints.sql or hints.json is not None or hints.limit is not None):
        said.append("no hints")
    reason = _UNPRINTABLE.sub("?", _QUOTED.sub("'...'", "; ".join(said)))
    return HintResult(kept if count < total else None, bool(notes.used), reason[:_LONGEST_REASON])


_LITERAL = re.compile(r"'[^'\\]*'")
_STAND_IN = "\x00"
_DIALECTS = re.compile(rf"""["'\\;]|--|/\*|!(?!=)|{_STAND_IN}\s*{_STAND_IN}""")
"""What dialects read differently outside of plain literals: names or strings in double quotes, escapes, comments, the
strength of `!`, and two strings in a row.
"""
_INEXACT = re.compile(r"\b(?:float|double|real)\b|(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d|[df]\b)", re.IGNORECASE)
_EXACT_CASTS = frozenset({*WHOLE_BITS, "date", "timestamp", "timestamp_ltz", "timestamp_ntz", "string", "boolean"})
_ZONED_WORDS = ("timestamp", "timestamp_ltz")


def _read_sql(text: str, schema: StructType) -> Reading:
    if _STAND_IN in text or len(text) > LONGEST_SQL_HINT:
        return Reading(None, (f"it is longer than {LONGEST_SQL_HINT >> 10} KiB, or has a NUL character",))
    bare = _LITERAL.sub(_STAND_IN, text)
    if match := _DIALECTS.search(bare):
        return Reading(None, (f"SQL dialects read {_described(match[0])} differently",))
    try:
        condition = parse_predicate(text, schema).condition
    except UsageError as fault:
        return Reading(None, (fault.reason,))
    parse = parse_expression.__wrapped__  # without the cache: strangers would fill it with large trees
    nodes = list(parse(text).nodes())
    if problem := _ambiguity(nodes, condition, bare):
        return Reading(None, (problem,))
    zoneless = {Kind.TIMESTAMP, Kind.NTZ, *((Kind.DATE,) if any(map(_is_zoned, nodes)) else ())}
    return Reading(for_any_client(condition, zoneless))


def _described(found: str) -> str:
    return {_STAND_IN: "two strings in a row", "'": "a quote in a string", '"': "double quotes"}.get(found[0], found)


def _ambiguity(nodes: list[Node], condition: Condition, bare: str) -> str | None:
    """Return why clients may understand a hint in different ways, None if they do not."""
    kinds = {column.kind for column in named_columns(condition)}
    if not kinds:
        return "it names no column"
    if any(node.form is Form.CONDITION and node.name == "like" for node in nodes):
        return "LIKE is not supported in a hint"
    if not all(_is_exact_cast(node) for node in nodes if node.form is Form.CAST):
        return "casts round differently"
    if kinds & {Kind.WHOLE, Kind.DECIMAL} and _INEXACT.search(bare):
        return "an inexact number is next to a column of exact numbers"
    if Kind.DECIMAL in kinds and _STAND_IN in bare:
        return "a string is next to a column of decimals"
    return None


def _is_exact_cast(node: Node) -> bool:
    """Return True for a cast of a text, or of an integer to an integer type, that has one meaning."""
    name, inner = canonical_name(node.name), node.parts[0]
    if node.word == "try_cast" or name not in _EXACT_CASTS:
        return False
    return inner.form is Form.TEXT or (inner.form is Form.NUMBER and inner.name.isdigit() and name in WHOLE_BITS)


def _is_zoned(node: Node) -> bool:
    return node.form in (Form.CAST, Form.VALUE) and node.name in _ZONED_WORDS


Source: TypeAlias = Callable[[Column], Known]

_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
"The key of a field's metadata that names the type of its strings in Spark."
_WITH_ZONE = r":[0-9]{2}([.][0-9]+)? ?(Z|UTC|GMT|[+-][0-9]{2}(:?[0-9]{2}){0,2})$"
_FARTHEST = 1 << 62


class KnownColumns:
    """The columns of conditions, split into partition columns and columns with statistics.

    Columns of other types, and strings padded to a length, which clients compare in different ways, are left out.
    """

    def __init__(self, columns: Iterable[Column], config: TableConfiguration) -> None:
        self._config = config
        self.partitions: dict[Column, str] = {}
        self.others: dict[Column, ColumnPath] = {}
        for column in dict.fromkeys(columns):
            path = path_in_files(config, column.path)
            if is_partition(config, path):
                if column.kind is not Kind.FLOAT:
                    self.partitions[column] = path[0]
            elif column.kind is not Kind.OTHER:
                self.others[column] = path
        for column in [column for column in (*self.partitions, *self.others) if _is_padded(config, column)]:
            self.partitions.pop(column, None)
            self.others.pop(column, None)

    def of_partitions(self, files: pa.RecordBatch) -> Source:
        """Return what partition values reveal about files."""
        values = partition_source(files, self._config, self.partitions)
        maps = files.column("partitionValues")

        def source(column: Column) -> Known:
            if column not in self.partitions:
                return None
            found = values(column)
            is_zoned = column.kind is Kind.TIMESTAMP and isinstance(found, Exact)
            return _in_any_zone(found, maps, self.partitions[column]) if is_zoned else found

        return source

    def of_statistics(self, files: pa.RecordBatch) -> Source:
        """Return what partition values and statistics reveal about files."""
        values, bounds = self.of_partitions(files), read_bounds(files.column("stats"), self.others)
        return lambda column: values(column) if column in self.partitions else bounds.get(column)


def _is_padded(config: TableConfiguration, column: Column) -> bool:
    """Return True for CHAR columns: some clients compare them without the blanks at the end."""
    if column.type_name.startswith("char("):
        return True
    fields: Iterable[StructField] = config.schema.fields if config.schema else ()
    field = next((field for field in fields if field.name == column.path[0]), None)
    return field is not None and _names_char(field, column.path[1:])


def _names_char(field: StructField, path: ColumnPath) -> bool:
    if path:
        below = getattr(field.data_type, "fields", ())
        inner = next((one for one in below if one.name == path[0]), None)
        return inner is not None and _names_char(inner, path[1:])
    return str(field.metadata.get(_PADDED, "")).lower().startswith("char")


def _in_any_zone(found: Known, maps: ArrowArray, name: str) -> Known:
    """Return timestamps as bounds: those without a zone may be earlier and later."""
    assert isinstance(found, Exact)
    texts = pc.map_lookup(maps, query_key=pa.scalar(name), occurrence="first")
    is_zoned = pc.fill_null(pc.match_substring_regex(texts, _WITH_ZONE), False)
    slack = pc.if_else(is_zoned, pa.scalar(0, pa.int64()), pa.scalar(ZONE_MICROSECONDS, pa.int64()))
    numbers = pc.cast(found.values, pa.int64())
    is_usable = pc.and_(found.is_known, pc.fill_null(pc.less(pc.abs(numbers), _FARTHEST), False))
    numbers = pc.if_else(is_usable, numbers, pa.scalar(None, pa.int64()))
    unknown, is_null = pc.invert(found.is_known), pc.is_null(found.values)
    return Bounds(
        pc.subtract(numbers, slack),
        pc.add(numbers, slack),
        pc.or_(unknown, is_null),
        pc.or_(unknown, pc.invert(is_null)),
    )
