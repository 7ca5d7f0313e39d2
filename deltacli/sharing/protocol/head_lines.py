"""The first two lines of an answer: protocol and metadata. They are the same bytes for the same version.

Spec: Metadata; Metadata in Delta Format; Protocol in Delta Format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta.log.state import Metadata
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.sharing.protocol.wire_text import json_line
from deltacli.typing import Json

_CHANGE_DATA = "delta.enableChangeDataFeed"
_KEPT = ("comment",)
_NO_COLUMNS = '{"type":"struct","fields":[]}'
_OF_THE_LOG = ("delta.enableInCommitTimestamps", "delta.inCommitTimestampEnablement", "delta.checkpointPolicy")
"""Beginnings of the names of properties."""


@dataclass(frozen=True, slots=True)
class TableTotals:
    """Number and bytes of the files of a version."""

    files: int
    size_bytes: int


def protocol_line(form: ResponseFormat, protocol: Mapping[str, Any], *, version: int | None = None) -> bytes:
    """Return the line of the protocol. `version` is that of a change in the middle of a range."""
    if form is ResponseFormat.PARQUET:
        return json_line({"protocol": {"minReaderVersion": 1}})
    dated = {} if version is None else {"version": version}
    return json_line({"protocol": {"deltaProtocol": dict(protocol), **dated}})


def metadata_line(
    form: ResponseFormat,
    metadata: Metadata,
    raw: Mapping[str, Any],
    *,
    version: int | None = None,
    totals: TableTotals | None = None,
    shows_change_data: bool = True,
) -> bytes:
    """Return the line of the metadata, in delta format verbatim. `shows_change_data`: the history is shared, so the
    parquet format names the change data feed of the table.
    """
    about: dict[str, Any] = {} if version is None else {"version": version}
    if totals is not None:
        about |= {"size": totals.size_bytes, "numFiles": totals.files}
    if form is ResponseFormat.DELTA:
        return json_line({"metaData": {"deltaMetadata": _in_delta(raw), **about}})
    return json_line({"metaData": _in_parquet(metadata, shows_change_data=shows_change_data) | about})


def _in_delta(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a metadata action without what concerns the log, which clients do not get: they write one of their own,
    without in-commit timestamps and V2 checkpoints. A schema that is missing is empty.
    """
    document = {"schemaString": _NO_COLUMNS, "partitionColumns": [], **raw}
    properties = raw.get("configuration") or {}
    if isinstance(properties, list):  # as pairs, in a checkpoint
        properties = dict(properties)
    kept = {name: value for name, value in properties.items() if not name.startswith(_OF_THE_LOG)}
    return document | {"configuration": kept}


def _in_parquet(metadata: Metadata, *, shows_change_data: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.provider},
        "schemaString": _plain_schema(metadata.schema_string or _NO_COLUMNS),
        "partitionColumns": list(metadata.partition_columns),
    }
    feed = metadata.configuration.get(_CHANGE_DATA, "")
    if shows_change_data and feed.lower() == "true":
        document["configuration"] = {"enableChangeDataFeed": "true"}
    return {name: value for name, value in document.items() if value is not None}


def _plain_schema(text: str) -> str:
    """Return a schema whose fields keep only their comments: everything else concerns engines."""
    return json.dumps(_plain(json.loads(text)), separators=(",", ":"), ensure_ascii=False)


def _plain(value: Json) -> Json:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _plain(item) for name, item in value.items()}
    if isinstance(value.get("metadata"), dict):
        found["metadata"] = {name: item for name, item in value["metadata"].items() if name in _KEPT}
    return found
