"""Requests: the arguments of reading rows, reading the change data feed, and listing the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.table.api_arguments import VersionBounds, require_count, require_optional_count


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """The arguments of a scan.

    Attributes:
        columns: Names of top-level columns, in the order of the result. None for all columns.
        where: A condition in SQL, such as `day >= '2026-01-01'`. None for all rows.
        row_ids: True to append the columns `_row_id` and `_row_commit_version`. `where` may use them.
        limit: The maximum number of rows. None for all rows.
    """

    columns: Sequence[str] | None = None
    where: str | None = None
    row_ids: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError if the limit is not a non-negative integer."""
        object.__setattr__(self, "limit", require_optional_count(self.limit, "limit"))


@dataclass(frozen=True, kw_only=True)
class ChangesRequest(ScanRequest, VersionBounds):
    """The arguments of reading the change data feed of a range of versions, including both ends.

    Each end is a version or a timestamp. A timestamp at the start means the first version committed at or
    after it; a timestamp at the end means the last version committed at or before it. The default end is
    the newest version.

    Attributes:
        columns: Names of top-level columns of the table. None for all columns. The columns of the change
            data feed, such as `_change_type`, are always appended.
    """

    def __post_init__(self) -> None:
        """Raise UsageError if an argument is invalid.

        The start of the range is required, and each end must be either a version or a timestamp.
        """
        ScanRequest.__post_init__(self)
        VersionBounds.__post_init__(self)
        if self.from_version is None and self.from_timestamp_ms is None:
            raise UsageError("the range of changes has no begin", facts={"expected": "from_version or from_timestamp"})


@dataclass(frozen=True, kw_only=True)
class HistoryRequest(VersionBounds):
    """The arguments of listing the commits of a range of versions.

    Attributes:
        limit: The maximum number of commits. The newest commits of the range are listed. 0 for all.
        counts: True to count the files and bytes that each commit adds and removes.
    """

    limit: int = 0
    counts: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError if the versions are in the wrong order, or the limit is not a non-negative integer."""
        super().__post_init__()
        if self.from_version is not None and self.to_version is not None and self.to_version < self.from_version:
            raise UsageError(f"to_version {self.to_version} is before from_version {self.from_version}")
        object.__setattr__(self, "limit", require_count(self.limit, "limit"))
