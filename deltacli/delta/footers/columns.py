"""The columns of a Parquet file according to its footer: its schema, and the bounds of column chunks.

Bytes are interpreted by the type of their column. Bounds of a wrong
length, of an undefined order (INT96, unsigned integers), or of a type that does not match the table's are treated as
unknown.

Spec: parquet.thrift, SchemaElement; parquet.thrift, Statistics; ColumnOrder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.typing import ArrowType
from deltacli.delta.footers.thrift import BINARY, INTEGERS, STRUCT, CompactReader
from deltacli.delta.schema.type_changes import to_microseconds
from deltacli.delta.schema.types import decimal_parts
from deltacli.delta.stats.schema import StatColumn, StatKind

_NO_ROWS = b"\x16\x00\x19\x0c\x00"
"The end of a footer of a file without rows: field 3, a zero; field 4, an empty list; the end."
_MAGIC = b"PAR1"
_REPEATED = 2
_NESTED_CONVERTED = frozenset({1, 2, 3})
"""MAP, MAP_KEY_VALUE and LIST among the converted types."""
_NESTED_LOGICAL = frozenset({2, 3})
"""MAP and LIST among the logical types."""


class FileLeaf(NamedTuple):
    """A column of a file with Parquet's type names: `physical_type` INT64, `logical_type` and `converted_type` as
    pyarrow spells them; lengths and decimals are 0 or -1 if there are none.
    """

    path: str
    physical_type: str
    logical_type: str
    converted_type: str
    length: int
    precision: int
    scale: int
    max_definition_level: int
    max_repetition_level: int


class FileNode(NamedTuple):
    """A group or a column as in the footer. `is_annotated`: as a list or a map. Columns have no children."""

    name: str
    is_repeated: bool
    is_annotated: bool
    children: tuple[FileNode, ...]


@dataclass(frozen=True)
class FileSchema:
    """`arrow`: as pyarrow reads it, ids as `PARQUET:field_id`; `leaves`: columns in order; `nodes`: the top level."""

    arrow: pa.Schema
    leaves: tuple[FileLeaf, ...]
    nodes: tuple[FileNode, ...] = ()


def read_schema(schema: bytes) -> FileSchema:
    """Read the schema at the start of a footer (`Footer.schema`). Raises pyarrow's errors if it is invalid."""
    footer = schema + _NO_ROWS
    data = b"".join((_MAGIC, footer, len(footer).to_bytes(4, "little"), _MAGIC))
    file = ParquetReader(pa.BufferReader(data))
    return FileSchema(file.schema_arrow, leaves_of(file.metadata.schema), _read_nodes(schema))


def leaves_of(schema: Any) -> tuple[FileLeaf, ...]:  # Any: a schema of Parquet
    """Return the columns of a schema as pyarrow read it."""
    return tuple(
        FileLeaf(
            leaf.path,
            str(leaf.physical_type),
            str(leaf.logical_type),
            str(leaf.converted_type),
            leaf.length or 0,
            leaf.precision or 0,
            leaf.scale or 0,
            leaf.max_definition_level,
            leaf.max_repetition_level,
        )
        for leaf in map(schema.column, range(len(schema)))
    )


class _Element(NamedTuple):
    """One SchemaElement with the number of its children."""

    name: str
    is_repeated: bool
    is_annotated: bool
    child_count: int


def _read_nodes(schema: bytes) -> tuple[FileNode, ...]:
    """Return the tree of a schema that pyarrow has read, whose elements come parents first."""
    reader = CompactReader(schema)
    elements: list[_Element] = []
    for field, kind in reader.fields():
        if field != 2:
            reader.skip(kind)
            continue
        count, _ = reader.elements()
        elements = [_read_element(reader) for _ in range(count)]
        break  # the bytes end with the list
    done: list[FileNode] = []
    for element in reversed(elements):
        children = tuple(done[len(done) - element.child_count :][::-1])
        del done[len(done) - element.child_count :]
        done.append(FileNode(element.name, element.is_repeated, element.is_annotated, children))
    return done[-1].children if done else ()


def _read_element(reader: CompactReader) -> _Element:
    fields: dict[int, Any] = {}  # Any: numbers and bytes
    is_annotated = False
    for field, kind in reader.fields():
        if kind in INTEGERS:
            fields[field] = reader.integer()
        elif kind == BINARY:
            fields[field] = reader.binary()
        elif field == 10 and kind == STRUCT:
            for logical, inner in reader.fields():
                is_annotated = is_annotated or logical in _NESTED_LOGICAL
                reader.skip(inner)
        else:
            reader.skip(kind)
    name = fields.get(4, b"").decode("utf-8", "replace")
    is_annotated = is_annotated or fields.get(6) in _NESTED_CONVERTED
    return _Element(name, fields.get(3) == _REPEATED, is_annotated, max(fields.get(5, 0), 0))


# -- the bounds of column chunks as comparable values, many at a time --------------------------------------------------

_SECONDS_A_DAY = 86_400
_MICROSECONDS_A_DAY = 86_400_000_000
_PER_MICROSECOND = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""Unit of a timestamp -> microseconds as a fraction."""
_MOST_DECIMAL_BYTES = 16
_SIGN = b"\x80"


def decode_bounds(leaf: FileLeaf, kind: Any, column: StatColumn, data: Any) -> Any:  # Any: Arrow types and arrays
    """Return bounds of a leaf, whose Arrow type is `kind`, in the form of `comparable_type`, or None without such."""
    types = pa.types
    match column.kind:
        case StatKind.WHOLE if types.is_signed_integer(kind):
            return _integers(leaf, data)
        case StatKind.FLOAT:
            return _floats(leaf, kind, data)
        case StatKind.DECIMAL:
            return _decimals(leaf, kind, column, data)
        case StatKind.DATE if types.is_date32(kind):
            return _scaled(_integers(leaf, data), _SECONDS_A_DAY, 1)
        case StatKind.TIMESTAMP if types.is_date32(kind):
            return _scaled(_integers(leaf, data), _MICROSECONDS_A_DAY, 1)
        case StatKind.TIMESTAMP if types.is_timestamp(kind):
            return _scaled(_integers(leaf, data), *_PER_MICROSECOND[kind.unit])
        case StatKind.TEXT if leaf.physical_type == "BYTE_ARRAY" and not types.is_decimal(kind):
            return data
        case StatKind.BOOLEAN if leaf.physical_type == "BOOLEAN":
            return pc.cast(pc.index_in(data, value_set=pa.array([b"\x00", b"\x01"])), pa.int64())
    return None


def comparable_type(column: StatColumn) -> ArrowType:
    """Return the type in which values of a column are compared: dates in seconds, times in microseconds, text as its
    bytes; None for types without an order.
    """
    match column.kind:
        case StatKind.WHOLE | StatKind.DATE | StatKind.TIMESTAMP | StatKind.BOOLEAN:
            return pa.int64()
        case StatKind.FLOAT:
            return pa.float64()
        case StatKind.DECIMAL:
            return pa.decimal256(76, (decimal_parts(column.type_name) or (38, 0))[1])
        case StatKind.TEXT:
            return pa.binary()
    return None


def _integers(leaf: FileLeaf, data: Any) -> Any:
    width = {"INT32": 4, "INT64": 8}.get(leaf.physical_type)
    if width is None:
        return None
    return pc.cast(_of_width(data, width, pa.int32() if width == 4 else pa.int64()), pa.int64())


def _of_width(data: Any, width: int, kind: Any) -> Any:
    """Return bytes of one width as numbers, null for another width."""
    sized = pc.if_else(pc.equal(pc.binary_length(data), width), data, pa.scalar(None, pa.binary()))
    fixed = pc.cast(sized, pa.binary(width))
    return pa.Array.from_buffers(kind, len(fixed), fixed.buffers(), offset=fixed.offset)


def _scaled(numbers: Any, factor: int, divisor: int) -> Any:
    """Return numbers times a fraction, null on overflow of 64 bits."""
    if numbers is None or factor == divisor:
        return numbers
    if divisor > 1:
        return to_microseconds(numbers)
    limit = ((1 << 63) - 1) // factor
    fits = pc.and_(pc.less_equal(numbers, limit), pc.greater_equal(numbers, -limit))
    return pc.multiply(pc.if_else(fits, numbers, pa.scalar(None, pa.int64())), factor)


def _floats(leaf: FileLeaf, kind: Any, data: Any) -> Any:
    """Return doubles. NaN is not a bound."""
    if pa.types.is_signed_integer(kind) and kind.bit_width <= 32:
        whole = _integers(leaf, data)
        return None if whole is None else pc.cast(whole, pa.float64())
    form = {"FLOAT": (4, pa.float32()), "DOUBLE": (8, pa.float64())}.get(leaf.physical_type)
    if form is None:
        return None
    numbers = pc.cast(_of_width(data, *form), pa.float64())
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)


def _decimals(leaf: FileLeaf, kind: Any, column: StatColumn, data: Any) -> Any:
    wanted = comparable_type(column)
    if pa.types.is_signed_integer(kind):
        whole, scale = _integers(leaf, data), 0
    elif not pa.types.is_decimal(kind) or kind.scale > wanted.scale:
        return None
    elif leaf.physical_type in ("INT32", "INT64"):
        whole, scale = _integers(leaf, data), kind.scale
    elif leaf.physical_type in ("FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"):
        return pc.cast(_big_endian(leaf, data, kind.scale), wanted)
    else:
        return None
    if whole is None:
        return None
    # The digits without a point, read with another scale.
    unscaled = pc.cast(whole, pa.decimal128(19, 0))
    return pc.cast(pa.Array.from_buffers(pa.decimal128(38, scale), len(whole), unscaled.buffers()), wanted)


def _big_endian(leaf: FileLeaf, data: Any, scale: int) -> Any:
    """Return decimals of up to 16 bytes, the highest byte first."""
    length = pc.binary_length(data)
    is_sized = pc.and_(pc.greater(length, 0), pc.less_equal(length, _MOST_DECIMAL_BYTES))
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        is_sized = pc.and_(is_sized, pc.equal(length, leaf.length))
    data = pc.if_else(is_sized, data, pa.scalar(None, pa.binary()))
    missing = pc.subtract(_MOST_DECIMAL_BYTES, pc.binary_length(data))
    is_negative = pc.greater_equal(pc.binary_slice(data, 0, 1), pa.scalar(_SIGN))
    head = pc.binary_repeat(pc.if_else(is_negative, pa.scalar(b"\xff"), pa.scalar(b"\x00")), missing)
    fixed = pc.cast(pc.binary_reverse(pc.binary_join_element_wise(head, data, pa.scalar(b""))), pa.binary(16))
    numbers = pa.Array.from_buffers(pa.decimal128(38, scale), len(fixed), fixed.buffers(), offset=fixed.offset)
    wide = pc.cast(numbers, pa.decimal256(76, scale))
    limit = pa.scalar(10 ** (38 - scale), pa.decimal256(76, scale))
    return pc.if_else(pc.less(pc.abs(wide), limit), wide, pa.scalar(None, wide.type))
