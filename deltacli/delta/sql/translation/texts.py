"""Functions and patterns of strings. Positions and lengths are those of characters, in every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.delta.predicate.literals import NoValueError
from deltacli.delta.predicate.patterns import Pattern
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.sql.translation.java_regex import OTHER_LINE_ENDS, re2_of
from deltacli.delta.sql.translation.operators import joined
from deltacli.delta.sql.translation.values import (
    BOOLEAN,
    INTEGER,
    STRING,
    VOID,
    NotTranslated,
    Value,
    convert,
    failing,
    joined_by_null,
    made,
    text_literal,
)

_LARGEST = (1 << 31) - 1


def like(value: Value, arguments: list[Value]) -> Value:
    """`value LIKE pattern [ESCAPE character]`. Raises NotTranslated."""
    words = [_constant("LIKE", argument) for argument in arguments]
    if len(words) > 1 and len(words[1]) != 1:
        raise NotTranslated("ESCAPE requires exactly one character")
    try:
        Pattern(*words)
    except NoValueError as fault:
        raise NotTranslated(str(fault)) from None
    text, escape = _text("LIKE", value), words[1] if len(words) > 1 else "\\"
    return made(f"({text.sql} LIKE {text_literal(words[0]).sql} ESCAPE {text_literal(escape).sql})", BOOLEAN, text)


def regex_match(value: Value, pattern: Value) -> Value:
    """`value RLIKE pattern`. Raises NotTranslated."""
    text = _text("RLIKE", value)
    regex = re2_of(_constant("RLIKE", pattern))
    sql = f"regexp_matches({text.sql}, {text_literal(regex.text).sql})"
    if not regex.minds_lines:
        return made(sql, BOOLEAN, text)
    odd = " OR ".join(f"contains({text.sql}, chr({ord(character)}))" for character in OTHER_LINE_ENDS)
    reason = "a string contains a line ending that regular expression engines treat differently"
    return made(failing(odd, sql, reason), BOOLEAN, text, can_fail=True)


def _length(arguments: list[Value]) -> Value:
    value = _one("length", arguments)
    if value.kind is Kind.BINARY:
        return made(f"CAST(octet_length({value.sql}) AS INTEGER)", INTEGER, value)
    return made(f"CAST(length({_text('length', value).sql}) AS INTEGER)", INTEGER, value)


def _in_case(name: str) -> Callable[[list[Value]], Value]:
    def change(arguments: list[Value]) -> Value:
        text = _text(name, _one(name, arguments))
        odd = f"strlen({text.sql}) <> length({text.sql})"
        reason = f"{name} is applied to letters outside ASCII"
        return made(failing(odd, f"{name}({text.sql})", reason), STRING, text, can_fail=True)

    return change


def _trimmed(name: str) -> Callable[[list[Value]], Value]:
    def trim(arguments: list[Value]) -> Value:
        text = _text(name, _one(name, arguments))
        return made(f"{name}({text.sql}, ' ')", STRING, text)

    return trim


def _substring(arguments: list[Value]) -> Value:
    if len(arguments) not in (2, 3):
        raise NotTranslated(f"substring has {len(arguments)} arguments")
    text = _text("substring", arguments[0])
    start = _whole("substring", arguments[1])
    length = _whole("substring", arguments[2]) if len(arguments) == 3 else _LARGEST
    if start >= 0:
        sql = f"substring({text.sql}, {max(start, 1)}, {max(length, 0)})"
        return made(sql, STRING, text)
    first = f"(length({text.sql}) - {-start})"
    begin, end = f"greatest({first}, 0)", f"greatest({first} + {max(length, 0)}, 0)"
    return made(f"substring({text.sql}, {begin} + 1, {end} - {begin})", STRING, text)


def _left(arguments: list[Value]) -> Value:
    text, count = _text_and_whole("left", arguments)
    return made(f"substring({text.sql}, 1, {max(count, 0)})", STRING, text)


def _right(arguments: list[Value]) -> Value:
    text, count = _text_and_whole("right", arguments)
    if count <= 0:
        return made(f"substring({text.sql}, 1, 0)", STRING, text)
    return made(f"substring({text.sql}, greatest(length({text.sql}) - {count}, 0) + 1, {count})", STRING, text)


def _concat_ws(arguments: list[Value]) -> Value:
    if len(arguments) < 2:
        raise NotTranslated("concat_ws has fewer than two arguments")
    texts = [_text("concat_ws", argument) for argument in arguments]
    return made(f"concat_ws({', '.join(text.sql for text in texts)})", STRING, *texts)


def _replace(arguments: list[Value]) -> Value:
    if len(arguments) != 3 or not arguments[1].text:
        raise NotTranslated("replace requires a constant, non-empty search string")
    texts = [_text("replace", argument) for argument in arguments]
    return joined_by_null(f"replace({', '.join(text.sql for text in texts)})", STRING, *texts)


def _place(name: str, *, is_turned: bool) -> Callable[[list[Value]], Value]:
    def find(arguments: list[Value]) -> Value:
        if len(arguments) != 2:
            raise NotTranslated(f"{name} has {len(arguments)} arguments")
        text, sought = reversed(arguments) if is_turned else arguments
        if not sought.text:
            raise NotTranslated(f"{name} requires a constant, non-empty search string")
        haystack = _text(name, text)
        return made(f"CAST(instr({haystack.sql}, {sought.sql}) AS INTEGER)", INTEGER, haystack)

    return find


def _part(name: str, function: str) -> Callable[[list[Value]], Value]:
    def ask(arguments: list[Value]) -> Value:
        if len(arguments) != 2:
            raise NotTranslated(f"{name} has {len(arguments)} arguments")
        text, part = (_text(name, argument) for argument in arguments)
        return joined_by_null(f"{function}({text.sql}, {part.sql})", BOOLEAN, text, part)

    return ask


def _one(name: str, arguments: list[Value]) -> Value:
    if len(arguments) != 1:
        raise NotTranslated(f"{name} has {len(arguments)} arguments")
    return arguments[0]


def _text(name: str, value: Value) -> Value:
    if value.kind is not Kind.TEXT and value.data_type != VOID:
        raise NotTranslated(f"{name} requires a string, not a value of type {value.type_name}")
    return convert(value, STRING)


def _constant(name: str, value: Value) -> str:
    if value.text is None:
        raise NotTranslated(f"the pattern of {name} is not a constant")
    return value.text


def _whole(name: str, value: Value) -> int:
    if value.number is None or value.type_name != "integer":
        raise NotTranslated(f"a position or a length in {name} is not a constant")
    return int(value.number)


def _text_and_whole(name: str, arguments: list[Value]) -> tuple[Value, int]:
    if len(arguments) != 2:
        raise NotTranslated(f"{name} has {len(arguments)} arguments")
    return _text(name, arguments[0]), _whole(name, arguments[1])


FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {
    **dict.fromkeys(("length", "len", "char_length", "character_length"), _length),
    **dict.fromkeys(("upper", "ucase"), _in_case("upper")),
    **dict.fromkeys(("lower", "lcase"), _in_case("lower")),
    **{name: _trimmed(name) for name in ("trim", "ltrim", "rtrim")},
    **dict.fromkeys(("substring", "substr"), _substring),
    "left": _left,
    "right": _right,
    "concat": joined,
    "concat_ws": _concat_ws,
    "replace": _replace,
    "instr": _place("instr", is_turned=False),
    **{name: _place(name, is_turned=True) for name in ("locate", "position")},
    "startswith": _part("startswith", "starts_with"),
    "endswith": _part("endswith", "ends_with"),
    "contains": _part("contains", "contains"),
}
"""Functions of strings that are known to be the same, by their names in Spark."""
