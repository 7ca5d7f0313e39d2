"""What `log backup` and `log restore` did or would do, in every format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from deltacli.cli.options.shared import OutputFormat
from deltacli.cli.render.columns import Column, write_csv
from deltacli.cli.render.json import envelope, write_document, write_lines
from deltacli.cli.render.state import Section, write_sections
from deltacli.cli.terminal.term import Style
from deltacli.units import format_moment, format_size, plural

if TYPE_CHECKING:
    from deltacli.cli.options.shared import Run
    from deltacli.operations.log.backup_list import BackupList
    from deltacli.operations.log.log_backup import BackupResult
    from deltacli.operations.log.log_files import LogAmount
    from deltacli.operations.log.log_restore import RestorePlan

_LISTED = 10
_FIELDS = ("action", "name", "sizeBytes", "sha256", "modificationTimeMs")


def write_backup(sink: BinaryIO, run: Run, result: BackupResult) -> None:
    """Write what a backup did."""
    if run.format is not OutputFormat.TABLE:
        _write_data(sink, run, "log-backup", result.plan.table, result.as_json(), result.items())
        return
    missing = _amount(result.as_json()["missing"])
    sections = [
        Section("table", [result.plan.table]),
        Section("backup", [_backup(result.plan.backup, result.listed)]),
        Section("copied", [_amount(result.as_json()["copied"])]),
        Section("unchanged", [_amount(result.as_json()["unchanged"])]),
        Section("kept", [f"{missing}, no longer in the log"] if result.plan.missing else []),
        Section("holds", [_amount(result.as_json()["files"])]),
    ]
    write_sections(sink, run.terminal, [section for section in sections if section.lines])


def write_restore(sink: BinaryIO, run: Run, plan: RestorePlan, *, dry_run: bool) -> None:
    """Write what a restore does: what it would, or what it did."""
    from deltacli.operations.log.log_restore import Action

    if run.format is not OutputFormat.TABLE:
        _write_data(sink, run, "log-restore", plan.table, plan.as_json(dry_run=dry_run), plan.items())
        return
    add, replace = ("would add", "would replace") if dry_run else ("added", "replaced")
    kept = plan.amount(Action.KEEP)
    sections = [
        Section("table", [plan.table + ("" if plan.had_log else ", which has no log")]),
        Section("backup", [_backup(plan.backup, plan.listed)]),
        Section(add, list(_some(plan, Action.ADD)), Style.GOOD),
        Section(replace, list(_some(plan, Action.REPLACE)) if plan.amount(Action.REPLACE).files else [], Style.CHANGE),
        Section("differ", [*_some(plan, Action.KEEP), "and stay as they are in the log"] if kept.files else []),
        Section("unchanged", [_text(plan.unchanged)]),
        Section("only in log", [_text(plan.only_in_log)] if plan.only_in_log.files else []),
    ]
    write_sections(sink, run.terminal, [section for section in sections if section.lines])


def _write_data(
    sink: BinaryIO, run: Run, kind: str, table: str, fields: Mapping[str, Any], items: list[dict[str, Any]]
) -> None:
    match run.format:
        case OutputFormat.JSON:
            document = {**envelope(f"deltacli.{kind}", table, complete=True), **fields, "items": items}
            write_document(sink, document, indent=run.terminal.is_terminal)
        case OutputFormat.NDJSON:
            summary = {"type": kind, "table": table, **fields}
            write_lines(sink, [*items, summary], kind="file")
        case _:
            columns: list[Column[dict[str, Any]]] = [Column(name, _getter(name)) for name in _FIELDS]
            write_csv(sink, columns, items)


def _getter(name: str) -> Any:  # Any: Callable[[dict[str, Any]], object]
    return lambda item: item[name]


def _backup(uri: str, listed: BackupList) -> str:
    version = "without a version" if listed.version is None else f"version {listed.version}"
    return f"{uri}, {version}, taken {format_moment(listed.taken_ms)} UTC"


def _some(plan: RestorePlan, action: str) -> Iterator[str]:
    """How many files, then the first of them."""
    found = [item.file for item in (*plan.writes, *plan.kept) if item.action == action]
    yield f"{plural(len(found), 'file')}, {format_size(sum(file.size_bytes for file in found))}"
    yield from (f"  {file.name}" for file in sorted(found)[:_LISTED])
    if len(found) > _LISTED:
        yield f"  and {len(found) - _LISTED:,} more: --json shows all"


def _text(amount: LogAmount) -> str:
    return f"{plural(amount.files, 'file')}, {format_size(amount.size_bytes)}"


def _amount(value: Mapping[str, int]) -> str:
    return f"{plural(value['count'], 'file')}, {format_size(value['sizeBytes'])}"
