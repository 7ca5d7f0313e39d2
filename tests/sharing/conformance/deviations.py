"""The deviations that the proxy plants: for each rule one that it, and if possible only it, reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from urllib3.exceptions import ProtocolError

from deltacli.sharing.conformance.lists import UNKNOWN
from tests.sharing.asgi import Reply
from tests.sharing.conformance.edits import (
    Json,
    When,
    body,
    document,
    drop,
    files,
    header,
    lines,
    meta,
    on,
    status,
)
from tests.sharing.conformance.faulty import Call, Change
from tests.sharing.served import TOKEN

TABLES = ("cm", "dv", "feed", "part")
FUTURE = 1_000_000
CAPABILITIES = "delta-sharing-capabilities"
OK = Reply(200, {"content-type": "application/json"}, b'{"items":[]}')


@dataclass(frozen=True)
class Deviation:
    """A change of answers; the rules in `also` report it, too, because they cannot be checked without it."""

    change: Callable[[], Change]
    also: tuple[str, ...] = ()
    level: str = "footers"


def _at(rest: str, table: str = "", **query: str) -> When:
    """Choose requests about a table: `*` in the query stands for any value."""

    def when(call: Call) -> bool:
        has = all(name in call.query and value in ("*", call.query[name]) for name, value in query.items())
        return call.rest == rest and call.table in (table or call.table, "") and bool(call.table) and has

    return when


def _query(test: Callable[[Mapping[str, Any]], bool], table: str = "part") -> When:
    """Choose queries by their body."""
    return lambda call: call.rest == "query" and call.table == table and test(call.body)


def _plain(table: str = "part", *, delta: bool | None = None) -> When:
    """Choose queries of a whole table."""

    def when(call: Call) -> bool:
        is_plain = call.rest == "query" and not call.body and "fileidhash" not in call.headers
        is_end = "includeend" in call.headers.get(CAPABILITIES, "")
        return call.table == table and is_plain and not is_end and delta in (None, call.wants_delta)

    return when


def _list(name: str, **query: str) -> When:
    """Choose requests of a list by the last part of their path."""

    def when(call: Call) -> bool:
        has = all(key in call.query and value in ("*", call.query[key]) for key, value in query.items())
        return call.path.split("/")[-1] == name and call.token == TOKEN and has

    return when


def _unknown(call: Call) -> bool:
    return UNKNOWN in call.path


def _without_token(call: Call) -> bool:
    return call.path == "shares" and not call.token


def _range(call: Call) -> bool:
    return call.path.startswith("_files") and call.headers.get("range", "") not in ("", "bytes=0-0")


def _answered(reply: Reply) -> Callable[[Reply], Reply]:
    return lambda _: reply


def _items(change: Callable[[list[Json]], list[Json] | None]) -> Callable[[Reply], Reply]:
    def edit(content: Json) -> None:
        changed = change(content["items"])
        content["items"] = content["items"] if changed is None else changed

    return document(edit)


def _set(name: str, value: object) -> Callable[[list[Json]], None]:
    def edit(items: list[Json]) -> None:
        for item in items:
            item[name] = value

    return edit


def _field(name: str, value: object = None, *, remove: bool = False) -> Callable[[Json, Json], None]:
    """Change a field of every file, in its line or its action, whichever has it."""

    def edit(fields: Json, action: Json) -> None:
        holder = fields if name in fields else action
        if remove:
            holder.pop(name, None)
        elif name in holder:
            holder[name] = value(holder[name]) if callable(value) else value

    return edit


def _feed(*edits: Callable[[Reply], Reply]) -> Callable[[], Change]:
    """Change every change feed."""
    return lambda: on(_at("changes"), *edits)


def _all_files(edit: Callable[[Json, Json], None]) -> Callable[[Reply], Reply]:
    return files(edit, first=False)


def _end(change: Callable[[Json], None]) -> Callable[[Reply], Reply]:
    return lines(lambda found: change(found[-1]["endStreamAction"]))


def _as_format(form: str) -> Callable[[Reply], Reply]:
    """Answer with the head of a table in another format, without files."""

    def edit(reply: Reply) -> Reply:
        fields = reply.lines[1]["metaData"] if reply.status == 200 else {}
        found = fields.get("deltaMetadata", fields)
        about = {
            "id": found.get("id", "x"),
            "format": {"provider": "parquet"},
            "schemaString": found.get("schemaString", '{"type":"struct","fields":[]}'),
            "partitionColumns": found.get("partitionColumns", []),
        }
        head: list[Json] = [{"protocol": {"minReaderVersion": 1}}, {"metaData": about}]
        if form == "delta":
            versions = {"minReaderVersion": 1, "minWriterVersion": 2}
            wrapped = {"deltaMetadata": {**about, "configuration": {}}}
            head = [{"protocol": {"deltaProtocol": versions}}, {"metaData": wrapped}]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in head)
        kept = {"content-type": "application/x-ndjson", "delta-table-version": "1"}
        version = {"delta-table-version": reply.headers.get("delta-table-version", "1")}
        return Reply(200, {**kept, **version, CAPABILITIES: f"responseformat={form}"}, data)

    return edit


def _without_totals(found: list[Json]) -> None:
    for name in ("size", "numFiles"):
        found[1]["metaData"].pop(name, None)


def _one_page() -> Change:
    """Answer the first page with all files, and no token."""
    whole: list[Reply] = []

    def change(call: Call, reply: Reply) -> Reply:
        if _plain(delta=True)(call):
            whole[:] = [reply]
        if _query(lambda sent: "maxFiles" in sent)(call) and whole:
            return replace(whole[0], body=whole[0].body + b'{"endStreamAction":{}}\n')
        return reply

    return change


def _broken(call: Call, reply: Reply) -> Reply:
    if _at("changes", "part")(call):
        raise ProtocolError("the peer closed the connection")
    return reply


def _stats(change: Callable[[Json], None]) -> Callable[[Json, Json], None]:
    def edit(_fields: Json, action: Json) -> None:
        if "stats" in action:
            found = json.loads(action["stats"])
            change(found)
            action["stats"] = json.dumps(found)

    return edit


def _larger(found: list[Json]) -> None:
    _without_totals(found)
    for line in found[2:]:
        for action in line.get("file", {}).get("deltaSingleAction", {}).values():
            action["size"] += 1


def _other_host(_fields: Json, action: Json) -> None:
    for name in ("path", "url"):
        if name in action:
            action[name] = action[name].replace("share.test", "inside.test")


def _more_files(found: list[Json]) -> list[Json]:
    if len(found) == 2:
        return found
    extra = json.loads(json.dumps(found[-1]))
    extra["file"]["id"] = "planted"
    return [*found, extra]


def _swap(found: list[Json]) -> list[Json]:
    return [found[1], found[0], *found[2:]]


def _without_schema(items: list[Json]) -> None:
    del items[0]["schema"]


def _without_reader_version(found: list[Json]) -> None:
    del found[0]["protocol"]["deltaProtocol"]["minReaderVersion"]


def _merge(found: list[Json]) -> list[Json]:
    return [{**found[0], **found[1]}, *found[2:]]


def _whole_list(content: Json) -> Json:
    return {"items": [{"name": name, "schema": "Main", "share": "Sales"} for name in TABLES]}


def _is_json_hint(sent: Mapping[str, Any]) -> bool:
    return "jsonPredicateHints" in sent and "limitHint" not in sent


def _named_twice(call: Call) -> bool:
    return call.table == "part" and call.rest in ("query", "metadata")


ANSWERS: dict[str, Deviation] = {
    "no-answer": Deviation(lambda: _broken),
    "server-error": Deviation(lambda: on(_unknown, status(500), only_ok=False)),
    "error-body": Deviation(lambda: on(_unknown, body(b"<p>no</p>"), only_ok=False)),
    "error-content-type": Deviation(lambda: on(_unknown, header("content-type", "text/plain"), only_ok=False)),
    "redirect": Deviation(lambda: on(lambda call: call.method == "HEAD", status(301))),
    "token-not-required": Deviation(lambda: on(_without_token, _answered(OK), only_ok=False)),
    "token-not-checked": Deviation(lambda: on(lambda call: "wrong-token" in call.token, _answered(OK), only_ok=False)),
    "unauthenticated-status": Deviation(lambda: on(_without_token, status(403), only_ok=False)),
    "unknown-not-404": Deviation(lambda: on(_unknown, _answered(OK), only_ok=False)),
}

LISTS: dict[str, Deviation] = {
    "list-content-type": Deviation(lambda: on(_list("shares"), header("content-type", "text/html"))),
    "list-body": Deviation(
        lambda: on(_list("all-tables"), document(lambda found: found["items"])), ("all-tables-differ",)
    ),
    "list-item-field": Deviation(lambda: on(_list("all-tables"), _items(_without_schema)), ("all-tables-differ",)),
    "list-item-elsewhere": Deviation(lambda: on(_list("schemas"), _items(_set("share", "Other")))),
    "name-invalid": Deviation(
        lambda: on(
            lambda call: call.path.endswith(("/tables", "/all-tables")),
            lambda reply: replace(reply, body=reply.body.replace(b'"part"', b'"pa rt"')),
        ),
        ("version-differs",),
    ),
    "id-repeated": Deviation(lambda: on(_list("tables"), _items(_set("id", "one")))),
    "id-differs": Deviation(lambda: on(_list("shares"), _items(_set("id", "another")))),
    "get-share": Deviation(lambda: on(_list("Sales"), status(404))),
    "name-case": Deviation(lambda: on(_list("SALES"), status(404))),
    "list-page-size": Deviation(lambda: on(_list("tables", maxResults="2"), document(_whole_list))),
    "list-pages-differ": Deviation(lambda: on(_list("tables", pageToken="*"), _items(lambda items: items[1:]))),
    "list-pages-endless": Deviation(
        lambda: (
            lambda call, reply: (
                document(lambda found: found.update(nextPageToken=call.query["pageToken"]))(reply)
                if _list("tables", pageToken="*", maxResults="*")(call)
                else reply
            )
        )
    ),
    "list-max-results-zero": Deviation(
        lambda: on(_list("shares", maxResults="0"), document(lambda _: {"items": [{"name": "Sales"}]}))
    ),
    "list-bad-max-results": Deviation(lambda: on(_list("shares", maxResults="-1"), _answered(OK), only_ok=False)),
    "list-bad-page-token": Deviation(
        lambda: on(lambda call: call.query.get("pageToken", "").startswith("deltacli"), _answered(OK), only_ok=False)
    ),
    "all-tables-differ": Deviation(lambda: on(_list("all-tables"), _items(lambda items: items[1:]))),
}

VERSIONS: dict[str, Deviation] = {
    "version-body": Deviation(lambda: on(_at("version"), body(b"1"))),
    "version-head": Deviation(lambda: on(lambda call: call.method == "HEAD", header("delta-table-version", "99"))),
    "version-differs": Deviation(
        lambda: on(lambda call: _at("metadata", "part")(call) and not call.query, header("delta-table-version", "0"))
    ),
    "version-since": Deviation(
        lambda: on(
            lambda call: call.query.get("startingTimestamp", "2000") > "2001" and call.rest == "version",
            header("delta-table-version", "0"),
        )
    ),
    "version-since-early": Deviation(lambda: on(_at("version", startingTimestamp="2000-01-01T00:00:00Z"), status(400))),
    "as-of-newest-differs": Deviation(lambda: on(_query(lambda sent: "version" in sent), drop(-1))),
    "as-of-header": Deviation(lambda: on(_query(lambda sent: "version" in sent), header("delta-table-version", "0"))),
    "as-of-fields": Deviation(
        lambda: on(_query(lambda sent: "version" in sent), _all_files(_field("version", remove=True)))
    ),
    "version-unknown": Deviation(
        lambda: on(_query(lambda sent: sent.get("version", 0) >= FUTURE), _answered(OK), only_ok=False)
    ),
    "timestamp-differs": Deviation(
        lambda: on(_query(lambda sent: "timestamp" in sent), header("delta-table-version", "0"))
    ),
    "timestamp-invalid": Deviation(
        lambda: on(_query(lambda sent: sent.get("timestamp") == "yesterday"), _answered(OK), only_ok=False)
    ),
    "version-and-timestamp": Deviation(
        lambda: on(_query(lambda sent: {"version", "timestamp"} <= sent.keys()), _answered(OK), only_ok=False)
    ),
}

LINE_FORM: dict[str, Deviation] = {
    "lines-content-type": Deviation(_feed(header("content-type", "application/json"))),
    "version-header": Deviation(_feed(header("delta-table-version", None))),
    "line-not-json": Deviation(_feed(lambda reply: replace(reply, body=reply.body + b"\n"))),
    "line-wrapper": Deviation(_feed(lines(_merge))),
    "line-splits": Deviation(
        lambda: on(
            _at("metadata"),
            lambda reply: replace(
                reply, body=reply.body.replace(b'{"metaData":{', '{"metaData":{"x":"\u2028",'.encode())
            ),
        )
    ),
    "line-order": Deviation(_feed(lines(_swap))),
    "end-unasked": Deviation(lambda: on(_plain(), lines(lambda found: [*found, {"endStreamAction": {}}]))),
    "end-missing": Deviation(lambda: on(_query(lambda sent: "includeRefreshToken" in sent), drop(-1))),
    "answer-failed": Deviation(
        lambda: on(_query(lambda sent: "includeRefreshToken" in sent), _end(lambda end: end.update(errorMessage="no")))
    ),
    "format-header": Deviation(lambda: on(_plain(delta=True), header(CAPABILITIES, None))),
}

TABLE_LINES: dict[str, Deviation] = {
    "protocol-line": Deviation(_feed(lines(_without_reader_version))),
    "metadata-field": Deviation(_feed(meta(lambda fields: fields.pop("format")))),
    "metadata-schema": Deviation(_feed(meta(lambda fields: fields.update(schemaString="{}")))),
    "metadata-totals": Deviation(lambda: on(_plain(), lines(lambda found: found[1]["metaData"].update(numFiles=99)))),
    "file-field": Deviation(_feed(_all_files(_field("id", remove=True)))),
    "action-field": Deviation(_feed(_all_files(lambda _, action: action.pop("size", None)))),
    "file-id-repeated": Deviation(
        lambda: on(_query(lambda _: True), _all_files(_field("id", "one"))), ("hint-adds-files",)
    ),
    "partition-values": Deviation(_feed(_all_files(_field("partitionValues", {})))),
    "partition-value-text": Deviation(_feed(_all_files(_field("partitionValues", {"part": "x"})))),
    "stats-invalid": Deviation(_feed(_all_files(_field("stats", "[]")))),
    "url-not-https": Deviation(_feed(_all_files(_field("path", "s3://bucket/part-0.parquet")))),
    "expiration": Deviation(_feed(_all_files(_field("expirationTimestamp", lambda found: found // 1_000)))),
    "vector-url": Deviation(
        lambda: on(_query(lambda _: True, "dv"), _all_files(_field("deletionVectorFileId", remove=True)))
    ),
}

FORMATS: dict[str, Deviation] = {
    "format-default": Deviation(lambda: on(_plain(delta=False), _as_format("delta")), also=("metadata-field",)),
    "format-ignored": Deviation(lambda: on(_plain(delta=True), _as_format("parquet"))),
    "format-advanced": Deviation(
        lambda: on(
            lambda call: "responseformat=parquet,delta" in call.headers.get(CAPABILITIES, ""), _as_format("parquet")
        )
    ),
    "capabilities-case": Deviation(
        lambda: on(lambda call: "ResponseFormat" in call.headers.get(CAPABILITIES, ""), _as_format("parquet"))
    ),
    "capabilities-unknown": Deviation(
        lambda: on(lambda call: "deltacliunknown" in call.headers.get(CAPABILITIES, ""), status(400))
    ),
    "feature-unasked": Deviation(
        lambda: on(
            lambda call: call.table == "dv" and call.headers.get(CAPABILITIES) == "responseformat=delta",
            _answered(OK),
            only_ok=False,
        )
    ),
    "formats-differ": Deviation(lambda: on(_plain(delta=False), lines(_without_totals), drop(-1))),
    "metadata-lines": Deviation(lambda: on(_at("metadata"), lines(lambda found: [*found, found[1]]))),
    "metadata-differs": Deviation(lambda: on(_at("metadata"), meta(lambda fields: fields.update(id="another")))),
    "file-id-hash": Deviation(lambda: on(lambda call: "fileidhash" in call.headers, header("fileidhash", "Delta"))),
    "file-id-unstable": Deviation(
        lambda: on(
            lambda call: call.table == "part" and "fileidhash" in call.headers and call.wants_delta,
            _all_files(_field("id", lambda found: f"other-{found}")),
        )
    ),
}

QUERIES: dict[str, Deviation] = {
    "query-malformed": Deviation(
        lambda: on(lambda call: call.rest == "query" and "damaged" in call.body, _answered(OK), only_ok=False)
    ),
    "query-unknown-field": Deviation(lambda: on(_query(lambda sent: "deltacliUnknown" in sent), status(400))),
}

PAGING: dict[str, Deviation] = {
    "page-size": Deviation(_one_page),
    "pages-differ": Deviation(lambda: on(_query(lambda sent: "pageToken" in sent), drop(2))),
    "pages-endless": Deviation(
        lambda: (
            lambda call, reply: (
                _end(lambda end: end.update(nextPageToken=call.body["pageToken"]))(reply)
                if _query(lambda sent: "pageToken" in sent)(call) and reply.status == 200
                else reply
            )
        )
    ),
    "page-head": Deviation(
        lambda: on(_query(lambda sent: "pageToken" in sent), meta(lambda fields: fields.update(name="x")))
    ),
    "page-token-not-checked": Deviation(
        lambda: on(_query(lambda sent: {"pageToken", "limitHint"} <= sent.keys()), _answered(OK), only_ok=False)
    ),
    "end-promised-not-sent": Deviation(
        lambda: on(_query(lambda sent: "includeRefreshToken" in sent), header(CAPABILITIES, "responseformat=delta"))
    ),
    "refresh-differs": Deviation(lambda: on(_query(lambda sent: "refreshToken" in sent), drop(2))),
}

HINTS: dict[str, Deviation] = {
    "hint-loses-rows": Deviation(
        lambda: on(_query(lambda sent: _is_json_hint(sent) and '"not"' in sent["jsonPredicateHints"]), drop(2))
    ),
    "hint-adds-files": Deviation(lambda: on(_query(_is_json_hint), lines(_more_files))),
    "hint-invalid-refused": Deviation(
        lambda: on(_query(lambda sent: sent.get("jsonPredicateHints") == "{"), status(400))
    ),
    "hint-invalid-filters": Deviation(
        lambda: on(_query(lambda sent: "no_such_column" in str(sent.get("predicateHints"))), drop(2))
    ),
    "limit-too-few": Deviation(lambda: on(_query(lambda sent: list(sent) == ["limitHint"]), drop(-1))),
    "limit-before-predicate": Deviation(
        lambda: on(_query(lambda sent: {"jsonPredicateHints", "limitHint"} <= sent.keys()), drop(2))
    ),
}

CHANGES: dict[str, Deviation] = {
    "changes-start": Deviation(
        lambda: on(lambda call: _at("changes")(call) and not call.query, _answered(OK), only_ok=False)
    ),
    "changes-reversed": Deviation(
        lambda: on(
            lambda call: int(call.query.get("startingVersion", 0)) > int(call.query.get("endingVersion", 9)),
            _answered(OK),
            only_ok=False,
        )
    ),
    "changes-range": Deviation(_feed(_all_files(_field("version", lambda found: found + 100)))),
    "changes-fields": Deviation(_feed(_all_files(_field("timestamp", remove=True)))),
    "changes-header": Deviation(_feed(header("delta-table-version", "99"))),
    "changes-parts-differ": Deviation(
        lambda: on(lambda call: call.rest == "changes" and call.query.get("startingVersion", "0") != "0", drop(2))
    ),
    "changes-by-time": Deviation(lambda: on(_at("changes", startingTimestamp="*"), drop(2))),
    "since-range": Deviation(
        lambda: on(_query(lambda sent: "startingVersion" in sent), _all_files(_field("version", remove=True))),
        also=("changes-fields",),
    ),
    "since-unknown": Deviation(
        lambda: on(_query(lambda sent: sent.get("startingVersion", 0) >= FUTURE), _answered(OK), only_ok=False)
    ),
}

FILES: dict[str, Deviation] = {
    "url-private": Deviation(lambda: on(_plain(), _all_files(_other_host))),
    "url-unreadable": Deviation(lambda: on(_range, status(403))),
    "url-range": Deviation(
        lambda: on(_range, lambda reply: replace(reply, status=200), header("content-length", None))
    ),
    "file-size": Deviation(lambda: on(_plain(delta=True), lines(_larger))),
    "file-not-parquet": Deviation(lambda: on(_range, lambda reply: replace(reply, body=b"\0" * len(reply.body)))),
    "url-unsigned": Deviation(
        lambda: on(
            lambda call: call.path.startswith("_files") and not call.query,
            _answered(Reply(206, {}, b"P")),
            only_ok=False,
        )
    ),
    "stats-records": Deviation(
        lambda: on(
            _query(lambda _: True),
            _all_files(_stats(lambda found: found.update(numRecords=2 * found["numRecords"]))),
        )
    ),
    "file-columns": Deviation(
        lambda: on(
            _named_twice,
            lambda reply: replace(
                reply, body=reply.body.replace(b'"number\\"', b'"nummer\\"').replace(b'"a_float\\"', b'"afloat\\"')
            ),
        )
    ),
    "vector-unreadable": Deviation(
        lambda: on(
            lambda call: call.path.startswith("_files") and call.headers.get("range") == "bytes=1-4", status(404)
        )
    ),
    "stats-bounds": Deviation(
        lambda: on(_query(lambda _: True), _all_files(_stats(lambda found: found["minValues"].update(number=999)))),
        level="data",
    ),
}

DEVIATIONS: dict[str, Deviation] = {
    f"share.{rule}": deviation
    for area in (ANSWERS, LISTS, VERSIONS, LINE_FORM, TABLE_LINES, FORMATS, QUERIES, PAGING, HINTS, CHANGES, FILES)
    for rule, deviation in area.items()
}
"""Rule -> the deviation that it reports."""
