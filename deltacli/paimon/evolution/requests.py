"""The changes that can be asked for: the SchemaChange values of Paimon's REST API, and their JSON; and as words of a
command line, `add price "DECIMAL(10, 2)"`, `rename a.b c`, `move id first`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from deltacli.core.alter_verbs import Details, Verb, find_missing_words, pair_columns_with_types
from deltacli.core.errors import Refused, UsageError, command, nearest_name, nearest_type, parameter
from deltacli.core.typing import Json, JsonObject
from deltacli.paimon.conversions import parse_sql_type
from deltacli.paimon.schema import BadJson, read_json
from deltacli.paimon.types import AtomicType, BadType, DataType, ListType, MapType, Root, RowType, parse_type, type_json

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
    def __init__(self, number: int, value: object) -> None:
        self._number = number
        if not isinstance(value, Mapping):
            raise self._bad("it is not a JSON object")
        self._value: JsonObject = value

    def read(self) -> SchemaChange:
        action = self._value.get("action")
        if not isinstance(action, str) or action not in _ACTIONS:
            near = nearest_name(action, _ACTIONS, ignores_case=True) if isinstance(action, str) else None
            fault = self._bad("action is missing" if action is None else f"unknown action {action!r}")
            fault.facts = {"expected": ", ".join(_ACTIONS)}
            raise fault.suggest_as_fact(str(action), near)
        made, readers = _ACTIONS[action]
        unknown = next((key for key in self._value if key != "action" and key not in readers), None)
        if unknown is not None:
            raise self._bad(f"{action} has no key {unknown!r} (expected: {', '.join(readers) or 'none'})")
        return made(*(read(self, key) for key, read in readers.items()))

    def path(self, key: str) -> Path:
        names = self._value.get(key)
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise self._bad(f"{key} is not an array of one or more strings")
        return tuple(names)

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str):
            raise self._bad(f"{key} is missing" if value is None else f"{key} is not a string")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self._value.get(key) is None else self.text(key)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._value.get(key, default)
        if not isinstance(value, bool):
            raise self._bad(f"{key} is missing" if value is None else f"{key} is neither true nor false")
        return value

    def optional_flag(self, key: str) -> bool:
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
        return None if self._value.get(key) is None else self.move(key)

    def _bad(self, reason: str, *, code: str = "usage.change") -> UsageError:
        return UsageError(f"change {self._number} cannot be used: {reason}", code=code)


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


_STEP = re.compile(r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`.]+))(?=\.|$)")


def changes_of(verb: Verb, words: Sequence[str], details: Details) -> tuple[SchemaChange, ...]:
    """Return what a verb and its words ask for. Raises UsageError (`usage`, `usage.column`, `usage.type`)."""
    form, count, make = _FORMS[verb]
    least, most = count
    if details.removes and verb in (Verb.COMMENT, Verb.DEFAULT):
        least, most, form = 1, 1, f"{form.split()[0]} {parameter('alter.drop')}"
    if not least <= len(words) <= (most or len(words)):
        missing = find_missing_words(form, words) if len(words) < least else []
        what = f"the {missing[0].lower()}" if missing else "a word"
        raise UsageError(
            f"{verb}: {f'{what} is missing' if len(words) < least else 'there are too many words'}",
            facts={"expected": f"{verb} {form}", "found": " ".join(words) or "nothing"},
            hint=command("alter", verb.value, *words, *missing) if missing else command("alter", table=None, help=True),
        )
    return make(words, details)


def column_path(text: str) -> Path:
    """Return the names of a dotted path; backticks quote names with dots. Raises UsageError (`usage.column`)."""
    names, position = [], 0
    while match := _STEP.match(text, position):
        names.append(match["plain"] if match["quoted"] is None else match["quoted"].replace("``", "`"))
        if match.end() == len(text):
            return tuple(names)
        position = match.end() + 1
    raise UsageError(
        f"the column {text!r} cannot be used: a name is missing, or a backtick is not closed",
        code="usage.column",
        hint="names with dots must be in backticks, and backticks doubled: `a.b`.c",
    )


def type_of(text: str) -> DataType:
    """Return the type in a word. Raises UsageError (`usage.type`)."""
    try:
        return parse_sql_type(text)
    except BadType as fault:
        near = nearest_type(text, ("STRING", *Root))
        wrong = UsageError(f"{text!r} is not a type of Paimon: {fault}", code="usage.type")
        raise wrong.suggest(text, near) from None


def widening(words: Sequence[str]) -> tuple[SchemaChange, ...]:
    """Return COLUMN TYPE pairs as changes of type that keep the nullability but for NOT NULL. Raises UsageError."""
    types = ((column_path(column), type_of(text)) for column, text in pair_columns_with_types(words))
    return tuple(UpdateType(path, found, keep_nullability=found.nullable) for path, found in types)


def _add(words: Sequence[str], details: Details) -> tuple[SchemaChange, ...]:
    path, data_type = column_path(words[0]), type_of(words[1])
    if not details.nullable:
        raise Refused(
            f"{words[0]} cannot be added as NOT NULL: rows of existing files have no value for it",
            code="alter.not-null",
            hint=command("alter", "add", *words),
        )
    move = None if details.position is None else _move(path[-1], details.position)
    added = AddColumn(path, data_type, details.comment, move)
    return (added,) if details.default is None else (added, UpdateDefault(path, details.default))


def _moved(words: Sequence[str], _: Details) -> tuple[SchemaChange, ...]:
    return (UpdatePosition(_move(_top_level(words[0]), words[1])),)


def _move(column: str, text: str) -> Move:
    word, colon, reference = text.partition(":")
    kind = word.upper()
    if kind in (MoveKind.FIRST, MoveKind.LAST) and not colon:
        return Move(column, MoveKind(kind))
    if kind in (MoveKind.BEFORE, MoveKind.AFTER) and reference:
        return Move(column, MoveKind(kind), _top_level(reference))
    unknown = UsageError(
        f"{text!r} is not a position", facts={"expected": "first, last, before:COLUMN or after:COLUMN"}
    )
    near = nearest_name(word.lower(), ("before", "after") if colon else ("first", "last"))
    raise unknown.suggest_as_fact(text, near and f"{near}{colon}{reference}")


def _top_level(text: str) -> str:
    path = column_path(text)
    if len(path) > 1:
        raise UsageError(
            f"{text} is a nested field: only columns of the table have a position that can change", code="usage.column"
        )
    return path[0]


def _set(words: Sequence[str], _: Details) -> tuple[SchemaChange, ...]:
    found = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            meant = f"{key or 'KEY'}={value or 'VALUE'}"
            raise UsageError(f"{word!r} is not KEY=VALUE", hint=command("alter", "set", meant))
        found.append(SetOption(key, value))
    return tuple(found)


def _nullability(*, nullable: bool) -> Callable[[Sequence[str], Details], tuple[SchemaChange, ...]]:
    return lambda words, _: tuple(UpdateNullability(column_path(word), nullable) for word in words)


def _retyped(words: Sequence[str], details: Details) -> tuple[SchemaChange, ...]:
    return (UpdateType(column_path(words[0]), type_of(words[1]), details.keep_nullability),)


def _commented(words: Sequence[str], details: Details) -> tuple[SchemaChange, ...]:
    return (UpdateComment(column_path(words[0]), None if details.removes else words[1]),)


def _defaulted(words: Sequence[str], details: Details) -> tuple[SchemaChange, ...]:
    return (UpdateDefault(column_path(words[0]), None if details.removes else words[1]),)


_MANY = None
"""No greatest number of words."""

_FORMS: Mapping[
    Verb, tuple[str, tuple[int, int | None], Callable[[Sequence[str], Details], tuple[SchemaChange, ...]]]
] = {
    Verb.ADD: ("COLUMN TYPE", (2, 2), _add),
    Verb.TYPE: ("COLUMN TYPE", (2, 2), _retyped),
    Verb.RENAME: ("COLUMN NAME", (2, 2), lambda words, _: (RenameColumn(column_path(words[0]), words[1]),)),
    Verb.DROP: ("COLUMN...", (1, _MANY), lambda words, _: tuple(DropColumn(column_path(word)) for word in words)),
    Verb.MOVE: ("COLUMN first|last|before:X|after:X", (2, 2), _moved),
    Verb.COMMENT: ("COLUMN TEXT", (2, 2), _commented),
    Verb.DEFAULT: ("COLUMN VALUE", (2, 2), _defaulted),
    Verb.NULLABLE: ("COLUMN...", (1, _MANY), _nullability(nullable=True)),
    Verb.NOT_NULL: ("COLUMN...", (1, _MANY), _nullability(nullable=False)),
    Verb.SET: ("KEY=VALUE...", (1, _MANY), _set),
    Verb.UNSET: ("KEY...", (1, _MANY), lambda words, _: tuple(RemoveOption(word) for word in words)),
    Verb.TABLE_COMMENT: ("TEXT", (1, 1), lambda words, _: (UpdateTableComment(words[0] or None),)),
}
"""The words of each verb, their number, and the changes that they ask for."""
