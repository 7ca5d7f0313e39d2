"""The execution of one change, through which everything is written to the table.

Between a plan and its execution, the table may be replaced, rolled back or changed by other writers. A
`ChangeExecution` checks for that before the first write, commits, and plans again if another writer commits first. It
also records whether something was written, because that decides what an error means for the user: before the first
write nothing was changed, after it the change was done in part.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple

from deltacli.changing.commit_options import DEFAULT_OPTIONS
from deltacli.changing.consent import build_not_agreed_error, compute_plan_id
from deltacli.changing.outcome import OutcomeT
from deltacli.changing.plan import PlanT
from deltacli.changing.rechecks import recheck_log, require_same_log, require_valid_clock
from deltacli.changing.views import MANIFEST_PROPERTY, find_stale_views
from deltacli.core import errors
from deltacli.delta.log.state import is_true
from deltacli.storage.directory_identity import require_same_directory
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.changing.base_version import BaseVersion
    from deltacli.changing.commit import Committed, NothingToDo
    from deltacli.changing.commit_options import CommitOptions
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

    `execute_change` creates an execution and passes it to `Change.execute`. An operation first calls one of the
    `recheck_…` methods, and then writes. `commit_plan` and `commit_step` recheck the table by themselves.

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
        plan_change: Callable[[TableHandle, Snapshot], PlanT],
        plan: PlanT,
        ask: Callable[[PlanT], Consent],
        outcome: OutcomeT,
    ) -> None:
        """Ask for consent to a plan, and prepare its execution.

        Args:
            plan_change: Plans the change for another version of the table (`Change.plan`).
            plan: The plan. Its base version contains the table.
            ask: Returns the consent to a plan, or raises Refused.
            outcome: The outcome before anything was done.
        """
        self._plan_change = plan_change
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

    def recheck_table(self) -> None:
        """Require that the table has the history that it had when it was planned. Call it before the first write.

        Lists the log again, unless a remote log was listed just now. Newer commits are allowed.

        Raises:
            Refused: If the table was replaced or rolled back (`plan.*`).
        """
        recheck_log(self.plan.base_version)

    def recheck_listed_log(self, listing: LogListing) -> None:
        """Require the same as `recheck_table`, for a log that was listed after the plan.

        Args:
            listing: The current log.

        Raises:
            Refused: If the table was replaced or rolled back (`plan.*`).
        """
        require_same_log(self.plan.base_version, listing)

    def recheck_source(self, source: BaseVersion) -> None:
        """Require that another table which the change reads, such as the source of a clone, has the same history.

        Args:
            source: The version of the other table that the change was planned for.

        Raises:
            Refused: If the other table was replaced or rolled back (`plan.*`).
        """
        # The handle of a source is not bound to its directory, because nothing is written there.
        require_same_directory(source.table.storage)
        recheck_log(source)

    def recheck_clock(self) -> None:
        """Require a valid clock, for changes that write times which other engines compare, such as deletion times.

        Raises:
            Refused: If the clock is behind the plan or behind the newest commit (`plan.clock`).
        """
        base_version = self.plan.base_version
        require_valid_clock(self.table, base_version.now_ms, base_version.base_commit)

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
        plan.base_version.warnings = list(self.plan.base_version.warnings)
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

    def commit_plan(
        self,
        build_request: Callable[[PlanT], CommitRequest | None],
        *,
        update_plan: Callable[[PlanT, Snapshot], PlanT] | None = None,
        options: CommitOptions = DEFAULT_OPTIONS,
    ) -> Committed | NothingToDo:
        """Commit the plan as the version after its base version.

        If another writer commits first, and changes something that the plan depends on, the change is planned again.
        The new plan is committed if `accept_new_plan` accepts it.

        Args:
            build_request: Builds the commit from a plan, or returns None if there is nothing to do.
            update_plan: Makes a plan for a newer version from the previous plan. By default the change is planned from
                the beginning.
            options: Options for the commit.

        Raises:
            DeltacliError: If `recheck_table`, `accept_new_plan`, `deltacli.changing.commit.commit` or one of the passed
                functions raises it.
        """
        creates_table = self.plan.base_version.version < 0
        return self._commit(
            partial(self._build_planned_request, build_request, update_plan),
            build_first_request=partial(self._build_first_request, build_request) if creates_table else None,
            previous_step=None,
            options=options,
        )

    def commit_step(
        self,
        build_request: Callable[[Snapshot], CommitRequest | None],
        *,
        previous_step: Committed | None = None,
        options: CommitOptions = DEFAULT_OPTIONS,
    ) -> Committed | NothingToDo:
        """Commit one step of a change that needs several commits. The plan is not made again.

        The first step is committed after the base version of the plan, once the table was rechecked. Each later step is
        committed after the newest version.

        Args:
            build_request: Builds the commit from a version, or returns None if there is nothing to do.
            previous_step: The commit of the previous step, if it changed neither protocol nor metadata. The step is
                then committed directly after it, and the newest version is not read.
            options: Options for the commit.

        Raises:
            DeltacliError: As for `commit_plan`.
        """
        return self._commit(build_request, build_first_request=None, previous_step=previous_step, options=options)

    def _commit(
        self,
        build_request: Callable[[Snapshot], CommitRequest | None],
        *,
        build_first_request: Callable[[], CommitRequest | None] | None,
        previous_step: Committed | None,
        options: CommitOptions,
    ) -> Committed | NothingToDo:
        """Create a version, and record that the execution has begun. The arguments are those of `commit.commit`."""
        from deltacli.changing.commit import Committed, commit  # imports pyarrow, which a dry run does not need

        result = commit(
            self.table,
            build_request,
            read=self._read_planned_or_newest_version,
            build_first_request=build_first_request,
            after=previous_step,
            options=options,
        )
        # Python interrupts a program (Ctrl+C) only at calls and loops. There is none between the end of `commit` and
        # this assignment, so an interruption cannot hide that a version was created.
        self.has_begun = self.has_begun or result.is_committed
        if isinstance(result, Committed):
            self._note_stale_manifests(result)
        return result

    def _build_planned_request(
        self,
        build_request: Callable[[PlanT], CommitRequest | None],
        update_plan: Callable[[PlanT, Snapshot], PlanT] | None,
        snapshot: Snapshot,
    ) -> CommitRequest | None:
        """Build the commit of the plan, after planning again if the version was read again.

        Args:
            build_request: Builds the commit from a plan.
            update_plan: See `commit_plan`.
            snapshot: The version that the commit will follow.
        """
        # The first attempt uses the planned snapshot, see `_read_planned_or_newest_version`. Any other snapshot was
        # read after another writer has committed, or after `CommitOptions.recheck` has returned False.
        was_read_again = snapshot is not self.plan.base_version.snapshot
        if was_read_again and update_plan is not None:
            self.accept_new_plan(update_plan(self.plan, snapshot))
        elif was_read_again:
            self.accept_new_plan(self._plan_change(self.table, snapshot))
        return None if self.plan.is_noop else build_request(self.plan)

    def _build_first_request(self, build_request: Callable[[PlanT], CommitRequest | None]) -> CommitRequest | None:
        """Build version 0 from the plan."""
        return build_request(self.plan)

    def _read_planned_or_newest_version(self, table: TableHandle) -> Snapshot | None:
        """Return the base version for the first commit, after rechecking the table. Later return the newest version.

        Args:
            table: The table to read the newest version of.

        Returns:
            The version; None for the first commit of a plan that creates the table.
        """
        base_version = self.plan.base_version
        creates_table = base_version.version < 0
        # Some plans do not keep the snapshot, to save memory.
        has_planned_version = base_version.snapshot is not None or creates_table
        if self._has_used_planned_version or not has_planned_version:
            return read_snapshot(table)
        self._has_used_planned_version = True
        self.recheck_table()
        return base_version.snapshot

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

    def update_manifests(self) -> None:
        """Write the symlink manifests of the newest version if `has_stale_manifests` is set.

        A failure only adds a warning to the base version of the plan, because the version is committed already. If it
        were an error, Spark would repeat the append.
        """
        if self.has_stale_manifests:
            from deltacli.changing.manifests import write_manifests_of_newest_version  # imports pyarrow

            self.plan.base_version.warnings.extend(write_manifests_of_newest_version(self.table))

    def note_stale_views_of_newest_version(self) -> None:
        """Read the newest version, and note which of its views are stale.

        Needed if this run may have created a version that it has not read, because it recovered commits or the outcome
        of a commit is unknown. Sets `has_stale_manifests`, and adds a warning for each other view.
        """
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
