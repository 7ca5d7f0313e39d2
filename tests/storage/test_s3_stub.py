"""The S3 stub of the benchmarks answers as S3 does, as far as our own store can tell."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from threading import Thread
from typing import NamedTuple

import pytest
from botocore.utils import parse_timestamp

from benchmarks.s3_stub import Stub, filled, serving
from benchmarks.synthetic import MODIFIED_MS
from deltacli.core.errors import FileMissing
from deltacli.storage import Created, Deleted, Existed, Storage, open_storage
from deltacli.storage.s3.options import parse_s3_timestamp
from tests.support.waiting import SECONDS, join, wait_in_loop

NAMES = [f"d={directory:03d}/part-{file:04d}.snappy.parquet" for directory in range(3) for file in range(1_500)]
OPTIONS = {"key": "any", "secret": "any", "region": "us-east-1"}


class Running(NamedTuple):
    """A stub on a loop of its own thread."""

    stub: Stub
    url: str
    table: Storage


@pytest.fixture
def running() -> Iterator[Running]:
    stub = Stub(filled(NAMES, b"0123456789"), latency=0.0)
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serving(stub, 0), loop).result(SECONDS)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    table = open_storage("s3://lake/t", {**OPTIONS, "endpoint_url": url})
    yield Running(stub, url, table)
    table._calls.client.close()  # type: ignore[attr-defined]
    asyncio.run_coroutine_threadsafe(_ended(server, stub), loop).result(SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    join(thread)
    loop.close()


async def _ended(server: asyncio.Server, stub: Stub) -> None:
    server.close()
    stub.disconnect()
    await wait_in_loop(lambda: not stub.connections, "the connections are closed")


def test_listings_have_every_name_once(running: Running) -> None:
    walked = running.table.walk("", lambda _, names: names)

    found = sorted(f"{entry.directory}/{name}" for entry in walked for name in entry.names)

    assert NAMES == found
    assert ["d=000", "d=001", "d=002"] == running.table.list_directories("")
    assert [name.rpartition("/")[2] for name in NAMES[2_900:3_000]] == [
        file.name for file in running.table.list_from("d=001", "part-1400.")
    ]


def test_ranges_sizes_and_missing_files(running: Running) -> None:
    table = running.table

    assert b"3456" == table.read_range(NAMES[7], 3, 4)
    assert 10 == table.stat(NAMES[7]).size_bytes
    with pytest.raises(FileMissing):
        table.read("d=000/absent")


def test_a_name_is_created_once(running: Running) -> None:
    table = running.table

    assert isinstance(table.put_if_absent("_delta_log/0.json", b"{}"), Created)
    assert isinstance(table.put_if_absent("_delta_log/0.json", b"[]"), Existed)
    assert b"{}" == table.read("_delta_log/0.json")


def test_times_of_a_listing_are_read_without_the_slow_parser(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the parser of dateutil was used")

    monkeypatch.setattr("dateutil.parser.parse", refuse)

    times = {modified for entry in running.table.walk("d=000", lambda *_: ()) for modified in entry.modified_ms or ()}

    assert {MODIFIED_MS} == times


@pytest.mark.parametrize(
    "value",
    ["2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20Z", "Tue, 14 Nov 2023 22:13:20 GMT", "20231114T221320Z", 1.5e9],
)
def test_times_are_those_of_botocore(value: object) -> None:
    assert parse_timestamp(value) == parse_s3_timestamp(value)


def _control(running: Running, what: str) -> dict[str, list[float]]:
    """Send a request to the stub itself, and return the calls since the last one."""
    with urllib.request.urlopen(f"{running.url}/-/{what}") as answer:
        calls: dict[str, list[float]] = json.loads(answer.read())
    return calls


def test_deleted_files_are_gone_until_they_are_restored(running: Running) -> None:
    table, paths = running.table, NAMES[:1_200]
    _control(running, "calls")

    outcomes = [outcome for _, outcome in table.delete_many(paths)]
    left = sum(len(entry.names) for entry in table.walk("d=000", lambda *_: ()))
    calls = _control(running, "restore")
    again = sum(len(entry.names) for entry in table.walk("d=000", lambda *_: ()))

    assert all(isinstance(outcome, Deleted) for outcome in outcomes)
    assert (300, 1_500) == (left, again)
    assert {"DELETES": 2, "LIST": 1} == {kind: count for kind, (count, _) in calls.items()}
