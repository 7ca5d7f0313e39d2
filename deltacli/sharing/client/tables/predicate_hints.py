"""A condition as a JSON hint, so that the server leaves out files. The condition is applied again on what arrives.

Only what every server evaluates in the same way is sent: comparisons of whole numbers, strings and dates with literals,
and nulls, joined by `and` and `or`. Negations are not: one server drops files with matching rows for them.
Spec: JSON predicates for Filtering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction

import orjson

from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.columns import Column
from deltacli.delta.predicate.conditions import And, Compare, Condition, Contained, IsNull, Not, Or
from deltacli.delta.predicate.limits import Limit, Order
from deltacli.delta.schema.kinds import Kind
from deltacli.delta.schema.types import StructType
from deltacli.sharing.hints.limits import LONGEST_SENT, MOST_VALUES_SENT
from deltacli.typing import Json

Node = dict[str, Json]
_OPERATORS = {Order.EQUAL: "equal", Order.LESS: "lessThan", Order.LESS_EQUAL: "lessThanOrEqual"}
_OPPOSITES = {Order.LESS: "greaterThanOrEqual", Order.LESS_EQUAL: "greaterThan"}
_VALUE_TYPES: Mapping[str, str] = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "string": "string",
    "date": "date",
}
_BITS = {"int": 31, "long": 63}
_EPOCH = date(1970, 1, 1)


def json_hint(where: str, schema: StructType) -> str | None:
    """Return a hint for rows that match a condition; None where nothing can be sent. Raises UsageError."""
    node = _node_of(parse_predicate(where, schema).condition)
    text = None if node is None else orjson.dumps(node).decode()
    return text if text is not None and len(text) <= LONGEST_SENT else None


def _node_of(condition: Condition) -> Node | None:
    """Return a node that is true wherever the condition is; None for one that cannot be sent."""
    match condition:
        case Compare(column, order, limit):
            return _comparison(_OPERATORS[order], column, limit)
        case Not(Compare(column, order, limit)) if order in _OPPOSITES:
            return _comparison(_OPPOSITES[order], column, limit)
        case Contained(column, limits) if len(limits) <= MOST_VALUES_SENT:
            return _joined("or", [_comparison("equal", column, limit) for limit in limits])
        case IsNull(column) if (named := _column(column)) is not None:
            return {"op": "isNull", "children": [named]}
        case And(parts):
            kept = [node for node in map(_node_of, parts) if node is not None]
            return _joined("and", kept) if kept else None
        case Or(parts):
            return _joined("or", [_node_of(part) for part in parts])
    return None


def _joined(operator: str, nodes: Sequence[Node | None]) -> Node | None:
    if not nodes or any(node is None for node in nodes):
        return None
    return nodes[0] if len(nodes) == 1 else {"op": operator, "children": list(nodes)}


def _comparison(operator: str, column: Column, limit: Limit) -> Node | None:
    named = _column(column)
    if named is None:
        return None
    text = _text_of(limit.value, named["valueType"])
    if text is None:
        return None
    literal = {"op": "literal", "value": text, "valueType": named["valueType"]}
    return {"op": operator, "children": [named, literal]}


def _column(column: Column) -> Node | None:
    """Return a top-level column of a type that can be sent."""
    kind = _VALUE_TYPES.get(column.type_name if column.kind is not Kind.WHOLE else _whole_name(column))
    if kind is None or column.is_nested:
        return None
    return {"op": "column", "name": column.path[0], "valueType": kind}


def _whole_name(column: Column) -> str:
    name = getattr(column.data_type, "name", "")
    return name if isinstance(name, str) else ""


def _text_of(value: object, value_type: str) -> str | None:
    """Return a literal in the form of its type; None for one that the type does not hold."""
    if value_type == "string":
        return value if isinstance(value, str) else None
    if not isinstance(value, Fraction | int) or value != int(value):
        return None
    whole = int(value)
    if value_type != "date":
        return str(whole) if abs(whole) < 1 << _BITS[value_type] else None
    try:
        return (_EPOCH + timedelta(days=whole)).isoformat()
    except OverflowError:
        return None
