"""What operations do with a table that a catalog manages: they see what a published copy shows by path, or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, Refused
from deltacli.delta.evolution.requests import RenameColumn
from tests.support.builder import commit_path
from tests.support.managed_tables import ManagedTable, rewritten, stamp_of

NOW_MS = stamp_of(100)


def _both() -> tuple[Table, Table]:
    """A table whose newest versions are only staged, by its catalog, and a copy with all published, by path."""
    staged, published = ManagedTable(range(4), [3, 4, 5]), ManagedTable(range(6))
    for table in (staged, published):
        table.builder.checkpoint(2)
        for version in range(6):
            table.builder.file(f"part-{version:05d}.parquet", b"x" * 100)
    return staged.open(now_ms=NOW_MS)[0], Table(published.store, clock=lambda: NOW_MS)


READS: dict[str, Callable[[Table], Any]] = {
    "snapshot": lambda table: (table.snapshot().version, table.snapshot().counts()),
    "snapshot of a version": lambda table: table.snapshot(version=3).counts(),
    "snapshot at a time": lambda table: table.snapshot(timestamp_ms=stamp_of(4) + 5).version,
    "history": lambda table: [(one.version, one.commit_info) for one in table.history(limit=0).items],
    "history of a range": lambda table: [one.version for one in table.history(from_version=2, to_version=4).items],
    "reach": lambda table: table.reach().as_json()["ranges"],
    "explain": lambda table: table.explain().clients,
    "diff": lambda table: table.diff(from_version=1, to_version=5).as_json(),
    "log of a version": lambda table: table.storage.read(commit_path(4)),
}


@pytest.mark.parametrize("name", READS)
def test_reading_sees_what_a_published_copy_shows(name: str) -> None:
    managed, copy = _both()
    assert READS[name](managed) == READS[name](copy)


def test_validate_finds_the_same_but_that_commits_may_be_missing() -> None:
    managed, copy = _both()
    found, expected = (
        sorted((one.rule.id, one.place.version) for one in table.validate(level="storage").findings)
        for table in (managed, copy)
    )
    assert "catalog.unpublished-possible" not in [rule for rule, _ in found]
    assert {rule for rule, _ in expected} - {rule for rule, _ in found} == {"catalog.unpublished-possible"}
    assert {rule for rule, _ in found} <= {rule for rule, _ in expected}


DIVERGED: dict[str, tuple[Callable[[ManagedTable], None], int]] = {
    "other bytes": (lambda table: table.memory.write(commit_path(3), rewritten(table.commits[3])), 3),
    "above the latest": (lambda table: table.memory.write(commit_path(6), b"{}\n"), 6),
    "another time": (lambda table: table.now.rows[0].commit.update({"timestamp": 7}), 3),
    "another table": (lambda table: setattr(table.now, "uuid", "another"), 5),
    "another time of one that is staged only": (lambda table: table.now.rows[2].commit.update({"timestamp": 7}), 5),
}


@pytest.mark.parametrize("case", DIVERGED)
def test_validate_reports_what_the_catalog_ratified_otherwise(case: str) -> None:
    change, version = DIVERGED[case]
    table = ManagedTable(range(4), [3, 4, 5])
    change(table)
    opened, _ = table.open(now_ms=NOW_MS)
    found = [one for one in opened.validate(level="log").findings if one.rule.id == "catalog.diverged"]
    assert [one.place.version for one in found] == [version]
    assert found[0].severity.value == "error"


REFUSED: dict[str, Callable[[Table], object]] = {
    "manifest": lambda table: table.manifest(),
    "convert": lambda table: table.convert(),
    "repair": lambda table: table.repair(),
    "undelete": lambda table: table.undelete(sources=["memory://copy"]),
    "log restore": lambda table: table.restore_log("memory://copy"),
    "undo of a repair": lambda table: table.undo_repair("memory://copy"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_catalog_decides_is_refused(name: str) -> None:
    table = ManagedTable([0], [1])
    opened, catalog = table.open()
    before = dict(table.memory._files)
    with pytest.raises(Refused) as raised:
        REFUSED[name](opened)
    assert (raised.value.code, raised.value.exit_code) == ("catalog.managed", 4)
    assert (dict(table.memory._files), catalog.bodies) == (before, [])


def test_copies_and_clones_are_refused(tmp_path: Any) -> None:
    opened, _ = _both()
    for make in (lambda: opened.copy(str(tmp_path / "copy")), lambda: opened.clone(str(tmp_path / "clone"))):
        with pytest.raises(DeltacliError) as raised:
            make()
        assert (raised.value.code, raised.value.exit_code) == ("catalog.managed", 4)
        assert "would be a table that no catalog has" in raised.value.message
        assert "uc://" not in str(raised.value.hint)  # it was opened there
    assert not [*tmp_path.iterdir()]


def test_commands_in_hints_name_the_table_as_the_catalog_does() -> None:
    opened, _ = _both()
    plan = opened.plan_alter([RenameColumn("id", "other")])
    assert ["uc://main.sales.orders" in str(one.hint) for one in plan.refusals] == [True]


def test_restore_commits_by_the_catalog() -> None:
    table = ManagedTable(range(3), [3, 4])
    for version in range(5):
        table.builder.file(f"part-{version:05d}.parquet", b"x" * 100)
    opened, catalog = table.open(now_ms=NOW_MS)
    assert opened.restore(version=2).committed_version == 5
    assert opened.snapshot().counts()[0].count == 3
    assert (len(catalog.bodies), table.published_versions()) == (1, [*range(6)])


def test_a_backup_of_the_log_has_the_commits_of_the_catalog(tmp_path: Any) -> None:
    table = ManagedTable(range(3), [3, 4])
    opened, _ = table.open(now_ms=NOW_MS)
    opened.backup_log(str(tmp_path / "backup"))
    saved = tmp_path / "backup" / commit_path(4)
    found = saved if saved.exists() else next((tmp_path / "backup").rglob(commit_path(4).rpartition("/")[2]))
    assert found.read_bytes() == table.commits[4]
