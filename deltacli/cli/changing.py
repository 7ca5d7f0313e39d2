"""A command that changes a table: plan, question, execution, result and next command, in all of its modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import typer

from deltacli.changing import change as changing
from deltacli.changing.change import Change, carry_out, plan_change
from deltacli.changing.gate import Consent, Gate, Plan, for_plan, standing
from deltacli.cli.confirmation import now_is_ahead, require_confirmation, require_now_is_not_ahead
from deltacli.cli.invocation import invocation
from deltacli.cli.options.run import Run
from deltacli.cli.results import Outcome, Result
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again, again_with, again_without
from deltacli.core.errors import EXIT_FINDINGS, DeltacliError, PartlyDone, Refused

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

P = TypeVar("P", bound=Plan)
O = TypeVar("O", bound=changing.Outcome)  # noqa: E741


class Mode(NamedTuple):
    """What a command does with the plan: show it, say whether it is due, or execute it, without a question or after
    one.
    """

    dry_run: bool = False
    yes: bool = False
    check: bool = False

    @property
    def only_plans(self) -> bool:
        """Return True if nothing is executed."""
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


def run_change(run: Run, table: TableHandle, change: Change[P, O], wording: Wording[P, O], mode: Mode) -> P | O:
    """Carry out a change in one of its modes, and return its plan, or its outcome if it was executed.

    Raises what it raises, Refused without confirmation, and Exit where `--check` found a change that is due.
    """
    try:
        plan = plan_change(change, table)
        for note in (*plan.basis.cautions, *wording.notes(plan)):
            run.note(f"note: {note}")
        refusal = plan.objection()
        if mode.only_plans or plan.is_noop or refusal is not None:
            _show(run, plan, refusal, wording, mode)
            if not mode.only_plans:
                change.outcome(plan).require_complete()
            return plan
        return _execute(run, table, change, wording, mode, plan)
    except Refused as refused:
        if refused.hint is None and (option := wording.overrides.get(refused.code)) is not None:
            refused.hint = again_with(invocation.arguments, option)
        raise
    except PartlyDone as partly:
        if wording.repeats and partly.cause_exit is None:
            partly.hint = again(invocation.arguments)
        raise


def _show(run: Run, plan: P, refusal: Refused | None, wording: Wording[P, O], mode: Mode) -> None:
    """Show a plan that is not executed."""
    run.write(wording.planned(plan, mode.only_plans or refusal is not None))
    if refusal is not None:
        raise refusal
    if mode.check and not plan.is_noop:
        raise typer.Exit(EXIT_FINDINGS)
    if first := wording.before(plan):
        run.say_next(first, also_in_pipe=True)
    elif not (first == "" or plan.is_noop or (wording.deletes_by_age and now_is_ahead(run))):
        run.say_next(again_without(invocation.arguments, "--dry-run"))


def _execute(run: Run, table: TableHandle, change: Change[P, O], wording: Wording[P, O], mode: Mode, plan: P) -> O:
    gates: list[Gate[P, O]] = []

    def ask(planned: P) -> Consent:
        if wording.question is None:
            return standing(planned)
        show = lambda: run.write(wording.planned(planned, True))  # noqa: E731
        require_confirmation(run, wording.question(planned), yes=mode.yes, show_plan=show, facts=wording.facts(planned))
        if wording.deletes_by_age:
            require_now_is_not_ahead(run)
        return standing(planned) if mode.yes else for_plan(planned)

    try:
        outcome = carry_out(change, table, plan=plan, ask=ask, began=gates.append)
    except Interrupted as interruption:
        interruption.outcome = _told(gates, interruption)
        raise
    except DeltacliError as fault:
        if gates and (gates[0].has_begun or gates[0].has_ended or isinstance(fault, PartlyDone)):
            run.write(_done(wording, gates[0]))
        raise
    run.write(_done(wording, gates[0]))
    if (following := wording.following(outcome)) is not None:
        run.say_next(following)
    return outcome


def _done(wording: Wording[P, O], gate: Gate[P, O]) -> Result:
    """Return what was done as a result, whose document says where it was planned again behind another writer."""
    result = wording.done(gate.outcome)
    if gate.was_planned_again and isinstance(result, Outcome):
        result.content = {**result.content, "replanned": True}
    return result


def _told(gates: list[Gate[P, O]], interruption: Interrupted) -> str:
    """Return what was done before an interruption, with the commit that was in flight."""
    notes = [*getattr(interruption, "__notes__", ())]
    if gates and gates[0].has_begun:
        notes = [*notes[-1:], *notes[:-1], "run the same command to continue"]  # the last one is what was done so far
    return "; ".join(notes) or interruption.outcome
