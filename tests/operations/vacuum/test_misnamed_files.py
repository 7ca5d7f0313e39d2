"""The only copy of a needed file, under another name than the log has for it, is kept by every kind of vacuum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import Refused
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.explain import explain_file
from deltacli.operations.vacuum.plan import Mode, VacuumRequest
from deltacli.storage import LocalStorage, open_storage
from tests.support.actions import Action, add, remove
from tests.support.builder import TableBuilder
from tests.support.small_vectors import vector_path
from tests.support.storage import RecordingStorage
from tests.support.vacuum_hazards import (
    CUTOFF_MS,
    ID,
    OLD_MS,
    OTHER_ID,
    ago,
    commit_to,
    goes,
    inventory_of,
    open_at,
    paths_of,
    plan_of,
    saved,
    table_of,
    vector_of,
    with_files,
)
from tests.support.vacuum_hazards import vacuum as run_vacuum

OTHERS = tuple(f"p={number}/live.parquet" for number in range(20))
"""Live files that are there, so that one that is missing is no sign of a wrong directory."""
SPELLINGS = {
    "written without encoding": ("p=13:00/a.parquet", "p=13%3A00/a.parquet"),
    "slash": ("p=a/b/a.parquet", "p=a%2Fb/a.parquet"),
    "encoded twice": ("p=a%2520b/a.parquet", "p=a b/a.parquet"),
    "encoded three times": ("p=a%252520b/a.parquet", "p=a b/a.parquet"),
    "encoded once more on disk": ("p=a%20b/a.parquet", "p=a%2520b/a.parquet"),
    "case": ("p=X/a.parquet", "p=x/a.parquet"),
    "case of other letters": ("p=%C3%9C/a.parquet", "p=ü/a.parquet"),
    "case of an escape": ("p=a%2fb/A.parquet", "p=a%252Fb/a.parquet"),
    "plus": ("p=a%20b/a.parquet", "p=a+b/a.parquet"),
    "blank for a plus": ("p=a%2Bb/a.parquet", "p=a b/a.parquet"),
    "backslash": ("p=z%5Ca.parquet", "p=z/a.parquet"),
    "slash for a backslash": ("p=z/a.parquet", "p=z\\a.parquet"),
    "composed and folded": ("p=Z%C3%BCrich/a.parquet", "P=ZU\u0308RICH/a.parquet"),
}
SIZE_ON_DISK = 10


def misnamed(logged: str, stored: str, *, size: int = 7) -> TableBuilder:
    """Return a table with a live file that is on disk under another name; its size in the log is another one, too."""
    table = table_of(*OTHERS)
    table.commit(add(logged, size=size))
    return with_files(table, stored, "orphan.parquet")


@pytest.mark.parametrize(("logged", "stored"), SPELLINGS.values(), ids=SPELLINGS)
def test_the_only_copy_of_a_live_file_is_kept_whatever_its_spelling(logged: str, stored: str) -> None:
    plan = plan_of(misnamed(logged, stored))

    assert {"orphan.parquet"} == paths_of(plan)
    assert 1 == plan.kept.unproven
    assert any(stored in note and "deltacli repair" in note for note in plan.notes), plan.notes


def test_a_name_that_is_there_as_the_log_says_protects_no_other_spelling() -> None:
    table = misnamed("p=x/a.parquet", "P=X/a.parquet")

    assert {"P=X/a.parquet", "orphan.parquet"} == goes(with_files(table, "p=x/a.parquet"))


def test_a_file_of_the_size_of_a_missing_one_is_kept_if_no_version_names_it() -> None:
    table = misnamed("renamed.parquet", "p=1/other.parquet", size=SIZE_ON_DISK)
    table.commit(add("removed.parquet", size=SIZE_ON_DISK)).commit(remove("removed.parquet", deleted_ms=OLD_MS))
    with_files(table, "removed.parquet")

    assert {"removed.parquet"} == goes(table)
    assert 2 == plan_of(table).kept.unproven


def test_a_removed_file_whose_name_is_another_spelling_of_a_missing_one_is_kept() -> None:
    """One engine has decoded the path once more than another, and committed it again in its own spelling."""
    table = table_of(*OTHERS, add("p=13%253A00/a.parquet", size=10))
    table.commit(remove("p=13%253A00/a.parquet", deleted_ms=OLD_MS), add("P=13:00/a.parquet", size=10))
    with_files(table, "p=13%3A00/a.parquet", "orphan.parquet")

    assert "p=13%3A00/a.parquet" not in goes(table)
    assert "p=13%3A00/a.parquet" not in goes(table, mode="lite")
    assert 1 == plan_of(table, mode="lite").kept.unproven


def test_lite_keeps_only_other_spellings_of_files_that_are_missing() -> None:
    table = table_of(*OTHERS, "p=x/a.parquet").commit(remove("p=x/a.parquet", deleted_ms=OLD_MS))
    with_files(table.commit(add("p=X/a.parquet", size=10)), "p=X/a.parquet")

    assert {"p=x/a.parquet"} == goes(table, mode="lite")


@pytest.mark.parametrize("logged", ["p=13:00/a.parquet", "elsewhere/b.parquet"])
def test_a_run_below_a_prefix_looks_for_live_files_outside_of_it(logged: str) -> None:
    table = misnamed(logged, "p=13%3A00/a.parquet", size=SIZE_ON_DISK)

    assert set() == goes(table, prefix="p=13%3A00")


def test_a_run_below_a_prefix_deletes_what_no_missing_file_can_be() -> None:
    table = misnamed("p=13:00/a.parquet", "p=13%3A00/a.parquet")
    with_files(table, "p=13:00/a.parquet")

    assert {"p=13%3A00/a.parquet"} == goes(table, prefix="p=13%3A00")


def test_a_run_with_a_condition_keeps_it() -> None:
    columns = '{"type":"struct","fields":[{"name":"p","type":"string","nullable":true,"metadata":{}}]}'
    lines = [add(path, size=10, partitionValues={"p": path[2:-13]}) for path in OTHERS]
    table = table_of(*lines, partition_columns=["p"], schema_string=columns)
    table.commit(add("p=13:00/a.parquet", size=10, partitionValues={"p": "13:00"}))
    with_files(table, *OTHERS, "p=13%3A00/a.parquet", "p=1/orphan.parquet")

    assert set() == goes(table, where="p = '13:00'")


@pytest.mark.parametrize("is_later", [False, True])
def test_a_run_by_an_inventory_asks_the_store(is_later: bool, tmp_path: Path) -> None:
    """A file that was committed after the inventory was made is missing from it, and may be there."""
    table = misnamed("p=13:00/a.parquet", "p=13%3A00/a.parquet")
    if is_later:
        table.commit(add("p=14:00/a.parquet", size=7), modified_ms=CUTOFF_MS)
        with_files(table, "p=14:00/a.parquet", "p=14%3A00/a.parquet")
    storage = LocalStorage(str(table.write(tmp_path / "t")))
    listed = [path for path in table.files if not path.startswith("_delta_log") and path != "p=14:00/a.parquet"]
    inventory = inventory_of(tmp_path / "t", *listed)

    expected = {"orphan.parquet", "p=14%3A00/a.parquet"} if is_later else {"orphan.parquet"}
    assert expected == goes(storage, inventory=inventory)


@pytest.mark.parametrize("options", [{}, {"quarantine": "QUARANTINE"}, {"mode": "full", "log_entries": False}])
def test_a_run_leaves_it_where_it_is(options: dict[str, Any], tmp_path: Path) -> None:  # Any: those of Table.vacuum
    place = misnamed("p=13:00/a.parquet", "p=13%3A00/a.parquet").write(tmp_path / "t")
    if "quarantine" in options:
        options = {"quarantine": str(tmp_path / "quarantine")}
    table = open_at(LocalStorage(str(place)), open_other=open_storage)

    assert 1 == run_vacuum(table, **options).deleted.files
    assert (place / "p=13%3A00/a.parquet").exists()
    assert not (place / "orphan.parquet").exists()


# Files that are not live


def test_a_file_that_retained_versions_need_is_kept_under_another_name() -> None:
    table = table_of(*OTHERS, add("p=13:00/a.parquet", size=7))
    table.commit(remove("p=13:00/a.parquet", deleted_ms=ago(1)), modified_ms=ago(1))

    assert {"orphan.parquet"} == goes(with_files(table, "p=13%3A00/a.parquet", "orphan.parquet"))


def test_a_file_that_a_version_to_keep_needs_is_kept_under_another_name() -> None:
    table = table_of(*OTHERS, add("p=13:00/a.parquet", size=7))
    table.commit(remove("p=13:00/a.parquet", deleted_ms=OLD_MS))
    with_files(table, "p=13%3A00/a.parquet", "orphan.parquet")

    assert {"p=13%3A00/a.parquet", "orphan.parquet"} == goes(table)
    assert {"orphan.parquet"} == goes(table, keep_versions=[0])


def test_a_file_that_a_protected_table_needs_is_kept_under_another_name(tmp_path: Path) -> None:
    place = with_files(table_of(*OTHERS), "p=13%3A00/a.parquet", "orphan.parquet").write(tmp_path / "t")
    clone = table_of(add(f"{LocalStorage(str(place)).uri}/p=13:00/a.parquet", size=7), table_id="clone")
    clone.write(tmp_path / "clone")
    table = open_at(LocalStorage(str(place)), open_other=open_storage)

    assert {"p=13%3A00/a.parquet", "orphan.parquet"} == goes(table)
    assert {"orphan.parquet"} == goes(table, protect_from=[str(tmp_path / "clone")])


def test_change_data_of_a_retained_commit_is_kept_under_another_name() -> None:
    table = table_of(*OTHERS)
    change = {"path": "_change_data/p=a:b/c.parquet", "partitionValues": {}, "size": 7, "dataChange": False}
    table.commit({"cdc": change}, modified_ms=ago(1))

    assert set() == goes(with_files(table, "_change_data/p=a%3Ab/c.parquet"))


# Deletion vectors


@pytest.mark.parametrize("options", [{}, {"include_foreign": True}, {"prefix": "dv"}])
def test_while_a_live_vector_is_missing_files_that_may_be_it_are_kept(
    options: dict[str, Any],  # Any: those of Table.vacuum
) -> None:
    stored = "dv/DELETION_VECTOR.BIN" if "include_foreign" in options else f"dv/{vector_path(OTHER_ID)}"
    table = table_of(*OTHERS, "a.parquet", add("v.parquet", size=10, vector=vector_of(ID)), has_vectors=True)
    with_files(table, "v.parquet", stored, "orphan.parquet")

    plan = plan_of(table, **options)

    assert stored not in paths_of(plan)
    assert any(vector_path(ID) in note and "deletion vector" in note for note in plan.notes), plan.notes
    assert stored in goes(with_files(table, vector_path(ID)), **options)


def test_while_a_live_vector_is_missing_vectors_of_removed_files_are_deleted() -> None:
    table = table_of(*OTHERS, "a.parquet", add("v.parquet", size=10, vector=vector_of(ID)), has_vectors=True)
    table.commit(add("w.parquet", size=10, vector=vector_of(OTHER_ID)))
    table.commit(remove("w.parquet", vector=vector_of(OTHER_ID), deleted_ms=OLD_MS))
    with_files(table, "v.parquet", "w.parquet", vector_path(OTHER_ID))

    assert {"w.parquet", vector_path(OTHER_ID)} == goes(table)


def test_a_vector_with_a_damaged_name_counts_as_missing() -> None:
    vector = vector_of(ID)
    table = table_of(*OTHERS, has_vectors=True)
    table.commit(add("v.parquet", size=10, vector={**vector, "pathOrInlineDv": vector["pathOrInlineDv"][:-1]}))

    assert set() == goes(with_files(table, "v.parquet", vector_path(ID)))


# Plans that are executed later


def test_a_plan_that_deletes_the_only_copy_by_now_is_not_executed(tmp_path: Path) -> None:
    """The plan was made by an earlier release, or the live file was renamed since."""
    table = misnamed("p=x/a.parquet", "P=X/a.parquet")
    place = with_files(table, "p=x/a.parquet").write(tmp_path / "t")
    storage = LocalStorage(str(place))
    plan = saved(plan_of(storage), tmp_path / "plan.parquet")
    (place / "p=x/a.parquet").unlink()

    with pytest.raises(Refused) as refused:
        execute_vacuum(open_at(storage), plan)

    assert ("vacuum.plan-names-live", "P=X/a.parquet") == (refused.value.code, refused.value.facts["first"])
    assert (place / "P=X/a.parquet").exists()
    assert (place / "orphan.parquet").exists()


@pytest.mark.parametrize("is_saved", [False, True])
def test_what_a_newer_commit_spells_otherwise_is_spared(is_saved: bool, tmp_path: Path) -> None:
    place = with_files(table_of(*OTHERS), "p=13%3A00/a.parquet", "orphan.parquet").write(tmp_path / "t")
    storage = LocalStorage(str(place))
    plan = saved(plan_of(storage), tmp_path / "plan.parquet") if is_saved else plan_of(storage)
    commit_to(storage, 1, add("p=13:00/a.parquet", size=7))

    outcome = execute_vacuum(open_at(storage), plan)

    assert (1, 1) == (outcome.deleted.files, outcome.spared)
    assert (place / "p=13%3A00/a.parquet").exists()


# One file


@pytest.mark.parametrize("mode", Mode)
def test_the_explanation_names_the_missing_file(mode: Mode) -> None:
    table = open_at(misnamed("p=13:00/a.parquet", "p=13%3A00/a.parquet"))

    found = explain_file(table, VacuumRequest(mode=mode), "p=13%3A00/a.parquet")

    assert "kept" == found.verdict
    assert "p=13:00/a.parquet" in found.why
    assert "goes" == explain_file(table, VacuumRequest(), "orphan.parquet").verdict


# What is asked of the store where nothing is missing


def test_only_where_something_is_missing_the_log_is_read_again() -> None:
    def opened(table: TableBuilder) -> int:
        storage = RecordingStorage(table.in_memory())
        plan_of(storage)
        return storage.calls["read"]

    whole = with_files(table_of(*OTHERS, "a.parquet"), "orphan.parquet")
    lossy = with_files(table_of(*OTHERS, add("a.parquet", size=7)), "orphan.parquet")

    assert opened(table_of(*OTHERS)) == opened(whole) < opened(lossy)


# Files of a moved table, whose paths lead to the old place

OLD_PLACE = "file:///old/place"


def vector_at(path: str) -> Action:
    return {**vector_of(ID), "storageType": "p", "pathOrInlineDv": path}


@pytest.mark.parametrize("stored", ["dv", "dv/ab/cd", "DV x"])
@pytest.mark.parametrize("options", [{}, {"include_foreign": True}, {"prefix": "{stored}"}])
def test_a_vector_in_another_directory_of_a_moved_table_is_kept(
    stored: str,
    options: dict[str, Any],  # Any: those of Table.vacuum
) -> None:
    options = {name: stored if name == "prefix" else value for name, value in options.items()}
    table = table_of(*OTHERS, "a.parquet", has_vectors=True)
    table.commit(add("v.parquet", size=10, vector=vector_at(f"{OLD_PLACE}/vectors/{vector_path(ID)}")))
    own, other = f"{stored}/{vector_path(ID)}", f"{stored}/{vector_path(OTHER_ID)}"
    with_files(table, "v.parquet", own, other)

    plan = plan_of(table, **options)

    assert {other} == paths_of(plan)
    assert 1 == plan.kept.unproven
    assert any(own in note and OLD_PLACE in note for note in plan.notes), plan.notes


@pytest.mark.parametrize("stored", ["new/part-1.parquet", "p=13%3A00/PART-1.parquet"])
def test_a_data_file_in_another_directory_of_a_moved_table_is_kept(stored: str) -> None:
    table = table_of(*OTHERS, add(f"{OLD_PLACE}/p=13:00/part-1.parquet", size=7))
    with_files(table, stored, "new/part-2.parquet")

    assert {"new/part-2.parquet"} == goes(table)
    found = explain_file(open_at(table), VacuumRequest(), stored)
    assert "kept" == found.verdict
    assert OLD_PLACE in found.why


def test_a_removed_vector_of_a_moved_table_protects_nothing() -> None:
    vector = vector_at(f"{OLD_PLACE}/vectors/{vector_path(ID)}")
    table = table_of(*OTHERS, "a.parquet", has_vectors=True).commit(add("v.parquet", size=10, vector=vector))
    table.commit(remove("v.parquet", vector=vector, deleted_ms=OLD_MS))
    with_files(table, "v.parquet", f"dv/{vector_path(ID)}")

    assert {"v.parquet", f"dv/{vector_path(ID)}"} == goes(table)


def test_a_file_of_that_name_that_a_commit_removed_is_deleted() -> None:
    table = table_of(*OTHERS, add(f"{OLD_PLACE}/part-1.parquet", size=7), "new/part-1.parquet")
    table.commit(remove("new/part-1.parquet", deleted_ms=OLD_MS))

    assert {"new/part-1.parquet"} == goes(table)


def test_the_advice_finds_the_file_of_the_old_place_or_that_it_is_missing(tmp_path: Path) -> None:
    old = with_files(table_of(), "p=1/part-1.parquet").write(tmp_path / "old")
    table = table_of(*OTHERS, add(f"{LocalStorage(str(old)).uri}/p=1/part-1.parquet", size=10))
    place = with_files(table, "new/part-1.parquet").write(tmp_path / "t")
    allowed = str(old / "p=1")

    def missing() -> int:
        found = open_table(place, allow_external=[allowed]).validate(level="storage").findings
        return sum(finding.rule.id == "data.file-missing" for finding in found)

    before = missing()
    (old / "p=1/part-1.parquet").unlink()

    assert (0, 1) == (before, missing())
