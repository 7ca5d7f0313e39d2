"""The methods of `Table` for data files: `vacuum`, `purge_quarantine`, `optimize` and `stats`."""

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
    """The methods of `Table` that delete or rewrite data files, or add statistics to the log. The rows of the table
    stay the same.
    """

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
        """Delete at once the files that no retained version references; `dry_run=True` returns the plan.

        Args:
            retention_ms: Files are deleted if they have been unreferenced for longer than this time in
                milliseconds. None uses the property `delta.deletedFileRetentionDuration`, or 7 days.
            allow_retention_below_ms: The retention that the table is configured with, as a confirmation if
                `retention_ms` is shorter.
            mode: How files are found. `full` lists the directory of the table. `lite` only reads the remove actions
                of the log, and does not find files that were never committed.
            prefix: A directory of the table, such as `date=2026-01-01`. Files outside are not deleted. Cannot be
                combined with `where`.
            where: A condition on partition columns, such as `date < '2026-01-01'`. Files of other partitions are
                not deleted.
            keep_versions: Versions that stay readable, regardless of their age.
            protect_from: Paths or URIs of other tables, such as shallow clones, that reference files of this table.
                These files are kept.
            protect_streams: Glob patterns of the checkpoint directories of Spark streaming queries. The files and
                commits that these queries still have to read are kept.
            ignore_streams_older_ms: A query is not protected if it is behind, and its checkpoint has not changed
                for this time in milliseconds. None protects all matching queries.
            allow_stream_loss: The ids or checkpoint directories of queries that may fail afterwards.
            inventory: Path or URI of an inventory of the store, such as the manifest.json of S3 Inventory. It is
                read instead of listing the directory.
            max_delete: The maximum size of the files to delete, in relation to the table (`50%`) or absolute
                (`10GiB`). If it is exceeded, nothing is deleted.
            quarantine: A directory outside of all tables. Each file is copied there before it is deleted.
            include_foreign: Whether to delete files that are not known to be written by a Delta engine, if they are
                older than the retention.
            skip_nested_tables: Whether to skip directories that contain another table. If False, such a directory
                refuses the vacuum.
            log_entries: Whether to add the commits VACUUM START and VACUUM END to the log, as Spark does.
            threads: The number of threads that delete files. None chooses it for the store.
            rate: The maximum number of files to delete per second. None for no maximum.
            commit_metadata: Additional keys of the commitInfo actions of VACUUM START and VACUUM END, such as
                `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The plan and its outcome. After a dry run, the outcome is None, and the plan includes the refusals.

        Raises:
            UsageError: If the arguments are invalid, or do not match the table.
            Refused: If a safety check fails (`vacuum.*`), or the table needs a writer feature that is not
                supported. Nothing is deleted.
            PartlyDone: If files could not be deleted, or an error occurs after the first deletion or commit.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

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
        """Return the plan of `vacuum` without changing anything.

        Takes the same arguments and raises the same errors as `vacuum`, except that refusals are part of the plan.
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
        """Delete the files of a plan that `plan_vacuum` returned for this table.

        Files that a newer version references are not deleted.

        Args:
            plan: A plan that `plan_vacuum` returned.
            threads: The number of threads that delete files. None chooses it for the store.
            rate: The maximum number of files to delete per second. None for no maximum.
            log_entries: Whether to add the commits VACUUM START and VACUUM END to the log, as Spark does.
            commit_metadata: Additional keys of the commitInfo actions of these two commits.
            accept_copy: Whether to accept a plan that was made for another copy of this table, if both have the
                same history.

        Returns:
            The plan and its outcome.

        Raises:
            Refused: If the plan was made for another table, or the log was rolled back since (`plan.other-place`,
                `vacuum.plan-*`). Nothing is deleted.
            DeltacliError: The errors of `vacuum`.
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
        """Return a change that executes a plan from a file that `save_vacuum_plan` has written.

        A run that was interrupted is continued: its progress is recorded in a file next to the plan.

        Args:
            path: The path of the plan. The record of the progress, and a report, are written to the same directory.
            quarantine: A directory to which each file is copied before it is deleted. None uses the directory from
                the plan.
            threads: The number of threads that delete files. None chooses it for the store.
            rate: The maximum number of files to delete per second. None for no maximum.
            log_entries: Whether to add the commits VACUUM START and VACUUM END to the log, as Spark does.
            commit_metadata: Additional keys of the commitInfo actions of these two commits.
            accept_copy: Whether to accept a plan that was made for another copy of this table, if both have the
                same history.
            tell: Called with notes for the user: the progress of earlier runs, and the path of the report. None
                ignores them.

        Raises:
            UsageError: If the arguments are invalid.
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
        """Write a plan for this table to a local Parquet file. An existing file is replaced.

        Raises:
            Refused: If the log was rolled back or replaced since the plan was made.
            StorageFailed: If the file cannot be written.
        """
        from deltacli.operations.vacuum.rechecking import with_past
        from deltacli.operations.vacuum.saved import save_plan

        save_plan(with_past(self, plan), path)

    def note_vacuumed(self, plan: VacuumPlan) -> None:
        """Record the newest version that a plan without files to delete has examined. The mode `lite` continues
        from there.

        The execution of a plan records this by itself.
        """
        from deltacli.operations.vacuum.execute import note_progress

        note_progress(plan)

    @api_method
    def purge_quarantine(self, quarantine: str, *, older_ms: int, dry_run: bool = False) -> PurgeResult:
        """Delete at once the old files of this table in a quarantine; `dry_run=True` returns the plan.

        Args:
            quarantine: The directory that was passed to `vacuum` as its quarantine.
            older_ms: The minimum age in milliseconds of the files to delete.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The plan and its outcome, which is None after a dry run. The `refusals` of the plan contain the
            directories that are skipped.

        Raises:
            Refused: If a manifest is invalid, or the quarantine is inside a table.
            PartlyDone: If some files could not be deleted.
            StorageFailed: If the store fails.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.
        """
        from deltacli.operations.vacuum.quarantine import PurgeResult

        change = self.prepare_purge_quarantine(quarantine, older_ms=older_ms)
        return PurgeResult(change.plan(), None) if dry_run else change.carry_out()

    @api_method
    def plan_purge_quarantine(self, quarantine: str, *, older_ms: int) -> PurgePlan:
        """Return the plan of `purge_quarantine` without changing anything.

        Takes the same arguments and raises the same errors as `purge_quarantine`, except that refusals are part of
        the plan.
        """
        return self.prepare_purge_quarantine(quarantine, older_ms=older_ms).plan()

    @api_method
    def execute_purge_quarantine(self, plan: PurgePlan) -> PurgeResult:
        """Delete the files of a plan that `plan_purge_quarantine` returned for this table.

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
            quarantine: The directory that was passed to `vacuum` as its quarantine.
            older_ms: The minimum age in milliseconds of the files to delete.
            dry_run: Whether the plan is only shown. Then a directory that must be skipped refuses the plan.
                Otherwise it is skipped, and the other directories are purged.

        Raises:
            UsageError: If `older_ms` is negative, or not an integer.
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
        """Merge at once small data files, and rewrite files with deleted rows; `dry_run=True` returns the plan.

        Each group of files is rewritten and committed by itself. Files that another writer removes or changes in
        the meantime are skipped; `skipped` of the outcome is their number. Files whose values would change are in
        `refused`, and are not rewritten.

        Args:
            where: A condition on partition columns, such as `date >= '2026-01-01'`. Files of other partitions are
                not rewritten.
            target_size: The size of new files, in bytes or as text such as `128MiB`. None uses the property
                `delta.targetFileSize`, or 128 MiB.
            min_files: The minimum number of files in a group; at least 2.
            min_size: Files of this size or larger are not merged. None uses half of `target_size`.
            zorder: Columns for a z-order: the rows of each partition are sorted so that rows with similar values in
                any of these columns are in the same files.
            cluster: Whether to sort rows that are not sorted yet by the clustering columns of the table.
            purge: Whether to rewrite only files that need it for another reason than their size: they contain
                deleted rows or dropped columns, NaN beyond the bounds in their footer, or INT96 timestamps that
                some engines read wrongly.
            purge_ratio: Files with a larger share of deleted rows are rewritten regardless of their size.
            max_bytes: The maximum number of bytes to rewrite. None for no maximum.
            time_budget_ms: No commit is started after this time in milliseconds. None for no maximum.
            verify: Whether to compare all rows with those of the previous version after the commits.
            temp_dir: The directory for temporary files. None uses that of the system.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome, which contains the plan.

        Raises:
            UsageError: If the arguments are invalid.
            Refused: If the table needs a writer feature that is not supported. Nothing is changed.
            PartlyDone: If an error occurs after the first commit, or some files could not be read.
            StorageFailed: If `verify` finds a difference (`optimize.rows-differ`), or the store fails.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

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
        """Return the plan of `optimize` without changing anything.

        Takes the same arguments and raises the same errors as `optimize`.
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
        """Rewrite the files of a plan that `plan_optimize` returned for this table.

        Files that were removed or changed since are skipped.

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
        """Add missing statistics of data files to the log, without asking for confirmation. The data files are not
        rewritten.

        Files that another writer removes or changes in the meantime are skipped; `dropped` of the outcome is their
        number.

        Args:
            where: A condition on partition columns, such as `date >= '2026-01-01'`. Files of other partitions keep
                their statistics.
            columns: The columns that need statistics. An empty sequence uses the columns that the properties of the
                table select.
            missing: The default: only files without statistics of a column are changed. Cannot be combined with
                `all`.
            all: Whether to check the statistics of all files, and to replace wrong ones.
            read: Where the statistics come from. `footers` is fast, but Parquet footers do not contain the bounds
                of all types. `rows` reads the data files.
            commit_metadata: Additional keys of the commitInfo action, such as `{"userMetadata": "nightly run"}`.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The outcome, which contains the plan.

        Raises:
            UsageError: If the arguments are invalid, or a column cannot have statistics.
            Refused: If the table needs a writer feature that is not supported. Nothing is changed.
            PartlyDone: If an error occurs after the first commit, or some files could not be read.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.

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
        """Return the plan of `stats` without changing anything.

        Takes the same arguments and raises the same errors as `stats`.
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
        """Compute and commit the statistics of a plan that `plan_stats` returned for this table.

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
        """Return `stats` as a change that can be planned, shown and executed.

        Args:
            examines: Whether to read the files for the plan already, so that it contains the number of files with
                wrong statistics.
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
