"""What takes turns: of four gates each test of the long suite is in one, and what every gate has to run is in all. What
takes turns tries all of its own cases in turn.
"""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from tests.support import effort

MARKS = {
    "long": pytest.mark.long,
    "every gate": pytest.mark.long(turns=False),
    "halved": pytest.mark.halved,
    "suite": pytest.mark.usefixtures,
}
TIMES = {"long": 1, "every gate": 4, "halved": 2, "suite": 4}


@pytest.mark.parametrize(("asks", "times"), [("", TIMES | {"long": 4}), ("1", TIMES)])
def test_four_gates_run_every_test(
    asks: str, times: dict[str, int], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTACLI_TURNS", asks)
    monkeypatch.delenv("DELTACLI_EFFORT", raising=False)
    items = {f"{name} {number}": name for name in MARKS for number in range(20)}
    runs: dict[str, list[int]] = {name: [] for name in items}
    for turn in range(16):
        monkeypatch.setattr(effort._Turn, "number", turn)
        made = {name: pytest.Function.from_parent(request.node.parent, name=name, callobj=_nothing) for name in items}
        for name, item in made.items():
            item.own_markers[:] = [MARKS[items[name]].mark]
        left = {item.name for item in effort.left_to_soaking([*made.values()])}
        for name in items.keys() - left:
            runs[name] += effort.in_turn(range(4), 4, turn=effort.turn_of(made[name]))

    assert {name: 4 * times[kind] for name, kind in items.items()} == {name: len(tried) for name, tried in runs.items()}
    assert all({*range(4)} == {*tried} for tried in runs.values()), "a test never tries some of its own cases"


class _Item:
    """A test that knows its name and its marks."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self.marks = nodeid, {*marks}
        self.get_closest_marker, self.add_marker = {mark: mark for mark in marks}.get, self.marks.add


@pytest.mark.parametrize(
    ("name", "marks", "given"),
    [
        ("rules/test_a.py", "", {(1, ""), (3, "halved"), (8, "halved quartered")}),
        ("rules/test_a.py", "long", {(1, ""), (3, "halved"), (8, "halved quartered")}),
        ("rules/test_a.py", "matrix", {(1, ""), (3, ""), (8, "")}),
        ("operations/test_a.py", "", {(1, ""), (3, "halved"), (8, "halved")}),
        ("operations/test_a.py", "long", {(1, ""), (3, ""), (8, "")}),
        ("operations/test_a.py", "in_turn", {(1, ""), (3, ""), (8, "")}),
        ("operations/vacuum/test_a.py", "", {(1, ""), (3, ""), (8, "")}),
        ("delta/test_conflicts.py", "", {(1, ""), (3, ""), (8, "")}),
        ("cluster/test_a.py", "", {(1, ""), (3, ""), (8, "")}),
    ],
)
def test_many_cases_take_turns_apart_from_those_of_deletions_and_commits(
    name: str, marks: str, given: set[tuple[int, str]]
) -> None:
    items = [
        _Item(f"tests/{name}::test_{count}[{case}]", *marks.split()) for count in (1, 3, 8) for case in range(count)
    ]

    effort.let_many_take_turns(cast(list[pytest.Item], items))

    counts = Counter(item.nodeid.partition("[")[0] for item in items)
    found = {(counts[item.nodeid.partition("[")[0]], " ".join(sorted(item.marks - {*marks.split()}))) for item in items}
    assert given == found


def _nothing() -> None:
    """The body of a test."""
