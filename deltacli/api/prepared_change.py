"""Plan and execute a change of a table, such as a vacuum.

The command line and the methods of the Python API both use `PreparedChange`, so that they behave the same:

    change = table.prepare_vacuum(request)
    plan = change.plan()            # changes nothing
    outcome = change.execute(plan)  # executes the plan
    outcome = change.carry_out()    # plans and executes
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
    """A plan that is also the outcome: the execution sets its attributes about the commit."""


PO = TypeVar("PO", bound=PlanWithOutcome)


class PreparedChange(Generic[P, O]):
    """A requested change of a table, which can be planned and executed.

    Creating an instance does not read the table. A change can be planned several times.

    Attributes:
        table: The table that is changed; the source for operations that write to another place, such as `copy`.
    """

    def __init__(self, change: Change[P, O], table: TableHandle, *, writes_table: bool = True) -> None:
        """Create a change.

        Args:
            change: The operation and its request.
            table: The table.
            writes_table: Whether the operation writes to the table itself. False for a copy, whose source can be in a
                read-only store.
        """
        self._change = change
        self.table = table
        self._writes_table = writes_table

    def plan(self) -> P:
        """Return the plan of the change, including its refusals. Nothing is changed.

        Raises:
            UsageError: If the table is a shared table, whose log is not accessible.
            Refused: If deltacli cannot write to the newest version of the table at all.
        """
        # Planning is possible for a table in a read-only store, but not for a shared table.
        if self._writes_table:
            self.table.require_writable(dry_run=True)
        return plan_change(self._change, self.table)

    def outcome_before_execution(self, plan: P) -> O:
        """Return the outcome of a plan before any of its steps has been executed."""
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

        If another writer commits in the meantime, the change is planned again. The new plan is executed if it has the
        same effects.

        Args:
            plan: The plan that `plan` returned.
            may_plan_again: Whether a new plan is also executed if it has other effects.
            ask: Asks the user for consent to a plan. It is called before the plan and each new plan is executed, and
                returns the consent, which replaces `may_plan_again`. If the user declines, it raises Refused.
            on_start: Called with the execution before the first step. The execution reports the steps that have been
                done, for messages after an error or an interruption.

        Raises:
            UsageError: If the plan belongs to another table.
            Refused: If the plan has a refusal, or the table has changed so that the plan is no longer valid.
            ConflictLost: If the new plan has other effects.
            PartlyDone: If an error occurs after the first step, or some steps failed.
        """
        if self._writes_table:
            self.table.require_writable()
        require_same_table(plan.base_version.table.uri, self.table)
        consent = consent_to_command if may_plan_again else consent_to_plan
        return execute_change(self._change, self.table, plan=plan, ask=ask or consent, on_start=on_start)

    def carry_out(self, *, dry_run: bool = False) -> O:
        """Plan and execute the change, without asking for consent.

        Args:
            dry_run: Whether to plan only. The result is the outcome before execution.

        Raises:
            NoAtomicCreate: If the store is read-only. No request is sent in this case.
            DeltacliError: The errors of `plan` and `execute`.
        """
        if dry_run:
            return self.outcome_before_execution(self.plan())
        # Planning can take long for a large table, so a read-only store is reported first.
        if self._writes_table:
            self.table.require_writable()
        return execute_change(self._change, self.table)


def require_same_table(uri: str, table: TableHandle) -> None:
    """Check that a plan was made for this table.

    Args:
        uri: The URI of the table that the plan was made for.
        table: The table to be changed.

    Raises:
        UsageError: If the tables are different.
    """
    if uri != table.uri:
        raise UsageError("the plan is one of another table", facts={"plan": uri, "table": table.uri})


def plan_or_carry_out(change: PreparedChange[PO, PO], *, dry_run: bool) -> PO:
    """Execute a change whose plan is also its outcome. For a dry run, return the plan, which includes the refusals."""
    return change.plan() if dry_run else change.carry_out()


def require_no_refusal(plan: Plan) -> None:
    """Raise the refusals of a plan, for methods that do not return the plan to their caller.

    Raises:
        Refused: If the plan has a refusal.
    """
    refusal = plan.build_refusal()
    if refusal is not None:
        raise refusal
