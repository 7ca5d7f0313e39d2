"""Partition values that a checkpoint repeats, where the commits before it have expired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.operations.repair.repair import plan_repair
from deltacli.operations.validate.findings import ValidateRequest
from deltacli.operations.validate.validate import validate_table
from deltacli.rules.framework.base import Severity
from tests.support.damaged_tables import CHECKPOINT, CHECKPOINT_VERSION, DamagedTable
from tests.support.repairing import content_of, execute_repair, open_damaged, readable_rows, repair_and_check, request

Add = dict[str, Any]  # Any: JSON values


def other_values(add: Add) -> None:
    add["partitionValues_parsed"] = {"p": "other"}


def no_values(add: Add) -> None:
    del add["partitionValues_parsed"]


def another_map(add: Add) -> None:
    add["partitionValues"] = [("p", "other")]


@pytest.fixture
def table_with(tmp_path: Path) -> Callable[[Callable[[Add], None]], Path]:
    """Write a table whose checkpoint has changed adds, and which has no commits before it."""

    def make(change: Callable[[Add], None]) -> Path:
        table = DamagedTable()
        table.derive(checkpoint=False, checksums=False)
        table.configure({"delta.checkpoint.writeStatsAsStruct": "true"})
        root = table.write(tmp_path / "t")
        open_damaged(root).checkpoint(version=CHECKPOINT_VERSION)
        for version in range(CHECKPOINT_VERSION):
            (root / f"_delta_log/{version:020d}.json").unlink()
        found = pq.read_table(root / CHECKPOINT)
        rows, schema = found.to_pylist(), found.schema
        for row in rows:
            if row["add"] is not None:
                change(row["add"])
        if change is no_values:
            place = schema.get_field_index("add")
            kept = [field for field in schema.field(place).type if field.name != "partitionValues_parsed"]
            schema = schema.set(place, pa.field("add", pa.struct(kept)))
        pq.write_table(pa.Table.from_pylist(rows, schema), root / CHECKPOINT)
        return root

    return make


def rules(root: Path) -> set[str]:
    """What is found, without the times of files that were written again."""
    found = validate_table(open_damaged(root), ValidateRequest(level="log")).findings
    return {one.rule.id for one in found if one.severity is not Severity.INFO and ".mtime" not in one.rule.id}


@pytest.mark.parametrize(
    ("change", "rule"),
    [(other_values, "checkpoint.parsed-partition-differs"), (no_values, "checkpoint.parsed-partition-missing")],
)
def test_they_are_taken_from_the_maps_beside_them(
    change: Callable[[Add], None], rule: str, table_with: Callable[[Callable[[Add], None]], Path]
) -> None:
    root = table_with(change)
    rows = readable_rows(open_damaged(root))
    assert rule in rules(root)

    done = repair_and_check(root, request(level="log"))

    assert {rule} == {step.rule for step in done.steps if step.rule.startswith("checkpoint.")}
    assert "from its own fields" in next(step.what for step in done.steps if step.rule == rule)
    assert set() == rules(root)
    assert 80 == rows.total()
    assert rows == readable_rows(open_damaged(root))


def test_a_map_that_the_directory_contradicts_is_not_copied(
    table_with: Callable[[Callable[[Add], None]], Path],
) -> None:
    root = table_with(another_map)
    before = content_of(root)

    done = execute_repair(plan_repair(open_damaged(root), request(level="log", select=["checkpoint.*"])))

    assert before == content_of(root)
    assert "names other partition values than its map" in done.plan.unrepaired[0].reason
