"""The number of files that a plan or an outcome is about, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from deltacli.core.typing import Json


class FileTotals(NamedTuple):
    """A number of files, with their total size and rows.

    Attributes:
        files: The number of files.
        size_bytes: Their total size as far as it is known.
        rows: The total number of their rows; None if it is not known of every file.
    """

    files: int = 0
    size_bytes: int = 0
    rows: int | None = None

    @classmethod
    def from_sizes(cls, sizes: Iterable[int]) -> FileTotals:
        """Return the totals of files of these sizes in bytes, whose rows are not known."""
        all_sizes = list(sizes)
        return cls(len(all_sizes), sum(all_sizes))

    def __add__(self, other: FileTotals) -> FileTotals:  # type: ignore[override]
        """Return the totals of both together. Their rows are known only if those of both are."""
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        return FileTotals(self.files + other.files, self.size_bytes + other.size_bytes, rows)

    def as_json(self, **names: str) -> dict[str, Json]:
        """Return the totals as in a document.

        Args:
            names: The fields of the document, and the attribute that each has: `count="files"`. Without any, `files`
                and `sizeBytes`.
        """
        names = names or {"files": "files", "sizeBytes": "size_bytes"}
        return {name: getattr(self, attribute) for name, attribute in names.items()}


NO_FILES = FileTotals()
