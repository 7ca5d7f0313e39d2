"""`log crc`, `log compact` and `log expire` on a store that fails at each of its calls in turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import DeltacliError
from deltacli.core.machine import fixed_clock
from deltacli.operations.log.crc_and_compact import Checksum, LogCompaction
from deltacli.operations.log.expire import ExpiryRequest, LogExpiry
from deltacli.storage import Storage
from deltacli.storage.base import Capabilities
from tests.support.builder import EPOCH_MS, LOG, TableBuilder
from tests.support.faulty import Fault, FaultyStorage
from tests.support.in_memory import MemoryStorage
from tests.support.reading import state_document

NOW_MS = EPOCH_MS + 60 * 86_400_000


def crc(storage: Storage) -> object:
    return execute_change(Checksum(), table_of(storage)).path


def compact(storage: Storage) -> object:
    return execute_change(LogCompaction(2, 6), table_of(storage)).path


def expire(storage: Storage) -> object:
    table = table_of(storage)
    outcome = execute_change(LogExpiry(ExpiryRequest(), proves=False), table)
    assert not outcome.failed.count
    return outcome.deleted


def table_of(storage: Storage) -> Table:
    return Table(storage, clock=fixed_clock(NOW_MS))


def made() -> TableBuilder:
    return TableBuilder().commits(9).checkpoint(4)


def calls_of(operation: Callable[[Storage], object], fault: Fault) -> list[int]:
    """The calls at which a fault may happen, counted from 1; only a creation can leave its outcome open."""
    counting = FaultyStorage(made().in_memory())
    operation(counting)
    any_call = fault in (Fault.BEFORE, Fault.AFTER)
    return [number for number, (verb, _) in enumerate(counting.calls, 1) if any_call or verb == "put_if_absent"]


def names(storage: MemoryStorage) -> set[str]:
    return set(storage._files)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LOST, Fault.UNSENT])
@pytest.mark.parametrize("operation", [crc, compact, expire])
@pytest.mark.long
@pytest.mark.halved
def test_a_fault_at_any_call_leaves_a_table_that_reads_as_before(
    operation: Callable[[Storage], object], fault: Fault
) -> None:
    expected = {version: state_document(table_of(made().in_memory()), version) for version in range(4, 9)}
    whole = made().in_memory()
    operation(whole)

    for call in calls_of(operation, fault):
        storage = made().in_memory()
        with suppress(DeltacliError):
            operation(FaultyStorage(storage, call, fault))
        assert names(storage) <= names(whole) | names(made().in_memory()), call
        assert expected == {version: state_document(table_of(storage), version) for version in range(4, 9)}, call
        operation(storage)
        assert names(whole) == names(storage), call
        assert all(storage.read(path) == whole.read(path) for path in names(whole) if path.startswith(LOG)), call


class FarStorage(MemoryStorage):
    """A store whose listings are dear, so that a log is listed from its last checkpoint on."""

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(has_cheap_requests=False)


@pytest.mark.parametrize(("first", "last"), [(1, 3), (2, 6), (3, 4), (4, 5), (5, 8)])
def test_a_range_before_the_last_checkpoint_is_compacted_on_a_store_as_on_a_disk(first: int, last: int) -> None:
    near, far = made().hint(4).in_memory(), FarStorage()
    far._files.update(near._files)

    expected = execute_change(LogCompaction(first, last), table_of(near))
    found = execute_change(LogCompaction(first, last), table_of(far))

    assert expected.path == found.path
    assert near.read(expected.path) == far.read(found.path)
