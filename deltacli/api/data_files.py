"""Methods of a Delta table that delete and rewrite its data files, and compute their statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from deltacli.api.changeable_table import ChangeableTable
from deltacli.core.errors import UsageError
from deltacli.delta.log.actions import NO_METADATA
from deltacli.table.api_errors import api_method

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.api.prepared_vacuum import PreparedSavedVacuum, PreparedVacuum
    from deltacli.operations.change.stats import StatsOutcome, StatsPlan
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.vacuum.plan import VacuumPlan, VacuumResult
    from deltacli.operations.vacuum.quarantine import PurgePlan, PurgeResult


class DataFileMethods(ChangeableTable):
    """The methods of a Delta table that change data files or what is known of them. The rows stay the same."""

    @api_method
    def vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        mode: str = "full",
        prefix: str | None = None,
        where: str | None = None,
        keep_versions: Sequence[int] = (),
        protect_from: Sequence[str] = (),
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        inventory: str | None = None,
        max_delete: str = "50%",
        quarantine: str | None = None,
        include_foreign: bool = False,
        skip_nested_tables: bool = False,
        log_entries: bool = True,
        threads: int | None = None,
        rate: float | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> VacuumResult:
        """Delete, at once, the files that no retained version needs; `dry_run=True` returns the plan.

        Args:
            retention_ms: Files that have been unneeded for longer, in milliseconds, are deleted. None: the
                retention of the table's property, or 7 days.
            allow_retention_below_ms: The table's own retention, to allow a shorter one.
            mode: Where candidates come from: `full` lists the table, `lite` reads the removed files of the log.
            prefix: Delete only below this directory of the table. It excludes `where`.
            where: A condition on partition columns. Delete only in matching partitions.
            keep_versions: Versions whose files are kept, whatever their age.
            protect_from: Paths or URIs of other tables, such as shallow clones, whose files are kept.
            protect_streams: Patterns of checkpoint directories of Spark queries. Whatever these queries still
                need is kept.
            ignore_streams_older_ms: The age of a checkpoint, in milliseconds, from which its query is not
                protected if it is behind. None: every matching query is protected.
            allow_stream_loss: Queries, by their ids or checkpoint directories, that may become unable to
                continue.
            inventory: Path or URI of a list of files that the store made, to use instead of a listing.
            max_delete: The share of the table, such as `50%`, or the size above which nothing is deleted.
            quarantine: A directory outside of all tables that gets a copy of each file before it is deleted.
            include_foreign: True to delete unrecognized files that are older than the retention, too.
            skip_nested_tables: True to skip directories that are tables of their own. False refuses the vacuum.
            log_entries: False to not commit VACUUM START and VACUUM END.
            threads: The number of threads that delete. None: what the store allows.
            rate: The largest number of files to delete per second. None: no limit.
            commit_metadata: Keys to add to the commitInfo of VACUUM START and VACUUM END. `userMetadata` sets
                the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan with its outcome. The outcome is None after a dry run, whose refusals are in the plan.

        Raises:
            UsageError: If arguments exclude each other, or do not fit the table.
            Refused: If a guard objects (`vacuum.*`), or the protocol forbids writing. Nothing is deleted.
            PartlyDone: If files could not be deleted, or an error occurs after the first deletion or commit.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

        Spec: Add File and Remove File; VACUUM Protocol Check.
        """
        from deltacli.operations.vacuum.plan import VacuumResult

        change = self.prepare_vacuum(
            retention_ms=retention_ms,
            allow_retention_below_ms=allow_retention_below_ms,
            mode=mode,
            prefix=prefix,
            where=where,
            keep_versions=keep_versions,
            protect_from=protect_from,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            inventory=inventory,
            max_delete=max_delete,
            quarantine=quarantine,
            include_foreign=include_foreign,
            skip_nested_tables=skip_nested_tables,
            log_entries=log_entries,
            threads=threads,
            rate=rate,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        if dry_run:
            return VacuumResult(change.plan(), None)
        result = change.carry_out()
        self.note_vacuumed(result.plan)
        return result

    @api_method
    def plan_vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        mode: str = "full",
        prefix: str | None = None,
        where: str | None = None,
        keep_versions: Sequence[int] = (),
        protect_from: Sequence[str] = (),
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        inventory: str | None = None,
        max_delete: str = "50%",
        quarantine: str | None = None,
        include_foreign: bool = False,
        skip_nested_tables: bool = False,
        log_entries: bool = True,
        threads: int | None = None,
        rate: float | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> VacuumPlan:
        """Plan `vacuum` and change nothing. Return the plan.

        Takes the same arguments as `vacuum` and raises the same errors, except that refusals are part of the
        plan and are not raised.
        """
        change = self.prepare_vacuum(
            retention_ms=retention_ms,
            allow_retention_below_ms=allow_retention_below_ms,
            mode=mode,
            prefix=prefix,
            where=where,
            keep_versions=keep_versions,
            protect_from=protect_from,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            inventory=inventory,
            max_delete=max_delete,
            quarantine=quarantine,
            include_foreign=include_foreign,
            skip_nested_tables=skip_nested_tables,
            log_entries=log_entries,
            threads=threads,
            rate=rate,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_vacuum(
        self,
        plan: VacuumPlan,
        *,
        threads: int | None = None,
        rate: float | None = None,
        log_entries: bool = True,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        accept_copy: bool = False,
    ) -> VacuumResult:
        """Delete the files of a plan of this table, except those that a newer version needs.

        Args:
            plan: The plan.
            threads: The number of threads that delete. None: what the store allows.
            rate: The largest number of files to delete per second. None: no limit.
            log_entries: False to not commit VACUUM START and VACUUM END.
            commit_metadata: Keys to add to the commitInfo of both.
            accept_copy: True to accept the plan of a table elsewhere, of which this one is a copy with the same past.

        Returns:
            The plan with its outcome.

        Raises:
            Refused: If the plan is one of another table or of another past (`plan.other-place`, `vacuum.plan-*`).
                Nothing is deleted.
            DeltacliError: Whatever `vacuum` raises.
        """
        from deltacli.operations.vacuum.full_plan import vacuum
        from deltacli.operations.vacuum.plan import VacuumRequest

        self.require_writable()
        request = VacuumRequest(threads=threads, rate=rate, log_entries=log_entries, commit_metadata=commit_metadata)
        return vacuum(self, request, plan, accept_copy=accept_copy)

    def prepare_vacuum(
        self,
        *,
        retention_ms: int | None = None,
        allow_retention_below_ms: int | None = None,
        mode: str = "full",
        prefix: str | None = None,
        where: str | None = None,
        keep_versions: Sequence[int] = (),
        protect_from: Sequence[str] = (),
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        inventory: str | None = None,
        max_delete: str = "50%",
        quarantine: str | None = None,
        include_foreign: bool = False,
        skip_nested_tables: bool = False,
        log_entries: bool = True,
        threads: int | None = None,
        rate: float | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PreparedVacuum:
        """Return `vacuum` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.api.prepared_vacuum import PreparedVacuum
        from deltacli.operations.vacuum.full_plan import VacuumChange
        from deltacli.operations.vacuum.plan import VacuumRequest

        request = VacuumRequest(
            retention_ms=retention_ms,
            allow_retention_below_ms=allow_retention_below_ms,
            mode=mode,
            prefix=prefix,
            where=where,
            keep_versions=keep_versions,
            protect_from=protect_from,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            inventory=inventory,
            max_delete=max_delete,
            quarantine=quarantine,
            include_foreign=include_foreign,
            skip_nested_tables=skip_nested_tables,
            log_entries=log_entries,
            threads=threads,
            rate=rate,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return PreparedVacuum(VacuumChange(request), self)

    def prepare_saved_vacuum(
        self,
        path: str,
        *,
        quarantine: str | None = None,
        threads: int | None = None,
        rate: float | None = None,
        log_entries: bool = True,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        accept_copy: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> PreparedSavedVacuum:
        """Return the vacuum of a plan that `save_vacuum_plan` wrote. It starts where an earlier run stopped.

        Args:
            path: The file of the plan. A record of what was done, and a report, are written beside it.
            quarantine: A directory that gets a copy of each file before it is deleted. None: that of the plan.
            threads: The number of threads that delete. None: what the store allows.
            rate: The largest number of files to delete per second. None: no limit.
            log_entries: False to not commit VACUUM START and VACUUM END.
            commit_metadata: Keys to add to the commitInfo of both.
            accept_copy: True to accept the plan of a table elsewhere, of which this one is a copy with the same past.
            tell: Receives what was done by earlier runs, and where the report is. None: nobody is told.

        Raises:
            UsageError: If arguments are invalid.
        """
        from deltacli.api.prepared_vacuum import PreparedSavedVacuum
        from deltacli.operations.vacuum.execute import SavedVacuum
        from deltacli.operations.vacuum.plan import VacuumRequest

        request = VacuumRequest(
            quarantine=quarantine,
            threads=threads,
            rate=rate,
            log_entries=log_entries,
            commit_metadata=commit_metadata,
        )
        return PreparedSavedVacuum(SavedVacuum(path, request, accept_copy, tell or _ignore), self)

    def save_vacuum_plan(self, plan: VacuumPlan, path: str) -> None:
        """Write a plan of this table to a local Parquet file, which replaces an existing one.

        Raises:
            Refused: If the log is another one by now.
            StorageFailed: If the file cannot be written.
        """
        from deltacli.operations.vacuum.rechecking import with_past
        from deltacli.operations.vacuum.saved import save_plan

        save_plan(with_past(self, plan), path)

    def note_vacuumed(self, plan: VacuumPlan) -> None:
        """Record how far the log was examined by a plan that has nothing to delete: mode `lite` continues from there.

        A vacuum that is executed records it itself.
        """
        from deltacli.operations.vacuum.execute import note_progress

        note_progress(plan)

    @api_method
    def purge_quarantine(self, quarantine: str, *, older_ms: int, dry_run: bool = False) -> PurgeResult:
        """Delete, at once, older files of this table from a quarantine; `dry_run=True` returns the plan.

        Only what manifests of this table name is deleted.

        Args:
            quarantine: The directory that a vacuum copied files to.
            older_ms: The age, in milliseconds, from which files are deleted.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan with its outcome. The outcome is None after a dry run. `refusals` of the plan name the directories
            that are not touched.

        Raises:
            Refused: If a manifest cannot be trusted, or the quarantine is in a table.
            PartlyDone: If files could not be deleted.
            StorageFailed: If the store fails.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.
        """
        from deltacli.operations.vacuum.quarantine import PurgeResult

        change = self.prepare_purge_quarantine(quarantine, older_ms=older_ms)
        return PurgeResult(change.plan(), None) if dry_run else change.carry_out()

    @api_method
    def plan_purge_quarantine(self, quarantine: str, *, older_ms: int) -> PurgePlan:
        """Plan `purge_quarantine` and change nothing. Return the plan.

        Takes the arguments of `purge_quarantine` and raises the same errors, except that refusals are part of the
        plan and are not raised.
        """
        return self.prepare_purge_quarantine(quarantine, older_ms=older_ms).plan()

    @api_method
    def execute_purge_quarantine(self, plan: PurgePlan) -> PurgeResult:
        """Delete what a plan of this table says.

        Raises the same errors as `purge_quarantine`.
        """
        # The plan has a time, and the request an age: that is measured from when the plan was made.
        age_ms = max(0, plan.base_version.now_ms - plan.cutoff_ms)
        return self.prepare_purge_quarantine(plan.quarantine, older_ms=age_ms).execute(plan)

    def prepare_purge_quarantine(
        self, quarantine: str, *, older_ms: int, dry_run: bool = False
    ) -> PreparedChange[PurgePlan, PurgeResult]:
        """Return `purge_quarantine` as a change that can be planned, shown and executed.

        Args:
            quarantine: The directory that a vacuum copied files to.
            older_ms: The age, in milliseconds, from which files are deleted.
            dry_run: True if the plan is only shown. It is then refused if a directory of the quarantine has to be
                left alone. An execution leaves that one alone, and purges the others.

        Raises:
            UsageError: If the age is negative or not an integer.
        """
        from deltacli.operations.vacuum.quarantine import QuarantinePurge

        # An age from True or a fraction would be a mistake of the caller, and what is purged is gone for good.
        if type(older_ms) is not int or older_ms < 0:
            raise UsageError(f"older_ms is {older_ms!r}", facts={"expected": "a number of milliseconds"})
        return self._prepare(QuarantinePurge(quarantine, older_ms, dry_run))

    @api_method
    def optimize(
        self,
        *,
        where: str | None = None,
        target_size: str | int | None = None,
        min_files: int = 2,
        min_size: str | int | None = None,
        zorder: Sequence[str] = (),
        cluster: bool = False,
        purge: bool = False,
        purge_ratio: float = 0.05,
        max_bytes: str | int | None = None,
        time_budget_ms: int | None = None,
        verify: bool = False,
        temp_dir: str | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> OptimizeOutcome:
        """Compact small files and purge deleted rows at once; `dry_run=True` returns the plan.

        Each group of files is one commit. Files that another writer touches meanwhile are left alone: `skipped` of the
        outcome counts them. A file whose values cannot be kept exactly is in `refused`.

        Args:
            where: A condition on partition columns. Other partitions are left alone.
            target_size: Size of new files, in bytes or as text such as `128MiB`. None: that of the property
                `delta.targetFileSize`, or 128 MiB.
            min_files: The smallest number of files that are written as one; at least 2.
            min_size: Size from which a file is left alone. None: half of `target_size`.
            zorder: Columns. The rows of each partition are sorted by a z-order of them.
            cluster: True to sort new rows by the clustering columns of the table.
            purge: True to rewrite only files with deleted rows, with dropped columns, with NaN beyond the
                bounds in their footers, or with timestamps that some engines misread as INT96.
            purge_ratio: Share of deleted rows above which a file of any size is rewritten.
            max_bytes: The largest number of bytes to rewrite. None: no limit.
            time_budget_ms: No commit begins after this time, in milliseconds. None: no limit.
            verify: True to compare all rows once more after the commits.
            temp_dir: Directory for temporary files of sorted rows. None: that of the system.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome with its plan.

        Raises:
            UsageError: If arguments are invalid, or exclude each other.
            Refused: If the protocol forbids writing. Nothing is changed.
            PartlyDone: If an error occurs after the first commit, or files could not be read.
            StorageFailed: If `verify` finds other rows (`optimize.rows-differ`), or the store fails.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

        Spec: Add File and Remove File.
        """
        change = self.prepare_optimize(
            where=where,
            target_size=target_size,
            min_files=min_files,
            min_size=min_size,
            zorder=zorder,
            cluster=cluster,
            purge=purge,
            purge_ratio=purge_ratio,
            max_bytes=max_bytes,
            time_budget_ms=time_budget_ms,
            verify=verify,
            temp_dir=temp_dir,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return change.carry_out(dry_run=dry_run)

    @api_method
    def plan_optimize(
        self,
        *,
        where: str | None = None,
        target_size: str | int | None = None,
        min_files: int = 2,
        min_size: str | int | None = None,
        zorder: Sequence[str] = (),
        cluster: bool = False,
        purge: bool = False,
        purge_ratio: float = 0.05,
        max_bytes: str | int | None = None,
        time_budget_ms: int | None = None,
        verify: bool = False,
        temp_dir: str | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> OptimizePlan:
        """Plan `optimize` and change nothing. Return the plan.

        Takes the same arguments as `optimize` and raises the same errors.
        """
        change = self.prepare_optimize(
            where=where,
            target_size=target_size,
            min_files=min_files,
            min_size=min_size,
            zorder=zorder,
            cluster=cluster,
            purge=purge,
            purge_ratio=purge_ratio,
            max_bytes=max_bytes,
            time_budget_ms=time_budget_ms,
            verify=verify,
            temp_dir=temp_dir,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_optimize(self, plan: OptimizePlan) -> OptimizeOutcome:
        """Rewrite and commit the files of a plan of this table, except those that were touched since.

        Raises the same errors as `optimize`.
        """
        from deltacli.operations.optimize.execute import Optimize

        return self._prepare(Optimize(plan.request)).execute(plan)

    def prepare_optimize(
        self,
        *,
        where: str | None = None,
        target_size: str | int | None = None,
        min_files: int = 2,
        min_size: str | int | None = None,
        zorder: Sequence[str] = (),
        cluster: bool = False,
        purge: bool = False,
        purge_ratio: float = 0.05,
        max_bytes: str | int | None = None,
        time_budget_ms: int | None = None,
        verify: bool = False,
        temp_dir: str | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PreparedChange[OptimizePlan, OptimizeOutcome]:
        """Return `optimize` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.optimize.execute import Optimize
        from deltacli.operations.optimize.request import OptimizeRequest

        request = OptimizeRequest(
            where=where,
            target_size=target_size,
            min_files=min_files,
            min_size=min_size,
            zorder=zorder,
            cluster=cluster,
            purge=purge,
            purge_ratio=purge_ratio,
            max_bytes=max_bytes,
            time_budget_ms=time_budget_ms,
            verify=verify,
            temp_dir=temp_dir,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return self._prepare(Optimize(request))

    @api_method
    def stats(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] = (),
        missing: bool = False,
        all: bool = False,
        read: str = "footers",
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> StatsOutcome:
        """Compute the statistics of live files and commit them at once; `dry_run=True` returns the plan.

        Files that another writer touches meanwhile are left out: `dropped` of the outcome counts them.

        Args:
            where: A condition on partition columns. Files of other partitions keep their statistics.
            columns: Columns that get statistics. Empty: those that the properties of the table choose.
            missing: True to state the default: only files that lack statistics of a column. It excludes `all`.
            all: True to replace wrong statistics of the other files, too.
            read: What is read: `footers`, which do not have all bounds, or `rows`, which have.
            commit_metadata: Keys to add to the commitInfo. `userMetadata` sets the field of that name.
            dry_run: True to plan only, and change nothing.

        Returns:
            The outcome with its plan.

        Raises:
            UsageError: If arguments are invalid, or columns get no statistics.
            Refused: If the protocol forbids writing. Nothing is changed.
            PartlyDone: If an error occurs after the first commit, or files could not be read.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.

        Spec: Per-file Statistics.
        """
        change = self.prepare_stats(
            where=where,
            columns=columns,
            missing=missing,
            all=all,
            read=read,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return change.carry_out(dry_run=dry_run)

    @api_method
    def plan_stats(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] = (),
        missing: bool = False,
        all: bool = False,
        read: str = "footers",
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> StatsPlan:
        """Plan `stats` and change nothing. Return the plan.

        Takes the same arguments as `stats` and raises the same errors.
        """
        change = self.prepare_stats(
            where=where,
            columns=columns,
            missing=missing,
            all=all,
            read=read,
            commit_metadata=commit_metadata,
        )
        return change.plan()

    @api_method
    def execute_stats(self, plan: StatsPlan) -> StatsOutcome:
        """Read and commit the statistics of a plan of this table.

        Raises the same errors as `stats`.
        """
        from deltacli.operations.change.stats import ComputeStats

        return self._prepare(ComputeStats(plan.request)).execute(plan)

    def prepare_stats(
        self,
        *,
        where: str | None = None,
        columns: Sequence[str] = (),
        missing: bool = False,
        all: bool = False,
        read: str = "footers",
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
        examines: bool = False,
    ) -> PreparedChange[StatsPlan, StatsOutcome]:
        """Return `stats` as a change that can be planned, shown and executed. Raises UsageError for
        invalid arguments.

        Args:
            examines: True to read the files for the plan already, which then knows how many have wrong statistics.
        """
        from deltacli.operations.change.stats import ComputeStats, StatsRequest

        request = StatsRequest(
            where=where,
            columns=columns,
            missing=missing,
            all=all,
            read=read,
            commit_metadata=commit_metadata,
            dry_run=dry_run,
        )
        return self._prepare(ComputeStats(request, examines=examines))


def _ignore(_text: str) -> None:
    """Receive a note that nobody wants."""
