"""Checkpoint directories that change while they are read, what reading one costs, and what a pattern finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, Refused, Unreadable
from deltacli.delta.streams import Position
from deltacli.engine.base import EmbeddedEngine
from deltacli.operations.streams.checkpoints import (
    StreamCheckpoint,
    Verdict,
    find_checkpoints,
    read_checkpoint,
)
from deltacli.storage import LocalStorage
from tests.support.in_memory import MemoryStorage
from tests.support.storage import RecordingStorage
from tests.support.stream_checkpoints import QUERY_ID, checkpoint_files, entry, offset, write_checkpoint

OFFSETS = [offset("T", version) for version in (12, 15, 19)]


class Busy(MemoryStorage):
    """A directory in which something happens before each read."""

    def __init__(self, happens: Callable[[Busy, str], None]) -> None:
        super().__init__("chk")
        self.happens = happens
        for path, data in checkpoint_files(OFFSETS).items():
            self.write(path, data)

    def read(self, path: str) -> bytes:
        self.happens(self, path)
        return super().read(path)

    def batch(self, number: int) -> None:
        """Finish one more batch, and purge the oldest."""
        self.write(f"offsets/{number}", entry(offset("T", 10 + number)))
        self.write(f"commits/{number}", b"v1\n{}")
        list(self.delete_many([f"{directory}/{number - 3}" for directory in ("offsets", "commits")]))


def _read(storage: MemoryStorage | RecordingStorage) -> StreamCheckpoint:
    found = read_checkpoint("chk", storage)
    assert found is not None
    return found


def _storage(files: dict[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage("chk")
    for path, data in files.items():
        storage.write(path, data)
    return storage


def test_a_directory_costs_two_listings_and_three_reads() -> None:
    storage = RecordingStorage(_storage({**checkpoint_files(OFFSETS), "state/0/0/1.delta": b"", "sources/0/0": b""}))

    found = _read(storage)

    assert {"list_from": 2, "read": 3} == dict(storage.calls)
    assert ["commits/", "offsets/"] == storage.touched("list_from")
    assert (QUERY_ID, 8, 7, 8, True) == (found.query_id, found.newest, found.before, found.batch, found.is_committed)


def test_a_purge_while_it_is_read_leads_to_the_later_batch() -> None:
    def purge(storage: Busy, path: str) -> None:
        if path == "offsets/8" and storage.happens is purge:
            storage.happens = lambda *_: None
            for number in (9, 10, 11):
                storage.batch(number)

    found = _read(Busy(purge))

    assert (11, Verdict.OK) == (found.newest, found.finding.verdict)
    (source,) = found.sources
    assert isinstance(source.start, Position)
    assert isinstance(source.end, Position)
    assert (20, 21) == (source.start.version, source.end.version)


def test_a_directory_that_never_rests_is_unknown() -> None:
    def vanish(_: Busy, path: str) -> None:
        if path.startswith("offsets/"):
            raise FileMissing(path)

    assert Verdict.UNKNOWN == _read(Busy(vanish)).finding.verdict


def test_a_batch_that_ends_between_the_listings_counts_as_unfinished() -> None:
    class Ending(MemoryStorage):
        def list_from(self, directory: str, start: str = "") -> object:  # type: ignore[override]
            if directory == "offsets":
                self.write("offsets/9", entry(offset("T", 20)))
                self.write("commits/9", b"v1\n{}")
            return super().list_from(directory, start)

    storage = Ending("chk")
    for path, data in checkpoint_files(OFFSETS).items():
        storage.write(path, data)

    found = _read(storage)

    assert (9, False, 8) == (found.newest, found.is_committed, found.batch)


def test_a_directory_that_may_not_be_read_is_unknown_and_still_named() -> None:
    def refuse(_: Busy, path: str) -> None:
        raise PermissionRefused(f"{path}: access denied")

    found = _read(Busy(refuse))

    assert (Verdict.UNKNOWN, "chk", ()) == (found.finding.verdict, found.name, found.sources)
    assert found.is_named("memory://chk")


@pytest.mark.parametrize(
    ("change", "verdict", "because"),
    [
        ({"metadata": None}, Verdict.UNKNOWN, "metadata"),
        ({"metadata": b"{"}, Verdict.UNKNOWN, "metadata"),
        ({"offsets/8": b""}, Verdict.DEAD, "offsets/8 cannot be read: it is empty"),
        ({"offsets/7": b"v1\n{}"}, Verdict.DEAD, "offsets/7"),
        ({"offsets/6": b"?"}, Verdict.OK, ""),
        ({"offsets/7": None}, Verdict.AT_RISK, "async progress"),
        ({"offsets/7": None, "offsets/6": None}, Verdict.DEAD, "offsets/7 is missing"),
        ({"commits/9": b""}, Verdict.DEAD, "commits/9"),
        ({"offsets/8": entry(OFFSETS[2], OFFSETS[2])}, Verdict.DEAD, "2"),
        ({"offsets/8": b"v9\n{}\n{}"}, Verdict.UNKNOWN, "v9"),
        ({"offsets/.9.tmp": b"", "offsets/.8.crc": b"", "offsets/999/a": b""}, Verdict.OK, ""),
    ],
)
def test_damages_of_a_directory(change: dict[str, bytes | None], verdict: Verdict, because: str) -> None:
    files = {**checkpoint_files(OFFSETS), **change}

    found = _read(_storage({path: data for path, data in files.items() if data is not None}))

    assert verdict == found.finding.verdict
    assert because in found.finding.because


def test_a_pattern_finds_checkpoints_at_any_depth_and_enters_none(tmp_path: Path) -> None:
    for name in ("a/orders", "a/totals", "b"):
        write_checkpoint(tmp_path / name, OFFSETS)
    write_checkpoint(tmp_path / "b" / "state" / "inner", OFFSETS)
    (tmp_path / "a" / "notes").mkdir()

    def names(*patterns: str) -> list[str]:
        found = find_checkpoints([str(tmp_path / one) for one in patterns], LocalStorage, EmbeddedEngine())
        return [str(Path(one.name).relative_to(tmp_path)) for one in found]

    assert ["a/orders", "a/totals"] == names("a/*")
    assert ["a/orders", "a/totals", "b"] == names("**")
    assert ["b", "a/orders"] == names("b", "*/ord*", "b")
    with pytest.raises(Refused, match="no checkpoint") as refusal:
        names("b", "a/n*")
    assert ("streams.none-found", 4) == (refusal.value.code, refusal.value.exit_code)
    with pytest.raises(Unreadable, match="not a checkpoint"):
        names("a")
