"""One shared table under test, and the rules about its versions, queries, pages and changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from deltacli.delta.protocol.features import FEATURES, FeatureKind
from deltacli.rules.framework.base import Level, Rule
from deltacli.sharing.conformance.lines import (
    DELTA,
    PARQUET,
    FileLine,
    Lines,
    check_table_lines,
    check_version_header,
    names_of,
    read_lines,
    status_of,
    version_of,
)
from deltacli.sharing.conformance.lists import NamedTable, Scope, Tester
from deltacli.sharing.conformance.wire import CAPABILITIES, Rules, Suite, WireAnswer
from deltacli.sharing.protocol.directories import TableAccess
from deltacli.storage import Storage
from deltacli.storage.grants import Renew

ALL_FEATURES = ",".join(
    sorted(name.lower() for name, feature in FEATURES.items() if feature.kind is FeatureKind.READER_WRITER)
)
DELTA_HEADER = f"responseformat=delta;readerfeatures={ALL_FEATURES}"
HEADERS: Mapping[str, Mapping[str, str]] = {PARQUET: {}, DELTA: {CAPABILITIES: DELTA_HEADER}}


def header_of(form: str) -> str:
    """Return the capabilities that ask for a format, also where none have to be sent for it."""
    return HEADERS[form].get(CAPABILITIES, "responseformat=parquet")


MOVED = "the table got a new version during the test"


OpenStore = Callable[[str, "Renew"], "Storage"]


@dataclass(kw_only=True)
class SharedTableTest(Suite):
    """A table under test, and the findings about it. `wholes`: by format, all files of the newest version."""

    tester: Tester
    named: NamedTable
    scope: Scope
    open_store: OpenStore
    wholes: dict[str, Lines] = field(default_factory=dict)
    has_history: bool = False
    refuses_history: bool = False
    answers: dict[str, WireAnswer] = field(default_factory=dict)
    """Those to the query of the whole table, by the format that was asked for."""
    metadata: dict[str, Lines] = field(default_factory=dict)
    access: TableAccess = field(default_factory=TableAccess)
    may_announce: bool = False
    """Whether an answer offers access by directory, or could mean that."""

    @property
    def whole(self) -> Lines | None:
        """Return the whole answer to compare with, in delta format if the server has it."""
        return self.wholes.get(DELTA) or self.wholes.get(PARQUET)

    def ask(
        self,
        rest: str,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
    ) -> WireAnswer:
        """Return the answer to a request about the table."""
        parameters = {name: str(value) for name, value in (query or {}).items()}
        path = f"{self.base}/{rest}" if rest else self.base
        return self.tester.ask(self, path, query=parameters, headers=headers, method=method)

    def query(self, body: Mapping[str, object], form: str, headers: Mapping[str, str] | None = None) -> WireAnswer:
        """Return the answer to a query in a format."""
        return self.post("query", json.dumps(body).encode(), {**HEADERS[form], **(headers or {})})

    def post(
        self, rest: str, body: bytes | None, headers: Mapping[str, str] | None = None, token: str | None = None
    ) -> WireAnswer:
        """Return the answer to a body about the table."""
        path = f"{self.base}/{rest}"
        return self.tester.ask(self, path, body=body, method="POST", headers=headers, token=token)

    def read(self, answer: WireAnswer, *, expects_end: bool = False) -> Lines | None:
        """Return an answer in lines, checked; None where it is an error or cannot be used."""
        if not answer.is_ok:
            return None
        status, message = status_of(answer), "an answer has a queryStatus that was not asked for"
        if not self.require(ASYNC_UNASKED, status is None, answer, message):
            return None
        lines = read_lines(self, answer, expects_end=expects_end)
        if lines is not None:
            check_table_lines(self, lines, self.tester.now_ms)
        return lines

    def same_version(self, lines: Lines | None, rules: Iterable[Rule]) -> Lines | None:
        """Return lines that can be compared with the whole answer: those of the same version."""
        whole = self.whole
        if lines is None or whole is None:
            return None
        if lines.version != whole.version:
            self.skip(MOVED, *rules)
            return None
        return lines


ASYNC_UNASKED = Rules("Asynchronous queries", Level.API).row("""error share.async-unasked | A server answers with a
    queryStatus only where the request has the capability asyncquery=true. | Delta Sharing Capabilities Header
    (asyncquery) | clients that cannot poll fail on the line | answer at once without the capability | queryStatus in
    the answer to a client without the header""")


# -- versions of a table -----------------------------------------------------------------------------------------------

VERSIONS_AREA = Rules("Versions", Level.API)

VERSION_BODY = VERSIONS_AREA.row("""warning share.version-body | The answer to a version has no body. | Query Table
    Version (200: Body: empty) | the cheap request becomes an expensive one | send the header only | the metadata as the
    body""")
VERSION_HEAD = VERSIONS_AREA.row("""warning share.version-head | HEAD of the table, where it is supported, has the
    version that GET …/version has. | Query Table Version (HEAD, deprecated) | older clients take a stale version for
    the newest one | answer both alike, or HEAD with 405 | an older version for HEAD""")
VERSIONS_DIFFER = VERSIONS_AREA.row("""error share.version-differs | Version, metadata and query without a version have
    the newest version in their header. | Query Table Version; Query Table Metadata; Read Data from a Table
    (Delta-Table-Version) | clients that watch the version read another one, or never see a new one | answer all of them
    from the newest version | version 3 in the header of the query, and 4 for the version""")
SINCE = VERSIONS_AREA.row("""error share.version-since | startingTimestamp gives the earliest version at or after that
    time: also that of a commit at that very time. | Query Table Version (startingTimestamp) | streams that start at a
    time lose or repeat a version | compare with the times of the commits, inclusive | version 4 for the time of version
    3""")
SINCE_EARLY = VERSIONS_AREA.row("""error share.version-since-early | startingTimestamp may be before version 0, which is
    then the answer if it is shared. | Query Table Version (can be earlier than the timestamp of table version 0) |
    streams that start at the beginning fail | answer with version 0, and with 400 only where the shared history begins
    later | 400 for 2000-01-01T00:00:00Z""")
AS_OF = VERSIONS_AREA.row("""error share.as-of-newest-differs | A query of the newest version by its number has the
    files of a query without a version. | Read Data from a Table (version) | clients that pin the version lose or invent
    rows | answer both from the same version | files that were removed before that version""")
AS_OF_HEADER = VERSIONS_AREA.row("""error share.as-of-header | The header of a query or of the metadata with a version
    has that version. | Read Data from a Table (Delta-Table-Version: otherwise, it represents the starting version) |
    clients take the files for another version | send the requested version | the newest version in the header""")
AS_OF_FIELDS = VERSIONS_AREA.row("""warning share.as-of-fields | With a version or a timestamp, metadata and files have
    their version, and files a timestamp. | Metadata (version); File (version, timestamp) | clients do not know which
    version they read | send the fields | files without version""")
FUTURE = VERSIONS_AREA.row("""error share.version-unknown | A version that does not exist is answered with 400 or 404. |
    Read Data from a Table (version; 400: the request is malformed) | clients take the newest version for the requested
    one | answer 400 | 200 for a version after the newest one""")
TIME = VERSIONS_AREA.row("""error share.timestamp-differs | A query by the time of a version is answered with that
    version. | Read Data from a Table (timestamp); Timestamp Format | clients read another version than the one of that
    time | choose the newest version at or before the time | the version before the one that was committed at the time
""")
BAD_TIME = VERSIONS_AREA.row("""error share.timestamp-invalid | A timestamp that is not one is answered with 400. |
    Timestamp Format; Read Data from a Table (timestamp; 400: the request is malformed) | clients take the newest
    version for that of the time | answer 400 | 200 for the timestamp `yesterday`""")
BOTH = VERSIONS_AREA.row("""warning share.version-and-timestamp | A query with both version and timestamp is answered
    with 400. | Query Table Metadata (version and timestamp are exclusive); Read Data from a Table | one of them is
    ignored, and the client does not know which | answer 400 | 200 for version 0 and a timestamp""")

NO_HISTORY = "the history of the table is not shared"
_EARLY = "2000-01-01T00:00:00Z"
_HISTORY_RULES = (SINCE, SINCE_EARLY, AS_OF, AS_OF_HEADER, AS_OF_FIELDS, FUTURE, TIME, BAD_TIME, BOTH)


def check_version(table: SharedTableTest) -> None:
    """Ask for the newest version, and find out whether the history is shared."""
    answer = table.ask("version")
    if not answer.is_ok:
        if answer.status < 500:
            message = f"the version of a listed table is answered with {answer.status}"
            table.require(VERSIONS_DIFFER, False, answer, message)
        return
    table.version = version = check_version_header(table, answer)
    table.require(VERSION_BODY, not answer.body, answer, "the answer has a body", seen=f"{len(answer.body)} bytes")
    head = table.ask("", method="HEAD")
    if head.is_ok:
        found, message = version_of(head), "HEAD has another version"
        table.require(VERSION_HEAD, found == version, head, message, seen=found, expected=version)
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
    if version != table.version or not (metadata.is_ok and again.is_ok) or None in found.values():
        table.skip(MOVED if version != table.version else "not every answer has a version", VERSIONS_DIFFER)
        return
    wrong = [f"{name} {one}" for name, one in found.items() if one != version]
    message = "the header of another answer has another version than …/version"
    table.require(VERSIONS_DIFFER, not wrong, again, message, seen=", ".join(wrong), expected=version)


def check_history(table: SharedTableTest) -> None:
    """Read the newest version by its number and by its time, and versions that do not exist."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    answer = table.query({"version": whole.version}, whole.form)
    table.has_history, table.refuses_history = answer.is_ok, 400 <= answer.status < 500
    if not answer.is_ok:
        table.skip(NO_HISTORY, *_HISTORY_RULES)
        return
    lines = table.read(answer)
    if lines is None:
        return
    _check_as_of(table, whole, lines)
    _check_older(table, whole)
    requests = (
        (FUTURE, {"version": whole.version + 1_000_000}, "a version that does not exist"),
        (FUTURE, {"version": -1}, "a negative version"),
        (BAD_TIME, {"timestamp": "yesterday"}, "the timestamp yesterday"),
        (BOTH, {"version": whole.version, "timestamp": _EARLY}, "version and timestamp together"),
    )
    for rule, body, words in requests:
        refused = table.query(body, whole.form)
        table.require_status(rule, refused.status >= 400, refused, words)
    _check_times(table, lines)


def _check_as_of(table: SharedTableTest, whole: Lines, lines: Lines) -> None:
    is_same, message = lines.version in (whole.version, None), "the header has another version than the query"
    table.require(AS_OF_HEADER, is_same, lines.answer, message, seen=lines.version, expected=whole.version)
    missing = [file for file in whole.files if file.id not in lines.by_id]
    more = [file for file in lines.files if file.id not in whole.by_id]
    is_same = not missing and not more
    seen = f"missing {names_of(missing)}" if missing else f"unexpected {names_of(more)}"
    table.require(AS_OF, is_same, lines.answer, "the newest version by its number has other files", seen=seen)
    bare = [file for file in lines.files if file.version is None or file.timestamp is None]
    is_dated = not bare and lines.metadata.get("version") == whole.version
    table.require(AS_OF_FIELDS, is_dated, lines.answer, "metadata or files of a version lack version or timestamp")
    metadata = table.ask("metadata", {"version": whole.version}, HEADERS[whole.form])
    if metadata.is_ok:
        found, message = version_of(metadata), "the header of the metadata has another version than the request"
        table.require(AS_OF_HEADER, found in (whole.version, None), metadata, message, seen=found)


def _check_older(table: SharedTableTest, whole: Lines) -> None:
    """Read the version before the newest one, where it is shared and there is one."""
    version = (whole.version or 0) - 1
    lines = table.read(table.query({"version": version}, whole.form)) if version >= 0 else None
    if lines is None:
        return
    is_same, message = lines.version in (version, None), "the header has another version than the query"
    table.require(AS_OF_HEADER, is_same, lines.answer, message, seen=lines.version, expected=version)
    wrong = [file for file in lines.files if file.version not in (version, None)]
    message = "files of an older version have another version"
    table.require(AS_OF_FIELDS, not wrong, lines.answer, message, seen=names_of(wrong))


def _check_times(table: SharedTableTest, lines: Lines) -> None:
    early = table.ask("version", {"startingTimestamp": _EARLY})
    message = f"a startingTimestamp before the first version is answered with {early.status}"
    is_answered = early.is_ok or early.status >= 500 or not table.query({"version": 0}, lines.form).is_ok
    table.require(SINCE_EARLY, is_answered, early, message, expected=200)
    first = check_version_header(table, early) if early.is_ok else None
    times = {file.version: file.timestamp for file in lines.files if file.timestamp is not None}
    moment = times.get(lines.version)
    if moment is None or lines.version is None:
        table.skip("the server does not tell when the version was committed", SINCE, TIME)
        return
    if first is not None:
        message = "a startingTimestamp before the first version gives a version that does not exist"
        table.require(SINCE_EARLY, first <= lines.version, early, message, seen=first)
    since = table.ask("version", {"startingTimestamp": iso(moment)})
    found = version_of(since) if since.is_ok else None
    words = f"version {found}" if since.is_ok else str(since.status)
    message = f"the startingTimestamp of version {lines.version} is answered with {words}"
    if found is not None and found < lines.version:
        earlier = table.read(table.query({"version": found}, (table.whole or lines).form))
        if earlier is not None and moment == next((file.timestamp for file in earlier.files), None):
            found = lines.version  # an earlier version was committed at the same time
    is_same = found == lines.version or since.status >= 500
    table.require(SINCE, is_same, since, message, seen=found, expected=lines.version)
    answer = table.query({"timestamp": iso(moment)}, lines.form)
    found, words = version_of(answer), f"the time of version {lines.version}"
    message = f"{words} is answered with {f'version {found}' if answer.is_ok else answer.status}"
    is_same = answer.is_ok and found in (lines.version, None)
    table.require(TIME, is_same or answer.status >= 500, answer, message, seen=found, expected=lines.version)


def iso(moment_ms: int) -> str:
    """Return a time in the Timestamp Format, exact to the millisecond."""
    moment = datetime.fromtimestamp(moment_ms // 1000, UTC)
    fraction = f".{moment_ms % 1000:03d}" if moment_ms % 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


# -- queries -----------------------------------------------------------------------------------------------------------

QUERIES_AREA = Rules("Queries", Level.API)
PAGES_AREA = Rules("Pages", Level.API)

MALFORMED = QUERIES_AREA.row("""error share.query-malformed | A query whose body is not a JSON object is answered with
    400. | Read Data from a Table: Request Body; 400: the request is malformed | clients that send a damaged body get
    the whole table instead of what they asked for | answer 400 | 200 for the body `{`""")
UNKNOWN_FIELD = QUERIES_AREA.row("""error share.query-unknown-field | Unrecognized fields in the body of a query are
    ignored. | Protocol (unrecognized fields are never required); Read Data from a Table: Request Body | newer clients,
    and those that send fields of their own such as DuckDB, cannot read from the server | ignore them | 400 for
    {"responseFormat": "delta"}""")


def check_queries(table: SharedTableTest) -> None:
    """Send bodies that are damaged, and one with a field that no server knows."""
    whole = table.whole
    if whole is None:
        return
    for body in (b"{", b"[]"):
        answer = table.post("query", body, HEADERS[whole.form])
        table.require_status(MALFORMED, answer.status >= 400, answer, "a body that is not a JSON object")
    answer = table.query({"deltacliUnknown": 1}, whole.form)
    is_ignored = answer.is_ok or answer.status >= 500
    table.require_status(UNKNOWN_FIELD, is_ignored, answer, "an unrecognized field in the body", expected=200)


PAGE_SIZE = PAGES_AREA.row("""error share.page-size | A page of a query has at most `maxFiles` files. | Query paging
    (maxFiles) | clients get more than they reserve room for | end the page, and send nextPageToken in endStreamAction |
    3 files for maxFiles=1""")
PAGES = PAGES_AREA.row("""error share.pages-differ | The pages of a query together have the files of the whole answer,
    each once. | Query paging (pageToken); EndStreamAction (nextPageToken) | clients lose or repeat rows | continue
    exactly behind the last file, in one order | a file at the border of two pages is missing""")
ENDLESS = PAGES_AREA.row("""error share.pages-endless | The pages of a query end: each leads on to another one. | Query
    paging; EndStreamAction (nextPageToken) | clients never finish | omit nextPageToken on the last page | the same
    nextPageToken again and again""")
PAGE_HEAD = PAGES_AREA.row("""error share.page-head | All pages have the same version and, byte for byte, the same
    protocol and metadata. | Query paging | Spark refuses the second page | answer every page from the version of the
    first one | another order of fields on the second page""")
PAGE_TOKEN = PAGES_AREA.row("""error share.page-token-not-checked | A page token is refused with other parameters than
    those it was made for, and when it was altered. | Query paging (pageToken) | clients mix pages of different answers,
    and a forged token may lead to versions that are not shared | authenticate tokens, and bind them to the table and
    the other parameters | a token of a query is accepted with another predicate""")
NO_END = PAGES_AREA.row("""error share.end-promised-not-sent | A server that knows includeEndStreamAction ends a query
    with endStreamAction, and says so in the header. | EndStreamAction; Delta Sharing Capabilities Header | clients
    cannot tell a whole answer from one that was cut off | send both the header and the line | the line without the
    capability in the header""")
REFRESH = PAGES_AREA.row("""error share.refresh-differs | A refreshToken leads to the files of the same version. |
    EndStreamAction (refreshToken); Query Table (refreshToken) | clients that refresh expired URLs mix files of two
    versions | keep the version in the token | a file less after the refresh""")

_MOST_PAGES = 12
_NO_PAGES = "the server does not send pages of queries"


def check_pages(table: SharedTableTest) -> None:
    """Read the table in pages and compare them with the whole."""
    whole = table.whole
    if whole is None or not whole.files:
        table.skip("the table has no files", PAGES, PAGE_SIZE, ENDLESS, PAGE_HEAD, PAGE_TOKEN)
        return
    tokens = walk_pages(table, whole, lambda page: table.query(page, whole.form))
    if not tokens:
        table.skip("the server sends the table as one page", PAGE_TOKEN)
        return
    token, size = tokens[0], page_size(whole)
    altered = {"maxFiles": size, "pageToken": ("B" if token[0] != "B" else "C") + token[1:]}
    other: dict[str, object] = {"maxFiles": size, "pageToken": token, "limitHint": 1}
    for words, body in (("an altered page token", altered), ("a page token with another limit", other)):
        answer = table.query(body, whole.form)
        table.require_status(PAGE_TOKEN, answer.status >= 400, answer, words)


def page_size(whole: Lines) -> int:
    return max(1, (len(whole.files) + 2) // 3)


def walk_pages(
    table: SharedTableTest,
    whole: Lines,
    fetch: Callable[[Mapping[str, object]], WireAnswer],
    rules: tuple[Rule, ...] = (PAGES, PAGE_SIZE, ENDLESS, PAGE_HEAD),
) -> list[str]:
    """Read and compare the pages of an answer; return the tokens that led to them."""
    differ, size_rule, endless, head = rules
    require, size, pages, tokens = table.require, page_size(whole), list[Lines](), list[str]()
    while len(pages) < _MOST_PAGES:
        answer = fetch({"maxFiles": size, **({"pageToken": tokens[-1]} if tokens else {})})
        page = table.read(answer, expects_end=True)
        if page is None or page.end is None:
            if not pages:
                table.skip(_NO_PAGES, *rules, *([PAGE_TOKEN] if differ is PAGES else []))
                return tokens
            require(differ, False, answer, f"a page is answered with {answer.status}, without endStreamAction")
            return tokens
        pages.append(page)
        message = f"a page has {len(page.files)} files, more than maxFiles"
        require(size_rule, len(page.files) <= size, answer, message, seen=len(page.files), expected=size)
        is_same = page.head == pages[0].head and page.version == pages[0].version
        require(head, is_same, answer, "a page has other lines of protocol and metadata than the first one")
        token = page.end.get("nextPageToken")
        message = "the nextPageToken of a page leads to the same page again"
        if not require(endless, not token or token not in tokens, answer, message):
            return tokens
        if not token:
            break
        tokens.append(str(token))
    if pages[0].version == whole.version:
        _compare_pages(table, whole, pages, differ)
    return tokens


def _compare_pages(table: SharedTableTest, whole: Lines, pages: list[Lines], rule: Rule) -> None:
    ids = [file.id for page in pages for file in page.files]
    missing = [file for file in whole.files if file.id not in set(ids)]
    more = [file for page in pages for file in page.files if file.id not in whole.by_id]
    is_same = sorted(ids) == sorted(file.id for file in whole.files)
    seen = f"missing {names_of(missing)}" if missing else f"unexpected {names_of(more)}" if more else "repeated files"
    message = f"the pages have {len(ids)} files, and the whole answer {len(whole.files)}"
    table.require(rule, is_same, pages[-1].answer, message, seen=seen)


def check_end(table: SharedTableTest) -> None:
    """Ask for endStreamAction and for a refresh token."""
    whole = table.whole
    if whole is None:
        return
    wish = {CAPABILITIES: f"{header_of(whole.form)};includeendstreamaction=true"}
    lines = table.same_version(
        table.read(table.query({"includeRefreshToken": True}, whole.form, wish), expects_end=True), (REFRESH,)
    )
    if lines is None:
        return
    promised = "includeendstreamaction=true" in lines.answer.headers.get(CAPABILITIES, "").lower()
    if lines.end is None and not promised:
        table.skip("the server does not know includeEndStreamAction", NO_END, REFRESH)
        return
    message = "endStreamAction comes without includeendstreamaction=true in the header"
    table.require(NO_END, promised, lines.answer, message)
    token = (lines.end or {}).get("refreshToken")
    if not token:
        table.skip("the server sends no refreshToken", REFRESH)
        return
    answer = table.query({"refreshToken": token}, whole.form)
    again = table.read(answer, expects_end=True)
    is_same = again is not None and again.version == lines.version and sorted(again.by_id) == sorted(lines.by_id)
    table.require(REFRESH, is_same, answer, f"a refreshToken is answered with {answer.status} and other files")


# -- change data feeds -------------------------------------------------------------------------------------------------

CHANGES_AREA = Rules("Changes", Level.API)

START = CHANGES_AREA.row("""error share.changes-start | A change feed without a start is answered with 400. | Read
    Change Data Feed from a Table (the start parameter must be provided) | clients read another range than they think |
    answer 400 | 200 for …/changes without parameters""")
REVERSED = CHANGES_AREA.row("""error share.changes-reversed | A range whose end is before its start is answered with
    400. | Read Change Data Feed from a Table (startingVersion, endingVersion; 400: the request is malformed) | clients
    take an empty feed for no changes | answer 400 | 200 for startingVersion=2&endingVersion=1""")
RANGE = CHANGES_AREA.row("""error share.changes-range | Changes have versions between the start and the end, both
    included. | Read Change Data Feed from a Table (the parameter range is inclusive in the query) | clients apply
    changes twice, or changes of versions that they did not ask for | return the changes of the range only | a file of
    version 4 for endingVersion=3""")
FIELDS = CHANGES_AREA.row("""error share.changes-fields | Every changed file has its version and the timestamp of its
    commit. | Add File; CDF File; Remove File (version, timestamp: required) | clients cannot make _commit_version and
    _commit_timestamp, and fail | send both fields | an add without version""")
FEED_HEADER = CHANGES_AREA.row("""error share.changes-header | The header of a change feed, and of a query with
    startingVersion, has the first version of the range. | Read Change Data Feed from a Table (represents the starting
    version of files in the response) | clients take the changes for those of other versions | send the first version |
    the newest version in the header""")
PARTS = CHANGES_AREA.row("""error share.changes-parts-differ | Two halves of a range have the changes of the whole
    range. | Read Change Data Feed from a Table (startingVersion, endingVersion: inclusive) | clients that continue a
    feed lose or repeat changes | include both ends of the range | the changes of the last version are missing where it
    is named as the end""")
BY_TIME = CHANGES_AREA.row("""error share.changes-by-time | A range by the times of its versions has the changes of the
    range by their numbers. | Read Change Data Feed from a Table (startingTimestamp, endingTimestamp) | clients lose or
    repeat the changes of a version | start at the first version at or after the time, and end at the last one at or
    before it | the version that was committed at startingTimestamp is missing""")
SINCE_RANGE = CHANGES_AREA.row("""error share.since-range | A query with startingVersion returns files of that version
    and later ones, with their versions. | Read Data from a Table (startingVersion: all data change files since
    startingVersion, inclusive) | streams read files twice, or lose them | return the files of the range, each with its
    version | files of version 1 for startingVersion=2""")
SINCE_FUTURE = CHANGES_AREA.row("""error share.since-unknown | A startingVersion far after the newest version is
    answered with 400. | Read Data from a Table (startingVersion; 400: the request is malformed) | streams wait forever
    at a version that was never written | answer 400 | 200 without files for startingVersion=1000000""")

_FEED = (RANGE, FIELDS, FEED_HEADER, PARTS, BY_TIME)
_MOST_VERSIONS = 20


def check_changes(table: SharedTableTest) -> None:
    """Read change feeds and compare them."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    form, last = whole.form, whole.version
    answer = table.ask("changes", headers=HEADERS[form])
    table.require_status(START, answer.status >= 400, answer, "a change feed without a start")
    if last:
        answer = table.ask("changes", {"startingVersion": last, "endingVersion": last - 1}, HEADERS[form])
        table.require_status(REVERSED, answer.status >= 400, answer, "a range that ends before its start")
    else:
        table.skip("the table has one version", REVERSED)
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
        table.skip("the server has no change data feed of the table", *_FEED)
        return
    _check_dated(table, feed, first, "the header of the feed has another version than its start")
    for file in feed.files:
        is_inside = file.version is None or first <= file.version <= last
        message, expected = "a changed file is of a version outside the range", f"{first} to {last}"
        seen, line = file.version, file.line.number
        table.require(RANGE, is_inside, feed.answer, message, seen=seen, expected=expected, line=line)
    _check_parts(table, feed, first, last)
    _check_by_time(table, feed)
    if feed.files:
        sent = dict(feed.answer.request.query)
        walk_pages(table, feed, lambda page: table.ask("changes", {**sent, **page}, HEADERS[feed.form]))


def _feed(table: SharedTableTest, form: str, query: Mapping[str, object]) -> Lines | None:
    return table.read(table.ask("changes", query, HEADERS[form]))


def _check_dated(table: SharedTableTest, lines: Lines, first: int, words: str) -> None:
    """Check the header of an answer about a range, in words, and whether its files have their versions."""
    table.require(FEED_HEADER, lines.version in (first, None), lines.answer, words, seen=lines.version, expected=first)
    for file in lines.files:
        is_dated = file.version is not None and file.timestamp is not None
        message, seen = "a changed file lacks version or timestamp", ", ".join(sorted(file.fields))
        table.require(FIELDS, is_dated, lines.answer, message, seen=seen, line=file.line.number)


def _keys(files: tuple[FileLine, ...]) -> Counter[tuple[object, ...]]:
    return Counter((file.kind, file.id, file.version) for file in files)


def _check_parts(table: SharedTableTest, feed: Lines, first: int, last: int) -> None:
    if first == last:
        table.skip("the feed has one version", PARTS)
        return
    versions = sorted({file.version for file in feed.files if file.version is not None}) or [first]
    middle = min(max(versions[(len(versions) - 1) // 2], first), last - 1)
    low = _feed(table, feed.form, {"startingVersion": first, "endingVersion": middle})
    high = _feed(table, feed.form, {"startingVersion": middle + 1, "endingVersion": last})
    answer = (high or low or feed).answer
    is_same = low is not None and high is not None and _keys(low.files) + _keys(high.files) == _keys(feed.files)
    counts = [0 if part is None else len(part.files) for part in (low, high)]
    message, together = "two halves of a range have other changes than the whole range", f"{len(feed.files)} together"
    table.require(PARTS, is_same, answer, message, seen=f"{counts[0]} and {counts[1]}", expected=together)


def _check_by_time(table: SharedTableTest, feed: Lines) -> None:
    """Compare the changes between the times of two versions with those between their numbers."""
    times = {file.version: file.timestamp for file in feed.files if file.version is not None and file.timestamp}
    if not times:
        table.skip("the feed has no timestamps", BY_TIME)
        return
    if len(set(times.values())) < len(times):
        table.skip("several versions of the feed have the same timestamp", BY_TIME)
        return
    ends = {"startingTimestamp": iso(times[min(times)] or 0), "endingTimestamp": iso(times[max(times)] or 0)}
    answer = table.ask("changes", ends, HEADERS[feed.form])
    lines = table.read(answer)
    if lines is None:
        table.require_status(BY_TIME, answer.status >= 500, answer, "a range by time", expected=200)
        return
    is_same = _keys(lines.files) == _keys(feed.files)
    message = "a range by time has other changes than the range by versions"
    seen, expected = f"{len(lines.files)} files", f"{len(feed.files)} files"
    table.require(BY_TIME, is_same, answer, message, seen=seen, expected=expected)


def check_files_since(table: SharedTableTest) -> None:
    """Query the files since a version."""
    whole = table.whole
    if whole is None or whole.version is None:
        return
    if not table.has_history:
        table.skip(NO_HISTORY, SINCE_RANGE, SINCE_FUTURE)
        return
    first = max(0, whole.version - _MOST_VERSIONS + 1)
    answer = table.query({"startingVersion": first}, whole.form)
    lines = table.read(answer)
    if lines is None:
        table.skip(f"a query with startingVersion is answered with {answer.status}", SINCE_RANGE, SINCE_FUTURE)
        return
    _check_dated(table, lines, first, "the header of a query with startingVersion has another version")
    for file in lines.files:
        is_inside, later = file.version is not None and file.version >= first, f"{first} or later"
        message, line = "a file is of a version before startingVersion, or has none", file.line.number
        table.require(SINCE_RANGE, is_inside, answer, message, seen=file.version, expected=later, line=line)
    if not lines.files:
        table.skip(f"no version since {first} changed data", SINCE_RANGE)
    future = table.query({"startingVersion": whole.version + 1_000_000}, whole.form)
    table.require_status(SINCE_FUTURE, future.status >= 400, future, "a startingVersion that does not exist")
