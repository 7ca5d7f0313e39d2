"""The columns that rows are ordered by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from deltacli.core.errors import UsageError, quote_identifier
from deltacli.delta.clustering.clustering_columns import ClusteringColumn
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.column_path import CODE, ColumnFinder, PathPart
from deltacli.delta.schema.types import COLLATIONS, StructType, simple_name
from deltacli.delta.stats.collect import BOUNDED
from deltacli.delta.stats.schema import STATS_COLUMNS, ColumnPath, bound_kind, indexed_columns

MOST_COLUMNS = 32
"""Of a z-order: each has at least one bit of a key."""


class OrderColumn(NamedTuple):
    """A column: its logical path as a user writes it, the same as names, and its path of physical names."""

    text: str
    names: ColumnPath
    path: ColumnPath

    @property
    def recorded(self) -> str:
        """The name in commitInfo and in tags, as the reference implementation writes it."""
        return ".".join(quote_identifier(name) if "." in name else name for name in self.names)


def order_columns(
    config: TableConfiguration, texts: Sequence[str], clustering: Collection[ColumnPath] = ()
) -> tuple[OrderColumn, ...]:
    """Return the columns to order rows by; those of the physical paths `clustering` have statistics in any case.

    Raises UsageError (`usage.column`) for one that does not exist, that is named twice, or by which no file could be
    skipped: partition columns, columns without statistics, types without an order.
    """
    finder = ColumnFinder(config.schema or StructType(()))
    indexed = {path for path, _ in indexed_columns(config, clustering)}
    found: dict[ColumnPath, OrderColumn] = {}
    for text in texts:
        place = finder.find(text)
        path = tuple(config.physical_name(field) for field in place.fields)
        if path[0] in config.partition_columns:
            raise _refused(place.text, "it is a partition column: files are already separated by it")
        if any(step.part is not PathPart.FIELD for step in place.steps) or bound_kind(place.data_type) not in BOUNDED:
            raise _refused(place.text, f"files have no minimum and maximum of type {simple_name(place.data_type)}")
        if COLLATIONS in place.nearest.metadata:
            raise _refused(place.text, "it has a collation, which orders texts differently")
        if path not in indexed:
            raise _refused(place.text, f"files have no statistics of it; {STATS_COLUMNS} selects the columns that have")
        if path in found:
            raise _refused(place.text, "it is named twice")
        found[path] = OrderColumn(place.text, tuple(field.name for field in place.fields), path)
    if not 1 <= len(found) <= MOST_COLUMNS:
        raise UsageError(f"rows can be ordered by 1 to {MOST_COLUMNS} columns, not by {len(found)}", code=CODE)
    return tuple(found.values())


def column_text(column: ClusteringColumn) -> str:
    """Return a column as a user writes it."""
    return ".".join(quote_identifier(field.name) for field in column.fields)


def _refused(name: str, reason: str) -> UsageError:
    return UsageError(f"rows cannot be ordered by column {name}: {reason}", code=CODE)
