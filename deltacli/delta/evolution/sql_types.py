"""Types of new columns, in SQL (`ARRAY<INT>`, `struct<a: int, b: string COMMENT 'x'>`) or in the JSON of schemas.

Spec: Schema Serialization Format; Delta-Spark: data types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from deltacli.core.errors import DeltacliError, UsageError
from deltacli.core.hints import nearest_type
from deltacli.delta.schema.kinds import PLAIN_TYPES
from deltacli.delta.schema.type_changes import NUMBER_TYPES, OF_DECIMALS, canonical_name, decimal_of, hint_for_type
from deltacli.delta.schema.types import (
    MAX_DEPTH,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    types_within,
)

CODE = "usage.type"
_OTHER_NAMES: Mapping[str, str] = {"timestamp_ltz": "timestamp", "bool": "boolean"}
_PLAIN = PLAIN_TYPES | {"variant"}
_TEXTS = re.compile(r"(?:char|character|varchar)\s*\(\s*([1-9]\d{0,8})\s*\)", re.ASCII)
_WITH_LENGTH, _LENGTH = ("char", "character", "varchar"), 255
POSSIBLE = (
    f"{NUMBER_TYPES}, boolean, string, char(n), varchar(n), binary, date, timestamp, timestamp_ntz, variant, array<…>, "
    "map<…, …>, struct<name: type, …>"
)
"""How types of new columns are written."""
_WORDS = [word for word in re.findall(r"\b[a-z_]{3,}\b", POSSIBLE) if word not in ("with", "name", "type")]
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|'(?P<text>(?:[^'\\]|''|\\.)*)'|(?P<word>[\w$]+)|(?P<mark>[<>(),:]))", re.DOTALL
)


def parse_sql_type(text: str) -> DataType:
    """Return a type as people write it. `char(n)` and `varchar(n)` keep their names. Raises UsageError (`usage.type`).

    Comments of fields are in their metadata, NOT NULL makes them not nullable.
    """
    if text.lstrip().startswith(("{", '"')):
        return _parse_json(text)
    parser = _Parser(text)
    found = parser.data_type(0)
    if parser.token is not None:
        parser.fail(f"{parser.token.text!r} follows the type")
    return found


def _parse_json(text: str) -> DataType:
    field = f'{{"name":"x","type":{text},"nullable":true,"metadata":{{}}}}'
    try:
        found = parse_schema(f'{{"type":"struct","fields":[{field}]}}').fields[0].data_type
        json.loads(text)
    except (ValueError, DeltacliError) as fault:
        reason = fault.message if isinstance(fault, DeltacliError) else str(fault)
        raise UsageError(f"the type {text[:120]!r} cannot be used: {reason}", code=CODE) from None
    _require_known(found, text)
    return found


def _require_known(data_type: DataType, text: str) -> None:
    for one in types_within(data_type):
        if not isinstance(one, PrimitiveType) or one.name in _PLAIN or decimal_of(one.name) is not None:
            continue
        if _TEXTS.fullmatch(one.name) is None:
            raise _unknown(text, f"{one.name} is not a type of new columns")


def _unknown(text: str, reason: str) -> UsageError:
    return UsageError(
        f"the type {text[:120]!r} cannot be used: {reason}",
        code=CODE,
        facts={"possible": POSSIBLE},
        hint=hint_for_type(text),
    )


class _Token(NamedTuple):
    text: str
    kind: str


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = []
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                self.fail(f"{text[place:].strip()[:20]!r} is not expected there")
            kind = match.lastgroup or ""
            self.tokens.append(_Token(match[kind], kind))
            place = match.end()
        self.at = 0

    @property
    def token(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def fail(self, reason: str) -> NoReturn:
        raise _unknown(self.text, reason)

    def take(self) -> _Token:
        token = self.token
        if token is None:
            self.fail("it ends too early")
        self.at += 1
        return token

    def accepts(self, text: str) -> bool:
        token = self.token
        if token is None or token.kind not in ("mark", "word") or token.text.lower() != text:
            return False
        self.at += 1
        return True

    def expect(self, mark: str) -> None:
        if not self.accepts(mark):
            self.fail(f"{mark!r} is missing")

    def data_type(self, depth: int) -> DataType:
        if depth > MAX_DEPTH:
            self.fail(f"types are nested too deeply: more than {MAX_DEPTH} of them")
        token = self.take()
        if token.kind != "word":
            self.fail(f"{token.text!r} is not a type")
        match token.text.lower():
            case "array":
                self.expect("<")
                element, nullable = self.part(depth)
                self.expect(">")
                return ArrayType(element, nullable)
            case "map":
                self.expect("<")
                key, key_nullable = self.part(depth)
                self.expect(",")
                value, nullable = self.part(depth)
                self.expect(">")
                del key_nullable  # keys are never null
                return MapType(key, value, nullable)
            case "struct":
                return self.struct(depth)
        return self.primitive(token.text)

    def part(self, depth: int) -> tuple[DataType, bool]:
        return self.data_type(depth + 1), not self.is_not_null()

    def is_not_null(self) -> bool:
        if not self.accepts("not"):
            return False
        if not self.accepts("null"):
            self.fail("NULL is missing after NOT")
        return True

    def struct(self, depth: int) -> StructType:
        self.expect("<")
        fields: list[StructField] = []
        while not fields or self.accepts(","):
            name = self.take()
            if name.kind not in ("word", "quoted"):
                self.fail(f"{name.text!r} is not the name of a field")
            self.accepts(":")
            data_type = self.data_type(depth + 1)
            nullable = not self.is_not_null()
            metadata = {}
            if self.accepts("comment"):
                comment = self.take()
                if comment.kind != "text":
                    self.fail("COMMENT is not followed by a text in quotes")
                metadata = {"comment": _unescaped(comment.text)}
            shown = name.text.replace("``", "`") if name.kind == "quoted" else name.text
            fields.append(StructField(shown, data_type, nullable, metadata))
        self.expect(">")
        return StructType(tuple(fields))

    def primitive(self, word: str) -> PrimitiveType:
        text = word
        if self.accepts("("):
            arguments = [self.take().text]
            while self.accepts(","):
                arguments.append(self.take().text)
            self.expect(")")
            text = f"{word}({','.join(arguments)})"
        name = canonical_name(text)
        name = _OTHER_NAMES.get(name, name)
        if fixed := _TEXTS.fullmatch(name):
            return PrimitiveType(f"{'varchar' if name.startswith('v') else 'char'}({int(fixed[1])})")
        if name not in _PLAIN and decimal_of(name) is None:
            reason = f"{text} is not a type of new columns"
            if word.lower() in ("dec", "decimal", "numeric"):
                reason = OF_DECIMALS
            elif word.lower() in _WITH_LENGTH:
                meant = f"{word.lower()}({_LENGTH})"
                fault = _unknown(self.text, f"{word} needs a length, such as {meant}, or use string")
                raise fault.meaning(self.text, re.sub(rf"\b{word}\b\s*(\([^)]*\))?", meant, self.text))
            elif (near := nearest_type(word, _WORDS)) is not None:
                near += f"({_LENGTH})" if near in _WITH_LENGTH and text == word else ""
                whole = re.sub(rf"(?<![\w`]){re.escape(word)}(?![\w`:])", near, self.text)
                raise _unknown(self.text, reason).asking(self.text, whole)
            self.fail(reason)
        return PrimitiveType(name)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)|''", lambda match: match[1] or "'", text, flags=re.DOTALL)


def sql_text(data_type: DataType) -> str:
    """Return a type as Spark writes it in SQL: `array<varchar(5)>`, `struct<a:int>`."""
    match data_type:
        case ArrayType(element):
            return f"array<{sql_text(element)}>"
        case MapType(key, value):
            return f"map<{sql_text(key)},{sql_text(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{field.name}:{sql_text(field.data_type)}' for field in fields)}>"
        case PrimitiveType(name):
            return _SQL_NAMES.get(name, name)


_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
