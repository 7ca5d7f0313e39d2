"""The gate between a plan and the table: nothing is written before it has looked at the table again.

What somebody agreed to is one plan, or the command itself; behind another writer a change is planned again, and goes on
only if that was agreed to, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from deltacli.changing.basis import Basis, look_again, require_clock
from deltacli.core.errors import NOTHING_CHANGED, ConflictLost, Refused
from deltacli.core.hints import command
from deltacli.delta.log.commit_metadata import NO_METADATA
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.commit import Committed, NothingToDo, Pause
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.storage import Storage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_NAMED = 5


class Plan(Protocol):
    """What a change would do. Nothing has been done."""

    @property
    def basis(self) -> Basis:
        """What it was made from."""

    @property
    def is_noop(self) -> bool:
        """Return True where the table already is as requested."""

    def objection(self) -> Refused | None:
        """Return the error that its reasons against the change make; None without one."""

    def effects(self) -> Iterable[str]:
        """Return what somebody agrees to, a line each, without versions and times."""


P = TypeVar("P", bound=Plan)
P_co = TypeVar("P_co", bound=Plan, covariant=True)
Done = TypeVar("Done")
"""The outcome of a change."""


Consent = str | None
"""The `plan_id` that was agreed to: a plan made again must have the same effects. None where the command was agreed to
before there was a plan: then it may be planned again behind another writer.
"""


def plan_id(plan: Plan) -> str:
    """Return 16 hexadecimal digits that are equal for plans with equal effects."""
    import hashlib

    text = "\n".join(plan.effects()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def standing(_: Plan) -> Consent:
    """Agree to the command, as a call and `--yes` do."""
    return None


def for_plan(plan: Plan) -> Consent:
    """Agree to a plan and nothing else, as somebody does who has read it."""
    return plan_id(plan)


class Gate(Generic[P, Done]):
    """The way of one change into its table. `plan` is the newest one, `outcome` what was done so far."""

    def __init__(
        self, plan_again: Callable[[TableHandle, Snapshot], P], plan: P, ask: Callable[[P], Consent], outcome: Done
    ) -> None:
        self._plan_again, self._agreed, self._ask, self._consent = plan_again, plan, ask, ask(plan)
        self._was_read = False
        self.plan, self.outcome = plan, outcome
        self.table = plan.basis.table
        self.has_begun = False
        """Whether something was committed, deleted or put in place: from then on an error is PartlyDone."""
        self.has_ended = False
        """Whether the change was executed to its end, although not all of it may have been possible."""

    @property
    def store(self) -> Storage:
        """The store that writes to the table, in the directory where the plan was made."""
        return self.table.writable()

    @property
    def was_planned_again(self) -> bool:
        """Return True if what is executed was planned behind another writer."""
        return self.plan is not self._agreed

    @property
    def may_plan_again(self) -> bool:
        """Return True if consent was given to the command, whatever its plan."""
        return self._consent is None

    def look(self, *, needs_clock: bool = False) -> None:
        """Look at the log of the plan again, before the first act. Raises Refused (`plan.*`)."""
        basis = self.plan.basis
        if needs_clock:
            require_clock(self.table, basis.now_ms, basis.past)
        look_again(basis)

    def again(self, plan: P) -> P:
        """Take a plan that was made again. Raises Refused where it is refused, ConflictLost where nobody agreed to its
        effects.
        """
        if (refusal := plan.objection()) is not None:
            raise refusal
        if self._consent is not None and not plan.is_noop and plan_id(plan) != self._consent:
            raise _not_agreed(self.plan, plan)
        plan.basis.cautions[:] = self.plan.basis.cautions
        self.plan = plan
        return plan

    def follow(self, plan: P) -> bool:
        """Ask about a plan that follows from what was done, and take it; return False where nobody agrees to it."""
        try:
            self._consent = self._ask(plan)
        except Refused:
            return False
        self._agreed = self.plan = plan
        return True

    def commit(
        self,
        make: Callable[[P], CommitRequest | None],
        *,
        plan_again: Callable[[P, Snapshot], P] | None = None,
        look: Callable[[], bool] | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        needs_clock: bool = False,
        pause: Pause | None = None,
    ) -> Committed | NothingToDo:
        """Commit what `make` returns for the plan, after the version that it was made from, or for the plan as it is
        made again behind other writers, by `plan_again` from the one before; None where nothing is left to do. `look`
        is as for `commit`.

        Raises what `look`, `again` and `commit` raise.
        """

        def request(snapshot: Snapshot) -> CommitRequest | None:
            if snapshot is not self.plan.basis.snapshot:
                made = plan_again(self.plan, snapshot) if plan_again else self._plan_again(self.table, snapshot)
                self.again(made)
            return None if self.plan.is_noop else make(self.plan)

        create = (lambda: make(self.plan)) if self.plan.basis.version < 0 else None
        return self.commit_one(
            request, create=create, look=look, commit_metadata=commit_metadata, needs_clock=needs_clock, pause=pause
        )

    def commit_one(
        self,
        make: Callable[[Snapshot], CommitRequest | None],
        *,
        create: Callable[[], CommitRequest | None] | None = None,
        after: Committed | None = None,
        look: Callable[[], bool] | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        needs_clock: bool = False,
        pause: Pause | None = None,
    ) -> Committed | NothingToDo:
        """Commit one of several steps of a change, whose plan is not made again: what `make` returns for a version. The
        first step begins at the version of the plan, later ones at the newest, or `after` one before, as for `commit`;
        where there is no table, at what `create` returns.
        """

        def read(table: TableHandle) -> Snapshot | None:
            snapshot = self.plan.basis.snapshot
            if self._was_read or (snapshot is None and create is None):
                return read_snapshot(table)
            self._was_read = True
            self.look(needs_clock=needs_clock)
            return snapshot

        from deltacli.changing.commit import Committed, commit

        done = commit(
            self.table,
            make,
            read=read,
            create=create,
            after=after,
            look=look,
            commit_metadata=commit_metadata,
            pause=pause,
        )
        self.has_begun = self.has_begun or isinstance(done, Committed)
        return done


def _not_agreed(agreed: Plan, plan: Plan) -> ConflictLost:
    """Return the error for a table that another writer has changed so that the plan would do something else."""
    before, after = list(agreed.effects()), list(plan.effects())
    facts = {f"agreed to {number}": text for number, text in enumerate(before[:_NAMED], 1)}
    facts |= {f"now {number}": text for number, text in enumerate(after[:_NAMED], 1)}
    return ConflictLost(
        "another writer has changed the table, and the change would now do something else",
        said_first=NOTHING_CHANGED,
        facts=facts,
        hint=command("history", limit=10),
    )
