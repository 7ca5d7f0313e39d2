"""Types and schemas in other languages: as Arrow fields, as CREATE TABLE of Flink SQL, and as people write them.

What Arrow cannot state is reported as a loss.

The id of a field is in its metadata, as in Parquet files; so are its comment and its default value.

Schema files have a narrower form, in which types with parts are JSON objects; see `types`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.core.errors import format_sql_name, quote_identifier
from deltacli.core.typing import ArrowType, Json
from deltacli.paimon.schema import BadJson, Schema, read_object
from deltacli.paimon.types import (
    MAX_DEPTH,
    MAX_LENGTH,
    AtomicType,
    BadType,
    DataField,
    DataType,
    ListType,
    MapType,
    Root,
    RowType,
    decimal,
    parse_type,
    parse_type_string,
    spelled,
    type_text,
    vector,
    walk_fields,
    with_nullability,
)

# -- what a conversion of a schema changes -----------------------------------------------------------------------------


class ConversionLoss(NamedTuple):
    """One thing that the other format does not have; not `is_lost` where every value still fits in a wider type."""

    column: str
    what: str
    before: str
    after: str
    reason: str
    is_lost: bool = True

    @property
    def sentence(self) -> str:
        """The loss in words: `price: TIME(3) -> string: Delta has no time of day`."""
        place = f"{self.column}: " if self.column else ""
        arrow = f"{self.what} {self.before}" + (f" -> {self.after}" if self.after else " is left out")
        return f"{place}{arrow}: {self.reason}"

    def as_json(self) -> dict[str, Json]:
        found = {"column": self.column, "what": self.what, "from": self.before, "to": self.after}
        return {name: value for name, value in found.items() if value} | {"reason": self.reason, "lost": self.is_lost}


Report = Callable[[ConversionLoss], None]


# -- columns of Paimon as Arrow fields ---------------------------------------------------------------------------------

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


def arrow_schema(fields: Sequence[DataField], report: Report) -> pa.Schema:
    return pa.schema([_arrow_field(field, "", report) for field in fields])


def _arrow_field(field: DataField, path: str, report: Report) -> pa.Field:
    here = _below(path, field.name)
    metadata = {_ID: str(field.id).encode()}
    if field.description is not None:
        metadata[_COMMENT] = field.description.encode("utf-8", "surrogatepass")
    if field.default_value is not None:
        metadata[_DEFAULT] = field.default_value.encode("utf-8", "surrogatepass")
    return pa.field(field.name, _arrow_type(field.type, here, report), field.type.nullable, metadata)


def _arrow_type(data_type: DataType, path: str, report: Report) -> pa.DataType:
    def part(name: str, inner: DataType) -> pa.Field:
        return pa.field(name, _arrow_type(inner, f"{path}.{name}", report), inner.nullable)

    def lose(found: pa.DataType, reason: str, *, is_lost: bool = True) -> pa.DataType:
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


def _atomic(root: Root, arguments: tuple[int | str, ...], lose: Any) -> pa.DataType:  # Any: `lose` above
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


def _moment(root: Root, precision: int, lose: Any) -> pa.DataType:  # Any: `lose` above
    place = -(-precision // 3)
    unit = _UNITS[place]
    if root is Root.TIME:
        found = pa.time32(unit) if place < 2 else pa.time64(unit)
    else:
        found = pa.timestamp(unit, tz="UTC" if root is Root.TIMESTAMP_LTZ else None)
    if precision == 3 * place:
        return found
    return lose(found, f"times in Arrow have 0, 3, 6 or 9 digits of a second, not {precision}", is_lost=False)


def fields_of_arrow(schema: pa.Schema, report: Report) -> tuple[DataField, ...]:
    """Return an Arrow schema as columns. Fields without an id get -1. Raises BadType for types that Paimon lacks."""
    return tuple(_field_of(field, "", report) for field in schema)


def _field_of(field: pa.Field, path: str, report: Report) -> DataField:
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
    return f"{path}.{format_sql_name(name)}" if path else format_sql_name(name)


# -- a schema as a CREATE TABLE statement of Flink SQL, Paimon's own dialect -------------------------------------------

_NOT_IN_FLINK = frozenset({Root.VECTOR, Root.BLOB, Root.GEOMETRY, Root.GEOGRAPHY})
_NOT_STATED = "Flink SQL cannot state it"


def create_table(schema: Schema, name: str) -> str:
    """Return the statement, with a comment for each part of the schema that it cannot state."""
    lines = [f"CREATE TABLE {quote_identifier(name)} ("]
    items = [_column(field) for field in schema.fields]
    if schema.primary_keys:
        items.append(f"PRIMARY KEY ({_names(schema.primary_keys)}) NOT ENFORCED")
    lines += [f"  {item}{',' if place < len(items) else ''}" for place, item in enumerate(items, 1)]
    ending = [")"]
    if schema.comment:
        ending.append(f"COMMENT {_text(schema.comment)}")
    if schema.partition_keys:
        ending.append(f"PARTITIONED BY ({_names(schema.partition_keys)})")
    if schema.options:
        options = [f"  {_text(key)} = {_text(value)}" for key, value in schema.options.items()]
        ending.append("WITH (\n" + ",\n".join(options) + "\n)")
    return "\n".join([*_left_out(schema), *lines, " ".join(ending) + ";"])


def _column(field: DataField) -> str:
    comment = f" COMMENT {_text(field.description)}" if field.description else ""
    return f"{quote_identifier(field.name)} {_flink(field.type)}{comment}"


def _flink(data_type: DataType) -> str:
    return spelled(data_type, lambda row: f"ROW<{', '.join(map(_nested, row.fields))}>")


def _nested(field: DataField) -> str:
    comment = f" {_text(field.description)}" if field.description else ""
    return f"{quote_identifier(field.name)} {_flink(field.type)}{comment}"


def left_out(schema: Schema) -> Iterator[ConversionLoss]:
    """Yield what the statement cannot state."""
    for path, field in walk_fields(schema.fields):
        name = ".".join(path)
        if field.default_value is not None:
            yield ConversionLoss(name, "default value", field.default_value, "", _NOT_STATED)
        if (root := _unknown_to_flink(field.type)) is not None:
            yield ConversionLoss(name, "type", root.value, "", _NOT_STATED)


def _left_out(schema: Schema) -> Iterator[str]:
    return (_remark(f"{left.what} of {left.column}: {left.before}") for left in left_out(schema))


def _unknown_to_flink(data_type: DataType) -> Root | None:
    """Return a type that Flink does not have, the type itself or one of its elements; fields have their own remark."""
    while isinstance(data_type, ListType) and data_type.root is not Root.VECTOR:
        data_type = data_type.element
    return data_type.root if data_type.root in _NOT_IN_FLINK else None


def _remark(text: str) -> str:
    return f"-- not in Flink SQL: {' '.join(text.split())}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quote_identifier, names))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# -- types as people write them ----------------------------------------------------------------------------------------

MAX_CHARACTERS = 100_000

_WITH_PARTS = re.compile(r"\s*(ARRAY|MULTISET|MAP|ROW|STRUCT)\s*<", re.IGNORECASE)
_NULLABILITY = re.compile(r"\s*(NOT\s+NULL|NULL)?\s*", re.IGNORECASE)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`:<>,()]++))\s*:?\s*(?=\S)")
_TYPE_AND_COMMENT = re.compile(r"^(.*\S)\s+'((?:[^']|'')*)'\s*$", re.IGNORECASE | re.DOTALL)
_COMMENT_WORD = re.compile(r"\s+COMMENT$", re.IGNORECASE)
_QUOTES = "'`"


def parse_sql_type(text: str) -> DataType:
    """Return a type in SQL or in the JSON of schema files; fields of a ROW get ids from 0 on. Raises BadType."""
    if len(text) > MAX_CHARACTERS:
        raise BadType(f"the type is longer than {MAX_CHARACTERS:,} characters")
    if text.lstrip().startswith("{"):
        try:
            return parse_type(read_object(text.encode()).value)
        except BadJson as fault:
            raise BadType(str(fault)) from None
    return _parse(text, 0)


def _parse(text: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise BadType(f"types are nested too deeply: more than {MAX_DEPTH}")
    match = _WITH_PARTS.match(text)
    if match is None:
        return parse_type_string(text.strip())
    end = _end_of_parts(text, match.end())
    after = _NULLABILITY.fullmatch(text, end + 1)
    if after is None:
        raise BadType(f"unexpected {text[end + 1 :].strip()!r}")
    nullable = not (after[1] or "").upper().startswith("NOT")
    parts = list(split_parts(text[match.end() : end]))
    return _made(match[1].upper(), parts, nullable, depth + 1)


def _made(word: str, parts: list[str], nullable: bool, depth: int) -> DataType:
    if word in ("ROW", "STRUCT"):
        return RowType(_fields(parts, depth), nullable)
    expected = 2 if word == "MAP" else 1
    if len(parts) != expected:
        raise BadType(f"{word} has {len(parts)} parts, expected {expected}")
    if word == "MAP":
        return MapType(_parse(parts[0], depth), _parse(parts[1], depth), nullable)
    return ListType(Root(word), _parse(parts[0], depth), nullable)


def _fields(parts: list[str], depth: int) -> tuple[DataField, ...]:
    fields = []
    for number, part in enumerate(parts):
        match = _NAME.match(part)
        if match is None:
            raise BadType(f"{part.strip()!r} is not a field: a name and a type are expected")
        name = (match[1] or match[2]).replace("``", "`") if match[1] else match[2]
        rest, comment = part[match.end() :], None
        if (described := _TYPE_AND_COMMENT.match(rest)) is not None:
            rest, comment = _COMMENT_WORD.sub("", described[1]), described[2].replace("''", "'")
        fields.append(DataField(number, name, _parse(rest, depth), comment))
    names = [field.name for field in fields]
    if not names:
        raise BadType("a ROW has one field or more")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadType(f"the field name {twice!r} occurs twice")
    if any(not name.strip() for name in names):
        raise BadType("a field name is blank")
    return tuple(fields)


def _end_of_parts(text: str, start: int) -> int:
    """Return the place of the `>` that ends the parts. Raises BadType without one."""
    for place, mark, depth in _marks(text, start):
        if mark == ">" and depth == 0:
            return place
    raise BadType("the type ends too early: '>' is missing")


def split_parts(text: str) -> Iterator[str]:
    """Yield what stands between the commas of the outermost level, outside quotes and brackets."""
    start = 0
    for place, mark, depth in _marks(text, 0):
        if mark == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if start or text.strip():
        yield text[start:]


def _marks(text: str, start: int) -> Iterator[tuple[int, str, int]]:
    """Yield commas and closing brackets outside quotes, with the number of brackets that are open around them."""
    depth, quote = 0, ""
    for place in range(start, len(text)):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            yield place, character, depth
            depth -= 1
        elif character == ",":
            yield place, character, depth
