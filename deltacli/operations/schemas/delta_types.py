"""Columns of Delta as columns of Paimon, and back. What the other format cannot state is reported as a loss."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from deltacli.core.hints import sql_name
from deltacli.core.typing import Json
from deltacli.delta.schema import types as delta
from deltacli.delta.schema.kinds import decimal_parts
from deltacli.delta.schema.names import ID, PHYSICAL_NAME
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY
from deltacli.delta.sql.stored import DEFAULT_KEY
from deltacli.paimon.losses import ConversionLoss, Report
from deltacli.paimon.type_strings import BadType, decimal, parse_type_string
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

_COMMENT_KEY = "comment"
_CARRIED = (_COMMENT_KEY, ID, PHYSICAL_NAME, CHAR_VARCHAR_KEY, DEFAULT_KEY)
_CHANGES_KEY = "delta.typeChanges"
_LENGTH = re.compile(r"(char|varchar)\((\d{1,10})\)")
_TEXT_LITERAL = re.compile(r"'((?:[^'\\]|''|\\\\)*)'")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|true|false", re.IGNORECASE)

_STRING, _BYTES = AtomicType(Root.VARCHAR, (MAX_LENGTH,)), AtomicType(Root.VARBINARY, (MAX_LENGTH,))
EQUALS: Mapping[str, AtomicType] = {
    "boolean": AtomicType(Root.BOOLEAN),
    "byte": AtomicType(Root.TINYINT),
    "short": AtomicType(Root.SMALLINT),
    "integer": AtomicType(Root.INT),
    "long": AtomicType(Root.BIGINT),
    "float": AtomicType(Root.FLOAT),
    "double": AtomicType(Root.DOUBLE),
    "string": _STRING,
    "binary": _BYTES,
    "date": AtomicType(Root.DATE),
    "timestamp": AtomicType(Root.TIMESTAMP_LTZ, (6,)),
    "timestamp_ntz": AtomicType(Root.TIMESTAMP, (6,)),
    "variant": AtomicType(Root.VARIANT),
}
"""Type of Delta -> the type of Paimon with the same values. Decimals are equal as well."""

_NAMES = {paimon: name for name, paimon in EQUALS.items()}

_CHAR = "a string in Delta has a length only as a column, not in a struct, array or map"
_INSTEAD: Mapping[Root, tuple[str, str, bool]] = {
    Root.BINARY: ("binary", "binary values in Delta have no length", True),
    Root.VARBINARY: ("binary", "binary values in Delta have no length", True),
    Root.TIME: ("string", "Delta has no time of day", True),
    Root.BLOB: ("binary", "Delta has no blobs", False),
    Root.GEOMETRY: ("binary", "the coordinate reference system is not kept", True),
    Root.GEOGRAPHY: ("binary", "the coordinate reference system is not kept", True),
}
"""Type of Paimon -> what Delta has instead, why, and whether something is lost."""


def fields_of_delta(columns: Sequence[delta.StructField], report: Report) -> tuple[DataField, ...]:
    """Return columns of a Delta table as columns of Paimon. Fields without an id of column mapping get -1."""
    return tuple(_field_of(column, "", report) for column in columns)


def _field_of(column: delta.StructField, path: str, report: Report) -> DataField:
    here = _below(path, column.name)
    number = column.metadata.get(ID)
    comment = column.metadata.get(_COMMENT_KEY)
    found = with_nullability(_type_of_column(column, here, report), column.nullable)
    for key, value in column.metadata.items():
        if key not in (*_CARRIED, _CHANGES_KEY):
            report(ConversionLoss(here, key, _shown(value), "", "Paimon has no such property of a column"))
    return DataField(
        number if type(number) is int else -1,
        column.name,
        found,
        comment if isinstance(comment, str) else None,
        _default_of(column, here, report),
    )


def _type_of_column(column: delta.StructField, path: str, report: Report) -> DataType:
    fixed = column.metadata.get(CHAR_VARCHAR_KEY)
    if isinstance(fixed, str):
        match = _LENGTH.fullmatch(fixed.strip().lower())
        if match is not None and column.data_type == delta.PrimitiveType("string"):
            return _fixed(match[1], int(match[2]), path, report)
        report(ConversionLoss(path, "length", fixed, "STRING", "the length of strings inside a type is not kept"))
    return _type_of(column.data_type, path, report)


def _fixed(word: str, length: int, path: str, report: Report) -> AtomicType:
    if 1 <= length <= MAX_LENGTH:
        return AtomicType(Root.CHAR if word == "char" else Root.VARCHAR, (length,))
    report(ConversionLoss(path, "length", f"{word}({length})", "STRING", "Paimon has no such length"))
    return _STRING


def _default_of(column: delta.StructField, path: str, report: Report) -> str | None:
    """Return the default value as Paimon stores it: a literal without quotes. Expressions are lost."""
    text = column.metadata.get(DEFAULT_KEY)
    if not isinstance(text, str) or text.strip().upper() == "NULL":
        return None
    if (literal := _TEXT_LITERAL.fullmatch(text.strip())) is not None:
        return literal[1].replace("''", "'").replace("\\\\", "\\")
    if _NUMBER.fullmatch(text.strip()):
        return text.strip()
    report(ConversionLoss(path, "default", text, "", "a default value in Paimon is a literal, not an expression"))
    return None


def _type_of(data_type: delta.DataType, path: str, report: Report) -> DataType:
    match data_type:
        case delta.StructType(fields):
            return RowType(tuple(_field_of(field, path, report) for field in fields))
        case delta.ArrayType(element, contains_null):
            return ListType(Root.ARRAY, with_nullability(_type_of(element, f"{path}.element", report), contains_null))
        case delta.MapType(key, value, value_contains_null):
            return MapType(
                with_nullability(_type_of(key, f"{path}.key", report), False),
                with_nullability(_type_of(value, f"{path}.value", report), value_contains_null),
            )
        case delta.PrimitiveType(name):
            return _primitive_of(name, path, report)


def _primitive_of(name: str, path: str, report: Report) -> AtomicType:
    if name in EQUALS:
        return EQUALS[name]
    if (parts := decimal_parts(name)) is not None:
        return decimal(*parts)
    if (match := _LENGTH.fullmatch(name)) is not None:
        return _fixed(match[1], int(match[2]), path, report)
    if name.startswith("string collate "):
        report(ConversionLoss(path, "collation", name, "STRING", "Paimon compares strings by their bytes"))
        return _STRING
    if (match := re.fullmatch(r"(geometry|geography)\((.*)\)", name)) is not None:
        return _geometry_of(name, match[1].upper(), match[2], path, report)
    report(ConversionLoss(path, "type", name, "STRING", "Paimon has no such type"))
    return _STRING


def _geometry_of(name: str, word: str, arguments: str, path: str, report: Report) -> AtomicType:
    quoted = "'" + arguments.partition(",")[0].strip().strip("'").replace("'", "''") + "'"
    try:
        found = parse_type_string(f"{word}({quoted})")
    except BadType as fault:
        report(ConversionLoss(path, "type", name, "BYTES", str(fault)))
        return _BYTES
    assert isinstance(found, AtomicType)
    if "," in arguments:
        report(ConversionLoss(path, "type", name, type_text(found), "the algorithm is not kept"))
    return found


def fields_of_paimon(columns: Sequence[DataField], report: Report) -> tuple[delta.StructField, ...]:
    """Return columns of a Paimon table as columns of Delta. Ids are not kept: Delta assigns them to a new table."""
    return tuple(_column_of(column, "", report) for column in columns)


def _column_of(column: DataField, path: str, report: Report) -> delta.StructField:
    here = _below(path, column.name)
    metadata: dict[str, Json] = {}
    if column.description is not None:
        metadata[_COMMENT_KEY] = column.description
    if column.default_value is not None:
        metadata[DEFAULT_KEY] = _sql_literal(column)
    if not path and (fixed := _length_of(column.type)) is not None:
        metadata[CHAR_VARCHAR_KEY] = fixed
        found: delta.DataType = delta.PrimitiveType("string")
    else:
        found = _delta_type(column.type, here, report)
    return delta.StructField(column.name, found, column.type.nullable, metadata)


def _length_of(data_type: DataType) -> str | None:
    if data_type.root in (Root.CHAR, Root.VARCHAR) and isinstance(data_type, AtomicType):
        length = int(data_type.arguments[0])
        return None if (data_type.root, length) == (Root.VARCHAR, MAX_LENGTH) else f"{data_type.root.lower()}({length})"
    return None


def _sql_literal(column: DataField) -> str:
    text = column.default_value or ""
    is_plain = column.type.root not in (Root.CHAR, Root.VARCHAR) and _NUMBER.fullmatch(text.strip())
    return text.strip() if is_plain else "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _delta_type(data_type: DataType, path: str, report: Report) -> delta.DataType:
    match data_type:
        case RowType(fields):
            return delta.StructType(tuple(_column_of(field, path, report) for field in fields))
        case MapType(key, value):
            if key.nullable:
                report(
                    ConversionLoss(
                        f"{path}.key", "nullability", "NULL", "NOT NULL", "keys of maps in Delta are never null"
                    )
                )
            parts = _delta_type(key, f"{path}.key", report), _delta_type(value, f"{path}.value", report)
            return delta.MapType(*parts, value.nullable)
        case ListType(Root.MULTISET, element):
            report(ConversionLoss(path, "type", "MULTISET", "map", "a multiset is a map of counts"))
            return delta.MapType(_delta_type(element, f"{path}.key", report), delta.PrimitiveType("integer"), False)
        case ListType(root, element):
            if root is Root.VECTOR:
                text = type_text(with_nullability(data_type, True))
                report(ConversionLoss(path, "type", text, "array", "the length of a vector is not kept"))
            return delta.ArrayType(_delta_type(element, f"{path}.element", report), element.nullable)
        case AtomicType():
            return delta.PrimitiveType(_delta_name(data_type, path, report))


def _delta_name(data_type: AtomicType, path: str, report: Report) -> str:
    plain = AtomicType(data_type.root, data_type.arguments)
    text = type_text(plain)
    if plain in _NAMES:
        return _NAMES[plain]
    if plain.root is Root.DECIMAL:
        return "decimal({},{})".format(*plain.arguments)
    if plain.root in (Root.CHAR, Root.VARCHAR):
        report(ConversionLoss(path, "type", text, "string", _CHAR))
        return "string"
    if plain.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ):
        name = "timestamp_ntz" if plain.root is Root.TIMESTAMP else "timestamp"
        digits = int(plain.arguments[0])
        report(ConversionLoss(path, "type", text, name, "timestamps in Delta have 6 digits of a second", digits > 6))
        return name
    name, reason, is_lost = _INSTEAD[plain.root]
    report(ConversionLoss(path, "type", text, name, reason, is_lost))
    return name


def _below(path: str, name: str) -> str:
    return f"{path}.{sql_name(name)}" if path else sql_name(name)


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
