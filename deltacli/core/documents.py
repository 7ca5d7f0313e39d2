"""JSON documents of deltacli: their common fields, and how they are encoded."""

from __future__ import annotations

import json
from typing import Any

import orjson

from deltacli.core.typing import Json

SCHEMA_VERSION = 1
"""The version of all documents. Documents only grow, so it has not changed yet."""


def dumps(value: object, *, indent: bool = False) -> bytes:
    """Return JSON in UTF-8.

    The standard library encodes what orjson refuses, such as lone surrogates, NaN and integers of more than 64 bits:
    damaged logs contain all of these, and have to be shown.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    except (TypeError, ValueError):
        separators = None if indent else (",", ":")
        return json.dumps(value, indent=2 if indent else None, separators=separators).encode()


def loads(data: bytes) -> Json:
    """Return the value of a text that `dumps` wrote.

    Raises:
        ValueError: If the text is not JSON.
    """
    try:
        return orjson.loads(data)
    except ValueError:  # what only the standard library wrote, only it can read
        return json.loads(data)


def envelope(kind: str, table: str, *, complete: bool, table_format: str = "delta") -> dict[str, Any]:
    """Return the first fields of every document.

    Args:
        kind: What the document is, such as `history`; the name of its schema in docs/schemas.
        table: The table as the user named it.
        complete: Whether the document has everything that was found. It is False after a limit.
        table_format: `delta` or `paimon`.
    """
    return {
        "kind": kind,
        "schemaVersion": SCHEMA_VERSION,
        "table": table,
        "tableFormat": table_format,
        "complete": complete,
    }
