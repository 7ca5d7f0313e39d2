"""The execution of a change, for the command line, the Python API, fleets, shares and Spark.

plan_change      plan a change, and collect warnings about views that it makes stale
execute_change   plan, ask for consent, execute, and report what was done if an error ends the execution
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
    """A change of a table, such as `optimize`. Each operation that changes tables implements this interface.

    Attributes:
        kind: The effects of the change on the table.
    """

    kind: ClassVar[ChangeKind]

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> PlanT:
        """Plan the change. Reasons not to execute the plan are part of the plan.

        Args:
            table: The table.
            now: The version to plan the change for, if it was read already; None for the newest version.
        """

    def outcome(self, plan: PlanT) -> OutcomeT:
        """Return the outcome of a plan before its execution, when nothing was done yet."""

    def execute(self, execution: ChangeExecution[PlanT, OutcomeT]) -> None:
        """Execute `execution.plan`, and record in `execution.outcome` what was done.

        Everything is written through `execution`, which rechecks the table before it writes.
        """


def plan_change(change: Change[PlanT, OutcomeT], table: TableHandle) -> PlanT:
    """Plan a change of the newest version of a table.

    Returns:
        The plan. If executing it would make views of other engines stale, such as symlink manifests,
        `base_version.warnings` contains a warning for each.

    Raises:
        Refused: If the table must not be changed: its checksum file contradicts the protocol or metadata that the
            change would copy, newer versions are lost, or the clock is behind the log files that would expire
            (`plan.clock`).
    """
    # `bind_to_directory` lets the store refuse each write if the directory is moved or replaced later.
    plan = change.plan(table.bind_to_directory())
    base_version = plan.base_version
    if change.kind == ChangeKind.EXPIRE_LOG_FILES:
        require_valid_clock(base_version.table, base_version.now_ms, base_version.base_commit)
    if base_version.snapshot is None or plan.is_noop:
        return plan

    _require_intact_log(change.kind, base_version.snapshot)
    if change.kind & (COMMITS_VERSION | ChangeKind.DELETE_FILES):
        base_version.warnings.extend(find_stale_views(base_version.snapshot))
    return plan


def _require_intact_log(kind: ChangeKind, snapshot: Snapshot) -> None:
    """Require that the log does not contradict itself about the version that a change builds on.

    Raises:
        Refused: If the checksum file of the version has another protocol or metadata than the log, and the change would
            copy these; or if newer versions are lost, whose number a commit would reuse.
    """
    copies_configuration = bool(kind & (ChangeKind.CHANGE_METADATA | ChangeKind.REUSE_FILES))
    if copies_configuration and snapshot.version in snapshot.listing.checksums:
        # Imported only here, because most tables have no checksum file for the newest version.
        from deltacli.table.checksum_guard import require_matching_configuration

        require_matching_configuration(snapshot)
    if kind & COMMITS_VERSION:
        refusal = find_lost_versions_refusal(snapshot.table.storage, snapshot.listing, snapshot.log.hint_version)
        if refusal is not None:
            raise errors.Refused.from_refusals([refusal])


def execute_change(
    change: Change[PlanT, OutcomeT],
    table: TableHandle,
    *,
    plan: PlanT | None = None,
    ask: Callable[[PlanT], Consent] = consent_to_command,
    on_start: Callable[[ChangeExecution[PlanT, OutcomeT]], None] | None = None,
) -> OutcomeT:
    """Execute a change, and report exactly what was done if an error or an interruption ends it.

        ended by                          before the first write     after the first write
        -------------------------------   ------------------------   ------------------------------------------
        a DeltacliError                   the error                  PartlyDone, with the code of the error
        OutcomeUnknown or PartlyDone      the error                  the error, with the progress as a fact
        KeyboardInterrupt and the like    the interruption           the interruption, with the progress as a note

    OutcomeUnknown is not converted, because the user has to find out first whether the version was committed.

    Args:
        change: The change.
        table: The table.
        plan: The plan, if it was made before; None to make it here.
        ask: Returns the consent to a plan, or raises Refused. By default, calling this function is the consent.
        on_start: Called after the consent and before the first write. The caller can keep the execution, for example to
            report an interruption.

    Returns:
        The outcome. Everything that was planned was done.

    Raises:
        Refused: If the plan must not be executed, or the consent was refused.
        PartlyDone: If only a part of the plan was executed.
    """
    if plan is None:
        plan = plan_change(change, table)
    refusal = plan.build_refusal()
    if refusal is not None:
        raise refusal
    outcome = change.outcome(plan)
    if plan.is_noop:
        # A plan without effects can still leave something undone: `optimize` may have to skip all files.
        require_complete(outcome)
        return outcome

    execution = ChangeExecution(change.plan, plan, ask, outcome)
    if on_start is not None:
        on_start(execution)
    # Recovered files may be commits, so the newest version may be one that this run has not read.
    recovers_files = bool(change.kind & ChangeKind.RECOVER_FILES)
    try:
        change.execute(execution)
    except (errors.OutcomeUnknown, errors.PartlyDone) as error:
        may_have_committed = isinstance(error, errors.OutcomeUnknown)
        if recovers_files or may_have_committed:
            execution.note_stale_views_of_newest_version()
        execution.update_manifests()
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
    if recovers_files:
        execution.note_stale_views_of_newest_version()
    execution.update_manifests()
    require_complete(execution.outcome)
    return execution.outcome


def _raise_with_progress(
    execution: ChangeExecution[PlanT, OutcomeT], error: errors.DeltacliError, *, recovers_files: bool
) -> NoReturn:
    """Raise the error that describes to the user how an execution ended.

    Args:
        execution: The execution.
        error: The error that ended it.
        recovers_files: Whether the execution may have recovered commits.

    Raises:
        PartlyDone: If something was written before the error.
        DeltacliError: If nothing was written.
    """
    if execution.has_begun and execution.unfinished_goal is not None:
        error.message = f"{execution.unfinished_goal.message}: {error.message_without_outcome}"
        error.hint = execution.unfinished_goal.hint
    if recovers_files and execution.has_begun:
        execution.note_stale_views_of_newest_version()
    execution.update_manifests()

    cause = _find_cause(execution.store, error)
    if execution.has_begun:
        raise errors.PartlyDone.from_cause(cause, execution.outcome.describe_progress()) from error
    raise cause from error.__cause__


def _find_cause(storage: ReadStorage, error: errors.DeltacliError) -> errors.DeltacliError:
    """Return the cause of an error of an execution: usually the error itself.

    If the directory of the table was renamed or replaced, files seem to be missing. Then the cause is the Refused error
    about the directory.
    """
    try:
        require_same_directory(storage)
    except errors.Refused as replaced_directory_error:
        return replaced_directory_error
    return error


def execute_plan(
    change: Change[PlanT, OutcomeT], table: TableHandle, plan: PlanT, *, accepts_any_plan: bool
) -> OutcomeT:
    """Execute a plan that was made before.

    Args:
        change: The change that made the plan.
        table: The table.
        plan: The plan.
        accepts_any_plan: If other writers have committed since, the change is planned again. True to execute the new
            plan even if it has other effects.

    Returns:
        The outcome, as `execute_change` returns it.
    """
    ask = consent_to_command if accepts_any_plan else consent_to_plan
    return execute_change(change, table, plan=plan, ask=ask)
