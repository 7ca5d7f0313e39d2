"""Many columns are changed at once in a wide table: what one of them costs does not depend on how many there are."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import plan_change
from deltacli.delta.evolution.requests import (
    AddColumn,
    AddConstraint,
    Change,
    ChangeType,
    SetComment,
    SetDefault,
)
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
    changes = tuple((f"c{number}", "long") for number in range(count))
    plan_change(Widening(WidenRequest(changes)), table)


def skip_statistics_of(table: Table, count: int) -> None:
    value = ",".join(f"c{number}" for number in range(count))
    table.set_properties({"delta.dataSkippingStatsColumns": value}, dry_run=True)


def alter(change: Callable[[str], Change]) -> Callable[[Table, int], None]:
    return lambda table, count: void(table.alter([change(f"c{number}") for number in range(count)], dry_run=True))


def void(_: object) -> None:
    """Nothing: the plan is not looked at."""


def calls_of(change: Callable[[Table, int], None], columns: int, count: int) -> Counter[str]:
    """How many functions a change of some columns calls, by the name of the function, of the caller if it is of C."""
    table, calls = table_of(columns), Counter[str]()

    def note(frame: FrameType, event: str, _argument: Any) -> None:  # Any: of every event another thing
        if event in ("call", "c_call"):
            calls[frame.f_code.co_name] += 1

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

    narrow, wide = (
        calls_of(change, columns, 40).total() - calls_of(change, columns, 10).total() for columns in (NARROW, WIDE)
    )

    assert wide < 1.2 * narrow


@pytest.mark.parametrize(
    "change",
    [
        lambda name: SetComment(name, "text"),
        lambda name: SetDefault(name, "1"),
        lambda name: ChangeType(name, "bigint"),
        lambda name: AddColumn(f"new_{name}", "int"),
        lambda name: AddConstraint(f"new_{name}", f"{name} > 0"),
    ],
)
def test_a_further_change_of_a_wide_table_reads_and_writes_no_other_column(change: Callable[[str], Change]) -> None:
    narrow, wide = [
        (calls_of(alter(change), columns, 40), calls_of(alter(change), columns, 10)) for columns in (NARROW, WIDE)
    ]

    functions = ("_parse_field", "_written")
    for function in functions:
        assert wide[0][function] - wide[1][function] == narrow[0][function] - narrow[1][function]
    assert any(wide[1][function] for function in functions), "they have other names"
