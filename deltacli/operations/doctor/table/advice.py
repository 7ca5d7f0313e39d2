"""Advice: what to do about a table, with the numbers of now and of afterwards, what that saves, and the command; and
these numbers in words, the same on terminals and on pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.core.hints import fill_hint, spelling
from deltacli.core.typing import Json, JsonObject
from deltacli.core.units import format_count, format_duration, format_size
from deltacli.operations.doctor.findings import Severity
from deltacli.operations.doctor.table.prices import seconds_of

if TYPE_CHECKING:
    from deltacli.operations.doctor.table.prices import PriceTable

LOST_FILES = "files.lost"
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
        """As in the document."""
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
        return fill_hint(self.command, None) if name is None else spelling().fill(self.command, name)

    def as_json(self, name: str | None) -> dict[str, Json]:
        """As in the document."""
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
    prices: PriceTable,
    *,
    files: int = 0,
    size_bytes: int | None = 0,
    requests: int = 0,
    read_bytes: int = 0,
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
