"""The methods of `Table` that create other tables or views from its files: `copy`, `clone`, `manifest` and
`convert`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from deltacli.api.changeable_table import ChangeableTable
from deltacli.table.api_arguments import require_path_text
from deltacli.table.api_errors import api_method

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.changing.manifests import ManifestsOutcome, ManifestsPlan
    from deltacli.operations.change.convert import ConvertPlan
    from deltacli.operations.clone import ClonePlan
    from deltacli.operations.copy.execute import CopyResult
    from deltacli.operations.copy.plan import CopyPlan
    from deltacli.operations.copy.request import CopyRequest
    from deltacli.storage import Storage
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class CopyMethods(ChangeableTable):
    """The methods of `Table` that create a copy, a shallow clone, symlink manifests, or a table from Parquet files."""

    @api_method
    def copy(
        self,
        target: str = "",
        *,
        versions: str | None = None,
        newest: bool = False,
        replica: bool = False,
        check: bool = False,
        level: str = "storage",
        keep_external: bool = False,
        threads: int | None = None,
        rate: str | int | None = None,
        time_budget_ms: int | None = None,
        dry_run: bool = False,
    ) -> CopyResult:
        """Copy the table with its data files to another directory.

        The copy gets a new table id, unless it is a replica.

        Args:
            target: The path or URI of the copy.
            versions: A range of versions, such as `5-12`. None copies all versions that can be read.
            newest: Whether to copy only the newest version.
            replica: Whether to create a replica, with the same table id and all commits. Later calls update it.
            check: Whether to only compare the target with this table, without copying anything.
            level: What to compare with this table: `storage` (paths and sizes), `footers` (also Parquet footers) or
                `data` (also rows).
            keep_external: Whether to keep references to files outside the table as they are. These files are not
                copied.
            threads: The number of files that are copied concurrently. None chooses it for the stores.
            rate: The maximum rate, in bytes per second or as text such as `50MiB/s`. None for no maximum.
            time_budget_ms: No further file is copied after this time in milliseconds. None for no maximum.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The result. With `check`, `differences` contains the files that are missing in the copy, or differ.

        Raises:
            UsageError: If the arguments are invalid, or one of the directories is inside the other.
            Refused: If the target is another table (`copy.not-a-replica`), the history of this table was rewritten
                since the last copy (`copy.source-rewritten`), or files of this table are missing
                (`copy.source-incomplete`).
            ConflictLost: If files of this table are deleted in the meantime.
            PartlyDone: If an error occurs after some files were copied.
            StorageFailed: If the store, or a source, fails.
            Unreadable: If a version cannot be read: the log is damaged, or the version needs an unsupported
                feature.
        """
        from deltacli.operations.copy.execute import CopyResult, check_copy
        from deltacli.operations.copy.request import CopyRequest

        request = CopyRequest(
            target=target,
            versions=versions,
            newest=newest,
            replica=replica,
            check=check,
            level=level,
            keep_external=keep_external,
            threads=threads,
            rate=rate,
            time_budget_ms=time_budget_ms,
            dry_run=dry_run,
        )
        store = self.open_other(request.target)
        # A comparison changes nothing, so there is nothing to prepare.
        if request.check:
            return check_copy(self, store, request)
        change = self._prepare_copy(store, request)
        return CopyResult(change.plan(), dry_run=True) if request.dry_run else change.carry_out()

    @api_method
    def plan_copy(
        self,
        target: str = "",
        *,
        versions: str | None = None,
        newest: bool = False,
        replica: bool = False,
        check: bool = False,
        level: str = "storage",
        keep_external: bool = False,
        threads: int | None = None,
        rate: str | int | None = None,
        time_budget_ms: int | None = None,
    ) -> CopyPlan:
        """Return the plan of `copy` without changing anything.

        Takes the same arguments and raises the same errors as `copy`, except that refusals are part of the plan.
        """
        from deltacli.operations.copy.request import CopyRequest

        request = CopyRequest(
            target=target,
            versions=versions,
            newest=newest,
            replica=replica,
            check=check,
            level=level,
            keep_external=keep_external,
            threads=threads,
            rate=rate,
            time_budget_ms=time_budget_ms,
        )
        return self._prepare_copy(self.open_other(request.target), request).plan()

    @api_method
    def execute_copy(self, plan: CopyPlan) -> CopyResult:
        """Copy the files of a plan that `plan_copy` returned for this table.

        Raises the same errors as `copy`.
        """
        return self._prepare_copy(plan.target, plan.request).execute(plan)

    def prepare_copy(
        self,
        target: Storage,
        *,
        versions: str | None = None,
        newest: bool = False,
        replica: bool = False,
        level: str = "storage",
        keep_external: bool = False,
        threads: int | None = None,
        rate: str | int | None = None,
        time_budget_ms: int | None = None,
    ) -> PreparedChange[CopyPlan, CopyResult]:
        """Return `copy` as a change that can be planned, shown and executed.

        Args:
            target: The store of the copy.
        """
        from deltacli.operations.copy.request import CopyRequest

        request = CopyRequest(
            versions=versions,
            newest=newest,
            replica=replica,
            level=level,
            keep_external=keep_external,
            threads=threads,
            rate=rate,
            time_budget_ms=time_budget_ms,
        )
        return self._prepare_copy(target, request)

    def _prepare_copy(self, target: Storage, request: CopyRequest) -> PreparedChange[CopyPlan, CopyResult]:
        from deltacli.operations.copy.execute import Copy

        # The source may be in a read-only store: it is only read.
        return self._prepare(Copy(target, request), writes_table=False)

    @api_method
    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        unprotected: bool = False,
        dry_run: bool = False,
    ) -> ClonePlan:
        """Create a shallow clone: a table with a log of its own that references the data files of a version of this
        table.

        A note about the clone is written to `_delta_log/_deltacli_clones` of this table, so that `vacuum` keeps the
        files that the clone references.

        Args:
            target: The path or URI of the clone.
            version: The version. None for the newest version.
            timestamp: Instead of `version`: the time at which the version was the newest one. A datetime with a
                time zone, or a date, which means midnight UTC.
            unprotected: Whether to write no note. A vacuum of this table may then delete files that the clone
                references.
            dry_run: Whether to return the plan without changing anything.

        Raises:
            Refused: If the target exists, files of the version are missing, or the note cannot be written
                (`clone.*`). Nothing is changed.
            PartlyDone: If a vacuum has deleted files of the version in the meantime.
            DeltacliError: The errors of `snapshot`.

        Spec: Add File and Remove File.
        """
        plan = self.plan_clone(target, version=version, timestamp=timestamp, unprotected=unprotected)
        if dry_run:
            return plan
        # The caller asked for a clone, not for this plan: behind another writer it may be planned again.
        return self._prepare_planned_clone(plan).execute(plan, may_plan_again=True)

    @api_method
    def plan_clone(
        self,
        target: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        unprotected: bool = False,
    ) -> ClonePlan:
        """Return the plan of `clone` without changing anything.

        Takes the same arguments and raises the same errors as `clone`, except that refusals are part of the plan.
        """
        from deltacli.table.time_travel import find_snapshot

        snapshot = find_snapshot(self.bind_to_directory(), version=version, timestamp=timestamp)
        table = self.open_other_table(require_path_text(target))
        return self.prepare_clone(table, snapshot, unprotected=unprotected).plan()

    @api_method
    def execute_clone(self, plan: ClonePlan) -> ClonePlan:
        """Create the clone of a plan that `plan_clone` returned for this table.

        Raises the same errors as `clone`.
        """
        from deltacli.api.prepared_change import require_same_table

        require_same_table(plan.source.table.uri, self)
        return self._prepare_planned_clone(plan).execute(plan)

    def prepare_clone(
        self, target: TableHandle, snapshot: Snapshot, *, unprotected: bool
    ) -> PreparedChange[ClonePlan, ClonePlan]:
        """Return `clone` as a change that can be planned, shown and executed.

        Args:
            target: The table to create.
            snapshot: The version whose files the clone references. Its table must be bound to its directory
                (`TableHandle.bind_to_directory`).
            unprotected: Whether to write no note to this table.
        """
        from deltacli.api.prepared_change import PreparedChange
        from deltacli.operations.clone import Clone

        return PreparedChange(Clone(snapshot, protects=not unprotected), target, writes_table=False)

    def _prepare_planned_clone(self, plan: ClonePlan) -> PreparedChange[ClonePlan, ClonePlan]:
        """Return the change from which a plan was made."""
        from deltacli.api.prepared_change import PreparedChange

        return PreparedChange(plan.change, plan.base_version.table, writes_table=False)

    @api_method
    def manifest(self, *, dry_run: bool = False) -> ManifestsOutcome:
        """Write the symlink manifests of the newest version, which Athena, Redshift and Presto read, without asking
        for confirmation.

        Args:
            dry_run: Whether to compare without writing anything.

        Returns:
            The outcome. `differences` of its `plan` contains the manifests that were missing or outdated, or
            belonged to partitions without files. The plan of a dry run includes the refusals. `as_json` returns the
            JSON document `deltacli.manifest`.

        Raises:
            Refused: If the table has column mapping or deletion vectors, which readers of manifests would ignore
                (`manifests.*`).
            PartlyDone: If some outdated manifests could not be deleted.
            Unreadable: If the newest version cannot be read: the log is damaged, or the version needs an
                unsupported feature.
        """
        return self.prepare_manifest().carry_out(dry_run=dry_run)

    @api_method
    def plan_manifest(self) -> ManifestsPlan:
        """Return the plan of `manifest` without writing anything. It includes the refusals."""
        return self.prepare_manifest().plan()

    @api_method
    def execute_manifest(self, plan: ManifestsPlan) -> ManifestsOutcome:
        """Write the manifests of a plan that `plan_manifest` returned for this table.

        Raises the same errors as `manifest`.
        """
        return self.prepare_manifest().execute(plan)

    def prepare_manifest(self) -> PreparedChange[ManifestsPlan, ManifestsOutcome]:
        """Return `manifest` as a change that can be planned, shown and executed."""
        from deltacli.operations.change.manifest import Manifests

        return self._prepare(Manifests())

    @api_method
    def convert(
        self,  # arguments may be positional, as callers of earlier versions pass them
        partition: str | None = None,
        schema: str | None = None,
        like: str | None = None,
        exclude: Sequence[str] = (),
        time_zone: str | None = None,
        accept_unknowable: bool = False,
        dry_run: bool = False,
    ) -> ConvertPlan:
        """Convert a directory of Parquet files to a Delta table, without asking for confirmation. The files are not
        changed.

        Args:
            partition: The partition columns with their types, such as `day date, country string`. None infers them
                from directory names such as `day=2026-01-01`.
            schema: The path of a file with the schema: a schema string, or a JSON document that contains one.
            like: The path of a snapshot document (`deltacli snapshot --json`), from which columns, partition
                columns and column mapping are taken.
            exclude: Glob patterns of paths of files that are not added to the table.
            time_zone: The time zone of partition values of type timestamp, if the directory names contain none:
                `Europe/Berlin`.
            accept_unknowable: Whether to convert the directory of a table whose log was lost. Rows that were
                deleted from that table reappear.
            dry_run: Whether to return the plan without changing anything.

        Returns:
            The plan. `conflicts` contains the files with incompatible schemas. `unknowable` describes the
            information that was lost with the log of a former table. `committed_version` is 0 after the table was
            created.

        Raises:
            UsageError: If the arguments are invalid.
            Refused: If the files have incompatible schemas, or the directory is a table already. Nothing is
                changed.
            NotATable: If the directory contains no Parquet file.
            StorageFailed: If the store fails.
            ConflictLost: If another writer has created the table in the meantime.
        """
        from deltacli.api.prepared_change import plan_or_carry_out

        change = self.prepare_convert(
            partition=partition,
            schema=schema,
            like=like,
            exclude=exclude,
            time_zone=time_zone,
            accept_unknowable=accept_unknowable,
            dry_run=dry_run,
        )
        return plan_or_carry_out(change, dry_run=dry_run)

    @api_method
    def plan_convert(
        self,
        partition: str | None = None,
        schema: str | None = None,
        like: str | None = None,
        exclude: Sequence[str] = (),
        time_zone: str | None = None,
        accept_unknowable: bool = False,
    ) -> ConvertPlan:
        """Return the plan of `convert` without changing anything.

        Takes the same arguments and raises the same errors as `convert`, except that refusals are part of the plan.
        """
        change = self.prepare_convert(
            partition=partition,
            schema=schema,
            like=like,
            exclude=exclude,
            time_zone=time_zone,
            accept_unknowable=accept_unknowable,
        )
        return change.plan()

    @api_method
    def execute_convert(self, plan: ConvertPlan) -> ConvertPlan:
        """Create the table of a plan that `plan_convert` returned for this directory.

        Raises the same errors as `convert`.
        """
        from deltacli.operations.change.convert import Convert

        return self._prepare(Convert(plan.request)).execute(plan)

    def prepare_convert(
        self,
        *,
        partition: str | None = None,
        schema: str | None = None,
        like: str | None = None,
        exclude: Sequence[str] = (),
        time_zone: str | None = None,
        accept_unknowable: bool = False,
        dry_run: bool = False,
    ) -> PreparedChange[ConvertPlan, ConvertPlan]:
        """Return `convert` as a change that can be planned, shown and executed.

        Raises:
            UsageError: If the arguments are invalid.
        """
        from deltacli.operations.change.convert import Convert, ConvertRequest

        request = ConvertRequest(
            partition=partition,
            schema=schema,
            like=like,
            exclude=exclude,
            time_zone=time_zone,
            accept_unknowable=accept_unknowable,
            dry_run=dry_run,
        )
        return self._prepare(Convert(request))
