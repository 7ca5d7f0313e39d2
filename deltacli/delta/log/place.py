"""The place of a finding in a table."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """The place of a finding. `path` is relative to the table; `line` counts from 1; `key` names a file, a column or a
    property.
    """

    path: str
    line: int | None = None
    version: int | None = None
    key: str | None = None
