"""Commands that change a table: show the plan, ask, execute it, and say what was done.

The change itself is a `PreparedChange` of the Python API. What is here is how a command tells of it (`Wording`), and
what it does with the plan (`Mode`).
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
from deltacli.changing.outcome import Outcome as ChangeOutcome
from deltacli.changing.outcome import require_complete
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

P = TypeVar("P", bound=Plan)
O = TypeVar("O", bound=ChangeOutcome)  # noqa: E741


class Mode(NamedTuple):
    """What a command does with the plan.

    Attributes:
        dry_run: True to show the plan only.
        yes: True to execute it without a question.
        check: True to show the plan only, and to exit with 1 if the change is due.
    """

    dry_run: bool = False
    yes: bool = False
    check: bool = False

    @property
    def only_plans(self) -> bool:
        """Whether nothing is executed."""
        return self.dry_run or self.check


@dataclass(frozen=True, eq=False, repr=False)
class Wording(Generic[P, O]):
    """How a command tells of a change.

    Attributes:
        question: Makes what somebody is asked. None: the command does not ask.
        planned: Makes the result of a plan; with True, of one that is not executed.
        done: Makes the result of an outcome.
        following: Makes the command to run after the change. None: nothing was done.
        overrides: The options that accept what a guard refuses, by the code of the refusal.
        notes: Makes the notes on a plan, which come before everything else.
        if_noop: Makes the command to run where nothing was to be done. None: none is advised.
        before: Makes the command to run before the change can do what it is for. Pipes show it, too. Empty: none is
            advised.
        deletes_by_age: True if nothing is executed with a `--now` that is later than the clock.
        repeats: True if the same command does what could not be done.
        facts: Makes what the refusal to go on without a confirmation names as well.
        deed: Makes what is done with how many files, for a question about several tables. None: the command takes one
            table.
        achieved: Makes with how many files it was done, and their bytes, None if these are not known. None: as
            planned.
        kept: What the question about several tables says behind their number.
        is_finding: Tells whether a plan that is not executed, or an outcome, ends with the exit code of a finding.
        refused: Completes a refusal, or what says that something was left, with what this command can do about it.
    """

    question: Callable[[P], str] | None
    planned: Callable[[P, bool], Result]
    done: Callable[[O], Result]
    following: Callable[[O], str | None]
    overrides: Mapping[str, str] = field(default_factory=dict)
    notes: Callable[[P], Iterable[str]] = lambda _: ()
    if_noop: Callable[[P], str | None] = lambda _: None
    before: Callable[[P], str | None] = lambda _: None
    deletes_by_age: bool = False
    repeats: bool = False
    facts: Callable[[P], Mapping[str, str]] = lambda _: {}
    deed: Callable[[P], tuple[str, FileTotals]] | None = None
    achieved: Callable[[O], tuple[int, int | None]] | None = None
    kept: str = ""
    is_finding: Callable[[P | O], bool] = lambda _: False
    refused: Callable[[Refused | PartlyDone], None] = lambda _: None


def run_change(run: CommandContext, change: PreparedChange[P, O], wording: Wording[P, O], mode: Mode) -> None:
    """Carry out a change in one of its modes, and write its plan, or its outcome if it was executed.

    A run on one of several tables only plans: its plan is kept for the question about all of them.

    Raises:
        Refused: If the plan has a refusal, or nobody agreed to it.
        Exit: For a finding, such as a change that is due with `--check`.
        DeltacliError: Whatever the change raises.
    """
    with _completed_refusals(wording):
        plan = change.plan()
        for note in (*plan.base_version.warnings, *wording.notes(plan)):
            run.note(f"note: {note}")
        refusal = plan.build_refusal()
        if mode.only_plans or plan.is_noop or refusal is not None:
            if run.part is not None:
                run.part.state_plan(_planned_amount(wording, plan), is_noop=plan.is_noop and refusal is None)
            run.write(wording.planned(plan, mode.only_plans or refusal is not None))
            if refusal is not None:
                raise refusal
            if mode.check or not mode.only_plans:
                require_complete(change.outcome_before_execution(plan))
            _end_plan(run, plan, wording, mode)
            return

    planned_change = PlannedChange(run, change, wording, mode, plan)
    if run.part is None:
        planned_change.execute(is_agreed=False)
        return
    run.part.state_plan(_planned_amount(wording, plan), is_noop=False)
    if planned_change.asks and not mode.yes:
        _write_plan(run, wording, plan)
    run.part.pending = planned_change


@contextmanager
def _completed_refusals(wording: Wording[P, O]) -> Iterator[None]:
    """Add what this command can do about a refusal, or about what was left, to its error."""
    try:
        yield
    except Refused as refused:
        wording.refused(refused)
        if refused.hint is None and (option := wording.overrides.get(refused.code)) is not None:
            refused.hint = repeat_command_with(invocation.arguments, option)
        raise
    except PartlyDone as partly:
        wording.refused(partly)
        if wording.repeats and partly.cause_exit_code is None:
            partly.hint = repeat_command(invocation.arguments)
        raise


def _end_plan(run: CommandContext, plan: P, wording: Wording[P, O], mode: Mode) -> None:
    """Say what to run after a plan that is not executed. Raises Exit where `--check` found a change that is due."""
    if mode.check and not plan.is_noop:
        raise Exit(EXIT_FINDINGS)

    first = wording.before(plan)
    # Nothing is executed with a time that is ahead, so the same command without --dry-run would be refused.
    is_not_executable = wording.deletes_by_age and is_clock_ahead(run)
    if first:
        run.say_next(first, also_in_pipe=True)
    elif first is None and not plan.is_noop and not is_not_executable:
        run.say_next(repeat_command_without_flag(invocation.arguments, "--dry-run"))
    if wording.is_finding(plan):
        raise Exit(EXIT_FINDINGS)
    if plan.is_noop:
        following = wording.if_noop(plan)
        if following is not None:
            run.say_next(following)


class PlannedChange(Generic[P, O]):
    """A change that is planned, and not executed yet."""

    def __init__(
        self, run: CommandContext, change: PreparedChange[P, O], wording: Wording[P, O], mode: Mode, plan: P
    ) -> None:
        self.run = run
        self.change = change
        self.wording = wording
        self.mode = mode
        self.plan = plan

    @property
    def asks(self) -> bool:
        """Whether somebody has to agree."""
        return self.wording.question is not None

    @property
    def deed(self) -> tuple[str, FileTotals]:
        """Return what is done with how many files."""
        assert self.wording.deed is not None
        return self.wording.deed(self.plan)

    @property
    def facts(self) -> Mapping[str, str]:
        """Return what a refusal without a confirmation names."""
        return self.wording.facts(self.plan)

    def execute(self, *, is_agreed: bool) -> None:
        """Execute the plan, and write its outcome.

        Args:
            is_agreed: True if somebody agreed to the plan. Else they are asked here.

        Raises:
            Refused: If nobody agrees.
            Exit: If the outcome is a finding.
            DeltacliError: Whatever the change raises.
        """
        if is_agreed:
            self.run.confirm()
        with _completed_refusals(self.wording):
            outcome, execution = self._execute_and_write(is_agreed=is_agreed)
            invocation.is_reporting |= execution.has_begun
            if self.wording.is_finding(outcome):
                raise Exit(EXIT_FINDINGS)

    def _execute_and_write(self, *, is_agreed: bool) -> tuple[O, ChangeExecution[P, O]]:
        """Execute the plan and write what was done, also where an error or a signal ends it after its first step."""
        run = self.run
        executions: list[ChangeExecution[P, O]] = []
        noted = len(self.plan.base_version.warnings)
        try:
            try:
                outcome = self.change.execute(
                    self.plan, ask=partial(self._ask, is_agreed=is_agreed), on_start=executions.append
                )
            except Exception as error:
                _note_new_warnings(run, executions, noted)
                if executions and _has_something_to_report(executions[0], error):
                    self._write_outcome(executions[0])
                raise
            _note_new_warnings(run, executions, noted)
            self._write_outcome(executions[0])
            following = self.wording.following(outcome)
            if following is not None:
                run.say_next(following)
        except Interrupted as interruption:
            interruption.outcome = _describe_progress(executions, interruption)
            if run.part is not None and executions and executions[0].has_begun:
                self._write_outcome(executions[0])
            raise
        return outcome, executions[0]

    def _ask(self, plan: P, *, is_agreed: bool) -> Consent:
        """Return the consent to a plan: this one, or one that was made anew behind another writer."""
        run, wording = self.run, self.wording
        if wording.question is None:
            return consent_to_command(plan)
        if not (is_agreed and plan is self.plan):
            # The question about all tables was about other plans, so this one is asked about alone.
            if run.part is not None:
                run.part.shows_details = True
            show_plan = partial(_write_plan, run, wording, plan)
            confirm_change(run, wording.question(plan), show_plan, yes=self.mode.yes, facts=wording.facts(plan))
        if wording.deletes_by_age:
            require_clock_not_ahead(run)
        return consent_to_command(plan) if self.mode.yes else consent_to_plan(plan)

    def _write_outcome(self, execution: ChangeExecution[P, O]) -> None:
        """Write what was done, and keep its amount for the row of a table among several."""
        if self.run.part is not None:
            achieved = self.wording.achieved
            if achieved is not None:
                self.run.part.state_outcome(*achieved(execution.outcome))
        self.run.write(_make_result(self.wording, execution))


def _has_something_to_report(execution: ChangeExecution[P, O], error: Exception) -> bool:
    return execution.has_begun or execution.has_ended or isinstance(error, PartlyDone)


def _planned_amount(wording: Wording[P, O], plan: P) -> FileTotals | None:
    """Return the files of a plan; None where they are not known before it is executed."""
    return None if wording.deed is None else wording.deed(plan)[1]


def _write_plan(run: CommandContext, wording: Wording[P, O], plan: P) -> None:
    run.write(wording.planned(plan, True))


def _note_new_warnings(run: CommandContext, executions: list[ChangeExecution[P, O]], noted: int) -> None:
    """Note what could not follow a commit: the warnings behind those that were noted with the plan."""
    for execution in executions:
        for warning in execution.plan.base_version.warnings[noted:]:
            run.note(f"note: {warning}")


def _make_result(wording: Wording[P, O], execution: ChangeExecution[P, O]) -> Result:
    """Return what was done as a result, whose document says where it was planned again behind another writer."""
    result = wording.done(execution.outcome)
    if execution.was_planned_again and isinstance(result, SingleResult):
        result.content = {**result.content, "replanned": True}
    return result


def _describe_progress(executions: list[ChangeExecution[P, O]], interruption: Interrupted) -> str:
    """Return what was done before an interruption, with the commit that was in flight."""
    notes = [*getattr(interruption, "__notes__", ())]
    if executions and executions[0].has_begun:
        notes.insert(0, executions[0].outcome.describe_progress())
        if not executions[0].has_ended:
            notes.append(CONTINUE)
    return "; ".join(dict.fromkeys(notes)) or interruption.outcome
