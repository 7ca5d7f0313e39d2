"""Versions of a table: the newest one, older ones by number and by time."""

from __future__ import annotations

from datetime import UTC, datetime

from deltacli.rules.framework.base import Area, Level
from deltacli.sharing.conformance.lines import Lines, version_of
from deltacli.sharing.conformance.rules.line_form import check_version_header, names_of
from deltacli.sharing.conformance.rules.shared_table import HEADERS, MOVED, SharedTableTest
from deltacli.sharing.conformance.wire import WireAnswer

VERSIONS_AREA = Area("Versions", Level.API)

VERSION_BODY = VERSIONS_AREA.warning(
    "share.version-body",
    "The answer to a version has no body.",
    spec="Query Table Version (200: Body: empty)",
    broken="the cheap request becomes an expensive one",
    repair="send the header only",
    example="the metadata as the body",
)
VERSION_HEAD = VERSIONS_AREA.warning(
    "share.version-head",
    "HEAD of the table, where it is supported, has the version that GET …/version has.",
    spec="Query Table Version (HEAD, deprecated)",
    broken="older clients take a stale version for the newest one",
    repair="answer both alike, or HEAD with 405",
    example="an older version for HEAD",
)
VERSIONS_DIFFER = VERSIONS_AREA.error(
    "share.version-differs",
    "Version, metadata and query without a version have the newest version in their header.",
    spec="Query Table Version; Query Table Metadata; Read Data from a Table (Delta-Table-Version)",
    broken="clients that watch the version read another one, or never see a new one",
    repair="answer all of them from the newest version",
    example="version 3 in the header of the query, and 4 for the version",
)
SINCE = VERSIONS_AREA.error(
    "share.version-since",
    "startingTimestamp gives the earliest version at or after that time: also that of a commit at that very time.",
    spec="Query Table Version (startingTimestamp)",
    broken="streams that start at a time lose or repeat a version",
    repair="compare with the times of the commits, inclusive",
    example="version 4 for the time of version 3",
)
SINCE_EARLY = VERSIONS_AREA.error(
    "share.version-since-early",
    "startingTimestamp may be before version 0, which is then the answer if it is shared.",
    spec="Query Table Version (can be earlier than the timestamp of table version 0)",
    broken="streams that start at the beginning fail",
    repair="answer with version 0, and with 400 only where the shared history begins later",
    example="400 for 2000-01-01T00:00:00Z",
)
AS_OF = VERSIONS_AREA.error(
    "share.as-of-newest-differs",
    "A query of the newest version by its number has the files of a query without a version.",
    spec="Read Data from a Table (version)",
    broken="clients that pin the version lose or invent rows",
    repair="answer both from the same version",
    example="files that were removed before that version",
)
AS_OF_HEADER = VERSIONS_AREA.error(
    "share.as-of-header",
    "The header of a query or of the metadata with a version has that version.",
    spec="Read Data from a Table (Delta-Table-Version: otherwise, it represents the starting version)",
    broken="clients take the files for another version",
    repair="send the requested version",
    example="the newest version in the header",
)
AS_OF_FIELDS = VERSIONS_AREA.warning(
    "share.as-of-fields",
    "With a version or a timestamp, metadata and files have their version, and files a timestamp.",
    spec="Metadata (version); File (version, timestamp)",
    broken="clients do not know which version they read",
    repair="send the fields",
    example="files without version",
)
FUTURE = VERSIONS_AREA.error(
    "share.version-unknown",
    "A version that does not exist is answered with 400 or 404.",
    spec="Read Data from a Table (version; 400: the request is malformed)",
    broken="clients take the newest version for the requested one",
    repair="answer 400",
    example="200 for a version after the newest one",
)
TIME = VERSIONS_AREA.error(
    "share.timestamp-differs",
    "A query by the time of a version is answered with that version.",
    spec="Read Data from a Table (timestamp); Timestamp Format",
    broken="clients read another version than the one of that time",
    repair="choose the newest version at or before the time",
    example="the version before the one that was committed at the time",
)
BAD_TIME = VERSIONS_AREA.error(
    "share.timestamp-invalid",
    "A timestamp that is not one is answered with 400.",
    spec="Timestamp Format; Read Data from a Table (timestamp; 400: the request is malformed)",
    broken="clients take the newest version for that of the time",
    repair="answer 400",
    example="200 for the timestamp `yesterday`",
)
BOTH = VERSIONS_AREA.warning(
    "share.version-and-timestamp",
    "A query with both version and timestamp is answered with 400.",
    spec="Query Table Metadata (version and timestamp are exclusive); Read Data from a Table",
    broken="one of them is ignored, and the client does not know which",
    repair="answer 400",
    example="200 for version 0 and a timestamp",
)

NO_HISTORY = "the history of the table is not shared"
_EARLY = "2000-01-01T00:00:00Z"
_HISTORY_RULES = (SINCE, SINCE_EARLY, AS_OF, AS_OF_HEADER, AS_OF_FIELDS, FUTURE, TIME, BAD_TIME, BOTH)


def check_version(table: SharedTableTest) -> None:
    """Ask for the newest version, and find out whether the history is shared."""
    answer = table.ask("version")
    if not answer.is_ok:
        if answer.status < 500:
            table.suite.require(
                VERSIONS_DIFFER, False, answer, f"the version of a listed table is answered with {answer.status}"
            )
        return
    version = check_version_header(table.suite, answer)
    table.suite.version = version
    table.suite.require(
        VERSION_BODY, not answer.body, answer, "the answer has a body", seen=f"{len(answer.body)} bytes"
    )
    head = table.ask("", method="HEAD")
    if head.is_ok:
        found = version_of(head)
        table.suite.require(
            VERSION_HEAD, found == version, head, "HEAD has another version", seen=found, expected=version
        )
    else:
        table.skip("the server does not support the deprecated HEAD", VERSION_HEAD)


def check_newest(table: SharedTableTest) -> None:
    """Compare the versions in the headers of all kinds of answers."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    metadata = table.ask("metadata", headers=HEADERS[whole.form])
    version = version_of(table.ask("version"))
    again = table.query({"limitHint": 1}, whole.form)
    found = {"the metadata": version_of(metadata), "the query": version_of(again)}
    if version != table.suite.version or not (metadata.is_ok and again.is_ok) or None in found.values():
        table.skip(MOVED if version != table.suite.version else "not every answer has a version", VERSIONS_DIFFER)
        return
    wrong = [f"{name} {one}" for name, one in found.items() if one != version]
    message = "the header of another answer has another version than …/version"
    table.suite.require(VERSIONS_DIFFER, not wrong, again, message, seen=", ".join(wrong) or None, expected=version)


def check_history(table: SharedTableTest) -> None:
    """Read the newest version by its number and by its time, and versions that do not exist."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    answer = table.query({"version": whole.version}, whole.form)
    table.has_history = answer.is_ok
    if not answer.is_ok:
        table.skip(NO_HISTORY, *_HISTORY_RULES)
        return
    lines = table.read(answer)
    if lines is None:
        return
    _check_as_of(table, whole, lines)
    _check_older(table, whole)
    _check_refused(table, whole)
    _check_times(table, lines)


def _check_as_of(table: SharedTableTest, whole: Lines, lines: Lines) -> None:
    table.suite.require(
        AS_OF_HEADER,
        lines.version in (whole.version, None),
        lines.answer,
        "the header has another version than the query",
        seen=lines.version,
        expected=whole.version,
    )
    missing = [file for file in whole.files if file.id not in lines.by_id]
    more = [file for file in lines.files if file.id not in whole.by_id]
    is_same = not missing and not more
    seen = f"missing {names_of(missing)}" if missing else f"unexpected {names_of(more)}"
    message = "the newest version by its number has other files"
    table.suite.require(AS_OF, is_same, lines.answer, message, seen=None if is_same else seen)
    bare = [file for file in lines.files if file.version is None or file.timestamp is None]
    is_dated = not bare and lines.metadata.get("version") == whole.version
    message = "metadata or files of a version lack version or timestamp"
    table.suite.require(AS_OF_FIELDS, is_dated, lines.answer, message)
    metadata = table.ask("metadata", {"version": whole.version}, HEADERS[whole.form])
    if metadata.is_ok:
        message = "the header of the metadata has another version than the request"
        found = version_of(metadata)
        table.suite.require(AS_OF_HEADER, found in (whole.version, None), metadata, message, seen=found)


def _check_older(table: SharedTableTest, whole: Lines) -> None:
    """Read the version before the newest one, where it is shared and there is one."""
    version = (whole.version or 0) - 1
    lines = table.read(table.query({"version": version}, whole.form)) if version >= 0 else None
    if lines is None:
        return
    message = "the header has another version than the query"
    is_same = lines.version in (version, None)
    table.suite.require(AS_OF_HEADER, is_same, lines.answer, message, seen=lines.version, expected=version)
    wrong = [file for file in lines.files if file.version not in (version, None)]
    message = "files of an older version have another version"
    table.suite.require(AS_OF_FIELDS, not wrong, lines.answer, message, seen=names_of(wrong) if wrong else None)


def _check_refused(table: SharedTableTest, whole: Lines) -> None:
    future = (whole.version or 0) + 1_000_000
    requests = (
        (FUTURE, {"version": future}, "a version that does not exist"),
        (FUTURE, {"version": -1}, "a negative version"),
        (BAD_TIME, {"timestamp": "yesterday"}, "the timestamp yesterday"),
        (BOTH, {"version": whole.version, "timestamp": _EARLY}, "version and timestamp together"),
    )
    for rule, body, words in requests:
        answer = table.query(body, whole.form)
        table.suite.require_status(rule, answer.status >= 400, answer, words)


def _check_times(table: SharedTableTest, lines: Lines) -> None:
    early = table.ask("version", {"startingTimestamp": _EARLY})
    message = f"a startingTimestamp before the first version is answered with {early.status}"
    is_answered = early.is_ok or early.status >= 500 or not table.query({"version": 0}, lines.form).is_ok
    table.suite.require(SINCE_EARLY, is_answered, early, message, expected=200)
    first = check_version_header(table.suite, early) if early.is_ok else None
    times = {file.version: file.timestamp for file in lines.files if file.timestamp is not None}
    moment = times.get(lines.version)
    if moment is None or lines.version is None:
        table.skip("the server does not tell when the version was committed", SINCE, TIME)
        return
    if first is not None:
        message = "a startingTimestamp before the first version gives a version that does not exist"
        table.suite.require(SINCE_EARLY, first <= lines.version, early, message, seen=first)
    since = table.ask("version", {"startingTimestamp": iso(moment)})
    _require_since(table, since, lines.version, moment)
    answer = table.query({"timestamp": iso(moment)}, lines.form)
    found = version_of(answer)
    message = f"the time of version {lines.version} is answered with " + (
        f"version {found}" if answer.is_ok else str(answer.status)
    )
    is_same = answer.is_ok and found in (lines.version, None)
    table.suite.require(TIME, is_same or answer.status >= 500, answer, message, seen=found, expected=lines.version)


def _time_of(table: SharedTableTest, version: int) -> int | None:
    """Return when a version was committed, None where the server does not tell."""
    whole = table.whole
    lines = None if whole is None else table.read(table.query({"version": version}, whole.form))
    return next((file.timestamp for file in lines.files), None) if lines is not None else None


def _require_since(table: SharedTableTest, answer: WireAnswer, version: int, moment: int) -> None:
    found = version_of(answer) if answer.is_ok else None
    words = f"version {found}" if answer.is_ok else str(answer.status)
    message = f"the startingTimestamp of version {version} is answered with {words}"
    if found is not None and found < version and _time_of(table, found) == moment:
        found = version  # an earlier version was committed at the same time
    table.suite.require(SINCE, found == version or answer.status >= 500, answer, message, seen=found, expected=version)


def iso(moment_ms: int) -> str:
    """Return a time in the Timestamp Format, exact to the millisecond."""
    moment = datetime.fromtimestamp(moment_ms // 1000, UTC)
    fraction = f".{moment_ms % 1000:03d}" if moment_ms % 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
