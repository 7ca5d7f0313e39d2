"""Small tables whose columns get wider types: a regime, its metadata, and a plan of changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deltacli.delta.log.state import TableConfiguration, read_metadata, read_protocol
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.schema.widening import PartitionValues, WideningPlan, plan_widening

WIDENING = ("typeWidening", "timestampNtz")
ENABLED = {"delta.enableTypeWidening": "true"}
Json = Any  # Any: JSON values


def field(name: str, data_type: Json, **metadata: Json) -> dict[str, Json]:
    """A field of a schema; `metadata` as keywords."""
    return {"name": name, "type": data_type, "nullable": True, "metadata": metadata}


def struct(*fields: Json) -> dict[str, Json]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Json) -> dict[str, Json]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: Json, value: Json) -> dict[str, Json]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def protocol(*features: str) -> dict[str, Json]:
    """A protocol of features, each for readers and writers."""
    names = list(features)
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}


def metadata(schema: Json, configuration: Mapping[str, str], partition_columns: Sequence[str] = ()) -> dict[str, Json]:
    """A metaData action; `schema` is JSON or the text of it."""
    return {
        "id": "one",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema if isinstance(schema, str) else compact(schema),
        "partitionColumns": list(partition_columns),
        "configuration": dict(configuration),
        "createdTime": 1,
    }


def config_of(raw_protocol: Json, raw_metadata: Json) -> TableConfiguration:
    """What is in force with these actions."""
    found = read_metadata(raw_metadata, "test")
    return TableConfiguration(
        protocol=read_protocol(raw_protocol, "test"),
        metadata=found,
        schema=parse_schema(found.schema_string or ""),
        raw_protocol=raw_protocol,
        raw_metadata=raw_metadata,
    )


def planned(
    fields: Sequence[Json],
    *changes: tuple[str, str],
    protocol_action: Json = None,
    configuration: Mapping[str, str] = ENABLED,
    partition_columns: Sequence[str] = (),
    partition_values: PartitionValues | None = None,
    enable: bool = False,
    upgrade_protocol: bool = False,
    commit_version: int = 5,
) -> WideningPlan:
    """Plan changes of a table that supports type widening, unless its protocol says something else."""
    raw_metadata = metadata(struct(*fields), configuration, partition_columns)
    config = config_of(protocol_action or protocol(*WIDENING), raw_metadata)
    return plan_widening(
        config,
        raw_metadata,
        changes,
        commit_version=commit_version,
        enable=enable,
        upgrade_protocol=upgrade_protocol,
        partition_values=partition_values,
    )


def codes(plan: WideningPlan) -> list[str]:
    """The codes of all refusals."""
    return [refusal.code for refusal in plan.all_refusals]
