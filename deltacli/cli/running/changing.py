"""Confirmation: a table is changed only after the user agreed, by an option or at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from deltacli.changing.change import Change, execute_change, plan_change
from deltacli.changing.consent import Consent, consent_to_command, consent_to_plan
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import Outcome as ChangeOutcome
from deltacli.changing.outcome import require_complete
from deltacli.changing.plan import Plan
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.output.results import Result, SingleResult
from deltacli.cli.running.run import CommandContext
from deltacli.cli.terminal.capabilities import terminal_width
from deltacli.cli.terminal.characters import escape_for_screen
from deltacli.cli.terminal.signals import Interrupted
from deltacli.cli.terminal.stderr import close_live_line, write_stderr
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with, repeat_command_without_flag
from deltacli.cli.terminal.waiting import read_line
from deltacli.core.errors import CONTINUE, EXIT_FINDINGS, NOTHING_CHANGED, PartlyDone, Refused
from deltacli.core.machine import system_clock
from deltacli.core.times import format_timestamp

if TYPE_CHECKING:
    from deltacli.changing.file_totals import FileTotals
    from deltacli.table.handle import TableHandle

_YES = ("y", "yes")
_AHEAD_MS = 60_000


def confirmed(
    run: CommandContext,
    what: str,
    show_plan: Callable[[], None],
    *,
    yes: bool,
    dry_run: bool = False,
    facts: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Return True if the user confirms `what`, False for a dry run, which only notes it and shows the plan; raise
    Refused, with the option to add and `facts`, otherwise.

    `what` names the change with its numbers: `delete 63 files (3.2 GiB)`. `show_plan` writes the plan to stdout. It is
    not called where the answer is known, or where a document with the same content follows.
    """
    what = invocation.with_catalog_names(what)
    if dry_run:
        run.note(f"note: would {what}")
        show_plan()
        return False
    if yes:
        invocation.has_agreed = True
        return True
    if not _can_ask():
        show_plan()
        raise Refused(
            f"confirmation is required to {what}",
            preamble=NOTHING_CHANGED,
            code="consent.missing",
            facts=dict(facts),
            hint=repeat_command_with(invocation.arguments, "--yes"),
        )
    is_for_eyes = run.format.is_for_people and run.output is None
    if is_for_eyes:
        show_plan()
    if not _ask(what):
        if not is_for_eyes:
            show_plan()
        raise Refused("cancelled; nothing was changed", code="consent.denied")
    invocation.has_agreed = True
    run.confirm()
    return True


def now_is_ahead(run: CommandContext) -> bool:
    """Return True where `--now` is later than the clock of this machine: only a dry run may use it."""
    return run.clock() > system_clock() + _AHEAD_MS


def require_now_is_not_ahead(run: CommandContext, plan: str = "--dry-run") -> None:
    """Raise Refused where `--now` is later than the clock of this machine, which would delete files as too old; `plan`
    shows what would be done.

    A dry run may use such a time to show what a later run will do.
    """
    now_ms, true_ms = run.clock(), system_clock()
    if now_is_ahead(run):
        raise Refused(
            f"--now {format_timestamp(now_ms)} is later than the clock, so recent files would count as old",
            preamble=NOTHING_CHANGED,
            code="clock.ahead",
            facts={"clock": format_timestamp(true_ms)},
            hint=f"omit --now, or show the plan with {plan}",
        )


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def _ask(what: str) -> bool:
    """Ask on stderr, wrapped between words; an empty answer means no."""
    close_live_line()
    sys.stdout.flush()
    answer = b""
    try:
        write_stderr(_wrapped(f"{escape_for_screen(what)}? [y/N]") + " ")
        answer = read_line(sys.stdin.fileno())
    finally:
        if not answer.endswith(b"\n"):  # Ctrl-C or Ctrl-D
            write_stderr("\n")
    return answer.decode("utf-8", "replace").strip().lower() in _YES


def _wrapped(question: str) -> str:
    width = terminal_width() - 1
    if len(question) <= width:
        return question
    import textwrap

    return textwrap.fill(question, max(width, 20), break_long_words=False, break_on_hyphens=False)


# -- a command that changes a table ------------------------------------------------------------------------------------

P = TypeVar("P", bound=Plan)
O = TypeVar("O", bound=ChangeOutcome)  # noqa: E741


class Mode(NamedTuple):
    """What a command does with the plan: show it, say whether it is due, or execute it, with a question or without."""

    dry_run: bool = False
    yes: bool = False
    check: bool = False

    @property
    def only_plans(self) -> bool:
        return self.dry_run or self.check


@dataclass(frozen=True, eq=False, repr=False)
class Wording(Generic[P, O]):
    """How a command tells of a change."""

    question: Callable[[P], str] | None
    """Makes what somebody is asked; None: the command does not ask."""
    planned: Callable[[P, bool], Result]
    """Makes the result of a plan; with True, of one that is not executed."""
    done: Callable[[O], Result]
    following: Callable[[O], str | None]
    """The command to run after the change; None where nothing was done."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The options that accept what a guard refuses, by the code of the refusal."""
    notes: Callable[[P], Iterable[str]] = lambda _: ()
    """Makes the notes on a plan, which come before everything else."""
    before: Callable[[P], str | None] = lambda _: None
    """Makes the command to run before the change can do what it is for; pipes show it, too. Empty: none is advised."""
    deletes_by_age: bool = False
    """Nothing is executed with a `--now` that is later than the clock."""
    repeats: bool = False
    """The same command does what could not be done."""
    facts: Callable[[P], Mapping[str, str]] = lambda _: {}
    """What the refusal to go on without a confirmation names as well."""
    deed: Callable[[P], tuple[str, FileTotals]] | None = None
    """What is done with how many files, for a question about several tables; None: the command takes one table."""
    achieved: Callable[[O], tuple[int, int | None]] | None = None
    """With how many files it was done, and their bytes, None if these are not known; None: as planned."""
    kept: str = ""
    """What the question about several tables says behind their number."""
    is_finding: Callable[[P | O], bool] = lambda _: False
    """Whether a plan that is not executed, or what was done, ends with the exit code of a finding."""
    refused: Callable[[Refused | PartlyDone], None] = lambda _: None
    """Completes the refusal, or what says that something was left, with what this command can do about it."""


def run_change(
    run: CommandContext, table: TableHandle, change: Change[P, O], wording: Wording[P, O], mode: Mode
) -> P | O:
    """Carry out a change in one of its modes, and return its plan, or its outcome if it was executed.

    Raises what it raises, Refused without confirmation, and Exit for findings: `--check`, a change that is due.
    """
    with _with_ways_out(wording):
        plan = plan_change(change, table)
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
                require_complete(change.outcome(plan))
            _end_plan(run, plan, wording, mode)
            return plan
    pending = Pending(run, table, change, wording, mode, plan)
    if run.part is None:
        return pending.execute(is_agreed=False)
    run.part.state_plan(_planned_amount(wording, plan), is_noop=False)
    if pending.asks and not mode.yes:
        _write_plan(run, wording, plan)
    run.part.pending = pending
    return plan


@contextmanager
def _with_ways_out(wording: Wording[P, O]) -> Iterator[None]:
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
    if first := wording.before(plan):
        run.say_next(first, also_in_pipe=True)
    elif not (first == "" or plan.is_noop or (wording.deletes_by_age and now_is_ahead(run))):
        run.say_next(repeat_command_without_flag(invocation.arguments, "--dry-run"))
    if wording.is_finding(plan):
        raise Exit(EXIT_FINDINGS)


class Pending(Generic[P, O]):
    """A change that is planned, and not executed yet."""

    def __init__(
        self, run: CommandContext, table: TableHandle, change: Change[P, O], wording: Wording[P, O], mode: Mode, plan: P
    ) -> None:
        self.run, self.table, self.change, self.mode = run, table, change, mode
        self.wording, self.plan = wording, plan

    @property
    def asks(self) -> bool:
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

    def execute(self, *, is_agreed: bool) -> O:
        """Execute the plan. Somebody agreed to it, or is asked here. Raises what `execute_change` does."""
        if is_agreed:
            self.run.confirm()
        with _with_ways_out(self.wording):
            return self._execute(is_agreed=is_agreed)

    def _execute(self, *, is_agreed: bool) -> O:
        run, wording, plan = self.run, self.wording, self.plan
        executions: list[ChangeExecution[P, O]] = []
        noted = len(plan.base_version.warnings)

        def ask(planned: P) -> Consent:
            if wording.question is None:
                return consent_to_command(planned)
            if not (is_agreed and planned is plan):
                if run.part is not None:  # the question is about this table alone
                    run.part.shows_details = True
                show = partial(_write_plan, run, wording, planned)
                confirmed(run, wording.question(planned), show, yes=self.mode.yes, facts=wording.facts(planned))
            if wording.deletes_by_age:
                require_now_is_not_ahead(run)
            return consent_to_command(planned) if self.mode.yes else consent_to_plan(planned)

        try:
            try:
                outcome = execute_change(self.change, self.table, plan=plan, ask=ask, on_start=executions.append)
            except Exception as fault:
                _note_after(run, executions, noted)
                if executions and (executions[0].has_begun or executions[0].has_ended or isinstance(fault, PartlyDone)):
                    self._write_outcome(executions[0])
                raise
            _note_after(run, executions, noted)
            self._write_outcome(executions[0])
            if (following := wording.following(outcome)) is not None:
                run.say_next(following)
        except Interrupted as interruption:
            interruption.outcome = _told(executions, interruption)
            if run.part is not None and executions and executions[0].has_begun:
                self._write_outcome(executions[0])
            raise
        invocation.is_reporting |= executions[0].has_begun
        if wording.is_finding(outcome):
            raise Exit(EXIT_FINDINGS)
        return outcome

    def _write_outcome(self, execution: ChangeExecution[P, O]) -> None:
        """Write what was done, and keep its amount for the row of a table among several."""
        if self.run.part is not None:
            achieved = self.wording.achieved
            if achieved is not None:
                self.run.part.state_outcome(*achieved(execution.outcome))
        self.run.write(_done(self.wording, execution))


def _planned_amount(wording: Wording[P, O], plan: P) -> FileTotals | None:
    """Return the files of a plan; None where they are not known before it is executed."""
    return None if wording.deed is None else wording.deed(plan)[1]


def _write_plan(run: CommandContext, wording: Wording[P, O], plan: P) -> None:
    run.write(wording.planned(plan, True))


def _note_after(run: CommandContext, executions: list[ChangeExecution[P, O]], noted: int) -> None:
    """Note what could not follow a commit."""
    for execution in executions:
        for caution in execution.plan.base_version.warnings[noted:]:
            run.note(f"note: {caution}")


def _done(wording: Wording[P, O], execution: ChangeExecution[P, O]) -> Result:
    """Return what was done as a result, whose document says where it was planned again behind another writer."""
    result = wording.done(execution.outcome)
    if execution.was_planned_again and isinstance(result, SingleResult):
        result.content = {**result.content, "replanned": True}
    return result


def _told(executions: list[ChangeExecution[P, O]], interruption: Interrupted) -> str:
    """Return what was done before an interruption, with the commit that was in flight."""
    notes = [*getattr(interruption, "__notes__", ())]
    if executions and executions[0].has_begun:
        notes.insert(0, executions[0].outcome.describe_progress())
        if not executions[0].has_ended:
            notes.append(CONTINUE)
    return "; ".join(dict.fromkeys(notes)) or interruption.outcome
