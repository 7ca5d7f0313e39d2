"""`optimize`, `vacuum` with a quarantine, `restore` and `undelete` one after another on one table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.support import Result, deltacli
from tests.operations.recover.test_find_and_put import table_at

AT_ONCE = ("--retention", "0s", "--allow-retention-below", "168h", "--max-delete", "100%", "--yes")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Version 3 has vectors for two of three files."""
    table_at(tmp_path / "tbl")
    ok("properties", tmp_path / "tbl", "set", "delta.enableDeletionVectors=true", "--yes")
    return tmp_path / "tbl"


def rows(table: Path, *version: str) -> list[str]:
    done = deltacli("read", table, *version, "--format", "csv", "-q")
    assert 0 == done.code, done.err
    return sorted(done.out.splitlines())


def ok(*command: str | Path) -> Result:
    done = deltacli(*command)
    assert 0 == done.code, (command, done.err)
    return done


def is_sound(table: Path) -> bool:
    found = deltacli("validate", table, "--level", "data", "--fail-on", "error", "--json")
    return 0 == found.code


def test_a_saved_plan_is_applied_into_its_quarantine_and_taken_back(table: Path) -> None:
    before, plan, quarantine = rows(table), table.parent / "plan", table.parent / "quarantine"
    ok("optimize", table, "--yes")
    ok("vacuum", table, *AT_ONCE, "--save-plan", plan, "--quarantine", quarantine)
    assert 0 != deltacli("vacuum", table, "--apply", plan, "--quarantine", table.parent / "other", "--yes").code

    ok("vacuum", table, "--apply", plan, "--yes")

    [manifest] = quarantine.glob("*/*/manifest.json")
    assert (True, 4) == ((held := json.loads(manifest.read_bytes()))["complete"], held["files"])
    assert 0 != deltacli("read", table, "--version", "3", "-q").code
    ok("undelete", table, "--version", "3", "--from", quarantine, "--yes")
    assert before == rows(table, "--version", "3") == rows(table)
    assert is_sound(table)


@pytest.mark.halved
def test_a_vacuumed_optimization_is_undone_from_the_quarantine_and_done_again(table: Path) -> None:
    before, quarantine = rows(table), table.parent / "quarantine"
    for _ in range(2):
        ok("optimize", table, "--yes")
        ok("vacuum", table, *AT_ONCE, "--quarantine", quarantine)
        assert (before, True) == (rows(table), is_sound(table))
        refused = deltacli("restore", table, "--version", "3", "--yes")
        assert (4, True) == (refused.code, "restore.file-missing" in refused.out)

        ok("restore", table, "--version", "3", "--from", quarantine, "--yes")

        assert (before, True) == (rows(table), is_sound(table))
    assert 2 == len(list(quarantine.glob("*/*")))


def test_what_was_undeleted_is_optimized_and_vacuumed_for_good(table: Path) -> None:
    before, copy = rows(table), table.parent / "copy"
    shutil.copytree(table, copy, copy_function=shutil.copy2)
    shutil.rmtree(table / "p=2")
    assert 0 != deltacli("optimize", table, "--yes").code

    ok("undelete", table, "--from", copy, "--yes")
    ok("optimize", table, "--yes")
    ok("vacuum", table, *AT_ONCE)

    assert (before, True) == (rows(table), is_sound(table))
    assert not (table / "p=2").exists() or not list((table / "p=2").iterdir())
    nothing = ok("undelete", table, "--from", copy, "--dry-run", "--json")
    assert [] == nothing.document["items"]
