"""Random histories of a table that gets vacuumed, on a disk and by a clock of their own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from tests.support.effort import examples
from tests.support.vacuum_checks import check_history
from tests.support.vacuum_steps import (
    NAMES,
    STARTS,
    AddAgain,
    Checkpoint,
    ExpireLog,
    Leave,
    Mark,
    NewFile,
    Remove,
    Repartition,
    SetOwn,
    Spelling,
    Stamp,
    Start,
    Step,
    Vacuum,
    Vectors,
    Wait,
    Write,
    histories,
)

TWO = Write((NewFile(), NewFile()))
SHORTENED: tuple[Step, ...] = (
    *(TWO, Wait(240), Wait(48), Remove((0,)), Wait(1), TWO, Checkpoint()),
    *(Wait(72), Remove((0,)), ExpireLog(0)),
)
"""A log that begins with a checkpoint; the commit before it removed a file, 72 hours ago."""

HISTORIES: dict[str, tuple[Start, tuple[Step, ...]]] = {
    "a live file stands unencoded in the log, and lite looks for it": (
        Start(),
        (Write((NewFile(name=NAMES[2], spelling=Spelling.RAW),)), Vacuum(lite=True)),
    ),
    "a checkpoint left a tombstone out whose time lies within the retention": (
        Start(own=0),
        (TWO, Remove((0,), Stamp.LATE), Wait(72), Checkpoint(), Vacuum(48), Vacuum(48, lite=True)),
    ),
    "the retention is longer than that of the tombstones": (Start(own=0), (*SHORTENED, Vacuum(240))),
    "the table's own retention has grown since tombstones were left out": (
        Start(own=0),
        (*SHORTENED, SetOwn(240), Vacuum()),
    ),
    "only a tombstone tells of a removal": (Start(own=240), (*SHORTENED, Vacuum(), Wait(240), Vacuum())),
    "empty directories go when they are old": (
        Start(own=0),
        (Leave("empty/", 24), Leave("p=9/"), Leave("_empty/", 24), TWO, Remove((0,)), Wait(1), Vacuum(1), Vacuum(0)),
    ),
    "removes do not say when, and their commits are gone": (
        Start(own=240),
        (TWO, Wait(240), Remove((0,), Stamp.NONE), TWO, Checkpoint(), Wait(48), ExpireLog(0), Vacuum(), Vacuum(0)),
    ),
    "a path comes back after it was removed": (
        Start(own=0),
        (TWO, Remove((0,)), Wait(24), AddAgain(0), Wait(24), Vacuum(), Vacuum(lite=True)),
    ),
    "a path that a commit removed is written again and not yet committed": (
        Start(own=0),
        (TWO, Remove((0,)), Wait(24), Leave("f-1.parquet"), Vacuum(1), Vacuum(1, lite=True)),
    ),
    "files share a vector file, and one of them goes": (
        Start(own=0),
        (TWO, Wait(1), Mark((0, 1), Vectors.ABSOLUTE), Wait(1), Remove((0,)), Wait(1), Vacuum(), Mark((0,)), Vacuum()),
    ),
    "a version to be kept holds lite back, and a later lite run goes on": (
        Start(own=0),
        (TWO, Remove((0,)), Wait(24), Vacuum(lite=True, keep=(1,)), Wait(24), Vacuum(lite=True)),
    ),
    "a version to be kept holds a full run back, and a lite run goes on": (
        Start(own=0),
        (TWO, Remove((0,)), Wait(24), Vacuum(keep=(1,)), Wait(24), Vacuum(lite=True)),
    ),
    "a removed file that looks young holds both back": (
        Start(own=0),
        (TWO, Remove((0,)), Wait(24), Leave("f-1.parquet"), Vacuum(1), Wait(24), Vacuum(1, lite=True)),
    ),
    "a run of longer retention comes before one of lite": (
        Start(own=0),
        (TWO, Remove((0,)), Wait(24), Vacuum(240), Vacuum(0, lite=True)),
    ),
    "partition directories of an earlier layout are not hidden": (
        Start(partition="_p", own=0),
        (Leave("_p=1/left.parquet", 24), Repartition("p"), Wait(1), Vacuum()),
    ),
    "everything is as old as the cutoff to the millisecond": (
        Start(own=0),
        (TWO, Leave("left.parquet"), Remove((0,)), Wait(24), Vacuum(24), Vacuum(24, lite=True)),
    ),
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_histories_that_were_trouble_once_or_are_likely_to_be(
    history: tuple[Start, tuple[Step, ...]], tmp_path: Path
) -> None:
    start, steps = history

    table = check_history(tmp_path / "base", start, steps)

    assert table.versions


@given(STARTS, histories(seasons=2))
@examples(12)
def test_a_vacuum_deletes_what_no_retained_version_needs_and_nothing_else(
    start: Start, steps: tuple[Step, ...]
) -> None:
    with TemporaryDirectory() as directory:
        check_history(Path(directory) / "base", start, steps)


@pytest.mark.soak
@given(STARTS, histories(seasons=5))
@examples(30)
def test_the_same_of_long_histories(start: Start, steps: tuple[Step, ...]) -> None:
    with TemporaryDirectory() as directory:
        check_history(Path(directory) / "base", start, steps)
