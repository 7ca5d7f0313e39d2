"""Rows with the values at which engines part."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deltacli.delta.schema.to_arrow import build_arrow_schema
from deltacli.delta.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

NAN, INFINITY = float("nan"), float("inf")
ROWS = 56
TEXTS: tuple[str, ...] = (
    "",
    " ",
    "a",
    "A",
    "abc",
    "ABC",
    "  abc ",
    "abc\n",
    "abc\r\n",
    "a\u2028b",
    "\ta",
    "\u00a0x\u00a0",
    "é",
    "ß",
    "İı",
    "ΑΣ",
    "e\u0301",
    "日本語",
    "😀x",
    "a%b",
    "a_b",
    "a\\b",
    "a'b",
    "a.b@example.com",
    "12",
    "-7",
    "+7",
    " 12 ",
    "1.5",
    "1e3",
    "12a",
    "2147483648",
    "99999999999999999999",
    "NaN",
    "true",
    "T",
    "FALSE",
    "2020-02-29",
    "2021-02-29",
    "2020-2-9",
    "2020-01-01 10:20:30",
    "2020-01-01T10:20:30.123456",
    "2020-01-01 24:00:00",
    "0000-01-01",
    "\uffff",
    "\U0010ffff",
    "a\0b",
    "null",
    "\x0b",
)
VALUES: Mapping[str, tuple[Any, ...]] = {
    "byte": (0, 1, -1, 2, 5, 7, -7, 127, -128),
    "short": (0, 1, -1, 3, 300, -300, 32767, -32768),
    "integer": (0, 1, -1, 2, 3, -3, 7, 12, 100, 16777217, 2147483647, -2147483648),
    "long": (0, 1, -1, 2, -7, 10, 3000000000, 9007199254740993, 2**63 - 1, -(2**63)),
    "float": (0.0, -0.0, 1.0, -1.5, 0.1, 16777216.0, 3.4e38, NAN, INFINITY, -INFINITY),
    "double": (0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -2.5, 3.5, 1e300, 1e-300, 9007199254740992.0, NAN, INFINITY, -INFINITY),
    "decimal(10,2)": tuple(map(Decimal, ("0.00", "1.00", "-1.00", "0.50", "1.50", "2.50", "-2.50", "99999999.99"))),
    "decimal(5,3)": tuple(map(Decimal, ("0.000", "1.500", "-1.500", "0.001", "99.999", "-99.999", "2.500"))),
    "decimal(38,10)": tuple(map(Decimal, ("0.0000000000", "1.5000000000", "9999999999999999999999999999.9999999999"))),
    "string": TEXTS,
    "date": (
        date(1970, 1, 1),
        date(2020, 2, 29),
        date(2021, 1, 3),
        date(1, 1, 1),
        date(9999, 12, 31),
        date(1969, 12, 28),
    ),
    "timestamp": (
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2020, 2, 29, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1900, 1, 1, 1, 2, 3, tzinfo=UTC),
        datetime(2021, 7, 4, 3, 4, 5, 6, tzinfo=UTC),
        datetime(2, 1, 1, tzinfo=UTC),
    ),
    "boolean": (True, False),
    "binary": (b"", b"a", b"abc", b"\x00\xff", b"\xff", "é".encode()),
}
VALUES = {**VALUES, "timestamp_ntz": tuple(moment.replace(tzinfo=None) for moment in VALUES["timestamp"])}
_PLAIN = {
    "b": "byte",
    "h": "short",
    "i": "integer",
    "j": "integer",
    "l": "long",
    "k": "long",
    "f": "float",
    "d": "double",
    "e": "double",
    "m": "decimal(10,2)",
    "o": "decimal(5,3)",
    "w": "decimal(38,10)",
    "s": "string",
    "t": "string",
    "dt": "date",
    "du": "date",
    "ts": "timestamp",
    "tt": "timestamp",
    "nt": "timestamp_ntz",
    "p": "boolean",
    "q": "boolean",
    "x": "binary",
    "Odd name": "integer",
    "select": "integer",
    "a.b": "integer",
}
_INTEGER, _STRING = PrimitiveType("integer"), PrimitiveType("string")
_NESTED: Mapping[str, DataType] = {
    "st": StructType((StructField("a", _INTEGER, True, {}), StructField("B c", _STRING, True, {}))),
    "ar": ArrayType(_INTEGER, True),
    "at": ArrayType(_STRING, True),
    "mp": MapType(_STRING, _INTEGER, True),
}
SCHEMA = StructType(
    (
        StructField("id", PrimitiveType("integer"), True, {}),
        *(StructField(name, PrimitiveType(kind), True, {}) for name, kind in _PLAIN.items()),
        *(StructField(name, kind, True, {}) for name, kind in _NESTED.items()),
    )
)


def rows() -> pa.Table:
    """Rows in which each column takes all its values, in its own order, with nulls."""
    chance = random.Random(15)
    columns: dict[str, list[Any]] = {"id": list(range(ROWS))}
    for name, kind in _PLAIN.items():
        wanted = [None, None, *VALUES[kind]]
        drawn = [*wanted, *(chance.choice(wanted[1:]) for _ in range(ROWS))][:ROWS]
        chance.shuffle(drawn)
        columns[name] = drawn
    whole, texts = [None, 1, 2, 7, -3], [None, "a", "abc", "é", ""]
    columns["st"] = [
        chance.choice((None, {"a": chance.choice(whole), "B c": chance.choice(texts)})) for _ in range(ROWS)
    ]
    columns["ar"] = [chance.choice((None, chance.choices(whole, k=chance.randrange(4)))) for _ in range(ROWS)]
    columns["at"] = [chance.choice((None, chance.choices(texts, k=chance.randrange(4)))) for _ in range(ROWS)]
    keys = ["a", "abc", "é", ""]
    columns["mp"] = [
        chance.choice((None, [(key, chance.choice(whole)) for key in chance.sample(keys, chance.randrange(4))]))
        for _ in range(ROWS)
    ]
    return pa.table(columns, build_arrow_schema(SCHEMA.fields))
