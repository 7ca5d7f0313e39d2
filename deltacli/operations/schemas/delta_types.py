"""Columns of Delta as columns of Paimon, and back; in Spark SQL; and what changes from one schema to another.

What the other format cannot state is reported as a loss.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from deltacli.core.errors import format_sql_name, quote_identifier
from deltacli.core.typing import Json
from deltacli.delta.schema import types as delta
from deltacli.delta.schema.types import CHAR_VARCHAR_KEY, ID, PHYSICAL_NAME, decimal_parts
from deltacli.delta.sql.stored import DEFAULT_KEY
from deltacli.paimon.conversions import ConversionLoss, Report
from deltacli.paimon.schema_changes import Change, ChangeKind, Path, SqlType
from deltacli.paimon.types import (
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
    parse_type_string,
    type_text,
    with_nullability,
)

# -- Delta columns as Paimon columns -----------------------------------------------------------------------------------

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
        text = column.default_value
        is_plain = column.type.root not in (Root.CHAR, Root.VARCHAR) and _NUMBER.fullmatch(text.strip())
        metadata[DEFAULT_KEY] = text.strip() if is_plain else "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
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
    return f"{path}.{format_sql_name(name)}" if path else format_sql_name(name)


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


# -- types of Delta in Spark SQL ---------------------------------------------------------------------------------------

_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def spark_sql(data_type: delta.DataType) -> str:
    """Return a type of Delta as in Spark SQL: `STRUCT<`a`: INT NOT NULL>`."""
    match data_type:
        case delta.PrimitiveType(name):
            return _SQL.get(name, name.upper())
        case delta.ArrayType(element):
            return f"ARRAY<{spark_sql(element)}>"
        case delta.MapType(key, value):
            return f"MAP<{spark_sql(key)}, {spark_sql(value)}>"
        case delta.StructType(fields):
            return f"STRUCT<{', '.join(map(_nested, fields))}>"


def _nested(field: delta.StructField) -> str:
    comment = field.metadata.get("comment")
    text = f"{quote_identifier(field.name)}: {spark_sql(field.data_type)}{'' if field.nullable else ' NOT NULL'}"
    return text + (f" COMMENT {sql_literal(comment)}" if isinstance(comment, str) else "")


def sql_literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# -- changes between Delta schemas -------------------------------------------------------------------------------------

_COMMENT = "comment"
_SHOWN_ELSEWHERE = (_COMMENT, ID, PHYSICAL_NAME, CHAR_VARCHAR_KEY, DEFAULT_KEY)
"""Metadata of columns that other changes show, or that say how a column is stored."""


def delta_changes(before: delta.StructType, after: delta.StructType, *, by_id: bool) -> list[Change]:
    """Return the changes of columns, which are matched by their ids or by their names; other metadata last."""
    found = _of_fields(before.fields, after.fields, (), by_id=by_id)
    return sorted(found, key=lambda change: change.kind is ChangeKind.METADATA)


def _of_fields(
    before: Sequence[delta.StructField], after: Sequence[delta.StructField], path: Path, *, by_id: bool
) -> Iterator[Change]:
    keys = [_numbered(before, by_id=by_id), _numbered(after, by_id=by_id)]
    olds, news = (dict(zip(one, fields, strict=True)) for one, fields in zip(keys, (before, after), strict=True))
    for key, old in olds.items():
        if key not in news:
            yield Change(ChangeKind.DROP_COLUMN, (*path, old.name), _id_of(old), before=_column_type(old))
    kept = [(old, news[key]) for key, old in olds.items() if key in news]
    for old, new in kept:
        yield from _of_field(old, new, path, by_id=by_id)
    for key, new in news.items():
        if key not in olds:
            yield Change(ChangeKind.ADD_COLUMN, (*path, new.name), _id_of(new), after=_column_type(new))
    places = {key: place for place, key in enumerate(news)}
    order = [places[key] for key in olds if key in news]
    if order != sorted(order):
        names: tuple[Json, Json] = [new.name for _, new in kept], [new.name for new in after]
        yield Change(ChangeKind.POSITION, path, None, *names)


def _numbered(fields: Sequence[delta.StructField], *, by_id: bool) -> list[tuple[int | str, int]]:
    """Return a key per field that is equal for the same field of another schema, and that no sibling has."""
    seen: Counter[int | str] = Counter()
    found = []
    ids = Counter(map(_id_of, fields))
    for field in fields:
        number = _id_of(field)
        key = number if by_id and number is not None and ids[number] == 1 else field.name
        found.append((key, seen[key]))
        seen[key] += 1
    return found


def _id_of(field: delta.StructField) -> int | None:
    number = field.metadata.get(ID)
    return number if type(number) is int else None


def _of_field(old: delta.StructField, new: delta.StructField, path: Path, *, by_id: bool) -> Iterator[Change]:
    here, number = (*path, new.name), _id_of(new)
    if old.name != new.name:
        yield Change(ChangeKind.RENAME_COLUMN, (*path, old.name), number, old.name, new.name)
    if (was := _fixed_length(old)) != (becomes := _fixed_length(new)):
        types = SqlType(was or spark_sql(old.data_type)), SqlType(becomes or spark_sql(new.data_type))
        yield Change(ChangeKind.TYPE, here, number, *types)
    else:
        yield from _of_type(old.data_type, new.data_type, here, number, by_id=by_id)
    if old.nullable != new.nullable:
        yield Change(ChangeKind.NULLABILITY, here, number, old.nullable, new.nullable)
    for kind, key in ((ChangeKind.COMMENT, _COMMENT), (ChangeKind.DEFAULT, DEFAULT_KEY)):
        if old.metadata.get(key) != new.metadata.get(key):
            yield Change(kind, here, number, old.metadata.get(key), new.metadata.get(key))
    for key in sorted({*old.metadata, *new.metadata} - {*_SHOWN_ELSEWHERE}):
        if old.metadata.get(key) != new.metadata.get(key):
            values = old.metadata.get(key), new.metadata.get(key)
            yield Change(ChangeKind.METADATA, here, None, *values, key=key)


def _of_type(
    old: delta.DataType, new: delta.DataType, path: Path, number: int | None, *, by_id: bool
) -> Iterator[Change]:
    """Yield the changes of a type; those inside structs, arrays and maps one by one."""
    parts: Mapping[str, tuple[delta.DataType, delta.DataType]] = {}
    nulls: tuple[tuple[str, bool, bool], ...] = ()
    match old, new:
        case delta.StructType(), delta.StructType():
            yield from _of_fields(old.fields, new.fields, path, by_id=by_id)
        case delta.ArrayType(), delta.ArrayType():
            parts = {"element": (old.element, new.element)}
            nulls = (("element", old.contains_null, new.contains_null),)
        case delta.MapType(), delta.MapType():
            parts = {"key": (old.key, new.key), "value": (old.value, new.value)}
            nulls = (("value", old.value_contains_null, new.value_contains_null),)
        case _ if old != new:
            yield Change(ChangeKind.TYPE, path, number, SqlType(spark_sql(old)), SqlType(spark_sql(new)))
    for name, (was, becomes) in parts.items():
        yield from _of_type(was, becomes, (*path, name), number, by_id=by_id)
    for name, could, can in nulls:
        if could != can:
            yield Change(ChangeKind.NULLABILITY, (*path, name), number, could, can)


def _fixed_length(field: delta.StructField) -> str | None:
    """Return `CHAR(n)` or `VARCHAR(n)` for a string that has a length, None for another column."""
    found = field.metadata.get(CHAR_VARCHAR_KEY)
    return found.strip().upper() if isinstance(found, str) else None


def _column_type(field: delta.StructField) -> SqlType:
    text = _fixed_length(field) or spark_sql(field.data_type)
    return SqlType(text if field.nullable else f"{text} NOT NULL")
