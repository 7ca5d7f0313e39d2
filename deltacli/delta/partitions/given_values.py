"""Partition values that a user gives for files whose own values are missing or invalid.

p=5                     for all such files
p=5 @ 2026/*.parquet    for those whose path in the log matches the glob
p=                      null
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from deltacli.core.errors import UsageError, parameter
from deltacli.delta.partitions.values import HIVE_DEFAULT

_SEPARATOR = " @ "


class GivenValue(NamedTuple):
    """A partition value that a user gives. `text` is None for null, `glob` None for all files."""

    column: str
    text: str | None
    glob: str | None

    def is_for(self, path: str) -> bool:
        """Return whether the value is given for a file, by its path in the log."""
        return self.glob is None or self.glob == path or fnmatchcase(path, self.glob)


def parse_given_value(text: str) -> GivenValue:
    """Return the value of an option `COL=VALUE` or `COL=VALUE @ GLOB`. Raises UsageError."""
    column, equals, rest = text.partition("=")
    value, separator, glob = rest.rpartition(_SEPARATOR)
    if not separator:
        value, glob = rest, ""
    if not equals or not column.strip() or bool(separator) != bool(glob.strip()):
        raise UsageError(
            f"{parameter('repair.partition_values')} {text[:80]!r} is not a value of a partition column",
            code="usage.partition-value",
            facts={"expected": "COL=VALUE, or 'COL=VALUE @ GLOB' for the files whose path in the log matches"},
        )
    is_null = value in ("", HIVE_DEFAULT)
    return GivenValue(column.strip(), None if is_null else value, glob.strip() or None)
