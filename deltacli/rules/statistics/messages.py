"""Statistics against footers and rows: numbers of rows, and the messages for wrong statistics of columns, with the file
and column, both values, and the effect on engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from deltacli.arrow import compute as pc
from deltacli.core.units import plural
from deltacli.delta.encoding.value_text import date_text, moment_text
from deltacli.delta.log.log_path import Place
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.stats.schema import StatColumn, StatKind
from deltacli.rules.framework.base import Area, Finding, Level, Severity
from deltacli.rules.framework.data_file_views import FootersView
from deltacli.rules.widening.entries import FLOAT_BOUNDS

AREA = Area("statistics", Level.FOOTERS, spec="Per-file Statistics")

_RECOMMIT = "commit the same add again with correct statistics, or without any, and dataChange=false"
NUM_RECORDS_MISMATCH = AREA.error(
    "stats.num-records-mismatch",
    "The number of records in the statistics of a file differs from its rows.",
    broken="row counts from statistics are wrong",
    repair=_RECOMMIT,
    example='"numRecords":10 in the statistics of a file of 12 rows',
)


@AREA.check(FootersView, NUM_RECORDS_MISMATCH)
def counts_of_rows(view: FootersView) -> Iterator[Finding]:
    """`numRecords` counts physical rows, including deleted ones. Another rule reports a negative one."""
    told = num_records_column(view.adds.column("stats"))
    wrong = pc.and_(pc.not_equal(told, view.rows), pc.greater_equal(told, 0))
    for row in pc.indices_nonzero(wrong).to_pylist():
        seen, expected = told[row].as_py(), view.rows[row].as_py()
        place = view.place(row)
        message = f"the statistics of {place.key} record {plural(seen, 'record')}, but the file has {expected:,}"
        yield NUM_RECORDS_MISMATCH.at(place, message, seen=seen, expected=expected)


NULL_COUNT_MISMATCH = AREA.warning(
    "stats.null-count-mismatch",
    "The null count of a column in the statistics of a file differs from its rows.",
    broken="filters for nulls, or for other values, may skip the file and lose rows; value counts are wrong",
    repair=_RECOMMIT,
    example='"nullCount":{"id":0} in the statistics of a file in which id is null twice',
)
BOUNDS_NOT_COVERING = AREA.error(
    "stats.bounds-not-covering",
    "A column has values below the minimum, or above the maximum, in the statistics of its file.",
    spec="Per-file Statistics, footnote 1",
    broken="filters skip the file and silently lose rows",
    repair=_RECOMMIT,
    example='"maxValues":{"id":9} in the statistics of a file in which id is 12',
)
BOUNDS_NOT_TIGHT = AREA.info(
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
    bound, actual = shown(column, claimed), shown(column, value)
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
    """Return the finding for bounds that claim to be tight but occur in no row. `which`: of the minimum and the
    maximum.
    """
    ends = [
        f"{end} {shown(column, bound)}"
        for end, bound, is_loose in zip(("minimum", "maximum"), claimed, which, strict=True)
        if is_loose
    ]
    what = " nor the ".join(ends)
    message = f"no row of {place.key} has the {what} of column {column.name}, but the bounds claim to be tight"
    effect = "an engine that answers MIN and MAX from statistics returns values that do not exist"
    seen = " to ".join(shown(column, bound) for bound in claimed if bound is not None)
    return BOUNDS_NOT_TIGHT.at(place, f"{message}: {effect}", seen=seen, expected="bounds that occur in rows")


def null_findings(
    place: Place, column: StatColumn, seen: int, known: tuple[int | None, int | None], *, loses: bool
) -> Finding:
    """Return the finding for a wrong null count. `known`: the least and the most possible nulls; `loses`: filters lose
    rows.
    """
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


def shown(column: StatColumn, value: Any) -> str:
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
