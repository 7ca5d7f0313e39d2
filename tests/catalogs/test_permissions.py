"""What a catalog permits its clients: asked again before each batch, and named where it is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest

from deltacli.changing.commit import commit
from deltacli.core.errors import DeltacliError, Refused
from deltacli.storage import LocalStorage
from deltacli.table.rebuild import read_snapshot
from deltacli.work.rewrite.file_writing import delete_unnamed_files
from tests.support.actions import add, commit_info, remove, to_bytes
from tests.support.appending import append
from tests.support.catalog_state import ALL, FEATURES, MemoryCatalog, Row
from tests.support.managed_tables import (
    TAG,
    ManagedTable,
    adding,
    managed_birth,
    managed_lines,
    paths_of,
    stamp_of,
)

DAY_MS = 24 * 3_600_000
FAR_MS = 4_000_000_000_000
LATER_MS = stamp_of(0) + 100 * DAY_MS


def _subsets() -> Iterator[tuple[str, ...]]:
    for size in range(4):
        yield from combinations(ALL, size)


def _old_table(staged: tuple[int, ...] = (6,)) -> ManagedTable:
    """A table of files that are there, with a checkpoint of version 4, an orphan, and old commits."""
    table = ManagedTable(range(6), staged)
    table.builder.checkpoint(4)
    for version in range(7):
        table.builder.file(f"part-{version:05d}.parquet", b"x" * 100)
    table.builder.file("orphan.parquet", b"orphan", modified_ms=1)
    return table


def _track_rows(table: Any) -> None:
    """Begin to track rows, which gives ids to the files that are there by commits behind the first."""
    table.set_properties({"delta.enableRowTracking": "true"}, upgrade_protocol=True)


COMMANDS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "optimize": ("DATA_REORGANIZATION", lambda table: table.plan_optimize()),
    "stats": ("DATA_REORGANIZATION", lambda table: table.plan_stats()),
    "vacuum": ("DATA_CLEANUP", lambda table: table.vacuum()),
    "expire": ("METADATA_CLEANUP", lambda table: table.expire_log()),
    "row ids": ("DATA_REORGANIZATION", _track_rows),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_its_permission(command: str) -> None:
    needed, run = COMMANDS[command]
    for allowed in _subsets():
        table = _old_table()
        table.now.operations = list(allowed)
        opened, _ = table.open(now_ms=LATER_MS)
        before = sorted(table.memory._files)
        if needed in allowed:
            run(opened)
            continue
        with pytest.raises(Refused) as raised:
            run(opened)
        assert (raised.value.code, raised.value.exit_code) == ("catalog.permission", 4)
        assert needed in raised.value.message
        assert sorted(table.memory._files) == before


@pytest.mark.parametrize(
    ("name", "truncates", "needed"),
    [("rowTracking", False, "DATA_REORGANIZATION"), ("typeWidening", True, "METADATA_CLEANUP")],
)
def test_a_feature_is_dropped_with_permission_for_every_step(name: str, truncates: bool, needed: str) -> None:
    table = ManagedTable(range(3), birth=lambda: managed_birth((*FEATURES, "domainMetadata", "rowTracking", name)))
    table.now.operations = [one for one in ALL if one != needed]
    opened, catalog = table.open()
    with pytest.raises(Refused) as raised:
        opened.drop_features(name, truncate_history=truncates)
    assert (raised.value.code, needed in raised.value.message) == ("catalog.permission", True)
    assert catalog.bodies == []


@pytest.mark.parametrize("named", [None, [], ["VACUUM"], ["data_cleanup"]])
def test_what_is_not_named_is_not_permitted(named: Any) -> None:
    table = _old_table()
    table.now.operations = named
    with pytest.raises(Refused) as raised:
        table.open(now_ms=LATER_MS)[0].vacuum()
    assert raised.value.code == "catalog.permission"


def test_a_vacuum_whose_permission_was_withdrawn_commits_nothing() -> None:
    table = _old_table()
    opened, catalog = table.open(now_ms=LATER_MS)
    plan = opened.plan_vacuum()
    table.now.operations = []
    with pytest.raises(Refused) as raised:
        opened.execute_vacuum(plan)
    assert (raised.value.code, catalog.bodies) == ("catalog.permission", [])
    assert table.memory.read("orphan.parquet") == b"orphan"


def test_vacuum_keeps_what_commits_that_are_not_published_name() -> None:
    table = _old_table()
    opened, _ = table.open(now_ms=LATER_MS)
    staged = table.staged_names()
    opened.vacuum()
    left = {path for path in table.memory._files if path.endswith(".parquet") and "/" not in path}
    assert left == {f"part-{version:05d}.parquet" for version in range(7)}
    assert {*staged} <= {*table.staged_names()}


def test_vacuum_keeps_a_file_that_a_staged_commit_names_behind_its_plan() -> None:
    table = _old_table()
    opened, _ = table.open(now_ms=LATER_MS)
    plan = opened.plan_vacuum()
    data = to_bytes(managed_lines(7, add("orphan.parquet", size=6, records=1)))
    entry = table._commit(7, data, "theirs")
    table.memory.write(f"_delta_log/_staged_commits/{entry['file-name']}", data)
    table.now.rows.append(Row(entry))
    opened.execute_vacuum(plan)
    assert table.memory.read("orphan.parquet") == b"orphan"


def test_a_permission_that_is_withdrawn_stops_the_next_batch() -> None:
    table = _old_table()
    for number in range(2_500):
        table.builder.file(f"orphan-{number}.parquet", b"orphan", modified_ms=1)
    opened, catalog = table.open(now_ms=LATER_MS)
    plan = opened.plan_vacuum(max_delete="100%")
    asked = [0]

    def withdraw(what: str) -> None:
        table.now.operations = [] if len([path for path in table.memory._files if "orphan" in path]) < 2_501 else ALL
        asked[0] += what == "load"

    catalog.before = withdraw
    with pytest.raises(DeltacliError) as raised:
        opened.execute_vacuum(plan)
    assert (raised.value.code, raised.value.exit_code) == ("catalog.permission", 5)
    left = len([path for path in table.memory._files if "orphan" in path])
    assert 0 < left < 2_501


def test_expiry_deletes_old_staged_files_and_keeps_those_of_the_catalog() -> None:
    table = _old_table((5, 6))
    for version in (2, 4):
        table.stage(version, table.commits[version], "old")
    table.stage(5, b"{}\n", "loser")
    opened, _ = table.open(now_ms=LATER_MS)
    opened.expire_log()
    assert table.staged_names() == [f"{5:020d}.{TAG}.json", f"{5:020d}.loser.json", f"{6:020d}.{TAG}.json"]
    assert table.published_versions()[0] == 4
    assert read_snapshot(table.open()[0]).version == 6


def test_the_store_itself_deletes_no_commit_of_the_catalog() -> None:
    table = _old_table()
    store = table.open()[0].writable()
    path = f"_delta_log/_staged_commits/{table.staged_names()[0]}"
    outcomes = dict(store.delete_many([path, "orphan.parquet", "nothing"]))
    assert [type(one).__name__ for one in outcomes.values()] == ["Failed", "Deleted", "Missing"]
    assert table.memory.read(path)


def test_files_are_rearranged_only_with_permission() -> None:
    table = ManagedTable([0])
    opened, catalog = table.open()
    table.now.operations = ["DATA_CLEANUP"]
    with pytest.raises(Refused) as raised:
        commit(opened.bind_to_directory(), adding("new.parquet", rearranges=True))
    assert (raised.value.code, table.staged_names_or_none()) == ("catalog.permission", [])
    table.now.operations = ["DATA_REORGANIZATION"]
    commit(opened.bind_to_directory(), adding("new.parquet", rearranges=True))
    assert len(catalog.bodies) == 1


def test_new_files_that_may_not_be_deleted_hide_no_error() -> None:
    table = ManagedTable([0])
    table.builder.file("new.parquet", b"x" * 100)
    opened, _ = table.open()
    table.now.operations = ["DATA_REORGANIZATION"]
    delete_unnamed_files(opened.writable(), ["new.parquet"])
    assert table.memory.read("new.parquet") == b"x" * 100


# -- optimize, whole ---------------------------------------------------------------------------------------------------


def _with_rows(tmp_path: Any, catalog: MemoryCatalog | None = None) -> tuple[ManagedTable, Any, MemoryCatalog]:
    table = ManagedTable([0], store=LocalStorage(str(tmp_path)), birth=managed_birth)
    table.builder.files.clear()
    table.builder.states.clear()
    table.builder.commit(commit_info("CREATE", inCommitTimestamp=stamp_of(0), txnId="t0"), *managed_birth())
    table.now.location = str(tmp_path)
    opened, found = table.open(catalog, now_ms=FAR_MS)
    for first in (0, 10, 20):
        append(opened, pa.table({"id": pa.array(range(first, first + 10), pa.int64())}))
    return table, opened, found


def test_optimize_works_on_a_managed_table(tmp_path: Any) -> None:
    table, opened, _ = _with_rows(tmp_path)
    done = opened.optimize()
    snapshot = read_snapshot(opened)
    assert (snapshot.version, len(paths_of(snapshot))) == (4, 1)
    assert sorted(row for batch in snapshot.scan() for row in batch.column("id").to_pylist()) == list(range(30))
    assert (table.published_versions(), done.versions) == ([0, 1, 2, 3, 4], [4])


def test_optimize_that_loses_leaves_its_files_for_a_vacuum(tmp_path: Any) -> None:
    table, opened, catalog = _with_rows(tmp_path)
    table.now.operations = ["DATA_REORGANIZATION"]
    doomed = paths_of(read_snapshot(opened))[0]
    files = {path.name for path in tmp_path.glob("*.parquet")}

    def delete(what: str) -> None:
        if what == "ratify" and table.now.latest == 3:
            data = to_bytes(managed_lines(4, remove(doomed, deleted_ms=1), stamp_ms=FAR_MS + 99))
            entry = table._commit(4, data, "theirs", FAR_MS + 99)
            table.store.put(f"_delta_log/_staged_commits/{entry['file-name']}", data)
            table.now.rows = [Row(entry)]

    catalog.before = delete
    done = opened.optimize()
    assert read_snapshot(opened).counts()[0].rows == 20
    new = {path.name for path in tmp_path.glob("*.parquet")} - files
    assert len(new) == 1
    assert done.versions == []
