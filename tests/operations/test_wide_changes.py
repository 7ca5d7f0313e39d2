"""Many columns are changed at once in a wide table: what one of them costs does not depend on how many there are."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import plan_change
from deltacli.operations.change.widen_type import Widening, WidenRequest
from tests.support.actions import Action
from tests.support.builder import TableBuilder
from tests.support.reading import open_built
from tests.support.widening import ENABLED, WIDENING, field, metadata, protocol, struct

NARROW, WIDE = 50, 500


def table_of(columns: int) -> Table:
    schema = struct(*(field(f"c{number}", "integer") for number in range(columns)))
    birth: list[Action] = [{"protocol": protocol(*WIDENING)}, {"metaData": metadata(schema, ENABLED)}]
    return open_built(TableBuilder().commit(*birth))


def widen(table: Table, count: int) -> None:
    words = [word for number in range(count) for word in (f"c{number}", "long")]
    plan_change(Widening(WidenRequest().of(words)), table)


def skip_statistics_of(table: Table, count: int) -> None:
    value = ",".join(f"c{number}" for number in range(count))
    table.set_properties({"delta.dataSkippingStatsColumns": value}, dry_run=True)


def calls_of(change: Callable[[Table, int], None], columns: int, count: int) -> int:
    """How many functions a change of some columns calls."""
    table, calls = table_of(columns), 0

    def note(_frame: object, event: str, _argument: Any) -> None:  # Any: of every event another thing
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # or the finalizers of what other tests left are counted
    sys.setprofile(note)
    try:
        change(table, count)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


@pytest.mark.parametrize("change", [widen, skip_statistics_of])
def test_a_further_column_costs_the_same_in_a_wide_table(change: Callable[[Table, int], None]) -> None:
    change(table_of(2), 1)  # what is imported or cached once

    narrow, wide = (calls_of(change, columns, 40) - calls_of(change, columns, 10) for columns in (NARROW, WIDE))

    assert wide < 1.2 * narrow
