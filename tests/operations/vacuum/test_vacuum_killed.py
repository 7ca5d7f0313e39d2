"""`vacuum` that is killed at any of its storage calls: nothing needed is gone, and running it again does the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltacli.changing.file_totals import FileTotals
from deltacli.operations.vacuum import execute as deleting
from deltacli.storage import LocalStorage
from tests.cli.support import ROOT
from tests.support.faulty import Fault
from tests.support.vacuuming import (
    EMPTY,
    FILES_A_BATCH,
    GARBAGE,
    INFO,
    NEEDED,
    Killed,
    MortalStorage,
    check_table,
    data_of,
    files_of,
    save,
    vacuum,
    write_table,
)

KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
CHANGES = {"put_if_absent", "put", "delete_many", "remove_directory"}

either_way = pytest.mark.parametrize("saved", [False, True], ids=["at once", "saved plan"])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "FILES_A_BATCH", FILES_A_BATCH)


def make(place: Path, saved: bool) -> tuple[Path, str | None]:
    """A table, and where its plan is saved."""
    write_table(place)
    if not saved:
        return place, None
    plan = f"{place}.plan"
    save(LocalStorage(str(place)), plan)
    return place, plan


def undisturbed(place: Path, saved: bool) -> tuple[set[str], bytes, list[str]]:
    """Return what an undisturbed run leaves: the data, `_last_vacuum_info`, and the verbs of its calls."""
    table, plan = make(place, saved)
    storage = MortalStorage(LocalStorage(str(table)))
    outcome = vacuum(storage, plan)
    assert outcome is not None
    assert (len(GARBAGE), 1, 0) == (outcome.deleted.files, outcome.directories_removed, outcome.failed.count)
    check_table(table)
    return data_of(table), (table / INFO).read_bytes(), [verb for verb, _ in storage.calls]


def check_rerun(table: Path, plan: str | None, data: set[str], info: bytes) -> None:
    check_table(table)
    again = vacuum(MortalStorage(LocalStorage(str(table))), plan)
    check_table(table)
    assert (data, info) == (data_of(table), (table / INFO).read_bytes())
    if again is not None:
        assert 0 == again.failed.count


def test_a_run_without_disturbance_succeeds(tmp_path: Path) -> None:
    data, _, verbs = undisturbed(tmp_path / "t", False)

    assert set(NEEDED) == files_of(tmp_path / "t")
    assert f"{EMPTY}/" not in data
    changes = [verb for verb in verbs if verb in CHANGES]
    assert ["put_if_absent", *["delete_many"] * 11, "remove_directory", "put_if_absent", "put"] == changes
    assert vacuum(MortalStorage(LocalStorage(str(tmp_path / "t")))).deleted == FileTotals()  # type: ignore[union-attr]


@either_way
@pytest.mark.parametrize("first", ["put_if_absent", pytest.param("", marks=pytest.mark.soak)], ids=["START on", "all"])
@pytest.mark.long
def test_an_end_at_any_call(first: str, saved: bool, tmp_path: Path) -> None:
    """Not the process dies, but its store, which costs a hundredth. `first` is the verb to begin with."""
    data, info, verbs = undisturbed(tmp_path / "whole", saved)
    for at in range(verbs.index(first) + 1 if first else 1, len(verbs) + 1):
        for fault in KILLS:
            table, plan = make(tmp_path / f"{at} {fault}", saved)

            with pytest.raises(Killed):
                vacuum(MortalStorage(LocalStorage(str(table)), at, fault, dies=True), plan)

            check_rerun(table, plan, data, info)


def kills(place: Path, saved: bool, only: Iterable[str] = ()) -> None:
    """Each in a table of its own, a few at a time."""
    data, info, verbs = undisturbed(place / "whole", saved)

    def kill(at: int, fault: Fault) -> None:
        table, plan = make(place / f"{at} {fault}", saved)
        command = [sys.executable, "-m", "tests.support.vacuuming", str(table), str(at), fault]
        done = subprocess.run([*command, plan] if plan else command, cwd=ROOT, capture_output=True, check=False)
        assert -9 == done.returncode, done.stderr
        check_rerun(table, plan, data, info)

    wanted = set(only or verbs)
    cases = [(at, fault) for at, verb in enumerate(verbs, 1) if verb in wanted for fault in KILLS]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: kill(*case), cases))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals that kill here")
@pytest.mark.soak
@either_way
def test_a_kill_at_any_call(saved: bool, tmp_path: Path) -> None:
    kills(tmp_path, saved)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals that kill here")
@pytest.mark.long
def test_a_kill_around_what_is_created(tmp_path: Path) -> None:
    kills(tmp_path, True, ["put_if_absent", "put"])
