"""Files found in a copy of a table: verified where they are, and put in place as they were."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltacli import open_table
from deltacli.core.errors import StorageFailed
from deltacli.core.progress import SILENT
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.recover.copies import Manifest, newest_first
from deltacli.operations.recover.sources import CopySource, FoundFiles, Journal, find_in, put_found
from deltacli.storage import Capabilities, LocalStorage, open_storage
from deltacli.table.needed_files import NeededFiles, locate_files, read_live_files
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.small_types import Column
from tests.support.small_writer import SmallTable

ENGINE = EmbeddedEngine(2)
OLD_NS = 1_600_000_000_123_000_000


def table_at(root: Path, *features: str) -> SmallTable:
    """Three files, one below an odd directory, and vectors in a file for two of them."""
    table = SmallTable(root, (Column("n", "long", 1, "n"),), features=("deletionVectors", *features)).create()
    files = [
        table.new_file([{1: row} for row in range(start, start + 5)], directory=directory)
        for start, directory in ((0, ""), (10, "p=a b%20c"), (20, "p=2"))
    ]
    table.append(files)
    deleted = {files[0].path: frozenset({1, 3}), files[1].path: frozenset({0})}
    table.mark(deleted, table.vectors(deleted, how="u", uuid=UUID(int=7), prefix="ab"))
    for path in root.rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            os.utime(path, ns=(OLD_NS, OLD_NS))
    return table


def content_of(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its time."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def missing_from(root: Path) -> NeededFiles:
    needed = read_live_files(open_table(root).snapshot())
    needed, sizes = locate_files(LocalStorage(str(root)), needed, ENGINE, SILENT)
    return needed.where(pc.is_null(sizes))


def problems_of(found: FoundFiles) -> dict[str, str]:
    """The problem of each file that no source has."""
    paths = (path.decode() for path in found.needed.files["path"].to_pylist())
    return {
        path: problem
        for path, problem, is_found in zip(paths, found.problems.to_pylist(), found.is_found.to_pylist(), strict=True)
        if not is_found
    }


def test_lost_files_come_back_from_a_copy_with_their_bytes_and_times(tmp_path: Path) -> None:
    table_at(tmp_path / "t")
    before = content_of(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    for path in (tmp_path / "t").iterdir():
        if path.name != "_delta_log":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    sources = [CopySource("copy", LocalStorage(str(tmp_path / "copy")))]
    found = find_in(sources, missing_from(tmp_path / "t"), ENGINE)
    assert found.needed.files["kind"].to_pylist() == ["data"] * 3 + ["deletion-vector"]
    journal = Journal()
    put_found(found, sources, LocalStorage(str(tmp_path / "t")), ENGINE, journal=journal)
    assert content_of(tmp_path / "t") == before
    assert journal.files == 4
    assert missing_from(tmp_path / "t").files.num_rows == 0


def test_an_object_store_copies_within_itself_and_the_newest_plan_of_a_quarantine_comes_first(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The ids of plans are digests: only their manifests tell which one is the newest.
    """
    table_at(tmp_path / "t")
    bucket, table_id = s3.make_bucket(), open_table(tmp_path / "t").snapshot().metadata.id
    before = {}
    for path in content_of(tmp_path / "t"):
        before[f"t/{path}"] = data = (tmp_path / "t" / path).read_bytes()
        s3.put(bucket, f"t/{path}", data)
        if path.endswith(".parquet"):
            for plan, content in (("older", data[:-1] + b"X"), ("newer", data), ("z-older", data[:-1] + b"X")):
                s3.put(bucket, f"q/{table_id}/{plan}/{path}", content)
    lost = [path for path in before if path.endswith(".parquet")]
    for number, plan in enumerate(("z-older", "older", "newer")):
        paths = tuple(path.removeprefix("t/") for path in lost)
        manifest = Manifest("t", table_id, plan, 1, 1_000 + number, True, paths)
        s3.put(bucket, f"q/{manifest.directory}/manifest.json", manifest.encode())
    assert ["newer", "older", "z-older"] == [
        directory.rpartition("/")[2] for directory in newest_first(open_storage(f"s3://{bucket}/q"), table_id)
    ]
    storage = open_storage(f"s3://{bucket}/t")
    list(storage.delete_many([path.removeprefix("t/") for path in lost]))
    monkeypatch.setattr("deltacli.operations.recover.sources.copy_file", None)

    open_at(storage).undelete(sources=[f"s3://{bucket}/q"])

    assert before == {path: data for path, data in s3.objects(bucket).items() if path.startswith("t/")}


DAMAGES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a file one byte short": ("part-00000.parquet", lambda data: data[:-1], "size"),
    "a file without its end": ("part-00000.parquet", lambda data: b"\0" * len(data), "footer"),
    "a vector with a wrong bit": (
        "ab/deletion_vector_*.bin",
        lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
        "vector",
    ),
    "a vector cut short": ("ab/deletion_vector_*.bin", lambda data: data[:-1], "vector"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_no_copy_and_the_next_source_is_asked(tmp_path: Path, damage: str) -> None:
    pattern, change, problem = DAMAGES[damage]
    table_at(tmp_path / "t")
    for name in ("bad", "good"):
        shutil.copytree(tmp_path / "t", tmp_path / name)
    [lost] = (tmp_path / "t").glob(pattern)
    path = str(lost.relative_to(tmp_path / "t"))
    lost.unlink()
    damaged = tmp_path / "bad" / path
    damaged.write_bytes(change(damaged.read_bytes()))
    bad, good = (CopySource(name, LocalStorage(str(tmp_path / name))) for name in ("bad", "good"))
    assert problems_of(find_in([bad], missing_from(tmp_path / "t"), ENGINE)) == {path: problem}
    found = find_in([bad, good], missing_from(tmp_path / "t"), ENGINE)
    assert found.sources.to_pylist() == [1]
    put_found(found, [bad, good], LocalStorage(str(tmp_path / "t")), ENGINE)
    assert lost.read_bytes() == (tmp_path / "good" / path).read_bytes()


def test_a_copy_with_another_number_of_rows_is_no_copy(tmp_path: Path) -> None:
    table = table_at(tmp_path / "t")
    other = table.new_file([{1: row} for row in range(20, 24)], name="other.parquet")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    lost = tmp_path / "copy" / "p=2" / "part-00002.parquet"
    shorter = (tmp_path / "t" / other.path).read_bytes()
    lost.write_bytes(shorter)
    needed = read_live_files(open_table(tmp_path / "t").snapshot())
    column = needed.files.schema.get_field_index("sizeBytes")
    unknown = pa.nulls(needed.files.num_rows, pa.int64())
    needed = needed._replace(files=needed.files.set_column(column, "sizeBytes", unknown))
    found = find_in([CopySource("copy", LocalStorage(str(tmp_path / "copy")))], needed, ENGINE)
    assert problems_of(found) == {"p=2/part-00002.parquet": "footer"}


def test_nothing_that_exists_is_replaced(tmp_path: Path) -> None:
    table_at(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    lost = tmp_path / "t" / "part-00000.parquet"
    lost.unlink()
    sources = [CopySource("copy", LocalStorage(str(tmp_path / "copy")))]
    found = find_in(sources, missing_from(tmp_path / "t"), ENGINE)
    lost.write_bytes(b"of somebody else")
    with pytest.raises(StorageFailed, match=r"part-00000\.parquet could not be put in its place"):
        put_found(found, sources, LocalStorage(str(tmp_path / "t")), ENGINE)
    assert lost.read_bytes() == b"of somebody else"


@pytest.mark.parametrize("asked", [0, 500])
def test_a_listing_finds_the_files_that_asking_for_each_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    """A path that its writer did not encode is found under its own name."""

    class FarStorage(LocalStorage):
        @property
        def capabilities(self) -> Capabilities:
            return super().capabilities._replace(has_cheap_requests=False)

    monkeypatch.setattr("deltacli.table.needed_files._MAX_SINGLE_REQUESTS", asked)
    table_at(tmp_path / "t")
    os.rename(tmp_path / "t" / "p=a b%20c", tmp_path / "t" / "p=a%20b%2520c")
    (tmp_path / "t" / "part-00000.parquet").unlink()
    needed, sizes = locate_files(
        FarStorage(str(tmp_path / "t")), read_live_files(open_table(tmp_path / "t").snapshot()), ENGINE, SILENT
    )
    found = dict(zip((path.decode() for path in needed.files["path"].to_pylist()), sizes.to_pylist(), strict=True))
    assert found.pop("part-00000.parquet") is None
    assert len(found) == 3
    for path, size in found.items():
        assert size == (tmp_path / "t" / path).stat().st_size
