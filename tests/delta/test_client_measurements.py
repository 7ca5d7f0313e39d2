"""How clients are measured: what they append is read back strictly, and a mixed result depends on the data."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.row_counts import count_rows
from tools.clients.facts import Measured, written
from tools.clients.measure import DEPENDS, Append, find_write_fault, rows_of, summarize
from tools.clients.tables import Case


@pytest.mark.parametrize(
    ("logged", "stored", "value", "appended", "fault"),
    [
        ("p=a%2520b/new.parquet", "p=a%20b/new.parquet", "a b", "a b", None),
        ("p=a%20b/new.parquet", "p=a b/new.parquet", "a b", "a b", None),
        ("p=a%20b/new.parquet", "p=a%20b/new.parquet", "a b", "a b", "not there"),
        ("new.parquet", "new.parquet", None, None, None),
        ("new.parquet", "new.parquet", "", None, "partition.empty-string"),
        ("new.parquet", "new.parquet", "a%20b", "a b", "other rows"),
    ],
)
def test_what_a_client_appended_is_read_back_strictly(
    logged: str, stored: str, value: str | None, appended: str | None, fault: str | None, tmp_path: Path
) -> None:
    row = pa.table({"id": pa.array([1], pa.int64()), "p": pa.array([appended], pa.string())})
    path = Case("partition.columns", row, None, partitions=[{"p": appended}]).write(tmp_path)
    before = rows_of(path)
    assert before is not None
    file = path / stored
    file.parent.mkdir(exist_ok=True)
    pq.write_table(row.select(["id"]), file)
    add = {
        "path": logged,
        "partitionValues": {"p": value},
        "size": file.stat().st_size,
        "modificationTime": 1_767_225_600_000,
        "dataChange": True,
    }
    (path / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"add": add}) + "\n", "utf-8")

    found = find_write_fault(Append(0, path, file, count_rows([row], before.names), "", 0), before)

    assert (found is None) == (fault is None), found
    assert (fault or "") in (found or "")


def test_where_some_rows_are_right_it_depends_on_the_data() -> None:
    assert (True, None) == summarize([("1", None), ("2", None)])
    assert (False, "2: refused") == summarize([("2", "refused"), ("3", "refused")])
    does, why = summarize([("1", None), ("2", "refused")])
    assert does is None
    assert why is not None
    assert why.startswith(DEPENDS)
    assert (None, None) == summarize([])


def test_a_mixed_result_needs_a_reason_in_the_table_of_facts() -> None:
    client = {"name": "m", "version": "1", "measuredOn": "2026-01-01", "facts": {}}
    found = {"m": Measured("2", {"partition.columns": [True, None]}, frozenset({("partition.columns", "writes")}))}
    reasons = {"partition.columns": {"writes": "nulls are written wrongly"}}

    with pytest.raises(ValueError, match=r"partition\.columns"):
        written({"clients": [client]}, found, "2026-01-02")
    text = written({"clients": [client | {"dependsOnData": reasons}]}, found, "2026-01-02")

    assert {"partition.columns": [True, None]} == json.loads(text)["clients"][0]["facts"]
