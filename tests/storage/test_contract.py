"""What every back end guarantees, asked of all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from deltacli.errors import FileMissing, StorageFailed
from deltacli.storage import LocalStorage, PathKind, Storage
from deltacli.storage.memory import MemoryStorage
from deltacli.storage.remote import RemoteStorage

FILES = {
    "_delta_log/00000000000000000000.json": b"zero",
    "_delta_log/00000000000000000001.json": b"",
    "_delta_log/00000000000000000010.json": b"ten and more",
    "_delta_log/_last_checkpoint": b"{}",
    "_delta_log/_sidecars/a.parquet": b"a",
    "_delta_log/Z.json": b"upper case",
    "_delta_log/é.json": b"beyond ASCII",
    "p=a b%20c/😀.parquet": bytes(range(256)),
    "p=a b%20c/Ａ.parquet": b"full width",
    "data.parquet": b"data",
}

Place = Callable[[dict[str, bytes]], Storage]


def local(files: dict[str, bytes], tmp_path: Path) -> Storage:
    for path, data in files.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return LocalStorage(str(tmp_path))


def memory(files: dict[str, bytes], tmp_path: Path) -> Storage:
    storage = MemoryStorage()
    for path, data in files.items():
        storage.write(path, data)
    return storage


def remote(files: dict[str, bytes], tmp_path: Path) -> Storage:
    root = f"/{tmp_path.parent.name}-{tmp_path.name}"
    system = fsspec.filesystem("memory")
    for path, data in files.items():
        system.pipe_file(f"{root}/{path}", data)
    return RemoteStorage(f"memory:/{root}", {})


@pytest.fixture(params=[local, memory, remote], ids=["local", "memory", "remote"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A store that holds FILES."""
    found: Storage = request.param(FILES, tmp_path)
    return found


def names(storage: Storage, directory: str, start: str = "") -> list[str]:
    return [stat.name for stat in storage.list_from(directory, start)]


def test_a_listing_is_sorted_bytewise_and_holds_files_alone(storage: Storage) -> None:
    assert [
        "00000000000000000000.json",
        "00000000000000000001.json",
        "00000000000000000010.json",
        "Z.json",
        "_last_checkpoint",
        "é.json",
    ] == names(storage, "_delta_log")
    assert ["Ａ.parquet", "😀.parquet"] == names(storage, "p=a b%20c")
    assert ["data.parquet"] == names(storage, "")


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("00000000000000000001.json", "00000000000000000001.json"),
        ("00000000000000000001.", "00000000000000000001.json"),
        ("00000000000000000002.", "00000000000000000010.json"),
        ("a", "é.json"),
    ],
)
def test_a_listing_begins_at_the_first_name_not_below_the_start(start: str, first: str, storage: Storage) -> None:
    assert first == names(storage, "_delta_log", start)[0]


def test_a_listing_may_begin_behind_every_name(storage: Storage) -> None:
    assert [] == names(storage, "_delta_log", "\U0010ffff")


def test_a_listing_tells_sizes(storage: Storage) -> None:
    assert [4, 0, 12] == [stat.size_bytes for stat in storage.list_from("_delta_log")][:3]


def test_nothing_is_cached_between_two_listings(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for place in (local, remote):
        before = names(place({"d/a": b""}, tmp_path), "d")
        storage = place({"d/a": b""}, tmp_path)
        names(storage, "d")
        place({"d/b": b""}, tmp_path)

        assert ["a"] == before
        assert ["a", "b"] == names(storage, "d")


def test_directories_are_listed_by_name(storage: Storage) -> None:
    assert ["_delta_log", "p=a b%20c"] == storage.list_directories("")
    assert ["_sidecars"] == storage.list_directories("_delta_log")


def test_a_file_is_read_whole_in_part_and_at_random(storage: Storage) -> None:
    path = "p=a b%20c/😀.parquet"
    with storage.open(path) as file:
        file.seek(254)
        end = file.read(10)

    assert bytes(range(256)) == storage.read(path)
    assert bytes([16, 17, 18]) == storage.read_range(path, 16, 3)
    assert bytes([254, 255]) == storage.read_range(path, 254, 100)
    assert b"" == storage.read_range(path, 300, 5)
    assert bytes([254, 255]) == end


def test_an_empty_file_is_empty(storage: Storage) -> None:
    assert b"" == storage.read("_delta_log/00000000000000000001.json")
    assert b"" == storage.read_range("_delta_log/00000000000000000001.json", 0, 10)


@pytest.mark.parametrize("verb", ["list_from", "list_directories", "read", "read_range", "open"])
def test_what_is_absent_is_file_missing(verb: str, storage: Storage) -> None:
    calls: dict[str, Callable[[], object]] = {
        "list_from": lambda: list(storage.list_from("nowhere")),
        "list_directories": lambda: storage.list_directories("nowhere"),
        "read": lambda: storage.read("nowhere/file"),
        "read_range": lambda: storage.read_range("nowhere/file", 0, 1),
        "open": lambda: storage.open("nowhere/file"),
    }

    with pytest.raises(FileMissing) as raised:
        calls[verb]()

    assert "nowhere" in raised.value.message
    assert 7 == raised.value.exit_code


def test_the_kind_of_a_path(storage: Storage) -> None:
    assert [PathKind.FILE, PathKind.DIRECTORY, PathKind.DIRECTORY, PathKind.MISSING] == [
        storage.kind_of(path) for path in ("data.parquet", "_delta_log", "_delta_log/_sidecars", "nowhere")
    ]


def test_the_uri_is_absolute_and_without_a_slash_at_its_end(storage: Storage) -> None:
    assert "://" in storage.uri
    assert not storage.uri.endswith("/")


class BrokenSystem:
    """A file system whose every call fails in the same way."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    def __getattr__(self, name: str) -> Callable[..., object]:
        def fail(*arguments: object, **options: object) -> object:
            raise self._fault

        return fail


@pytest.mark.parametrize(
    ("fault", "code", "exit_code"),
    [
        (FileNotFoundError("x"), "storage.file-missing", 7),
        (PermissionError("denied"), "storage.permission", 7),
        (OSError("reset"), "storage.failed", 7),
        (TimeoutError(), "storage.failed", 7),
        (ConnectionError("refused"), "storage.failed", 7),
    ],
)
@pytest.mark.parametrize("verb", ["list_from", "list_directories", "read", "read_range", "open"])
def test_faults_of_a_remote_store_become_ours(
    verb: str, fault: Exception, code: str, exit_code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = remote({"a": b""}, tmp_path)
    monkeypatch.setattr(storage, "_fs", BrokenSystem(fault))
    calls: dict[str, Callable[[], object]] = {
        "list_from": lambda: list(storage.list_from("")),
        "list_directories": lambda: storage.list_directories(""),
        "read": lambda: storage.read("a"),
        "read_range": lambda: storage.read_range("a", 0, 1),
        "open": lambda: storage.open("a"),
    }

    with pytest.raises(StorageFailed) as raised:
        calls[verb]()

    assert (code, exit_code) == (raised.value.code, raised.value.exit_code)
