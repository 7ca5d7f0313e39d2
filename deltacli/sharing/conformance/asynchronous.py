"""The rules about asynchronous queries: a submission, polls until there is a result, and what both have in common."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from deltacli.rules.framework.base import Level, Rule, Severity
from deltacli.sharing.client.faults import CAPABILITY, AnswerInvalid, QueryStatus, path_of, read_status
from deltacli.sharing.conformance.files import probes_of
from deltacli.sharing.conformance.lines import Lines, status_of, version_of
from deltacli.sharing.conformance.versions import (
    ASYNC_UNASKED,
    HEADERS,
    SharedTableTest,
    header_of,
    page_size,
    walk_pages,
)
from deltacli.sharing.conformance.wire import CAPABILITIES, Rules, WireAnswer

ASYNC_AREA = Rules("Asynchronous queries", Level.API)
ASYNC_AREA.rules.append(ASYNC_UNASKED)

REFUSED = ASYNC_AREA.row("""error share.async-refused | The capability asyncquery=true makes no request fail. | Delta
    Sharing Capabilities Header (asyncquery); Read Data from a Table (idempotencyKey) | Spark, which sends it with every
    request, cannot read the table | ignore the capability, or answer asynchronously | 400 for asyncquery=true""")
ECHO = ASYNC_AREA.row("""error share.async-echo | An answer to a submission has asyncquery=true in its header if it has
    a queryStatus, and only then. | Delta Sharing Capabilities Header (asyncquery) | clients look for a queryStatus that
    is not there, or take it for the table | send the capability with a queryStatus only | asyncquery=true in the header
    of an answer with files""")
STATUS = ASYNC_AREA.row("""error share.async-status | A queryStatus is the only line, with a queryId that is the same in
    all answers about the query, and the status pending or failed. | Read Data from a Table (queryStatus: queryId,
    status) | clients cannot poll, or poll for ever | send {"queryStatus": {"queryId": "…", "status": "pending"}}, and
    the result itself when it is there | the status succeeded""")
DEDUPLICATE = ASYNC_AREA.row("""error share.async-deduplicate | The same idempotencyKey with the same body leads to the
    same queryId. | Read Data from a Table (idempotencyKey) | a repeated submission starts another query, perhaps of
    another version | remember the queryId of each key | two ids for one key""")
SPARK = ASYNC_AREA.row("""info share.async-spark | The key is also accepted as idempotency_key, and pending answers have
    Delta-Table-Version, as the Spark client needs it. | Read Data from a Table (idempotencyKey, Delta-Table-Version) |
    Spark cannot read the table with useAsyncQuery | accept both names, and send the header in every answer | no header
    while the query is pending""")
ASYNC_HEADER = ASYNC_AREA.row("""error share.async-version-header | The result of an asynchronous query has the header
    Delta-Table-Version. | Read Data from a Table (Delta-Table-Version: present once the query has succeeded) | clients
    do not know which version they read | send the version of the submission | no header in the last answer""")
RESULT_DIFFERS = ASYNC_AREA.row("""error share.async-result-differs | The result of an asynchronous query is the answer
    that the same query gets at once. | Read Data from a Table (POST …/queries/{queryId}) | clients lose or invent rows
    | answer both from the same version | a file less in the result""")
PARAMETERS_LOST = ASYNC_AREA.row("""error share.async-parameters-lost | The result keeps predicates, version and format
    of the submission. | Read Data from a Table (POST …/queries/{queryId}) | clients read another version or format, or
    every file | store the parameters with the query | the newest version for a query of an older one""")
ASYNC_PAGES = ASYNC_AREA.row("""error share.async-pages | The pages of a result have the same version, protocol and
    metadata, and together each file once; they end. | Read Data from a Table (POST …/queries/{queryId}: maxFiles,
    pageToken) | clients lose or repeat rows, or never finish | continue behind the last file, and omit nextPageToken on
    the last page | a file at the border of two pages is missing""")
UNKNOWN_ID = ASYNC_AREA.row("""error share.async-unknown-id | A queryId that the server never gave is answered with 404.
    | Read Data from a Table (POST …/queries/{queryId}: 404) | everyone reads with an invented id, or clients poll for
    ever | answer 404 with RESOURCE_DOES_NOT_EXIST | the table for an invented id""")
ID_NAMES = ASYNC_AREA.row("""warning share.async-id-names | A queryId contains no name of the table, and is not a plain
    counter. | Read Data from a Table (queryStatus: queryId) | ids of other recipients can be guessed | make ids at
    random | sales-orders-17""")

_POLLED = (STATUS, ASYNC_HEADER, RESULT_DIFFERS, PARAMETERS_LOST, ASYNC_PAGES)
_IF_ASYNCHRONOUS = (*_POLLED, DEDUPLICATE, SPARK, UNKNOWN_ID, ID_NAMES)
_PAUSES = (0.5, 1, 2, 4, 8, 10, 10, 10, 10, 10, 10)
_COUNTER = re.compile(r"\D{0,8}\d{1,9}")
_HEX_WORD = 6
"""Longer words are not in a random id by chance."""
_UNKNOWN = "deltacli-share-test-no-such-query"


@dataclass
class _Query:
    """A submitted query, and the polls about it."""

    table: SharedTableTest
    form: str
    body: Mapping[str, object]

    def submit(self, key: str, name: str = "idempotencyKey") -> WireAnswer:
        return self.table.query({**self.body, name: key}, self.form, self.headers)

    @property
    def headers(self) -> dict[str, str]:
        return {CAPABILITIES: f"{header_of(self.form)};{CAPABILITY}"}

    def poll(self, query_id: str, body: Mapping[str, object] | None = None) -> WireAnswer | None:
        """Return the first answer that is not pending, None where there is none in time or the query failed."""
        for pause in _PAUSES:
            answer = self.table.post(path_of(query_id)[1:], json.dumps(body or {}).encode(), HEADERS[self.form])
            if status_of(answer) is None:
                return answer
            status = _check_status(self.table, answer, query_id)
            if status is None:
                return None
            if status.error is not None:
                message = "an asynchronous query fails, and the same query at once is answered"
                self.table.require(RESULT_DIFFERS, False, answer, message, seen=status.error or "failed")
                return None
            self.table.tester.wire.wait(pause)
        self.table.skip(f"the query was still pending after {sum(_PAUSES):g} seconds", *_POLLED)
        return None

    def run(self) -> Lines | None:
        """Submit the query and return its result."""
        answer = self.submit(str(uuid.uuid4()))
        polled = self.poll(_id_of(answer)) if status_of(answer) is not None else answer
        return None if polled is None else self.table.read(polled)


def check_async(table: SharedTableTest) -> None:
    """Submit queries with the capability, poll, and compare the results with the answers at once."""
    whole = table.whole
    if whole is None:
        return
    query, key = _Query(table, whole.form, {}), str(uuid.uuid4())
    answer = query.submit(key)
    metadata = table.ask("metadata", headers=query.headers)
    for asked, words in ((answer, "a query"), (metadata, "the metadata")):
        table.require_answered(REFUSED, asked, f"{words} with asyncquery=true")
    status = status_of(answer)
    if answer.is_ok:
        echo = CAPABILITY in answer.headers.get(CAPABILITIES, "").lower()
        message = "the header has asyncquery=true without a queryStatus" if echo else "a queryStatus without the header"
        is_right, seen = echo == (status is not None), answer.headers.get(CAPABILITIES, "missing")
        table.require(ECHO, is_right, answer, message, seen=seen)
    if status is None:
        table.read(answer)
        table.skip("the server does not answer queries asynchronously", *_IF_ASYNCHRONOUS)
        return
    if (submitted := _check_status(table, answer)) is not None:
        _check_submission(query, key, answer, submitted.query_id)
        _check_result(query, whole, submitted.query_id)
        _check_parameters(table, whole)
        _check_pages(table, whole)


def _id_of(answer: WireAnswer) -> str:
    """Return the queryId of an answer, an empty text for one without."""
    found = (status_of(answer) or {}).get("queryId")
    return found if isinstance(found, str) else ""


def _check_status(table: SharedTableTest, answer: WireAnswer, query_id: str | None = None) -> QueryStatus | None:
    """Check a queryStatus, as the client reads it; return None for one that it cannot use."""
    fields = status_of(answer) or {}
    try:
        found = read_status(fields, query_id)
    except AnswerInvalid as fault:
        table.require(STATUS, False, answer, fault.message, seen=", ".join(map(str, fields.values())))
        return None
    table.require(STATUS, answer.body.strip().count(b"\n") == 0, answer, "a queryStatus is not the only line")
    name, message = str(fields["status"]), "the status of a query is not in lower case"
    table.require(STATUS, name.islower(), answer, message, seen=name, severity=Severity.WARNING)
    return found


def _check_submission(query: _Query, key: str, answer: WireAnswer, query_id: str) -> None:
    table, require = query.table, query.table.require
    names = [name.lower() for name in table.base.split("/")[1::2]]
    pieces = re.split(r"[^a-z0-9]+", query_id.lower())
    is_named = any(name in pieces or (len(name) > _HEX_WORD and name in query_id.lower()) for name in names)
    is_told = is_named or _COUNTER.fullmatch(query_id) is not None
    require(ID_NAMES, not is_told, answer, "a queryId has a name of the table, or is a plain counter", seen=query_id)
    again = query.submit(key)
    found, message = _id_of(again), "the same idempotencyKey leads to another queryId"
    is_same = require(DEDUPLICATE, found == query_id, again, message, seen=found or again.status, expected=query_id)
    found = _id_of(spelled := query.submit(key, "idempotency_key"))
    is_accepted = bool(found) and (found == query_id or not is_same)
    require(SPARK, is_accepted, spelled, "idempotency_key is not the key of a query", seen=found or spelled.status)
    has_version = version_of(answer) is not None
    require(SPARK, has_version, answer, "a pending answer has no Delta-Table-Version", seen="missing")
    unknown = table.post(f"queries/{_UNKNOWN}", b"{}", HEADERS[query.form])
    is_refused, words = unknown.status == 404 or unknown.status >= 500, "a queryId that the server never gave"
    table.require_status(UNKNOWN_ID, is_refused, unknown, words, expected=404)


def _check_result(query: _Query, whole: Lines, query_id: str) -> None:
    """Compare the result of a query of the whole table with the answer at once."""
    table, answer = query.table, query.poll(query_id)
    if answer is None:
        return
    message = "the result of a query has no version in its header"
    table.require(ASYNC_HEADER, version_of(answer) is not None, answer, message, seen="missing")
    lines = table.same_version(table.read(answer), (RESULT_DIFFERS,))
    if lines is None:
        if not answer.is_ok:
            table.require_answered(RESULT_DIFFERS, answer, "a poll for the result")
        return
    _require_same(RESULT_DIFFERS, table, lines, whole)


def _require_same(rule: Rule, table: SharedTableTest, lines: Lines, expected: Lines) -> None:
    same = {
        "format": lines.form == expected.form,
        "version": lines.version in (expected.version, None),
        "metadata": lines.form != expected.form or lines.meta == expected.meta,
        "files": sorted(lines.by_id) == sorted(expected.by_id),
    }
    words = "the result differs from the answer at once in"
    seen, told = (f"{one.form}, version {one.version}, {len(one.files)} files" for one in (lines, expected))
    table.require_same(rule, same, lines.answer, words, seen=seen, expected=told)


def _check_parameters(table: SharedTableTest, whole: Lines) -> None:
    """Compare results of queries with the answers at once, where these differ from the whole table: of the other
    format, of an older version, and of the first predicates that prune.
    """
    queries: list[tuple[str, Mapping[str, object]]] = [(form, {}) for form in table.wholes if form != whole.form]
    if table.has_history and whole.version:
        queries.append((whole.form, {"version": whole.version - 1}))
    useful = [probe.body for probe in probes_of(whole) if 0 < len(probe.needed) < len(whole.files)]
    for form, body in (*queries, *((whole.form, body) for body in useful[:2])):
        at_once = table.read(table.query(body, form))
        if at_once is None:
            continue
        is_whole = sorted(at_once.by_id) == sorted(whole.by_id) and at_once.version == whole.version
        if (is_whole and at_once.form == whole.form) or (lines := _Query(table, form, body).run()) is None:
            continue
        _require_same(PARAMETERS_LOST, table, lines, at_once)
    table.skip("no parameter makes an answer differ from that of the whole table", PARAMETERS_LOST)


def _check_pages(table: SharedTableTest, whole: Lines) -> None:
    if not whole.files:
        table.skip("the table has no files", ASYNC_PAGES)
        return
    query = _Query(table, whole.form, {"maxFiles": page_size(whole)})
    query_id = _id_of(answer := query.submit(str(uuid.uuid4())))
    first = query.poll(query_id, query.body) if query_id else None
    if first is None:
        table.skip(f"no result of a query with maxFiles: {answer.status}", ASYNC_PAGES)
        return
    walk_pages(table, whole, lambda page: query.poll(query_id, page) or first, (ASYNC_PAGES,) * 4)
