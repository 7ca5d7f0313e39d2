"""Columns of files of other writers that the directories of these files name, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.core.units import plural
from deltacli.work.foreign_files import StoredPartition


class _Overridden(NamedTuple):
    """A file with another value than its directory, or with values of which the footer does not tell."""

    path: str
    seen: str
    value: str | None


class OverriddenColumns:
    """Collects partition columns that are in files as well, with other values than the directories.

    Readers of Delta take the value of the log, which is that of the directory. The column in the file is not read.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, bool], _Overridden] = {}
        self._files: dict[tuple[str, bool], int] = {}

    def add(self, path: str, stored: StoredPartition, value: str | None, rows: int) -> None:
        """Add a column of a file.

        Args:
            path: The file.
            stored: The column in it.
            value: The partition value that is written for it; None for null.
            rows: The number of rows of the file.
        """
        if value is None:
            is_same = stored.nulls == rows
            is_known = stored.nulls is not None
        else:
            is_same = stored.low == stored.high == value and stored.nulls == 0
            is_known = stored.low is not None and stored.high is not None
        if is_same or not rows:
            return

        seen = f"values of type {stored.type_name}"
        if stored.low is not None and stored.high is not None:
            seen = stored.low[:80] if stored.low == stored.high else f"{stored.low[:80]} to {stored.high[:80]}"
        elif stored.nulls == rows:
            seen, is_known = "null", True
        key = stored.column, is_known
        self._first.setdefault(key, _Overridden(path, seen, value))
        self._files[key] = self._files.get(key, 0) + 1

    def describe(self) -> Iterator[str]:
        """Yield one sentence for each column, about values that differ, or that may differ."""
        for (column, is_known), first in self._first.items():
            files = plural(self._files[column, is_known], "file")
            other = "other values" if is_known else "values that may be others"
            yield (
                f"the column {column} of {files} has {other} than the directories, and is not read: "
                f"{first.path} has {first.seen}, and is read as {'null' if first.value is None else first.value}"
            )
