"""Stores that fail together at one call of all of them: before it is made, or after it was, the answer lost."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from deltacli.core.errors import StorageFailed
from deltacli.storage import Storage, Unknown
from tests.support import faulty

Answer = TypeVar("Answer")


class Fault(StrEnum):
    BEFORE = "the call is never made"
    AFTER = "the call is made, and its answer lost"


class Countdown:
    """Counts the calls of all stores that share it; the one of number `at` (from 0) fails."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.calls = 0

    def is_due(self) -> bool:
        self.calls += 1
        return self.at is not None and self.calls - 1 == self.at


class FaultyStorage(faulty.FaultyStorage):
    """Passes calls on, but one. A creation that fails leaves its outcome open."""

    def __init__(self, inner: Storage, countdown: Countdown, fault: Fault = Fault.BEFORE) -> None:
        super().__init__(inner)
        self._countdown = countdown
        self._how = fault

    def step(self, verb: str, path: str, call: Callable[[], Answer]) -> Answer:
        if not self._countdown.is_due():
            return call()
        if self._how is Fault.AFTER:
            call()
        if verb == "put_if_absent":
            return Unknown("the answer was lost")  # type: ignore[return-value]
        raise StorageFailed(f"{verb} {path}: the network is down")
