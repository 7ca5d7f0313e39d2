"""The result of `reach`: which versions of a table can be read, and until when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from deltacli.changing.file_totals import FileTotals
from deltacli.cli.output.columns import make_item_columns
from deltacli.cli.output.grids import WriteItems
from deltacli.cli.output.results import Document, SingleResult
from deltacli.cli.output.sections import Section, format_file_totals
from deltacli.core.ranges import format_ranges, format_spans
from deltacli.core.times import DAY_MS, format_duration, format_moment
from deltacli.core.units import format_count, plural
from deltacli.operations.reach import Cleanup, Part, Reached, ReachRange, TableReach

_COLUMNS = make_item_columns(
    (
        "first",
        "last",
        "readable",
        "log",
        "dataFiles",
        "vectors",
        "changeData",
        "readableUntilMs",
        "readableUntil",
        "readableUntilBy",
        "sparkAllows",
        "why",
    )
)
"""The columns of a range of versions. Each one is a field of the JSON document."""


def reach_result(reach: TableReach) -> SingleResult:
    """Return the versions that can be read as the result of the command. CSV has a row per range of versions."""
    content = reach.as_json()
    result_class = SingleResult if reach.is_complete else _IncompleteResult
    return result_class(
        "reach", reach.table.uri, content, lambda: list(_make_sections(reach)), content["ranges"], _COLUMNS
    )


class _IncompleteResult(SingleResult):
    """The result for a log with gaps or damaged files, or for files that could not be examined."""

    def document(self) -> Document:
        """Return the document, with `complete` false."""
        return Document({**super().document().fields, "complete": False})

    def lines(self, write_items: WriteItems) -> bool:
        """Write the content as one line, and report that it is incomplete."""
        super().lines(write_items)
        return False


def _make_sections(reach: TableReach) -> Iterator[Section]:
    """Yield the result as labelled lines: a line per group of ranges, then the effects of cleanups."""
    yield Section("table", [reach.table.uri])
    yield Section("now", [f"{format_moment(reach.now_ms)} UTC"])
    yield Section("readable", [_count_readable_versions(reach)])

    # Each commit has a time of its own, so ranges are as short as a version. Ranges that end on the same day are shown
    # as one.
    for _, group in groupby(reach.ranges, lambda each: _make_group_key(each.reached, reach.now_ms)):
        ranges = list(group)
        yield Section(_format_versions(ranges), [_describe_ranges(ranges, reach.now_ms)])

    if not reach.is_complete:
        yield Section("incomplete", [_explain_incompleteness(reach)])
    if reach.next is not None:
        yield Section("next cleanup", list(_describe_cleanup(reach.next)))
    if reach.retention is not None:
        retention = format_duration(reach.retention.log_retention_ms)
        yield Section(f"with {retention}", list(_describe_cleanup(reach.retention)))


def _count_readable_versions(reach: TableReach) -> str:
    """Return the number of readable versions, such as `5 of 12 versions, from version 7`."""
    readable = reach.readable
    count = f"{format_count(len(readable))} of {plural(reach.newest_version + 1, 'version')}"
    return f"{count}, from version {readable[0]}" if readable else count


def _make_group_key(reached: Reached, now_ms: int) -> tuple[int | None, Sequence[str]]:
    """Return the day until which a version can be read, and the other facts that are shown.

    The day is None if no end is known, and 0 if the end is in the past.
    """
    if reached.is_readable:
        facts = [reached.until_by or "", *_list_restrictions(reached)]
    else:
        facts = [_explain_unreadability(reached)]
    if reached.until_ms is None:
        return None, facts
    end_day = 0 if reached.until_ms <= now_ms else reached.until_ms // DAY_MS
    return end_day, facts


def _format_versions(ranges: Sequence[ReachRange]) -> str:
    """Return `version 3`, or `versions 3-5`."""
    first = ranges[0].first
    last = ranges[-1].last
    noun = "version" if first == last else "versions"
    return f"{noun} {format_spans([(first, last)])}"


def _describe_ranges(ranges: Sequence[ReachRange], now_ms: int) -> str:
    """Describe ranges that have the same group key."""
    reached = ranges[0].reached
    if not reached.is_readable:
        return _explain_unreadability(reached)
    end_times = [each.reached.until_ms for each in ranges if each.reached.until_ms is not None]
    return "; ".join([_describe_end(end_times, reached.until_by or "", now_ms), *_list_restrictions(reached)])


def _explain_unreadability(reached: Reached) -> str:
    """Return why a version cannot be read, such as `not readable: data files missing`."""
    is_certain = reached.log is not Part.THERE or Part.MISSING in (reached.data_files, reached.vectors)
    verdict = "not readable" if is_certain else "not known"
    if reached.why is not None:
        return f"{verdict}: {reached.why}"

    absent_files: list[str] = []
    if reached.data_files is not Part.THERE:
        absent_files.append(f"data files {reached.data_files}")
    if reached.vectors is not Part.THERE:
        absent_files.append(f"deletion vectors {reached.vectors}")
    reason = ", ".join(absent_files) or f"log {reached.log}"
    return f"{verdict}: {reason}"


def _list_restrictions(reached: Reached) -> list[str]:
    """Return what is restricted although the version can be read: its change data feed, or Spark's time travel."""
    restrictions: list[str] = []
    if reached.change_data is not Part.THERE:
        restrictions.append(f"change data {reached.change_data}")
    if reached.spark_allows is False:
        restrictions.append("too old for Spark")
    return restrictions


def _describe_end(end_times_ms: Sequence[int], deleted_by: str, now_ms: int) -> str:
    """Return until when versions can be read, such as `readable until 2026-01-08 00:00 UTC (log expire)`.

    Args:
        end_times_ms: The times until which the ranges can be read: all on one day, or all past. Empty if no end is
            known.
        deleted_by: The operation that may then delete files of these versions, such as `log expire`.
        now_ms: The current time.
    """
    if not end_times_ms:
        return "readable"
    if max(end_times_ms) <= now_ms:
        return f"readable until the next {deleted_by}"

    first = format_moment(min(end_times_ms))
    last = format_moment(max(end_times_ms))
    if first == last:
        return f"readable until {first} UTC ({deleted_by})"
    # Both are on the same day, which is shown once.
    _, _, last_time_of_day = last.rpartition(" ")
    return f"readable until {first} to {last_time_of_day} UTC ({deleted_by})"


def _explain_incompleteness(reach: TableReach) -> str:
    """Return why the result does not cover all versions or files."""
    log_states = {each.reached.log for each in reach.ranges}
    if Part.UNKNOWN in log_states and Part.MISSING not in log_states:
        return "the files of versions that need another reader were not looked for"
    if reach.outside:
        files = plural(len(reach.outside), "file")
        return f"{files} outside of the table, first {reach.outside[0]}, not looked for"
    return "the log has gaps or damage, or files could not be looked for"


def _describe_cleanup(cleanup: Cleanup) -> Iterator[str]:
    """Yield what `log expire` and `vacuum` would delete now, and which versions would become unreadable."""
    yield f"log expire: {_describe_deletion(cleanup.log, cleanup.log_retention_ms)}"
    yield f"vacuum: {_describe_deletion(cleanup.files, cleanup.file_retention_ms)}"
    if cleanup.lost:
        yield f"then no longer readable: {format_ranges(cleanup.lost)}"
    yield from cleanup.notes


def _describe_deletion(totals: FileTotals | None, retention_ms: int) -> str:
    """Return the files that would be deleted, such as `2 files, 3.2 MiB (keeps 7 days)`."""
    retention = f"(keeps {format_duration(retention_ms)})"
    if totals is None:
        return f"unknown {retention}"
    if not totals.files:
        return f"nothing {retention}"
    return f"{format_file_totals(totals.files, totals.size_bytes)} {retention}"
