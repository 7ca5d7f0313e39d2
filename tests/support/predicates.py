"""Random tables and predicates over them, with a model of truth row by row.

A value is as the model compares it: dates are days, timestamps microseconds since the epoch. A predicate is its SQL and
a function that says of a row whether it is true, false or null, written without a look at how columns are compared.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli.delta.schema.to_arrow import typed
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType, decimal_parts

Row = Mapping[tuple[str, ...], Any]
Truth = bool | None
DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WHOLE = {"byte": 8, "short": 16, "integer": 32, "long": 64}
FLOATS = ("float", "double")
TIMES = ("date", "timestamp", "timestamp_ntz")
PLAIN_TYPES = (*WHOLE, *FLOATS, *TIMES, "string", "boolean", "binary")
PIECES: tuple[str, ...] = (
    "",
    "a",
    "b",
    "ab",
    "é",
    "z",
    "%",
    "_",
    "\\",
    "'",
    "\n",
    "\x7f",
    "\u07ff",
    "\ud7ff",
    "\ue000",
)
PIECES += ("\ufffd", "\uffff", "😀", "\U0010ffff", "a" * 31, "a" * 40)


class Leaf(NamedTuple):
    """A column, or a field of the nested struct."""

    path: tuple[str, ...]
    type_name: str

    @property
    def sql(self) -> str:
        return ".".join(f"`{name}`" if not name.isidentifier() else name for name in self.path)


def is_number(type_name: str) -> bool:
    return type_name in WHOLE or type_name in FLOATS or decimal_parts(type_name) is not None


def single(number: float) -> float:
    """The float next to a number, as a double."""
    try:
        found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


class Predicate(NamedTuple):
    sql: str
    truth: Callable[[Row], Truth]


@dataclass
class Maker:
    """Draws everything from one source of chance."""

    random: Random

    def __post_init__(self) -> None:
        self.leaves = [Leaf((f"c{number}",), self.type_name()) for number in range(self.random.randint(2, 5))]
        self.leaves += [Leaf(("s", name), self.type_name()) for name in ("x", "y z") if self.chance(0.6)]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def type_name(self) -> str:
        if self.chance(0.15):
            precision = self.random.choice((1, 5, 9, 18, 20, 38))
            return f"decimal({precision},{self.random.randint(0, precision)})"
        return self.random.choice(PLAIN_TYPES)

    def schema(self, physical: Mapping[str, str]) -> StructType:
        def field(name: str, kind: Any) -> StructField:
            return StructField(name, kind, True, {"delta.columnMapping.physicalName": physical.get(name, name)})

        fields = [field(leaf.path[0], PrimitiveType(leaf.type_name)) for leaf in self.leaves if len(leaf.path) == 1]
        nested = [field(leaf.path[1], PrimitiveType(leaf.type_name)) for leaf in self.leaves if len(leaf.path) == 2]
        return StructType((*fields, *([field("s", StructType(tuple(nested)))] if nested else [])))

    # -- values ---------------------------------------------------------------------------------------------------

    def value(self, type_name: str) -> Any:
        """A value that is not null."""
        random = self.random
        if type_name in WHOLE:
            limit = 1 << (WHOLE[type_name] - 1)
            return random.choice((random.randint(-3, 3), random.randint(-limit, limit - 1), -limit, limit - 1, 0))
        if parts := decimal_parts(type_name):
            limit = 10 ** parts[0]
            whole = random.choice((random.randint(-3, 3), random.randint(1 - limit, limit - 1), limit - 1, 1 - limit))
            whole = max(min(whole, limit - 1), 1 - limit)
            return Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -parts[1]))
        if type_name in FLOATS:
            number = random.choice(
                (0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1.5, -1.5, 1e-45, random.uniform(-3, 3), 16777217.0)
            )
            return single(number) if type_name == "float" or self.chance(0.3) else number
        match type_name:
            case "string":
                return "".join(random.choice(PIECES) for _ in range(random.randint(0, 3)))
            case "binary":
                return bytes(random.choice((0, 1, 65, 127, 128, 255)) for _ in range(random.randint(0, 3)))
            case "boolean":
                return self.chance(0.5)
            case "date":
                return random.choice((0, -1, random.randint(-719_000, 2_900_000), random.randint(-3, 3)))
        day = random.choice((0, -1, random.randint(-700_000, 2_900_000), random.randint(-3, 3)))
        return day * DAY + random.choice((0, 1, 999, 1000, DAY - 1, random.randrange(DAY)))

    def row(self) -> dict[tuple[str, ...], Any]:
        """Values by path; ("s",) is False where the struct is null."""
        found: dict[tuple[str, ...], Any] = {("s",): self.chance(0.8)}
        for leaf in self.leaves:
            is_null = self.chance(0.2) or (len(leaf.path) == 2 and not found[("s",)])
            found[leaf.path] = None if is_null else self.value(leaf.type_name)
        return found

    # -- predicates -----------------------------------------------------------------------------------------------

    def predicate(self, pool: list[Row], depth: int = 0) -> Predicate:
        if depth < 4 and self.chance(0.55):
            return self.joined(pool, depth)
        leaf = self.random.choice(self.leaves)
        if self.chance(0.12):
            return self.is_null(leaf)
        if leaf.type_name == "boolean" and self.chance(0.5):
            return Predicate(leaf.sql, lambda row: row[leaf.path])
        if leaf.type_name == "string" and self.chance(0.3):
            return self.like(leaf, pool)
        if self.chance(0.15):
            return self.in_list(leaf, pool)
        if self.chance(0.1):
            return self.between(leaf, pool)
        partners = [other for other in self.leaves if other != leaf and group(other.type_name) == group(leaf.type_name)]
        if partners and self.chance(0.3):
            other = self.random.choice(partners)
            return comparison(
                self.operator(),
                leaf.sql,
                other.sql,
                lambda row: compare(leaf.type_name, row[leaf.path], other.type_name, row[other.path]),
            )
        sql, value = self.literal(leaf, pool)
        if self.chance(0.2):
            return comparison(self.operator(), sql, leaf.sql, lambda row: negative(against(leaf, row, value)))
        return comparison(self.operator(), leaf.sql, sql, lambda row: against(leaf, row, value))

    def joined(self, pool: list[Row], depth: int) -> Predicate:
        one = self.predicate(pool, depth + 1)
        match self.random.randrange(6):
            case 0:
                return Predicate(f"NOT ({one.sql})", lambda row: opposite(one.truth(row)))
            case 1:
                word, wanted = self.random.choice((("TRUE", True), ("FALSE", False), ("NULL", None), ("UNKNOWN", None)))
                if self.chance(0.5):
                    return Predicate(f"({one.sql}) IS NOT {word}", lambda row: one.truth(row) is not wanted)
                return Predicate(f"({one.sql}) IS {word}", lambda row: one.truth(row) is wanted)
        other = self.predicate(pool, depth + 1)
        match self.random.randrange(5):
            case 0 | 1:
                return Predicate(f"({one.sql}) AND ({other.sql})", lambda row: both(one.truth(row), other.truth(row)))
            case 2 | 3:
                return Predicate(
                    f"({one.sql}) or ({other.sql})",
                    lambda row: opposite(both(opposite(one.truth(row)), opposite(other.truth(row)))),
                )
        return comparison(
            self.operator(), f"({one.sql})", f"({other.sql})",
            lambda row: compare("boolean", one.truth(row), "boolean", other.truth(row)),
        )  # fmt: skip

    def operator(self) -> str:
        return self.random.choice(("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"))

    def is_null(self, leaf: Leaf) -> Predicate:
        if len(leaf.path) == 2 and self.chance(0.3):
            return Predicate("s IS NULL", lambda row: not row[("s",)])
        if self.chance(0.5):
            return Predicate(f"{leaf.sql} IS NOT NULL", lambda row: row[leaf.path] is not None)
        return Predicate(f"{leaf.sql} is null", lambda row: row[leaf.path] is None)

    def in_list(self, leaf: Leaf, pool: list[Row]) -> Predicate:
        literals = [self.literal(leaf, pool) for _ in range(self.random.randint(1, 4))]
        word = self.random.choice(("IN", "NOT IN"))

        def truth(row: Row) -> Truth:
            answers = [asked(against(leaf, row, value), lambda order: order == 0) for _, value in literals]
            found = True if True in answers else None if None in answers else False
            return found if word == "IN" else opposite(found)

        return Predicate(f"{leaf.sql} {word} ({', '.join(sql for sql, _ in literals)})", truth)

    def between(self, leaf: Leaf, pool: list[Row]) -> Predicate:
        (low_sql, low), (high_sql, high) = self.literal(leaf, pool), self.literal(leaf, pool)
        word = self.random.choice(("BETWEEN", "NOT BETWEEN"))

        def truth(row: Row) -> Truth:
            below, above = against(leaf, row, low), against(leaf, row, high)
            found = both(asked(below, lambda order: order >= 0), asked(above, lambda order: order <= 0))
            return found if word == "BETWEEN" else opposite(found)

        return Predicate(f"{leaf.sql} {word} {low_sql} AND {high_sql}", truth)

    def like(self, leaf: Leaf, pool: list[Row]) -> Predicate:
        known = [row[leaf.path] for row in pool if row[leaf.path]]
        text = self.random.choice(known) if known and self.chance(0.7) else self.value("string")
        parts: list[tuple[str, str]] = []  # SQL, regular expression
        for character in text[: self.random.choice((1, 2, 5, 100))]:
            if self.chance(0.1):
                parts.append(self.random.choice((("%", ".*"), ("_", "."))))
            else:
                parts.append((f"!{character}" if character in "%_!" else character, re.escape(character)))
        if self.chance(0.6):
            parts.append(("%", ".*"))
        expression = re.compile("".join(part for _, part in parts), re.DOTALL)
        word = self.random.choice(("LIKE", "NOT LIKE"))

        def truth(row: Row) -> Truth:
            if row[leaf.path] is None:
                return None
            return (expression.fullmatch(row[leaf.path]) is not None) == (word == "LIKE")

        return Predicate(f"{leaf.sql} {word} {quote(''.join(part for part, _ in parts))} ESCAPE '!'", truth)

    # -- literals -------------------------------------------------------------------------------------------------

    def literal(self, leaf: Leaf, pool: list[Row]) -> tuple[str, Any]:
        """The SQL of a literal for a column, and what the column's values are compared with."""
        if self.chance(0.05):
            return "NULL", None
        known = [row[leaf.path] for row in pool if row[leaf.path] is not None]
        value = self.random.choice(known) if known and self.chance(0.6) else self.value(leaf.type_name)
        name = leaf.type_name
        if name in FLOATS:
            return self.float_literal(name, value)
        if is_number(name):
            return self.number_literal(name, value)
        match name:
            case "string":
                cut = value[: self.random.choice((1, 3, 32, 100))] if self.chance(0.3) else value
                return quote(cut), cut
            case "binary":
                return f"X'{value.hex()}'", value
            case "boolean":
                return self.random.choice((str(value), f"'{value}'")), value
        return self.time_literal(name, value)

    def float_literal(self, name: str, value: float) -> tuple[str, Any]:
        if not math.isfinite(value):
            return f"'{value}'", value
        text = self.random.choice((repr(value), shortest_single(value)))
        if self.chance(0.2):
            return f"'{text}'", single(float(text)) if name == "float" else float(text)
        return signed(text), float(text)

    def number_literal(self, name: str, value: Any) -> tuple[str, Any]:
        if self.chance(0.2):
            return f"'{value}'" if name in WHOLE else f"'{value:f}'", Fraction(value)
        moved = Fraction(value) + self.random.choice(
            (0, 0, 0, 1, -1, Fraction(1, 2), Fraction(-1, 100), 10**20, -(10**40))
        )
        text = plain(moved)
        return signed(text), Fraction(text)

    def time_literal(self, name: str, value: int) -> tuple[str, Any]:
        microseconds = value * DAY if name == "date" else value
        day = microseconds // DAY
        if name == "date" and self.chance(0.6):
            return self.random.choice((f"DATE '{day_text(day)}'", f"'{day_text(day)}'")), microseconds
        if self.chance(0.2):
            return f"CAST('{day_text(day)}' AS DATE)", day * DAY
        if name == "timestamp" and self.chance(0.3):
            return f"timestamp '{moment_text(microseconds + 7_200_000_000)}+02:00'", microseconds
        word = "TIMESTAMP_NTZ" if self.chance(0.5) else "timestamp"
        return f"{word} '{moment_text(microseconds)}'", microseconds


# -- truth ------------------------------------------------------------------------------------------------------------


def opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


def both(one: Truth, other: Truth) -> Truth:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def asked(order: int | None, wanted: Callable[[int], bool]) -> Truth:
    return None if order is None or order == BOTH_NULL else wanted(order)


def negative(order: int | None) -> int | None:
    return order if order is None or abs(order) > 1 else -order


BOTH_NULL = 2
"""Not an order: two nulls, which <=> distinguishes from a null and a value."""


def comparison(name: str, left: str, right: str, order: Callable[[Row], int | None]) -> Predicate:
    def truth(row: Row) -> Truth:
        found = order(row)
        if name == "<=>":
            return found in (0, BOTH_NULL)
        if found is None or found == BOTH_NULL:
            return None
        return {
            "=": found == 0, "==": found == 0, "<>": found != 0, "!=": found != 0,
            "<": found < 0, "<=": found <= 0, ">": found > 0, ">=": found >= 0,
        }[name]  # fmt: skip

    return Predicate(f"{left} {name} {right}", truth)


def group(type_name: str) -> str:
    return "number" if is_number(type_name) else "time" if type_name in TIMES else type_name


def compare(left_type: str, left: Any, right_type: str, right: Any) -> int | None:
    if left is None or right is None:
        return BOTH_NULL if left is right else None
    if left_type in FLOATS or right_type in FLOATS:
        left, right = (
            (math.isnan(number), 0.0 if math.isnan(number) else number) for number in map(float, (left, right))
        )
    elif group(left_type) == "number":
        left, right = Fraction(left), Fraction(right)
    elif group(left_type) == "time":
        left, right = (
            value * DAY if name == "date" else value for name, value in ((left_type, left), (right_type, right))
        )
    elif isinstance(left, str):
        left, right = left.encode(), right.encode()
    return int(left > right) - int(left < right)


def against(leaf: Leaf, row: Row, value: Any) -> int | None:
    """A column next to a literal as `Maker.literal` gives it."""
    if leaf.type_name in TIMES:
        return compare(leaf.type_name, row[leaf.path], "timestamp", value)
    return compare(leaf.type_name, row[leaf.path], leaf.type_name, value)


# -- text -------------------------------------------------------------------------------------------------------------


def quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def signed(text: str) -> str:
    return f"- {text[1:]}" if text.startswith("-") else text


def plain(number: Fraction) -> str:
    """A number without an exponent; its denominator has only 2 and 5 in it."""
    digits = 0
    while (number * 10**digits).denominator != 1:
        digits += 1
    whole = abs(int(number * 10**digits))
    text = str(whole).rjust(digits + 1, "0")
    text = f"{text[:-digits]}.{text[-digits:]}" if digits else text
    return f"-{text}" if number < 0 else text


def shortest_single(number: float) -> str:
    """The shortest text that is this number when read as a float."""
    for digits in range(1, 10):
        text = f"{number:.{digits}g}"
        if single(float(text)) == single(number):
            return text
    return repr(number)


def day_text(day: int) -> str:
    return (EPOCH + timedelta(days=day)).strftime("%Y-%m-%d").rjust(10, "0")


def moment_text(microseconds: int, separator: str = " ") -> str:
    day, rest = divmod(microseconds, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{day_text(day)}{separator}{clock}" + (f".{fraction:06}" if fraction else "")


# -- arrays -----------------------------------------------------------------------------------------------------------


def array_of(type_name: str, values: list[Any]) -> Any:  # Any: pyarrow has no types
    kind = typed(PrimitiveType(type_name))
    if type_name == "date":
        return pa.array(values, pa.int32()).view(kind)
    if type_name in TIMES:
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def batch_of(maker: Maker, rows: list[Row]) -> pa.RecordBatch:
    """Rows as a scan gives them to a predicate."""
    arrays: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for leaf in maker.leaves:
        column = array_of(leaf.type_name, [row[leaf.path] for row in rows])
        (arrays if len(leaf.path) == 1 else nested)[leaf.path[-1]] = column
    if nested:
        mask = pa.array([not row[("s",)] for row in rows], pa.bool_())
        arrays["s"] = pa.StructArray.from_arrays(list(nested.values()), list(nested), mask=mask)
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
