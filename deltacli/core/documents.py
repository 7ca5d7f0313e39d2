"""JSON documents: their common fields, how their values are encoded; and the `repr` of results, one short line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sized
from datetime import datetime
from typing import Any, TypeVar

import orjson

from deltacli.core.typing import Json

# -- the common fields of every JSON document of deltacli --------------------------------------------------------------

SCHEMA_VERSION = 1


def dumps(value: object, *, indent: bool = False) -> bytes:
    """Return JSON in UTF-8. Values that orjson refuses (lone surrogates, NaN, integers beyond 64 bits) are written by
    the standard library.
    """
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


# -- the `repr` of results and plans -----------------------------------------------------------------------------------

Class = TypeVar("Class")
_LONGEST = 60


def short_repr(*shown: str) -> Callable[[type[Class]], type[Class]]:
    """Return a decorator that limits the `repr` of a class to the attributes at the dotted paths `shown`.

    `name=path` shows an attribute by another name. Collections are shown by their number of items; None and False are
    left out.
    """

    def decorate(decorated: type[Class]) -> type[Class]:
        def in_short(self: Class) -> str:
            return f"{decorated.__name__}({', '.join(_shown(self, shown))})"

        decorated.__repr__ = in_short  # type: ignore[assignment]
        return decorated

    return decorate


def _shown(whole: object, paths: tuple[str, ...]) -> Iterator[str]:
    for named in paths:
        name, _, path = named.rpartition("=")
        value: object = whole
        for attribute in path.split("."):
            value = getattr(value, attribute, None)
        if value is not None and value is not False:
            yield f"{name or path.rpartition('.')[2]}={_brief(value)}"


def _brief(value: object) -> str:
    if isinstance(value, str):
        text = repr(str(value))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]}...'"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return str(len(value)) if isinstance(value, Sized) else repr(value)
