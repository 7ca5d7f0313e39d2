"""The partition values of a view in columns, extracted from their maps once. Spec: Add File and Remove File."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray
from deltacli.delta.schema.types import PrimitiveType
from deltacli.rules.framework.views import FilesView


@dataclass(frozen=True)
class PartitionColumn:
    """The values of one partition column.

    `rows` are the rows of the view that have one, None for all. `type_name` is None if the text cannot be checked: a
    column that is not in the schema, or a type that cannot partition.
    """

    name: str
    physical_name: str
    type_name: str | None
    is_nullable: bool
    values: ArrowArray
    rows: ArrowArray

    def row(self, index: int) -> int:
        """Return the row of the view."""
        return index if self.rows is None else int(self.rows[index].as_py())

    def occurrences(self, texts: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Return where in the column any of these texts occurs."""
        import pyarrow as pa

        indices = pc.indices_nonzero(pc.is_in(self.values, value_set=pa.array(texts, pa.string())))
        yield from zip(indices.to_pylist(), pc.take(self.values, indices).to_pylist(), strict=True)

    def text_at(self, row: int) -> str | None:
        """Return the text of a row of the view."""
        index = row if self.rows is None else self.rows.index(row).as_py()
        text: str | None = self.values[index].as_py()
        return text


class PartitionKeys:
    """The maps of a view, split into keys and values. `expected` are the physical names of the partition columns."""

    def __init__(self, view: FilesView) -> None:
        self._config = view.config
        self.maps = view.adds.column("partitionValues")
        self.expected = list(view.config.partition_columns)
        first, last = self.maps.offsets[0].as_py(), self.maps.offsets[len(self.maps)].as_py()
        self._keys = self.maps.keys.slice(first, last - first)
        self._items = self.maps.items.slice(first, last - first)
        sizes = pc.subtract(self.maps.offsets.slice(1), self.maps.offsets.slice(0, len(self.maps)))
        self._sizes = sizes
        self._foreign = [name for name in pc.unique(self._keys).to_pylist() if name not in self.expected]
        self.are_regular = (
            not self._foreign
            and self.maps.null_count == 0
            and bool(pc.all(pc.equal(sizes, len(self.expected))).as_py())
        )
        self._parents: Any = None
        self._columns: list[PartitionColumn] | None = None

    def names_of(self, row: int) -> list[str]:
        """Return the keys of one row."""
        return [key for key, _ in self.maps[row].as_py() or ()]

    def rows_with_values(self) -> list[int]:
        """Return rows whose map is not empty."""
        rows: list[int] = pc.indices_nonzero(pc.greater(self._sizes, 0)).to_pylist()
        return rows

    def irregular_rows(self) -> list[int]:
        """Return rows whose keys are not exactly the partition columns."""
        import pyarrow as pa

        if self.are_regular:
            return []
        wrong = pc.and_(pc.not_equal(self._sizes, len(self.expected)), pc.is_valid(self.maps))
        rows = set(pc.indices_nonzero(wrong).to_pylist())
        if self._foreign:
            strange = pc.is_in(self._keys, value_set=pa.array(self._foreign, pa.string()))
            rows.update(pc.filter(self._parent_rows(), strange).to_pylist())
        return sorted(rows)

    def columns(self) -> list[PartitionColumn]:
        """Return the values of every partition column."""
        if self._columns is None:
            self._columns = [self._column(name) for name in self.expected]
        return self._columns

    def _column(self, physical: str) -> PartitionColumn:
        field = self._config.partition_columns[physical]
        primitive = field is not None and isinstance(field.data_type, PrimitiveType)
        type_name = field.data_type.name if field and isinstance(field.data_type, PrimitiveType) and primitive else None
        name, is_nullable = (field.name, field.nullable) if field else (physical, True)
        if self.are_regular and len(self.expected) == 1:
            return PartitionColumn(name, physical, type_name, is_nullable, self._items, None)
        mask = pc.equal(self._keys, physical)
        rows = None if self.are_regular else pc.filter(self._parent_rows(), mask)
        return PartitionColumn(name, physical, type_name, is_nullable, pc.filter(self._items, mask), rows)

    def _parent_rows(self) -> ArrowArray:
        import pyarrow as pa

        if self._parents is None:
            lists = pa.ListArray.from_arrays(self.maps.offsets, self.maps.keys)
            self._parents = pc.list_parent_indices(lists)
        return self._parents


def keys_of(view: FilesView) -> PartitionKeys:
    """Return the partition values of a view, parsed at the first call."""
    keys = view.memory.get("partition_keys")
    if not isinstance(keys, PartitionKeys):
        keys = view.memory["partition_keys"] = PartitionKeys(view)
    return keys
