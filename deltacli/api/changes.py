"""How the methods of a table plan a change, and carry it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from deltacli.core.errors import UsageError
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.changing.change import Change, Outcome
    from deltacli.changing.gate import Plan

    class PlanWithOutcome(Plan, Outcome, Protocol):
        """A plan whose outcome has the same type."""

    P = TypeVar("P", bound=Plan)
    PO = TypeVar("PO", bound=PlanWithOutcome)
    O = TypeVar("O", bound=Outcome)  # noqa: E741


class Changes(TableHandle):
    """What the methods of a table that change it have in common. They act at once, without a question; `plan_…` and
    `execute_…` are their two halves.
    """

    def _made(self, change: Change[PO, PO], *, dry_run: bool, refuses: bool = False) -> PO:
        """Carry out a change whose outcome is one of its plan, or only plan it; `refuses`: raise what objects to it."""
        found = self._plan(change) if dry_run else self._carry_out(change)
        if refuses and (refusal := found.objection()) is not None:
            raise refusal
        return found

    def _done(self, change: Change[P, O], *, dry_run: bool) -> O:
        """Carry out a change, or return the outcome of a plan of which nothing is done."""
        return change.outcome(self._plan(change)) if dry_run else self._carry_out(change)

    def _plan(self, change: Change[P, O]) -> P:
        """Plan a change. What objects to it is in the plan."""
        from deltacli.changing.change import plan_change

        self.require_writable(dry_run=True)
        return plan_change(change, self)

    def _carry_out(self, change: Change[P, O]) -> O:
        from deltacli.changing.change import carry_out

        self.require_writable()
        return carry_out(change, self)

    def _execute(self, change: Change[P, O], plan: P, *, writes: bool = True, may_plan_again: bool = False) -> O:
        """Execute a plan of this table and nothing else, unless it may be made again behind other writers; `writes`: it
        writes to the table.
        """
        from deltacli.changing.change import execute_plan

        self.require_writable(dry_run=not writes)
        self._require_own(plan.basis.table.uri)
        return execute_plan(change, self, plan, may_plan_again=may_plan_again)

    def _require_own(self, uri: str) -> None:
        if uri != self.uri:
            raise UsageError("the plan is one of another table", facts={"plan": uri, "table": self.uri})
