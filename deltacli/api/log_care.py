"""Maintenance of the log from Python: the commands of `deltacli log` as methods of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.operations.table.api_arguments import named, optional_version, version_number
from deltacli.operations.table.handle import TableHandle
from deltacli.request_fields import Lazy, takes
from deltacli.short_repr import short_repr

if TYPE_CHECKING:
    from deltacli.operations.log.compact_log import Compaction
    from deltacli.operations.log.expire import ExpiryPlan, ExpiryRequest
    from deltacli.operations.log.expire_deleting import ExpiryOutcome
    from deltacli.operations.log.log_backup import BackupResult
    from deltacli.operations.log.log_restore import RestorePlan
    from deltacli.operations.log.version_checksum import ChecksumReport
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
        """Delete, at once, the files of the log that no kept version needs; `dry_run=True` returns the plan.

        `retention_ms` (default: the table's own) keeps newer commits; a shorter one than the table's own needs
        `allow_retention_below_ms` with the table's value. `keep_versions` remain readable, whatever their age.
        `dry_run` only plans: the outcome is None, and refusals are in the plan.

        Raises Refused, with nothing deleted, where a guard objects (`expire.*`); PartlyDone where files could not be
        deleted; StorageFailed; and what `snapshot` raises. Spec: Metadata Cleanup.
        """
        from deltacli.operations.log.expire import execute_expiry, plan_expiry, require_done, with_proof

        self.require_writable(dry_run=request.dry_run)
        plan = plan_expiry(self, request)
        if request.dry_run or not plan.files:
            return ExpiryResult(with_proof(self, plan), None)
        outcome = execute_expiry(self, plan)
        require_done(outcome)
        return ExpiryResult(plan, outcome)

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
