"""JSON on executors without orjson: the part of it that tasks use, by the standard library, with the same bytes.

Slower, and only there: `install` does nothing where orjson can be imported.
"""

from __future__ import annotations

import json
import sys
from math import isfinite
from types import ModuleType
from typing import NoReturn

from deltacli.core.typing import Json

_LEAST = -(1 << 63)
_MOST = (1 << 64) - 1


class JSONDecodeError(json.JSONDecodeError):
    """The text is not JSON, or not what orjson accepts."""


class JSONEncodeError(TypeError):
    """The value has no JSON, or not what orjson writes."""


def loads(data: bytes | str) -> Json:
    """Return the value of a JSON text. Raises JSONDecodeError, also for NaN and for half a surrogate pair."""
    try:
        text = data if isinstance(data, str) else bytes(data).decode("utf-8")
        value = json.loads(text, parse_int=_number, parse_float=_finite, parse_constant=_refuse)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as fault:
        raise JSONDecodeError(fault.msg, fault.doc, fault.pos) from fault
    except (ValueError, RecursionError) as fault:
        raise JSONDecodeError(str(fault), "", 0) from fault
    return value


def dumps(value: Json) -> bytes:
    """Return the JSON of a value: compact, UTF-8. Raises JSONEncodeError."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as fault:
        raise JSONEncodeError(str(fault)) from fault


def install() -> None:
    """Make `import orjson` give this module where the package is missing."""
    try:
        import orjson  # noqa: F401
    except ImportError:
        stand_in = ModuleType("orjson")
        for name in ("JSONDecodeError", "JSONEncodeError", "loads", "dumps"):
            setattr(stand_in, name, globals()[name])
        sys.modules["orjson"] = stand_in


def _number(text: str) -> int | float:
    value = int(text)
    return value if _LEAST <= value <= _MOST else float(text)


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")
