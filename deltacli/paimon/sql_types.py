"""Types as people write them: `ARRAY<INT>`, `MAP<STRING, BIGINT>`, `ROW<a INT, b STRING NOT NULL>`, or JSON.

Schema files have a narrower form, in which types with parts are JSON objects; see `type_strings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.paimon.json_text import BadJson, read_object
from deltacli.paimon.type_objects import parse_type
from deltacli.paimon.type_strings import BadType, parse_type_string
from deltacli.paimon.types import MAX_DEPTH, DataField, DataType, ListType, MapType, Root, RowType

MAX_CHARACTERS = 100_000

_WITH_PARTS = re.compile(r"\s*(ARRAY|MULTISET|MAP|ROW|STRUCT)\s*<", re.IGNORECASE)
_NULLABILITY = re.compile(r"\s*(NOT\s+NULL|NULL)?\s*", re.IGNORECASE)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`:<>,()]++))\s*:?\s*(?=\S)")
_COMMENT = re.compile(r"^(.*\S)\s+'((?:[^']|'')*)'\s*$", re.IGNORECASE | re.DOTALL)
_COMMENT_WORD = re.compile(r"\s+COMMENT$", re.IGNORECASE)
_QUOTES = "'`"


def parse_sql_type(text: str) -> DataType:
    """Return a type in SQL, or in the JSON form of schema files. Raises BadType with the reason.

    The fields of a ROW get ids from 0 on, each level of its own.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadType(f"the type is longer than {MAX_CHARACTERS:,} characters")
    if text.lstrip().startswith("{"):
        try:
            return parse_type(read_object(text.encode()).value)
        except BadJson as fault:
            raise BadType(str(fault)) from None
    return _parse(text, 0)


def _parse(text: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise BadType(f"types are nested too deeply: more than {MAX_DEPTH}")
    match = _WITH_PARTS.match(text)
    if match is None:
        return parse_type_string(text.strip())
    end = _end_of_parts(text, match.end())
    after = _NULLABILITY.fullmatch(text, end + 1)
    if after is None:
        raise BadType(f"unexpected {text[end + 1 :].strip()!r}")
    nullable = not (after[1] or "").upper().startswith("NOT")
    parts = list(split_parts(text[match.end() : end]))
    return _made(match[1].upper(), parts, nullable, depth + 1)


def _made(word: str, parts: list[str], nullable: bool, depth: int) -> DataType:
    if word in ("ROW", "STRUCT"):
        return RowType(_fields(parts, depth), nullable)
    expected = 2 if word == "MAP" else 1
    if len(parts) != expected:
        raise BadType(f"{word} has {len(parts)} parts, expected {expected}")
    if word == "MAP":
        return MapType(_parse(parts[0], depth), _parse(parts[1], depth), nullable)
    return ListType(Root(word), _parse(parts[0], depth), nullable)


def _fields(parts: list[str], depth: int) -> tuple[DataField, ...]:
    fields = []
    for number, part in enumerate(parts):
        match = _NAME.match(part)
        if match is None:
            raise BadType(f"{part.strip()!r} is not a field: a name and a type are expected")
        name = (match[1] or match[2]).replace("``", "`") if match[1] else match[2]
        rest, comment = part[match.end() :], None
        if (described := _COMMENT.match(rest)) is not None:
            rest, comment = _COMMENT_WORD.sub("", described[1]), described[2].replace("''", "'")
        fields.append(DataField(number, name, _parse(rest, depth), comment))
    names = [field.name for field in fields]
    if not names:
        raise BadType("a ROW has one field or more")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadType(f"the field name {twice!r} occurs twice")
    if any(not name.strip() for name in names):
        raise BadType("a field name is blank")
    return tuple(fields)


def _end_of_parts(text: str, start: int) -> int:
    """Return the place of the `>` that ends the parts. Raises BadType without one."""
    for place, mark, depth in _marks(text, start):
        if mark == ">" and depth == 0:
            return place
    raise BadType("the type ends too early: '>' is missing")


def split_parts(text: str) -> Iterator[str]:
    """Yield what stands between the commas of the outermost level, outside quotes and brackets."""
    start = 0
    for place, mark, depth in _marks(text, 0):
        if mark == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if start or text.strip():
        yield text[start:]


def _marks(text: str, start: int) -> Iterator[tuple[int, str, int]]:
    """Yield commas and closing brackets outside quotes, with the number of brackets that are open around them."""
    depth, quote = 0, ""
    for place in range(start, len(text)):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            yield place, character, depth
            depth -= 1
        elif character == ",":
            yield place, character, depth
