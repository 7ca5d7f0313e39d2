"""Read the policies of a policy file: their own steps and thresholds, and those that they inherit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltacli.core.errors import UsageError
from deltacli.core.typing import Toml
from deltacli.fleet.policy_file.file_context import FileContext, show_value
from deltacli.fleet.policy_file.keys import POLICY_KEYS, SECTION_KEYS, STEP_KEYS
from deltacli.fleet.policy_file.model import STEP_TYPES, AlertPolicy, CopyPolicy, Policy, StepPolicy
from deltacli.fleet.policy_file.toml_lines import KeyPath

Sections = dict[str, dict[str, Any] | None]  # Any: values of the fields of settings
"""Step, or `alerts` -> its settings by the names of their fields; None where it is turned off."""

_KEYS_OF_PLACES = ("baselines", "protect-from", "protect-streams", "quarantine", "to")
"""The keys of steps that have paths or URIs."""


def read_policies(context: FileContext, table: Mapping[str, Toml]) -> dict[str, Policy]:
    """Return the policies of the table `policies`, with all that they inherit."""
    sections = {name: _read_sections(context, name, content) for name, content in table.items()}
    return {name: _build_policy(context, name, _inherit_sections(context, name, table, sections)) for name in table}


def _read_sections(context: FileContext, policy: str, content: Toml) -> Sections:
    """Return what a policy says itself. Values that are not valid are left out."""
    at: KeyPath = ("policies", policy)
    if not isinstance(content, dict):
        context.add_error(at, "is not a table", "a table with steps")
        return {}

    context.read_values(at, content, POLICY_KEYS, other_names=SECTION_KEYS)
    sections: Sections = {}
    for section in SECTION_KEYS:
        settings = content.get(section)
        if section not in content:
            continue
        if settings is False:
            sections[section] = None
        elif isinstance(settings, dict):
            sections[section] = _read_section(context, (*at, section), section, settings)
        else:
            context.add_error((*at, section), f"invalid value {show_value(settings)}", "a table, or false")
    return sections


def _read_section(context: FileContext, at: KeyPath, section: str, settings: Mapping[str, Toml]) -> dict[str, Any]:
    """Return the settings of a section by the names of their fields, paths as absolute ones."""
    keys = SECTION_KEYS[section]
    values = context.read_values(at, settings, keys)
    for name in _KEYS_OF_PLACES:
        if name not in values:
            continue
        value = values[name]
        if not isinstance(value, str):
            values[name] = tuple(context.resolve_place(place) for place in value)
        elif value.strip():
            values[name] = context.resolve_place(value)
    return {key.field_name: values[key.name] for key in keys if key.name in values}


def _inherit_sections(
    context: FileContext, policy: str, table: Mapping[str, Toml], sections: Mapping[str, Sections]
) -> Sections:
    """Return the sections of a policy with those that it inherits.

    Args:
        context: The file.
        policy: The name of the policy.
        table: The content of all policies.
        sections: What each policy says itself.
    """
    inherited: Sections = dict.fromkeys(SECTION_KEYS)
    for ancestor in reversed(_find_ancestors(context, policy, table)):
        for section, settings in sections[ancestor].items():
            if settings is None:
                inherited[section] = None
            else:
                inherited[section] = {**(inherited[section] or {}), **settings}
    return inherited


def _find_ancestors(context: FileContext, policy: str, table: Mapping[str, Toml]) -> list[str]:
    """Return a policy, and those that it inherits from, the nearest first.

    A problem is noted at the policy whose key is wrong, not again at those that inherit from it.
    """
    key: KeyPath = ("policies", policy, "inherits")
    ancestors = [policy]
    while (parent := _get_parent(table[ancestors[-1]])) is not None:
        if not isinstance(parent, str) or parent not in table:
            is_own_key = len(ancestors) == 1
            if is_own_key and isinstance(parent, str):
                context.add_undefined(key, "policy", parent, table)
            return ancestors
        if parent in ancestors:
            if parent == policy:
                circle = " -> ".join([*ancestors, parent])
                context.add_error(key, f"the policies inherit from each other: {circle}")
            return ancestors
        ancestors.append(parent)
    return ancestors


def _get_parent(content: Toml) -> Toml:
    """Return the policy that a policy inherits from; None without one."""
    return content.get("inherits") if isinstance(content, dict) else None


def _build_policy(context: FileContext, name: str, sections: Sections) -> Policy:
    """Return a policy. Steps whose settings do not fit each other are left out."""
    at: KeyPath = ("policies", name)
    for section, settings in sections.items():
        if settings is not None:
            _require_protected_streams(context, (*at, section), settings)

    steps: dict[str, StepPolicy] = {}
    for step in STEP_KEYS:
        settings = sections[step]
        if settings is None:
            continue
        try:
            steps[step] = STEP_TYPES[step](**settings)
        except UsageError as error:
            context.add_error((*at, step), error.message)

    copy = steps.get("copy")
    error_of_target = copy.find_error() if isinstance(copy, CopyPolicy) else None
    if error_of_target is not None:
        context.add_error((*at, "copy", "to"), error_of_target, 'to = "s3://backups/{path}"')
    thresholds = sections["alerts"]
    alerts = None if thresholds is None else AlertPolicy(**thresholds)
    return Policy(name, steps, context.find_line(at), alerts)


def _require_protected_streams(context: FileContext, at: KeyPath, settings: dict[str, Any]) -> None:
    """Note, and drop, an age of streams where no streams are protected: it would have no effect."""
    has_age = settings.get("ignore_streams_older_ms") is not None
    if has_age and not settings.get("protect_streams"):
        context.add_error((*at, "ignore-streams-older"), "needs protect-streams")
        del settings["ignore_streams_older_ms"]
