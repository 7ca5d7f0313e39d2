"""The columns of a table beside those of a data file: what is found where, what is missing, what nobody asked for.

Columns are found as `schema/file_columns.py` finds them to read them; this goes on where that refuses. Spec: Column
Mapping: Reader Requirements for Column Mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deltacli.core.typing import ArrowField, ArrowType
from deltacli.delta.footers.schema import FileNode, FileSchema
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_values import parse_integer
from deltacli.delta.schema.file_columns import count_leaves, is_list, is_struct
from deltacli.delta.schema.names import ID, MAX_COLUMN_ID, NESTED_IDS, NameIndex
from deltacli.delta.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    struct_fields,
)

_FIELD_ID = b"PARQUET:field_id"


class InFile(NamedTuple):
    """One field of a file, or an element, key or value: its Arrow type without extensions, the number of its first
    column, its group or column in the footer (None: not known).
    """

    name: str
    kind: ArrowType
    nullable: bool
    file_id: int | None
    leaf: int
    node: FileNode | None


class Nullable(NamedTuple):
    """A field of the table that can be null in a file."""

    path: str
    field: StructField


class MatchedPart(NamedTuple):
    """A column or nested field of the table, or an element, key or value, and what a file has in its place.

    `path` is logical. `field` is the nearest field; `field_path` leads from it to this part, as in type changes, and is
    None for the field itself. `nullable` are the fields from the top to this one that can be null in the file; None
    within lists and maps.
    """

    path: str
    data_type: DataType
    field: StructField
    field_path: str | None
    file: InFile
    nullable: tuple[Nullable, ...] | None


class MissingField(NamedTuple):
    """A field that the file does not have. `is_sure`: every row misses it, because what is around it is never null."""

    path: str
    field: StructField
    is_sure: bool


class UnknownField(NamedTuple):
    """A field that the table does not have. `is_top`: a column."""

    path: str
    name: str
    is_top: bool


class Alike(NamedTuple):
    """A field that cannot be told from others in the file."""

    path: str
    names: tuple[str, ...]


class OtherId(NamedTuple):
    """A field that is not found because its name and its id are not at one place in the file. `seen` is the id beside
    its name; else `seen_name` is the name beside its id.
    """

    path: str
    name: str
    expected: int
    seen: int | None
    seen_name: str | None


@dataclass
class FileMatch:
    """A table and one schema of its files."""

    parts: list[MatchedPart] = field(default_factory=list)
    missing: list[MissingField] = field(default_factory=list)
    unknown: list[UnknownField] = field(default_factory=list)
    alike: list[Alike] = field(default_factory=list)
    other_ids: list[OtherId] = field(default_factory=list)
    logical: list[MissingField] = field(default_factory=list)
    """Fields that the file has under their logical names, where it has none of their struct as the mapping demands. One
    among others may have been dropped and added again."""
    partitions: dict[str, bool] = field(default_factory=dict)
    """Logical names of the partition columns, and whether the file has them."""


def match_file(schema: FileSchema, config: TableConfiguration) -> FileMatch:
    """Look for every column of a table in a file."""
    return _Matcher(config).run(schema)


def id_of(column: StructField) -> int | None:
    """The id of a field under column mapping."""
    number = column.metadata.get(ID)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def plain(kind: ArrowType) -> ArrowType:
    """An Arrow type without the extensions around it."""
    import pyarrow as pa

    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind


class _Siblings:
    """The fields of a struct in a file, looked up as readers look them up."""

    def __init__(self, fields: Sequence[InFile], *, by_id: bool) -> None:
        self.fields = fields
        self.ids: dict[int, int] = {}
        self.names: dict[str, int] = {}
        for position, one in enumerate(fields):
            if one.file_id is not None:
                self.ids.setdefault(one.file_id, position)
            self.names.setdefault(one.name, position)
        self._alike = NameIndex(None if by_id and one.file_id is not None else one.name for one in fields)

    def alike(self, name: str) -> Sequence[int]:
        """Where a name stands that no id forbids."""
        return self._alike.places_of(name)


class _Place(NamedTuple):
    """Where a field of the table is in the file: the positions that it may have, and what is odd about them."""

    positions: tuple[int, ...] = ()
    alike: Alike | None = None
    other_id: OtherId | None = None


class _Above(NamedTuple):
    """What is around a field."""

    path: str = ""
    nullable: tuple[Nullable, ...] | None = ()


class _Matcher:
    def __init__(self, config: TableConfiguration) -> None:
        self._config = config
        self._mode = config.mapping_mode
        self._found = FileMatch()
        self._ids = set(_ids_of(config.schema)) if config.schema is not None else set()
        self._max_id = parse_integer(config.properties, MAX_COLUMN_ID)

    def run(self, schema: FileSchema) -> FileMatch:
        """Match the columns, and everything in them."""
        if self._config.schema is None:
            return self._found
        siblings = self._siblings(schema.arrow, 0, schema.nodes)
        partitions = {column.name for column in self._config.partition_columns.values() if column is not None}
        taken: set[int] = set()
        columns = []
        for column in self._config.schema.fields:
            if column.name in partitions:
                place = self._place(siblings, column, column.name)
                self._found.partitions[column.name] = bool(place.positions)
                taken.update(place.positions)
            else:
                columns.append(column)
        self._fields(siblings, columns, _Above(), taken)
        return self._found

    def _siblings(self, fields: Iterable[Any], leaf: int, nodes: Sequence[FileNode]) -> _Siblings:
        """The fields of a struct, from the Arrow fields whose leaves begin at `leaf`."""
        siblings = []
        for position, one in enumerate(fields):
            siblings.append(_in_file(one, leaf, nodes[position] if position < len(nodes) else None))
            leaf += count_leaves(one.type)
        return _Siblings(siblings, by_id=self._mode == "id")

    def _place(self, siblings: _Siblings, column: StructField, path: str) -> _Place:
        wanted = id_of(column) if self._mode != "none" else None
        if self._mode == "id" and wanted in siblings.ids:
            return _Place((siblings.ids[wanted],))
        name = self._config.physical_name(column)
        alike = siblings.alike(name)
        if alike:
            names = tuple(siblings.fields[position].name for position in alike)
            return _Place(tuple(alike), Alike(path, names) if len(alike) > 1 else None)
        if wanted is None:
            return _Place()
        if name in siblings.names:  # mode id: the name is there, with another id
            position = siblings.names[name]
            return _Place((position,), None, OtherId(path, name, wanted, siblings.fields[position].file_id, None))
        if wanted in siblings.ids:  # mode name: the id is there, at another name
            position = siblings.ids[wanted]
            return _Place((position,), None, OtherId(path, name, wanted, None, siblings.fields[position].name))
        return _Place()

    def _fields(
        self, siblings: _Siblings, columns: Sequence[StructField], above: _Above, taken: set[int] | None = None
    ) -> None:
        taken = set() if taken is None else taken
        paths = [f"{above.path}.{column.name}" if above.path else column.name for column in columns]
        places = [self._place(siblings, column, path) for column, path in zip(columns, paths, strict=True)]
        for place in places:
            if place.other_id is None or place.other_id.seen is not None:
                taken.update(place.positions)
        for column, path, place in zip(columns, paths, places, strict=True):
            if place.alike is not None:
                self._found.alike.append(place.alike)
            elif place.other_id is not None and (place.other_id.seen is not None or place.positions[0] not in taken):
                self._found.other_ids.append(place.other_id)
                taken.update(place.positions)
            elif place.other_id is None and place.positions:
                one = siblings.fields[place.positions[0]]
                nullable = above.nullable
                if nullable is not None and one.nullable:
                    nullable = (*nullable, Nullable(path, column))
                self._part(MatchedPart(path, column.data_type, column, None, one, nullable))
            elif column.data_type != PrimitiveType("void"):
                self._found.missing.append(MissingField(path, column, above.nullable == ()))
        if self._mode != "none" and not any(place.positions for place in places):
            named = [
                (path, column) for path, column in zip(paths, columns, strict=True) if column.name in siblings.names
            ]
            self._found.logical += [MissingField(path, column, above.nullable == ()) for path, column in named]
        for position, one in enumerate(siblings.fields):
            if position not in taken and not self._was_dropped(one):
                path = f"{above.path}.{one.name}" if above.path else one.name
                self._found.unknown.append(UnknownField(path, one.name, not above.path))

    def _was_dropped(self, one: InFile) -> bool:
        """True for what may be a column of older versions. Files from before column mapping have no ids."""
        if self._mode == "none":
            return False
        if one.file_id is None:
            return True
        return one.file_id not in self._ids and self._max_id is not None and one.file_id <= self._max_id

    def _part(self, part: MatchedPart) -> None:
        """Take a part down, and those in it as far as the file has the same."""
        import pyarrow as pa

        self._found.parts.append(part)
        one, kind = part.file, part.file.kind
        match part.data_type:
            case StructType(fields) if is_struct(kind):
                children = one.node.children if one.node is not None else ()
                self._fields(self._siblings(kind, one.leaf, children), fields, _Above(part.path, part.nullable))
            case ArrayType(element) if is_list(kind):
                node = element_node(one.node) if one.node is not None else None
                self._inner(part, "element", element, _in_file(kind.value_field, one.leaf, node))
            case MapType(key, value) if pa.types.is_map(kind):
                nodes = entry_nodes(one.node) if one.node is not None else (None, None)
                behind = one.leaf + count_leaves(kind.key_type)
                self._inner(part, "key", key, _in_file(kind.key_field, one.leaf, nodes[0]))
                self._inner(part, "value", value, _in_file(kind.item_field, behind, nodes[1]))

    def _inner(self, part: MatchedPart, step: str, data_type: DataType, one: InFile) -> None:
        field_path = f"{part.field_path}.{step}" if part.field_path else step
        self._part(MatchedPart(f"{part.path}.{step}", data_type, part.field, field_path, one, None))


def is_three_levels(node: FileNode) -> bool:
    """True for a list whose element is in a repeated group of its own. Spec: Parquet, Lists: Backward-compatibility
    rules.
    """
    if node.is_repeated or len(node.children) != 1:
        return False
    inner = node.children[0]
    is_element = inner.name == "array" or inner.name.endswith("_tuple")
    return len(inner.children) == 1 and not is_element and not inner.children[0].is_repeated


def element_node(node: FileNode) -> FileNode | None:
    """The element of a list in any of its forms."""
    if node.is_repeated:
        return node._replace(is_repeated=False)
    if len(node.children) != 1:
        return None
    inner = node.children[0]
    return inner.children[0] if is_three_levels(node) else inner._replace(is_repeated=False)


def entry_nodes(node: FileNode) -> tuple[FileNode | None, FileNode | None]:
    """Key and value of a map."""
    inside = node.children[0].children if len(node.children) == 1 else ()
    return (inside[0], inside[1]) if len(inside) == 2 else (None, None)


def _in_file(one: ArrowField, leaf: int, node: FileNode | None) -> InFile:
    file_id = (one.metadata or {}).get(_FIELD_ID)
    return InFile(one.name, plain(one.type), one.nullable, int(file_id) if file_id else None, leaf, node)


def _ids_of(data_type: DataType) -> Iterator[int]:
    """The ids of all fields, parts of lists and maps among them."""
    for one in struct_fields(data_type):
        number = id_of(one)
        if number is not None:
            yield number
        nested = one.metadata.get(NESTED_IDS)
        if isinstance(nested, dict):
            yield from (value for value in nested.values() if isinstance(value, int))
