"""Where a table keeps SQL, and whether such a text refers to a column.

Spec: CHECK Constraints; Column Invariants; Generated Columns; Default Columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import GENERATED_COLUMNS
from deltacli.delta.schema.column_path import ColumnPlace, PathPart
from deltacli.delta.schema.type_changes import named_fields
from deltacli.delta.schema.types import DataType, PrimitiveType, StructField, StructType
from deltacli.delta.sql.parser import NILADIC, Form, Node, parse_expression

CONSTRAINT_PREFIX = "delta.constraints."
INVARIANT_KEY = "delta.invariants"
GENERATION_KEY = "delta.generationExpression"
DEFAULT_KEY = "CURRENT_DEFAULT"


class StoredKind(StrEnum):
    CONSTRAINT = "CHECK constraint"
    INVARIANT = "invariant"
    GENERATION = "generated column"


class Reference(StrEnum):
    """Whether an expression refers to a column."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


class StoredSql(NamedTuple):
    """An SQL text and its owner: a constraint's name or a column's path. `text` is None if the value is not text."""

    kind: StoredKind
    name: str
    text: str | None

    def verdict(self, reference: Reference) -> str:
        """Return that it refers, or may refer, to a column."""
        shown = "" if self.text is None else f", {' '.join(self.text.split())[:120]}"
        verb = "refers to it" if reference is Reference.YES else "is not understood and may refer to it"
        of = " of" if self.kind is StoredKind.INVARIANT else ""
        return f"the {self.kind}{of} {self.name} {verb}{shown}"


def list_stored_sql(config: TableConfiguration) -> Iterator[StoredSql]:
    """Yield every constraint, invariant and generation expression in effect; none of a table without a schema."""
    if config.schema is None:
        return
    for key, text in config.properties.items():
        if key.lower().startswith(CONSTRAINT_PREFIX):
            yield StoredSql(StoredKind.CONSTRAINT, key[len(CONSTRAINT_PREFIX) :], text)
    is_generated = not config.is_inert(GENERATED_COLUMNS)
    columns = (one for one in config.schema.fields if type(one.data_type) is not PrimitiveType or _keeps_sql(one))
    for named in named_fields(StructType(tuple(columns))):
        metadata = named.field.metadata
        if metadata.get(INVARIANT_KEY) is not None:
            yield StoredSql(StoredKind.INVARIANT, named.path, _condition_of(metadata[INVARIANT_KEY]))
        if is_generated and metadata.get(GENERATION_KEY) is not None:
            text = metadata[GENERATION_KEY]
            yield StoredSql(StoredKind.GENERATION, named.path, text if isinstance(text, str) else None)


def _keeps_sql(column: StructField) -> bool:
    return INVARIANT_KEY in column.metadata or GENERATION_KEY in column.metadata


def invariant_sql(value: object) -> str | None:
    """Return the condition in an invariant, or None if it is not in the right place."""
    decoded = json_object(value) if isinstance(value, str) else None
    outer = decoded.get("expression") if isinstance(decoded, dict) else None
    inner = outer.get("expression") if isinstance(outer, dict) else None
    return inner if isinstance(inner, str) else None


def has_quoted_column(text: str, schema: StructType) -> bool:
    """Return whether an expression has a column in double quotes: a string in Spark, a column in other engines."""
    expression = parse_expression(text) if '"' in text else None
    if expression is None or expression.root is None:
        return False
    names = {field.name.lower() for field in schema.fields}
    return any(
        node.form is Form.TEXT and text[node.position : node.position + 1] == '"' and node.value.lower() in names
        for node in expression.nodes()
    )


def json_object(text: str) -> object:
    """Return the value of a JSON text that is an object, or False if it is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return value if isinstance(value, dict) else False


def _condition_of(value: object) -> str | None:
    """Return the condition of an invariant. The old drafts have it bare."""
    if isinstance(value, str) and json_object(value) is False:
        return value
    return invariant_sql(value)


def refers_to(text: str | None, schema: StructType, place: ColumnPlace) -> Reference:
    """Return whether an expression refers to a place, or to what is around or within it; UNKNOWN if not understood."""
    expression = parse_expression(text) if text is not None else None
    if expression is None or expression.root is None:
        return Reference.UNKNOWN
    answers = {_node_refers(node, schema, place) for node in expression.nodes()}
    return next(answer for answer in (Reference.YES, Reference.UNKNOWN, Reference.NO) if answer in answers)


def _node_refers(node: Node, schema: StructType, place: ColumnPlace) -> Reference:
    if node.form is Form.OTHER and node.name == "*":
        return Reference.YES
    if node.form is Form.TEXT:
        # Engines that quote names with double quotes also use them in constraints.
        names = {step.name.lower() for step in place.steps if step.part is PathPart.FIELD}
        return Reference.YES if node.value.lower() in names else Reference.NO
    if node.form is Form.CALL and node.name in NILADIC and node.path:
        refers = _path_refers(node.path, schema, place)
        return Reference.NO if refers is Reference.UNKNOWN else refers
    return _path_refers(node.path, schema, place) if node.form is Form.COLUMN else Reference.NO


def _path_refers(path: tuple[str, ...], schema: StructType, place: ColumnPlace) -> Reference:
    """A first name that is not a column may be that of the table."""
    for start in range(len(path)):
        known = path[start:]
        if _leads_somewhere(known, schema):
            return Reference.YES if _meets(known, place) else Reference.NO
    return Reference.UNKNOWN


def _leads_somewhere(path: tuple[str, ...], schema: StructType) -> bool:
    types: list[DataType] = [schema]
    for name in path:
        fields = [field for known in types if isinstance(known, StructType) for field in known.fields]
        types = [field.data_type for field in fields if field.name.lower() == name.lower()]
        if not types:
            return False
        if not any(isinstance(known, StructType) for known in types):
            return True
    return True


def _meets(path: tuple[str, ...], place: ColumnPlace) -> bool:
    """Return True unless the paths diverge at the fields of a struct."""
    for name, step in zip(path, place.steps, strict=False):
        if step.part is not PathPart.FIELD:
            return True
        if step.name.lower() != name.lower():
            return False
    return True


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
