"""What a copy has, when it is refused, and what of a source that changes is found."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.errors import ConflictLost, DeltacliError, PartlyDone, Refused, UsageError
from deltacli.operations.copy.note import NOTE_PATH, read_note
from deltacli.operations.copy.plan import plan_copy
from deltacli.operations.copy.request import CopyLevel, CopyRequest
from deltacli.operations.read.snapshot import digest_of_keys
from deltacli.storage import LocalStorage, Storage
from deltacli.storage.copy_process import CopyProcess
from deltacli.storage.outcomes import Creation
from deltacli.table.version import Snapshot
from tests.operations.copy.tables import (
    SHAPES,
    copy,
    files_of,
    require_readable,
    rows_of,
    versions_of,
    with_absolute_paths,
)
from tests.support.in_memory import MemoryStorage
from tests.support.storage import RecordingStorage


@pytest.fixture
def source(tmp_path: Path) -> Path:
    SHAPES["whole"](tmp_path / "source")
    return tmp_path / "source"


def refused(source: Path, target: Path, **options: Any) -> DeltacliError:  # Any: fields of the request
    with pytest.raises(DeltacliError) as caught:
        copy(source, target, **options)
    return caught.value


def rewrite(path: Path, data: bytes) -> None:
    """Replace a file by one with another time."""
    path.write_bytes(data)
    os.utime(path, ns=(10**18, 10**18))


def append(source: Path, rows: int = 2) -> None:
    version = open_table(source).snapshot().version + 1
    other = source.parent / f"more-{version}"
    SHAPES["whole"](other)
    add = next(
        line for line in (other / "_delta_log" / f"{1:020d}.json").read_text().splitlines() if line.startswith('{"add"')
    )
    action = json.loads(add)
    name = f"part-new-{version}.parquet"
    shutil.copy(other / action["add"]["path"], source / name)
    action["add"]["path"] = name
    info = {"commitInfo": {"operation": "WRITE", "rows": rows}}
    (source / "_delta_log" / f"{version:020d}.json").write_text(f"{json.dumps(info)}\n{json.dumps(action)}\n")


def remove(source: Path, path: str) -> None:
    version = open_table(source).snapshot().version + 1
    action = {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}
    (source / "_delta_log" / f"{version:020d}.json").write_text(json.dumps(action) + "\n")


def test_a_copy_has_every_version_and_an_id_of_its_own(source: Path, tmp_path: Path) -> None:
    expected = rows_of(open_table(source), versions_of(source))

    done = copy(source, tmp_path / "target", level="data")

    target = open_table(tmp_path / "target")
    assert require_readable(target, expected)
    assert ("data", 3) == (done.verified, done.committed_version)
    assert open_table(source).snapshot().metadata.id != target.snapshot().metadata.id
    assert files_of(source).items() <= files_of(tmp_path / "target").items()
    assert "copy.not-a-replica" == refused(source, tmp_path / "target").code
    assert "copy.not-a-replica" == refused(source, tmp_path / "target", replica=True).code


def test_a_plan_gives_up_its_files_before_the_state_of_the_copy_is_digested(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A million files take 100 MB in the plan, and as much as a state. Without them it is not executed again.
    """
    target, held = tmp_path / "target", list[bool]()
    plan = open_table(source).plan_copy(target=str(target), replica=True)

    def digest(state: Snapshot) -> str:
        held.append(plan.needed is not None)
        return digest_of_keys(state)

    monkeypatch.setattr("deltacli.operations.copy.plan.digest_of_keys", digest)
    amount = plan.to_copy

    done = open_table(source).execute_copy(plan)

    assert [False] == held
    assert (amount, None) == (plan.to_copy, plan.base_version.snapshot)
    assert "storage" == done.verified
    with pytest.raises(UsageError, match="executed before"):
        open_table(source).execute_copy(plan)
    assert files_of(source).items() <= files_of(target).items()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_check_reads_one_commit_for_the_id_of_the_copy(shape: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    SHAPES[shape](source)
    copy(source, target)
    store = RecordingStorage(LocalStorage(str(target)))

    plan = plan_copy(open_table(source), cast("Storage", store), CopyRequest(check=True))

    last = open_table(target).snapshot().version
    assert () == plan.extra
    assert [f"_delta_log/{last:020d}.json"] == [path for path in store.touched("read") if path != NOTE_PATH]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_replica_follows_its_source(shape: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    SHAPES[shape](source)
    copy(source, target, replica=True)
    append(source)
    append(source)
    behind = plan_copy(open_table(source), LocalStorage(str(target)), CopyRequest(replica=True))

    done = copy(source, target, replica=True)

    assert (2, True) == (behind.lag.versions, (behind.lag.seconds or 0) > 0)
    assert 4 == done.copied.files
    assert 0 == (done.lag or behind.lag).versions
    assert rows_of(open_table(source), versions_of(source)) == rows_of(open_table(target), versions_of(source))
    assert plan_copy(open_table(source), LocalStorage(str(target)), CopyRequest(replica=True)).is_noop
    assert () == open_table(source).copy(str(target), check=True, level=CopyLevel.DATA).differences


def test_what_is_current_costs_three_requests(source: Path, tmp_path: Path) -> None:
    from tests.support.faulty import FaultyStorage

    target = FaultyStorage(cast("Storage", MemoryStorage()))
    copy(source, target, replica=True)
    target.calls.clear()
    reading = FaultyStorage(LocalStorage(str(source)))

    plan = plan_copy(Table(cast("Storage", reading)), target, CopyRequest(replica=True))

    assert plan.is_noop
    assert ["list_from", "read", "list_from"] == [verb for verb, _ in [*reading.calls, *target.calls]]


def test_versions_are_copied_alone(source: Path, tmp_path: Path) -> None:
    expected = rows_of(open_table(source), versions_of(source))

    copy(source, tmp_path / "some", versions="1-2")
    copy(source, tmp_path / "newest", newest=True)

    assert require_readable(open_table(tmp_path / "some"), {version: expected[version] for version in (1, 2)})
    assert require_readable(open_table(tmp_path / "newest"), {2: expected[2]})
    assert not (tmp_path / "some" / "_delta_log" / f"{0:020d}.json").exists()


def test_a_place_that_cannot_hold_a_copy_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "file").touch()

    assert "copy.not-a-replica" == refused(source, tmp_path / "other").code
    for inside in (source / "below", source, tmp_path):
        assert "usage.copy" == refused(source, inside).code
    assert isinstance(refused(source, tmp_path / "file"), UsageError)
    assert "log.not-a-table" == refused(tmp_path / "other", tmp_path / "t").code
    assert not (tmp_path / "t").exists()


def test_an_incomplete_source_is_refused_and_vacuumed_versions_are_not(source: Path, tmp_path: Path) -> None:
    first = next((source / "p=2").glob("*.parquet"))
    lost = first.read_bytes()
    first.unlink()
    gone = refused(source, tmp_path / "target")
    first.write_bytes(lost[:-1])
    cut = refused(source, tmp_path / "target")
    first.unlink()
    remove(source, f"p=2/{first.name}")

    done = copy(source, tmp_path / "target")

    assert ("copy.source-incomplete",) * 2 == (gone.code, cut.code)
    assert first.name in str(gone)
    assert any("vacuum" in note for note in done.plan.notes)
    assert any(" is gone from the source" in note for note in done.plan.notes)
    older = refused(source, tmp_path / "other", versions="1-2")
    assert "copy.source-incomplete" == older.code
    assert "--version 2 --from COPY" in str(older.hint)


def test_a_source_whose_vectors_are_cut_is_refused(source: Path, tmp_path: Path) -> None:
    vectors = next(source.rglob("deletion_vector_*.bin"))
    vectors.write_bytes(vectors.read_bytes()[:-1])

    found = refused(source, tmp_path / "target")

    assert "copy.source-incomplete" == found.code
    assert vectors.name in str(found)


def test_a_source_with_another_past_is_found_by_digests(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "target", replica=True)
    commits = [source / "_delta_log" / f"{version:020d}.json" for version in range(3)]
    before = [path.read_bytes() for path in commits]

    rewrite(commits[1], before[1])
    assert copy(source, tmp_path / "target", replica=True).plan.is_noop
    rewrite(commits[1], before[1].replace(b"1", b"2", 1))
    changed = refused(source, tmp_path / "target", replica=True)
    rewrite(commits[1], before[1])
    commits[2].unlink()
    rolled_back = refused(source, tmp_path / "target", replica=True)
    rewrite(commits[2], before[2] + b"\n")
    rewritten = refused(source, tmp_path / "target", replica=True)

    assert ["copy.source-rewritten"] * 3 == [one.code for one in (changed, rolled_back, rewritten)]


def test_expiry_vacuum_and_restore_of_the_source_are_followed_and_a_gap_is_refused(
    source: Path, tmp_path: Path
) -> None:
    copy(source, tmp_path / "target", replica=True)
    open_table(source).restore(version=1)
    open_table(source).checkpoint()
    (source / "_delta_log" / f"{0:020d}.json").unlink()
    copy(source, tmp_path / "target", replica=True)
    assert rows_of(open_table(source), range(3, 4)) == rows_of(open_table(tmp_path / "target"), range(3, 4))
    assert rows_of(open_table(tmp_path / "target"), range(1))

    append(source)
    append(source)
    open_table(source).checkpoint()
    (source / "_delta_log" / f"{4:020d}.json").unlink()

    assert "copy.source-rewritten" == refused(source, tmp_path / "target", replica=True).code


def test_a_replica_that_another_writer_changed_is_refused(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "target", replica=True)
    append(tmp_path / "target")

    assert "copy.diverged" == refused(source, tmp_path / "target", replica=True).code


def test_a_source_that_loses_files_meanwhile_ends_the_copy(source: Path, tmp_path: Path) -> None:
    table, target = open_table(source), tmp_path / "target"
    plan = table.plan_copy(str(target))
    shutil.move(next(source.glob("*.parquet")), tmp_path / "moved")

    with pytest.raises(PartlyDone) as ended:
        table.execute_copy(plan)

    assert ("copy.source-changed", ConflictLost.exit_code) == (ended.value.code, ended.value.cause_exit_code)
    assert not list(target.rglob("*.json")) or read_note(LocalStorage(str(target)))


def test_commits_that_arrive_meanwhile_are_of_the_next_run(source: Path, tmp_path: Path) -> None:
    table, target = open_table(source), tmp_path / "target"
    plan = table.plan_copy(str(target), replica=True)
    append(source)

    table.execute_copy(plan)

    assert 2 == open_table(target).snapshot().version
    assert 2 == table.copy(str(target), replica=True).copied.files


def test_a_check_finds_a_flipped_bit_a_cut_file_and_a_missing_one(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    copy(source, target, replica=True)
    data = sorted(target.rglob("*.parquet"))
    content = data[0].read_bytes()

    data[0].write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    sizes = open_table(source).copy(str(target), check=True)
    flipped = open_table(source).copy(str(target), check=True, level=CopyLevel.DATA)
    data[0].write_bytes(content[:-1])
    data[1].unlink()
    cut = open_table(source).copy(str(target), check=True)
    data[0].write_bytes(content[:-4] + b"PARX")
    footer = open_table(source).copy(str(target), check=True, level=CopyLevel.FOOTERS)

    assert () == sizes.differences
    name = data[0].relative_to(target).as_posix()
    assert [(name, "content")] == [one[:2] for one in flipped.differences]
    assert {"size", "missing"} == {one.problem for one in cut.differences}
    assert (name, "footer") in [one[:2] for one in footer.differences]


def test_paths_out_of_the_source_are_refused_or_kept(source: Path, tmp_path: Path) -> None:
    outside, inside = tmp_path / "out.parquet", sorted(source.glob("*.parquet"))[0]
    shutil.copy(inside, outside)
    add = {"path": str(outside), "partitionValues": {}, "size": outside.stat().st_size, "modificationTime": 1}
    line = json.dumps({"add": {**add, "dataChange": True}})
    commit = source / "_delta_log" / f"{3:020d}.json"
    commit.write_text(line + "\n")

    assert "copy.external-files" == refused(source, tmp_path / "target").code
    copy(source, tmp_path / "kept", keep_external=True)
    assert line in (tmp_path / "kept" / "_delta_log" / commit.name).read_text()


def test_a_time_budget_ends_a_copy_that_the_next_run_continues(source: Path, tmp_path: Path) -> None:
    with pytest.raises(PartlyDone) as ended:
        copy(source, tmp_path / "target", time_budget_ms=0)

    assert "copy.time-budget" == ended.value.code
    assert 3 == copy(source, tmp_path / "target").committed_version


@pytest.mark.parametrize(("threads", "dies"), [(None, False), (None, True), (1, False)])
def test_many_files_of_a_disk_are_copied_by_two_processes(
    threads: int | None, dies: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, beside, real = tmp_path / "target", list[int](), CopyProcess.copy_group

    def copy_group(self: CopyProcess, paths: Sequence[str]) -> list[Creation] | None:
        made = real(self, paths)
        if made is not None and self._process is not None:
            beside.append(len(made))
            if dies:
                self._process.kill()
        return made

    monkeypatch.setattr(CopyProcess, "copy_group", copy_group)
    monkeypatch.setattr("deltacli.operations.copy.execute._GROUP_FILES", 1)
    monkeypatch.setattr("deltacli.operations.copy.execute._FILES_OF_A_PROCESS", 2)
    done = copy(source, target, replica=True, threads=threads)

    assert done.copied.files == len(files_of(target))
    assert files_of(source).items() <= files_of(target).items()
    assert sum(beside) == 0 if threads else sum(beside) == 1 if dies else sum(beside) > 0


def test_the_note_is_refused_where_it_is_damaged(source: Path, tmp_path: Path) -> None:
    copy(source, tmp_path / "target", replica=True)
    note = tmp_path / "target" / NOTE_PATH
    note.write_bytes(note.read_bytes().replace(b'"commits":[[0,', b'"commits":[[9,'))

    assert "copy.note-corrupt" == refused(source, tmp_path / "target", replica=True).code


@pytest.mark.parametrize(
    "options",
    [
        *({"versions": text} for text in ("3", "2-1", "x")),
        *({"rate": rate} for rate in ("0/s", "50", 1_023, 1.5e6, True, float("nan"))),
    ],
)
def test_requests_that_make_no_sense_are_refused(options: dict[str, Any], source: Path, tmp_path: Path) -> None:
    with pytest.raises((UsageError, DeltacliError)):
        copy(source, tmp_path / "target", **options)

    assert not (tmp_path / "target").exists()
    assert issubclass(Refused, DeltacliError)


def test_absolute_paths_into_the_source_are_relative_in_a_copy(source: Path, tmp_path: Path) -> None:
    with_absolute_paths(source)
    versions = versions_of(source)
    rows = rows_of(open_table(source), versions)
    target = tmp_path / "target"

    replica = refused(source, target, replica=True)
    with pytest.raises(PartlyDone):
        copy(source, target, time_budget_ms=0)
    done = copy(source, target)
    checked = open_table(source).copy(str(target), check=True, level=CopyLevel.DATA)
    shutil.move(source, tmp_path / "gone")

    assert ("copy.absolute-paths", 3) == (replica.code, done.committed_version)
    assert "byte for byte" in replica.message
    assert () == checked.differences
    assert rows == rows_of(open_table(target), versions)
    assert "error" not in {one.severity for one in open_table(target).validate(level="data").findings}
    log = b"".join(path.read_bytes() for path in (target / "_delta_log").glob("*.json") if path.stem.isdigit())
    assert b"/source/" not in log
    assert b'"storageType":"u"' in log


@pytest.mark.parametrize("how", ["expired", "twice", "other vector"])
def test_absolute_paths_that_cannot_be_made_relative_are_refused(how: str, source: Path, tmp_path: Path) -> None:
    if how == "expired":
        shutil.rmtree(source)
        SHAPES["checkpoint"](source)
    with_absolute_paths(source)
    commits = sorted((source / "_delta_log").glob("*.json"))
    text = commits[-1].read_text()
    if how == "twice":
        add = next(json.loads(line) for path in commits for line in path.read_text().splitlines() if '"add"' in line)
        add["add"]["path"] = Path(add["add"]["path"]).name
        add["add"].pop("deletionVector", None)
        rewrite(commits[-1], (text + json.dumps(add) + "\n").encode())
    if how == "other vector":
        vector = next(source.rglob("deletion_vector_*.bin"))
        vector.rename(vector.with_name("own.bin"))
        for commit in commits:
            rewrite(commit, commit.read_bytes().replace(vector.name.encode(), b"own.bin"))

    assert "copy.absolute-paths" == refused(source, tmp_path / "target").code
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("offset", [None, 1])
def test_the_file_of_a_vector_out_of_the_source_is_named_by_its_path(
    offset: int | None, source: Path, tmp_path: Path
) -> None:
    vector = (tmp_path / "elsewhere" / "deletion_vector_x.bin").as_uri()
    descriptor = {"storageType": "p", "pathOrInlineDv": vector, "sizeInBytes": 34, "cardinality": 1}
    descriptor |= {} if offset is None else {"offset": offset}
    name = sorted(source.glob("*.parquet"))[0].name
    add = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    line = json.dumps({"add": {**add, "deletionVector": descriptor}})
    (source / "_delta_log" / f"{3:020d}.json").write_text(line + "\n")

    fault = refused(source, tmp_path / "target")

    assert "copy.external-files" == fault.code
    assert fault.message.endswith(vector)
    assert f": {vector}" in fault.message
