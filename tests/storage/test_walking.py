"""What every back end guarantees to those who walk through all of it, or ask about many files at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from deltacli.core.errors import FileMissing
from deltacli.storage import Deleted, Missing, PathKind, Storage, WalkEntry, folds_names
from tests.storage.stores import READABLE, WRITABLE, Place, params
from tests.support.in_memory import MemoryStorage
from tests.support.storage import FAR, RecordingStorage

DEEP = "/".join(f"level={number}" for number in range(12))
FILES = (
    "root.parquet",
    "_delta_log/00000000000000000000.json",
    "_delta_log/_sidecars/a.parquet",
    "p=1/q=1/a.parquet",
    "p=1/q=1/b.parquet",
    "p=1/q=2/.hidden/deeper/c.parquet",
    "p=1/direct.parquet",
    "p=2/q=1/a.parquet",
    "p=a b%20c/😀.parquet",
    f"{DEEP}/deep.parquet",
    *(f"many={number}/file.parquet" for number in range(40)),
)


@pytest.fixture(params=params(READABLE))
def place(request: pytest.FixtureRequest) -> Place:
    """Every kind of store, empty."""
    return READABLE[request.param](request)


def everything(_: str, names: Sequence[str]) -> Sequence[str]:
    return names


def paths(walked: Iterable[WalkEntry]) -> list[str]:
    return [f"{found.directory}/{name}" if found.directory else name for found in walked for name in found.names]


@pytest.mark.parametrize("files", [FILES, FILES[:1], FILES[3:4], FILES[9:10]], ids=["many", "root", "level", "deep"])
def test_a_walk_finds_each_file_once_however_deep(files: Sequence[str], place: Place) -> None:
    storage = place.holding(dict.fromkeys(files, b"1"))

    assert Counter(files) == Counter(paths(storage.walk("", everything)))


def test_a_walk_finds_odd_names(place: Place) -> None:
    files = {f"{name}/{name}/{name}/{name}" for name in place.odd_names}
    storage = place.holding(dict.fromkeys(files, b"1"))

    assert files == set(paths(storage.walk("", everything)))


def test_a_walk_starts_at_the_given_directory_and_yields_paths_below_the_root(place: Place) -> None:
    storage = place.holding(dict.fromkeys([*FILES, "p=1-not/x"], b"1"))

    found = Counter(paths(storage.walk("p=1", everything)))

    assert Counter(path for path in FILES if path.startswith("p=1/")) == found


def test_skipped_directories_are_not_yielded(place: Place) -> None:
    storage = place.holding(dict.fromkeys(FILES, b"1"))
    asked: dict[str, list[str]] = {}

    def enter(path: str, names: Sequence[str]) -> list[str]:
        asked[path] = list(names)
        return [name for name in names if name not in ("_delta_log", "p=2")]

    found = set(paths(storage.walk("", enter)))

    assert {path for path in FILES if not path.startswith(("_delta_log/", "p=2/"))} == found
    assert sorted({path.split("/")[0] for path in FILES if "/" in path}) == asked[""]
    assert not {path for path in asked if path.startswith(("_delta_log", "p=2"))}


def test_sizes_and_times_are_those_of_the_files(place: Place) -> None:
    storage = place.holding({f"p={number}/f{number}": b"x" * number for number in range(30)})

    for found in storage.walk("", everything):
        if found.sizes is None or found.modified_ms is None:
            continue
        for name, size, modified_ms in zip(found.names, found.sizes, found.modified_ms, strict=True):
            stat = storage.stat(f"{found.directory}/{name}")
            assert (stat.size_bytes, stat.modified_ms // 1000) == (size, modified_ms // 1000)
            assert int(name[1:]) == size


@pytest.mark.parametrize("directory", ["nowhere", "p=1/nowhere", "p"])
def test_a_missing_directory_is_reported(directory: str, place: Place) -> None:
    storage = place.holding(dict.fromkeys(FILES, b"1"))

    with pytest.raises(FileMissing) as raised:
        list(storage.walk(directory, everything))

    assert directory in raised.value.message


def test_nothing_is_cached_between_two_walks(place: Place) -> None:
    storage = place.holding({"p=1/a": b""})
    before = paths(storage.walk("", everything))
    place.put({"p=1/b": b"", "p=2/c": b""})

    assert ["p=1/a"] == before
    assert ["p=1/a", "p=1/b", "p=2/c"] == sorted(paths(storage.walk("", everything)))


def test_sizes_of_many_files_keep_the_requested_order(place: Place) -> None:
    storage = place.holding({"d/three": b"333", "empty": b"", "d/e/five": b"55555"})

    sizes, times = storage.stat_many(["d/e/five", "gone", "empty", "d", "d/three", "empty/below", "d/three"])

    assert [5, -1, 0, -1, 3, -1, 3] == sizes
    assert [False, True, False, True, False, True, False] == [time == -1 for time in times]
    assert [storage.stat(path).modified_ms for path in ("d/e/five", "empty", "d/three", "d/three")] == [
        time for time in times if time != -1
    ]
    assert ([], []) == storage.stat_many([])


def test_a_store_that_keeps_names_is_case_sensitive(place: Place) -> None:
    assert not folds_names(place.holding({"_delta_log/0": b""}))


def test_the_calls_are_counted() -> None:
    inner = MemoryStorage()
    inner.write("p=1/a", b"")
    storage = RecordingStorage(inner)

    list(storage.walk("p=1", everything))
    storage.stat_many(["p=1/a", "b"])
    storage.remove_directory("p=1")

    assert {"walk": 1, "stat_many": 1, "remove_directory": 1} == storage.calls
    assert ["p=1", "p=1/a", "b", "p=1"] == storage.touched("walk", "stat_many", "remove_directory")


@pytest.fixture(params=params(WRITABLE))
def writable(request: pytest.FixtureRequest) -> Place:
    """Every kind of store that is written to, empty."""
    return WRITABLE[request.param](request)


def test_a_directory_is_removed_when_it_is_empty_and_never_with_its_files(writable: Place) -> None:
    storage = writable.holding({"d/e/file": b"1"})

    def removed(path: str) -> str:
        return type(storage.remove_directory(path)).__name__

    has_directories = storage.capabilities.has_directories
    outcomes = [removed("d/e"), removed("d"), removed("nowhere")]
    still_there = storage.read("d/e/file")
    list(storage.delete_many(["d/e/file"]))
    outcomes += [removed("d/e"), removed("d"), removed("d")]

    assert b"1" == still_there
    assert PathKind.MISSING is storage.kind_of("d")
    expected = ["Failed", "Failed", "Missing", "Deleted", "Deleted", "Missing"] if has_directories else ["Missing"] * 6
    assert expected == outcomes


def test_pieces_may_be_deleted_by_several_threads(writable: Place) -> None:
    """
    A busy emulator breaks connections. The repeated request then finds some files missing.
    """
    files = [f"p={number % 7}/{number:04d}" for number in range(800)]
    storage = writable.holding(dict.fromkeys([*files, "stays"], b""))
    pieces = [files[start : start + 50] for start in range(0, 800, 50)]

    def delete(piece: Sequence[str]) -> list[bool]:
        return [outcome in (Deleted(), Missing()) for _, outcome in storage.delete_many(piece)]

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(delete, pieces))

    assert [[True] * 50] * 16 == outcomes
    assert ["stays"] == paths(storage.walk("", everything))


def test_a_store_without_directories_removes_none() -> None:
    assert Missing() == MemoryStorage().remove_directory("d")


class Folding(RecordingStorage):
    """A disk that doesn't tell upper from lower case."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner, capabilities=FAR._replace(has_directories=True))

    def kind_of(self, path: str) -> PathKind:
        names = {name.lower(): PathKind.DIRECTORY for name in self._inner.list_directories("")}
        return names.get(path.lower(), PathKind.MISSING)


@pytest.mark.parametrize(
    ("make", "directories", "expected"),
    [
        (Folding, ["_delta_log"], True),
        (Folding, ["_DELTA_LOG"], True),
        (Folding, ["elsewhere"], False),
        (Folding, ["_delta_log", "_DELTA_LOG"], False),
        (lambda inner: inner, ["_delta_log"], False),
    ],
    ids=["folding", "folding, made in capitals", "without a log", "both there", "in memory"],
)
def test_a_case_insensitive_disk_is_detected_by_its_log(
    make: Callable[[Storage], Storage], directories: list[str], expected: bool
) -> None:
    inner = MemoryStorage()
    for name in directories:
        inner.write(f"{name}/0", b"")

    assert expected == folds_names(make(inner))
