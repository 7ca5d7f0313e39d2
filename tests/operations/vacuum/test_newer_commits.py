"""What comes into a log, or into that of a protected table, between a plan and its deletions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import DeltacliError, Refused
from deltacli.core.machine import Machine
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.plan import VacuumPlan, VacuumRequest
from deltacli.storage import LocalStorage, open_storage
from tests.support.actions import Line, add, remove, to_bytes
from tests.support.builder import LOG, commit_path
from tests.support.vacuum_hazards import (
    OLD_MS,
    Meanwhile,
    commit_to,
    open_at,
    plan_of,
    saved,
    table_of,
    with_files,
)


class Cloned:
    """A table that removed b.parquet long ago, and a clone of it that did, too."""

    def __init__(self, root: Path) -> None:
        source = table_of("a.parquet", "b.parquet", "c.parquet")
        source.commit(*(remove(name, deleted_ms=OLD_MS) for name in ("b.parquet", "c.parquet")))
        self.place = source.write(root / "source")
        self.name = f"{LocalStorage(str(self.place)).uri}/b.parquet"
        clone = table_of(add(self.name, size=10), table_id="clone")
        self.clone = clone.commit(remove(self.name, deleted_ms=OLD_MS)).write(root / "clone")
        self.storage = LocalStorage(str(self.place))

    def plan(self) -> VacuumPlan:
        return plan_of(self.table(), protect_from=[str(self.clone)])

    def table(self, storage: Any = None) -> Any:  # Any: a store, a table
        return open_at(storage or self.storage, open_other=open_storage, machine=Machine(sleep=lambda _: None))

    def commit(self, *lines: Line | bytes) -> None:
        """The clone commits another version."""
        data = b"".join(line if isinstance(line, bytes) else to_bytes([line]) for line in lines)
        (self.clone / commit_path(2)).write_bytes(data)

    @property
    def left(self) -> set[str]:
        return {path.name for path in self.place.glob("*.parquet")}


def test_files_a_protected_table_restores_after_a_plan_are_kept(tmp_path: Path) -> None:
    cloned = Cloned(tmp_path)
    plan = saved(cloned.plan(), tmp_path / "plan.parquet")
    cloned.commit(add(cloned.name, size=10))

    outcome = execute_vacuum(cloned.table(), plan)

    assert ({"a.parquet", "b.parquet"}, 1, 1) == (cloned.left, outcome.deleted.files, outcome.spared)


def test_files_a_protected_table_restores_between_two_waves_are_kept(tmp_path: Path) -> None:
    cloned = Cloned(tmp_path)
    plan = cloned.plan()
    act = partial(cloned.commit, add(f"{cloned.name.removesuffix('b.parquet')}c.parquet", size=10))
    storage: Any = Meanwhile(cloned.storage, "delete_many", act)

    execute_vacuum(cloned.table(storage), plan, VacuumRequest(rate=1))

    assert {"a.parquet", "c.parquet"} == cloned.left


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_protected_table_that_was_rolled_back_and_written_on_stops_the_run(is_saved: bool, tmp_path: Path) -> None:
    cloned = Cloned(tmp_path)
    plan = saved(cloned.plan(), tmp_path / "plan.parquet") if is_saved else cloned.plan()
    (cloned.clone / commit_path(1)).write_bytes(to_bytes([remove("never.parquet", deleted_ms=OLD_MS)]))
    cloned.commit(add("new.parquet", size=10))

    with pytest.raises(Refused, match="version 1 of the protected table has changed") as refused:
        execute_vacuum(cloned.table(), plan)

    assert "vacuum.plan-other-past" == refused.value.code
    assert LocalStorage(str(cloned.clone)).uri == refused.value.facts["protected table"]
    assert {"a.parquet", "b.parquet", "c.parquet"} == cloned.left


def test_a_protected_table_that_is_rolled_back_between_two_waves_stops_the_run(tmp_path: Path) -> None:
    cloned = Cloned(tmp_path)
    line = remove("never.parquet", deleted_ms=OLD_MS)
    act = partial((cloned.clone / commit_path(1)).write_bytes, to_bytes([line]))
    storage: Any = Meanwhile(cloned.storage, "delete_many", act)

    with pytest.raises(DeltacliError, match="commit 1 was deleted or replaced") as stopped:
        execute_vacuum(cloned.table(storage), cloned.plan(), VacuumRequest(rate=1))

    assert ("vacuum.plan-other-past", 2) == (stopped.value.code, len(cloned.left))


def test_a_saved_plan_without_the_past_of_a_protected_table_is_made_again(tmp_path: Path) -> None:
    cloned = Cloned(tmp_path)
    plan = cloned.plan()
    earlier = replace(plan, protected=tuple(one._replace(sha256=None) for one in plan.protected))

    with pytest.raises(Refused, match="saved by an earlier release") as refused:
        execute_vacuum(cloned.table(), saved(earlier, tmp_path / "plan.parquet"))

    assert ("vacuum.plan-other-past", 3) == (refused.value.code, len(cloned.left))


@pytest.mark.parametrize("how", ["torn", "replaced", "gone"])
def test_an_unreadable_protected_table_stops_the_run(how: str, tmp_path: Path) -> None:
    cloned = Cloned(tmp_path)
    plan = saved(cloned.plan(), tmp_path / "plan.parquet")
    if how == "torn":
        cloned.commit(b'{"add":')
    elif how == "replaced":
        (cloned.clone / commit_path(0)).write_bytes(table_of(table_id="another").in_memory().read(commit_path(0)))
    else:
        for commit in (cloned.clone / LOG).iterdir():
            commit.unlink()

    with pytest.raises(DeltacliError) as caught:
        execute_vacuum(cloned.table(), plan)

    assert (LocalStorage(str(cloned.clone)).uri, 3) == (caught.value.facts["protected table"], len(cloned.left))


def test_a_file_added_again_through_a_link_is_kept(tmp_path: Path) -> None:
    table = table_of("a.parquet", add("via/x.parquet", size=10), add("y.parquet", size=10))
    table.commit(*(remove(name, deleted_ms=OLD_MS) for name in ("via/x.parquet", "y.parquet")))
    place = with_files(table, "real/x.parquet", "real/y.parquet", "real/z.parquet").write(tmp_path / "t")
    (place / "via").symlink_to("real")
    (place / "y.parquet").symlink_to("real/y.parquet")
    storage = LocalStorage(str(place))
    plan = plan_of(storage)
    commit_to(storage, 2, add("via/x.parquet", size=10), add("y.parquet", size=10))

    execute_vacuum(open_at(storage), plan)

    assert plan.files == 3
    assert {"x.parquet", "y.parquet"} == {path.name for path in (place / "real").iterdir()}


@pytest.mark.parametrize("log_entries", [False, True])
def test_a_version_known_only_from_a_checkpoint_stops_the_deletions(log_entries: bool) -> None:
    inner = with_files(table_of("a.parquet"), *(f"f-{number}.parquet" for number in range(1_500))).in_memory()
    plan = plan_of(inner)
    name = f"{LOG}/{1 + log_entries:020d}.checkpoint.parquet"
    storage: Any = Meanwhile(inner, "delete_many", lambda: inner.put(name, b"PAR1"))

    with pytest.raises(Refused, match="are no longer in the log"):
        execute_vacuum(open_at(storage), plan, VacuumRequest(threads=1, log_entries=log_entries))
