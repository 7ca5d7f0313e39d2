"""Shallow clones: their rows are those of the source, and a vacuum of the source keeps the files that they need."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, OutcomeUnknown, PartlyDone, Refused, UsageError, VersionAbsent
from deltacli.core.machine import fixed_clock
from deltacli.core.times import format_timestamp
from deltacli.delta.paths.spelling import encoded_root
from deltacli.operations.vacuum.clones import NOTES_DIRECTORY, CloneNote, resolve_note_uri
from deltacli.storage import LocalStorage, Storage, open_storage
from deltacli.storage.base import Draft
from tests.support.actions import Line, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.faulty import Fault, FaultyStorage
from tests.support.row_counts import Rows, count_rows

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
CREATIONS = {"put_if_absent", "publish"}
ANYWHERE, OF_CREATIONS = (Fault.BEFORE, Fault.AFTER), (Fault.LOST, Fault.UNSENT)


def opened(place: Path, *, at_ms: int = NOW_MS) -> Table:
    return open_table(place, allow_external=[place.parent.as_uri()], clock=fixed_clock(at_ms))


def rows_of(table: Table) -> Rows:
    scan = table.snapshot().scan()
    return count_rows(scan, scan.schema.names)


def source(place: Path, *more: Line, properties: dict[str, str] | None = None, features: tuple[str, ...] = ()) -> Table:
    """Write a table with a live file and one that its second version has removed."""
    builder, files = TableBuilder(), []
    place.mkdir(parents=True)
    for name, values in (("live.parquet", [1, 2]), ("gone.parquet", [3])):
        pq.write_table(pa.table({"id": pa.array(values, pa.int64())}), place / name)
        size = (place / name).stat().st_size
        stats = json.dumps({"numRecords": len(values)})
        files.append({"path": name, "size": size, "partitionValues": {}, "dataChange": True, "stats": stats})
        files[-1]["modificationTime"] = 0
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    described = metadata(
        configuration=properties or {}, schemaString=json.dumps(schema), name="events", description="d"
    )
    builder.commit(commit_info("CREATE TABLE"), protocol(1, 7, writer_features=list(features)), described, *more)
    builder.commit(commit_info("WRITE"), *({"add": one} for one in files))
    builder.commit(commit_info("DELETE"), remove("gone.parquet", deletion_timestamp=0))
    builder.write(place)
    return opened(place)


def files_in(place: Path) -> set[str]:
    return {one.relative_to(place).as_posix() for one in place.rglob("*") if one.is_file()}


def actions_of(place: Path) -> Iterator[tuple[str, Any]]:
    for line in (place / "_delta_log" / f"{0:020}.json").read_text().splitlines():
        yield from json.loads(line).items()


def test_what_is_of_the_source_alone_is_not_taken(tmp_path: Path) -> None:
    names = (
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    )
    domain = {"domainMetadata": {"domain": "delta.clustering", "configuration": "{}", "removed": False}}
    other = {"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False}}
    table = source(
        tmp_path / "source",
        domain,
        other,
        {"txn": {"appId": "a", "version": 1}},
        properties={
            "delta.enableRowTracking": "true",
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "1",
            "delta.inCommitTimestampEnablementTimestamp": "1",
            "mine": "kept",
            **dict.fromkeys(names, "_row"),
        },
        features=("rowTracking", "domainMetadata", "clustering", "inCommitTimestamp"),
    )

    plan = table.clone(tmp_path / "clone", version=1)

    found = dict(actions_of(tmp_path / "clone"))
    metadata_of, info = found["metaData"], found["commitInfo"]
    assert {"name", "description"}.isdisjoint(metadata_of)
    assert plan.metadata["id"] == metadata_of["id"] != table.snapshot().metadata.id
    properties = metadata_of["configuration"]
    assert {"delta.enableRowTracking", "delta.enableInCommitTimestamps", "mine", *names} == properties.keys()
    assert "_row" not in properties.values()
    domains = {
        one["domain"]: one["configuration"] for kind, one in actions_of(tmp_path / "clone") if kind == "domainMetadata"
    }
    assert {"delta.clustering": "{}", "delta.rowTracking": '{"rowIdHighWaterMark":2}'} == domains
    assert [0, 1] == [one["baseRowId"] for kind, one in actions_of(tmp_path / "clone") if kind == "add"]
    assert "txn" not in found
    assert ("CLONE", {"source": table.uri, "sourceVersion": "1", "isShallow": True}) == (
        info["operation"],
        info["operationParameters"],
    )


def test_the_vacuum_of_a_source_keeps_what_its_clones_need(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    table.clone(tmp_path / "clone", version=1)
    later = opened(tmp_path / "source", at_ms=NOW_MS + 2 * HOUR_MS)

    assert 0 == table.vacuum(dry_run=True).plan.candidates.num_rows
    later.vacuum()

    assert 3 == sum(rows_of(opened(tmp_path / "clone")).values())


@pytest.mark.parametrize(
    ("happens", "after_ms", "refused"),
    [
        ("moved", HOUR_MS, False),
        ("moved", HOUR_MS - 1, True),  # it may be in the making
        ("emptied", HOUR_MS, True),
        ("damaged", HOUR_MS, True),
        ("unmounted", HOUR_MS, True),
        ("replaced", HOUR_MS, False),
    ],
)
def test_only_a_clone_that_is_gone_for_certain_protects_nothing(
    tmp_path: Path, happens: str, after_ms: int, refused: bool
) -> None:
    table, place = source(tmp_path / "source"), tmp_path / "disk" / "clone"
    table.clone(place, version=1)
    log = place / "_delta_log"
    match happens:
        case "moved":
            place.rename(tmp_path / "moved")
        case "emptied":
            shutil.rmtree(log)
        case "damaged":
            (log / f"{0:020}.json").write_text("{")
        case "unmounted":
            place.parent.rename(tmp_path / "elsewhere")
        case "replaced":
            shutil.rmtree(place)
            source(place)

    plan = opened(tmp_path / "source", at_ms=NOW_MS + after_ms).plan_vacuum()

    told = {one.code: one.facts for one in plan.refusals}
    assert refused == ("vacuum.clone-unreachable" in told)
    assert not refused or f"{table.uri}/{NOTES_DIRECTORY}/" in told["vacuum.clone-unreachable"]["note"]
    assert refused or any("protects nothing" in note for note in plan.notes)


@pytest.mark.parametrize("how", ["noted", "replaced", "by hand", "deleted"])
def test_the_vacuum_keeps_the_files_of_clones_of_clones(tmp_path: Path, how: str) -> None:
    table = source(tmp_path / "source")
    table.clone(tmp_path / "clone", version=1, unprotected=how == "by hand")
    second = opened(tmp_path / "clone").clone(tmp_path / "second")
    remove_all(tmp_path / "clone")
    if how == "replaced":
        text = (tmp_path / "clone" / "_delta_log" / f"{0:020}.json").read_text()
        described = next(line for line in text.splitlines() if line.startswith('{"metaData"'))
        with open(tmp_path / "clone" / "_delta_log" / f"{1:020}.json", "a") as file:
            file.write(described.replace(json.loads(described)["metaData"]["id"], "another-id") + "\n")
    if how == "deleted":
        shutil.move(tmp_path / "second", tmp_path / "between")
        opened(tmp_path / "between").clone(tmp_path / "second")
        shutil.rmtree(tmp_path / "clone")
        shutil.rmtree(tmp_path / "between")
    aged = opened(tmp_path / "source", at_ms=NOW_MS + 30 * 24 * HOUR_MS)

    aged.vacuum(protect_from=[str(tmp_path / "clone")] if how == "by hand" else [])

    assert 2 == second.absolute
    assert 3 == sum(rows_of(opened(tmp_path / "second")).values())


@pytest.mark.parametrize("moved", [False, True])
def test_a_clone_made_after_the_plan_of_a_vacuum_ends_it(tmp_path: Path, moved: bool) -> None:
    """
    Also one of a clone that the plan knows, and one that is not there at this moment.
    """
    table = source(tmp_path / "source")
    table.clone(tmp_path / "known", version=1)
    remove_all(tmp_path / "known")
    aged = opened(tmp_path / "source", at_ms=NOW_MS + 30 * 24 * HOUR_MS)
    plan = aged.plan_vacuum()
    assert 1 == plan.candidates.num_rows
    opened(tmp_path / "known", at_ms=NOW_MS + 30 * 24 * HOUR_MS + 1).clone(tmp_path / "clone", version=0)
    if moved:
        (tmp_path / "clone").rename(tmp_path / "moved")

    with pytest.raises(DeltacliError) as error:
        opened(tmp_path / "source", at_ms=NOW_MS + 30 * 24 * HOUR_MS + 2).execute_vacuum(plan)

    assert error.value.code in ("vacuum.plan-too-old", "vacuum.clone-unreachable")
    assert (tmp_path / "source" / "gone.parquet").exists()


def remove_all(place: Path) -> None:
    """Commit the removal of all files of a clone."""
    lines = [{"commitInfo": {"timestamp": 0, "operation": "DELETE"}}]
    for kind, one in actions_of(place):
        if kind == "add":
            lines.append({"remove": {"path": one["path"], "deletionTimestamp": NOW_MS, "dataChange": True}})
    commit = place / "_delta_log" / f"{1:020}.json"
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for path in commit.parent.glob("*.json"):
        os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))


@pytest.mark.parametrize("how", ["link", "log"])
def test_a_source_that_is_another_one_by_now_is_not_cloned(tmp_path: Path, how: str) -> None:
    source(tmp_path / "first")
    source(tmp_path / "second")
    (tmp_path / "link").symlink_to(tmp_path / "first")
    table = opened(tmp_path / "link")
    plan = table.plan_clone(tmp_path / "clone")
    if how == "link":
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to(tmp_path / "second")
    else:
        commit = tmp_path / "first" / "_delta_log" / f"{2:020}.json"
        commit.write_text(commit.read_text() + "\n")

    with pytest.raises(Refused) as refused:
        table.execute_clone(plan)

    assert {"link": "plan.other-place", "log": "plan.other-past"}[how] == refused.value.code
    assert not (tmp_path / "clone").exists()
    assert not [
        one for name in ("first", "second") for one in files_in(tmp_path / name) if one.startswith(NOTES_DIRECTORY)
    ]


def test_an_old_version_is_not_cloned_while_a_vacuum_runs(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    place = tmp_path / "source" / "_delta_log" / f"{3:020}.json"
    place.write_text(json.dumps({"commitInfo": {"timestamp": NOW_MS, "operation": "VACUUM START"}}) + "\n")
    os.utime(place, (NOW_MS / 1000, NOW_MS / 1000))

    with pytest.raises(Refused) as refused:
        table.clone(tmp_path / "clone", version=1)

    assert "clone.vacuum-running" == refused.value.code


def test_a_clone_whose_files_were_deleted_since_the_plan_is_not_made(tmp_path: Path) -> None:
    """
    As by a vacuum that ran while the question was open.
    """
    table = source(tmp_path / "source")
    plan = table.plan_clone(tmp_path / "clone", version=1)
    (tmp_path / "source" / "gone.parquet").unlink()

    assert "clone.source-incomplete" == code_of(lambda: table.execute_clone(plan))
    assert not (tmp_path / "clone").exists()
    assert not list((tmp_path / "source" / NOTES_DIRECTORY).iterdir())


class LateVacuum(LocalStorage):
    """The store of a clone, in whose last moment a vacuum of the source deletes a file."""

    def draft(self, path: str) -> Draft:
        (Path(self.root).parent / "source" / "gone.parquet").unlink(missing_ok=True)
        return super().draft(path)


def test_a_clone_whose_files_a_vacuum_deletes_meanwhile_says_so(tmp_path: Path) -> None:
    source(tmp_path / "source")
    target = str(tmp_path / "clone")

    def open_other(uri: str) -> Storage:
        return LateVacuum(uri) if uri == target else open_storage(uri)

    table = Table(open_storage(str(tmp_path / "source")), clock=fixed_clock(NOW_MS), open_other=open_other)
    with pytest.raises(PartlyDone) as partly:
        table.clone(target, version=1)

    assert ("clone.files-lost", "gone.parquet") == (partly.value.code, partly.value.facts["first"])


def attempt(home: Path, at: int, fault: Fault, *, on_source: bool) -> tuple[FaultyStorage, DeltacliError | None]:
    """Clone a table whose store, or that of the clone, fails at a call."""
    source(home / "source")
    failing = str(home / ("source" if on_source else "clone"))
    faulty = FaultyStorage(LocalStorage(failing), at, fault)

    def open_other(uri: str) -> Storage:
        return faulty if uri == failing else open_storage(uri)

    table = Table(open_other(str(home / "source")), clock=fixed_clock(NOW_MS), open_other=open_other)
    try:
        table.clone(str(home / "clone"))
    except DeltacliError as error:
        return faulty, error
    return faulty, None


@pytest.mark.parametrize("on_source", [False, True])
def test_a_fault_at_any_call_leaves_a_whole_clone_or_none(tmp_path: Path, on_source: bool) -> None:
    undisturbed, _ = attempt(tmp_path / "undisturbed", 0, Fault.BEFORE, on_source=on_source)
    source(tmp_path / "alone")
    before = files_in(tmp_path / "alone")
    assert any(verb in CREATIONS for verb, _ in undisturbed.calls)
    for at, (verb, _) in enumerate(undisturbed.calls, 1):
        for fault in (*ANYWHERE, *(OF_CREATIONS if verb in CREATIONS else ())):
            home = tmp_path / f"{at}-{fault}"

            _, error = attempt(home, at, fault, on_source=on_source)

            exists = (home / "clone" / "_delta_log" / f"{0:020}.json").exists()
            assert exists or error is not None
            assert not exists or error is None or isinstance(error, OutcomeUnknown | PartlyDone) or fault is Fault.AFTER
            assert before <= files_in(home / "source")
            if exists:
                assert 2 == sum(rows_of(opened(home / "clone")).values()), (at, fault)
                assert before < files_in(home / "source"), (at, fault)  # the note came first
            assert [] == [one for one in opened(home / "source").validate().findings if one.severity == "error"]


def test_targets_that_are_refused(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    source(tmp_path / "other")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x").write_text("")
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    refused = {}
    for name in ("other", "files", "file", "source", "source/below", ".", "empty"):
        before = files_in(tmp_path)
        try:
            table.clone(tmp_path / name)
        except Refused as error:
            refused[name] = error.code
            assert before == files_in(tmp_path)

    assert {
        "other": "clone.target-exists",
        "files": "clone.target-not-empty",
        "file": "clone.target-not-empty",
        "source": "clone.inside",
        "source/below": "clone.inside",
        ".": "clone.inside",
    } == refused


def test_a_source_without_its_files_is_refused(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    (tmp_path / "source" / "live.parquet").unlink()

    with pytest.raises(Refused) as refused:
        table.clone(tmp_path / "clone")

    assert "clone.source-incomplete" == refused.value.code
    assert not (tmp_path / "clone").exists()


def test_the_hint_brings_back_the_files_of_the_cloned_version(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    (tmp_path / "source" / "gone.parquet").unlink()

    with pytest.raises(Refused) as refused:
        table.clone(tmp_path / "clone", version=1)

    hint = str(refused.value.hint)
    assert "--version 1" in hint
    assert "--from COPY" in hint


def test_roots_are_percent_encoded_once() -> None:
    assert "s3://bucket/a%20b%2520c%C3%A9/" == encoded_root("s3://bucket/a b%20cé")
    assert "file:///a%20b/" == encoded_root("file:///a%20b")


@pytest.mark.parametrize("is_cloned", [False, True])
def test_validate_does_not_promise_a_deletion_that_a_clone_may_prevent(tmp_path: Path, is_cloned: bool) -> None:
    table = source(tmp_path / "source")
    if is_cloned:
        table.clone(tmp_path / "clone")
    (tmp_path / "source" / "left.parquet").write_bytes(b"x")
    aged = opened(tmp_path / "source", at_ms=NOW_MS + 10**12)

    found = [one.message for one in aged.validate(level="storage").findings if one.rule.id == "data.orphan"]

    assert [is_cloned] == [message.endswith("would delete it, unless a shallow clone needs it") for message in found]


def test_a_version_is_cloned_by_its_time_as_it_is_read_by_it(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    moment = datetime.fromtimestamp(table.snapshot(version=1).listing.commits[1].modified_ms / 1_000, UTC)

    plan = table.plan_clone(tmp_path / "clone", timestamp=moment)

    assert (1, 2) == (plan.version, plan.files.files)
    with pytest.raises(UsageError):
        table.clone(tmp_path / "clone", timestamp=moment, version=1)
    with pytest.raises(VersionAbsent):
        table.clone(tmp_path / "clone", timestamp=date(1971, 1, 1))
    assert not (tmp_path / "clone").exists()


def test_what_a_clone_needs_is_judged_where_it_is(tmp_path: Path) -> None:
    source(tmp_path / "table").clone(str(tmp_path / "clone"))
    unallowed, allowed = open_table(tmp_path / "clone"), opened(tmp_path / "clone")

    assert ([], (f"file:{tmp_path}/table/live.parquet",)) == (unallowed.reach().readable, unallowed.reach().outside)
    assert ([0], ()) == (allowed.reach().readable, allowed.reach().outside)
    assert "paths.absolute" in {one.trait for one in unallowed.explain().client("duckdb").access.blockers}
    assert unallowed.explain().client("spark").access.reads

    (tmp_path / "table" / "live.parquet").unlink()

    assert [] == allowed.reach().readable


def code_of(change: Callable[[], object]) -> str | None:
    try:
        change()
    except DeltacliError as fault:
        return fault.code
    return None


def emptied(
    place: Path, *more: Line, properties: dict[str, str] | None = None, writer: int = 2, features: tuple[str, ...] = ()
) -> Table:
    """Write a table whose rows were all deleted."""
    wanted = protocol(1, 7, writer_features=list(features)) if features else protocol(1, writer)
    described = metadata(id="kept", name="mine", configuration=properties or {})
    file = {"path": "old.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    builder = TableBuilder().commit(commit_info("CREATE TABLE"), wanted, described, *more, {"add": file})
    builder.commit(commit_info("DELETE"), remove("old.parquet", deletion_timestamp=0)).write(place)
    return opened(place)


def test_a_table_without_rows_takes_a_clone(tmp_path: Path) -> None:
    table = source(tmp_path / "source", features=("appendOnly", "domainMetadata"))
    emptied(tmp_path / "clone")

    table.clone(tmp_path / "clone")
    again = opened(tmp_path / "clone").snapshot()

    assert (2, "kept", "mine") == (again.version, again.metadata.id, again.metadata.name)
    assert {"appendOnly", "domainMetadata", "invariants"} <= again.protocol.supported_features
    assert {(1,): 1, (2,): 1} == rows_of(opened(tmp_path / "clone"))
    assert "clone.target-exists" == code_of(lambda: table.clone(tmp_path / "clone"))
    assert ["kept.json"] == [one.name for one in (tmp_path / "source" / NOTES_DIRECTORY).iterdir()]


def test_rows_get_the_next_ids_of_the_table_that_is_there(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    mark: Line = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":4}', "removed": False}
    emptied(tmp_path / "clone", {"domainMetadata": mark}, features=("domainMetadata", "rowTracking"))

    table.clone(tmp_path / "clone")

    newest = (tmp_path / "clone" / "_delta_log" / f"{2:020}.json").read_text()
    assert [5] == [line["add"]["baseRowId"] for line in map(json.loads, newest.splitlines()) if "add" in line]
    assert '{\\"rowIdHighWaterMark\\":6}' in newest


@pytest.mark.parametrize("name", ["id", "name"])
def test_a_table_that_maps_its_columns_in_another_way_takes_none(name: str, tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    emptied(tmp_path / "clone", properties={"delta.columnMapping.mode": name}, writer=5)

    assert "clone.target-exists" == code_of(lambda: table.clone(tmp_path / "clone"))


def test_rows_that_arrive_meanwhile_stop_a_clone(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    emptied(tmp_path / "clone")
    file = {"path": "new.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    plan = table.plan_clone(tmp_path / "clone")
    (tmp_path / "clone" / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"add": file}))

    assert "clone.target-exists" == code_of(lambda: table.execute_clone(plan))

    assert 2 == opened(tmp_path / "clone").snapshot().version
    assert not list((tmp_path / "source" / NOTES_DIRECTORY).iterdir())


def test_the_note_of_a_second_clone_counts_from_its_own_time(tmp_path: Path) -> None:
    table, target = source(tmp_path / "source"), emptied(tmp_path / "clone")
    for created_ms in (NOW_MS - HOUR_MS, NOW_MS, NOW_MS - 1):
        CloneNote("kept", resolve_note_uri(target.storage), 1, created_ms).write(LocalStorage(str(tmp_path / "source")))

    (refusal,) = table.plan_vacuum().refusals

    assert format_timestamp(NOW_MS + HOUR_MS) == refusal.facts["it may be in the making until"]


@pytest.mark.parametrize(
    ("is_cloned", "after_ms", "refused"), [(False, HOUR_MS - 1, True), (False, HOUR_MS, False), (True, 0, False)]
)
def test_a_table_without_rows_that_has_a_note_may_become_a_clone(
    is_cloned: bool, after_ms: int, refused: bool, tmp_path: Path
) -> None:
    table = source(tmp_path / "source")
    target = emptied(tmp_path / "clone")
    if is_cloned:
        emptied(tmp_path / "empty").clone(tmp_path / "clone")
        table = opened(tmp_path / "empty")
    else:
        note = CloneNote("kept", resolve_note_uri(target.storage), 1, NOW_MS)
        note.write(LocalStorage(str(tmp_path / "source")))

    plan = opened(Path(table.uri.removeprefix("file://")), at_ms=NOW_MS + after_ms).plan_vacuum()

    facts = {one.code: one.facts for one in plan.refusals}.get("vacuum.clone-unreachable", {})
    assert refused == (facts.get("it may be in the making until") == format_timestamp(NOW_MS + HOUR_MS)) == bool(facts)


def test_a_target_that_cannot_be_made_leaves_no_note(tmp_path: Path) -> None:
    table = source(tmp_path / "source")
    (tmp_path / "clone").symlink_to("nowhere")

    assert "storage.failed" == code_of(lambda: table.clone(tmp_path / "clone"))
    assert not list((tmp_path / "source" / NOTES_DIRECTORY).iterdir())
