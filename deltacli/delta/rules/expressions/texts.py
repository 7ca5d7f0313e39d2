"""Rules about SQL that tables keep: constraints, invariants, generated columns, defaults.

Spec: CHECK Constraints; Column Invariants; Generated Columns; Default Columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.delta.protocol.features import GENERATED_COLUMNS
from deltacli.delta.rules.framework.base import Area, Finding, Severity
from deltacli.delta.rules.framework.views import MetadataView, TableConfigurationView
from deltacli.delta.rules.schema.schema_walk import fresh
from deltacli.delta.schema.type_changes import NamedField, named_fields
from deltacli.delta.schema.types import DataType, PrimitiveType, StructType
from deltacli.delta.sql.nodes import Expression, Form, Node
from deltacli.delta.sql.parser import parse_expression
from deltacli.delta.sql.stored import (
    CONSTRAINT_PREFIX,
    DEFAULT_KEY,
    GENERATION_KEY,
    INVARIANT_KEY,
    invariant_sql,
    json_object,
)

AREA = Area("expressions")

CONSTRAINT_BAD_SQL = AREA.error(
    "constraint.bad-sql",
    "A CHECK constraint is not SQL, names a missing column, or is not a condition.",
    spec="CHECK Constraints",
    broken="every write to the table fails",
    repair="drop the constraint, then add it again: ALTER TABLE … DROP CONSTRAINT …",
    example='"delta.constraints.positive":"id >"',
)
INVARIANT_BAD_JSON = AREA.error(
    "invariant.bad-json",
    "An invariant of a column is not the JSON that holds an SQL condition.",
    spec="Column Invariants",
    broken="writers cannot check it: some fail, some ignore it",
    repair='commit a metaData whose delta.invariants is {"expression":{"expression":"…"}}',
    example='"delta.invariants":"{\\"expression\\":\\"id > 0\\"}"',
)
GENERATED_BAD_SQL = AREA.error(
    "generated.bad-sql",
    "The expression of a generated column is not SQL, names a missing column, or is not repeatable.",
    spec="Generated Columns",
    broken="writes to the table fail, or rows that were right are refused",
    repair="commit a metaData with a right expression, or without delta.generationExpression",
    example='"delta.generationExpression":"CAST(gone AS DATE)"',
)
DEFAULT_BAD_SQL = AREA.warning(
    "default.bad-sql",
    "The default of a column is not SQL, or refers to a column; that of a variant is not null.",
    spec="Default Columns",
    broken="inserts that leave the column out fail",
    repair="set the default again: ALTER TABLE … ALTER COLUMN … SET DEFAULT …",
    example='"CURRENT_DEFAULT":"unknown" where \'unknown\' was meant',
)

_RANDOM = frozenset({"rand", "random", "randn", "randstr", "uuid", "uniform", "shuffle", "monotonically_increasing_id"})
_RANDOM |= {"spark_partition_id", "input_file_name"}
_OF_THE_MOMENT = frozenset({"now", "current_timestamp", "current_date", "curdate", "current_time", "localtimestamp"})
_OF_THE_MOMENT |= {"current_user", "session_user", "user", "getdate"}


class _Fault(NamedTuple):
    """Why an expression cannot work."""

    reason: str
    severity: Severity | None = None


@AREA.check(MetadataView, CONSTRAINT_BAD_SQL, INVARIANT_BAD_JSON, DEFAULT_BAD_SQL)
def expressions_of_a_table(view: MetadataView) -> Iterator[Finding]:
    """Every expression, from the metadata on that brought what is wrong with it."""
    yield from fresh(view, "expressions", _findings(view))


def _findings(view: MetadataView) -> Iterator[Finding]:
    schema = view.config.schema
    if schema is None:
        return
    yield from _constraint_findings(view, schema)
    text = view.config.metadata.schema_string if view.config.metadata else None
    if not text or not any(key in text for key in (INVARIANT_KEY, DEFAULT_KEY)):
        return
    for named in named_fields(schema):
        if named.field.metadata:
            yield from _invariant_findings(view, schema, named)
            yield from _default_findings(view, named)


@AREA.check(TableConfigurationView, GENERATED_BAD_SQL)
def generated_columns(view: TableConfigurationView) -> Iterator[Finding]:
    """Every generation expression in force, from where it began."""
    yield from fresh(view, "expressions.generated", _all_generated_findings(view))


def _all_generated_findings(view: TableConfigurationView) -> Iterator[Finding]:
    schema, metadata = view.config.schema, view.config.metadata
    text = metadata.schema_string if metadata else None
    if schema is None or not text or GENERATION_KEY not in text or view.config.is_inert(GENERATED_COLUMNS):
        return
    for named in named_fields(schema):
        yield from _generated_findings(view, schema, named)


# -- the four kinds --------------------------------------------------------------------------------------------------


def _constraint_findings(view: MetadataView, schema: StructType) -> Iterator[Finding]:
    for key, text in view.config.properties.items():
        if key.lower().startswith(CONSTRAINT_PREFIX):
            fault = _condition_fault(schema, text)
            if fault is not None:
                message = f"the CHECK constraint {key[len(CONSTRAINT_PREFIX) :]} cannot be checked: {fault.reason}"
                yield CONSTRAINT_BAD_SQL.at(view.place._replace(key=key), message, seen=text)


def _invariant_findings(view: MetadataView, schema: StructType, named: NamedField) -> Iterator[Finding]:
    value = named.field.metadata.get(INVARIANT_KEY)
    if value is None:
        return
    place = view.place._replace(key=named.path)
    expected = '{"expression":{"expression":"…"}}'
    text = invariant_sql(value)
    if text is None:
        # The old drafts have the bare condition here.
        bare = isinstance(value, str) and json_object(value) is False and _condition_fault(schema, value) is None
        message = f"the invariant of {named.path} is a bare condition; writers look for it within JSON"
        if not bare:
            message = f"the invariant of {named.path} is not the JSON that holds a condition"
        severity = Severity.WARNING if bare else None
        yield INVARIANT_BAD_JSON.at(place, message, seen=value, expected=expected, severity=severity)
        return
    fault = _condition_fault(schema, text)
    if fault is not None:
        message = f"the invariant of {named.path} cannot be checked: {fault.reason}"
        yield INVARIANT_BAD_JSON.at(place, message, seen=text)


def _generated_findings(view: TableConfigurationView, schema: StructType, named: NamedField) -> Iterator[Finding]:
    text = named.field.metadata.get(GENERATION_KEY)
    if text is None:
        return
    if isinstance(text, str):
        expression = parse_expression(text)
        fault = _expression_fault(schema, expression) or _stability_fault(schema, expression)
    else:
        fault = _Fault("it is not text")
    if fault is not None:
        message = f"the generated column {named.path} cannot be computed again: {fault.reason}"
        place = view.place._replace(key=named.path)
        yield GENERATED_BAD_SQL.at(place, message, seen=text, severity=fault.severity)


def _default_findings(view: MetadataView, named: NamedField) -> Iterator[Finding]:
    text = named.field.metadata.get(DEFAULT_KEY)
    if text is None:
        return
    fault = _default_fault(text, named.field.data_type)
    if fault is not None:
        message = f"the default of {named.path} cannot be used: {fault.reason}"
        place = view.place._replace(key=named.path)
        yield DEFAULT_BAD_SQL.at(place, message, seen=text, severity=fault.severity)


def _default_fault(text: object, data_type: DataType) -> _Fault | None:
    if not isinstance(text, str):
        return _Fault("it is not text")
    expression = parse_expression(text)
    if expression.fault is not None:
        return _Fault(expression.fault)
    if expression.root is None:
        return None
    if data_type == PrimitiveType("variant") and not _is_null(expression.root):
        return _Fault("a variant has no default but null", Severity.ERROR)
    columns = [path for path in expression.columns if path[0].lower() != "default"]
    if columns:
        return _Fault(f"it refers to a column, {'.'.join(columns[0])}; text is in quotes")
    return None


def _is_null(node: Node) -> bool:
    return node.form is Form.NULL or (node.form is Form.CAST and _is_null(node.parts[0]))


# -- what an expression may be ---------------------------------------------------------------------------------------


def _condition_fault(schema: StructType, text: str) -> _Fault | None:
    """Why a text is not a condition over the table; None where it is one, or may be."""
    expression = parse_expression(text)
    fault = _expression_fault(schema, expression)
    if fault is None and expression.root is not None and _is_no_condition(schema, expression.root):
        return _Fault("it is a value, not a condition")
    return fault


def _expression_fault(schema: StructType, expression: Expression) -> _Fault | None:
    if expression.fault is not None:
        return _Fault(expression.fault)
    for path in expression.columns:
        unknown = unknown_column(schema, path)
        if unknown is not None:
            return _Fault(f"there is no column {unknown}")
    return None


def _stability_fault(schema: StructType, expression: Expression) -> _Fault | None:
    """Why an expression has another value each time. Engines take the time of day for stable, within one query."""
    names = {column.name.lower() for column in schema.fields}
    for name in expression.functions:
        if name in _RANDOM:
            return _Fault(f"{name} has another result for each row")
    for node in expression.nodes():
        is_column = bool(node.path) and node.name in names  # a column may be called `user`
        if node.form is Form.CALL and node.name in _OF_THE_MOMENT and not is_column:
            return _Fault(f"{node.name} has another result in each query", Severity.WARNING)
    return None


def unknown_column(schema: StructType, path: tuple[str, ...]) -> str | None:
    """The path where no column can be meant by it. A first name may be that of the table; what is in arrays, maps and
    variants is not looked at.
    """
    data_type: DataType = schema
    for position, name in enumerate(path):
        if not isinstance(data_type, StructType):
            return None
        field = next((field for field in data_type.fields if field.name.lower() == name.lower()), None)
        if field is None:
            is_qualified = position == 0 and any(unknown_column(schema, path[n:]) is None for n in range(1, len(path)))
            return None if is_qualified else ".".join(path)
        data_type = field.data_type
    return None


def column_type(schema: StructType, path: tuple[str, ...]) -> DataType | None:
    """The type of a column, None where the path leads to none or into a part of an array, map or variant."""
    data_type: DataType = schema
    for name in path:
        if not isinstance(data_type, StructType):
            return None
        field = next((field for field in data_type.fields if field.name.lower() == name.lower()), None)
        if field is None:
            return None
        data_type = field.data_type
    return data_type


def _is_no_condition(schema: StructType, node: Node) -> bool:
    """True if the result is surely something else than true, false or null."""
    match node.form:
        case Form.NUMBER | Form.TEXT | Form.VALUE:
            return True
        case Form.COLUMN:
            data_type = column_type(schema, node.path)
            return data_type is not None and data_type not in (PrimitiveType("boolean"), PrimitiveType("void"))
        case Form.CAST:
            return node.name not in ("boolean", "bool")
    return False
