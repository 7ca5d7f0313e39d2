"""Columns of Paimon as Arrow fields, and back. What Arrow cannot state is reported as a loss.

The id of a field is in its metadata, as in Parquet files; so are its comment and its default value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.core.hints import sql_name
from deltacli.core.typing import ArrowType
from deltacli.paimon.losses import ConversionLoss, Report
from deltacli.paimon.type_strings import BadType, decimal, vector
from deltacli.paimon.types import (
    MAX_LENGTH,
    AtomicType,
    DataField,
    DataType,
    ListType,
    MapType,
    Root,
    RowType,
    type_text,
    with_nullability,
)

if TYPE_CHECKING:
    import pyarrow

_ID, _COMMENT, _DEFAULT = b"PARQUET:field_id", b"comment", b"default"
_UNITS = ("s", "ms", "us", "ns")
_PLAIN: Mapping[Root, str] = {
    Root.BOOLEAN: "bool_",
    Root.TINYINT: "int8",
    Root.SMALLINT: "int16",
    Root.INT: "int32",
    Root.BIGINT: "int64",
    Root.FLOAT: "float32",
    Root.DOUBLE: "float64",
    Root.DATE: "date32",
}
"""Type -> the function of pyarrow that makes its equal."""

_TEXT, _BYTES = AtomicType(Root.VARCHAR, (MAX_LENGTH,)), AtomicType(Root.VARBINARY, (MAX_LENGTH,))
_OF_ARROW: Mapping[str, AtomicType] = {
    "bool": AtomicType(Root.BOOLEAN),
    "int8": AtomicType(Root.TINYINT),
    "int16": AtomicType(Root.SMALLINT),
    "int32": AtomicType(Root.INT),
    "int64": AtomicType(Root.BIGINT),
    "float": AtomicType(Root.FLOAT),
    "double": AtomicType(Root.DOUBLE),
    "date32[day]": AtomicType(Root.DATE),
    "string": _TEXT,
    "large_string": _TEXT,
    "string_view": _TEXT,
    "binary": _BYTES,
    "binary_view": _BYTES,
    "large_binary": AtomicType(Root.BLOB),
}
"""Arrow type -> its equal, or a type with the same values."""

_WIDER_OF_ARROW: Mapping[str, AtomicType] = {
    "uint8": AtomicType(Root.SMALLINT),
    "uint16": AtomicType(Root.INT),
    "uint32": AtomicType(Root.BIGINT),
    "uint64": AtomicType(Root.DECIMAL, (20, 0)),
    "halffloat": AtomicType(Root.FLOAT),
    "date64[ms]": AtomicType(Root.TIMESTAMP, (3,)),
}


def arrow_schema(fields: Sequence[DataField], report: Report) -> pyarrow.Schema:
    """Return columns as an Arrow schema."""
    import pyarrow as pa

    return pa.schema([_arrow_field(field, "", report) for field in fields])


def _arrow_field(field: DataField, path: str, report: Report) -> pyarrow.Field:
    import pyarrow as pa

    here = _below(path, field.name)
    metadata = {_ID: str(field.id).encode()}
    if field.description is not None:
        metadata[_COMMENT] = field.description.encode("utf-8", "surrogatepass")
    if field.default_value is not None:
        metadata[_DEFAULT] = field.default_value.encode("utf-8", "surrogatepass")
    return pa.field(field.name, _arrow_type(field.type, here, report), field.type.nullable, metadata)


def _arrow_type(data_type: DataType, path: str, report: Report) -> pyarrow.DataType:
    import pyarrow as pa

    def part(name: str, inner: DataType) -> pyarrow.Field:
        return pa.field(name, _arrow_type(inner, f"{path}.{name}", report), inner.nullable)

    def lose(found: pyarrow.DataType, reason: str, *, is_lost: bool = True) -> pyarrow.DataType:
        report(ConversionLoss(path, "type", type_text(with_nullability(data_type, True)), str(found), reason, is_lost))
        return found

    match data_type:
        case RowType(fields):
            return pa.struct([_arrow_field(field, path, report) for field in fields])
        case MapType(key, value):
            if key.nullable:
                report(
                    ConversionLoss(
                        f"{path}.key", "nullability", "NULL", "NOT NULL", "keys of maps in Arrow are never null"
                    )
                )
            return pa.map_(part("key", with_nullability(key, False)), part("value", value))
        case ListType(Root.VECTOR, _, _, length):
            return pa.list_(part("element", data_type.element), length)
        case ListType(Root.MULTISET, element):
            counts = pa.field("value", pa.int32(), nullable=False)
            return lose(pa.map_(part("key", with_nullability(element, False)), counts), "a multiset is a map of counts")
        case ListType(_, element):
            return pa.list_(part("element", element))
        case AtomicType(root, arguments):
            return _atomic(root, arguments, lose)


def _atomic(root: Root, arguments: tuple[int | str, ...], lose: Any) -> pyarrow.DataType:  # Any: `lose` above
    import pyarrow as pa

    if root in _PLAIN:
        return getattr(pa, _PLAIN[root])()
    match root, arguments:
        case Root.DECIMAL, (int(precision), int(scale)):
            return pa.decimal128(precision, scale)
        case ((Root.CHAR | Root.VARCHAR), (int(length),)):
            text = pa.string()
            is_unlimited = root is Root.VARCHAR and length == MAX_LENGTH
            return text if is_unlimited else lose(text, "strings in Arrow have no length")
        case Root.BINARY, (int(length),):
            return pa.binary(length)
        case Root.VARBINARY, (int(length),):
            return pa.binary() if length == MAX_LENGTH else lose(pa.binary(), "binary values in Arrow have no length")
        case ((Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ), (int(precision),)):
            return _moment(root, precision, lose)
        case Root.BLOB, _:
            return pa.large_binary()
        case Root.VARIANT, _:
            parts = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
            return lose(pa.struct(parts), "a variant is a struct of binary values")
        case ((Root.GEOMETRY | Root.GEOGRAPHY), _):
            return lose(pa.binary(), "Arrow has no geometries")
    raise AssertionError(f"{root} has no type of Arrow")


def _moment(root: Root, precision: int, lose: Any) -> pyarrow.DataType:  # Any: `lose` above
    import pyarrow as pa

    place = -(-precision // 3)
    unit = _UNITS[place]
    if root is Root.TIME:
        found = pa.time32(unit) if place < 2 else pa.time64(unit)
    else:
        found = pa.timestamp(unit, tz="UTC" if root is Root.TIMESTAMP_LTZ else None)
    if precision == 3 * place:
        return found
    return lose(found, f"times in Arrow have 0, 3, 6 or 9 digits of a second, not {precision}", is_lost=False)


def fields_of_arrow(schema: pyarrow.Schema, report: Report) -> tuple[DataField, ...]:
    """Return an Arrow schema as columns. Fields without an id get -1. Raises BadType for types that Paimon lacks."""
    return tuple(_field_of(field, "", report) for field in schema)


def _field_of(field: pyarrow.Field, path: str, report: Report) -> DataField:
    here = _below(path, field.name)
    metadata = field.metadata or {}
    number = metadata.get(_ID, b"-1")
    found = _type_of(field.type, field.nullable, here, report)
    comment, default = metadata.get(_COMMENT), metadata.get(_DEFAULT)
    return DataField(
        int(number) if number.lstrip(b"-").isdigit() else -1,
        field.name,
        found,
        None if comment is None else comment.decode("utf-8", "replace"),
        None if default is None else default.decode("utf-8", "replace"),
    )


def _type_of(kind: ArrowType, nullable: bool, path: str, report: Report) -> DataType:
    import pyarrow as pa

    def part(field: Any) -> DataType:
        return _type_of(field.type, field.nullable, f"{path}.{field.name}", report)

    if pa.types.is_dictionary(kind):
        return _type_of(kind.value_type, nullable, path, report)
    if pa.types.is_struct(kind):
        return RowType(tuple(_field_of(field, path, report) for field in kind), nullable)
    if pa.types.is_map(kind):
        return MapType(with_nullability(part(kind.key_field), False), part(kind.item_field), nullable)
    if pa.types.is_fixed_size_list(kind):
        try:
            return vector(part(kind.value_field), kind.list_size, nullable=nullable)
        except BadType as fault:
            report(ConversionLoss(path, "type", str(kind), "ARRAY", str(fault)))
            return ListType(Root.ARRAY, part(kind.value_field), nullable)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ListType(Root.ARRAY, part(kind.value_field), nullable)
    return with_nullability(_atomic_of(kind, path, report), nullable)


def _atomic_of(kind: ArrowType, path: str, report: Report) -> AtomicType:
    import pyarrow as pa

    name = str(kind)
    if name in _OF_ARROW:
        return _OF_ARROW[name]
    if name in _WIDER_OF_ARROW:
        found = _WIDER_OF_ARROW[name]
        report(ConversionLoss(path, "type", name, type_text(found), "Paimon has no such type; every value fits", False))
        return found
    if pa.types.is_decimal(kind):
        return decimal(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return AtomicType(Root.BINARY, (kind.byte_width,))
    if pa.types.is_time(kind):
        return AtomicType(Root.TIME, (3 * _UNITS.index(kind.unit),))
    if pa.types.is_timestamp(kind):
        if kind.tz not in (None, "UTC"):
            report(ConversionLoss(path, "type", name, "WITH LOCAL TIME ZONE", "the time zone is not kept", False))
        root = Root.TIMESTAMP if kind.tz is None else Root.TIMESTAMP_LTZ
        return AtomicType(root, (3 * _UNITS.index(kind.unit),))
    raise BadType(f"{path}: Paimon has no type for {name}")


def _below(path: str, name: str) -> str:
    return f"{path}.{sql_name(name)}" if path else sql_name(name)
