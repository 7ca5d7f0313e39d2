"""Compare statistics with what footers and rows say: counts of rows and nulls, and rows beyond bounds.

Arrow finds files that may be at fault; each of these is read again exactly as in the log before it is reported. The
comparison follows engines that trust statistics: text by its bytes, floats as floats, NaN above all numbers, and one
millisecond added to the maximum of a truncated time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.encoding.value_text import date_text, moment_text
from deltacli.delta.footers.columns import comparable_type
from deltacli.delta.footers.parse import Footer
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.stats.collect import ColumnFacts
from deltacli.delta.stats.columns import (
    CUT_MICROSECONDS,
    EXACT_DIGITS,
    INFINITE,
    NOT_A_NUMBER,
    SPELLED_FLOATS,
    WRONG_TYPE,
    Leaf,
    StatsBlock,
    StatsColumns,
    as_float,
    as_single,
    dig,
    parse_stats,
    read_bound,
    read_json,
)
from deltacli.delta.stats.schema import BOUNDS, NULL_COUNT, ColumnPath, StatColumn, StatKind
from deltacli.rules.framework.base import Area, Finding, Level, Severity
from deltacli.rules.framework.data_file_views import AnswersView, FootersView, LiveAdds
from deltacli.rules.framework.views import rows_where
from deltacli.rules.statistics.evidence import ColumnEvidence, known_from_footers, known_from_rows
from deltacli.rules.widening import FLOAT_BOUNDS

FOOTER_AREA = Area("statistics", Level.FOOTERS, spec="Per-file Statistics")

_RECOMMIT = "commit the same add again with correct statistics, or without any, and dataChange=false"
NUM_RECORDS_MISMATCH = FOOTER_AREA.error(
    "stats.num-records-mismatch",
    "The number of records in the statistics of a file differs from its rows.",
    broken="row counts from statistics are wrong",
    repair=_RECOMMIT,
    example='"numRecords":10 in the statistics of a file of 12 rows',
)


@FOOTER_AREA.check(FootersView, NUM_RECORDS_MISMATCH)
def counts_of_rows(view: FootersView) -> Iterator[Finding]:
    """`numRecords` counts physical rows, including deleted ones. Another rule reports a negative one."""
    told = extract_num_records_column(view.adds.column("stats"))
    wrong = pc.and_(pc.not_equal(told, view.rows), pc.greater_equal(told, 0))
    for row in pc.indices_nonzero(wrong).to_pylist():
        seen, expected = told[row].as_py(), view.rows[row].as_py()
        place = view.place(row)
        message = f"the statistics of {place.key} record {plural(seen, 'record')}, but the file has {expected:,}"
        yield NUM_RECORDS_MISMATCH.at(place, message, seen=seen, expected=expected)


NULL_COUNT_MISMATCH = FOOTER_AREA.warning(
    "stats.null-count-mismatch",
    "The null count of a column in the statistics of a file differs from its rows.",
    broken="filters for nulls, or for other values, may skip the file and lose rows; value counts are wrong",
    repair=_RECOMMIT,
    example='"nullCount":{"id":0} in the statistics of a file in which id is null twice',
)
BOUNDS_NOT_COVERING = FOOTER_AREA.error(
    "stats.bounds-not-covering",
    "A column has values below the minimum, or above the maximum, in the statistics of its file.",
    spec="Per-file Statistics, footnote 1",
    broken="filters skip the file and silently lose rows",
    repair=_RECOMMIT,
    example='"maxValues":{"id":9} in the statistics of a file in which id is 12',
)
BOUNDS_NOT_TIGHT = FOOTER_AREA.info(
    "stats.bounds-not-tight",
    "The bounds of a column claim to be tight, but do not occur in any row.",
    broken="minima and maxima from statistics are wrong",
    repair=_RECOMMIT,
    example='"tightBounds":true and "maxValues":{"id":20} in the statistics of a file in which id is at most 12',
)


_LONGEST = 60
_SECONDS_A_DAY = 86_400


class BoundFault(StrEnum):
    """Why a row is beyond a bound."""

    BEYOND = "beyond"
    CUT = "the maximum was truncated without incrementing its last character"
    ROUNDED = "the bound was rounded to a double"
    WIDENED = "the bound is the text of a float, and the double is beyond it"
    NAN = "NaN is left out"


def bound_findings(
    place: Place, column: StatColumn, fault: BoundFault, claimed: Any, value: Any, *, is_high: bool
) -> Finding:  # Any: values in the form of `comparable_type`
    """Return the finding for a bound that does not cover every row."""
    end, side, sign = ("maximum", "above", ">") if is_high else ("minimum", "below", "<")
    bound, actual = describe_bound(column, claimed), describe_bound(column, value)
    name, file = column.name, place.key
    if fault is BoundFault.NAN:
        message = f"column {name} of {file} has NaN, but its maximum in the statistics is {bound}"
        effect = f"an engine that orders NaN above all numbers skips this file for {name} > {bound} and loses rows"
        return BOUNDS_NOT_COVERING.at(
            place, f"{message}: {effect}", seen=bound, expected="NaN", severity=Severity.WARNING
        )
    message = f"column {name} of {file} has {actual}, {side} the {end} {bound} of its statistics"
    effect = f"a filter for {name} {sign} {bound} skips this file and loses rows"
    expected = f"{actual} or {'more' if is_high else 'less'}"
    match fault:
        case BoundFault.WIDENED:
            message = f"{message}, which is the text of a float although the column is now a double"
            return FLOAT_BOUNDS.at(place, f"{message}: {effect}", seen=bound, expected=expected)
        case BoundFault.ROUNDED:
            message = f"{message}, which was rounded to a double"
            return BOUNDS_NOT_COVERING.at(
                place, f"{message}: {effect}", seen=bound, expected=expected, severity=Severity.WARNING
            )
        case BoundFault.CUT:
            message = f"{message}, which was truncated without incrementing its last character"
    return BOUNDS_NOT_COVERING.at(place, f"{message}: {effect}", seen=bound, expected=expected)


def loose_bound_findings(
    place: Place, column: StatColumn, which: tuple[bool, ...], claimed: tuple[Any, Any]
) -> Finding:  # Any: values in the form of `comparable_type`
    """Return the finding for bounds that claim to be tight but occur in no row. `which`: minimum and maximum."""
    ends = [
        f"{end} {describe_bound(column, bound)}"
        for end, bound, is_loose in zip(("minimum", "maximum"), claimed, which, strict=True)
        if is_loose
    ]
    what = " nor the ".join(ends)
    message = f"no row of {place.key} has the {what} of column {column.name}, but the bounds claim to be tight"
    effect = "an engine that answers MIN and MAX from statistics returns values that do not exist"
    seen = " to ".join(describe_bound(column, bound) for bound in claimed if bound is not None)
    return BOUNDS_NOT_TIGHT.at(place, f"{message}: {effect}", seen=seen, expected="bounds that occur in rows")


def null_findings(
    place: Place, column: StatColumn, seen: int, known: tuple[int | None, int | None], *, loses: bool
) -> Finding:
    """Return the finding for a wrong null count. `known`: least and most possible nulls; `loses`: filters lose rows."""
    true = _between(seen, *known)
    message = f"the statistics of {place.key} record {plural(seen, 'null')} in column {column.name}, which has {true}"
    if not loses:
        effect = f"an engine that counts {column.name} from statistics returns a wrong count"
        return NULL_COUNT_MISMATCH.at(place, f"{message}: {effect}", seen=seen, expected=true)
    condition = "IS NULL" if seen == 0 else "IS NOT NULL"
    effect = f"a filter for {column.name} {condition} skips this file and loses rows"
    return NULL_COUNT_MISMATCH.at(place, f"{message}: {effect}", seen=seen, expected=true, severity=Severity.ERROR)


def _between(seen: int, least: int | None, most: int | None) -> str:
    """Return what is known about a count that is not `seen`."""
    if least is not None and least == most:
        return f"{least:,}"
    return f"at least {least:,}" if least is not None and least > seen else f"at most {most or 0:,}"


def describe_bound(column: StatColumn, value: Any) -> str:
    """Return a value in the form of `comparable_type` as readable text."""
    match column.kind:
        case StatKind.TEXT:
            text = value.removesuffix(b"\xff").decode("utf-8", "replace")
            return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
        case StatKind.DATE:
            days, rest = divmod(value, _SECONDS_A_DAY)
            return date_text(days) if not rest else moment_text(value * 1_000_000)
        case StatKind.TIMESTAMP:
            return moment_text(value) + ("Z" if column.type_name == "timestamp" else "")
        case StatKind.BOOLEAN:
            return "true" if value else "false"
    return str(value)


# -- compare statistics with what footers and rows say -----------------------------------------------------------------

_LAST_CHARACTER = r"[\x00-\x7f\xc0-\xff][\x80-\xbf]*\z"
"In bytes of text: writers that truncate append one character of up to four bytes to the rest."

_SINGLE_SLACK = 2.0**-22
"""Two units in the last place of a float, relative to it."""
_DOUBLE_SLACK = Decimal(2) ** -52


class StatisticFault(NamedTuple):
    """Bounds or a null count of one file that its rows contradict: filters lose rows, or counts are wrong.

    Attributes:
        row: The position of the file among the live files that were compared.
        path: The physical path of the column.
        is_null_count: True for the null count, False for the bounds.
        finding: The finding of `validate`.
    """

    row: int
    path: ColumnPath
    is_null_count: bool
    finding: Finding


class Claim(NamedTuple):
    """What the statistics of a block record for one column, one row each. None: nothing recorded."""

    column: StatColumn
    path: ColumnPath
    low: ArrowArray
    high: Any
    nulls: Any


@dataclass(frozen=True)
class Comparison:
    """The statistics of some live files, and a source to compare with. `known` is asked for a column of a block."""

    live: LiveAdds
    stats: StatsColumns
    known: Callable[[StatColumn, ColumnPath, StatsBlock], ColumnEvidence | None]

    def findings(self) -> Iterator[Finding]:
        """Yield all findings, block by block."""
        for column in self._columns():
            yield from column.findings()

    def faults(self) -> Iterator[StatisticFault]:
        """Yield what rows contradict. Bounds that are wider than necessary are none: no filter loses rows by them."""
        for column in self._columns():
            yield from column.faults()

    def _columns(self) -> Iterator[_OneColumn]:
        for block in self.stats.blocks:
            for claim in _claims(block):
                known = self.known(claim.column, claim.path, block)
                if known is not None:
                    yield _OneColumn(self.live, block, claim, known)


def _claims(block: StatsBlock) -> Iterator[Claim]:
    claims: dict[ColumnPath, dict[str, Leaf]] = {}
    for part in (*BOUNDS, NULL_COUNT):
        for leaf in block.leaves[part]:
            if leaf.column is not None and not leaf.column.is_partition:
                claims.setdefault(leaf.path, {})[part] = leaf
    for path, parts in claims.items():
        column = next(iter(parts.values())).column
        assert column is not None
        low, high = (_bounds(column, parts.get(part), len(block.records)) for part in BOUNDS)
        yield Claim(column, path, low, high, _counts(parts.get(NULL_COUNT), len(block.records)))


def _bounds(column: StatColumn, leaf: Leaf | None, rows: int) -> Any:
    """Claimed bounds in comparable form. NaN and the infinities are the largest doubles here."""
    kind = comparable_type(column)
    if leaf is None or kind is None:
        return pa.nulls(rows, kind or pa.int64())
    if column.kind is StatKind.DATE:
        return pc.cast(pc.cast(leaf.values, pa.timestamp("s")), kind)
    return pc.cast(leaf.values, kind)


def _counts(leaf: Leaf | None, rows: int) -> Any:
    is_counted = leaf is not None and pa.types.is_integer(leaf.values.type)
    return pc.cast(leaf.values, pa.int64()) if leaf is not None and is_counted else pa.nulls(rows, pa.int64())


class _OneColumn:
    """One column of one block."""

    def __init__(self, live: LiveAdds, block: StatsBlock, claim: Claim, known: ColumnEvidence) -> None:
        self._live, self._block, self._claim, self._known = live, block, claim, known
        self._column = claim.column

    def findings(self) -> Iterator[Finding]:
        for fault in self._values_beyond_bounds():
            yield fault.finding
        if self._has_order:
            yield from self._loose(pc.or_(self._beyond_minimum, self._beyond_maximum))
        for fault in self._null_counts():
            yield fault.finding

    def faults(self) -> Iterator[StatisticFault]:
        yield from self._values_beyond_bounds()
        yield from self._null_counts()

    @property
    def _has_order(self) -> bool:
        return comparable_type(self._column) is not None

    @cached_property
    def _beyond_minimum(self) -> ArrowArray:
        return self._beyond(is_high=False)

    @cached_property
    def _beyond_maximum(self) -> ArrowArray:
        return self._beyond(is_high=True)

    def _values_beyond_bounds(self) -> Iterator[StatisticFault]:
        if not self._has_order:
            return
        for index in rows_where(self._beyond_minimum):
            yield from self._judged(index, is_high=False)
        for index in rows_where(self._beyond_maximum):
            yield from self._judged(index, is_high=True)

    def _fault(self, row: int, finding: Finding, *, is_null_count: bool = False) -> StatisticFault:
        return StatisticFault(row, self._claim.path, is_null_count, finding)

    # -- bounds that rows are beyond ----------------------------------------------------------------------------------

    def _beyond(self, *, is_high: bool) -> Any:
        """Report where a value may be below the minimum, or above the maximum."""
        known = self._known
        claimed, actual = (self._claim.high, known.high) if is_high else (self._claim.low, known.low)
        if is_high and self._column.kind is StatKind.TIMESTAMP:
            actual = pc.if_else(_may_be_cut(claimed), pc.subtract(actual, CUT_MICROSECONDS), actual)
        outside = _sure(pc.greater(actual, claimed) if is_high else pc.less(actual, claimed))
        if self._column.type_name == "float":
            differ = pc.not_equal(pc.cast(claimed, pa.float32()), pc.cast(actual, pa.float32()))
            outside = pc.and_(outside, _sure(differ))
        if self._column.kind is StatKind.FLOAT:
            # Here the largest doubles and the infinities are equal.
            at_the_end = pc.and_(
                pc.greater_equal(pc.abs(claimed), INFINITE), pc.greater_equal(pc.abs(actual), INFINITE)
            )
            outside = pc.or_(outside, _sure(at_the_end))
            if is_high:
                outside = pc.or_(outside, _sure(pc.and_(self._known.has_nan, pc.is_valid(claimed))))
        return outside

    def _judged(self, index: int, *, is_high: bool) -> Iterator[StatisticFault]:
        """Return the fault of a file, if the exact values in the log are still wrong."""
        row = self._block.row(index)
        low, high = self._as_written(row)
        claimed, actual = (high, self._known.high) if is_high else (low, self._known.low)
        if claimed is None or _is_disordered(self._column, low, high):
            return  # `stats.min-greater-max` reports it
        value = actual[index].as_py()
        fault = judge(self._column, claimed, value, is_high=is_high, is_single=self._known.is_single[index].as_py())
        if fault is None and is_high and self._known.has_nan[index].as_py() and not math.isnan(claimed):
            fault = BoundFault.NAN
        if fault is not None:
            place = self._live.place(row)
            yield self._fault(row, bound_findings(place, self._column, fault, claimed, value, is_high=is_high))

    def _as_written(self, row: int) -> tuple[Any, Any]:
        """Return both bounds exactly."""
        value = read_json(self._live.adds.column("stats")[row].as_py())
        low, high = (exact_bound(self._column, dig(value.get(part), self._claim.path)) for part in BOUNDS)
        return low, high

    # -- bounds that no row has ---------------------------------------------------------------------------------------

    def _loose(self, beyond: Any) -> Iterator[Finding]:
        """Report bounds that claim to occur in a row but certainly do not."""
        claim, known = self._claim, self._known
        claims = pc.and_(self._claims_exactness(), pc.invert(beyond))
        is_empty = _sure(pc.equal(known.nulls_most, known.file_rows))

        def loose(claimed: Any, apart: Any, misses: Any) -> Any:
            surely = pc.or_(pc.or_(_sure(apart), misses), is_empty)
            return pc.and_(pc.and_(claims, pc.is_valid(claimed)), surely)

        low = loose(claim.low, self._is_loose(claim.low, known.floor), known.misses_low)
        high = loose(claim.high, self._is_loose(claim.high, known.ceiling, is_high=True), known.misses_high)
        for index in rows_where(pc.or_(low, high)):
            row = self._block.row(index)
            written = self._as_written(row)
            given = zip((low, high), written, strict=True)
            which = tuple(mask[index].as_py() and bound is not None for mask, bound in given)
            if any(which) and not _is_disordered(self._column, *written):
                yield loose_bound_findings(self._live.place(row), self._column, which, written)

    def _is_loose(self, claimed: Any, limit: Any, *, is_high: bool = False) -> Any:
        """Return where all values are inside a bound by more than writers truncate and round."""
        inner, outer = (claimed, limit) if is_high else (limit, claimed)
        apart = pc.greater(inner, outer)
        match self._column.kind:
            case StatKind.TEXT:
                cut = pc.replace_substring_regex(claimed, _LAST_CHARACTER, "") if is_high else claimed
                return pc.and_(apart, pc.invert(_starts_with(limit, cut)))
            case StatKind.TIMESTAMP:
                return pc.and_(apart, pc.greater(pc.subtract(inner, outer), CUT_MICROSECONDS))
            case StatKind.FLOAT:
                slack = pc.multiply(pc.abs(claimed), _SINGLE_SLACK)
                is_finite = pc.less(pc.abs(claimed), INFINITE)
                return pc.and_(is_finite, pc.greater(pc.subtract(inner, outer), slack))
            case StatKind.DECIMAL:
                limit_of_doubles = pa.scalar(Decimal(10) ** (EXACT_DIGITS - claimed.type.scale), claimed.type)
                return pc.and_(apart, pc.less(pc.abs(claimed), limit_of_doubles))
        return apart

    def _claims_exactness(self) -> Any:
        has_vector = self._block.align(pc.is_valid(self._live.adds.column("deletionVector")))
        return pc.and_(pc.coalesce(self._block.is_tight, True), pc.invert(has_vector))

    # -- nulls --------------------------------------------------------------------------------------------------------

    def _null_counts(self) -> Iterator[StatisticFault]:
        """Report null counts that lose rows, and those that merely differ."""
        nulls, known, records = self._claim.nulls, self._known, self._block.records
        possible = pc.and_(pc.greater_equal(nulls, 0), pc.coalesce(pc.less_equal(nulls, records), True))
        none = _sure(pc.and_(pc.equal(nulls, 0), pc.greater(known.nulls_least, 0)))
        is_all = pc.and_(pc.equal(nulls, records), pc.equal(records, known.file_rows))
        every = _sure(pc.and_(is_all, pc.greater(known.values_least, 0)))
        outside = pc.or_kleene(pc.less(nulls, known.nulls_least), pc.greater(nulls, known.nulls_most))
        other = _sure(pc.and_(self._claims_exactness(), outside))
        for index in rows_where(_sure(pc.and_(possible, pc.or_(none, pc.or_(every, other))))):
            seen = nulls[index].as_py()
            least, most = (part[index].as_py() for part in (known.nulls_least, known.nulls_most))
            loses = none[index].as_py() or every[index].as_py()
            row = self._block.row(index)
            finding = null_findings(self._live.place(row), self._column, seen, (least, most), loses=loses)
            yield self._fault(row, finding, is_null_count=True)


# -- one value --------------------------------------------------------------------------------------------------------


def exact_bound(column: StatColumn, given: Any) -> Any:  # Any: a JSON value in, a value that compares out
    """Return a bound exactly as in the log, in the form of `comparable_type`, or None if it is invalid."""
    if given is None:
        return None
    if column.kind is StatKind.FLOAT:
        return _exact_float(column, given)
    bound = read_bound(column, given)
    if bound is WRONG_TYPE or bound is None or comparable_type(column) is None:
        return None
    return bound.encode() if column.kind is StatKind.TEXT else bound


def _exact_float(column: StatColumn, given: Any) -> float | None:
    if isinstance(given, str):
        return float(given) if given in SPELLED_FLOATS else None
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        return None
    return as_single(as_float(given)) if column.type_name == "float" else as_float(given)


def judge(column: StatColumn, claimed: Any, value: Any, *, is_high: bool, is_single: bool) -> BoundFault | None:
    """Return the fault of a bound, given an occurring value (None: unknown, or only NaN)."""
    if value is None:
        return None
    if column.kind is StatKind.FLOAT:
        return _judge_float(claimed, value, is_high=is_high, is_single=is_single)
    slack = CUT_MICROSECONDS if is_high and column.kind is StatKind.TIMESTAMP and claimed % 1_000 == 0 else 0
    if not (value > claimed + slack if slack else value > claimed if is_high else value < claimed):
        return None
    if column.kind is StatKind.DECIMAL and _is_rounded(claimed, value):
        return BoundFault.ROUNDED
    if column.kind is StatKind.TEXT and is_high and value.startswith(claimed):
        return BoundFault.CUT
    return BoundFault.BEYOND


def _judge_float(claimed: float, value: float, *, is_high: bool, is_single: bool) -> BoundFault | None:
    if not _is_beyond(claimed, value, is_high=is_high):
        return None
    if is_single and not _is_beyond(as_single(claimed), value, is_high=is_high):
        return BoundFault.WIDENED
    return BoundFault.BEYOND


def _is_beyond(claimed: float, value: float, *, is_high: bool) -> bool:
    """NaN is above every number. Values here are numbers."""
    if math.isnan(claimed):
        return not is_high
    return value > claimed if is_high else value < claimed


def _is_rounded(claimed: Decimal, value: Decimal) -> bool:
    """Return True if a decimal equals the other after rounding to a double."""
    digits = len(value.as_tuple().digits)
    return digits > EXACT_DIGITS and abs(value - claimed) <= abs(value) * _DOUBLE_SLACK


def _is_disordered(column: StatColumn, low: Any, high: Any) -> bool:
    """Return True for a minimum above the maximum by more than times are truncated, which another rule reports."""
    if low is None or high is None:
        return False
    if column.kind is StatKind.FLOAT:
        return all(rank(low) > rank(high) for rank in (_as_read, _as_ranked))
    slack = CUT_MICROSECONDS if column.kind is StatKind.TIMESTAMP and high % 1_000 == 0 else 0
    return bool(low > high + slack if slack else low > high)


def _as_read(number: float) -> float:
    """Return a float as in `parse_stats`. NaN and the infinities are the largest doubles, which may also occur."""
    if math.isnan(number):
        return NOT_A_NUMBER
    return math.copysign(INFINITE, number) if math.isinf(number) else number


def _as_ranked(number: float) -> float:
    """Return a float as read again: NaN is greatest, then values beyond all numbers."""
    return NOT_A_NUMBER if math.isnan(number) else min(max(number, -INFINITE), INFINITE)


# -- masks ------------------------------------------------------------------------------------------------------------


def _starts_with(texts: Any, starts: Any) -> Any:
    """Element by element."""
    length = pc.binary_length(starts)
    has_room = pc.greater_equal(pc.binary_length(texts), length)
    after = pc.binary_join_element_wise(starts, b"\xff", b"")
    # Between a prefix and the end of all texts with that prefix, by bytes.
    return pc.and_(has_room, pc.and_(pc.greater_equal(texts, starts), pc.less(texts, after)))


def _may_be_cut(times: ArrowArray) -> ArrowArray:
    """Return which times have no digits below milliseconds, as after truncation by a writer."""
    return pc.equal(pc.multiply(pc.divide(times, 1_000), 1_000), times)


def _sure(mask: ArrowArray) -> ArrowArray:
    return pc.fill_null(mask, pa.scalar(False))


AREA = Area("statistics")


STATISTICS = "statistics"
"""The name of the question about rows."""
_RULES = (NULL_COUNT_MISMATCH, BOUNDS_NOT_COVERING, BOUNDS_NOT_TIGHT, FLOAT_BOUNDS)


@AREA.check(FootersView, *_RULES)
def statistics_against_footers(view: FootersView) -> Iterator[Finding]:
    """If rows are read as well, they are used instead."""
    if not view.rows_follow:
        yield from compare_with_footers(view).findings()


@AREA.check(AnswersView, *_RULES)
def statistics_against_rows(view: AnswersView) -> Iterator[Finding]:
    """Files whose rows could not be read to the end are judged by their footers."""
    answers: list[Mapping[ColumnPath, ColumnFacts]] = [answer.get(STATISTICS) or {} for answer in view.answers]
    file_rows = [None if footer is None else footer.rows for footer in view.footers]
    yield from compare_with_rows(view.live, view.config, answers, file_rows).findings()
    yield from _of_unread(view)


def _of_unread(view: AnswersView) -> Iterator[Finding]:
    by_schema: dict[bytes, dict[int, Footer]] = {}
    for row, (footer, answer) in enumerate(zip(view.footers, view.answers, strict=True)):
        if footer is not None and not answer and footer.schema in view.schemas:
            by_schema.setdefault(footer.schema, {})[row] = footer
    for key, footers in by_schema.items():
        live = view.live.take(list(footers))
        footers_view = FootersView(live, list(footers.values()), view.schemas[key], view.config)
        yield from compare_with_footers(footers_view).findings()


def compare_with_rows(
    live: LiveAdds,
    config: TableConfiguration,
    answers: Sequence[Mapping[ColumnPath, ColumnFacts]],
    file_rows: Sequence[int | None],
) -> Comparison:
    """Return the comparison of statistics with the rows of their files.

    Args:
        live: The files, with their statistics and deletion vectors.
        config: The configuration of the table.
        answers: For each file what its live rows show about the columns that have statistics.
        file_rows: For each file the number of its rows, deleted ones included; None where it is unknown.
    """

    def known(column: StatColumn, path: ColumnPath, block: StatsBlock) -> ColumnEvidence | None:
        rows = range(len(answers)) if block.rows is None else [block.row(index) for index in range(len(block.records))]
        facts = [answers[row].get(path) for row in rows]
        if not any(facts):
            return None
        return known_from_rows(column, facts, [file_rows[row] for row in rows])

    return Comparison(live, parse_stats(live.adds.column("stats"), config), known)


def compare_with_footers(view: FootersView) -> Comparison:
    """Return the comparison of statistics with the footers of their files."""
    evidence: dict[ColumnPath, ColumnEvidence | None] = {}

    def known(column: StatColumn, path: ColumnPath, block: StatsBlock) -> ColumnEvidence | None:
        if path not in evidence:
            evidence[path] = known_from_footers(view, column, path)
        of_view = evidence[path]
        return None if of_view is None else of_view.align(block.rows)

    return Comparison(view.live, parse_stats(view.adds.column("stats"), view.config), known)
