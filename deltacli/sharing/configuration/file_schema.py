"""The JSON Schema of `shares.yaml`, for editors. It is made from the declarations of the keys."""

from __future__ import annotations

from typing import assert_never

from deltacli.core.typing import Json
from deltacli.sharing.configuration.keys import TOP_KEYS, Keys, ShareKey
from deltacli.sharing.model import AccessMode
from deltacli.sharing.signing.choose import Proxy

_TEXT = {"type": ["string", "number", "boolean", "null"]}
_FLAG = {"enum": [True, False, "true", "false", "yes", "no", "on", "off", None]}


def make_shares_schema() -> dict[str, Json]:
    """Return the JSON Schema of the content of a configuration, in the draft that editors know."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "shares.yaml, the configuration of a sharing server",
        "$comment": "generated from the keys of the file, do not edit",
        **_mapping(TOP_KEYS),
    }


def _mapping(keys: Keys) -> dict[str, Json]:
    found = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": _describe(key), **_value(key)} for name, key in keys.items()},
    }
    required = [name for name, key in keys.items() if key.is_required]
    return found | {"required": required} if required else found


def _describe(key: ShareKey) -> str:
    """Return the meaning of a key with its default."""
    default = f"{key.default:,}" if type(key.default) is int else key.default_text
    return key.meaning if default is None else f"{key.meaning} Default: {default}."


def _value(key: ShareKey) -> dict[str, Json]:
    match key.kind:
        case "text":
            return _TEXT
        case "flag":
            return _FLAG
        case "number":
            least, most = key.limits
            return {"type": ["integer", "null"], "minimum": least, "maximum": most}
        case "proxy":
            return {"enum": [True, False, *map(str, Proxy), None]}
        case "texts":
            return {"type": ["string", "array", "null"], "items": {"type": "string"}}
        case "modes":
            item = {"enum": [*map(str, AccessMode)]}
            return {"anyOf": [{"enum": [*map(str, AccessMode), None]}, {"type": "array", "items": item}]}
        case "options":
            return {"type": ["object", "null"], "additionalProperties": _TEXT}
        case "mapping":
            return {"anyOf": [{"type": "null"}, _mapping(key.of)]}
        case "list":
            return {"type": ["array", "null"], "items": _mapping(key.of)}
        case other:
            assert_never(other)
