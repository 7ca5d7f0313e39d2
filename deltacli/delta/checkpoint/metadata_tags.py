"""The tags of `checkpointMetadata`, which let a reader plan without the footers of the sidecars.

The protocol leaves tags to writers. These names and forms are those of the reference implementation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltacli.delta.checkpoint.last_checkpoint_content import short_schema
from deltacli.delta.schema.to_arrow import table_schema
from deltacli.typing import Json
from deltacli.units import plural

if TYPE_CHECKING:
    import pyarrow

SIDECAR_ACTIONS = "sidecarNumActions"
SIDECAR_BYTES = "sidecarSizeInBytes"
ADDS = "numOfAddFiles"
SIDECAR_SCHEMA = "sidecarFileSchema"


def metadata_tags(actions: Mapping[str, int], size_bytes: int, schema: pyarrow.Schema | None) -> dict[str, str]:
    """Return the tags of a checkpoint whose sidecars have these actions of each kind, total size and schema.

    The schema is left out if there are no sidecars, and if it is too long.
    """
    text = None if schema is None else short_schema(table_schema(schema))
    return {
        SIDECAR_ACTIONS: str(sum(actions.values())),
        SIDECAR_BYTES: str(size_bytes),
        ADDS: str(actions.get("add", 0)),
        **({} if text is None else {SIDECAR_SCHEMA: text}),
    }


def schema_difference(text: str, schema: pyarrow.Schema) -> tuple[str, str] | None:
    """Return how the schema in a tag differs from the one of a sidecar, each in words; None where they are equal.

    Names the first column that differs. The order of columns, whether they may be null, and the kind of timestamp are
    not compared, because a file cannot express all of it; nor are columns of nulls, and what a variant consists of.
    """
    found = dict(_columns(table_schema(schema), ""))
    try:
        recorded = dict(_columns(json.loads(text), ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no schema", plural(len(found), "column")
    variants = tuple(f"{path}." for path, kind in recorded.items() if kind == "variant")
    for path in (*recorded, *found):
        one, other = recorded.get(path), found.get(path)
        if one not in (other, "variant") and other != "null" and not path.startswith(variants):
            return _described(path, one), _described(path, other)
    return None


def _described(path: str, kind: str | None) -> str:
    return f"no {path}" if kind is None else f"{path}: {kind}"


def _columns(kind: Json, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the type of every column, and of the elements of maps and arrays."""
    if isinstance(kind, str):
        yield path, "timestamp" if kind == "timestamp_ntz" else kind
        return
    match kind["type"]:
        case "struct":
            for field in kind["fields"]:
                yield from _columns(field["type"], f"{path}.{field['name']}" if path else str(field["name"]))
        case "map":
            yield from _columns(kind["keyType"], f"{path}.key")
            yield from _columns(kind["valueType"], f"{path}.value")
        case "array":
            yield from _columns(kind["elementType"], f"{path}.element")
        case other:
            raise ValueError(other)
