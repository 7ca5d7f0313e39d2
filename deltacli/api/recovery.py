"""Methods of a Delta table that take changes back and bring back what was lost."""

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
    """The methods of a Delta table that bring back earlier states and lost files."""

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
        """Bring back lost files of a version at once; `dry_run=True` returns the plan.

        Files of the log are brought back as well.

        Args:
            sources: Where files are looked for: `versions` (what the store keeps of deleted objects), and paths
                or URIs of copies of the table. The first that has a file as the log describes it is its source.
                Empty: `versions`.
            version: The version whose files are needed. None: the newest one.
            prefix: A directory of the table. Only data files below it are brought back.
            accept_commits: Versions that a copy may bring although nothing proves that they are of this table.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan with what was put in place: None after a dry run, whose refusals are in the plan.

        Raises:
            UsageError: If arguments are invalid.
            Refused: If the store has no versions, a source is one of another table, a commit was overwritten, or
                nothing proves the commits of a copy (`recover.unproven`). Nothing is changed.
            PartlyDone: If files are in no source, or an error occurs after the first file. `newest_readable` of the
                plan is the newest version that can be read.
            ConflictLost: If another writer created a commit that was to be brought back.
            StorageFailed: If a store fails.
            Unreadable: If the version cannot be rebuilt, as `snapshot` raises it.
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
        """Return what `undelete` with the same arguments would do; refusals are in the plan. Raises as it does."""
        change = self.prepare_undelete(
            sources=sources,
            version=version,
            prefix=prefix,
            accept_commits=accept_commits,
        )
        return change.plan()

    @api_method
    def execute_undelete(self, plan: UndeletePlan) -> UndeleteResult:
        """Put the files of a plan of this table in their places. Raises as `undelete` does."""
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
        """Return the change of `undelete`, not planned yet. Raises UsageError for invalid arguments."""
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
        """Bring the table back to an earlier version at once, in one commit; `dry_run=True` returns the plan.

        Every file that comes back is checked first, by its size, its deletion vector and its footer. Files are checked
        once more before a commit that is made a minute later, and after the commit.

        Args:
            version: The version to restore.
            timestamp: Instead of `version`: the version that was the newest one at this time, a datetime with
                its time zone, or a date, which is midnight UTC.
            timestamp_ms: The same in epoch milliseconds.
            where: A condition on partition columns. Only matching partitions are restored; schema and
                properties stay.
            sources: Where missing or damaged files are looked for, as by `undelete`.
            trust_listing: True to compare only the sizes of files that come back, not their footers.
            allow_removals: True to remove files of a table with `delta.appendOnly`, too.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome with its plan. `committed_version` is None where nothing was committed. After a dry run,
            refusals are in the plan.

        Raises:
            UsageError: If no version, or more than one, is given.
            Refused: If a guard objects (`restore.*`), or the protocol forbids writing. Nothing is changed.
            ConflictLost: If another writer was first, and the change would now do something else.
            OutcomeUnknown: If nobody knows whether the commit was made.
            PartlyDone: If another program deleted files meanwhile.
            Unreadable: If a version cannot be rebuilt, as `snapshot` raises it.

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
        """Return what `restore` with the same arguments would do; refusals are in the plan. Raises as it does."""
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
        """Commit a plan of this table.

        If another writer was first and the plan no longer fits, the change is planned again, and committed if it comes
        to the same.

        Args:
            plan: The plan.
            may_plan_again: True to commit a new plan in any case. It undoes the commits of other writers, too.

        Raises:
            ConflictLost: If the new plan is another one.
            DeltacliError: Whatever `restore` raises.
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
        """Return the change of `restore`, not planned yet. Raises UsageError for invalid arguments."""
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
        """Recover and rebuild at once, and give up only what no source has; `dry_run=True` returns the plan.

        Args:
            level: The level of the validation whose findings are repaired: `log`, `storage`, `footers` or
                `data`.
            select: Globs over the ids of rules to act on. Empty: all rules.
            sources: Where lost files are looked for: `versions` (what the store keeps of deleted objects), and
                paths or URIs of copies of the table.
            accept_commits: Versions that a copy may bring although nothing proves that they are of this table.
            accept_empty_commits: Versions whose commit has 0 bytes, to write as versions that changed nothing.
            accept_loss: True to allow steps that give up rows which no source has.
            partition_values: Partition values that neither the log nor the path of a file has, as `COL=VALUE`
                or, for paths that match, `COL=VALUE @ GLOB`.
            allow_in_use: True to repair a table that others committed to lately.
            max_missing: The share of the live files above which no file is given up.
            quarantine: A directory outside of all tables for the backup, and for readable rows of damaged
                files.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome with its plan.

        Raises:
            UsageError: If arguments are invalid.
            Refused: If guards object to every step (`repair.*`). Nothing is changed.
            PartlyDone: If some steps were refused or failed.
            NotATable: If no log is found.
            StorageFailed: If a store fails.
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
        """Return what `repair` with the same arguments would do; refusals are in the plan. Raises as it does."""
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
        """Make the changes of a plan of this table, and those that follow from them. Raises as `repair` does."""
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
        """Return the change of `repair`, not planned yet. Raises UsageError for invalid arguments."""
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
        """Return the change of a plan that `save_repair_plan` wrote. It is planned anew, and refused where it differs.

        Args:
            path: The file.
            dry_run: True if nothing will be executed.

        Raises:
            Unreadable: If the file is not such a plan, or was changed.
        """
        from deltacli.operations.repair.plan import read_repair_plan
        from deltacli.operations.repair.repair import Repair

        saved = read_repair_plan(path)
        return self._prepare(Repair(replace(saved.request, dry_run=dry_run), saved))

    def save_repair_plan(self, plan: RepairPlan, path: str) -> None:
        """Write a plan to a local file, which replaces an existing one. Raises StorageFailed."""
        from deltacli.operations.repair.plan import save_repair_plan

        save_repair_plan(plan, path)

    @api_method
    def undo_repair(self, backup: str, *, dry_run: bool = False) -> PutBack:
        """Put back, at once, the files that a repair replaced or moved; `dry_run=True` returns the plan.

        Args:
            backup: The directory of the backup that the repair made.
            dry_run: True to plan only, and change nothing.

        Returns:
            How many files were put back, or would be.

        Raises:
            Refused: If others have committed since (`repair.log-moved-on`), a file may not be what the repair left
                (`repair.not-as-left`), versions could not be rebuilt any more (`repair.undo-loses-versions`), or
                others change the files meanwhile.
            Unreadable: If the backup is damaged.
            PartlyDone: If an error occurs after the first file.
        """
        change = self.prepare_undo_repair(backup)
        return change.plan().amount if dry_run else change.carry_out()

    @api_method
    def plan_undo_repair(self, backup: str) -> UndoPlan:
        """Return what `undo_repair` of a backup would put back; `amount` is how much. Raises as it does."""
        return self.prepare_undo_repair(backup).plan()

    @api_method
    def execute_undo_repair(self, plan: UndoPlan) -> PutBack:
        """Put back what a plan of this table says. Raises as `undo_repair` does."""
        return self.prepare_undo_repair(plan.backup).execute(plan)

    def prepare_undo_repair(self, backup: str) -> PreparedChange[UndoPlan, PutBack]:
        """Return the change of `undo_repair`, not planned yet."""
        from deltacli.operations.repair.backup import Undo

        return self._prepare(Undo(backup))
