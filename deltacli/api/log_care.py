"""Maintenance of the log from Python: the commands of `deltacli log` as methods of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from deltacli.errors import UsageError
from deltacli.operations.table.api_arguments import named, optional_version, version_number
from deltacli.operations.table.handle import TableHandle
from deltacli.request_fields import Lazy, takes
from deltacli.short_repr import short_repr

if TYPE_CHECKING:
    from deltacli.changing.change import Change, Outcome
    from deltacli.changing.gate import Plan
    from deltacli.operations.log.compact_log import Compaction
    from deltacli.operations.log.expire import ExpiryPlan, ExpiryRequest
    from deltacli.operations.log.expire_execute import ExpiryOutcome
    from deltacli.operations.log.log_backup import BackupResult
    from deltacli.operations.log.log_restore import RestorePlan
    from deltacli.operations.log.version_checksum import ChecksumReport

    P = TypeVar("P", bound=Plan)
    O = TypeVar("O", bound=Outcome)  # noqa: E741
else:
    ExpiryRequest = Lazy("deltacli.operations.log.expire", "ExpiryRequest")


@short_repr("plan", "outcome")
class ExpiryResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: ExpiryPlan
    outcome: ExpiryOutcome | None


@short_repr("plan", "was_executed")
class RestoreResult(NamedTuple):
    """A plan, and whether it was executed."""

    plan: RestorePlan
    was_executed: bool


class LogCare(TableHandle):
    """The methods of a table that maintain its `_delta_log`."""

    @named
    @takes(ExpiryRequest)
    def expire_log(self, request: ExpiryRequest) -> ExpiryResult:
        """Delete the files of the log that no kept version needs, at once, and return the plan with its outcome.

        `retention_ms` (default: the table's own) keeps newer commits; a shorter one than the table's own needs
        `allow_retention_below_ms` with the table's value. `keep_versions` remain readable, whatever their age.
        `dry_run` only plans: the outcome is None, and refusals are in the plan.

        Raises Refused, with nothing deleted, where a guard objects (`expire.*`) or the table is no longer as planned
        (`plan.*`); PartlyDone where files could not be deleted, or an error ended the deletion; StorageFailed; and what
        `snapshot` raises. Spec: Metadata Cleanup.
        """
        from deltacli.changing.change import carry_out, plan_change
        from deltacli.operations.log.expire_execute import LogExpiry

        self.require_writable(dry_run=request.dry_run)
        change = LogExpiry(request, proves=request.dry_run)
        plan = plan_change(change, self)
        is_executed = not (request.dry_run or plan.is_noop)
        return ExpiryResult(plan, carry_out(change, self, plan=plan) if is_executed else None)

    @named
    @takes(ExpiryRequest)
    def plan_expire_log(self, request: ExpiryRequest) -> ExpiryPlan:
        """Return what `expire_log` would do with the same parameters; refusals are in the plan. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.operations.log.expire_execute import LogExpiry

        self.require_writable(dry_run=True)
        return plan_change(LogExpiry(request), self)

    @named
    def execute_expire_log(self, plan: ExpiryPlan) -> ExpiryResult:
        """Delete the files of a plan of this table. Raises as `expire_log` does."""
        from deltacli.operations.log.expire_execute import LogExpiry

        return ExpiryResult(plan, self._execute(LogExpiry(plan.request), plan))

    @named
    def compact_log(self, first: int, last: int, *, dry_run: bool = False) -> Compaction:
        """Write a log compaction of the commits `first` to `last`, both included, and return what was written.

        An existing file is never replaced: `skipped` is True where the same compaction exists. `dry_run` only counts.

        Raises UsageError for fewer than two commits, VersionAbsent where one is missing, Refused where the protocol or
        the size forbids it, StorageFailed, and what `snapshot` raises. Spec: Log Compaction Files.
        """
        from deltacli.operations.log.compact_log import compact_log

        self.require_writable(dry_run=dry_run)
        return compact_log(self, version_number(first, "first"), version_number(last, "last"), dry_run=dry_run)

    @named
    def write_checksum(self, *, version: int | None = None, dry_run: bool = False) -> ChecksumReport:
        """Write the checksum file of the newest version, or of `version`, where it is missing; return its state.

        An existing file is compared with the log and never replaced: `status` is `agrees`, `differs` (with
        `differences`) or `unreadable`. `dry_run` only compares.

        Raises Refused where the version has no commit file or the protocol forbids writing, StorageFailed, and what
        `snapshot` raises. Spec: Version Checksum File.
        """
        from deltacli.operations.log.version_checksum import check_or_write_checksum

        self.require_writable(dry_run=dry_run)
        return check_or_write_checksum(self, optional_version(version, "version"), dry_run=dry_run)

    @named
    def backup_log(self, destination: str, *, full: bool = False, dry_run: bool = False) -> BackupResult:
        """Copy the log to a directory (a path or URI) that a later run adds to, and return what was copied.

        Copies are read back and compared. `full` compares every file by digest instead of by size and time. `dry_run`
        copies nothing.

        Raises UsageError where one of table and backup contains the other, Refused where the directory has other
        content, StorageFailed, and NotATable.
        """
        from deltacli.operations.log.log_backup import execute_backup, plan_backup, planned_backup

        target = self.open_other(destination)
        plan = plan_backup(self.storage, target, self.engine, full=full, progress=self.progress)
        if dry_run:
            return planned_backup(plan, clock=self.clock)
        return execute_backup(plan, self.storage, target, self.engine, clock=self.clock, progress=self.progress)

    @named
    def restore_log(self, source: str, *, replace: bool = False, dry_run: bool = False) -> RestoreResult:
        """Add the files of a backup that the log lacks, and return the plan with whether it was executed.

        `replace` also replaces files that differ. `dry_run` only plans.

        Raises Unreadable for a directory without a backup, or with a damaged one; Refused, with nothing written, where
        it is of another table or the result would mix two histories; ConflictLost where a writer was first;
        StorageFailed.
        """
        from deltacli.operations.log.log_restore import plan_restore
        from deltacli.operations.log.log_restore_execute import execute_restore

        self.require_writable(dry_run=dry_run)
        origin = self.open_other(source)
        plan = plan_restore(self.storage, origin, self.engine, replace=replace, progress=self.progress)
        if dry_run or not plan.writes:
            return RestoreResult(plan, was_executed=False)
        execute_restore(plan, self.storage, origin, self.engine, progress=self.progress)
        return RestoreResult(plan, was_executed=True)

    def _execute(self, change: Change[P, O], plan: P) -> O:
        """Execute a plan of this table and nothing else."""
        from deltacli.changing.change import carry_out
        from deltacli.changing.gate import for_plan

        self.require_writable()
        if (uri := plan.basis.table.uri) != self.uri:
            raise UsageError("the plan is one of another table", facts={"plan": uri, "table": self.uri})
        return carry_out(change, self, plan=plan, ask=for_plan)
