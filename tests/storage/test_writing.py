"""What every back end that writes guarantees, asked of all of them: one winner, no half files, and every deletion
answered.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest

from deltacli.core.errors import FileMissing
from deltacli.storage import Created, Creation, Deleted, Existed, Missing, PathKind, Storage
from deltacli.storage.local import LocalStorage
from tests.simulation.store import DiskStore
from tests.storage.stores import WRITABLE, Place, params
from tests.support.in_memory import MemoryStorage
from tests.support.racing import Onlooker, Race, payload

MOST_OF_A_REQUEST = 1_000
"""Files that any store deletes before the first answer is passed on."""
ROUNDS = [40, pytest.param(200, marks=pytest.mark.soak)]


@pytest.fixture(params=params(WRITABLE))
def place(request: pytest.FixtureRequest) -> Place:
    """Every kind of store that is written to, empty."""
    return WRITABLE[request.param](request)


def test_a_file_is_created_once(place: Place) -> None:
    storage = place.storage

    outcomes = [storage.put_if_absent("_delta_log/a b%20.json", data) for data in (b"mine", b"theirs", b"")]

    assert [Created(), Existed(), Existed()] == outcomes
    assert b"mine" == storage.read("_delta_log/a b%20.json")
    assert storage.capabilities.atomic_create


@pytest.mark.parametrize("data", [b"", b"x" * (9 << 20)], ids=["empty", "big"])
def test_put_replaces_the_whole_file(data: bytes, place: Place) -> None:
    place.storage.put("deep/er/file", b"before, and longer than nothing")
    place.storage.put("deep/er/file", data)

    assert data == place.storage.read("deep/er/file")
    assert ["file"] == [stat.name for stat in place.storage.list_from("deep/er")]


@pytest.mark.parametrize("data", [b"", b"x" * (9 << 20)], ids=["empty", "big"])
def test_a_copy_is_created_once(data: bytes, place: Place) -> None:
    storage = place.storage
    for name in ("p=1/a", *place.odd_names):
        storage.put(f"q/{name}", data)
        before = storage.stat(f"q/{name}")

        assert [Created(), Existed()] == [storage.copy_within(f"q/{name}", f"z/{name}") for _ in range(2)]

        assert data == storage.read(f"z/{name}")
        assert not storage.capabilities.has_directories or before == storage.stat(f"z/{name}")
        if data:
            break
    with pytest.raises(FileMissing):
        storage.copy_within("q/absent", "z/b")
    assert PathKind.MISSING is storage.kind_of("z/b")


@pytest.mark.parametrize("size", [0, 9 << 20], ids=["empty", "big"])
def test_a_draft_is_invisible_before_publication_and_complete_afterwards(size: int, place: Place) -> None:
    storage, data = place.storage, b"x" * size
    storage.put("log/there", b"theirs")

    with storage.draft("log/mine") as draft:
        Path(draft.local_path).write_bytes(data)
        assert ["there"] == [stat.name for stat in storage.list_from("log") if not stat.name.startswith(".")]
        assert [Created(), Existed()] == [draft.publish(), _published(storage, "log/there", replace=False)]
    assert (b"theirs", data) == (storage.read("log/there"), storage.read("log/mine"))
    assert Created() == _published(storage, "log/there", replace=True)

    assert b"ours" == storage.read("log/there")
    assert ["mine", "there"] == [stat.name for stat in storage.list_from("log")]
    assert not Path(draft.local_path).exists()


def _published(storage: Storage, path: str, *, replace: bool) -> Creation:
    with storage.draft(path) as draft:
        Path(draft.local_path).write_bytes(b"ours")
        return draft.publish(replace=replace)


def test_an_abandoned_draft_leaves_nothing(place: Place) -> None:
    with place.storage.draft("log/mine") as draft:
        Path(draft.local_path).write_bytes(b"half")

    assert not Path(draft.local_path).exists()
    assert place.storage.kind_of("log/mine") is PathKind.MISSING


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.long
def test_one_of_sixteen_threads_creates_and_no_reader_sees_a_partial_file(place: Place, rounds: int) -> None:
    storage, together, done = place.storage, Barrier(16, timeout=120), Event()

    def create(racer: int) -> list[Creation]:
        outcomes = []
        try:
            for number in range(rounds):
                together.wait()
                outcomes.append(storage.put_if_absent(f"race/{number:03d}", payload(racer, number)))
        except BaseException:
            done.set()
            together.abort()  # the others need not wait for this one
            raise
        return outcomes

    onlooker = Onlooker(storage, "race")

    def watch() -> None:
        while not done.is_set():
            onlooker.look()

    with ThreadPoolExecutor(17) as pool:
        watching = pool.submit(watch)
        results = list(zip(*pool.map(create, range(16)), strict=True))
        done.set()
        watching.result()

    assert [Counter({Created(): 1, Existed(): 15})] * rounds == [Counter(outcomes) for outcomes in results]
    assert [] == onlooker.halves
    assert onlooker.looks > 0
    winners = [outcomes.index(Created()) for outcomes in results]
    assert [payload(winner, number) for number, winner in enumerate(winners)] == [
        storage.read(f"race/{number:03d}") for number in range(rounds)
    ]


@pytest.mark.parametrize("place", ["local", "s3", "gcs"], indirect=True)
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.long
def test_one_of_eight_processes_creates_and_no_reader_sees_a_partial_file(place: Place, rounds: int) -> None:
    with Race(place.storage.uri, racers=8, rounds=rounds) as race:
        found = race.run()

    assert [["Created", *["Existed"] * 7]] * rounds == [sorted(outcomes) for outcomes in found.outcomes]
    assert [] == found.halves
    assert found.looks > 0
    winners = [outcomes.index("Created") for outcomes in found.outcomes]
    assert [hashlib.sha256(payload(winner, number)).digest() for number, winner in enumerate(winners)] == [
        hashlib.sha256(place.storage.read(f"race/{number:03d}")).digest() for number in range(rounds)
    ]


def test_deleting_reports_each_path_once_and_in_order(place: Place) -> None:
    there = [f"d/{name}" for name in place.odd_names] + [f"d/{number:04d}" for number in range(0, 2_400, 2)]
    paths = sorted(there + [f"d/{number:04d}" for number in range(1, 2_400, 2)] + ["d/\r\x01", "none/of/these"])
    storage = place.holding({**dict.fromkeys(there, b"1"), "stays": b""})

    answers = list(storage.delete_many(iter(paths)))

    gone = Missing() if place.tells_missing else Deleted()
    found = [(path, gone if outcome == Missing() else outcome) for path, outcome in answers]
    assert [(path, Deleted() if path in there else gone) for path in paths] == found
    assert PathKind.FILE is storage.kind_of("stays")
    with pytest.raises(FileMissing):
        storage.stat(there[0])


def test_deleting_consumes_paths_lazily(place: Place) -> None:
    storage = place.holding({f"{number:05d}": b"" for number in range(MOST_OF_A_REQUEST + 200)})

    next(storage.delete_many(f"{number:05d}" for number in range(MOST_OF_A_REQUEST + 200)))

    assert 200 <= len(list(storage.list_from("")))


def test_a_created_file_is_listed_and_read_at_once(place: Place) -> None:
    storage: Storage = place.storage
    storage.put_if_absent("_delta_log/0", b"zero")
    list(storage.list_from("_delta_log"))

    storage.put_if_absent("_delta_log/1", b"one")

    assert [("0", 4), ("1", 3)] == [(stat.name, stat.size_bytes) for stat in storage.list_from("_delta_log")]
    assert 3 == storage.stat("_delta_log/1").size_bytes


def test_a_file_keeps_its_modification_time_if_the_store_supports_it(place: Place) -> None:
    storage = place.storage
    moment = 1_600_000_000_123

    storage.put_if_absent("d/created", b"x", modified_ms=moment)
    storage.put("d/put", b"x", modified_ms=moment + 1)
    lost = storage.put_if_absent("d/created", b"y", modified_ms=moment + 9)

    found = {stat.name: stat.modified_ms for stat in storage.list_from("d")}
    assert Existed() == lost
    assert isinstance(storage, LocalStorage | MemoryStorage | DiskStore) == (
        {"created": moment, "put": moment + 1} == found
    )
