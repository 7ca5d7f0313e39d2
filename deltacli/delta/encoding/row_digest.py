"""A digest of rows that come in batches: a checksum of every value, every null and every length, column by column.

It depends on the order of the rows, but neither on their batches nor on values hidden below a null.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Protocol

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowType, RecordBatch

if TYPE_CHECKING:
    import pyarrow


class Digest(Protocol):
    """Takes rows of one schema."""

    def take(self, rows: RecordBatch) -> None:
        """Add rows."""

    def answer(self) -> tuple[int, ...]:
        """Return the digest of the rows so far, equal for equal rows."""


class RowDigest:
    """The digest of rows in one order."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        self._columns = [_Column(field.type) for field in schema]

    def take(self, rows: RecordBatch) -> None:
        """Add a batch or a table, whose columns have the types of the schema."""
        import pyarrow as pa

        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            for column, values in zip(self._columns, batch.columns, strict=True):
                column.take(values)

    def answer(self) -> tuple[int, ...]:
        """Return the number of values, and the checksums of each column, with those of its parts."""
        return tuple(number for column in self._columns for number in column.answer())


class _Column:
    """The checksums of a column: which values are null, how long each is, and what they contain."""

    def __init__(self, kind: ArrowType) -> None:
        import pyarrow as pa

        types = pa.types
        self._count = self._nulls = self._lengths = self._content = 0
        self._parts: list[_Column] = []
        if types.is_struct(kind):
            self._add, inside = self._add_struct, [field.type for field in kind]
        elif types.is_map(kind):
            self._add, inside = self._add_map, [kind.key_type, kind.item_type]
        elif types.is_list(kind):
            self._add, inside = self._add_list, [kind.value_type]
        else:
            is_text = types.is_string(kind) or types.is_binary(kind)
            self._add, inside = self._add_texts if is_text else self._add_values, []
        self._parts = [_Column(part) for part in inside]

    def take(self, values: Any) -> None:
        if values.null_count:
            places = pc.add(pc.cast(pc.indices_nonzero(pc.is_null(values)), _int64()), self._count)
            self._nulls = zlib.crc32(_bytes(places), self._nulls)
        self._count += len(values)
        present = pc.drop_null(values) if values.null_count else values
        if len(present):
            self._add(present)

    def answer(self) -> list[int]:
        own = [self._count, self._nulls, self._lengths, self._content]
        return own + [number for part in self._parts for number in part.answer()]

    def _add_struct(self, values: Any) -> None:
        for part, inner in zip(self._parts, values.flatten(), strict=True):
            part.take(inner)

    def _add_list(self, values: Any) -> None:
        self._lengths = zlib.crc32(_bytes(pc.list_value_length(values)), self._lengths)
        self._parts[0].take(pc.list_flatten(values))

    def _add_map(self, values: Any) -> None:
        offsets = values.offsets
        self._lengths = zlib.crc32(_bytes(pc.subtract(offsets.slice(1), offsets.slice(0, len(values)))), self._lengths)
        first, last = offsets[0].as_py(), offsets[len(values)].as_py()
        for part, inner in zip(self._parts, (values.keys, values.items), strict=True):
            part.take(inner.slice(first, last - first))

    def _add_texts(self, values: Any) -> None:
        self._lengths = zlib.crc32(_bytes(pc.binary_length(values)), self._lengths)
        offsets = memoryview(values.buffers()[1]).cast("i")
        first, last = offsets[values.offset], offsets[values.offset + len(values)]
        if last > first:
            self._content = zlib.crc32(memoryview(values.buffers()[2])[first:last], self._content)

    def _add_values(self, values: Any) -> None:
        import pyarrow as pa

        fixed = pc.cast(values, pa.uint8()) if pa.types.is_boolean(values.type) else values
        self._content = zlib.crc32(_bytes(fixed), self._content)


def _int64() -> Any:
    import pyarrow as pa

    return pa.int64()


def _bytes(values: Any) -> memoryview:
    """Return the bytes of values of fixed width, none of which is null."""
    width = values.type.bit_width // 8
    return memoryview(values.buffers()[1])[values.offset * width : (values.offset + len(values)) * width]
