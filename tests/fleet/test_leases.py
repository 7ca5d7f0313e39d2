"""Leases: one holder at a time, who can be replaced when gone."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from deltacli.core.errors import StorageFailed
from deltacli.fleet.policy_file.table_names import digest_table_name
from deltacli.fleet.running.journal import Holder, Lease, Leases, process_identity, process_is_alive
from deltacli.storage import Creation
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage

HOUR_MS = 3_600_000


class Clocked:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def leases_of(store: object, *runs: str, clock: Clocked, steal: str | None = None) -> list[Leases]:
    return [Leases(store, run, HOUR_MS, clock, steal=steal) for run in runs]  # type: ignore[arg-type]  # a fake store


def path_of(store: MemoryStorage) -> str:
    """Return the path of the only lease of the table."""
    (stat,) = store.list_from(digest_table_name("t"))
    return f"{digest_table_name('t')}/{stat.name}"


def test_one_of_two_runs_gets_a_lease_until_it_is_released() -> None:
    first, second = leases_of(MemoryStorage(), "a", "b", clock=Clocked())

    lease, refused = first.acquire("t"), second.acquire("t")
    first.release("t")
    after = second.acquire("t")

    assert isinstance(lease, Lease)
    assert isinstance(refused, Holder)
    assert "run a on " in refused.sentence
    assert (Lease, None) == (type(after), after.stolen if isinstance(after, Lease) else "")
    assert [False, True] == [first.is_held("t"), second.is_held("t")]


def test_an_expired_lease_is_taken_and_a_renewed_one_is_not() -> None:
    store, clock = MemoryStorage(), Clocked()
    first, second = leases_of(store, "a", "b", clock=clock)
    first.acquire("t")

    clock.now_ms = HOUR_MS - 1
    first.renew()
    clock.now_ms = HOUR_MS + 1
    refused = second.acquire("t")
    clock.now_ms = 3 * HOUR_MS
    taken = second.acquire("t")
    first.renew()
    first.release("t")

    assert isinstance(refused, Holder)
    assert isinstance(taken, Lease)
    assert ("it expired at 1970-01-01T01:59:59.999Z", "a") == (taken.stolen, taken.stolen_from)
    assert second.is_held("t")


def test_a_lease_is_stolen_with_a_reason_or_from_an_ended_process() -> None:
    store, clock = MemoryStorage(), Clocked()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    identity = process_identity(ended.pid)
    ended.wait()
    first, second = leases_of(store, "a", "b", clock=clock)
    (thief,) = leases_of(store, "c", clock=clock, steal="the machine is gone")
    first.acquire("t")

    stolen = thief.acquire("t")
    path = path_of(store)
    store.put(path, orjson.dumps({**orjson.loads(store.read(path)), "process": identity}))
    inherited = second.acquire("t")

    assert isinstance(stolen, Lease)
    assert isinstance(inherited, Lease)
    assert ["the machine is gone", f"its process {ended.pid} has ended"] == [stolen.stolen, inherited.stolen]
    assert process_is_alive(process_identity(os.getpid()))
    assert not process_is_alive(f"{os.getpid()}@1")


def test_of_many_runs_exactly_one_gets_a_lease() -> None:
    store, clock = MemoryStorage(), Clocked()
    runs = leases_of(store, *map(str, range(16)), clock=clock)

    for _ in range(5):
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda leases: leases.acquire("t"), runs))
        assert 1 == sum(isinstance(one, Lease) for one in found)
        clock.now_ms += 2 * HOUR_MS


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DUPLICATED])
def test_a_lost_answer_is_read_back(fault: Fault) -> None:
    store = FaultyStorage(MemoryStorage())
    (leases,) = leases_of(store, "a", clock=Clocked())
    store.fail(2, fault)

    found = leases.acquire("t")

    assert "put_if_absent" in store.calls[1]
    assert isinstance(found, Lease)


def test_a_damaged_lease_counts_as_expired() -> None:
    store, clock = MemoryStorage(), Clocked()
    first, second = leases_of(store, "a", "b", clock=clock)
    first.acquire("t")
    store.put(path_of(store), b"{")

    assert isinstance(second.acquire("t"), Lease)


def test_a_slow_taker_does_not_get_a_number_that_others_have_used() -> None:
    store, clock = MemoryStorage(), Clocked()
    slow, second, third = leases_of(store, "a", "b", "c", clock=clock)
    second.acquire("t")
    second.release("t")
    create = store.put_if_absent

    def late(path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
        store.put_if_absent = create  # type: ignore[method-assign]
        second.acquire("t")
        second.release("t")
        third.acquire("t")  # deletes the older files
        return create(path, data, modified_ms=modified_ms)

    store.put_if_absent = late  # type: ignore[method-assign]
    found = slow.acquire("t")

    assert isinstance(found, Holder)
    assert ("c", True, False) == (found.run, third.is_held("t"), slow.is_held("t"))


def test_a_renewal_does_not_undo_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = MemoryStorage(), Clocked()
    first, second = leases_of(store, "a", "b", clock=clock)
    first.acquire("t")
    read = store.read

    def released_meanwhile(path: str) -> bytes:
        found = read(path)
        monkeypatch.undo()
        first.release("t")
        return found

    monkeypatch.setattr(store, "read", released_meanwhile)
    first.renew()

    assert isinstance(second.acquire("t"), Lease)


def test_files_with_other_names_do_not_disturb_leases() -> None:
    store = MemoryStorage()
    (leases,) = leases_of(store, "a", clock=Clocked())
    store.put(f"{digest_table_name('t')}/1 (conflicted copy).lease", b"{}")

    assert isinstance(leases.acquire("t"), Lease)


def test_a_lease_that_was_not_created_is_an_error_and_not_a_holder() -> None:
    store = FaultyStorage(MemoryStorage())
    (leases,) = leases_of(store, "a", clock=Clocked())
    store.fail(2, Fault.UNSENT)

    with pytest.raises(StorageFailed, match="could not be taken: nobody answered"):
        leases.acquire("t")


def test_a_process_of_another_container_counts_as_alive() -> None:
    number, _, namespace = process_identity(os.getpid()).split("@")

    assert not process_is_alive(f"{number}@1@{namespace}")
    assert process_is_alive(f"{number}@1@{int(namespace) + 1}")
