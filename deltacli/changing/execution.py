"""The execution of one change, through which everything is written to the table.

Between a plan and its execution, the table may be replaced, rolled back or changed by other writers. A
`ChangeExecution` checks for that before the first write, commits, and plans again if another writer commits first. It
also records whether something was written, because that decides what an error means for the user: before the first
write nothing was changed, after it the change was done in part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple

from deltacli.changing.consent import build_not_agreed_error, compute_plan_id
from deltacli.changing.outcome import OutcomeT
from deltacli.changing.plan import PlanT
from deltacli.changing.rechecks import (
    recheck_base_commit_if_stale,
    recheck_log,
    require_same_base_commit,
    require_same_log,
    require_valid_clock,
)
from deltacli.changing.views import MANIFEST_PROPERTY, find_stale_views
from deltacli.core import errors
from deltacli.delta.log.actions import NO_METADATA
from deltacli.delta.log.state import is_true
from deltacli.storage.directory_identity import require_same_directory
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.base_version import BaseVersion
    from deltacli.changing.commit import Committed, NothingToDo
    from deltacli.changing.commit_sender import Pause
    from deltacli.changing.consent import Consent
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.delta.log.segment import LogListing
    from deltacli.storage import Storage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class UnfinishedGoal(NamedTuple):
    """The goal of a change of several steps, for the message of an error after the first step.

    Example: `features drop` first rewrites data files, and removes the feature from the protocol at the end.

    Attributes:
        message: The goal that is not reached yet. The message of the error begins with it.
        hint: The command that continues; None if there is none.
    """

    message: str
    hint: str | None


class ChangeExecution(Generic[PlanT, OutcomeT]):
    """The execution of one change of one table.

    Attributes:
        plan: The plan that is executed. If other writers commit first, it is replaced by a newer plan.
        outcome: What was done so far. `Change.execute` updates it.
        table: The table, bound to the directory in which it was planned.
        has_begun: Whether something was written or deleted. From then on, an error is converted to PartlyDone.
        has_ended: Whether `Change.execute` has returned. Some of the planned work may have failed nevertheless.
        has_stale_manifests: Whether this change made symlink manifests stale that deltacli keeps up to date.
        unfinished_goal: The goal that an error after the first write refers to; None for changes of one step.
    """

    def __init__(
        self,
        plan_again: Callable[[TableHandle, Snapshot], PlanT],
        plan: PlanT,
        ask: Callable[[PlanT], Consent],
        outcome: OutcomeT,
    ) -> None:
        """Ask for consent to a plan, and prepare its execution.

        Args:
            plan_again: Plans the change for another version of the table.
            plan: The plan. Its base_version has the table.
            ask: Returns the consent to a plan, or raises Refused.
            outcome: The outcome before anything was done.
        """
        self._plan_again = plan_again
        self._ask = ask
        self._agreed_plan = plan
        self._consent = ask(plan)
        self._has_used_planned_version = False
        self.plan = plan
        self.outcome = outcome
        self.table = plan.base_version.table
        self.has_begun = False
        self.has_ended = False
        self.has_stale_manifests = False
        self.unfinished_goal: UnfinishedGoal | None = None

    @property
    def store(self) -> Storage:
        """The store to write to, bound to the directory in which the change was planned."""
        return self.table.writable()

    @property
    def was_planned_again(self) -> bool:
        """True if `plan` is not the plan that the user has seen, because another writer committed first."""
        return self.plan is not self._agreed_plan

    @property
    def accepts_any_plan(self) -> bool:
        """True if consent was given to the command (`--yes`), so that a plan with other effects may be executed."""
        return self._consent is None

    def recheck_table(
        self, base_version: BaseVersion | None = None, *, needs_clock: bool = False, listing: LogListing | None = None
    ) -> None:
        """Require that a table is still the one that was planned. Call it before the first write.

        Args:
            base_version: The base_version of another table that the change reads, such as the source of a clone; None for the base_version
                of the plan.
            needs_clock: Whether the change writes times that other engines compare, such as deletion times.
            listing: The log, if it was listed after the plan; None to list it here.

        Raises:
            Refused: If the table was replaced or rolled back, or the clock is behind (`plan.*`).
        """
        if base_version is None:
            base_version = self.plan.base_version
        else:
            require_same_directory(base_version.table.storage)
        if needs_clock:
            require_valid_clock(self.table, base_version.now_ms, base_version.base_commit)
        if listing is None:
            recheck_log(base_version)
        else:
            require_same_log(base_version, listing)

    def recheck_base_commit(self, base_version: BaseVersion | None = None) -> None:
        """Require that the base commit is still the same file. Sends at most one request.

        Args:
            base_version: The base_version of a later plan of this change, whose log was listed just now; None for the base_version of the
                plan.

        Raises:
            Refused: If the file was replaced or deleted (`plan.other-past`).
        """
        if base_version is None:
            require_same_base_commit(self.table.storage, self.plan.base_version.base_commit)
        else:
            recheck_base_commit_if_stale(base_version)

    def accept_new_plan(self, plan: PlanT) -> PlanT:
        """Continue with a plan that was made again because another writer committed first.

        Returns:
            The plan.

        Raises:
            Refused: If there are reasons not to execute the new plan.
            ConflictLost: If consent was given to the first plan only, and the new plan has other effects. A plan
                without effects needs no consent.
        """
        refusal = plan.build_refusal()
        if refusal is not None:
            raise refusal
        needs_consent = self._consent is not None and not plan.is_noop
        if needs_consent and compute_plan_id(plan) != self._consent:
            raise build_not_agreed_error(self.plan, plan)

        # Only `plan_change` looks for stale views, so the new plan takes over the warnings of the first one.
        plan.base_version.warnings[:] = self.plan.base_version.warnings
        self.plan = plan
        return plan

    def ask_to_continue(self, plan: PlanT) -> bool:
        """Ask for consent to a plan for further steps, and continue with it.

        Example: the repair of one error may uncover another error, which is repaired by a second plan.

        Returns:
            True if consent was given. Otherwise `plan` remains the previous plan.
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
        """Commit the plan as the version after the one that it was made from.

        If another writer commits first, and changes something that the plan depends on, the change is planned again.
        The new plan is committed if `accept_new_plan` accepts it.

        Args:
            build_request: Builds the commit from a plan, or returns None if there is nothing to do.
            plan_again: Makes the plan for a newer version from the previous plan; None to plan from scratch.
            recheck: Called before each attempt, see `deltacli.changing.commit.commit`.
            commit_metadata: Additional keys of the commitInfo.
            needs_clock: Whether the commit contains times that other engines compare, see `recheck_table`.
            pause: Waits before a retry.

        Raises:
            DeltacliError: If `recheck_table`, `accept_new_plan`, `deltacli.changing.commit.commit` or one of the passed
                functions raises it.
        """

        creates_table = self.plan.base_version.version < 0
        return self.commit_step(
            partial(self._build_planned_request, build_request, plan_again),
            build_first_request=(lambda: build_request(self.plan)) if creates_table else None,
            recheck=recheck,
            commit_metadata=commit_metadata,
            needs_clock=needs_clock,
            pause=pause,
        )

    def _build_planned_request(
        self,
        build_request: Callable[[PlanT], CommitRequest | None],
        plan_again: Callable[[PlanT, Snapshot], PlanT] | None,
        snapshot: Snapshot,
    ) -> CommitRequest | None:
        """Build the commit of the plan, after planning again if another writer has changed the table.

        Args:
            build_request: Builds the commit from a plan.
            plan_again: Makes the plan for a newer version from the previous plan; None to plan from scratch.
            snapshot: The version that the commit will follow.
        """
        # `commit` reads another snapshot only after a commit of another writer.
        is_planned_version = snapshot is self.plan.base_version.snapshot
        if not is_planned_version:
            if plan_again is not None:
                new_plan = plan_again(self.plan, snapshot)
            else:
                new_plan = self._plan_again(self.table, snapshot)
            self.accept_new_plan(new_plan)
        return None if self.plan.is_noop else build_request(self.plan)

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
        """Commit one step of a change that needs several commits. The plan is not made again.

        The first step is committed after the version of the plan, once the table was rechecked. Each later step is
        committed after the newest version, or directly after the previous step (`after`).

        Args:
            build_request: Builds the commit from a version, or returns None if there is nothing to do.
            build_first_request: Builds version 0; None if the table exists.
            after: The commit of the previous step, see `deltacli.changing.commit.commit`.
            recheck: Called before each attempt.
            commit_metadata: Additional keys of the commitInfo.
            needs_clock: Whether the commit contains times that other engines compare, see `recheck_table`.
            pause: Waits before a retry.

        Raises:
            DeltacliError: As for `commit`.
        """
        from deltacli.changing.commit import Committed, commit  # imports pyarrow, which a dry run does not need

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
        # Python handles signals at calls. Unlike `isinstance`, `match` on a class is no call, so an interruption cannot
        # come before `has_begun` is set.
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
        """Return the version of the plan for the first attempt, after rechecking the table; then the newest version.

        Args:
            table: The table to read the newest version of.
            build_first_request: Builds version 0; None if the table exists.
            needs_clock: See `recheck_table`.
        """
        planned_snapshot = self.plan.base_version.snapshot
        # A plan that creates a table has no snapshot, because there is no version yet. Other plans may have dropped it.
        has_planned_version = planned_snapshot is not None or build_first_request is not None
        if self._has_used_planned_version or not has_planned_version:
            return read_snapshot(table)
        self._has_used_planned_version = True
        self.recheck_table(needs_clock=needs_clock)
        return planned_snapshot

    def _note_stale_manifests(self, committed: Committed) -> None:
        """Set `has_stale_manifests` if a commit turned on manifests, or changed files of a table with manifests."""
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

    def update_manifests(self, *, has_unread_version: bool = False) -> None:
        """Write the symlink manifests of the newest version if this change made them stale.

        A failure only adds a warning to the base_version of the plan, because the version is committed already. If it were an
        error, Spark would repeat the append.

        Args:
            has_unread_version: Whether the newest version may be unknown to this run, because commits were recovered or
                the outcome of a commit is unknown. Then its properties decide whether there are manifests to update.
        """
        if has_unread_version:
            self._examine_newest_version()
        if self.has_stale_manifests:
            from deltacli.changing.manifests import update_manifests  # imports pyarrow

            self.plan.base_version.warnings.extend(update_manifests(self.table))

    def _examine_newest_version(self) -> None:
        """Set `has_stale_manifests` by the properties of the newest version, and warn about other stale views."""
        # If the newest version cannot be read, assume that it has the properties of the planned version.
        newest_snapshot = self.plan.base_version.snapshot
        with suppress(errors.DeltacliError):
            newest_snapshot = read_snapshot(self.table)
        if newest_snapshot is None:
            return
        if is_true(newest_snapshot.properties, MANIFEST_PROPERTY):
            self.has_stale_manifests = True
        if newest_snapshot.version != self.plan.base_version.version:
            warnings = self.plan.base_version.warnings
            new_warnings = [warning for warning in find_stale_views(newest_snapshot) if warning not in warnings]
            warnings.extend(new_warnings)
