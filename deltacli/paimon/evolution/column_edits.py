"""Editing the fields of a schema at a path: `element` leads into an array, `value` into the values of a map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from deltacli.errors import Refused, UsageError
from deltacli.hints import command, nearest_path, sql_name
from deltacli.paimon.evolution.requests import Path
from deltacli.paimon.schema_changes import dotted
from deltacli.paimon.types import DataField, DataType, ListType, MapType, Root, RowType

ELEMENT, KEY, VALUE = "element", "key", "value"

Fields = tuple[DataField, ...]
Edit = Callable[[DataType, str], DataType]
"""Gets the type around the end of a path, and its last name; returns the new type."""


def edit_at(fields: Fields, path: Path, edit: Edit) -> Fields:
    """Return fields with an edit at the end of a path. Raises UsageError where the path leads nowhere, and Refused for
    the keys of maps.
    """
    edited = _edit(RowType(fields), path, 0, edit)
    assert isinstance(edited, RowType)
    return edited.fields


def _edit(around: DataType, path: Path, place: int, edit: Edit) -> DataType:
    name = path[place]
    if place == len(path) - 1:
        return edit(around, name)
    return with_part(around, name, _edit(part_of(around, path[: place + 1]), path, place + 1, edit))


def part_of(around: DataType, path: Path) -> DataType:
    """Return the type at the last name of a path, which stands in the type around it."""
    name = path[-1]
    match around:
        case RowType(fields):
            return field_of(fields, path).type
        case ListType(Root.ARRAY, element) if name == ELEMENT:
            return element
        case MapType(_, value) if name == VALUE:
            return value
        case MapType() if name == KEY:
            raise Refused(
                f"{dotted(path)}: the keys of a MAP cannot be changed; Paimon's Java would change the values instead",
                code="alter.map-key",
            )
    raise _no_such_part(around, path)


def field_of(fields: Sequence[DataField], path: Path) -> DataField:
    """Return the field at the last name of a path. Raises UsageError that names the nearest one."""
    found = next((field for field in fields if field.name == path[-1]), None)
    if found is not None:
        return found
    siblings = [(field.name,) for field in fields]
    near = nearest_path(path[-1:], siblings if path[:-1] else [*siblings, *_nested(fields)])
    more = ", …" if len(fields) > _MOST_NAMED else ""
    facts = {"columns": ", ".join(sql_name(field.name) for field in fields[:_MOST_NAMED]) + more}
    facts |= {} if near is None else {"did you mean": dotted((*path[:-1], *near))}
    hint = command("schema show") or None
    absent = UsageError(f"the column {dotted(path)} does not exist", code="usage.column", facts=facts, hint=hint)
    absent.written = dotted(path)
    raise absent


def _nested(fields: Sequence[DataField], above: Path = ()) -> Iterator[Path]:
    """Yield the paths of fields within columns that are rows."""
    for field in fields:
        if above:
            yield (*above, field.name)
        if isinstance(field.type, RowType):
            yield from _nested(field.type.fields, (*above, field.name))


_MOST_NAMED = 20


def with_part(around: DataType, name: str, part: DataType) -> DataType:
    """Return a type with another type at a name that `part_of` found."""
    match around:
        case RowType(fields):
            changed = (replace(field, type=part) if field.name == name else field for field in fields)
            return replace(around, fields=tuple(changed))
        case ListType():
            return replace(around, element=part)
        case MapType():
            return replace(around, value=part)
        case _:
            return around


def edit_type(fields: Fields, path: Path, change: Callable[[DataType], DataType]) -> Fields:
    """Return fields with another type at a path, also of an element or a value."""
    return edit_at(fields, path, lambda around, name: with_part(around, name, change(part_of(around, path))))


def edit_field(fields: Fields, path: Path, change: Callable[[DataField], DataField]) -> Fields:
    """Return fields with another field at a path."""

    def edit(around: DataType, _: str) -> DataType:
        row = row_around(around, path)
        chosen = field_of(row.fields, path)
        return replace(row, fields=tuple(change(field) if field is chosen else field for field in row.fields))

    return edit_at(fields, path, edit)


def row_around(around: DataType, path: Path) -> RowType:
    """Return the ROW that has the field at a path. Raises UsageError for an element, a value, or below a plain type."""
    if isinstance(around, RowType):
        return around
    parts = (ELEMENT, VALUE, KEY) if isinstance(around, ListType | MapType) else ()
    if path[-1] in parts:
        raise UsageError(
            f"{dotted(path)} is not a column: only its type and its nullability can be changed", code="usage.column"
        )
    raise _no_such_part(around, path)


def _no_such_part(around: DataType, path: Path) -> UsageError:
    outer = dotted(path[:-1])
    expected = {Root.ARRAY: f"{outer}.{ELEMENT}", Root.MAP: f"{outer}.{VALUE}"}.get(around.root)
    facts = {"expected": expected} if expected else {"type": str(around.root)}
    reason = "has fields only below that" if expected else "has no fields"
    return UsageError(f"the column {dotted(path)} does not exist: {outer} {reason}", code="usage.column", facts=facts)


def moved(fields: Fields, column: str, to: int) -> Fields:
    """Return fields with a column at another place."""
    others = [field for field in fields if field.name != column]
    chosen = next(field for field in fields if field.name == column)
    return (*others[:to], chosen, *others[to:])


def numbered(data_type: DataType, next_id: Callable[[], int]) -> DataType:
    """Return a type whose fields have new ids: depth first, those inside a field before its own."""
    match data_type:
        case RowType(fields):
            changed = []
            for field in fields:
                inner = numbered(field.type, next_id)
                changed.append(replace(field, id=next_id(), type=inner))
            return replace(data_type, fields=tuple(changed))
        case ListType(_, element):
            return replace(data_type, element=numbered(element, next_id))
        case MapType(key, value):
            return replace(data_type, key=numbered(key, next_id), value=numbered(value, next_id))
        case _:
            return data_type


def with_required_keys(data_type: DataType) -> DataType:
    """Return a type whose MAP keys are NOT NULL, as Arrow and Paimon C++ need them. Spec: Limitations."""
    match data_type:
        case RowType(fields):
            changed = (replace(field, type=with_required_keys(field.type)) for field in fields)
            return replace(data_type, fields=tuple(changed))
        case ListType(_, element):
            return replace(data_type, element=with_required_keys(element))
        case MapType(key, value):
            required = replace(with_required_keys(key), nullable=False)
            return replace(data_type, key=required, value=with_required_keys(value))
        case _:
            return data_type
