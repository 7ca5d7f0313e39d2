"""Pages of files, refresh tokens, and tokens that were changed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deltacli.sharing.tables.snapshots import SharedSnapshots
from tests.sharing.asgi import Reply
from tests.sharing.served import DELTA, Served, shared
from tests.support.actions import add, metadata, protocol, to_bytes
from tests.support.builder import TableBuilder, commit_path
from tests.support.effort import InTurn

TABLE = "/shares/Sales/schemas/Main/tables/t"
PAGED = f"{DELTA};includeEndStreamAction=true"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """A server of a table with ten versions and seven files, with its history, and once without."""
    path = TableBuilder().commits(10).checkpoint(4).write(tmp_path / "t")
    return Served((shared(path), shared(path, "closed", history_shared=False)))


def _body(**fields: Any) -> bytes:  # Any: JSON values
    return json.dumps(fields).encode()


def test_pages_have_every_file_once_also_when_the_cache_is_lost(served: Served) -> None:
    whole = served.query(delta_sharing_capabilities=DELTA)
    heads, ids, token = set[bytes](), list[str](), None
    while True:
        reply = served.query(
            _body(maxFiles=2, **({"pageToken": token} if token else {})), delta_sharing_capabilities=DELTA
        )
        heads.add(b"\n".join(reply.body.split(b"\n")[:2]))
        ids += [line["file"]["id"] for line in reply.lines[2:-1]]
        token = reply.lines[-1]["endStreamAction"].get("nextPageToken")
        served.snapshots.forget()
        if token is None:
            break

    assert sorted(line["file"]["id"] for line in whole.lines[2:]) == sorted(ids)
    assert {b"\n".join(whole.body.split(b"\n")[:2])} == heads


def test_a_page_token_keeps_its_version_while_the_table_grows(served: Served, tmp_path: Path) -> None:
    first = served.query(_body(maxFiles=2)).lines[-1]["endStreamAction"]["nextPageToken"]
    TableBuilder().commits(14).write(tmp_path / "t")

    second = served.query(_body(maxFiles=2, pageToken=first))

    assert ("9", "13") == (
        second.headers["delta-table-version"],
        served.query().headers["delta-table-version"],
    )


@pytest.mark.parametrize(
    "others, headers",
    [
        ({"limitHint": 3}, {}),
        ({"predicateHints": ["a = 1"]}, {}),
        ({"version": 3}, {}),
        ({}, {"delta_sharing_capabilities": DELTA}),
        ({}, {"fileidhash": "delta"}),
    ],
)
def test_a_page_token_is_refused_by_another_request(
    served: Served, others: dict[str, Any], headers: dict[str, str]
) -> None:
    token = served.query(_body(maxFiles=2)).lines[-1]["endStreamAction"]["nextPageToken"]

    reply = served.query(_body(pageToken=token, **others), **headers)

    assert (400, "INVALID_PARAMETER_VALUE") == (reply.status, reply.json["errorCode"])


def test_tokens_are_refused_for_other_tables_and_after_their_time(served: Served) -> None:
    reply = served.query(_body(maxFiles=2, includeRefreshToken=True))
    end = reply.lines[-1]["endStreamAction"]
    page, refresh = _body(pageToken=end["nextPageToken"]), _body(refreshToken=end["refreshToken"])

    elsewhere = [served.query(body, "closed").status for body in (page, refresh)]
    served.now_ms += 3 * 24 * 3_600_000
    late = [served.query(body).status for body in (page, refresh)]

    assert [400, 400] == elsewhere == late


def test_a_refresh_token_reads_its_version_again(served: Served, tmp_path: Path) -> None:
    token = served.query(_body(includeRefreshToken=True), "closed").lines[-1]["endStreamAction"]["refreshToken"]
    TableBuilder().commits(14).write(tmp_path / "t")

    again = served.query(_body(refreshToken=token), "closed")

    assert (200, "9") == (again.status, again.headers["delta-table-version"])


@pytest.mark.halved
def test_a_token_with_any_bit_changed_is_refused(served: Served, in_turn: InTurn) -> None:
    end = served.query(_body(maxFiles=2, includeRefreshToken=True)).lines[-1]["endStreamAction"]
    cases = [("pageToken", end["nextPageToken"]), ("refreshToken", end["refreshToken"])]
    statuses = set()
    for name, token in cases:
        for place in in_turn(range(len(token))):
            for bit in range(7):
                forged = token[:place] + chr(ord(token[place]) ^ 1 << bit) + token[place + 1 :]
                statuses.add(served.query(_body(**{name: forged})).status)

    assert {400} == statuses


def test_a_feed_is_paged_with_its_metadata_before_the_files_it_concerns(served: Served) -> None:
    whole = served.query(_body(startingVersion=0))
    lines, token = list[Any](), None
    while True:
        body = _body(startingVersion=0, maxFiles=3, **({"pageToken": token} if token else {}))
        reply = served.query(body)
        lines += reply.lines[2:-1]
        token = reply.lines[-1]["endStreamAction"].get("nextPageToken")
        if token is None:
            break

    assert whole.lines[2:] == lines


def test_snapshots_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    tables = [shared(TableBuilder().commits(3).write(tmp_path / name), name) for name in ("a", "b", "c")]
    size = SharedSnapshots().at(tables[0], 2).size_bytes
    snapshots = SharedSnapshots(max_bytes=2 * size + size // 2)

    for table in (tables[0], tables[1], tables[0], tables[2], tables[0]):
        snapshots.at(table, snapshots.newest_version(table))

    assert (3, 2) == (snapshots.use.rebuilt, snapshots.use.hits)
    assert snapshots.use.size_bytes == 2 * size


def test_a_reload_changes_how_many_snapshots_are_kept(tmp_path: Path) -> None:
    table = shared(TableBuilder().commits(3).write(tmp_path / "t"))
    served = Served((table,))
    served.query()
    kept = served.snapshots.use.size_bytes

    served.state = replace(
        served.state,
        configuration=replace(served.state.configuration, settings=replace(served.settings, cache_bytes=0)),
    )
    served.query()

    assert kept > 0
    assert 0 == served.snapshots.use.size_bytes


@pytest.mark.parametrize("ask", ["query", "changes", "later versions"])
def test_pages_do_not_mix_a_table_with_the_one_that_replaced_it(tmp_path: Path, ask: str) -> None:
    """The other one has the same id, the same versions, and files with other names."""
    feed = {"delta.enableChangeDataFeed": "true"}
    for directory, name, modified_ms in (("t", "a", 1_700_000_000_000), ("other", "b", 1_700_000_500_000)):
        builder = TableBuilder()
        for version in range(5):
            head = [protocol(1, 4), metadata(configuration=feed)] if version == 0 else []
            lines = [*head, add(f"{name}{version}", size=1)]
            builder.file(commit_path(version), to_bytes(lines), modified_ms=modified_ms + version)
        builder.write(tmp_path / directory)
    served = Served((shared(tmp_path / "t"),))

    def page(token: str | None = None) -> Reply:
        if ask == "changes":
            more = "" if token is None else f"&pageToken={quote(token)}"
            return served.get(f"{TABLE}/changes?startingVersion=0&maxFiles=2{more}")
        body = {"startingVersion": 0} if ask == "later versions" else {}
        return served.query(_body(maxFiles=2, **body, **({} if token is None else {"pageToken": token})))

    tokens = []
    for place in ("t", "other"):
        if place == "other":
            shutil.rmtree(tmp_path / "t")
            (tmp_path / "other").rename(tmp_path / "t")
            served.snapshots.forget()  # as another process that answers
        tokens.append(page().lines[-1]["endStreamAction"]["nextPageToken"])
    old, new = map(page, tokens)

    assert (400, "INVALID_PARAMETER_VALUE") == (old.status, old.json["errorCode"])
    assert "was replaced" in old.json["message"]
    assert 200 == new.status
