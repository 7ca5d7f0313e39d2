"""Actions as they stand in a commit: short functions for the long JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Action = dict[str, Any]  # Any: JSON values
Line = dict[str, Any]  # Any: a kind and its action, and in some tests things that are neither

SCHEMA_STRING = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def add(
    path: str,
    *,
    size: int = 1,
    records: int | None = None,
    stats: str | None = None,
    vector: Action | None = None,
    partition_values: Mapping[str, str | None] | None = None,
    modified_ms: int = 0,
    **others: object,
) -> Line:
    """An add; `records` writes statistics that hold nothing else, `stats` writes the text as given."""
    if records is not None:
        stats = json.dumps({"numRecords": records}, separators=(",", ":"))
    action: Action = {
        "path": path,
        "partitionValues": dict(partition_values or {}),
        "size": size,
        "modificationTime": modified_ms,
        "dataChange": True,
    }
    return {"add": action | _present(stats=stats, deletionVector=vector) | others}


def remove(path: str, *, vector: Action | None = None, deleted_ms: int | None = 0, **others: object) -> Line:
    """A remove; `deleted_ms=None` leaves the deletion timestamp out."""
    return {
        "remove": {"path": path, "dataChange": True}
        | _present(deletionTimestamp=deleted_ms, deletionVector=vector)
        | others
    }


def deletion_vector(
    name: str = "ab^-aqEH.-t@S}K{vb[*k^", *, storage: str = "u", offset: int | None = 1, rows: int = 2
) -> Action:
    """A descriptor; `offset=None` leaves the offset out, which is another id than 0."""
    found: Action = {"storageType": storage, "pathOrInlineDv": name, "sizeInBytes": 34, "cardinality": rows}
    return found | _present(offset=offset)


def txn(app_id: str, version: int, *, last_updated: int | None = None) -> Line:
    """A transaction of an application."""
    return {"txn": {"appId": app_id, "version": version} | _present(lastUpdated=last_updated)}


def domain(name: str, configuration: str = "{}", *, removed: bool = False) -> Line:
    """A domain's configuration, or its removal."""
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def protocol(
    reader: int = 1,
    writer: int = 2,
    *,
    reader_features: Sequence[str] | None = None,
    writer_features: Sequence[str] | None = None,
) -> Line:
    """A protocol; the lists are left out where they are None."""
    lists = _present(
        readerFeatures=None if reader_features is None else list(reader_features),
        writerFeatures=None if writer_features is None else list(writer_features),
    )
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer} | lists}


def metadata(
    table_id: str = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    *,
    configuration: Mapping[str, str] | None = None,
    partition_columns: Sequence[str] = (),
    schema_string: str | None = SCHEMA_STRING,
    **others: object,
) -> Line:
    """A metaData; `schema_string=None` leaves the schema out."""
    action: Action = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "partitionColumns": list(partition_columns),
        "configuration": dict(configuration or {}),
    }
    return {"metaData": action | _present(schemaString=schema_string) | others}


def commit_info(operation: str = "WRITE", **fields: object) -> Line:
    """A commitInfo with the fields as given, in their own spelling."""
    return {"commitInfo": {"operation": operation, **fields}}


def birth(**metadata_fields: Any) -> list[Line]:  # Any: handed on to `metadata`
    """The two actions that a first commit needs."""
    return [protocol(), metadata(**metadata_fields)]


def to_bytes(lines: Sequence[Line]) -> bytes:
    """A commit file as the usual writers write it: compact JSON, one action a line, LF at the end of each."""
    return b"".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for line in lines)


def _present(**fields: object) -> Action:
    return {name: value for name, value in fields.items() if value is not None}
