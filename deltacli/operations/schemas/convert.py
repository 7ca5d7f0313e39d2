"""`schema convert`: a schema in the form of another format, and what is lost by that."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, replace

from deltacli.delta.schema import types as delta
from deltacli.errors import Unreadable
from deltacli.operations.schemas.delta_types import fields_of_paimon
from deltacli.operations.schemas.described import DescribedSchema, with_ids
from deltacli.operations.schemas.spark_ddl import create_delta_table, not_in_spark
from deltacli.paimon.arrow_types import arrow_schema
from deltacli.paimon.ddl import create_table, left_out
from deltacli.paimon.losses import ConversionLoss
from deltacli.paimon.schema import CURRENT_VERSION
from deltacli.typing import Json


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
            text = create_delta_table(source) if is_delta else create_table(source.schema, source.name)
            losses += not_in_spark(source) if is_delta else [ConversionLoss(*left) for left in left_out(source.schema)]
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
