"""What goes wrong between server and client: a clear error or the right rows, never a wrong row or an endless wait."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DataUnreadable, DeltacliError
from deltacli.sharing.client.faults import (
    AccessRefused,
    AnswerBroken,
    AnswerInvalid,
    AnswerLimits,
    FilesMovedOn,
    RequestRefused,
    ServerUnavailable,
    ShareAbsent,
)
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.client.table_requests import list_shares
from deltacli.sharing.protocol.parameters import ResponseFormat
from tests.cli.support import deltacli
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import shared
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of, table_of

ROWS = [pa.table({"id": pa.array([number, number + 10])}) for number in range(3)]
IDS = [0, 1, 2, 10, 11, 12]

Truly = Callable[[], Sent]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """A table of three files."""
    files = {f"part-{number}.parquet": parquet_bytes(rows) for number, rows in enumerate(ROWS)}
    with proxied(tmp_path, shared(table_of(files, schema_of(ROWS[0])).write(tmp_path / "t"))) as proxy:
        yield proxy


def ids(store: ShareStorage) -> list[int]:
    """The rows of the table, sorted."""
    return sorted(Table(store).snapshot().scan().to_arrow().column("id").to_pylist())


def lines_changed(change: Callable[[list[Any]], list[Any]]) -> Callable[[Asked, Truly], Sent]:
    """Plant a change of the lines of queries."""

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return sent.with_lines(change(sent.lines)) if asked.target.endswith("/query") else sent

    return plant


def first_times(count: int, answer: Sent | None, *, files: bool = False) -> Callable[[Asked, Truly], Sent | None]:
    """Plant another answer to the first requests of the endpoint, or for files."""
    left = [count]

    def plant(asked: Asked, truly: Truly) -> Sent | None:
        if asked.is_for_file is files and left[0]:
            left[0] -= 1
            return answer
        return truly()

    return plant


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("answer", [None, Sent(503, {}, b"busy"), Sent(500, {}, b""), Sent(408, {}, b"")])
def test_requests_are_repeated_after_drops_and_failures(proxy: Proxy, answer: Sent | None, files: bool) -> None:
    proxy.plant = first_times(3, answer, files=files)

    assert IDS == ids(proxy.store())
    assert 3 <= len(proxy.waited)


def test_retry_after_is_obeyed(proxy: Proxy) -> None:
    proxy.plant = first_times(1, Sent(429, {"Retry-After": "17"}, b""))

    assert IDS == ids(proxy.store())
    assert [17.0] == proxy.waited


def test_retry_after_beyond_the_budget_fails_at_once(proxy: Proxy) -> None:
    proxy.plant = first_times(9, Sent(429, {"Retry-After": "3000"}, b'{"errorCode": "X", "message": "later"}'))

    with pytest.raises(ServerUnavailable, match="too busy: later"):
        ids(proxy.store())

    assert [] == proxy.waited


def test_a_list_of_endless_pages_ends_with_the_budget(proxy: Proxy) -> None:
    transport = proxy.store(budget_s=20).requests.transport
    pages = itertools.count(1)

    def page(asked: Asked, truly: Truly) -> Sent:
        transport.retry.wait(3.0)
        return Sent(200, {"Content-Type": "application/json"}, json.dumps({"nextPageToken": str(next(pages))}).encode())

    proxy.plant = page
    with pytest.raises(ServerUnavailable) as caught:
        list(list_shares(transport))

    assert caught.value.facts == {"pages": "7", "limit": "20 s for all pages (--retry-budget)"}


def test_a_lasting_failure_ends_with_the_budget(proxy: Proxy) -> None:
    proxy.plant = lambda _asked, _truly: Sent(503, {}, b"")

    with pytest.raises(ServerUnavailable) as caught:
        ids(proxy.store(budget_s=20))

    assert sum(proxy.waited) <= 20
    assert "times" in caught.value.facts["tried"]


@pytest.mark.parametrize(
    "status, fault", [(400, RequestRefused), (401, AccessRefused), (403, AccessRefused), (404, ShareAbsent)]
)
def test_what_a_repetition_cannot_change_is_not_repeated(proxy: Proxy, status: int, fault: type[DeltacliError]) -> None:
    proxy.plant = lambda _asked, _truly: Sent(status, {}, b'{"errorCode": "E", "message": "no\\u001b[31m way"}')

    with pytest.raises(fault, match="no \\[31m way"):
        ids(proxy.store())

    assert 1 == len(proxy.asked)


@pytest.mark.parametrize(
    "message, hint",
    [
        ("the table Sales.Main.t has no change data feed at version 3", "read from a later version"),
        ("change data feed was not recorded for versions [0, 5]", "read from a later version"),
        ("the change data feed is not enabled", "ask the provider of the share to enable"),
        ("the files of the change data feed were deleted", ""),
    ],
)
def test_the_provider_is_asked_for_a_feed_only_where_it_may_be_off(proxy: Proxy, message: str, hint: str) -> None:
    proxy.plant = lambda _asked, _truly: Sent(400, {}, json.dumps({"errorCode": "E", "message": message}).encode())

    with pytest.raises(RequestRefused) as refused:
        ids(proxy.store())

    assert hint == (refused.value.hint or "")[: len(hint) or None]


@pytest.mark.parametrize("status", [404, 410])
def test_a_file_that_the_provider_deleted_is_read_again_not_validated(proxy: Proxy, status: int) -> None:
    proxy.plant = lambda asked, truly: Sent(status, {}, b"") if asked.is_for_file else truly()

    with pytest.raises(DataUnreadable) as refused:
        ids(proxy.store())

    assert "data.file-missing" == refused.value.code
    assert "run the command again" in str(refused.value.hint)


@pytest.mark.parametrize("cut_at", [0, 100, 1_000])
def test_an_answer_that_breaks_off_is_asked_for_again(proxy: Proxy, cut_at: int) -> None:
    cut = [True]

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return replace(sent, cut_at=cut_at) if asked.target.endswith("/query") and cut and cut.pop() else sent

    proxy.plant = plant

    assert IDS == ids(proxy.store())


def test_an_answer_that_always_breaks_off_is_an_error(proxy: Proxy) -> None:
    proxy.plant = lambda _asked, truly: replace(truly(), cut_at=900)

    with pytest.raises(AnswerBroken):
        ids(proxy.store())

    assert len(proxy.asked) <= 9


def test_an_answer_without_its_last_line_is_an_error(proxy: Proxy) -> None:
    """
    The connection ends after a whole line, with a length that is that of the cut answer.
    """
    proxy.plant = lines_changed(lambda lines: lines[:-2])

    with pytest.raises(AnswerBroken, match="endStreamAction"):
        ids(proxy.store())


def test_an_error_in_the_last_line_is_an_error(proxy: Proxy) -> None:
    proxy.plant = lines_changed(lambda lines: [*lines[:-1], {"endStreamAction": {"errorMessage": "disk on fire"}}])

    with pytest.raises(AnswerBroken, match="disk on fire"):
        ids(proxy.store())


def _unframed(cut_at: int | None = None, *, ends: bool = True) -> Callable[[Asked, Truly], Sent]:
    """Plant answers of the endpoint that end with the connection, without a length and chunks."""

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        if asked.is_for_file:
            return sent
        if not ends:
            sent = replace(sent.with_lines(sent.lines[:-1]), headers={"delta-table-version": "0"})
        return replace(sent, cut_at=cut_at, length=-1)

    return plant


def _listed(proxy: Proxy) -> list[str]:
    return [share.name for share in list_shares(proxy.store().requests.transport)]


def _schema_id(proxy: Proxy) -> object:
    return proxy.store().requests.metadata().delta_metadata["id"]


@pytest.mark.parametrize("read", [_listed, _schema_id, lambda proxy: ids(proxy.store())])
def test_answers_that_end_with_the_connection_are_read_where_they_are_complete(
    proxy: Proxy, read: Callable[[Proxy], object]
) -> None:
    framed = read(proxy)

    proxy.plant = _unframed()

    assert framed == read(proxy)


@pytest.mark.parametrize("read", [_listed, _schema_id, lambda proxy: ids(proxy.store())])
def test_no_part_of_an_answer_that_ends_with_the_connection_is_taken_for_the_whole(
    proxy: Proxy, read: Callable[[Proxy], object]
) -> None:
    """
    Every answer is cut within a line, at the end of each line, and before the last line feed.
    """
    whole = read(proxy)
    bodies: list[bytes] = []

    def noted(_asked: Asked, truly: Truly) -> Sent:
        bodies.append(truly().body)
        return truly()

    proxy.plant = noted
    read(proxy)
    body = next(body for body in bodies if body)
    ends = [place + 1 for place, byte in enumerate(body) if byte == ord("\n")]
    least = len(body.rstrip(b"\n"))

    for cut_at in sorted({0, 40, *(end - one for end in ends for one in (0, 1)), least - 1, least}):
        proxy.plant = _unframed(cut_at)
        if cut_at >= least:
            assert whole == read(proxy)
            continue
        with pytest.raises(AnswerBroken):
            read(proxy)


def test_a_query_that_ends_with_the_connection_needs_its_last_line_and_says_so(proxy: Proxy) -> None:
    proxy.plant = _unframed(ends=False)

    with pytest.raises(AnswerBroken, match="may be incomplete: it ended with the connection") as caught:
        ids(proxy.store(formats=(ResponseFormat.PARQUET,)))

    assert "chunked" in caught.value.facts["expected"]


def test_a_body_without_length_and_last_line_is_not_trusted(proxy: Proxy) -> None:
    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        if not asked.target.endswith("/query"):
            return sent
        headers = {"delta-table-version": sent.headers["delta-table-version"]}
        return replace(sent.with_lines(sent.lines[:-1]), headers=headers, length=-1)

    proxy.plant = plant

    with pytest.raises(AnswerBroken):
        ids(proxy.store())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda lines: [*lines[:3], *lines[2:]], "twice"),
        (lambda lines: lines[1:], "does not begin"),
        (lambda lines: [*lines[:2], {"surprise": {}}, *lines[2:]], "unexpected action"),
        (lambda lines: [*lines, lines[2]], "continues after"),
        (lambda lines: [*lines[:2], {"file": lines[2]["file"] | {"id": None}}, *lines[3:]], "no id"),
        (lambda lines: [*lines[:2], {"file": lines[2]["file"] | {"size": -5}}, *lines[3:]], "size"),
        (lambda lines: [*lines[:2], {"file": lines[2]["file"] | {"url": None}}, *lines[3:]], "no URL"),
    ],
)
def test_lines_against_the_protocol_are_errors(proxy: Proxy, change: Any, message: str) -> None:
    proxy.plant = lines_changed(change)

    with pytest.raises(AnswerInvalid, match=message):
        ids(proxy.store())


def test_pages_are_read_to_the_last_one(proxy: Proxy) -> None:
    store = proxy.store(max_files=1)

    assert IDS == ids(store)
    assert 3 == sum(asked.target.endswith("/query") for asked in proxy.asked)


def test_a_page_token_that_comes_again_is_an_error(proxy: Proxy) -> None:
    first: list[Sent] = []

    def plant(_asked: Asked, truly: Truly) -> Sent:
        first.append(first[0] if first else truly())
        head, file = first[0].lines[:2], first[0].lines[1 + len(first)]
        return first[0].with_lines([*head, file, {"endStreamAction": {"nextPageToken": "again"}}])

    proxy.plant = plant

    with pytest.raises(AnswerInvalid, match="repeats a page token"):
        ids(proxy.store())

    assert 2 == len(proxy.asked)


def test_a_list_that_never_ends_is_an_error(proxy: Proxy) -> None:
    page = {"items": [{"name": "s"}], "nextPageToken": "again"}
    proxy.plant = lambda _asked, _truly: Sent(200, {}, json.dumps(page).encode())

    with pytest.raises(AnswerInvalid, match="repeats a page token"):
        list(list_shares(proxy.store().requests.transport))


def test_fresh_tokens_for_ever_end_at_a_limit(proxy: Proxy) -> None:
    def plant(_asked: Asked, _truly: Truly) -> Sent:
        return Sent(200, {}, json.dumps({"items": [], "nextPageToken": str(len(proxy.asked))}).encode())

    proxy.plant = plant

    with pytest.raises(AnswerInvalid, match="limit of 5 pages"):
        list(list_shares(proxy.store(limits=AnswerLimits(pages=5)).requests.transport))


@pytest.mark.parametrize("later_ms, queries", [(0, 1), (3_580_000, 2), (3_600_000, 3)])
def test_expired_urls_are_renewed_in_the_middle_of_a_scan(proxy: Proxy, later_ms: int, queries: int) -> None:
    """
    The refresh token expires with the URLs; then the version is asked for by its number.
    """
    snapshot = Table(proxy.store()).snapshot()

    proxy.served.now_ms += later_ms

    assert IDS == sorted(snapshot.scan().to_arrow().column("id").to_pylist())
    assert queries == sum(asked.target.endswith("/query") for asked in proxy.asked)


def test_urls_that_are_always_expired_are_renewed_once_and_then_used(proxy: Proxy) -> None:
    """
    The clock of the client is ahead by more than the lifetime of a URL.
    """

    def expire(lines: list[Any]) -> list[Any]:
        for line in lines[2:-1]:
            line["file"]["expirationTimestamp"] = 1
        return lines

    proxy.plant = lines_changed(expire)

    assert IDS == ids(proxy.store())
    assert 2 == sum(asked.target.endswith("/query") for asked in proxy.asked)


def test_urls_that_are_not_accepted_are_renewed_once(proxy: Proxy) -> None:
    proxy.plant = first_times(1, Sent(403, {}, b"expired"), files=True)

    assert IDS == ids(proxy.store())


def test_urls_that_are_never_accepted_are_an_error(proxy: Proxy) -> None:
    proxy.plant = first_times(10**6, Sent(403, {}, b"expired"), files=True)

    with pytest.raises(AccessRefused):
        ids(proxy.store())


def test_a_table_that_moves_on_is_an_error_not_other_rows(proxy: Proxy) -> None:
    """
    The URLs expire, and the server then has other files, and no token for the old version.
    """

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        if not asked.target.endswith("/query"):
            return sent
        lines = sent.lines
        lines[-1]["endStreamAction"].pop("refreshToken", None)
        kept = lines if len(proxy.asked) == 1 else [*lines[:2], lines[-1]]
        return sent.with_lines(kept)

    proxy.plant = plant
    snapshot = Table(proxy.store()).snapshot()
    proxy.served.now_ms += 3_600_000

    with pytest.raises(FilesMovedOn):
        snapshot.scan().to_arrow()


@pytest.mark.parametrize("difference", [-1, 1, 100_000])
def test_a_size_that_is_not_the_file_s_is_an_error(proxy: Proxy, difference: int) -> None:
    def change(lines: list[Any]) -> list[Any]:
        lines[2]["file"]["size"] += difference
        return lines

    proxy.plant = lines_changed(change)

    with pytest.raises(DataUnreadable, match="another size"):
        ids(proxy.store())


def test_a_file_that_is_cut_short_is_an_error(proxy: Proxy) -> None:
    """
    The range is answered with a shorter one, which claims to be what was asked for.
    """

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return replace(sent, body=sent.body[:-7]) if asked.is_for_file else sent

    proxy.plant = plant

    with pytest.raises(DeltacliError):
        ids(proxy.store())


def test_a_range_without_a_length_that_breaks_off_is_asked_for_again(proxy: Proxy) -> None:
    cut = [True]

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return replace(sent, cut_at=5, length=-1) if asked.is_for_file and cut and cut.pop() else sent

    proxy.plant = plant

    assert IDS == ids(proxy.store())


def test_another_file_of_the_same_size_is_an_error_or_its_bytes_are_not_rows(proxy: Proxy) -> None:
    """
    An entity tag that changes between two ranges: the file was replaced.
    """
    tags = iter(range(10**6))

    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return replace(sent, headers={**sent.headers, "etag": f'"{next(tags)}"'}) if asked.is_for_file else sent

    proxy.plant = plant
    store = proxy.store()
    name = next(iter(store.shared.urls.names()))
    store.read_range(name, 0, 4)

    with pytest.raises(DataUnreadable, match="replaced"):
        store.read_range(name, 4, 4)


def test_a_server_without_ranges_is_read_by_whole_files(proxy: Proxy) -> None:
    def plant(asked: Asked, truly: Truly) -> Sent:
        if asked.is_for_file:
            whole = replace(asked, headers={name: value for name, value in asked.headers.items() if name != "range"})
            reply = proxy._reply(whole)
            return Sent(200, {}, reply.body)
        return truly()

    proxy.plant = plant

    assert IDS == ids(proxy.store())


def test_an_answer_of_another_version_is_an_error(proxy: Proxy) -> None:
    def plant(asked: Asked, truly: Truly) -> Sent:
        sent = truly()
        return replace(sent, headers={**sent.headers, "delta-table-version": "7"})

    proxy.plant = plant

    with pytest.raises(AnswerInvalid, match="another version"):
        Table(proxy.store()).snapshot(version=0)


def test_a_server_that_refuses_connections_is_an_error_at_once(tmp_path: Path) -> None:
    """It names the port. A server that has answered before may come back: there the request is repeated."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    profile = {"shareCredentialsVersion": 1, "endpoint": f"http://127.0.0.1:{port}/x", "bearerToken": "t"}
    (tmp_path / "a.share").write_text(json.dumps(profile))

    failed = deltacli("share", "ls", "a.share", cwd=tmp_path)

    assert 7 == failed.code
    assert f"connecting to 127.0.0.1 at port {port} failed" in failed.err
    assert "retrying" not in failed.err
    assert "tried" not in failed.err


def test_a_removed_file_without_its_size_is_read(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2])})
    table = (
        TableBuilder()
        .commit(
            protocol(1, 4),
            metadata(schema_string=schema_of(rows), configuration={"delta.enableChangeDataFeed": "true"}),
            add("a", size=len(parquet_bytes(rows))),
        )
        .commit(remove("a", dataChange=True))
        .file("a", parquet_bytes(rows))
    )

    def without_sizes(asked: Asked, truly: Callable[[], Sent]) -> Sent:
        sent = truly()
        if "/changes" not in asked.target:
            return sent
        lines = sent.lines
        for line in lines:
            line.get("remove", {}).pop("size", None)
        assert any("remove" in line for line in lines)
        return sent.with_lines(lines)

    with proxied(tmp_path, shared(table.write(tmp_path / "t"))) as proxy:
        proxy.plant = without_sizes
        found = Table(proxy.store()).changes(from_version=1).to_arrow()

    assert [(1, "delete"), (2, "delete")] == list(
        zip(found.column("id").to_pylist(), found.column("_change_type").to_pylist(), strict=True)
    )
