"""The results of `log expire`, `log backup` and `log restore`, which delete or copy files of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from deltacli.cli.output.columns import make_item_columns
from deltacli.cli.output.results import ListResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.output.surface import Labelled, Surface
from deltacli.cli.render.plans import PlanRow, make_plan_table, make_refusal_rows, make_section_rows, make_version_strip
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.documents import envelope
from deltacli.core.ranges import find_ranges, format_ranges
from deltacli.core.times import format_duration, format_moment
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.changing.file_totals import FileTotals
    from deltacli.core.errors import Refusal
    from deltacli.operations.log.expire import ExpiredFile, ExpiryOutcome, ExpiryPlan
    from deltacli.operations.log.log_backup import BackupResult
    from deltacli.operations.log.log_copy import BackupList
    from deltacli.operations.log.log_restore import Action, LogRestorePlan

_MAX_LISTED = 10
"""The number of restored files that people see. JSON and CSV contain all of them."""

_STRIP_LABEL_CELLS = 16
"""The width of the labels next to the strip of versions, with the gap that follows them."""

_EXPIRED_FILE_COLUMNS = make_item_columns(("path", "sizeBytes", "modificationTimeMs", "reason"))
"""The columns of a file that `log expire` deletes. Each one is a field of the JSON document."""

_BACKUP_FILE_COLUMNS = make_item_columns(("action", "name", "sizeBytes", "sha256", "modificationTimeMs"))
"""The columns of a file that is copied to or from a backup. Each one is a field of the JSON document."""

_NOTHING_DELETED = {"files": 0, "sizeBytes": 0, "missing": 0, "failed": []}
"""The field `deleted` of the JSON document before the execution of a plan."""


def expiry_result(plan: ExpiryPlan, outcome: ExpiryOutcome | None, *, dry_run: bool) -> ListResult[JsonObject]:
    """Return the deletion of log files as the result of `log expire`. CSV and NDJSON contain every file.

    Args:
        plan: The plan.
        outcome: The outcome; None before the plan is executed.
        dry_run: Whether the plan is only shown.
    """
    deleted = _NOTHING_DELETED if outcome is None else outcome.as_json()
    content = plan.as_json() | {"deleted": deleted, "dryRun": dry_run}
    items = [_make_expired_item(file) for file in plan.files]
    return ListResult(
        envelope("deltacli.log-expire", plan.table, complete=True) | content,
        "candidate",
        items,
        _EXPIRED_FILE_COLUMNS,
        items,
        last_line={"type": "log-expire", "table": plan.table, **content},
        make_sections=lambda _: expiry_sections(plan, outcome),
        draw_on=partial(draw_expiry, plan, outcome),
        has_requested_rows=False,
    )


def _make_expired_item(file: ExpiredFile) -> JsonObject:
    return {
        "path": file.path,
        "sizeBytes": file.size_bytes,
        "modificationTimeMs": file.modified_ms,
        "reason": file.reason.value,
    }


def expiry_sections(plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> list[Section]:
    """Return the deletion of log files as labelled lines."""
    cutoff = f"{format_moment(plan.cutoff_ms)} UTC, {format_duration(plan.retention_ms)} ago, rounded down to midnight"
    return [
        Section("table", [plan.table]),
        Section("cutoff", [cutoff]),
        Section("log begins", [_describe_log_start(plan)]),
        Section(_choose_verb(outcome), _list_totals_by_kind(plan) if plan.files else ["nothing"]),
        Section("versions", [_describe_lost_versions(plan)] if plan.files else []),
        Section("deleted", [] if outcome is None else [_describe_deleted_files(outcome)]),
        make_refusal_section(_describe_refusal(refusal) for refusal in plan.refusals),
    ]


def _choose_verb(outcome: ExpiryOutcome | None) -> str:
    """Return the label of the planned files. After the execution, the label `deleted` has the deleted files."""
    return "delete" if outcome is None else "planned"


def _describe_log_start(plan: ExpiryPlan) -> str:
    """Return where the log begins after the deletion: at a checkpoint, because older commits are deleted."""
    if plan.boundary is not None:
        return f"at the checkpoint of version {plan.boundary}"
    if plan.offered_checkpoint is not None:
        return "unchanged: no checkpoint lies below the cutoff"
    return "unchanged"


def _list_totals_by_kind(plan: ExpiryPlan) -> list[str]:
    """Return the total of all files, and a line per kind of file: `commit  12 files, 3.2 MiB`."""
    totals_by_kind = plan.as_json()["candidates"]["byKind"]
    width = max(len(kind) for kind in totals_by_kind)
    lines = [format_file_totals(len(plan.files), plan.size_bytes)]
    for kind, totals in sorted(totals_by_kind.items()):
        lines.append(f"{kind:<{width}}  {format_file_totals(totals['files'], totals['sizeBytes'])}")
    return lines


def _describe_lost_versions(plan: ExpiryPlan) -> str:
    kept = _describe_kept_versions(plan)
    if not plan.lost_versions:
        return kept
    return f"{format_ranges(plan.lost_versions)} can no longer be rebuilt; {kept}"


def _describe_kept_versions(plan: ExpiryPlan) -> str:
    return f"{plural(plan.kept_versions, 'version')} can still be rebuilt"


def _describe_deleted_files(outcome: ExpiryOutcome) -> str:
    """Return the deleted files, those that another process deleted before, and those that could not be deleted."""
    parts = [format_file_totals(outcome.deleted, outcome.deleted_bytes)]
    if outcome.missing:
        parts.append(f"{outcome.missing:,} already missing")
    if outcome.failed.count:
        parts.append(f"{plural(outcome.failed.count, 'file')} could not be deleted")
    return ", ".join(parts)


def _describe_refusal(refusal: Refusal) -> str:
    """Return the message, the error code, and the option that overrides the refusal, if there is one."""
    # Messages about a version that cannot be rebuilt end with the code of the violated rule in brackets.
    suffix = "" if refusal.message.endswith("]") else f" [{refusal.code}]"
    override = f"; override with {refusal.override}" if refusal.override else ""
    return f"{refusal.message}{suffix}{override}"


def draw_expiry(plan: ExpiryPlan, outcome: ExpiryOutcome | None, surface: Surface) -> None:
    """Draw the deletion of log files: labelled lines, a table of the files by kind, and a strip of the versions."""
    sections = expiry_sections(plan, outcome)
    sections_above = [section for section in sections if section.label in ("table", "cutoff", "log begins")]
    sections_below = [section for section in sections if section.label in ("versions", "deleted")]
    refusals = [(refusal.message, refusal.code, refusal.override) for refusal in plan.refusals]
    rows_below = [
        *_make_strip_rows(surface, plan),
        *make_section_rows(surface, sections_below),
        *make_refusal_rows(surface, refusals),
    ]
    surface.draw_parts(
        make_section_rows(surface, sections_above), _make_expired_table(surface, plan, outcome), rows_below
    )


def _make_expired_table(surface: Surface, plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> RenderableType:
    """Return a table with the total of the deleted files, a row per kind, and a row for the kept versions."""
    verb = _choose_verb(outcome)
    totals_by_kind = plan.as_json()["candidates"]["byKind"]
    rows: list[PlanRow] = []
    if not totals_by_kind:
        rows.append(PlanRow(verb, "nothing", 0, None, ""))
    elif len(totals_by_kind) > 1:
        rows.append(PlanRow(verb, "all", len(plan.files), plan.size_bytes, ""))
    for kind, totals in sorted(totals_by_kind.items()):
        rows.append(PlanRow(verb, kind, totals["files"], totals["sizeBytes"], ""))
    rows.append(PlanRow("keep", "log", None, None, _describe_kept_versions(plan)))
    return make_plan_table(surface, rows, "")


def _make_strip_rows(surface: Surface, plan: ExpiryPlan) -> list[Labelled]:
    """Return a row with the versions as blocks, in which lost versions are marked. Only terminals show it."""
    if not plan.lost_versions or not surface.is_screen:
        return []
    first_version = plan.lost_versions[0]
    lost_ranges = find_ranges(plan.lost_versions)
    strip = make_version_strip(surface, first_version, plan.newest_version, lost_ranges, label_cells=_STRIP_LABEL_CELLS)
    return [("", strip)]


def backup_result(result: BackupResult) -> ListResult[JsonObject]:
    """Return the files that a backup copied, or would copy, as the result of `log backup`."""
    content = result.as_json()
    plan = result.plan
    deleted_files = f"{_format_json_totals(content['missing'])}, no longer in the log"
    sections = [
        Section("table", [plan.table]),
        Section("backup", [_describe_backup(plan.backup, result.listed)]),
        Section("would copy" if result.dry_run else "copied", [_format_json_totals(content["copied"])]),
        Section("unchanged", [_format_json_totals(content["unchanged"])]),
        Section("kept", [deleted_files] if plan.missing else []),
        Section("holds", [_format_json_totals(content["files"])]),
    ]
    return _make_file_list("log-backup", plan.table, content, result.items(), sections)


def log_restore_result(plan: LogRestorePlan, *, dry_run: bool) -> ListResult[JsonObject]:
    """Return the files that were restored from a backup, or would be, as the result of `log restore`."""
    # `log expire` and `log backup` do not need the code that plans a restore.
    from deltacli.operations.log.log_restore import Action

    table = plan.table if plan.had_log else f"{plan.table}, which has no log"
    replaced_files = plan.amount(Action.REPLACE).files
    differing_files = plan.amount(Action.KEEP).files
    sections = [
        Section("table", [table]),
        Section("backup", [_describe_backup(plan.backup, plan.listed)]),
        Section("would add" if dry_run else "added", list(_list_files(plan, Action.ADD)), Style.GOOD),
        Section(
            "would replace" if dry_run else "replaced",
            list(_list_files(plan, Action.REPLACE)) if replaced_files else [],
            Style.CHANGED,
        ),
        Section(
            "differ",
            [*_list_files(plan, Action.KEEP), "and stay as they are in the log"] if differing_files else [],
        ),
        Section("unchanged", [_format_totals(plan.unchanged)]),
        Section("only in log", [_format_totals(plan.only_in_log)] if plan.only_in_log.files else []),
        Section("note", plan.notes, Style.WARNING),
    ]
    return _make_file_list("log-restore", plan.table, plan.as_json(dry_run=dry_run), plan.items(), sections)


def _make_file_list(
    kind: str, table: str, content: JsonObject, items: Sequence[JsonObject], sections: Sequence[Section]
) -> ListResult[JsonObject]:
    """Return files that are copied to or from a backup as a result.

    Args:
        kind: The kind of the document, without the prefix `deltacli.`.
        table: The URI of the table.
        content: The fields of the document, without its items.
        items: The files.
        sections: The labelled lines for people.
    """
    return ListResult(
        envelope(f"deltacli.{kind}", table, complete=True) | dict(content),
        "file",
        items,
        _BACKUP_FILE_COLUMNS,
        items,
        last_line={"type": kind, "table": table, **content},
        make_sections=lambda _: sections,
        has_requested_rows=False,
    )


def _describe_backup(uri: str, listed: BackupList) -> str:
    """Return the place of a backup, the newest version that it contains, and when it was made."""
    version = "without a version" if listed.version is None else f"version {listed.version}"
    return f"{uri}, {version}, taken {format_moment(listed.taken_ms)} UTC"


def _list_files(plan: LogRestorePlan, action: Action) -> Iterator[str]:
    """Yield the total of the files with an action, and the names of the first of them."""
    files = [item.file for item in (*plan.writes, *plan.kept) if item.action == action]
    yield format_file_totals(len(files), sum(file.size_bytes for file in files))
    for file in sorted(files)[:_MAX_LISTED]:
        yield f"  {file.name}"
    if len(files) > _MAX_LISTED:
        yield f"  and {len(files) - _MAX_LISTED:,} more: --json shows all"


def _format_totals(totals: FileTotals) -> str:
    return format_file_totals(totals.files, totals.size_bytes)


def _format_json_totals(totals: Mapping[str, int]) -> str:
    """Format totals that are a JSON object: `{"count": 2, "sizeBytes": 3300000}` is `2 files, 3.1 MiB`."""
    return format_file_totals(totals["count"], totals["sizeBytes"])
