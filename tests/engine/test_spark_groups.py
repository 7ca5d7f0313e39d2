"""What executors do with rows that are brought together by groups: from pickles, sorted, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable
from deltacli.engine.base import GROUPS
from deltacli.engine.spark.regrouping import PickledResults, merge_grouped_batches, read_grouped_batches
from deltacli.engine.spark.worker import DONE, FAULT, Job
from deltacli.operations.diff import RowDiff
from deltacli.storage.location import StoreLocation
from deltacli.work.rows.row_comparison import CompareRows
from tests.support.rows import parquet_bytes, schema_of, table_of

GROUP_COUNT = 5


@pytest.fixture
def found(tmp_path: Path) -> RowDiff:
    """Two tables of three files each; one key occurs twice in the second table, and some have other values."""
    sides = []
    for name, numbers in (("before", range(30)), ("after", [*range(3, 33), 7])):
        rows = pa.table({"k": list(numbers), "v": [number % 4 if name == "before" else 0 for number in numbers]})
        files = {f"{place}.parquet": parquet_bytes(rows.slice(place * 11, 11)) for place in range(3)}
        sides.append(open_table(table_of(files, schema_of(rows)).write(tmp_path / name)).snapshot())
    return RowDiff(sides[0], sides[1], ["k"])


def on_executors(found: RowDiff) -> Iterator[tuple[str, Any]]:  # Any: a result, or an error
    """Read and merge as tasks of Spark do: one that reads all pieces, and one that merges all groups."""
    readings = found.readings()
    jobs = [
        Job(one.task, StoreLocation.of(one.stores.storage.uri), None, pickle.dumps({**one.shared, GROUPS: GROUP_COUNT}))
        for one in readings
    ]
    pieces = [pickle.dumps((side, piece)) for side, one in enumerate(readings) for piece in one.pieces]
    kept = (
        pa.Table.from_batches(read_grouped_batches(pickle.dumps(jobs), pieces))
        .sort_by("group")
        .to_batches(max_chunksize=3)
    )
    finish = PickledResults(CompareRows(found.columns, lists=True), found.columns.fingerprint_schema)
    for batch in merge_grouped_batches(pickle.dumps((finish, len(readings))), iter(kept)):
        for row in batch.to_pylist():
            yield row["status"], pickle.loads(row["content"])


def test_groups_have_the_keys_and_counts_of_one_process(found: RowDiff) -> None:
    expected = sorted((row for batch in found.changes() for row in batch.to_pylist()), key=lambda row: row["k"])

    results = list(on_executors(found))

    assert {DONE} == {status for status, _ in results}
    assert GROUP_COUNT == len(results)
    rows = [row for _, (_, batch) in results if batch is not None for row in batch.to_pylist()]
    assert expected == sorted(rows, key=lambda row: row["k"])
    assert found.counts.added == sum(counts.added for _, (counts, _) in results) == 3
    assert found.counts.columns["v"] == sum(counts.columns["v"] for _, (counts, _) in results) > 0
    assert 1 == sum(counts.repeated for _, (counts, _) in results)


def test_the_error_of_a_reading_is_the_result_of_all_groups(found: RowDiff, tmp_path: Path) -> None:
    (tmp_path / "after" / "1.parquet").unlink()

    results = list(on_executors(found))

    assert [FAULT] == [status for status, _ in results][-1:]
    assert isinstance(results[-1][1], DataUnreadable)
    with pytest.raises(DataUnreadable) as caught:
        list(found.changes())
    assert caught.value.message == results[-1][1].message
