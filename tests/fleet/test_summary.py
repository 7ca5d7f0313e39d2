"""The summary of a journal: with it, without it, and after a crash between any two writes, the same is known."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.times import DAY_MS
from deltacli.fleet.planning.due import LastRun
from deltacli.fleet.policy_file.reading import require_fleet_file
from deltacli.fleet.running.journal import (
    ARCHIVE,
    JOURNAL,
    SUMMARY,
    Journal,
    JournalWriter,
    Record,
    new_run_id,
    read_record,
)
from deltacli.fleet.running.run import summarize
from deltacli.fleet.status import read_status
from tests.fleet.sessions import session_of, session_on
from tests.support.builder import EPOCH_MS
from tests.support.effort import InTurn

NOW_MS = EPOCH_MS + 60 * DAY_MS
POLICY = """\
[policies.p]
validate = {}
alerts = { log-bytes = "1KiB", small-files = "10%", least-files = 1 }
[groups.a]
policy = "p"
tables = ["a"]
[groups.b]
policy = "p"
tables = ["b"]
"""
STATES = ("done", "nothing", "findings", "refused", "failed", "partly")


class Crash(BaseException):
    """The end of the process."""


def write_runs(state: Path, chance: random.Random, count: int, begin_ms: int) -> None:
    """Write the journals of runs, one a day, some of which were killed."""
    for number in range(count):
        now_ms = begin_ms + number * DAY_MS
        writer = JournalWriter(state, new_run_id(now_ms))
        groups = chance.choice([["a"], ["b"], ["a", "b"]])
        writer.write("run-started", now_ms, groups=groups, host="elsewhere", process="1@1")
        for place in range(chance.randrange(12)):
            group = chance.choice(groups)
            where = {"table": f"t{chance.randrange(5)}", "group": group}
            match chance.randrange(6):
                case 0:
                    writer.write("table-unreadable", now_ms + place, **where, code="log.gap", message="gone")
                case 1:
                    writer.write("table-gone", now_ms + place, table=where["table"])
                case 2 | 3:
                    facts = {"logBytes": chance.randrange(4_000), "commitsBehind": chance.randrange(9), "logFiles": 3}
                    writer.write("table-facts", now_ms + place, **where, facts=facts)
                case _:
                    kind = chance.choice(["validate", "checkpoint", "log-expire", "vacuum"])
                    details = {
                        "liveFiles": chance.randrange(99),
                        "smallFiles": 9,
                        "sizeBytes": 7,
                        "errors": 1,
                        "rules": {},
                    }
                    state_of_step = chance.choice(STATES)
                    fields = {"step": kind, "state": state_of_step, "exit": 0, "message": "x", "details": details}
                    writer.write("step-finished", now_ms + place, **where, **fields)
        if chance.random() < 0.8:
            writer.write("run-finished", now_ms + 99, exit=0, left=chance.choice([0, 0, 2]))
        writer.close()


def known(state: Path) -> dict[str, Any]:  # Any: whatever is compared
    """Return everything that commands know from a journal."""
    (state.parent / "fleet.toml").write_text(POLICY)
    file = require_fleet_file(state.parent / "fleet.toml")
    journal = Journal(state, lambda: NOW_MS)
    journal.refresh()
    if journal.newest is not None and journal.newest.is_complete:
        journal.newest.steps.clear()  # which only a run that is resumed needs
    found: dict[str, Any] = {"newest": journal.newest, "gone": {*journal.tables_of(["a", "b"])}}  # Any: see above
    found["past"] = {table: past for table in sorted(journal.tables) if (past := journal.past_of(table))}
    for only in ([], ["a"]):
        status = read_status(state, only, file, NOW_MS)
        run = None if status.newest is None else status.newest.as_json()
        tables = [table.as_json() for table in status.tables]
        found["".join(only)] = tables, run, status.summary(), status.trends, status.exit_code
    return found


def lines_of(state: Path) -> Counter[bytes]:
    """Return all lines of all runs; of a run that is also in the archive, those of its own file."""
    found: dict[str, bytes] = {}
    for path in (state / ARCHIVE).glob("*.gz"):
        found[path.name.removesuffix(".gz")] = gzip.decompress(path.read_bytes())
    for path in (state / JOURNAL).glob("*"):
        found[path.name] = path.read_bytes()
    return Counter(line for data in found.values() for line in data.splitlines())


@pytest.mark.parametrize("seed", range(6))
def test_with_a_summary_the_same_is_known_as_from_all_lines(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    plain, summarized = tmp_path / "plain" / "s", tmp_path / "summarized" / "s"
    for number in range(4):
        write_runs(plain, chance, 8, EPOCH_MS + number * 8 * DAY_MS)
        shutil.copytree(plain / JOURNAL, summarized / JOURNAL, dirs_exist_ok=True)
        for path in (summarized / ARCHIVE).glob("*.gz"):
            (summarized / JOURNAL / path.name.removesuffix(".gz")).unlink()

        summarize(summarized, lambda: NOW_MS, most_bytes=chance.choice([0, 2_000, 1 << 20]))

        assert known(plain) == known(summarized)
    assert lines_of(plain) == lines_of(summarized)
    assert list((summarized / ARCHIVE).glob("*.gz"))


def test_a_crash_between_any_two_writes_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_turn: InTurn
) -> None:
    write_runs(tmp_path / "start" / "s", random.Random(7), 6, EPOCH_MS)
    summarize(tmp_path / "start" / "s", lambda: EPOCH_MS + 3 * DAY_MS, most_bytes=1 << 20)
    write_runs(tmp_path / "start" / "s", random.Random(8), 4, EPOCH_MS + 10 * DAY_MS)
    expected, lines = known(tmp_path / "start" / "s"), lines_of(tmp_path / "start" / "s")
    for crashes in in_turn(range(1_000)):
        state = tmp_path / str(crashes) / "s"
        shutil.copytree(tmp_path / "start" / "s", state)
        left = [crashes]

        def crash_at(call: Any, left: list[int]) -> Any:  # Any: a function of os
            def called(*arguments: Any, **options: Any) -> Any:  # Any: as above
                left[0] -= 1
                if left[0] < 0:
                    raise Crash
                return call(*arguments, **options)

            return called

        with monkeypatch.context() as patch:
            for name in ("replace", "rename", "unlink", "remove", "fsync", "mkdir", "chmod"):
                patch.setattr(os, name, crash_at(getattr(os, name), left))
            try:
                summarize(state, lambda: NOW_MS, most_bytes=0)
                is_whole = True
            except Crash:
                is_whole = False

        assert lines == lines_of(state)
        assert expected == known(state)
        without = tmp_path / f"{crashes}-without" / "s"
        shutil.copytree(state, without)
        (without / SUMMARY).unlink(missing_ok=True)
        assert expected == known(without)
        summarize(state, lambda: NOW_MS, most_bytes=0)
        assert (expected, lines) == (known(state), lines_of(state))
        if is_whole:
            break
    assert crashes > 20


@pytest.mark.parametrize("fault", ["flipped", "cut", "empty", "of other files"])
def test_a_damaged_summary_is_not_used(tmp_path: Path, fault: str) -> None:
    state = tmp_path / "s"
    write_runs(state, random.Random(3), 8, EPOCH_MS)
    expected = known(state)
    summarize(state, lambda: NOW_MS, most_bytes=1 << 20)
    path = state / SUMMARY
    data = path.read_bytes()
    if fault == "of other files":
        newest = max((state / JOURNAL).iterdir())
        newest.write_bytes(newest.read_bytes().partition(b"\n")[0] + b"\n")
        path.unlink()
        expected = known(state)
    half = len(data) // 2
    changed = {"flipped": data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :], "cut": data[:half], "empty": b""}
    path.write_bytes(changed.get(fault, data))

    assert expected == known(state)


def test_runs_that_may_go_on_are_not_summarized_nor_archived(tmp_path: Path) -> None:
    state = tmp_path / "s"
    for number, (left, is_ended) in enumerate([(0, True), (0, True), (0, False), (3, True)]):
        writer = JournalWriter(state, new_run_id(NOW_MS - (9 - number) * DAY_MS))
        writer.write("run-started", NOW_MS - 1_000, groups=["a"], host="elsewhere", process="1@1")
        writer.write("step-finished", NOW_MS - 900, table="t", group="a", step="vacuum", state="done")
        if is_ended:
            writer.write("run-finished", NOW_MS - 800, exit=0, left=left)
        writer.close()

    summarize(state, lambda: NOW_MS, most_bytes=0)

    first, second, going_on, newest = sorted(path.name for path in (tmp_path / "s").glob("journal*/*"))
    assert [first, second] == [f"{name}" for name in sorted(os.listdir(state / ARCHIVE))]
    assert [going_on, newest] == sorted(os.listdir(state / JOURNAL))
    journal = Journal(state, lambda: NOW_MS)
    journal.refresh()
    assert journal.newest is not None
    assert ({("t", "vacuum"): "done"}, False) == (journal.newest.steps, journal.newest.is_complete)


def test_status_reads_no_line_that_the_summary_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "s"
    write_runs(state, random.Random(5), 30, EPOCH_MS)
    writer = JournalWriter(state, new_run_id(EPOCH_MS + 40 * DAY_MS))
    writer.write("run-started", EPOCH_MS + 40 * DAY_MS, groups=["a"])
    writer.write("run-finished", EPOCH_MS + 40 * DAY_MS + 1, exit=0, left=0)
    summarize(state, lambda: NOW_MS)
    read: list[bytes] = []

    def count(line: bytes) -> Record | None:
        read.append(line)
        return read_record(line)

    monkeypatch.setattr("deltacli.fleet.running.journal.read_record", count)

    known(state)
    before = len(read)
    writer = JournalWriter(state, new_run_id(EPOCH_MS + 50 * DAY_MS))
    writer.write("run-started", EPOCH_MS + 50 * DAY_MS, groups=["a"])
    known(state)

    assert (0, 3) == (before, len(read))  # `known` reads the journal once and the status twice


def test_a_run_migrates_the_journal_of_an_older_version(tmp_path: Path) -> None:
    session_of(tmp_path).run()
    state = tmp_path / "fleet-state"
    (state / SUMMARY).unlink()
    file = require_fleet_file(tmp_path / "fleet.toml")
    before = [table.as_json() for table in read_status(state, (), file, NOW_MS).tables]

    second = session_on(tmp_path).run()
    shutil.rmtree(state / JOURNAL)
    third = session_on(tmp_path).run()

    assert (state / SUMMARY).exists()
    steps = [
        [(table.name, [step.step.kind for step in table.steps]) for table in one.tables] for one in (second, third)
    ]
    assert steps[0] == steps[1]
    after = [table.as_json() for table in read_status(state, (), file, NOW_MS).tables]
    assert [table["table"] for table in before] == [table["table"] for table in after]


def test_a_silent_run_that_goes_on_after_all_is_read_and_not_archived_before_its_end(tmp_path: Path) -> None:
    state = tmp_path / "s"
    silent, newer = new_run_id(EPOCH_MS), new_run_id(EPOCH_MS + DAY_MS)
    writer = JournalWriter(state, silent)
    writer.write("run-started", EPOCH_MS, groups=["a"], host="elsewhere", process="1@1")
    JournalWriter(state, newer).write("run-started", EPOCH_MS + DAY_MS, groups=["a"])
    step = {"table": "t", "group": "a", "step": "vacuum", "state": "done"}

    summarize(state, lambda: NOW_MS, most_bytes=0)
    writer.write("step-finished", EPOCH_MS + 3 * DAY_MS, **step)
    between = known(state)
    summarize(state, lambda: NOW_MS, most_bytes=0)
    kept = sorted(os.listdir(state / JOURNAL))
    writer.write("run-finished", EPOCH_MS + 4 * DAY_MS, exit=0, left=0)
    summarize(state, lambda: NOW_MS, most_bytes=0)

    assert {"t": {"vacuum": LastRun(EPOCH_MS + 3 * DAY_MS)}} == between["past"] == known(state)["past"]
    assert [f"{silent}.ndjson", f"{newer}.ndjson"] == kept
    assert [f"{silent}.ndjson.gz"] == os.listdir(state / ARCHIVE)
