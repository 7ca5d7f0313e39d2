"""Selection of the files that a recipient needs, by its hints.

A file is left out only if its partition values and statistics prove that the condition is true for none of its rows.
`limitHint` counts the rows of files for which they prove that it is true for all rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.predicate.conditions import And, Condition
from deltacli.delta.predicate.possible import possible
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.errors import DeltacliError
from deltacli.sharing.hints.client_dialects import Reading, named_columns
from deltacli.sharing.hints.json_predicates import read_json
from deltacli.sharing.hints.known_values import KnownColumns
from deltacli.sharing.hints.sql_predicates import read_sql
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    import pyarrow

_MOST_SQL_HINTS = 100
_MOST_WORK = 50_000_000
"Files times uses of columns: 3 seconds for numbers, 20 for long strings."
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

    kept: pyarrow.BooleanArray | None
    kept_count: int
    total: int
    used: bool
    reason: str


def select_files(files: pyarrow.Table | pyarrow.RecordBatch, config: TableConfiguration, hints: Hints) -> HintResult:
    """Return which live files of a version a recipient needs. Never raises because of the hints or of statistics.

    `files` has `partitionValues`, `stats` and, if there are deletion vectors, `deletionVector`, as in the log.
    """
    condition, notes = _read(hints, config)
    if condition is not None and (work := files.num_rows * sum(1 for _ in named_columns(condition))) > _MOST_WORK:
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
    """Return the conjunction of the usable predicates."""
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
    for number, text in enumerate(hints.sql[:_MOST_SQL_HINTS]):
        yield f"predicateHints[{number}]", _guarded(read_sql, text, config)
    if len(hints.sql) > _MOST_SQL_HINTS:
        yield "predicateHints", Reading(None, (f"only the first {_MOST_SQL_HINTS} are read",))
    if hints.json is not None:
        yield "jsonPredicateHints", _guarded(read_json, hints.json, config)


def _guarded(read: Any, text: str, config: TableConfiguration) -> Reading:  # Any: `read_sql` or `read_json`
    try:
        reading: Reading = read(text, config.schema)
    except MemoryError:
        raise
    except _faults() as fault:
        return Reading(None, (type(fault).__name__,))
    return reading


def _faults() -> tuple[type[Exception], ...]:
    """Return what a hint or a damaged statistic may cause that no check foresaw."""
    import pyarrow as pa

    return DeltacliError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, pa.ArrowException


# -- selecting files --------------------------------------------------------------------------------------------------


class _Selected(NamedTuple):
    """Whether each file is kept, and whether the condition is true for all of its rows."""

    kept: ArrowArray
    is_certain: Any


def _select(
    files: pyarrow.Table | pyarrow.RecordBatch, config: TableConfiguration, condition: Condition | None
) -> _Selected:
    import pyarrow as pa

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


def _judge(files: pyarrow.RecordBatch, known: KnownColumns, condition: Condition) -> _Selected:
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
        pc.replace_with_mask(kept, is_open, answer.true),
        pc.replace_with_mask(is_certain, is_open, _is_certain(answer)),
    )


def _is_certain(answer: Any) -> Any:  # Any: `Possible`
    return pc.and_(answer.true, pc.invert(pc.or_(answer.false, answer.null)))


# -- limiting ---------------------------------------------------------------------------------------------------------


def _limited(
    files: pyarrow.Table | pyarrow.RecordBatch, selected: _Selected, hints: Hints, notes: _Notes
) -> tuple[Any, _Notes]:
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


def _row_counts(files: pyarrow.Table | pyarrow.RecordBatch) -> Any:
    """Return the rows of each file without the deleted ones; 0 where that is unknown."""
    import pyarrow as pa

    records = num_records_column(_whole(files, "stats"))
    if "deletionVector" in files.schema.names:
        vectors = _whole(files, "deletionVector")
        deleted = pc.if_else(pc.is_valid(vectors), pc.struct_field(vectors, ["cardinality"]), pa.scalar(0, pa.int64()))
        is_plain = pc.and_(pc.greater_equal(deleted, 0), pc.less_equal(deleted, records))
        records = pc.if_else(pc.fill_null(is_plain, False), pc.subtract(records, deleted), 0)
    records = pc.fill_null(records, 0)
    # A larger number is wrong, and a sum of them could overflow.
    return pc.if_else(pc.and_(pc.greater(records, 0), pc.less(records, 1 << 40)), records, 0)


def _whole(files: pyarrow.Table | pyarrow.RecordBatch, name: str) -> Any:
    column = files.column(name)
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


# -- the answer -------------------------------------------------------------------------------------------------------


def _result(kept: Any, total: int, notes: _Notes, hints: Hints) -> HintResult:
    count = total if kept is None else pc.sum(kept).as_py() or 0
    said = [f"{count} of {total} files", *notes.used, *notes.skipped]
    if not (hints.sql or hints.json is not None or hints.limit is not None):
        said.append("no hints")
    reason = _UNPRINTABLE.sub("?", _QUOTED.sub("'...'", "; ".join(said)))
    return HintResult(kept if count < total else None, count, total, bool(notes.used), reason[:_LONGEST_REASON])
