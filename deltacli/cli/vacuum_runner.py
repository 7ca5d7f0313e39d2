"""A run of `vacuum` on a Delta table: plan, ask, delete; or save, apply or explain a plan; or empty the quarantine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.cli.confirmation import now_is_ahead, require_confirmation, require_now_is_not_ahead
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import BranchOption, DryRunOption, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.render.sections import Section, file_amount
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.output import require_target
from deltacli.cli.terminal.shell import (
    again,
    again_past,
    again_with,
    again_without,
    quoted,
    quoted_table,
    without_option,
)
from deltacli.cli.terminal.term import Style
from deltacli.errors import DeltacliError, PartlyDone, Refused
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumResult
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.request_fields import OF_DELTA, OF_PAIMON, Kind, option
from deltacli.storage.base import OTHER_PLACE
from deltacli.units import format_moment, format_size, plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.vacuum.deleting import Record
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.operations.vacuum.quarantine.purge import PurgeOutcome, PurgePlan

_NAMED = 5
_SAVE_AGAIN = "deltacli vacuum {{table}} --save-plan plan.parquet {override}"


@dataclass(frozen=True, eq=False, repr=False)
class VacuumOptions:
    """What the command does with the plan; of Paimon tables, which schemas it deletes."""

    files: bool = option("List every file to delete; csv and ndjson always do.", default=False)
    save_plan: str | None = option(
        "Write the plan to a Parquet file and delete nothing.", "FILE", table_format=OF_DELTA
    )
    apply: str | None = option("Execute a saved plan, or resume it.", "FILE", table_format=OF_DELTA)
    accept_copy: bool = option(
        "With --apply, accept the plan of a table elsewhere of which this one is a copy with the same past.",
        default=False,
        table_format=OF_DELTA,
    )
    explain: str | None = option("Show why one file is kept or deleted; change nothing.", "PATH", table_format=OF_DELTA)
    purge_older_ms: int | None = option(
        "Only empty the quarantine of this table: delete copies older than this, such as 30d, no file of the table.",
        "DURATION",
        Kind.DURATION,
        table_format=OF_DELTA,
    )
    schemas: bool = option(
        "Delete schema files of a Paimon table that nothing needs.", default=False, table_format=OF_PAIMON
    )
    keep_last: int | None = option(
        "Keep the last K schemas of a Paimon table, whatever their age.  [default: 10]",
        "K",
        Kind.COUNT,
        table_format=OF_PAIMON,
    )
    branch: BranchOption = None
    dry_run: DryRunOption = False
    yes: YesOption = False


class VacuumCommand(NamedTuple):
    """A run of the command: the table and the form of its output."""

    run: Run
    name: str
    """The table as the user wrote it."""
    table: Table
    request: VacuumRequest
    how: VacuumOptions

    def carry_out(self) -> None:
        """Run the mode that the options select; at most one of them is given."""
        if self.how.purge_older_ms is not None:
            assert self.request.quarantine is not None  # the command requires it
            self.purge(self.request.quarantine, self.how.purge_older_ms)
        elif self.how.explain is not None:
            self.explain(self.how.explain)
        elif self.how.save_plan is not None:
            self.save(self.how.save_plan)
        elif self.how.apply is not None:
            self.apply(self.how.apply)
        else:
            self.vacuum()

    def vacuum(self) -> None:
        """Plan, ask, delete."""
        plan = self._plan()
        if self.how.dry_run:
            self._show_dry(plan)
            is_next = not plan.missing_live.files and not now_is_ahead(self.run)
            if (plan.files or plan.directories) and is_next:
                self.run.say_next(again_without(invocation.arguments, "--dry-run"))
            return
        if self._is_due(plan):
            self._report(plan, self._execute(plan, None, VacuumOutcome()))

    def purge(self, quarantine: str, older_ms: int) -> None:
        """Empty a quarantine, and leave the table as it is. Raises Refused and PartlyDone where something is left that
        should be gone.
        """
        from deltacli.operations.vacuum.quarantine.purge import PurgeOutcome, execute_purge, plan_purge, require_purged

        plan, outcome = plan_purge(self.table, quarantine, older_ms), PurgeOutcome()
        again_now = again(invocation.arguments)
        if self.how.dry_run or not plan.due:
            _show_purge(self.run, plan, None, dry_run=self.how.dry_run)
            require_purged(plan, outcome, again=again_now)
            if plan.due and not now_is_ahead(self.run):
                self.run.say_next(again_without(invocation.arguments, "--dry-run"))
            return
        what = (
            f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of {plural(len(plan.due), 'plan')} "
            f"from the quarantine {plan.quarantine}, for good"
        )
        require_confirmation(
            self.run, what, yes=self.how.yes, show_plan=lambda: _show_purge(self.run, plan, None, dry_run=True)
        )
        require_now_is_not_ahead(self.run)
        try:
            execute_purge(self.table, plan, outcome)
        except Interrupted as interruption:
            done = f"{outcome.files:,} of {plural(plan.files, 'file')} deleted from the quarantine"
            interruption.outcome = f"{done}; run the same command to continue"
            raise
        _show_purge(self.run, plan, outcome, dry_run=False)
        require_purged(plan, outcome, again=again_now)

    def save(self, path: str) -> None:
        """Plan and save the plan. A refused plan is saved as well, then Refused is raised."""
        from deltacli.operations.vacuum.saved.applicable import with_past
        from deltacli.operations.vacuum.saved.plan_file import save_plan

        require_target(path, "--save-plan")
        plan = self._plan()
        save_plan(with_past(self.table, plan), path)
        self._show_dry(plan)
        if self.run.format.is_for_eyes and (plan.files or plan.directories):
            following = f"deltacli vacuum {quoted_table(self.name)} --apply {quoted(path)} --yes"
            self.run.say_next(following, also_in_pipe=True)

    def apply(self, path: str) -> None:
        """Execute a saved plan, starting where an earlier run stopped."""
        from deltacli.errors import Refusal
        from deltacli.operations.vacuum.execute import with_quarantine
        from deltacli.operations.vacuum.saved.applicable import adopted
        from deltacli.operations.vacuum.saved.plan_file import read_plan

        plan = read_plan(path)
        if self.request.quarantine is not None:
            plan = with_quarantine(self.table, plan, self.request.quarantine)
        self._say_notes(plan)
        try:
            plan = adopted(self.table, plan, accept_copy=self.how.accept_copy)
        except Refused as refused:
            if refused.code == OTHER_PLACE:
                refused.hint = again_with(invocation.arguments, "--accept-copy")
            first = Refusal(refused.code, refused.message, hint=refused.hint)
            if self.how.dry_run:
                self._show(replace(plan, refusals=(first, *plan.refusals)), None, dry_run=True)
            raise
        if self.how.dry_run:
            self._show_dry(plan, _SAVE_AGAIN)
        elif self._is_due(plan, _SAVE_AGAIN):
            self._go_on(plan, path)

    def _go_on(self, plan: VacuumPlan, path: str) -> None:
        """Execute what the record next to the plan file does not list as done, and write the report there."""
        from deltacli.operations.vacuum.saved.plan_file import write_report
        from deltacli.operations.vacuum.saved.progress_record import ProgressRecord, describe

        with ProgressRecord(path, plan, table=self.table.uri) as record:
            outcome = record.counts
            if record.is_completed or record.resume_at:
                self.run.note(f"note: {describe(record)}")
            if record.is_completed:
                self._show(plan, outcome, dry_run=False)
                return
            outcome = self._execute(plan, record, outcome)
        report = write_report(plan, outcome, path, now_ms=self.table.clock())
        self.run.note(f"note: the report is {report}")
        self._report(plan, outcome)

    def explain(self, path: str) -> None:
        """Show why one file is kept or deleted."""
        from deltacli.cli.render.vacuum.screen import explanation_sections
        from deltacli.cli.results import Outcome
        from deltacli.operations.vacuum.explain import explain_file

        explanation = explain_file(self.table, self.request, path)
        content = explanation.as_json()
        columns = ("version", "timestampMs", "action", "operation", "detail")
        uri, rows = self.table.uri, content["commits"]
        self.run.write(
            Outcome("vacuum-explain", uri, content, lambda: explanation_sections(uri, explanation), rows, columns)
        )

    def _plan(self) -> VacuumPlan:
        from deltacli.operations.vacuum.full_plan import plan_vacuum

        plan = plan_vacuum(self.table, self.request)
        self._say_notes(plan)
        return plan

    def _say_notes(self, plan: VacuumPlan) -> None:
        for note in plan.notes:
            self.run.note(f"note: {note}")

    def _is_due(self, plan: VacuumPlan, way_out: str | None = None) -> bool:
        """Return True if there are files to delete, no guard objects and the user confirmed. Raises Refused.

        Guards apply even if nothing would be deleted: an empty listing does not prove that there is no garbage.
        """
        if plan.refusals:
            self._show_dry(plan, way_out)
        if not plan.files and not plan.directories:
            if self.how.yes:
                self._execute(plan, None, VacuumOutcome())  # the next run needs to know how far the log was examined
            self._show(plan, None, dry_run=False)
            return False
        what = f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of {plan.table}"
        if plan.quarantine is not None:
            what += f", with copies in {self.request.quarantine or plan.quarantine}"
        require_confirmation(self.run, what, yes=self.how.yes, show_plan=lambda: self._show(plan, None, dry_run=True))
        return True

    def _execute(self, plan: VacuumPlan, record: Record | None, outcome: VacuumOutcome) -> VacuumOutcome:
        """Delete the files; `outcome` has what earlier runs did and is updated."""
        from deltacli.operations.vacuum.execute import execute_vacuum

        require_now_is_not_ahead(self.run)
        before = outcome.deleted.files
        try:
            return execute_vacuum(self.table, plan, self.request, outcome=outcome, record=record)
        except Interrupted as interruption:
            notes = getattr(interruption, "__notes__", None)
            interruption.outcome = _so_far(plan, outcome, notes[0] if notes else None)
            raise
        except DeltacliError as fault:
            if outcome.start_version is None and outcome.deleted.files == before:
                raise
            self._show(plan, outcome, dry_run=False)
            fault.facts["so far"] = _done(plan, outcome, None)
            if outcome.deleted.files == before:
                raise
            raise PartlyDone(fault.message, code=fault.code, facts=fault.facts, hint=fault.hint) from fault

    def _report(self, plan: VacuumPlan, outcome: VacuumOutcome) -> None:
        self._show(plan, outcome, dry_run=False)
        if outcome.quarantine is not None:
            source = quoted(self.request.quarantine or plan.quarantine or "")
            self.run.note(
                f"note: copies of the files are in {outcome.quarantine}; to bring those of version N back: "
                f"deltacli undelete {quoted_table(self.name)} --version N --from {source}"
            )
        try:
            VacuumResult(plan, outcome).require_complete()
        except PartlyDone as partly:
            partly.hint = again(invocation.arguments)
            raise
        self.run.say_next(f"deltacli history {quoted_table(self.name)} --limit 3")

    def _show_dry(self, plan: VacuumPlan, way_out: str | None = None) -> None:
        """Show a plan that is not executed. Raises Refused where a guard objects; `way_out` becomes the
        hint, by default this command with the option that overrides the guard.
        """
        self._show(plan, None, dry_run=True)
        if plan.refusals:
            raise _refused(plan, way_out)

    def _show(self, plan: VacuumPlan, outcome: VacuumOutcome | None, *, dry_run: bool) -> None:
        from deltacli.cli.render.vacuum.formats import VacuumResult as Shown

        self.run.write(Shown(plan, outcome, dry_run, self.how.files))


def _refused(plan: VacuumPlan, way_out: str | None) -> Refused:
    """Return the first objection to a plan with the option that overrides it; further ones become facts."""
    first, arguments = plan.refusals[0], invocation.arguments
    hint = _hint_past(first.override, way_out) if first.override else first.hint
    facts = {"guard": first.code}
    if first.code == "vacuum.retention" and way_out is None and hint is not None:
        facts["if no reader is older"] = hint
        hint = again(without_option(arguments, "--retention"))
    return Refused.by(plan.refusals, facts, hint)


def _hint_past(override: str, way_out: str | None) -> str:
    if way_out is not None:
        return way_out.format(override=override)
    return again_past(invocation.arguments, override)


def _so_far(plan: VacuumPlan, outcome: VacuumOutcome, in_flight: str | None) -> str:
    """Describe what an interrupted run did; `in_flight` is the outcome of a commit that was in flight."""
    if not outcome.deleted.files and outcome.start_version is None:
        return "nothing was deleted" if in_flight is None else f"nothing was deleted, VACUUM START: {in_flight}"
    done = _done(plan, outcome, in_flight)
    return done if outcome.end_status == "COMPLETED" else f"{done}; run the same command to continue"


def _done(plan: VacuumPlan, outcome: VacuumOutcome, in_flight: str | None) -> str:
    done = f"{outcome.deleted.files:,} of {plural(plan.files, 'file')} deleted"
    if outcome.end_version is not None:
        done += f", VACUUM END ({outcome.end_status}) is version {outcome.end_version}"
    elif outcome.start_version is not None:
        done += ", VACUUM END was not written" if in_flight is None else f", VACUUM END: {in_flight}"
    return done


def _show_purge(run: Run, plan: PurgePlan, outcome: PurgeOutcome | None, *, dry_run: bool) -> None:
    from deltacli.operations.vacuum.quarantine.purge import PurgeOutcome

    content = {**plan.as_json(), **(outcome or PurgeOutcome()).as_json(), "dryRun": dry_run}
    columns = ("quarantine", "tableId", "plans", "files", "sizeBytes", "oldestMs", "newestMs", "deleted")
    deleted = 0 if outcome is None else outcome.files
    due = content["due"]
    assert isinstance(due, dict)
    row = {"quarantine": plan.quarantine, "tableId": plan.table_id, **due, "deleted": deleted}
    run.write(Outcome("vacuum-purge", plan.table, content, lambda: _purge_sections(plan, outcome), [row], columns))


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
