"""Changes as words of a command line: `add price "DECIMAL(10, 2)"`, `rename a.b c`, `move id first`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from deltacli.alter_verbs import Details, Verb, left_out
from deltacli.errors import Refused, UsageError
from deltacli.hints import command, nearest_name, nearest_type, parameter
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
from deltacli.paimon.sql_types import parse_sql_type
from deltacli.paimon.type_strings import BadType
from deltacli.paimon.types import DataType, Root

_STEP = re.compile(r"(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`.]+))(?=\.|$)")


def changes_of(verb: Verb, words: Sequence[str], details: Details) -> tuple[SchemaChange, ...]:
    """Return what a verb and its words ask for. Raises UsageError (`usage`, `usage.column`, `usage.type`)."""
    form, count, make = _FORMS[verb]
    least, most = count
    if details.removes and verb in (Verb.COMMENT, Verb.DEFAULT):
        least, most, form = 1, 1, f"{form.split()[0]} {parameter('alter.drop')}"
    if not least <= len(words) <= (most or len(words)):
        missing = left_out(form, words) if len(words) < least else []
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
        meant = f"; did you mean {near}?" if near else ""
        raise UsageError(f"{text!r} is not a type of Paimon: {fault}{meant}", code="usage.type") from None


def widening(words: Sequence[str]) -> tuple[SchemaChange, ...]:
    """Return COLUMN TYPE [COLUMN TYPE …] as changes of type that keep the nullability, unless a type says NOT NULL.

    Raises UsageError.
    """
    if not words or len(words) % 2:
        raise UsageError(
            "a column without a type: columns and types are given in pairs",
            code="usage.column",
            facts={"found": " ".join(words) or "nothing"},
            hint=command("widen-type", *words, "TYPE") if words else None,
        )
    pairs = zip(words[::2], words[1::2], strict=True)
    types = ((column_path(column), type_of(text)) for column, text in pairs)
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
    if near := nearest_name(word.lower(), ("before", "after") if colon else ("first", "last")):
        unknown.facts["did you mean"], unknown.written = f"{near}{colon}{reference}", text
    raise unknown


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
            raise UsageError(f"{word!r} is not KEY=VALUE", hint=command("alter", "set", "bucket=4"))
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
