"""The request for a copy of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from deltacli.core.errors import UsageError, parameter
from deltacli.core.units import parse_size
from deltacli.table.api_arguments import require_at_least

_LEAST_RATE = 1 << 10
"""Bytes per second. A number without its unit is less, and the copy would seem to hang."""


class CopyLevel(StrEnum):
    """How much of the copies is compared with the source: sizes, footers, every byte."""

    STORAGE = "storage"
    FOOTERS = "footers"
    DATA = "data"


@dataclass(frozen=True, kw_only=True)
class CopyRequest:
    """Which versions to copy, as what, and how the copy is verified.

    Attributes:
        target: The directory of the copy: a path or a URI.
        versions: A range of versions such as `5-12`. None: all that can be rebuilt.
        newest: True to copy the newest version only.
        replica: True to keep the table id and every commit. A later copy brings the replica up to date.
        check: True to compare the target with the source, and copy nothing.
        level: What is compared: `storage`, `footers` or `data`.
        keep_external: True to keep paths that lead out of the source. Their files are not copied.
        threads: The number of files that are copied at a time. None: what the stores allow.
        rate: Bytes per second, or text such as `50MiB/s`. None: no limit.
        time_budget_ms: No file is begun after this time, in milliseconds. None: no limit.
        dry_run: True to plan only, and change nothing.
    """

    target: str = field(default="", kw_only=False)
    versions: str | None = None
    newest: bool = False
    replica: bool = False
    check: bool = False
    level: str = CopyLevel.STORAGE
    keep_external: bool = False
    threads: int | None = None
    rate: str | int | None = None
    time_budget_ms: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Bring the values to one form. Raises UsageError."""
        require_at_least(1, self.threads, "threads")
        rate = self.rate
        if isinstance(rate, str):
            rate = parse_size(rate.strip().removesuffix("/s"), parameter("copy.rate"))
            object.__setattr__(self, "rate", rate)
        if rate is not None and (type(rate) is not int or rate < _LEAST_RATE):
            why = f"{rate:,} bytes per second is less than 1 KiB/s" if type(rate) is int else f"{rate!r} is not a rate"
            raise UsageError(f"{parameter('copy.rate')} {why}", facts={"expected": "50MiB/s"})
        if self.time_budget_ms is not None and self.time_budget_ms < 0:
            raise UsageError(f"{parameter('copy.time_budget_ms')} is negative")
        try:
            object.__setattr__(self, "level", CopyLevel(self.level))
        except ValueError as fault:
            raise UsageError(f"{parameter('copy.level')} {self.level!r} is not storage, footers or data") from fault
        if self.newest and self.versions is not None:
            raise UsageError(f"{parameter('copy.newest')} cannot be used with {parameter('copy.versions')}")
        if self.replica and self.last is not None:
            raise UsageError(f"a replica follows its source: {parameter('copy.versions')} is for copies")
        if self.first is not None and self.last is not None and self.first > self.last:
            raise UsageError(f"{parameter('copy.versions')} {self.versions}: the first version is after the last")

    @property
    def first(self) -> int | None:
        return self._range[0]

    @property
    def last(self) -> int | None:
        return self._range[1]

    @property
    def _range(self) -> tuple[int | None, int | None]:
        if self.versions is None:
            return None, None
        found = re.fullmatch(r"\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*|\s*([0-9]{1,18})\s*", self.versions)
        if found is None:
            name = parameter("copy.versions")
            raise UsageError(f"{name} {self.versions} is not a range of versions", facts={"expected": "5-12"})
        return int(found[1] or found[3]), int(found[2] or found[3])
