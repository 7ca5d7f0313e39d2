"""The methods of `Table` for the files of `_delta_log`: checkpoints, expiry, compactions, checksums and backups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.api.changeable_table import ChangeableTable
from deltacli.core.short_repr import short_repr
from deltacli.table.api_arguments import require_optional_version, require_version
from deltacli.table.api_errors import api_method

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.checkpoint.checkpoint import CheckpointPlan, CheckpointResult
    from deltacli.operations.checkpoint.verify import Verification
    from deltacli.operations.log.crc_and_compact import ChecksumReport, Compaction
    from deltacli.operations.log.expire import ExpiryOutcome, ExpiryPlan
    from deltacli.operations.log.log_backup import BackupPlan, BackupResult
    from deltacli.operations.log.log_restore import LogRestored, LogRestorePlan
    from deltacli.operations.read.log_cat import LoggedActions
    from deltacli.storage import Storage


@short_repr("plan", "outcome")
class ExpiryResult(NamedTuple):
    """The plan of `expire_log`, and its outcome.

    Attributes:
        plan: The plan.
        outcome: The deleted files; None if the plan was not executed.
    """

    plan: ExpiryPlan
    outcome: ExpiryOutcome | None


@short_repr("plan", "was_executed")
class RestoreResult(NamedTuple):
    """The plan of `restore_log`, and whether it was executed.

    Attributes:
        plan: The plan.
        was_executed: Whether files were written.
    """

    plan: LogRestorePlan
    was_executed: bool


class LogMethods(ChangeableTable):
    """The methods of `Table` that maintain the log. The rows of the table stay the same."""

    @api_method
    def checkpoint(
        self,
        *,
        version: int | None = None,
        layout: str | None = None,
        parts: int | None = None,
        rows_per_file: int | None = None,
        v2_top: str = "json",
        stats: str = "keep",
        if_behind: int = 0,
        force: bool = False,
        dry_run: bool = False,
    ) -> CheckpointResult:
        """Write a checkpoint of a version.

        Args:
            version: The version. None for the newest version.
            layout: `classic`, `multi-part` or `v2`. None uses the property `delta.checkpointPolicy`.
            parts: The number of files of a multi-part checkpoint.
            rows_per_file: The maximum number of actions in a sidecar or part.
            v2_top: The format of the main file of a V2 checkpoint: `json` or `parquet`.
            stats: The form of the statistics: `json`, `struct`, or `both`. `keep` uses the form that the properties
                of the table select, or else that of the last checkpoint.
            if_behind: Write nothing if there are fewer commits since the last checkpoint.
            force: Whether to write the checkpoint even if a complete checkpoint of this version and layout exists.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The result. `skipped` is True if nothing had to be written. `files` contains the paths of the files,
            relative to the table, with their size in bytes and number of rows. `actions` is the number of actions
            of each kind. `hint_version` is the version in `_last_checkpoint`; None if the hint does not refer to
            this checkpoint.

        Raises:
            UsageError: If the arguments are invalid.
            Refused: If the protocol does not allow it, the checksum file of the version disagrees with the log, or
                the commit was replaced in the meantime. NoAtomicCreate, a subclass, if the store is read-only.
            PartlyDone: If an error occurs after a file was published.
            StorageFailed: If the file was not written correctly (`checkpoint.not-proven`). It is read back before
                it is published.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.api.prepared_change import require_no_refusal

        change = self.prepare_checkpoint(
            version=version,
            layout=layout,
            parts=parts,
            rows_per_file=rows_per_file,
            v2_top=v2_top,
            stats=stats,
            if_behind=if_behind,
            force=force,
            dry_run=dry_run,
        )
        if not dry_run:
            return change.carry_out()

        plan = change.plan()
        require_no_refusal(plan)
        return self.preview_checkpoint(plan)

    @api_method
    def plan_checkpoint(
        self,
        *,
        version: int | None = None,
        layout: str | None = None,
        parts: int | None = None,
        rows_per_file: int | None = None,
        v2_top: str = "json",
        stats: str = "keep",
        if_behind: int = 0,
        force: bool = False,
    ) -> CheckpointPlan:
        """Return the plan of `checkpoint` without changing anything.

        Takes the same arguments and raises the same errors as `checkpoint`. `refusal` of the plan is the reason why
        nothing would be written without `force`.
        """
        change = self.prepare_checkpoint(
            version=version,
            layout=layout,
            parts=parts,
            rows_per_file=rows_per_file,
            v2_top=v2_top,
            stats=stats,
            if_behind=if_behind,
            force=force,
        )
        return change.plan()

    @api_method
    def execute_checkpoint(self, plan: CheckpointPlan) -> CheckpointResult:
        """Write the checkpoint of a plan that `plan_checkpoint` returned for this table.

        Raises the same errors as `checkpoint`.
        """
        from deltacli.operations.checkpoint.checkpoint import Checkpoint

        return self._prepare(Checkpoint(plan.request)).execute(plan)

    def prepare_checkpoint(
        self,
        *,
        version: int | None = None,
        layout: str | None = None,
        parts: int | None = None,
        rows_per_file: int | None = None,
        v2_top: str = "json",
        stats: str = "keep",
        if_behind: int = 0,
        force: bool = False,
        dry_run: bool = False,
    ) -> PreparedChange[CheckpointPlan, CheckpointResult]:
        """Return `checkpoint` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.checkpoint.checkpoint import Checkpoint, CheckpointRequest

        request = CheckpointRequest(
            version=version,
            layout=layout,
            parts=parts,
            rows_per_file=rows_per_file,
            v2_top=v2_top,
            stats=stats,
            if_behind=if_behind,
            force=force,
            dry_run=dry_run,
        )
        return self._prepare(Checkpoint(request))

    def preview_checkpoint(self, plan: CheckpointPlan, *, dry_run: bool = True) -> CheckpointResult:
        """Return the result that a plan would have, without writing anything.

        The checkpoint is encoded in memory, so the result contains the exact sizes of the files.

        Args:
            plan: A plan that `plan_checkpoint` returned. With `dry_run=False`, the plan must have no checkpoint to
                write: at most the hint is written.
            dry_run: Whether the result is that of a dry run.

        Raises:
            StorageFailed: If the store fails.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.checkpoint.checkpoint import write_checkpoint

        return write_checkpoint(plan, dry_run=dry_run)

    @api_method
    def verify_checkpoints(self, *, version: int | None = None) -> list[Verification]:
        """Compare complete checkpoints with the older files of the log that they replace.

        Args:
            version: The version whose checkpoints are compared. None compares the checkpoints of all versions.

        Raises:
            VersionAbsent: If the version has no checkpoint.
            NotATable: If the path is not a Delta table.
        """
        from deltacli.operations.checkpoint.verify import verify_checkpoints

        return list(verify_checkpoints(self, version=version))

    @api_method
    def read_actions(self, version: int, *, checkpoint: bool = False, kinds: str | None = None) -> LoggedActions:
        """Return the raw actions of a version. They are read when the result is iterated or written.

        Args:
            version: The version.
            checkpoint: Whether to read the checkpoint of the version instead of its commit. A version without a
                commit is always read from its checkpoint.
            kinds: A comma-separated list of kinds of actions, such as `add,remove`. None for all kinds.

        Raises:
            UsageError: If a kind is a misspelled known kind. Other unknown kinds are accepted.
            VersionAbsent: If the version has neither a commit nor a checkpoint.
            NotATable: If the path is not a Delta table.
        """
        from deltacli.operations.read.log_cat import LoggedActions, choose_kinds, find_actions

        chosen_kinds = None if kinds is None else choose_kinds(kinds)
        return LoggedActions(find_actions(self.storage, version, checkpoint=checkpoint), chosen_kinds, self.progress)

    @api_method
    def expire_log(
        self,
        *,
        retention_ms: int | None = None,
        keep_versions: Sequence[int] = (),
        allow_retention_below_ms: int | None = None,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        dry_run: bool = False,
    ) -> ExpiryResult:
        """Delete at once old commits and checkpoints that no retained version needs; `dry_run=True` returns the plan.

        Args:
            retention_ms: Versions are kept readable for this time in milliseconds. None uses the property
                `delta.logRetentionDuration`, or 30 days.
            keep_versions: Versions that stay readable, regardless of their age.
            allow_retention_below_ms: The retention that the table is configured with, as a confirmation if
                `retention_ms` is shorter.
            protect_streams: Glob patterns of the checkpoint directories of Spark streaming queries. The files and
                commits that these queries still have to read are kept.
            ignore_streams_older_ms: A query is not protected if it is behind, and its checkpoint has not changed
                for this time in milliseconds. None protects all matching queries.
            allow_stream_loss: The ids or checkpoint directories of queries that may fail afterwards.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The plan and its outcome. The outcome is None after a dry run, and if there is nothing to delete. The
            plan of a dry run includes the refusals.

        Raises:
            UsageError: If the arguments are invalid.
            Refused: If a safety check fails (`expire.*`), or the table has changed since it was planned (`plan.*`).
                Nothing is deleted.
            PartlyDone: If some files could not be deleted.
            StorageFailed: If the store fails.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

        Spec: Metadata Cleanup.
        """
        change = self.prepare_expire_log(
            retention_ms=retention_ms,
            keep_versions=keep_versions,
            allow_retention_below_ms=allow_retention_below_ms,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            dry_run=dry_run,
        )
        # A read-only store is refused before anything is read of it.
        if not dry_run:
            self.require_writable()
        # The execution verifies what is kept right before the deletion. Without one, the plan has to.
        plan = change.plan()
        if dry_run or plan.is_noop:
            return ExpiryResult(plan, None)
        # The caller asked for an expiry, not for this plan: behind another writer it may be planned again.
        return ExpiryResult(plan, change.execute(plan, may_plan_again=True))

    @api_method
    def plan_expire_log(
        self,
        *,
        retention_ms: int | None = None,
        keep_versions: Sequence[int] = (),
        allow_retention_below_ms: int | None = None,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
    ) -> ExpiryPlan:
        """Return the plan of `expire_log` without changing anything.

        Takes the same arguments and raises the same errors as `expire_log`, except that refusals are part of the
        plan.
        """
        change = self.prepare_expire_log(
            retention_ms=retention_ms,
            keep_versions=keep_versions,
            allow_retention_below_ms=allow_retention_below_ms,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
        )
        return change.plan()

    @api_method
    def execute_expire_log(self, plan: ExpiryPlan) -> ExpiryResult:
        """Delete the files of a plan that `plan_expire_log` returned for this table.

        Raises the same errors as `expire_log`.
        """
        from deltacli.operations.log.expire import LogExpiry

        return ExpiryResult(plan, self._prepare(LogExpiry(plan.request, proves=True)).execute(plan))

    def prepare_expire_log(
        self,
        *,
        retention_ms: int | None = None,
        keep_versions: Sequence[int] = (),
        allow_retention_below_ms: int | None = None,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        dry_run: bool = False,
        is_verified: bool = True,
    ) -> PreparedChange[ExpiryPlan, ExpiryOutcome]:
        """Return `expire_log` as a change that can be planned, shown and executed.

        Args:
            is_verified: Whether the plan already verifies that the kept versions can be rebuilt from the remaining
                files. The execution always verifies it.
        """
        from deltacli.operations.log.expire import ExpiryRequest, LogExpiry

        request = ExpiryRequest(
            retention_ms=retention_ms,
            keep_versions=keep_versions,
            allow_retention_below_ms=allow_retention_below_ms,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            dry_run=dry_run,
        )
        return self._prepare(LogExpiry(request, proves=is_verified))

    @api_method
    def compact_log(self, first: int, last: int, *, dry_run: bool = False) -> Compaction:
        """Write a log compaction file for a range of commits, such as
        `00000000000000000004.00000000000000000006.compacted.json`.

        An existing file is not replaced. `skipped` of the result is True if the compaction exists.

        Args:
            first: The version of the first commit.
            last: The version of the last commit.
            dry_run: Whether to only count the actions, without writing anything.

        Raises:
            UsageError: If the range contains fewer than two commits.
            VersionAbsent: If a commit of the range is missing.
            Refused: If the protocol does not allow it, the result would be too large, or a commit was replaced in
                the meantime.
            StorageFailed: If the store fails.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

        Spec: Log Compaction Files.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        return plan_or_carry_out(self.prepare_compact_log(first, last), dry_run=dry_run)

    @api_method
    def plan_compact_log(self, first: int, last: int) -> Compaction:
        """Return the plan of `compact_log` without changing anything.

        Takes the same arguments and raises the same errors as `compact_log`.
        """
        return self.prepare_compact_log(first, last).plan()

    @api_method
    def execute_compact_log(self, plan: Compaction) -> Compaction:
        """Write the compaction of a plan that `plan_compact_log` returned for this table.

        Raises the same errors as `compact_log`.
        """
        return self.prepare_compact_log(plan.first, plan.last).execute(plan)

    def prepare_compact_log(self, first: int, last: int) -> PreparedChange[Compaction, Compaction]:
        """Return `compact_log` as a change that can be planned, shown and executed."""
        from deltacli.operations.log.crc_and_compact import LogCompaction

        return self._prepare(LogCompaction(require_version(first, "first"), require_version(last, "last")))

    @api_method
    def write_checksum(self, *, version: int | None = None, dry_run: bool = False) -> ChecksumReport:
        """Write the version checksum file (`.crc`) of a version if it is missing, or compare it with the log.

        An existing file is not replaced. `status` of the result is `agrees`, `differs` (with the `differences`) or
        `unreadable`.

        Args:
            version: The version. None for the newest version.
            dry_run: Whether to compare without writing anything.

        Raises:
            Refused: If the version has no commit file, the protocol does not allow writing, or the commit was
                replaced in the meantime.
            StorageFailed: If the store fails.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.

        Spec: Version Checksum File.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        return plan_or_carry_out(self.prepare_write_checksum(version=version), dry_run=dry_run)

    @api_method
    def plan_write_checksum(self, *, version: int | None = None) -> ChecksumReport:
        """Return the plan of `write_checksum` without changing anything.

        Takes the same arguments and raises the same errors as `write_checksum`.
        """
        return self.prepare_write_checksum(version=version).plan()

    @api_method
    def execute_write_checksum(self, plan: ChecksumReport) -> ChecksumReport:
        """Write the checksum file of a plan that `plan_write_checksum` returned for this table.

        Raises the same errors as `write_checksum`.
        """
        return self.prepare_write_checksum(version=plan.version).execute(plan)

    def prepare_write_checksum(self, *, version: int | None = None) -> PreparedChange[ChecksumReport, ChecksumReport]:
        """Return `write_checksum` as a change that can be planned, shown and executed."""
        from deltacli.operations.log.crc_and_compact import Checksum

        return self._prepare(Checksum(require_optional_version(version, "version")))

    @api_method
    def backup_log(self, destination: str, *, full: bool = False, dry_run: bool = False) -> BackupResult:
        """Copy the files of the log to a backup directory.

        Files that the backup already contains are not copied again, so later calls only add new files. Each copy is
        read back and compared.

        Args:
            destination: The path or URI of the backup directory.
            full: Whether to compare existing files by digest. By default they are compared by size and time.
            dry_run: Whether to return the result without copying anything.

        Raises:
            UsageError: If the backup directory is inside the table, or the table inside the backup directory.
            Refused: If the directory contains other files than a backup of this table.
            StorageFailed: If the store fails.
            NotATable: If the path is not a Delta table.
        """
        change = self.prepare_backup_log(self.open_other(destination), full=full)
        return change.plan().as_planned_result() if dry_run else change.carry_out()

    @api_method
    def plan_backup_log(self, destination: str, *, full: bool = False) -> BackupPlan:
        """Return the plan of `backup_log` without changing anything.

        Takes the same arguments and raises the same errors as `backup_log`.
        """
        return self.prepare_backup_log(self.open_other(destination), full=full).plan()

    @api_method
    def execute_backup_log(self, plan: BackupPlan) -> BackupResult:
        """Copy the files of a plan that `plan_backup_log` returned for this table.

        Raises the same errors as `backup_log`.
        """
        return self.prepare_backup_log(plan.destination, full=plan.full).execute(plan)

    def prepare_backup_log(self, destination: Storage, *, full: bool) -> PreparedChange[BackupPlan, BackupResult]:
        """Return `backup_log` as a change that can be planned, shown and executed.

        Args:
            destination: The store of the backup directory.
            full: See `backup_log`.
        """
        from deltacli.operations.log.log_backup import LogBackup

        # The table may be in a read-only store: its log is only read.
        return self._prepare(LogBackup(destination, full), writes_table=False)

    @api_method
    def restore_log(self, source: str, *, replace: bool = False, dry_run: bool = False) -> RestoreResult:
        """Restore at once missing files of the log from a backup; `dry_run=True` returns the plan.

        Args:
            source: The path or URI of the backup directory.
            replace: Whether to also replace files that differ from the backup.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The plan, and whether it was executed.

        Raises:
            Unreadable: If the directory contains no backup, or the backup is damaged.
            Refused: If the backup belongs to another table, or the restored log would mix two histories. Nothing is
                written.
            ConflictLost: If another writer has created one of the files in the meantime.
            StorageFailed: If the store fails.
        """
        if not dry_run:
            self.require_writable()
        change = self.prepare_restore_log(self.open_other(source), replace=replace)
        plan = change.plan()
        if dry_run or plan.is_noop:
            return RestoreResult(plan, was_executed=False)
        change.execute(plan, may_plan_again=True)
        return RestoreResult(plan, was_executed=True)

    @api_method
    def plan_restore_log(self, source: str, *, replace: bool = False) -> LogRestorePlan:
        """Return the plan of `restore_log` without changing anything.

        Takes the same arguments and raises the same errors as `restore_log`.
        """
        return self.prepare_restore_log(self.open_other(source), replace=replace).plan()

    @api_method
    def execute_restore_log(self, plan: LogRestorePlan) -> RestoreResult:
        """Restore the files of a plan that `plan_restore_log` returned for this table.

        Raises the same errors as `restore_log`.
        """
        self.prepare_restore_log(plan.source, replace=plan.replaces).execute(plan)
        return RestoreResult(plan, was_executed=not plan.is_noop)

    def prepare_restore_log(self, source: Storage, *, replace: bool) -> PreparedChange[LogRestorePlan, LogRestored]:
        """Return `restore_log` as a change that can be planned, shown and executed.

        Args:
            source: The store of the backup directory.
            replace: See `restore_log`.
        """
        from deltacli.operations.log.log_restore import LogRestore

        return self._prepare(LogRestore(source, replace))
