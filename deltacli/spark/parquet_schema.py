"""How Spark's Parquet scan has to read the columns of a table in one file: names, types and missing fields.

Spark finds columns by name, and pushes filters down by name. So it is given the names and the types that the file
itself has, and the table's names and types are derived from these. Files with the same answer share one scan.
Spec: Reader Requirements for Column Mapping; Type Widening; Delta Data Type to Parquet Type Mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from deltacli.core.typing import ArrowField, ArrowType
from deltacli.delta.schema.kinds import FIXED_TEXTS, WHOLE_BITS, decimal_parts
from deltacli.delta.schema.names import NameIndex
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

_FIELD_ID = b"PARQUET:field_id"


class NotNative(Exception):
    """Why Spark's own scan is not used; the text finishes "read by deltacli, because "."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts: `stored` is the type to read, `wanted` the table's, as in a schemaString."""

    stored: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that the file does not have. It is null."""


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a struct: its name in the table, and in the file."""

    name: str
    stored_name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct. `witness` is a field that only shows which structs are null, where no other field is in the file."""

    parts: tuple[Part, ...]
    witness: Part | None = None


@dataclass(frozen=True, slots=True)
class List:
    element: Node


@dataclass(frozen=True, slots=True)
class Map:
    key: Node
    value: Node


Node: TypeAlias = Leaf | Missing | Struct | List | Map

Shape: TypeAlias = tuple[Part, ...]
"""The columns of a table in files of one kind, in the order in which they are needed."""


def assumed_shape(columns: Sequence[StructField], physical_name: Callable[[StructField], str]) -> Shape:
    """Return the shape of files that have every column in the table's type. Spark reads a missing one as null."""
    return tuple(
        Part(column.name, physical_name(column), _assumed(column.data_type, physical_name)) for column in columns
    )


def _assumed(data_type: DataType, physical_name: Callable[[StructField], str]) -> Node:
    match data_type:
        case PrimitiveType("void"):
            return Missing()
        case PrimitiveType(name):
            return Leaf(name, name)
        case StructType(fields):
            return Struct(assumed_shape(fields, physical_name))
        case ArrayType(element):
            return List(_assumed(element, physical_name))
        case MapType(key, value):
            return Map(_assumed(key, physical_name), _assumed(value, physical_name))


class FileShapes:
    """Finds the shape of files by their Arrow schemas. `is_case_sensitive`: how the session compares names."""

    def __init__(
        self, mapping_mode: str, physical_name: Callable[[StructField], str], *, is_case_sensitive: bool
    ) -> None:
        self._by_id = mapping_mode == "id"
        self._physical_name = physical_name
        self._is_case_sensitive = is_case_sensitive
        self._last: tuple[Any, object, object, Shape] | None = None

    def shape_of(
        self, schema: Any, int96_paths: frozenset[tuple[str, ...]], columns: Sequence[StructField]
    ) -> Shape:  # Any: an Arrow schema
        """Return the shape of a file, the same object for files in a row that are alike. Raises NotNative."""
        last = self._last
        if last is not None and last[1:3] == (int96_paths, columns) and last[0].equals(schema, check_metadata=True):
            return last[3]
        shape = tuple(part for part, _ in self._parts(schema, columns, (), int96_paths))
        self._last = schema, int96_paths, columns, shape
        return shape

    def _parts(
        self,
        fields: Iterable[Any],
        columns: Sequence[StructField],
        path: tuple[str, ...],
        int96_paths: frozenset[tuple[str, ...]],
    ) -> list[tuple[Part, int]]:
        """Return the columns among the fields of a file, each with its position there (-1: missing)."""
        found = _Siblings(fields, by_id=self._by_id)
        parts = []
        for column in columns:
            position = found.position_of(column, self._physical_name(column))
            if position < 0 or column.data_type == PrimitiveType("void"):
                if not column.nullable:
                    raise NotNative(f"column {'.'.join((*path, column.name))} is NOT NULL and missing")
                parts.append((Part(column.name, self._physical_name(column), Missing()), -1))
                continue
            field = found.fields[position]
            self._require_single(found, field.name)
            node = self._node(field.type, column.data_type, (*path, field.name), int96_paths)
            parts.append((Part(column.name, field.name, node), position))
        return parts

    def _require_single(self, found: _Siblings, name: str) -> None:
        """Raise NotNative where the session cannot tell a field from its siblings."""
        alike = found.names_like(name)
        if len(alike) > 1 and (not self._is_case_sensitive or len(set(alike)) < len(alike)):
            raise NotNative(f"names differ in case only: {', '.join(alike)[:80]}")

    def _node(
        self, kind: Any, data_type: DataType, path: tuple[str, ...], int96_paths: frozenset[tuple[str, ...]]
    ) -> Node:
        import pyarrow as pa

        from deltacli.delta.schema.file_columns import is_list

        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if pa.types.is_null(kind):
            return Missing()
        match data_type:
            case StructType(fields) if pa.types.is_struct(kind):
                return self._struct(kind, fields, path, int96_paths)
            case ArrayType(element) if is_list(kind) and not pa.types.is_fixed_size_list(kind):
                inner = self._node(kind.value_type, element, _below(path, int96_paths), int96_paths)
                return List(_present(inner, path))
            case MapType(key, value) if pa.types.is_map(kind):
                below = _below(path, int96_paths)
                parts = [self._node(kind.key_type, key, below, int96_paths)]
                parts.append(self._node(kind.item_type, value, below, int96_paths))
                if has_missing(parts[0]):
                    raise NotNative(f"keys of {'.'.join(path)} lack a field")
                return Map(parts[0], _present(parts[1], path))
            case PrimitiveType("variant") if pa.types.is_struct(kind):
                if (unread := _not_read_in_variants(kind)) is not None:
                    raise NotNative(f"{'.'.join(path)} is shredded into {unread}")
                return Leaf("variant", "variant")
            case PrimitiveType(name) if not pa.types.is_nested(kind):
                return Leaf(_stored(kind, name, path in int96_paths, path), name)
        raise NotNative(f"{'.'.join(path)} is {str(kind)[:80]} in the file")

    def _struct(
        self, kind: Any, fields: Sequence[StructField], path: tuple[str, ...], int96_paths: frozenset[tuple[str, ...]]
    ) -> Struct:
        parts = tuple(part for part, _ in self._parts(kind, fields, path, int96_paths))
        if any(not isinstance(part.node, Missing) for part in parts):
            return Struct(parts)
        return Struct(parts, self._witness(kind, path))

    def _witness(self, kind: Any, path: tuple[str, ...]) -> Part:
        """Return a field of a struct, of which no field belongs to the table, that shows which structs are null."""
        import pyarrow as pa

        for field in kind:
            for name, is_type in (("integer", pa.types.is_int32), ("long", pa.types.is_int64), ("string", _is_text)):
                if is_type(field.type):
                    return Part(field.name, field.name, Leaf(name, name))
        raise NotNative(f"{'.'.join(path)} has no field of the table")


def _not_read_in_variants(kind: ArrowType) -> str | None:
    """Return a type of shredded variants that Spark 4.3 refuses, if a file has one."""
    import pyarrow as pa

    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        fields = list(kind) if pa.types.is_struct(kind) else [kind.value_field]
        inner = (_not_read_in_variants(field.type) for field in fields)
        return next((one for one in inner if one is not None), None)
    is_nanos = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return str(kind) if is_nanos or pa.types.is_time(kind) or isinstance(kind, pa.BaseExtensionType) else None


class _Siblings:
    """The fields of a struct in a file: by id, if ids decide, else by name. Spec: Reader Requirements for Column
    Mapping.
    """

    def __init__(self, fields: Iterable[ArrowField], *, by_id: bool) -> None:
        self.fields = list(fields)
        names: list[str | None] = [field.name for field in self.fields]
        self._ids: dict[bytes, int] = {}
        for position, field in enumerate(self.fields if by_id else ()):
            file_id = (field.metadata or {}).get(_FIELD_ID)
            if file_id is not None:
                self._ids.setdefault(file_id, position)
                names[position] = None
        self._names = NameIndex(names)
        self._alike: dict[str, list[str]] = {}
        for field in self.fields:
            self._alike.setdefault(field.name.lower(), []).append(field.name)

    def names_like(self, name: str) -> list[str]:
        """Return the names of the fields that differ from a name at most in case."""
        return self._alike[name.lower()]

    def position_of(self, column: StructField, physical_name: str) -> int:
        """Return the position of a column, -1 where the file does not have it. Raises NotNative."""
        if self._ids:
            position = self._ids.get(str(column.metadata.get("delta.columnMapping.id")).encode())
            if position is not None:
                return position
        alike = self._names.places_of(physical_name)
        if len(alike) > 1:
            raise NotNative(f"column {column.name} is in the file more than once")
        return alike[0] if alike else -1


def _present(node: Node, path: tuple[str, ...]) -> Node:
    if isinstance(node, Missing):
        raise NotNative(f"{'.'.join(path)} has elements without a type")
    return node


def _below(path: tuple[str, ...], int96_paths: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """Return a path inside of a list or map; with INT96 below, it is not followed."""
    if any(leaf[: len(path)] == path for leaf in int96_paths):
        raise NotNative(f"{'.'.join(path)} has elements of type INT96")
    return (*path, "")


def has_missing(node: Node) -> bool:
    """Return True where a field within a node is not in the file, so that a cast cannot make the table's type."""
    match node:
        case Missing():
            return True
        case Leaf():
            return False
        case Struct(parts, _):
            return any(has_missing(part.node) for part in parts)
        case List(element):
            return has_missing(element)
        case Map(key, value):
            return has_missing(key) or has_missing(value)


# -- types without parts ----------------------------------------------------------------------------------------------


def _is_text(kind: ArrowType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(_is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def _stored(kind: Any, name: str, is_int96: bool, path: tuple[str, ...]) -> str:
    """Return the type in which Spark reads a column of an Arrow type, for the table's type `name`. Raises NotNative.

    Only types whose values Spark reads without loss, and casts without loss, are returned.
    """
    stored = _text(kind, name) or _number(kind, name) or _time(kind, name, is_int96)
    if stored is None:
        raise NotNative(f"{'.'.join(path)} is {str(kind)[:80]} in the file")
    return stored


def _text(kind: Any, name: str) -> str | None:
    import pyarrow as pa

    if name == "boolean" and pa.types.is_boolean(kind):
        return name
    if name == "binary" and _is_bytes(kind):
        return name
    is_text = name == "string" or name.startswith((*FIXED_TEXTS, "string collate "))
    return name if is_text and _is_bytes(kind) else None


_WHOLE = {8: "byte", 16: "short", 32: "integer", 64: "long"}


def _number(kind: Any, name: str) -> str | None:
    import pyarrow as pa

    types = pa.types
    stored = _WHOLE[kind.bit_width] if types.is_signed_integer(kind) else None
    if name in WHOLE_BITS:
        return stored if stored is not None and kind.bit_width <= WHOLE_BITS[name] else None
    if parts := decimal_parts(name):
        if stored is not None:
            digits = {8: 3, 16: 5, 32: 10, 64: 19}[kind.bit_width]
            return stored if parts[0] - parts[1] >= digits else None
        if not types.is_decimal128(kind) or kind.scale < 0:
            return None
        fits = kind.scale <= parts[1] and kind.precision - kind.scale <= parts[0] - parts[1]
        return f"decimal({kind.precision},{kind.scale})" if fits else None
    if name in ("float", "double"):
        if types.is_float32(kind):
            return "float"
        if name == "float":
            return None
        return "double" if types.is_float64(kind) else stored if stored is not None and kind.bit_width <= 32 else None
    return None


def _time(kind: Any, name: str, is_int96: bool) -> str | None:
    import pyarrow as pa

    types = pa.types
    if name in ("date", "timestamp_ntz") and types.is_date32(kind):
        return "date"
    if not types.is_timestamp(kind) or kind.unit not in ("us", "ms"):
        return None  # Spark refuses nanoseconds
    if name == "timestamp":
        return name
    return name if name == "timestamp_ntz" and kind.tz is None and not is_int96 else None
