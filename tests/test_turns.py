"""What takes turns: of four gates each test of the long suite and each example is in one, and what every gate has to
run is in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import effort
from tools.suites.soaks import SOAKS

ROOT = Path(__file__).resolve().parents[1]

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
    runs = dict.fromkeys(items, 0)
    for turn in range(4):
        monkeypatch.setattr(effort._Turn, "number", turn)
        made = {name: pytest.Function.from_parent(request.node.parent, name=name, callobj=_nothing) for name in items}
        for name, item in made.items():
            item.own_markers[:] = [MARKS[items[name]].mark]
        left = {item.name for item in effort.left_to_soaking([*made.values()])}
        for name in items.keys() - left:
            runs[name] += 1

    assert {name: times[kind] for name, kind in items.items()} == runs


def _made(
    request: pytest.FixtureRequest, name: str, axes: Sequence[Sequence[str]], marks: Iterable[pytest.MarkDecorator] = ()
) -> list[pytest.Function]:
    """Return the cases of a test with these values of its parameters `a`, `b` …."""
    items = []
    for values in product(*axes):
        case = f"{name}[{'-'.join(values)}]" if values else name
        item = pytest.Function.from_parent(request.node.parent, name=case, callobj=_nothing)
        names = "abc"[: len(axes)]
        given: Any = item  # Any: what pytest sets for a case that has parameters
        given.callspec = SimpleNamespace(params=dict(zip(names, values, strict=True)))
        named = [pytest.mark.parametrize(letter, axis) for letter, axis in zip(names, axes, strict=True)]
        item.own_markers[:] = [mark.mark for mark in (*named, *marks)]
        items.append(item)
    return items


def _runs(items: Sequence[pytest.Function], monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Return the names of what each of four gates runs."""
    monkeypatch.setenv("DELTACLI_TURNS", "1")
    monkeypatch.delenv("DELTACLI_EFFORT", raising=False)
    effort.mark_examples(items)
    found = []
    for turn in range(4):
        monkeypatch.setattr(effort._Turn, "number", turn)
        left = {item.name for item in effort.left_to_soaking(items)}
        found.append({item.name for item in items} - left)
    return found


LETTERS, DIGITS = "abcde", "01234567"


@pytest.mark.parametrize(
    "axes", [[], [LETTERS[:2]], [LETTERS], ["ab", "xy"], [DIGITS, LETTERS], [DIGITS, LETTERS, "xyz"]]
)
def test_four_gates_run_every_example_once(
    axes: list[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "_is_decisive", lambda *_: False)
    items = [item for number in range(5) for item in _made(request, f"test_{number}", axes)]

    runs = _runs(items, monkeypatch)

    assert sorted(item.name for item in items) == sorted(name for run in runs for name in run)
    if math.prod(map(len, axes)) >= effort.OF_EXAMPLES:  # some case of each of them
        assert all({f"test_{number}" for number in range(5)} == {name[:6] for name in run} for run in runs)
    if axes == [DIGITS, LETTERS]:
        for place, values in enumerate(axes):
            assert all(set(values) == {name[7:-1].split("-")[place] for name in run} for run in runs)


@pytest.mark.parametrize(
    "axes, share", [([], 1), ([DIGITS], 1), (["ab", "xy"], 1), ([DIGITS, "xy"], 2), ([DIGITS, LETTERS], 4)]
)
def test_of_a_product_about_safety_each_gate_has_every_value(
    axes: list[str], share: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "_is_decisive", lambda *_: True)
    items = _made(request, "test_it", axes)

    runs = _runs(items, monkeypatch)

    assert len(items) * 4 // share == sum(map(len, runs))
    assert {item.name for item in items} == set.union(*runs)
    for place, values in enumerate(axes):
        assert all(set(values) == {name[8:-1].split("-")[place] for name in run} for run in runs)


def test_pairs_that_are_no_product_are_whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "_is_decisive", lambda *_: True)
    items = _made(request, "test_it", [DIGITS, LETTERS])[:-1]

    assert 4 * [{item.name for item in items}] == _runs(items, monkeypatch)


@pytest.mark.parametrize("mark", ["halved", "quartered", "long", "soak"])
def test_what_takes_turns_anyway_is_no_example(mark: str, request: pytest.FixtureRequest) -> None:
    (item,) = _made(request, "test_it", [], [getattr(pytest.mark, mark)])

    effort.mark_examples([item])

    assert item.get_closest_marker("example") is None


def test_whatever_is_soaked_for_safety_is_no_example() -> None:
    suites = [SOAKS[name] for name in ("races", "contention", "accidents")]
    files = {path.relative_to(ROOT) for suite in suites for pattern in suite.patterns for path in ROOT.glob(pattern)}

    assert len(files) > 15
    assert [] == [path for path in files if not effort._is_decisive(f"{path.as_posix()}::test_it", [])]


@pytest.mark.parametrize("place", effort.WHOLE)
def test_the_places_of_safety_are_there(place: str) -> None:
    assert (ROOT / "tests" / place).is_dir() or [*(ROOT / "tests").glob(f"{place}[_.]*")]


@pytest.mark.parametrize(
    "test, parameters, expected",
    [
        ("tests/world/test_x.py::test_it", [], True),
        ("tests/operations/test_snapshot.py::test_it", [], False),
        ("tests/operations/test_snapshot.py::test_a_fault_at_any_call_loses_nothing", [], True),
        ("tests/operations/test_snapshot.py::test_it", ["fault"], True),
        ("tests/operations/vacuum/test_report.py::test_it", [], True),
        ("tests/cli/test_vacuum.py::test_it", [], True),
        ("tests/docs/test_site.py::test_it", [], True),
        ("tests/test_units.py::test_it", [], True),
        ("tests/cli/test_start.py::test_it", [], True),
        ("tests/cli/test_read.py::test_a_lost_file_is_named", [], False),
    ],
)
def test_safety_is_told_by_place_and_words(test: str, parameters: list[str], expected: bool) -> None:
    assert expected == effort._is_decisive(test, parameters)


@pytest.mark.parametrize("mark, times", [("halved", 2), ("quartered", 4)])
def test_a_test_that_takes_turns_tries_all_of_its_own_cases_in_turn(
    mark: str, times: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DELTACLI_EFFORT", raising=False)
    items = [item for number in range(8) for item in _made(request, f"test_{number}", [], [getattr(pytest.mark, mark)])]
    tried: dict[str, list[int]] = {item.name: [] for item in items}
    for turn in range(4 * times):
        monkeypatch.setattr(effort._Turn, "number", turn)
        left = {item.name for item in effort.left_to_soaking(items)}
        for item in items:
            if item.name not in left:
                tried[item.name] += effort.in_turn(range(4), 4, turn=effort.turn_of(item))

    assert {name: [0, 1, 2, 3] for name in tried} == {name: sorted(cases) for name, cases in tried.items()}


def _nothing() -> None:
    """The body of a test."""
