"""Opening a table, and choosing from what its versions are rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from deltacli.clock import Clock, system_clock
from deltacli.delta.commit_metadata import NO_METADATA, require_free
from deltacli.delta.segment import CheckpointInstance, choose_segment
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.errors import CheckpointUnreadable, FileMissing, LogIncomplete, Unreadable, VersionAbsent
from deltacli.operations.log import Log, find_log, list_log
from deltacli.operations.version import Snapshot, read_state
from deltacli.progress import SILENT, Progress
from deltacli.storage import NOTHING, Allowed, Storage, open_storage
from deltacli.storage.base import require_writable

if TYPE_CHECKING:
    from deltacli.operations.changes import Changes
    from deltacli.operations.checkpoint import CheckpointResult
    from deltacli.operations.history import History
    from deltacli.operations.table_features import FeaturesOutcome
    from deltacli.operations.table_properties import PropertiesOutcome
    from deltacli.operations.vacuum.plan import VacuumResult
    from deltacli.operations.validate import Validation
    from deltacli.operations.widen_type import WideningOutcome
    from deltacli.work.table_files import TableFiles


def open_table(
    uri: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    retry_budget: timedelta = timedelta(minutes=1),
    allow_external: Sequence[str] = (),
    clock: Clock = system_clock,
    progress: Progress = SILENT,
) -> Table:
    """Return the table at a path or URI; nothing is read before it is asked for. `progress` is told how far it is.
    `retry_budget` limits how long a request to a store is repeated; zero: never.

    `allow_external`: paths and URIs below which files outside the table may be opened, as a shallow clone needs; what
    the table names elsewhere raises PathExternal. Raises UsageError for an unsupported scheme, an extra that is not
    installed, and a prefix without a directory, host or bucket.
    """
    from deltacli.work.table_files import read_prefixes

    retry = None
    if "://" in uri:
        from deltacli.storage.retry import Retry

        retry = Retry(retry_budget.total_seconds(), is_explicit=retry_budget != timedelta(minutes=1))
    allowed = read_prefixes(allow_external) if allow_external else NOTHING
    open_other = partial(open_storage, options=storage_options, allowed=allowed, retry=retry)
    return Table(open_other(uri), clock=clock, progress=progress, open_other=open_other, allowed=allowed)


class Table:
    """A Delta table in one directory of a store; `open_other` opens other stores, for data files only where they are
    `allowed`.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        engine: Engine | None = None,
        clock: Clock = system_clock,
        progress: Progress = SILENT,
        open_other: Callable[[str], Storage] = open_storage,
        allowed: Allowed = NOTHING,
    ) -> None:
        self.storage = storage
        self.open_other = open_other
        self.allowed = allowed
        self.engine: Engine = engine or EmbeddedEngine()
        self.clock = clock
        self.progress = progress

    @property
    def uri(self) -> str:
        """The absolute URI of the table directory."""
        return self.storage.uri

    def files(self) -> TableFiles:
        """Return what finds the files that the log names."""
        from deltacli.work.table_files import TableFiles

        return TableFiles(self.storage, self.open_other, self.allowed)

    def history(self, *, limit: int = 0, counts: bool = False) -> History:
        """Return the newest `limit` commits (0: all) newest first. Raises NotATable."""
        from deltacli.operations.history import read_history

        return read_history(self.storage, self.engine, limit=limit, counts=counts, progress=self.progress)

    def snapshot(self, *, version: int | None = None, timestamp_ms: int | None = None) -> Snapshot:
        """Rebuild the newest version, `version`, or the newest one committed at or before `timestamp_ms` (epoch
        milliseconds).

        Raises NotATable, VersionAbsent, LogIncomplete, CommitCorrupt, CheckpointUnreadable, ProtocolUnsupported.
        """
        if timestamp_ms is not None:
            from deltacli.operations.time_travel import version_at

            version = version_at(self, timestamp_ms)
        try:
            return self.rebuild(find_log(self.storage, version, progress=self.progress), version)
        except FileMissing:
            # Somebody cleaned the log between the listing and now: what is there now decides.
            return self.rebuild(Log(list_log(self.storage, progress=self.progress)), version)

    def changes(
        self,
        *,
        from_version: int,
        to_version: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> Changes:
        """Return the changes of rows of the versions from `from_version` to `to_version` (None: the newest), both
        included, to be iterated over as Arrow batches.

        A `from_version` one above the newest, where `to_version` is None, is an empty result: nothing is new yet.
        The columns of the last version, or `columns` of them, are followed by `_change_type` (`insert`, `delete`,
        `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp` (microseconds, UTC); `where`
        and `limit` are as in `Snapshot.scan`, and `where` may look at these three. Raises what `snapshot` raises, and
        VersionAbsent where the commit of a version is gone; iterating raises DataUnreadable.
        """
        from deltacli.operations.changes import Changes

        return Changes(
            self, from_version=from_version, to_version=to_version, columns=columns, where=where, limit=limit
        )

    def validate(
        self,
        *,
        level: str = "log",
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        profile: str = "current",
        max_findings: int = 100,
    ) -> Validation:
        """Check the table against the rules of a level (`log`, `storage`); `select` and `ignore` are globs over rule
        ids, `max_findings` is the limit for each rule (0: none).

        Works on tables that can't be opened. Raises NotATable only where there is nothing at the path.
        """
        from deltacli.operations.validate import validate_table

        return validate_table(
            self.storage,
            self.engine,
            level=level,
            select=select,
            ignore=ignore,
            profile=profile,
            max_findings=max_findings,
            now_ms=self.clock(),
            progress=self.progress,
            open_other=self.open_other,
            allowed=self.allowed,
        )

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
        """Write a checkpoint of the newest version, or of `version`, and return what was done.

        `layout`: `classic`, `multi-part` (with `parts`, or `rows_per_file`) or `v2` (with at most `rows_per_file`
        actions in a sidecar, and `v2_top` `json` or `parquet`); None: as the table's policy says. `stats`: in which
        columns statistics go, `keep`, `json`, `struct` or `both`. `if_behind`: do nothing before so many commits have
        come since the last checkpoint. `force` writes it again where it is already. `dry_run` only counts.

        Of the result, `skipped` tells that nothing was to do, `files` are paths below the table with their size in
        bytes and their rows, `actions` counts by kind, `hint_version` is the version that `_last_checkpoint` names
        afterwards, None where it does not name this one.

        Raises UsageError for arguments that contradict each other; Refused where the protocol, the state of the log or
        the version's checksum file forbids it, among them NoAtomicCreate for a store that is read-only; StorageFailed,
        with nothing published where the file does not read back as it was meant (`checkpoint.not-proven`); and what
        `snapshot` raises.
        """
        from deltacli.operations.checkpoint import make_request, plan_checkpoint, write_checkpoint

        self._require_writable(dry_run=dry_run)
        request = make_request(
            version=version,
            layout=layout,
            parts=parts,
            rows_per_file=rows_per_file,
            v2_top=v2_top,
            stats=stats,
            if_behind=if_behind,
            force=force,
        )
        return write_checkpoint(plan_checkpoint(self, request), dry_run=dry_run)

    def widen_type(
        self,
        *changes: tuple[str, str],
        enable: bool = False,
        upgrade_protocol: bool = False,
        check_files: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> WideningOutcome:
        """Give columns wider types in one commit, and return what was done: pairs of a column path and a type.

        `enable` consents to set `delta.enableTypeWidening`, `upgrade_protocol` to add the features that are missing,
        `check_files` looks into every data file before. `commit_metadata` are keys for the commitInfo, where
        `userMetadata` is that field. `committed_version` is None where every column has its type.

        Raises UsageError for columns and types that are none; Refused, with nothing changed, where a guard stops it
        (`widen.*`) or the protocol forbids to write; ConflictLost, OutcomeUnknown as every commit; and what `snapshot`
        raises. Spec: Type Widening.
        """
        from deltacli.operations.widen_type import WidenRequest, execute_widen_type

        self._require_writable()
        request = WidenRequest(
            changes,
            enable=enable,
            upgrade_protocol=upgrade_protocol,
            check_files=check_files,
            commit_metadata=commit_metadata,
        )
        return execute_widen_type(self, request)

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
        inventory: str | None = None,
        max_delete: str = "50%",
        include_foreign: bool = False,
        skip_nested_tables: bool = False,
        dry_run: bool = False,
        log_entries: bool = True,
        threads: int | None = None,
        rate: float | None = None,
        commit_metadata: Mapping[str, str] = NO_METADATA,
    ) -> VacuumResult:
        """Delete the files that no retained version needs, and return the plan with what became of it.

        `retention_ms` (default: the table's own): files that became unneeded longer ago go; less than the table's own
        needs `allow_retention_below_ms`, which names that. `mode` is `full` (lists the table) or `lite` (reads the log
        alone). `prefix` is a directory, `where` a condition on partition columns. `keep_versions` and what the tables
        `protect_from` need stay. `max_delete` is a share or a size above which nothing is done, `rate` files a second
        at most. `commit_metadata` are keys for the commitInfo of START and END. `dry_run` only plans: the outcome is
        None, and refusals are in the plan.

        Raises Refused, with nothing deleted, where a guard stops it (`vacuum.*`) or the protocol forbids to write;
        what commits raise; PartlyDone where files could not be deleted; and what `snapshot` raises.
        Spec: Add File and Remove File; VACUUM Protocol Check.
        """
        from deltacli.operations.vacuum.execute import ExecuteOptions, execute_vacuum, require_done
        from deltacli.operations.vacuum.plan import VacuumResult
        from deltacli.operations.vacuum.planning import plan_vacuum
        from deltacli.operations.vacuum.request import make_request

        self._require_writable(dry_run=dry_run)
        request = make_request(
            retention_ms=retention_ms,
            allowed_below_ms=allow_retention_below_ms,
            mode=mode,
            prefix=prefix,
            where=where,
            keep_versions=keep_versions,
            protect_from=protect_from,
            inventory=inventory,
            max_delete=max_delete,
            include_foreign=include_foreign,
            skip_nested_tables=skip_nested_tables,
        )
        require_free(commit_metadata)
        plan = plan_vacuum(self, request)
        if dry_run:
            return VacuumResult(plan, None)
        outcome = execute_vacuum(self, plan, ExecuteOptions(threads, rate, log_entries, commit_metadata))
        require_done(outcome)
        return VacuumResult(plan, outcome)

    def set_properties(
        self,
        values: Mapping[str, str],
        *,
        force: bool = False,
        commit_metadata: Mapping[str, str] = NO_METADATA,
        dry_run: bool = False,
    ) -> PropertiesOutcome:
        """Commit properties and return what changed; nothing is committed where they have these values already.

        `force` also sets `delta.` keys that no engine is known to know, `commit_metadata` are keys for the commitInfo,
        where `userMetadata` is that field. `dry_run` only plans. Of the result,
        `committed_version` is the version that was made, None where there was nothing to do.

        Raises UsageError for values that are none; Refused, with nothing changed, for what the table can't have or
        the protocol forbids; ConflictLost, StorageFailed, OutcomeUnknown; and what `snapshot` raises.
        """
        from deltacli.operations.table_properties import PropertyEdits, change_properties, plan_properties

        self._require_writable(dry_run=dry_run)
        edits = PropertyEdits(put=dict(values), force=force, commit_metadata=commit_metadata)
        return plan_properties(self, edits) if dry_run else change_properties(self, edits)

    def unset_properties(
        self, keys: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> PropertiesOutcome:
        """Commit the removal of properties; those that are not there are left out. As `set_properties` otherwise."""
        from deltacli.operations.table_properties import PropertyEdits, change_properties, plan_properties

        self._require_writable(dry_run=dry_run)
        edits = PropertyEdits(drop=tuple(keys), commit_metadata=commit_metadata)
        return plan_properties(self, edits) if dry_run else change_properties(self, edits)

    def add_features(
        self, names: Sequence[str], *, commit_metadata: Mapping[str, str] = NO_METADATA, dry_run: bool = False
    ) -> FeaturesOutcome:
        """Commit a protocol that supports more features, and those that they need; no later commit takes them back.

        Of the result, `committed_version` is None where there was nothing to do. Raises what `set_properties` raises.
        """
        from deltacli.operations.table_features import add_features, plan_addition

        self._require_writable(dry_run=dry_run)
        change = plan_addition if dry_run else add_features
        return change(self, names, commit_metadata=commit_metadata)

    def rebuild(
        self, log: Log, version: int | None, *, unusable: Mapping[CheckpointInstance, str] = MappingProxyType({})
    ) -> Snapshot:
        """Rebuild a version from a listing at hand, without the checkpoints found `unusable` (with the rule each
        breaks).

        Takes the newest checkpoint that can be read; each that can't is a problem, and fatal only where nothing older
        helps. Raises what `snapshot` raises.
        """
        rejected = dict(unusable)
        try:
            return self._rebuild(log, version, rejected)
        except (LogIncomplete, VersionAbsent, CheckpointUnreadable):
            if log.listing.start_version == 0:
                raise
            # A listing that began at the hint does not show older starts, nor all that can be read.
            listing = list_log(self.storage, progress=self.progress)
            return self._rebuild(log._replace(listing=listing), version, rejected)

    def _require_writable(self, *, dry_run: bool = False) -> None:
        """Raise NoAtomicCreate, before anything is asked of the store, where it is known to be read-only."""
        if not dry_run:
            require_writable(self.storage)

    def _rebuild(self, log: Log, version: int | None, rejected: dict[CheckpointInstance, str]) -> Snapshot:
        first_fault: CheckpointUnreadable | None = None
        while True:
            try:
                segment = choose_segment(log.listing, version, unusable=rejected)
            except Unreadable:
                if first_fault is not None:
                    raise first_fault from None
                raise
            try:
                return read_state(self, log, segment, rejected)
            except CheckpointUnreadable as fault:
                if segment.checkpoint is None:
                    raise
                first_fault = first_fault or fault
                rejected[segment.checkpoint] = fault.code
