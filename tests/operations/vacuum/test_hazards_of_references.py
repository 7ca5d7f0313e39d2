"""What a table needs stays, however its log speaks of it: by adds, tombstones, vectors, change data, old commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import DeltacliError, VersionAbsent
from deltacli.storage import LocalStorage
from tests.support.actions import Action, add, birth, commit_info, deletion_vector, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.damage import gap, head_cleaned
from tests.support.reading import NOW_MS
from tests.support.small_vectors import vector_path
from tests.support.vacuum_hazards import (
    CUTOFF_MS,
    DAY_MS,
    ID,
    OLD_MS,
    OTHER_ID,
    WEEK_MS,
    ago,
    goes,
    open_at,
    paths_of,
    plan_of,
    refusals,
    table_of,
    vacuum,
    vector_of,
    with_files,
)

VECTOR, OTHER_VECTOR = vector_path(ID), vector_path(OTHER_ID)


def cdc(path: str) -> dict[str, Action]:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 10, "dataChange": False}}


def test_a_live_file_is_kept_at_any_age() -> None:
    table = with_files(table_of("a.parquet"), "orphan.parquet")

    assert {"orphan.parquet"} == goes(table)


@pytest.mark.parametrize(
    "spelling",
    ["%2E/a.bin", ".%2Fa.bin", "x/%2e%2E/a.bin", "x%2F..%2Fa.bin", "x/./..//%2E/a.bin", "x//../a.bin", "%61.bin"]
    + [f"file:{{root}}/{path}" for path in ("%2E/a.bin", "x/%2E%2E/a.bin", ".%2Fa.bin", "%2E%2E/t/a.bin")],
)
def test_a_live_file_is_kept_with_any_spelling_of_its_path(spelling: str, tmp_path: Path) -> None:
    """
    Dots that only decoding shows lead where they lead a file system.
    """
    path = spelling.format(root=tmp_path / "t")
    table = with_files(table_of(add(path, size=10)), "a.bin", "x/orphan.parquet")
    storage = LocalStorage(str(table.write(tmp_path / "t")))

    assert {"x/orphan.parquet"} == goes(storage)
    assert "data.file-missing" not in {
        finding.rule.id for finding in open_at(storage).validate(level="storage").findings
    }


@pytest.mark.parametrize("path", ["%2E%2E/a.bin", "x/%2E%2E/%2E%2E/a.bin", "x/..%2F../a.bin"])
def test_a_path_that_leaves_the_table_by_encoded_dots_is_refused(path: str) -> None:
    assert ["path.escapes-root"] == refusals(with_files(table_of(add(path, size=10)), "orphan.parquet"))


@pytest.mark.parametrize(("modified_ms", "is_kept"), [(CUTOFF_MS - 1, False), (CUTOFF_MS, True), (NOW_MS, True)])
def test_an_uncommitted_file_younger_than_the_retention_is_kept(modified_ms: int, is_kept: bool) -> None:
    """
    C.9.1: what a running writer wrote is protected by its time alone.
    """
    table = table_of("a.parquet").file("b.parquet", b"b", modified_ms=modified_ms)

    assert (set() if is_kept else {"b.parquet"}) == goes(table)


@pytest.mark.parametrize(
    ("deleted_ms", "is_kept"), [(CUTOFF_MS - 1, False), (CUTOFF_MS, True), (CUTOFF_MS + 1, True), (None, False)]
)
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_tombstone_protects_to_the_last_millisecond(
    deleted_ms: int | None, is_kept: bool, is_checkpointed: bool
) -> None:
    """
    C.1 and A.10: at exact equality it still does; without a time it counts as removed in 1970.
    """
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=deleted_ms))
    if is_checkpointed:
        table.commit(commit_info("WRITE")).checkpoint(2).damaged(head_cleaned(before=2))

    assert (set() if is_kept else {"b.parquet"}) == goes(table)


def test_a_file_added_again_is_kept_although_its_tombstone_expired() -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    table.commit(add("b.parquet", size=10))

    assert not goes(table)


def test_a_file_live_with_another_vector_is_kept_and_its_old_vector_is_deleted() -> None:
    table = table_of("a.parquet", has_vectors=True).commit(
        remove("a.parquet", deleted_ms=OLD_MS), add("a.parquet", size=10, vector=vector_of(ID))
    )
    table.commit(
        remove("a.parquet", vector=vector_of(ID), deleted_ms=OLD_MS),
        add("a.parquet", size=10, vector=vector_of(OTHER_ID)),
    )
    with_files(table, VECTOR, OTHER_VECTOR)

    assert {VECTOR} == goes(table)


def test_an_old_vector_is_kept_as_long_as_its_tombstone() -> None:
    table = table_of(add("a.parquet", size=10, vector=vector_of(ID)), has_vectors=True)
    table.commit(
        remove("a.parquet", vector=vector_of(ID), deleted_ms=CUTOFF_MS),
        add("a.parquet", size=10, vector=vector_of(OTHER_ID)),
    )
    with_files(table, "a.parquet", VECTOR, OTHER_VECTOR)

    assert not goes(table)


def test_a_vector_file_is_kept_as_long_as_any_add_needs_it() -> None:
    adds = [add(f"{name}.parquet", size=10, vector=vector_of(ID, offset=at)) for at, name in enumerate("abc", 1)]
    table = table_of(*adds, has_vectors=True)
    with_files(table, "a.parquet", "b.parquet", "c.parquet", VECTOR)
    for at, name in enumerate("ab", 1):
        table.commit(remove(f"{name}.parquet", vector=vector_of(ID, offset=at), deleted_ms=OLD_MS))

    with_one_left = goes(table)
    table.commit(remove("c.parquet", vector=vector_of(ID, offset=3), deleted_ms=OLD_MS))

    assert {"a.parquet", "b.parquet"} == with_one_left
    assert {"a.parquet", "b.parquet", "c.parquet", VECTOR} == goes(table)


@pytest.mark.parametrize(
    ("descriptor", "path"),
    [
        (vector_of(ID), VECTOR),
        (vector_of(ID, offset=None), VECTOR),
        (vector_of(ID, "ab"), vector_path(ID, "ab")),
        (deletion_vector(f"memory://table/{VECTOR}", storage="p"), VECTOR),
        (deletion_vector("memory://table/odd%20dir/odd%20name.bin", storage="p"), "odd dir/odd name.bin"),
        (deletion_vector("memory://table/raw%20name.bin", storage="p"), "raw%20name.bin"),
        (deletion_vector(f"memory://other/place/table/{VECTOR}", storage="p"), VECTOR),
        (deletion_vector(VECTOR, storage="r"), VECTOR),
    ],
    ids=["u", "u-without-offset", "u-in-a-directory", "p", "p-encoded", "p-not-encoded", "p-moved", "r"],
)
def test_a_live_vector_is_kept_with_any_form_of_descriptor(descriptor: Action, path: str) -> None:
    table = table_of(add("a.parquet", size=10, vector=descriptor), has_vectors=True)
    with_files(table, "a.parquet", path)

    assert not goes(table, include_foreign=True)


@pytest.mark.parametrize("root", ["memory://table/", "memory://table/./"])
def test_a_vector_with_an_absolute_path_is_deleted_when_unreferenced(root: str) -> None:
    vector = deletion_vector(f"{root}{VECTOR}", storage="p")
    table = table_of("a.parquet", add("b.parquet", size=10, vector=vector), has_vectors=True)
    table.commit(remove("b.parquet", vector=vector, deleted_ms=OLD_MS))

    assert {"b.parquet", VECTOR} == goes(with_files(table, "b.parquet", VECTOR))


def test_inline_vectors_have_no_file_to_keep() -> None:
    inline = deletion_vector("^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", storage="i", offset=None)
    table = table_of(add("a.parquet", size=10, vector=inline), has_vectors=True)
    with_files(table, "a.parquet", VECTOR)

    assert {VECTOR} == goes(table)


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_an_unlocatable_vector_keeps_all_vector_files(mode: str) -> None:
    table = table_of(add("a.parquet", size=10, vector=deletion_vector("no z85", storage="u")), has_vectors=True)
    table.commit(add("b.parquet", size=10, vector=vector_of(ID)))
    table.commit(remove("b.parquet", vector=vector_of(ID), deleted_ms=OLD_MS))
    with_files(table, "a.parquet", "b.parquet", VECTOR, OTHER_VECTOR)

    plan = plan_of(table, mode=mode)

    assert {"b.parquet"} == paths_of(plan)
    assert any("every file of deletion vectors is kept" in note for note in plan.notes)


def test_change_data_of_a_retained_commit_is_kept_at_any_age() -> None:
    table = table_of("a.parquet").commit(cdc("_change_data/old.parquet"))
    table.commit(cdc("_change_data/kept.parquet"), cdc("_change_data/p=1/kept%20too.parquet"), modified_ms=ago(6))
    with_files(table, "_change_data/old.parquet", "_change_data/kept.parquet", "_change_data/p=1/kept too.parquet")
    with_files(table, "_change_data/orphan.parquet")
    with_files(table, "_change_data/young.parquet", days=6)

    assert {"_change_data/old.parquet", "_change_data/orphan.parquet"} == goes(table)


def removed_ten_days_ago(**fields: Any) -> TableBuilder:
    """A table with a file that was removed ten days ago, and a checkpoint that dropped the tombstone."""
    table = table_of("a.parquet", "b.parquet", **fields)
    table.commit(remove("b.parquet", deleted_ms=ago(10)), modified_ms=ago(10))
    table.commit(commit_info("WRITE"), modified_ms=ago(1))
    lines = [line for line in table.states[2].actions() if "remove" not in line]
    return table.checkpoint(2, actions=lines)


def test_a_retention_longer_than_the_tombstones_keeps_what_retained_commits_removed() -> None:
    """
    C.3: tombstones are kept a week, and the checkpoint holds none any more.
    """
    assert {"b.parquet"} == goes(removed_ten_days_ago(), retention_ms=9 * DAY_MS)
    assert not goes(removed_ten_days_ago(), retention_ms=20 * DAY_MS)


def test_files_possibly_removed_after_the_start_of_the_log_are_kept() -> None:
    table = removed_ten_days_ago().damaged(head_cleaned(before=2))

    plan = plan_of(table, retention_ms=20 * DAY_MS)

    assert not paths_of(plan)
    assert 1 == plan.kept.unproven
    assert any("does not reach back" in note for note in plan.notes)
    assert {"b.parquet"} == goes(table)


def test_where_the_log_does_not_reach_back_a_tombstone_proves_a_file_old_enough() -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=ago(25)))
    table.commit(commit_info("WRITE"), modified_ms=ago(1)).checkpoint(2).damaged(head_cleaned(before=2))

    assert {"b.parquet"} == goes(table, retention_ms=20 * DAY_MS)


def test_where_the_log_does_not_reach_back_a_file_of_an_unknown_kind_may_be_data() -> None:
    table = table_of("a.parquet", "part-0001").commit(remove("part-0001", deleted_ms=ago(10)), modified_ms=ago(10))
    table.commit(commit_info("WRITE"), modified_ms=ago(1))
    lines = [line for line in table.states[2].actions() if "remove" not in line]
    table.checkpoint(2, actions=lines).damaged(head_cleaned(before=2))

    assert not goes(table, retention_ms=20 * DAY_MS, include_foreign=True)
    assert {"part-0001"} == goes(table, include_foreign=True)


def test_files_removed_before_a_gap_may_have_been_added_again_within_it() -> None:
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    table.commit(add("b.parquet", size=10), modified_ms=ago(11))
    table.commit(remove("b.parquet", deleted_ms=ago(10)), modified_ms=ago(10))
    table.commit(commit_info("WRITE"), modified_ms=ago(1))
    lines = [line for line in table.states[4].actions() if "remove" not in line]
    table.checkpoint(4, actions=lines).damaged(gap(2, 3))

    assert not goes(table, retention_ms=20 * DAY_MS)
    assert {"b.parquet"} == goes(table)


def test_a_table_that_kept_tombstones_shorter_some_days_ago_is_not_trusted_to_have_them() -> None:
    """
    The checkpoint dropped the tombstone while the property was an hour; now it is thirty days.
    """
    short, long = ({"delta.deletedFileRetentionDuration": f"interval {n}"} for n in ("1 hour", "30 days"))
    table = removed_ten_days_ago(configuration=short).damaged(head_cleaned(before=2))
    table.commit(metadata(configuration=long), modified_ms=ago(0.5))
    with_files(table, "orphan.parquet", days=28)

    assert not goes(table, retention_ms=20 * DAY_MS, allow_retention_below_ms=30 * DAY_MS)


@pytest.mark.parametrize("text", ["interval 20 DAYS", "20 days", "interval 1 hour 20 days"])
def test_an_interval_that_other_engines_read_as_a_shorter_one_is_not_trusted_either(text: str) -> None:
    """
    H.2: delta-rs takes the default, or the first part, and drops tombstones from checkpoints by that.
    """
    table = removed_ten_days_ago(configuration={"delta.deletedFileRetentionDuration": text})

    assert not goes(table.damaged(head_cleaned(before=2)))


def test_an_invalid_retention_property_is_refused_without_an_explicit_retention() -> None:
    table = with_files(table_of("a.parquet", configuration={"delta.deletedFileRetentionDuration": "1 month"}), "b")

    assert ["property.bad-interval"] == refusals(table)
    assert not refusals(table, retention_ms=30 * DAY_MS)


@pytest.mark.parametrize("deleted_ms", [OLD_MS, None])
def test_files_removed_by_a_retained_commit_are_kept_despite_an_old_timestamp(deleted_ms: int | None) -> None:
    """
    The clock of the writer was wrong, or it wrote no time.
    """
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=deleted_ms), modified_ms=ago(6))

    assert not goes(table)


def test_files_added_by_a_retained_commit_are_kept() -> None:
    table = table_of("a.parquet").commit(add("b.parquet", size=10), modified_ms=ago(6))
    table.commit(remove("b.parquet", deleted_ms=None), modified_ms=ago(5))
    lines = [line for line in table.states[2].actions() if "remove" not in line]
    with_files(table, "b.parquet").checkpoint(2, actions=lines)

    assert not goes(table)


def test_a_version_to_be_kept_keeps_its_files_and_their_vectors() -> None:
    """
    C.9.2: without that, time travel to it fails afterwards.
    """
    table = table_of("a.parquet", add("b.parquet", size=10, vector=vector_of(ID)), has_vectors=True)
    table.commit(remove("b.parquet", vector=vector_of(ID), deleted_ms=OLD_MS))
    with_files(table, "b.parquet", VECTOR)

    assert {"b.parquet", VECTOR} == goes(table)
    assert not goes(table, keep_versions=(0,))
    assert {"b.parquet", VECTOR} == goes(table, keep_versions=(1,))
    with pytest.raises(VersionAbsent):
        goes(table, keep_versions=(7,))


def clone_of(source: Path, place: Path, *names: str, **fields: Any) -> LocalStorage:
    """A table that refers to files of another one by their whole addresses."""
    uri = LocalStorage(str(source)).uri
    builder = table_of(*(add(f"{uri}/{name}", size=10) for name in names), table_id="clone", **fields)
    builder.commit(add("own.parquet", size=10)).file("own.parquet", b"own")
    return LocalStorage(str(builder.write(place)))


def test_files_needed_by_a_clone_are_kept(tmp_path: Path) -> None:
    """
    C.9.4: the log of the source does not know its clones.
    """
    source = with_files(table_of("a.parquet", add("my%20b.parquet", size=10), "c.parquet"), "my b.parquet")
    source.commit(*(remove(name, deleted_ms=OLD_MS) for name in ("my%20b.parquet", "c.parquet")))
    place = source.write(tmp_path / "so%20urce 1")
    clone = clone_of(place, tmp_path / "clone", "my%20b.parquet")
    table = open_at(LocalStorage(str(place)))

    assert {"my b.parquet", "c.parquet"} == goes(table)
    assert {"c.parquet"} == goes(table, protect_from=(clone.root,))


def test_the_vectors_of_a_clone_stay(tmp_path: Path) -> None:
    source = table_of("a.parquet", add("b.parquet", size=10, vector=vector_of(ID)), has_vectors=True)
    source.commit(remove("b.parquet", vector=vector_of(ID), deleted_ms=OLD_MS))
    place = with_files(source, "b.parquet", VECTOR).write(tmp_path / "source")
    uri = LocalStorage(str(place)).uri
    vector = deletion_vector(f"{uri}/{VECTOR}", storage="p")
    clone = table_of(add(f"{uri}/b.parquet", size=10, vector=vector), has_vectors=True).write(tmp_path / "clone")

    assert not goes(open_at(LocalStorage(str(place))), protect_from=(str(clone),))


def test_files_removed_by_a_clone_are_kept_as_long_as_the_clone_retains_them(tmp_path: Path) -> None:
    """
    The clone keeps removed files for thirty days, its source for a week.
    """
    source = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS))
    place = source.write(tmp_path / "source")
    uri = LocalStorage(str(place)).uri
    keeps = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    clone = table_of(add(f"{uri}/b.parquet", size=10), configuration=keeps)
    clone.commit(remove(f"{uri}/b.parquet", deleted_ms=ago(10)), modified_ms=ago(10))

    assert not goes(open_at(LocalStorage(str(place))), protect_from=(str(clone.write(tmp_path / "clone")),))


def test_a_catalog_managed_clone_is_not_read_from_its_log_alone(tmp_path: Path) -> None:
    """
    Its newest commits may be known to the catalog alone.
    """
    place = table_of("a.parquet").write(tmp_path / "source")
    clone = TableBuilder().commit(
        protocol(3, 7, reader_features=["catalogManaged"], writer_features=["catalogManaged", "inCommitTimestamp"]),
        metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
    )
    table = open_at(LocalStorage(str(place)))

    with pytest.raises(DeltacliError) as raised:
        plan_of(table, protect_from=(str(clone.write(tmp_path / "clone")),))

    assert str(raised.value.table).endswith("/clone")


def test_a_clone_below_the_table_is_a_nested_table_whose_files_are_kept(tmp_path: Path) -> None:
    place = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS)).write(tmp_path / "t")
    clone_of(place, place / "clone", "b.parquet")
    table = open_at(LocalStorage(str(place)))

    assert ["vacuum.nested-table"] == refusals(table)
    assert not goes(table, skip_nested_tables=True, protect_from=(str(place / "clone"),))


def test_foreign_files_are_counted_and_kept_unless_requested() -> None:
    """
    users.md 6.4.
    """
    table = with_files(table_of("a.parquet"), "README.md", "sub/notes.txt", "part.crc", "x.orc", "orphan.parquet")

    plan = plan_of(table)

    assert {"orphan.parquet"} == paths_of(plan)
    assert 4 == plan.kept.foreign.files
    assert {"README.md", "part.crc", "sub/notes.txt", "x.orc"} == set(plan.kept.foreign_examples)
    assert {"README.md", "part.crc", "sub/notes.txt", "x.orc", "orphan.parquet"} == goes(table, include_foreign=True)


def test_a_data_file_of_any_name_is_known_by_the_log() -> None:
    table = table_of("a.parquet", "plain").commit(remove("plain", deleted_ms=OLD_MS))

    assert {"plain"} == goes(table)


def test_the_log_is_never_changed_whatever_it_contains() -> None:
    table = table_of("a.parquet").commit(commit_info("WRITE")).checkpoint(1)
    with_files(table, "_delta_log/odd.parquet", "_delta_log/_sidecars/x.parquet", "_delta_log/README", "x.parquet")
    storage = table.in_memory()
    before = {path: file for path, file in storage._files.items() if path.startswith("_delta_log/")}

    vacuum(storage, include_foreign=True, retention_ms=0, allow_retention_below_ms=WEEK_MS)

    assert "x.parquet" not in storage._files
    assert before.items() <= storage._files.items()


def test_lite_deletes_what_commits_removed_and_neither_orphans_nor_what_is_needed() -> None:
    """
    C.5.
    """
    table = table_of("a.parquet", "b.parquet", "c.parquet", "d.parquet")
    table.commit(*(remove(f"{name}.parquet", deleted_ms=OLD_MS) for name in "bc"))
    table.commit(add("c.parquet", size=10)).commit(remove("d.parquet", deleted_ms=ago(6)), modified_ms=ago(6))
    with_files(table, "orphan.parquet", "README.md")

    assert {"b.parquet"} == goes(table, mode="lite")


def test_birth_alone_needs_nothing() -> None:
    table = with_files(TableBuilder().commit(*birth()), "a.parquet")

    assert {"a.parquet"} == goes(table)


def test_protocol_with_lists_is_as_good_as_one_without() -> None:
    table = TableBuilder().commit(protocol(1, 7, writer_features=["appendOnly"]), metadata(), add("a.parquet"))

    assert {"b.parquet"} == goes(with_files(table, "a.parquet", "b.parquet"))
