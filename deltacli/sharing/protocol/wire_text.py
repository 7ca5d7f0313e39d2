"""JSON in ASCII, because some clients split answers at every character that Unicode counts as the end of a line."""

from __future__ import annotations

import codecs
import json

from deltacli.typing import Json

_HANDLER = "deltacli-json"


def _escape(fault: UnicodeError) -> tuple[str, int]:
    """Return the JSON escapes of the characters that ASCII lacks."""
    assert isinstance(fault, UnicodeEncodeError)
    pairs = fault.object[fault.start : fault.end].encode("utf-16-be", "surrogatepass")
    units = (pairs[place : place + 2].hex() for place in range(0, len(pairs), 2))
    return "".join(f"\\u{unit}" for unit in units), fault.end


codecs.register_error(_HANDLER, _escape)


def ascii_json(text: str) -> bytes:
    """Return JSON text in ASCII. Other characters occur in its strings only, where an escape means the same."""
    return text.encode("ascii", _HANDLER)


def json_line(value: Json) -> bytes:
    """Return a value as one line."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
