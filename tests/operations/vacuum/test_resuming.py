"""A saved plan is executed by as many runs as it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from deltacli.changing.file_totals import FileTotals
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.saved import ProgressRecord, read_plan, save_plan
from deltacli.storage import Deletion, Failed
from tests.support.builder import TableBuilder
from tests.support.reading import NOW_MS, open_at
from tests.support.storage import RecordingStorage
from tests.support.vacuum_plans import DAY_MS, plan_of_paths

NAMES = [f"orphan-{number}.parquet" for number in range(6)]


class Stubborn(RecordingStorage):
    """Does not delete some files."""

    kept: frozenset[str] = frozenset()

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            if path in self.kept:
                yield path, Failed("denied")
            else:
                yield from super().delete_many([path])


def test_files_one_run_could_not_delete_are_deleted_by_the_next(tmp_path: Path) -> None:
    place = str(tmp_path / "plan.parquet")
    builder = TableBuilder().commits(2)
    for name in NAMES:
        builder.file(name, b"x" * 1_000, modified_ms=NOW_MS - 10 * DAY_MS)
    storage = Stubborn(builder.in_memory())
    table = open_at(storage)
    snapshot = table.snapshot()
    save_plan(
        plan_of_paths(*map(str.encode, NAMES), table_id=snapshot.metadata.id, snapshot_version=snapshot.version), place
    )
    plan = read_plan(place)

    storage.kept = frozenset(NAMES[1:4:2])
    with ProgressRecord(place, plan) as record:
        first = execute_vacuum(table, plan, record=record)
    storage.kept = frozenset()
    with ProgressRecord(place, plan) as record:
        assert (range(1, 2), range(3, 4)) == record.pending
        second = execute_vacuum(table, plan, record=record)

    assert (FileTotals(4, 4_000), 2) == (first.deleted, first.failed.count)
    assert (FileTotals(6, 6_000), 0, 0, 4) == (
        second.deleted,
        second.failed.count,
        second.missing,
        second.resumed_after,
    )
    with ProgressRecord(place, plan) as record:
        assert record.is_completed
