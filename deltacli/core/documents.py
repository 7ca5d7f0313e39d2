"""Encode and decode the JSON documents of `--json`, and build the fields that all documents have."""

from __future__ import annotations

import json
from typing import Any

import orjson

from deltacli.core.typing import Json

SCHEMA_VERSION = 1
"""The version of all document schemas. New fields do not change it, and fields are never removed."""


def dumps(value: object, *, indent: bool = False) -> bytes:
    """Encode a value as JSON in UTF-8.

    Lone surrogates, NaN and integers of more than 64 bits are encoded by the `json` module, because orjson refuses
    them. They occur in damaged logs, and deltacli has to show these, too.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    except (TypeError, ValueError):
        separators = None if indent else (",", ":")
        return json.dumps(value, indent=2 if indent else None, separators=separators).encode()


def loads(data: bytes) -> Json:
    """Decode JSON that `dumps` has encoded.

    Raises:
        ValueError: If the data is not JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:
        # orjson also refuses to decode the values that `dumps` leaves to the `json` module.
        return json.loads(data)


def envelope(kind: str, table: str, *, complete: bool, table_format: str = "delta") -> dict[str, Any]:
    """Return the first fields of a document, which are the same in all documents.

    Args:
        kind: The kind of the document, such as `history`. `docs/schemas` has a schema of that name.
        table: The table as the user named it.
        complete: False if a limit, such as `--limit`, has cut the document off.
        table_format: `delta` or `paimon`.
    """
    return {
        "kind": kind,
        "schemaVersion": SCHEMA_VERSION,
        "table": table,
        "tableFormat": table_format,
        "complete": complete,
    }
