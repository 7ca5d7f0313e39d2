"""Which rows of a shared table to write, and what was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltacli.core.request_fields import Kind, option
from deltacli.core.typing import Json
from deltacli.table.read_requests import ScanRequest


@dataclass(frozen=True, kw_only=True)
class RowRequest(ScanRequest):
    """The rows to write. `form` is parquet, csv or ndjson."""

    columns: Sequence[str] | None = option("Write only these columns, in this order.", "A,B,…", Kind.NAMES)
    limit: int | None = option("Largest number of rows.", "N")
    form: str
    version: int | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """A file or directory of rows. For a dry run, `files` and `size_bytes` are those of the shared files to read."""

    target: str
    form: str
    shared_version: int
    files: int
    size_bytes: int
    rows: int | None = None
    is_directory: bool = False
    dry_run: bool = False

    @property
    def pattern(self) -> str:
        """Return what other tools take for all files of it."""
        return f"{self.target.rstrip('/')}/*.parquet" if self.is_directory else self.target

    def as_json(self) -> dict[str, Json]:
        """Return the fields of a document."""
        read = {"filesToDownload": self.files, "bytesToDownload": self.size_bytes}
        written = {"rows": self.rows, "filesWritten": self.files, "bytesWritten": self.size_bytes}
        return {
            "target": self.target,
            "as": self.form,
            "sharedVersion": self.shared_version,
            **(read if self.dry_run else written),
            "dryRun": self.dry_run,
        }
