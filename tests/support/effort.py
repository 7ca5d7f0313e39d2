"""How much the tests try: with `DELTACLI_EFFORT=soak` property tests draw more examples and matrices run in full."""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings

SHARES = {"matrix": 20, "quartered": 4, "halved": 2}
"""The gate runs one in so many cases of what has a mark."""

BROAD = (
    *("catalogs", "cli", "completions", "corpus", "delta", "docs", "field", "golden", "hostile", "paimon", "rules"),
    *("sharing", "storage", "streams", "work"),
)
"""Folders of tests that try a sentence on many cases, and do not decide about deletions and commits."""

WHOLE = ("vacuum", "commit", "conflict", "races", "tests/cluster/", "tests/judges/")
"""Words in the paths of tests that decide about them, or have turns of their own: no mark is given to those."""

MANY = {"halved": 2, "quartered": 8}
"""From so many cases on, a test of these folders has the mark. In other folders it is halved at most."""

SEED = 1
"""Of the samples that the gate takes of what is tried in full by `dev.py soak`, unless they take turns."""

TURNS = 3
"""Of so many gates, one after the other, each tries another part of the cases of a test that take turns."""

OF_LONG = 4
"""A gate runs one in so many tests of the long suite, others in the next one."""

_MORE_EXAMPLES = 50
_Case = TypeVar("_Case")


def is_soaking() -> bool:
    """True in a run of `dev.py soak`."""
    return os.environ.get("DELTACLI_EFFORT") == "soak"


class InTurn(Protocol):
    """The fixture `in_turn`. Each test that has it is run by `dev.py soak turns`, too, with all cases."""

    def __call__(self, cases: Sequence[_Case], share: int = TURNS) -> list[_Case]:
        """Return the cases to try."""


class _Turn:
    """Which part of the cases this run tries: the seed of its order, which `dev.py test` counts up."""

    number = 0


def begin_turn(seed: int) -> None:
    """Let the seed of a run choose what it tries of the cases that take turns."""
    _Turn.number = seed


def in_turn(cases: Sequence[_Case], share: int = TURNS, turn: int | None = None) -> list[_Case]:
    """Return all cases in `dev.py soak`; elsewhere one in `share`, others in the next run."""
    if is_soaking():
        return list(cases)
    turn = _Turn.number if turn is None else turn
    return list(cases[turn % min(share, len(cases) or 1) :: share])


def turn_of(item: pytest.Item) -> int:
    """Return how many runs had the test so far: one that every second run has would see even turns only, or odd ones,
    and never the other half of its cases.
    """
    return _Turn.number // max(_shares(item), default=1)


def let_many_take_turns(items: Sequence[pytest.Item]) -> None:
    """Give the cases of tests that have many the marks of those that take turns."""
    folders = tuple(f"tests/{name}/" for name in BROAD)
    counts = Counter(item.nodeid.partition("[")[0] for item in items)
    for item in items:
        test, is_broad = item.nodeid.partition("[")[0], item.nodeid.startswith(folders)
        if any(word in test.partition("::")[0] for word in WHOLE) or item.get_closest_marker("matrix"):
            continue
        if not is_broad and (item.get_closest_marker("long") or item.get_closest_marker("in_turn")):
            continue
        for mark, least in MANY.items():
            if counts[test] >= least and (is_broad or mark == "halved"):
                item.add_marker(mark)


def left_to_soaking(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of matrices that this run leaves out: all but one in the share of their mark. Those marked
    `quartered` or `halved` take turns, and so does the long suite in a gate; of a matrix every run has the same ones.
    Of `dev.py soak NAME:K/N`, all tests but one in N.
    """
    if is_soaking():
        part, _, parts = os.environ.get("DELTACLI_PART", "").partition("/")
        ordered = sorted(items, key=lambda item: item.nodeid)
        return [item for number, item in enumerate(ordered) if parts and number % int(parts) != int(part) - 1]
    return [item for item in items if not _is_chosen(item)]


def _is_chosen(item: pytest.Item) -> bool:
    number = zlib.crc32(item.nodeid.encode())
    if _has(item, "matrix") and number % SHARES["matrix"]:
        return False
    return all((number + _Turn.number) % share == 0 for share in _shares(item))


def _shares(item: pytest.Item) -> list[int]:
    """Return for each reason to take turns in how many runs the test is once."""
    shares = [share for mark, share in SHARES.items() if mark != "matrix" and _has(item, mark)]
    return [*shares, OF_LONG] if os.environ.get("DELTACLI_TURNS") and _takes_turns(item) else shares


def _has(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _takes_turns(item: pytest.Item) -> bool:
    """Whether the test is of the long suite; `long(turns=False)` says that every gate runs it."""
    found = item.get_closest_marker("long")
    return found is not None and bool(found.kwargs.get("turns", True))


def sampled(cases: Sequence[_Case], count: int) -> list[_Case]:
    """Return all cases in `dev.py soak`; in the gate the first, the last, and others by the seed, `count` in all.

    The output of a test that fails says which.
    """
    if is_soaking() or len(cases) <= count:
        return list(cases)
    between = random.Random(SEED).sample(range(1, len(cases) - 1), count - 2)
    chosen = [cases[number] for number in (0, *sorted(between), len(cases) - 1)]
    print(f"a sample with seed {SEED}, {chosen} of {len(cases)}; all: DELTACLI_EFFORT=soak")  # noqa: T201  (for pytest)
    return chosen


def shared_out(cases: Sequence[_Case], number: int, tests: int = 3) -> list[_Case]:
    """Return all cases in `dev.py soak`; in the gate those of one of so many tests that share them out."""
    return list(cases) if is_soaking() else list(cases[number % tests :: tests])


def forgive_slowness() -> None:
    """Make it the default of every property test that what is slow on a loaded machine is no failure, and that it tries
    as many examples as one of 100.
    """
    count = examples(100).max_examples
    forgiven = [HealthCheck.too_slow]
    settings.register_profile("slow machines", deadline=None, max_examples=count, suppress_health_check=forgiven)
    settings.load_profile("slow machines")


def import_the_whole_product() -> None:
    """Let one seed be the same examples in every run: hypothesis draws constants from the source of what happens to be
    imported, and which worker imports what by then is chance.
    """
    import deltacli

    for module in pkgutil.walk_packages(deltacli.__path__, "deltacli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def examples(count: int) -> settings:
    """Settings of a property test: half of `count` examples in the gate, the same in every run, and 50 times `count` in
    `dev.py soak`.
    """
    # Building a table draws a lot of data.
    return settings(
        max_examples=count * _MORE_EXAMPLES if is_soaking() else -(-count // 2),
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
