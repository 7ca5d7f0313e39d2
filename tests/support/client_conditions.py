"""Random conditions of recipients, as SQL and as JSON, and clients that evaluate them by their own rules, row by row.

Values are those of `tests.support.predicates`: dates are days, timestamps microseconds since the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from deltacli.delta.schema.types import decimal_parts
from tests.support.predicates import (
    DAY,
    FLOATS,
    TIMES,
    WHOLE,
    Leaf,
    Maker,
    Row,
    Truth,
    both,
    day_text,
    moment_text,
    opposite,
    plain,
    single,
)

HOUR = 3_600_000_000
ORDERS = {"equal": "=", "lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">", "greaterThanOrEqual": ">="}
FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>"}


@dataclass
class Client:
    """The rules of one client, drawn by chance."""

    random: Random
    offset: int = field(init=False)
    "Microseconds that its session is ahead of UTC."
    is_ieee: bool = field(init=False)
    "Comparisons with NaN are false, instead of NaN being above all other numbers."
    rounds_floats: bool = field(init=False)
    "Literals next to floats become floats."
    empty_is_null: bool = field(init=False)

    def __post_init__(self) -> None:
        self.offset = self.random.choice((0, 0, 9 * HOUR, -8 * HOUR, 14 * HOUR, -12 * HOUR, 18 * HOUR, -18 * HOUR))
        self.is_ieee, self.rounds_floats, self.empty_is_null = (self.random.random() < 0.5 for _ in range(3))

    def anything(self) -> Truth:
        return self.random.choice((True, False, None))

    def compare(self, order: str, left: Any, right: Any) -> Truth:
        """Compare two values of one type."""
        if left is None or right is None:
            return None
        if isinstance(left, float) or isinstance(right, float):
            if self.is_ieee and (math.isnan(left) or math.isnan(right)):
                return order == "<>"
            left, right = _rank(left), _rank(right)
        elif isinstance(left, str):
            left, right = left.encode(), right.encode()
        found: bool = {
            "=": left == right, "<>": left != right, "<": left < right,
            "<=": left <= right, ">": left > right, ">=": left >= right,
        }[order]  # fmt: skip
        return found


def _rank(number: float) -> tuple[int, Fraction]:
    if math.isfinite(number):
        return 0, Fraction(number)
    return (2 if math.isnan(number) else 1 if number > 0 else -1), Fraction(0)


class ClientCondition(NamedTuple):
    """A condition in both languages; None if one of them does not have it."""

    sql: str | None
    json: Any
    truth: Callable[[Client, Row], Truth]


@dataclass
class ConditionMaker:
    """Draws conditions on the leaves of a maker, about values of a pool of rows."""

    maker: Maker
    pool: list[Row]

    @property
    def random(self) -> Random:
        return self.maker.random

    def chance(self, share: float) -> bool:
        return self.maker.chance(share)

    def condition(self, depth: int = 0) -> ClientCondition:
        if depth < 4 and self.chance(0.5):
            return self.joined(depth)
        if self.chance(0.04):
            junk = self.random.choice(({"op": "in"}, {}, 5, {"op": "not", "children": []}, {"op": ["and"]}))
            return ClientCondition("some words", junk, lambda client, _row: client.anything())
        leaf = self.random.choice(self.maker.leaves)
        if self.chance(0.15):
            return is_null(leaf, value_type_of(leaf))
        if self.chance(0.06):
            return self.odd_cast(leaf)
        return self.comparison(leaf)

    def joined(self, depth: int) -> ClientCondition:
        one = self.condition(depth + 1)
        if self.chance(0.25):
            return ClientCondition(
                None if one.sql is None else f"NOT ({one.sql})",
                {"op": "not", "children": [one.json]},
                lambda client, row: opposite(one.truth(client, row)),
            )
        others = [one, *(self.condition(depth + 1) for _ in range(self.random.choice((1, 1, 2))))]
        op = self.random.choice(("and", "or"))

        def truth(client: Client, row: Row) -> Truth:
            found: Truth = True
            for other in others:
                answer = other.truth(client, row)
                found = both(found, answer if op == "and" else opposite(answer))
            return found if op == "and" else opposite(found)

        sql = None if any(o.sql is None for o in others) else f" {op.upper()} ".join(f"({o.sql})" for o in others)
        return ClientCondition(sql, {"op": op, "children": [other.json for other in others]}, truth)

    def odd_cast(self, leaf: Leaf) -> ClientCondition:
        """A column as a type that does not fit it: anything may come out."""
        value_type = self.random.choice(("string", "int", "date", "bool", "float"))
        if value_type in (value_type_of(leaf), "int" if leaf.type_name in WHOLE else ""):
            return is_null(leaf, value_type_of(leaf))
        if leaf.type_name in ("byte", "short") and value_type == "float":
            return is_null(leaf, value_type_of(leaf))
        children = [column(leaf, value_type), literal("5", value_type)]
        return ClientCondition(None, {"op": "equal", "children": children}, lambda client, _row: client.anything())

    def comparison(self, leaf: Leaf) -> ClientCondition:
        known = [row[leaf.path] for row in self.pool if row[leaf.path] is not None]
        value = self.random.choice(known) if known and self.chance(0.7) else self.maker.value(leaf.type_name)
        name = leaf.type_name
        if name in WHOLE:
            return self.whole(leaf, value)
        if name in FLOATS:
            return self.floating(leaf, value)
        if name in TIMES:
            return self.time(leaf, value)
        sql = None
        if name == "string":
            sql = f"'{value}'" if not any(mark in value for mark in ("'", "\\")) else None
        elif name == "boolean":
            sql = str(value).upper()
        elif decimal_parts(name):
            value = Fraction(value)
            sql = plain(value)
        text = str(value).lower() if name == "boolean" else value if name == "string" else None
        return self.ordered(leaf, sql, text, value_type_of(leaf), lambda _client, row: row[leaf.path], value)

    def whole(self, leaf: Leaf, value: int) -> ClientCondition:
        value += self.random.choice((0, 0, 1, -1))
        bits = WHOLE[leaf.type_name]
        value_type = self.random.choice(("int", "long"))
        if not -(1 << 63) <= value < 1 << 63:
            value = 0
        if value_type == "int" and not -(1 << 31) <= value < 1 << 31:
            value = 7

        def values(client: Client, row: Row) -> Any:
            found = row[leaf.path]
            is_cut = value_type == "int" and bits > 32 and found is not None and not -(1 << 31) <= found < 1 << 31
            return client.random.choice((None, value, value + 1, value - 1)) if is_cut else found

        written: Any = value if self.chance(0.2) else str(value)
        made = self.ordered(leaf, str(value), written, value_type, values, value)
        return made._replace(sql=None) if value_type == "int" and bits > 32 else made

    def floating(self, leaf: Leaf, value: float) -> ClientCondition:
        """A number next to floats or doubles."""
        if self.chance(0.4):
            value = round(value, 1) if math.isfinite(value) and abs(value) < 1e15 else value
        name = leaf.type_name
        value_type = self.random.choice(("float", "double")) if name == "float" else "double"
        order, op, op_sql = self.order()
        sql = repr(value) if math.isfinite(value) and "e" not in repr(value) else None
        if sql is not None and self.chance(0.5):

            def truth(client: Client, row: Row) -> Truth:
                rounded = single(value) if name == "float" and client.rounds_floats else value
                return client.compare(order, row[leaf.path], rounded)

            return ClientCondition(f"{leaf.sql} {op_sql} {sql}", None, truth)
        exact = single(value) if value_type == "float" else value
        children = [column(leaf, value_type), literal(spelled(value), value_type)]
        return ClientCondition(
            None,
            self.json_comparison(op, children),
            lambda client, row: client.compare(order, row[leaf.path], exact),
        )

    def time(self, leaf: Leaf, value: int) -> ClientCondition:
        """A date or a time next to a date, a timestamp or a time without a zone."""
        microseconds = value * DAY if leaf.type_name == "date" else value
        if leaf.type_name == "date" and self.chance(0.6):
            text = day_text(value)
            sql = self.random.choice((f"'{text}'", f"DATE '{text}'", f"CAST('{text}' AS DATE)"))
            return self.ordered(leaf, sql, text, "date", lambda _client, row: row[leaf.path], value)
        is_zoned = self.chance(0.5)
        text = moment_text(microseconds, "T") + ("Z" if is_zoned else "")
        sql = f"TIMESTAMP '{text}'"

        def shift(client: Client) -> int:
            return 0 if is_zoned else -client.offset

        def values(client: Client, row: Row) -> Any:
            found = row[leaf.path]
            if found is None:
                return None
            instant = found * DAY if leaf.type_name == "date" else found
            return instant if leaf.type_name == "timestamp" else instant - client.offset

        made = self.ordered(leaf, sql, text, "timestamp", values, lambda client: microseconds + shift(client))
        return made._replace(sql=None) if leaf.type_name == "timestamp_ntz" and is_zoned else made

    # -- both languages -----------------------------------------------------------------------------------------------

    def ordered(
        self,
        leaf: Leaf,
        sql: str | None,
        text: Any,
        value_type: str,
        values: Callable[[Client, Row], Any],
        value: Any,
    ) -> ClientCondition:
        order, op, op_sql = self.order()

        def truth(client: Client, row: Row) -> Truth:
            return client.compare(order, values(client, row), value(client) if callable(value) else value)

        in_sql = f"{leaf.sql} {op_sql} {sql}" if sql is not None else None
        if in_sql is not None and self.chance(0.2):
            in_sql = f"{sql} {FLIPPED[order]} {leaf.sql}"
        if text is None:
            return ClientCondition(in_sql, None, truth)
        return ClientCondition(in_sql, self.json_comparison(op, [column(leaf, value_type), literal(text, value_type)]),
                               truth)  # fmt: skip

    def order(self) -> tuple[str, str | None, str]:
        """An order, its operator in JSON (None: not equal), and its operator in SQL."""
        op = self.random.choice((*ORDERS, None))
        if op is None:
            return "<>", None, self.random.choice(("<>", "!="))
        return ORDERS[op], op, ORDERS[op]

    def json_comparison(self, op: str | None, children: list[Any]) -> Any:
        if op is None:
            return {"op": "not", "children": [{"op": "equal", "children": children}]}
        if self.chance(0.2):
            flipped = FLIPPED[ORDERS[op]]
            op, children = next(name for name, sign in ORDERS.items() if sign == flipped), children[::-1]
        return {"op": op, "children": children, **({"junk": [1]} if self.chance(0.1) else {})}


def is_null(leaf: Leaf, value_type: str) -> ClientCondition:
    return ClientCondition(
        f"{leaf.sql} IS NULL",
        {"op": "isNull", "children": [column(leaf, value_type)]},
        lambda _client, row: row[leaf.path] is None,
    )


def column(leaf: Leaf, value_type: str) -> Mapping[str, Any]:
    return {"op": "column", "name": ".".join(leaf.path), "valueType": value_type}


def literal(value: Any, value_type: str) -> Mapping[str, Any]:
    return {"op": "literal", "value": value, "valueType": value_type}


def spelled(number: float) -> str:
    return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN" if math.isnan(number) else repr(number))


def value_type_of(leaf: Leaf) -> str:
    names = {"integer": "int", "short": "int", "byte": "int", "boolean": "bool", "timestamp_ntz": "timestamp"}
    return names.get(leaf.type_name, leaf.type_name)
