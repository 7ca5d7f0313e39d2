"""CREATE TABLE statements of Flink SQL as schemas: columns, comments, keys, options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from deltacli.paimon.schema import CURRENT_VERSION, Schema
from deltacli.paimon.sql_types import parse_sql_type, split_parts
from deltacli.paimon.type_strings import BadType
from deltacli.paimon.types import RowType

_COMMENT_LINES = re.compile(r"(?:\s*--[^\n]*(?:\n|$))*")
_CREATE = re.compile(
    r"\s*CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?((?:`(?:[^`]|``)*`|[\w.$-])+)\s*\(", re.IGNORECASE
)
_KEY = re.compile(r"\s*(?:CONSTRAINT\s+\S+\s+)?PRIMARY\s+KEY\s*\((.*)\)(?:\s+NOT\s+ENFORCED)?\s*", re.IGNORECASE | re.S)
_PARTITIONED = re.compile(r"\s*PARTITIONED\s+BY\s*\(([^()]*)\)", re.IGNORECASE)
_TABLE_COMMENT = re.compile(r"\s*COMMENT\s+'((?:[^']|'')*)'", re.IGNORECASE)
_WITH = re.compile(r"\s*WITH\s*\((.*)\)", re.IGNORECASE | re.S)
_OPTION = re.compile(r"\s*'((?:[^']|'')*)'\s*=\s*'((?:[^']|'')*)'\s*")


def read_ddl(text: str) -> Schema:
    """Return the schema that a CREATE TABLE statement states; its fields have no ids (-1). Raises BadType."""
    plain = text[_COMMENT_LINES.match(text).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    begin = _CREATE.match(plain)
    if begin is None:
        raise BadType("it is not a CREATE TABLE statement")
    end = _end_of(plain, begin.end())
    columns: list[str] = []
    keys: tuple[str, ...] = ()
    for part in split_parts(plain[begin.end() : end]):
        if (key := _KEY.fullmatch(part)) is not None:
            keys = _names(key[1])
        else:
            columns.append(part)
    row = parse_sql_type(f"ROW<{','.join(columns)}>")
    if not isinstance(row, RowType):
        raise BadType("the statement has no columns")
    partitions, comment, options = _ending(plain[end + 1 :])
    fields = tuple(replace(column, id=-1) for column in row.fields)
    return Schema(CURRENT_VERSION, 0, fields, -1, partitions, keys, options, comment)


def _ending(text: str) -> tuple[tuple[str, ...], str | None, dict[str, str]]:
    """Return partition keys, comment and options. Raises BadType for other clauses, such as those of Spark SQL."""
    partitions: tuple[str, ...] = ()
    comment, options = None, {}
    rest = text.strip().removesuffix(";")
    while rest.strip():
        if (match := _PARTITIONED.match(rest)) is not None:
            partitions = _names(match[1])
        elif (match := _TABLE_COMMENT.match(rest)) is not None:
            comment = match[1].replace("''", "'")
        elif (match := _WITH.match(rest)) is not None:
            options = dict(_options(match[1]))
        else:
            raise BadType(f"unexpected {rest.split()[0]!r}: only Flink SQL is read")
        rest = rest[match.end() :]
    return partitions, comment, options


def _options(text: str) -> Iterator[tuple[str, str]]:
    for part in split_parts(text):
        match = _OPTION.fullmatch(part)
        if match is None:
            raise BadType(f"{part.strip()!r} is not an option: 'key' = 'value' is expected")
        yield match[1].replace("''", "'"), match[2].replace("''", "'")


def _names(text: str) -> tuple[str, ...]:
    parts = (part.strip() for part in split_parts(text))
    return tuple(part[1:-1].replace("``", "`") if part[:1] == "`" else part for part in parts)


def _end_of(text: str, start: int) -> int:
    """Return the place of the parenthesis that ends the columns. Raises BadType without one."""
    depth, quote = 1, ""
    for place in range(start, len(text)):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in "'`":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                return place
    raise BadType("the statement ends too early: ')' is missing")
