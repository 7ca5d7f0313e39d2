"""`deltacli vacuum --quarantine URI --purge-older D`: plan, ask, empty the quarantine of one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.confirmation import now_is_ahead, require_confirmation, require_now_is_not_ahead
from deltacli.cli.invocation import invocation
from deltacli.cli.render.sections import Section
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again, again_without
from deltacli.cli.terminal.term import Style
from deltacli.operations.quarantine.purge import PurgeOutcome, PurgePlan, execute_purge, plan_purge, require_purged
from deltacli.units import format_moment, format_size, plural

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run
    from deltacli.operations.table.handle import TableHandle

_NAMED = 5


def purge(run: Run, table: TableHandle, uri: str, older_ms: int, *, dry_run: bool, yes: bool) -> None:
    """Run the command. Raises Refused and PartlyDone where directories or files are left that should be gone."""
    plan, outcome = plan_purge(table, uri, older_ms), PurgeOutcome()
    again_now = again(invocation.arguments)
    if dry_run or not plan.due:
        _show(run, plan, None, dry_run=dry_run)
        require_purged(plan, outcome, again=again_now)
        if plan.due and not now_is_ahead(run):
            run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    what = (
        f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of {plural(len(plan.due), 'plan')} "
        f"from the quarantine {plan.quarantine}, for good"
    )
    require_confirmation(run, what, yes=yes, show_plan=lambda: _show(run, plan, None, dry_run=True))
    require_now_is_not_ahead(run)
    try:
        execute_purge(table, plan, outcome)
    except Interrupted as interruption:
        done = f"{outcome.files:,} of {plural(plan.files, 'file')} deleted from the quarantine"
        interruption.outcome = f"{done}; run the same command to continue"
        raise
    _show(run, plan, outcome, dry_run=False)
    require_purged(plan, outcome, again=again_now)


def _show(run: Run, plan: PurgePlan, outcome: PurgeOutcome | None, *, dry_run: bool) -> None:
    content = {**plan.as_json(), **(outcome or PurgeOutcome()).as_json(), "dryRun": dry_run}
    columns = ("quarantine", "tableId", "plans", "files", "sizeBytes", "oldestMs", "newestMs", "deleted")
    deleted = 0 if outcome is None else outcome.files
    due = content["due"]
    assert isinstance(due, dict)
    row = {"quarantine": plan.quarantine, "tableId": plan.table_id, **due, "deleted": deleted}
    run.write(Outcome("vacuum-purge", plan.table, content, lambda: _sections(plan, outcome), [row], columns))


def _sections(plan: PurgePlan, outcome: PurgeOutcome | None) -> list[Section]:
    planned = "nothing"
    if not (plan.due or plan.young or plan.unnamed or plan.refusals or plan.incomplete):
        planned = "nothing: no copies of this table are there"
    if plan.due:
        times = [due.mark[1] for due in plan.due]
        spans = " to ".join(dict.fromkeys(f"{format_moment(moment)} UTC" for moment in (min(times), max(times))))
        amount = f"{plural(plan.files, 'file')}, {format_size(plan.size_bytes)}"
        planned = f"{amount}, of {plural(len(plan.due), 'plan')}: {spans}"
    return [
        Section("table", [plan.table]),
        Section("quarantine", [f"{plan.quarantine}/{plan.table_id}"]),
        Section("cutoff", [f"plans older than {format_moment(plan.cutoff_ms)} UTC"]),
        Section("delete" if outcome is None else "planned", [planned]),
        Section("incomplete", [f"{one}: its vacuum did not end" for one in plan.incomplete]),
        Section("keep", [f"{plural(plan.young, 'plan')}, not older"] if plan.young else []),
        Section("unnamed", _unnamed(plan)),
        Section("refused", [f"{directory}: {why}" for directory, why in plan.refusals], Style.PROBLEM),
        *([] if outcome is None else [Section("deleted", [plural(outcome.files, "file")])]),
        *([] if outcome is None else [Section("failed", [": ".join(one) for one in outcome.failed[:_NAMED]])]),
    ]


def _unnamed(plan: PurgePlan) -> list[str]:
    """Return what stays because no manifest names it."""
    if not plan.unnamed:
        return []
    named = list(plan.unnamed[:_NAMED])
    more = len(plan.unnamed) - len(named)
    return [f"kept, {len(plan.unnamed):,} that no manifest names", *named, *([f"and {more:,} more"] if more else [])]
