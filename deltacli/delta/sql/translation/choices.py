"""Functions that choose among their arguments, functions of numbers, and questions about arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import ArrayType, MapType, PrimitiveType
from deltacli.delta.sql.translation.leaves import NULL, number_literal
from deltacli.delta.sql.translation.operators import Pair, arithmetic, negative, positive_remainder
from deltacli.delta.sql.translation.values import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    NotTranslated,
    Value,
    branch_type,
    convert,
    decimal_type,
    digits_of,
    duck_type,
    failing,
    made,
)


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


def _nvl(arguments: list[Value]) -> Value:
    return _joined("coalesce", _counted("nvl", arguments, 2))


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


def _mod(arguments: list[Value]) -> Value:
    return arithmetic("%", *_counted("mod", arguments, 2))


def _pmod(arguments: list[Value]) -> Value:
    return positive_remainder(*_counted("pmod", arguments, 2))


def _negative(arguments: list[Value]) -> Value:
    return negative(*_counted("negative", arguments, 1))


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
    **dict.fromkeys(("nvl", "ifnull"), _nvl),
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
    "mod": _mod,
    "pmod": _pmod,
    "negative": _negative,
    "md5": _hashed("md5", "md5", ()),
    "sha2": _hashed("sha2", "sha256", (0, 256)),
    **dict.fromkeys(("size", "cardinality"), _size),
    "array_contains": _array_contains,
}
"""Functions that are known to be the same, by their names in Spark."""
