"""The modes of `vacuum` on a Delta table: delete files, save or apply a plan, explain a file, or empty a quarantine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deltacli.changing.file_totals import NO_FILES, FileTotals
from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import require_file_outside_tables
from deltacli.cli.output.results import SingleResult
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
    from deltacli.cli.render.vacuum import VacuumResult as ShownResult
    from deltacli.operations.vacuum.plan import VacuumOutcome, VacuumPlan, VacuumResult
    from deltacli.operations.vacuum.quarantine import PurgePlan, PurgeResult


@dataclass(frozen=True, eq=False, repr=False)
class VacuumOptions:
    """The options of `vacuum` that choose its mode and the form of its result.

    Attributes:
        files: Whether every file is listed.
        save_plan: The file to which the plan is saved.
        apply: The file of a saved plan to execute.
        explain: The path of a file to explain, relative to the table.
        purge_older_ms: The age in milliseconds from which copies in the quarantine are deleted.
        quarantine: The directory that gets copies of deleted files.
        dry_run: Whether nothing is changed.
        yes: Whether the user has agreed on the command line.
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
        """The mode for `run_change`."""
        return Mode(self.dry_run, self.yes)


def suggest_short_retention(error: Refused | PartlyDone, condition: str) -> None:
    """Add a hint to the refusal of a short retention: the command that accepts it.

    Args:
        error: The error of the command. Errors other than this refusal stay as they are.
        condition: The condition under which a shorter retention is safe.
    """
    if isinstance(error, Refused) and error.code == "vacuum.retention" and error.override:
        suggest_own_retention(error, invocation.arguments, error.override, condition)


def _complete_error(error: Refused | PartlyDone) -> None:
    suggest_short_retention(error, "if no reader is older")


class VacuumCommand(NamedTuple):
    """One run of `vacuum` on a Delta table.

    Attributes:
        run: The run of the command.
        name: The table as the user typed it.
        table: The table.
        options: The mode of the command and the form of its result.
    """

    run: CommandContext
    name: str
    table: Table
    options: VacuumOptions

    def vacuum(self, change: PreparedVacuum) -> None:
        """Plan the deletion, ask, and delete the files."""
        self._run_vacuum(change, is_resumed_to_end=lambda: False)

    def apply(self, change: PreparedChange[VacuumPlan, VacuumResult], was_complete: Callable[[], bool]) -> None:
        """Execute a saved plan. Files that an earlier run has deleted are skipped.

        Args:
            change: The vacuum of the saved plan.
            was_complete: Returns whether an earlier run had executed the whole plan. It is called after the change.

        Raises:
            Refused: If the plan must not be executed. The hint makes a new plan that would be accepted.
        """
        try:
            self._run_vacuum(change, is_resumed_to_end=was_complete)
        except Refused as refused:
            # A plan for another directory cannot be made again with an option.
            if refused.override and refused.code != OTHER_DIRECTORY:
                refused.hint = f"deltacli vacuum {{table}} --save-plan plan.parquet {refused.override}"
            raise

    def purge(self, quarantine: str, older_ms: int) -> None:
        """Delete old copies from a quarantine. The table itself is not changed.

        Args:
            quarantine: The directory of the quarantine.
            older_ms: The age in milliseconds from which copies are deleted.
        """
        from deltacli.cli.render.vacuum import purge_result

        change = self.table.prepare_purge_quarantine(quarantine, older_ms=older_ms, dry_run=self.options.dry_run)
        presentation: ChangePresentation[PurgePlan, PurgeResult] = ChangePresentation(
            build_question=_build_purge_question,
            build_plan_result=lambda plan, is_dry_run: purge_result(plan, None, dry_run=is_dry_run),
            build_outcome_result=lambda result: purge_result(*result, dry_run=False),
            suggest_after_change=lambda _: None,
            deletes_by_age=True,
            can_be_resumed=True,
            complete_error=_complete_error,
        )
        run_change(self.run, change, presentation, self.options.mode)

    def save(self, change: PreparedVacuum, path: str) -> None:
        """Plan the deletion and save the plan to a file.

        Raises:
            UsageError: If the file is inside a table.
            Refused: If the plan must not be executed. It is saved all the same, so that it can be examined.
        """
        require_file_outside_tables(path, "--save-plan")
        plan = change.plan()
        for note in plan.notes:
            self.run.note(f"note: {note}")
        invocation.record_output(path)
        self.table.save_vacuum_plan(plan, path)
        self.run.write(self._make_result(plan, None, dry_run=True))

        refusal = plan.build_refusal()
        if refusal is not None:
            _complete_error(refusal)
            raise refusal
        if self.run.format.is_for_people and not plan.is_noop:
            next_command = f"deltacli vacuum {quote_table(self.name)} --apply {quote_word(path)} --yes"
            self.run.suggest_command(next_command, also_in_pipe=True)

    def explain(self, change: PreparedVacuum, path: str) -> None:
        """Show why a file would be kept or deleted.

        Args:
            change: The vacuum that would be run.
            path: The path of the file, relative to the table.
        """
        from deltacli.cli.render.vacuum import explanation_sections

        uri = self.table.uri
        explanation = change.explain(path)
        content = explanation.as_json()
        result = SingleResult(
            "vacuum-explain",
            uri,
            content,
            lambda: explanation_sections(uri, explanation),
            content["commits"],
            ("version", "timestampMs", "action", "operation", "detail"),
        )
        self.run.write(result)

    def _run_vacuum(
        self, change: PreparedChange[VacuumPlan, VacuumResult], *, is_resumed_to_end: Callable[[], bool]
    ) -> None:
        """Run a vacuum in the mode of the options.

        Args:
            change: The vacuum.
            is_resumed_to_end: Returns whether there was nothing left to do for this run.
        """
        plans: list[VacuumPlan] = []

        def build_plan_result(plan: VacuumPlan, is_dry_run: bool) -> ShownResult:
            plans.append(plan)
            return self._make_result(plan, None, dry_run=is_dry_run)

        def build_outcome_result(result: VacuumResult) -> ShownResult:
            self._note_copies(result)
            return self._make_result(*result, dry_run=False)

        def suggest_history(_: VacuumResult) -> str | None:
            return None if is_resumed_to_end() else f"deltacli history {quote_table(self.name)} --limit 3"

        quarantine = self.options.quarantine
        presentation = ChangePresentation(
            build_question=self._build_question,
            build_plan_result=build_plan_result,
            build_outcome_result=build_outcome_result,
            suggest_after_change=suggest_history,
            list_notes=lambda plan: plan.notes,
            # A table that lacks files should be repaired first, so nothing is suggested.
            suggest_before_change=lambda plan: "" if plan.missing_live.files else None,
            deletes_by_age=True,
            can_be_resumed=True,
            get_file_action=lambda plan: ("delete", FileTotals(plan.files, plan.size_bytes)),
            count_changed_files=_count_deleted_files,
            question_suffix="" if quarantine is None else f", with copies in {quarantine}",
            complete_error=_complete_error,
        )
        run_change(self.run, change, presentation, self.options.mode)

        # Mode `lite` continues at the version up to which the log was examined. An execution records that version. With
        # --yes, a plan is only shown if it has nothing to delete, and is not executed: its version is recorded here.
        if self.options.yes and not self.options.dry_run and plans:
            self.table.note_vacuumed(plans[0])

    def _note_copies(self, result: VacuumResult) -> None:
        """Note the quarantine that contains the deleted files, and the command that brings them back."""
        if result.outcome is None or result.outcome.quarantine is None:
            return
        source = quote_word(self.options.quarantine or result.plan.quarantine or "")
        self.run.note(
            f"note: copies of the files are in {result.outcome.quarantine}; to bring those of version N back: "
            f"deltacli {result.plan.way_back} {quote_table(self.name)} --version N --from {source}"
        )

    def _build_question(self, plan: VacuumPlan) -> str:
        question = f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of {plan.table}"
        if plan.quarantine is None:
            return question
        return f"{question}, with copies in {self.options.quarantine or plan.quarantine}"

    def _make_result(self, plan: VacuumPlan, outcome: VacuumOutcome | None, *, dry_run: bool) -> ShownResult:
        from deltacli.cli.render.vacuum import VacuumResult as ShownResult

        return ShownResult(plan, outcome, dry_run, self.options.files)


def _build_purge_question(plan: PurgePlan) -> str:
    return (
        f"delete {plural(plan.files, 'file')} ({format_size(plan.size_bytes)}) of "
        f"{plural(len(plan.due), 'plan')} from the quarantine {plan.quarantine}, for good"
    )


def _count_deleted_files(result: VacuumResult) -> tuple[int, int]:
    deleted = NO_FILES if result.outcome is None else result.outcome.deleted
    return deleted.files, deleted.size_bytes
