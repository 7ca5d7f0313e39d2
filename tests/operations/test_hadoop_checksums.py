"""What Spark leaves beside the files of a table on a disk fits them after every change, and is not left over.

The table is sealed first: every file has the checksum file that Spark would have written, and so have names that do
not exist yet or any more, with other bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from deltacli.core.errors import DeltacliError
from deltacli.delta.log.segment import checksum_path
from tests.cli.support import deltacli
from tests.support.builder import HINT, LOG, commit_path
from tests.support.hadoop import (
    checksum_content,
    checksum_file,
    orphaned_checksums,
    unfit_checksums,
    write_all_checksums,
    write_checksum,
)
from tests.world.changes import CHANGES, Row, begin
from tests.world.places import DiskWorld, Listener
from tests.world.tables import CHECKPOINT, LOST, NEWEST

ON_A_DISK = {name: change for name, change in CHANGES.items() if "disk" in change.kinds}
NEW_NAMES = (
    *(commit_path(NEWEST + number) for number in (1, 2)),
    *(checksum_path(NEWEST + number) for number in (0, 1)),
    HINT,
    f"{LOG}/{NEWEST:020d}.checkpoint.parquet",
    f"{LOG}/{5:020d}.{NEWEST:020d}.compacted.json",
)
"""Files that changes write, beside which there are checksum files of an earlier table."""


def sealed(root: Path) -> None:
    """Give every file of a table its checksum file, and names without a file one of other bytes."""
    for name in NEW_NAMES:
        if (root / LOG).is_dir() and not (root / name).exists():
            write_checksum(root / name, b"of an earlier table")
    write_all_checksums(root)


@pytest.mark.parametrize("name", ON_A_DISK)
def test_no_change_leaves_a_checksum_file_of_other_bytes(name: str, tmp_path: Path) -> None:
    change = ON_A_DISK[name]
    world = DiskWorld(tmp_path / "w", Listener())
    with world.closing:
        _prepare(world, change)
        places = [place for place in sorted(world.root.iterdir()) if place.is_dir()]
        before = {place: orphaned_checksums(place) for place in places}

        table = world.table()
        try:
            change.execute(table, change.plan(world)(table), False)
        except DeltacliError:
            assert not change.is_sound

        for place in world.root.iterdir():
            assert [] == unfit_checksums(place)
            assert set(orphaned_checksums(place)) <= set(before.get(place, ()))


def _prepare(world: DiskWorld, change: Row) -> None:
    """Make the table and what the change needs, with checksum files beside everything that is there or is lost."""
    sound = begin(world, change)
    for place in [place for place in world.root.iterdir() if place.is_dir()]:
        sealed(place)
    own = Path(world.uri_of("own"))
    for path, file in sound.items():
        if not (own / path).exists() and (own / path).parent.is_dir():
            checksum_file(own / path).write_bytes(checksum_content(file.data + b"x"))


REMOVED = "p=a/a0.parquet"
"""A file that no retained version has."""
Edit = Callable[[Path], object]
CHECKPOINT_FILE = f"{LOG}/{CHECKPOINT:020d}.checkpoint.parquet"


def _cut(name: str) -> Edit:
    """Cut off the end of a file, whose checksum file stays as it is."""
    return lambda root: (root / name).write_bytes((root / name).read_bytes()[:-20])


def _garble(name: str) -> Edit:
    return lambda root: (root / name).write_bytes(b"{bad")


def _lose_everything(root: Path) -> None:
    """Only the checksum files of a table are left, as after a deletion by a tool that does not know them."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            path.unlink()


COMMANDS: Mapping[str, tuple[Sequence[str], Edit]] = {
    "checkpoint --force over an existing one": (("checkpoint", "{table}", "--version", "6", "--force"), lambda _: None),
    "checkpoint in parts": (("checkpoint", "{table}", "--layout", "multi-part", "--parts", "2"), lambda _: None),
    "repair of a checkpoint": (("repair", "{table}", "--allow-in-use", "--yes"), _cut(CHECKPOINT_FILE)),
    "repair of a commit": (("repair", "{table}", "--allow-in-use", "--yes"), _garble(commit_path(LOST - 1))),
    "repair of the hint": (("repair", "{table}", "--allow-in-use", "--yes"), _garble(HINT)),
    "log restore --replace": (("log", "restore", "{table}", "{backup}", "--replace", "--yes"), _garble(commit_path(6))),
    "copy over an old place": (("copy", "{table}", "{old}", "--replica"), lambda _: None),
    "clone over an old place": (("clone", "{table}", "{old}", "--yes"), lambda _: None),
    "vacuum with a quarantine": (("vacuum", "{table}", "--quarantine", "{quarantine}", "--yes"), lambda _: None),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_leaves_a_checksum_file_of_other_bytes(name: str, tmp_path: Path) -> None:
    words, edit = COMMANDS[name]
    world = DiskWorld(tmp_path / "w", Listener())
    begin(world, CHANGES["checkpoint"])
    places = {name: tmp_path / name for name in ("backup", "old", "quarantine")}
    own = places["table"] = Path(world.uri_of("own"))
    deltacli("checkpoint", own, "--version", "6")
    deltacli("log", "backup", own, places["backup"])
    deltacli("copy", own, places["old"], "--replica", "--yes")
    for place in (own, places["backup"], places["old"]):
        sealed(place)
    _lose_everything(places["old"])
    edit(own)

    result = deltacli(*(word.format_map({name: str(place) for name, place in places.items()}) for word in words))

    assert result.code in (0, 1), result.err
    for place in places.values():
        assert [] == unfit_checksums(place)


def test_what_was_moved_away_and_back_has_no_checksum_file(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path / "w", Listener())
    begin(world, CHANGES["vacuum"])
    own, quarantine = Path(world.uri_of("own")), tmp_path / "quarantine"
    write_all_checksums(own)

    assert 0 == deltacli("vacuum", own, "--quarantine", quarantine, "--yes").code
    assert [] == orphaned_checksums(own)
    assert not (own / REMOVED).exists()

    write_checksum(own / REMOVED, b"of a file that had the name meanwhile")
    result = deltacli("undelete", own, "--version", "0", "--from", quarantine, "--yes")
    assert 0 == result.code, result.err
    assert (own / REMOVED).exists()
    assert [] == unfit_checksums(own)


def test_a_vacuum_removes_directories_in_which_an_earlier_one_has_left_checksum_files(tmp_path: Path) -> None:
    world = DiskWorld(tmp_path / "w", Listener())
    begin(world, CHANGES["vacuum"])
    own = Path(world.uri_of("own"))
    emptied = own / "p=gone"
    emptied.mkdir()
    write_checksum(emptied / "part-0.parquet", b"of a file that was deleted")
    old_s = world.time.begun_ms / 1000 - 90 * 86_400
    os.utime(emptied, (old_s, old_s))

    result = deltacli("vacuum", own, "--yes")

    assert 0 == result.code, result.err
    assert not emptied.exists()
