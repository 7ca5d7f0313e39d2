"""The options of `vacuum` that are not of its request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.change import Change, plan_change
from deltacli.changing.file_totals import NO_FILES, FileTotals
from deltacli.changing.outcome import OutcomeT
from deltacli.changing.plan import PlanT
from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import require_file_outside_tables
from deltacli.cli.output.results import Result, SingleResult
from deltacli.cli.running.changing import Mode, Wording, run_change
from deltacli.cli.running.run import CommandContext
from deltacli.cli.terminal.suggested_commands import suggest_own_retention
from deltacli.core.errors import PaimonTable, PartlyDone, Refused, quote_table, quote_word
from deltacli.core.units import format_size, plural
from deltacli.operations.vacuum.full_plan import VacuumChange
from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan, VacuumRequest, VacuumResult
from deltacli.storage.directory_identity import OTHER_DIRECTORY
from deltacli.table.handle import TableHandle, managed_store

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class VacuumOptions:
    """What the command does with the plan; of Paimon tables, which schemas it deletes."""

    files: bool = False
    save_plan: str | None = None
    apply: str | None = None
    accept_copy: bool = False
    explain: str | None = None
    purge_older_ms: int | None = None
    schemas: bool = False
    keep_last: int | None = None
    branch: str | None = None
    dry_run: bool = False
    yes: bool = False


# -- a run of `vacuum` on a Delta table --------------------------------------------------------------------------------

_SAVE_AGAIN = "deltacli vacuum {{table}} --save-plan plan.parquet {override}"


def vacuum_schemas(run: CommandContext, name: str, table: Paimon, asked: VacuumRequest, options: VacuumOptions) -> None:
    """Delete schema files that nothing needs. Raises PaimonTable without `--schemas`, and Refused."""
    from deltacli.cli.render.paimon import schema_vacuum_wording
    from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum, SchemaVacuumRequest

    if not options.schemas:
        raise PaimonTable(
            "this is a Paimon table: vacuum deletes its schema files only, with --schemas",
            facts={"path": table.uri},
            hint="deltacli vacuum {table} --schemas --dry-run",
        )
    retention_ms, limit_ms = asked.retention_ms, asked.allow_retention_below_ms
    change = SchemaVacuum(SchemaVacuumRequest.of(options.branch, retention_ms, limit_ms, options.keep_last))
    wording = schema_vacuum_wording(name, lists=options.files)
    _carry_out(run, table, change, wording, options, "if no writer is older")


def _carry_out(
    run: CommandContext,
    table: TableHandle,
    change: Change[PlanT, OutcomeT],
    wording: Wording[PlanT, OutcomeT],
    options: VacuumOptions,
    condition: str = "if no reader is older",
) -> None:
    """Carry out a vacuum in the mode of the options. `condition` is that under which a shorter retention is safe."""
    told = replace(wording, repeats=True, refused=lambda refused: _keep_retention(refused, condition))
    run_change(run, table, change, told, Mode(options.dry_run, options.yes))


def _keep_retention(refused: Refused | PartlyDone, condition: str) -> None:
    if isinstance(refused, Refused) and refused.code == "vacuum.retention" and refused.override:
        suggest_own_retention(refused, invocation.arguments, refused.override, condition)


def _deleted_files(result: VacuumResult) -> tuple[int, int]:
    deleted = NO_FILES if result.outcome is None else result.outcome.deleted
    return deleted.files, deleted.size_bytes


class VacuumCommand(NamedTuple):
    """A run of the command: the table and the form of its output."""

    run: CommandContext
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
        self._run(VacuumChange(self.request))

    def purge(self, quarantine: str, older_ms: int) -> None:
        """Empty a quarantine, and leave the table as it is."""
        from deltacli.cli.render.vacuum import purge_result
        from deltacli.operations.vacuum.quarantine import QuarantinePurge

        _carry_out(
            self.run,
            self.table,
            QuarantinePurge(quarantine, older_ms, self.how.dry_run),
            Wording(
                lambda plan: (
                    f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of "
                    f"{plural(len(plan.due), 'plan')} from the quarantine {plan.quarantine}, for good"
                ),
                lambda plan, is_dry: purge_result(plan, None, dry_run=is_dry),
                lambda result: purge_result(*result, dry_run=False),
                lambda _: None,
                deletes_by_age=True,
            ),
            self.how,
        )

    def save(self, path: str) -> None:
        """Plan and save the plan. A refused plan is saved as well, then Refused is raised."""
        from deltacli.operations.vacuum.rechecking import with_past
        from deltacli.operations.vacuum.saved import save_plan

        require_file_outside_tables(path, "--save-plan")
        plan = plan_change(VacuumChange(self.request), self.table)
        for note in plan.notes:
            self.run.note(f"note: {note}")
        invocation.writes(path)
        save_plan(with_past(self.table, plan), path)
        self.run.write(self._result(plan, None, dry_run=True))
        if (refusal := plan.build_refusal()) is not None:
            _keep_retention(refusal, "if no reader is older")
            raise refusal
        if self.run.format.is_for_people and not plan.is_noop:
            following = f"deltacli vacuum {quote_table(self.name)} --apply {quote_word(path)} --yes"
            self.run.say_next(following, also_in_pipe=True)

    def apply(self, path: str) -> None:
        """Execute a saved plan, starting where an earlier run stopped."""
        from deltacli.operations.vacuum.execute import SavedVacuum

        change = SavedVacuum(path, self.request, self.how.accept_copy, lambda text: self.run.note(f"note: {text}"))
        try:
            self._run(change, following=lambda: not change.was_complete)
        except Refused as refused:
            if refused.override and refused.code != OTHER_DIRECTORY:
                refused.hint = _SAVE_AGAIN.format(override=refused.override)
            raise

    def explain(self, path: str) -> None:
        """Show why one file is kept or deleted."""
        from deltacli.cli.render.vacuum import explanation_sections
        from deltacli.operations.vacuum.explain import explain_file

        explanation = explain_file(self.table, self.request, path)
        content = explanation.as_json()
        columns = ("version", "timestampMs", "action", "operation", "detail")
        uri, rows = self.table.uri, content["commits"]
        self.run.write(
            SingleResult("vacuum-explain", uri, content, lambda: explanation_sections(uri, explanation), rows, columns)
        )

    def _run(self, change: Change[VacuumPlan, VacuumResult], following: Callable[[], bool] = lambda: True) -> None:
        """Carry out a vacuum in the mode of the options."""
        name = quote_table(self.name)
        plans: list[VacuumPlan] = []

        def planned(plan: VacuumPlan, is_dry: bool) -> Result:
            plans.append(plan)
            return self._result(plan, None, dry_run=is_dry)

        def done(result: VacuumResult) -> Result:
            if result.outcome is not None and result.outcome.quarantine is not None:
                source = quote_word(self.request.quarantine or result.plan.quarantine or "")
                # files come back to a table of a catalog by a commit only
                way_back = (
                    "restore" if managed_store(result.plan.base_version.table.storage) is not None else "undelete"
                )
                self.run.note(
                    f"note: copies of the files are in {result.outcome.quarantine}; to bring those of version N back: "
                    f"deltacli {way_back} {name} --version N --from {source}"
                )
            return self._result(*result, dry_run=False)

        wording = Wording(
            self._question,
            planned,
            done,
            following=lambda _: f"deltacli history {name} --limit 3" if following() else None,
            notes=lambda plan: plan.notes,
            before=lambda plan: "" if plan.missing_live.files else None,
            deletes_by_age=True,
            deed=lambda plan: ("delete", FileTotals(plan.files, plan.size_bytes)),
            achieved=_deleted_files,
            kept="" if self.request.quarantine is None else f", with copies in {self.request.quarantine}",
        )
        _carry_out(self.run, self.table, change, wording, self.how)
        if self.how.yes and not self.how.dry_run and plans:
            from deltacli.operations.vacuum.execute import note_progress

            note_progress(plans[0])

    def _question(self, plan: VacuumPlan) -> str:
        what = f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of {plan.table}"
        return (
            what if plan.quarantine is None else f"{what}, with copies in {self.request.quarantine or plan.quarantine}"
        )

    def _result(self, plan: VacuumPlan, outcome: VacuumOutcome | None, *, dry_run: bool) -> Result:
        from deltacli.cli.render.vacuum import VacuumResult as Shown

        return Shown(plan, outcome, dry_run, self.how.files)
