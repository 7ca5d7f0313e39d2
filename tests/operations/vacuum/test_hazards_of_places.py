"""What a vacuum meets in a directory: other tables, hidden names, links, markers, and many spellings of one path."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import Refused, UsageError
from deltacli.core.machine import fixed_clock
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan
from deltacli.storage import LocalStorage, PathKind, Storage
from deltacli.storage.s3.store import open_s3
from tests.support.actions import add, commit_info, metadata, protocol, remove, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.damage import head_cleaned
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS
from tests.support.s3 import S3Server
from tests.support.small_vectors import vector_path
from tests.support.storage import FAR, RecordingStorage
from tests.support.vacuum_hazards import (
    DAY_MS,
    ID,
    OLD_MS,
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

OTHER_TABLES = {
    "Delta": ["_delta_log/00000000000000000000.json", "part-0.parquet", "p=1/part-1.parquet"],
    "Iceberg": ["metadata/00000-a.metadata.json", "metadata/snap-1-1-a.avro", "data/part-0.parquet"],
    "Iceberg, compressed": ["metadata/v1.gz.metadata.json", "data/part-0.parquet"],
    "Hudi": [".hoodie/hoodie.properties", ".hoodie/1.commit", "p=1/part-0.parquet"],
    "Paimon": ["schema/schema-0", "snapshot/snapshot-1", "manifest/manifest-1", "bucket-0/data-0.parquet"],
    "Lance": ["_versions/1.manifest", "data/part-0.parquet"],
}
EVERY_FORMAT = pytest.mark.parametrize("name", OTHER_TABLES)
PLACES = pytest.mark.parametrize("place", ["nested", "p=1", "a/b/c/nested"])


class Folding(MemoryStorage):
    """A store that finds files whatever the case of their names."""

    @property
    def capabilities(self):  # type: ignore[no-untyped-def]
        return super().capabilities._replace(has_directories=True)

    def kind_of(self, path: str) -> PathKind:
        found = {name.lower(): name for file in self._files for name in _above(file)}
        return super().kind_of(found.get(path.lower(), path))


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def far(builder: TableBuilder) -> Storage:
    """The table on a store behind a network."""
    return RecordingStorage(builder.in_memory(), capabilities=FAR)


def local(builder: TableBuilder, place: Path) -> LocalStorage:
    return LocalStorage(str(builder.write(place)))


def aged(place: Path, *, days: float = 28) -> Path:
    """The directory, as old as files are, and everything in it."""
    for path in [*place.rglob("*"), place]:
        os.utime(path, ns=(ago(days) * 1_000_000,) * 2, follow_symlinks=False)
    return place


# Other tables


@EVERY_FORMAT
@PLACES
def test_a_nested_table_is_refused_or_left_unchanged_when_skipped(name: str, place: str, tmp_path: Path) -> None:
    """
    users.md 3.2 and 6.3: deltalake deletes the nested table's data and its log.
    """
    table = with_files(table_of("a.parquet"), "orphan.parquet", f"{place}-not/orphan.parquet")
    nested = [f"{place}/{path}" for path in OTHER_TABLES[name]]
    storage = local(with_files(table, *nested), tmp_path / "t")

    plan = plan_of(storage, include_foreign=True)
    with pytest.raises(Refused):
        vacuum(storage, include_foreign=True)
    vacuum(storage, include_foreign=True, skip_nested_tables=True)

    assert ["vacuum.nested-table"] == [refusal.code for refusal in plan.refusals]
    assert (place,) == plan.kept.nested_tables
    assert {"orphan.parquet", f"{place}-not/orphan.parquet"} == paths_of(plan)
    assert all((tmp_path / "t" / path).exists() for path in nested)
    assert not (tmp_path / "t" / "orphan.parquet").exists()


@EVERY_FORMAT
def test_a_nested_table_is_seen_in_a_flat_listing(name: str, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    files = ["a.parquet", "orphan.parquet", *(f"x/y/z/nested/{path}" for path in OTHER_TABLES[name])]
    for path in files:
        s3.put(bucket, f"t/{path}", b"0123456789")
    s3.put(bucket, f"t/{commit_path(0)}", to_bytes([protocol(), metadata(), add("a.parquet", size=10)]))
    table = s3_table(bucket)

    assert ["vacuum.nested-table"] == refusals(table, include_foreign=True)
    assert {"orphan.parquet"} == goes(table, include_foreign=True, skip_nested_tables=True)


@pytest.mark.parametrize("name", ["Iceberg", "Hudi", "Paimon", "Lance"])
def test_a_directory_that_is_another_table_too_is_refused(name: str) -> None:
    table = with_files(table_of("a.parquet"), *OTHER_TABLES[name])

    assert ["vacuum.shared-directory"] == refusals(table, skip_nested_tables=True)


@pytest.mark.parametrize("name", ["Iceberg", "Hudi", "Paimon", "Lance"])
def test_a_prefix_does_not_hide_that_the_root_is_another_table(name: str) -> None:
    files = [path for path in OTHER_TABLES[name] if path.endswith(".parquet")]
    table = with_files(table_of("a.parquet"), *OTHER_TABLES[name])

    assert ["vacuum.shared-directory"] == refusals(table, prefix=files[0].partition("/")[0])


@EVERY_FORMAT
def test_a_prefix_inside_a_nested_table_is_refused(name: str) -> None:
    table = with_files(table_of("a.parquet"), *(f"b/nested/{path}" for path in OTHER_TABLES[name]))
    deepest = max(OTHER_TABLES[name], key=lambda path: (path.endswith(".parquet"), path.count("/")))

    with pytest.raises(UsageError, match="table"):
        plan_of(table, prefix=f"b/nested/{deepest}".rpartition("/")[0])
    assert ["vacuum.nested-table"] == refusals(table, prefix="b")
    with pytest.raises(UsageError, match="table"):
        plan_of(table, prefix="b/nested")


def test_a_nested_table_whose_log_is_a_link_is_seen(tmp_path: Path) -> None:
    storage = local(with_files(table_of("a.parquet"), "nested/part-0.parquet", "log/0.json"), tmp_path / "t")
    (tmp_path / "t" / "nested" / LOG).symlink_to(tmp_path / "t" / "log")

    assert ["vacuum.nested-table"] == refusals(storage)
    assert not goes(storage, skip_nested_tables=True)


@EVERY_FORMAT
def test_empty_directories_of_a_nested_table_stay(name: str, tmp_path: Path) -> None:
    table = with_files(table_of("a.parquet"), *(f"nested/{path}" for path in OTHER_TABLES[name]))
    storage = local(table, tmp_path / "t")
    (tmp_path / "t" / "nested" / "data" / "empty").mkdir(parents=True, exist_ok=True)
    (tmp_path / "t" / "empty").mkdir()
    aged(tmp_path / "t")

    plan = plan_of(storage, skip_nested_tables=True)

    assert ("empty",) == plan.directories


@pytest.mark.parametrize(
    "fields",
    [
        {"configuration": {"delta.universalFormat.enabledFormats": "iceberg"}},
        {"configuration": {"delta.universalFormat.enabledFormats": "hudi, Iceberg"}},
    ],
)
def test_the_iceberg_metadata_of_a_table_is_kept(fields: dict[str, Any]) -> None:
    """
    C.4 and C.8.
    """
    table = with_files(table_of("a.parquet", **fields), "metadata/v1.metadata.json", "metadata/m0.avro")
    with_files(table, "metadata/odd.parquet", "sub/metadata/x.parquet")

    assert {"sub/metadata/x.parquet"} == goes(table, include_foreign=True)


def test_the_hudi_metadata_of_a_table_is_not_another_table() -> None:
    fields: dict[str, Any] = {"configuration": {"delta.universalFormat.enabledFormats": "hudi"}}
    table = with_files(table_of("a.parquet", **fields), ".hoodie/hoodie.properties", "orphan.parquet")

    assert {"orphan.parquet"} == goes(table)


def test_a_table_that_was_kept_readable_as_iceberg_keeps_its_metadata() -> None:
    """
    The files are its own though it makes no more of them.
    """
    fields: dict[str, Any] = {"configuration": {"delta.universalFormat.enabledFormats": "iceberg"}}
    table = with_files(table_of("a.parquet", **fields), "metadata/v1.metadata.json", "orphan.parquet")
    table.commit(metadata())

    assert {"orphan.parquet"} == goes(table, include_foreign=True)


# Hidden names


def test_hidden_names_stay_at_any_depth_and_partition_directories_are_none() -> None:
    """
    C.4: deltalake looks at the start of the whole path alone.
    """
    table = table_of("a.parquet", partition_columns=["_p", "_q:"])
    hidden = [".x.parquet", "_x.parquet", "sub/_hidden/x.parquet", "sub/.x.parquet", "_p/x.parquet", "_pp=1/x.parquet"]
    hidden += ["_symlink_format_manifest/manifest", "_p=1/_x.parquet", "_staged_commits/x.parquet", "_q/x.parquet"]
    shown = ["_p=1/x.parquet", "_q%3A=1/x.parquet", "_p=1/_q:=2/x.parquet", "_change_data/x.parquet", "_delta_index/x"]
    with_files(table, *hidden, *shown)

    plan = plan_of(table, include_foreign=True)

    assert set(shown) == paths_of(plan)
    assert all(path not in paths_of(plan) for path in hidden)


def test_partition_columns_of_a_replaced_table_are_not_hidden_names() -> None:
    table = table_of("_old=1/a.parquet", partition_columns=["_old"])
    table.commit(metadata(partition_columns=["_new"]), remove("_old=1/a.parquet", deleted_ms=OLD_MS))
    with_files(table, "_new=1/x.parquet", "_other=1/x.parquet")

    assert {"_old=1/a.parquet", "_new=1/x.parquet"} == goes(table)


def test_partition_columns_known_only_from_an_older_checkpoint_are_not_hidden_names() -> None:
    table = table_of("_old=1/a.parquet", partition_columns=["_old"])
    table.commit(remove("_old=1/a.parquet", deleted_ms=OLD_MS)).checkpoint(1)
    table.commit(metadata(partition_columns=["_new"]))
    with_files(table, "_old=1/x.parquet", "_new=1/x.parquet", "_other=1/x.parquet")
    table.damaged(head_cleaned(before=1))

    assert {"_old=1/a.parquet", "_old=1/x.parquet", "_new=1/x.parquet"} == goes(table)


def test_physical_names_of_partition_columns_are_not_hidden_names() -> None:
    mapped = '{"name":"p","type":"long","nullable":true,"metadata":{"delta.columnMapping.physicalName":"_col-1"}}'
    schema = f'{{"type":"struct","fields":[{mapped}]}}'
    table = with_files(table_of(partition_columns=["p"], schema_string=schema), "_col-1=1/x.parquet", "_col-2=1/y")

    assert {"_col-1=1/x.parquet"} == goes(table)


def test_a_live_file_with_a_hidden_name_is_kept_and_not_reported_missing() -> None:
    table = with_files(table_of("_hidden/a.parquet", "b.parquet"), "orphan.parquet")

    assert {"orphan.parquet"} == goes(table)


# Links


def test_links_are_neither_followed_nor_deleted(tmp_path: Path) -> None:
    """
    C.9.10.
    """
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "deep" / "x.parquet").write_bytes(b"x")
    storage = local(with_files(table_of("a.parquet"), "orphan.parquet"), tmp_path / "t")
    (tmp_path / "t" / "linked").symlink_to(elsewhere)
    (tmp_path / "t" / "link.parquet").symlink_to(elsewhere / "deep" / "x.parquet")
    (tmp_path / "t" / "dangling.parquet").symlink_to(elsewhere / "nothing")
    os.mkfifo(tmp_path / "t" / "pipe.parquet")
    aged(tmp_path)

    plan = plan_of(storage)
    vacuum(storage)

    assert ({"orphan.parquet"}, 4) == (paths_of(plan), plan.kept.links)
    assert (elsewhere / "deep" / "x.parquet").exists()
    assert {"linked", "link.parquet", "dangling.parquet", "pipe.parquet"} <= set(os.listdir(tmp_path / "t"))


def test_a_directory_that_became_a_link_is_not_deleted_through(tmp_path: Path) -> None:
    storage = local(with_files(table_of("a.parquet"), "p=1/orphan.parquet"), tmp_path / "t")
    plan = plan_of(storage)
    (tmp_path / "t" / "p=1").rename(tmp_path / "moved")
    (tmp_path / "t" / "p=1").symlink_to(tmp_path / "moved")

    outcome = execute(storage, plan)

    assert (0, 1) == (outcome.deleted.files, outcome.missing)
    assert (tmp_path / "moved" / "orphan.parquet").exists()


def test_a_file_that_was_written_again_since_a_plan_is_spared(tmp_path: Path) -> None:
    storage = local(with_files(table_of("a.parquet"), "orphan.parquet", "other.parquet"), tmp_path / "t")
    plan = plan_of(storage)
    again = tmp_path / "t" / "orphan.parquet"
    again.write_bytes(b"anew")
    os.utime(again, ns=(NOW_MS * 1_000_000,) * 2)

    outcome = execute(storage, plan)

    assert (1, 1) == (outcome.deleted.files, outcome.spared)
    assert again.exists()


def execute(storage: Storage, plan: VacuumPlan) -> VacuumOutcome:
    """Execute a plan that is no longer fresh: its files are checked once more."""
    return execute_vacuum(open_at(storage), replace(plan, looked_at=monotonic() - 5.1))


def test_files_of_a_linked_root_are_recognized_by_the_real_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    names = ["a.parquet", *("/".join([*(f"p{n}={n}" for n in range(deep)), "b.parquet"]) for deep in range(1, 9))]
    by_real, by_link = (f"file://{tmp_path}/{root}" for root in ("real", "link"))
    table = with_files(TableBuilder(), *names, "orphan.parquet")
    adds = [add(f"{root}/{name}", size=10) for name, root in zip(names, [by_real, by_link] * 5, strict=False)]
    table.commit(protocol(), metadata(), *adds).write(tmp_path / "real")

    for root in ("real", "link"):
        assert {"orphan.parquet"} == goes(LocalStorage(str(tmp_path / root)))


# Spellings


ROOTS = ["plain", "with space", "50%25", "a%20b", "100% #1?", "ünï/cødé", "e\u0301"]


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("form", ["relative", "file:///", "file:/", "file://localhost/", "/"])
def test_live_files_are_known_in_every_spelling_of_their_address(root: str, form: str, tmp_path: Path) -> None:
    """
    A.9 and C.1: absolute paths inside the root are made relative.
    """
    place = tmp_path / root
    uri = LocalStorage(str(place)).uri.removeprefix("file://")
    before = "" if form == "relative" else form.removesuffix("/") + uri + "/"
    table = with_files(TableBuilder(), "p=a%20b/f 1.parquet", "é.parquet", "orphan.parquet", "p=a b/f 1.parquet")
    table.commit(
        protocol(), metadata(), *(add(before + p, size=10) for p in ("p=a%2520b/f%201.parquet", "%C3%A9.parquet"))
    )
    storage = local(table, place)

    assert {"orphan.parquet", "p=a b/f 1.parquet"} == goes(storage)


@pytest.mark.parametrize("before", ["", "memory://table/", "memory://elsewhere/table/", "./", "x/../"])
def test_a_path_that_was_not_encoded_protects_both_of_its_readings(before: str) -> None:
    """
    C.9.11.
    """
    table = with_files(TableBuilder(), "p=a%20b/f.parquet", "p=a b/f.parquet", "orphan.parquet")
    table.commit(protocol(), metadata(), add(f"{before}p=a%20b/f.parquet", size=10))

    assert {"orphan.parquet"} == goes(table)


@pytest.mark.parametrize("path", ["x//y.parquet", "./x/y.parquet", "x/./y.parquet", "z/../x/y.parquet"])
def test_a_path_with_empty_and_dot_segments_is_known(path: str) -> None:
    table = with_files(TableBuilder(), "x/y.parquet", "orphan.parquet")
    table.commit(protocol(), metadata(), add(path, size=10))

    assert {"orphan.parquet"} == goes(table)


def test_an_object_with_an_empty_segment_in_its_key_is_known() -> None:
    table = with_files(TableBuilder(), "p=a%20b//y.parquet", "orphan.parquet")
    table.commit(protocol(), metadata(), add("p=a%2520b//y.parquet", size=10))

    assert {"orphan.parquet"} == goes(table)


def test_paths_outside_are_ignored_but_files_with_the_same_ending_are_kept() -> None:
    """
    The table may have been moved, or be known by another address.
    """
    deep = "/".join(f"p{number}={number}" for number in range(8))
    table = with_files(TableBuilder(), "x/a.parquet", f"{deep}/b.parquet", "orphan.parquet")
    adds = [add(f"s3://old/lake/t/{path}", size=10) for path in ("x/a.parquet", f"{deep}/b.parquet", "gone.parquet")]
    table.commit(protocol(), metadata(), *adds)

    assert {"orphan.parquet"} == goes(table)


@pytest.mark.parametrize("path", ["../t/a.parquet", "x/../../t/a.parquet", "%2E%2E/t/a.parquet"])
@pytest.mark.parametrize("action", [add, remove])
def test_a_path_that_leaves_the_table_is_refused(path: str, action: Callable[[str], dict[str, object]]) -> None:
    table = with_files(table_of("b.parquet"), "a.parquet").commit(action(path))

    assert ["path.escapes-root"] == refusals(table)


def test_names_that_differ_by_case_are_one_file_on_a_case_insensitive_store() -> None:
    """
    C.9.9.
    """
    builder = table_of("A.parquet", "P=1/É.parquet", has_vectors=True)
    builder.commit(add("v.parquet", size=10, vector=vector_of(ID, "Sub")))
    builder.files["a.PARQUET"] = builder.files.pop("A.parquet")
    builder.files["p=1/é.parquet"] = builder.files.pop("P=1/É.parquet")
    with_files(builder, "v.parquet", vector_path(ID, "sub"), "orphan.parquet")
    folding = Folding()
    for path, file in builder.files.items():
        folding.write(path, file.data, modified_ms=file.modified_ms)

    assert {"orphan.parquet"} == goes(folding)
    # Elsewhere they are other files, but while the live ones are missing, they may be these.
    assert not {"a.PARQUET", "p=1/é.parquet"} & paths_of(plan_of(builder))


@pytest.mark.parametrize(
    ("logged", "stored"), [("e\u0301.parquet", "\u00e9.parquet"), ("\u00e9.parquet", "e\u0301.parquet")]
)
def test_names_in_another_unicode_form_are_one(logged: str, stored: str) -> None:
    table = with_files(TableBuilder(), stored, "orphan.parquet")
    table.commit(protocol(), metadata(), add(logged, size=10))

    assert {"orphan.parquet"} == goes(table)


def test_names_that_are_not_utf8_are_recognized(tmp_path: Path) -> None:
    storage = local(table_of(add("%FF.parquet", size=10), "b.parquet"), tmp_path / "t")
    for name in (b"\xff.parquet", b"\xfe.parquet"):
        place = os.path.join(os.fsencode(tmp_path / "t"), name)
        with open(place, "wb") as file:
            file.write(b"0123456789")
        os.utime(place, ns=(OLD_MS * 1_000_000,) * 2)

    vacuum(storage)

    assert {b"\xff.parquet", b"b.parquet", LOG.encode()} == set(os.listdir(os.fsencode(tmp_path / "t")))


# Directories, markers, files without a byte


def test_directories_go_when_they_were_empty_and_are_old(tmp_path: Path) -> None:
    """
    C.7: deepest first, never the root, never a hidden one, and what this run empties goes in a later one.
    """
    storage = local(with_files(table_of("a.parquet"), "emptied/orphan.parquet"), tmp_path / "t")
    for path in ("old/deep", "_hidden", "young", "used"):
        (tmp_path / "t" / path).mkdir(parents=True)
    aged(tmp_path / "t")
    aged(tmp_path / "t" / "young", days=6)
    plan = plan_of(storage)
    with_files(TableBuilder(), "used/x.parquet", days=0).write(tmp_path / "t")

    outcome = execute(storage, plan)

    assert ("old/deep", "used") == plan.directories
    assert 1 == outcome.directories_removed
    left = {path.relative_to(tmp_path / "t").as_posix() for path in (tmp_path / "t").iterdir()}
    assert {"_delta_log", "_hidden", "a.parquet", "emptied", "old", "used", "young"} == left


def test_a_table_without_a_file_keeps_its_root(tmp_path: Path) -> None:
    storage = local(table_of(), tmp_path / "t")
    aged(tmp_path / "t")

    assert () == plan_of(storage).directories


def s3_table(bucket: str, *, days: float = 8) -> Table:
    """A table on S3, whose objects are as young as they are, long after they were written."""
    storage = open_s3(f"s3://{bucket}/t", {})
    newest = max(stat.modified_ms for stat in storage.list_from(LOG))
    return Table(storage, clock=fixed_clock(newest + int(days * DAY_MS)))


def test_markers_of_directories_stay_and_files_without_a_byte_are_files(s3: S3Server) -> None:
    """
    C.9.11.
    """
    bucket = s3.make_bucket()
    for path in ("", "x/", "x/y/", "p=1/", "p=1//"):
        s3.put(bucket, f"t/{path}", b"")
    s3.put(bucket, "t/p=1/a.parquet", b"")
    s3.put(bucket, "t/x/y/orphan.parquet", b"")
    s3.put(bucket, "t/x//orphan.parquet", b"")
    s3.put(bucket, "tt/neighbour.parquet", b"")
    s3.put(bucket, f"t/{commit_path(0)}", to_bytes([protocol(), metadata(), add("p=1/a.parquet", size=0)]))

    vacuum(s3_table(bucket), include_foreign=True)

    left = {key for key in s3.keys(bucket) if LOG not in key}
    assert {"t/", "t/x/", "t/x/y/", "t/p=1/", "t/p=1//", "t/p=1/a.parquet", "tt/neighbour.parquet"} == left


def test_live_files_without_a_byte_are_not_missed() -> None:
    table = TableBuilder().commit(protocol(), metadata(), add("a.parquet", size=0)).file("a.parquet", b"")

    assert {"orphan.parquet"} == goes(with_files(table, "orphan.parquet").commit(commit_info("WRITE")))


def test_an_empty_orphan_is_deleted() -> None:
    assert {"orphan.parquet"} == goes(table_of("a.parquet").file("orphan.parquet", b""))
