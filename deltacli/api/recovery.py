"""The methods of `Table` for recovery: `undelete`, `restore`, `repair` and `undo_repair`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from deltacli.api.changeable_table import ChangeableTable
from deltacli.delta.log.actions import NO_METADATA
from deltacli.table.api_errors import api_method

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.operations.recover.plan import UndeletePlan
    from deltacli.operations.recover.undelete import UndeleteResult
    from deltacli.operations.repair.backup import PutBack, UndoPlan
    from deltacli.operations.repair.plan import RepairPlan
    from deltacli.operations.repair.repair import RepairOutcome
    from deltacli.operations.restore.restore import RestoreOutcome, RestorePlan


class RecoveryMethods(ChangeableTable):
    """The methods of `Table` that restore earlier versions, and recover lost or damaged files."""

    @api_method
    def undelete(
        self,
        *,
        sources: Sequence[str] = (),
        version: int | None = None,
        prefix: str | None = None,
        accept_commits: Sequence[int] = (),
        dry_run: bool = False,
    ) -> UndeleteResult:
        """Recover at once the missing files of a version; `dry_run=True` returns the plan.

        Missing files of the log are recovered as well.

        Args:
            sources: Where to look for the files: `versions` for object versions that the store has kept, and paths
                or URIs of copies of the table. For each file, the first source that contains it as the log
                describes it is used. An empty sequence means `versions`.
            version: The version whose files are recovered. None for the newest version.
            prefix: A directory of the table, such as `date=2026-01-01`. Data files outside are not recovered.
            accept_commits: Versions whose commits may be copied from a source although they cannot be verified: the
                remaining log does not prove that they belong to this table.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The plan, and the recovered files. After a dry run, the latter is None, and the plan includes the
            refusals.

        Raises:
            UsageError: If the arguments are invalid.
            Refused: If the store does not keep object versions, a source is a copy of another table, a commit was
                overwritten, or commits of a copy cannot be verified (`recover.unproven`). Nothing is changed.
            PartlyDone: If some files are in none of the sources, or an error occurs after the first file.
                `newest_readable` of the plan is the newest version that can be read.
            ConflictLost: If another writer creates a commit with the number of a missing one.
            StorageFailed: If the store, or a source, fails.
            Unreadable: If the version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.recover.undelete import UndeleteResult

        change = self.prepare_undelete(
            sources=sources,
            version=version,
            prefix=prefix,
            accept_commits=accept_commits,
            dry_run=dry_run,
        )
        return UndeleteResult(change.plan(), None) if dry_run else change.carry_out()

    @api_method
    def plan_undelete(
        self,
        *,
        sources: Sequence[str] = (),
        version: int | None = None,
        prefix: str | None = None,
        accept_commits: Sequence[int] = (),
    ) -> UndeletePlan:
        """Return the plan of `undelete` without changing anything.

        Takes the same arguments and raises the same errors as `undelete`, except that refusals are part of the
        plan.
        """
        change = self.prepare_undelete(
            sources=sources,
            version=version,
            prefix=prefix,
            accept_commits=accept_commits,
        )
        return change.plan()

    @api_method
    def execute_undelete(self, plan: UndeletePlan) -> UndeleteResult:
        """Recover the files of a plan that `plan_undelete` returned for this table.

        Raises the same errors as `undelete`.
        """
        from deltacli.operations.recover.undelete import Undelete

        return self._prepare(Undelete(plan.request)).execute(plan)

    def prepare_undelete(
        self,
        *,
        sources: Sequence[str] = (),
        version: int | None = None,
        prefix: str | None = None,
        accept_commits: Sequence[int] = (),
        dry_run: bool = False,
    ) -> PreparedChange[UndeletePlan, UndeleteResult]:
        """Return `undelete` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.recover.plan import UndeleteRequest
        from deltacli.operations.recover.undelete import Undelete

        request = UndeleteRequest(
            sources=sources,
            version=version,
            prefix=prefix,
            accept_commits=accept_commits,
            dry_run=dry_run,
        )
        return self._prepare(Undelete(request))

    @api_method
    def restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
        where: str | None = None,
        sources: Sequence[str] = (),
        trust_listing: bool = False,
        allow_removals: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> RestoreOutcome:
        """Restore at once an earlier version of the table with one new commit; `dry_run=True` returns the plan.

        The commit adds the files of the earlier version again. Before, it is checked that these files exist, by
        size, deletion vector and footer. If the commit is sent more than a minute later, for example because of
        conflicts, they are checked again, and once more after the commit.

        Args:
            version: The version to restore.
            timestamp: Instead of `version`: the time at which the version was the newest one. A datetime with a
                time zone, or a date, which means midnight UTC.
            timestamp_ms: `timestamp` in epoch milliseconds.
            where: A condition on partition columns, such as `date = '2026-01-01'`. Only matching partitions are
                restored. The schema and the properties stay as they are.
            sources: Where to look for files that are missing or damaged (see `undelete`).
            trust_listing: Whether to compare only the sizes of the files, without reading their footers.
            allow_removals: Whether to remove files although the property `delta.appendOnly` is set.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome, which contains the plan. `committed_version` is None if nothing was committed. The plan of
            a dry run includes the refusals.

        Raises:
            UsageError: If not exactly one of `version`, `timestamp` and `timestamp_ms` is passed.
            Refused: If a safety check fails (`restore.*`), or the table needs a writer feature that is not
                supported. Nothing is changed.
            ConflictLost: If another writer has committed in the meantime, and the change would now have other
                effects.
            OutcomeUnknown: If it is unknown whether the commit was created, because the answer of the store was
                lost.
            PartlyDone: If another program has deleted files in the meantime.
            Unreadable: If a version cannot be read: the log is damaged, or the version needs an unsupported
                feature.

        Spec: Add File and Remove File.
        """
        change = self.prepare_restore(
            version=version,
            timestamp=timestamp,
            timestamp_ms=timestamp_ms,
            where=where,
            sources=sources,
            trust_listing=trust_listing,
            allow_removals=allow_removals,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return change.carry_out(dry_run=dry_run)

    @api_method
    def plan_restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
        where: str | None = None,
        sources: Sequence[str] = (),
        trust_listing: bool = False,
        allow_removals: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> RestorePlan:
        """Return the plan of `restore` without changing anything.

        Takes the same arguments and raises the same errors as `restore`, except that refusals are part of the plan.
        """
        change = self.prepare_restore(
            version=version,
            timestamp=timestamp,
            timestamp_ms=timestamp_ms,
            where=where,
            sources=sources,
            trust_listing=trust_listing,
            allow_removals=allow_removals,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_restore(self, plan: RestorePlan, *, may_plan_again: bool = False) -> RestoreOutcome:
        """Commit a plan that `plan_restore` returned for this table.

        Args:
            plan: A plan that `plan_restore` returned.
            may_plan_again: Whether to commit a new plan even if it has other effects. It then also undoes the
                commits of other writers.

        Raises:
            ConflictLost: If the new plan has other effects.
            DeltacliError: The errors of `restore`.
        """
        from deltacli.operations.restore.restore import Restore

        return self._prepare(Restore(plan.request)).execute(plan, may_plan_again=may_plan_again)

    def prepare_restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        timestamp_ms: int | None = None,
        where: str | None = None,
        sources: Sequence[str] = (),
        trust_listing: bool = False,
        allow_removals: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PreparedChange[RestorePlan, RestoreOutcome]:
        """Return `restore` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.restore.restore import Restore, RestoreRequest

        request = RestoreRequest(
            version=version,
            timestamp=timestamp,
            timestamp_ms=timestamp_ms,
            where=where,
            sources=sources,
            trust_listing=trust_listing,
            allow_removals=allow_removals,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return self._prepare(Restore(request))

    @api_method
    def repair(
        self,
        *,
        level: str = "storage",
        select: Sequence[str] = (),
        sources: Sequence[str] = (),
        accept_commits: Sequence[int] = (),
        accept_empty_commits: Sequence[int] = (),
        accept_loss: bool = False,
        partition_values: Sequence[str] = (),
        allow_in_use: bool = False,
        max_missing: float = 0.1,
        quarantine: str | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> RepairOutcome:
        """Repair at once the problems that `validate` finds; `dry_run=True` returns the plan.

        Missing files are recovered from the sources, and damaged files of the log are rebuilt. Rows are only given
        up if `accept_loss` is set. Files that are replaced or moved are kept in a backup, see `undo_repair`.

        Args:
            level: The level of the validation (see `validate`): `log`, `storage`, `footers` or `data`.
            select: Glob patterns of the ids of rules whose findings are repaired, such as `checkpoint.*`. An empty
                sequence selects all rules.
            sources: Where to look for missing files: `versions` for object versions that the store has kept, and
                paths or URIs of copies of the table.
            accept_commits: Versions whose commits may be copied from a source although they cannot be verified: the
                remaining log does not prove that they belong to this table.
            accept_empty_commits: Versions whose commit file is empty. They are replaced by commits without changes.
            accept_loss: Whether to allow steps that give up rows: rows of files, or of parts of files, that none of
                the sources contains.
            partition_values: Partition values of files whose values are neither in the log nor in their path:
                `country=DE`, or `country=DE @ imports/*` for matching paths.
            allow_in_use: Whether to repair a table to which other writers have committed recently.
            max_missing: If a larger share of the live files is missing, no file is removed from the table.
            quarantine: A directory outside of all tables, for the backup and for the readable rows of damaged
                files.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome, which contains the plan.

        Raises:
            UsageError: If the arguments are invalid.
            Refused: If all steps are refused (`repair.*`). Nothing is changed.
            PartlyDone: If some steps were refused, or failed.
            NotATable: If the directory contains no Delta log.
            StorageFailed: If the store, or a source, fails.
        """
        change = self.prepare_repair(
            level=level,
            select=select,
            sources=sources,
            accept_commits=accept_commits,
            accept_empty_commits=accept_empty_commits,
            accept_loss=accept_loss,
            partition_values=partition_values,
            allow_in_use=allow_in_use,
            max_missing=max_missing,
            quarantine=quarantine,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return change.carry_out(dry_run=dry_run)

    @api_method
    def plan_repair(
        self,
        *,
        level: str = "storage",
        select: Sequence[str] = (),
        sources: Sequence[str] = (),
        accept_commits: Sequence[int] = (),
        accept_empty_commits: Sequence[int] = (),
        accept_loss: bool = False,
        partition_values: Sequence[str] = (),
        allow_in_use: bool = False,
        max_missing: float = 0.1,
        quarantine: str | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> RepairPlan:
        """Return the plan of `repair` without changing anything.

        Takes the same arguments and raises the same errors as `repair`, except that refusals are part of the plan.
        """
        change = self.prepare_repair(
            level=level,
            select=select,
            sources=sources,
            accept_commits=accept_commits,
            accept_empty_commits=accept_empty_commits,
            accept_loss=accept_loss,
            partition_values=partition_values,
            allow_in_use=allow_in_use,
            max_missing=max_missing,
            quarantine=quarantine,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_repair(self, plan: RepairPlan) -> RepairOutcome:
        """Execute the steps of a plan that `plan_repair` returned for this table.

        Problems that can only be seen after these steps are repaired as well.

        Raises the same errors as `repair`.
        """
        from deltacli.operations.repair.repair import Repair

        return self._prepare(Repair(plan.request)).execute(plan)

    def prepare_repair(
        self,
        *,
        level: str = "storage",
        select: Sequence[str] = (),
        sources: Sequence[str] = (),
        accept_commits: Sequence[int] = (),
        accept_empty_commits: Sequence[int] = (),
        accept_loss: bool = False,
        partition_values: Sequence[str] = (),
        allow_in_use: bool = False,
        max_missing: float = 0.1,
        quarantine: str | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PreparedChange[RepairPlan, RepairOutcome]:
        """Return `repair` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.repair.plan import RepairRequest
        from deltacli.operations.repair.repair import Repair

        request = RepairRequest(
            level=level,
            select=select,
            sources=sources,
            accept_commits=accept_commits,
            accept_empty_commits=accept_empty_commits,
            accept_loss=accept_loss,
            partition_values=partition_values,
            allow_in_use=allow_in_use,
            max_missing=max_missing,
            quarantine=quarantine,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return self._prepare(Repair(request))

    def prepare_saved_repair(self, path: str, *, dry_run: bool = False) -> PreparedChange[RepairPlan, RepairOutcome]:
        """Return a change that executes a plan from a file that `save_repair_plan` has written.

        The repair is planned again, and refused if the new plan differs from the saved one.

        Args:
            path: The path of the file.
            dry_run: Whether the plan is only shown.

        Raises:
            Unreadable: If the file is not a saved repair plan, or was edited.
        """
        from deltacli.operations.repair.plan import read_repair_plan
        from deltacli.operations.repair.repair import Repair

        saved = read_repair_plan(path)
        return self._prepare(Repair(replace(saved.request, dry_run=dry_run), saved))

    def save_repair_plan(self, plan: RepairPlan, path: str) -> None:
        """Write a plan to a local file. An existing file is replaced.

        Raises:
            StorageFailed: If the file cannot be written.
        """
        from deltacli.operations.repair.plan import save_repair_plan

        save_repair_plan(plan, path)

    @api_method
    def undo_repair(self, backup: str, *, dry_run: bool = False) -> PutBack:
        """Restore at once the files that a repair has replaced or moved; `dry_run=True` returns the plan.

        Args:
            backup: The directory of the backup that the repair has created.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The number of files that were restored, or would be restored.

        Raises:
            Refused: If there are newer commits (`repair.log-moved-on`), a file was changed since the repair
                (`repair.not-as-left`), or versions would become unreadable (`repair.undo-loses-versions`).
            Unreadable: If the backup is damaged.
            PartlyDone: If an error occurs after the first file.
        """
        change = self.prepare_undo_repair(backup)
        return change.plan().amount if dry_run else change.carry_out()

    @api_method
    def plan_undo_repair(self, backup: str) -> UndoPlan:
        """Return the plan of `undo_repair` without changing anything.

        Takes the same arguments and raises the same errors as `undo_repair`. `amount` of the plan is the number of
        files.
        """
        return self.prepare_undo_repair(backup).plan()

    @api_method
    def execute_undo_repair(self, plan: UndoPlan) -> PutBack:
        """Restore the files of a plan that `plan_undo_repair` returned for this table.

        Raises the same errors as `undo_repair`.
        """
        return self.prepare_undo_repair(plan.backup).execute(plan)

    def prepare_undo_repair(self, backup: str) -> PreparedChange[UndoPlan, PutBack]:
        """Return `undo_repair` as a change that can be planned, shown and executed."""
        from deltacli.operations.repair.backup import Undo

        return self._prepare(Undo(backup))
