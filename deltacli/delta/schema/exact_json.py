"""JSON that is read and written with every number unchanged: no digit is rounded, and no key dropped or moved."""

from __future__ import annotations

import json
from typing import Any, cast

from deltacli.delta.encoding.value_text import has_bytes
from deltacli.errors import Unreadable
from deltacli.hints import command
from deltacli.typing import Json


class Verbatim(str):
    """The text of a number."""

    __slots__ = ()


def read_exactly(text: str) -> Json:
    """Return the value of a JSON text, numbers as `Verbatim`. Raises Unreadable (`schema.bad-json`)."""
    try:
        return json.loads(text, parse_float=Verbatim, parse_int=Verbatim)
    except (ValueError, RecursionError) as fault:
        raise Unreadable(
            f"the schema cannot be read: {str(fault)[:200]}",
            code="schema.bad-json",
            hint=command("snapshot", json=True),
        ) from None


def write_exactly(value: Json) -> str:
    """Return the JSON text of a value without spaces, with non-ASCII letters unchanged.

    Half a surrogate pair, which UTF-8 cannot encode, makes the text ASCII. Raises Unreadable (`schema.bad-json`).
    """
    try:
        text = _written(value, json.JSONEncoder(ensure_ascii=False).encode)
        return text if has_bytes(text) else _written(value, json.JSONEncoder().encode)
    except RecursionError:
        raise Unreadable("the schema cannot be written: it is nested too deeply", code="schema.bad-json") from None


def _written(value: Any, quote: Any) -> str:  # Any: JSON values, and what writes a text
    if isinstance(value, Verbatim):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{quote(key)}:{_written(item, quote)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_written(item, quote) for item in value]) + "]"
    return cast(str, quote(value))
