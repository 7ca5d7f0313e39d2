"""What changes from one Delta schema to another, in Delta's own types and metadata of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from deltacli.core.typing import Json
from deltacli.delta.schema import types as delta
from deltacli.delta.schema.names import ID, PHYSICAL_NAME
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY
from deltacli.delta.sql.stored import DEFAULT_KEY
from deltacli.operations.schemas.spark_sql import spark_sql
from deltacli.paimon.schema_changes import Change, ChangeKind, Path, SqlType

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
    if (was := _fixed(old)) != (becomes := _fixed(new)):
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


def _fixed(field: delta.StructField) -> str | None:
    """Return `CHAR(n)` or `VARCHAR(n)` for a string that has a length, None for another column."""
    found = field.metadata.get(CHAR_VARCHAR_KEY)
    return found.strip().upper() if isinstance(found, str) else None


def _column_type(field: delta.StructField) -> SqlType:
    text = _fixed(field) or spark_sql(field.data_type)
    return SqlType(text if field.nullable else f"{text} NOT NULL")
