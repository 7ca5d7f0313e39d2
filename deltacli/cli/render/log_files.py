"""What the commands on log files show, as text and drawn: checkpoints, `log expire`, `log backup` and `log restore`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from deltacli.cli.output.columns import Column, make_item_columns
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section, format_file_totals, make_refusal_section
from deltacli.cli.output.surface import Labelled, Surface
from deltacli.cli.render.plans import PlanRow, make_plan_table, make_refusal_rows, make_section_rows, make_version_strip
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.documents import dumps, envelope
from deltacli.core.ranges import find_ranges, format_ranges, format_spans
from deltacli.core.times import format_duration, format_moment
from deltacli.core.typing import JsonObject
from deltacli.core.units import format_count, format_size, plural

if TYPE_CHECKING:
    from rich.console import RenderableType

    from deltacli.core.errors import Refusal
    from deltacli.operations.checkpoint.checkpoint import CheckpointResult
    from deltacli.operations.checkpoint.verify import Verification
    from deltacli.operations.log.expire import ExpiredFile, ExpiryOutcome, ExpiryPlan
    from deltacli.operations.log.log_backup import BackupResult
    from deltacli.operations.log.log_copy import BackupList
    from deltacli.operations.log.log_restore import LogRestorePlan

_LISTED = 10


def checkpoint_result(uri: str, made: CheckpointResult) -> SingleResult:
    """Return a checkpoint that was written, or would be, as a result; its rows are the files."""
    content = made.as_json()
    return SingleResult(
        "checkpoint",
        uri,
        content,
        lambda: checkpoint_sections(made),
        content["files"],
        ("path", "sizeBytes", "rows"),
        lambda canvas: draw_checkpoint(canvas, made),
    )


def checkpoint_sections(result: CheckpointResult) -> list[Section]:
    """The sections of a result, those with nothing to say left out; one line where there was nothing to do."""
    plan = result.plan
    if result.skipped:
        return [Section("nothing to do", [f"{plan.snapshot.table.uri}, version {result.version}: {_reason(result)}"])]
    lines = []
    for file in result.files[:_LISTED]:
        rows = "" if file.rows is None else f", {plural(file.rows, 'row')}"
        lines.append(f"{file.path}, {format_size(file.size_bytes)}{rows}")
    rest = result.files[_LISTED:]
    if rest:
        size = format_size(sum(file.size_bytes for file in rest))
        lines.append(f"and {plural(len(rest), 'more file')}, {size}: --json names all")
    return [
        Section("table", [plan.snapshot.table.uri]),
        Section("version", [str(result.version)]),
        Section("checkpoint", [_outcome(result)]),
        Section("files", lines),
        Section("actions", [_actions(result)] if result.actions else []),
        Section("dropped", [_dropped(result)] if result.expired_tombstones_dropped else []),
        Section("readers", [_readers(result)]),
        Section("hint", [_hint(result)] if not result.dry_run else []),
    ]


def _outcome(result: CheckpointResult) -> str:
    layout = result.plan.layout
    return f"{layout}, would be written" if result.dry_run else f"{layout}, written and read back"


def _reason(result: CheckpointResult) -> str:
    plan = result.plan
    if plan.present is None and not result.files:
        return f"{plural(plan.behind, 'commit')} since the last checkpoint, --if-behind is {plan.request.if_behind}"
    return f"its {plan.layout} checkpoint exists; --force writes it again"


def _actions(result: CheckpointResult) -> str:
    return ", ".join(f"{format_count(count)} {kind}" for kind, count in sorted(result.actions.items()))


def _dropped(result: CheckpointResult) -> str:
    return f"{plural(result.expired_tombstones_dropped, 'expired tombstone')}"


def _readers(result: CheckpointResult) -> str:
    version = result.version
    fewer = f"{plural(result.plan.behind, 'commit')} fewer to replay"
    snapshot, found = result.plan.snapshot, result.plan.listing.checkpoints
    later = [
        one.version for one in found if one.version > version and one.files[0].name not in snapshot.skipped_checkpoints
    ]
    if later:
        readable = format_spans([(version, min(later) - 1)])
        are = f"of version {readable} begins" if min(later) == version + 1 else f"of versions {readable} begin"
        return f"{are} here, {fewer}; newer versions begin at the checkpoint of version {min(later)} or later"
    newer = snapshot.newest_version - version
    rest = f", then {plural(newer, 'commit')}" if newer else ""
    return f"begin at version {version}{rest}; {fewer}"


def _hint(result: CheckpointResult) -> str:
    if result.hint_version is None:
        return "unchanged, it names a newer version"
    return f"_last_checkpoint names version {result.hint_version}"


def verifications(uri: str, checks: Sequence[Verification]) -> ListResult[Verification]:
    """Return what became of each checkpoint."""
    columns: list[Column[Verification]] = [
        Column("version", lambda one: one.checkpoint.version, align_right=True, priority=1),
        Column("file", lambda one: one.checkpoint.files[0].name, priority=2, keep_end=True),
        Column("files", lambda one: len(one.checkpoint.files), align_right=True),
        Column("verdict", lambda one: one.verdict.value, priority=1),
        Column("details", _details, priority=3),
    ]
    fields = envelope("deltacli.checkpoint-verification", uri, complete=True)
    return ListResult(
        fields, "verification", [one.as_json() for one in checks], columns, checks, items_name="checkpoints"
    )


def _details(one: Verification) -> str:
    if one.reason:
        return one.reason
    if one.verdict == "alone":
        return "could be read completely; no older state is left to compare it with"
    return "; ".join(
        f"{name} is {dumps(ours).decode()[:80]}, expected from the log: {dumps(theirs).decode()[:80]}"
        for name, ours, theirs in one.details
    )


def draw_checkpoint(canvas: Surface, result: CheckpointResult) -> None:
    """Draw a checkpoint that was written, or would be, its files, and what the sections say besides."""
    sections = checkpoint_sections(result)
    if result.skipped:
        canvas.draw_parts(make_section_rows(canvas, sections))
        return
    above = [section for section in sections if section.label in ("table", "version", "checkpoint")]
    below = [section for section in sections if section.label not in ("table", "version", "checkpoint", "files")]
    parts: list[RenderableType | list[Labelled]] = [make_section_rows(canvas, above)]
    if result.files:
        parts.append(canvas.matrix(("file", "size", "rows"), _checkpoint_files(canvas, result), right=(1, 2)))
    canvas.draw_parts(*parts, make_section_rows(canvas, below))


def _checkpoint_files(canvas: Surface, result: CheckpointResult) -> list[list[RenderableType]]:
    shown = result.files if canvas.never_cuts else result.files[:_LISTED]
    rows: list[list[RenderableType]] = [
        [file.path, _size(canvas, file.size_bytes), "" if file.rows is None else format_count(file.rows)]
        for file in shown
    ]
    if rest := result.files[len(shown) :]:
        size = sum(file.size_bytes for file in rest)
        rows.append([f"and {plural(len(rest), 'more file')}: --json names all", _size(canvas, size), ""])
    return rows


def _size(canvas: Surface, size_bytes: int) -> RenderableType:
    return canvas.text(format_size(size_bytes), Style.SIZE)


_NOTHING = {"files": 0, "sizeBytes": 0, "missing": 0, "failed": []}


def expiry_result(plan: ExpiryPlan, outcome: ExpiryOutcome | None, *, dry_run: bool) -> ListResult[JsonObject]:
    """Return the plan with its outcome; lines and columns name every file."""
    content = plan.as_json() | {"deleted": outcome.as_json() if outcome else _NOTHING, "dryRun": dry_run}
    items = [_expired_item(file) for file in plan.files]
    return ListResult(
        envelope("deltacli.log-expire", plan.table, complete=True) | content,
        "candidate",
        items,
        make_item_columns(("path", "sizeBytes", "modificationTimeMs", "reason")),
        items,
        last_line={"type": "log-expire", "table": plan.table, **content},
        make_sections=lambda _: expiry_sections(plan, outcome),
        draw_on=partial(draw_expiry, plan, outcome),
        has_requested_rows=False,
    )


def _expired_item(file: ExpiredFile) -> JsonObject:
    return {
        "path": file.path,
        "sizeBytes": file.size_bytes,
        "modificationTimeMs": file.modified_ms,
        "reason": file.reason.value,
    }


def expiry_sections(plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> list[Section]:
    """Return the sections of a plan with its outcome, without those that are empty."""
    cutoff = f"{format_moment(plan.cutoff_ms)} UTC, {format_duration(plan.retention_ms)} ago, rounded down to midnight"
    return [
        Section("table", [plan.table]),
        Section("cutoff", [cutoff]),
        Section("log begins", [_begins(plan)]),
        Section(_verb(outcome), _expired_lines(plan) if plan.files else ["nothing"]),
        Section("versions", [_versions(plan)] if plan.files else []),
        Section("deleted", [_deleted(outcome)] if outcome else []),
        make_refusal_section(_refusal(refusal) for refusal in plan.refusals),
    ]


def _verb(outcome: ExpiryOutcome | None) -> str:
    return "delete" if outcome is None else "planned"


def _begins(plan: ExpiryPlan) -> str:
    if plan.boundary is not None:
        return f"at the checkpoint of version {plan.boundary}"
    if plan.offered_checkpoint is not None:
        return "unchanged: no checkpoint lies below the cutoff"
    return "unchanged"


def _expired_lines(plan: ExpiryPlan) -> list[str]:
    total = format_file_totals(len(plan.files), plan.size_bytes)
    by_kind = plan.as_json()["candidates"]["byKind"]
    width = max(len(kind) for kind in by_kind)
    rows = [
        f"{kind:<{width}}  {format_file_totals(totals['files'], totals['sizeBytes'])}"
        for kind, totals in sorted(by_kind.items())
    ]
    return [total, *rows]


def _versions(plan: ExpiryPlan) -> str:
    kept = f"{plural(plan.kept_versions, 'version')} can still be rebuilt"
    return f"{format_ranges(plan.lost_versions)} can no longer be rebuilt; {kept}" if plan.lost_versions else kept


def _deleted(outcome: ExpiryOutcome) -> str:
    parts = [format_file_totals(outcome.deleted, outcome.deleted_bytes)]
    if outcome.missing:
        parts.append(f"{outcome.missing:,} already missing")
    if outcome.failed.count:
        parts.append(f"{plural(outcome.failed.count, 'file')} could not be deleted")
    return ", ".join(parts)


def _refusal(refusal: Refusal) -> str:
    """The message with the rule that is broken; a proof that failed names the rule itself."""
    rule = "" if refusal.message.endswith("]") else f" [{refusal.code}]"
    return f"{refusal.message}{rule}" + (f"; override with {refusal.override}" if refusal.override else "")


def draw_expiry(plan: ExpiryPlan, outcome: ExpiryOutcome | None, canvas: Surface) -> None:
    """Draw what of a log is deleted, which versions are lost, and what the sections say besides."""
    sections = expiry_sections(plan, outcome)
    above = [section for section in sections if section.label in ("table", "cutoff", "log begins")]
    below = [section for section in sections if section.label in ("versions", "deleted")]
    rows = [*_strip(canvas, plan), *make_section_rows(canvas, below)]
    rows += make_refusal_rows(canvas, [(one.message, one.code, one.override) for one in plan.refusals])
    canvas.draw_parts(make_section_rows(canvas, above), _expired_table(canvas, plan, outcome), rows)


def _expired_table(canvas: Surface, plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> RenderableType:
    verb = _verb(outcome)
    kinds = plan.as_json()["candidates"]["byKind"]
    rows = [PlanRow(verb, kind, amount["files"], amount["sizeBytes"], "") for kind, amount in sorted(kinds.items())]
    if len(rows) != 1:
        total = (
            PlanRow(verb, "all", len(plan.files), plan.size_bytes, "")
            if rows
            else PlanRow(verb, "nothing", 0, None, "")
        )
        rows = [total, *rows]
    kept = f"{plural(plan.kept_versions, 'version')} can still be rebuilt"
    return make_plan_table(canvas, [*rows, PlanRow("keep", "log", None, None, kept)], "")


def _strip(canvas: Surface, plan: ExpiryPlan) -> list[Labelled]:
    if not plan.lost_versions or not canvas.is_screen:
        return []
    first, lost = plan.lost_versions[0], find_ranges(plan.lost_versions)
    return [("", make_version_strip(canvas, first, plan.newest_version, lost, label_cells=16))]


_FIELDS = ("action", "name", "sizeBytes", "sha256", "modificationTimeMs")


def backup_result(result: BackupResult) -> ListResult[JsonObject]:
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


def log_restore_result(plan: LogRestorePlan, *, dry_run: bool) -> ListResult[JsonObject]:
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
        Section("unchanged", [format_file_totals(plan.unchanged.files, plan.unchanged.size_bytes)]),
        Section(
            "only in log",
            [format_file_totals(plan.only_in_log.files, plan.only_in_log.size_bytes)] if plan.only_in_log.files else [],
        ),
        Section("note", plan.notes, Style.WARNING),
    ]
    return _listing("log-restore", plan.table, plan.as_json(dry_run=dry_run), plan.items(), sections)


def _listing(
    kind: str, table: str, fields: Mapping[str, Any], items: Sequence[JsonObject], sections: Sequence[Section]
) -> ListResult[JsonObject]:
    return ListResult(
        envelope(f"deltacli.{kind}", table, complete=True) | dict(fields),
        "file",
        items,
        make_item_columns(_FIELDS),
        items,
        last_line={"type": kind, "table": table, **fields},
        make_sections=lambda _: sections,
        has_requested_rows=False,
    )


def _backup(uri: str, listed: BackupList) -> str:
    version = "without a version" if listed.version is None else f"version {listed.version}"
    return f"{uri}, {version}, taken {format_moment(listed.taken_ms)} UTC"


def _some(plan: LogRestorePlan, action: str) -> Iterator[str]:
    files = [item.file for item in (*plan.writes, *plan.kept) if item.action == action]
    yield format_file_totals(len(files), sum(file.size_bytes for file in files))
    yield from (f"  {file.name}" for file in sorted(files)[:_LISTED])
    if len(files) > _LISTED:
        yield f"  and {len(files) - _LISTED:,} more: --json shows all"


def _amount(value: Mapping[str, int]) -> str:
    return format_file_totals(value["count"], value["sizeBytes"])
