"""Checkpoints whose bytes are Parquet, and hold what no checkpoint holds."""

from __future__ import annotations

import io
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.core.errors import CheckpointUnreadable
from deltacli.storage.local import LocalStorage
from tests.support import damage
from tests.support.actions import remove
from tests.support.builder import LOG, TableBuilder
from tests.support.checkpoints import Shape
from tests.support.peak import deltacli
from tests.support.reading import document, open_at, open_built

LEAST_OF_AN_INT32 = re.compile(rb"(protocol\x10minReaderVersion.{0,80}?\x28)\x04(....)\x18\x04(....)", re.DOTALL)

SHORT = b"\x02\x01\x00\x18\x02\x01\x00"
NAME = f"{LOG}/{2:020d}.checkpoint.parquet"


def test_text_that_is_not_utf8_does_not_reach_the_output() -> None:
    builder = TableBuilder().commits(3).checkpoint(2, shape=Shape(compression="none"))
    builder.damaged(damage.head_cleaned(3))
    data = builder.files[NAME].data
    assert b"part-00002.parquet" in data
    builder.file(NAME, data.replace(b"part-00002.parquet", b"part-\xff\xfe002.parquet"))

    with pytest.raises(CheckpointUnreadable, match=NAME):
        list(open_built(builder).snapshot().files())


def test_a_checkpoint_without_a_path_column_has_no_digest() -> None:
    builder = TableBuilder().commits(3).checkpoint(2, shape=Shape(compression="none"))
    builder.damaged(damage.head_cleaned(3))
    builder.file(NAME, builder.files[NAME].data.replace(b"\x18\x04path", b"\x18\x04pxth"))

    with pytest.raises(CheckpointUnreadable, match=r"path is missing"):
        document(open_built(builder))


@pytest.mark.parametrize("kind", ["add", "remove", "protocol", "metaData"])
@pytest.mark.parametrize("column", [pa.array([1]), pa.array(["x"]), pa.array([[{"path": "x"}]]), pa.array([{"x": 1}])])
def test_an_action_of_another_type_makes_the_checkpoint_unusable_or_is_ignored(kind: str, column: Any) -> None:
    """
    The checkpoint is set aside for the commits, or the odd column says nothing that anybody asks for.
    """
    builder = TableBuilder().commits(3)
    sink = io.BytesIO()
    pq.write_table(pa.table({kind: column}), sink)
    builder.file(NAME, sink.getvalue())

    snapshot = open_built(builder).snapshot()

    assert (2, 2) == (snapshot.version, snapshot.counts()[0].count)
    assert snapshot.segment.checkpoint is None


def test_a_least_value_shorter_than_its_type_does_not_end_the_process(tmp_path: Path) -> None:
    """
    pyarrow 26.0.1 ends it when it is asked for the statistics; reading the column, it calls them an end of the stream.
    """
    builder = TableBuilder().commits(3).checkpoint(2).damaged(damage.head_cleaned(3))
    data = builder.files[NAME].data
    length = struct.unpack("<I", data[-8:-4])[0]
    footer, found = LEAST_OF_AN_INT32.subn(lambda match: match[1] + SHORT, data[-8 - length : -8])
    builder.file(NAME, data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1")

    run = deltacli("snapshot", builder.write(tmp_path), "--json")

    assert found >= 1
    assert (3, "checkpoint.unreadable") == (run.code, json.loads(run.error or "{}").get("code"))


@pytest.mark.parametrize("store", ["local", "memory"])
def test_a_checkpoint_that_is_written_again_while_it_is_read_is_refused(store: str, tmp_path: Path) -> None:
    """
    Another writer puts its own checkpoint of that version in place: some rows would come twice, others never.
    """
    builder = TableBuilder().commits(30).checkpoint(29)
    storage = LocalStorage(str(builder.write(tmp_path))) if store == "local" else builder.in_memory()
    snapshot = open_at(storage).snapshot()
    name = f"{LOG}/{29:020d}.checkpoint.parquet"
    again = TableBuilder().commits(30).checkpoint(29, shape=Shape(compression="none")).files[name].data

    storage.put(name, again)

    with pytest.raises(CheckpointUnreadable, match="was changed while it was read"):
        list(snapshot.files())


@pytest.mark.parametrize("codec", ["snappy", "lz4", "gzip", "zstd", "brotli", "none"])
def test_every_codec_of_parquet_is_measured_and_read(codec: str) -> None:
    builder = TableBuilder().commits(200).checkpoint(199, shape=Shape(compression=codec))

    snapshot = open_built(builder.damaged(damage.head_cleaned(199))).snapshot()

    assert snapshot.counts()[0].count == sum(batch.num_rows for batch in snapshot.files()) > 100


@pytest.mark.parametrize("newer", [0, 1, 6])
def test_an_add_without_a_path_is_refused_in_a_list_as_in_a_count(newer: int, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "protocol": pa.array([{"minReaderVersion": 1, "minWriterVersion": 2}, None, None, None]),
            "metaData": pa.array([None, {"id": "x", "schemaString": '{"type":"struct","fields":[]}'}, None, None]),
            "add": pa.array([None, None, {"path": "a", "size": 1}, {"path": None, "size": 2}]),
        }
    )
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    builder = TableBuilder().commits(3).damaged(damage.head_cleaned(2)).file(NAME, sink.getvalue())
    for number in range(newer):
        builder.commit(remove(f"gone-{number}"))

    with pytest.raises(CheckpointUnreadable, match=r"add\.path is missing"):
        list(open_built(builder).snapshot().files())


def test_text_that_the_file_calls_views_is_text() -> None:
    strings = pa.map_(pa.string(), pa.string_view())
    add = pa.struct(
        [("path", pa.string_view()), ("partitionValues", strings), ("size", pa.int64()), ("stats", pa.string_view())]
    )
    stats = '{"numRecords":3,"minValues":{"a":"far more than twelve bytes"}}'
    row = {
        "path": "a-name-of-more-than-twelve-bytes.parquet",
        "partitionValues": [("k", "v")],
        "size": 1,
        "stats": stats,
    }
    rows = pa.table(
        {
            "protocol": pa.array([{"minReaderVersion": 1, "minWriterVersion": 2}, None, None]),
            "metaData": pa.array([None, {"id": "x", "schemaString": '{"type":"struct","fields":[]}'}, None]),
            "add": pa.array([None, None, row], add),
        }
    )
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    builder = TableBuilder().commits(3).damaged(damage.head_cleaned(2)).file(NAME, sink.getvalue())

    snapshot = open_built(builder.commit(remove("gone"))).snapshot()

    assert (1, 3) == (snapshot.counts()[0].count, snapshot.counts()[0].records)
    found = [item for batch in snapshot.files() for item in batch.to_pylist(maps_as_pydicts="lossy")]
    assert [(row["path"], {"k": "v"}, stats)] == [
        (item["path"], item["partitionValues"], item["stats"]) for item in found
    ]


def test_a_row_group_whose_pages_end_early_is_not_a_smaller_table() -> None:
    builder = TableBuilder().commits(100).checkpoint(shape=Shape(compression="none"))
    name = f"{LOG}/{builder.newest:020d}.checkpoint.parquet"
    builder.damaged(damage.head_cleaned(builder.newest + 1))
    data = builder.files[name].data
    rows = pq.ParquetFile(io.BytesIO(data)).metadata.num_rows
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    told, more = (b"\x16" + bytes([2 * count & 0x7F | 0x80, 2 * count >> 7]) for count in (rows, rows + 20))
    assert told in data[end:]
    builder.file(name, data[:end] + data[end:].replace(told, more))

    with pytest.raises(CheckpointUnreadable, match=name):
        open_built(builder).snapshot().counts()
    with pytest.raises(CheckpointUnreadable, match=name):
        list(open_built(builder).snapshot().files())
