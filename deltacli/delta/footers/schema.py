"""The schema of a Parquet file, as its footer has it. Spec: parquet.thrift, SchemaElement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow.parquet import ParquetReader
from deltacli.delta.footers.thrift import BINARY, INTEGERS, STRUCT, CompactReader

if TYPE_CHECKING:
    import pyarrow

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
    """`arrow`: as pyarrow reads the file, field ids under `PARQUET:field_id`; `leaves`: its columns in order; `nodes`:
    the top-level groups and columns.
    """

    arrow: pyarrow.Schema
    leaves: tuple[FileLeaf, ...]
    nodes: tuple[FileNode, ...] = ()


def read_schema(schema: bytes) -> FileSchema:
    """Read the schema at the start of a footer (`Footer.schema`). Raises pyarrow's errors if it is invalid."""
    import pyarrow as pa

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
