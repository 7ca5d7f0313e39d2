"""A table schema as an Arrow schema, and the reverse; and the columns that cannot be read.

Such a metaData contradicts itself. Readers would take the column's values for nulls, or have no column for them.

What a type is judged by is `to_arrow.find_unsupported_type`.

Spec: Schema Serialization Format; Primitive Types; Column Mapping, Writer Requirements; IcebergCompatV2; Delta Data
Type to Parquet Type Mappings; Change Metadata; Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from deltacli.core.errors import Refused, Unreadable, command
from deltacli.core.texts import is_utf8_encodable, summarize_names
from deltacli.core.typing import ArrowField, ArrowType, Json
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import types


def table_schema(schema: pa.Schema) -> dict[str, Json]:
    """Return the schema of a Parquet file, every field nullable; a type that tables do not have keeps its name."""
    return _struct(schema)


def _struct(fields: Iterable[Any]) -> dict[str, Any]:
    members = [{"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}} for field in fields]
    return {"type": "struct", "fields": members}


def _type(kind: Any) -> Any:  # Any: an Arrow type in, JSON values out
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _type(kind.key_type),
            "valueType": _type(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    name = str(kind).removeprefix("large_").removesuffix("_view")
    return _names().get(name, name)


@cache
def _names() -> Mapping[str, str]:
    return {str(plain_type(name)): name for name in types.PLAIN_TYPES}


def build_arrow_schema(columns: Iterable[types.StructField]) -> pa.Schema:
    """Return the exact Arrow schema of columns of a table. Raises Refused (`type.unsupported`), naming the column."""
    return pa.schema([arrow_field(column) for column in columns])


def arrow_field(field: types.StructField, path: str = "") -> pa.Field:
    """Return a column or nested field under its logical name, with its nullability."""
    place = f"{path}.{field.name}" if path else field.name
    if not is_utf8_encodable(field.name):
        message = f"the name of column {place!a} has half a surrogate pair, which is not Unicode"
        raise Refused(message, code="commit.lone-surrogate", hint=command("validate"))
    return pa.field(field.name, arrow_type(field.data_type, place), field.nullable)


def arrow_type(data_type: types.DataType, path: str = "") -> pa.DataType:
    """Return the Arrow type that holds values of a table's type; `path` is the column, for errors.

    Timestamps are microseconds or nanoseconds, in UTC or without a zone; intervals are numbers of months or
    microseconds; variants are the struct in files. Raises Refused (`type.unsupported`) for a type that
    `find_unsupported_type` returns.
    """
    match data_type:
        case types.StructType(fields):
            return pa.struct([arrow_field(field, path) for field in fields])
        case types.ArrayType(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element, f"{path}.element"), contains_null))
        case types.MapType(key, value, value_contains_null):
            item = pa.field("value", arrow_type(value, f"{path}.value"), value_contains_null)
            return pa.map_(pa.field("key", arrow_type(key, f"{path}.key"), nullable=False), item)
        case types.PrimitiveType(name):
            primitive = _primitive(name)
            if primitive is None:
                raise Refused(
                    f"column {path} has type {name[:80]}, {why_unread(name)}",
                    code="type.unsupported",
                    facts={"column": path, "type": name[:80]},
                    hint=command("snapshot", schema=True),
                )
            return primitive


def find_unsupported_type(data_type: types.DataType) -> str | None:
    """Return the name of the first type within a type whose values deltacli does not read; None if it reads all.

    This is the one place that judges whether a type is supported. Everything that reads, rewrites, checks or compares
    values asks it, mostly through `find_unsupported_columns`, which leaves out only the columns concerned.
    """
    match data_type:
        case types.PrimitiveType(name):
            return name[:80] if _primitive(name) is None else None
        case _:
            return next(
                (found for part in types.parts_of(data_type) if (found := find_unsupported_type(part.data_type))), None
            )


def why_unread(name: str) -> str:
    """Return why the values of a type are not read, for a sentence behind its name."""
    if types.is_type_name(name):
        return "which this version of deltacli does not read"
    return "which Delta does not define"


@lru_cache(maxsize=256)
def _primitive(name: str) -> pa.DataType | None:
    if name == "void":
        return pa.null()
    if name == "variant":
        return variant_type()
    if name in types.NANOSECONDS:
        return pa.timestamp("ns", tz=types.NANOSECONDS[name])
    if interval := types.interval_name(name):
        return pa.int32() if interval == types.YEAR_MONTH else pa.int64()
    return pa.string() if name.startswith("string collate ") else plain_type(name)


def plain_type(name: str) -> pa.DataType | None:
    """Return the Arrow type of a primitive type whose values can be compared, or None for any other name."""
    if parts := types.decimal_parts(name):
        return pa.decimal128(*parts)
    if name.startswith(("char(", "varchar(")):
        return pa.string()
    return {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }.get(name)


def variant_type() -> pa.StructType:
    """Return a variant as in files. Spec: Variant Data Type."""
    return pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])


_FIELD_ID = b"PARQUET:field_id"
_ID, _NESTED_IDS = "delta.columnMapping.id", "delta.columnMapping.nested.ids"
_VOID = types.PrimitiveType("void")


def stored_columns(config: TableConfiguration) -> tuple[types.StructField, ...]:
    """Return the columns that new data files contain, in the order of the table, without void fields at any depth and
    without columns of types that are not read: files that have these are not rewritten.

    Partition columns are among them only where a feature of the table says so, and are the last ones. Raises Unreadable
    (`schema.not-writable`) where a value that is not null would have no field that shows it.
    """
    fields = config.schema.fields if config.schema else ()
    is_partition = [config.physical_name(column) in config.partition_columns for column in fields]
    columns = [column for column, apart in zip(fields, is_partition, strict=True) if not apart]
    if keeps_partition_columns(config):
        columns += [column for column, apart in zip(fields, is_partition, strict=True) if apart]
    columns = [column for column in columns if find_unsupported_type(column.data_type) is None]
    stored = tuple(_without_void(column, column.name) for column in columns if column.data_type != _VOID)
    if not stored:
        raise _not_writable("the table has no column that a data file could contain")
    return stored


def keeps_partition_columns(config: TableConfiguration) -> bool:
    """Return True if data files must also contain the partition columns."""
    return "materializePartitionColumns" in config.features or bool(iceberg_compat(config))


def iceberg_compat(config: TableConfiguration) -> int:
    """Return the version of IcebergCompat that is on; 0 if none is."""
    return next(
        (
            version
            for version in (3, 2, 1)
            if f"icebergCompatV{version}" in config.features and config.is_on(f"delta.enableIcebergCompatV{version}")
        ),
        0,
    )


def file_schema(config: TableConfiguration, columns: Sequence[types.StructField]) -> pa.Schema:
    """Return the schema of a data file with these columns. Raises Refused (`type.unsupported`), naming the column."""
    return pa.schema([_field(config, column) for column in columns])


def _field(config: TableConfiguration, column: types.StructField) -> ArrowField:
    name = config.physical_name(column)
    is_mapped = config.mapping_mode != "none"
    nested = column.metadata.get(_NESTED_IDS) if is_mapped else None
    kind = _stored_type(config, column.data_type, name, nested if isinstance(nested, Mapping) else {})
    return pa.field(name, kind, nullable=True, metadata=_metadata(column.metadata.get(_ID) if is_mapped else None))


def _metadata(field_id: object) -> dict[bytes, bytes] | None:
    return {_FIELD_ID: str(field_id).encode()} if type(field_id) is int else None


def _stored_type(config: TableConfiguration, kind: types.DataType, place: str, ids: Mapping[str, object]) -> Any:
    """Return the Arrow type of values. The keys of `ids` for their parts begin with `place`."""

    def part(name: str, inner: types.DataType, *, nullable: bool = True) -> Any:
        path = f"{place}.{name}"
        return pa.field(name, _stored_type(config, inner, path, ids), nullable, metadata=_metadata(ids.get(path)))

    match kind:
        case types.StructType(fields):
            return pa.struct([_field(config, field) for field in fields])
        case types.ArrayType(element):
            return pa.list_(part("element", element))
        case types.MapType(key, value):
            return pa.map_(part("key", key, nullable=False), part("value", value))
        case types.PrimitiveType("variant"):
            # Spec: Variant Data Type. Both fields are required: only the whole variant can be null.
            return pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")])
    return arrow_type(kind, place)


def _without_void(column: types.StructField, path: str) -> types.StructField:
    return column._replace(data_type=_type_without_void(column.data_type, path))


def _type_without_void(kind: types.DataType, path: str) -> types.DataType:
    match kind:
        case types.StructType(fields):
            kept = [_without_void(field, f"{path}.{field.name}") for field in fields if field.data_type != _VOID]
            if not kept:
                raise _not_writable(f"column {path} has no field that a data file could contain", path)
            return types.StructType(tuple(kept))
        case types.ArrayType(element, contains_null):
            return types.ArrayType(_part(element, f"{path}.element"), contains_null)
        case types.MapType(key, value, contains_null):
            return types.MapType(_part(key, f"{path}.key"), _part(value, f"{path}.value"), contains_null)
    return kind


def _part(kind: types.DataType, path: str) -> types.DataType:
    """Return a part of a list or map, which has to be in files to show how many there are."""
    if kind == _VOID:
        raise _not_writable(f"column {path} is void, which a data file cannot contain", path)
    return _type_without_void(kind, path)


def _not_writable(reason: str, path: str | None = None) -> Unreadable:
    return Unreadable(reason, code="schema.not-writable", facts={} if path is None else {"column": path})


# -- partition columns that the schema lacks ---------------------------------------------------------------------------

UNKNOWN, NESTED = "metadata.partition-column-unknown", "metadata.partition-column-nested"
"""The rules of `validate` that report what is refused here."""


class StrayPartition(NamedTuple):
    """A partition column that is not a column: the rule that reports it, the name, what is there, and why."""

    rule: str
    name: str
    seen: str
    expected: str
    reason: str


def stray_partitions(config: TableConfiguration) -> Iterator[StrayPartition]:
    """Yield the partition columns that the schema does not have under exactly that name at its top level."""
    if config.metadata is None or config.schema is None:
        return
    columns = [field.name for field in config.schema.fields]
    for name in dict.fromkeys(config.metadata.partition_columns):
        if name not in columns:
            yield _stray(name, columns, config.schema)


def _stray(name: str, columns: list[str], schema: types.StructType) -> StrayPartition:
    same = next((column for column in columns if column.casefold() == name.casefold()), None)
    inside = next((path for path in _nested(schema, "") if path == name or path.rpartition(".")[2] == name), None)
    if same is not None:
        reason = f"partition column {name} is {same} in the schema; names are case-sensitive"
        return StrayPartition(UNKNOWN, name, name, same, reason)
    if inside is not None:
        reason = f"partition column {name} is inside another column"
        return StrayPartition(NESTED, name, inside, "a top-level column", reason)
    return StrayPartition(
        UNKNOWN, name, name, "a column of the schema", f"partition column {name} is not in the schema"
    )


def _nested(data_type: types.DataType, prefix: str) -> Iterator[str]:
    """Return the dotted paths of all fields below the top level."""
    for part in types.parts_of(data_type):
        path = f"{prefix}{part.name}"
        if prefix and isinstance(data_type, types.StructType):
            yield path
        yield from _nested(part.data_type, f"{path}.")


def require_partitions(config: TableConfiguration, version: int) -> None:
    """Raise Unreadable where the schema of a version lacks one of its partition columns."""
    for stray in stray_partitions(config):
        raise Unreadable(
            f"the rows of version {version} cannot be read: {stray.reason}",
            code=stray.rule,
            facts={"column": stray.name, "seen": stray.seen, "expected": stray.expected},
            hint=command("validate", select=["metadata.*"]),
        )


# -- the columns of a table that are left out because deltacli does not read a type in them ----------------------------

UNSUPPORTED = "type.unsupported"
_NAMED = 5
Judge: TypeAlias = Callable[[types.DataType], str | None]
"""Returns the name of a type that cannot be read, as `find_unsupported_type` does."""


class UnreadColumn(NamedTuple):
    """A top-level column, and the type in it that is not read."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} ({self.type})"

    def as_json(self) -> Json:
        """Return what documents have in `omittedColumns`."""
        return {"name": self.name, "type": self.type}


def find_unsupported_columns(
    fields: Iterable[types.StructField], judge: Judge = find_unsupported_type
) -> tuple[UnreadColumn, ...]:
    """Return the columns that are left out, in their order."""
    found = ((field.name, judge(field.data_type)) for field in fields)
    return tuple(UnreadColumn(name, unread) for name, unread in found if unread is not None)


def drop_unsupported_columns(
    fields: Iterable[types.StructField], judge: Judge = find_unsupported_type
) -> tuple[types.StructField, ...]:
    """Return the columns that are not left out."""
    return tuple(field for field in fields if judge(field.data_type) is None)


def with_read_columns(config: TableConfiguration) -> TableConfiguration:
    """Return a configuration without the columns that are left out: partition columns among them are unknown."""
    schema = config.schema
    if schema is None or not find_unsupported_columns(schema.fields):
        return config
    return replace(config, schema=types.StructType(drop_unsupported_columns(schema.fields)))


def unsupported_columns_error(left_out: Sequence[UnreadColumn], others: Sequence[types.StructField] = ()) -> Refused:
    """Return the error for columns that were asked for, or have to be there. `others` are those that can be read."""
    first = left_out[0]
    names = [column.name for column in others]
    facts = {"column": first.name, "type": first.type}
    if left_out[1:]:
        facts["also"] = summarize_names(list(map(str, left_out[1:])), _NAMED)
    return Refused(
        f"column {first.name} has type {first.type}, {why_unread(first.type)}",
        code=UNSUPPORTED,
        facts=facts | ({"columns that are read": summarize_names(names, _NAMED)} if names else {}),
    )


def note_of(left_out: Sequence[UnreadColumn]) -> str:
    shown = summarize_names(list(map(str, left_out)), _NAMED)
    what = "column {} is left out: its type is" if len(left_out) == 1 else "columns {} are left out: their types are"
    are_undefined = not any(types.is_type_name(column.type) for column in left_out)
    return f"{what.format(shown)} not {'defined by Delta' if are_undefined else 'read by this version of deltacli'}"


def typed(data_type: types.DataType) -> ArrowType:
    """Return the Arrow type that holds values of a primitive type of the table."""
    return plain_type(data_type.name) if isinstance(data_type, types.PrimitiveType) else None
