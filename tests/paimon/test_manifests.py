"""Damaged manifests are errors with a code, whatever the reader of their format raises."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from deltacli.core.errors import Unreadable
from deltacli.paimon.snapshots import ManifestFile, read_manifest_list, read_state
from tests.support.paimon_builder import ID, PaimonBuilder


@pytest.fixture
def avro(tmp_path: Path) -> bytes:
    """A list of one manifest as Avro."""
    table = PaimonBuilder(tmp_path / "t").schema(ID).snapshot(0, adds={"a": 0})
    return (table.root / "manifest" / "manifest-list-1-1").read_bytes()


def columnar(write: Any) -> bytes:  # Any: a writer of pyarrow
    """Return the same list in a columnar format."""
    sink = BytesIO()
    write(pa.table({"_FILE_NAME": ["manifest-1"], "_SCHEMA_ID": pa.array([0], pa.int64())}), sink)
    return sink.getvalue()


def test_lists_of_manifests_are_read_in_every_format(avro: bytes) -> None:
    lists = [avro, columnar(pa.orc.write_table), columnar(pa.parquet.write_table)]

    assert [(ManifestFile("manifest-1", 0),)] * 3 == [read_manifest_list(data) for data in lists]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:3],
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"name"', b'" ame"', 1),
        lambda data: data.replace(b"_SCHEMA_ID", b"_SCHEMA_IX"),
        lambda data: data.replace(b"zstandard", b"zstandarx"),
        lambda data: data[:-30] + bytes(30),
        lambda _: b"{}",
    ],
)
def test_damaged_manifests_have_a_code(damage: Any, avro: bytes) -> None:
    for read in (read_manifest_list, read_state):
        with pytest.raises(Unreadable) as caught:
            read(damage(avro))

        assert "paimon.bad-manifest" == caught.value.code


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1]}),
        pa.table({"_FILE_NAME": [b"\xff"], "_SCHEMA_ID": [1]}),
        pa.table({"_FILE_NAME": pa.array([None], pa.string()), "_SCHEMA_ID": [1]}),
    ],
    ids=["missing", "binary", "null"],
)
def test_columnar_manifests_with_other_columns_have_a_code(table: pa.Table) -> None:
    for write in (pa.orc.write_table, pa.parquet.write_table):
        sink = BytesIO()
        write(table, sink)

        with pytest.raises(Unreadable):
            read_manifest_list(sink.getvalue())
