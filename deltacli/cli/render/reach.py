"""Which versions of a table can be read, by what, and until when, as a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from deltacli.changing.file_totals import FileTotals
from deltacli.cli.output.grids import WriteItems
from deltacli.cli.output.results import Document, SingleResult
from deltacli.cli.output.sections import Section, format_file_totals
from deltacli.core import units
from deltacli.core.ranges import format_ranges, format_spans
from deltacli.core.times import DAY_MS, format_duration, format_moment
from deltacli.operations.reach import Cleanup, Part, Reached, ReachRange, TableReach

COLUMNS = (
    *("first", "last", "readable", "log", "dataFiles", "vectors", "changeData"),
    *("readableUntilMs", "readableUntil", "readableUntilBy", "sparkAllows", "why"),
)


def reach_result(found: TableReach) -> SingleResult:
    """Return the reach of a table as a result; its rows are the ranges."""
    content = found.as_json()
    kind = SingleResult if found.is_complete else _Incomplete
    return kind("reach", found.table.uri, content, lambda: list(_sections(found)), content["ranges"], COLUMNS)


class _Incomplete(SingleResult):
    """The reach of a log that has gaps or damaged files, or of files that could not be looked for."""

    def document(self) -> Document:
        return Document({**super().document().fields, "complete": False})

    def lines(self, write_items: WriteItems) -> bool:
        super().lines(write_items)
        return False


def _sections(found: TableReach) -> Iterator[Section]:
    yield Section("table", [found.table.uri])
    yield Section("now", [f"{format_moment(found.now_ms)} UTC"])
    readable = found.readable
    count = f"{units.format_count(len(readable))} of {units.plural(found.newest_version + 1, 'version')}"
    yield Section("readable", [count if not readable else f"{count}, from version {readable[0]}"])
    for _, group in groupby(found.ranges, lambda one: (_day(one.reached, found.now_ms), _other_facts(one.reached))):
        ranges = list(group)
        first, last = ranges[0].first, ranges[-1].last
        name = f"version{'' if first == last else 's'} {format_spans([(first, last)])}"
        yield Section(name, [_describe(ranges, found.now_ms)])
    if not found.is_complete:
        yield Section("incomplete", [_incomplete(found)])
    if found.next is not None:
        yield Section("next cleanup", list(_cleanup(found.next)))
    if found.retention is not None:
        name = format_duration(found.retention.log_retention_ms)
        yield Section(f"with {name}", list(_cleanup(found.retention)))


def _day(one: Reached, now_ms: int) -> int | None:
    """Return the day until which a version can be read; 0 for a past one, and None without a known end."""
    if one.until_ms is None:
        return None
    return 0 if one.until_ms <= now_ms else one.until_ms // DAY_MS


def _other_facts(one: Reached) -> str:
    """Return what limits a version: who ends it, why it cannot be read, and what of it is gone; no times."""
    is_known = one.log is not Part.THERE or Part.MISSING in (one.data_files, one.vectors)
    facts = [one.until_by or "" if one.is_readable else f"not {'readable' if is_known else 'known'}: {_reason(one)}"]
    if one.is_readable and one.change_data is not Part.THERE:
        facts.append(f"change data {one.change_data}")
    if one.is_readable and one.spark_allows is False:
        facts.append("too old for Spark")
    return "; ".join(facts)


def _describe(ranges: Sequence[ReachRange], now_ms: int) -> str:
    """Return the text of neighbouring ranges whose facts differ at most in the time of the day."""
    one = ranges[0].reached
    facts = _other_facts(one)
    if not one.is_readable:
        return facts
    by, *others = facts.split("; ")
    times = [each.reached.until_ms for each in ranges if each.reached.until_ms is not None]
    return "; ".join([_readable(times, by, now_ms), *others])


def _incomplete(found: TableReach) -> str:
    logs = {one.reached.log for one in found.ranges}
    if Part.UNKNOWN in logs and Part.MISSING not in logs:
        return "the files of versions that need another reader were not looked for"
    if found.outside:
        return (
            f"{units.plural(len(found.outside), 'file')} outside of the table, first {found.outside[0]}, not looked for"
        )
    return "the log has gaps or damage, or files could not be looked for"


def _readable(times: Sequence[int], by: str, now_ms: int) -> str:
    """Return until when versions can be read.

    Args:
        times: When each of them ends, in milliseconds: all on one day, or all past. Empty if no end is known.
        by: What ends them, such as `log expire`.
        now_ms: The current time.
    """
    if not times:
        return "readable"
    if max(times) <= now_ms:
        return f"readable until the next {by}"
    first, last = format_moment(min(times)), format_moment(max(times))
    span = first if first == last else f"{first} to {last.rpartition(' ')[2]}"
    return f"readable until {span} UTC ({by})"


def _reason(one: Reached) -> str:
    if one.why is not None:
        return one.why
    parts = (("data files", one.data_files), ("deletion vectors", one.vectors))
    named = [f"{name} {part}" for name, part in parts if part is not Part.THERE]
    return ", ".join(named) or f"log {one.log}"


def _cleanup(found: Cleanup) -> Iterator[str]:
    yield f"log expire: {_amount(found.log, found.log_retention_ms)}"
    yield f"vacuum: {_amount(found.files, found.file_retention_ms)}"
    if found.lost:
        yield f"then no longer readable: {format_ranges(found.lost)}"
    yield from found.notes


def _amount(amount: FileTotals | None, retention_ms: int) -> str:
    kept = f"(keeps {format_duration(retention_ms)})"
    if amount is None:
        return f"unknown {kept}"
    if not amount.files:
        return f"nothing {kept}"
    return f"{format_file_totals(amount.files, amount.size_bytes)} {kept}"
