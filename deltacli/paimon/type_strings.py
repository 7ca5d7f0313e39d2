"""The parser of type strings: `DECIMAL(10, 2) NOT NULL`, `TIMESTAMP(3) WITH LOCAL TIME ZONE`.

Strings are case-insensitive, with any white space. Arrays, maps and rows have no string form, except for the suffixes
`ARRAY` and `MULTISET`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from deltacli.paimon.types import MAX_LENGTH, AtomicType, DataType, ListType, Root, with_nullability

MAX_BYTES = 10_000
"""Maximum length of a type string; real ones have up to 60 characters."""

_TOKEN = re.compile(r"\s*(?:(?P<mark>[()<>,])|'(?P<text>(?:[^']|'')*)'|(?P<word>[^\s()<>,'`.]+))")
_SPACE = re.compile(r"\s*")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}")
_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_VECTOR_ELEMENTS = (Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE)
_PLAIN = (*_VECTOR_ELEMENTS[:-1], Root.DATE, Root.VARIANT, Root.BLOB)
"""Types without arguments, and with one name."""
_DEFAULT_CRS = "OGC:CRS84"


class BadType(ValueError):
    """A type that is not valid, with the reason; `place` is the dotted name of the field, if there is one."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place: str | None = None

    def __str__(self) -> str:
        return self.reason if self.place is None else f"{self.place}: {self.reason}"


class _Token(NamedTuple):
    text: str
    is_quoted: bool = False


# A column has the same type in most schemas of a table: 3,000 schemas of 20 columns take 0.6 s instead of 1.2 s.
@lru_cache(maxsize=4_096)
def parse_type_string(text: str) -> DataType:
    """Return the type that a string names. Raises BadType with the reason."""
    tokens = _Tokens(text)
    found = _parse_type(tokens)
    tokens.require_end()
    return found


class _Tokens:
    """The tokens of a type string, taken from the left."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_BYTES:
            raise BadType(f"the type is longer than {MAX_BYTES:,} characters")
        self._tokens = _split(text)
        self._position = 0

    def peek(self) -> str | None:
        """Return the next token in upper case, None at the end and for quoted text."""
        if self._position == len(self._tokens) or self._tokens[self._position].is_quoted:
            return None
        return self._tokens[self._position].text.upper()

    def take(self) -> _Token:
        """Return the next token. Raises BadType at the end."""
        if self._position == len(self._tokens):
            raise BadType("the type ends too early")
        self._position += 1
        return self._tokens[self._position - 1]

    def skip(self, *words: str) -> bool:
        for offset, word in enumerate(words):
            place = self._position + offset
            if place >= len(self._tokens) or self._tokens[place].is_quoted or self._tokens[place].text.upper() != word:
                return False
        self._position += len(words)
        return True

    def require(self, *words: str) -> None:
        """Take these words. Raises BadType if they are not next."""
        if not self.skip(*words):
            following = self._tokens[self._position].text if self._position < len(self._tokens) else "the end"
            raise BadType(f"found {following}, expected {' '.join(words)}")

    def require_end(self) -> None:
        """Raise BadType unless every token was taken."""
        if self._position < len(self._tokens):
            raise BadType(f"unexpected {self._tokens[self._position].text!r}")


def _split(text: str) -> list[_Token]:
    tokens, position = [], 0
    while match := _TOKEN.match(text, position):
        quoted = match["text"]
        tokens.append(
            _Token(match["mark"] or match["word"]) if quoted is None else _Token(quoted.replace("''", "'"), True)
        )
        position = match.end()
    if (end := _SPACE.match(text, position)) and end.end() < len(text):
        raise BadType(f"unexpected {text[end.end()]!r}")
    return tokens


def _parse_type(tokens: _Tokens) -> DataType:
    word = tokens.take()
    parser = _PARSERS.get(word.text.upper()) if not word.is_quoted else None
    if parser is None:
        raise BadType(_unknown(word, tokens))
    found = _with_parsed_nullability(parser(tokens), tokens)
    for root in (Root.ARRAY, Root.MULTISET):
        if tokens.skip(root):
            return _with_parsed_nullability(ListType(root, found), tokens)
    return found


def _unknown(word: _Token, tokens: _Tokens) -> str:
    if word.text.upper() in ("ARRAY", "MAP", "ROW", "MULTISET") and tokens.peek() == "<":
        return f"{word.text} with parts is a JSON object in schema files, not a string"
    return f"unknown type {word.text!r}"


def _with_parsed_nullability(data_type: DataType, tokens: _Tokens) -> DataType:
    if tokens.skip("NOT", "NULL"):
        return with_nullability(data_type, False)
    tokens.skip("NULL")
    return data_type


def _arguments(tokens: _Tokens) -> list[_Token]:
    """Return the tokens in parentheses; none if there are no parentheses."""
    if not tokens.skip("("):
        return []
    found = [tokens.take()]
    while tokens.skip(","):
        found.append(tokens.take())
    tokens.require(")")
    return found


def _numbers(tokens: _Tokens, root: Root, most: int) -> list[int]:
    found = []
    for token in _arguments(tokens):
        if token.is_quoted or not _WHOLE_NUMBER.fullmatch(token.text):
            raise BadType(f"{root}: {token.text!r} is not a whole number")
        found.append(int(token.text))
    if len(found) > most:
        raise BadType(f"{root} takes at most {most} arguments" if most > 1 else f"{root} takes one argument")
    return found


def _plain(root: Root) -> Callable[[_Tokens], DataType]:
    return lambda _: AtomicType(root)


def _unlimited(root: Root) -> Callable[[_Tokens], DataType]:
    return lambda _: AtomicType(root, (MAX_LENGTH,))


def _with_length(root: Root) -> Callable[[_Tokens], DataType]:
    def parse(tokens: _Tokens) -> DataType:
        length = (_numbers(tokens, root, 1) or [1])[0]
        if not 1 <= length <= MAX_LENGTH:
            raise BadType(f"{root}({length}): the length must be from 1 to {MAX_LENGTH}")
        return AtomicType(root, (length,))

    return parse


def _double(tokens: _Tokens) -> DataType:
    tokens.skip("PRECISION")
    return AtomicType(Root.DOUBLE)


def _decimal(tokens: _Tokens) -> DataType:
    precision, scale = [*_numbers(tokens, Root.DECIMAL, 2), *(10, 0)][:2]
    return decimal(precision, scale)


def decimal(precision: int, scale: int) -> AtomicType:
    """Return a DECIMAL. Raises BadType where precision or scale are out of range."""
    if not 1 <= precision <= 38:
        raise BadType(f"DECIMAL({precision}, {scale}): the precision must be from 1 to 38")
    if not 0 <= scale <= precision:
        raise BadType(f"DECIMAL({precision}, {scale}): the scale must be from 0 to the precision")
    return AtomicType(Root.DECIMAL, (precision, scale))


def _precision(tokens: _Tokens, root: Root, default: int) -> tuple[int]:
    precision = (_numbers(tokens, root, 1) or [default])[0]
    if precision > 9:
        raise BadType(f"{root}({precision}): the precision must be from 0 to 9")
    return (precision,)


def _time(tokens: _Tokens) -> DataType:
    precision = _precision(tokens, Root.TIME, 0)
    tokens.skip("WITHOUT", "TIME", "ZONE")
    return AtomicType(Root.TIME, precision)


def _timestamp(tokens: _Tokens) -> DataType:
    precision = _precision(tokens, Root.TIMESTAMP, 6)
    if tokens.skip("WITH", "LOCAL", "TIME", "ZONE"):
        return AtomicType(Root.TIMESTAMP_LTZ, precision)
    tokens.skip("WITHOUT", "TIME", "ZONE")
    return AtomicType(Root.TIMESTAMP, precision)


def _timestamp_ltz(tokens: _Tokens) -> DataType:
    return AtomicType(Root.TIMESTAMP_LTZ, _precision(tokens, Root.TIMESTAMP, 6))


def _geometry(tokens: _Tokens) -> DataType:
    given = _arguments(tokens)
    if len(given) > 1:
        raise BadType("GEOMETRY takes one argument")
    return AtomicType(Root.GEOMETRY, (_crs(given),))


def _geography(tokens: _Tokens) -> DataType:
    given = _arguments(tokens)
    if len(given) > 2:
        raise BadType("GEOGRAPHY takes at most 2 arguments")
    algorithm = given[1].text.lower() if len(given) == 2 else _ALGORITHMS[0]
    if algorithm not in _ALGORITHMS:
        raise BadType(f"unknown algorithm {algorithm!r} (expected: {', '.join(_ALGORITHMS)})")
    return AtomicType(Root.GEOGRAPHY, (_crs(given), algorithm))


def _crs(given: list[_Token]) -> str:
    if given and not given[0].text.strip():
        raise BadType("the coordinate reference system is empty")
    return given[0].text if given else _DEFAULT_CRS


def _vector(tokens: _Tokens) -> DataType:
    tokens.require("<")
    element = _parse_type(tokens)
    tokens.require(",")
    length = tokens.take()
    tokens.require(">")
    if length.is_quoted or not _WHOLE_NUMBER.fullmatch(length.text):
        raise BadType(f"VECTOR: {length.text!r} is not a whole number")
    return vector(element, int(length.text))


def vector(element: DataType, length: int, *, nullable: bool = True) -> ListType:
    """Return a VECTOR. Raises BadType for an element or a length that it cannot have."""
    if element.root not in _VECTOR_ELEMENTS:
        raise BadType(f"VECTOR cannot have elements of type {element.root}")
    if not 1 <= length <= MAX_LENGTH:
        raise BadType(f"VECTOR: the length {length} must be from 1 to {MAX_LENGTH}")
    return ListType(Root.VECTOR, element, nullable, length)


_PARSERS: Mapping[str, Callable[[_Tokens], DataType]] = {
    **{root.value: _plain(root) for root in _PLAIN},
    "INTEGER": _plain(Root.INT),
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "DEC": _decimal,
    "NUMERIC": _decimal,
    "CHAR": _with_length(Root.CHAR),
    "VARCHAR": _with_length(Root.VARCHAR),
    "STRING": _unlimited(Root.VARCHAR),
    "BINARY": _with_length(Root.BINARY),
    "VARBINARY": _with_length(Root.VARBINARY),
    "BYTES": _unlimited(Root.VARBINARY),
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp_ltz,
    "GEOMETRY": _geometry,
    "GEOGRAPHY": _geography,
    "VECTOR": _vector,
}
