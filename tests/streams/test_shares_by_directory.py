"""Shares in Spark by directory, without PySpark: rows of partitions, credentials in tasks, a stream by its offsets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.sharing.client import shared_directory
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.client.shared_directory import DirectoryStorage
from deltacli.spark.shares.read_share import open_shared, read_shared
from deltacli.spark.shares.share_log import DirectoryLog, ShareBatchOptions, address_of, share_batch_options
from deltacli.spark.source_options import StreamOptions
from deltacli.spark.source_plans import partitions_of
from deltacli.spark.table_log import Limits, StreamOffset, files_between, next_offset
from deltacli.table.handle import TableHandle
from tests.cluster.grown_tables import Grown
from tests.sharing.client.serving import Sent
from tests.sharing.client.vending import JSON, SECRET, Vending, vending
from tests.sharing.served import TOKEN
from tests.streams.test_shares import PATH, Following, rows_of
from tests.support import corpus
from tests.support.s3 import S3Server


@pytest.fixture
def table(tmp_path: Path) -> Grown:
    """A table with two files, one with a deletion vector."""
    table = Grown(tmp_path / "table")
    first, _ = table.append(files=2)
    table.delete(first, [1])
    return table


@pytest.fixture
def server(table: Grown, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vending]:
    with vending(tmp_path, table.root, s3) as found:
        monkeypatch.setattr(shared_directory, "system_clock", lambda: found.now_ms)
        yield found


def sent_in(partition: bytes) -> Any:  # Any: a SentDirectory
    return pickle.loads(pickle.loads(partition)[0]).location


CORPUS = [
    "dat/deletion_vectors",
    "dat/column_mapping",
    "dat/multi_partitioned_2",
    "kernel-rs/type-widening",
    "duckdb-delta/variant/basic",
    "delta-rs/table_with_column_mapping",
    "golden/data-reader-escaped-chars",
]


@pytest.mark.parametrize("name", CORPUS)
def test_rows_are_those_by_urls(name: str, tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with vending(tmp_path, corpus.table(name).path(corpus.unpacked()), s3) as server:
        monkeypatch.setattr(shared_directory, "system_clock", lambda: server.now_ms)
        by_urls = read_shared(server.open("url"), ShareBatchOptions(PATH)).partitions()
        by_directory = read_shared(server.open("dir"), ShareBatchOptions(PATH)).partitions()

        assert sorted(map(repr, rows_of(by_urls))) == sorted(map(repr, rows_of(by_directory)))
        assert 1 == len(server.vended)


@pytest.mark.parametrize("store", ["gcs", "azure"])
def test_tasks_read_other_clouds_with_what_is_vended(
    store: str, table: Grown, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stores let nobody in without it."""
    cloud = request.getfixturevalue(store)
    for name in ("AZURE_STORAGE_CONNECTION_STRING", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    with vending(tmp_path, table.root, cloud) as server:
        monkeypatch.setattr(shared_directory, "system_clock", lambda: server.now_ms)
        partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()

        assert [0, 2, 3, 4, 5] == rows_of(partitions)
        assert all(SECRET.encode() in part and TOKEN.encode() not in part for part in partitions)

        def refuse_all(document: Any) -> Any:  # Any: an answer with credentials
            cloud.token = cloud.signature = f"sig={SECRET}-of-another-one"
            return document

        # New credentials are asked for, and refused as well.
        refuse_all(None)
        server.change = refuse_all
        with pytest.raises(RuntimeError, match=r"storage\.permission"):
            rows_of(partitions)
        cloud.token = cloud.signature = ""


def test_changes_and_conditions_are_those_by_urls(server: Vending) -> None:
    for options in (
        ShareBatchOptions(PATH, read_change_feed=True, first=1, last=2),
        ShareBatchOptions(PATH, columns=("id",), where="id > 2"),
        ShareBatchOptions(PATH, version=1),
    ):
        by_urls, by_directory = (read_shared(server.open(access), options).partitions() for access in ("url", "dir"))

        untimed = [
            [row if isinstance(row, int) else row[:3] for row in rows_of(one)] for one in (by_urls, by_directory)
        ]
        assert untimed[0] == untimed[1] != []


def test_a_partition_has_the_credentials_and_nothing_shows_them(server: Vending) -> None:
    partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()

    shown = repr([pickle.loads(pickle.loads(part)[0]) for part in partitions]) + str(sent_in(partitions[0]))
    assert all(SECRET.encode() in part and TOKEN.encode() not in part for part in partitions)
    assert not [secret for secret in (SECRET, "ASIAVENDED", "'st'", TOKEN) if secret in shown]


def test_credentials_that_are_half_over_are_renewed_before_they_are_sent(server: Vending) -> None:
    storage = server.open()
    read_shared(storage, ShareBatchOptions(PATH)).partitions()
    server.proxy.served.now_ms += server.life_ms // 2 + 1

    partitions = read_shared(storage, ShareBatchOptions(PATH)).partitions()

    assert 2 == len(server.vended)
    assert server.now_ms + server.life_ms == sent_in(partitions[0]).grants[0].expires_ms


def test_a_task_asks_for_new_credentials_where_the_profile_is(server: Vending) -> None:
    partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()
    server.proxy.served.now_ms += server.life_ms

    assert [0, 2, 3, 4, 5] == rows_of(partitions)
    assert 2 == len(server.vended)


def test_a_reading_task_survives_the_end_of_its_credentials(server: Vending) -> None:
    storage = sent_in(read_shared(server.open(), ShareBatchOptions(PATH)).partitions()[0]).open()
    name = "_delta_log/00000000000000000000.json"
    before = storage.read(name)
    server.proxy.served.now_ms += server.life_ms - 59_000

    assert before == storage.read(name)
    assert 2 == len(server.vended)


@pytest.mark.parametrize("profile", ["missing", "of another server"])
def test_a_task_without_the_profile_says_that_the_credentials_ended(server: Vending, profile: str) -> None:
    partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()
    text = server.proxy.profile.read_text()
    server.proxy.profile.unlink()
    if profile != "missing":
        server.proxy.profile.write_text(text.replace("/delta-sharing", "/elsewhere"))
    server.proxy.served.now_ms += server.life_ms - 20_000
    assert [0, 2, 3, 4, 5] == rows_of(partitions)
    server.proxy.served.now_ms += 10_001
    server.cloud.requests.clear()

    storage = sent_in(partitions[0])
    with pytest.raises(DeltacliError, match="ended before a task read it") as caught:
        storage.open()

    assert ("share.credential-ended", 7) == (caught.value.code, caught.value.exit_code)
    assert ([], 1) == (server.cloud.requests, len(server.vended))
    assert SECRET not in f"{caught.value} {caught.value.facts}"


def test_a_task_refuses_credentials_for_another_place(server: Vending) -> None:
    partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()
    server.change = lambda document: {"credentials": document["credentials"] | {"location": "s3://evil/t"}}
    server.proxy.served.now_ms += server.life_ms
    server.cloud.requests.clear()

    with pytest.raises(RuntimeError, match=r"^\[share\.credential\].*another directory"):
        rows_of(partitions)

    assert [] == server.cloud.requests


def test_a_table_that_was_made_anew_before_a_task_reads_it_is_refused(server: Vending) -> None:
    partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()
    bucket = server.root.split("/")[2]
    server.cloud.put(bucket, f"lake/t/_delta_log/{2:020}.json", b'{"commitInfo":{}}\n')

    with pytest.raises(RuntimeError, match=r"^\[cluster\.other-table\] executors see another table"):
        rows_of(partitions)


def test_files_elsewhere_are_read_with_credentials_of_their_own(tmp_path: Path, s3: S3Server) -> None:
    table, other = Grown(tmp_path / "table"), s3.make_bucket()
    table.append(files=2)
    (first, *_) = sorted(table.root.glob("*.parquet"))
    s3.put(other, f"old/{first.name}", first.read_bytes())
    log = table.root / "_delta_log" / f"{1:020}.json"
    log.write_text(log.read_text().replace(f'"{first.name}"', f'"s3://{other}/old/{first.name}"'))
    first.unlink()
    with vending(tmp_path, table.root, s3, auxiliaryLocations=[f"s3://{other}/old"]) as server:
        partitions = read_shared(server.open(), ShareBatchOptions(PATH)).partitions()

        assert list(range(6)) == rows_of(partitions)
        assert [server.root, f"s3://{other}/old"] == server.vended


def opened(server: Vending, **given: str) -> tuple[Any, ShareBatchOptions]:
    """The store that the data source opens, and its options."""
    where = {"storage.endpoint_url": server.cloud.url, "storage.region": "us-east-1"}
    options = share_batch_options({"path": server.address, **where, **given})
    return open_shared(address_of(options.path), options), options


OFFERED: list[tuple[list[str] | None, str, type]] = [
    (["url", "dir"], "auto", ShareStorage),
    (["dir"], "auto", DirectoryStorage),
    (["url", "dir"], "dir", DirectoryStorage),
    (None, "dir", DirectoryStorage),
    (None, "auto", ShareStorage),
]


def test_the_data_source_takes_what_is_offered(server: Vending) -> None:
    for modes, access, kind in OFFERED:
        server.members["accessModes"] = modes

        share, options = opened(server, access=access)

        assert (kind, [0, 2, 3, 4, 5]) == (type(share), rows_of(read_shared(share, options).partitions()))


def test_a_server_without_directories_is_named(server: Vending) -> None:
    """A server from before access modes, asked for a directory."""
    server.members.clear()
    server.change = lambda _: Sent(404, JSON, b'{"errorCode":"RESOURCE_DOES_NOT_EXIST","message":"no such route"}')

    with pytest.raises(DeltacliError, match="no such route"):
        opened(server, access="dir")
    server.members["accessModes"] = ["url"]
    with pytest.raises(DeltacliError, match="the table is not offered as a directory"):
        opened(server, access="dir")


REFUSED = {
    ("storage.secret", "own"): "usage.storage-option",
    ("storage.endpoint_url", "http://user:password@127.0.0.1:9"): "cluster.secret",
    ("responseFormat", "delta"): "usage.stream-option",
    ("access", "both"): "usage.stream-option",
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_cannot_be_used_are_refused(server: Vending, option: tuple[str, str]) -> None:
    def send() -> None:
        share, _ = opened(server, **{"access": "dir", option[0]: option[1]})
        share.get_openable()

    with pytest.raises(UsageError) as caught:
        send()

    assert REFUSED[option] == caught.value.code
    assert "password" not in str(caught.value)


def test_a_stream_goes_on_over_restarts_and_keeps_to_the_directory(server: Vending, table: Grown) -> None:
    def batch(start: StreamOffset | None, **options: Any) -> tuple[StreamOffset, list[Any]]:
        handle = TableHandle(server.open())
        log = DirectoryLog(handle, StreamOptions(PATH, skip_change_commits=True, **options))
        begin = start or log.first_offset(log.newest())
        end = next_offset(log, begin, log.newest(), Limits(1))
        return end, rows_of(partitions_of(handle, log.wanted, files_between(log, begin, end), log.newest_commit))

    end, first = batch(None)
    end, second = batch(end)
    table.append()
    bucket = server.root.split("/")[2]
    for path in table.root.rglob("*.*"):
        server.cloud.put(bucket, f"lake/t/{path.relative_to(table.root)}", path.read_bytes())
    last, third = batch(end)

    assert [0, 2, 3, 4, 5] == sorted(first + second)
    assert [6, 7, 8] == third
    assert not server.asked("/query")
    with pytest.raises(DeltacliError) as caught:
        Following(server.proxy).batch(last)
    assert "stream.other-table" == caught.value.code
