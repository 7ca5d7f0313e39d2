"""Count the requests to object stores, and estimate what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import NamedTuple


class Call(StrEnum):
    """The kinds of requests that stores charge differently, in the order of reports.

    Attributes:
        LIST: One page of a listing.
        GET: A read of an object or of a range.
        HEAD: A read of the properties of an object.
        PUT: A write. Each request of a multipart upload counts.
        DELETE: A deletion. A bulk deletion counts once.
    """

    LIST = "list"
    GET = "get"
    HEAD = "head"
    PUT = "put"
    DELETE = "delete"


class Prices(NamedTuple):
    """The list prices of a cloud.

    Attributes:
        source: The storage class, the region and the date of the prices.
        per_thousand: US dollars per 1,000 requests. Kinds of requests without a price are free.
    """

    source: str
    per_thousand: Mapping[Call, float]

    def compute_usd(self, calls: Mapping[Call, int]) -> float:
        """Return the price of requests in US dollars.

        Args:
            calls: The number of requests of each kind.
        """
        return sum(count * self.per_thousand.get(call, 0.0) for call, count in calls.items()) / 1_000


# The three clouds charge the same for these storage classes.
_PER_THOUSAND = {Call.LIST: 0.005, Call.PUT: 0.005, Call.GET: 0.0004, Call.HEAD: 0.0004}
S3_PRICES = Prices("public list price, S3 Standard in us-east-1, 2025-06", _PER_THOUSAND)
GCS_PRICES = Prices("public list price, Standard storage in a single region, 2025-06", _PER_THOUSAND)
AZURE_PRICES = Prices("public list price, hot tier with LRS in East US, 2025-06", _PER_THOUSAND)


class HostTally:
    """The requests to one endpoint. Thread-safe.

    Attributes:
        host: The endpoint.
        prices: The prices of the cloud; None for an endpoint of another vendor.
        calls: The number of requests of each kind.
        bytes_read: The size of all response bodies.
        bytes_written: The size of all request bodies.
    """

    def __init__(self, host: str, prices: Prices | None) -> None:
        self.host = host
        self.prices = prices
        self.calls: Counter[Call] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self._lock = Lock()

    def count_sent(self, call: Call, size_bytes: int) -> None:
        """Count a request and the size of its body."""
        with self._lock:
            self.calls[call] += 1
            self.bytes_written += size_bytes

    def count_received(self, size_bytes: int) -> None:
        """Count bytes of a response body."""
        with self._lock:
            self.bytes_read += size_bytes

    @property
    def price_usd(self) -> float | None:
        """The estimated price of the requests in US dollars; None if the prices are unknown."""
        return None if self.prices is None else self.prices.compute_usd(self.calls)


class Tally:
    """The requests of a run, grouped by endpoint. Thread-safe."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostTally] = {}
        self._lock = Lock()

    def get_host(self, host: str, prices: Prices | None) -> HostTally:
        """Return the tally of an endpoint. The first call creates it.

        Args:
            host: The endpoint.
            prices: The prices of the cloud; None if they are unknown.
        """
        with self._lock:
            return self._hosts.setdefault(host, HostTally(host, prices))

    @property
    def hosts(self) -> list[HostTally]:
        """The endpoints to which requests were sent, sorted by name."""
        with self._lock:
            used_hosts = [tally for tally in self._hosts.values() if tally.calls]
        return sorted(used_hosts, key=lambda tally: tally.host)
