"""Reading takes as much memory for many files as for few."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.peak import deltacli
from tests.support.rows import parquet_bytes, schema_of, table_of
from tests.support.small_vectors import inline

ROWS = 60_000


def a_table(place: Path, files: int) -> Path:
    """Files of two million bytes, a tenth of their rows deleted."""
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "text": [f"{number:032}" for number in range(ROWS)]})
    data = parquet_bytes(rows, compression="zstd")
    names = [f"part-{number:03}.parquet" for number in range(files)]
    vector = inline(range(0, ROWS, 10))
    return table_of(dict.fromkeys(names, data), schema_of(rows), vectors=dict.fromkeys(names, vector)).write(place)


@pytest.mark.halved
def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    some, many = a_table(tmp_path / "some", 12), a_table(tmp_path / "many", 60)  # with 3 not every buffer is filled

    runs = [
        deltacli("read", table, "--format", "ndjson", "--where", "text >= '0'", keep_output=False)
        for table in (some, many)
    ]

    assert [0, 0] == [run.code for run in runs]
    assert runs[1].extra_mib <= 1.5 * runs[0].extra_mib + 16
    assert runs[1].extra_mib < 200
