"""What `log backup` and `log restore` did or would do, in every format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltacli.cli.render.columns import item_columns
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style
from deltacli.typing import JsonObject
from deltacli.units import format_moment, format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.log.backup_list import BackupList
    from deltacli.operations.log.log_backup import BackupResult
    from deltacli.operations.log.log_copy import LogAmount
    from deltacli.operations.log.log_restore import RestorePlan

_LISTED = 10
_FIELDS = ("action", "name", "sizeBytes", "sha256", "modificationTimeMs")


def backup_result(result: BackupResult) -> Listing[JsonObject]:
    """Return what a backup did, or would do."""
    fields, plan = result.as_json(), result.plan
    missing = _amount(fields["missing"])
    sections = [
        Section("table", [plan.table]),
        Section("backup", [_backup(plan.backup, result.listed)]),
        Section("would copy" if result.dry_run else "copied", [_amount(fields["copied"])]),
        Section("unchanged", [_amount(fields["unchanged"])]),
        Section("kept", [f"{missing}, no longer in the log"] if plan.missing else []),
        Section("holds", [_amount(fields["files"])]),
    ]
    return _listing("log-backup", plan.table, fields, result.items(), sections)


def restore_result(plan: RestorePlan, *, dry_run: bool) -> Listing[JsonObject]:
    """Return what a restore would do, or did."""
    from deltacli.operations.log.log_restore import Action

    add, replace = ("would add", "would replace") if dry_run else ("added", "replaced")
    kept = plan.amount(Action.KEEP)
    sections = [
        Section("table", [plan.table + ("" if plan.had_log else ", which has no log")]),
        Section("backup", [_backup(plan.backup, plan.listed)]),
        Section(add, list(_some(plan, Action.ADD)), Style.GOOD),
        Section(replace, list(_some(plan, Action.REPLACE)) if plan.amount(Action.REPLACE).files else [], Style.CHANGED),
        Section("differ", [*_some(plan, Action.KEEP), "and stay as they are in the log"] if kept.files else []),
        Section("unchanged", [_text(plan.unchanged)]),
        Section("only in log", [_text(plan.only_in_log)] if plan.only_in_log.files else []),
    ]
    return _listing("log-restore", plan.table, plan.as_json(dry_run=dry_run), plan.items(), sections)


def _listing(
    kind: str, table: str, fields: Mapping[str, Any], items: Sequence[JsonObject], sections: Sequence[Section]
) -> Listing[JsonObject]:
    return Listing(
        envelope(f"deltacli.{kind}", table, complete=True) | dict(fields),
        "file",
        items,
        item_columns(_FIELDS),
        items,
        last={"type": kind, "table": table, **fields},
        said=lambda _: sections,
        lists=False,
    )


def _backup(uri: str, listed: BackupList) -> str:
    version = "without a version" if listed.version is None else f"version {listed.version}"
    return f"{uri}, {version}, taken {format_moment(listed.taken_ms)} UTC"


def _some(plan: RestorePlan, action: str) -> Iterator[str]:
    """How many files, then the first of them."""
    files = [item.file for item in (*plan.writes, *plan.kept) if item.action == action]
    yield f"{plural(len(files), 'file')}, {format_size(sum(file.size_bytes for file in files))}"
    yield from (f"  {file.name}" for file in sorted(files)[:_LISTED])
    if len(files) > _LISTED:
        yield f"  and {len(files) - _LISTED:,} more: --json shows all"


def _text(amount: LogAmount) -> str:
    return f"{plural(amount.files, 'file')}, {format_size(amount.size_bytes)}"


def _amount(value: Mapping[str, int]) -> str:
    return f"{plural(value['count'], 'file')}, {format_size(value['sizeBytes'])}"
