"""Derive what is certain about one column of many files from their footers or from their rows.

A bound in a footer need not be a value that occurs: long text may be truncated, NaN is left out, and rows may be
deleted. Only facts that hold for every writer are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import DataUnreadable
from deltacli.core.typing import ArrowArray
from deltacli.delta.footers.columns import comparable_type, decode_bounds
from deltacli.delta.stats.collect import ColumnFacts
from deltacli.delta.stats.schema import ColumnPath, StatColumn, StatKind, StatSchema
from deltacli.rules.framework.data_file_views import FootersView, LeafRows

_NEVER_CUT = 16
"Number of bytes of text that no known writer truncates. Older footers do not record whether they did."
_LAST_CHARACTER = 4
"The most bytes of one character, which a writer that truncates text may have incremented."


@dataclass(frozen=True)
class ColumnEvidence:
    """What is known about one column, one row per file, in the form of `comparable_type`; null: nothing.

    `low`, `high`: a value at most, and one at least, as large as this occurs. `floor`, `ceiling`: no value is beyond.
    The number of nulls is between `nulls_least` and `nulls_most`, however nulls of fields in null structs are counted.
    At least `values_least` rows are not null. `file_rows` includes deleted rows.
    """

    low: ArrowArray
    high: Any
    floor: Any
    ceiling: Any
    nulls_least: Any
    nulls_most: Any
    values_least: Any
    file_rows: Any
    has_nan: Any
    is_single: Any
    "True if the values are floats in a column that may have become double."
    misses_low: Any
    "True if no value equals the claimed minimum or begins with it, if that was checked; likewise for the maximum."
    misses_high: Any

    def align(self, rows: Any) -> ColumnEvidence:  # Any: None for all, else positions
        """Return the same for some of the files."""
        if rows is None:
            return self
        taken = rows if isinstance(rows, pa.Array) else pa.array(rows, pa.int64())
        return ColumnEvidence(**{name: getattr(self, name).take(taken) for name in self.__dataclass_fields__})


# -- out of footers ---------------------------------------------------------------------------------------------------


def known_from_footers(view: FootersView, column: StatColumn, path: ColumnPath) -> ColumnEvidence | None:
    """Return what footers record about a column, given by physical names, or None if they record nothing."""
    schema: StatSchema = view.memory.setdefault("columns of statistics", StatSchema(view.config))
    fields = schema.fields_along(path)
    if fields is None or (column.kind is StatKind.OTHER and column.type_name != "binary"):
        return None
    try:
        file_leaf = view.columns.leaf(view.schema.arrow, fields)
    except DataUnreadable:
        return None
    if file_leaf is None:
        return _absent(view, column, is_nested=len(path) > 1)
    index, kind = file_leaf
    leaf = view.schema.leaves[index] if index < len(view.schema.leaves) else None
    if leaf is None or leaf.max_repetition_level or pa.types.is_nested(kind):
        return None
    return _FromFooters(view, column, index, kind, may_count_parents=leaf.max_definition_level > 1).known()


def _absent(view: FootersView, column: StatColumn, *, is_nested: bool) -> ColumnEvidence:
    """A column that was added after the files, so it is null in every row."""
    files = len(view.footers)
    deleted = deleted_rows(view.adds)
    least = pc.if_else(pc.greater(view.rows, deleted), pc.subtract(view.rows, deleted), 0)
    nothing, no = pa.nulls(files, comparable_type(column) or pa.int64()), pa.repeat(False, files)
    zero = pa.repeat(pa.scalar(0, pa.int64()), files)
    return ColumnEvidence(*(nothing,) * 4, zero if is_nested else least, view.rows, zero, view.rows, no, no, no, no)


def deleted_rows(adds: ArrowArray) -> ArrowArray:
    """Return how many rows of each file a deletion vector deletes."""
    cardinality = pc.struct_field(adds.column("deletionVector"), ["cardinality"])
    given = pc.fill_null(cardinality, 0) if cardinality.null_count else cardinality
    return pc.if_else(pc.greater(given, 0), given, 0)


class _Chunks(NamedTuple):
    """Row groups of one leaf: the comparable bounds, and which of them have a value."""

    low: Any
    high: Any
    floor: Any
    ceiling: Any


class _FromFooters:
    """One column of the files of one schema."""

    def __init__(
        self, view: FootersView, column: StatColumn, index: int, kind: Any, *, may_count_parents: bool
    ) -> None:  # Any: an Arrow type
        self._view, self._column, self._kind = view, column, kind
        self._leaf = view.schema.leaves[index]
        self._rows = view.leaf(index)
        self._may_count_parents = may_count_parents
        self._files = len(view.footers)

    def known(self) -> ColumnEvidence:
        """Combine the values of the row groups of each file."""
        files, view = self._files, self._view
        is_sure = pc.invert(self._may_show_hidden())
        nulls = pc.if_else(is_sure, self._nulls(), pa.scalar(None, pa.int64()))
        deleted = deleted_rows(view.adds)
        has_all = pc.equal(deleted, 0)
        some = pc.subtract(nulls, deleted)
        least = pc.if_else(pc.less(some, 0), 0, some)
        values = pc.subtract(pc.subtract(view.rows, nulls), deleted)
        if self._may_count_parents:
            least = pa.repeat(pa.scalar(0, pa.int64()), files)
        chunks = self._chunks()
        no = pa.repeat(False, files)
        only_float = pa.repeat(self._leaf.physical_type == "FLOAT", files)
        nothing = pa.scalar(None, chunks.low.type)
        low, high = self._least(chunks.low), self._greatest(chunks.high)
        low, high = (pc.if_else(is_sure, bound, nothing) for bound in (low, high))
        floor, ceiling = self._least(chunks.floor, all_known=True), self._greatest(chunks.ceiling, all_known=True)
        return ColumnEvidence(
            pc.if_else(has_all, low, nothing),
            pc.if_else(has_all, high, nothing),
            pc.if_else(has_all, floor, nothing),
            pc.if_else(has_all, ceiling, nothing),
            least,
            nulls,
            pc.if_else(pc.less(values, 0), 0, values),
            view.rows,
            no,
            only_float,
            no,
            no,
        )

    def _may_show_hidden(self) -> Any:
        """Return True for files whose bounds include values hidden by null structs. Arrow (26.0.1) writes such values
        from dictionaries as nulls but includes them in the statistics.
        """
        if not self._may_count_parents or self._leaf.physical_type != "BYTE_ARRAY":
            return pa.repeat(False, self._files)
        return pa.array([footer.is_by_arrow for footer in self._view.footers], pa.bool_())

    def _nulls(self) -> Any:
        """Return the nulls of each file, including deleted ones; unknown if one row group does not record them."""
        rows = self._rows
        is_sound = pc.and_(pc.greater_equal(rows.nulls, 0), pc.less_equal(rows.nulls, rows.values))
        sound = pc.if_else(is_sound, rows.nulls, None)
        total = _per_file(rows.files, sound, self._files, "sum", all_known=True)
        return pc.if_else(pc.and_(pc.greater_equal(total, 0), pc.less_equal(total, self._view.rows)), total, None)

    def _chunks(self) -> _Chunks:
        rows = self._rows
        kind = comparable_type(self._column)
        nothing = _Chunks(*(pa.nulls(len(rows.files), kind or pa.int64()),) * 4)
        if kind is None:
            return nothing
        if kind == pa.binary():
            return self._texts(rows)
        known = _numbers(rows)
        if self._leaf.physical_type in ("FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"):  # older bounds were ordered as unsigned
            known = (rows.low, rows.is_low_exact), (rows.high, rows.is_high_exact)
        given = [pc.if_else(pc.fill_null(exact, True), bound, None) for bound, exact in known]
        low, high = (decode_bounds(self._leaf, self._kind, self._column, bound) for bound in given)
        if low is None or high is None:
            return nothing
        is_ordered = pc.less_equal(low, high)
        is_known = pc.and_(is_ordered, pc.take(self._is_of_todays_calendar(), rows.files))
        low, high = (pc.if_else(is_known, bound, pa.scalar(None, kind)) for bound in (low, high))
        return _Chunks(low, high, low, high)

    def _is_of_todays_calendar(self) -> Any:
        """Return False for files whose dates or times Spark wrote in the older calendar: rows tell their bounds."""
        if self._column.kind not in (StatKind.DATE, StatKind.TIMESTAMP):
            return pa.repeat(True, self._files)
        return pa.array([self._leaf.physical_type not in one.hybrid for one in self._view.footers], pa.bool_())

    def _texts(self, rows: LeafRows) -> _Chunks:
        """Return bounds of text. A bound that may be truncated is still useful: a truncated minimum is the beginning of
        its value, and a truncated and incremented maximum begins as its value does, except for the last character.
        """
        low, high = (decode_bounds(self._leaf, self._kind, self._column, bound) for bound in (rows.low, rows.high))
        if low is None or high is None:
            return _Chunks(*(pa.nulls(len(rows.files), pa.binary()),) * 4)
        nothing = pa.scalar(None, pa.binary())
        is_ordered = pc.less_equal(low, high)
        low, high = (pc.if_else(is_ordered, bound, nothing) for bound in (low, high))
        after = pc.binary_join_element_wise(low, pa.scalar(b"\xff"), pa.scalar(b""))
        before = pc.binary_slice(high, 0, -_LAST_CHARACTER)
        return _Chunks(
            _where_exact(low, rows.is_low_exact, after), _where_exact(high, rows.is_high_exact, before), low, high
        )

    def _least(self, bounds: Any, *, all_known: bool = False) -> Any:
        return _per_file(self._rows.files, bounds, self._files, "min", all_known=all_known, unless=self._is_empty)

    def _greatest(self, bounds: Any, *, all_known: bool = False) -> Any:
        return _per_file(self._rows.files, bounds, self._files, "max", all_known=all_known, unless=self._is_empty)

    @property
    def _is_empty(self) -> Any:
        return pc.fill_null(pc.equal(self._rows.nulls, self._rows.values), False)


def _numbers(rows: LeafRows) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return bounds of numbers and whether they are exact. Only those of bytes were ever ordered wrongly."""
    has_new = pc.or_(pc.is_valid(rows.low), pc.is_valid(rows.high))
    low, high = (pc.if_else(has_new, new, old) for new, old in ((rows.low, rows.old_low), (rows.high, rows.old_high)))
    return (low, rows.is_low_exact), (high, rows.is_high_exact)


def _where_exact(bounds: Any, is_exact: Any, others: Any) -> Any:
    """Return bounds that occur as values. If a long bound does not record this, the other bound; null if it is recorded
    as inexact.
    """
    is_whole = pc.coalesce(is_exact, pc.less(pc.binary_length(bounds), _NEVER_CUT))
    sure = pc.if_else(is_whole, bounds, others)
    return pc.if_else(pc.fill_null(is_exact, True), sure, pa.scalar(None, bounds.type))


def _per_file(
    files: Any, values: Any, count: int, how: str, *, all_known: bool = False, unless: Any = None
) -> ArrowArray:
    """Return one value for each of `count` files from those of its row groups. `all_known`: none if one of them has
    none, except where `unless` is true.
    """
    if len(files) == count and pc.all(pc.equal(files, _first(count))).as_py() is not False:
        return values
    missing = pc.is_null(values) if unless is None else pc.and_not(pc.is_null(values), unless)
    table = pa.table({"file": files, "value": values, "missing": pc.cast(missing, pa.int64())})
    totals = aggregate_rows(table, ["file"], [("value", how), ("missing", "sum")])
    columns = {name: totals.column(name).combine_chunks() for name in totals.column_names}
    result = columns[f"value_{how}"]
    if all_known:
        result = pc.if_else(pc.equal(columns["missing_sum"], 0), result, pa.scalar(None, result.type))
    return pc.take(result, pc.index_in(_first(count), value_set=columns["file"]))


@lru_cache(maxsize=4)
def _first(count: int) -> ArrowArray:
    """The first numbers from 0: files of a view, requested with each column."""
    return pa.array(range(count), pa.int64())


# -- out of rows ------------------------------------------------------------------------------------------------------


def known_from_rows(
    column: StatColumn, facts: Sequence[ColumnFacts | None], file_rows: Sequence[int | None]
) -> ColumnEvidence:
    """Return what the live rows of each file show about a column."""
    kind = comparable_type(column) or pa.int64()
    low, high = (
        pa.array([None if one is None else getattr(one, end) for one in facts], kind) for end in ("low", "high")
    )
    nulls = pa.array([None if one is None else one.nulls for one in facts], pa.int64())
    above = pa.array([None if one is None else one.nulls_above for one in facts], pa.int64())
    values = pa.array([None if one is None else one.rows - one.nulls for one in facts], pa.int64())

    def flags(name: str) -> Any:
        return pa.array([one is not None and getattr(one, name) for one in facts], pa.bool_())

    return ColumnEvidence(
        low,
        high,
        low,
        high,
        pc.subtract(nulls, above),
        nulls,
        values,
        pa.array(file_rows, pa.int64()),
        flags("has_nan"),
        flags("is_single"),
        flags("misses_low"),
        flags("misses_high"),
    )
