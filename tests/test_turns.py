"""What takes turns: of four gates each test of the long suite is in one, and what every gate has to run is in all. What
takes turns tries all of its own cases in turn.
"""

from __future__ import annotations

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


def _nothing() -> None:
    """The body of a test."""
