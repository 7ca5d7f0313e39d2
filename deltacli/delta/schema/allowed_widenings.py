"""Which types may become which without rewriting a file, as data. Spec: Type Widening."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from deltacli.patterns import pattern

WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long", "double"}),
    "short": frozenset({"integer", "long", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
    "date": frozenset({"timestamp_ntz"}),
}
"Type -> the wider types other than decimals. Steps may be skipped. long -> double would lose digits."

INTEGER_DIGITS: Mapping[str, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"Type -> the digits before the decimal point that a decimal needs for it: those of the integer in files."

PREVIEW_DIGITS: Mapping[str, int] = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The digits that were enough for writers of the feature's preview: those of the type's own values."""

ICEBERG_WIDER: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long"}),
    "short": frozenset({"integer", "long"}),
    "integer": frozenset({"long"}),
    "float": frozenset({"double"}),
}
"The part of `WIDER` that Iceberg supports. Decimals may increase in precision, but not in scale."

MAX_DECIMAL_PRECISION = 38
NUMBER_TYPES = (
    "tinyint (byte), smallint (short), int (integer), bigint (long), float (real), double, "
    f"decimal(p,s) (dec, numeric) with s <= p <= {MAX_DECIMAL_PRECISION}"
)
"""How the types of numbers are written, in messages and documentation."""
OF_DECIMALS = f"a decimal has a precision of 1 to {MAX_DECIMAL_PRECISION}, and a scale up to the precision"


def hint_for_type(text: str) -> str | None:
    """Return a hint for a part of a type, which the shell has cut off at a space; None for a whole one."""
    is_part = any(text.count(opening) != text.count(closing) for opening, closing in ("()", "<>"))
    is_cut = is_part and decimal_of(f"{text})") is None  # else only the bracket was forgotten
    return "quote a type that contains spaces or brackets: 'decimal(20, 2)'" if is_cut else None


_OTHER_NAMES: Mapping[str, str] = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "dec": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "decimal": "decimal(10,0)",
}
"""SQL spellings, which Spark reads as well, and the names that a schema has for the same types."""

_DECIMAL = pattern(r"(?:decimal|dec|numeric)\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)", re.ASCII)
_NUMBERS = ("byte", "short", "integer", "long", "float", "double")
_PLAIN = frozenset((*_NUMBERS, "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary", "variant", "void"))
_PARAMETRIC = pattern(
    r"(?:char|varchar)\s*\(\s*\d+\s*\)|interval( [a-z]+( to [a-z]+)?)?|(?:geometry|geography)\s*(\(.*\))?|"
    r"timestamp(_ntz|_ltz)?\s*\(\s*\d+\s*\)|timestamp_(ltz|nanos|ntz_nanos)|string collate \S+",
    re.ASCII,
)


class Decimal(NamedTuple):
    """The digits of a decimal type: the total, and those after the decimal point."""

    precision: int
    scale: int

    @property
    def whole_digits(self) -> int:
        return self.precision - self.scale


def canonical_name(type_name: str) -> str:
    """Return a primitive type as schemas spell it: `decimal(6, 2)` is `decimal(6,2)`, `INT` is `integer`."""
    text = type_name.strip().lower()
    decimal = decimal_of(text)
    if decimal is not None:
        return f"decimal({decimal.precision},{decimal.scale})"
    return _OTHER_NAMES.get(text, text)


def decimal_of(type_name: str) -> Decimal | None:
    """Return the digits of a decimal type, or None for other types and for invalid digits."""
    match = _DECIMAL.fullmatch(type_name.strip().lower())
    if match is None:
        return None
    number = Decimal(int(match[1]), int(match[2] or 0))
    return number if 1 <= number.precision <= MAX_DECIMAL_PRECISION and number.scale <= number.precision else None


def is_primitive_name(type_name: str) -> bool:
    """Return True if a text names a primitive type, including those that cannot be widened."""
    name = canonical_name(type_name)
    return name in _PLAIN or decimal_of(name) is not None or _PARAMETRIC.fullmatch(name) is not None


def is_allowed_change(from_type: str, to_type: str) -> bool:
    """Return True if a column of one primitive type may become one of the other by type widening. The same type is not
    a change and not allowed. Void becomes any type without this feature.
    """
    from_name, to_name = canonical_name(from_type), canonical_name(to_type)
    if to_name in WIDER.get(from_name, ()):
        return True
    to_decimal = decimal_of(to_name)
    if to_decimal is None or from_name == to_name:
        return False
    if from_name in INTEGER_DIGITS:
        return to_decimal.whole_digits >= INTEGER_DIGITS[from_name]
    from_decimal = decimal_of(from_name)
    return (
        from_decimal is not None
        and to_decimal.scale >= from_decimal.scale
        and to_decimal.whole_digits >= from_decimal.whole_digits
    )


def was_allowed_in_preview(from_type: str, to_type: str) -> bool:
    """Return True if a change loses no digit although it is not allowed: the preview of the feature made such
    tables.
    """
    to_decimal = decimal_of(to_type)
    digits = PREVIEW_DIGITS.get(canonical_name(from_type))
    return to_decimal is not None and digits is not None and to_decimal.whole_digits >= digits


def is_iceberg_change(from_type: str, to_type: str) -> bool:
    """Return True if an allowed change is possible in a table with Iceberg compatibility."""
    from_name, to_name = canonical_name(from_type), canonical_name(to_type)
    if to_name in ICEBERG_WIDER.get(from_name, ()):
        return True
    from_decimal, to_decimal = decimal_of(from_name), decimal_of(to_name)
    return (
        from_decimal is not None
        and to_decimal is not None
        and to_decimal.scale == from_decimal.scale
        and to_decimal.precision > from_decimal.precision
    )
