"""The requests for rows, those of a version and how they changed, and for commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Kind, option
from deltacli.table.api_arguments import VersionEnds, count_number, optional_count


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """Which rows: top-level columns in the order wanted (None: all), a condition in SQL, and how many at most."""

    columns: Sequence[str] | None = option("Show only these columns, in this order.", "A,B,…", Kind.NAMES)
    where: str | None = option("Return only rows that match it.", "CONDITION")
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a limit that is not a number of rows."""
        object.__setattr__(self, "limit", optional_count(self.limit, "limit"))


@dataclass(frozen=True, kw_only=True)
class ChangesRequest(ScanRequest, VersionEnds):
    """Which changes of rows: those of a range of versions, both ends included. An end is a version, or a time: the
    first version committed at or after it, the last one at or before it. Without an end, the newest version.
    """

    columns: Sequence[str] | None = option(
        "Show only these columns of the table; those of the change follow.", "A,B,…", Kind.NAMES
    )

    def __post_init__(self) -> None:
        """Raise UsageError also for ends that are given twice, and for a range without a begin."""
        ScanRequest.__post_init__(self)
        VersionEnds.__post_init__(self)
        if self.from_version is None and self.from_timestamp_ms is None:
            raise UsageError("the range of changes has no begin", facts={"expected": "from_version or from_timestamp"})


@dataclass(frozen=True, kw_only=True)
class HistoryRequest(VersionEnds):
    """Which commits: the newest `limit` (0: all) of a range with both ends, and whether their files are counted."""

    limit: int = 0
    counts: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError also for versions in the wrong order, and a limit that is not a number of commits."""
        super().__post_init__()
        if self.from_version is not None and self.to_version is not None and self.to_version < self.from_version:
            raise UsageError(f"to_version {self.to_version} is before from_version {self.from_version}")
        object.__setattr__(self, "limit", count_number(self.limit, "limit"))
