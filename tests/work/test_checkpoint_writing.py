"""Encoding the files of checkpoints when a signal comes."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pyarrow as pa
import pytest

from deltacli.core.pools import TaskTracker
from deltacli.work.checkpoints import encoding as checkpoint_writing
from deltacli.work.checkpoints.encoding import FileEncoder
from deltacli.work.parquet_encoding import Encoding


class Hit(BaseException):
    pass


def test_a_file_is_not_closed_while_a_thread_that_its_pool_forgot_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes while the second thread is being started, which has taken the row group meanwhile."""
    schema = pa.schema({"txn": pa.struct({"appId": pa.string()})})
    writing, leaving, events = Event(), Event(), list[str]()
    start, encode, digest = Thread.start, FileEncoder._encode, checkpoint_writing.digest_row_group
    wait_idle = TaskTracker.wait_idle

    def start_and_interrupt(thread: Thread) -> None:
        start(thread)
        if thread.name == "deltacli-encode_1":
            assert writing.wait(30)
            raise Hit

    def encode_slowly(encoder: FileEncoder, rows: pa.Table) -> None:
        writing.set()
        assert leaving.wait(30)
        encode(encoder, rows)
        events.append("written")

    def digest_late(rows: pa.Table) -> tuple[int, tuple[int, ...]]:
        assert writing.wait(30)  # so that there is need of a second thread
        return digest(rows)

    def leave(tracker: TaskTracker[pa.Table, None]) -> None:
        leaving.set()
        wait_idle(tracker)

    def close(sink: checkpoint_writing._Sink) -> None:
        events.append("closed")
        leaving.set()
        sink._file.close()

    monkeypatch.setattr(Thread, "start", start_and_interrupt)
    monkeypatch.setattr(FileEncoder, "_encode", encode_slowly)
    monkeypatch.setattr(checkpoint_writing, "digest_row_group", digest_late)
    monkeypatch.setattr(TaskTracker, "wait_idle", leave)
    monkeypatch.setattr(checkpoint_writing._Sink, "close", close)

    with pytest.raises(Hit), FileEncoder(str(tmp_path / "file"), schema, Encoding()) as encoder:
        encoder.add_rows(pa.table({"txn": [{"appId": "a"}]}, schema))

    assert ["written", "closed"] == list(dict.fromkeys(events))


def test_row_group_ends_at_its_limit_of_bytes(tmp_path: Path) -> None:
    schema = pa.schema({"txn": pa.struct({"appId": pa.string()})})
    actions = pa.array([{"appId": "a" * 600}, {"appId": "b" * 600}], schema.field("txn").type)

    with FileEncoder(str(tmp_path / "file"), schema, Encoding(), bytes_a_group=1_000) as encoder:
        for _ in range(3):
            encoder.add("txn", actions)
        encoded = encoder.finish()

    assert [2, 2, 2] == [rows for rows, _ in encoded.digests]
