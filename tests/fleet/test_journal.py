"""The journal: lines that are cut short, and times that are not in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deltacli.core.errors import NoSpace
from deltacli.fleet.planning.due import LastRun
from deltacli.fleet.running.journal import Journal, JournalWriter, new_run_id


def test_a_torn_line_is_skipped_and_ended_by_the_next_writer(tmp_path: Path) -> None:
    first = JournalWriter(tmp_path, "r1")
    first.write("run-started", 1)
    first.write("step-finished", 2, table="t", step="vacuum", state="done")
    first.close()
    path = tmp_path / "journal" / "r1.ndjson"
    path.write_bytes(path.read_bytes() + b'{"type":"step-finished","table":"t","st')
    journal = Journal(tmp_path)
    journal.refresh()
    torn = journal.newest

    again = JournalWriter(tmp_path, "r1")
    again.write("run-resumed", 3)
    again.write("step-finished", 4, table="t", step="validate", state="findings")
    again.close()
    journal.refresh()

    assert torn is not None
    assert not torn.is_complete
    assert {"vacuum": LastRun(2), "validate": LastRun(4, True)} == journal.past_of("t")
    assert {("t", "vacuum"): "done", ("t", "validate"): "findings"} == torn.steps
    assert [2, 1] == [path.read_bytes().count(b'"step-finished","run"'), path.read_bytes().count(b'"st\n')]


def test_a_line_that_a_full_disk_cut_does_not_spoil_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, write = JournalWriter(tmp_path, "r1"), os.write

    def half(file: int, data: bytes) -> int:
        write(file, data[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(NoSpace):
        writer.write("step-finished", 1, table="a", step="vacuum", state="done")
    monkeypatch.undo()
    writer.write("step-finished", 2, table="b", step="validate", state="findings")
    journal = Journal(tmp_path)
    journal.refresh()

    assert ({}, {"validate": LastRun(2, True)}) == (journal.past_of("a"), journal.past_of("b"))


@pytest.mark.parametrize(("of_older", "expected"), [(10, LastRun(10, True)), (3, LastRun(5)), (101, LastRun(5))])
def test_the_last_run_of_a_step_is_the_latest_that_is_not_in_the_future(
    tmp_path: Path, of_older: int, expected: LastRun
) -> None:
    older, newer = JournalWriter(tmp_path, "r1"), JournalWriter(tmp_path, "r2")
    newer.write("step-finished", 5, table="t", step="validate", state="done")
    older.write("step-finished", of_older, table="t", step="validate", state="findings")
    journal = Journal(tmp_path, lambda: 100)

    journal.refresh()

    assert {"validate": expected} == journal.past_of("t")


def test_a_run_after_the_clock_was_set_back_is_the_newest(tmp_path: Path) -> None:
    ahead = new_run_id(9_000_000_000_123)
    JournalWriter(tmp_path, ahead).write("run-started", 9_000_000_000_123)
    journal = Journal(tmp_path)
    journal.refresh()

    later = new_run_id(1_000, journal.newest.run if journal.newest else None)

    assert ahead < later
    assert len(ahead) == len(later)
