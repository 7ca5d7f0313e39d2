"""Methods of a Delta table that make another table, or a view for other engines, of its files."""

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
    """The methods of a Delta table that make something of its files: a copy, a clone, manifests, a table."""

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
        """Copy the table to a directory, and return what was copied; `dry_run=True` copies nothing.

        The copy gets a table id of its own, unless it is a replica.

        Args:
            target: The directory of the copy: a path or a URI.
            versions: A range of versions such as `5-12`. None: all that can be rebuilt.
            newest: True to copy the newest version only.
            replica: True to keep the table id and every commit. A later copy brings the replica up to date.
            check: True to compare the target with the source, and copy nothing.
            level: What is compared: `storage`, `footers` or `data`.
            keep_external: True to keep paths that lead out of the source. Their files are not copied.
            threads: The number of files that are copied at a time. None: what the stores allow.
            rate: Bytes per second, or text such as `50MiB/s`. None: no limit.
            time_budget_ms: No file is begun after this time, in milliseconds. None: no limit.
            dry_run: True to plan only, and change nothing.

        Returns:
            The result. With `check`, `differences` are files that are missing from the copy, or differ from the
            source.

        Raises:
            UsageError: If arguments exclude each other, or one of source and target is in the other.
            Refused: If the target is not a copy of this table (`copy.not-a-replica`), or the source was rewritten
                (`copy.source-rewritten`) or is incomplete (`copy.source-incomplete`).
            ConflictLost: If the source loses files meanwhile.
            PartlyDone: If something was copied before an error.
            StorageFailed: If a store fails.
            Unreadable: If a version cannot be rebuilt, as `snapshot` raises it.
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
        """Plan `copy` and change nothing. Return the plan.

        Takes the same arguments as `copy` and raises the same errors, except that refusals are part of the
        plan and are not raised.
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
        """Copy the files of a plan of this table.

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
        """Return `copy` as a change that can be planned, shown and executed. Raises UsageError for
        invalid arguments.

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
        """Create, at once, a table that shares the files of a version of this one; `dry_run=True` returns the plan.

        This table gets a note of the clone, and its vacuum keeps what that needs.

        Args:
            target: The directory of the clone: a path or a URI.
            version: The version. None: the newest one.
            timestamp: Instead of `version`: the newest version committed at or before this time, a datetime with its
                time zone, or a date, which is midnight UTC.
            unprotected: True to write no note. A vacuum of this table may then delete files of the clone.
            dry_run: True to plan only, and change nothing.

        Raises:
            Refused: If the target exists, files of the version are missing, or the note cannot be written
                (`clone.*`). Nothing is changed.
            PartlyDone: If a vacuum deleted files meanwhile.
            DeltacliError: Whatever `snapshot` raises.

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
        """Plan `clone` and change nothing. Return the plan.

        Takes the arguments of `clone` and raises the same errors, except that refusals are part of the
        plan and are not raised.
        """
        from deltacli.table.time_travel import find_snapshot

        snapshot = find_snapshot(self.bind_to_directory(), version=version, timestamp=timestamp)
        table = self.open_other_table(require_path_text(target))
        return self.prepare_clone(table, snapshot, unprotected=unprotected).plan()

    @api_method
    def execute_clone(self, plan: ClonePlan) -> ClonePlan:
        """Create a planned clone of this table.

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
            snapshot: The version whose files it shares, of a table that is bound to its directory (`held`).
            unprotected: True to write no note into this table.
        """
        from deltacli.api.prepared_change import PreparedChange
        from deltacli.operations.clone import Clone

        return PreparedChange(Clone(snapshot, protects=not unprotected), target, writes_table=False)

    def _prepare_planned_clone(self, plan: ClonePlan) -> PreparedChange[ClonePlan, ClonePlan]:
        """Return the change that a plan was made from: the table to create is the one that was planned with."""
        from deltacli.api.prepared_change import PreparedChange

        return PreparedChange(plan.change, plan.base_version.table, writes_table=False)

    @api_method
    def manifest(self, *, dry_run: bool = False) -> ManifestsOutcome:
        """Write the symlink manifests of the newest version at once; `dry_run=True` only compares.

        Args:
            dry_run: True to compare only, and change nothing.

        Returns:
            The outcome. `differences` of its `plan` are manifests that were missing, differed, or were of partitions
            without files. Refusals are in a plan that is not executed. `as_json` returns the document
            `deltacli.manifest`.

        Raises:
            Refused: If the table has column mapping, or deleted rows in its files (`manifests.*`).
            PartlyDone: If manifests could not be deleted.
            Unreadable: If the newest version cannot be rebuilt, as `snapshot` raises it.
        """
        return self.prepare_manifest().carry_out(dry_run=dry_run)

    @api_method
    def plan_manifest(self) -> ManifestsPlan:
        """Return the manifests that differ from the newest version; refusals are in the plan."""
        return self.prepare_manifest().plan()

    @api_method
    def execute_manifest(self, plan: ManifestsPlan) -> ManifestsOutcome:
        """Write the manifests of a plan of this table.

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
        """Make a Delta table of the Parquet files of this directory at once; `dry_run=True` only plans.

        Args:
            partition: The partition columns with their types, such as `day date, country string`. None: as the
                directories name them.
            schema: A file with the columns: a schema string, or a document that contains one.
            like: A document of a snapshot, with columns, partitions and column mapping.
            exclude: Patterns of paths of files that are left out.
            time_zone: The zone of times in directory names that have none, for partition columns of type
                timestamp.
            accept_unknowable: True to convert a table that has lost its log, although removed rows come back.
            dry_run: True to plan only, and change nothing.

        Returns:
            The plan. `conflicts` are files that do not fit, `unknowable` is what is lost with the log of a former
            table. `committed_version` is 0 once the table is made.

        Raises:
            UsageError: If arguments are invalid.
            Refused: If files do not fit together, or the directory is a table. Nothing is changed.
            NotATable: If there is no data file.
            StorageFailed: If the store fails.
            ConflictLost: If another writer was first.
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
        """Plan `convert` and change nothing. Return the plan.

        Takes the same arguments as `convert` and raises the same errors, except that refusals are part of the
        plan and are not raised.
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
        """Commit a plan of this directory.

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
