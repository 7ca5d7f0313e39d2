"""Positions of columns and fields: `first`, `last`, `before:X`, `after:X`, where X is a field of the same struct."""

from __future__ import annotations

from typing import Any

from deltacli.delta.schema.column_path import CODE, ColumnPlace, names_in
from deltacli.delta.schema.names import places_of
from deltacli.errors import UsageError
from deltacli.hints import in_backticks, nearest_name, sql_name


def place_at(fields: list[dict[str, Any]], position: str, parent: ColumnPlace) -> int:
    """Return where a new field of a struct is inserted for a position. Raises UsageError."""
    return _place(fields, *_read(fields, position, parent))


def move_to(fields: list[dict[str, Any]], place: int, position: str, parent: ColumnPlace) -> None:
    """Move a field of a struct to a position. Raises UsageError."""
    field = fields[place]
    word, other = _read(fields, position, parent)
    if other is not field:
        del fields[place]
        fields.insert(_place(fields, word, other), field)


def _read(fields: list[dict[str, Any]], position: str, parent: ColumnPlace) -> tuple[str, dict[str, Any] | None]:
    """Return the word of a position, and the field that it names."""
    word, colon, reference = position.partition(":")
    word = word.lower()
    if word in ("first", "last") and not colon:
        return word, None
    if word not in ("before", "after") or not reference:
        unknown = UsageError(f"{position!r} is not a position", facts={"expected": "first, last, before:X or after:X"})
        if near := nearest_name(word, ("before", "after") if colon else ("first", "last")):
            unknown.facts["did you mean"], unknown.written = f"{near}{colon}{reference}", position
        raise unknown
    return word, fields[_sibling(fields, reference, parent)]


def _place(fields: list[dict[str, Any]], word: str, other: dict[str, Any] | None) -> int:
    if other is None:
        return 0 if word == "first" else len(fields)
    return next(number for number, one in enumerate(fields) if one is other) + (word == "after")


def after_words(fields: list[dict[str, Any]], place: int) -> str:
    """Return where a field is: first, or after another one."""
    return "first" if place == 0 else f"after {_shown(fields[place - 1])}"


def position_words(words: str) -> str:
    """Return a position as the reference implementation writes it: `FIRST`, `AFTER x`."""
    word, space, name = words.partition(" ")
    return f"{word.upper()}{space}{name}"


def _sibling(fields: list[dict[str, Any]], reference: str, parent: ColumnPlace) -> int:
    *above, name = names_in(reference)
    around = [step.name.lower() for step in parent.steps]
    if above and [one.lower() for one in above] != around:
        raise UsageError(
            f"{reference} is in another struct: a field is moved within its own struct only",
            code=CODE,
            facts={"fields": ", ".join(map(_shown, fields[:40]))},
        )
    found = places_of(name, [field["name"] for field in fields])
    if len(found) == 1:
        return found[0]
    absent = UsageError(
        f"there is no field {name} to move before or after",
        code=CODE,
        facts={"fields": ", ".join(map(_shown, fields[:40]))},
    )
    if not found and (near := nearest_name(name, [str(field["name"]) for field in fields], ignores_case=True)):
        absent.facts["did you mean"] = ".".join(map(sql_name, (*above, near)))
        absent.written = reference
    raise absent


def _shown(field: dict[str, Any]) -> str:
    name = str(field["name"])
    return name if name.isidentifier() else in_backticks(name)
