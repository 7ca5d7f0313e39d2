"""`open_table`, and `Table`: every operation as a method. The operations themselves take a `TableHandle`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

from deltacli.api.care import BeforeChange, Elsewhere, InCatalog, LogCare, Undo
from deltacli.core.errors import UsageError
from deltacli.core.machine import Clock, system_clock
from deltacli.core.progress import SILENT, Progress
from deltacli.core.request_fields import Lazy, takes
from deltacli.delta.log.actions import NO_METADATA
from deltacli.storage import NOTHING, Allowed, ReadStorage, Storage, open_storage
from deltacli.storage.base import RETRY_BUDGET, is_of_this_process
from deltacli.storage.secrets import without_secrets
from deltacli.table.api_arguments import name_table, named, text_of
from deltacli.table.version import Snapshot
from deltacli.work.task import read_prefixes

if TYPE_CHECKING:
    from deltacli.engine.base import Engine
    from deltacli.operations.change.alter import AlterationOutcome, AlterationRequest
    from deltacli.operations.change.drop_feature import FeatureDrop
    from deltacli.operations.change.properties_and_features import FeaturesOutcome, PropertiesOutcome, PropertyEdits
    from deltacli.operations.change.stats import StatsOutcome, StatsPlan, StatsRequest
    from deltacli.operations.change.widen_type import WideningOutcome
    from deltacli.operations.clone import ClonePlan
    from deltacli.operations.optimize.execute import OptimizeOutcome
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.optimize.request import OptimizeRequest
    from deltacli.operations.read.changes import Changes
    from deltacli.operations.read.history import History
    from deltacli.operations.vacuum.plan import VacuumPlan, VacuumRequest, VacuumResult
    from deltacli.operations.validate.findings import ValidateRequest
    from deltacli.operations.validate.validate import Validation
    from deltacli.storage.location import StoreLocation
    from deltacli.storage.retry import Retry
    from deltacli.table.scan_requests import ChangesRequest, HistoryRequest
else:
    AlterationRequest = Lazy("deltacli.operations.change.alter", "AlterationRequest")
    ChangesRequest = Lazy("deltacli.table.scan_requests", "ChangesRequest")
    HistoryRequest = Lazy("deltacli.table.scan_requests", "HistoryRequest")
    OptimizeRequest = Lazy("deltacli.operations.optimize.request", "OptimizeRequest")
    StatsRequest = Lazy("deltacli.operations.change.stats", "StatsRequest")
    VacuumRequest = Lazy("deltacli.operations.vacuum.plan", "VacuumRequest")
    ValidateRequest = Lazy("deltacli.operations.validate.findings", "ValidateRequest")


def open_table(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    retry_budget: timedelta = RETRY_BUDGET,
    allow_external: Sequence[str] = (),
    access: Literal["auto", "url", "dir"] = "auto",
    catalog_profile: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    clock: Clock = system_clock,
    progress: Progress = SILENT,
) -> Table:
    """Return the table at a path or URI, without reading anything yet, or one that a catalog knows by its name,
    `uc://CATALOG.SCHEMA.TABLE`, for which the catalog is asked at once.

    `engine` runs the pieces of its operations (default: threads of this process); `progress` receives their progress.
    `retry_budget` limits how long a request to a store is retried; zero: never.

    `allow_external`: paths and URIs below which files outside the table may be opened, as needed for a shallow clone;
    other files outside raise PathExternal. `access`: how a shared table is read, by URLs of its files (`url`) or in its
    directory with temporary credentials (`dir`); its server is asked for the metadata to choose. Hints of errors name
    the table as given here. `catalog_profile`: where the catalog is, with the keys of `[catalog.NAME]` of the
    configuration (`endpoint`, `token`, `oauth-uri`, `client-id`, `client-secret`); without it, the environment says so.

    Raises UsageError for an unsupported scheme, an extra that is not installed, a prefix without a directory, host or
    bucket, and a catalog or name that is not known; CatalogDenied, CatalogUnavailable, CatalogAnswerInvalid; for a
    shared table what its server is asked raises.
    """
    name = text_of(uri)
    shown = without_secrets(name)
    try:
        allowed = _prefixes(allow_external)
        retry = retry_of(name, retry_budget)
        open_other = partial(open_storage, options=storage_options, allowed=allowed, retry=retry)
        if name[: len(CATALOG)].lower() == CATALOG:
            storage = _open_in_catalog(name, catalog_profile, storage_options, retry)
        else:
            storage = _open_share(name, retry_budget, access, storage_options or {}) or open_other(name)
    except UsageError as fault:
        name_table(fault, shown)
        raise
    seconds = None if retry_budget == RETRY_BUDGET else retry_budget.total_seconds()
    return Table(
        storage,
        engine=engine,
        clock=clock,
        progress=progress,
        open_other=open_other,
        allowed=allowed,
        name=shown,
        location=_location(storage, storage_options, allowed, seconds),
    )


CATALOG = "uc://"


def _open_in_catalog(
    name: str, profile: Mapping[str, str] | None, options: Mapping[str, str] | None, retry: Retry | None
) -> Storage:
    from deltacli.catalogs.unity.addresses import parse_table
    from deltacli.catalogs.unity.unity import open_catalog, open_in_catalog

    parse_table(name)
    return open_in_catalog(open_catalog(profile, retry), name, options=options, retry=retry)


def _open_share(name: str, retry_budget: timedelta, access: str, options: Mapping[str, str]) -> Storage | None:
    """Return the store of a shared table, None for any other name. Raises UsageError."""
    if "#" not in name:
        return None
    from deltacli.sharing.client.share_storage import open_share
    from deltacli.storage.retry import Retry

    retry = Retry(retry_budget.total_seconds(), is_explicit=True)
    return open_share(name, access=access, options=options, retry=retry)


def _location(
    storage: ReadStorage, options: Mapping[str, str] | None, allowed: Allowed, seconds: float | None
) -> StoreLocation | None:
    """Return where other processes find the store of a table; None for one that a server or a catalog gave."""
    from deltacli.storage.location import StoreLocation

    if is_of_this_process(storage):
        return None
    return StoreLocation.of(storage.uri, options, allowed, seconds)


def _prefixes(allow_external: Sequence[str]) -> Allowed:
    """Return the prefixes below which files outside the table may be opened. Raises UsageError."""
    if not allow_external:
        return NOTHING
    return read_prefixes(allow_external)


def retry_of(uri: str, budget: timedelta) -> Retry | None:
    """Return the retry policy of requests; None for a local path."""
    if "://" not in uri:
        return None
    from deltacli.storage.retry import Retry

    return Retry(budget.total_seconds(), is_explicit=budget != RETRY_BUDGET)


class Table(BeforeChange, LogCare, InCatalog, Elsewhere, Undo):
    """A Delta table in one directory of a store: a handle with every operation as a method."""

    def __repr__(self) -> str:
        """Return the path and, if already known, the newest version that was read; reads nothing."""
        seen = "" if self.newest_seen is None else f", newest_seen={self.newest_seen}"
        return f"Table({without_secrets(self.uri)!r}{seen})"

    @named
    @takes(HistoryRequest)
    def history(self, request: HistoryRequest) -> History:
        """Return the newest `limit` commits (0: all) newest first, of a range where an end is given: `from_version`, or
        the first version committed at or after `from_timestamp`, and `to_version`, or the last one at or before
        `to_timestamp`. `counts` counts files and bytes of each.

        Raises UsageError, NotATable, and VersionAbsent for versions that do not exist yet.
        """
        from deltacli.operations.read.history import read_history
        from deltacli.table.time_travel import find_commit_range

        first, last = request.ends
        between = None
        if first is not None or last is not None:
            between = partial(find_commit_range, self, first=first, last=last)
        found = read_history(
            self.storage,
            self.engine,
            limit=request.limit,
            counts=request.counts,
            progress=self.progress,
            between=between,
        )
        if between is None:
            self.note_version(found.items[0].version if found.items else None)
        return found

    @named
    def snapshot(
        self, *, version: int | None = None, timestamp: datetime | date | None = None, timestamp_ms: int | None = None
    ) -> Snapshot:
        """Rebuild the newest version, `version`, or the newest one committed at or before `timestamp`: a datetime with
        its time zone, or a date, which is midnight UTC. `timestamp_ms` is the same in epoch milliseconds.

        Raises UsageError for arguments of a wrong type and for more than one of them; NotATable, VersionAbsent,
        LogIncomplete, CommitCorrupt, CheckpointUnreadable, ProtocolUnsupported.
        """
        from deltacli.table.time_travel import find_snapshot

        return find_snapshot(self, version=version, timestamp=timestamp, timestamp_ms=timestamp_ms)

    @named
    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        unprotected: bool = False,
        dry_run: bool = False,
    ) -> ClonePlan:
        """Create, at once, a table at a path or URI whose files are those of `version` or of the newest version until
        `timestamp` (neither: the newest), by their absolute paths; `dry_run=True` returns the plan.

        The table gets a note of the clone, and its vacuum keeps what that needs, unless it is `unprotected`.

        Raises Refused, with nothing changed, where the target exists, files of the version are missing, or the note
        cannot be written (`clone.*`); PartlyDone where a vacuum deleted files meanwhile; what commits and `snapshot`
        raise. Spec: Add File and Remove File.
        """
        from deltacli.changing.change import carry_out

        plan = self.plan_clone(target, version=version, timestamp=timestamp, unprotected=unprotected)
        return plan if dry_run else carry_out(plan.change, plan.basis.table, plan=plan)

    @named
    def plan_clone(
        self,
        target: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | None = None,
        unprotected: bool = False,
    ) -> ClonePlan:
        """Return what `clone` would do; its refusals are in the plan. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.operations.clone import Clone

        snapshot = self.held().snapshot(version=version, timestamp=timestamp)
        return plan_change(Clone(snapshot, protects=not unprotected), self.open_other_table(text_of(target)))

    @named
    def execute_clone(self, plan: ClonePlan) -> ClonePlan:
        """Create a planned clone of this table. Raises as `clone` does."""
        from deltacli.changing.change import execute_plan

        self._require_own(plan.source.table.uri)
        return execute_plan(plan.change, plan.basis.table, plan, may_plan_again=False)

    @named
    @takes(ChangesRequest)
    def changes(self, request: ChangesRequest) -> Changes:
        """Return the changes of rows of the versions from `from_version` to `to_version` (None: the newest), both
        included, as an iterable of Arrow batches. Instead of versions, `from_timestamp` is the first version committed
        at or after a datetime, `to_timestamp` the last one committed at or before it.

        A `from_version` one above the newest, where `to_version` is None, returns an empty result.
        The columns of the last version, or `columns` of them, are followed by `_change_type` (`insert`, `delete`,
        `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp` (microseconds, UTC); `where`
        and `limit` are as in `Snapshot.scan`, and `where` may use these three. With `row_ids`, `_row_id` and
        `_row_commit_version` follow, which are null in rows of change data files. Raises what `snapshot` raises, and
        VersionAbsent where the commit of a version is missing; iterating raises DataUnreadable, and Refused
        (`rowtracking.not-enabled`) at a version without row tracking.
        """
        from deltacli.operations.read.changes import read_changes

        return read_changes(self, request)

    @named
    @takes(ValidateRequest)
    def validate(self, request: ValidateRequest) -> Validation:
        """Check the table against the rules of a level (`log`, `storage`, `footers`, `data`); `select` and `ignore` are
        globs over rule ids, `max_findings` is the limit for each rule (0: none). Of the data files only `sample`, a
        share, is checked, or those that may contain rows that match `where`.

        Works on tables that cannot be opened. Raises NotATable only where the path does not exist, and UsageError for
        arguments that are none or do not fit the table.
        """
        from deltacli.operations.validate.validate import validate_table

        return validate_table(self, request)

    @named
    def widen_type(
        self,
        *changes: tuple[str, str],
        enable: bool = False,
        upgrade_protocol: bool = False,
        check_files: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> WideningOutcome:
        """Widen the types of columns in one commit, and return the outcome: pairs of a column path and a type.

        `enable` sets `delta.enableTypeWidening` where it is needed, `upgrade_protocol` adds missing features,
        `check_files` checks every data file first. `commit_metadata` are keys for the commitInfo; `userMetadata` sets
        the field of that name. `dry_run` only plans; refusals are then part of the result. `committed_version` is
        None where nothing was committed.

        Raises UsageError for invalid columns and types; Refused, with nothing changed, where a guard objects
        (`widen.*`) or the protocol forbids writing; ConflictLost and OutcomeUnknown where the commit fails; and what
        `snapshot` raises. Spec: Type Widening.
        """
        from deltacli.operations.change.widen_type import Widening, WidenRequest

        request = WidenRequest(
            changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=commit_metadata,
        )
        return self._made(Widening(request), dry_run=dry_run)

    @named
    def plan_widen_type(
        self,
        *changes: tuple[str, str],
        enable: bool = False,
        upgrade_protocol: bool = False,
        check_files: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> WideningOutcome:
        """Return what `widen_type` with the same parameters would do; refusals are in the plan. Raises as it does."""
        return self.widen_type(
            *changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=commit_metadata,
            dry_run=True,
        )

    @named
    def execute_widen_type(self, plan: WideningOutcome) -> WideningOutcome:
        """Commit a plan of this table. If another writer was first, it is planned again, and committed if the effects
        are the same; else ConflictLost is raised. Raises as `widen_type` does.
        """
        from deltacli.operations.change.widen_type import Widening

        return self._execute(Widening(plan.request), plan)

    @named
    @takes(AlterationRequest)
    def alter(self, request: AlterationRequest) -> AlterationOutcome:
        """Make changes of columns and of what describes the table in one commit, and return the outcome.

        The changes are JSON objects, such as `{"change": "rename", "column": "a.b", "name": "c"}`, or the classes of
        `deltacli.delta.evolution.requests`. `upgrade_protocol` adds missing features, `enable` sets
        `delta.enableTypeWidening` where it is needed. `commit_metadata` are keys for the commitInfo. `dry_run` only
        plans; refusals are then part of the result, whose `committed_version` is None where there was nothing to do.

        Raises UsageError for unknown columns, types and changes; Refused, with nothing changed, where something depends
        on a column (`alter.*`), a rule would be broken or the protocol forbids writing; ConflictLost and
        OutcomeUnknown where the commit fails; and what `snapshot` raises. Spec: Column Mapping.
        """
        from deltacli.operations.change.alter import Alteration

        return self._made(Alteration(request), dry_run=request.dry_run)

    @named
    @takes(AlterationRequest)
    def plan_alter(self, request: AlterationRequest) -> AlterationOutcome:
        """Return what `alter` with the same parameters would do; its refusals are in the plan. Raises as it does."""
        from deltacli.operations.change.alter import Alteration

        return self._plan(Alteration(request))

    @named
    def execute_alter(self, plan: AlterationOutcome) -> AlterationOutcome:
        """Commit a plan of this table. If another writer was first, it is made again, and committed if it comes to the
        same; else ConflictLost is raised. Raises as `alter` does.
        """
        from deltacli.operations.change.alter import Alteration

        return self._execute(Alteration(plan.request), plan)

    @named
    @takes(VacuumRequest)
    def vacuum(self, request: VacuumRequest) -> VacuumResult:
        """Delete, at once, the files that no retained version needs; `dry_run=True` returns the plan.

        Returns the plan with its outcome. The parameters are the fields of `VacuumRequest`.
        `retention_ms` (default: the table's own): files unneeded for longer are deleted; a shorter one than the table's
        own needs `allow_retention_below_ms` with the table's value. `mode` is `full` (lists the table) or `lite` (reads
        the log only). `prefix` is a directory, `where` a condition on partition columns. Files of `keep_versions` and
        of the tables `protect_from` are kept. `quarantine` is a directory outside of all tables that gets a copy of
        each file before it is deleted. What Spark queries need is kept whose checkpoint directories match
        `protect_streams`, but for those of `allow_stream_loss`, and those that are behind and older than
        `ignore_streams_older_ms`. `max_delete` is a share or a size above which nothing is done, `rate` the
        maximum number of files per second. `commit_metadata` are keys for the commitInfo of START and END. `dry_run`
        only plans: the outcome is None, and refusals are in the plan.

        Raises Refused, with nothing deleted, where a guard objects (`vacuum.*`) or the protocol forbids writing;
        what commits raise; PartlyDone where files could not be deleted, and for an error after the first deletion or
        commit; and what `snapshot` raises.
        Spec: Add File and Remove File; VACUUM Protocol Check.
        """
        from deltacli.changing.change import plan_change
        from deltacli.operations.vacuum.full_plan import VacuumChange, vacuum
        from deltacli.operations.vacuum.plan import VacuumResult

        self.require_writable(dry_run=request.dry_run)
        if request.dry_run:
            return VacuumResult(plan_change(VacuumChange(request), self), None)
        return vacuum(self, request)

    @named
    @takes(VacuumRequest)
    def plan_vacuum(self, request: VacuumRequest) -> VacuumPlan:
        """Return what `vacuum` with the same parameters would delete, with its refusals. Raises as it does."""
        from deltacli.changing.change import plan_change
        from deltacli.operations.vacuum.full_plan import VacuumChange

        return plan_change(VacuumChange(request), self)

    @named
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
        """Delete the files of a plan of this table, except those that a newer version needs, and return both.

        `accept_copy` accepts the plan of a table elsewhere of which this one is a copy with the same past. Raises
        Refused (`plan.other-place`, `vacuum.plan-*`), with nothing deleted, where the table is another one or has
        another past, and as `vacuum` does.
        """
        from deltacli.operations.vacuum.full_plan import vacuum

        self.require_writable(dry_run=False)
        request = VacuumRequest(threads=threads, rate=rate, log_entries=log_entries, commit_metadata=commit_metadata)
        return vacuum(self, request, plan, accept_copy=accept_copy)

    @named
    @takes(OptimizeRequest)
    def optimize(self, request: OptimizeRequest) -> OptimizeOutcome:
        """Compact small files and purge deleted rows at once; `dry_run=True` returns the plan.

        Each group of files is one commit. The parameters are the fields of `OptimizeRequest`.
        `where` is a condition on partition columns. Files below `min_size` (default: half of the target) become files
        of `target_size` (default: `delta.targetFileSize`, else 128 MiB), and so do files of which more than
        `purge_ratio` of the rows are deleted. With `purge` only files with deleted rows, with dropped columns, with NaN
        beyond the bounds in their footers, or with timestamps that some engines misread as INT96 are rewritten. At most
        `max_bytes` are rewritten, and no commit begins after `time_budget_ms`. `commit_metadata` are keys for the
        commitInfo. `verify` compares all rows once more after the commits. `dry_run` only plans.

        Files that another writer touches meanwhile are left alone: `skipped` of the result counts them. A file whose
        values cannot be kept exactly is in `refused`.

        Raises Refused, with nothing changed, where the protocol forbids writing; PartlyDone after an error behind the
        first commit, and where files could not be read; StorageFailed (`optimize.rows-differ`) where `verify` finds
        other rows; what commits raise; and what `snapshot` raises.
        Spec: Add File and Remove File.
        """
        from deltacli.operations.optimize.execute import Optimize

        return self._done(Optimize(request), dry_run=request.dry_run)

    @named
    @takes(OptimizeRequest)
    def plan_optimize(self, request: OptimizeRequest) -> OptimizePlan:
        """Return what `optimize` with the same parameters would do. Raises as it does."""
        from deltacli.operations.optimize.execute import Optimize

        return self._plan(Optimize(request))

    @named
    def execute_optimize(self, plan: OptimizePlan) -> OptimizeOutcome:
        """Rewrite and commit a plan of this table. Files that were touched since are left alone. Raises as `optimize`
        does.
        """
        from deltacli.operations.optimize.execute import Optimize

        return self._execute(Optimize(plan.request), plan)

    @named
    @takes(StatsRequest)
    def stats(self, request: StatsRequest) -> StatsOutcome:
        """Compute the statistics of live files and commit them at once; `dry_run=True` returns the plan.

        The parameters are the fields of `StatsRequest`. Files that lack statistics of a column get them from their
        footers, or with `read="rows"` from their rows, which have every bound; with `all=True` wrong statistics of the
        other files are replaced, too. `where` is a condition on partition columns, `columns` limits the columns.
        `commit_metadata` are keys for the commitInfo.

        Files that another writer touches meanwhile are left out: `dropped` of the result counts them.

        Raises Refused, with nothing changed, where the protocol forbids writing; UsageError for columns that get no
        statistics; PartlyDone after an error behind the first commit, and where files could not be read; and what
        commits and `snapshot` raise. Spec: Per-file Statistics.
        """
        from deltacli.operations.change.stats import ComputeStats

        return self._done(ComputeStats(request), dry_run=request.dry_run)

    @named
    @takes(StatsRequest)
    def plan_stats(self, request: StatsRequest) -> StatsPlan:
        """Return what `stats` with the same parameters would read. Raises as it does."""
        from deltacli.operations.change.stats import ComputeStats

        return self._plan(ComputeStats(request))

    @named
    def execute_stats(self, plan: StatsPlan) -> StatsOutcome:
        """Read and commit the statistics of a plan of this table. Raises as `stats` does."""
        from deltacli.operations.change.stats import ComputeStats

        return self._execute(ComputeStats(plan.request), plan)

    @named
    def set_properties(
        self,
        values: Mapping[str, str],
        *,
        force: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PropertiesOutcome:
        """Commit properties and return what changed; nothing is committed where they have these values already.

        `force` also sets `delta.` keys that no known engine recognizes, `upgrade_protocol` adds the features that the
        properties require. `commit_metadata` are keys for the commitInfo; `userMetadata` sets the field of that name.
        `dry_run` only plans. Of the result, `committed_version` is the version that was made, None where there was
        nothing to do. `delta.enableRowTracking` takes several commits, `versions`, which give the rows of all files ids
        first: after PartlyDone another call continues.

        Raises UsageError for invalid values; Refused, with nothing changed, for what the table cannot have or
        the protocol forbids; ConflictLost, StorageFailed, OutcomeUnknown; and what `snapshot` raises.
        """
        from deltacli.operations.change.properties_and_features import PropertyEdits

        edits = PropertyEdits(dict(values), (), force, commit_metadata, upgrade_protocol)
        return self._change_properties(edits, dry_run=dry_run)

    @named
    def unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> PropertiesOutcome:
        """Commit the removal of properties; those that are not set are skipped. As `set_properties` otherwise."""
        from deltacli.operations.change.properties_and_features import PropertyEdits

        return self._change_properties(
            PropertyEdits(drop=tuple(keys), commit_metadata=commit_metadata), dry_run=dry_run
        )

    def _change_properties(self, edits: PropertyEdits, *, dry_run: bool) -> PropertiesOutcome:
        from deltacli.operations.change.properties_and_features import PropertiesChange

        return self._made(PropertiesChange(edits), dry_run=dry_run, refuses=True)

    @named
    def plan_set_properties(
        self,
        values: Mapping[str, str],
        *,
        force: bool = False,
        upgrade_protocol: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> PropertiesOutcome:
        """Return the plan of `set_properties`, for `execute_properties`. Raises as it does."""
        return self.set_properties(
            values, force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata, dry_run=True
        )

    @named
    def plan_unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> PropertiesOutcome:
        """Return the plan of `unset_properties`, for `execute_properties`. Raises as it does."""
        return self.unset_properties(keys, commit_metadata=commit_metadata, dry_run=True)

    @named
    def execute_properties(self, plan: PropertiesOutcome) -> PropertiesOutcome:
        """Commit a plan of `set_properties` or `unset_properties`. If another writer was first, it is made again, and
        committed if the changes are the same; else ConflictLost is raised. Raises as they do.
        """
        from deltacli.operations.change.properties_and_features import PropertiesChange

        return self._execute(PropertiesChange(plan.edits), plan)

    @named
    def add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> FeaturesOutcome:
        """Commit a protocol that supports more features, and those that they need; no later commit takes them back.

        Of the result, `committed_version` is None where there was nothing to do. Raises what `set_properties` raises.
        """
        from deltacli.operations.change.properties_and_features import FeaturesAddition

        return self._made(FeaturesAddition(names, commit_metadata), dry_run=dry_run, refuses=True)

    @named
    def plan_add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA
    ) -> FeaturesOutcome:
        """Return what `add_features` with the same parameters would do. Raises as it does."""
        return self.add_features(names, commit_metadata=commit_metadata, dry_run=True)

    @named
    def execute_add_features(self, plan: FeaturesOutcome) -> FeaturesOutcome:
        """Commit a plan of `add_features`; raise ConflictLost where it would add others by now. Raises as it does."""
        from deltacli.operations.change.properties_and_features import FeaturesAddition

        return self._execute(FeaturesAddition(plan.names, plan.commit_metadata), plan)

    @named
    def drop_features(
        self,
        name: str,
        *,
        truncate_history: bool = False,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> FeatureDrop:
        """Drop a feature from the protocol in several commits, after what uses it: its property, deletion vectors,
        older types and other names of columns by rewriting their files, and row ids. Return the steps and the versions
        that were committed.

        A feature that older versions need is dropped behind new checkpoints, which are protected from then on;
        `truncate_history` deletes these versions instead, once they are a day old, and not before the queries of
        `protect_streams` have passed them. `dry_run` only plans.

        Raises UsageError for an invalid name; Refused where the feature cannot be dropped or something uses it
        (`features.*`); PartlyDone once something was committed: another call continues; and what `optimize` and
        `set_properties` raise. Spec: Checkpoint Protection.
        """
        from deltacli.operations.change.drop_feature import DropFeature
        from deltacli.operations.streams.protection import ProtectionRequest

        streams = ProtectionRequest(
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
        )
        return self._made(DropFeature(name, truncate_history, commit_metadata, streams), dry_run=dry_run)

    @named
    def plan_drop_features(
        self,
        name: str,
        *,
        truncate_history: bool = False,
        protect_streams: Sequence[str] = (),
        ignore_streams_older_ms: int | None = None,
        allow_stream_loss: Sequence[str] = (),
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> FeatureDrop:
        """Return the steps that `drop_features` with the same parameters would take. Raises as it does."""
        return self.drop_features(
            name,
            truncate_history=truncate_history,
            protect_streams=protect_streams,
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=allow_stream_loss,
            commit_metadata=commit_metadata,
            dry_run=True,
        )

    @named
    def execute_drop_features(self, plan: FeatureDrop) -> FeatureDrop:
        """Carry out a plan of `drop_features`, or raise ConflictLost where its steps are others by now. Raises as it
        does.
        """
        from deltacli.operations.change.drop_feature import DropFeature

        return self._execute(DropFeature(plan.name, plan.truncates, plan.commit_metadata, plan.streams), plan)
