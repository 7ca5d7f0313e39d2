"""Footers of data files: ours, or a fault of ours, whatever the bytes; what is read twice is read alike."""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.footers.columns import read_schema
from deltacli.delta.footers.parse import FooterReader
from deltacli.delta.footers.thrift import ThriftFaultError

TOKENS = (
    b"\x19",
    b"\x1c",
    b"\x15",
    b"\x16",
    b"\x18",
    b"\x28",
    b"\x3c",
    b"\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x11",
    b"\x12",
)
_SCHEMA_FAULTS = (pa.ArrowException, OSError, ValueError)


def seeds() -> list[bytes]:
    """Footers of a few writers."""
    rows = {
        "id": [1, 2, None],
        "name": ["a", "b" * 70, None],
        "at": [[1], [], None],
        "s": [{"x": 1.5}, None, {"x": None}],
    }
    found = []
    for options in ({}, {"write_statistics": False}, {"row_group_size": 1, "write_page_index": True}):
        sink = io.BytesIO()
        pq.write_table(pa.table(rows), sink, **options)
        data = sink.getvalue()
        length = int.from_bytes(data[-8:-4], "little")
        found.append(data[-8 - length : -8])
    return found


_REMEMBERING, _LATER = FooterReader(learn_after=0), FooterReader(learn_after=3)


def test_one_input(data: bytes) -> None:
    """Read it with what was learned before and without; its schema, too."""
    results: list[object] = []
    for reader in (_REMEMBERING, _LATER, FooterReader()):
        try:
            footer = reader.read(data)
            results.append((footer.rows, footer.groups, footer.is_encrypted))
        except ThriftFaultError:
            results.append(None)
            continue
        with contextlib.suppress(*_SCHEMA_FAULTS):
            read_schema(footer.schema)
    assert results[0] == results[1] == results[2], "what was learned changes what is read"
