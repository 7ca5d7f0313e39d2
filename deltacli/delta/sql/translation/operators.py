"""Operators, comparisons, and functions that choose: equal in every engine, or not translated.

DuckDB raises where Spark would overflow, or raise itself under ANSI. Division by zero is made to raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from deltacli.delta.schema.types import ArrayType, Kind, MapType, PrimitiveType
from deltacli.delta.sql.translation.values import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LONG,
    NTZ,
    NULL,
    STRING,
    TIMESTAMP,
    NotTranslated,
    Value,
    branch_type,
    common_type,
    convert,
    date_literal,
    decimal_type,
    digits_of,
    duck_type,
    failing,
    joined_by_null,
    made,
    mismatch,
    moment_literal,
    number_literal,
)

EXACT = frozenset({Kind.WHOLE, Kind.DECIMAL})
_NUMBERS = frozenset({*EXACT, Kind.FLOAT})


def arithmetic(name: str, left: Value, right: Value) -> Value:
    """`left name right`. Raises NotTranslated."""
    if not {left.kind, right.kind} <= _NUMBERS:
        raise NotTranslated(f"{name} is not supported for types {left.type_name} and {right.type_name}")
    kinds = {left.kind, right.kind}
    if kinds == {Kind.FLOAT, Kind.WHOLE} and "float" in (left.type_name, right.type_name):
        raise mismatch(left, right)  # computed as floats or as doubles, depending on Spark's settings
    if name in ("/", "%", "div"):
        return _divided(name, left, right)
    if kinds <= EXACT and Kind.DECIMAL in kinds:
        return _decimal(name, left, right)
    data_type = common_type(left, right)
    one, other = convert(left, data_type), convert(right, data_type)
    sql = f"({one.sql} {name} {other.sql})"
    if data_type != DOUBLE:
        sql = f"CAST({sql} AS {duck_type(data_type)})"
    return joined_by_null(sql, data_type, one, other, can_fail=True)


def _decimal(name: str, left: Value, right: Value) -> Value:
    (precision, scale), (other_precision, other_scale) = digits_of(left), digits_of(right)
    if name == "*":
        data_type = decimal_type(precision + other_precision + 1, scale + other_scale)
        sides = [convert(side, decimal_type(*digits_of(side))) for side in (left, right)]
    else:
        widest = max(scale, other_scale)
        before = max(precision - scale, other_precision - other_scale)
        data_type = decimal_type(before + widest + 1, widest)
        sides = [convert(side, data_type) for side in (left, right)]
    sql = f"CAST(({sides[0].sql} {name} {sides[1].sql}) AS {duck_type(data_type)})"
    return joined_by_null(sql, data_type, *sides, can_fail=True)


def _divided(name: str, left: Value, right: Value) -> Value:
    if Kind.DECIMAL in (left.kind, right.kind) and Kind.FLOAT not in (left.kind, right.kind):
        raise NotTranslated(f"dividing decimals by {name} is not supported, because it rounds")
    kinds = {left.kind, right.kind}
    if name == "div":
        if kinds != {Kind.WHOLE}:
            raise NotTranslated("DIV requires integers")
        return _guarded("//", convert(left, LONG), convert(right, LONG))
    if name == "/":
        return _guarded("/", convert(left, DOUBLE), convert(right, DOUBLE))
    if kinds != {Kind.WHOLE}:
        raise NotTranslated("% requires integers")
    data_type = common_type(left, right)
    return _guarded("%", convert(left, data_type), convert(right, data_type))


def _guarded(name: str, left: Value, right: Value) -> Value:
    sql = f"({left.sql} {name} {right.sql})"
    if right.number is None or right.number == 0:
        sql = failing(f"{right.sql} = 0", sql, "division by zero")
    return joined_by_null(sql, left.data_type, left, right, can_fail=True)


def positive_remainder(left: Value, right: Value) -> Value:
    """PMOD: a remainder that takes the sign of a positive divisor."""
    rest = arithmetic("%", left, right)
    if rest.type_name not in ("integer", "long"):
        raise NotTranslated("PMOD requires integers")
    shifted = arithmetic("%", arithmetic("+", rest, right), right)
    return made(f"(CASE WHEN {rest.sql} < 0 THEN {shifted.sql} ELSE {rest.sql} END)", rest.data_type, rest, shifted)


def negative(value: Value) -> Value:
    if value.kind not in _NUMBERS:
        raise NotTranslated(f"unary - is not supported for type {value.type_name}")
    sql = f"CAST((- {value.sql}) AS {duck_type(value.data_type)})"
    return made(sql, value.data_type, value, can_fail=True)


def bitwise(name: str, left: Value, right: Value) -> Value:
    """`left & right` and its like."""
    if {left.kind, right.kind} != {Kind.WHOLE}:
        raise NotTranslated(f"{name} requires integers")
    data_type = common_type(left, right)
    one, other = convert(left, data_type), convert(right, data_type)
    sql = f"xor({one.sql}, {other.sql})" if name == "^" else f"({one.sql} {name} {other.sql})"
    return joined_by_null(f"CAST({sql} AS {duck_type(data_type)})", data_type, one, other)


def inverted_bits(value: Value) -> Value:
    if value.kind is not Kind.WHOLE:
        raise NotTranslated(f"~ is not supported for type {value.type_name}")
    return made(f"CAST((~ {value.sql}) AS {duck_type(value.data_type)})", value.data_type, value)


def concatenate(values: list[Value]) -> Value:
    """Strings after each other, null if one is."""
    for value in values:
        if value.kind is not Kind.TEXT and not value.is_null:
            raise NotTranslated(f"a value of type {value.type_name} is concatenated with a string")
    sides = [convert(value, STRING) for value in values]
    return joined_by_null(f"({' || '.join(side.sql for side in sides)})", STRING, *sides)


BINARY: Mapping[str, Callable[[Value, Value], Value]] = {
    **{name: partial(arithmetic, name) for name in ("+", "-", "*", "/", "%", "div")},
    **{name: partial(bitwise, name) for name in ("&", "|", "^")},
    "||": lambda left, right: concatenate([left, right]),
}
"""Operators between two values, by their names in Spark."""


NAMES = {
    **{name: name for name in ("=", "<>", "<", "<=", ">", ">=")},
    "==": "=",
    "!=": "<>",
    "!<": ">=",
    "!>": "<=",
    "<=>": "IS NOT DISTINCT FROM",
}
_WHOLE_TEXT = re.compile("-?[0-9]{1,9}")
_MANY = 10
"Spark looks up longer lists by the bits of their values, where 0.0 and -0.0 differ."


class Pair:
    """Two values of a common type. `assumes_utc`: a date, or a text, was read in the zone of a session; `is_exact`: no
    integer or decimal was converted to a double.
    """

    def __init__(self, left: Value, right: Value) -> None:
        one, other = _read_beside(left, right), _read_beside(right, left)
        data_type = common_type(one, other)
        _require_scalar(Value("", data_type))
        self.left, self.right = convert(one, data_type), convert(other, data_type)
        self.assumes_utc = data_type == TIMESTAMP and not (left.data_type == right.data_type == TIMESTAMP)
        self.is_exact = data_type != DOUBLE or not any(
            side.kind in (Kind.WHOLE, Kind.DECIMAL) and (side.number is None or beside.number is not None)
            for side, beside in ((left, right), (right, left))
        )

    def compared(self, name: str) -> Value:
        return made(f"({self.left.sql} {NAMES[name]} {self.right.sql})", BOOLEAN, self.left, self.right)


def _require_scalar(value: Value) -> None:
    if value.kind is Kind.OTHER and not value.is_null:
        raise NotTranslated(f"comparing values of type {value.type_name} is not supported")


def _read_beside(value: Value, other: Value) -> Value:
    """Return a string literal as a value of the type of the other side."""
    if value.text is None or other.text is not None or other.kind in (Kind.TEXT, Kind.OTHER):
        return value
    match other.kind:
        case Kind.DATE:
            return date_literal(value.text)
        case Kind.TIMESTAMP:
            return moment_literal(value.text, TIMESTAMP)
        case Kind.NTZ:
            return moment_literal(value.text, NTZ)
        case Kind.WHOLE if _WHOLE_TEXT.fullmatch(value.text) and other.type_name in ("integer", "long"):
            return number_literal(value.text.lstrip("-"), is_negative=value.text.startswith("-"))
    raise mismatch(value, other)


def contained(value: Value, items: list[Value]) -> tuple[Value, bool, bool]:
    """`value IN (items)`, whether it assumes UTC, and whether it is exact."""
    for item in items:
        texts = {Kind.TEXT} & {value.kind, item.kind}
        if texts and {value.kind, item.kind} - {Kind.TEXT, Kind.DATE} and not (value.is_null or item.is_null):
            raise mismatch(value, item)  # compared as strings, by Spark's settings
    sides = [side for side in (value, *items) if not side.is_null]
    kinds = {side.kind for side in sides}
    if Kind.FLOAT in kinds:
        names = {side.type_name for side in sides}
        if len(items) > _MANY or ("float" in names and len(names) > 1) or value.kind is not Kind.FLOAT:
            raise NotTranslated("IN with floating-point numbers is not supported")
    elif len(kinds) > 1 and kinds not in ({Kind.WHOLE, Kind.DECIMAL}, {Kind.TEXT, Kind.DATE}):
        raise NotTranslated("the values of IN have different types")
    pairs = [Pair(value, item) for item in items]
    parts = [pair.compared("=") for pair in pairs]
    sql = " OR ".join(part.sql for part in parts)
    if len({pair.left.sql for pair in pairs}) == 1:
        sql = f"{pairs[0].left.sql} IN ({', '.join(pair.right.sql for pair in pairs)})"
    return made(f"({sql})", BOOLEAN, *parts), any(pair.assumes_utc for pair in pairs), all(p.is_exact for p in pairs)


def alike(expression: Value, data_type: PrimitiveType, column: str) -> Pair:
    """Return the values of a column of a type next to an expression."""
    return Pair(Value(column, data_type), expression)


# -- functions that choose among their arguments, functions of numbers -------------------------------------------------


def case(branches: list[tuple[Value, Value]], otherwise: Value) -> Value:
    """The value of the first branch whose condition is true. Raises NotTranslated."""
    if any(condition.is_null for condition, _ in branches):
        raise NotTranslated("NULL is used as a condition")
    values = [value for _, value in branches]
    data_type = branch_type([*values, otherwise])
    if duck_type(data_type) == "TIMESTAMP" and any(value.kind is Kind.DATE for value in (*values, otherwise)):
        raise NotTranslated("a date is converted to a timestamp, which depends on the time zone")
    whens = "".join(f" WHEN {condition.sql} THEN {convert(value, data_type).sql}" for condition, value in branches)
    parts = [part for branch in branches for part in branch]
    return made(f"(CASE{whens} ELSE {convert(otherwise, data_type).sql} END)", data_type, *parts, otherwise)


def _if(arguments: list[Value]) -> Value:
    condition, value, otherwise = _counted("if", arguments, 3)
    require_condition(condition)
    return case([(condition, value)], otherwise)


def require_condition(value: Value) -> Value:
    """Raises NotTranslated for a value that is none."""
    if not value.is_condition:
        raise NotTranslated(f"a value of type {value.type_name} is used as a condition")
    return convert(value, BOOLEAN)


def is_null(value: Value, *, negated: bool = False) -> Value:
    return made(f"({value.sql} IS {'NOT ' if negated else ''}NULL)", BOOLEAN, value)


def _coalesce(arguments: list[Value]) -> Value:
    if not arguments:
        raise NotTranslated("coalesce has no arguments")
    return _joined("coalesce", arguments)


def _extreme(name: str) -> Callable[[list[Value]], Value]:
    def choose(arguments: list[Value]) -> Value:
        if len(arguments) < 2:
            raise NotTranslated(f"{name} has {len(arguments)} arguments")
        return _joined(name, arguments)

    return choose


def _joined(name: str, arguments: list[Value]) -> Value:
    data_type = branch_type(arguments)
    if (
        len({argument.kind for argument in arguments if not argument.is_null} & {Kind.DATE, Kind.TIMESTAMP, Kind.NTZ})
        > 1
    ):
        raise NotTranslated("a date is converted to a timestamp, which depends on the time zone")
    sides = [convert(argument, data_type) for argument in arguments]
    return made(f"{name}({', '.join(side.sql for side in sides)})", data_type, *sides)


def _nvl2(arguments: list[Value]) -> Value:
    value, present, absent = _counted("nvl2", arguments, 3)
    return case([(is_null(value, negated=True), present)], absent)


def _nullif(arguments: list[Value]) -> Value:
    value, other = _counted("nullif", arguments, 2)
    pair = Pair(value, other)
    if pair.assumes_utc or value.is_null:
        raise NotTranslated("nullif compares values of different types")
    return case([(pair.compared("="), NULL)], value)


def _is_nan(arguments: list[Value]) -> Value:
    (value,) = _counted("isnan", arguments, 1)
    if value.kind is not Kind.FLOAT:
        raise NotTranslated(f"isnan is not supported for type {value.type_name}")
    return made(f"coalesce(isnan({value.sql}), FALSE)", BOOLEAN, value)


def _abs(arguments: list[Value]) -> Value:
    (value,) = _counted("abs", arguments, 1)
    if value.kind not in (Kind.WHOLE, Kind.DECIMAL, Kind.FLOAT):
        raise NotTranslated(f"abs is not supported for type {value.type_name}")
    return made(f"CAST(abs({value.sql}) AS {duck_type(value.data_type)})", value.data_type, value, can_fail=True)


def _rounded(name: str) -> Callable[[list[Value]], Value]:
    def change(arguments: list[Value]) -> Value:
        (value,) = _counted(name, arguments, 1)
        if value.kind is Kind.DECIMAL:
            precision, scale = digits_of(value)
            data_type = decimal_type(precision - scale + 1, 0)
        elif value.kind in (Kind.WHOLE, Kind.FLOAT):
            data_type = LONG
        else:
            raise NotTranslated(f"{name} is not supported for type {value.type_name}")
        return made(f"CAST({name}({value.sql}) AS {duck_type(data_type)})", data_type, value, can_fail=True)

    return change


def _round(arguments: list[Value]) -> Value:
    value, places = _counted("round", arguments if len(arguments) > 1 else [*arguments, number_literal("0")], 2)
    count = -1 if places.number is None or places.type_name != "integer" else int(places.number)
    if value.kind is not Kind.DECIMAL or count < 0:
        raise NotTranslated("round is supported for decimals with a constant, non-negative number of digits only")
    precision, scale = digits_of(value)
    kept = min(scale, count)
    data_type = decimal_type(precision - scale + kept + 1, kept)
    return made(f"CAST({value.sql} AS {duck_type(data_type)})", data_type, value, can_fail=True)


def _sqrt(arguments: list[Value]) -> Value:
    (value,) = _counted("sqrt", arguments, 1)
    number = convert(value, DOUBLE) if value.kind in (Kind.WHOLE, Kind.FLOAT) else None
    if number is None:
        raise NotTranslated(f"sqrt is not supported for type {value.type_name}")
    sql = f"(CASE WHEN {number.sql} < 0 THEN CAST('nan' AS DOUBLE) ELSE sqrt({number.sql}) END)"
    return made(sql, DOUBLE, number)


def _hashed(name: str, function: str, bits: tuple[int, ...]) -> Callable[[list[Value]], Value]:
    def ask(arguments: list[Value]) -> Value:
        value, *rest = _counted(name, arguments, 2 if bits else 1)
        if rest and rest[0].number not in bits:
            raise NotTranslated(f"{name} is supported for 256 bits only")
        if value.kind not in (Kind.TEXT, Kind.BINARY):
            raise NotTranslated(f"{name} is not supported for type {value.type_name}")
        return made(f"{function}({value.sql})", STRING, value)

    return ask


# -- arrays and maps --------------------------------------------------------------------------------------------------


def _size(arguments: list[Value]) -> Value:
    (value,) = _counted("size", arguments, 1)
    if not isinstance(value.data_type, ArrayType | MapType):
        raise NotTranslated(f"size is not supported for type {value.type_name}")
    function = "cardinality" if isinstance(value.data_type, MapType) else "len"
    sql = failing(f"{value.sql} IS NULL", f"CAST({function}({value.sql}) AS INTEGER)", "the size of null is undefined")
    return made(sql, INTEGER, value, can_fail=True)


def _array_contains(arguments: list[Value]) -> Value:
    array, value = _counted("array_contains", arguments, 2)
    element = array.data_type.element if isinstance(array.data_type, ArrayType) else None
    if not isinstance(element, PrimitiveType) or element != value.data_type or value.kind is Kind.FLOAT:
        raise NotTranslated(
            f"array_contains is not supported for a value of type {value.type_name} and type {array.type_name}"
        )
    has_null = f"len({array.sql}) <> list_count({array.sql})"
    sql = (
        f"(CASE WHEN list_contains({array.sql}, {value.sql}) THEN TRUE WHEN {value.sql} IS NULL OR {has_null} THEN NULL"
    )
    return made(f"{sql} WHEN {array.sql} IS NULL THEN NULL ELSE FALSE END)", BOOLEAN, array, value)


def item(value: Value, index: Value) -> Value:
    """`value[index]`: of an array by a constant, of a map by a key. Raises NotTranslated."""
    data_type = value.data_type
    if isinstance(data_type, ArrayType) and isinstance(data_type.element, PrimitiveType):
        if index.number is None or index.kind is not Kind.WHOLE or index.number < 0:
            raise NotTranslated("the index of an array element is not a non-negative constant")
        place = int(index.number) + 1
        odd = f"len({value.sql}) < {place}"
        sql = failing(odd, f"{value.sql}[{place}]", f"an array has fewer than {place} elements")
        return made(sql, data_type.element, value, can_fail=True)
    if (
        isinstance(data_type, MapType)
        and isinstance(data_type.value, PrimitiveType)
        and index.data_type == data_type.key
    ):
        if index.kind is Kind.FLOAT:
            raise NotTranslated("a map with floating-point keys is not supported")
        return made(f"map_extract_value({value.sql}, {index.sql})", data_type.value, value, index)
    raise NotTranslated(f"indexing a value of type {value.type_name} is not supported")


def _counted(name: str, arguments: list[Value], count: int) -> list[Value]:
    if len(arguments) != count:
        raise NotTranslated(f"{name} has {len(arguments)} arguments")
    return arguments


CHOICE_FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {
    "if": _if,
    "coalesce": _coalesce,
    **dict.fromkeys(("nvl", "ifnull"), lambda arguments: _joined("coalesce", _counted("nvl", arguments, 2))),
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme("greatest"),
    "least": _extreme("least"),
    "isnull": lambda arguments: is_null(*_counted("isnull", arguments, 1)),
    "isnotnull": lambda arguments: is_null(*_counted("isnotnull", arguments, 1), negated=True),
    "isnan": _is_nan,
    "abs": _abs,
    "floor": _rounded("floor"),
    **dict.fromkeys(("ceil", "ceiling"), _rounded("ceil")),
    "round": _round,
    "sqrt": _sqrt,
    "mod": lambda arguments: arithmetic("%", *_counted("mod", arguments, 2)),
    "pmod": lambda arguments: positive_remainder(*_counted("pmod", arguments, 2)),
    "negative": lambda arguments: negative(*_counted("negative", arguments, 1)),
    "md5": _hashed("md5", "md5", ()),
    "sha2": _hashed("sha2", "sha256", (0, 256)),
    **dict.fromkeys(("size", "cardinality"), _size),
    "array_contains": _array_contains,
}
"""Functions that are known to be the same, by their names in Spark."""
