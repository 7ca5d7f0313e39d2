"""Files that are not what their names say: pipes, devices, directories, links in circles, files that change."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltacli.core.errors import CommitCorrupt, DeltacliError, FileMissing, PathExternal, Refused, StorageFailed
from deltacli.storage import FileStat
from deltacli.storage.local import LocalStorage
from tests.support.actions import protocol, remove
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind
from tests.support.reading import large_commits, open_at, open_built
from tests.support.storage import RecordingStorage

HINT = f"{LOG}/_last_checkpoint"


def outcome(place: Path) -> object:
    """The newest version and its files, or the rule that is broken."""
    try:
        snapshot = open_at(LocalStorage(str(place))).snapshot()
        return snapshot.version, snapshot.counts()[0].count
    except DeltacliError as error:
        return error.code


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "circle", "dangling"])
def test_a_newest_commit_that_is_not_a_regular_file_is_an_error_without_waiting(kind: str, tmp_path: Path) -> None:
    place = TableBuilder().commits(3).write(tmp_path)
    put(kind, place / commit_path(3))

    assert "log.gap" == outcome(place)
    assert 2 == open_at(LocalStorage(str(place))).snapshot(version=2).counts()[0].count
    assert [2, 1, 0] == [item.version for item in open_at(LocalStorage(str(place))).history().items]


@pytest.mark.parametrize("is_large", [False, True])
def test_a_version_is_not_read_from_two_pasts(is_large: bool, tmp_path: Path) -> None:
    """
    The newest commit is replaced by one that removes a file of the checkpoint, after the log was read.
    """
    place = TableBuilder().commits(3).checkpoint().commits(1).write(tmp_path)
    with large_commits(block_bytes=64, from_bytes=1 if is_large else 1 << 30):
        snapshot = open_at(LocalStorage(str(place))).snapshot()
        newest = place / commit_path(snapshot.version)
        files = [path for batch in snapshot.files() for path in batch.column("path").to_pylist()]
        text = newest.read_text("utf-8") + json.dumps({"remove": remove(files[-1])["remove"]}) + "\n"
        newest.write_text(text, "utf-8")

        with pytest.raises(Refused) as refused:
            list(snapshot.files())

    assert "plan.other-past" == refused.value.code


@pytest.mark.parametrize("kind", ["pipe", "directory", "device", "circle"])
def test_a_hint_that_is_not_a_file_requires_a_full_listing(kind: str, tmp_path: Path) -> None:
    place = TableBuilder().commits(3).write(tmp_path)
    put(kind, place / HINT)

    snapshot = open_at(LocalStorage(str(place))).snapshot()

    assert (2, ("hint.bad-json",)) == (snapshot.version, snapshot.problems)


@pytest.mark.parametrize("verb", ["read", "read_range", "open"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_reading_anything_but_a_regular_file_is_refused_at_once(verb: str, kind: str, tmp_path: Path) -> None:
    put(kind, tmp_path / "x")
    storage = LocalStorage(str(tmp_path))
    read = {"read": storage.read, "read_range": lambda path: storage.read_range(path, 0, 9), "open": storage.open}[verb]

    with pytest.raises((StorageFailed, PathExternal), match=r"not a regular file|leads outside"):
        read("x")


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300])
def test_a_name_that_no_file_can_have_is_a_missing_file_or_refused(name: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))

    for read in (storage.read, storage.open, lambda path: storage.read_range(path, 0, 1), storage.list_directories):
        with pytest.raises(StorageFailed):
            read(name)
    with pytest.raises(StorageFailed):
        list(storage.list_from(name))


def test_a_log_that_links_to_itself_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / LOG).symlink_to(tmp_path / LOG)

    assert "storage.failed" == outcome(tmp_path)


def test_a_table_below_itself_is_read_once(tmp_path: Path) -> None:
    place = TableBuilder().commits(3).write(tmp_path)
    (place / "again").symlink_to(place)
    (place / LOG / "again").symlink_to(place / LOG)

    assert (2, 2) == outcome(place)


@pytest.mark.parametrize(
    "path", ["..", ".", "", "a%00b", "a\0b", "%ff", "x" * 300, "../../../etc/passwd", "https://example.org/x"]
)
def test_a_sidecar_path_cannot_leave_its_directory(path: str, tmp_path: Path) -> None:
    """
    Only its last segment counts, below `_sidecars`; what is not there makes the checkpoint unusable, no more.
    """
    builder = TableBuilder().commits(3)
    lines = [*builder.states[2].actions(), {"checkpointMetadata": {"version": 2}}, {"sidecar": {"path": path}}]
    builder.checkpoint(2, CheckpointKind.V2_JSON_INLINE, actions=lines)
    place = builder.write(tmp_path)

    snapshot = open_at(LocalStorage(str(place))).snapshot()

    assert (2, 2) == (snapshot.version, snapshot.counts()[0].count)
    assert {"checkpoint.unreadable", "sidecar.missing"} & set(snapshot.problems)


class ChangingStorage(RecordingStorage):
    """A store in which a commit is listed with all its bytes, and read with fewer."""

    keep = 0

    def read(self, path: str) -> bytes:
        data = super().read(path)
        return data[: self.keep] if path == commit_path(2) else data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        data = super().read_range(path, offset, length)
        return data[: max(self.keep - offset, 0)] if path == commit_path(2) else data


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("keep", ["nothing", "a line"])
def test_a_commit_that_shrinks_after_the_listing_is_refused(keep: str, is_large: bool) -> None:
    builder = TableBuilder().commits(3)
    storage = ChangingStorage(builder.in_memory())
    storage.keep = builder.files[commit_path(2)].data.index(b"\n") + 1 if keep == "a line" else 0
    table = open_at(storage)

    with large_commits(block_bytes=50 if is_large else 1 << 30):
        if is_large:
            with pytest.raises(CommitCorrupt, match="was truncated"):
                table.snapshot()
    with pytest.raises(CommitCorrupt, match="was truncated"):
        table.snapshot()
    assert [None if keep == "a line" else "commit.empty", None, None] == [
        item.problem for item in table.history().items
    ]


class ForgetfulStorage(RecordingStorage):
    """A store that lists a commit which is gone when it is read."""

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        yield from super().list_from(directory, start)
        yield FileStat(f"{3:020d}.json", 100, 0)


def test_a_commit_that_vanishes_after_the_listing_is_a_problem_of_one_item() -> None:
    table = open_at(ForgetfulStorage(TableBuilder().commits(3).in_memory()))

    items = table.history(counts=True).items

    assert [(3, "storage.file-missing"), (2, None)] == [(item.version, item.problem) for item in items[:2]]
    with pytest.raises(FileMissing):
        table.snapshot()


@pytest.mark.parametrize("reader", [0, -1, 4, 2**40])
def test_a_protocol_of_another_world_is_refused(reader: int) -> None:
    builder = TableBuilder().commits(1).commit(protocol(reader=reader))

    with pytest.raises(DeltacliError, match="reader version"):
        open_built(builder).snapshot()


def put(kind: str, place: Path) -> None:
    """Something that is not a regular file."""
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "directory":
            place.mkdir()
        case "device":
            place.symlink_to("/dev/zero")
        case "circle":
            place.symlink_to(place)
        case "dangling":
            place.symlink_to("nowhere")
