"""Methods of a Delta table that maintain the files of its `_delta_log`: checkpoints, expiry, checksums, backups."""

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
    """The plan of `expire_log` with its outcome.

    Attributes:
        plan: The plan.
        outcome: What was deleted; None where the plan was not executed.
    """

    plan: ExpiryPlan
    outcome: ExpiryOutcome | None


@short_repr("plan", "was_executed")
class RestoreResult(NamedTuple):
    """The plan of `restore_log`, and whether it was executed.

    Attributes:
        plan: The plan.
        was_executed: True if files were written.
    """

    plan: LogRestorePlan
    was_executed: bool


class LogMethods(ChangeableTable):
    """The methods of a Delta table that maintain its log. The rows of its versions stay the same."""

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
        """Write a checkpoint of a version, and return what was written.

        Args:
            version: The version. None: the newest one.
            layout: `classic`, `multi-part` or `v2`. None: as in the policy of the table.
            parts: The number of files of a multi-part checkpoint.
            rows_per_file: The number of actions per sidecar or part.
            v2_top: The format of the main file of a V2 checkpoint: `json` or `parquet`.
            stats: The columns of statistics: `json`, `struct`, `both`, or `keep` for those that the properties
                ask for, or else the last checkpoint has.
            if_behind: Write nothing unless this many commits were made since the last checkpoint.
            force: True to write the checkpoint even if a complete one of this version and layout exists.
            dry_run: True to plan only, and change nothing.

        Returns:
            The result. `skipped` is True where nothing had to be done, `files` are paths relative to the table with
            their sizes in bytes and rows, `actions` are counts by kind. `hint_version` is the version that
            `_last_checkpoint` names afterwards, None where it does not name this one.

        Raises:
            UsageError: If arguments conflict.
            Refused: If the protocol, the state of the log or the checksum file of the version forbids it, or the
                commit was rewritten meanwhile. NoAtomicCreate is raised for a store that is read-only.
            PartlyDone: If an error occurs after a file was published.
            StorageFailed: If the file does not read back as expected (`checkpoint.not-proven`). Nothing is published.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
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
        """Return the plan of `checkpoint` with the same arguments. Its `refusal` is what `force` accepts.

        Raises as `checkpoint` does.
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
        """Write a planned checkpoint of this table. Raises as `checkpoint` does."""
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
        """Return the change of `checkpoint`, not planned yet. Raises UsageError for invalid arguments."""
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
        """Return the result that a plan of this table would have. Nothing is written.

        The checkpoint is encoded: its result has the sizes of the files.

        Args:
            plan: The plan. With `dry_run=False` it is one that has nothing to write, but for the hint.
            dry_run: False for the result of an execution.

        Raises:
            StorageFailed: If the store fails.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
        """
        from deltacli.operations.checkpoint.checkpoint import write_checkpoint

        return write_checkpoint(plan, dry_run=dry_run)

    @api_method
    def verify_checkpoints(self, *, version: int | None = None) -> list[Verification]:
        """Compare every complete checkpoint with older files of the log, and return the results, oldest first.

        Args:
            version: The version whose checkpoints are compared. None: those of all versions.

        Raises:
            VersionAbsent: If the version has no checkpoint.
            NotATable: If there is no table.
        """
        from deltacli.operations.checkpoint.verify import verify_checkpoints

        return list(verify_checkpoints(self, version=version))

    @api_method
    def read_actions(self, version: int, *, checkpoint: bool = False, kinds: str | None = None) -> LoggedActions:
        """Return the raw actions of a version, which are read once they are written somewhere.

        Args:
            version: The version.
            checkpoint: True to read its checkpoint although it has a commit. Without a commit it is read anyway.
            kinds: Kinds of actions, separated by commas, such as `add,remove`. None: all of them.

        Raises:
            UsageError: If a kind is unknown and nearly one that is known.
            VersionAbsent: If the version has neither a commit nor a checkpoint.
            NotATable: If there is no table.
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
        """Delete, at once, the files of the log that no kept version needs; `dry_run=True` returns the plan.

        Args:
            retention_ms: Commits that are older, in milliseconds, are not kept. None: the retention of the
                table's property, or 30 days.
            keep_versions: Versions that remain readable, whatever their age.
            allow_retention_below_ms: The table's own retention, to allow a shorter one.
            protect_streams: Patterns of checkpoint directories of Spark queries. Whatever these queries still
                need is kept.
            ignore_streams_older_ms: The age of a checkpoint, in milliseconds, from which its query is not
                protected if it is behind. None: every matching query is protected.
            allow_stream_loss: Queries, by their ids or checkpoint directories, that may become unable to
                continue.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan with its outcome. The outcome is None after a dry run, whose refusals are in the plan, and where
            there is nothing to delete.

        Raises:
            UsageError: If arguments are invalid, or one needs another.
            Refused: If a guard objects (`expire.*`), or the table is no longer as planned (`plan.*`). Nothing is
                deleted.
            PartlyDone: If files could not be deleted, or an error ended the deletion.
            StorageFailed: If the store fails.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

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
        """Return what `expire_log` with the same arguments would do; refusals are in the plan. Raises as it does."""
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
        """Delete the files of a plan of this table. Raises as `expire_log` does."""
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
        """Return the change of `expire_log`, not planned yet. Raises UsageError for invalid arguments.

        Args:
            is_verified: True if planning verifies that the kept versions can still be rebuilt. An execution verifies
                it in any case.
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
        """Write a log compaction of a range of commits, and return what was written.

        An existing file is never replaced: `skipped` of the result is True where the same compaction exists.

        Args:
            first: The version of the first commit.
            last: The version of the last commit.
            dry_run: True to count only, and change nothing.

        Raises:
            UsageError: If there are fewer than two commits.
            VersionAbsent: If a commit is missing.
            Refused: If the protocol or the size forbids it, or a commit was rewritten meanwhile.
            StorageFailed: If the store fails.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

        Spec: Log Compaction Files.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        return plan_or_carry_out(self.prepare_compact_log(first, last), dry_run=dry_run)

    @api_method
    def plan_compact_log(self, first: int, last: int) -> Compaction:
        """Return what `compact_log` would write. Raises as it does."""
        return self.prepare_compact_log(first, last).plan()

    @api_method
    def execute_compact_log(self, plan: Compaction) -> Compaction:
        """Write a planned compaction of this table. Raises as `compact_log` does."""
        return self.prepare_compact_log(plan.first, plan.last).execute(plan)

    def prepare_compact_log(self, first: int, last: int) -> PreparedChange[Compaction, Compaction]:
        """Return the change of `compact_log`, not planned yet."""
        from deltacli.operations.log.crc_and_compact import LogCompaction

        return self._prepare(LogCompaction(require_version(first, "first"), require_version(last, "last")))

    @api_method
    def write_checksum(self, *, version: int | None = None, dry_run: bool = False) -> ChecksumReport:
        """Write the checksum file of a version where it is missing, and return its state.

        An existing file is compared with the log and never replaced: `status` of the result is `agrees`, `differs`
        (with `differences`) or `unreadable`.

        Args:
            version: The version. None: the newest one.
            dry_run: True to compare only, and change nothing.

        Raises:
            Refused: If the version has no commit file, the protocol forbids writing, or the commit was rewritten
                meanwhile.
            StorageFailed: If the store fails.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.

        Spec: Version Checksum File.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        return plan_or_carry_out(self.prepare_write_checksum(version=version), dry_run=dry_run)

    @api_method
    def plan_write_checksum(self, *, version: int | None = None) -> ChecksumReport:
        """Return what `write_checksum` would find or write. Raises as it does."""
        return self.prepare_write_checksum(version=version).plan()

    @api_method
    def execute_write_checksum(self, plan: ChecksumReport) -> ChecksumReport:
        """Write a planned checksum file of this table. Raises as `write_checksum` does."""
        return self.prepare_write_checksum(version=plan.version).execute(plan)

    def prepare_write_checksum(self, *, version: int | None = None) -> PreparedChange[ChecksumReport, ChecksumReport]:
        """Return the change of `write_checksum`, not planned yet."""
        from deltacli.operations.log.crc_and_compact import Checksum

        return self._prepare(Checksum(require_optional_version(version, "version")))

    @api_method
    def backup_log(self, destination: str, *, full: bool = False, dry_run: bool = False) -> BackupResult:
        """Copy the log to a directory that a later run adds to, and return what was copied.

        Copies are read back and compared.

        Args:
            destination: The directory: a path or a URI.
            full: True to compare every file by digest instead of by size and time.
            dry_run: True to copy nothing.

        Raises:
            UsageError: If one of table and backup contains the other.
            Refused: If the directory has other content.
            StorageFailed: If the store fails.
            NotATable: If there is no table.
        """
        change = self.prepare_backup_log(self.open_other(destination), full=full)
        return change.plan().as_planned_result() if dry_run else change.carry_out()

    @api_method
    def plan_backup_log(self, destination: str, *, full: bool = False) -> BackupPlan:
        """Return what `backup_log` would copy. Raises as it does."""
        return self.prepare_backup_log(self.open_other(destination), full=full).plan()

    @api_method
    def execute_backup_log(self, plan: BackupPlan) -> BackupResult:
        """Copy the files of a plan of this table. Raises as `backup_log` does."""
        return self.prepare_backup_log(plan.destination, full=plan.full).execute(plan)

    def prepare_backup_log(self, destination: Storage, *, full: bool) -> PreparedChange[BackupPlan, BackupResult]:
        """Return the change of `backup_log`, not planned yet. `destination` is the store of the backup."""
        from deltacli.operations.log.log_backup import LogBackup

        # The table may be in a read-only store: its log is only read.
        return self._prepare(LogBackup(destination, full), writes_table=False)

    @api_method
    def restore_log(self, source: str, *, replace: bool = False, dry_run: bool = False) -> RestoreResult:
        """Add, at once, the files of a backup that the log lacks; `dry_run=True` returns the plan.

        Args:
            source: The directory of the backup: a path or a URI.
            replace: True to replace files that differ, too.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan, and whether it was executed.

        Raises:
            Unreadable: If there is no backup, or a damaged one.
            Refused: If the backup is one of another table, or the result would mix two histories. Nothing is written.
            ConflictLost: If a writer was first.
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
        """Return what `restore_log` would write. Raises as it does."""
        return self.prepare_restore_log(self.open_other(source), replace=replace).plan()

    @api_method
    def execute_restore_log(self, plan: LogRestorePlan) -> RestoreResult:
        """Write the files of a plan of this table. Raises as `restore_log` does."""
        self.prepare_restore_log(plan.source, replace=plan.replaces).execute(plan)
        return RestoreResult(plan, was_executed=not plan.is_noop)

    def prepare_restore_log(self, source: Storage, *, replace: bool) -> PreparedChange[LogRestorePlan, LogRestored]:
        """Return the change of `restore_log`, not planned yet. `source` is the store of the backup."""
        from deltacli.operations.log.log_restore import LogRestore

        return self._prepare(LogRestore(source, replace))
