"""Warn about what a policy file can say without an error, but hardly means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltacli.core.times import format_duration
from deltacli.core.typing import Toml
from deltacli.delta.log.state import DEFAULT_DELETED_FILE_RETENTION_MS, DEFAULT_LOG_RETENTION_MS
from deltacli.fleet.policy_file.file_context import FileContext, spell_key
from deltacli.fleet.policy_file.model import ExpirePolicy, Group, Policy, VacuumPolicy, is_catalog_pattern
from deltacli.fleet.policy_file.toml_lines import KeyPath

_DEFAULT_RETENTIONS = {"log-expire": DEFAULT_LOG_RETENTION_MS, "vacuum": DEFAULT_DELETED_FILE_RETENTION_MS}
"""Step -> the retention of tables that do not state one."""


def add_warnings(context: FileContext, groups: Sequence[Group], policies: Mapping[str, Toml]) -> None:
    """Note warnings about policies without steps, steps that can never run, and patterns where names are expected.

    Args:
        context: The file.
        groups: Its groups.
        policies: The content of the table `policies`.
    """
    for policy in {group.policy.name: group.policy for group in groups}.values():
        for step in _DEFAULT_RETENTIONS:
            _warn_about_retention(context, policy, step, policies)
    for group in groups:
        _warn_about_steps(context, group)
        _warn_about_patterns(context, group)


def _warn_about_retention(context: FileContext, policy: Policy, step: str, policies: Mapping[str, Toml]) -> None:
    """Warn about a retention below the default of tables, which no table without its own one accepts."""
    settings = policy.steps.get(step)
    if not isinstance(settings, ExpirePolicy | VacuumPolicy):
        return
    default_ms = _DEFAULT_RETENTIONS[step]
    retention_ms = settings.retention_ms
    allowed_below_ms = settings.allow_retention_below_ms
    if retention_ms is None:
        if allowed_below_ms is not None:
            key = _find_key(policy.name, step, "allow-retention-below", policies)
            context.add_warning(key, f"has no effect on {step} without retention")
        return

    is_allowed = allowed_below_ms is not None and allowed_below_ms >= default_ms
    if retention_ms < default_ms and not is_allowed:
        default = format_duration(default_ms)
        context.add_warning(
            _find_key(policy.name, step, "retention", policies),
            f"{format_duration(retention_ms)} is less than the default retention of tables ({default}): {step} is "
            f'refused for tables that keep it; to allow it: allow-retention-below = "{default}"',
        )


def _find_key(policy: str, step: str, key: str, policies: Mapping[str, Toml]) -> KeyPath:
    """Return the path of a key in the policy, or in the one that it is inherited from."""
    while True:
        settings = policies[policy].get(step)
        if isinstance(settings, dict) and key in settings:
            return ("policies", policy, step, key)
        policy = policies[policy]["inherits"]


def _warn_about_steps(context: FileContext, group: Group) -> None:
    """Warn about a policy without steps, and about steps that delete and never run, because they lack consent."""
    at: KeyPath = ("groups", group.name, "policy")
    policy = group.policy
    if policy.name and not policy.steps and policy.alerts is None:
        context.add_warning(at, f"the policy {policy.name!r} has no steps")
    for step, settings in policy.steps.items():
        if getattr(settings, "consent", None) is False:
            place = spell_key(("policies", policy.name, step))
            context.add_warning(at, f"{step} is planned but never run: {place} lacks consent = true")


def _warn_about_patterns(context: FileContext, group: Group) -> None:
    """Warn about names of tables that look like patterns. A catalog has patterns of names."""
    for table in group.tables:
        if "*" in table.text and not is_catalog_pattern(table.text):
            message = f"{table.text} is read as the name of one table; patterns belong in globs"
            context.add_warning(("groups", group.name, "tables"), message)
