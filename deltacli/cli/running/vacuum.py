"""What `vacuum` does with one table: delete, save a plan or apply it, explain a file, or empty a quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.file_totals import NO_FILES, FileTotals
from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import require_file_outside_tables
from deltacli.cli.output.results import Result, SingleResult
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import suggest_own_retention
from deltacli.core.errors import PartlyDone, Refused, quote_table, quote_word
from deltacli.core.units import format_size, plural
from deltacli.storage.directory_identity import OTHER_DIRECTORY

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.api.prepared_vacuum import PreparedVacuum
    from deltacli.api.table import Table
    from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan, VacuumResult
    from deltacli.operations.vacuum.quarantine import PurgePlan, PurgeResult


@dataclass(frozen=True, eq=False, repr=False)
class VacuumOptions:
    """What the command does with the plan of a Delta table.

    Attributes:
        files: True to list every file.
        save_plan: The file to save the plan to.
        apply: The file of a plan to execute.
        explain: A file of the table to explain.
        purge_older_ms: The age of copies in the quarantine, in milliseconds, from which they are deleted.
        quarantine: The directory that gets copies.
        dry_run: True to change nothing.
        yes: True if no question is asked.
    """

    files: bool = False
    save_plan: str | None = None
    apply: str | None = None
    explain: str | None = None
    purge_older_ms: int | None = None
    quarantine: str | None = None
    dry_run: bool = False
    yes: bool = False

    @property
    def mode(self) -> Mode:
        """Whether the plan is executed, and with a question."""
        return Mode(self.dry_run, self.yes)


_SAVE_AGAIN = "deltacli vacuum {{table}} --save-plan plan.parquet {override}"


def explain_short_retention(refused: Refused | PartlyDone, condition: str) -> None:
    """Make the hint of a refused retention the command that accepts it.

    Args:
        refused: The refusal. Others are not changed.
        condition: The condition under which a shorter retention is safe.
    """
    if isinstance(refused, Refused) and refused.code == "vacuum.retention" and refused.override:
        suggest_own_retention(refused, invocation.arguments, refused.override, condition)


def _explain_short_retention(refused: Refused | PartlyDone) -> None:
    explain_short_retention(refused, "if no reader is older")


def _deleted_files(result: VacuumResult) -> tuple[int, int]:
    deleted = NO_FILES if result.outcome is None else result.outcome.deleted
    return deleted.files, deleted.size_bytes


class VacuumCommand(NamedTuple):
    """A run of the command on one Delta table.

    Attributes:
        run: The run.
        name: The table as the user wrote it.
        table: The table.
        how: What is done with the plan, and how it is shown.
    """

    run: CommandContext
    name: str
    table: Table
    how: VacuumOptions

    def vacuum(self, change: PreparedVacuum) -> None:
        """Plan, ask, delete."""
        self._run(change, following=lambda: True)

    def purge(self, quarantine: str, older_ms: int) -> None:
        """Empty a quarantine, and leave the table as it is."""
        from deltacli.cli.render.vacuum import purge_result

        change = self.table.prepare_purge_quarantine(quarantine, older_ms=older_ms, dry_run=self.how.dry_run)
        presentation: ChangePresentation[PurgePlan, PurgeResult] = ChangePresentation(
            build_question=lambda plan: (
                f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of "
                f"{plural(len(plan.due), 'plan')} from the quarantine {plan.quarantine}, for good"
            ),
            build_plan_result=lambda plan, is_dry: purge_result(plan, None, dry_run=is_dry),
            build_outcome_result=lambda result: purge_result(*result, dry_run=False),
            suggest_after_change=lambda _: None,
            deletes_by_age=True,
            can_be_resumed=True,
            complete_error=_explain_short_retention,
        )
        run_change(self.run, change, presentation, self.how.mode)

    def save(self, change: PreparedVacuum, path: str) -> None:
        """Plan and save the plan. A refused plan is saved as well, then Refused is raised."""
        require_file_outside_tables(path, "--save-plan")
        plan = change.plan()
        for note in plan.notes:
            self.run.note(f"note: {note}")
        invocation.writes(path)
        self.table.save_vacuum_plan(plan, path)
        self.run.write(self._result(plan, None, dry_run=True))
        refusal = plan.build_refusal()
        if refusal is not None:
            _explain_short_retention(refusal)
            raise refusal
        if self.run.format.is_for_people and not plan.is_noop:
            following = f"deltacli vacuum {quote_table(self.name)} --apply {quote_word(path)} --yes"
            self.run.suggest_command(following, also_in_pipe=True)

    def apply(self, change: PreparedChange[VacuumPlan, VacuumResult], was_complete: Callable[[], bool]) -> None:
        """Execute a saved plan, starting where an earlier run stopped.

        Args:
            change: The vacuum of the plan.
            was_complete: Returns True if an earlier run had executed all of it.
        """
        try:
            self._run(change, following=lambda: not was_complete())
        except Refused as refused:
            if refused.override and refused.code != OTHER_DIRECTORY:
                refused.hint = _SAVE_AGAIN.format(override=refused.override)
            raise

    def explain(self, change: PreparedVacuum, path: str) -> None:
        """Show why one file is kept or deleted."""
        from deltacli.cli.render.vacuum import explanation_sections

        explanation = change.explain(path)
        content = explanation.as_json()
        columns = ("version", "timestampMs", "action", "operation", "detail")
        uri = self.table.uri
        self.run.write(
            SingleResult(
                "vacuum-explain",
                uri,
                content,
                lambda: explanation_sections(uri, explanation),
                content["commits"],
                columns,
            )
        )

    def _run(self, change: PreparedChange[VacuumPlan, VacuumResult], *, following: Callable[[], bool]) -> None:
        """Carry out a vacuum in the mode of the options. `following` tells whether something was done by this run."""
        name = quote_table(self.name)
        plans: list[VacuumPlan] = []

        def planned(plan: VacuumPlan, is_dry: bool) -> Result:
            plans.append(plan)
            return self._result(plan, None, dry_run=is_dry)

        def done(result: VacuumResult) -> Result:
            self._note_copies(result)
            return self._result(*result, dry_run=False)

        quarantine = self.how.quarantine
        presentation = ChangePresentation(
            build_question=self._question,
            build_plan_result=planned,
            build_outcome_result=done,
            suggest_after_change=lambda _: f"deltacli history {name} --limit 3" if following() else None,
            list_notes=lambda plan: plan.notes,
            suggest_before_change=lambda plan: "" if plan.missing_live.files else None,
            deletes_by_age=True,
            can_be_resumed=True,
            get_file_action=lambda plan: ("delete", FileTotals(plan.files, plan.size_bytes)),
            count_changed_files=_deleted_files,
            question_suffix="" if quarantine is None else f", with copies in {quarantine}",
            complete_error=_explain_short_retention,
        )
        run_change(self.run, change, presentation, self.how.mode)
        if self.how.yes and not self.how.dry_run and plans:
            self.table.note_vacuumed(plans[0])

    def _note_copies(self, result: VacuumResult) -> None:
        """Note where copies of the files are, and how to bring them back."""
        if result.outcome is None or result.outcome.quarantine is None:
            return
        source = quote_word(self.how.quarantine or result.plan.quarantine or "")
        self.run.note(
            f"note: copies of the files are in {result.outcome.quarantine}; to bring those of version N back: "
            f"deltacli {result.plan.way_back} {quote_table(self.name)} --version N --from {source}"
        )

    def _question(self, plan: VacuumPlan) -> str:
        what = f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of {plan.table}"
        if plan.quarantine is None:
            return what
        return f"{what}, with copies in {self.how.quarantine or plan.quarantine}"

    def _result(self, plan: VacuumPlan, outcome: VacuumOutcome | None, *, dry_run: bool) -> Result:
        from deltacli.cli.render.vacuum import VacuumResult as ShownResult

        return ShownResult(plan, outcome, dry_run, self.how.files)
