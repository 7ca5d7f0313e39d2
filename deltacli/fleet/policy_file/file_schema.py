"""The JSON Schema of a policy file, for editors. It is made from the keys of the file."""

from __future__ import annotations

from collections.abc import Iterable

from deltacli.core.typing import Json
from deltacli.fleet.policy_file.keys import GROUP_KEYS, POLICY_KEYS, SECTION_KEYS, TOP_KEYS, WEBHOOK_KEYS, Key

Schema = dict[str, Json]


def make_fleet_file_schema() -> Schema:
    """Return the JSON Schema of the content of a policy file, in the draft that editors know."""
    sections = {
        name: {"anyOf": [{"const": False}, _describe_table(step_keys)]} for name, step_keys in SECTION_KEYS.items()
    }
    policy = _describe_table(POLICY_KEYS)
    policy["properties"] |= sections
    group = _describe_table(GROUP_KEYS) | {
        "required": ["policy"],
        "anyOf": [{"required": [name]} for name in ("globs", "prefixes", "tables", "lists")],
    }
    top = _describe_table(TOP_KEYS)
    top["properties"] |= {
        "webhook": _describe_table(WEBHOOK_KEYS) | {"required": ["url"]},
        "policies": {"type": "object", "additionalProperties": policy},
        "groups": {"type": "object", "minProperties": 1, "additionalProperties": group},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "fleet.toml, the policy file of many tables",
        "$comment": "generated from the keys of the file, do not edit",
        **top,
        "required": ["groups"],
    }


def _describe_table(table_keys: Iterable[Key]) -> Schema:
    properties = {key.name: _describe_value(key) for key in table_keys}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _describe_value(key: Key) -> Schema:
    schema: Schema = {"enum": list(key.choices)} if key.choices else dict(key.kind.json_schema)
    default = "" if key.default is None else f" Default: {key.default}."
    return {"description": f"{key.meaning}{default}", **schema}
