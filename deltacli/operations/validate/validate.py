"""`validate`: reads every file of the log once, in the order of versions, and checks it against the rules.

Replay stops at the first fault; validation continues. An unreadable file is a finding, and its consequences are
checked as far as they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import ProtocolUnsupported, StorageFailed, Unreadable, parameter
from deltacli.core.progress import Progress
from deltacli.core.short_repr import short_repr
from deltacli.core.units import plural
from deltacli.delta.data_files import find_paths_in_manifest, is_manifest
from deltacli.delta.log.file_actions import SMALL_FILE_BYTES
from deltacli.delta.log.row_ids import FEATURE
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.features import FEATURES, require_readable
from deltacli.engine.base import Engine
from deltacli.operations.validate.findings import Collector, ValidateRequest
from deltacli.operations.validate.inspect_log import LogInspector
from deltacli.operations.validate.inspect_storage import (
    Foresight,
    WholeLog,
    WholeTable,
    find_archived,
    foreseen,
    list_log_whole,
    list_table,
    make_exists,
)
from deltacli.rules.framework.base import Finding, Severity
from deltacli.rules.framework.choice import RuleChoice
from deltacli.rules.framework.repairs import LOST, Condition
from deltacli.rules.framework.views import HadoopChecksumsView, HistoryView, ListingView, StateView, StorageView
from deltacli.storage.optional_interfaces import (
    is_shared_directory,
    is_shared_table,
)
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.table_directories import has_clone_notes

if TYPE_CHECKING:
    from deltacli.operations.validate.inspect_files import FilesChecked, TableContext
    from deltacli.storage import ReadStorage
    from deltacli.table.walk import CachedWalk
    from deltacli.work.table_files import TableFiles
    from deltacli.work.table_stores import TableStores


@dataclass(frozen=True, slots=True)
class TableContents:
    """The numbers of a version, counted from what a validation has read anyway. `rows` is None if a data file has no
    row count. Small files are those below `SMALL_FILE_BYTES`.
    """

    files: int
    size_bytes: int
    rows: int | None
    small_files: int
    tombstones: int

    @classmethod
    def of(cls, state: StateView, tombstones: int) -> TableContents:
        """Count a state."""
        live = state.live
        sizes, records = pc.fill_null(live.column("size"), 0), live.column("num_records")
        rows = None
        if not records.null_count:
            rows = (pc.sum(records).as_py() or 0) - (pc.sum(live.column("dv_cardinality")).as_py() or 0)
        small = pc.sum(pc.less(sizes, SMALL_FILE_BYTES)).as_py() or 0
        return cls(live.num_rows, pc.sum(sizes).as_py() or 0, rows, small, tombstones)


@short_repr("table", "version", "level", "findings", "suppressed", "not_checked")
@dataclass(frozen=True, slots=True, repr=False)
class Validation:
    """The findings of one table. `version` is the newest that its log names, complete or not; `findings` are in the
    order of files and lines; `suppressed` has the number of omitted findings above the limit per rule; `not_checked`
    lists what could not be checked, and why.
    """

    table: str
    version: int | None
    level: str
    findings: tuple[Finding, ...]
    suppressed: Mapping[str, int]
    not_checked: tuple[str, ...]
    rules: Set[str] = frozenset()
    """The ids of the selected rules."""
    files: FilesChecked | None = None
    """The extent of checked data files; None at levels that do not open them."""
    is_rebuilt: bool = True
    """Whether the newest version could be rebuilt from the log, or the newest schema of a Paimon table be read."""
    table_format: str = "delta"
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Rules that were selected and could not be checked -> the reason, where that is known rule by rule."""
    contents: TableContents | None = None
    """What the newest version has; None where it could not be rebuilt."""
    unsupported: ProtocolUnsupported | None = None
    """Why deltacli cannot read the newest version, although nothing may be wrong with it."""
    is_managed: bool = False
    """Whether a catalog manages the newest version."""
    errors_for_readers: tuple[Finding, ...] = ()
    """Errors of the log that readers of the newest version meet."""
    condition: Condition = field(init=False)
    """What the findings say about the table, for the choice of a repair."""

    def __post_init__(self) -> None:
        lost = LOST & {*self.suppressed, *(one.rule.id for one in self.findings if one.severity is Severity.ERROR)}
        readable = Condition.LACKS_FILES if lost else Condition.WHOLE
        found = readable if self.is_readable else Condition.UNREADABLE
        object.__setattr__(self, "condition", Condition.MANAGED if self.is_managed else found)

    @property
    def is_readable(self) -> bool:
        """Whether deltacli can open the newest version."""
        return self.is_rebuilt and self.unsupported is None


OF_THE_LOG = (
    "log.*",
    "hint.*",
    "history.*",
    "action.bad-modification-time",
    "metadata.created-time",
    "property.stats-struct-unset",
    "feature.property-without-feature",
)
"""Rules that say nothing about a shared table, whose log is made here."""


UNPUBLISHED = "catalog.unpublished-possible"
"""The rule of a table whose catalog was not asked."""


def validate_table(
    table: TableHandle,
    request: ValidateRequest,
    *,
    on_finding: Callable[[Finding], None] | None = None,
    whole: WholeLog | None = None,
    walk: CachedWalk | None = None,
) -> Validation:
    """Check a table against the rules of a level. `on_finding` gets each finding when it is found. `whole` is the log
    and `walk` the table where they were listed before.

    Works on tables that cannot be opened, and on those of a catalog whose ratified commits are lost. Of a shared table,
    what a client can see is checked.

    Raises:
        NotATable: If the path does not exist, and only then.
        StorageFailed: If the store fails as a whole.
        UsageError: For a condition that does not fit this table (`usage.where`).
    """
    storage, engine, progress, now_ms = table.storage, table.engine, table.progress, table.clock()
    level = request.level
    left_out: tuple[str, ...] = OF_THE_LOG if is_shared_table(storage) else ()
    managed = managed_store(storage)
    if managed is not None:
        left_out = (UNPUBLISHED,)
    choice = RuleChoice(level, request.select, (*request.ignore, *left_out))
    collector = Collector(choice, request.max_findings, on_finding)
    tolerance = nullcontext() if managed is None else managed.tolerating_loss()
    with tolerance, foreseen(progress, level, is_far=storage.capabilities.parallel_reads > 1) as plan:
        log = whole or list_log_whole(storage, progress)
        foresight = Foresight(plan, log, with_rows=level == "data")
        inspector = LogInspector(
            storage, engine, collector, log, now_ms, progress, foresight, keeps_statistics=request.opens_files
        )
        inspector.run()
        if managed is not None and managed.log.lost_latest is not None:
            inspector.note_lost(managed.log.lost_latest)
        live = inspector.files.totals
        foresight.take_live(0, live)
        foresight.take_config(inspector.last_known)
        with progress.step("checking the state", unit="files", total=live.files) as step:
            state = inspector.state_view()
            if state is not None:
                state.partition_texts = partial(_partition_texts, table.replace_storage(storage), state.version)
            if is_shared_directory(storage):
                metadata = state.config.metadata if state else None
                storage.require_announced(metadata.id if metadata else None, log.listing.newest_version)
            _look_at_log(
                collector,
                log,
                inspector,
                state,
                now_ms,
                _compare_with_catalog(table, inspector.last_known.properties),
            )
            if state is not None and not request.opens_files:
                inspector.not_checked.extend(_uncounted_ids(state, choice))
            step.advance(live.files)
        errors_of_log = [finding for finding in collector.findings if finding.may_stop_readers]
        files = None
        if level != "log":
            stores = table.replace_storage(storage).stores  # which remember no footer of an earlier operation
            table_files = stores.files()
            listing = partial(list_table, stores, engine, progress, walk)
            listed = _look_at_storage(stores, listing, table_files, collector, inspector, state, now_ms, progress)
            _look_at_checksums(storage, engine, collector, log, listed, inspector)
            if request.opens_files and state is not None and listed is not None:
                from deltacli.operations.validate.inspect_files import TableContext

                sizes = {path: file.size_bytes for path, file in listed.files.items()}
                context = TableContext(stores, table_files, state.config, sizes, state.domains, state.place())
                files = _look_into_files(context, engine, collector, inspector, request, progress)
            inspector.not_checked.extend(table_files.not_checked())
        if level == "storage" and is_shared_table(storage):
            deeper = parameter("validate.level", "footers")
            inspector.not_checked.append(f"whether the files exist at the provider of the share: {deeper} does")
    errors_for_readers = _errors_for_readers(errors_of_log, inspector, collector, log)
    return _validation(storage.uri, level, collector, inspector, files, state, errors_for_readers)


def _errors_for_readers(
    errors_of_log: Sequence[Finding], inspector: LogInspector, collector: Collector, log: WholeLog
) -> tuple[Finding, ...]:
    """Return those errors of the log that readers of the newest version meet."""
    if not errors_of_log:
        return ()
    from deltacli.operations.validate.newest_version import find_errors_for_readers

    return find_errors_for_readers(errors_of_log, inspector, collector, log.listing)


def _validation(
    uri: str,
    level: str,
    collector: Collector,
    inspector: LogInspector,
    files: FilesChecked | None,
    state: StateView | None,
    errors_for_readers: tuple[Finding, ...],
) -> Validation:
    """Return what was found, in the order of the log."""
    return Validation(
        uri,
        inspector.version if inspector.version >= 0 else None,
        level,
        tuple(sorted(collector.findings, key=_order)),
        dict(sorted(collector.suppressed.items())),
        (*inspector.not_checked, *_unknown_features(inspector.last_known)),
        collector.rules,
        files,
        is_rebuilt=state is not None,
        contents=None if state is None else TableContents.of(state, inspector.files.tombstone_count()),
        unsupported=_obstacle(inspector.last_known, inspector.version),
        is_managed=(protocol := inspector.last_known.protocol) is not None and protocol.is_catalog_managed,
        errors_for_readers=errors_for_readers,
    )


def _uncounted_ids(state: StateView, choice: RuleChoice) -> Iterator[str]:
    """Report the files whose row ids cannot be compared at this level."""
    if FEATURE in state.config.features:
        from deltacli.rules.actions.row_tracking import OVERLAP, uncounted

        if choice.takes(OVERLAP) and (count := uncounted(state)):
            deeper = parameter("validate.level", "footers")
            files = f"{plural(count, 'file')} whose rows the log does not count"
            yield f"whether other files have the row ids of {files}: {deeper} does"


class CatalogComparison(NamedTuple):
    """What the catalog of a table says of the log; nothing of a table that was not opened by its name there.

    `diverged` and the other fields are as in `ListingView`.
    """

    diverged: Sequence[tuple[int, str]] = ()
    replaced_staged: Sequence[int] = ()
    lost: Sequence[tuple[int, str]] = ()
    may_clean_log: bool | None = None
    proposable: Sequence[int] = ()


def _compare_with_catalog(table: TableHandle, properties: Mapping[str, str]) -> CatalogComparison:
    """Compare the commits of a log with those of the catalog that the table was opened in."""
    managed = managed_store(table.storage)
    if managed is None:
        return CatalogComparison()
    from deltacli.catalogs.base import Maintenance
    from deltacli.operations.catalog import log_divergence, lost_commits, replaced_staged_files
    from deltacli.operations.forgotten_commits import find_forgotten_commits

    lost = lost_commits(managed)
    lost_versions = {version for version, _ in lost}
    diverged = [found for found in log_divergence(managed, properties) if found[0] not in lost_versions]
    proposable = [commit.version for commit in find_forgotten_commits(table, managed) if not commit.obstacle]
    may_clean_log = managed.permits(Maintenance.METADATA_CLEANUP)
    return CatalogComparison(diverged, replaced_staged_files(managed), lost, may_clean_log, proposable)


def _partition_texts(table: TableHandle, version: int, name: str) -> Collection[str | None]:
    """Return the distinct values of a partition column; none of a version that cannot be read, which is reported."""
    # A version is rebuilt only for tables whose partition columns got wider types.
    from deltacli.table.rebuild import read_snapshot
    from deltacli.table.version_traits import read_partition_values

    try:
        return read_partition_values(read_snapshot(table, version=version), name)
    except Unreadable:
        return ()


def _look_at_log(
    collector: Collector,
    log: WholeLog,
    inspector: LogInspector,
    state: StateView | None,
    now_ms: int,
    catalog: CatalogComparison,
) -> None:
    """Check the result of the walk through the log: its listing, its history, its newest state."""
    config = inspector.last_known
    view = ListingView(
        log.files,
        log.directories,
        log.sidecars,
        log.staged,
        log.listing,
        config,
        now_ms,
        log.has_hint,
        log.exists,
        inspector.named_sidecars(),
        collector.versions_of_errors("checkpoint.", "sidecar."),
        catalog.diverged,
        catalog.replaced_staged,
        catalog.lost,
        catalog.may_clean_log,
        catalog.proposable,
    )
    collector.look(view, view.place())
    history = HistoryView(
        inspector.commits, log.listing, config, now_ms, inspector.counts, frozenset(inspector.used_by_adds)
    )
    collector.look(history, view.place())
    if state is not None:
        collector.look(state, state.place())


def _look_at_storage(
    stores: TableStores,
    listing: Callable[[], WholeTable],
    table_files: TableFiles,
    collector: Collector,
    inspector: LogInspector,
    state: StateView | None,
    now_ms: int,
    progress: Progress,
) -> WholeTable | None:
    """List the table and compare it with its newest state; None where no rule needs it, or there is no state."""
    from deltacli.operations.validate.inspect_files import FILE_VIEWS

    if not any(map(collector.looks_at, (StorageView, HadoopChecksumsView, *FILE_VIEWS))):
        return None
    if state is None:
        inspector.not_checked.append("the files of the table, because no version of it can be rebuilt")
        return None
    storage, listed = stores.storage, listing()
    inspector.not_checked.extend(
        f"the files below {directory}, a link that leads outside the table; add "
        f"{parameter('open_table.allow_external', 'PREFIX')} to list them"
        for directory in listed.unlisted
    )
    view = StorageView(
        listed.files,
        listed.nested_logs,
        state,
        inspector.files.live_adds(),
        inspector.all_removes(),
        inspector.cdc,
        inspector.commits,
        storage.uri,
        now_ms,
        make_exists(storage, table_files),
        listed.unlisted,
        _manifests(storage, listed, inspector),
        cache(lambda: has_clone_notes(storage)),
        partial(find_archived, storage),
    )
    with progress.step("comparing files", unit="files", total=len(listed.files)) as step:
        collector.look(view, Place(""))
        step.advance(len(listed.files))
    return listed


def _look_at_checksums(
    storage: ReadStorage,
    engine: Engine,
    collector: Collector,
    log: WholeLog,
    listed: WholeTable | None,
    inspector: LogInspector,
) -> None:
    """Compare Hadoop's checksum files with their files, also where no version can be rebuilt."""
    if collector.looks_at(HadoopChecksumsView):
        from deltacli.operations.validate.inspect_checksums import compare_checksums

        collector.look(compare_checksums(storage, engine, log, listed, inspector.not_checked), Place(""))


def _manifests(storage: ReadStorage, listed: WholeTable, inspector: LogInspector) -> dict[str, Sequence[set[str]]]:
    """Return what each symlink manifest names, by its path."""
    found: dict[str, Sequence[set[str]]] = {}
    for path in listed.files:
        if is_manifest(path):
            try:
                found[path] = find_paths_in_manifest(storage.read(path), (storage.uri, *storage.aliases))
            except StorageFailed:
                inspector.not_checked.append(f"{path}, which could not be read")
    return found


def _look_into_files(
    table: TableContext,
    engine: Engine,
    collector: Collector,
    inspector: LogInspector,
    request: ValidateRequest,
    progress: Progress,
) -> FilesChecked | None:
    """Check the data files of the newest version, as far as rules need them."""
    from deltacli.operations.validate.inspect_files import FILE_VIEWS, FileInspector, FileSelection

    if not any(map(collector.looks_at, FILE_VIEWS)):
        return None
    if table.config.schema is None:
        inspector.not_checked.append("the data files, because the table has no readable schema")
        return None
    predicate = None
    if request.where is not None:
        from deltacli.delta.predicate import parse_predicate

        predicate = parse_predicate(request.where, table.config.schema)
    selection = FileSelection(request.sample, str(inspector.version), predicate)
    files = FileInspector(table, engine, collector, selection, progress, request.level == "data")
    totals = inspector.files.totals
    files.run(inspector.files.placed_adds(), totals.files, totals.size_bytes)
    files.run_changes(inspector.cdc, inspector.rows_added)
    inspector.not_checked.extend(files.not_checked)
    checked = files.checked
    left_out = checked.live - checked.checked - files.refused
    if selection.limits and left_out:
        left = f"{left_out:,} of {plural(checked.live, 'data file')}"
        inspector.not_checked.append(f"{left}, which {' and '.join(request.limits)} left out")
    return checked


def _obstacle(config: TableConfiguration, version: int) -> ProtocolUnsupported | None:
    """Return the error with which every command that reads rows or files refuses the newest version."""
    try:
        if config.protocol is not None:
            require_readable(config.protocol, version)
    except ProtocolUnsupported as fault:
        return fault
    return None


def _unknown_features(config: TableConfiguration) -> list[str]:
    unknown = sorted(config.features - FEATURES.keys())
    if not unknown:
        return []
    names = ", ".join(unknown)
    word = "features" if len(unknown) > 1 else "feature"
    return [f"the requirements of the unknown {word} {names} on the log and the files"]


def _order(finding: Finding) -> tuple[str, int, str, str, str]:
    place = finding.place
    return (place.path, place.line or 0, finding.rule.id, place.key or "", finding.message)
