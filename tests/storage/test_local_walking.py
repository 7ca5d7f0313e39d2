"""Walking through a local disk: links, pipes, empty directories, and what changes or can't be read meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.storage import Deleted, Failed, LocalStorage, Missing, WalkEntry, folds_names, local_listing
from tests.storage.test_walking import everything, paths

DAY_NS = 86_400 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> LocalStorage:
    """A store with one file, next to files outside it."""
    (tmp_path / "table" / "d").mkdir(parents=True)
    (tmp_path / "table" / "d" / "file").write_bytes(b"123")
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "theirs").write_bytes(b"theirs")
    return LocalStorage(str(tmp_path / "table"))


def by_directory(storage: LocalStorage, directory: str = "") -> dict[str, WalkEntry]:
    return {found.directory: found for found in storage.walk(directory, everything)}


def test_links_are_reported_and_never_followed(store: LocalStorage, tmp_path: Path) -> None:
    for name, target in (("out", "../outside"), ("up", ".."), ("f", "d/file"), ("dangling", "x"), ("circle", "circle")):
        (tmp_path / "table" / name).symlink_to(target)
    os.mkfifo(tmp_path / "table" / "pipe")
    entered: list[str] = []

    def enter(path: str, names: Sequence[str]) -> Sequence[str]:
        entered.extend(names)
        return names

    found = list(store.walk("", enter))

    assert ["d/file"] == paths(found)
    assert [["circle", "dangling", "f", "out", "pipe", "up"], []] == [sorted(each.special) for each in found]
    assert ["d"] == entered
    assert not any(each.is_empty for each in found)


def test_the_root_may_be_a_link_but_nothing_below_it(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("table")
    (tmp_path / "table" / "out").symlink_to("../outside")

    assert ["d/file"] == paths(LocalStorage(str(tmp_path / "alias")).walk("", everything))
    for directory in ("out", "out/deep", "../outside", "d/../../outside"):
        with pytest.raises(FileMissing, match="links are not followed"):
            list(store.walk(directory, everything))


def test_a_directory_replaced_by_a_link_is_not_followed(store: LocalStorage, tmp_path: Path) -> None:
    def swap(path: str, names: Sequence[str]) -> Sequence[str]:
        if not path:
            shutil.rmtree(tmp_path / "table" / "d")
            (tmp_path / "table" / "d").symlink_to("../outside")
        return names

    assert [""] == [found.directory for found in store.walk("", swap)]


def test_a_directory_that_vanishes_is_skipped(store: LocalStorage, tmp_path: Path) -> None:
    def vanish(path: str, names: Sequence[str]) -> Sequence[str]:
        if not path:
            shutil.rmtree(tmp_path / "table" / "d")
        return [*names, "never was"]

    assert [""] == [found.directory for found in store.walk("", vanish)]


def test_an_empty_directory_is_reported_with_its_time(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table" / "a" / "empty").mkdir(parents=True)
    os.utime(tmp_path / "table" / "a" / "empty", ns=(0, 5 * DAY_NS))
    (tmp_path / "table" / "with link").mkdir()
    (tmp_path / "table" / "with link" / "x").symlink_to("nowhere")

    found = by_directory(store)

    assert (
        WalkEntry("a/empty", [], None, None, [], is_empty=True, directory_modified_ms=5 * 86_400_000)
        == found["a/empty"]
    )
    assert WalkEntry("a", [], None, None, []) == found["a"]
    assert WalkEntry("with link", [], None, None, ["x"]) == found["with link"]
    assert WalkEntry("d", ["file"], None, None, []) == found["d"]
    assert {"", "a", "a/empty", "d", "with link"} == found.keys()


def test_a_directory_removed_during_the_walk_is_not_reported_as_empty(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def scandir(descriptor: int) -> object:
        if os.path.samestat(os.fstat(descriptor), os.stat(tmp_path / "table" / "d")):
            (tmp_path / "table" / "d" / "file").unlink()
            (tmp_path / "table" / "d").rmdir()
        return real(descriptor)

    monkeypatch.setattr(os, "scandir", scandir)

    assert [""] == [found.directory for found in store.walk("", everything)]


class Vanished:
    """An entry of a file system that doesn't tell kinds with names, whose file is gone."""

    name = "gone"

    def is_file(self, **_: bool) -> bool:
        return False

    def is_dir(self, **_: bool) -> bool:
        return False

    def is_symlink(self) -> bool:
        return False

    def stat(self, **_: bool) -> None:
        raise FileNotFoundError


def test_a_file_that_vanishes_is_not_reported(store: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def scandir(_: int) -> Iterator[Iterator[Vanished]]:
        yield iter([Vanished()])

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(local_listing, "_is_link", Vanished.is_symlink)
    monkeypatch.setattr(local_listing, "_is_file", Vanished.is_file)

    assert [WalkEntry("", [], None, None, [])] == list(store.walk("", everything))


@pytest.mark.parametrize(
    ("fault", "kind"), [(errno.EACCES, PermissionRefused), (errno.EIO, StorageFailed), (errno.ESTALE, StorageFailed)]
)
def test_a_directory_that_cannot_be_read_ends_the_walk(
    fault: int, kind: type[StorageFailed], store: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if path == f"{store.root}/d":
            raise OSError(fault, os.strerror(fault))
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(kind) as raised:
        list(store.walk("", everything))

    assert f"{store.root}/d" in raised.value.message


def test_a_walk_does_not_stat_files(store: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("one call a file is too many")

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(os, "lstat", refuse)

    assert ["d/file"] == paths(store.walk("", everything))


def test_a_large_directory_is_yielded_in_batches(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_listing, "_NAMES_AT_ONCE", 10)
    for number in range(25):
        (tmp_path / "table" / f"{number}").write_bytes(b"")
    (tmp_path / "table" / "empty").mkdir()

    found = list(store.walk("", everything))

    assert {*(str(number) for number in range(25)), "d/file"} == set(paths(found))
    assert 26 == len(paths(found))
    assert 3 == sum(each.directory == "" for each in found)
    assert ["empty"] == [each.directory for each in found if each.is_empty]


def test_an_abandoned_walk_leaves_nothing_open(store: LocalStorage, tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    walk = store.walk("", everything)
    next(walk)

    walk.close()  # type: ignore[attr-defined]

    assert before == (sorted(os.listdir("/proc/self/fd")) if before else [])


def test_names_that_are_not_utf8_are_walked_and_deleted(store: LocalStorage, tmp_path: Path) -> None:
    odd = os.fsdecode(b"p=\xff/b\xff.parquet")
    (tmp_path / "table" / odd).parent.mkdir()
    (tmp_path / "table" / odd).write_bytes(b"1")

    found = paths(store.walk("", everything))

    assert {odd, "d/file"} == set(found)
    assert [1] == store.stat_many([odd])[0]
    assert [(odd, Deleted())] == list(store.delete_many([odd]))


def test_only_regular_files_inside_the_root_have_a_size(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table" / "out").symlink_to("../outside")
    (tmp_path / "table" / "link").symlink_to("d/file")
    os.mkfifo(tmp_path / "table" / "pipe")
    odd = ["out/theirs", "../outside/theirs", "link", "pipe", "d/file/below", "a\0b", "x" * 5_000, "circle/x"]
    (tmp_path / "table" / "circle").symlink_to("circle")

    assert ([3, *[-1] * 8], -1) == ((found := store.stat_many(["d/file", *odd]))[0], max(found[1][1:]))


def test_a_file_that_cannot_be_statted_is_named(store: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "lstat", refuse)

    with pytest.raises(PermissionRefused, match=r"d/file cannot be read"):
        store.stat_many(["d/file"])


@pytest.mark.parametrize(
    ("path", "make"),
    [
        ("link", lambda root: (root / "link").symlink_to("../outside/deep")),
        ("out/deep", lambda root: (root / "out").symlink_to("../outside")),
        ("../outside/deep", lambda _: None),
        ("d/file", lambda _: None),
        ("d", lambda _: None),
        ("", lambda root: (root / "d" / "file").unlink() or (root / "d").rmdir()),
    ],
    ids=["link", "behind a link", "outside", "file", "not empty", "root"],
)
def test_only_an_empty_directory_of_the_store_is_removed(
    path: str, make: Callable[[Path], None], store: LocalStorage, tmp_path: Path
) -> None:
    make(tmp_path / "table")
    before = sorted(tmp_path.rglob("*"))

    assert isinstance(store.remove_directory(path), Failed)
    assert before == sorted(tmp_path.rglob("*"))


def test_an_impossible_name_is_missing(store: LocalStorage) -> None:
    assert [("a\0b", Missing())] == list(store.delete_many(["a\0b"]))
    assert Missing() == store.remove_directory("a\0b")
    assert Missing() == store.remove_directory("d/file/below")


def test_deleting_a_link_keeps_its_target(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table" / "file link").symlink_to("../outside/theirs")
    (tmp_path / "table" / "directory link").symlink_to("../outside")

    outcomes = dict(store.delete_many(["file link", "directory link", "d"]))

    assert [Deleted(), Deleted()] == [outcomes["file link"], outcomes["directory link"]]
    assert isinstance(outcomes["d"], Failed)
    assert b"theirs" == (tmp_path / "outside" / "theirs").read_bytes()
    assert (tmp_path / "table" / "d" / "file").exists()


def test_a_root_reached_through_a_link_has_another_name(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path)) / "a table"
    root.mkdir()
    (tmp_path / "alias").symlink_to("a table")

    assert (f"file://{root}".replace(" ", "%20"),) == LocalStorage(str(tmp_path / "alias")).aliases
    assert () == LocalStorage(str(root)).aliases


def test_detecting_case_insensitivity_writes_nothing(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir()
    (tmp_path / "table" / "_DELTA_LOG").symlink_to("_delta_log")  # found, but under a name of its own
    before = (tmp_path / "table").stat().st_mtime_ns

    assert not folds_names(store)
    assert before == (tmp_path / "table").stat().st_mtime_ns
