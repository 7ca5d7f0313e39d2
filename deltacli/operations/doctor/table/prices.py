"""The request for an examination of a table, what a store charges, and estimates of requests, seconds and US dollars.

The built-in prices are list prices of one region and storage class at one date, those of `deltacli.storage.tally` with
the price of storage. A file of prices replaces them. What is not known has no price, which is never zero.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.core.errors import UsageError
from deltacli.core.hints import parameter
from deltacli.core.request_fields import Kind, option
from deltacli.core.typing import Json
from deltacli.storage.tally import AZURE_PRICES, GCS_PRICES, S3_PRICES, Call, Prices

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage

_GIB = 1 << 30
_KEYS = ("storage-per-gib-month", "get-per-1000", "list-per-1000")
_READS = "reads-per-month"
_SOURCE = "source"
_READS_PER_MONTH = 30.0
_MOST = 1e12
_SECONDS_PER_REQUEST, _AT_ONCE, _BYTES_PER_SECOND = 0.03, 16, 100e6
"""For estimates of seconds: the time of one request to a remote store, how many a reader has under way, and the bytes
that it reads per second.
"""
REQUESTS_PER_FILE = 2
"""A reader asks for the footer of a data file, then for its columns."""
LISTED_PER_REQUEST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices in US dollars; None where unknown. `reads_per_month`: how often the whole table is read, an assumption."""

    source: str
    storage_gib_month: float | None = None
    get_per_thousand: float | None = None
    list_per_thousand: float | None = None
    reads_per_month: float = _READS_PER_MONTH

    def of_bytes(self, size_bytes: int | None) -> float | None:
        """Return the price of storing bytes for a month."""
        if size_bytes is None or self.storage_gib_month is None:
            return None
        return size_bytes / _GIB * self.storage_gib_month

    def of_requests(self, requests: int | None) -> float | None:
        """Return the price of requests that read."""
        if requests is None or self.get_per_thousand is None:
            return None
        return requests / 1_000 * self.get_per_thousand

    def as_json(self) -> dict[str, Json]:
        """As in the document."""
        return {
            "source": self.source,
            "storagePerGibMonth": self.storage_gib_month,
            "getPer1000": self.get_per_thousand,
            "listPer1000": self.list_per_thousand,
            "readsPerMonth": self.reads_per_month,
        }


def _built_in(prices: Prices, storage_gib_month: float | None) -> PriceTable:
    return PriceTable(
        source=prices.source,
        storage_gib_month=storage_gib_month,
        get_per_thousand=prices.per_thousand[Call.GET],
        list_per_thousand=prices.per_thousand[Call.LIST],
    )


BUILT_IN: Mapping[str, PriceTable] = {
    "s3": _built_in(S3_PRICES, 0.023),
    "gs": _built_in(GCS_PRICES, 0.020),
    "abfss": _built_in(AZURE_PRICES, None),
}
"""Scheme -> prices. That of storage in Azure depends on the region and the kind of the account, so there is none."""
_SAME = {"az": "abfss", "abfs": "abfss", "s3a": "s3", "s3n": "s3", "gcs": "gs"}
UNKNOWN = PriceTable(source="no price is known for this store")


def prices_of(storage: ReadStorage) -> PriceTable:
    """Return the built-in prices of a store; none for a disk and for a service that is not the cloud's own."""
    scheme = storage.uri.partition("://")[0]
    if _SAME.get(scheme, scheme) not in BUILT_IN:
        return UNKNOWN
    from deltacli.storage.objects.store import ObjectStorage

    if not isinstance(storage, ObjectStorage) or not storage.calls.is_known_atomic:
        return UNKNOWN
    return BUILT_IN[_SAME.get(scheme, scheme)]


def parse_prices(data: bytes, name: str) -> PriceTable:
    """Return the prices of a file, TOML or JSON. Raises UsageError (`usage.prices`), which names the file and key."""
    found = _parsed(data, name)
    known = [*_KEYS, _READS, _SOURCE]
    for key in found:
        if key not in known:
            raise _wrong(name, f"unknown key {key!r}", {"known keys": ", ".join(known)})
    source = found.get(_SOURCE, name)
    if not isinstance(source, str):
        raise _wrong(name, f"{_SOURCE} is not a text", {})
    storage, get, listing = (_number(found, key, name) if key in found else None for key in _KEYS)
    reads = _number(found, _READS, name) if _READS in found else _READS_PER_MONTH
    return PriceTable(
        source=source,
        storage_gib_month=storage,
        get_per_thousand=get,
        list_per_thousand=listing,
        reads_per_month=reads,
    )


def _parsed(data: bytes, name: str) -> Mapping[str, object]:
    try:
        text = data.decode("utf-8-sig")
        found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (ValueError, RecursionError) as fault:
        raise _wrong(name, f"not TOML and not JSON: {fault}", {}) from None
    if not isinstance(found, dict):
        raise _wrong(name, "not an object", {})
    return found


def _number(found: Mapping[str, object], key: str, name: str) -> float:
    value = found[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise _wrong(name, f"{key} is {value!r}, expected a number of at least 0", {})
    return float(value)


def _wrong(name: str, what: str, facts: Mapping[str, str]) -> UsageError:
    example = "storage-per-gib-month = 0.023, get-per-1000 = 0.0004, reads-per-month = 30"
    return UsageError(
        f"{parameter('doctor table.prices')} {name}: {what}", code="usage.prices", facts={**facts, "expected": example}
    )


def seconds_of(requests: int, size_bytes: int) -> float:
    """Return an estimate of the time that a reader of a remote store needs for requests and bytes."""
    return requests * _SECONDS_PER_REQUEST / _AT_ONCE + size_bytes / _BYTES_PER_SECOND


@dataclass(frozen=True, kw_only=True)
class DoctorRequest:
    """What is examined. `prices`: those of the store (None: the built-in ones, where there are any). Without `listing`
    the files of the table are not listed, so nothing is known of unreferenced ones.
    """

    prices: PriceTable | None = None
    listing: bool = option(
        "Do not list the files of the table: no advice on unreferenced files.", kind=Kind.OPPOSITE, default=True
    )
