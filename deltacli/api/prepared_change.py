"""A change of a table that was requested and is not planned yet: `PreparedChange`.

Commands and methods of tables plan and execute changes here, so that the command line and the Python API cannot differ:

change = table.prepare_vacuum(request)
plan = change.plan()  # nothing is changed
outcome = change.execute(plan)  # this plan and nothing else
outcome = change.carry_out()  # both at once, without a question
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from deltacli.changing.change import Change, execute_change, plan_change
from deltacli.changing.consent import Consent, consent_to_command, consent_to_plan
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.outcome import Outcome
from deltacli.changing.plan import Plan
from deltacli.core.errors import UsageError

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

P = TypeVar("P", bound=Plan)
O = TypeVar("O", bound=Outcome)  # noqa: E741


class PlanWithOutcome(Plan, Outcome, Protocol):
    """A plan that is also the outcome of its change: executing it fills in what was committed."""


PO = TypeVar("PO", bound=PlanWithOutcome)


class PreparedChange(Generic[P, O]):
    """A change of one table that was requested, and that is neither planned nor executed yet.

    Nothing is read before `plan` or `execute_change` is called. The same change may be planned several times.

    Attributes:
        table: The table that is changed, or of which something is made elsewhere.
    """

    def __init__(self, change: Change[P, O], table: TableHandle, *, writes_table: bool = True) -> None:
        """Prepare a change.

        Args:
            change: The operation with its request.
            table: The table.
            writes_table: False if nothing is written to the table itself, as for a copy. Its store may then be
                read-only.
        """
        self._change = change
        self.table = table
        self._writes_table = writes_table

    def plan(self) -> P:
        """Return what the change would do. Reasons against it are in the plan, and nothing is changed.

        Raises:
            UsageError: If the table is one of a share, for which not even a plan can be made.
            Refused: If the newest version cannot be changed, whatever the request.
        """
        # A table in a read-only store can be planned for, a table of a share cannot.
        if self._writes_table:
            self.table.require_writable(dry_run=True)
        return plan_change(self._change, self.table)

    def outcome_before_execution(self, plan: P) -> O:
        """Return the outcome of a plan of which nothing is executed."""
        return self._change.outcome(plan)

    def execute(
        self,
        plan: P,
        *,
        may_plan_again: bool = False,
        ask: Callable[[P], Consent] | None = None,
        on_start: Callable[[ChangeExecution[P, O]], None] | None = None,
    ) -> O:
        """Execute a plan of this table.

        If another writer was first, the change is planned again. It goes on if the new plan has the same effects.

        Args:
            plan: The plan.
            may_plan_again: True to go on with a new plan that has other effects, too.
            ask: Asks somebody about a plan, before it is executed and for each plan that follows from it. It returns
                the consent, which decides instead of `may_plan_again`, or raises Refused.
            on_start: Receives the execution before its first step. It tells what was done so far, for a report after
                an error or an interruption.

        Raises:
            UsageError: If the plan is one of another table.
            Refused: If the plan has a refusal, or the table is no longer as it was planned.
            ConflictLost: If the new plan has other effects.
            PartlyDone: If an error occurs after the first step, or something is left undone.
        """
        if self._writes_table:
            self.table.require_writable()
        require_same_table(plan.basis.table.uri, self.table)
        consent = consent_to_command if may_plan_again else consent_to_plan
        return execute_change(self._change, self.table, plan=plan, ask=ask or consent, on_start=on_start)

    def carry_out(self, *, dry_run: bool = False) -> O:
        """Plan and execute the change without a question.

        Args:
            dry_run: True to execute nothing, and to return the outcome of a plan that is not executed.

        Raises:
            NoAtomicCreate: If the store is read-only, before any request is sent.
            DeltacliError: Whatever `plan` and `execute` raise.
        """
        if dry_run:
            return self.outcome_before_execution(self.plan())
        # Planning a large table takes long. A read-only store is reported before that.
        if self._writes_table:
            self.table.require_writable()
        return execute_change(self._change, self.table)


def require_same_table(uri: str, table: TableHandle) -> None:
    """Require that a plan is one of this table.

    Args:
        uri: The table that was planned with.
        table: The table that is about to be changed.

    Raises:
        UsageError: If they are different ones.
    """
    if uri != table.uri:
        raise UsageError("the plan is one of another table", facts={"plan": uri, "table": table.uri})


def plan_or_carry_out(change: PreparedChange[PO, PO], *, dry_run: bool) -> PO:
    """Carry out a change whose plan is also its outcome; with `dry_run` return the plan, refusals included."""
    return change.plan() if dry_run else change.carry_out()


def require_no_refusal(plan: Plan) -> None:
    """Raise the refusals of a plan that a method does not return to its caller.

    Raises:
        Refused: If the plan has one.
    """
    refusal = plan.build_refusal()
    if refusal is not None:
        raise refusal
