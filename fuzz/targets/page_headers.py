"""Headers of Parquet pages: any bytes are a header, the beginning of one, or a fault."""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.footers.thrift import ThriftFaultError, read_page_header
from fuzz.mutate import JSON_TOKENS

TOKENS = (b"\x15", b"\x18", b"\x1c", b"\x19\x00", b"\xff\xff\xff\xff\x0f", b"\x0c", b"\x00", *JSON_TOKENS[:4])


def seeds() -> list[bytes]:
    """The pages of a column in several versions of the format, each from its header on."""
    found = []
    for version in ("1.0", "2.0"):
        sink = io.BytesIO()
        pq.write_table(pa.table({"a": ["x" * 100, "y" * 50] * 10}), sink, data_page_version=version)
        data = sink.getvalue()[4:]
        first = read_page_header(data)
        found += [data[:64], data[first.length + first.packed_bytes :][:128] if first else data]
    return found


def test_one_input(data: bytes) -> None:
    """A header lies within the bytes, and its sizes are none below zero."""
    with contextlib.suppress(ThriftFaultError):
        header = read_page_header(data)
        if header is not None and not (
            0 < header.length <= len(data) and min(header.unpacked_bytes, header.values) >= 0
        ):
            raise AssertionError(f"{header} in {len(data)} bytes")
