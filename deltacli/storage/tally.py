"""Counts of the calls to object stores, and an estimate of what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import NamedTuple


class Call(StrEnum):
    """The kinds of calls that stores charge differently, in the order of reports."""

    LIST = "list"
    GET = "get"
    HEAD = "head"
    """Properties of an object."""
    PUT = "put"
    """Also the beginning, the parts and the completion of an upload."""
    DELETE = "delete"
    """Also a bulk deletion, which is one call."""


class Prices(NamedTuple):
    """The list prices of one cloud in US dollars per 1,000 calls. Calls without a price are free."""

    source: str
    per_thousand: Mapping[Call, float]

    def of(self, calls: Mapping[Call, int]) -> float:
        """Return the price of calls in US dollars."""
        return sum(count * self.per_thousand.get(call, 0.0) for call, count in calls.items()) / 1_000


_COMMON = {Call.LIST: 0.005, Call.PUT: 0.005, Call.GET: 0.0004, Call.HEAD: 0.0004}
S3_PRICES = Prices("public list price, S3 Standard in us-east-1, 2025-06", _COMMON)
GCS_PRICES = Prices("public list price, Standard storage in a single region, 2025-06", _COMMON)
AZURE_PRICES = Prices("public list price, hot tier with LRS in East US, 2025-06", _COMMON)


class HostTally:
    """The calls to one endpoint. `prices` is None for an endpoint that is not the cloud's own. Thread-safe."""

    def __init__(self, host: str, prices: Prices | None) -> None:
        self.host, self.prices = host, prices
        self.calls: Counter[Call] = Counter()
        self.bytes_read = self.bytes_written = 0
        self._lock = Lock()

    def sent(self, call: Call, size_bytes: int) -> None:
        """Count a request with a body of some bytes."""
        with self._lock:
            self.calls[call] += 1
            self.bytes_written += size_bytes

    def received(self, size_bytes: int) -> None:
        """Count the bytes of an answer."""
        with self._lock:
            self.bytes_read += size_bytes

    @property
    def price_usd(self) -> float | None:
        """Return an estimate of the price; None where the prices are unknown."""
        return None if self.prices is None else self.prices.of(self.calls)


class Tally:
    """The calls of one run, by endpoint. Thread-safe."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostTally] = {}
        self._lock = Lock()

    def of(self, host: str, prices: Prices | None) -> HostTally:
        """Return the tally of an endpoint."""
        with self._lock:
            return self._hosts.setdefault(host, HostTally(host, prices))

    @property
    def hosts(self) -> list[HostTally]:
        """Return the endpoints that received calls, by name."""
        with self._lock:
            return sorted((host for host in self._hosts.values() if host.calls), key=lambda host: host.host)
