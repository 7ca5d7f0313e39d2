"""What writes a log that names files of other tables notes itself there, so that their vacuum keeps the files."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.changing.clone_notes import NOTES_DIRECTORY, CloneNote, read_notes, resolve_note_uri
from deltacli.changing.file_owners import find_external_directories, find_file_owners
from deltacli.core.errors import PermissionRefused, Unreadable
from deltacli.core.machine import fixed_clock
from deltacli.storage import Creation, LocalStorage, Storage, open_storage
from tests.support.actions import commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.s3 import S3Server

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ROWS = 3


def opened(place: Path, *, at_ms: int = NOW_MS) -> Table:
    return open_table(place, allow_external=[place.parent.as_uri()], clock=fixed_clock(at_ms))


def write_source(place: Path, *, directory: str = "") -> Table:
    """Write a table whose one file has three rows, and remove the file in the second version."""
    (place / directory).mkdir(parents=True)
    path = f"{directory}/live.parquet".lstrip("/")
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), place / path)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    added = {
        "path": path,
        "size": (place / path).stat().st_size,
        "partitionValues": {},
        "dataChange": True,
        "modificationTime": 0,
        "stats": json.dumps({"numRecords": ROWS}),
    }
    builder = TableBuilder()
    builder.commit(commit_info("WRITE"), protocol(1, 2), metadata(schemaString=json.dumps(schema)), {"add": added})
    builder.commit(commit_info("DELETE"), remove(path, deletion_timestamp=0))
    builder.write(place)
    return opened(place)


def rows_of(place: Path) -> int:
    return sum(batch.num_rows for batch in opened(place).snapshot().scan())


def notes_in(place: Path) -> set[str]:
    """Return the names of the tables that a table has notes of."""
    return {Path(stored.note.uri).name for stored in read_notes(LocalStorage(str(place)))}


def make(how: str, home: Path) -> Path:
    """Make a table from the clone in `home`, in the way that a test names, and return its directory."""
    clone, made = home / "clone", home / "made"
    match how:
        case "copy":
            opened(clone).copy(str(made), keep_external=True)
        case "replica":
            opened(clone).copy(str(made), keep_external=True, replica=True)
        case "copy of a copy":
            opened(clone).copy(str(home / "between"), keep_external=True)
            opened(home / "between").copy(str(made), keep_external=True)
            shutil.rmtree(home / "between")
        case "clone of a copy":
            opened(clone).copy(str(home / "between"), keep_external=True)
            opened(home / "between").clone(made)
            shutil.rmtree(home / "between")
        case "clone of a clone that was moved":
            clone.rename(home / "moved")
            opened(home / "moved").clone(made)
            shutil.rmtree(home / "moved")
            clone.mkdir()
        case "undelete":
            opened(clone).backup_log(str(home / "backup"))
            opened(made).undelete(sources=[str(home / "backup")])
        case "log restore":
            opened(clone).backup_log(str(home / "backup"))
            made.mkdir()
            opened(made).restore_log(str(home / "backup"))
    return made


@pytest.mark.parametrize("directory", ["", "p=1"])
@pytest.mark.parametrize(
    "how",
    [
        "copy",
        "replica",
        "copy of a copy",
        "clone of a copy",
        "clone of a clone that was moved",
        "undelete",
        "log restore",
    ],
)
def test_the_vacuum_of_the_owner_keeps_the_files_of_every_table_that_names_them(
    how: str, directory: str, tmp_path: Path
) -> None:
    write_source(tmp_path / "source", directory=directory).clone(tmp_path / "clone", version=0)
    made = make(how, tmp_path)
    shutil.rmtree(tmp_path / "clone")

    opened(tmp_path / "source", at_ms=NOW_MS + 30 * DAY_MS).vacuum()

    assert "made" in notes_in(tmp_path / "source")
    assert ROWS == rows_of(made)


def test_a_replica_has_its_note_beside_that_of_its_source_which_has_the_same_id(tmp_path: Path) -> None:
    write_source(tmp_path / "source").clone(tmp_path / "clone", version=0)
    opened(tmp_path / "clone").copy(str(tmp_path / "replica"), keep_external=True, replica=True)
    opened(tmp_path / "clone").copy(str(tmp_path / "replica"), keep_external=True, replica=True)

    result = opened(tmp_path / "source", at_ms=NOW_MS + 30 * DAY_MS).vacuum()

    assert {"clone", "replica"} == notes_in(tmp_path / "source")
    assert 0 == result.plan.candidates.num_rows


def test_a_new_replica_ends_a_vacuum_that_was_planned_before(tmp_path: Path) -> None:
    table = write_source(tmp_path / "source")
    table.clone(tmp_path / "clone", version=0)
    plan = opened(tmp_path / "source", at_ms=NOW_MS + DAY_MS).plan_vacuum()
    opened(tmp_path / "clone").copy(str(tmp_path / "replica"), keep_external=True, replica=True)
    replanned = opened(tmp_path / "source", at_ms=NOW_MS + DAY_MS).plan_vacuum()

    assert ["clone"] == [Path(other.uri).name for other in plan.protected]
    assert {"clone", "replica"} == {Path(other.uri).name for other in replanned.protected}


def test_a_copy_that_was_interrupted_before_it_had_its_own_id_is_protected(tmp_path: Path) -> None:
    write_source(tmp_path / "source").clone(tmp_path / "clone", version=0)
    opened(tmp_path / "clone").copy(str(tmp_path / "copy"), keep_external=True)
    (tmp_path / "copy" / "_delta_log" / f"{1:020}.json").unlink()
    shutil.rmtree(tmp_path / "clone")

    opened(tmp_path / "source", at_ms=NOW_MS + 30 * DAY_MS).vacuum()

    assert ROWS == rows_of(tmp_path / "copy")


def test_a_nested_owner_gets_the_note_and_not_the_table_around_it(tmp_path: Path) -> None:
    write_source(tmp_path / "outer")
    write_source(tmp_path / "outer" / "inner").clone(tmp_path / "clone", version=0)

    opened(tmp_path / "clone").copy(str(tmp_path / "copy"), keep_external=True)

    assert {"clone", "copy"} == notes_in(tmp_path / "outer" / "inner")
    assert not (tmp_path / "outer" / NOTES_DIRECTORY).exists()


def test_the_owner_behind_a_link_gets_the_note_too(tmp_path: Path) -> None:
    write_source(tmp_path / "source", directory="p=1")
    shutil.copytree(tmp_path / "source", tmp_path / "linked")
    shutil.rmtree(tmp_path / "linked" / "p=1")
    (tmp_path / "linked" / "p=1").symlink_to(tmp_path / "source" / "p=1")
    table = open_table(tmp_path / "linked", allow_external=[tmp_path.as_uri()], clock=fixed_clock(NOW_MS))
    table.clone(tmp_path / "clone", version=0)

    opened(tmp_path / "clone").copy(str(tmp_path / "copy"), keep_external=True)

    assert "copy" in notes_in(tmp_path / "source")
    assert "copy" in notes_in(tmp_path / "linked")


class ReadOnly(LocalStorage):
    """A directory that may not be written."""

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:  # noqa: ARG002
        raise PermissionRefused(f"{path}: permission denied")


def open_with_read_only_source(home: Path, name: str) -> Table:
    source = str(home / "source")

    def open_other(uri: str) -> Storage:
        return ReadOnly(source) if uri.rstrip("/").removeprefix("file://") == source else open_storage(uri)

    return Table(open_storage(str(home / name)), clock=fixed_clock(NOW_MS), open_other=open_other)


@pytest.mark.parametrize("how", ["copy", "clone"])
def test_an_owner_that_does_not_take_the_note_is_named_with_what_its_vacuum_needs(how: str, tmp_path: Path) -> None:
    write_source(tmp_path / "source").clone(tmp_path / "clone", version=0)
    shutil.rmtree(tmp_path / "source" / NOTES_DIRECTORY)
    table = open_with_read_only_source(tmp_path, "clone")

    done = table.copy(str(tmp_path / "made"), keep_external=True) if how == "copy" else table.clone(tmp_path / "made")

    notes = " ".join(done.as_json()["notes"])
    assert f"file://{tmp_path}/source cannot be given a note" in notes
    assert "protect" in notes
    assert f"file://{tmp_path}/made" in notes


def test_an_unprotected_clone_of_a_clone_names_every_vacuum_that_needs_it(tmp_path: Path) -> None:
    write_source(tmp_path / "source").clone(tmp_path / "clone", version=0)

    plan = opened(tmp_path / "clone").plan_clone(tmp_path / "second", unprotected=True)

    assert any(f"a vacuum of file://{tmp_path}/source" in warning for warning in plan.warnings)
    opened(tmp_path / "clone").execute_clone(plan)
    assert {"clone"} == notes_in(tmp_path / "source")


def test_files_in_no_table_are_named(tmp_path: Path) -> None:
    write_source(tmp_path / "source").clone(tmp_path / "clone", version=0)
    shutil.rmtree(tmp_path / "source" / "_delta_log")

    plan = opened(tmp_path / "clone").plan_copy(str(tmp_path / "copy"), keep_external=True)

    assert any(f"no Delta table was found around {tmp_path}/source" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("path", "directory"),
    [
        ("file:/lake/a%20b/x.parquet", "/lake/a b"),
        ("file:///lake/a/x.parquet", "/lake/a"),
        ("/lake/a/x.parquet", "/lake/a"),
        ("file://localhost/lake/./a/x.parquet", "/lake/a"),
        ("s3a://bucket/lake/a/x.parquet", "s3://bucket/lake/a"),
        ("../other/x.parquet", "/lake/other"),
        ("%2E%2E/other/x.parquet", "/lake/other"),
        ("file:/lake/own/x.parquet", None),
        ("a/../x.parquet", None),
        ("a..b/x.parquet", None),
    ],
)
def test_directories_outside_of_the_table(path: str, directory: str | None) -> None:
    storage = LocalStorage("/lake/own")

    directories = find_external_directories(storage, pa.array([path], pa.string()))
    of_vectors = find_external_directories(storage, pa.array([], pa.string()), pa.array([f"p{path}@1", "", "uabc"]))

    assert ({directory} if directory else set()) == directories
    assert directories == of_vectors or not path.startswith(("file:/lake/a", "s3a"))


def test_an_owner_in_a_store_that_cannot_be_opened_is_a_warning(tmp_path: Path) -> None:
    table = write_source(tmp_path / "source")

    owners = find_file_owners(table, {"nosuchscheme://bucket/lake"}, table.uri)

    assert () == owners.stores
    assert "vacuum keeps these files only with" in owners.warnings[0]


@pytest.mark.parametrize("table_id", ["../../escaped", "", "a/b", "x" * 200, "ü"])
def test_an_id_of_a_hostile_log_stays_in_the_directory_of_notes(table_id: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    note = CloneNote(table_id, resolve_note_uri(storage), 0, NOW_MS)

    written = note.write(storage)

    assert written is not None
    assert [(written.path, note)] == [tuple(stored) for stored in read_notes(storage)]
    assert [written.path] == [f"{NOTES_DIRECTORY}/{name}" for name in os.listdir(tmp_path / NOTES_DIRECTORY)]


def test_a_note_under_another_name_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    CloneNote("id", resolve_note_uri(storage), 0, NOW_MS).write(storage)
    (tmp_path / NOTES_DIRECTORY / "id.json").rename(tmp_path / NOTES_DIRECTORY / "other.json")

    with pytest.raises(Unreadable):
        list(read_notes(storage))


def test_notes_of_two_addresses_with_one_id(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    notes: list[Any] = [CloneNote("id", f"file:///lake/{name}", 0, NOW_MS) for name in "abc"]

    for note in notes:
        note.write(storage)

    assert 3 == len(os.listdir(tmp_path / NOTES_DIRECTORY))
    assert {*notes} == {stored.note for stored in read_notes(storage)}
    assert [None, None, None] == [note.write(storage) for note in notes]


def test_a_note_that_was_taken_back_is_as_it_was_before(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    earlier, note = (CloneNote("id", resolve_note_uri(storage), 0, NOW_MS + minutes * 60_000) for minutes in (0, 5))
    earlier.write(storage)

    replaced = note.write(storage)
    assert replaced is not None
    replaced.undo()

    assert [earlier] == [stored.note for stored in read_notes(storage)]


def test_a_note_that_another_run_has_written_since_is_not_taken_back(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    notes = [CloneNote("id", resolve_note_uri(storage), 0, NOW_MS + minutes * 60_000) for minutes in (0, 5)]
    first = notes[0].write(storage)
    notes[1].write(storage)

    assert first is not None
    first.undo()

    assert [notes[1]] == [stored.note for stored in read_notes(storage)]


def test_a_younger_note_is_kept(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    younger, note = (CloneNote("id", resolve_note_uri(storage), 0, NOW_MS - minutes * 60_000) for minutes in (0, 5))
    younger.write(storage)

    assert note.write(storage) is None
    assert [younger] == [stored.note for stored in read_notes(storage)]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_on_s3_paths_have_the_scheme_of_the_source_and_owners_are_found_by_any(
    scheme: str, s3: S3Server, tmp_path: Path
) -> None:
    write_source(tmp_path / "source", directory="p=1")
    bucket = s3.make_bucket()
    for file in (tmp_path / "source").rglob("*"):
        if file.is_file():
            s3.put(bucket, f"lake/source/{file.relative_to(tmp_path / 'source')}", file.read_bytes())
    clock = fixed_clock(NOW_MS)
    source = open_table(f"{scheme}://{bucket}/lake/source", clock=clock)

    cloned = source.clone(f"{scheme}://{bucket}/clone", version=0)
    clone = open_table(f"s3://{bucket}/clone", clock=clock)
    clone.copy(f"s3://{bucket}/copy", keep_external=True)

    assert ("s3" == scheme) == any("fs.s3.impl" in warning for warning in cloned.warnings)
    log = clone.storage.read(f"_delta_log/{0:020}.json").decode()
    lines = log.splitlines()
    paths = [json.loads(line)["add"]["path"] for line in lines if line.startswith('{"add"')]
    assert [f"{scheme}://{bucket}/lake/source/p=1/live.parquet"] == paths
    notes = [key for key in s3.keys(bucket) if key.startswith(f"lake/source/{NOTES_DIRECTORY}/")]
    assert 2 == len(notes)
