"""The plan of a log's expiry, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltacli.cli.render.columns import Column
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Listing
from deltacli.cli.terminal.term import Style
from deltacli.units import format_duration, format_moment, format_ranges, format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.log.expire import ExpiredFile, ExpiryOutcome, ExpiryPlan, ExpiryRefusal

_NOTHING = {"files": 0, "sizeBytes": 0, "missing": 0, "failed": []}


def expiry_result(plan: ExpiryPlan, outcome: ExpiryOutcome | None, *, dry_run: bool) -> Listing[ExpiredFile]:
    """Return the plan with its outcome; lines and columns name every file."""
    content = plan.as_json() | {"deleted": outcome.as_json() if outcome else _NOTHING, "dryRun": dry_run}
    columns: list[Column[ExpiredFile]] = [
        Column("path", lambda file: file.path),
        Column("sizeBytes", lambda file: file.size_bytes),
        Column("modificationTimeMs", lambda file: file.modified_ms),
        Column("reason", lambda file: file.reason.value),
    ]
    return Listing(
        envelope("deltacli.log-expire", plan.table, complete=True) | content,
        "candidate",
        [_item(file) for file in plan.files],
        columns,
        plan.files,
        last={"type": "log-expire", "table": plan.table, **content},
        said=lambda _: _sections(plan, outcome),
        lists=False,
    )


def _item(file: ExpiredFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "sizeBytes": file.size_bytes,
        "modificationTimeMs": file.modified_ms,
        "reason": file.reason.value,
    }


def _sections(plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> list[Section]:
    cutoff = f"{format_moment(plan.cutoff_ms)} UTC, {format_duration(plan.retention_ms)} ago, at midnight"
    sections = [
        Section("table", [plan.table]),
        Section("cutoff", [cutoff]),
        Section("log begins", [_begins(plan)]),
        Section(_verb(outcome), _files(plan) if plan.files else ["nothing"]),
        Section("versions", [_versions(plan)] if plan.files else []),
        Section("deleted", [_deleted(outcome)] if outcome else []),
        Section("refused", [_refusal(refusal) for refusal in plan.refusals], Style.PROBLEM),
    ]
    return [section for section in sections if section.lines]


def _verb(outcome: ExpiryOutcome | None) -> str:
    """What is said of the plan's files: `gone` only where none of them is left."""
    if outcome is None:
        return "goes"
    return "planned" if outcome.failed else "gone"


def _begins(plan: ExpiryPlan) -> str:
    if plan.boundary is not None:
        return f"at the checkpoint of version {plan.boundary}"
    if plan.offered_checkpoint is not None:
        return "as now: no checkpoint lies below the cutoff"
    return "as now"


def _files(plan: ExpiryPlan) -> list[str]:
    total = f"{plural(len(plan.files), 'file')}, {format_size(plan.size_bytes)}"
    by_kind = plan.as_json()["candidates"]["byKind"]
    width = max(len(kind) for kind in by_kind)
    rows = [
        f"{kind:<{width}}  {plural(found['files'], 'file')}, {format_size(found['sizeBytes'])}"
        for kind, found in sorted(by_kind.items())
    ]
    return [total, *rows]


def _versions(plan: ExpiryPlan) -> str:
    kept = f"{plural(plan.kept_versions, 'version')} can still be rebuilt"
    return f"{format_ranges(plan.lost_versions)} can't be rebuilt afterwards; {kept}" if plan.lost_versions else kept


def _deleted(outcome: ExpiryOutcome) -> str:
    parts = [f"{plural(outcome.deleted, 'file')}, {format_size(outcome.deleted_bytes)}"]
    if outcome.missing:
        parts.append(f"{outcome.missing:,} were gone already")
    if outcome.failed:
        parts.append(f"{plural(len(outcome.failed), 'file')} could not be deleted")
    return ", ".join(parts)


def _refusal(refusal: ExpiryRefusal) -> str:
    """The message with the rule that is broken; a proof that failed names the rule itself."""
    rule = "" if refusal.message.endswith("]") else f" [{refusal.code}]"
    return f"{refusal.message}{rule}" + (f"; to do it all the same: {refusal.override}" if refusal.override else "")
