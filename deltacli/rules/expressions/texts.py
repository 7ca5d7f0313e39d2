"""Rules about SQL that tables keep, constraints, generated columns, defaults, and about identity columns.

Spec: CHECK Constraints; Column Invariants; Generated Columns; Default Columns; Identity Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import LazyText, command
from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.value_text import MICROSECONDS_A_DAY, parse_date, parse_moment
from deltacli.delta.log.actions import format_json_value
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import GENERATED_COLUMNS, IDENTITY_COLUMNS
from deltacli.delta.schema.type_changes import NamedField, named_fields
from deltacli.delta.schema.types import DataType, PrimitiveType, StructType, simple_name
from deltacli.delta.sql import stored
from deltacli.delta.sql.parser import Expression, Form, Node, parse_expression
from deltacli.delta.stats.columns import StatsBlock
from deltacli.rules.framework.base import Area, Finding, Severity
from deltacli.rules.framework.views import FilesView, MetadataView, TableConfigurationView, rows_where, stats_of
from deltacli.rules.schema.schema import fresh
from deltacli.rules.schema.schema_changes import replaces_all_files

AREA = Area("expressions", spec="Generated Columns")

CONSTRAINT_BAD_SQL = AREA.error(
    "constraint.bad-sql",
    "A CHECK constraint is not SQL, names a missing column, or is not a condition.",
    spec="CHECK Constraints",
    broken="every write to the table fails",
    repair=LazyText(
        "drop the constraint, then add it again: {}", partial(command, "alter", "constraint", "drop", "NAME")
    ),
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
    broken="writes to the table fail, or correct rows are refused",
    repair="commit a metaData with a correct expression, or without delta.generationExpression",
    example='"delta.generationExpression":"CAST(gone AS DATE)"',
)
DEFAULT_BAD_SQL = AREA.warning(
    "default.bad-sql",
    "The default of a column is not SQL, or refers to a column; that of a variant is not null.",
    spec="Default Columns",
    broken="inserts that leave the column out fail",
    repair=LazyText("set the default again: {}", partial(command, "alter", "default", "COLUMN", "VALUE")),
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
    for key, condition in view.config.properties.items():
        if (
            key.lower().startswith(stored.CONSTRAINT_PREFIX)
            and (fault := _condition_fault(schema, condition)) is not None
        ):
            message = f"the CHECK constraint {key[len(stored.CONSTRAINT_PREFIX) :]} cannot be checked: {fault.reason}"
            yield CONSTRAINT_BAD_SQL.at(view.place, message, key=key, seen=condition)
    text = view.config.metadata.schema_string if view.config.metadata else None
    if not text or not any(key in text for key in (stored.INVARIANT_KEY, stored.DEFAULT_KEY)):
        return
    for named in named_fields(schema):
        if named.field.metadata:
            yield from _invariant_findings(view, schema, named)
            default = named.field.metadata.get(stored.DEFAULT_KEY)
            if default is not None and (fault := _default_fault(default, named.field.data_type)) is not None:
                message = f"the default of {named.path} cannot be used: {fault.reason}"
                yield DEFAULT_BAD_SQL.at(view.place, message, key=named.path, seen=default, severity=fault.severity)


@AREA.check(TableConfigurationView, GENERATED_BAD_SQL)
def generated_columns(view: TableConfigurationView) -> Iterator[Finding]:
    """Every generation expression in force, from where it began."""
    yield from fresh(view, "expressions.generated", _all_generated_findings(view))


def _all_generated_findings(view: TableConfigurationView) -> Iterator[Finding]:
    schema, metadata = view.config.schema, view.config.metadata
    text = metadata.schema_string if metadata else None
    if schema is None or not text or stored.GENERATION_KEY not in text or view.config.is_inert(GENERATED_COLUMNS):
        return
    for named in named_fields(schema):
        yield from _generated_findings(view, schema, named)


# -- the kinds -------------------------------------------------------------------------------------------------------


def _invariant_findings(view: MetadataView, schema: StructType, named: NamedField) -> Iterator[Finding]:
    value = named.field.metadata.get(stored.INVARIANT_KEY)
    if value is None:
        return
    place = view.place._replace(key=named.path)
    expected = '{"expression":{"expression":"…"}}'
    text = stored.invariant_sql(value)
    if text is None:
        # The old drafts have the bare condition here.
        bare = isinstance(value, str) and stored.json_object(value) is False and _condition_fault(schema, value) is None
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
    text = named.field.metadata.get(stored.GENERATION_KEY)
    if text is None:
        return
    if isinstance(text, str):
        expression = parse_expression(text)
        fault = _expression_fault(schema, expression) or _stability_fault(schema, expression)
    else:
        fault = _Fault("it is not text")
    if fault is not None:
        message = f"the generated column {named.path} cannot be computed again: {fault.reason}"
        yield GENERATED_BAD_SQL.at(view.place, message, key=named.path, seen=text, severity=fault.severity)


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
        unknown = stored.unknown_column(schema, path)
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


PARTITION = AREA.info(
    "generated.partition",
    "The value of a generated partition column cannot come from the rows of the file.",
    broken="queries that filter by the source column skip the file, and miss its rows",
    repair="rewrite the rows of the file with an engine that computes the column",
    example='"partitionValues":{"day":"2024-01-01"}, and the least value of ts is 2025-03-01T00:00:00.000Z',
)

_WIDEST_ZONE = 18 * 3_600_000_000
"""How far from UTC the writer's zone may have been, in microseconds: it decides the date of a timestamp."""
_TRUNCATED = 999
"""Greatest values are cut to milliseconds: the real one may be that many microseconds higher."""


class _Span(NamedTuple):
    """The times that a partition value stands for, from the first to the last, in microseconds since the epoch."""

    first: int
    last: int


class _Source(NamedTuple):
    """What a partition column is made from. `column` is the physical name of a top-level column."""

    column: str
    span_of: Callable[[str], _Span | None]
    slack: int


@AREA.check(FilesView, PARTITION)
def partition_values_fit_bounds(view: FilesView) -> Iterator[Finding]:
    """For each generated partition column: the values as spans of time, against least and greatest values."""
    if view.config.is_inert(GENERATED_COLUMNS):
        return
    for name, column in view.config.partition_columns.items():
        text = column.metadata.get(stored.GENERATION_KEY) if column is not None else None
        source = _source_of(view.config, text) if isinstance(text, str) else None
        if source is not None:
            for block in stats_of(view).blocks:
                yield from _partition_findings(view, block, name, source)


def _partition_findings(view: FilesView, block: StatsBlock, name: str, source: _Source) -> Iterator[Finding]:
    low, high = (_moments(block, part, source.column) for part in ("minValues", "maxValues"))
    if low is None or high is None:
        return
    values = block.align(pc.map_lookup(view.adds.column("partitionValues"), pa.scalar(name), "first"))
    if values.null_count == len(values):
        return
    spans = {text: source.span_of(text) for text in pc.unique(values).to_pylist() if text}
    known = {text: span for text, span in spans.items() if span is not None}
    place_of = pc.index_in(values, value_set=pa.array(list(known), pa.string()))
    first = pc.take(pa.array([span.first - source.slack - _TRUNCATED for span in known.values()], pa.int64()), place_of)
    last = pc.take(pa.array([span.last + source.slack for span in known.values()], pa.int64()), place_of)
    outside = pc.fill_null(pc.or_(pc.less(high, first), pc.greater(low, last)), pa.scalar(False))
    for row in rows_where(outside):
        value = values[row].as_py()
        place = view.place(block.row(row))
        message = f"{place.key} has the value {value} for {name}, which no value of {source.column} in it gives"
        yield PARTITION.at(place, message, seen=value)


def _moments(block: StatsBlock, part: str, column: str) -> ArrowArray:
    for leaf in block.leaves.get(part, ()):
        if leaf.path == (column,) and pa.types.is_timestamp(leaf.values.type):
            return pc.cast(pc.cast(leaf.values, pa.timestamp("us")), pa.int64())
    return None


# -- expressions that are known --------------------------------------------------------------------------------------


def _source_of(config: TableConfiguration, text: str) -> _Source | None:
    root = parse_expression(text).root
    made = _shape_of(root) if root is not None else None
    if made is None or made[0].form is not Form.COLUMN or len(made[0].path) != 1:
        return None
    for name, column in config.columns.items():
        if column.name.lower() == made[0].path[0].lower() and isinstance(column.data_type, PrimitiveType):
            slack = _SLACK.get(column.data_type.name)
            return None if slack is None else _Source(name, made[1], slack)
    return None


_SLACK: Mapping[str, int] = {"date": 0, "timestamp_ntz": 0, "timestamp": _WIDEST_ZONE}


def _shape_of(node: Node) -> tuple[Node, Callable[[str], _Span | None]] | None:
    """The column under a known expression, and what its values stand for."""
    match node:
        case Node(Form.CAST, "date", _, (inner,)) | Node(Form.CALL, "date" | "to_date", _, (inner,)):
            return inner, _day
        case Node(Form.CALL, "year", _, (inner,)):
            return inner, _year
    return None


def _day(text: str) -> _Span | None:
    moment = parse_moment(text)
    if moment is None:
        return None
    start = moment.microseconds // MICROSECONDS_A_DAY * MICROSECONDS_A_DAY
    return _fitting(start, start + MICROSECONDS_A_DAY - 1)


def _year(text: str) -> _Span | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 4 or int(text) == 0:
        return None
    start, end = parse_date(f"{int(text):04d}-01-01"), parse_date(f"{int(text) + 1:04d}-01-01")
    if start is None or end is None:
        return None
    return _fitting(start * MICROSECONDS_A_DAY, end * MICROSECONDS_A_DAY - 1)


def _fitting(first: int, last: int) -> _Span | None:
    """A span of times that 64 bits hold, with room to spare."""
    return _Span(first, last) if abs(first) < 2**62 and abs(last) < 2**62 else None


# -- rules about identity columns --------------------------------------------------------------------------------------

IDENTITY_AREA = Area("expressions", spec="Identity Columns")

PREFIX = "delta.identity."
START, STEP, EXPLICIT = "delta.identity.start", "delta.identity.step", "delta.identity.allowExplicitInsert"

INCOMPLETE = IDENTITY_AREA.error(
    "identity.incomplete",
    "An identity column lacks its start, its step, or whether values may be inserted.",
    broken="writers cannot determine the next value, and fail",
    repair="commit a metaData with delta.identity.start, step and allowExplicitInsert of the column",
    example='"metadata":{"delta.identity.start":1}',
)
STEP_ZERO = IDENTITY_AREA.error(
    "identity.step-zero",
    "An identity column has the step 0.",
    broken="all rows would have the same value",
    repair="commit a metaData with another delta.identity.step",
    example='"delta.identity.step":0',
)
TYPE = IDENTITY_AREA.error(
    "identity.type",
    "An identity column is not of type long.",
    spec="Delta-Spark: IdentityColumn",
    broken="engines refuse the table, or values do not fit the column",
    repair="commit a metaData without the identity, or rewrite the column as long",
    example='{"name":"id","type":"integer",…,"metadata":{"delta.identity.start":1,…}}',
)
IMMUTABLE_CHANGED = IDENTITY_AREA.error(
    "identity.immutable-changed",
    "The start, the step or the rule for inserts of an identity column was changed after the column was created.",
    broken="new values may equal existing ones",
    repair="commit a metaData with the values that the column was created with",
    example='"delta.identity.step":10 where it was 1',
)


@IDENTITY_AREA.check(TableConfigurationView, INCOMPLETE, STEP_ZERO, TYPE)
def identity_columns(view: TableConfigurationView) -> Iterator[Finding]:
    """Every identity column, from where it began."""
    yield from fresh(view, "identity", _identity_findings(view))


def _identity_findings(view: TableConfigurationView) -> Iterator[Finding]:
    for named in _identities(view.config):
        place = view.place._replace(key=named.path)
        metadata, data_type = named.field.metadata, named.field.data_type
        for key, expected in ((START, "an integer"), (STEP, "an integer"), (EXPLICIT, "true or false")):
            wanted = bool if key == EXPLICIT else int
            value = metadata.get(key)
            if value is None:
                yield INCOMPLETE.at(place, f"the identity column {named.path} has no {key}", expected=expected)
            elif type(value) is not wanted:
                message = f"{key} of the identity column {named.path} is not {expected}"
                yield INCOMPLETE.at(place, message, seen=format_json_value(value)[:120], expected=expected)
        step = metadata.get(STEP)
        if type(step) is int and step == 0:
            yield STEP_ZERO.at(place, f"the identity column {named.path} has the step 0", seen=0)
        if data_type != PrimitiveType("long"):
            name = simple_name(data_type)
            message = f"the identity column {named.path} is of type {name}"
            yield TYPE.at(place, message, seen=name, expected="long")


@IDENTITY_AREA.check(MetadataView, IMMUTABLE_CHANGED)
def identity_columns_stay(view: MetadataView) -> Iterator[Finding]:
    """What an identity column was made with against what it had before; a table that is replaced begins anew."""
    previous = view.previous
    if previous is None or view.commit is None:
        return
    before = {named.identity: named for named in _identities(previous)}
    if not before or replaces_all_files(view.commit):
        return
    for named in _identities(view.config):
        older = before.get(named.identity)
        if older is None:
            continue
        for key in (START, STEP, EXPLICIT):
            was, now = older.field.metadata.get(key), named.field.metadata.get(key)
            if was is not None and now is not None and was != now:
                message = f"{key} of the identity column {named.path} was changed from {was} to {now}"
                yield IMMUTABLE_CHANGED.at(view.place, message, key=named.path, seen=now, expected=was)


def _identities(config: TableConfiguration) -> list[NamedField]:
    """The fields with any property of an identity; none where the protocol does not support such columns."""
    if config.schema is None or config.is_inert(IDENTITY_COLUMNS):
        return []
    return [
        named for named in named_fields(config.schema) if any(key.startswith(PREFIX) for key in named.field.metadata)
    ]
