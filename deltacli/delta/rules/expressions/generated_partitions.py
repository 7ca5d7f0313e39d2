"""The rule about generated partition columns: values against the bounds of the column they are made from.

Only the expressions that most tables use are known: the date or the year of one column. Spec: Generated Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, parse_date, parse_moment
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.features import GENERATED_COLUMNS
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.view_stats import stats_of
from deltacli.delta.rules.framework.views import FilesView
from deltacli.delta.schema.types import PrimitiveType
from deltacli.delta.sql.nodes import Form, Node
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import GENERATION_KEY
from deltacli.delta.stats.columns import StatsBlock

AREA = Area("expressions")

PARTITION = AREA.info(
    "generated.partition",
    "The value of a generated partition column cannot come from the rows of the file.",
    spec="Generated Columns",
    broken="queries that filter by the source column skip the file, and miss its rows",
    repair="write the rows of the file anew with an engine that computes the column",
    example='"partitionValues":{"day":"2024-01-01"}, and the least value of ts is 2025-03-01T00:00:00.000Z',
)

_WIDEST_ZONE = 18 * 3_600_000_000
"""How far from UTC the writer's zone may have been, in microseconds: it decides the date of a timestamp."""
_TRUNCATED = 999
"""Greatest values are cut to milliseconds: the real one may be that many microseconds higher."""


class _Span(NamedTuple):
    """The times that a partition value stands for, from the first to the last, in microseconds since the epoch."""

    first: int
    last: int


class _Source(NamedTuple):
    """What a partition column is made from. `column` is the physical name of a top-level column."""

    column: str
    span_of: Callable[[str], _Span | None]
    slack: int


@AREA.check(FilesView, PARTITION)
def partition_values_fit_bounds(view: FilesView) -> Iterator[Finding]:
    """For each generated partition column: the values as spans of time, against least and greatest values."""
    if view.config.is_inert(GENERATED_COLUMNS):
        return
    for name, column in view.config.partition_columns.items():
        text = column.metadata.get(GENERATION_KEY) if column is not None else None
        source = _source_of(view.config, text) if isinstance(text, str) else None
        if source is not None:
            for block in stats_of(view).blocks:
                yield from _findings(view, block, name, source)


def _findings(view: FilesView, block: StatsBlock, name: str, source: _Source) -> Iterator[Finding]:
    import pyarrow as pa

    low, high = (_moments(block, part, source.column) for part in ("minValues", "maxValues"))
    if low is None or high is None:
        return
    values = block.align(pc.map_lookup(view.adds.column("partitionValues"), pa.scalar(name), "first"))
    if values.null_count == len(values):
        return
    spans = {text: source.span_of(text) for text in pc.unique(values).to_pylist() if text}
    known = {text: span for text, span in spans.items() if span is not None}
    place_of = pc.index_in(values, value_set=pa.array(list(known), pa.string()))
    first = pc.take(pa.array([span.first - source.slack - _TRUNCATED for span in known.values()], pa.int64()), place_of)
    last = pc.take(pa.array([span.last + source.slack for span in known.values()], pa.int64()), place_of)
    outside = pc.fill_null(pc.or_(pc.less(high, first), pc.greater(low, last)), pa.scalar(False))
    for row in pc.indices_nonzero(outside).to_pylist():
        value = values[row].as_py()
        place = view.place(block.row(row))
        message = f"{place.key} has the value {value} for {name}, which no value of {source.column} in it gives"
        yield PARTITION.at(place, message, seen=value)


def _moments(block: StatsBlock, part: str, column: str) -> Any:  # Any: an int64 array, None where there is no such one
    import pyarrow as pa

    for leaf in block.leaves.get(part, ()):
        if leaf.path == (column,) and pa.types.is_timestamp(leaf.values.type):
            return pc.cast(pc.cast(leaf.values, pa.timestamp("us")), pa.int64())
    return None


# -- expressions that are known --------------------------------------------------------------------------------------


def _source_of(config: TableConfiguration, text: str) -> _Source | None:
    root = parse_expression(text).root
    made = _shape_of(root) if root is not None else None
    if made is None or made[0].form is not Form.COLUMN or len(made[0].path) != 1:
        return None
    for name, column in config.columns.items():
        if column.name.lower() == made[0].path[0].lower() and isinstance(column.data_type, PrimitiveType):
            slack = _SLACK.get(column.data_type.name)
            return None if slack is None else _Source(name, made[1], slack)
    return None


_SLACK: Mapping[str, int] = {"date": 0, "timestamp_ntz": 0, "timestamp": _WIDEST_ZONE}


def _shape_of(node: Node) -> tuple[Node, Callable[[str], _Span | None]] | None:
    """The column under a known expression, and what its values stand for."""
    match node:
        case Node(Form.CAST, "date", _, (inner,)) | Node(Form.CALL, "date" | "to_date", _, (inner,)):
            return inner, _day
        case Node(Form.CALL, "year", _, (inner,)):
            return inner, _year
    return None


def _day(text: str) -> _Span | None:
    moment = parse_moment(text)
    if moment is None:
        return None
    start = moment.microseconds // MICROSECONDS_A_DAY * MICROSECONDS_A_DAY
    return _fitting(start, start + MICROSECONDS_A_DAY - 1)


def _year(text: str) -> _Span | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 4 or int(text) == 0:
        return None
    start, end = parse_date(f"{int(text):04d}-01-01"), parse_date(f"{int(text) + 1:04d}-01-01")
    if start is None or end is None:
        return None
    return _fitting(start * MICROSECONDS_A_DAY, end * MICROSECONDS_A_DAY - 1)


def _fitting(first: int, last: int) -> _Span | None:
    """A span of times that 64 bits hold, with room to spare."""
    return _Span(first, last) if abs(first) < 2**62 and abs(last) < 2**62 else None
