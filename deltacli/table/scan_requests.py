"""The requests for rows of a version, for changes of rows, and for commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Kind, option
from deltacli.table.api_arguments import VersionBounds, require_count, require_optional_count


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """The choice of rows of a version to read.

    Attributes:
        columns: Names of top-level columns, in the order wanted. None: all columns.
        where: A condition in SQL that the rows have to meet. None: all rows.
        row_ids: True to add the columns `_row_id` and `_row_commit_version` behind the others. `where` may use
            them.
        limit: The largest number of rows. None: all rows.
    """

    columns: Sequence[str] | None = option("Show only these columns, in this order.", "A,B,…", Kind.NAMES)
    where: str | None = option("Return only rows that match it.", "CONDITION")
    row_ids: bool = option("Add the id of each row and the version of its last change.", default=False)
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a limit that is not a number of rows."""
        object.__setattr__(self, "limit", require_optional_count(self.limit, "limit"))


@dataclass(frozen=True, kw_only=True)
class ChangesRequest(ScanRequest, VersionBounds):
    """The choice of changes of rows to read: those of a range of versions, both ends included.

    An end is a version, or a time: the first version committed at or after it, the last one at or before
    it. Without an end, the newest version.

    Attributes:
        columns: Names of top-level columns of the table. None: all of them. Those of the change follow.
    """

    columns: Sequence[str] | None = option(
        "Show only these columns of the table; those of the change follow.", "A,B,…", Kind.NAMES
    )

    def __post_init__(self) -> None:
        """Raise UsageError also for ends that are given twice, and for a range without a begin."""
        ScanRequest.__post_init__(self)
        VersionBounds.__post_init__(self)
        if self.from_version is None and self.from_timestamp_ms is None:
            raise UsageError("the range of changes has no begin", facts={"expected": "from_version or from_timestamp"})


@dataclass(frozen=True, kw_only=True)
class HistoryRequest(VersionBounds):
    """The choice of commits to list, and whether their files are counted.

    Attributes:
        limit: The number of commits, the newest of the range. 0: all of them.
        counts: True to count the files and bytes that each commit adds and removes.
    """

    limit: int = 0
    counts: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError also for versions in the wrong order, and a limit that is not a number of commits."""
        super().__post_init__()
        if self.from_version is not None and self.to_version is not None and self.to_version < self.from_version:
            raise UsageError(f"to_version {self.to_version} is before from_version {self.from_version}")
        object.__setattr__(self, "limit", require_count(self.limit, "limit"))
