"""JSON as Paimon reads and writes it.

Readers ignore what follows the value and let the last of several equal keys win, so both are reported beside the
value. Writers print objects with two blanks per level, arrays in one line, and `"key" : value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import NamedTuple, NoReturn

from deltacli.core.typing import Json

_SPACE = " \t\r\n"
_TOO_LONG = "a number has too many digits"


class BadJson(ValueError):
    """Bytes that are not JSON; the message is the reason."""


class JsonText(NamedTuple):
    """A JSON value, the keys that occur more than once in one object, and the number of characters after the value."""

    value: Json
    duplicate_keys: tuple[str, ...] = ()
    trailing: int = 0


def read_json(data: bytes) -> JsonText:
    """Return the first JSON value. Raises BadJson with the reason."""
    if not data.strip():
        raise BadJson("the file is empty")
    if data.startswith(b"\xef\xbb\xbf"):
        raise BadJson("the file begins with a byte order mark")
    duplicates: list[str] = []

    def collect(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            duplicates.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return found

    try:
        text = data.decode()
        start = len(text) - len(text.lstrip(_SPACE))
        value, end = json.JSONDecoder(object_pairs_hook=collect, parse_constant=_refuse).raw_decode(text, start)
    except UnicodeDecodeError as fault:
        raise BadJson(f"byte {fault.start} is not UTF-8") from None
    except RecursionError:
        raise BadJson("it is nested too deeply") from None
    except BadJson:
        raise
    except ValueError as fault:
        reason = _TOO_LONG if "integer string conversion" in str(fault) else str(fault)[:200]
        raise BadJson(f"it is not JSON: {reason}") from None
    return JsonText(value, tuple(dict.fromkeys(duplicates)), len(text[end:].strip(_SPACE)))


def _refuse(constant: str) -> NoReturn:
    raise BadJson(f"it is not JSON: {constant} is not a number")


def read_object(data: bytes) -> JsonText:
    """Return a JSON object. Raises BadJson, also for another JSON value."""
    found = read_json(data)
    if not isinstance(found.value, dict):
        raise BadJson("it is not a JSON object")
    return found


def java_text(value: object) -> str:
    """Return JSON as Java's Paimon writes it."""
    return _printed(value, "")


def _printed(value: object, indent: str) -> str:
    match value:
        case Mapping():
            return _printed_object(value, indent)
        case str():
            return _quoted(value)
        case Sequence():
            return f"[ {', '.join(_printed(item, indent) for item in value)} ]" if value else "[ ]"
        case _:
            return json.dumps(value)


def _printed_object(value: Mapping[str, object], indent: str) -> str:
    if not value:
        return "{ }"
    inner = f"{indent}  "
    lines = ",\n".join(f"{inner}{_quoted(key)} : {_printed(item, inner)}" for key, item in value.items())
    return f"{{\n{lines}\n{indent}}}"


def _quoted(text: str) -> str:
    """Return a JSON string. Java writes the escapes of control characters with upper-case digits. A lone surrogate has
    no form in UTF-8, so it stays an escape.
    """
    written = str(encode_basestring(text))
    if text.isprintable():
        return written
    return "".join(
        f"\\u{ord(character):04X}" if _needs_digits(character) else _escaped(character) for character in text
    ).join('""')


def _needs_digits(character: str) -> bool:
    is_control = character < " " and character not in "\b\f\n\r\t"
    return is_control or "\ud800" <= character <= "\udfff"


def _escaped(character: str) -> str:
    return str(encode_basestring(character))[1:-1]
