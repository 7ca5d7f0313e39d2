"""Data files: the rows that a damaged Parquet file has left, or an error; never the end of the process."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from deltacli.core.errors import DeltacliError
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes, schema_of, table_of

TOKENS = (b"PAR1", b"\xff\xff\xff\xff\x7f", b"\x15\x00", b"\x19\x1c", b"\x00" * 8)
_ROWS = pa.table(
    {
        "id": pa.array([1, None, 3], pa.int64()),
        "name": pa.array(["a", "b", None]),
        "list": pa.array([[1], None, []], pa.list_(pa.int32())),
        "when": pa.array([0, 1, None], pa.timestamp("us", tz="UTC")),
        "price": pa.array([None, None, None], pa.decimal128(10, 2)),
    }
)


def seeds() -> list[bytes]:
    """Files in several layouts."""
    return [
        parquet_bytes(_ROWS),
        parquet_bytes(_ROWS, compression="none", use_dictionary=False, row_group_size=2),
        parquet_bytes(_ROWS, data_page_version="2.0", compression="zstd", store_schema=False),
        parquet_bytes(_ROWS, use_deprecated_int96_timestamps=True, write_page_index=True),
    ]


def test_one_input(data: bytes) -> None:
    """Reading ends with rows or with an error of ours, with a condition and without."""
    snapshot = open_at(table_of({"part-0.parquet": data}, schema_of(_ROWS)).in_memory()).snapshot()
    for where in (None, "id > 2 or name is null"):
        with contextlib.suppress(DeltacliError):
            for batch in snapshot.scan(where=where):
                batch.validate(full=False)
