"""Change data feeds, and queries of the files since a version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from deltacli.rules.framework.base import Area, Level
from deltacli.sharing.conformance.lines import FileLine, Lines
from deltacli.sharing.conformance.rules.queries import check_feed_pages
from deltacli.sharing.conformance.rules.shared_table import HEADERS, SharedTableTest
from deltacli.sharing.conformance.rules.versions import NO_HISTORY, iso

CHANGES_AREA = Area("Changes", Level.API)

START = CHANGES_AREA.error(
    "share.changes-start",
    "A change feed without a start is answered with 400.",
    spec="Read Change Data Feed from a Table (the start parameter must be provided)",
    broken="clients read another range than they think",
    repair="answer 400",
    example="200 for …/changes without parameters",
)
REVERSED = CHANGES_AREA.error(
    "share.changes-reversed",
    "A range whose end is before its start is answered with 400.",
    spec="Read Change Data Feed from a Table (startingVersion, endingVersion; 400: the request is malformed)",
    broken="clients take an empty feed for no changes",
    repair="answer 400",
    example="200 for startingVersion=2&endingVersion=1",
)
RANGE = CHANGES_AREA.error(
    "share.changes-range",
    "Changes have versions between the start and the end, both included.",
    spec="Read Change Data Feed from a Table (the parameter range is inclusive in the query)",
    broken="clients apply changes twice, or changes of versions that they did not ask for",
    repair="return the changes of the range only",
    example="a file of version 4 for endingVersion=3",
)
FIELDS = CHANGES_AREA.error(
    "share.changes-fields",
    "Every changed file has its version and the timestamp of its commit.",
    spec="Add File; CDF File; Remove File (version, timestamp: required)",
    broken="clients cannot make _commit_version and _commit_timestamp, and fail",
    repair="send both fields",
    example="an add without version",
)
FEED_HEADER = CHANGES_AREA.error(
    "share.changes-header",
    "The header of a change feed, and of a query with startingVersion, has the first version of the range.",
    spec="Read Change Data Feed from a Table (represents the starting version of files in the response)",
    broken="clients take the changes for those of other versions",
    repair="send the first version",
    example="the newest version in the header",
)
PARTS = CHANGES_AREA.error(
    "share.changes-parts-differ",
    "Two halves of a range have the changes of the whole range.",
    spec="Read Change Data Feed from a Table (startingVersion, endingVersion: inclusive)",
    broken="clients that continue a feed lose or repeat changes",
    repair="include both ends of the range",
    example="the changes of the last version are missing where it is named as the end",
)
BY_TIME = CHANGES_AREA.error(
    "share.changes-by-time",
    "A range by the times of its versions has the changes of the range by their numbers.",
    spec="Read Change Data Feed from a Table (startingTimestamp, endingTimestamp)",
    broken="clients lose or repeat the changes of a version",
    repair="start at the first version at or after the time, and end at the last one at or before it",
    example="the version that was committed at startingTimestamp is missing",
)
SINCE_RANGE = CHANGES_AREA.error(
    "share.since-range",
    "A query with startingVersion returns files of that version and later ones, with their versions.",
    spec="Read Data from a Table (startingVersion: all data change files since startingVersion, inclusive)",
    broken="streams read files twice, or lose them",
    repair="return the files of the range, each with its version",
    example="files of version 1 for startingVersion=2",
)
SINCE_FUTURE = CHANGES_AREA.error(
    "share.since-unknown",
    "A startingVersion far after the newest version is answered with 400.",
    spec="Read Data from a Table (startingVersion; 400: the request is malformed)",
    broken="streams wait forever at a version that was never written",
    repair="answer 400",
    example="200 without files for startingVersion=1000000",
)

_FEED = (RANGE, FIELDS, FEED_HEADER, PARTS, BY_TIME)
_NO_FEED = "the server has no change data feed of the table"
_MOST_VERSIONS = 20


def check_changes(table: SharedTableTest) -> None:
    """Read change feeds and compare them."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    form, last = whole.form, whole.version
    _check_refused(table, form, last)
    enabled = {**whole.configuration}
    is_on = str(enabled.get("enableChangeDataFeed") or enabled.get("delta.enableChangeDataFeed")).lower() == "true"
    if not is_on:
        table.skip("the change data feed of the table is not enabled", *_FEED)
        return
    first = max(0, last - _MOST_VERSIONS + 1)
    feed = _feed(table, form, {"startingVersion": first, "endingVersion": last})
    while feed is None and first < last:
        first = (first + last + 1) // 2
        feed = _feed(table, form, {"startingVersion": first, "endingVersion": last})
    if feed is None:
        table.skip(_NO_FEED, *_FEED)
        return
    _check_feed(table, feed, first, last)
    _check_parts(table, feed, first, last)
    _check_by_time(table, feed)
    check_feed_pages(table, feed)


def _feed(table: SharedTableTest, form: str, query: Mapping[str, object]) -> Lines | None:
    return table.read(table.ask("changes", query, HEADERS[form]))


def _check_refused(table: SharedTableTest, form: str, last: int) -> None:
    answer = table.ask("changes", headers=HEADERS[form])
    table.suite.require_status(START, answer.status >= 400, answer, "a change feed without a start")
    if last:
        answer = table.ask("changes", {"startingVersion": last, "endingVersion": last - 1}, HEADERS[form])
        table.suite.require_status(REVERSED, answer.status >= 400, answer, "a range that ends before its start")
    else:
        table.skip("the table has one version", REVERSED)


def _check_feed(table: SharedTableTest, feed: Lines, first: int, last: int) -> None:
    answer = feed.answer
    message = "the header of the feed has another version than its start"
    table.suite.require(FEED_HEADER, feed.version in (first, None), answer, message, seen=feed.version, expected=first)
    _check_dated(table, feed)
    for file in feed.files:
        is_inside = file.version is None or first <= file.version <= last
        message = "a changed file is of a version outside the range"
        expected = f"{first} to {last}"
        table.suite.require(
            RANGE, is_inside, answer, message, seen=file.version, expected=expected, line=file.line.number
        )


def _check_dated(table: SharedTableTest, lines: Lines) -> None:
    for file in lines.files:
        is_dated = file.version is not None and file.timestamp is not None
        message = "a changed file lacks version or timestamp"
        seen = ", ".join(sorted(file.fields))
        table.suite.require(FIELDS, is_dated, lines.answer, message, seen=seen, line=file.line.number)


def _keys(files: tuple[FileLine, ...]) -> Counter[tuple[object, ...]]:
    return Counter((file.kind, file.id, file.version) for file in files)


def _check_parts(table: SharedTableTest, feed: Lines, first: int, last: int) -> None:
    if first == last:
        table.skip("the feed has one version", PARTS)
        return
    versions = sorted({file.version for file in feed.files if file.version is not None})
    middle = versions[(len(versions) - 1) // 2] if versions else first
    middle = min(max(middle, first), last - 1)
    low = _feed(table, feed.form, {"startingVersion": first, "endingVersion": middle})
    high = _feed(table, feed.form, {"startingVersion": middle + 1, "endingVersion": last})
    answer = (high or low or feed).answer
    is_same = low is not None and high is not None and _keys(low.files) + _keys(high.files) == _keys(feed.files)
    counts = [0 if part is None else len(part.files) for part in (low, high)]
    message = "two halves of a range have other changes than the whole range"
    table.suite.require(
        PARTS, is_same, answer, message, seen=f"{counts[0]} and {counts[1]}", expected=f"{len(feed.files)} together"
    )


def _check_by_time(table: SharedTableTest, feed: Lines) -> None:
    """Compare the changes between the times of two versions with those between their numbers."""
    times = {file.version: file.timestamp for file in feed.files if file.version is not None and file.timestamp}
    if not times:
        table.skip("the feed has no timestamps", BY_TIME)
        return
    low, high = min(times), max(times)
    starts, ends = times[low] or 0, times[high] or 0
    if len(set(times.values())) < len(times):
        table.skip("several versions of the feed have the same timestamp", BY_TIME)
        return
    answer = table.ask("changes", {"startingTimestamp": iso(starts), "endingTimestamp": iso(ends)}, HEADERS[feed.form])
    lines = table.read(answer)
    if lines is None:
        table.suite.require_status(BY_TIME, answer.status >= 500, answer, "a range by time", expected=200)
        return
    is_same = _keys(lines.files) == _keys(feed.files)
    message = "a range by time has other changes than the range by versions"
    table.suite.require(
        BY_TIME, is_same, answer, message, seen=f"{len(lines.files)} files", expected=f"{len(feed.files)} files"
    )


def check_files_since(table: SharedTableTest) -> None:
    """Query the files since a version."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    if not table.has_history:
        table.skip(NO_HISTORY, SINCE_RANGE, SINCE_FUTURE)
        return
    last = whole.version
    first = max(0, last - _MOST_VERSIONS + 1)
    answer = table.query({"startingVersion": first}, whole.form)
    lines = table.read(answer)
    if lines is None:
        table.skip(f"a query with startingVersion is answered with {answer.status}", SINCE_RANGE, SINCE_FUTURE)
        return
    message = "the header of a query with startingVersion has another version"
    is_first = lines.version in (first, None)
    table.suite.require(FEED_HEADER, is_first, answer, message, seen=lines.version, expected=first)
    _check_dated(table, lines)
    for file in lines.files:
        is_inside = file.version is not None and file.version >= first
        message = "a file is of a version before startingVersion, or has none"
        table.suite.require(
            SINCE_RANGE,
            is_inside,
            answer,
            message,
            seen=file.version,
            expected=f"{first} or later",
            line=file.line.number,
        )
    if not lines.files:
        table.skip(f"no version since {first} changed data", SINCE_RANGE)
    future = table.query({"startingVersion": last + 1_000_000}, whole.form)
    table.suite.require_status(SINCE_FUTURE, future.status >= 400, future, "a startingVersion that does not exist")
