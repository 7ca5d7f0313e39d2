"""Statistics compared with rows, beyond the named damages: valid cases, and the text of findings."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.rules.corruptions_statistics_files import claiming, with_column
from tests.rules.table_builder import column, struct
from tests.rules.test_corruptions import inspect


@pytest.mark.parametrize("level", ["footers", "data"])
@pytest.mark.parametrize("nulls", [1, 2])
def test_nulls_of_null_structs_may_count(nulls: int, level: str, tmp_path: Path) -> None:
    """One struct is null, another has a null."""
    values = pa.array([{"y": None}, None, {"y": 3}], pa.struct([("y", pa.int32())]))
    table = with_column(struct(column("y", "integer")), values, {"y": 3}, {"y": 3}, nulls={"y": nulls})

    assert () == inspect(table.write(tmp_path / "t"), level).findings


@pytest.mark.parametrize("level", ["footers", "data"])
def test_a_finding_names_both_values_and_the_effect_on_rows(level: str, tmp_path: Path) -> None:
    found = inspect(claiming("minValues", name="name 43").write(tmp_path / "t"), level).findings

    message = (
        "column name of p=b/part-00004-c000.snappy.parquet has 'name 41', below the minimum 'name 43' of its "
        "statistics: a filter for name < 'name 43' skips this file and loses rows"
    )
    assert [message] == [finding.message for finding in found]
    assert [("'name 43'", "'name 41' or less")] == [(finding.seen, finding.expected) for finding in found]
