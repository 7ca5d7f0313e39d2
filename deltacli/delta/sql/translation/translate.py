"""Spark's SQL as a DuckDB query, for constructs that certainly have the same meaning.

Only constructs on a list are translated, including the types of their operands. Others are refused by name. No
construct on the list depends on `spark.sql.ansi.enabled`, unless DuckDB then raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from deltacli.delta.predicate.columns import TIMES
from deltacli.delta.schema import types
from deltacli.delta.schema.type_changes import canonical_name
from deltacli.delta.sql.parser import Form, Node, TokenKind, parse_expression, tokens_of
from deltacli.delta.sql.translation import operators, values
from deltacli.delta.sql.translation.functions import (
    MOMENT_FUNCTIONS,
    TEXT_FUNCTIONS,
    Zoned,
    extracted,
    format_date,
    like,
    regex_match,
)
from deltacli.delta.sql.translation.operators import (
    CHOICE_FUNCTIONS,
    NAMES,
    Pair,
    alike,
    case,
    contained,
    is_null,
    item,
    require_condition,
)

_OTHER_NAMES = {"timestamp_ltz": "timestamp", "bool": "boolean"}
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_TEXTS: Mapping[str, str] = {
    "byte": "[+-]?[0-9]{1,2}",
    "short": "[+-]?[0-9]{1,4}",
    "integer": "[+-]?[0-9]{1,9}",
    "long": "[+-]?[0-9]{1,18}",
    "double": r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?",
    "boolean": "true|false",
    "date": _DAY,
    "timestamp": f"{_DAY}([ T]{_CLOCK})?",
    "timestamp_ntz": f"{_DAY}([ T]{_CLOCK})?",
}
"""The texts that every engine reads as the same value of a type."""
_DECIMAL_TEXT = r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?"


def cast(value: values.Value, type_name: str) -> tuple[values.Value, bool]:
    """Return a value as another type, and whether that depends on a session's time zone. Raises NotTranslated."""
    name = canonical_name(_OTHER_NAMES.get(type_name, type_name))
    if name not in types.PLAIN_TYPES and types.decimal_parts(name) is None:
        raise values.NotTranslated(f"a cast to {type_name[:40]} is not supported")
    wanted = types.PrimitiveType(name)
    if value.is_null or value.data_type == wanted:
        return values.convert(value, wanted), False
    zones = {value.type_name, name}
    assumes_utc = "timestamp" in zones and bool(zones & {"date", "string", "timestamp_ntz"})
    converted = _cast(value, wanted)
    return converted._replace(number=None, text=None), assumes_utc


_PLAIN = frozenset(
    {
        *(
            (types.Kind.WHOLE, kind)
            for kind in (types.Kind.WHOLE, types.Kind.FLOAT, types.Kind.DECIMAL, types.Kind.TEXT, types.Kind.BOOLEAN)
        ),
        *((types.Kind.BOOLEAN, kind) for kind in (types.Kind.WHOLE, types.Kind.FLOAT, types.Kind.TEXT)),
        *((time, other) for time in TIMES for other in TIMES),
        (types.Kind.DECIMAL, types.Kind.DECIMAL),
        (types.Kind.FLOAT, types.Kind.FLOAT),
    }
)
"Return casts that DuckDB does as Spark does, or that raise."


def _cast(value: values.Value, wanted: types.PrimitiveType) -> values.Value:
    kinds = (value.kind, types.value_kind(wanted))
    if kinds in _PLAIN:
        return values.made(f"CAST({value.sql} AS {values.duck_type(wanted)})", wanted, value, can_fail=True)
    match kinds:
        case (types.Kind.TEXT, types.Kind.TEXT):
            return values.convert(value, wanted)
        case (types.Kind.TEXT, types.Kind.BINARY):
            return values.made(f"encode({value.sql})", values.BINARY, value)
        case (types.Kind.TEXT, _):
            return _read(value, wanted)
        case (types.Kind.DECIMAL, types.Kind.FLOAT) if wanted.name == "double":
            return values.convert(value._replace(number=None), wanted)
        case (types.Kind.DECIMAL | types.Kind.FLOAT, types.Kind.WHOLE):
            return values.made(f"CAST(trunc({value.sql}) AS {values.duck_type(wanted)})", wanted, value, can_fail=True)
        case (types.Kind.DATE, types.Kind.TEXT):
            return values.made(format_date(value.sql), values.STRING, value)
        case (types.Kind.TIMESTAMP, types.Kind.WHOLE) if wanted.name == "long":
            microseconds = f"epoch_us({value.sql})"
            below = f"(({microseconds} % 1000000 + 1000000) % 1000000)"
            return values.made(f"(({microseconds} - {below}) // 1000000)", wanted, value)
    raise values.NotTranslated(f"a cast from {value.type_name} to {wanted.name} is not supported")


def _read(value: values.Value, wanted: types.PrimitiveType) -> values.Value:
    """Return a string read as another type. Texts that only some engines read raise."""
    pattern = _DECIMAL_TEXT if types.decimal_parts(wanted.name) else _TEXTS.get(wanted.name)
    if pattern is None:
        raise values.NotTranslated(f"a cast from string to {wanted.name} is not supported")
    options = ", 'i'" if wanted.name == "boolean" else ""
    odd = f"NOT regexp_full_match({value.sql}, '{pattern}'{options})"
    reason = f"a string is not a value of type {wanted.name} in every engine"
    sql = f"CAST({value.sql} AS {values.duck_type(wanted)})"
    if wanted in (values.DATE, values.TIMESTAMP, values.NTZ):
        odd = f"{odd} OR {value.sql} < '0001'"
    return values.made(values.failing(odd, sql, reason), wanted, value, can_fail=True)


_TRUTHS = {"true": "IS TRUE", "false": "IS FALSE", "unknown": "IS NULL"}
_NEGATED = {"IS TRUE": "IS NOT TRUE", "IS FALSE": "IS NOT FALSE", "IS NULL": "IS NOT NULL"}


class Translation(NamedTuple):
    """A DuckDB query: one boolean, over the columns c0, c1, … in the order of `asked`.

    `assumes_utc`: the answer depends on the session time zone of Spark, and is that for UTC. `is_plain`: only
    comparisons of columns, without an integer or decimal converted to a double.
    """

    sql: str
    asked: tuple[values.Asked, ...]
    assumes_utc: bool
    is_plain: bool


def translate_condition(text: str, schema: types.StructType) -> Translation:
    """Return a condition over the columns of a schema. Raises NotTranslated."""
    translator = _Translator(text, schema)
    root = _parsed(text)
    return translator.finished(lambda: translator.condition(root))


def translate_generated(text: str, schema: types.StructType, data_type: types.DataType) -> Translation:
    """Return whether a value, `given` in the query, equals an expression (`<=>`). Raises NotTranslated."""
    if not isinstance(data_type, types.PrimitiveType):
        raise values.NotTranslated(f"a generated column has the unsupported type {types.simple_name(data_type)}")
    translator = _Translator(text, schema)
    root = _parsed(text)

    def compared() -> values.Value:
        pair = alike(translator.value(root), data_type, GIVEN)
        translator.note(pair)
        return pair.compared("<=>")

    return translator.finished(compared)


GIVEN = "given"
"""The name of a generated column's values in the query."""


_MOST_TEXT = 65_536
"Maximum length of an expression; longer ones are lists of values that take half a minute to parse."


def _parsed(text: str) -> Node:
    if len(text) > _MOST_TEXT:
        raise values.NotTranslated(f"the expression is longer than {_MOST_TEXT:,} characters")
    expression = parse_expression(text)
    if expression.fault is not None:
        raise values.NotTranslated(expression.fault)
    if expression.root is None:
        raise values.NotTranslated("the expression could not be parsed")
    if any(token.kind is TokenKind.OPERATOR and token.text == "=>" for token in tokens_of(text)):
        raise values.NotTranslated("named arguments are not supported")
    return expression.root


class _Translator:
    """Translates the parts of an expression to values."""

    def __init__(self, text: str, schema: types.StructType) -> None:
        self._text = text
        self._columns = values.ColumnNames(text, schema)
        self._names = {field.name.lower() for field in schema.fields}
        self.assumes_utc = False
        self.is_plain = True

    def finished(self, make: Callable[[], values.Value]) -> Translation:
        try:
            value = make()
        except RecursionError:
            raise values.NotTranslated("the expression is nested too deeply") from None
        return Translation(value.sql, tuple(self._columns.asked), self.assumes_utc, self.is_plain)

    def note(self, pair: Pair) -> None:
        self.assumes_utc |= pair.assumes_utc
        self.is_plain &= pair.is_exact

    def condition(self, node: Node) -> values.Value:
        return require_condition(self.value(node))

    def value(self, node: Node) -> values.Value:
        match node.form:
            case Form.NULL:
                return values.NULL
            case Form.NUMBER:
                return values.number_literal(node.name)
            case Form.TEXT:
                is_double_quoted = self._text[node.position : node.position + 1] == '"'
                if is_double_quoted and node.value.lower() in self._names:
                    raise values.NotTranslated(f'"{node.value}" is a string in Spark and a column in other engines')
                return values.text_literal(node.value)
            case Form.COLUMN:
                return self._columns.value(node.path, node.position)
            case Form.CONDITION:
                return self._condition(node)
            case Form.CAST:
                return self._cast(node)
            case Form.CALL:
                return self._call(node)
            case Form.VALUE:
                return self._operation(node)
        return self._other(node)

    # -- literals and operators ---------------------------------------------------------------------------------------

    def _operation(self, node: Node) -> values.Value:
        if len(node.parts) == 1 and node.name in ("-", "+", "~"):
            return self._signed(node)
        if node.name in operators.BINARY and len(node.parts) == 2:
            left, right = (self.value(part) for part in node.parts)
            return operators.BINARY[node.name](left, right)
        if node.name in ("date", "timestamp", "timestamp_ltz", "timestamp_ntz", "x"):
            value, is_zoned = values.typed_literal(node)
            self.assumes_utc |= is_zoned
            return value
        raise values.NotTranslated(f"{_named(node)} is not supported")

    def _signed(self, node: Node) -> values.Value:
        (part,) = node.parts
        if node.name == "-" and part.form is Form.NUMBER:
            return values.number_literal(part.name, is_negative=True)
        value = self.value(part)
        if node.name == "-":
            return operators.negative(value)
        if node.name == "~":
            return operators.inverted_bits(value)
        if value.kind not in (types.Kind.WHOLE, types.Kind.DECIMAL, types.Kind.FLOAT):
            raise values.NotTranslated(f"unary + is not supported for type {value.type_name}")
        return value

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _condition(self, node: Node) -> values.Value:
        match node.name:
            case "true" | "false" if not node.parts:
                return values.condition_literal(node.name == "true")
            case "not":
                value = self.condition(node.parts[0])
                return values.made(f"(NOT {value.sql})", values.BOOLEAN, value)
            case "and" | "or":
                return _all_or_any(node.name, [self.condition(part) for part in node.chain()])
            case "is":
                return self._is(node)
            case "in":
                condition = self._in(node)
            case "between":
                value, low, high = (self.value(part) for part in node.parts)
                condition = _all_or_any("and", [self._compared(">=", value, low), self._compared("<=", value, high)])
            case "like" if not node.word:
                value, *patterns = (self.value(part) for part in node.parts)
                condition = like(value, patterns)
            case "rlike" | "regexp" if not node.word and len(node.parts) == 2:
                value, pattern = (self.value(part) for part in node.parts)
                condition = regex_match(value, pattern)
            case name if name in NAMES:
                left, right = (self.value(part) for part in node.parts)
                return self._compared(name, left, right)
            case _:
                raise values.NotTranslated(f"{_named(node)} is not supported")
        return values.made(f"(NOT {condition.sql})", values.BOOLEAN, condition) if node.negated else condition

    def _compared(self, name: str, left: values.Value, right: values.Value) -> values.Value:
        pair = Pair(left, right)
        self.note(pair)
        return pair.compared(name)

    def _is(self, node: Node) -> values.Value:
        if node.word == "distinct":
            same = self._compared("<=>", *(self.value(part) for part in node.parts))
            return same if node.negated else values.made(f"(NOT {same.sql})", values.BOOLEAN, same)
        part = node.parts[0]
        if node.word == "null":
            is_column = part.form is Form.COLUMN
            value = self._columns.presence(part.path, part.position) if is_column else self.value(part)
            return is_null(value, negated=node.negated)
        asked = _TRUTHS[node.word]
        value = self.condition(part)
        return values.made(f"({value.sql} {_NEGATED[asked] if node.negated else asked})", values.BOOLEAN, value)

    def _in(self, node: Node) -> values.Value:
        value, *items = (self.value(part) for part in node.parts)
        if not items:
            raise values.NotTranslated("IN has an empty list")
        condition, assumes_utc, is_exact = contained(value, items)
        self.assumes_utc |= assumes_utc
        self.is_plain &= is_exact
        return condition

    # -- casts, calls and the rest ------------------------------------------------------------------------------------

    def _cast(self, node: Node) -> values.Value:
        value, is_zoned = cast(self.value(node.parts[0]), node.name)
        if node.word == "try_cast" and value.can_fail:
            raise values.NotTranslated(f"try_cast to {node.name[:40]} is not supported")
        self.assumes_utc |= is_zoned
        return value

    def _call(self, node: Node) -> values.Value:
        if node.name == "extract" and len(node.path) == 1:
            return self._zoned(extracted(node.path[0], self.value(node.parts[0])))
        is_known = node.name in MOMENT_FUNCTIONS or node.name in TEXT_FUNCTIONS or node.name in CHOICE_FUNCTIONS
        if not is_known or node.path or node.word not in ("", "both"):
            raise values.NotTranslated(
                f"the function {node.name[:60]} is not supported" + (f" with {node.word}" if node.word else "")
            )
        arguments = [self.value(part) for part in node.parts]
        if node.name in MOMENT_FUNCTIONS:
            return self._zoned(MOMENT_FUNCTIONS[node.name](arguments))
        make = TEXT_FUNCTIONS.get(node.name) or CHOICE_FUNCTIONS[node.name]
        return make(arguments)

    def _zoned(self, zoned: Zoned) -> values.Value:
        value, is_zoned = zoned
        self.assumes_utc |= is_zoned
        return value

    def _other(self, node: Node) -> values.Value:
        if node.name == "case":
            return self._case(node)
        if node.name == "item":
            value, index = (self.value(part) for part in node.parts)
            return item(value, index)
        raise values.NotTranslated(f"{_named(node)} is not supported")

    def _case(self, node: Node) -> values.Value:
        parts = list(node.parts)
        operand = self.value(parts.pop(0)) if node.word else None
        otherwise = self.value(parts.pop()) if len(parts) % 2 else values.Value("NULL", values.VOID)
        branches: list[tuple[values.Value, values.Value]] = []
        for when, then in zip(parts[::2], parts[1::2], strict=True):
            value = self.value(when)
            condition = value if operand is None else self._compared("=", operand, value)
            require_condition(condition)
            branches.append((condition, self.value(then)))
        if not branches:
            raise values.NotTranslated("CASE has no WHEN")
        return case(branches, otherwise)


def _all_or_any(name: str, parts: list[values.Value]) -> values.Value:
    """Return conditions joined by AND or OR. Parts that may raise see only rows that those before leave undecided."""
    joined = f" {name.upper()} ".join(part.sql for part in parts)
    if not any(part.can_fail for part in parts[1:]):
        return values.made(f"({joined})", values.BOOLEAN, *parts)
    ends, answer = ("NOT ", "FALSE") if name == "and" else ("", "TRUE")
    whens = " ".join(f"WHEN {ends}{part.sql} THEN {answer}" for part in parts)
    return values.made(f"(CASE {whens} ELSE ({joined}) END)", values.BOOLEAN, *parts)


_CALLED = re.compile("[A-Za-z]+")


def _named(node: Node) -> str:
    """Return what a node is, in words."""
    if node.form is Form.OTHER or not _CALLED.match(node.name):
        return {"item": "an element by index", "field": "a field of a struct", "lambda": "a lambda function"}.get(
            node.name, node.name
        )
    return node.name.upper() + (f" {node.word.upper()}" if node.word in ("any", "some", "all") else "")
