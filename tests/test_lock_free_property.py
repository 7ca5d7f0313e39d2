"""`cached_property` without a lock: threads do not wait for each other, and agree on one value."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from deltacli.core.lock_free_property import cached_property

WAIT_SECONDS = 30


class Counting:
    """Counts how often its attribute is computed."""

    def __init__(self) -> None:
        self.computed = 0

    @cached_property
    def value(self) -> object:
        """A new object each time it is computed."""
        self.computed += 1
        return object()


class Meeting:
    """Computes its attribute once two threads do so at the same time."""

    def __init__(self) -> None:
        self._both = Barrier(2)

    @cached_property
    def value(self) -> object:
        """A new object, once the other thread is here."""
        self._both.wait(WAIT_SECONDS)
        return object()


def test_an_attribute_is_computed_once_for_each_instance() -> None:
    first, second = Counting(), Counting()

    values = [first.value, first.value, second.value]

    assert values[0] is values[1]
    assert values[1] is not values[2]
    assert (1, 1) == (first.computed, second.computed)


def test_threads_compute_at_the_same_time_and_get_the_same_value() -> None:
    meeting = Meeting()

    with ThreadPoolExecutor(2) as pool:
        values = list(pool.map(lambda _: meeting.value, range(2)))

    assert values[0] is values[1]


def test_the_class_has_the_property_itself_with_its_docstring() -> None:
    assert "A new object each time it is computed." == Counting.value.__doc__
    with pytest.raises(AttributeError):
        Counting.other  # type: ignore[attr-defined]  # noqa: B018
