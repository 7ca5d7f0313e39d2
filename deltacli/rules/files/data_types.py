"""The columns of a table beside those of a data file, and rules about their types.

Columns are found as `schema/file_columns.py` finds them to read them; this goes on where that refuses.

What a reader of the table's types cannot take is an error, and so is what only a type change could explain that nobody
recorded.

Spec: Column Mapping: Reader Requirements for Column Mapping; Delta Data Type to Parquet Type Mappings; Type Widening.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.core.typing import ArrowField, ArrowType
from deltacli.delta.footers.columns import FileNode, FileSchema
from deltacli.delta.log.state import TableConfiguration, parse_integer_property
from deltacli.delta.schema import type_changes
from deltacli.delta.schema.file_columns import count_leaves, is_list, is_struct
from deltacli.delta.schema.misnamed_fields import MisnamedField, find_misnamed_fields
from deltacli.delta.schema.to_arrow import plain_type
from deltacli.delta.schema.types import (
    ID,
    MAX_COLUMN_ID,
    NESTED_IDS,
    WHOLE_BITS,
    ArrayType,
    DataType,
    MapType,
    NameIndex,
    PrimitiveType,
    StructField,
    StructType,
    simple_name,
    struct_fields,
)
from deltacli.delta.schema.variants import is_shredded, shredding_fault
from deltacli.rules.framework.base import Area, Finding, Level, ReadFault, Rule, Severity
from deltacli.rules.framework.data_file_views import FileFaultView, FileSchemaView
from deltacli.rules.protocol.iceberg import active

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
    misnamed: list[MisnamedField] = field(default_factory=list)
    """Fields that the file has under their logical names, without those of `other_ids`."""
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
        self._max_id = parse_integer_property(config.properties, MAX_COLUMN_ID)

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
        found_by_id = {other.path for other in self._found.other_ids}
        misnamed = find_misnamed_fields(schema.arrow, self._config)
        self._found.misnamed = [field for field in misnamed if field.path not in found_by_id]
        # Such a field is not missing, and an engine that rewrites the file would lose its values. One that must not be
        # null is reported as missing as well, because readers refuse the file for it.
        has_other_name = {field.path for field in misnamed}
        self._found.missing = [
            missing for missing in self._found.missing if missing.path not in has_other_name or _is_required(missing)
        ]
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


def _is_required(missing: MissingField) -> bool:
    return missing.is_sure and not missing.field.nullable


def is_three_levels(node: FileNode) -> bool:
    """True for a list whose element is in a group of its own. Spec: Parquet, Lists: Backward-compatibility rules."""
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
    for one in struct_fields(data_type):
        number = id_of(one)
        if number is not None:
            yield number
        nested = one.metadata.get(NESTED_IDS)
        if isinstance(nested, dict):
            yield from (value for value in nested.values() if isinstance(value, int))


# -- rules about the types of columns in data files against those of the table -----------------------------------------

AREA = Area("data_files", Level.FOOTERS, spec="Delta Data Type to Parquet Type Mappings")

REWRITE_BY_ENGINE = "rewrite the file with an engine"
TYPE_MISMATCH = AREA.error(
    "data.type-mismatch",
    "A column of a data file has a type that is not a form of the column's type in the table.",
    broken="readers fail at the file, or read wrong values",
    repair=REWRITE_BY_ENGINE,
    loss="nothing, if an engine can read the file",
    example="a column of BYTE_ARRAY (STRING) in a file, long in the table",
)
TYPE_WIDENING_UNRECORDED = AREA.error(
    "data.type-widening-unrecorded",
    "A column of a data file has a narrower type than the table, and no recorded type change explains it.",
    spec="Type Widening",
    broken="readers that do not expect the narrower type fail at the file, or read wrong values",
    repair="commit a metaData that records the change in delta.typeChanges, or rewrite the file with an engine",
    example="a column of INT32 in a file, long in the table, without delta.typeChanges",
)
DECIMAL_MISMATCH = AREA.error(
    "data.decimal-mismatch",
    "A decimal column of a data file has more digits than the table's decimal can hold.",
    broken="readers fail at the file, or read wrong values",
    repair=REWRITE_BY_ENGINE,
    loss="digits that the table's type does not have",
    example="DECIMAL(12,4) in a file, decimal(10,2) in the table",
)
TIMESTAMP_NOT_UTC = AREA.error(
    "data.timestamp-not-utc",
    "A timestamp column of a data file is not adjusted to UTC, or a timestamp_ntz column is.",
    spec="Primitive Types",
    broken="readers take the values for times in another zone, or fail",
    repair=REWRITE_BY_ENGINE,
    loss="nothing, if the zone is known",
    example="TIMESTAMP(isAdjustedToUTC=false) in a file, timestamp in the table",
)
TIMESTAMP_UNIT = AREA.warning(
    "data.timestamp-unit",
    "A timestamp column of a data file is not stored in microseconds.",
    broken="some readers fail at the file; parts of microseconds are cut off",
    repair="rewrite the file with an engine; Spark writes INT96 again unless spark.sql.parquet.outputTimestampType is "
    "TIMESTAMP_MICROS",
    loss="parts of microseconds",
    example="TIMESTAMP(NANOS) in a file; INT96, where Iceberg compatibility asks for INT64",
)
VOID_MATERIALISED = AREA.warning(
    "data.void-materialised",
    "A column of the type void is stored in a data file.",
    spec="Primitive Types: Void Type",
    broken="readers differ: some drop the column, some fail",
    repair=REWRITE_BY_ENGINE,
    loss="the values, which no reader uses",
    example="a column in a file, void in the table",
)
NESTED_LAYOUT = AREA.info(
    "data.nested-layout",
    "A list or a map of a data file has a layout of old writers.",
    broken="nothing for readers that know the layout; without its annotation a list or a map is not recognized",
    repair=REWRITE_BY_ENGINE,
    example="optional group a (LIST) { repeated int64 array; }",
)
VARIANT_SHAPE = AREA.error(
    "data.variant-shape",
    "A variant column of a data file is not a struct of metadata and value, is shredded without the feature, or "
    "contradicts itself.",
    spec="Variant Data Type; Variant Shredding",
    broken="readers fail at the file, or lose what is shredded; nothing, if only the property is off",
    repair=REWRITE_BY_ENGINE,
    example="a variant column with the fields metadata, value and typed_value, without variantShredding",
)


_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_ICEBERG_UNIT = "INT64 in microseconds"
_SMALL = ("byte", "short", "integer")
_VARIANT_FIELDS = {"metadata", "value"}
_SHREDDING_ENABLED = "delta.enableVariantShredding"
_SHREDDING = ("variantShredding", "variantShredding-preview")


class TypeFault(NamedTuple):
    """What is wrong with the type that a file has for a part of the table."""

    rule: Rule
    seen: str
    expected: str
    words: str
    severity: Severity | None = None


def match_of(view: FileSchemaView) -> FileMatch:
    """The table beside the files of a view, matched once."""
    match = view.memory.get("match")
    if not isinstance(match, FileMatch):
        match = view.memory["match"] = match_file(view.schema, view.config)
    return match


@AREA.check(
    FileSchemaView,
    TYPE_MISMATCH,
    TYPE_WIDENING_UNRECORDED,
    DECIMAL_MISMATCH,
    TIMESTAMP_NOT_UTC,
    TIMESTAMP_UNIT,
    VOID_MATERIALISED,
    VARIANT_SHAPE,
    NESTED_LAYOUT,
)
def types_of_columns(view: FileSchemaView) -> Iterator[Finding]:
    """The type of every part of the table that the files have."""
    for part in match_of(view).parts:
        fault = type_fault(part, view.schema, view.config)
        if fault is not None:
            message = f"column {part.path} {fault.words} in {view.shown_files}"
            place = view.place._replace(key=part.path)
            yield fault.rule.at(place, message, seen=fault.seen, expected=fault.expected, severity=fault.severity)


@AREA.check_faults(FileFaultView, TYPE_MISMATCH, VARIANT_SHAPE)
def values_that_do_not_fit(view: FileFaultView) -> Iterator[ReadFault]:
    """Values that kept the rows of a file from being read; of a type that does so, its schema tells."""
    if view.fault.seen is not None:
        message = f"{view.place.key} cannot be read: {view.fault.message}"
        yield ReadFault(view.fault.code, view.place, message, view.fault.seen)


def type_fault(part: MatchedPart, schema: FileSchema, config: TableConfiguration) -> TypeFault | None:
    """What is wrong with one part; what is in it is judged by itself."""
    kind, data_type = part.file.kind, part.data_type
    if data_type == PrimitiveType("void"):
        return _void_fault(part)
    if pa.types.is_null(kind):
        return None
    match data_type:
        case PrimitiveType("variant"):
            return _variant_fault(part, schema, config)
        case StructType():
            return None if is_struct(kind) else _mismatch(kind, data_type)
        case ArrayType():
            return None if is_list(kind) else _nested_fault(kind, data_type)
        case MapType():
            return None if pa.types.is_map(kind) else _nested_fault(kind, data_type)
        case PrimitiveType(name):
            if plain_type(_stored(name)) is None:
                return None  # a type that only the schema's own rules judge
            if pa.types.is_nested(kind):
                return _mismatch(kind, data_type)
            if name.startswith("timestamp") and pa.types.is_timestamp(kind):
                return _time_fault(part, name, schema, config)
            return _primitive_fault(part, type_changes.canonical_name(_stored(name)))


def is_final(part: MatchedPart) -> bool:
    """True if a file has the very type that the table has now, and no narrower one."""
    if not isinstance(part.data_type, PrimitiveType) or pa.types.is_null(part.file.kind):
        return True
    return delta_type(part.file.kind) == type_changes.canonical_name(part.data_type.name)


def delta_type(kind: ArrowType) -> str | None:
    """The type of a table whose form in files an Arrow type is; None where there is none."""
    types = pa.types
    if types.is_signed_integer(kind):
        return {8: "byte", 16: "short", 32: "integer", 64: "long"}[kind.bit_width]
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    known = (
        (types.is_float32, "float"),
        (types.is_float64, "double"),
        (types.is_date, "date"),
        (types.is_boolean, "boolean"),
        (types.is_string, "string"),
        (types.is_binary, "binary"),
    )
    return next((name for test, name in known if test(kind)), None)


def describe_type(kind: ArrowType) -> str:
    """A type in a file, in the words of tables where these have one."""
    if pa.types.is_timestamp(kind):
        zone = "without a zone" if kind.tz is None else "in UTC"
        return f"timestamp in {_UNITS[kind.unit]} {zone}"
    if pa.types.is_unsigned_integer(kind):
        return f"unsigned integer of {kind.bit_width} bits"
    if is_struct(kind):
        return "struct"
    if is_list(kind):
        return f"array<{describe_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{describe_type(kind.key_type)}, {describe_type(kind.item_type)}>"
    return delta_type(kind) or str(kind)


def _stored(name: str) -> str:
    """The type that files know a string with a collation by."""
    return "string" if name.startswith(("string collate ", "char(", "varchar(")) else name


def _mismatch(kind: Any, data_type: DataType, severity: Severity | None = None) -> TypeFault:
    seen, expected = describe_type(kind), simple_name(data_type)
    return TypeFault(TYPE_MISMATCH, seen, expected, f"of type {expected} is {seen}", severity)


def _void_fault(part: MatchedPart) -> TypeFault | None:
    """A field that should not be there is left alone; what stands within a list or a map has to be read."""
    seen = describe_type(part.file.kind)
    if part.field_path is None:
        return TypeFault(VOID_MATERIALISED, seen, "no column", "is void, and stored")
    if pa.types.is_null(part.file.kind):
        return None
    return TypeFault(VOID_MATERIALISED, seen, "nulls", f"is void, and stored as {seen}", Severity.ERROR)


# -- nested types ----------------------------------------------------------------------------------------------------


def _nested_fault(kind: Any, data_type: ArrayType | MapType) -> TypeFault:
    """A list or map that is none; a group of one repeated group is one without its annotation."""
    expected = simple_name(data_type)
    if is_struct(kind) and kind.num_fields == 1 and is_list(kind.field(0).type):
        what = "map" if isinstance(data_type, MapType) else "list"
        seen = f"a group without the annotation of a {what}"
        return TypeFault(
            NESTED_LAYOUT, seen, expected, f"of type {expected} lacks the annotation of a {what}", Severity.ERROR
        )
    return _mismatch(kind, data_type)


def _variant_fault(part: MatchedPart, schema: FileSchema, config: TableConfiguration) -> TypeFault | None:
    expected, kind = "struct of metadata and value", part.file.kind
    if not is_struct(kind):
        seen = describe_type(kind)
        return TypeFault(VARIANT_SHAPE, seen, expected, f"of type variant is {seen}")
    names = [field.name for field in kind]
    if is_shredded(kind):
        return _shredding_fault(part, schema, config)
    are_bytes = all(type_changes.fits_type(field.type, "binary") for field in kind)
    if len(names) == len(_VARIANT_FIELDS) and set(names) == _VARIANT_FIELDS and are_bytes:
        return None
    seen = f"struct of {', '.join(names)}" if not are_bytes or names else "struct of nothing"
    return TypeFault(VARIANT_SHAPE, seen, expected, f"of type variant is a {seen}")


def _shredding_fault(part: MatchedPart, schema: FileSchema, config: TableConfiguration) -> TypeFault | None:
    """Return what is wrong with typed columns, or that the table does not announce them."""
    kind = part.file.kind
    seen = ", ".join(field.name for field in kind)
    leaves = schema.leaves[part.file.leaf : part.file.leaf + count_leaves(kind)]
    fault = shredding_fault(kind)
    if fault is None and any(leaf.physical_type == "INT96" for leaf in leaves):
        fault = "a typed value is INT96"
    if fault is not None:
        words = f"of type variant is shredded into columns that cannot be read: {fault},"
        return TypeFault(VARIANT_SHAPE, seen, "the types of Variant Shredding", words)
    if not any(name in config.features for name in _SHREDDING):
        words = "of type variant is shredded, which the table does not support,"
        return TypeFault(VARIANT_SHAPE, seen, "struct of metadata and value", words)
    if not config.is_on(_SHREDDING_ENABLED):
        words = f"of type variant is shredded, which {_SHREDDING_ENABLED} does not allow now,"
        expected = f"{_SHREDDING_ENABLED}=true, or a file from before it was turned off"
        return TypeFault(VARIANT_SHAPE, seen, expected, words, Severity.INFO)
    return None


# -- primitive types -------------------------------------------------------------------------------------------------


def _time_fault(part: MatchedPart, name: str, schema: FileSchema, config: TableConfiguration) -> TypeFault | None:
    kind = part.file.kind
    is_int96 = schema.leaves[part.file.leaf].physical_type == "INT96"
    if is_int96:
        is_forbidden = bool(active(config))
        severity = Severity.ERROR if is_forbidden else Severity.INFO
        words = "is INT96" + (", which Iceberg compatibility forbids," if is_forbidden else "")
        return TypeFault(TIMESTAMP_UNIT, "INT96", _ICEBERG_UNIT, words, severity)
    wants_zone = name == "timestamp"
    if (kind.tz is not None) != wants_zone:
        seen, expected = (f"isAdjustedToUTC={'true' if flag else 'false'}" for flag in (not wants_zone, wants_zone))
        words = f"of type {name} is {'not ' if wants_zone else ''}adjusted to UTC"
        return TypeFault(TIMESTAMP_NOT_UTC, seen, expected, words)
    if kind.unit != "us":
        seen = _UNITS[kind.unit]
        return TypeFault(TIMESTAMP_UNIT, seen, "microseconds", f"of type {name} is in {seen}")
    return None


def _primitive_fault(part: MatchedPart, name: str) -> TypeFault | None:
    types, kind = pa.types, part.file.kind
    if not type_changes.fits_type(kind, name):
        if types.is_decimal(kind) and type_changes.digits_of_decimal(name) is not None:
            seen = describe_type(kind)
            return TypeFault(DECIMAL_MISMATCH, seen, name, f"of type {name} is {seen}")
        return _mismatch(kind, part.data_type)
    if types.is_unsigned_integer(kind) or types.is_float16(kind) or types.is_fixed_size_binary(kind):
        return _mismatch(kind, part.data_type, Severity.WARNING)
    stored_type = delta_type(kind)
    if stored_type == name or stored_type in ("string", "binary", None) or _is_wider_on_paper(stored_type, name):
        return None
    if _is_explained(part, stored_type):
        return None
    is_on_paper = stored_type in WHOLE_BITS and name in _SMALL
    severity = Severity.WARNING if is_on_paper else None
    words = f"of type {name} is {stored_type}, and no type change explains it,"
    return TypeFault(TYPE_WIDENING_UNRECORDED, stored_type, name, words, severity)


def _is_wider_on_paper(stored: str, name: str) -> bool:
    """True for the integers of 32 bits that take the place of shorter ones, as long as the values fit."""
    return name in WHOLE_BITS and stored in WHOLE_BITS and WHOLE_BITS[stored] > WHOLE_BITS[name]


def _is_explained(part: MatchedPart, stored: str) -> bool:
    """True if the column once had the type: one of the changes that led to the present one begins with it."""
    changes = [
        entry
        for entry in type_changes.read_type_changes(part.field)
        if isinstance(entry, type_changes.TypeChange) and entry.field_path == part.field_path
    ]
    earlier = {entry.from_type for entry in changes}
    # Writers may leave out that a column of 32 bits has but 8 or 16, and may say so of one that has not.
    return stored in earlier or (stored in _SMALL and bool(earlier & set(_SMALL)))
