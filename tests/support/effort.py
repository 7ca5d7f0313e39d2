"""How much the tests try: with `DELTACLI_EFFORT=soak` property tests draw more examples and matrices run in full."""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import random
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings

SHARES = {"matrix": 20, "quartered": 4, "halved": 2}
"""The gate runs one in so many cases of what has a mark."""

BROAD = ("cli", "completions", "corpus", "docs", "field", "golden", "paimon", "sharing", "storage", "streams")
"""Folders of tests that try a sentence on many cases, and do not decide about deletions and commits, apart from
files about vacuum."""

MANY = {"halved": 4, "quartered": 12}
"""From so many cases on, a test of these folders has the mark."""

SEED = 1
"""Of the samples that the gate takes of what is tried in full by `dev.py soak`, unless they take turns."""

TURNS = 3
"""Of so many gates, one after the other, each tries another part of the cases of a test that take turns."""

OF_LONG = 4
"""A gate runs one in so many tests of the long suite, others in the next one."""

OF_EXAMPLES = 4
"""A gate runs one in so many tests that are examples, others in the next one; of a test with that many cases, some."""

HALF = 2
"""A gate runs one in so many cases of a test of safety with two parameters, or one in `OF_EXAMPLES` if both have so
many values: every value of each of them."""

WHOLE = (
    *("catalogs", "changing", "cluster", "corpus", "differential", "field", "golden"),
    *("operations/recover", "operations/repair", "operations/restore", "operations/test_log", "operations/vacuum"),
    *("property", "sharing/server/guarding", "sharing/signing", "simulation", "world"),
    *("cli/test_start", "docs", "packaging", "rules/test_catalogue", "test"),
)
"""Folders and beginnings of files of tests that are no examples, and that every gate runs: they are about safety, or
hold together the code, its pages and its package, which any change may break."""

WHOLE_WORDS = re.compile(
    "(?<![a-z])(accidents|atomic|atomically|beside|commits?|committing|concurrent|concurrently|conflicts|consent"
    "|contention|contract|created|creates|creation|credentials|damaged?|deleted?|deletes|deleting|deletions?|dies?|drafts"
    "|events?|expired?|external|fails?|faults?|foreign|gone|guards?|hazards|interrupted|interruption|journal|kill|killed"
    "|kills|leases|loses?|lost|meanwhile|moment|outcomes|overwriting|overwritten|peers?|published|quarantine|races?"
    "|readers|recover|repairs?|restart|restored?|restores|retry|revoked|secrets?|storms|together|tokens?|undelete"
    "|undo|vacuum|world|writers?|writes|writing)(?![a-z])"
)
"""Words in the name of a file, of a test or of a parameter that tell safety: a world that changes, faults, races,
deletions, recovery, other readers, secrets. Every gate runs such a test."""

SHOWN = ("cli", "completions", "e2e", "streams")
"""Folders of what is shown of results that others have proven: here the name of the file alone decides."""

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
    """Return how often the turns until now had the test, for what it leaves out itself: a test that every second run
    has would see even turns only, and never the other half of its cases.
    """
    return _Turn.number // max(_shares(item), default=1)


def let_many_take_turns(items: Sequence[pytest.Item]) -> None:
    """Give the cases of tests that have many the marks of those that take turns."""
    folders = tuple(f"tests/{name}/" for name in BROAD)
    of_tests = [(item, item.nodeid.partition("[")[0]) for item in items if item.nodeid.startswith(folders)]
    counts = Counter(test for _, test in of_tests)
    for item, test in of_tests:
        if "vacuum" in item.path.name or item.get_closest_marker("matrix"):
            continue
        count = counts[test]
        for mark, least in MANY.items():
            if count >= least:
                item.add_marker(mark)


def mark_examples(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of the suite that take turns in a gate, unless they do so anyway: examples, and of the others
    those that try everything with everything. Their cases have numbers, by which they take turns.
    """
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in sorted(items, key=lambda item: item.nodeid):
        cases[item.nodeid.partition("[")[0]].append(item)
    for test, of_test in cases.items():
        if not _is_decisive(test, _parameters(of_test[0])):
            free = [item for item in of_test if not _has_turns(item)]
            numbers = _diagonal(free)
            if len(free) >= OF_EXAMPLES > len({number % OF_EXAMPLES for number in numbers}):
                numbers = [*range(len(free))]  # of two times two, a gate would have none
            _let_take_turns(free, "example", OF_EXAMPLES, numbers if len(free) >= OF_EXAMPLES else [])
        elif len(of_test) >= 2 * HALF:
            free = [item for item in of_test if not _has_turns(item)]
            if share := _share_of_a_product(free):
                _let_take_turns(free, "crossed", share, _diagonal(free))


_NUMBER = pytest.StashKey[int]()
_SHARE = pytest.StashKey[int]()


def _let_take_turns(items: Sequence[pytest.Item], mark: str, share: int, numbers: Sequence[int]) -> None:
    for at, item in enumerate(items):
        item.add_marker(mark)
        item.stash[_SHARE] = share
        item.stash[_NUMBER] = numbers[at] if numbers else zlib.crc32(item.nodeid.encode())


def _is_decisive(test: str, parameters: Iterable[str]) -> bool:
    """Whether a test decides about safety, by where it stands and by its words."""
    if test.startswith(tuple(f"tests/{place}{end}" for place in WHOLE for end in "/_.")):
        return True
    file, _, name = test.partition("::")
    names = [file] if file.startswith(tuple(f"tests/{folder}/" for folder in SHOWN)) else [file, name, *parameters]
    return WHOLE_WORDS.search(" ".join(names).lower()) is not None


def _has_turns(item: pytest.Item) -> bool:
    return any(_has(item, mark) for mark in ("long", "soak", "alone", *SHARES))


def _share_of_a_product(items: Sequence[pytest.Item]) -> int:
    """Return in how many runs each case of a test has to be once, so that every run has every value of every parameter:
    0 if that is not sure.
    """
    values: dict[tuple[str, ...], set[Hashable]] = defaultdict(set)
    for item in items:
        for axis, value in _coordinates(item):
            values[axis].add(value)
    sizes = sorted(map(len, values.values()), reverse=True)
    if len(sizes) < 2 or len(items) != math.prod(sizes):
        return 0
    return next((share for share in (OF_EXAMPLES, HALF) if sizes[1] >= share and len(items) >= share * 4), 0)


def _diagonal(items: Sequence[pytest.Item]) -> list[int]:
    """Return a number for each case of a test: where it has several parameters, like tables and commands, neighbours in
    each of them have neighbouring numbers, so that a share of the cases has every table and every command.
    """
    known = defaultdict[tuple[str, ...], dict[Hashable, int]](dict)
    return [
        sum(known[axis].setdefault(value, len(known[axis])) for axis, value in _coordinates(item)) for item in items
    ]


def _coordinates(item: pytest.Item) -> list[tuple[tuple[str, ...], Hashable]]:
    """Return for each `parametrize` the names of its parameters, and what stands for their values."""
    values = _parameters(item)
    left, axes = dict.fromkeys(values), []
    for mark in item.iter_markers("parametrize"):
        given = mark.args[0] if mark.args else mark.kwargs["argnames"]
        words = given.replace(",", " ").split() if isinstance(given, str) else given
        if together := tuple(name for name in words if name in left):
            axes.append(together)
            left = dict.fromkeys(name for name in left if name not in together)
    return [(axis, tuple(id(values[name]) for name in axis)) for axis in (*axes, *((name,) for name in left))]


def _parameters(item: pytest.Item) -> dict[str, object]:
    called = getattr(item, "callspec", None)
    return {} if called is None else called.params


def left_to_soaking(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of matrices that this run leaves out: all but one in the share of their mark. Those marked
    `quartered` or `halved` take turns, and so do the long suite and the examples in a gate; of a matrix every run has
    the same ones. Of `dev.py soak NAME:K/N`, all tests but one in N.
    """
    if is_soaking():
        part, _, parts = os.environ.get("DELTACLI_PART", "").partition("/")
        ordered = sorted(items, key=lambda item: item.nodeid)
        return [item for number, item in enumerate(ordered) if parts and number % int(parts) != int(part) - 1]
    return [item for item in items if not _is_chosen(item)]


def _is_chosen(item: pytest.Item) -> bool:
    number = item.stash.get(_NUMBER, zlib.crc32(item.nodeid.encode()))
    if _has(item, "matrix") and number % SHARES["matrix"]:
        return False
    return all((number + _Turn.number) % share == 0 for share in _shares(item))


def _shares(item: pytest.Item) -> list[int]:
    """Return for each reason to take turns in how many runs the test is once."""
    shares = [share for mark, share in SHARES.items() if mark != "matrix" and _has(item, mark)]
    if os.environ.get("DELTACLI_TURNS"):
        if _takes_turns(item):
            shares.append(OF_LONG)
        if share := item.stash.get(_SHARE, 0):
            shares.append(share)
    return shares


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
