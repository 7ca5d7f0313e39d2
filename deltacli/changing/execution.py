"""The execution of one change: the only way from a plan to the table.

A change does not write to the table by itself. It asks its `ChangeExecution`, which looks at the table again before the
first act, commits behind other writers, and knows whether something was done already. That decides what an error means:
before the first act nothing was changed; after it the change was done in part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple

from deltacli.changing.consent import build_not_agreed_error, compute_plan_id
from deltacli.changing.outcome import OutcomeT
from deltacli.changing.plan import PlanT
from deltacli.changing.rechecks import (
    recheck_log,
    require_same_base_commit,
    require_same_log,
    require_unchanged_basis,
    require_valid_clock,
)
from deltacli.changing.views import MANIFEST_PROPERTY, find_stale_views
from deltacli.core import errors
from deltacli.delta.log.actions import NO_METADATA
from deltacli.delta.log.state import is_true
from deltacli.storage.directory_identity import require_same_directory
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.basis import Basis
    from deltacli.changing.commit import Committed, NothingToDo
    from deltacli.changing.commit_sender import Pause
    from deltacli.changing.consent import Consent
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.delta.log.segment import LogListing
    from deltacli.storage import Storage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class UnfinishedGoal(NamedTuple):
    """The purpose of a change of several steps, which an error after the first step leaves unreached.

    Attributes:
        message: What is not reached yet. The message of the error begins with it.
        hint: The command that continues; None if there is none.
    """

    message: str
    hint: str | None


class ChangeExecution(Generic[PlanT, OutcomeT]):
    """One change on its way into the table.

    Attributes:
        plan: The plan that is executed. Behind other writers it is replaced by a newer one.
        outcome: What was done so far.
        table: The table, bound to the directory in which it was planned.
        has_begun: Whether something was committed, deleted or put in place. From then on an error is PartlyDone.
        has_ended: Whether `Change.execute` returned, although not all of the change may have been possible.
        has_stale_manifests: Whether files were committed to a table whose manifests are to follow each version.
        unfinished_goal: What an error after the first act has to say first; None if nothing.
    """

    def __init__(
        self,
        plan_again: Callable[[TableHandle, Snapshot], PlanT],
        plan: PlanT,
        ask: Callable[[PlanT], Consent],
        outcome: OutcomeT,
    ) -> None:
        """Ask for consent to a plan, and begin its execution.

        Args:
            plan_again: Makes the plan for another version.
            plan: The plan. Its basis has the table.
            ask: Returns the consent to a plan, or raises Refused.
            outcome: The outcome of a plan of which nothing was done yet.
        """
        self._plan_again = plan_again
        self._ask = ask
        self._agreed_plan = plan
        self._consent = ask(plan)
        self._was_read = False
        self.plan = plan
        self.outcome = outcome
        self.table = plan.basis.table
        self.has_begun = False
        self.has_ended = False
        self.has_stale_manifests = False
        self.unfinished_goal: UnfinishedGoal | None = None

    @property
    def store(self) -> Storage:
        """The store that writes to the table, in the directory where the plan was made."""
        return self.table.writable()

    @property
    def was_planned_again(self) -> bool:
        """True if the plan was made behind another writer, so that nobody has seen it."""
        return self.plan is not self._agreed_plan

    @property
    def may_plan_again(self) -> bool:
        """True if consent was given to the command, so that a plan with other effects may be executed, too."""
        return self._consent is None

    def recheck_table(
        self, basis: Basis | None = None, *, needs_clock: bool = False, listing: LogListing | None = None
    ) -> None:
        """Require that a table is still the one that was planned. Called before the first act.

        Args:
            basis: The basis of another table that the change reads; None for that of the plan.
            needs_clock: Whether the change writes times that other engines compare, such as those of tombstones.
            listing: The log, if it was listed after the plan; None to list it here.

        Raises:
            Refused: If it is another table, or the clock is behind (`plan.*`).
        """
        if basis is None:
            basis = self.plan.basis
        else:
            require_same_directory(basis.table.storage)
        if needs_clock:
            require_valid_clock(self.table, basis.now_ms, basis.base_commit)
        if listing is None:
            recheck_log(basis)
        else:
            require_same_log(basis, listing)

    def recheck_base_commit(self, basis: Basis | None = None) -> None:
        """Require that the base commit is still the same file, with one request at most.

        Args:
            basis: The basis of a plan that follows from this change and was listed just now; None for that of the plan.

        Raises:
            Refused: If the file was replaced or is gone (`plan.other-past`).
        """
        if basis is None:
            require_same_base_commit(self.table.storage, self.plan.basis.base_commit)
        else:
            require_unchanged_basis(basis)

    def accept_new_plan(self, plan: PlanT) -> PlanT:
        """Replace the plan by one that was made behind another writer.

        Returns:
            The plan.

        Raises:
            Refused: If something speaks against the new plan.
            ConflictLost: If somebody agreed to the first plan only, and the new one has other effects. A plan that has
                nothing left to do needs no consent.
        """
        refusal = plan.build_refusal()
        if refusal is not None:
            raise refusal
        needs_consent = self._consent is not None and not plan.is_noop
        if needs_consent and compute_plan_id(plan) != self._consent:
            raise build_not_agreed_error(self.plan, plan)

        # Only `plan_change` looks for stale views, so a plan that was made again has no warnings of its own.
        plan.basis.warnings[:] = self.plan.basis.warnings
        self.plan = plan
        return plan

    def continue_with(self, plan: PlanT) -> bool:
        """Ask about a plan that follows from what was done, and continue with it.

        Returns:
            False if nobody agrees to it. The first plan stays in place then.
        """
        try:
            self._consent = self._ask(plan)
        except errors.Refused:
            return False
        self._agreed_plan = plan
        self.plan = plan
        return True

    def commit(
        self,
        build_request: Callable[[PlanT], CommitRequest | None],
        *,
        plan_again: Callable[[PlanT, Snapshot], PlanT] | None = None,
        recheck: Callable[[], bool] | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        needs_clock: bool = False,
        pause: Pause | None = None,
    ) -> Committed | NothingToDo:
        """Commit the plan after the version that it was made from.

        Behind a winner that changed what the plan depends on, the change is planned again, and goes on if the new plan
        is accepted (`accept_new_plan`).

        Args:
            build_request: Makes the commit from a plan; None if nothing is left to do.
            plan_again: Makes a plan for a newer version from the previous plan; None to plan it from scratch.
            recheck: Called before each attempt, see `deltacli.changing.commit.commit`.
            commit_metadata: Keys to add to the commitInfo.
            needs_clock: As for `recheck_table`.
            pause: Waits before a retry.

        Raises:
            DeltacliError: What `recheck_table`, `accept_new_plan`, the arguments and `commit` raise.
        """

        def build_request_for(snapshot: Snapshot) -> CommitRequest | None:
            # Another snapshot than that of the plan means that other writers have committed.
            if snapshot is not self.plan.basis.snapshot:
                if plan_again is not None:
                    new_plan = plan_again(self.plan, snapshot)
                else:
                    new_plan = self._plan_again(self.table, snapshot)
                self.accept_new_plan(new_plan)
            return None if self.plan.is_noop else build_request(self.plan)

        def build_first_request() -> CommitRequest | None:
            return build_request(self.plan)

        creates_table = self.plan.basis.version < 0
        return self.commit_step(
            build_request_for,
            build_first_request=build_first_request if creates_table else None,
            recheck=recheck,
            commit_metadata=commit_metadata,
            needs_clock=needs_clock,
            pause=pause,
        )

    def commit_step(
        self,
        build_request: Callable[[Snapshot], CommitRequest | None],
        *,
        build_first_request: Callable[[], CommitRequest | None] | None = None,
        after: Committed | None = None,
        recheck: Callable[[], bool] | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        needs_clock: bool = False,
        pause: Pause | None = None,
    ) -> Committed | NothingToDo:
        """Commit one of several steps of a change, whose plan is not made again.

        The first step begins with the version of the plan, after a recheck of the table. Later steps begin with the
        newest version, or with the commit `after` which they come.

        Args:
            build_request: Makes the commit from a version; None if nothing is left to do.
            build_first_request: Makes version 0 if there is no table yet.
            after: The commit of the previous step, see `deltacli.changing.commit.commit`.
            recheck: Called before each attempt.
            commit_metadata: Keys to add to the commitInfo.
            needs_clock: As for `recheck_table`.
            pause: Waits before a retry.
        """
        from deltacli.changing.commit import Committed, commit  # imports pyarrow, which a dry run may do without

        done = commit(
            self.table,
            build_request,
            read=lambda table: self._read_version(table, build_first_request, needs_clock=needs_clock),
            build_first_request=build_first_request,
            after=after,
            recheck=recheck,
            commit_metadata=commit_metadata,
            pause=pause,
        )
        # A `match`, because a call of `isinstance` would be a place where a signal interrupts before this is noted.
        match done:
            case Committed():
                self.has_begun = True
                self._note_stale_manifests(done)
        return done

    def _read_version(
        self,
        table: TableHandle,
        build_first_request: Callable[[], CommitRequest | None] | None,
        *,
        needs_clock: bool,
    ) -> Snapshot | None:
        """Return the version of the plan for the first attempt, and the newest one for later attempts."""
        snapshot = self.plan.basis.snapshot
        if self._was_read or (snapshot is None and build_first_request is None):
            return read_snapshot(table)
        self._was_read = True
        self.recheck_table(needs_clock=needs_clock)
        return snapshot

    def _note_stale_manifests(self, committed: Committed) -> None:
        """Note whether the manifests have to follow a commit: it turned them on, or it changed files."""
        had_manifests = committed.read_snapshot is not None and is_true(
            committed.read_snapshot.metadata.configuration, MANIFEST_PROPERTY
        )
        has_manifests = committed.resulting_version is not None and is_true(
            committed.resulting_version.metadata.configuration, MANIFEST_PROPERTY
        )
        changes_files = committed.request.body is not None
        if has_manifests and not had_manifests:
            self.has_stale_manifests = True
        if changes_files and (has_manifests or had_manifests):
            self.has_stale_manifests = True

    def update_manifests(self, *, may_be_newer: bool = False) -> None:
        """Write the manifests again if the commits of this change have made them stale.

        What fails is a warning: the version is committed, and an error would make Spark repeat an append.

        Args:
            may_be_newer: Whether the newest version may be one that this run does not know, because files of the log
                were put back or the outcome of a commit is unknown. Its properties are read then.
        """
        warnings = self.plan.basis.warnings
        if may_be_newer:
            self._look_at_newest_version(warnings)
        if self.has_stale_manifests:
            from deltacli.changing.manifests import update_manifests  # imports pyarrow

            warnings.extend(update_manifests(self.table))

    def _look_at_newest_version(self, warnings: list[str]) -> None:
        # If the newest version cannot be read, the version of the plan is the best guess.
        newest_snapshot = self.plan.basis.snapshot
        with suppress(errors.DeltacliError):
            newest_snapshot = read_snapshot(self.table)
        if newest_snapshot is None:
            return
        if is_true(newest_snapshot.properties, MANIFEST_PROPERTY):
            self.has_stale_manifests = True
        if newest_snapshot.version != self.plan.basis.version:
            warnings.extend(warning for warning in find_stale_views(newest_snapshot) if warning not in warnings)
