"""A commit of files that is killed at any of its storage calls: it is there as a whole or not at all, never twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deltacli.changing.commit import Committed, NothingToDo
from deltacli.storage import LocalStorage
from tests.cli.support import ROOT
from tests.support.committing import commits, run, table_of_commits
from tests.support.faulty import Fault, FaultyStorage
from tests.support.file_commits import Key, live_files, restore
from tests.support.killed_commits import TARGET
from tests.support.reading import open_at
from tests.support.waiting import in_time

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals that kill here")

KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
BEFORE = {(f"part-{number}.parquet", "") for number in range(3)}


def live(storage: LocalStorage) -> set[Key]:
    return set(live_files(open_at(storage).snapshot()))


def kill_all(cases: list[tuple[str, int, Fault]], what: str = "commit") -> list[int]:
    """The signals that ended the runs."""
    command = [sys.executable, "-m", "tests.support.killed_commits", what]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with in_time(process, "the killed commits"):
        told, _ = process.communicate("".join(f"{place} {at} {fault.name}\n" for place, at, fault in cases))
    return [int(line) for line in told.split()]


def test_a_commit_of_files_that_is_killed_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    counting = FaultyStorage(LocalStorage(str(table_of_commits().write(tmp_path / "first"))))
    run(counting, restore(TARGET))
    verbs = [verb for verb, _ in counting.calls]
    cases = [
        (str(table_of_commits().write(tmp_path / f"{at}-{fault.name}")), at, fault)
        for at in range(1, len(verbs) + 1)
        for fault in KILLS
    ]

    signals = kill_all(cases)

    assert {"begin", "publish"} <= set(verbs)
    assert [signal.SIGKILL] * len(cases) == signals
    for place, at, fault in cases:
        storage = LocalStorage(place)
        is_made = (verbs[at - 1], fault) == ("publish", Fault.KILLED_AFTER)
        assert 3 + is_made == len(commits(storage)), (at, fault)
        assert (TARGET.keys() if is_made else BEFORE) == live(storage)
        assert isinstance(run(storage, restore(TARGET)), NothingToDo if is_made else Committed)
        assert TARGET.keys() == live(storage)
        assert 4 == len(commits(storage))
