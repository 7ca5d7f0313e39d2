"""Which findings a command of deltacli repairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from deltacli.delta.rules.framework.base import Rule
from deltacli.hints import command, is_shared
from deltacli.patterns import pattern

_CHECKPOINT = partial(command, "checkpoint")
_CLASSIC = partial(command, "checkpoint", layout="classic")
_SET = partial(command, "properties", "set")
_VACUUM = partial(command, "vacuum")
_REMOTE = pattern(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")


def undelete_command(*, table: str, **options: object) -> str:
    """Return the command that brings lost files back, for a table whose store may keep them."""
    return command("undelete", table=table, **options) if _REMOTE.match(table) else ""


_REPAIRS: Mapping[str, Callable[..., str]] = {
    "checkpoint.multipart-one": _CLASSIC,
    "checkpoint.v2-without-feature": _CLASSIC,
    "data.expired-tombstone-present": _VACUUM,
    "data.file-missing": undelete_command,
    "data.orphan": _VACUUM,
    "data.size-mismatch": undelete_command,
    "data.small-files": partial(command, "optimize"),
    "dv.file-missing": undelete_command,
    "dv.orphan": _VACUUM,
    "hint.bad-json": _CHECKPOINT,
    "hint.checkpoint-missing": _CHECKPOINT,
    "hint.checksum-bad": _CHECKPOINT,
    "hint.missing": _CHECKPOINT,
    "hint.missing-field": _CHECKPOINT,
    "hint.parts-on-classic": _CHECKPOINT,
    "hint.schema-wrong": _CHECKPOINT,
    "hint.size-wrong": _CHECKPOINT,
    "history.vacuum-start-without-end": _VACUUM,
    "log.cleanup-overdue": partial(command, "log expire"),
    "log.gap": undelete_command,
    "log.no-checkpoint-long": _CHECKPOINT,
    "log.not-a-table": undelete_command,
    "log.start-missing": undelete_command,
    "property.log-cleanup-off": partial(command, "properties", "unset", "delta.enableExpiredLogCleanup"),
    "property.retention-short": partial(_SET, {"delta.deletedFileRetentionDuration": "interval 7 days"}),
    "property.stats-both-off": partial(_SET, {"delta.checkpoint.writeStatsAsJson": "true"}),
    "property.stats-struct-unset": partial(_SET, {"delta.checkpoint.writeStatsAsStruct": "true"}),
    "sidecar.missing": undelete_command,
}
"""Rule -> the command that repairs what it reports. Others need a decision, a backup or another tool."""


def repair_command(rule: Rule, table: str, *, is_readable: bool = True, **options: object) -> str:
    """Return the command that repairs what a rule reports about a table, empty where there is none. Of a table that is
    not `is_readable`, only lost files can be brought back.
    """
    if is_shared(table) or (not is_readable and needs_readable_table(rule)):
        return ""
    return _REPAIRS[rule.id](table=table, **options) if rule.id in _REPAIRS else ""


def repair_to_try(rule: Rule, table: str, *, is_readable: bool = True) -> str:
    """Return the same command; of a repair that loses something it shows only what it would do."""
    options = {"dry_run": True} if rule.fix.loses else {}
    return repair_command(rule, table, is_readable=is_readable, **options)


def needs_readable_table(rule: Rule) -> bool:
    """Return whether the rule has a repair that fails where deltacli cannot read the newest version."""
    return _REPAIRS.get(rule.id, undelete_command) is not undelete_command
