"""`schema convert`: a schema in the form of another format, and what is lost by that."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace

from deltacli.core.errors import Unreadable
from deltacli.core.hints import in_backticks
from deltacli.core.typing import Json
from deltacli.delta.schema import types as delta
from deltacli.delta.schema.widening_guards import CHAR_VARCHAR_KEY
from deltacli.delta.sql.stored import DEFAULT_KEY, GENERATION_KEY
from deltacli.operations.schemas.delta_types import fields_of_paimon
from deltacli.operations.schemas.described import DescribedSchema, with_ids
from deltacli.operations.schemas.spark_sql import spark_sql, sql_literal
from deltacli.paimon.arrow_types import arrow_schema
from deltacli.paimon.ddl import create_table, left_out
from deltacli.paimon.losses import ConversionLoss
from deltacli.paimon.schema import CURRENT_VERSION

_NULLABLE = "elements and values in Spark SQL are nullable"


def _create_delta_table(source: DescribedSchema) -> str:
    """Return the statement, without properties of the table."""
    columns = [] if source.delta is None else [f"  {_column(field)}" for field in source.delta.fields]
    ending = ") USING DELTA"
    if source.schema.comment:
        ending += f" COMMENT {sql_literal(source.schema.comment)}"
    if source.schema.partition_keys:
        ending += f" PARTITIONED BY ({', '.join(map(in_backticks, source.schema.partition_keys))})"
    return "\n".join([f"CREATE TABLE {in_backticks(source.name)} (", ",\n".join(columns), f"{ending};"])


def _not_in_spark(source: DescribedSchema) -> Iterator[ConversionLoss]:
    """Yield what the statement cannot state."""
    for column in () if source.delta is None else source.delta.fields:
        yield from _not_in_type(column.data_type, column.name)
        for key in column.metadata:
            if key.startswith("delta.identity.") or key == "delta.invariants":
                yield ConversionLoss(column.name, key, str(column.metadata[key]), "", "the statement leaves it out")


def _not_in_type(data_type: delta.DataType, path: str) -> Iterator[ConversionLoss]:
    match data_type:
        case delta.ArrayType(element, contains_null):
            if not contains_null:
                yield ConversionLoss(f"{path}.element", "nullability", "NOT NULL", "NULL", _NULLABLE)
            yield from _not_in_type(element, f"{path}.element")
        case delta.MapType(key, value, value_contains_null):
            if not value_contains_null:
                yield ConversionLoss(f"{path}.value", "nullability", "NOT NULL", "NULL", _NULLABLE)
            yield from _not_in_type(key, f"{path}.key")
            yield from _not_in_type(value, f"{path}.value")
        case delta.StructType(fields):
            for field in fields:
                yield from _not_in_type(field.data_type, f"{path}.{field.name}")
        case delta.PrimitiveType():
            return


def _column(field: delta.StructField) -> str:
    metadata = field.metadata
    fixed = metadata.get(CHAR_VARCHAR_KEY)
    text = f"{in_backticks(field.name)} {str(fixed).upper() if isinstance(fixed, str) else spark_sql(field.data_type)}"
    text += "" if field.nullable else " NOT NULL"
    if (expression := metadata.get(GENERATION_KEY)) is not None:
        text += f" GENERATED ALWAYS AS ({expression})"
    if (default := metadata.get(DEFAULT_KEY)) is not None:
        text += f" DEFAULT {default}"
    comment = metadata.get("comment")
    return text + (f" COMMENT {sql_literal(comment)}" if isinstance(comment, str) else "")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A converted schema: as text, as a JSON value, and what its format cannot state."""

    source: DescribedSchema
    target: str
    text: str
    value: Json
    losses: tuple[ConversionLoss, ...]

    @property
    def lost(self) -> list[ConversionLoss]:
        """The losses that need consent; others only make a type wider."""
        return [loss for loss in self.losses if loss.is_lost]

    def as_json(self, *, with_result: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.schema-convert`."""
        losses = [loss.as_json() for loss in self.losses]
        found = {"from": self.source.as_json(), "to": self.target, "losses": losses}
        return found | ({"result": self.value, "text": self.text} if with_result else {})


def convert_schema(source: DescribedSchema, target: str, *, now_ms: int) -> Conversion:
    """Return a schema as delta, paimon, arrow or ddl. Raises Unreadable for a name that is not valid Unicode."""
    try:
        return _converted(source, target, now_ms)
    except UnicodeEncodeError as fault:
        raise Unreadable(
            f"a name or comment is not valid Unicode: {fault.object[:80]!r}", code="paimon.bad-value"
        ) from fault


def _converted(source: DescribedSchema, target: str, now_ms: int) -> Conversion:
    losses: list[ConversionLoss] = []
    is_delta = source.table_format == "delta"
    match target:
        case "delta":
            text, value = _delta(source, losses)
        case "paimon":
            losses += source.losses
            text, value = _paimon(source, now_ms)
        case "arrow":
            losses += source.losses
            text, value = _arrow(source, losses)
        case _:
            text = _create_delta_table(source) if is_delta else create_table(source.schema, source.name)
            losses += _not_in_spark(source) if is_delta else left_out(source.schema)
            value = text
    return Conversion(source, target, text, value, tuple(losses))


def _delta(source: DescribedSchema, losses: list[ConversionLoss]) -> tuple[str, Json]:
    """Return the schemaString of a Delta table. One of a Delta table is returned as it is."""
    if source.delta is not None:
        schema = source.delta
    else:
        schema = delta.StructType(fields_of_paimon(source.schema.fields, losses.append))
        if source.schema.primary_keys:
            keys = ", ".join(source.schema.primary_keys)
            losses.append(ConversionLoss("", "primaryKeys", keys, "", "a Delta table has no primary key"))
    content = {"schema": delta.type_json(schema), "partitionColumns": list(source.schema.partition_keys)}
    return json.dumps(delta.type_json(schema), ensure_ascii=False, separators=(",", ":")), content


def _paimon(source: DescribedSchema, now_ms: int) -> tuple[str, Json]:
    """Return the schema file of a new table, as Java writes it."""
    schema = with_ids(source.schema)
    fresh = replace(schema, version=CURRENT_VERSION, id=0, time_ms=now_ms)
    return fresh.encode().decode("utf-8"), fresh.as_json()


def _arrow(source: DescribedSchema, losses: list[ConversionLoss]) -> tuple[str, Json]:
    """Return an Arrow schema in words, and as fields with the bytes of its IPC message."""
    schema = arrow_schema(with_ids(source.schema).fields, losses.append)
    fields = [{"name": field.name, "type": str(field.type), "nullable": field.nullable} for field in schema]
    message = b64encode(schema.serialize().to_pybytes()).decode("ascii")
    text = schema.to_string(show_field_metadata=False, show_schema_metadata=False, truncate_metadata=False)
    return text, {"fields": fields, "ipcBase64": message}
