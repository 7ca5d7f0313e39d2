"""The number of files that a plan or an outcome refers to, and their total size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from deltacli.core.typing import Json


class FileTotals(NamedTuple):
    """A number of files, with their total size and rows.

    Attributes:
        files: The number of files.
        size_bytes: The total size of the files whose size is known.
        rows: The total number of rows; None if the number is unknown for any file.
    """

    files: int = 0
    size_bytes: int = 0
    rows: int | None = None

    @classmethod
    def from_sizes(cls, sizes: Iterable[int]) -> FileTotals:
        """Return the totals of files with these sizes in bytes. The number of rows is unknown."""
        all_sizes = list(sizes)
        return cls(len(all_sizes), sum(all_sizes))

    def __add__(self, other: FileTotals) -> FileTotals:  # type: ignore[override]
        """Return the totals of two groups of files. The number of rows is None if it is None for either group."""
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return FileTotals(self.files + other.files, self.size_bytes + other.size_bytes, rows)

    def as_json(self, **names: str) -> dict[str, Json]:
        """Return the totals as fields of a JSON document.

        Args:
            names: The attribute for each field of the document, such as `count="files"`. By default the fields are
                `files` and `sizeBytes`.
        """
        names = names or {"files": "files", "sizeBytes": "size_bytes"}
        return {name: getattr(self, attribute) for name, attribute in names.items()}


NO_FILES = FileTotals()
