"""The page on scale has the tables that its model computes."""

from __future__ import annotations

import pytest

from benchmarks.scale import FILES, filled, forecast, load, tables, unit_costs
from tests.cli.support import ROOT


def test_the_tables_of_the_page_are_those_of_the_model() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")

    made = tables(load("scale_small.json"), load("scale_large.json"))

    assert all(f"<!-- table {name} -->" in page for name in made)
    assert filled(page, made) == page


@pytest.mark.parametrize("name", ["counts", "vacuum, dry run"])
def test_more_slots_shorten_the_jobs_only(name: str) -> None:
    cost = unit_costs(load("scale_small.json"))[name]

    few, many = (forecast(cost, FILES, slots, 0.2) for slots in (10, 1_000))

    assert few.on_driver == many.on_driver
    assert few.in_jobs / 100 < many.in_jobs < few.in_jobs
