"""One version has one form of V1 checkpoint unless somebody insists on a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.core.errors import Refused
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, plan_checkpoint
from deltacli.storage import Storage
from tests.support import damage
from tests.support.altering import table_of
from tests.support.appending import append
from tests.support.builder import LOG, TableBuilder
from tests.support.checkpoints import CheckpointKind, Shape
from tests.support.reading import open_at

CLASSIC = {"layout": "classic"}


def parts(count: int) -> dict[str, Any]:
    return {"layout": "multi-part", "parts": count}


def in_parts() -> TableBuilder:
    return TableBuilder().commits(4).checkpoint(kind=CheckpointKind.MULTI_PART, shape=Shape(files=3))


def names_of(storage: Storage) -> list[str]:
    return [stat.name for stat in storage.list_from(LOG) if "checkpoint" in stat.name and stat.name[0].isdigit()]


def test_auto_takes_parts_for_a_checkpoint_that_is_there() -> None:
    storage = in_parts().in_memory()
    before = names_of(storage)

    result = open_at(storage).checkpoint()

    assert (True, "multi-part", 3) == (result.skipped, result.plan.layout.value, result.hint_version)
    assert before == names_of(storage)
    assert b'"parts":3' in storage.read(f"{LOG}/_last_checkpoint")


@pytest.mark.parametrize(
    ("builder", "request_"),
    [
        (in_parts(), CLASSIC),
        (in_parts(), parts(2)),
        (TableBuilder().commits(4).checkpoint(), parts(2)),
        (TableBuilder().commits(4).checkpoint(), {"layout": "multi-part", "rows_per_file": 2}),
    ],
)
def test_a_second_form_is_refused_without_force_and_warned_about_with_it(
    builder: TableBuilder, request_: dict[str, Any]
) -> None:
    storage = builder.in_memory()
    before = names_of(storage)

    with pytest.raises(Refused) as refused:
        open_at(storage).checkpoint(**request_)

    assert "checkpoint.several-forms" == refused.value.code
    assert before == names_of(storage)
    result = open_at(storage).checkpoint(**request_, force=True)
    assert [True] == ["[checkpoint.several-forms]" in note for note in result.plan.notes]
    assert ["checkpoint.several-forms"] == [
        found.rule.id for found in open_at(storage).validate(select=["checkpoint.several-forms"]).findings
    ]


@pytest.mark.parametrize("request_", [{}, CLASSIC, {"if_behind": 1, **parts(2)}])
def test_an_existing_form_or_one_that_is_not_due_is_skipped_silently(request_: dict[str, Any]) -> None:
    storage = TableBuilder().commits(4).checkpoint().in_memory()

    result = open_at(storage).checkpoint(**request_)

    assert (True, ()) == (result.skipped, result.plan.notes)


def test_parts_that_cannot_be_read_do_not_stand_in_the_way() -> None:
    storage = in_parts().damaged(damage.corrupt_footer(3)).in_memory()

    plan = plan_checkpoint(open_at(storage), CheckpointRequest())

    assert plan.is_due
    assert ["[checkpoint.several-forms]" in note for note in plan.notes] == [True]


def test_bounds_of_floats_that_are_kept_as_numbers_are_those_of_the_log(tmp_path: Path) -> None:
    """The shortest text of a single-precision number is another one than that of the same number as a double."""
    table = open_table(table_of("f float").write(tmp_path / "table"))
    append(table, pa.table({"f": pa.array([0.1, 3.4028234663852886e38], pa.float32())}))
    table.checkpoint(stats="struct")

    assert [] == [one.message for one in table.validate().findings if one.severity == "error"]
