"""Directories of Parquet files: what other readers find in them is what the scan of the table returns."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from tests.corpus.test_read_corpus import LARGE, LOG_REFUSED, REFUSED
from tests.support import corpus
from tests.support.corpus import CorpusTable
from tests.support.row_counts import same_rows

TABLES = [
    table
    for table in corpus.tables()
    if table.newest and "error" not in table.newest and table.id not in {*LARGE, *REFUSED, *LOG_REFUSED}
]


SLOW = "delta-rs/COVID-19_NYT"
"""A million rows, compared one by one: 19 s."""


@pytest.mark.parametrize(
    "table",
    [pytest.param(table, id=table.id, marks=pytest.mark.long if table.id == SLOW else ()) for table in TABLES],
)
def test_written_rows_are_those_of_the_scan(table: CorpusTable, root: Path, tmp_path: Path) -> None:
    assert table.newest is not None
    scan = open_table(table.path(root)).snapshot(version=table.newest["version"]).scan()

    written = scan.write_parquet(tmp_path / "out")

    names, files = scan.schema.names, sorted((tmp_path / "out").glob("*.parquet"))
    found = [pq.ParquetFile(file).read() for file in files]
    expected = pa.Table.from_batches(scan, scan.schema)
    assert all(scan.schema.equals(file.schema) for file in found)
    assert same_rows(expected, pa.concat_tables(found))
    assert expected.num_rows == written.rows
    if names:
        assert same_rows(expected, of_duckdb(files, scan.schema))


def of_duckdb(files: list[Path], schema: pa.Schema) -> pa.Table:
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        names = [str(file) for file in files]
        return session.sql("SELECT * FROM read_parquet(?)", params=[names]).to_arrow_table().cast(schema)
