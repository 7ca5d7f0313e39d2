"""The table whose data files are examined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from deltacli.delta.log.place import Place
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.storage import Storage
from deltacli.work.rows.table_files import TableFiles


class TableContext(NamedTuple):
    """The table whose files are checked. `sizes`: path of every file below it, not encoded -> bytes."""

    storage: Storage
    files: TableFiles
    config: TableConfiguration
    sizes: Mapping[str, int]
    place: Place
    """The configuration of the newest version."""
