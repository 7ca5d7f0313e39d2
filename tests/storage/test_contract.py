"""What every back end guarantees to readers, asked of all of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

import pytest

from deltacli.core.errors import FileMissing
from deltacli.storage import PathKind, Storage, open_storage
from deltacli.storage.optional_interfaces import is_prefix_store
from tests.storage.stores import EMULATED, READABLE, Place, params

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


@pytest.fixture(params=params(READABLE))
def place(request: pytest.FixtureRequest) -> Place:
    """Every kind of store, empty."""
    return READABLE[request.param](request)


OF_OBJECTS = {name: READABLE[name] for name in ("s3", "gcs", "gcs by its text", "azure", "azure tree", *EMULATED)}


@pytest.fixture(params=params(OF_OBJECTS))
def objects(request: pytest.FixtureRequest) -> Place:
    """Every object store, empty."""
    return OF_OBJECTS[request.param](request)


@pytest.fixture
def storage(place: Place) -> Storage:
    """A store that holds FILES."""
    return place.holding(FILES)


def names(storage: Storage, directory: str, start: str = "") -> list[str]:
    return [stat.name for stat in storage.list_from(directory, start)]


def test_a_listing_is_sorted_bytewise_and_contains_only_files(storage: Storage) -> None:
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


def test_a_listing_may_begin_after_every_name(storage: Storage) -> None:
    assert [] == names(storage, "_delta_log", "\U0010ffff")


def test_a_listing_has_sizes(storage: Storage) -> None:
    assert [4, 0, 12] == [stat.size_bytes for stat in storage.list_from("_delta_log")][:3]


def test_nothing_is_cached_between_two_listings(place: Place) -> None:
    before = names(place.holding({"d/a": b""}), "d")
    place.put({"d/b": b""})

    assert ["a"] == before
    assert ["a", "b"] == names(place.storage, "d")


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


def test_a_file_has_its_size(storage: Storage) -> None:
    listed = {stat.name: stat for stat in storage.list_from("p=a b%20c")}

    stat = storage.stat("p=a b%20c/😀.parquet")
    assert listed["😀.parquet"] == stat._replace(tag="", md5="")
    assert 256 == listed["😀.parquet"].size_bytes
    assert stat.md5 in ("", hashlib.md5(bytes(range(256))).hexdigest())


def test_a_big_file_is_read_across_any_boundary(place: Place) -> None:
    data = random.Random(1).randbytes(1 << 20) * 64
    storage = place.holding({"big": data})
    edges = [0, (1 << 20) - 3, (5 << 20) - 1, (64 << 20) - 70_000, (64 << 20) - 5]

    with storage.open("big") as file:
        found = []
        for edge in edges:
            file.seek(edge)
            found.append(file.read(100_000))

    assert [data[edge : edge + 100_000] for edge in edges] == found
    assert data[3 : (9 << 20) + 3] == storage.read_range("big", 3, 9 << 20)
    assert data == storage.read("big")


def test_unusual_names_are_supported(place: Place) -> None:
    odd = place.odd_names
    storage = place.holding({f"d/{name}": name.encode() for name in odd})

    assert sorted(odd, key=str.encode) == names(storage, "d")
    assert [name.encode() for name in odd] == [storage.read(f"d/{name}") for name in odd]
    assert [name.encode()[:1] for name in odd] == [storage.read_range(f"d/{name}", 0, 1) for name in odd]


@pytest.mark.parametrize("verb", ["list_from", "list_directories", "read", "read_range", "open", "stat"])
def test_an_absent_file_raises_file_missing(verb: str, storage: Storage) -> None:
    calls: dict[str, Callable[[], object]] = {
        "list_from": lambda: list(storage.list_from("nowhere")),
        "list_directories": lambda: storage.list_directories("nowhere"),
        "read": lambda: storage.read("nowhere/file"),
        "read_range": lambda: storage.read_range("nowhere/file", 0, 1),
        "open": lambda: storage.open("nowhere/file"),
        "stat": lambda: storage.stat("nowhere/file"),
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


def test_the_store_of_a_directory_is_the_one_that_its_address_opens(objects: Place) -> None:
    storage = objects.holding({"q%20 ü/offsets/1": b"one", "q%20 ü/metadata": b"id", "q": b"beside"})
    assert is_prefix_store(storage)

    below = storage.below("q%20 ü")

    opened = open_storage(f"{storage.uri}/q%20 ü")
    assert (opened.uri, opened.aliases) == (below.uri, below.aliases)
    assert (b"one", b"id") == (below.read("offsets/1"), below.read("metadata"))
    assert (["offsets"], ["metadata"]) == (below.list_directories(""), names(below, ""))
    assert ["1"] == names(storage.below("q%20 ü/offsets"), "")


def test_a_page_has_all_files_from_a_path_on_or_none(objects: Place) -> None:
    files = {f"q{number}/{path}": path.encode() for number in range(9) for path in ("a/b/c", "a-b", "z", "é")}
    storage = objects.holding(files)
    assert is_prefix_store(storage)

    found, is_all = storage.list_page_from("q3/")

    if storage.uri.startswith(("abfss://", "az://")):
        assert ([], False) == (found, is_all)
    else:
        assert (sorted(path for path in files if path >= "q3/"), True) == ([one.name for one in found], is_all)
        assert all(one.size_bytes == len(files[one.name]) for one in found)
