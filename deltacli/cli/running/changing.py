"""Commands that change a table: show the plan, ask, execute the plan, and write the outcome.

The change itself is a `PreparedChange` of the Python API. A command adds how its plan and outcome are presented
(`ChangePresentation`) and how far it goes (`Mode`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from deltacli.api.prepared_change import PreparedChange
from deltacli.changing.consent import Consent, consent_to_command, consent_to_plan
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import Outcome, require_complete
from deltacli.changing.plan import Plan
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.output.results import Result, SingleResult
from deltacli.cli.running.consent import confirm_change, is_clock_ahead, require_clock_not_ahead
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.signals import Interrupted
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_without_flag
from deltacli.core.errors import CONTINUE, EXIT_FINDINGS, PartlyDone, Refused

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals

PlanT = TypeVar("PlanT", bound=Plan)
OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class Mode(NamedTuple):
    """The mode of a command that changes a table: show the plan, check it, ask, or execute it without asking.

    Attributes:
        dry_run: Show the plan and change nothing.
        yes: Execute the plan without asking.
        check: Show the plan and change nothing. Exit with 1 if the plan contains changes.
    """

    dry_run: bool = False
    yes: bool = False
    check: bool = False

    @property
    def only_plans(self) -> bool:
        """True if the plan is shown, but not executed."""
        return self.dry_run or self.check


@dataclass(frozen=True, eq=False, repr=False)
class ChangePresentation(Generic[PlanT, OutcomeT]):
    """The presentation of a change by a command: results, question, notes, and suggestions of further commands.

    Only the first four attributes are required.

    Attributes:
        build_question: Returns the question for a plan, such as `delete 3 files`. None: the command does not ask.
        build_plan_result: Returns the result that shows a plan. The second argument is True if the plan will not be
            executed by this run.
        build_outcome_result: Returns the result that shows an outcome.
        suggest_after_change: Returns the command to run after the change. None if there is nothing to suggest.
        override_options: The options that override a refusal, by the error code of the refusal.
        list_notes: Returns the notes on a plan. They are written before the plan.
        suggest_if_nothing_to_do: Returns the command to run if the plan contains no changes. None: no suggestion.
        suggest_before_change: Returns the command to run before the plan should be executed, such as a repair. It is
            also written if stdout is a pipe. An empty string suppresses all suggestions; None suggests to execute the
            plan.
        deletes_by_age: Whether the change deletes files because of their age. Then it is refused if `--now` is later
            than the clock.
        can_be_resumed: Whether the same command continues a change that was only partly done.
        list_consent_facts: Returns facts for the error that consent is missing.
        get_file_action: Returns the verb and the files of a plan, such as `("delete", FileTotals(3, 900))`, for the
            question about several tables. None: the command works on one table only.
        count_changed_files: Returns the number of changed files of an outcome, and their size in bytes or None if it
            is not known. None: the numbers are those of the plan.
        question_suffix: The text after the number of tables in the question about several tables.
        is_finding: Returns whether a plan that is not executed, or an outcome, exits with the code of findings.
        complete_error: Adds hints or facts of this command to an error.
    """

    build_question: Callable[[PlanT], str] | None
    build_plan_result: Callable[[PlanT, bool], Result]
    build_outcome_result: Callable[[OutcomeT], Result]
    suggest_after_change: Callable[[OutcomeT], str | None]
    override_options: Mapping[str, str] = field(default_factory=dict)
    list_notes: Callable[[PlanT], Iterable[str]] = lambda _: ()
    suggest_if_nothing_to_do: Callable[[PlanT], str | None] = lambda _: None
    suggest_before_change: Callable[[PlanT], str | None] = lambda _: None
    deletes_by_age: bool = False
    can_be_resumed: bool = False
    list_consent_facts: Callable[[PlanT], Mapping[str, str]] = lambda _: {}
    get_file_action: Callable[[PlanT], tuple[str, FileTotals]] | None = None
    count_changed_files: Callable[[OutcomeT], tuple[int, int | None]] | None = None
    question_suffix: str = ""
    is_finding: Callable[[PlanT | OutcomeT], bool] = lambda _: False
    complete_error: Callable[[Refused | PartlyDone], None] = lambda _: None


def run_change(
    run: CommandContext,
    change: PreparedChange[PlanT, OutcomeT],
    presentation: ChangePresentation[PlanT, OutcomeT],
    mode: Mode,
) -> None:
    """Plan a change, ask the user, execute it, and write its outcome, as far as the mode allows.

    If the command works on several tables, this function plans only. It leaves the plan pending in `run.table_run`, so
    that the user is asked once about all tables.

    Raises:
        Refused: If the plan contains a refusal, or the user does not agree.
        Exit: If the exit code is that of findings, for example if changes are due and the mode is `check`.
        DeltacliError: If planning or executing the change fails.
    """
    with _complete_errors(presentation):
        plan = change.plan()
        for note in (*plan.base_version.warnings, *presentation.list_notes(plan)):
            run.note(f"note: {note}")
        refusal = plan.build_refusal()
        if mode.only_plans or plan.is_noop or refusal is not None:
            _write_unexecuted_plan(run, plan, refusal, presentation, mode)
            if mode.check or not mode.only_plans:
                require_complete(change.outcome_before_execution(plan))
            _suggest_after_plan(run, plan, presentation, mode)
            return

    planned_change = PlannedChange(run, change, presentation, mode, plan)
    if run.table_run is None:
        planned_change.execute(is_agreed=False)
        return
    run.table_run.record_plan(_get_planned_files(presentation, plan), is_noop=False)
    if planned_change.needs_consent and not mode.yes:
        _write_plan(run, presentation, plan)
    run.table_run.pending = planned_change


@contextmanager
def _complete_errors(presentation: ChangePresentation[PlanT, OutcomeT]) -> Iterator[None]:
    """Add the hints of this command to a refusal, and to the error of a change that was only partly done."""
    try:
        yield
    except Refused as refused:
        presentation.complete_error(refused)
        if refused.hint is None:
            override_option = presentation.override_options.get(refused.code)
            if override_option is not None:
                refused.hint = repeat_command_with(invocation.arguments, override_option)
        raise
    except PartlyDone as partly:
        presentation.complete_error(partly)
        if presentation.can_be_resumed and partly.cause_exit_code is None:
            partly.hint = repeat_command(invocation.arguments)
        raise


def _write_unexecuted_plan(
    run: CommandContext,
    plan: PlanT,
    refusal: Refused | None,
    presentation: ChangePresentation[PlanT, OutcomeT],
    mode: Mode,
) -> None:
    """Write a plan that is not executed, because of the mode, because it is empty, or because it is refused.

    Raises:
        Refused: The refusal of the plan. It is raised after the plan was written.
    """
    if run.table_run is not None:
        files = _get_planned_files(presentation, plan)
        run.table_run.record_plan(files, is_noop=plan.is_noop and refusal is None)
    run.write(presentation.build_plan_result(plan, mode.only_plans or refusal is not None))
    if refusal is not None:
        raise refusal


def _suggest_after_plan(
    run: CommandContext, plan: PlanT, presentation: ChangePresentation[PlanT, OutcomeT], mode: Mode
) -> None:
    """Suggest what to run after a plan that is not executed. Raises Exit if the exit code is that of findings."""
    if mode.check and not plan.is_noop:
        raise Exit(EXIT_FINDINGS)

    prerequisite = presentation.suggest_before_change(plan)
    # The same command without --dry-run would be refused if --now is later than the clock.
    is_executable = not (presentation.deletes_by_age and is_clock_ahead(run))
    if prerequisite:
        run.suggest_command(prerequisite, also_in_pipe=True)
    elif prerequisite is None and not plan.is_noop and is_executable:
        run.suggest_command(repeat_command_without_flag(invocation.arguments, "--dry-run"))

    if presentation.is_finding(plan):
        raise Exit(EXIT_FINDINGS)
    if plan.is_noop:
        next_command = presentation.suggest_if_nothing_to_do(plan)
        if next_command is not None:
            run.suggest_command(next_command)


class PlannedChange(Generic[PlanT, OutcomeT]):
    """A change that has been planned, but not executed yet."""

    def __init__(
        self,
        run: CommandContext,
        change: PreparedChange[PlanT, OutcomeT],
        presentation: ChangePresentation[PlanT, OutcomeT],
        mode: Mode,
        plan: PlanT,
    ) -> None:
        self.run = run
        self.change = change
        self.presentation = presentation
        self.mode = mode
        self.plan = plan

    @property
    def needs_consent(self) -> bool:
        """True if the user has to agree to the change."""
        return self.presentation.build_question is not None

    @property
    def file_action(self) -> tuple[str, FileTotals]:
        """The verb of the change and the files that it affects. Only for commands that work on several tables."""
        assert self.presentation.get_file_action is not None
        return self.presentation.get_file_action(self.plan)

    @property
    def question_suffix(self) -> str:
        """The text after the number of tables in the question about several tables."""
        return self.presentation.question_suffix

    @property
    def facts(self) -> Mapping[str, str]:
        """The facts of the error if nobody can be asked."""
        return self.presentation.list_consent_facts(self.plan)

    def execute(self, *, is_agreed: bool) -> None:
        """Execute the plan and write its outcome.

        Args:
            is_agreed: Whether the user has agreed to the plan. If not, the user is asked here.

        Raises:
            Refused: If the user does not agree.
            Exit: If the exit code is that of findings.
            DeltacliError: If executing the change fails.
        """
        if is_agreed:
            self.run.confirm()
        with _complete_errors(self.presentation):
            outcome, execution = self._execute_and_write(is_agreed=is_agreed)
            invocation.is_reporting |= execution.has_begun
            if self.presentation.is_finding(outcome):
                raise Exit(EXIT_FINDINGS)

    def _execute_and_write(self, *, is_agreed: bool) -> tuple[OutcomeT, ChangeExecution[PlanT, OutcomeT]]:
        """Execute the plan and write its outcome. A partial outcome is written, too, after an error or a signal."""
        # Contains the execution as soon as it has started, so that it is known even if an error or a signal ends it.
        executions: list[ChangeExecution[PlanT, OutcomeT]] = []
        try:
            outcome = self._execute_plan(executions, is_agreed=is_agreed)
            self._write_outcome(executions[0])
            next_command = self.presentation.suggest_after_change(outcome)
            if next_command is not None:
                self.run.suggest_command(next_command)
        except Interrupted as interruption:
            interruption.outcome = _describe_progress(executions, interruption)
            if self.run.table_run is not None and executions and executions[0].has_begun:
                self._write_outcome(executions[0])
            raise
        return outcome, executions[0]

    def _execute_plan(self, executions: list[ChangeExecution[PlanT, OutcomeT]], *, is_agreed: bool) -> OutcomeT:
        """Execute the plan and return its outcome. If an error occurs, the partial outcome is written first.

        Args:
            executions: An empty list, to which the execution is added when it starts.
            is_agreed: Whether the user has agreed to the plan.
        """
        noted_warnings = len(self.plan.base_version.warnings)
        try:
            outcome = self.change.execute(
                self.plan, ask=partial(self._ask, is_agreed=is_agreed), on_start=executions.append
            )
        except Exception as error:
            _note_new_warnings(self.run, executions, noted_warnings)
            if executions and _has_something_to_report(executions[0], error):
                self._write_outcome(executions[0])
            raise
        _note_new_warnings(self.run, executions, noted_warnings)
        return outcome

    def _ask(self, plan: PlanT, *, is_agreed: bool) -> Consent:
        """Return the user's consent to a plan.

        Args:
            plan: The plan of this object, or a new plan that was made after another writer's commit.
            is_agreed: Whether the user has agreed to the plan of this object.
        """
        run = self.run
        presentation = self.presentation
        if presentation.build_question is None:
            return consent_to_command(plan)

        if not (is_agreed and plan is self.plan):
            # The question about all tables was about another plan, so the user is asked about this table alone.
            if run.table_run is not None:
                run.table_run.shows_details = True
            show_plan = partial(_write_plan, run, presentation, plan)
            facts = presentation.list_consent_facts(plan)
            confirm_change(run, presentation.build_question(plan), show_plan, yes=self.mode.yes, facts=facts)
        if presentation.deletes_by_age:
            require_clock_not_ahead(run)
        return consent_to_command(plan) if self.mode.yes else consent_to_plan(plan)

    def _write_outcome(self, execution: ChangeExecution[PlanT, OutcomeT]) -> None:
        """Write the outcome, and record its files for the table's row among several tables."""
        count_changed_files = self.presentation.count_changed_files
        if self.run.table_run is not None and count_changed_files is not None:
            files, size_bytes = count_changed_files(execution.outcome)
            self.run.table_run.record_outcome(files, size_bytes)
        self.run.write(_make_result(self.presentation, execution))


def _has_something_to_report(execution: ChangeExecution[PlanT, OutcomeT], error: Exception) -> bool:
    return execution.has_begun or execution.has_ended or isinstance(error, PartlyDone)


def _get_planned_files(presentation: ChangePresentation[PlanT, OutcomeT], plan: PlanT) -> FileTotals | None:
    """Return the files that a plan affects; None if they are not known before the plan is executed."""
    if presentation.get_file_action is None:
        return None
    _, files = presentation.get_file_action(plan)
    return files


def _write_plan(run: CommandContext, presentation: ChangePresentation[PlanT, OutcomeT], plan: PlanT) -> None:
    run.write(presentation.build_plan_result(plan, True))


def _note_new_warnings(
    run: CommandContext, executions: list[ChangeExecution[PlanT, OutcomeT]], noted_warnings: int
) -> None:
    """Note the warnings that have been added since the plan was shown, such as a hint file that was not updated."""
    for execution in executions:
        for warning in execution.plan.base_version.warnings[noted_warnings:]:
            run.note(f"note: {warning}")


def _make_result(
    presentation: ChangePresentation[PlanT, OutcomeT], execution: ChangeExecution[PlanT, OutcomeT]
) -> Result:
    """Return the result for an outcome. Its document says if the change was planned again after another commit."""
    result = presentation.build_outcome_result(execution.outcome)
    if execution.was_planned_again and isinstance(result, SingleResult):
        result.content = {**result.content, "replanned": True}
    return result


def _describe_progress(executions: list[ChangeExecution[PlanT, OutcomeT]], interruption: Interrupted) -> str:
    """Return what was done before an interruption, including the outcome of a commit that was being written."""
    notes = [*getattr(interruption, "__notes__", ())]
    if executions and executions[0].has_begun:
        notes.insert(0, executions[0].outcome.describe_progress())
        if not executions[0].has_ended:
            notes.append(CONTINUE)
    return "; ".join(dict.fromkeys(notes)) or interruption.outcome
