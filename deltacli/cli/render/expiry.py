"""The plan of `log expire`, and what became of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from deltacli.cli.render.columns import item_columns
from deltacli.cli.render.json import envelope
from deltacli.cli.render.sections import Section, refused
from deltacli.cli.results import Listing
from deltacli.typing import JsonObject
from deltacli.units import format_duration, format_moment, format_ranges, format_size, plural

if TYPE_CHECKING:
    from deltacli.cli.render.terminal.console import Canvas
    from deltacli.operations.log.expire import ExpiryPlan, ExpiryRefusal
    from deltacli.operations.log.expire_deleting import ExpiredFile, ExpiryOutcome

_NOTHING = {"files": 0, "sizeBytes": 0, "missing": 0, "failed": []}


def expiry_result(plan: ExpiryPlan, outcome: ExpiryOutcome | None, *, dry_run: bool) -> Listing[JsonObject]:
    """Return the plan with its outcome; lines and columns name every file."""
    content = plan.as_json() | {"deleted": outcome.as_json() if outcome else _NOTHING, "dryRun": dry_run}
    items = [_item(file) for file in plan.files]
    return Listing(
        envelope("deltacli.log-expire", plan.table, complete=True) | content,
        "candidate",
        items,
        item_columns(("path", "sizeBytes", "modificationTimeMs", "reason")),
        items,
        last={"type": "log-expire", "table": plan.table, **content},
        said=lambda _: expiry_sections(plan, outcome),
        drawn=partial(_draw, plan, outcome),
        lists=False,
    )


def _draw(plan: ExpiryPlan, outcome: ExpiryOutcome | None, canvas: Canvas) -> None:
    from deltacli.cli.render.terminal.log_plans import draw_expiry

    draw_expiry(canvas, plan, outcome, expiry_sections(plan, outcome))


def _item(file: ExpiredFile) -> JsonObject:
    return {
        "path": file.path,
        "sizeBytes": file.size_bytes,
        "modificationTimeMs": file.modified_ms,
        "reason": file.reason.value,
    }


def expiry_sections(plan: ExpiryPlan, outcome: ExpiryOutcome | None) -> list[Section]:
    """Return the sections of a plan with its outcome, without those that are empty."""
    cutoff = f"{format_moment(plan.cutoff_ms)} UTC, {format_duration(plan.retention_ms)} ago, at midnight"
    return [
        Section("table", [plan.table]),
        Section("cutoff", [cutoff]),
        Section("log begins", [_begins(plan)]),
        Section(_verb(outcome), _files(plan) if plan.files else ["nothing"]),
        Section("versions", [_versions(plan)] if plan.files else []),
        Section("deleted", [_deleted(outcome)] if outcome else []),
        refused(_refusal(refusal) for refusal in plan.refusals),
    ]


def _verb(outcome: ExpiryOutcome | None) -> str:
    """Return the label of the plan's files. The section `deleted` says how many of them were deleted."""
    return "delete" if outcome is None else "planned"


def _begins(plan: ExpiryPlan) -> str:
    if plan.boundary is not None:
        return f"at the checkpoint of version {plan.boundary}"
    if plan.offered_checkpoint is not None:
        return "unchanged: no checkpoint lies below the cutoff"
    return "unchanged"


def _files(plan: ExpiryPlan) -> list[str]:
    total = f"{plural(len(plan.files), 'file')}, {format_size(plan.size_bytes)}"
    by_kind = plan.as_json()["candidates"]["byKind"]
    width = max(len(kind) for kind in by_kind)
    rows = [
        f"{kind:<{width}}  {plural(totals['files'], 'file')}, {format_size(totals['sizeBytes'])}"
        for kind, totals in sorted(by_kind.items())
    ]
    return [total, *rows]


def _versions(plan: ExpiryPlan) -> str:
    kept = f"{plural(plan.kept_versions, 'version')} can still be rebuilt"
    return f"{format_ranges(plan.lost_versions)} can no longer be rebuilt; {kept}" if plan.lost_versions else kept


def _deleted(outcome: ExpiryOutcome) -> str:
    parts = [f"{plural(outcome.deleted, 'file')}, {format_size(outcome.deleted_bytes)}"]
    if outcome.missing:
        parts.append(f"{outcome.missing:,} already missing")
    if outcome.failed:
        parts.append(f"{plural(len(outcome.failed), 'file')} could not be deleted")
    return ", ".join(parts)


def _refusal(refusal: ExpiryRefusal) -> str:
    """The message with the rule that is broken; a proof that failed names the rule itself."""
    rule = "" if refusal.message.endswith("]") else f" [{refusal.code}]"
    return f"{refusal.message}{rule}" + (f"; override with {refusal.override}" if refusal.override else "")
