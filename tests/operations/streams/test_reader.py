"""The model of a reader does at a restart what the cases say, so that other tests may ask it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operations.streams.cases import CASES, Case
from tests.operations.streams.reader import Dies, restart

BEYOND = frozenset({21, 25, 26, 50, 51, 55})
"""Cases about what the model leaves out: table ids, schemas, queries with async progress, other versions of Spark."""


@pytest.mark.parametrize(
    "case", [one for one in CASES if one.number not in BEYOND and one.verdict != "unknown"], ids=lambda one: one.what
)
def test_the_model_dies_where_a_case_is_dead(case: Case, tmp_path: Path) -> None:
    root, checkpoint = case.table.write(tmp_path / "table"), case.checkpoint.write(tmp_path / "checkpoint")

    if case.verdict == "dead":
        with pytest.raises(Dies):
            restart(root, checkpoint)
        return
    opened = restart(root, checkpoint)
    if case.feed == "dead":
        with pytest.raises(Dies):
            restart(root, checkpoint, feed=True)
    else:
        opened |= restart(root, checkpoint, feed=True)
    assert case.files <= opened
