"""All cells: every change, at every moment that it has, beside every event, on a disk and in an object store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.world.changes import CHANGES
from tests.world.events import EVENTS, Moment
from tests.world.judge import Interruption, play
from tests.world.places import DiskWorld, ObjectWorld, World


class Cell(NamedTuple):
    """A change, a moment, an event, and where the table is."""

    change: str
    moment: Moment
    event: str
    kind: str

    def __str__(self) -> str:
        return f"{self.change} | {self.moment} | {self.event} | {self.kind}"


def all_cells() -> Iterator[Cell]:
    """Yield all of them, in order."""
    for name, change in CHANGES.items():
        for moment in (one for one in Moment if one in change.has_moments):
            for happens, event in EVENTS.items():
                if change.can_be_beside(event, moment):
                    yield from (Cell(name, moment, happens, kind) for kind in change.kinds if kind in event.kinds)


def played(cell: Cell, root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Play a cell; return what is wrong."""
    small_and_quick(patch)
    listener = Interruption(cell.moment)
    world: World = DiskWorld(root, listener) if cell.kind == "disk" else ObjectWorld(listener)
    return play(world, CHANGES[cell.change], EVENTS[cell.event], cell.moment)


def small_and_quick(patch: pytest.MonkeyPatch) -> None:
    """Groups and batches have one file, and nothing is forced to a disk."""
    commits = ("optimize.plan.COMMIT_BINS", "change.stats.COMMIT_FILES")
    for name in (*commits, "log.expire.FILES_A_BATCH", "vacuum.execute.FILES_A_BATCH"):
        patch.setattr(f"deltacli.operations.{name}", 1)
    patch.setattr(os, "fsync", lambda _: None)
