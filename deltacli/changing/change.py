"""The one function that executes a change, for the command line, the Python API, fleets, shares and Spark.

plan_change      plan, and warn about what the change leaves stale
execute_change   plan, ask for consent, execute, and say exactly what was done if an error ends it
execute_plan     execute a plan that was made before
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol

from deltacli.changing.change_kind import COMMITS_VERSION, ChangeKind
from deltacli.changing.consent import consent_to_command, consent_to_plan
from deltacli.changing.execution import ChangeExecution
from deltacli.changing.lost_versions import find_lost_versions_refusal
from deltacli.changing.outcome import OutcomeT, require_complete
from deltacli.changing.plan import PlanT
from deltacli.changing.rechecks import require_valid_clock
from deltacli.changing.views import find_stale_views
from deltacli.core import errors
from deltacli.delta.data_files import MANIFESTS
from deltacli.storage.directory_identity import require_same_directory

if TYPE_CHECKING:
    from deltacli.changing.consent import Consent
    from deltacli.storage import ReadStorage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class Change(Protocol[PlanT, OutcomeT]):
    """A change of a table, made from a request. Operations implement it; nothing else is needed for a new command.

    Attributes:
        kind: What the change does to the table.
    """

    kind: ClassVar[ChangeKind]

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PlanT:
        """Plan the change. Reasons against it are part of the plan.

        Args:
            table: The table.
            now: The version to plan it on, if it was rebuilt already; None for the newest one.
        """

    def outcome(self, plan: PlanT) -> OutcomeT:
        """Return the outcome of a plan of which nothing was done yet."""

    def execute(self, execution: ChangeExecution[PlanT, OutcomeT]) -> None:
        """Do what `execution.plan` says, and note in `execution.outcome` what was done.

        Everything is written through `execution`, so that no recheck can be forgotten.
        """


def plan_change(change: Change[PlanT, OutcomeT], table: TableHandle) -> PlanT:
    """Plan a change of the newest version, in the directory in which the table is now.

    Returns:
        The plan. Its basis has warnings about what other engines keep beside the log, if the change commits.

    Raises:
        Refused: If the checksum file of the version contradicts its protocol or metadata and the change builds on
            these; if newer versions were lost, whose number the commit would take; if files of the log would be deleted
            by a clock that is behind (`plan.clock`).
    """
    # `held` binds the store to the directory. A table that is moved away, or another one in its place, is noticed by
    # the store itself before each write.
    plan = change.plan(table.held())
    basis = plan.basis
    if change.kind == ChangeKind.EXPIRE_LOG_FILES:
        require_valid_clock(basis.table, basis.now_ms, basis.base_commit)
    snapshot = basis.snapshot
    if snapshot is None or plan.is_noop:
        return plan

    copies_configuration = bool(change.kind & (ChangeKind.CHANGE_METADATA | ChangeKind.REUSE_FILES))
    if copies_configuration and snapshot.version in snapshot.listing.checksums:
        # Most tables have no checksum for the newest version, so the module is imported here only.
        from deltacli.table.checksum_guard import require_matching_configuration

        require_matching_configuration(snapshot)
    if change.kind & COMMITS_VERSION:
        refusal = find_lost_versions_refusal(snapshot.table.storage, snapshot.listing, snapshot.log.hint_version)
        if refusal is not None:
            raise errors.Refused.by([refusal])
    if change.kind & (COMMITS_VERSION | ChangeKind.DELETE_FILES):
        basis.warnings.extend(find_stale_views(snapshot))
    return plan


def execute_change(
    change: Change[PlanT, OutcomeT],
    table: TableHandle,
    *,
    plan: PlanT | None = None,
    ask: Callable[[PlanT], Consent] = consent_to_command,
    on_start: Callable[[ChangeExecution[PlanT, OutcomeT]], None] | None = None,
) -> OutcomeT:
    """Execute a change.

    An error before the first act is raised as it is, because nothing was changed. After the first act it becomes
    PartlyDone under the same code, with what was done so far. OutcomeUnknown stays what it is, because the user has to
    find out first whether the version was committed. An interruption gets a note of what was done.

    Args:
        change: The change.
        table: The table.
        plan: The plan, if it was made before; None to plan here.
        ask: Returns the consent to a plan, or raises Refused. By default the call itself is the consent.
        on_start: Called once consent was given, before anything is done. The caller can look at the execution later,
            for example to report about an interruption.

    Returns:
        The outcome. It is complete.

    Raises:
        Refused: If something speaks against the plan, or nobody agreed to it.
        PartlyDone: If something was left undone.
    """
    if plan is None:
        plan = plan_change(change, table)
    refusal = plan.build_refusal()
    if refusal is not None:
        raise refusal
    outcome = change.outcome(plan)
    if plan.is_noop:
        # There may be nothing to do because files are left alone whose actions contradict each other, as by `optimize`.
        require_complete(outcome)
        return outcome

    execution = ChangeExecution(change.plan, plan, ask, outcome)
    if on_start is not None:
        on_start(execution)
    # Recovered files may be commits, so the newest version afterwards is one that this run has not read.
    recovers_files = bool(change.kind & ChangeKind.RECOVER_FILES)
    try:
        change.execute(execution)
    except (errors.OutcomeUnknown, errors.PartlyDone) as error:
        execution.update_manifests(may_be_newer=recovers_files or isinstance(error, errors.OutcomeUnknown))
        if execution.has_begun:
            error.facts.setdefault("so far", execution.outcome.describe_progress())
        raise
    except errors.DeltacliError as error:
        _raise_with_progress(execution, error, recovers_files=recovers_files)
    except BaseException as interruption:
        if execution.has_stale_manifests:
            interruption.add_note(f"the manifests in {MANIFESTS} name the files of an earlier version")
        if execution.has_begun:
            interruption.add_note(execution.outcome.describe_progress())
        raise
    execution.has_ended = True
    execution.update_manifests(may_be_newer=recovers_files)
    require_complete(execution.outcome)
    return execution.outcome


def _raise_with_progress(
    execution: ChangeExecution[PlanT, OutcomeT], error: errors.DeltacliError, *, recovers_files: bool
) -> NoReturn:
    """Raise an error of an execution as what it means for the user.

    Raises:
        PartlyDone: If something was done before. Its cause is the error.
        DeltacliError: The error itself, or that another directory is in the place of the table, if nothing was done.
    """
    if execution.has_begun and execution.unfinished_goal is not None:
        error.message = f"{execution.unfinished_goal.message}: {error.message_without_outcome}"
        error.hint = execution.unfinished_goal.hint
    execution.update_manifests(may_be_newer=recovers_files and execution.has_begun)
    cause = _find_cause(execution.store, error)
    if execution.has_begun:
        raise errors.PartlyDone.after(cause, execution.outcome.describe_progress()) from error
    raise cause from error.__cause__


def _find_cause(storage: ReadStorage, error: errors.DeltacliError) -> errors.DeltacliError:
    """Return the reason why a change failed.

    If the directory was renamed or replaced, files that "are missing" and similar errors follow from that.
    """
    try:
        require_same_directory(storage)
    except errors.Refused as other_place:
        return other_place
    return error


def execute_plan(change: Change[PlanT, OutcomeT], table: TableHandle, plan: PlanT, *, may_plan_again: bool) -> OutcomeT:
    """Execute a plan that was made before, and nothing else.

    Args:
        change: The change that made the plan.
        table: The table.
        plan: The plan.
        may_plan_again: Whether a plan with other effects may be executed if other writers have committed since.

    Returns:
        The outcome, as `execute_change` does.
    """
    ask = consent_to_command if may_plan_again else consent_to_plan
    return execute_change(change, table, plan=plan, ask=ask)
