"""The JSON Schema of `fleet.toml`, for editors and CI; made from the table of keys."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.core.request_fields import Kind
from deltacli.core.typing import Json
from deltacli.core.units import DURATIONS_MS
from deltacli.fleet.policy_file.model import GROUP_KEYS, POLICY_KEYS, SECTION_KEYS, TOP_KEYS, WEBHOOK_KEYS, Key

Schema = dict[str, Json]

_UNITS = ("".join(f"[{letter}{letter.upper()}]" for letter in unit) for unit in DURATIONS_MS)
_DURATION = rf"^\s*[0-9]{{1,15}}\s*({'|'.join(_UNITS)})\s*$"
_SIZE = r"^\s*[0-9]{1,15}(\.[0-9]{1,9})?\s*([KMGTPkmgtp]i?[Bb]?|[KMGTPkmgtp]I[Bb]?|[Bb])?\s*$"
_SHARE = r"^\s*[0-9]+(\.[0-9]+)? ?%\s*$"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"

_KINDS: dict[Kind, Schema] = {
    Kind.TEXT: {"type": "string", "minLength": 1},
    Kind.TEXTS: {"type": "array", "items": {"type": "string", "minLength": 1}},
    Kind.FLAG: {"type": "boolean"},
    Kind.COUNT: {"type": "integer", "minimum": 1},
    Kind.SIZE: {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE}]},
    Kind.DURATION: {"type": "string", "pattern": _DURATION},
    Kind.SHARE: {"type": "string", "pattern": _SHARE},
    Kind.WINDOW: {"type": "string", "pattern": rf"^\s*{_TIME}\s*-\s*{_TIME}\s*$"},
    Kind.LIMIT: {"type": "string", "minLength": 1},
}


def fleet_file_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12) of the content of a policy file."""
    sections = {name: {"anyOf": [{"const": False}, _table(keys)]} for name, keys in SECTION_KEYS.items()}
    policy = _table(POLICY_KEYS)
    policy["properties"] |= sections
    group = _table(GROUP_KEYS) | {
        "required": ["policy"],
        "anyOf": [{"required": [name]} for name in ("globs", "prefixes", "tables", "lists")],
    }
    top = _table(TOP_KEYS)
    top["properties"] |= {
        "webhook": _table(WEBHOOK_KEYS) | {"required": ["url"]},
        "policies": {"type": "object", "additionalProperties": policy},
        "groups": {"type": "object", "minProperties": 1, "additionalProperties": group},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fleet.toml, the policy file of deltacli fleet",
        "$comment": "generated from the keys of the file, do not edit",
        **top,
        "required": ["groups"],
    }


def _table(keys: Iterable[Key]) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: _value(key) for key in keys},
    }


def _value(key: Key) -> Schema:
    schema: Schema = {"enum": list(key.choices)} if key.choices else dict(_KINDS[key.kind])
    default = "" if key.default is None else f" Default: {key.default}."
    return {"description": f"{key.meaning}{default}", **schema}
