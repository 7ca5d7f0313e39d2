"""JSON documents: their common fields, and how their values are encoded."""

from __future__ import annotations

import json
from typing import Any

import orjson

from deltacli.core.typing import Json

# -- the common fields of every JSON document of deltacli --------------------------------------------------------------

SCHEMA_VERSION = 1


def dumps(value: object, *, indent: bool = False) -> bytes:
    """Return JSON in UTF-8. The standard library writes what orjson refuses: lone surrogates, NaN, large integers."""
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    except (TypeError, ValueError):
        return json.dumps(value, indent=2 if indent else None, separators=None if indent else (",", ":")).encode()


def loads(data: bytes) -> Json:
    """Return what `dumps` wrote, names that are not UTF-8 included. Raises ValueError."""
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)


def envelope(kind: str, table: str, *, complete: bool, table_format: str = "delta") -> dict[str, Any]:
    """Return the first fields of every document."""
    return {
        "kind": kind,
        "schemaVersion": SCHEMA_VERSION,
        "table": table,
        "tableFormat": table_format,
        "complete": complete,
    }
