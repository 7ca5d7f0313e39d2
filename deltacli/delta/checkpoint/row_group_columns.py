"""Columns and row groups of a checkpoint that is read: which can hold what. Spec: Checkpoint Schema; V2 Spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.delta.footers.thrift import read_null_counts

if TYPE_CHECKING:
    import pyarrow.parquet

SMALL_ACTIONS = {
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
    "checkpointMetadata": "version",
}
"""Every small action of a checkpoint with the leaf that is never null in it: where the leaf is null, the row is
another action.
"""

_VECTOR_LEAVES = ("storageType", "pathOrInlineDv", "offset", "cardinality")


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: what it may hold according to its footer statistics. True if they do not say."""

    index: int
    rows: int
    has_adds: bool
    has_removes: bool
    has_add_vectors: bool
    has_remove_vectors: bool
    removes_are_whole: bool
    """Every remove with a deletionTimestamp has a path."""
    stats_are_parsed: bool
    """Every add has stats_parsed.numRecords, so the JSON text need not be read."""
    needs_parsed_stats: bool
    "Some adds have statistics only in stats_parsed."


class CheckpointColumns:
    """The leaves one Parquet file of a checkpoint has, found by name; unknown ones are ignored."""

    def __init__(self, metadata: pyarrow.parquet.FileMetaData, footer: bytes = b"") -> None:
        """`footer` is the bytes that `metadata` was read from. Without them nothing is known about any row group."""
        self._metadata = metadata
        self._footer = footer
        schema = metadata.schema
        self._leaves = {schema.column(index).path for index in range(len(schema))}
        self._null_counts: dict[str, list[int | None]] = {}

    def has(self, prefix: str) -> bool:
        """True if a leaf of that name, or below it, exists."""
        return any(leaf == prefix or leaf.startswith(f"{prefix}.") for leaf in self._leaves)

    def row_groups(self) -> list[RowGroup]:
        """Describe every row group by its footer alone."""
        return [self._describe(index) for index in range(self._metadata.num_row_groups)]

    def holds(self, group: int, leaf: str) -> bool:
        """Return False only if the footer proves that every value of the leaf is null in that row group (or the leaf is
        absent).
        """
        return leaf in self._leaves and self._nulls(group, leaf) != self._metadata.row_group(group).num_rows

    def narrow_add(self, group: RowGroup, *, with_paths: bool, with_records: bool = True) -> list[str]:
        """Return the leaves needed to count the adds of a row group; those of their rows only with `with_records`."""
        wanted = [
            "add.size",
            *(f"add.deletionVector.{leaf}" for leaf in _VECTOR_LEAVES if group.has_add_vectors),
        ]
        if with_paths:
            wanted.append("add.path")
        if not with_records:
            return [leaf for leaf in wanted if leaf in self._leaves]
        if "add.stats_parsed.numRecords" in self._leaves:
            wanted.append("add.stats_parsed.numRecords")
        if not group.stats_are_parsed:
            wanted.append("add.stats")
        return [leaf for leaf in wanted if leaf in self._leaves]

    def narrow_remove(self, group: RowGroup, *, with_paths: bool) -> list[str]:
        """Return the leaves needed to count the removes of a row group."""
        wanted = ["remove.deletionTimestamp"]
        if with_paths or not group.removes_are_whole:
            wanted.append("remove.path")  # an incomplete remove is recognized by its missing path
        if with_paths and group.has_remove_vectors:
            wanted += [f"remove.deletionVector.{leaf}" for leaf in _VECTOR_LEAVES]
        leaves = [leaf for leaf in wanted if leaf in self._leaves]
        return leaves or ["remove.path"]

    def whole(self, kind: str, fields: Sequence[str]) -> list[str]:
        """The prefixes of the named fields of `add` or `remove` that this file has."""
        return [f"{kind}.{name}" for name in fields if self.has(f"{kind}.{name}")]

    def _describe(self, index: int) -> RowGroup:
        rows = self._metadata.row_group(index).num_rows
        add_nulls = self._nulls(index, "add.path")
        parsed_nulls = self._nulls(index, "add.stats_parsed.numRecords")
        text_nulls = self._nulls(index, "add.stats")
        lacks_texts = text_nulls is not None and add_nulls is not None and text_nulls > add_nulls
        return RowGroup(
            index,
            rows,
            has_adds=self.holds(index, "add.path"),
            has_removes=self.holds(index, "remove.path") or self.holds(index, "remove.deletionTimestamp"),
            has_add_vectors=self.holds(index, "add.deletionVector.storageType"),
            has_remove_vectors=self.holds(index, "remove.deletionVector.storageType"),
            removes_are_whole=self._nulls(index, "remove.path") == self._nulls(index, "remove.deletionTimestamp"),
            stats_are_parsed=add_nulls is not None and parsed_nulls is not None and add_nulls == parsed_nulls,
            needs_parsed_stats=self.has("add.stats_parsed") and ("add.stats" not in self._leaves or lacks_texts),
        )

    def _nulls(self, group: int, leaf: str) -> int | None:
        """Return the null count of a leaf in a row group, or None if the footer has none."""
        if leaf not in self._leaves:
            return None
        if leaf not in self._null_counts:
            self._null_counts[leaf] = read_null_counts(self._footer, leaf, self._metadata.num_row_groups)
        return self._null_counts[leaf][group]
