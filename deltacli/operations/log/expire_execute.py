"""Deleting the files of an expiry, oldest first, after a proof: what is kept of the log rebuilds every kept version as
the whole log does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from deltacli.changing.acts import Act
from deltacli.changing.basis import require_clock, require_same
from deltacli.changing.lease import permit, require_progress
from deltacli.changing.plan import Failures
from deltacli.core.errors import Refusal, Refused, Unreadable
from deltacli.core.hints import command
from deltacli.core.short_repr import short_repr
from deltacli.core.units import DAY_MS, format_duration, named_ranges, plural
from deltacli.delta.log.counts import FileCounts
from deltacli.delta.log.segment import CheckpointInstance, LogListing
from deltacli.delta.protocol.property_values import log_retention_ms
from deltacli.operations.checkpoint.verify import CheckpointVerdict, facts_of, verify_checkpoint
from deltacli.operations.log.expire import ExpiredFile, ExpiryPlan, ExpiryRequest, plan_expiry, refusals_of, without
from deltacli.operations.read.snapshot import summarize_with_digests
from deltacli.operations.validate.inspect_storage import WholeLog, list_log_whole
from deltacli.table.checksum_guard import contradiction
from deltacli.table.file_history import RULE as MISSING_ADD
from deltacli.table.file_history import count_lost_files
from deltacli.table.find_log import Log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import rebuild
from deltacli.table.version import Snapshot
from deltacli.work.files.deleting import (
    MOST_AT_ONCE,
    BatchOutcome,
    DeleteBatch,
    DeletePiece,
    FileOutcome,
    Permit,
    Stop,
    uninterrupted,
)
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    from deltacli.changing.gate import Gate

FILES_A_BATCH = MOST_AT_ONCE
PARTLY_DONE = "expire.partly-done"


@short_repr("deleted", "deleted_bytes", "missing", "failed=failed.count")
@dataclass(slots=True, repr=False)
class ExpiryOutcome:
    """The outcome of a plan, as far as it was executed."""

    plan: ExpiryPlan = field(compare=False)
    deleted: int = 0
    deleted_bytes: int = 0
    missing: int = 0
    failed: Failures = field(default_factory=lambda: Failures(limit=None))

    def note(self, done: BatchOutcome, files: Sequence[ExpiredFile]) -> list[ExpiredFile]:
        """Count the outcomes of a batch, and return the files that were not tried."""
        left = []
        for file, (code, failure) in zip(files, done.each(), strict=True):
            match code:
                case FileOutcome.MISSING:
                    self.missing += 1
                case FileOutcome.DELETED:
                    self.deleted += 1
                    self.deleted_bytes += file.size_bytes
                case FileOutcome.NOT_TRIED:
                    left.append(file)
            if failure is not None:
                self.failed.note(file.path, failure)
        return left

    def so_far(self) -> str:
        """Return how many files were deleted."""
        return f"{plural(self.deleted, 'file')} deleted"

    def require_complete(self) -> None:
        """Raise PartlyDone, naming the first file, where some could not be deleted; PermissionRefused where none could
        be deleted for lack of permission.
        """
        self.failed.require_none(
            plural(self.failed.count, "file"),
            code=PARTLY_DONE,
            hint=command("log expire", yes=True),
            has_deleted=bool(self.deleted),
        )

    def as_json(self) -> dict[str, Any]:
        """As in the document."""
        return {
            "files": self.deleted,
            "sizeBytes": self.deleted_bytes,
            "missing": self.missing,
            "failed": self.failed.as_json(),
        }


@dataclass(frozen=True)
class LogExpiry:
    """The deletion of log files that no kept version needs. `proves`: what is kept is verified when planned, too, not
    only before the deletion. The log is cut at a multiple of `cut_ms`.
    """

    act: ClassVar[Act] = Act.EXPIRE

    request: ExpiryRequest
    proves: bool = True
    cut_ms: int = DAY_MS

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> ExpiryPlan:
        """Plan it, with a failed proof among the refusals. Raises Refused (`plan.clock`), and what `plan_expiry` and an
        impossible proof raise.
        """
        plan = plan_expiry(table, self.request, cut_ms=self.cut_ms, snapshot=now)
        require_clock(table, plan.now_ms, plan.basis.past)
        if not self.proves or plan.refusals or plan.is_noop:
            return plan
        refusal = unproven(plan, list_log_whole(table.storage, table.progress))
        return plan if refusal is None else replace(plan, refusals=(refusal,))

    def outcome(self, plan: ExpiryPlan) -> ExpiryOutcome:
        """Return the outcome before the first deletion."""
        return ExpiryOutcome(plan)

    def execute(self, gate: Gate[ExpiryPlan, ExpiryOutcome]) -> None:
        """Verify the plan, then delete, oldest first, so that an interrupted run leaves a log without gaps: a signal
        ends it after a batch is done and counted. A minute later the plan is verified again.

        Raises Refused where the table is no longer as planned or cannot be verified, and StorageFailed.
        """
        files, table = list(gate.plan.files), gate.table
        allowed = _verified(gate)
        fruitless = 0
        with table.progress.step("deleting", unit="files", total=len(files)) as step:
            task = DeleteBatch(step.advance, table.machine.now_ms)
            while files:
                batch, stop = files[:FILES_A_BATCH], Stop()
                piece = DeletePiece(allowed, tuple(file.path for file in batch))
                left: list[ExpiredFile] = []
                uninterrupted(partial(_delete, gate, batch, piece, task, stop, left), stop)
                files[:FILES_A_BATCH] = left
                if left:  # the time is over
                    fruitless = fruitless + 1 if len(left) == len(batch) else 0
                    require_progress(fruitless)
                    allowed = _verified(gate)


def _delete(
    gate: Gate[ExpiryPlan, ExpiryOutcome],
    batch: Sequence[ExpiredFile],
    piece: DeletePiece,
    task: DeleteBatch,
    stop: Stop,
    left: list[ExpiredFile],
) -> None:
    """Delete one batch, and add the files that were not tried to `left`. Raises the fault of the store.

    Always in this process: the order matters more than the speed, and a deletion that is sent once is counted exactly.
    """
    done = task(piece, TaskContext(gate.table.stores, is_cancelled=stop))
    left += gate.outcome.note(done, batch)
    gate.has_begun = gate.outcome.deleted > 0
    if done.fault is not None:
        raise done.fault


def _verified(gate: Gate[ExpiryPlan, ExpiryOutcome]) -> Permit:
    """Return what allows to delete files, after another look at the whole log. Raises Refused."""
    plan, table = gate.plan, gate.table
    if not gate.has_begun:
        require_clock(table, plan.now_ms, plan.basis.past)
    whole = list_log_whole(table.storage, table.progress)
    require_same(plan.basis, whole.listing)
    refusals = list(_refusals_since(plan, whole))
    if not refusals and (refusal := unproven(plan, whole)) is not None:
        refusals = [refusal]
    if refusals:
        raise Refused.by(refusals)
    return permit(table, table.machine.now_ms())


def _refusals_since(plan: ExpiryPlan, whole: WholeLog) -> Iterator[Refusal]:
    """Yield what objects to the plan since newer commits: a longer retention, and the same as when it was planned."""
    listing = whole.listing
    if listing.newest_version == plan.newest_version:
        return
    now = rebuild(plan.basis.table, Log(listing), listing.newest_version)
    own = log_retention_ms(now.properties)
    if own > max(plan.retention_ms, plan.own_retention_ms, plan.request.allow_retention_below_ms or 0):
        yield Refusal(
            "expire.retention-longer",
            f"the table's own retention is {format_duration(own)} since version {listing.newest_version}, and was "
            f"{format_duration(plan.own_retention_ms)} when this was planned",
            hint=command("log expire", dry_run=True),
        )
        return
    yield from refusals_of(now, listing, plan.request, plan.boundary)


def unproven(plan: ExpiryPlan, whole: WholeLog) -> Refusal | None:
    """Return why it is not certain that every kept version can be rebuilt from the remaining files, None if it is.

    The boundary's checkpoint must match the log, the newest version must be rebuilt unchanged from it, and no kept
    version may lose a file it needs. Raises what makes the proof impossible.
    """
    try:
        _prove(plan, whole)
    except _Unproven as fault:
        return Refusal(fault.code, fault.message, hint=fault.hint)
    return None


class _Unproven(Refused):
    code = "expire.not-proven"

    def __init__(self, why: str) -> None:
        super().__init__(why, hint=command("validate"))


def _prove(plan: ExpiryPlan, whole: WholeLog) -> None:
    if plan.boundary is None:
        return
    table, gone = plan.basis.table, {file.path for file in plan.files}
    kept = without(whole, gone)
    lost = set(whole.listing.reconstructable) - set(kept.reconstructable) - set(plan.lost_versions)
    if lost or any(version >= plan.boundary for version in plan.lost_versions):
        raise _Unproven(f"{named_ranges('version', lost or plan.lost_versions)} would also be lost")
    for instance in kept.checkpoints:
        if instance.version == plan.boundary:
            _prove_checkpoint(table, whole.listing, instance)
    before = summarize_with_digests(rebuild(table, Log(whole.listing), plan.newest_version), plan.now_ms)
    _require_as_in_checksum(before.snapshot, before.files)
    others = {found: "checkpoint.unreadable" for found in kept.checkpoints if found.version != plan.boundary}
    try:
        after = summarize_with_digests(rebuild(table, Log(kept), plan.newest_version, unusable=others), plan.now_ms)
    except Unreadable as fault:
        raise _Unproven(fault.message) from fault
    if facts_of(before) != facts_of(after):
        raise _Unproven(f"version {plan.newest_version} would change")


def _prove_checkpoint(table: TableHandle, listing: LogListing, instance: CheckpointInstance) -> None:
    found = verify_checkpoint(table, listing, instance)
    if found.verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE):
        what = found.reason or ", ".join(name for name, _, _ in found.details)
        raise _Unproven(f"the checkpoint of version {instance.version} {found.verdict}: {what}")
    others = {other: "checkpoint.unreadable" for other in listing.checkpoints if other != instance}
    state = rebuild(table, Log(listing), instance.version, unusable=others)
    if instance.version in listing.checksums:
        _require_as_in_checksum(state, state.counts()[0])
    if found.verdict is CheckpointVerdict.ALONE:
        _require_no_lost_files(state, listing)


def _require_as_in_checksum(state: Snapshot, files: FileCounts) -> None:
    """Raise Refused where the checksum file of a version counts other files than its state."""
    found = contradiction(state, files.count, files.size_bytes)
    if found is not None:
        raise _Unproven(f"{found.message} [{found.rule}]")


def _require_no_lost_files(state: Snapshot, listing: LogListing) -> None:
    """Raise Refused where older commits, from which no version is rebuilt, add files that a checkpoint's state
    lacks.
    """
    first, last = next((run for run in listing.commit_runs if run[0] <= state.version <= run[1]), (0, -1))
    commits = {
        version: file for version, file in listing.commits.items() if first <= version <= min(last, state.version)
    }
    lost = count_lost_files(state, replace(listing, commits=commits))
    if lost:
        raise _Unproven(
            f"{plural(lost, 'file')} that commits add and do not remove {'is' if lost == 1 else 'are'} missing from "
            f"the checkpoint of version {state.version} [{MISSING_ADD}]"
        )
