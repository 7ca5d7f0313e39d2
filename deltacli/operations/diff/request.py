"""The request for a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.errors import UsageError
from deltacli.core.hints import parameter
from deltacli.core.request_fields import Kind, option
from deltacli.table.api_arguments import VersionEnds
from deltacli.table.handle import TableHandle


@dataclass(frozen=True, kw_only=True)
class DiffRequest(VersionEnds):
    """The two versions to compare, each by its number or by a time at which it was the newest; None: the newest one.

    `other` is the table of the second version, where that is another one. With `rows`, rows are compared by the columns
    `key`.
    """

    other: TableHandle | None = None
    rows: bool = option("Compare the rows as well, by the key; reads both versions.", default=False)
    key: Sequence[str] = option("Columns that identify a row.", "A,B,…", Kind.COLUMNS, default=())
    temp_dir: str | None = option(
        "Directory for temporary files of compared rows.  [default: that of the system]", "DIR", Kind.TEXT
    )

    def __post_init__(self) -> None:
        """Raise UsageError for ends that are given twice, and for a comparison of the newest version with itself."""
        super().__post_init__()
        if isinstance(self.key, str):
            raise UsageError(f"{parameter('diff.key')} is a text, expected a list of columns")
        object.__setattr__(self, "key", tuple(self.key))
        if self.rows != bool(self.key):
            names = parameter("diff.rows", True), parameter("diff.key", "COLUMNS")
            raise UsageError(f"{names[0]} and {names[1]} belong together")
        if self.other is None and self.begin == self.end == (None, None):
            raise UsageError(
                "the newest version is compared with itself", facts={"expected": "two versions, or two tables"}
            )

    @property
    def begin(self) -> tuple[int | None, int | None]:
        """The first version, or its time in epoch milliseconds."""
        return self.from_version, self.from_timestamp_ms

    @property
    def end(self) -> tuple[int | None, int | None]:
        """The second version, or its time."""
        return self.to_version, self.to_timestamp_ms
