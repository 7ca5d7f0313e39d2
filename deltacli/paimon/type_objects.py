"""Types and fields as JSON values of schema files: strings, and objects for types with parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from deltacli.paimon.type_strings import BadType, parse_type_string, vector
from deltacli.paimon.types import MAX_DEPTH, DataField, DataType, ListType, MapType, Root, RowType, type_json


class Odd(StrEnum):
    """A kind of oddity: the id of its rule."""

    DUPLICATE_KEY = "paimon.duplicate-key"
    TRAILING_TEXT = "paimon.trailing-text"
    UNKNOWN_KEY = "paimon.unknown-key"
    NULL_KEY = "paimon.null-key"
    OPTION_NOT_STRING = "paimon.option-not-string"
    NULLABLE_MAP_KEY = "paimon.map-key-nullable"
    NULLABILITY = "paimon.nullability-contradiction"
    NOT_CANONICAL = "paimon.type-not-canonical"
    MANIFEST_MISSING = "paimon.manifest-missing"


class Oddity(NamedTuple):
    """Something in a schema file that Java reads but does not write: a place in the file, and the value there."""

    rule: Odd
    place: str
    seen: object = None


Note = Callable[[Odd, str, object], None]
"""Takes the kind, the place and the value of something odd that does not stop the reader."""


def ignore(_kind: Odd, _place: str, _seen: object) -> None:
    """Ignore what is odd."""


class FieldIds:
    """Numbers the fields of a ROW that have no ids, as in changes that are not yet in a schema file."""

    def __init__(self) -> None:
        self.last = -1

    def of(self, value: object) -> int:
        """Return the id of a field. Raises BadType where only some fields have ids, or where an id is not a number."""
        if value is None:
            self.last += 1
            return self.last
        if self.last != -1:
            raise BadType("some fields have an id and some do not")
        return _whole_number(value, "the id of a field")


class RequiredIds(FieldIds):
    """The fields of a schema file, each of which has an id."""

    def of(self, value: object) -> int:
        if value is None:
            raise MissingKey("id")
        return _whole_number(value, "the id of a field")


class MissingKey(BadType):
    """A required key is missing."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is missing")
        self.key = key


def parse_type(value: object, ids: FieldIds | None = None, *, note: Note = ignore, place: str = "") -> DataType:
    """Return the type that a JSON value describes. Raises BadType with the reason.

    `note` is called for contradictions between the type string and the other keys of an object.
    """
    return _parse(value, ids or FieldIds(), note, place, 0)


def _parse(value: object, ids: FieldIds, note: Note, place: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise BadType(f"types are nested too deeply: more than {MAX_DEPTH}")
    if isinstance(value, str):
        found = parse_type_string(value)
        if not is_canonical(value):
            note(Odd.NOT_CANONICAL, place, value)
        return found
    if not isinstance(value, dict):
        raise BadType(f"found {_shown(value)}, expected a type")
    name = value.get("type")
    if not isinstance(name, str):
        raise MissingKey("type") if name is None else BadType(f"found {_shown(name)}, expected a type")
    # Java looks at the beginning of the string and for NOT NULL in it, not at the words.
    nullable = "NOT NULL" not in name
    _note_contradiction(value, name, nullable, note, place)

    def part(key: str) -> DataType:
        if key not in value:
            raise MissingKey(key)
        return _parse(value[key], ids, note, f"{place}.{key}", depth + 1)

    if name.startswith("ARRAY"):
        return ListType(Root.ARRAY, part("element"), nullable)
    if name.startswith("VECTOR"):
        return vector(part("element"), _whole_number(value.get("length"), "length"), nullable=nullable)
    if name.startswith("MULTISET"):
        return ListType(Root.MULTISET, part("element"), nullable)
    if name.startswith("MAP"):
        return _map(part("key"), part("value"), nullable, note, place)
    if name.startswith("ROW"):
        return RowType(_row_fields(value, ids, note, place, depth), nullable)
    raise BadType(f"{_shown(name)} does not have the form of an object (expected: ARRAY, MAP, ROW, MULTISET, VECTOR)")


@lru_cache(maxsize=4_096)
def is_canonical(text: str) -> bool:
    """Return True for a type string as Java writes it."""
    return bool(type_json(parse_type_string(text)) == text)


def _map(key: DataType, value: DataType, nullable: bool, note: Note, place: str) -> MapType:
    if key.nullable:
        note(Odd.NULLABLE_MAP_KEY, place, None)
    return MapType(key, value, nullable)


def _note_contradiction(value: Mapping[str, Any], name: str, nullable: bool, note: Note, place: str) -> None:
    """Note another nullability in `nullable`, a key of pypaimon, and words that Java reads as nullable."""
    written = value.get("nullable")
    if isinstance(written, bool) and written != nullable:
        note(Odd.NULLABILITY, place, {"type": name, "nullable": written})
    elif nullable and " ".join(name.upper().split()[1:]) == "NOT NULL":
        note(Odd.NULLABILITY, place, {"type": name})


def _row_fields(value: Mapping[str, Any], ids: FieldIds, note: Note, place: str, depth: int) -> tuple[DataField, ...]:
    fields = value.get("fields")
    if not isinstance(fields, list):
        raise MissingKey("fields") if fields is None else BadType("fields is not an array")
    found = tuple(parse_field(field, ids, note=note, place=place, depth=depth + 1) for field in fields)
    names = [field.name for field in found]
    if blank := next((name for name in names if not name.strip()), None):
        raise BadType(f"the field name {blank!r} is blank")
    if "" in names:
        raise BadType("a field name is empty")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadType(f"the field name {twice!r} occurs twice")
    return found


def parse_field(value: object, ids: FieldIds, *, note: Note = ignore, place: str = "", depth: int = 0) -> DataField:
    """Return a field. Raises BadType with the reason and the place of the field."""
    if not isinstance(value, dict):
        raise BadType(f"found {_shown(value)}, expected a field")
    name = value.get("name")
    if not isinstance(name, str):
        raise MissingKey("name") if name is None else BadType(f"the field name {_shown(name)} is not a string")
    here = f"{place}.{name}" if place else name
    try:
        number = ids.of(value.get("id"))
        if value.get("type") is None:
            raise MissingKey("type")
        data_type = _parse(value["type"], ids, note, here, depth)
    except BadType as fault:
        fault.place = fault.place or here
        raise
    return DataField(number, name, data_type, _text(value.get("description")), _text(value.get("defaultValue")))


def _text(value: object) -> str | None:
    """Return a text as Java reads it: numbers and booleans become text."""
    if value is None or isinstance(value, str):
        return value
    return _shown(value)


def _whole_number(value: object, what: str) -> int:
    if value is None:
        raise MissingKey(what)
    if type(value) is not int:
        raise BadType(f"{what} is {_shown(value)}, expected a whole number")
    return value


def _shown(value: object) -> str:
    import json

    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "a value nested too deeply to be shown"
    return text if len(text) <= 120 else f"{text[:119]}…"
