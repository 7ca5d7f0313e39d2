"""Small tables by hand, and what deltacli reads of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DataUnreadable
from tests.support.small_tables import ALL_FEATURES
from tests.support.small_types import Column, Type, Value, plain
from tests.support.small_writer import SmallTable


def column(name: str, kind: Type, number: int, *, physical: str | None = None, nullable: bool = True) -> Column:
    """A column that files identify by its name, by default."""
    return Column(name, kind, number, physical or name, nullable)


def new_table(root: Path, *columns: Column, partition: tuple[int, ...] = (), mapping: str = "none") -> SmallTable:
    """A table with nothing in it yet."""
    return SmallTable(root, columns, partition, mapping=mapping, features=ALL_FEATURES).create()


def read(table: SmallTable, version: int | None = None) -> list[tuple[Value, ...]]:
    """The rows of a version, in the order of their plain forms."""
    scan = open_table(str(table.root)).snapshot(version=version).scan()
    rows = [tuple(row.values()) for batch in scan for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: repr(plain(row)))


def error_of(table: SmallTable) -> DataUnreadable:
    """Why its newest version can't be read."""
    with pytest.raises(DataUnreadable) as raised:
        read(table)
    assert 3 == raised.value.exit_code
    return raised.value
