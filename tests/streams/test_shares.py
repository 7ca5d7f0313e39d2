"""Shares in Spark without PySpark: options, partitions that hold no token, and a stream by its offsets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError, UsageError
from deltacli.sharing.client.faults import UrlRefused
from deltacli.sharing.client.shared_files import FileUrl
from deltacli.sharing.protocol.parameters import ResponseFormat
from deltacli.spark.executor_rows import rows_of_pieces
from deltacli.spark.shares.read_share import SharedFiles, _transport, read_shared, shared_partitions
from deltacli.spark.shares.share_log import (
    ShareBatchOptions,
    ShareLog,
    ShareStreamOptions,
    share_batch_options,
    share_column_options,
    share_stream_options,
)
from deltacli.spark.source_options import StreamOptions
from deltacli.spark.table_log import Limits, StreamOffset, files_between, next_offset
from deltacli.table.handle import TableHandle
from tests.cluster.grown_tables import Grown
from tests.sharing.client.serving import Asked, Proxy, Sent, proxied
from tests.sharing.served import TOKEN, shared
from tests.support.renamed_columns import make_renamed, make_swapped

SPARK = "4.3.0"
PATH = "/p.share#Sales.Main.t"


@pytest.fixture
def table(tmp_path: Path) -> Grown:
    """A table with two files, one with a deletion vector."""
    table = Grown(tmp_path / "table")
    first, _ = table.append(files=2)
    table.delete(first, [1])
    return table


@pytest.fixture
def server(table: Grown, tmp_path: Path) -> Iterator[Proxy]:
    with proxied(tmp_path, shared(table.root)) as proxy:
        yield proxy


class Following:
    """A stream of a share as Spark runs it: batches from offset to offset, their rows read by partitions."""

    def __init__(
        self, server: Proxy, versions: int = 2, formats: Any = (), **options: Any
    ) -> None:  # Any: of StreamOptions
        self.seconds = 0.0
        chosen = ShareStreamOptions(StreamOptions(PATH, **options), versions_per_request=versions)
        self.share = server.store(formats=formats or chosen.formats)
        self.log = ShareLog(TableHandle(self.share), self.share, chosen, lambda: self.seconds)

    def later(self, seconds: float) -> int:
        """Return the newest version that is known some seconds later."""
        self.seconds += seconds
        return self.log.newest()

    def batch(self, start: StreamOffset | None, files: int | None = None) -> tuple[StreamOffset, list[Any]]:
        """Return the end of a batch, and its rows."""
        newest = self.log.newest()
        end = next_offset(self.log, start or self.log.first_offset(newest), newest, Limits(files))
        return end, self.rows(start or end.begin, end)

    def rows(self, start: StreamOffset, end: StreamOffset) -> list[Any]:
        files = files_between(self.log, start, end)
        return rows_of(shared_partitions(self.share, self.log.wanted, files, self.log.url_of))


def rows_of(partitions: list[bytes]) -> list[Any]:
    """The rows that executors read, sorted."""
    batches = [batch for partition in partitions for batch in rows_of_pieces(*pickle.loads(partition))]
    rows = [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()] if batches else []
    return sorted(row[0] if len(row) == 1 else row for row in rows)


@pytest.mark.parametrize("form", ResponseFormat)
def test_partitions_have_the_rows_and_no_token(form: ResponseFormat, server: Proxy, table: Grown) -> None:
    share = server.store(formats=(form,))
    version = 2 if form is ResponseFormat.DELTA else 1

    partitions = read_shared(share, ShareBatchOptions(PATH, version=version)).partitions()

    assert ([0, 2, 3, 4, 5] if version == 2 else [0, 1, 2, 3, 4, 5]) == rows_of(partitions)
    assert all(TOKEN.encode() not in part and str(server.profile).encode() not in part for part in partitions)
    assert TOKEN not in repr([pickle.loads(pickle.loads(part)[0]) for part in partitions])


def test_changes_are_those_of_the_table(server: Proxy, table: Grown) -> None:
    options = ShareBatchOptions(PATH, read_change_feed=True, first=1, last=2)

    found = rows_of(read_shared(server.store(), options).partitions())

    expected = open_table(table.root).changes(from_version=1, to_version=2).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in expected) == found


def test_conditions_are_sent_and_applied_again(server: Proxy) -> None:
    options = ShareBatchOptions(PATH, columns=("id",), where="id > 2")

    found = rows_of(read_shared(server.store(), options).partitions())

    assert [3, 4, 5] == found
    assert any("jsonPredicateHints" in asked.json for asked in server.asked if asked.method == "POST")


def test_a_url_that_expired_is_named_and_no_other_is_asked_for(server: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = read_shared(server.store(), ShareBatchOptions(PATH)).partitions()
    monkeypatch.setattr(_transport(server.url), "clock", lambda: server.served.now_ms)
    server.served.now_ms += 365 * 86_400_000
    server.asked.clear()

    with pytest.raises(RuntimeError, match=r"^\[share\.url-expired\].*expires: 20"):
        rows_of(partitions)

    assert all(asked.is_for_file and "authorization" not in asked.headers for asked in server.asked)


def test_a_file_that_is_gone_is_not_taken_for_an_expired_url(server: Proxy, table: Grown) -> None:
    partitions = read_shared(server.store(), ShareBatchOptions(PATH)).partitions()
    for path in table.root.glob("*.parquet"):
        path.unlink()

    with pytest.raises(RuntimeError, match=r"^\[data\.file-missing\]"):
        rows_of(partitions)


def test_executors_refuse_urls_into_their_own_network() -> None:
    url = FileUrl("https://127.0.0.1:1/a", 9, None)
    files = SharedFiles("a.b.c", "https://8.8.8.8/sharing", (("a.parquet", url),))

    with pytest.raises(UrlRefused, match="loopback"):
        files.open().read("a.parquet")

    assert "127.0.0.1" not in repr(files)


def test_a_stream_goes_on_over_windows_and_restarts(server: Proxy, table: Grown) -> None:
    end, first = Following(server).batch(None, files=1)
    other = Following(server, skip_change_commits=True)
    end, second = other.batch(end)
    for _ in range(3):
        table.append()
    assert 2 == other.later(29)
    assert 5 == other.later(2)

    last, third = other.batch(end, files=2)
    replayed = Following(server, versions=1).rows(end, last)
    _, fourth = other.batch(last)

    assert [0, 2, 3, 4, 5] == sorted(first + second)
    assert list(range(6, 12)) == third == replayed
    assert [12, 13, 14] == fourth


def test_files_of_a_version_keep_their_order_whatever_the_server_sends(server: Proxy, table: Grown) -> None:
    def in_another_order(asked: Asked, truly: Callable[[], Sent]) -> Sent:
        sent = truly()
        lines = sent.lines if asked.method == "POST" else []
        return sent.with_lines([*lines[:2], *lines[-2:1:-1], lines[-1]]) if lines else sent

    end, first = Following(server, starting_version=1).batch(None, files=1)
    server.plant = in_another_order

    _, second = Following(server, skip_change_commits=True).batch(end)

    assert list(range(6)) == sorted(first + second)


def test_a_stream_of_changes_is_that_of_the_table(server: Proxy, table: Grown) -> None:
    _, found = Following(server, read_change_feed=True, starting_version=1).batch(None)

    expected = open_table(table.root).changes(from_version=1).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in expected) == found


def test_deletes_another_table_and_other_columns_end_a_stream(server: Proxy, table: Grown) -> None:
    def code_of(stream: Following, start: StreamOffset | None) -> str:
        with pytest.raises(DeltacliError) as caught:
            stream.batch(start)
        return caught.value.code

    end, rows = Following(server, starting_version=1).batch(None)
    assert ("stream.changes", list(range(6))) == (code_of(Following(server), end), rows)
    stream = Following(server, skip_change_commits=True)
    assert "stream.other-table" == code_of(stream, replace(end, table="another"))
    table.set_columns(b=pa.string())
    stream.later(30)
    end, rows = stream.batch(end)
    assert ("stream.schema-changed", []) == (code_of(stream, end), rows)


def test_a_table_that_is_replaced_while_it_is_followed_is_refused(server: Proxy, table: Grown) -> None:
    stream = Following(server, starting_version="latest")
    end, _ = stream.batch(None)
    table.commit(*(replaced_metadata(table),))
    stream.later(30)

    with pytest.raises(DeltacliError) as caught:
        stream.batch(end)

    assert "stream.other-table" == caught.value.code


def test_a_stream_keeps_to_one_format_because_files_have_other_ids_in_another(server: Proxy) -> None:
    stream = Following(server, formats=tuple(ResponseFormat), starting_version=0)

    with pytest.raises(DeltacliError, match="in parquet format now, and in delta format before") as caught:
        stream.batch(None)

    assert "stream.other-table" == caught.value.code


def replaced_metadata(table: Grown) -> Any:  # Any: a line of the log
    line = table._metadata()
    return {"metaData": line["metaData"] | {"id": "another-id"}}


def test_values_that_a_stream_cannot_have_are_refused_by_name() -> None:
    wrong = {
        "queryTableVersionIntervalSeconds": "9",
        "maxVersionsPerRpc": "0",
        "maxFilesPerTrigger": "none",
        "responseFormat": "csv",
        "maxVersionPerRpc": "5",
        "endingVersion": "5",
    }
    for option, value in wrong.items():
        with pytest.raises(UsageError, match=option) as caught:
            share_stream_options({"path": PATH, option: value}, SPARK)

        assert "usage.stream-option" == caught.value.code


def test_options_of_both_readers() -> None:
    given = {"queryTableVersionIntervalSeconds": "10s", "maxVersionsPerRpc": "7", "startingVersion": "3"}

    found = share_stream_options({"path": PATH, **given, "responseFormat": "delta"}, SPARK)

    assert ShareStreamOptions(StreamOptions(PATH, 3), 7, 10, (ResponseFormat.DELTA,)) == found
    assert ShareStreamOptions(StreamOptions(PATH)).interval_seconds == 30
    feed = {"path": PATH, "readChangeFeed": "true", "endingVersion": "5"}
    assert 5 == share_column_options(feed | {"startingVersion": "0"}, SPARK).last
    for wrong in (feed, {"path": PATH, "startingVersion": "1"}, {"path": "p.share#a.b.c"}, {"path": "/table"}):
        with pytest.raises(UsageError):
            share_batch_options(wrong)


@pytest.mark.parametrize("versions", [2, 100])
@pytest.mark.parametrize("feed", [False, True])
def test_a_stream_that_begins_before_a_mapping_that_was_removed_is_refused(
    feed: bool, versions: int, tmp_path: Path
) -> None:
    make_renamed(tmp_path / "t")
    open_table(tmp_path / "t").drop_features("columnMapping")
    with proxied(tmp_path, shared(tmp_path / "t")) as server:
        for begin in (0, 3):
            stream = Following(server, versions, read_change_feed=feed, starting_version=begin)
            with pytest.raises(
                DeltacliError, match=f"version {begin} has other columns .* version 10 removed"
            ) as caught:
                stream.batch(None)
            assert "stream.schema-changed" == caught.value.code
        stream = Following(server, versions, read_change_feed=feed, starting_version=10)
        assert [] == stream.batch(None)[1]
        with pytest.raises(DeltacliError) as caught:
            read_shared(server.store(), ShareBatchOptions(PATH, read_change_feed=True, first=0)).partitions()
        assert "changes.mapping-removed" == caught.value.code


@pytest.mark.parametrize("form", ResponseFormat)
@pytest.mark.parametrize("feed", [False, True])
def test_a_stream_reads_no_column_as_the_one_that_got_its_name(
    feed: bool, form: ResponseFormat, tmp_path: Path
) -> None:
    """The mapping that swapped the names is gone, from the answers, too, and too far ahead for one request."""
    removed = make_swapped(tmp_path / "t")
    with proxied(tmp_path, shared(tmp_path / "t")) as server:
        stream = Following(server, 1, (form,), read_change_feed=feed, starting_version=0)
        expected = (
            f"version {removed} removed column mapping" if form is ResponseFormat.DELTA else "uses column mapping"
        )
        with pytest.raises(DeltacliError, match=expected):
            stream.batch(None)
        later = Following(server, 1, (form,), read_change_feed=feed, starting_version=removed)
        assert [] == later.batch(None)[1]
