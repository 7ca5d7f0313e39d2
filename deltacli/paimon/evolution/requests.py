"""The changes that can be asked for: the SchemaChange values of Paimon's REST API, and their JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.errors import UsageError
from deltacli.hints import nearest_name
from deltacli.paimon.json_text import BadJson, read_json
from deltacli.paimon.type_objects import parse_type
from deltacli.paimon.type_strings import BadType
from deltacli.paimon.types import AtomicType, DataType, ListType, MapType, RowType, type_json
from deltacli.typing import Json, JsonObject

Path = tuple[str, ...]
"""The names that lead to a column or a nested field; `element` and `value` lead into arrays and maps."""


class MoveKind(StrEnum):
    FIRST = "FIRST"
    LAST = "LAST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"


class Move(NamedTuple):
    """A new place of a column; `reference` is the column that AFTER and BEFORE name."""

    column: str
    kind: MoveKind
    reference: str | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the value of the key `move`."""
        return {"fieldName": self.column, "referenceFieldName": self.reference, "type": self.kind.value}


@dataclass(frozen=True, slots=True)
class AddColumn:
    path: Path
    type: DataType
    comment: str | None = None
    move: Move | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    path: Path
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    path: Path


@dataclass(frozen=True, slots=True)
class UpdateType:
    """A new type. With `keep_nullability` that of the column stays, whatever the type says."""

    path: Path
    type: DataType
    keep_nullability: bool = False


@dataclass(frozen=True, slots=True)
class UpdateNullability:
    path: Path
    nullable: bool


@dataclass(frozen=True, slots=True)
class UpdateComment:
    path: Path
    comment: str | None


@dataclass(frozen=True, slots=True)
class UpdateDefault:
    path: Path
    default: str | None


@dataclass(frozen=True, slots=True)
class UpdatePosition:
    move: Move


@dataclass(frozen=True, slots=True)
class SetOption:
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveOption:
    key: str


@dataclass(frozen=True, slots=True)
class UpdateTableComment:
    comment: str | None


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    pass


SchemaChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | UpdateType
    | UpdateNullability
    | UpdateComment
    | UpdateDefault
    | UpdatePosition
    | SetOption
    | RemoveOption
    | UpdateTableComment
    | DropPrimaryKey
)


def change_json(change: SchemaChange) -> dict[str, Json]:
    """Return a change as in the REST API."""
    action, keys = _KEYS[type(change)]
    values = (getattr(change, field.name) for field in fields(change))
    return {"action": action, **{key: _json_of(value) for key, value in zip(keys, values, strict=True)}}


def _json_of(value: object) -> Json:
    match value:
        case Move():
            return value.as_json()
        case tuple():
            return list(value)
        case AtomicType() | ListType() | MapType() | RowType():
            return type_json(value)
    assert value is None or isinstance(value, str | bool)
    return value


def read_changes(data: bytes) -> tuple[SchemaChange, ...]:
    """Return the changes in a file: a JSON array of SchemaChange values, or the request of the REST API around it.

    Raises UsageError (`usage.change`, `usage.type`) that names the change by its place, counted from 1.
    """
    try:
        text = read_json(data)
    except BadJson as fault:
        raise UsageError(f"the changes cannot be read: {fault}", code="usage.change") from None
    if text.trailing or text.duplicate_keys:
        reason = "text follows the JSON value" if text.trailing else f"the key {text.duplicate_keys[0]} occurs twice"
        raise UsageError(f"the changes cannot be read: {reason}", code="usage.change")
    listed = text.value.get("changes") if isinstance(text.value, dict) else text.value
    if not isinstance(listed, list):
        raise UsageError(
            "the changes cannot be read: expected a JSON array of changes",
            code="usage.change",
            facts={"example": '[{"action": "setOption", "key": "bucket", "value": "4"}]'},
        )
    return tuple(change_of(number, value) for number, value in enumerate(listed, 1))


def change_of(number: int, value: object) -> SchemaChange:
    """Return the change that a JSON object describes; `number` is its place for errors. Raises UsageError."""
    return _Reader(number, value).read()


class _Reader:
    """Reads one change."""

    def __init__(self, number: int, value: object) -> None:
        self._number = number
        if not isinstance(value, Mapping):
            raise self._bad("it is not a JSON object")
        self._value: JsonObject = value

    def read(self) -> SchemaChange:
        """Return the change. Raises UsageError, also for a key that this action does not have."""
        action = self._value.get("action")
        if not isinstance(action, str) or action not in _ACTIONS:
            raise self._bad_action(action)
        made, readers = _ACTIONS[action]
        unknown = next((key for key in self._value if key != "action" and key not in readers), None)
        if unknown is not None:
            raise self._bad(f"{action} has no key {unknown!r} (expected: {', '.join(readers) or 'none'})")
        return made(*(read(self, key) for key, read in readers.items()))

    def path(self, key: str) -> Path:
        """Return the names that lead to a column."""
        names = self._value.get(key)
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise self._bad(f"{key} is not an array of one or more strings")
        return tuple(names)

    def text(self, key: str) -> str:
        """Return a required string."""
        value = self._value.get(key)
        if not isinstance(value, str):
            raise self._bad(f"{key} is missing" if value is None else f"{key} is not a string")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a string, None if it is absent or null."""
        return None if self._value.get(key) is None else self.text(key)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return a required boolean."""
        value = self._value.get(key, default)
        if not isinstance(value, bool):
            raise self._bad(f"{key} is missing" if value is None else f"{key} is neither true nor false")
        return value

    def optional_flag(self, key: str) -> bool:
        """Return a boolean, False if it is absent."""
        return self.flag(key, default=False)

    def type(self, key: str) -> DataType:
        """Return a type; its fields may have no ids."""
        if self._value.get(key) is None:
            raise self._bad(f"{key} is missing")
        try:
            return parse_type(self._value[key])
        except BadType as fault:
            raise self._bad(f"{key}: {fault}", code="usage.type") from None

    def move(self, key: str) -> Move:
        """Return a required place."""
        value = self._value.get(key)
        if not isinstance(value, dict):
            raise self._bad(f"{key} is missing" if value is None else f"{key} is not a JSON object")
        inner = _Reader(self._number, value)
        kind = inner.text("type").upper()
        if kind not in set(MoveKind):
            raise self._bad(f"the type of move is {kind!r} (expected: {', '.join(MoveKind)})")
        reference = inner.text("referenceFieldName") if kind in (MoveKind.AFTER, MoveKind.BEFORE) else None
        return Move(inner.text("fieldName"), MoveKind(kind), reference)

    def optional_move(self, key: str) -> Move | None:
        """Return a place, None if it is absent or null."""
        return None if self._value.get(key) is None else self.move(key)

    def _bad(self, reason: str, *, code: str = "usage.change") -> UsageError:
        return UsageError(f"change {self._number} cannot be used: {reason}", code=code)

    def _bad_action(self, action: object) -> UsageError:
        near = nearest_name(action, _ACTIONS, ignores_case=True) if isinstance(action, str) else None
        fault = self._bad("action is missing" if action is None else f"unknown action {action!r}")
        fault.facts = {"expected": ", ".join(_ACTIONS)} | ({"did you mean": near} if near else {})
        return fault


_COLUMN = {"fieldNames": _Reader.path}
_ACTIONS: Mapping[str, tuple[Callable[..., SchemaChange], Mapping[str, Callable[[_Reader, str], Any]]]] = {
    "addColumn": (
        AddColumn,
        {**_COLUMN, "dataType": _Reader.type, "comment": _Reader.optional_text, "move": _Reader.optional_move},
    ),
    "renameColumn": (RenameColumn, {**_COLUMN, "newName": _Reader.text}),
    "dropColumn": (DropColumn, _COLUMN),
    "updateColumnType": (
        UpdateType,
        {**_COLUMN, "newDataType": _Reader.type, "keepNullability": _Reader.optional_flag},
    ),
    "updateColumnNullability": (UpdateNullability, {**_COLUMN, "newNullability": _Reader.flag}),
    "updateColumnComment": (UpdateComment, {**_COLUMN, "newComment": _Reader.optional_text}),
    "updateColumnDefaultValue": (UpdateDefault, {**_COLUMN, "newDefaultValue": _Reader.optional_text}),
    "updateColumnPosition": (UpdatePosition, {"move": _Reader.move}),
    "setOption": (SetOption, {"key": _Reader.text, "value": _Reader.text}),
    "removeOption": (RemoveOption, {"key": _Reader.text}),
    "updateComment": (UpdateTableComment, {"comment": _Reader.optional_text}),
    "dropPrimaryKey": (DropPrimaryKey, {}),
}
"""Action -> its class, and the keys of its fields, in their order, each with how its value is read."""
_KEYS = {made: (action, tuple(readers)) for action, (made, readers) in _ACTIONS.items()}
