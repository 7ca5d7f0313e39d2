"""An inventory with encoded names: nothing is planned for files that exist under their decoded names only."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.core.machine import fixed_clock
from deltacli.operations.vacuum.plan import VacuumPlan
from tests.support.builder import TableBuilder

NOW_MS, OLD_MS = 1_800_000_000_000, 1_600_000_000_000
ORPHANS = ["p=a b/orphan.parquet", "p=é/orphan.parquet", "p=1+1/orphan.parquet", "plain.parquet"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with files that no version names."""
    place = TableBuilder().commits(2).write(tmp_path / "t")
    for name in ORPHANS:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"12")
        os.utime(place / name, (OLD_MS / 1000,) * 2)
    return place


def plan_by(names: list[str], table: Path) -> VacuumPlan:
    inventory = table.parent / "inventory.parquet"
    rows = {
        "path": names,
        "size": pa.array([2] * len(names), pa.int64()),
        "modified": pa.array([OLD_MS] * len(names), pa.int64()),
    }
    pq.write_table(pa.table(rows), inventory)
    return open_table(table, clock=fixed_clock(NOW_MS)).plan_vacuum(inventory=str(inventory))


def lower(name: str) -> str:
    return quote(name).replace("%C3%A9", "%c3%a9")


@pytest.mark.parametrize("encode", [quote, quote_plus, lower, lambda name: quote(name, safe="")])
def test_encoded_names_are_refused_with_an_example(encode: Callable[[str], str], table: Path) -> None:
    live = [path.name for path in table.glob("*.parquet") if path.name not in ORPHANS]
    names = (
        [encode(name) for name in ORPHANS]
        if encode("/") == "/"
        else [encode(name).replace("%2F", "/") for name in ORPHANS]
    )

    plan = plan_by([*live, *names], table)

    refusals = {refusal.code: refusal.message for refusal in plan.refusals}
    assert "vacuum.inventory" in refusals
    assert any(name in refusals["vacuum.inventory"] for name in ORPHANS[:2])


@pytest.mark.parametrize("names", [ORPHANS, ["p=%zz/x.parquet"], ["gone%20since.parquet"], ["a+b.parquet"], []])
def test_names_as_they_are_and_names_of_files_that_are_gone_are_no_encoded_names(names: list[str], table: Path) -> None:
    assert "vacuum.inventory" not in {refusal.code for refusal in plan_by(names, table).refusals}


def test_a_file_whose_name_has_a_percent_sign_is_found_by_it(table: Path) -> None:
    for name in ("p=a%20b", "p=a b"):
        (table / name).mkdir(exist_ok=True)
        (table / name / "both.parquet").write_bytes(b"12")

    plan = plan_by(["p=a%20b/both.parquet"], table)

    assert "vacuum.inventory" not in {refusal.code for refusal in plan.refusals}
    assert ["p=a%20b/both.parquet"] == [path.decode() for path in plan.candidates.column("path").to_pylist()]
