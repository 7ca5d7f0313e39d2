"""Functions of strings, patterns, dates and times, each the same in every engine.

Positions and lengths are those of characters, in every engine.

Java's regular expressions become RE2's, where both have the same meaning. RE2's `$` and `.` recognize one line end,
Java's recognize five; texts with one of the other four are excluded by a guard.

A timestamp is computed in UTC, and the result records this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from deltacli.delta.predicate.columns import TIMES
from deltacli.delta.predicate.conditions import Pattern
from deltacli.delta.predicate.literals import NoValueError
from deltacli.delta.schema.types import Kind
from deltacli.delta.sql.translation import values
from deltacli.delta.sql.translation.operators import concatenate

_LARGEST = (1 << 31) - 1


def like(value: values.Value, arguments: list[values.Value]) -> values.Value:
    """`value LIKE pattern [ESCAPE character]`. Raises NotTranslated."""
    words = [_constant("LIKE", argument) for argument in arguments]
    if len(words) > 1 and len(words[1]) != 1:
        raise values.NotTranslated("ESCAPE requires exactly one character")
    try:
        Pattern(*words)
    except NoValueError as fault:
        raise values.NotTranslated(str(fault)) from None
    text, escape = _text("LIKE", value), words[1] if len(words) > 1 else "\\"
    sql = f"({text.sql} LIKE {values.text_literal(words[0]).sql} ESCAPE {values.text_literal(escape).sql})"
    return values.made(sql, values.BOOLEAN, text)


def regex_match(value: values.Value, pattern: values.Value) -> values.Value:
    """`value RLIKE pattern`. Raises NotTranslated."""
    text = _text("RLIKE", value)
    regex = _Reader(_constant("RLIKE", pattern)).read()
    sql = f"regexp_matches({text.sql}, {values.text_literal(regex.text).sql})"
    if not regex.minds_lines:
        return values.made(sql, values.BOOLEAN, text)
    odd = " OR ".join(f"contains({text.sql}, chr({ord(character)}))" for character in OTHER_LINE_ENDS)
    reason = "a string contains a line ending that regular expression engines treat differently"
    return values.made(values.failing(odd, sql, reason), values.BOOLEAN, text, can_fail=True)


def _length(arguments: list[values.Value]) -> values.Value:
    value = _one("length", arguments)
    if value.kind is Kind.BINARY:
        return values.made(f"CAST(octet_length({value.sql}) AS INTEGER)", values.INTEGER, value)
    return values.made(f"CAST(length({_text('length', value).sql}) AS INTEGER)", values.INTEGER, value)


def _in_case(name: str) -> Callable[[list[values.Value]], values.Value]:
    def change(arguments: list[values.Value]) -> values.Value:
        text = _text(name, _one(name, arguments))
        odd = f"strlen({text.sql}) <> length({text.sql})"
        reason = f"{name} is applied to letters outside ASCII"
        return values.made(values.failing(odd, f"{name}({text.sql})", reason), values.STRING, text, can_fail=True)

    return change


def _trimmed(name: str) -> Callable[[list[values.Value]], values.Value]:
    def trim(arguments: list[values.Value]) -> values.Value:
        text = _text(name, _one(name, arguments))
        return values.made(f"{name}({text.sql}, ' ')", values.STRING, text)

    return trim


def _substring(arguments: list[values.Value]) -> values.Value:
    if len(arguments) not in (2, 3):
        raise values.NotTranslated(f"substring has {len(arguments)} arguments")
    text = _text("substring", arguments[0])
    start = _whole("substring", arguments[1])
    length = _whole("substring", arguments[2]) if len(arguments) == 3 else _LARGEST
    if start >= 0:
        sql = f"substring({text.sql}, {max(start, 1)}, {max(length, 0)})"
        return values.made(sql, values.STRING, text)
    first = f"(length({text.sql}) - {-start})"
    begin, end = f"greatest({first}, 0)", f"greatest({first} + {max(length, 0)}, 0)"
    return values.made(f"substring({text.sql}, {begin} + 1, {end} - {begin})", values.STRING, text)


def _left(arguments: list[values.Value]) -> values.Value:
    text, count = _text_and_whole("left", arguments)
    return values.made(f"substring({text.sql}, 1, {max(count, 0)})", values.STRING, text)


def _right(arguments: list[values.Value]) -> values.Value:
    text, count = _text_and_whole("right", arguments)
    if count <= 0:
        return values.made(f"substring({text.sql}, 1, 0)", values.STRING, text)
    return values.made(
        f"substring({text.sql}, greatest(length({text.sql}) - {count}, 0) + 1, {count})", values.STRING, text
    )


def _concat_ws(arguments: list[values.Value]) -> values.Value:
    if len(arguments) < 2:
        raise values.NotTranslated("concat_ws has fewer than two arguments")
    texts = [_text("concat_ws", argument) for argument in arguments]
    return values.made(f"concat_ws({', '.join(text.sql for text in texts)})", values.STRING, *texts)


def _replace(arguments: list[values.Value]) -> values.Value:
    if len(arguments) != 3 or not arguments[1].text:
        raise values.NotTranslated("replace requires a constant, non-empty search string")
    texts = [_text("replace", argument) for argument in arguments]
    return values.joined_by_null(f"replace({', '.join(text.sql for text in texts)})", values.STRING, *texts)


def _place(name: str, *, is_turned: bool) -> Callable[[list[values.Value]], values.Value]:
    def find(arguments: list[values.Value]) -> values.Value:
        if len(arguments) != 2:
            raise values.NotTranslated(f"{name} has {len(arguments)} arguments")
        text, sought = reversed(arguments) if is_turned else arguments
        if not sought.text:
            raise values.NotTranslated(f"{name} requires a constant, non-empty search string")
        haystack = _text(name, text)
        return values.made(f"CAST(instr({haystack.sql}, {sought.sql}) AS INTEGER)", values.INTEGER, haystack)

    return find


def _part(name: str, function: str) -> Callable[[list[values.Value]], values.Value]:
    def ask(arguments: list[values.Value]) -> values.Value:
        if len(arguments) != 2:
            raise values.NotTranslated(f"{name} has {len(arguments)} arguments")
        text, part = (_text(name, argument) for argument in arguments)
        return values.joined_by_null(f"{function}({text.sql}, {part.sql})", values.BOOLEAN, text, part)

    return ask


def _one(name: str, arguments: list[values.Value]) -> values.Value:
    if len(arguments) != 1:
        raise values.NotTranslated(f"{name} has {len(arguments)} arguments")
    return arguments[0]


def _text(name: str, value: values.Value) -> values.Value:
    if value.kind is not Kind.TEXT and value.data_type != values.VOID:
        raise values.NotTranslated(f"{name} requires a string, not a value of type {value.type_name}")
    return values.convert(value, values.STRING)


def _constant(name: str, value: values.Value) -> str:
    if value.text is None:
        raise values.NotTranslated(f"the pattern of {name} is not a constant")
    return value.text


def _whole(name: str, value: values.Value) -> int:
    if value.number is None or value.type_name != "integer":
        raise values.NotTranslated(f"a position or a length in {name} is not a constant")
    return int(value.number)


def _text_and_whole(name: str, arguments: list[values.Value]) -> tuple[values.Value, int]:
    if len(arguments) != 2:
        raise values.NotTranslated(f"{name} has {len(arguments)} arguments")
    return _text(name, arguments[0]), _whole(name, arguments[1])


TEXT_FUNCTIONS: Mapping[str, Callable[[list[values.Value]], values.Value]] = {
    **dict.fromkeys(("length", "len", "char_length", "character_length"), _length),
    **dict.fromkeys(("upper", "ucase"), _in_case("upper")),
    **dict.fromkeys(("lower", "lcase"), _in_case("lower")),
    **{name: _trimmed(name) for name in ("trim", "ltrim", "rtrim")},
    **dict.fromkeys(("substring", "substr"), _substring),
    "left": _left,
    "right": _right,
    "concat": concatenate,
    "concat_ws": _concat_ws,
    "replace": _replace,
    "instr": _place("instr", is_turned=False),
    **{name: _place(name, is_turned=True) for name in ("locate", "position")},
    "startswith": _part("startswith", "starts_with"),
    "endswith": _part("endswith", "ends_with"),
    "contains": _part("contains", "contains"),
}
"""Functions of strings that are known to be the same, by their names in Spark."""


OTHER_LINE_ENDS = "\r\u0085\u2028\u2029"
_PUNCTUATION = frozenset("!\"#%&',-/:;<=>@_`~ ") | frozenset(".^$*+?()[]{}|\\")
_CLASSES = {"d": "0-9", "w": "a-zA-Z_0-9", "s": r" \t\n\x0B\f\r"}
"The meaning of \\d, \\w and \\s; RE2's \\s lacks a character."
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_COUNT = re.compile(r"\{([0-9]{1,3})(,([0-9]{1,3})?)?\}")
_MAX_COUNT = 1000


class Regex(NamedTuple):
    """`minds_lines`: the guard is needed."""

    text: str
    minds_lines: bool


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.depth = 0
        self.minds_lines = False
        self.counted = 1

    def read(self) -> Regex:
        pieces: list[str] = []
        can_repeat = False
        while self.at < len(self.pattern):
            character = self.pattern[self.at]
            if character in "*+?{":
                if not can_repeat:
                    raise self.odd(character)
                pieces.append(self.repeated())
                can_repeat = False
                continue
            piece, can_repeat = self.piece(character)
            pieces.append(piece)
        if self.depth:
            raise self.odd("(")
        return Regex("".join(pieces), self.minds_lines)

    def odd(self, what: str) -> values.NotTranslated:
        return values.NotTranslated(
            f"the regular expression '{self.pattern[:60]}' contains unsupported syntax: {what[:20]}"
        )

    def take(self, count: int = 1) -> str:
        text = self.pattern[self.at : self.at + count]
        self.at += count
        return text

    def rest_starts(self, *texts: str) -> bool:
        return self.pattern.startswith(texts, self.at)

    def piece(self, character: str) -> tuple[str, bool]:
        """The next part, and whether it may be repeated."""
        self.take()
        match character:
            case ".":
                self.minds_lines = True
                return r"[^\n]", True
            case "^":
                # Elsewhere than at the start it cannot match, or is repeated.
                if self.at > 1 and self.pattern[self.at - 2] not in "(|":
                    raise self.odd("^")
                return r"\A", False
            case "$":
                if self.depth or not (self.at == len(self.pattern) or self.rest_starts("|")):
                    raise self.odd("$")
                self.minds_lines = True
                return r"\n?\z", False
            case "(":
                self.depth += 1
                if self.rest_starts("?"):
                    if not self.rest_starts("?:"):
                        raise self.odd(f"({self.take(3)}")
                    self.take(2)
                return "(?:", False
            case ")":
                if not self.depth:
                    raise self.odd(")")
                self.depth -= 1
                return ")", True
            case "|":
                return "|", False
            case "[":
                return self.character_class(), True
            case "\\":
                return self.escaped(), True
        if character in "]}" or not character.isprintable():
            raise self.odd(repr(character))
        return re.escape(character) if character.isascii() else character, True

    def repeated(self) -> str:
        if self.rest_starts("{"):
            match = _COUNT.match(self.pattern, self.at)
            if match is None or (match[3] and int(match[3]) < int(match[1])):
                raise self.odd("{")
            self.counted *= max(1, int(match[1]), int(match[3] or 0))
            if self.counted > _MAX_COUNT:
                raise self.odd("many repetitions")
            self.at = match.end()
            text = match[0]
        else:
            text = self.take()
        if self.rest_starts("?"):
            text += self.take()  # fewer first: the same texts match
        if self.rest_starts("+", "*", "?", "{"):
            raise self.odd(text + self.pattern[self.at])
        return text

    def escaped(self) -> str:
        character = self.take()
        if character in _CLASSES:
            return f"[{_CLASSES[character]}]"
        if character.lower() in _CLASSES and character:
            return f"[^{_CLASSES[character.lower()]}]"
        return self.literal_escape(character)

    def literal_escape(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if not character or character not in _PUNCTUATION:
            raise self.odd(f"\\{character}")
        return re.escape(character)

    def character_class(self) -> str:
        text = "[^" if self.rest_starts("^") else "["
        if text == "[^":
            self.take()
        start = self.at
        while not self.rest_starts("]") or self.at == start:
            if self.at >= len(self.pattern) or self.rest_starts("&&", "[", "]"):
                raise self.odd("[" + self.pattern[self.at : self.at + 2])
            text += self.member()
        self.take()
        return text + "]"

    def member(self) -> str:
        """One character of a class, a range of them, or \\d and its like."""
        if self.rest_starts("\\") and self.pattern[self.at + 1 : self.at + 2] in _CLASSES:
            self.take()
            if self.pattern[self.at + 1 : self.at + 2] == "-" and self.pattern[self.at + 2 : self.at + 3] != "]":
                raise self.odd("a range of classes")
            return _CLASSES[self.take()]
        first, low = self.one()
        if not self.rest_starts("-") or self.pattern[self.at + 1 : self.at + 2] == "]":
            return first
        self.take()
        if self.rest_starts("[") or (self.rest_starts("\\") and self.pattern[self.at + 1 : self.at + 2] in _CLASSES):
            raise self.odd("a range of classes")
        last, high = self.one()
        if not (low.isascii() and high.isascii() and low <= high):
            raise self.odd(f"{low}-{high}")
        return f"{first}-{last}"

    def one(self) -> tuple[str, str]:
        """A character of a class, as RE2 takes it and as it is."""
        character = self.take()
        if character == "\\":
            escaped = self.take()
            return self.literal_escape(escaped), {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)
        if not character or not character.isprintable():
            raise self.odd("a character class")
        return (re.escape(character) if character.isascii() else character), character


# -- functions of dates and times --------------------------------------------------------------------------------------

Zoned: TypeAlias = tuple[values.Value, bool]
"""A value, and whether it depends on a session's zone."""

_PARTS: Mapping[str, str] = {
    "year": "year({})",
    "quarter": "quarter({})",
    "month": "month({})",
    "day": "day({})",
    "dayofmonth": "day({})",
    "dayofyear": "dayofyear({})",
    "dayofweek": "(dayofweek({}) + 1)",
    "weekday": "(isodow({}) - 1)",
    "weekofyear": "weekofyear({})",
    "hour": "hour({})",
    "minute": "minute({})",
    "second": "second({})",
}
_OF_A_CLOCK = frozenset({"hour", "minute", "second"})
_EXTRACTED = frozenset({"year", "quarter", "month", "day", "hour", "minute"})
_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_SMALLER_UNITS: Mapping[str, str] = {**dict.fromkeys(("day", "dd"), "day"), "hour": "hour", "minute": "minute"}
_LETTERS: Mapping[str, tuple[str, int]] = {
    "yyyy": ("year", 4),
    "MM": ("month", 2),
    "dd": ("day", 2),
    "HH": ("hour", 2),
    "mm": ("minute", 2),
    "ss": ("second", 2),
}
_PIECE = re.compile(r"(?P<letters>([A-Za-z])\2*)|(?P<text>[-/:_. ]+)")


def part_of(name: str, value: values.Value) -> Zoned:
    """YEAR, MONTH, HOUR and their like. Raises NotTranslated."""
    if value.kind not in TIMES or (name in _OF_A_CLOCK and value.kind is Kind.DATE):
        raise values.NotTranslated(f"{name} is not supported for type {value.type_name}")
    sql = f"CAST({_PARTS[name].format(value.sql)} AS INTEGER)"
    return values.made(sql, values.INTEGER, value), value.kind is Kind.TIMESTAMP


def extracted(unit: str, value: values.Value) -> Zoned:
    """EXTRACT(unit FROM value). Raises NotTranslated."""
    if unit not in _EXTRACTED:
        raise values.NotTranslated(f"EXTRACT of {unit} is not supported")
    return part_of(unit, value)


def format_date(sql: str) -> str:
    """A date as text: yyyy-mm-dd."""
    return f"({_padded('year', 4, sql)} || '-' || {_padded('month', 2, sql)} || '-' || {_padded('day', 2, sql)})"


def _padded(function: str, width: int, sql: str) -> str:
    return f"lpad(CAST({function}({sql}) AS VARCHAR), {width}, '0')"


def formatted(arguments: list[values.Value]) -> Zoned:
    """DATE_FORMAT with a pattern of whole numbers. Raises NotTranslated."""
    value, pattern = _two("date_format", arguments)
    if value.kind not in TIMES or not pattern.text:
        raise values.NotTranslated("date_format requires a date or timestamp and a constant pattern")
    pieces: list[str] = []
    position = 0
    while position < len(pattern.text):
        match = _PIECE.match(pattern.text, position)
        if match is None or (match["letters"] and match["letters"] not in _LETTERS):
            raise values.NotTranslated(f"the date_format pattern '{pattern.text[:40]}' is not supported")
        if match["letters"]:
            function, width = _LETTERS[match["letters"]]
            if function in _OF_A_CLOCK and value.kind is Kind.DATE:
                raise values.NotTranslated("the date_format pattern has a time of day, but the value is a date")
            pieces.append(_padded(function, width, value.sql))
        else:
            pieces.append(f"'{match['text']}'")
        position = match.end()
    return values.made(f"({' || '.join(pieces)})", values.STRING, value), value.kind is Kind.TIMESTAMP


def truncated_time(arguments: list[values.Value]) -> Zoned:
    """DATE_TRUNC, whose result is a timestamp. Raises NotTranslated."""
    unit, value = _two("date_trunc", arguments)
    known = {**_UNITS, **_SMALLER_UNITS}.get((unit.text or "").lower())
    if known is None or value.kind not in (Kind.DATE, Kind.TIMESTAMP):
        raise values.NotTranslated(
            f"date_trunc of a value of type {value.type_name} to {(unit.text or 'a column')[:40]} is not supported"
        )
    time = values.convert(value, values.TIMESTAMP)
    return values.made(f"CAST(date_trunc('{known}', {time.sql}) AS TIMESTAMP)", values.TIMESTAMP, time), True


def truncated_date(arguments: list[values.Value]) -> Zoned:
    """TRUNC, whose result is a date. Raises NotTranslated."""
    value, unit = _two("trunc", arguments)
    known = _UNITS.get((unit.text or "").lower())
    if known is None or value.kind is not Kind.DATE:
        raise values.NotTranslated(
            f"trunc of a value of type {value.type_name} to {(unit.text or 'a column')[:40]} is not supported"
        )
    return values.made(f"CAST(date_trunc('{known}', {value.sql}) AS DATE)", values.DATE, value), False


def to_date(arguments: list[values.Value]) -> Zoned:
    """TO_DATE and DATE of a date or a time. Raises NotTranslated."""
    value = arguments[0]
    if len(arguments) != 1 or value.kind not in TIMES:
        raise values.NotTranslated("to_date is supported for one date or timestamp only")
    return values.convert(value, values.DATE), value.kind is Kind.TIMESTAMP


def days_added(sign: str) -> Callable[[list[values.Value]], Zoned]:
    def add(arguments: list[values.Value]) -> Zoned:
        value, days = _two("date_add", arguments)
        if value.kind is not Kind.DATE or days.type_name not in ("byte", "short", "integer"):
            raise values.NotTranslated("date_add requires a date and an integer")
        sql = f"({value.sql} {sign} {values.convert(days, values.INTEGER).sql})"
        # Beyond the years that dates are written with, engines part.
        odd = f"NOT ({sql} BETWEEN CAST('0001-01-01' AS DATE) AND CAST('9999-12-31' AS DATE))"
        guarded = values.failing(odd, sql, "a date is after the year 9999")
        return values.joined_by_null(guarded, values.DATE, value, days, can_fail=True), False

    return add


def days_between(arguments: list[values.Value]) -> Zoned:
    """DATEDIFF(end, start). Raises NotTranslated."""
    end, start = _two("datediff", arguments)
    if end.kind is not Kind.DATE or start.kind is not Kind.DATE:
        raise values.NotTranslated("datediff requires two dates")
    return values.joined_by_null(f"CAST(({end.sql} - {start.sql}) AS INTEGER)", values.INTEGER, end, start), False


def last_day(arguments: list[values.Value]) -> Zoned:
    value = arguments[0]
    if len(arguments) != 1 or value.kind is not Kind.DATE:
        raise values.NotTranslated("last_day requires a date")
    return values.made(f"CAST(last_day({value.sql}) AS DATE)", values.DATE, value), False


def _two(name: str, arguments: list[values.Value]) -> tuple[values.Value, values.Value]:
    if len(arguments) != 2:
        raise values.NotTranslated(f"{name} has {len(arguments)} arguments")
    return arguments[0], arguments[1]


def _named(name: str) -> Callable[[list[values.Value]], Zoned]:
    def ask(arguments: list[values.Value]) -> Zoned:
        if len(arguments) != 1:
            raise values.NotTranslated(f"{name} has {len(arguments)} arguments")
        return part_of(name, arguments[0])

    return ask


MOMENT_FUNCTIONS: Mapping[str, Callable[[list[values.Value]], Zoned]] = {
    **{name: _named(name) for name in _PARTS},
    "date_format": formatted,
    "date_trunc": truncated_time,
    "trunc": truncated_date,
    "to_date": to_date,
    "date": to_date,
    "date_add": days_added("+"),
    "date_sub": days_added("-"),
    "datediff": days_between,
    "date_diff": days_between,
    "last_day": last_day,
}
"""Functions of the times that are known to be the same, by their names in Spark."""
