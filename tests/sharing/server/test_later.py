"""Queries that are answered later: when, under which id, to whom, with what answer, and how many."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.sharing.configuration.recipients import Recipient, Recipients, TokenRecord
from deltacli.sharing.configuration.secrets import digest_token
from deltacli.sharing.configuration.settings import AsyncQueries
from deltacli.sharing.model import Grant, SharedTable
from deltacli.sharing.server.guard import ServingState
from deltacli.sharing.tables.snapshots import SharedSnapshot
from tests.sharing.asgi import Reply, call_together
from tests.sharing.configuration.files import read_text
from tests.sharing.served import DELTA, PREFIX, TOKEN, Served, shared
from tests.support.actions import add, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.waiting import wait_until

TABLE = "/shares/sales/schemas/main/tables/t"
LATER = "responseformat=parquet;asyncquery=true"
MINUTE_MS = 60_000


def table_of(path: Path, files: int = 5) -> TableBuilder:
    builder = TableBuilder().commit(
        protocol(1, 4),
        metadata(configuration={"delta.enableChangeDataFeed": "true"}),
        *(add(f"part-{number}", size=1) for number in range(files)),
    )
    builder.write(path)
    return builder


def serving(path: Path, *, after_ms: int = 0, most: int = 100, **options: Any) -> Served:
    """A server that answers every query later, where it may."""
    names = ("t", "u")
    for name in names:
        if not (path / name).exists():
            table_of(path / name)
    settings = AsyncQueries(path / "queries", after_ms, most)
    return Served(tuple(shared(path / name, name) for name in names), options={"async_queries": settings, **options})


def read_body(key: str = "a key", **fields: Any) -> bytes:
    return json.dumps({"idempotencyKey": key, **fields}).encode()


def submit(served: Served, body: bytes | None = None, **headers: str) -> Reply:
    return served.query(read_body() if body is None else body, delta_sharing_capabilities=LATER, **headers)


def id_of(reply: Reply) -> str:
    assert 200 == reply.status, reply.body
    (line,) = reply.lines
    assert {"queryId", "status"} == line["queryStatus"].keys()
    return str(line["queryStatus"]["queryId"])


def poll(served: Served, query_id: str, body: bytes = b"{}", name: str = "t", **headers: str) -> Reply:
    return served.post(f"/shares/sales/schemas/main/tables/{name}/queries/{query_id}", body, **headers)


def result(served: Served, query_id: str, body: bytes = b"{}", **headers: str) -> Reply:
    """The answer of a query once it is done."""
    found: list[Reply] = []

    def is_done() -> bool:
        found[:] = [poll(served, query_id, body, **headers)]
        return found[0].status != 200 or "queryStatus" not in found[0].lines[0]

    wait_until(is_done, "the query is done")
    return found[0]


# -- when --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (read_body(), "responseformat=parquet"),
        (read_body(), "responseformat=parquet;asyncquery=false"),
        (b"{}", LATER),
        (b"", LATER),
        (read_body(startingVersion=0), LATER),
        (read_body(predicateHints=["a" * 70_000]), LATER),
    ],
)
def test_these_are_answered_at_once(tmp_path: Path, body: bytes, header: str) -> None:
    reply = serving(tmp_path).query(body, delta_sharing_capabilities=header)

    assert (200, "protocol") == (reply.status, next(iter(reply.lines[0])))
    assert "asyncquery" not in reply.headers["delta-sharing-capabilities"]
    assert not (tmp_path / "queries").exists()


def test_metadata_and_changes_are_never_answered_later(tmp_path: Path) -> None:
    served = serving(tmp_path)
    for path in ("/metadata", "/changes?startingVersion=0"):
        reply = served.table(path, delta_sharing_capabilities=LATER)
        assert (200, "protocol") == (reply.status, next(iter(reply.lines[0])))
        assert "asyncquery" not in reply.headers["delta-sharing-capabilities"]


def test_what_is_quick_is_answered_at_once_as_without_a_key(tmp_path: Path) -> None:
    served = serving(tmp_path, after_ms=600_000)
    plain = served.query(b"{}")
    assert (plain.status, plain.body, plain.headers["delta-sharing-capabilities"]) == (
        (reply := submit(served)).status, reply.body, reply.headers["delta-sharing-capabilities"]
    )  # fmt: skip


def test_without_a_directory_nothing_is_answered_later(tmp_path: Path) -> None:
    table_of(tmp_path / "t")
    reply = submit(Served((shared(tmp_path / "t"),), options={"async_queries": AsyncQueries(None, 0)}))
    assert "protocol" == next(iter(reply.lines[0]))


def test_a_directory_that_cannot_be_written_answers_at_once(tmp_path: Path) -> None:
    (tmp_path / "queries").write_text("a file")
    reply = submit(serving(tmp_path))
    assert (200, "protocol") == (reply.status, next(iter(reply.lines[0])))


def test_queries_are_kept_beside_the_key_file(tmp_path: Path) -> None:
    text = "version: 1\nshares: []\nkeyFile: keys.json\n"
    assert AsyncQueries(tmp_path / "keys.json.queries") == read_text(tmp_path, text).settings.async_queries
    text += "asyncQueries: {directory: q, afterMs: 0, pendingPerRecipient: 2}\n"
    assert AsyncQueries(tmp_path / "q", 0, 2) == read_text(tmp_path, text).settings.async_queries
    assert AsyncQueries() == read_text(tmp_path, "version: 1\nshares: []\n").settings.async_queries


# -- the id ------------------------------------------------------------------------------------------------------------


def test_a_query_is_submitted(tmp_path: Path) -> None:
    reply = submit(serving(tmp_path), fileidhash="delta")

    query_id = id_of(reply)
    assert "pending" == reply.lines[0]["queryStatus"]["status"]
    assert {
        "delta-sharing-capabilities": "responseformat=parquet;asyncquery=true",
        "delta-table-version": "0",
        "fileidhash": "delta",
        "retry-after": "1",
        "content-type": "application/x-ndjson; charset=utf-8",
    }.items() <= reply.headers.items()
    assert 65 == len(query_id)
    assert not {name for name in ("sales", "main", "key") if name in query_id.lower()}
    kept = [path for path in (tmp_path / "queries").rglob("*") if path.is_file()]
    assert kept
    assert {0o600} == {path.stat().st_mode & 0o777 for path in kept}
    assert {0o700} == {path.parent.stat().st_mode & 0o777 for path in kept}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (read_body(), b'{"idempotency_key":"a key"}'),
        (read_body(), b'{"idempotencyKey":"a key","idempotency_key":"another"}'),
        (read_body(limitHint=None), read_body()),
        (read_body(maxFiles=3), read_body(maxFiles="3")),
    ],
)
def test_equal_queries_have_one_id(tmp_path: Path, first: bytes, second: bytes) -> None:
    served = serving(tmp_path)
    assert id_of(submit(served, first)) == id_of(submit(served, second))


def test_a_key_has_one_id_at_once_and_after_a_restart_and_to_the_end(tmp_path: Path) -> None:
    served = serving(tmp_path)
    headers = {"Authorization": f"Bearer {TOKEN}", "delta-sharing-capabilities": LATER}
    replies = call_together(served.app, "POST", f"{PREFIX}{TABLE}/query", count=50, body=read_body(), headers=headers)
    ids = {id_of(reply) for reply in replies}
    again = serving(tmp_path)
    ids.add(id_of(submit(again)))
    assert 200 == result(again, next(iter(ids))).status
    ids.add(id_of(submit(serving(tmp_path))))

    assert 1 == len(ids)


@pytest.mark.parametrize(
    "other",
    [read_body(version=0), read_body(predicateHints=["a > 1"]), read_body(maxFiles=1), read_body(limitHint=1),
     read_body(includeRefreshToken=True)],
)  # fmt: skip
def test_a_key_is_of_one_query(tmp_path: Path, other: bytes) -> None:
    served = serving(tmp_path)
    id_of(submit(served))

    reply = submit(served, other)
    assert (400, "INVALID_PARAMETER_VALUE") == (reply.status, reply.json["errorCode"])
    assert 400 == submit(served, fileidhash="delta").status


@pytest.mark.parametrize("key", ["", "x" * 256, "a\n", "\u202e", 5, ["a"], True])
def test_a_key_is_a_printable_text(tmp_path: Path, key: object) -> None:
    assert 400 == submit(serving(tmp_path), json.dumps({"idempotencyKey": key}).encode()).status


@pytest.mark.parametrize(
    "body", [read_body(version=7), read_body(timestamp="x"), read_body(refreshToken="x"), read_body(maxFiles=0)]
)
def test_what_is_wrong_is_said_at_once(tmp_path: Path, body: bytes) -> None:
    reply = submit(serving(tmp_path), body)
    assert 400 == reply.status
    assert not list((tmp_path / "queries").rglob("*.json"))


def change_tables(served: Served, **fields: Any) -> None:
    """Serve the same tables with other settings."""
    catalog = served.state.configuration.catalog
    (share,) = catalog.shares
    tables = tuple(replace(table, **fields) for table in share.schemas[0].tables)
    changed = replace(catalog, shares=(replace(share, schemas=(replace(share.schemas[0], tables=tables),)),))
    served.state = replace(served.state, configuration=replace(served.state.configuration, catalog=changed))


def test_a_hidden_history_is_refused_at_once(tmp_path: Path) -> None:
    served = serving(tmp_path)
    change_tables(served, history_shared=False)

    assert 400 == submit(served, read_body(version=0)).status


@pytest.mark.parametrize(("fields", "status"), [({"history_shared": False}, 400), ({"start_version": 1}, 400)])
def test_a_history_that_is_hidden_during_a_query_is_not_given(
    tmp_path: Path, fields: dict[str, Any], status: int
) -> None:
    served = serving(tmp_path)
    older = id_of(submit(served, read_body(version=0)))
    assert 200 == result(served, older).status
    change_tables(served, **fields)

    assert status == poll(served, older).status


def test_a_query_is_not_answered_from_another_place(tmp_path: Path) -> None:
    served = serving(tmp_path)
    query_id = id_of(submit(served))
    change_tables(served, location=str(tmp_path / "u"))

    assert 404 == poll(served, query_id).status
    assert query_id != id_of(submit(served))


# -- to whom -----------------------------------------------------------------------------------------------------------


def as_recipients(served: Served, *names: str, epoch: int = 1) -> None:
    """Serve for recipients whose token is their name; the first one has the token of `Served`."""
    tokens = (TOKEN, *names[1:])
    items = tuple(
        Recipient(name, (TokenRecord(f"t-{name}", digest_token(token), 0),), (Grant("Sales"),), epoch)
        for name, token in zip(names, tokens, strict=True)
    )
    configuration = replace(served.state.configuration, bearer_token=None, recipients_file=Path("recipients.json"))
    served.state = ServingState(configuration, Recipients(items))


def test_a_query_is_of_its_recipient_and_its_table(tmp_path: Path) -> None:
    served = serving(tmp_path)
    as_recipients(served, "acme", "other")
    query_id = id_of(submit(served))

    assert query_id != id_of(submit(served, Authorization="Bearer other"))
    assert 404 == poll(served, query_id, Authorization="Bearer other").status
    assert 404 == poll(served, query_id, name="u").status
    for invented in (query_id[:-1] + ("A" if query_id[-1] != "A" else "B"), query_id[:43], "x", "a" * 65, "a" * 200):
        reply = poll(served, invented)
        assert (404, "RESOURCE_DOES_NOT_EXIST") == (reply.status, reply.json["errorCode"])
    for odd in ("a%2Fb", "..%2F", "%00"):
        assert 400 <= poll(served, odd).status < 500
    assert 200 == poll(served, query_id).status


def test_a_recipient_who_is_removed_during_a_query_gets_nothing(tmp_path: Path) -> None:
    served = serving(tmp_path)
    as_recipients(served, "acme")
    query_id = id_of(submit(served))
    as_recipients(served, "other")
    assert 404 == poll(served, query_id).status
    served.state = replace(served.state, recipients=Recipients())
    assert 401 == poll(served, query_id).status
    as_recipients(served, "acme", epoch=2)
    assert 404 == poll(served, query_id).status
    assert query_id != id_of(submit(served))


def test_no_method_but_post(tmp_path: Path) -> None:
    assert 405 == serving(tmp_path).get(f"{TABLE}/queries/x").status


# -- the answer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "headers"),
    [({}, {}), ({"version": 0}, {}), ({"maxFiles": 2}, {}), ({"limitHint": 1}, {}), ({}, {"fileidhash": "delta"}),
     ({"includeRefreshToken": True}, {})],
)  # fmt: skip
@pytest.mark.parametrize("capabilities", ["responseformat=parquet", f"{DELTA};includeendstreamaction=true"])
def test_the_answer_is_that_of_the_pinned_version(
    tmp_path: Path, fields: dict[str, Any], headers: dict[str, str], capabilities: str
) -> None:
    served = serving(tmp_path)
    expected = served.query(json.dumps(fields).encode(), delta_sharing_capabilities=capabilities, **headers)
    later = f"{capabilities};asyncquery=true"
    reply = served.query(read_body(**fields), delta_sharing_capabilities=later, **headers)
    query_id = id_of(reply)
    table_of(tmp_path / "t").commit(add("newer", size=1)).write(tmp_path / "t")

    found = result(served, query_id, delta_sharing_capabilities=later)

    assert "1" == served.table("/version").headers["delta-table-version"]
    assert expected.headers["delta-table-version"] == found.headers["delta-table-version"] == "0"
    assert expected.headers["delta-sharing-capabilities"] == found.headers["delta-sharing-capabilities"]
    assert without_tokens(expected) == without_tokens(found)


def without_tokens(reply: Reply) -> list[Any]:
    lines = reply.lines
    for line in lines:
        line.get("endStreamAction", {}).pop("nextPageToken", None)
    return lines


def test_pages_of_one_file_have_equal_heads_and_no_gap(tmp_path: Path) -> None:
    served = serving(tmp_path)
    query_id = id_of(submit(served, read_body(maxFiles=1)))
    heads, ids, tokens, body = [], [], [], b"{}"
    while True:
        page = result(served, query_id, body)
        heads.append(page.lines[:2])
        ids += [line["file"]["id"] for line in page.lines if "file" in line]
        token = page.lines[-1]["endStreamAction"].get("nextPageToken")
        if token is None:
            break
        tokens.append(token)
        body = json.dumps({"pageToken": token, "maxFiles": 1, "queryId": query_id}).encode()
        table_of(tmp_path / "t").commit(add("newer", size=1)).write(tmp_path / "t")

    assert (5, 5) == (len(ids), len(set(ids)))
    assert all(heads[0] == head for head in heads)
    assert 400 == served.query(json.dumps({"pageToken": tokens[0]}).encode()).status
    other = id_of(submit(served, read_body("another", maxFiles=1)))
    assert 200 == result(served, other).status
    assert 400 == poll(served, other, json.dumps({"pageToken": tokens[0]}).encode()).status


def test_urls_are_signed_for_each_page(tmp_path: Path) -> None:
    served = serving(tmp_path)
    query_id = id_of(submit(served))
    assert 200 == result(served, query_id).status
    served.now_ms += 50 * MINUTE_MS

    file = poll(served, query_id).lines[2]["file"]
    assert 200 == served.get(file["url"]).status or "expirationTimestamp" in file
    assert file["expirationTimestamp"] > served.now_ms + 50 * MINUTE_MS


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 200), (b"{}", 200), (b'{"queryId":"x"}', 200), (b'{"maxFiles":0}', 400), (b'{"maxFiles":"x"}', 400),
     (b"[]", 400), (b'{"pageToken":"x"}', 400)],
)  # fmt: skip
def test_bodies_of_polls(tmp_path: Path, body: bytes, status: int) -> None:
    served = serving(tmp_path)
    query_id = id_of(submit(served))
    assert 200 == result(served, query_id).status

    assert status == poll(served, query_id, body).status


def test_the_format_is_that_of_the_submission(tmp_path: Path) -> None:
    served = serving(tmp_path)
    query_id = id_of(submit(served))

    assert 400 == result(served, query_id, delta_sharing_capabilities="responseformat=delta").status
    assert 200 == poll(served, query_id, delta_sharing_capabilities="responseformat=delta,parquet").status


def test_a_failure_is_said_without_locations_and_stays(tmp_path: Path) -> None:
    served = serving(tmp_path)
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").write_text('{"protocol":')
    query_id = id_of(submit(served))

    def status() -> dict[str, str]:
        found: dict[str, str] = poll(served, query_id).lines[0]["queryStatus"]
        return found

    wait_until(lambda: status()["status"] == "failed", "the query has failed")
    table_of(tmp_path / "t")
    failed = status()
    assert {"queryId": query_id, "status": "failed"}.items() <= failed.items()
    assert str(tmp_path) not in failed["errorMessage"]
    assert "asyncquery=true" in poll(served, query_id).headers["delta-sharing-capabilities"]
    again = submit(served).lines[0]["queryStatus"]
    assert failed == again


# -- how many and how long ---------------------------------------------------------------------------------------------


class Held:
    """A table that cannot be read until it is released."""

    def __init__(self, served: Served) -> None:
        self._let, self._read = threading.Event(), served.snapshots.at
        served.snapshots.at = self._at  # type: ignore[method-assign]  # the place where a slow store would wait

    def _at(self, table: SharedTable, version: int) -> SharedSnapshot:
        assert self._let.wait(60)
        return self._read(table, version)

    def release(self) -> None:
        self._let.set()


def test_a_flood_is_refused(tmp_path: Path) -> None:
    served = serving(tmp_path, most=20)
    as_recipients(served, "acme", "other")
    held = Held(served)
    try:
        replies = [submit(served, read_body(f"key {number}")) for number in range(30)]
        assert [200] * 20 + [429] * 10 == [reply.status for reply in replies]
        assert {"TOO_MANY_REQUESTS"} == {reply.json["errorCode"] for reply in replies[20:]}
        assert int(replies[-1].headers["retry-after"]) > 0
        assert id_of(replies[0]) == id_of(submit(served, read_body("key 0")))
        assert 200 == submit(served, Authorization="Bearer other").status
        assert 200 == served.table("/version").status
        assert 21 == len(list((tmp_path / "queries").rglob("*.json")))
    finally:
        held.release()
    ids = [id_of(reply) for reply in replies[:20]]
    assert {200} == {result(served, one).status for one in ids}
    assert 200 == submit(served, read_body("one more")).status


def test_results_that_are_kept_are_limited_and_end(tmp_path: Path) -> None:
    served = serving(tmp_path, most=1)
    ids = []
    for number in range(10):
        ids.append(id_of(submit(served, read_body(f"key {number}"))))
        assert 200 == result(served, ids[-1]).status
    assert 429 == submit(served, read_body("key 10")).status
    served.now_ms += 60 * MINUTE_MS
    assert 200 == poll(served, ids[0]).status
    served.now_ms += 1
    assert 404 == poll(served, ids[0]).status
    assert 200 == submit(served, read_body("key 10")).status
    assert 1 == len(list((tmp_path / "queries").rglob("*.json")))
    assert ids[0] != id_of(submit(serving(tmp_path, most=100), read_body("key 0")))


def test_a_pending_query_that_nobody_asks_about_is_given_up(tmp_path: Path) -> None:
    served = serving(tmp_path)
    held = Held(served)
    try:
        polled, forgotten = (id_of(submit(served, read_body(key))) for key in ("polled", "forgotten"))
        served.now_ms += 19 * MINUTE_MS
        assert 200 == poll(served, polled).status
        served.now_ms += 2 * MINUTE_MS
        assert 200 == poll(served, polled).status
        assert 404 == poll(served, forgotten).status
    finally:
        held.release()
    assert "protocol" in result(served, polled).lines[0]


def test_a_damaged_record_is_a_fault_of_the_server_side_only(tmp_path: Path) -> None:
    served = serving(tmp_path)
    query_id = id_of(submit(served))
    (record,) = (tmp_path / "queries").rglob("*.json")
    stamp = record.stat().st_mtime_ns
    record.write_text("{")
    os.utime(record, ns=(stamp, stamp))

    assert 503 == poll(served, query_id).status
