"""Plans of `restore` and `undelete` that are executed later, and the purge of a quarantine, from Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deltacli import Table, open_table
from deltacli.core.errors import ConflictLost, UsageError
from tests.operations.recover.test_find_and_put import content_of, table_at


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with a copy beside it; row 23 and others are gone from the newest version, 2."""
    table_at(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "copy", copy_function=shutil.copy2)
    return open_table(tmp_path / "t")


def rows(table: Table, version: int | None = None) -> list[int]:
    return sorted(table.snapshot(version=version).scan().to_arrow()["n"].to_pylist())


def test_a_planned_restore_is_committed_as_it_was_shown_or_not_at_all(table: Table, tmp_path: Path) -> None:
    plan, late = (table.plan_restore(version=1) for _ in range(2))
    assert 2 == table.snapshot().version

    done = table.execute_restore(plan)

    assert (3, rows(table, 1)) == (done.committed_version, rows(table))
    table.set_properties({"owner": "us"})
    with pytest.raises(ConflictLost):
        table.execute_restore(late)
    assert 4 == table.snapshot().version
    assert 5 == table.execute_restore(late, may_plan_again=True).committed_version
    with pytest.raises(UsageError, match="another table"):
        open_table(tmp_path / "copy").execute_restore(plan)


def test_a_planned_undelete_is_executed_later(table: Table, tmp_path: Path) -> None:
    before = content_of(tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "p=2")
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    plan = table.plan_undelete(sources=[str(tmp_path / "copy")])
    assert (2, before.keys() > content_of(tmp_path / "t").keys()) == (plan.found.files, True)
    with pytest.raises(UsageError, match="another table"):
        open_table(tmp_path / "copy").execute_undelete(plan)

    done = table.execute_undelete(plan)

    assert done.restored is not None
    assert (before, 2) == (content_of(tmp_path / "t"), done.restored.files)


def test_a_quarantine_is_purged(table: Table, tmp_path: Path) -> None:
    table.restore(version=0)
    table.vacuum(
        retention_ms=0, allow_retention_below_ms=7 * 86_400_000, max_delete="100%", quarantine=str(tmp_path / "q")
    )
    held = content_of(tmp_path / "q")
    planned = table.purge_quarantine(str(tmp_path / "q"), older_ms=-0, dry_run=True)
    assert (None, held) == (planned.outcome, content_of(tmp_path / "q"))
    assert 0 == len(table.purge_quarantine(str(tmp_path / "q"), older_ms=86_400_000).plan.due)
    with pytest.raises(UsageError, match="older_ms"):
        table.purge_quarantine(str(tmp_path / "q"), older_ms=-1)

    later = open_table(tmp_path / "t", clock=lambda: planned.plan.cutoff_ms + 1_000)
    plan = later.plan_purge_quarantine(str(tmp_path / "q"), older_ms=0)
    assert held == content_of(tmp_path / "q")
    done = later.execute_purge_quarantine(plan)

    assert done.outcome is not None
    assert (4, 1, {}) == (done.outcome.files, done.outcome.plans, content_of(tmp_path / "q"))
