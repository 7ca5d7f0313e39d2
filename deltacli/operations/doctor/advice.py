"""What a diagnosis found and what to do about it, with what that costs and saves.

The built-in prices are list prices of one region and storage class at one date, those of `deltacli.storage.retry` with
the price of storage. A file of prices replaces them. What is not known has no price, which is never zero.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deltacli.core.errors import UsageError, fill_table, parameter
from deltacli.core.times import format_duration
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_count, format_size
from deltacli.storage import ReadStorage
from deltacli.storage.tally import AZURE_PRICES, GCS_PRICES, S3_PRICES, Call, Prices

# -- what a diagnosis found --------------------------------------------------------------------------------------------

CREATE = "storage.no-atomic-create"
REPLACE = "storage.no-atomic-replace"
DISORDER = "storage.listing-disorder"
STALE_LISTING = "storage.listing-stale"
SHORT_LISTING = "storage.listing-incomplete"
RANGES_IGNORED = "storage.ranges-ignored"
RANGES_WRONG = "storage.ranges-wrong"
CONTENT = "storage.content-differs"
STALE_READ = "storage.read-unconditional"
CLOCK = "storage.clock-skew"
DELETE = "storage.delete-without-effect"
DELETE_FAILED = "storage.delete-failed"
DELETE_ALONE = "storage.delete-alone"
LEFT = "storage.scratch-left"
PERMISSION = "storage.permission"
CREDENTIALS = "storage.credentials"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class StoreFinding(NamedTuple):
    """One finding. `next` is what to do about it."""

    code: str
    severity: Severity
    message: str
    next: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "severity": self.severity, "message": self.message, "next": self.next}


def fails(findings: list[StoreFinding]) -> bool:
    """Return True where the exit code is that of findings."""
    return any(finding.severity is not Severity.INFO for finding in findings)


# -- the request, and prices of stores ---------------------------------------------------------------------------------

_GIB = 1 << 30
_KEYS = ("storage-per-gib-month", "get-per-1000", "list-per-1000")
_READS = "reads-per-month"
_SOURCE = "source"
_READS_PER_MONTH = 30.0
_MOST = 1e12
_SECONDS_PER_REQUEST, _AT_ONCE, _BYTES_PER_SECOND = 0.03, 16, 100e6
"""For estimates: seconds of a request to a remote store, requests at a time of a reader, bytes it reads per second."""
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
    storage, get, listing = (_number_of(found, key, name) if key in found else None for key in _KEYS)
    reads = _number_of(found, _READS, name) if _READS in found else _READS_PER_MONTH
    return PriceTable(
        source=source, storage_gib_month=storage, get_per_thousand=get, list_per_thousand=listing, reads_per_month=reads
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


def _number_of(found: Mapping[str, object], key: str, name: str) -> float:
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
    """What to examine of a table.

    Attributes:
        prices: Prices of the store, as `parse_prices` reads them from a file. None: the built-in ones, if there
            are any.
        listing: False to not list the files of the table. Nothing is known of unreferenced files then.
    """

    prices: PriceTable | None = None
    listing: bool = True


# -- advice ------------------------------------------------------------------------------------------------------------

LOST_FILES = "files.lost"
ARCHIVED_FILES = "files.archived"
SMALL_FILES = "files.small"
DELETED_ROWS = "files.deleted-rows"
UNREFERENCED = "files.unreferenced"
PARTITIONS = "partitions.too-many"
LOG_EXPIRED = "log.expired"
CHECKPOINT = "log.checkpoint-distance"
LOG_PROBLEMS = "log.problems"
NO_STATISTICS = "statistics.missing"
COLUMNS = "statistics.columns"
FEATURE = "features.unused"
RETENTIONS = "retention.out-of-order"

Numbers = Mapping[str, int | None]
"""Counts by name: `files`, `bytes`, `requests`, and what an advice is about besides; None where unknown."""


@dataclass(frozen=True, slots=True)
class Saves:
    """What an advice saves: files, bytes that are stored, requests of a read of the whole table, seconds of that read,
    and US dollars per month. Seconds and dollars are estimates, None where there is nothing to estimate them from.
    """

    files: int = 0
    size_bytes: int | None = 0
    requests: int = 0
    seconds: float | None = None
    dollars: float | None = None

    def as_json(self) -> dict[str, Json]:
        return {
            "bytes": self.size_bytes,
            "files": self.files,
            "requests": self.requests,
            "seconds": None if self.seconds is None else round(self.seconds, 2),
            "dollars": None if self.dollars is None else round(self.dollars, 4),
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice. `what` is that which `now` and `after` count. `command` is None where no command does it,
    and has a place for the name of the table.
    """

    code: str
    severity: Severity
    message: str
    what: str
    now: Numbers
    after: Numbers
    saves: Saves
    command: str | None

    @property
    def worth(self) -> float:
        """What it saves as one number, for the order: the seconds in which a remote store is asked for it."""
        saves = self.saves
        return seconds_of(max(saves.requests, saves.files), saves.size_bytes or 0)

    def command_for(self, name: str | None) -> str | None:
        """Return the command with the name of the table; None where there is none for this caller."""
        if not self.command:
            return None
        return fill_table(self.command, name)

    def as_json(self, name: str | None) -> dict[str, Json]:
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "what": self.what,
            "now": dict(self.now),
            "after": dict(self.after),
            "saves": self.saves.as_json(),
            "command": self.command_for(name),
        }


def saved(
    prices: PriceTable, *, files: int = 0, size_bytes: int | None = 0, requests: int = 0, read_bytes: int = 0
) -> Saves:
    """Return what is saved, with estimates. `requests` and `read_bytes` are those of one read of the table, which is
    repeated as often as the whole table is read.
    """
    parts = []
    if size_bytes:
        parts.append(prices.of_bytes(size_bytes))
    if requests:
        parts.append(prices.of_requests(round(requests * prices.reads_per_month)))
    known = [part for part in parts if part is not None]
    dollars = sum(known) if parts and len(known) == len(parts) else None
    seconds = seconds_of(requests, read_bytes) if requests or read_bytes else None
    return Saves(files, size_bytes, requests, seconds, dollars)


def numbers(found: Mapping[str, int | None]) -> str:
    """Return the numbers of an advice for people, without those that are not known."""
    return ", ".join(_number(name, value) for name, value in found.items() if value is not None) or "unknown"


def _number(name: str, value: int) -> str:
    if name == "bytes":
        return format_size(value)
    if name.endswith("Ms"):
        return f"{'log' if name == 'logMs' else 'files'} {format_duration(value)}"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return f"{format_count(value)} {words.removesuffix('s') if value == 1 else words}"


def saves(found: Mapping[str, float | None]) -> str:
    """Return what an advice saves for people, `saves 437 B; costs 1 request more per read`; estimates are marked."""
    gains, costs = _amounts(found, 1, ""), _amounts(found, -1, " more")
    parts = ("saves " + ", ".join(gains) if gains else "", "costs " + ", ".join(costs) if costs else "")
    return "; ".join(filter(None, parts))


def _amounts(found: Mapping[str, float | None], sign: int, more: str) -> list[str]:
    """Return the amounts with a sign, without it, and without those that people would read as 0."""
    values = {name: sign * (value or 0) for name, value in found.items()}
    counts = {name: int(values[name]) for name in ("files", "bytes", "requests") if values[name] > 0}
    said = [_number(name, value) + more + (" per read" if name == "requests" else "") for name, value in counts.items()]
    if values["seconds"] >= _LEAST_SECONDS:
        said.append(f"about {values['seconds']:,.1f} s{more} per read")
    if values["dollars"] > 0:
        said.append(f"about {dollars(values['dollars'])}{more} per month")
    return said


_LEAST_SECONDS = 0.05
"""Seconds that are not rounded to 0.0."""


def dollars(value: float) -> str:
    """Return an amount of US dollars: cents, and more digits below one."""
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}".rstrip("0")


def growth(found: JsonObject) -> str:
    """Return the growth of a document for people."""
    days = f"{found['days']:,.0f} days" if found["days"] >= 2 else f"{found['days']:.1f} days"
    said = f"{found['commitsPerDay']:,.1f} commits per day over {days}"
    if found["bytesPerDay"] is not None:
        size, files = round(found["bytesPerDay"]), found["filesPerDay"]
        sign = "-" if size < 0 else "+"
        said += f"; {sign}{format_size(abs(size))} and {files:+,.1f} files per day"
    return said
