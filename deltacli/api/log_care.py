"""Maintenance of the log from Python: the commands of `deltacli log` as methods of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deltacli.api.changes import Changes
from deltacli.core.request_fields import Lazy, takes
from deltacli.core.short_repr import short_repr
from deltacli.table.api_arguments import named, optional_version, version_number

if TYPE_CHECKING:
    from deltacli.operations.checkpoint.execute import CheckpointResult
    from deltacli.operations.checkpoint.plan import CheckpointPlan, CheckpointRequest
    from deltacli.operations.log.compact_log import Compaction
    from deltacli.operations.log.expire import ExpiryPlan, ExpiryRequest
    from deltacli.operations.log.expire_execute import ExpiryOutcome
    from deltacli.operations.log.log_backup import BackupPlan, BackupResult
    from deltacli.operations.log.log_restore import RestorePlan as LogRestorePlan
    from deltacli.operations.log.version_checksum import ChecksumReport

else:
    CheckpointRequest = Lazy("deltacli.operations.checkpoint.plan", "CheckpointRequest")
    ExpiryRequest = Lazy("deltacli.operations.log.expire", "ExpiryRequest")


@short_repr("plan", "outcome")
class ExpiryResult(NamedTuple):
    """A plan and its outcome; None where it was not executed."""

    plan: ExpiryPlan
    outcome: ExpiryOutcome | None


@short_repr("plan", "was_executed")
class RestoreResult(NamedTuple):
    """A plan, and whether it was executed."""

    plan: LogRestorePlan
    was_executed: bool


class LogCare(Changes):
    """The methods of a table that maintain its `_delta_log`. They act at once, without a question; `plan_…` and
    `execute_…` are their two halves.
    """

    @named
    @takes(CheckpointRequest)
    def checkpoint(self, request: CheckpointRequest) -> CheckpointResult:
        """Write a checkpoint of the newest version, or of `version`, and return what was done.

        `layout`: `classic`, `multi-part` (with `parts`, or `rows_per_file`) or `v2` (with at most `rows_per_file`
        actions in a sidecar, and `v2_top` `json` or `parquet`); None: as in the table's policy. `stats`: the columns of
        statistics, `keep`, `json`, `struct` or `both`. `if_behind`: do nothing unless this many commits were made since
        the last checkpoint. `force` rewrites an existing one. `dry_run` only counts.

        In the result, `skipped` is True where nothing had to be done, `files` are paths relative to the table with
        their size in bytes and their rows, `actions` are counts by kind, `hint_version` is the version that
        `_last_checkpoint` names afterwards, None where it does not name this one.

        Raises UsageError for conflicting arguments; Refused where the protocol, the state of the log or
        the version's checksum file forbids it or the commit was rewritten meanwhile, among them NoAtomicCreate for a
        store that is read-only; PartlyDone where an error came after a file was published; StorageFailed, with nothing
        published where the file does not read back as expected (`checkpoint.not-proven`); and what
        `snapshot` raises.
        """
        from deltacli.changing.change import carry_out, plan_change
        from deltacli.operations.checkpoint.execute import Checkpoint, write_checkpoint

        self.require_writable(dry_run=request.dry_run)
        plan = plan_change(Checkpoint(request), self)
        if request.dry_run and plan.refusal is None:
            return write_checkpoint(plan, dry_run=True)
        return carry_out(Checkpoint(request), self, plan=plan)

    @named
    @takes(CheckpointRequest)
    def plan_checkpoint(self, request: CheckpointRequest) -> CheckpointPlan:
        """Return the plan of `checkpoint` with the same parameters; its `refusal` is what `force` accepts. Raises as it
        does.
        """
        from deltacli.operations.checkpoint.execute import Checkpoint

        return self._plan(Checkpoint(request))

    @named
    def execute_checkpoint(self, plan: CheckpointPlan) -> CheckpointResult:
        """Write a planned checkpoint of this table. Raises as `checkpoint` does."""
        from deltacli.operations.checkpoint.execute import Checkpoint

        return self._execute(Checkpoint(plan.request), plan)

    @named
    @takes(ExpiryRequest)
    def expire_log(self, request: ExpiryRequest) -> ExpiryResult:
        """Delete, at once, the files of the log that no kept version needs; `dry_run=True` returns the plan.

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
        from deltacli.operations.log.expire_execute import LogExpiry

        return self._plan(LogExpiry(request))

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
        the size forbids it or a commit was rewritten meanwhile, StorageFailed, and what `snapshot` raises.
        Spec: Log Compaction Files.
        """
        from deltacli.operations.log.compact_log import LogCompaction

        return self._made(LogCompaction(version_number(first, "first"), version_number(last, "last")), dry_run=dry_run)

    @named
    def plan_compact_log(self, first: int, last: int) -> Compaction:
        """Return what `compact_log` would write. Raises as it does."""
        return self.compact_log(first, last, dry_run=True)

    @named
    def execute_compact_log(self, plan: Compaction) -> Compaction:
        """Write a planned compaction of this table. Raises as `compact_log` does."""
        from deltacli.operations.log.compact_log import LogCompaction

        return self._execute(LogCompaction(plan.first, plan.last), plan)

    @named
    def write_checksum(self, *, version: int | None = None, dry_run: bool = False) -> ChecksumReport:
        """Write the checksum file of the newest version, or of `version`, where it is missing; return its state.

        An existing file is compared with the log and never replaced: `status` is `agrees`, `differs` (with
        `differences`) or `unreadable`. `dry_run` only compares.

        Raises Refused where the version has no commit file, the protocol forbids writing or the commit was rewritten
        meanwhile, StorageFailed, and what `snapshot` raises. Spec: Version Checksum File.
        """
        from deltacli.operations.log.version_checksum import Checksum

        return self._made(Checksum(optional_version(version, "version")), dry_run=dry_run)

    @named
    def plan_write_checksum(self, *, version: int | None = None) -> ChecksumReport:
        """Return what `write_checksum` would find or write. Raises as it does."""
        return self.write_checksum(version=version, dry_run=True)

    @named
    def execute_write_checksum(self, plan: ChecksumReport) -> ChecksumReport:
        """Write a planned checksum file of this table. Raises as `write_checksum` does."""
        from deltacli.operations.log.version_checksum import Checksum

        return self._execute(Checksum(plan.version), plan)

    @named
    def backup_log(self, destination: str, *, full: bool = False, dry_run: bool = False) -> BackupResult:
        """Copy the log to a directory (a path or URI) that a later run adds to, and return what was copied.

        Copies are read back and compared. `full` compares every file by digest instead of by size and time. `dry_run`
        copies nothing.

        Raises UsageError where one of table and backup contains the other, Refused where the directory has other
        content, StorageFailed, and NotATable.
        """
        from deltacli.changing.change import carry_out
        from deltacli.operations.log.log_backup import LogBackup, planned_backup

        if dry_run:
            return planned_backup(self.plan_backup_log(destination, full=full))
        return carry_out(LogBackup(self.open_other(destination), full), self)

    @named
    def plan_backup_log(self, destination: str, *, full: bool = False) -> BackupPlan:
        """Return what `backup_log` would copy. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.operations.log.log_backup import LogBackup

        return plan_change(LogBackup(self.open_other(destination), full), self)

    @named
    def execute_backup_log(self, plan: BackupPlan) -> BackupResult:
        """Copy the files of a plan of this table. Raises as `backup_log` does."""
        from deltacli.operations.log.log_backup import LogBackup

        return self._execute(LogBackup(plan.destination, plan.full), plan, writes=False)

    @named
    def restore_log(self, source: str, *, replace: bool = False, dry_run: bool = False) -> RestoreResult:
        """Add, at once, the files of a backup that the log lacks; `dry_run=True` returns the plan.

        Returns the plan with whether it was executed. `replace` also replaces files that differ.

        Raises Unreadable for a directory without a backup, or with a damaged one; Refused, with nothing written, where
        it is of another table or the result would mix two histories; ConflictLost where a writer was first;
        StorageFailed.
        """
        from deltacli.changing.change import carry_out
        from deltacli.operations.log.log_restore_execute import LogRestore

        self.require_writable(dry_run=dry_run)
        plan = self.plan_restore_log(source, replace=replace)
        if dry_run or plan.is_noop:
            return RestoreResult(plan, was_executed=False)
        carry_out(LogRestore(plan.source, replace), self, plan=plan)
        return RestoreResult(plan, was_executed=True)

    @named
    def plan_restore_log(self, source: str, *, replace: bool = False) -> LogRestorePlan:
        """Return what `restore_log` would write. Raises as it does."""
        from deltacli.operations.log.log_restore_execute import LogRestore

        return self._plan(LogRestore(self.open_other(source), replace))

    @named
    def execute_restore_log(self, plan: LogRestorePlan) -> RestoreResult:
        """Write the files of a plan of this table. Raises as `restore_log` does."""
        from deltacli.operations.log.log_restore_execute import LogRestore

        self._execute(LogRestore(plan.source, plan.replaces), plan)
        return RestoreResult(plan, was_executed=not plan.is_noop)
