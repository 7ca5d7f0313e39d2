"""The purge of a quarantine as sections, a row and a document."""

from __future__ import annotations

from deltacli.cli.render.columns import Section, file_amount
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.term import Style
from deltacli.core.units import format_moment, plural
from deltacli.operations.vacuum.quarantine import PurgeOutcome, PurgePlan

_NAMED = 5


def purge_result(plan: PurgePlan, outcome: PurgeOutcome | None, *, dry_run: bool) -> Outcome:
    """Return a purge as a result: the plan, and what was deleted."""
    content = {**plan.as_json(), **(outcome or PurgeOutcome()).as_json(), "dryRun": dry_run}
    columns = ("quarantine", "tableId", "plans", "files", "sizeBytes", "oldestMs", "newestMs", "deleted")
    deleted = 0 if outcome is None else outcome.files
    due = content["due"]
    assert isinstance(due, dict)
    row = {"quarantine": plan.quarantine, "tableId": plan.table_id, **due, "deleted": deleted}
    return Outcome("vacuum-purge", plan.table, content, lambda: _purge_sections(plan, outcome), [row], columns)


def _purge_sections(plan: PurgePlan, outcome: PurgeOutcome | None) -> list[Section]:
    planned = "nothing"
    if not (plan.due or plan.young or plan.unnamed or plan.refusals or plan.incomplete or plan.others):
        planned = "nothing: no copies of this table are there"
    if plan.due:
        times = [due.mark[1] for due in plan.due]
        spans = " to ".join(dict.fromkeys(f"{format_moment(moment)} UTC" for moment in (min(times), max(times))))
        amount = file_amount(plan.files, plan.size_bytes)
        planned = f"{amount}, of {plural(len(plan.due), 'plan')}: {spans}"
    return [
        Section("table", [plan.table]),
        Section("quarantine", [f"{plan.quarantine}/{plan.table_id}"]),
        Section("cutoff", [f"plans older than {format_moment(plan.cutoff_ms)} UTC"]),
        Section("delete" if outcome is None else "planned", [planned]),
        Section("incomplete", [f"{one}: its vacuum did not end" for one in plan.incomplete]),
        Section("keep", [f"{plural(plan.young, 'plan')}, not older"] if plan.young else []),
        Section("unnamed", _unnamed(plan)),
        Section("refused", [f"{one.files[0]}: {one.message}" for one in plan.refusals], Style.PROBLEM),
        Section("not its own", [f"{directory}: of {address}" for directory, address in plan.others[:_NAMED]]),
        *([] if outcome is None else [Section("deleted", [plural(outcome.files, "file")])]),
        *([] if outcome is None else [Section("failed", [": ".join(one) for one in outcome.failed.named[:_NAMED]])]),
    ]


def _unnamed(plan: PurgePlan) -> list[str]:
    """Return what stays because no manifest names it."""
    if not plan.unnamed:
        return []
    named = list(plan.unnamed[:_NAMED])
    more = len(plan.unnamed) - len(named)
    return [f"kept, {len(plan.unnamed):,} that no manifest names", *named, *([f"and {more:,} more"] if more else [])]
