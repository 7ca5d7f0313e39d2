"""Changes that lead from one schema to another, as a person would ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deltacli.paimon.evolution.requests import (
    AddColumn,
    DropColumn,
    Move,
    MoveKind,
    Path,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateComment,
    UpdateDefault,
    UpdateNullability,
    UpdatePosition,
    UpdateTableComment,
    UpdateType,
)
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import Change, ChangeKind, changes_between
from deltacli.paimon.types import DataField, parse_type, walk_fields

_ORDER = (
    ChangeKind.DROP_COLUMN,
    ChangeKind.RENAME_COLUMN,
    ChangeKind.PRIMARY_KEYS,
    ChangeKind.TYPE,
    ChangeKind.NULLABILITY,
    ChangeKind.COMMENT,
    ChangeKind.DEFAULT,
    ChangeKind.POSITION,
    ChangeKind.ADD_COLUMN,
    ChangeKind.SET_OPTION,
    ChangeKind.REMOVE_OPTION,
    ChangeKind.TABLE_COMMENT,
)


def request_of(before: Schema, after: Schema) -> tuple[SchemaChange, ...]:
    """Return the changes, in an order in which names do not collide."""
    changes = changes_between(before, after)
    by_kind = {kind: [change for change in changes if change.kind is kind] for kind in _ORDER}
    return tuple(request for kind in _ORDER for request in _of_kind(kind, by_kind[kind], before, after))


def _of_kind(kind: ChangeKind, changes: Sequence[Change], before: Schema, after: Schema) -> Iterator[SchemaChange]:
    match kind:
        case ChangeKind.RENAME_COLUMN:
            yield from _renames(changes)
        case ChangeKind.POSITION:
            yield from _moves(before, after)
        case ChangeKind.PRIMARY_KEYS if changes and not before.primary_keys:
            yield SetOption("primary-key", ",".join(after.primary_keys))
        case _:
            for change in changes:
                yield from _requests(change, after)


def _renames(changes: Sequence[Change]) -> Iterator[SchemaChange]:
    """Yield renames by way of names that no column has."""
    for number, change in enumerate(changes):
        yield RenameColumn(change.path, f"renamed {number}")
    for number, change in enumerate(changes):
        yield RenameColumn((*change.path[:-1], f"renamed {number}"), change.after)


def _moves(before: Schema, after: Schema) -> Iterator[SchemaChange]:
    """Yield moves of the columns that both schemas have, to the end, in the later order."""
    old, new = ({field.id: field.name for field in schema.fields} for schema in (before, after))
    names = [new[number] for number in old if number in new]
    wanted = [name for number, name in new.items() if number in old]
    for name in [] if names == wanted else wanted:
        if names[-1] != name:
            names = [*(other for other in names if other != name), name]
            yield UpdatePosition(Move(name, MoveKind.LAST))


def _places(fields: Sequence[DataField]) -> Mapping[Path, tuple[DataField, str | None]]:
    """Return each field by its path, with the name of the field before it on its level."""
    found: dict[Path, tuple[DataField, str | None]] = {}
    newest: dict[Path, str] = {}
    for path, field in walk_fields(tuple(fields)):
        found[path] = (field, newest.get(path[:-1]))
        newest[path[:-1]] = field.name
    return found


def _requests(change: Change, after: Schema) -> Iterator[SchemaChange]:
    path = change.path
    match change.kind:
        case ChangeKind.ADD_COLUMN:
            field, previous = _places(after.fields)[path]
            kind = MoveKind.FIRST if previous is None else MoveKind.AFTER
            yield AddColumn(path, parse_type(change.after), field.description, Move(path[-1], kind, previous))
            if field.default_value is not None:
                yield UpdateDefault(path, field.default_value)
        case ChangeKind.DROP_COLUMN:
            yield DropColumn(path)
        case ChangeKind.TYPE:
            yield UpdateType(path, parse_type(change.after))
        case ChangeKind.NULLABILITY if change.after or path[0] not in after.primary_keys:
            yield UpdateNullability(path, change.after)
        case ChangeKind.COMMENT:
            yield UpdateComment(path, change.after)
        case ChangeKind.DEFAULT:
            yield UpdateDefault(path, change.after)
        case ChangeKind.SET_OPTION:
            yield SetOption(change.path[0], change.after)
        case ChangeKind.REMOVE_OPTION:
            yield RemoveOption(change.path[0])
        case ChangeKind.TABLE_COMMENT:
            yield UpdateTableComment(change.after)
        case _:
            return
