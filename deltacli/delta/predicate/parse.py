"""A `where` text as a predicate over the rows of a table.

Semantics are Spark's: three-valued, NaN equal to itself and above every other number, strings in the order of their
UTF-8 bytes. Intended differences: numbers next to integers and decimals are exact, also 1e3; a text next to a column is
a value of the column's type or an error; the session time zone is UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import UsageError, format_sql_name
from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.predicate.columns import (
    NUMBERS,
    TIMES,
    Column,
    ColumnPath,
    PredicateColumns,
    refuse,
    refuse_value,
    replaced,
)
from deltacli.delta.predicate.conditions import (
    And,
    Compare,
    CompareColumns,
    CompareConditions,
    Condition,
    Constant,
    Contained,
    Flag,
    IsNull,
    Like,
    Not,
    Or,
    Pattern,
    Truth,
    evaluate,
)
from deltacli.delta.predicate.literals import (
    FLIPPED,
    ORDERS,
    Literal,
    NoColumnValueError,
    NoValueError,
    Order,
    from_text,
    limit_of,
    literal_of,
    require_text,
)
from deltacli.delta.schema.to_arrow import Judge, find_unsupported_type
from deltacli.delta.schema.types import Kind, StructField, StructType
from deltacli.delta.sql.parser import Form, Node, parse_expression

Operand: TypeAlias = Column | Literal | Condition

_COMPARISONS = {"==": "=", "!=": "<>", "!<": ">=", "!>": "<="}
_TRUTHS = {"true": True, "false": False, "unknown": None, "null": None}
_MAX_DEPTH = 150
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?![\w.-])")


@dataclass(frozen=True)
class Predicate:
    """A condition on the rows of a table. `columns`: the logical paths it looks at, as the schema spells them."""

    text: str
    columns: tuple[ColumnPath, ...]
    condition: Condition

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return True for rows that are kept, never null. The batch has the used top-level columns by logical names."""
        arrays: dict[Column, ArrowArray] = {}

        def values(column: Column) -> Any:
            if column not in arrays:
                arrays[column] = _values_of(batch, column)
            return arrays[column]

        return pc.fill_null(evaluate(self.condition, values, batch.num_rows), False)


def _values_of(batch: pa.RecordBatch, column: Column) -> Any:
    """Return the values of a column. A field of a null struct is null."""
    values = batch.column(batch.schema.get_field_index(column.path[0]))
    for name in column.path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    kind = column.arrow_type
    is_plain = column.kind not in (Kind.TEXT, Kind.BINARY) and not pa.types.is_dictionary(values.type)
    return values if kind is None or is_plain else pc.cast(values, kind)


def parse_predicate(text: str, schema: StructType, judge: Judge = find_unsupported_type) -> Predicate:
    """Parse a predicate for the tables of a schema. `judge` says of types whether their values are read.

    Raises UsageError (`usage.where`) that names the unsupported part and its position.
    """
    expression = parse_expression(text)
    if expression.fault is not None:
        raise refuse(text, expression.stopped_at, expression.fault)
    if expression.root is None:
        is_query = text[expression.stopped_at :].lower().startswith(("select", "with", "values", "table"))
        reason = "subqueries are not supported" if is_query else "it could not be parsed"
        raise refuse(text, expression.stopped_at, reason)
    finder = PredicateColumns(text, schema, judge)
    try:
        condition = _Binder(text, finder).condition(expression.root)
    except RecursionError:
        raise refuse(text, 0, "it is nested too deeply") from None
    return Predicate(text, tuple(finder.found), condition)


class _Binder:
    """Converts the parts of an expression to conditions."""

    def __init__(self, text: str, finder: PredicateColumns) -> None:
        self._text = text
        self._finder = finder
        self._depth = 0

    # -- parts --------------------------------------------------------------------------------------------------------

    def condition(self, node: Node) -> Condition:
        """Return the condition of a part that must be true, false or null."""
        return self._as_condition(self._operand(node), node)

    def _as_condition(self, operand: Operand, node: Node, what: str = "a condition is expected") -> Condition:
        if isinstance(operand, Column):
            self._finder.require_comparable(operand, node.position)
            if operand.kind is Kind.BOOLEAN:
                return Flag(operand)
            raise self._refuse(node, f"{what}, but {operand.name} is of type {operand.type_name}")
        if isinstance(operand, Literal):
            if operand.is_null or operand.kind is Kind.BOOLEAN:
                return Constant(operand.value)
            raise self._refuse(node, f"{what}, but there is {operand.shown}")
        return operand

    def _operand(self, node: Node) -> Operand:
        if node.form is Form.COLUMN:
            return self._finder.find(node.path, node.position)
        literal = literal_of(self._text, node)
        if literal is not None:
            return literal
        if node.form is not Form.CONDITION or node.name in ("xor", "exists"):
            found = _DATE.match(self._text, node.position) if node.position >= 0 else None
            if (date := found[0] if found else None) is not None:
                message = f"a date needs quotes: '{date}'"
                raise refuse_value(
                    self._text, node.position, message, meant=replaced(self._text, node.position, date, f"'{date}'")
                )
            raise self._refuse(node, _impossible(node))
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refuse(node, "it is nested too deeply")
        operand = self._made(node)
        self._depth -= 1
        return operand

    def _made(self, node: Node) -> Condition:
        match node.name:
            case "not":
                return Not(self.condition(node.parts[0]))
            case "and":
                return And(tuple(self.condition(part) for part in node.chain()))
            case "or":
                return Or(tuple(self.condition(part) for part in node.chain()))
            case "is":
                condition = self._is(node)
            case "in":
                condition = self._in(node)
            case "between":
                value, low, high = (self._operand(part) for part in node.parts)
                condition = And((self._compare(">=", value, low, node), self._compare("<=", value, high, node)))
            case "like":
                condition = self._like(node)
            case name if name in _COMPARISONS or name in ORDERS or name == "<=>":
                left, right = (self._operand(part) for part in node.parts)
                return self._compare(_COMPARISONS.get(name, name), left, right, node)
            case _:
                raise self._refuse(node, _impossible(node))
        return Not(condition) if node.negated else condition

    def _is(self, node: Node) -> Condition:
        operand = self._operand(node.parts[0])
        if node.word == "distinct":
            return Not(self._compare("<=>", operand, self._operand(node.parts[1]), node))
        if node.word == "null":
            return self._is_null(operand)
        return Truth(
            self._as_condition(operand, node, f"IS {node.word.upper()} requires a condition"), _TRUTHS[node.word]
        )

    def _is_null(self, operand: Operand) -> Condition:
        if isinstance(operand, Column):
            return IsNull(operand)
        if isinstance(operand, Literal):
            return Constant(operand.is_null)
        return Truth(operand, None)

    def _in(self, node: Node) -> Condition:
        value, *items = (self._operand(part) for part in node.parts)
        if not items:
            raise self._refuse(node, "IN has an empty list")
        if isinstance(value, Column) and value.kind not in (Kind.BOOLEAN, Kind.FLOAT):
            literals = [item for item in items if isinstance(item, Literal) and not item.is_null]
            rest = [item for item in items if not isinstance(item, Literal) or item.is_null]
            if len(literals) > 1:
                self._finder.require_comparable(value, node.position)
                limits = tuple(self._limit(value, literal) for literal in literals)
                conditions = (Contained(value, limits), *(self._compare("=", value, item, node) for item in rest))
                return conditions[0] if not rest else Or(conditions)
        return Or(tuple(self._compare("=", value, item, node) for item in items))

    def _like(self, node: Node) -> Condition:
        if node.word:
            raise self._refuse(node, f"LIKE {node.word.upper()} is not supported")
        value, *texts = (self._operand(part) for part in node.parts)
        if not isinstance(value, Column):
            raise self._refuse(node, "LIKE requires a string column on its left side")
        self._finder.require_comparable(value, node.position)
        if value.kind is not Kind.TEXT:
            raise self._refuse(node, f"LIKE requires strings, but {value.name} is of type {value.type_name}")
        words = []
        for text in texts:
            if not isinstance(text, Literal) or text.kind not in (Kind.TEXT, Kind.OTHER):
                raise self._refuse(node, "the pattern of LIKE and its escape character must be strings")
            if text.is_null:
                return Constant(None)
            words.append(require_text(text.value))
        if len(words) > 1 and len(words[1]) != 1:
            raise self._refuse(node, "ESCAPE requires one character")
        return Like(value, self._pattern(node, words))

    def _pattern(self, node: Node, words: list[str]) -> Pattern:
        try:
            pattern = Pattern(*words)
            pattern.match(pa.nulls(0, pa.string()))
        except NoValueError as fault:
            raise self._refuse(node, str(fault)) from None
        except pa.ArrowInvalid:
            raise self._refuse(node, "the pattern of LIKE is too long") from None
        return pattern

    # -- comparisons --------------------------------------------------------------------------------------------------

    def _compare(self, name: str, left: Operand, right: Operand, node: Node) -> Condition:
        for side in (left, right):
            if isinstance(side, Column):
                self._finder.require_comparable(side, node.position)
        if name == "<=>":
            return self._equal_or_null(left, right, node)
        if _is_null_literal(left) or _is_null_literal(right):
            return Constant(None)
        if isinstance(left, Literal) and isinstance(right, Column):
            left, right, name = right, left, FLIPPED.get(name, name)
        order, is_turned = ORDERS[name]
        ordered = self._ordered(order, left, right, node)
        return Not(ordered) if is_turned else ordered

    def _equal_or_null(self, left: Operand, right: Operand, node: Node) -> Condition:
        if _is_null_literal(left):
            return self._is_null(right)
        if _is_null_literal(right):
            return self._is_null(left)
        equal = Truth(self._compare("=", left, right, node), True)
        if isinstance(left, Literal) or isinstance(right, Literal):
            return equal
        return Or((equal, And((self._is_null(left), self._is_null(right)))))

    def _ordered(self, order: Order, left: Operand, right: Operand, node: Node) -> Condition:
        if _is_boolean(left) or _is_boolean(right):
            sides = [
                self._as_condition(self._boolean(side), node, "TRUE or FALSE is expected") for side in (left, right)
            ]
            return CompareConditions(sides[0], order, sides[1])
        if isinstance(left, Column) and isinstance(right, Literal):
            return Compare(left, order, self._limit(left, right))
        if isinstance(left, Column) and isinstance(right, Column):
            if _group(left.kind) != _group(right.kind):
                reason = f"{left.name} is of type {left.type_name} and {right.name} of type {right.type_name}"
                raise self._refuse(node, f"{reason}: they cannot be compared")
            return CompareColumns(left, order, right)
        assert isinstance(left, Literal)
        assert isinstance(right, Literal)
        return Constant(self._fold(order, left, right, node))

    def _limit(self, column: Column, literal: Literal) -> Any:  # Any: see `limits.Limit`
        try:
            return limit_of(column, literal)
        except NoValueError as fault:
            about = "" if isinstance(fault, NoColumnValueError) else f"{column.name} is of type {column.type_name}: "
            reason = f"{about}{fault}"
            raise refuse_value(self._text, literal.node.position, reason) from None

    def _boolean(self, side: Operand) -> Operand:
        """Return a text next to a boolean as a boolean."""
        if not isinstance(side, Literal) or side.kind is not Kind.TEXT:
            return side
        try:
            return from_text(side.value, "boolean", side.node)
        except NoValueError as fault:
            raise refuse_value(self._text, side.node.position, str(fault)) from None

    def _fold(self, order: Order, left: Literal, right: Literal, node: Node) -> bool:
        if _group(left.kind) != _group(right.kind):
            raise self._refuse(node, f"{left.shown} cannot be compared with {right.shown}")
        one, other = _sortable(left), _sortable(right)
        match order:
            case Order.LESS:
                return bool(one < other)
            case Order.LESS_EQUAL:
                return bool(one <= other)
        return bool(one == other)

    def _refuse(self, node: Node, reason: str) -> UsageError:
        return refuse(self._text, node.position, reason)


def _is_null_literal(side: Operand) -> bool:
    return isinstance(side, Literal) and side.is_null


def _is_boolean(side: Operand) -> bool:
    return side.kind is Kind.BOOLEAN if isinstance(side, Column | Literal) else True


def _group(kind: Kind) -> object:
    """Kinds of one group can be compared with each other."""
    return NUMBERS if kind in NUMBERS else TIMES if kind in TIMES else kind


def _sortable(literal: Literal) -> Any:  # Any: something to compare
    value = literal.value
    if literal.kind is Kind.TEXT:
        return value.encode()
    if literal.kind is Kind.DATE:
        return value * MICROSECONDS_A_DAY
    return (value != value, value if value == value else 0) if literal.kind is Kind.DECIMAL else value  # noqa: PLR0124


def _impossible(node: Node) -> str:
    """Return what a predicate does not support, in words."""
    match node.form, node.name:
        case Form.CALL, name:
            return f"functions are not supported, such as {name}(…)"
        case Form.CAST, name:
            return f"only literals can be cast, but this casts something else to {name}"
        case Form.OTHER, "case":
            return "CASE is not supported"
        case Form.OTHER, "item":
            return "elements of arrays and maps are not supported"
        case Form.OTHER, "field":
            return f"write a field as its path, as in column.{node.word}"
        case Form.VALUE, "row":
            return "rows in brackets are not supported"
        case Form.VALUE, "interval":
            return "intervals are not supported"
        case Form.VALUE, name if name in ("-", "+") and len(node.parts) == 1:
            return f"arithmetic is not supported, and {name} is before something that is not a number"
        case Form.VALUE, name if len(node.parts) == 2:
            return f"arithmetic is not supported, such as {name}"
    return f"{node.name or 'this'} is not supported"


PartitionColumns = list[tuple[str, StructField]]
"""Columns with their physical names."""


def parse_on_partitions(config: TableConfiguration, where: str) -> tuple[Predicate, PartitionColumns]:
    """Return a condition and the partition columns it uses. Raises UsageError (`usage.where`) for other ones."""
    predicate = parse_predicate(where, config.schema or StructType(()))
    columns = {column.name: (name, column) for name, column in config.partition_columns.items() if column}
    others = [".".join(path) for path in predicate.columns if path[0] not in columns]
    if others:
        facts = {"partition columns": ", ".join(columns) or "none: the table is not partitioned"}
        for _, column in list(columns.values())[:1]:
            facts["example"] = f"{format_sql_name(column.name)} = {_literal(column)}"
        raise UsageError(
            f"the condition uses {others[0]}, which is not a partition column", code="usage.where", facts=facts
        )
    return predicate, [columns[path[0]] for path in predicate.columns]


def _literal(column: StructField) -> str:
    """Return a value of the type of a column, as it is written in a condition."""
    kind = str(getattr(column.data_type, "name", ""))
    examples = {"date": "'2026-01-01'", "boolean": "true", "string": "'Bern'"}
    return examples.get(kind) or ("'2026-01-01 09:00:00'" if kind.startswith("timestamp") else "1")
