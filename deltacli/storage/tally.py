"""Counting the calls of a run, and estimates of their price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import NamedTuple


class Call(StrEnum):
    """The kinds of calls that stores charge differently, in the order of reports.

    Attributes:
        HEAD: Properties of an object.
        PUT: Also the beginning, the parts and the completion of an upload.
        DELETE: Also a bulk deletion, which is one call.
    """

    LIST = "list"
    GET = "get"
    HEAD = "head"
    PUT = "put"
    DELETE = "delete"


class Prices(NamedTuple):
    """The list prices of one cloud.

    Attributes:
        source: Which prices these are.
        per_thousand: US dollars per 1,000 calls. Calls without a price are free.
    """

    source: str
    per_thousand: Mapping[Call, float]

    def compute_usd(self, calls: Mapping[Call, int]) -> float:
        """Return the price of calls in US dollars."""
        return sum(count * self.per_thousand.get(call, 0.0) for call, count in calls.items()) / 1_000


_PER_THOUSAND = {Call.LIST: 0.005, Call.PUT: 0.005, Call.GET: 0.0004, Call.HEAD: 0.0004}
S3_PRICES = Prices("public list price, S3 Standard in us-east-1, 2025-06", _PER_THOUSAND)
GCS_PRICES = Prices("public list price, Standard storage in a single region, 2025-06", _PER_THOUSAND)
AZURE_PRICES = Prices("public list price, hot tier with LRS in East US, 2025-06", _PER_THOUSAND)


class HostTally:
    """The calls to one endpoint. Thread-safe.

    Attributes:
        host: The endpoint.
        prices: Its prices; None if it is not the cloud's own.
        calls: The number of calls of each kind.
        bytes_read: Bytes of responses.
        bytes_written: Bytes of requests.
    """

    def __init__(self, host: str, prices: Prices | None) -> None:
        self.host = host
        self.prices = prices
        self.calls: Counter[Call] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self._lock = Lock()

    def count_sent(self, call: Call, size_bytes: int) -> None:
        """Count a request and the bytes of its body."""
        with self._lock:
            self.calls[call] += 1
            self.bytes_written += size_bytes

    def count_received(self, size_bytes: int) -> None:
        """Count bytes of a response."""
        with self._lock:
            self.bytes_read += size_bytes

    @property
    def price_usd(self) -> float | None:
        """Return an estimate of the price; None if the prices are unknown."""
        return None if self.prices is None else self.prices.compute_usd(self.calls)


class Tally:
    """The calls of one run, by endpoint. Thread-safe."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostTally] = {}
        self._lock = Lock()

    def get_host(self, host: str, prices: Prices | None) -> HostTally:
        """Return the tally of an endpoint, which is made on first use."""
        with self._lock:
            return self._hosts.setdefault(host, HostTally(host, prices))

    @property
    def hosts(self) -> list[HostTally]:
        """Return the endpoints that calls were sent to, by name."""
        with self._lock:
            used_hosts = [host for host in self._hosts.values() if host.calls]
        return sorted(used_hosts, key=lambda host: host.host)
