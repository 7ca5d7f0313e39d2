"""Compute the statistics of data files from their footers, as far as these are exact.

A footer of another writer may leave out NaN and truncate text. Bounds that are not certain to occur in a row are left
out, but for files with deleted rows, whose statistics claim to be wide in any case. Text is cut as in new files, so
that a truncated bound is as good as the whole one where the cut does not reach what is not known of it.

Spec: Per-file Statistics; parquet.thrift, Statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.memory import raise_if_out_of_memory
from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.value_text import json_column, moment_texts
from deltacli.delta.footers.columns import FileSchema, read_schema
from deltacli.delta.footers.parse import Footer
from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.schema.types import decimal_parts
from deltacli.delta.stats.collect import (
    BOUNDED,
    KNOWN_TIMES,
    cut_above,
    cut_below,
)
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, ColumnPath, StatColumn, StatKind, StatSchema
from deltacli.rules.framework.data_file_views import FootersView, LiveAdds
from deltacli.rules.statistics.compared import compare_with_footers
from deltacli.rules.statistics.evidence import ColumnEvidence, known_from_footers
from deltacli.work.facts.footer_files import FooterFiles, ReadFooters
from deltacli.work.rewrite.exactness import find_broken_schema_rule
from deltacli.work.rows.claimed_statistics import ClaimedStatistics
from deltacli.work.rows.deletion_vectors import Descriptor
from deltacli.work.statistics.file_statistics import (
    WANTED,
    FileStatistics,
    StatsPiece,
    WantedStatistics,
    make_judgements,
    make_live_adds,
)
from deltacli.work.task import TaskContext


@dataclass(frozen=True, slots=True)
class StatisticsFromFooters:
    """Reads the footers of files."""

    quick_seconds: ClassVar[float] = ReadFooters.quick_seconds

    def __call__(self, piece: StatsPiece, context: TaskContext) -> list[FileStatistics]:
        """Return the statistics of each file. Files of one schema are computed together, in columns."""
        results = [FileStatistics()] * len(piece.files)
        by_schema: dict[bytes, list[tuple[int, Footer]]] = {}
        for row, (footer, fault) in enumerate(FooterFiles(context).read(piece.files)):
            if footer is not None and fault is None:
                by_schema.setdefault(footer.schema, []).append((row, footer))
            elif fault is None:
                results[row] = FileStatistics(code="data.file-missing", reason="no such file")
            else:
                results[row] = FileStatistics(code=fault.code, reason=fault.message)
        wanted: WantedStatistics = context.shared(WANTED)
        for key, members in by_schema.items():
            rows, footers = zip(*members, strict=True)
            vectors = [piece.vectors[row] for row in rows]
            statistics = compute_footer_statistics(wanted, key, footers, vectors)
            if not statistics[0].code:  # else the schema, which they share, cannot be read
                live = make_live_adds([piece.files[row] for row in rows], vectors, [piece.stats[row] for row in rows])
                statistics = _judge_by_footers(wanted, read_schema(key), footers, live, statistics)
            for row, file_statistics in zip(rows, statistics, strict=True):
                results[row] = file_statistics
        return results


def compute_footer_statistics(
    wanted: WantedStatistics, key: bytes, footers: Sequence[Footer], vectors: Sequence[Descriptor | None]
) -> Sequence[FileStatistics]:
    """Return the statistics of files of one schema, whose key it is (`Footer.schema`)."""
    try:
        schema = read_schema(key)
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise_if_out_of_memory(fault)
        return [FileStatistics(code="data.not-parquet", reason="its schema cannot be read")] * len(footers)
    if (broken := find_broken_schema_rule(wanted.config, schema, footers[0].rows)) is not None:
        return [FileStatistics(code=broken.rule.id, reason=broken.message)] * len(footers)
    has_vector = pa.array([vector is not None for vector in vectors], pa.bool_())
    return [FileStatistics(text) for text in _FooterTexts(wanted, schema, footers, has_vector).texts().to_pylist()]


def _judge_by_footers(
    wanted: WantedStatistics,
    schema: FileSchema,
    footers: Sequence[Footer],
    live: LiveAdds,
    statistics: Sequence[FileStatistics],
) -> Sequence[FileStatistics]:
    """Return statistics of files of one schema, with what their footers show about those in the log."""
    question = ClaimedStatistics(wanted.config)
    absent = frozenset(path for path, _ in wanted.columns if question.is_absent(schema.arrow, path))
    compared = compare_with_footers(FootersView(live, footers, schema, wanted.config))
    judgements = make_judgements(compared, [absent] * len(footers))
    return [
        file_statistics._replace(judgement=judgement)
        for file_statistics, judgement in zip(statistics, judgements, strict=True)
    ]


class _FooterTexts:
    """The statistics of files of one schema, in columns."""

    def __init__(
        self, wanted: WantedStatistics, schema: FileSchema, footers: Sequence[Footer], has_vector: ArrowArray
    ) -> None:
        self._wanted = wanted
        self._has_vector = has_vector
        none = pa.nulls(len(footers), action_schemas().add.field("deletionVector").type)
        adds = pa.RecordBatch.from_arrays([none], names=["deletionVector"])  # vectors are judged here
        live = LiveAdds(adds, (), (), "")
        self._view = FootersView(live, footers, schema, wanted.config)
        self._orders_nan = pa.array([footer.orders_nan for footer in footers], pa.bool_())

    def texts(self) -> ArrowArray:
        """Return the statistics as JSON."""
        parts: dict[str, dict[ColumnPath, ArrowArray]] = {name: {} for name in (*BOUNDS, NULL_COUNT)}
        schema = StatSchema(self._wanted.config)
        for path, _ in self._wanted.columns:
            column = schema.column(path)
            known = None if column is None else known_from_footers(self._view, column, path)
            if column is None or known is None:
                continue
            parts[NULL_COUNT][path] = self._nulls(known)
            if column.kind in BOUNDED:
                for name, values in zip(BOUNDS, self._bounds(column, known), strict=True):
                    parts[name][path] = values
        count = len(self._view.footers)
        fields: dict[str, ArrowArray] = {"numRecords": self._view.rows}
        fields |= {name: _build_structs([*values_by_path.items()], count) for name, values_by_path in parts.items()}
        never = pa.scalar(None, pa.bool_())
        wide = pa.scalar(False)
        claims = "deletionVectors" in self._wanted.config.features
        fields["tightBounds"] = pc.if_else(self._has_vector, wide, pa.scalar(True) if claims else never)
        return json_column(pa.StructArray.from_arrays(list(fields.values()), names=list(fields)))

    def _nulls(self, known: ColumnEvidence) -> ArrowArray:
        """Return the null counts; of files with deleted rows only those that hold for any of their rows."""
        nulls = known.nulls_most
        is_sure = pc.or_(pc.equal(nulls, 0), pc.equal(nulls, known.file_rows))
        return pc.if_else(pc.or_(pc.invert(self._has_vector), is_sure), nulls, pa.scalar(None, pa.int64()))

    def _bounds(self, column: StatColumn, known: ColumnEvidence) -> tuple[ArrowArray, ArrowArray]:
        """Return the bounds of a column in types that JSON has the right texts of; both are null or none."""
        low = known.floor
        high = known.ceiling
        ends = [
            pc.fill_null(pc.equal(bound, is_value), False) for bound, is_value in ((low, known.low), (high, known.high))
        ]
        match column.kind:
            case StatKind.TEXT:
                low, high = self._texts_of(low, high, *ends)
            case StatKind.FLOAT:
                usable = pc.and_(self._orders_nan, pc.and_(pc.is_finite(low), pc.is_finite(high)))
                low = pc.if_else(pc.equal(low, 0.0), -0.0, low)  # zero has two signs, which some readers order
                high = pc.if_else(pc.equal(high, 0.0), 0.0, high)
                low, high = (pc.if_else(usable, bound, pa.scalar(None, bound.type)) for bound in (low, high))
            case StatKind.WHOLE | StatKind.DECIMAL:
                low, high = _drop_out_of_range(column, low, high)
            case StatKind.DATE:
                low, high = (
                    pc.cast(pc.cast(pc.divide(bound, 86_400), pa.int32()), pa.date32()) for bound in (low, high)
                )
                low, high = _drop_unknown_years(column.kind, low, high)
            case StatKind.TIMESTAMP:
                zone = "UTC" if column.type_name == "timestamp" else None
                low, high = (pc.cast(bound, pa.timestamp("us", zone)) for bound in (low, high))
                low, high = _drop_unknown_years(column.kind, low, high)
        # A bound that is in no row is as good as a tight one only where deleted rows make bounds wide anyway.
        if column.kind is not StatKind.TEXT:
            usable = pc.or_(self._has_vector, pc.and_(*ends))
            low, high = (pc.if_else(usable, bound, pa.scalar(None, bound.type)) for bound in (low, high))
        has_both = pc.and_(pc.is_valid(low), pc.is_valid(high))
        low, high = (pc.if_else(has_both, bound, pa.scalar(None, bound.type)) for bound in (low, high))
        return (_format_timestamps(low), _format_timestamps(high)) if column.kind is StatKind.TIMESTAMP else (low, high)

    def _texts_of(self, *columns: ArrowArray) -> tuple[ArrowArray, ArrowArray]:
        """Return the bounds of texts, cut, given both bounds and whether each is a value."""
        given = [column.to_pylist() for column in (*columns, self._has_vector)]
        cut_bounds = [_cut_texts(*values) for values in zip(*given, strict=True)]
        return tuple(pa.array([values[end] for values in cut_bounds], pa.string()) for end in (0, 1))


def _format_timestamps(times: ArrowArray) -> ArrowArray:
    """Return timestamps as texts, in milliseconds where they have no digits below, as engines write them."""
    texts = pc.replace_substring_regex(moment_texts(times), r"(\.\d{3})000$", r"\1")
    return pc.binary_join_element_wise(pc.replace_substring(texts, " ", "T"), "Z" if times.type.tz else "", "")


def _cut_texts(
    low: bytes | None, high: bytes | None, is_low: bool, is_high: bool, may_be_wide: bool
) -> tuple[str | None, str | None]:
    if low is None or high is None:
        return None, None
    try:
        least = low.decode()
        most = high.decode()
    except UnicodeDecodeError:
        return None, None
    is_low = is_low or may_be_wide
    is_high = is_high or may_be_wide
    # Of a truncated maximum the last character may be another one.
    return cut_below(least, is_whole=is_low), cut_above(most if is_high else most[:-1], is_whole=is_high)


_BITS = {"byte": 7, "short": 15, "integer": 31}


def _drop_out_of_range(column: StatColumn, low: Any, high: Any) -> tuple[ArrowArray, ArrowArray]:
    """Return numbers that the column's type has: a file may have a wider one, which no reader takes for it."""
    if (parts := decimal_parts(column.type_name)) is not None:
        limit = pa.scalar(Decimal(10) ** (parts[0] - parts[1]), low.type)
        usable = pc.and_(*(pc.less(pc.abs(bound), limit) for bound in (low, high)))
    elif column.type_name in _BITS:
        limit = 1 << _BITS[column.type_name]
        usable = pc.and_(pc.greater_equal(low, -limit), pc.less(high, limit))
    else:
        return low, high
    return tuple(pc.if_else(usable, bound, pa.scalar(None, bound.type)) for bound in (low, high))


def _drop_unknown_years(kind: StatKind, low: Any, high: Any) -> tuple[ArrowArray, ArrowArray]:
    """Return times that every reader understands: neither before the calendars agree, nor after year 9999."""
    unit = pa.int32() if kind is StatKind.DATE else pa.int64()
    first, last = KNOWN_TIMES[kind]
    usable = pc.and_(pc.greater_equal(pc.cast(low, unit), first), pc.less_equal(pc.cast(high, unit), last))
    return tuple(pc.if_else(usable, bound, pa.scalar(None, bound.type)) for bound in (low, high))


def _build_structs(leaves: Sequence[tuple[ColumnPath, ArrowArray]], count: int, *, is_top: bool = True) -> ArrowArray:
    """Return structs within structs, with a column at each path; those within are null where all their fields are."""
    below: dict[str, list[tuple[ColumnPath, ArrowArray]]] = {}
    for path, values in leaves:
        below.setdefault(path[0], []).append((path[1:], values))
    if not below:
        return pa.array([{}] * count, pa.struct([]))
    fields = {
        name: inner_leaves[0][1] if not inner_leaves[0][0] else _build_structs(inner_leaves, count, is_top=False)
        for name, inner_leaves in below.items()
    }
    is_empty = None if is_top else reduce(pc.and_, map(pc.is_null, fields.values()))
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=is_empty)
