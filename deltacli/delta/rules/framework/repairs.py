"""Which findings a command of deltacli repairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from deltacli.delta.rules.framework.base import Level, Rule
from deltacli.delta.rules.framework.repair_steps import StepKind, row_of
from deltacli.hints import command, is_shared
from deltacli.patterns import pattern

_SET = partial(command, "properties", "set")
_VACUUM = partial(command, "vacuum")
_REMOTE = pattern(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")


_REPAIRS: Mapping[str, Callable[..., str]] = {
    "data.expired-tombstone-present": _VACUUM,
    "data.orphan": _VACUUM,
    "data.small-files": partial(command, "optimize"),
    "dv.orphan": _VACUUM,
    "history.vacuum-start-without-end": _VACUUM,
    "log.cleanup-overdue": partial(command, "log expire"),
    "log.no-checkpoint-long": partial(command, "checkpoint"),
    "property.log-cleanup-off": partial(command, "properties", "unset", "delta.enableExpiredLogCleanup"),
    "property.retention-short": partial(_SET, {"delta.deletedFileRetentionDuration": "interval 7 days"}),
    "property.stats-both-off": partial(_SET, {"delta.checkpoint.writeStatsAsJson": "true"}),
    "property.stats-struct-unset": partial(_SET, {"delta.checkpoint.writeStatsAsStruct": "true"}),
}
"""Rule -> the command that ends what it reports, where that is another than `repair`."""


def repair_command(rule: Rule, table: str, *, is_readable: bool = True, **options: object) -> str:
    """Return the command that repairs what a rule reports about a table, empty where there is none: where nothing but a
    copy has what is lost, it is not known. Of a table that is not `is_readable`, only `repair` acts.
    """
    if is_shared(table):
        return ""
    steps = row_of(rule.id).steps
    if not steps:
        return _REPAIRS[rule.id](table=table, **options) if is_readable and rule.id in _REPAIRS else ""
    if steps[0] is not StepKind.RECOVER:
        return command("repair", table=table, **_level(rule), **options)
    return command("repair", table=table, sources=["versions"], **_level(rule), **options) if may_keep(table) else ""


def repair_to_try(rule: Rule, table: str, *, is_readable: bool = True) -> str:
    """Return the same command; where a repair loses something, or needs a copy, it shows only what it would do."""
    options = {"dry_run": True} if rule.fix.loses else {}
    if row_of(rule.id).steps and not is_shared(table) and not repair_command(rule, table, is_readable=is_readable):
        return command("repair", table=table, **_level(rule), dry_run=True)
    return repair_command(rule, table, is_readable=is_readable, **options)


def command_of(rule: Rule, table: str, *, is_readable: bool = True) -> str | None:
    """Return the command that repairs what a rule reports, else the one that shows what a repair would do; None where
    there is none.
    """
    found = repair_command(rule, table, is_readable=is_readable)
    return found or repair_to_try(rule, table, is_readable=is_readable) or None


def recover_command(table: str) -> str:
    """Return the command that shows what of lost files would come back, and what would be given up."""
    kept = {"sources": ["versions"]} if may_keep(table) else {}
    return command("repair", table=table, **kept, dry_run=True)


def needs_readable_table(rule: Rule) -> bool:
    """Return whether the rule has a repair that fails where deltacli cannot read the newest version."""
    return rule.id in _REPAIRS


def _level(rule: Rule) -> dict[str, str]:
    """Return the level at which `repair` finds it, unless that is the default."""
    return {"level": rule.level.value} if rule.level in (Level.FOOTERS, Level.DATA) else {}


def may_keep(table: str) -> bool:
    """Return whether the store of a table may keep versions of its files."""
    return _REMOTE.match(table) is not None
