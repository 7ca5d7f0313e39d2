"""Carrying out a change of a table in the same way for every command, call and step: plan, consent, look again, act."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from deltacli.changing.acts import Act
from deltacli.changing.gate import Consent, Gate, Plan, for_plan, standing
from deltacli.core.errors import DeltacliError, OutcomeUnknown, PartlyDone, Refused
from deltacli.storage.base import require_place

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

P = TypeVar("P", bound=Plan)
O = TypeVar("O", bound="Outcome")  # noqa: E741
O_co = TypeVar("O_co", bound="Outcome", covariant=True)


class Outcome(Protocol):
    """What was done."""

    def so_far(self) -> str:
        """Return in words what was done before an error or an interruption."""

    def require_complete(self) -> None:
        """Raise PartlyDone, or PermissionRefused, where something was left undone."""


class Change(Protocol[P, O]):
    """A change of a table, made from a request."""

    act: ClassVar[Act]
    """What it does to the table."""

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> P:
        """Plan it on the newest version, or on one that was rebuilt already. Reasons against it are in the plan."""

    def outcome(self, plan: P) -> O:
        """Return the outcome of a plan of which nothing was done yet."""

    def execute(self, gate: Gate[P, O]) -> None:
        """Carry out `gate.plan`, and note in `gate.outcome` what was done. Writes through the gate only."""


_COMMITS = Act.COMMIT | Act.ADD | Act.NAME | Act.DELETE

Began = Callable[[Plan, object], None]
"""Called with the plan and the outcome before the first act, so that an interruption can tell what was done."""


def plan_change(change: Change[P, O], table: TableHandle) -> P:
    """Plan a change of the newest version in the directory that the table is in now. The basis gets the cautions about
    what other engines keep beside the log, where the change commits.

    Raises Refused where it builds on a protocol or metadata that the checksum file of the version has otherwise.
    """
    plan = change.plan(table.held())
    snapshot = plan.basis.snapshot
    if snapshot is None or plan.is_noop:
        return plan
    if change.act & (Act.COMMIT | Act.NAME) and snapshot.version in snapshot.listing.checksums:
        from deltacli.table.checksum_guard import require_configuration_as_in_checksum

        require_configuration_as_in_checksum(snapshot)
    if change.act & _COMMITS:
        from deltacli.changing.views import views_of

        plan.basis.cautions.extend(views_of(snapshot))
    return plan


def carry_out(
    change: Change[P, O],
    table: TableHandle,
    *,
    plan: P | None = None,
    ask: Callable[[P], Consent] = standing,
    began: Callable[[Gate[P, O]], None] | None = None,
) -> O:
    """Plan a change, unless there is a plan, and execute it with the consent that `ask` returns or raises.

    Raises Refused where something objects to the plan; after the first act an error is PartlyDone with the same code,
    but for OutcomeUnknown, and an interruption has a note of what was done.
    """
    made = plan_change(change, table) if plan is None else plan
    if (refusal := made.objection()) is not None:
        raise refusal
    outcome = change.outcome(made)
    if made.is_noop:
        outcome.require_complete()
        return outcome
    gate = Gate(change.plan, made, ask, outcome)
    if began is not None:
        began(gate)
    try:
        change.execute(gate)
    except (OutcomeUnknown, PartlyDone) as fault:
        if gate.has_begun:
            fault.facts.setdefault("so far", gate.outcome.so_far())
        raise
    except DeltacliError as error:
        cause = _cause(gate.store, error)
        if gate.has_begun:
            raise PartlyDone.after(cause, gate.outcome.so_far()) from error
        raise cause from error.__cause__
    except BaseException as stop:
        if gate.has_begun:
            stop.add_note(gate.outcome.so_far())
        raise
    gate.has_ended = True
    gate.outcome.require_complete()
    return gate.outcome


def execute_plan(change: Change[P, O], table: TableHandle, plan: P, *, may_plan_again: bool) -> O:
    """Execute a plan and nothing else, unless it may be made again behind other writers. Raises as `carry_out`."""
    return carry_out(change, table, plan=plan, ask=standing if may_plan_again else for_plan)


def _cause(storage: ReadStorage, fault: DeltacliError) -> DeltacliError:
    """Return why a change failed: whatever the fault is, it follows from another directory at the path."""
    try:
        require_place(storage)
    except Refused as other:
        return other
    return fault
