"""Pasts of tables: a few versions by the model writers, and a copy that went its own way."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.quiet import START_MS, Quiet, QuietTree
from tests.simulation.reading import commits_of
from tests.simulation.stored import PROPERTIES
from tests.simulation.writers import DAY_MS, Writer
from tests.support.builder import Files

_FEWEST, _MOST = 3, 9
_DAYS = 50
"""How long ago a past begins at the most."""


@dataclass(frozen=True)
class Past:
    """A table, and a copy of it that has other versions after some of them."""

    files: Files
    copy: Files
    features: tuple[str, ...]
    is_partitioned: bool
    now_ms: int
    """The time when it ends."""


def make_past(chance: random.Random, *, now_ms: int = START_MS, features: tuple[str, ...] | None = None) -> Past:
    """A table of 3 to 9 versions that ends before a time, and a diverged copy; features chosen by chance."""
    if features is None:
        features = tuple(name for name in PROPERTIES if chance.random() < 0.35)
    versions = chance.randint(_FEWEST, _MOST)
    moments = sorted(chance.randrange(_DAYS * DAY_MS) for _ in range(2 * versions))
    schedule = Quiet(now_ms=now_ms - _DAYS * DAY_MS)
    table = QuietTree(schedule)
    writer = Writer(schedule, table, chance, checksums=chance.random() < 0.5)
    is_partitioned = chance.random() < 0.5
    writer.create(features, is_partitioned=is_partitioned)
    diverges = chance.randint(1, 2 * versions - 1)
    copy: Files = {}
    for number, moment in enumerate(moments):
        schedule.time_ms = now_ms - _DAYS * DAY_MS + moment
        if number == diverges:
            copy = dict(table.files)
        if _newest(table.files) + 1 < versions:
            writer.act()
    while _newest(table.files) + 1 < _FEWEST:
        writer.append()
    schedule.time_ms -= chance.randrange(DAY_MS)
    other = QuietTree(schedule, copy)
    its_writer = Writer(schedule, other, chance, name="copy's writer", checksums=False)
    for _ in range(chance.randint(1, 4)):
        schedule.time_ms = min(schedule.time_ms + chance.randrange(1, DAY_MS // 8), now_ms)
        its_writer.act()
    return Past(table.files, other.files, features, is_partitioned, now_ms)


def _newest(files: Files) -> int:
    return max(commits_of(files), default=-1)
