"""Values of every type, awkward ones first, and the texts of partition values."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from tests.support.small_types import (
    INTEGERS,
    Array,
    Column,
    Map,
    Row,
    Struct,
    Type,
    Value,
    decimal_of,
    plain,
)

FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
INSTANTS = (
    FIRST,
    LAST,
    datetime(1582, 10, 4, 12),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(2024, 2, 29, 1, 2, 3, 4),
)
TAME = (datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(1970, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4000))
DOUBLES = (0.0, -0.0, 0.1, -1.5, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf)
FLOATS = (0.0, -0.0, 0.1, -1.5, 1e-45, 3.4028234663852886e38, math.nan, math.inf, -math.inf)
SCALARS: dict[str, Sequence[Value]] = {
    "float": pa.array(FLOATS, pa.float32()).to_pylist(),
    "double": DOUBLES,
    "string": ("", "a", "é\u2028", "x" * 40, "\U0001f600", "null", "%25", "a\0b", "~~~~~~~\U0010ffff"),
    "binary": (b"", b"\0\xff", b"abc", b"\xed\xa0\x80"),
    "boolean": (True, False),
    "date": (date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)),
    "void": (None,),
}
TEXTS: dict[str, Sequence[str | None]] = {
    "string": ("a b", "%", "a=b", "x/y", "é\U0001f600", " led ", "null", "%2F", "a+b", '"', "\\", "\u2028"),
    "binary": ("abc", "\x01\x02", " "),
    "boolean": ("true", "false"),
    "byte": ("0", "-128", "127"),
    "short": ("0", "-32768", "32767"),
    "integer": ("0", "-2147483648", "2147483647"),
    "long": ("0", "-9223372036854775808", "9223372036854775807", "9007199254740993"),
    "float": ("0.1", "-0.0", "NaN", "Infinity", "-Infinity", "3.4028235E38", "1.4E-45", "16777216"),
    "double": ("0.1", "-0.0", "NaN", "Infinity", "-Infinity", "1.7976931348623157E308", "4.9E-324"),
    "date": ("1969-12-31", "0001-01-01", "9999-12-31", "2024-02-29"),
    "timestamp": (
        "1969-12-31T23:59:59.999999Z",
        "1969-12-31 23:59:59.999999",
        "2024-02-29 00:00:00",
        "2024-02-29T12:00:00Z",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "2024-02-29 00:00:00.5",
    ),
    "timestamp_ntz": (
        "1969-12-31 23:59:59.999999",
        "2024-02-29 00:00:00",
        "0001-01-01 00:00:00",
        "2024-02-29 00:00:00.5",
    ),
}


def scalars(name: str, *, tame: bool = False) -> Sequence[Value]:
    """Values of a primitive type; the `tame` instants fit into every unit."""
    if name in SCALARS:
        return SCALARS[name]
    if name in INTEGERS:
        end = 2 ** (INTEGERS[name] - 1)
        return (0, 1, -1, end - 1, -end)
    if name in ("timestamp", "timestamp_ntz"):
        instants = TAME if tame else INSTANTS
        return [instant.replace(tzinfo=UTC) for instant in instants] if name == "timestamp" else instants
    precision, scale = decimal_of(name)
    units = (0, 1, -1, 10**precision - 1, 1 - 10**precision)
    return [Decimal((int(unit < 0), Decimal(abs(unit)).as_tuple().digits, -scale)) for unit in units]


def partition_texts(name: str) -> Sequence[str | None]:
    """Texts of partition values of a type, the two nulls among them."""
    if name in TEXTS:
        return (*TEXTS[name], None, "")
    values = scalars(name)
    return (*(f"{value:f}" for value in values), *(f"{value:E}" for value in values), None, "")


def some_value(chooser: random.Random, kind: Type, *, nullable: bool = True, tame: bool = False) -> Value:
    """A value of a type."""
    if nullable and chooser.random() < 0.2:
        return None
    match kind:
        case Struct(fields):
            return some_row(chooser, fields, tame=tame)
        case Array(element, contains_null):
            return [
                some_value(chooser, element, nullable=contains_null, tame=tame) for _ in range(chooser.randrange(3))
            ]
        case Map(key, value, contains_null):
            keys = [some_value(chooser, key, nullable=False, tame=tame) for _ in range(chooser.randrange(3))]
            unique = {plain(found): found for found in keys}
            return [(found, some_value(chooser, value, nullable=contains_null, tame=tame)) for found in unique.values()]
        case name:
            return chooser.choice(scalars(name, tame=tame))


def some_row(chooser: random.Random, columns: Sequence[Column], *, tame: bool = False) -> Row:
    """A row, or the value of a struct."""
    return {column.number: some_value(chooser, column.type, nullable=column.nullable, tame=tame) for column in columns}
