"""Finding tables: on a local disk, with its links and refusals, and on a store that only lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from deltacli.core.errors import PermissionRefused
from deltacli.storage import Storage, open_storage
from deltacli.table.discover import Targets, find_tables


def make_tables(root: Path, *names: str) -> None:
    for name in names:
        log = root / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").write_text("{}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_tables(tmp_path, "lake/a", "lake/b/c", "lake/b/d", "lake/.hidden/e", "lake/a/nested")
    (tmp_path / "lake" / "empty").mkdir()
    return tmp_path


def find(*names: str) -> list[str]:
    """The names of the tables, without a failure."""
    found = find_tables(names, open_storage)
    assert () == found.failures
    return [table.name for table in found.tables]


@pytest.mark.parametrize(
    ("names", "tables"),
    [
        (["lake"], ["lake/a", "lake/b/c", "lake/b/d"]),
        (["lake/"], ["lake/a", "lake/b/c", "lake/b/d"]),
        (["."], ["./lake/a", "./lake/b/c", "./lake/b/d"]),
        (["lake/*"], ["lake/a", "lake/b/c", "lake/b/d"]),
        (["lake/**"], ["lake/a", "lake/b/c", "lake/b/d"]),
        (["**"], ["lake/a", "lake/b/c", "lake/b/d"]),
        (["lake/**/d"], ["lake/b/d"]),
        (["**/b/?"], ["lake/b/c", "lake/b/d"]),
        (["lake/b/[cx]"], ["lake/b/c"]),
        (["lake/.h*"], ["lake/.hidden/e"]),
        (["lake/.hidden"], ["lake/.hidden/e"]),
        (["lake/a/nested"], ["lake/a/nested"]),
        (["lake/a", "lake/a/nested", "lake/a/_delta_log"], ["lake/a", "lake/a/nested"]),
        (["lake/b/d", "lake"], ["lake/b/d", "lake/a", "lake/b/c"]),
        (["lake/empty"], ["lake/empty"]),
        (["lake/empty", "lake"], ["lake/a", "lake/b/c", "lake/b/d"]),
        (["lake/b", "lake/b"], ["lake/b/c", "lake/b/d"]),
    ],
)
def test_each_table_is_found_once_by_the_name_a_user_would_write(
    names: list[str], tables: list[str], here: Path
) -> None:
    assert tables == find(*names)


def test_a_name_with_the_characters_of_a_pattern_is_a_name_first(here: Path) -> None:
    make_tables(here, "odd/t[1]", "odd/t1")

    assert ["odd/t[1]"] == find("odd/t[1]")


def test_file_uris_stay_uris(here: Path) -> None:
    make_tables(here, "odd/with space")

    assert [f"file://{here}/odd/with%20space"] == find(f"file://{here}/odd")


def test_links_in_a_circle_end_and_give_nothing_twice(here: Path) -> None:
    (here / "lake" / "b" / "up").symlink_to(here / "lake")
    (here / "lake" / "z").symlink_to(here / "lake" / "b")

    assert ["lake/a", "lake/b/c", "lake/b/d"] == find("lake")
    assert ["lake/b/c", "lake/b/d", "lake/b/up/a"] == find("lake/b", "lake/z")


def test_failures_name_what_was_given(here: Path) -> None:
    (here / "lake" / "README").write_text("")

    found = find_tables(["none", "none*", "lake/README", "lake/a/nested/x", "lake/b/c/_delta_log"], open_storage)

    assert [
        ("none", "table.path-missing"),
        ("none*", "table.path-missing"),
        ("lake/a/nested/x", "table.path-missing"),
        ("lake/b/c/_delta_log", "table.path-is-log"),
        ("lake/README", "table.path-is-file"),
    ] == [(name, fault.code) for name, fault in found.failures]


def test_an_unreadable_directory_is_reported_and_the_search_continues(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_guarded(name: str) -> Storage:
        storage = open_storage(name)
        listing = storage.list_directories

        def guarded(directory: str) -> list[str]:
            if directory == "b":
                raise PermissionRefused("b can't be read")
            return listing(directory)

        monkeypatch.setattr(storage, "list_directories", guarded)
        return storage

    found = find_tables(["lake"], open_guarded)

    assert ["lake/a"] == [table.name for table in found.tables]
    assert [("lake/b", 7)] == [(name, fault.exit_code) for name, fault in found.failures]


@pytest.mark.parametrize("names", [["lake/b/*"], ["lake/b/c", "lake/b/d"], ["lake/b/[c]", "lake/b/d"]], ids=str)
def test_a_table_that_cannot_be_opened_is_reported_and_the_others_are_found(here: Path, names: list[str]) -> None:
    def open_guarded(name: str) -> Storage:
        if name == "lake/b/c":
            raise PermissionRefused("lake/b/c/_delta_log cannot be read")
        return open_storage(name)

    found = find_tables(names, open_guarded)

    assert ["lake/b/d"] == [table.name for table in found.tables]
    assert [("lake/b/c", 7)] == [(name, fault.exit_code) for name, fault in found.failures]


@pytest.fixture
def bucket() -> Iterator[str]:
    """A directory of fsspec's memory with tables in it."""
    import fsspec

    name = f"memory://{uuid4().hex}"
    system = fsspec.filesystem("memory")
    for table in ("a", "b/c", "b/d"):
        system.pipe(f"{name}/{table}/_delta_log/{0:020d}.json", b"{}")
    system.pipe(f"{name}/b/other/x", b"{}")
    yield name
    system.rm(name, recursive=True)


@pytest.mark.parametrize(
    ("below", "tables"),
    [
        ("", ["/a", "/b/c", "/b/d"]),
        ("/**", ["/a", "/b/c", "/b/d"]),
        ("/b/*", ["/b/c", "/b/d"]),
        ("/*/c", ["/b/c"]),
        ("/b/d", ["/b/d"]),
    ],
)
def test_tables_are_found_on_a_store(below: str, tables: list[str], bucket: str) -> None:
    found: Targets = find_tables([f"{bucket}{below}"], open_storage)

    assert ([f"{bucket}{table}" for table in tables], ()) == ([table.name for table in found.tables], found.failures)
