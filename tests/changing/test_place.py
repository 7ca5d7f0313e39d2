"""A store that is held writes into the directory that it was bound to, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.changing.execution import ChangeExecution
from deltacli.core.errors import FileMissing, Refused
from deltacli.operations.change.alter import Alteration, AlterationOutcome, AlterationRequest
from deltacli.storage import LocalStorage, Storage
from deltacli.storage.location import StoreLocation
from tests.support.altering import add, table_of

Write = Callable[[Storage], object]


def content(place: Path) -> dict[str, bytes]:
    """The files below a directory."""
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def drafted(storage: Storage) -> object:
    with storage.draft("a/new") as draft:
        Path(draft.local_path).write_bytes(b"1")
        return draft.publish()


WRITES: dict[str, Write] = {
    "put_if_absent": lambda storage: storage.put_if_absent("a/new", b"1"),
    "put": lambda storage: storage.put("a/old", b"1"),
    "draft": drafted,
    "copy_within": lambda storage: storage.copy_within("a/old", "a/new"),
    "delete_many": lambda storage: list(storage.delete_many(["a/old"])),
    "remove_directory": lambda storage: storage.remove_directory("empty"),
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two directories with the same files, and a link to the first."""
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    (first / "a").mkdir(parents=True)
    (first / "empty").mkdir()
    (first / "a" / "old").write_bytes(b"0")
    shutil.copytree(first, second)
    link.symlink_to(first)
    return first, second, link


def switch_link(first: Path, second: Path, link: Path) -> None:
    link.unlink()
    link.symlink_to(second)


def rename(first: Path, second: Path, link: Path) -> None:
    first.rename(first.parent / "away")
    second.rename(first)


def take_away(first: Path, second: Path, link: Path) -> None:
    first.rename(first.parent / "away")


@pytest.mark.parametrize("switch", [switch_link, rename, take_away])
@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_written_to_another_directory(
    name: str, switch: Callable[[Path, Path, Path], None], places: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    store = LocalStorage(str(places[2])).bind_to_directory()
    switch(*places)
    before = content(tmp_path)

    with pytest.raises(Refused) as refused:
        WRITES[name](store)

    assert "plan.other-place" == refused.value.code
    assert before == content(tmp_path)


def test_a_directory_that_is_switched_while_a_draft_is_written_gets_nothing(places: tuple[Path, Path, Path]) -> None:
    store = LocalStorage(str(places[2])).bind_to_directory()

    with store.draft("a/new") as draft:
        Path(draft.local_path).write_bytes(b"1")
        switch_link(*places)
        with pytest.raises(Refused):
            draft.publish()

    assert ["a/old"] == list(content(places[1]))
    assert not (places[0] / "a" / "new").exists()  # the draft stays behind until a later run removes it


@pytest.mark.parametrize("name", WRITES)
def test_a_held_store_writes_as_any_other(name: str, places: tuple[Path, Path, Path], tmp_path: Path) -> None:
    shutil.copytree(places[0], tmp_path / "twin")

    WRITES[name](LocalStorage(str(places[2])).bind_to_directory())
    WRITES[name](LocalStorage(str(tmp_path / "twin")))

    assert content(tmp_path / "twin") == content(places[0])
    assert sorted(os.listdir(tmp_path / "twin")) == sorted(os.listdir(places[0]))


def test_places_that_lead_to_the_same_directory_are_one(
    places: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A path through links, `/proc/self/cwd` and a relative path; and a directory renamed before the plan.
    """
    renamed = places[0].rename(tmp_path / "renamed")
    places[2].unlink()
    places[2].symlink_to(renamed)
    monkeypatch.chdir(renamed)

    held = [LocalStorage(path).bind_to_directory() for path in (str(renamed), str(places[2]), "/proc/self/cwd", ".")]

    assert 1 == len({store.directory_identity for store in held})
    for number, store in enumerate(held):
        assert store.put_if_absent(f"a/{number}", b"1")
    assert 4 == len(set(os.listdir(renamed / "a")) - {"old"})


def test_another_process_finds_the_directory_or_refuses(places: tuple[Path, Path, Path]) -> None:
    store = LocalStorage(str(places[2])).bind_to_directory()
    location = StoreLocation.of(store.uri)._replace(directory_identity=store.directory_identity)
    opened = location.open()
    elsewhere = location._replace(directory_identity=("another kernel", 1, 1))

    switch_link(*places)

    with pytest.raises(Refused, match="another directory is at"):
        location.open()
    with pytest.raises(Refused, match="another directory is at"):
        opened.put("a/old", b"1")
    elsewhere.open().put("a/old", b"2")  # devices and inodes of another machine mean nothing here
    assert b"2" == (places[1] / "a" / "old").read_bytes()


def test_a_path_without_a_directory_is_not_held(tmp_path: Path) -> None:
    store = LocalStorage(str(tmp_path / "new")).bind_to_directory()

    store.put_if_absent("a/new", b"1")

    assert store.directory_identity is None
    assert ["a/new"] == list(content(tmp_path / "new"))


def test_each_change_is_bound_to_the_directory_of_its_own_plan(tmp_path: Path) -> None:
    """
    One handle outlives a table that is replaced between two changes.
    """
    place = table_of("a int").write(tmp_path / "t")
    table = Table(LocalStorage(str(place)))
    table.alter([add("b", "int")])
    place.rename(tmp_path / "old")
    table_of("a int").write(tmp_path / "t")

    assert 1 == table.alter([add("c", "int")]).committed_version
    assert ["a", "c"] == [field.name for field in table.snapshot().schema.fields]


def test_whatever_fails_in_another_directory_names_the_directory(tmp_path: Path) -> None:
    place = table_of("a int").write(tmp_path / "t")
    table = Table(LocalStorage(str(place)))

    class Lost(Alteration):
        def execute(self, _: ChangeExecution[AlterationOutcome, AlterationOutcome]) -> None:
            place.rename(tmp_path / "away")
            raise FileMissing("a file is missing")

    with pytest.raises(Refused) as refused:
        execute_change(Lost(AlterationRequest([add("b", "int")])), table)

    assert "plan.other-place" == refused.value.code
