"""The record of a plan's execution survives any end of a run, and nothing that failed is taken for done."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.changing.file_totals import FileTotals
from deltacli.changing.outcome import DeletionFailures
from deltacli.core.errors import Refused, StorageFailed
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan
from deltacli.operations.vacuum.saved import ProgressRecord, describe
from tests.support.vacuum_plans import plan_of_paths

FILES = 20
PLAN = plan_of_paths(*(b"f%02d" % number for number in range(FILES)))
OTHER = plan_of_paths(b"other")


def place(directory: Path) -> str:
    return str(directory / "plan.parquet")


def record_file(directory: Path) -> Path:
    return directory / "plan.parquet.progress"


def test_a_record_is_of_one_table(tmp_path: Path) -> None:
    """
    A plan holds for a copy of its table; what was done to the one is not done to the other.
    """
    run(tmp_path)
    before = record_file(tmp_path).read_bytes()

    with pytest.raises(Refused) as raised:
        ProgressRecord(place(tmp_path), PLAN, table="memory:/copy")

    assert ("vacuum.plan-progress", "memory:/copy") == (raised.value.code, raised.value.facts["this table"])
    assert before == record_file(tmp_path).read_bytes()


def rows_of(ranges: Sequence[range]) -> list[int]:
    return [row for rows in ranges for row in rows]


def run(
    directory: Path, *, batch: int = 4, failing: Sequence[int] = (), stop_after: int = 99, plan: VacuumPlan = PLAN
) -> VacuumOutcome:
    """Execute what is pending as the executing operation does; some rows fail, and the run may die early."""
    with ProgressRecord(place(directory), plan) as record:
        outcome = record.counts
        rows = rows_of(record.pending)
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        for tried in batches[:stop_after]:
            failed = [row for row in tried if row in failing]
            outcome.deleted = FileTotals(
                outcome.deleted.files + len(tried) - len(failed),
                outcome.deleted.size_bytes + 10 * (len(tried) - len(failed)),
            )
            outcome.failed.count += len(failed)
            outcome.failed.examples += [(f"f{row:02d}", "denied") for row in failed]
            record.advance(tried[-1] + 1, outcome)
        if stop_after >= len(batches):
            outcome.directories_removed += 1
            record.finish(outcome, completed=not outcome.failed.count)
    return outcome


def seen(directory: Path) -> dict[str, Any]:
    """What the next run finds."""
    with ProgressRecord(place(directory), PLAN) as record:
        return {
            "completed": record.is_completed,
            "resume_at": record.resume_at,
            "pending": rows_of(record.pending),
            "counts": record.counts,
            "failed": record.failed_before,
        }


def test_a_run_resumes_where_the_last_one_stopped(tmp_path: Path) -> None:
    run(tmp_path, stop_after=2)

    with ProgressRecord(place(tmp_path), PLAN) as record:
        assert (8, (range(8, FILES),)) == (record.resume_at, record.pending)
        assert VacuumOutcome(deleted=FileTotals(8, 80), resumed_after=8) == record.counts
        assert "resuming after 8 files" == describe(record)
    done = run(tmp_path)

    assert (FileTotals(FILES, 200), 8, 1) == (done.deleted, done.resumed_after, done.directories_removed)


def test_completed_work_is_not_repeated(tmp_path: Path) -> None:
    done = run(tmp_path)
    before = record_file(tmp_path).read_bytes()

    with ProgressRecord(place(tmp_path), PLAN) as record:
        assert (True, ()) == (record.is_completed, record.pending)
        assert "this plan was already executed; there is nothing to do" == describe(record)
        assert replace(done, resumed_after=FILES) == record.counts

    assert before == record_file(tmp_path).read_bytes()
    assert "COMPLETED" == json.loads(before.splitlines()[-1])["status"]


def test_files_that_failed_are_tried_again_first_and_only_they(tmp_path: Path) -> None:
    run(tmp_path, failing=[2, 3, 9, 17])

    with ProgressRecord(place(tmp_path), PLAN) as record:
        assert (range(2, 4), range(9, 10), range(17, 18)) == record.pending
        assert [("f02", "denied"), ("f03", "denied"), ("f09", "denied"), ("f17", "denied")] == list(
            record.failed_before
        )
        assert (FILES - 4, 0, []) == (
            record.counts.deleted.files,
            record.counts.failed.count,
            record.counts.failed.examples,
        )
        assert "resuming after 20 files, retrying 4 failed files" == describe(record)
    run(tmp_path, batch=1, failing=[3], stop_after=2)

    found = seen(tmp_path)
    assert [3, 9, 17] == found["pending"]
    assert {("f03", "denied"), ("f09", "denied"), ("f17", "denied")} <= set(found["failed"])
    run(tmp_path, failing=[9])
    assert (("f09", "denied"),) == seen(tmp_path)["failed"]
    assert FileTotals(FILES, 200) == run(tmp_path).deleted
    assert seen(tmp_path)["completed"]


def test_a_run_with_failures_is_not_completed_whatever_it_records(tmp_path: Path) -> None:
    with ProgressRecord(place(tmp_path), PLAN) as record:
        record.advance(FILES, VacuumOutcome(failed=DeletionFailures(1, [("f00", "x")])))
        record.finish(VacuumOutcome(failed=DeletionFailures(1)), completed=True)
    assert ([0], False) == (seen(tmp_path)["pending"], seen(tmp_path)["completed"])

    with ProgressRecord(place(tmp_path), PLAN) as record:
        record.finish(record.counts, completed=True)  # before it tried anything
    assert not seen(tmp_path)["completed"]


def test_a_record_cut_at_any_byte_is_the_record_after_its_last_whole_line(tmp_path: Path) -> None:
    run(tmp_path, failing=[1, 6], stop_after=3)
    run(tmp_path, failing=[6], stop_after=1)
    run(tmp_path)
    data = record_file(tmp_path).read_bytes()
    whole: dict[int, Any] = {}
    assert data.endswith(b"\n")
    assert 9 <= data.count(b"\n")

    for length in range(len(data) + 1):
        last = data.rfind(b"\n", 0, length) + 1
        if last not in whole:
            record_file(tmp_path).write_bytes(data[:last])
            whole[last] = seen(tmp_path)
        for tail in (data[last:length], data[last:length] + bytes(3)):
            if tail.strip(b"\0"):
                record_file(tmp_path).write_bytes(data[:last] + tail)
                assert whole[last] == seen(tmp_path)

    assert whole[len(data)]["completed"]
    assert list(range(FILES)) == whole[0]["pending"]


def test_a_torn_line_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    run(tmp_path, stop_after=2)
    with record_file(tmp_path).open("ab") as file:
        file.write(b'{"type":"done","upTo":12,"del')

    run(tmp_path, stop_after=1)

    assert 12 == seen(tmp_path)["resume_at"]
    assert all(json.loads(line) for line in record_file(tmp_path).read_bytes().splitlines())


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, FILES - 1), max_size=6), st.integers(0, 6), st.integers(1, 7)), max_size=5
    )
)
@settings(max_examples=60, deadline=None)
def test_every_file_is_done_once_however_often_runs_die(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[set[int], int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("runs")
    undone = set(range(FILES))
    for failing, stop_after, batch in runs:
        pending = seen(directory)["pending"]
        assert sorted(undone) == pending
        undone -= set(pending[: batch * stop_after]) - failing
        run(directory, batch=batch, failing=sorted(failing), stop_after=stop_after)

    done = run(directory)

    assert (FILES, seen(directory)["completed"]) == (done.deleted.files, True)


def test_a_record_of_another_plan_is_refused_until_it_is_completed(tmp_path: Path) -> None:
    run(tmp_path, plan=OTHER, stop_after=0)

    with pytest.raises(Refused) as raised:
        ProgressRecord(place(tmp_path), PLAN)
    assert "vacuum.plan-progress" == raised.value.code
    assert f"rm {record_file(tmp_path)}" == raised.value.hint

    run(tmp_path, plan=OTHER)
    assert list(range(FILES)) == seen(tmp_path)["pending"]


def test_a_last_line_whose_bytes_never_came_to_the_disk_is_passed_over(tmp_path: Path) -> None:
    run(tmp_path, stop_after=2)
    with record_file(tmp_path).open("ab") as file:
        file.write(b'{"type":"do\0\0\0\0}\n')

    assert 8 == seen(tmp_path)["resume_at"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b'"upTo":4', b'"upTo":-4'),
        lambda data: data.replace(b'"upTo":4', b'"upTo":400'),
        lambda data: data.replace(b'"type":"done"', b'"type":"odd"', 1),
        lambda data: data.replace(b'"type":"done"', b'"type":"begin"', 1),
        lambda data: data.replace(b'"missing":0,', b"", 1),
        lambda data: data.replace(b'"failed":[]', b'"failed":[[3,1]]', 1),
        lambda data: data.replace(b"upTo", b'up"To', 1),
        lambda data: data.replace(b'"formatVersion":1', b'"formatVersion":2'),
        lambda data: data.replace(b'"files":20', b'"files":21'),
        lambda _: b"name,value\n1,2\n",
        lambda _: b"no newline",
        lambda _: b"[1]\n",
        lambda _: b"{}\n",
    ],
)
def test_a_file_that_is_not_a_record_is_refused_and_kept(tmp_path: Path, damage: Any) -> None:  # Any: a function
    run(tmp_path, stop_after=3)
    data = damage(record_file(tmp_path).read_bytes())
    record_file(tmp_path).write_bytes(data)

    with pytest.raises(Refused) as raised:
        ProgressRecord(place(tmp_path), PLAN)

    assert "vacuum.plan-progress" == raised.value.code
    assert data == record_file(tmp_path).read_bytes()


def test_two_runs_of_a_plan_do_not_share_a_record(tmp_path: Path) -> None:
    with ProgressRecord(place(tmp_path), PLAN), pytest.raises(Refused, match="another run is executing this plan"):
        ProgressRecord(place(tmp_path), PLAN)

    assert FILES == len(seen(tmp_path)["pending"])


def test_a_line_that_does_not_fit_on_the_disk_leaves_the_record_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    room = [10]

    def nearly_full(descriptor: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, bytes(data)[: room.pop()])

    with ProgressRecord(place(tmp_path), PLAN) as record:
        monkeypatch.setattr(os, "write", nearly_full)
        with pytest.raises(StorageFailed, match="no space left"):
            record.advance(4, VacuumOutcome(missing=4))
        monkeypatch.setattr(os, "write", write)
        record.advance(4, VacuumOutcome(missing=4))

    assert 4 == seen(tmp_path)["resume_at"]


def test_every_line_is_on_the_disk_before_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", noting)

    run(tmp_path)

    assert len(record_file(tmp_path).read_bytes().splitlines()) == len(synced) == FILES // 4 + 2


def test_contradictions_are_bugs(tmp_path: Path) -> None:
    with ProgressRecord(place(tmp_path), PLAN) as record:
        record.advance(4, VacuumOutcome())
        for up_to in (3, FILES + 1):
            with pytest.raises(ValueError, match="does not follow row 4"):
                record.advance(up_to, VacuumOutcome())

    assert 4 == seen(tmp_path)["resume_at"]


def test_names_that_are_not_utf8_are_recorded(tmp_path: Path) -> None:
    plan = plan_of_paths(b"a", b"a\xff\n", b"b", b"c", b"d")
    with ProgressRecord(place(tmp_path), plan) as record:
        record.advance(4, VacuumOutcome(failed=DeletionFailures(1, [("a\udcff\n", "x")])))
    with ProgressRecord(place(tmp_path), plan) as record:
        assert ((range(1, 2), range(4, 5)), (("a\udcff\n", "x"),)) == (record.pending, record.failed_before)


def test_of_more_failures_than_are_named_every_row_is_tried_again(tmp_path: Path) -> None:
    run(tmp_path, failing=[1], stop_after=2)
    with ProgressRecord(place(tmp_path), PLAN) as record:
        record.advance(12, VacuumOutcome(failed=DeletionFailures(2, [("f09", "x")])))

    assert [1, *range(8, FILES)] == seen(tmp_path)["pending"]


def test_a_record_that_cannot_be_written_stops_the_run_before_it_begins(tmp_path: Path) -> None:
    record_file(tmp_path).mkdir()

    with pytest.raises(StorageFailed, match="cannot be written: is a directory"):
        ProgressRecord(place(tmp_path), PLAN)
