"""The checksums of a quarantine: a copy that has changed in any byte does not come back, and the others do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone, Refused, StorageFailed
from deltacli.operations.recover.copies import CHECKSUMS
from deltacli.storage import Created, Creation, LocalStorage, Storage, open_storage
from tests.support.faulty import Fault, FaultyStorage
from tests.support.gcs import GcsServer
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.small_types import Column
from tests.support.small_writer import SmallTable

AT_ONCE = {"retention_ms": 0, "allow_retention_below_ms": 7 * 86_400_000, "max_delete": "100%"}
WANTED = 1
"""The version whose files the vacuum deletes."""
LATE_MS = 4_102_444_800_000
"""After everything that the tests write."""


def table_at(root: Path) -> list[str]:
    """A table of three files that a later version replaced; returns their paths."""
    table = SmallTable(root, (Column("n", "long", 1, "n"),)).create()
    files = [table.new_file([{1: start + row} for row in range(5)]) for start in (0, 10, 20)]
    table.append(files)
    table.replace_files(sorted(table.live), [table.new_file([{1: 99}])], data_change=True)
    return sorted(file.path for file in files)


def open_late(storage: Storage) -> Table:
    table = open_at(storage)
    table.clock = lambda: LATE_MS
    return table


def vacuumed(storage: Storage, quarantine: str) -> Table:
    table = open_late(storage)
    done = table.vacuum(**AT_ONCE, quarantine=quarantine)  # type: ignore[arg-type]
    assert 3 == done.outcome.deleted.files  # type: ignore[union-attr]
    return table


def changed_within(data: bytes) -> bytes:
    """The same size, magic and footer, with one byte of the rows changed."""
    return data[:6] + bytes([data[6] ^ 1]) + data[7:]


def left_of(root: Path, paths: list[str]) -> list[str]:
    return [path for path in paths if (root / path).exists()]


def test_a_copy_that_changed_within_its_rows_does_not_come_back(tmp_path: Path) -> None:
    root, quarantine = tmp_path / "t", tmp_path / "q"
    paths = table_at(root)
    before = {path: (root / path).read_bytes() for path in paths}
    table = vacuumed(LocalStorage(str(root)), str(quarantine))
    (directory,) = quarantine.glob("*/*")
    noted = {row["path"].decode(): row["sha256"] for row in pq.read_table(directory / CHECKSUMS).to_pylist()}
    assert {path: hashlib.sha256(data).digest() for path, data in before.items()} == noted
    (directory / paths[1]).write_bytes(changed_within(before[paths[1]]))

    plan = table.undelete(version=WANTED, sources=[str(quarantine)], dry_run=True).plan
    with pytest.raises(Refused) as refused:
        table.restore(version=WANTED, sources=[str(quarantine)])
    with pytest.raises(PartlyDone):
        table.undelete(version=WANTED, sources=[str(quarantine)])

    assert refused.value.facts["file 1"].endswith("its copy: other bytes than when it was copied)")
    why = {"problem": "checksum", "reason": "other bytes than when it was copied"}
    (missing,) = plan.still_missing()
    assert {"path": paths[1], **why}.items() <= missing.items()
    assert ("restore.file-missing", [paths[0], paths[2]]) == (refused.value.code, left_of(root, paths))
    assert not any("checksum" in note for note in plan.notes)


def test_another_plan_of_the_quarantine_with_the_noted_bytes_is_the_source(tmp_path: Path) -> None:
    root, quarantine = tmp_path / "t", tmp_path / "q"
    paths = table_at(root)
    before = {path: (root / path).read_bytes() for path in paths}
    table = vacuumed(LocalStorage(str(root)), str(quarantine))
    (first,) = quarantine.glob("*/*")
    for path, data in before.items():
        (root / path).write_bytes(data)
    table = vacuumed(LocalStorage(str(root)), str(quarantine))
    for number, directory in enumerate((first, *(one for one in quarantine.glob("*/*") if one != first))):
        (directory / paths[number]).write_bytes(changed_within(before[paths[number]]))

    done = table.undelete(version=WANTED, sources=[str(quarantine)])

    assert 3 == done.restored.files  # type: ignore[union-attr]
    assert before == {path: (root / path).read_bytes() for path in paths}


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, lambda file: file.write_bytes(b"PAR1"), lambda file: file.write_bytes(file.read_bytes()[:-9])],
    ids=["none", "no footer", "cut off"],
)
def test_without_checksums_the_plan_says_what_was_compared(damage: Callable[[Path], object], tmp_path: Path) -> None:
    root, quarantine = tmp_path / "t", tmp_path / "q"
    paths = table_at(root)
    table = vacuumed(LocalStorage(str(root)), str(quarantine))
    (file,) = quarantine.glob(f"*/*/{CHECKSUMS}")
    damage(file)

    done = table.undelete(version=WANTED, sources=[str(quarantine)])

    assert paths == left_of(root, paths)
    told = "3 files have no checksum in the quarantine, or were written there again since: compared by size, footer and"
    assert [note for note in done.plan.notes if note.startswith(told)]


@pytest.mark.long
def test_a_store_notes_the_tags_of_its_own_copies(tmp_path: Path, s3: S3Server) -> None:
    paths = table_at(tmp_path / "t")
    bucket = s3.make_bucket()
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            s3.put(bucket, f"t/{path.relative_to(tmp_path / 't').as_posix()}", path.read_bytes())
    table = vacuumed(open_storage(f"s3://{bucket}/t"), f"s3://{bucket}/q")
    (copy,) = (key for key in s3.objects(bucket) if key.startswith("q/") and key.endswith(paths[0]))
    s3.put(bucket, copy, changed_within(s3.objects(bucket)[copy]))

    plan = table.undelete(version=WANTED, sources=[f"s3://{bucket}/q"], dry_run=True).plan

    assert (3, 0) == (plan.found.files, plan.missing.files)
    assert ["1 file has no checksum in the quarantine, or was written"] == [note[:56] for note in plan.notes[:1]]


@pytest.mark.halved
def test_what_passes_through_this_process_is_noted_by_its_bytes(tmp_path: Path, s3: S3Server) -> None:
    root, bucket = tmp_path / "t", s3.make_bucket()
    paths = table_at(root)
    table = vacuumed(LocalStorage(str(root)), f"s3://{bucket}/q")
    (copy,) = (key for key in s3.objects(bucket) if key.endswith(paths[0]))
    s3.put(bucket, copy, changed_within(s3.objects(bucket)[copy]))

    with pytest.raises(PartlyDone):
        table.undelete(version=WANTED, sources=[f"s3://{bucket}/q"])

    assert paths[1:] == left_of(root, paths)


def test_a_soft_deleted_file_that_is_not_what_the_log_says_is_named(tmp_path: Path, gcs: GcsServer) -> None:
    """
    It can be read only once it is back: the error is all that can be done for it.
    """
    table_at(tmp_path / "t")
    storage = open_storage(f"gs://{gcs.make_bucket(deletes_softly=True)}/t")
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            storage.put(path.relative_to(tmp_path / "t").as_posix(), path.read_bytes())
    (lost,) = open_at(storage).snapshot().files().__next__().column("path").to_pylist()
    storage.put(lost, b"PAR1" + b"?" * (storage.stat(lost).size_bytes - 4))
    list(storage.delete_many([lost]))

    with pytest.raises(PartlyDone) as failed:
        open_at(storage).undelete()

    assert ("undelete.not-there", True) == (
        failed.value.code,
        failed.value.facts["files"].startswith(f"{lost}: footer"),
    )


class _WritesOtherBytes(FaultyStorage):
    """A disk that loses a bit of what it copies."""

    def copy_within(self, source: str, target: str) -> Creation:
        self.put_if_absent(target, changed_within(self.read(source)))
        return Created()


def test_nothing_is_deleted_where_a_copy_has_other_bytes(tmp_path: Path) -> None:
    root = tmp_path / "t"
    paths = table_at(root)
    table = open_late(LocalStorage(str(root)))
    table.open_other = lambda uri: _WritesOtherBytes(open_storage(uri), 0, Fault.BEFORE)

    with pytest.raises(StorageFailed, match="other bytes than the file; nothing was deleted"):
        table.vacuum(**AT_ONCE, quarantine=str(tmp_path / "q"))  # type: ignore[arg-type]

    assert paths == left_of(root, paths)


def test_a_table_that_was_moved_names_the_directory_of_its_id(tmp_path: Path) -> None:
    """A copy has the id of its table, so a quarantine alone may have the files of the other one."""
    root, quarantine, moved = tmp_path / "t", tmp_path / "q", tmp_path / "moved"
    paths = table_at(root)
    vacuumed(LocalStorage(str(root)), str(quarantine))
    root.rename(moved)
    (directory,) = quarantine.iterdir()
    table = open_late(LocalStorage(str(moved)))

    with pytest.raises(Refused, match="another table with the same id") as refused:
        table.undelete(version=WANTED, sources=[str(quarantine)])
    done = table.undelete(version=WANTED, sources=[str(directory)])

    assert str(refused.value.hint).endswith(f"--from {directory}")
    assert (3, 0) == (done.restored.files, done.plan.data.found.unproven)  # type: ignore[union-attr]
    assert paths == left_of(moved, paths)
