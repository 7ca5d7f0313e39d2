"""What the plans of both modes share: the state of the table, every file to keep, guards, and the parts of a plan.

A wrong checkpoint makes a live file look unreferenced. Such a file is kept; if a contradiction cannot be traced to
files, nothing is deleted.

Spec: Protocol Evolution; VACUUM Protocol Check; Checkpoints; Version Checksum File.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.changing.base_commit_errors import BASE_COMMIT_REPLACED, CLOCK_BEHIND, COMMITS_MISSING, LOG_ROLLED_BACK
from deltacli.changing.base_version import BaseVersion, identify_commit
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.lost_versions import find_lost_versions_refusal
from deltacli.changing.protocol_checks import require_commit_allowed
from deltacli.changing.rechecks import build_storable_base_version, hash_base_commit
from deltacli.changing.views import read_paths_in_manifests
from deltacli.core.errors import Refusal, Refused, StorageFailed, Unreadable, command, parameter
from deltacli.core.ranges import find_gaps, format_spans
from deltacli.core.texts import add_article
from deltacli.core.times import CLOCK_SKEW_MS, DAY_MS, duration_argument, format_duration, format_timestamp
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import format_size, plural
from deltacli.delta.listing import HiddenNames
from deltacli.delta.log.segment import RULE_COMPACTION_AFTER_NEWEST_COMMIT, CheckpointInstance, Hint
from deltacli.delta.log.state import (
    CHANGE_FEED,
    DELETED_FILE_RETENTION,
    TableConfiguration,
    deleted_file_retention_ms,
    is_true,
    parse_interval,
    portable_file_retention_ms,
)
from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
from deltacli.delta.schema.misnamed_fields import MISNAMED
from deltacli.operations.vacuum.ambiguous_names import AmbiguousNames, find_ambiguous_names
from deltacli.operations.vacuum.candidates import (
    CandidateChoice,
    Doubts,
    References,
    Scope,
    collect_references,
    find_window,
)
from deltacli.operations.vacuum.plan import (
    DeletionLimit,
    Kept,
    Mode,
    ProtectedTable,
    TimeTravelRange,
    VacuumPlan,
    VacuumRequest,
    of_protected,
)
from deltacli.storage import folds_names
from deltacli.table.checksum_guard import find_checksum_contradiction
from deltacli.table.file_history import MISSING_ADD_RULE, FileKeys, compute_keys_with_external, read_live_keys
from deltacli.table.find_log import ListedLog, list_log, read_hint
from deltacli.table.handle import TableHandle, managed_store
from deltacli.table.hidden_names import build_hidden_names, find_readable_formats
from deltacli.table.nested_tables import find_enclosing_tables
from deltacli.table.rebuild import read_snapshot, rebuild_version
from deltacli.table.table_directories import has_clone_notes
from deltacli.table.time_travel import find_last_commit_before, read_commit_time
from deltacli.table.version import Snapshot

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.streams.guard import StreamGuard
    from deltacli.operations.streams.protection import GuardedStreams
    from deltacli.operations.vacuum.clones import Clones

# -- the input of a vacuum plan ----------------------------------------------------------------------------------------


class PlanContext(NamedTuple):
    """The input of a plan."""

    table: TableHandle
    request: VacuumRequest
    snapshot: Snapshot
    base_version: BaseVersion
    now_ms: int
    own_ms: int
    tombstones_ms: int
    """How long tombstones are kept for certain: the shortest of the table's own retentions in the log."""
    retention_ms: int
    cutoff_ms: int
    keys: PathKeys
    references: References
    protected: tuple[ProtectedTable, ...]
    """The tables given by `--protect-from`, and shallow clones."""
    others: tuple[Snapshot, ...]
    """The newest versions of these tables."""
    clones: Clones | None
    first: TableConfiguration | None
    """The metadata at the oldest version that can be rebuilt; None where unknown."""
    streams: StreamGuard | None
    """The queries of Spark that the plan protects; None where that was not asked for."""
    ambiguous: AmbiguousNames | None = None
    """The files that some engines read by another spelling of their paths, or None without such files."""

    @property
    def hidden_names(self) -> HiddenNames:
        """The rules of hidden names, with the partition columns of every version."""
        return build_hidden_names(self.snapshot, self.references.metadata, self.first)

    @property
    def checkpoints(self) -> Sequence[str]:
        """Return the checkpoint directories of protected queries that are below the table, which is their place too."""
        return () if self.streams is None else self.streams.inside

    @property
    def is_proven(self) -> bool:
        """True if the log has every removal since the cutoff, in commits or tombstones."""
        return self.references.window.reaches_back or self.retention_ms <= self.tombstones_ms

    @property
    def is_listed(self) -> bool:
        """True if the plan is made from a listing of the table."""
        return self.request.mode is Mode.FULL and self.request.inventory is None

    @property
    def is_whole(self) -> bool:
        """True if the plan covers the whole table, by a listing of its own."""
        return not (self.request.prefix or self.request.where or self.request.inventory)


def prepare(
    table: TableHandle,
    request: VacuumRequest,
    snapshot: Snapshot,
    scope: Scope | None = None,
    *,
    removals_since: int | None = None,
    listed_ms: int | None = None,
) -> PlanContext:
    """Read the log for all files to keep; `listed_ms`: when it was listed, if not now. Raises as `plan_vacuum`."""
    require_commit_allowed(snapshot)
    if (managed := managed_store(table.storage)) is not None:
        managed.require_permission("DATA_CLEANUP", "delete data files", asks=False)
    now_ms = table.clock()
    own_ms = deleted_file_retention_ms(snapshot.properties)
    retention_ms = own_ms if request.retention_ms is None else request.retention_ms
    cutoff_ms = now_ms - retention_ms
    keys = PathKeys(
        (table.uri, *table.storage.aliases), folds_case=folds_names(table.storage), is_portable=table.engine.may_repeat
    )
    listing = list_log(table.storage, progress=table.progress)
    with with_codes_of_vacuum():
        base_version = build_storable_base_version(snapshot, listing, now_ms)
    window = find_window(table, listing, cutoff_ms, snapshot)
    listed_until = (
        None if listed_ms is None else find_last_commit_before(table, listing, listed_ms, loaded_snapshot=snapshot)
    )
    protect = [open_protected(table, uri) for uri in request.protect_from]
    clones = find_clones(table, [one.table for one in protect])
    protect += () if clones is None else clones.found
    references = collect_references(
        snapshot,
        keys,
        window,
        keep_versions=request.keep_versions,
        protect=protect,
        scope=scope,
        removals_since=removals_since,
        unlisted_since=None if listed_ms is None else (-1 if listed_until is None else listed_until) + 1,
        with_lookalikes=request.mode is not Mode.FULL or request.prefix is not None or request.inventory is not None,
    )
    if manifested := read_paths_in_manifests(table):
        references = references.with_viewed(keys.hash_listed_paths(encode_paths_as_binary(sorted(manifested))))
    streams = _guarded_streams(snapshot, request, protect)
    if streams is not None:
        references = references.with_streamed(streams.hashes(keys))
    ambiguous = find_ambiguous_names(snapshot, window, protect, keys)
    if ambiguous is not None:
        references = references._replace(protected=pa.concat_arrays([references.protected, ambiguous.hashes]))
    first = _first_config(snapshot, references)
    kept_ms = own_ms if window.reaches_back else _least_own_ms(snapshot, references, first)
    protected = tuple(map(protected_table, protect))
    return PlanContext(
        *(table, request, snapshot, base_version, now_ms, own_ms, kept_ms, retention_ms, cutoff_ms, keys, references),
        protected=protected,
        others=tuple(protect),
        clones=clones,
        first=first,
        streams=streams,
        ambiguous=ambiguous,
    )


def open_protected(table: TableHandle, uri: str) -> Snapshot:
    """Return the newest version of another table. Also raises Refused where its protocol prevents deltacli from finding
    all files that it needs.
    """
    other = table.open_other_table(uri, may_read_this_table=True)
    with of_protected(other.uri):
        snapshot = read_snapshot(other)
        require_commit_allowed(snapshot)
    return snapshot


def find_clones(
    table: TableHandle, others: Sequence[TableHandle], known: Collection[tuple[str | None, str]] = ()
) -> Clones | None:
    """Open the shallow clones that a table, or one of `others` that name its files, has notes of, but those whose table
    ids and URIs are `known`; None without notes.
    """
    tables = [one for one in (table, *others) if has_clone_notes(one.storage)]
    if not tables:
        return None
    from deltacli.operations.vacuum.clones import open_clones

    return open_clones(tables, partial(open_protected, table), known, table.clock())


def protected_table(snapshot: Snapshot) -> ProtectedTable:
    """Return what a plan stores about it. Raises Refused where its newest commit has changed since it was read."""
    storage, past = snapshot.table.storage, identify_commit(snapshot.listing, snapshot.version)
    with of_protected(snapshot.table.uri), with_codes_of_vacuum():
        sha256 = hash_base_commit(storage, past)
    return ProtectedTable(snapshot.table.uri, snapshot.metadata.id, snapshot.version, sha256)


_CODES = {
    BASE_COMMIT_REPLACED: "vacuum.plan-other-past",
    COMMITS_MISSING: "vacuum.plan-too-old",
    LOG_ROLLED_BACK: "vacuum.plan-newer",
    CLOCK_BEHIND: "vacuum.clock-skew",
}


@contextmanager
def with_codes_of_vacuum() -> Iterator[None]:
    """Give refusals of `changing.base_version` the codes and the hint that a vacuum has."""
    try:
        yield
    except Refused as refused:
        if (code := _CODES.get(refused.code)) is not None:
            refused.code = code
            if code != _CODES[CLOCK_BEHIND]:
                refused.hint = command("vacuum", dry_run=True)
        raise


def _guarded_streams(snapshot: Snapshot, request: VacuumRequest, others: Sequence[Snapshot]) -> StreamGuard | None:
    if not request.protect_streams:
        return None
    from deltacli.operations.streams.guard import guard_streams
    from deltacli.operations.streams.protection import StreamProtection

    return guard_streams(snapshot, StreamProtection.of(request), others)


def _first_config(snapshot: Snapshot, references: References) -> TableConfiguration | None:
    """Return the metadata at the oldest version that can be rebuilt, perhaps from a checkpoint; None where unknown."""
    if not references.metadata:
        return snapshot.config
    try:
        return read_snapshot(snapshot.table, version=min(references.listing.reconstructable)).config
    except (Unreadable, ValueError):
        return None


def _least_own_ms(snapshot: Snapshot, references: References, first: TableConfiguration | None) -> int:
    """Return the shortest own retention in the log: checkpoints of that time may lack tombstones."""
    if first is None:
        return 0
    configurations = [snapshot.properties, first.properties]
    configurations += [found for one in references.metadata if isinstance(found := one.get("configuration"), dict)]
    return min(map(portable_file_retention_ms, configurations))


def own_formats(setting: PlanContext) -> set[str]:
    """Return the formats that the table is or was kept readable as."""
    return find_readable_formats(setting.snapshot, setting.references.metadata, setting.first)


MISSING_SHARE = 0.1
_NAMED = 3


def retention_refusals(request: VacuumRequest, retention_ms: int, own_ms: int) -> Iterator[Refusal]:
    """Yield a refusal if the retention is shorter than the table's own, unless the user named that."""
    if retention_ms < own_ms and not allows_below(request, own_ms):
        own = format_duration(own_ms)
        yield Refusal(
            "vacuum.retention",
            f"{format_duration(retention_ms)} is less than the table's own retention of {own}: longer running readers, "
            "writers and streams would lose files",
            override=parameter("vacuum.allow_retention_below_ms", duration_argument(own_ms)),
        )


def property_refusals(request: VacuumRequest, properties: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield a refusal if the table's retention of removed files is invalid, unless another one is given."""
    text = properties.get(DELETED_FILE_RETENTION)
    if text and request.retention_ms is None and parse_interval(text) is None:
        yield Refusal(
            "property.bad-interval",
            f"{DELETED_FILE_RETENTION} is {text!r}, which is not an interval, so the retention of removed files is "
            "unknown",
            override=parameter("vacuum.retention_ms", duration_argument(30 * DAY_MS)),
            hint=command("properties set", {DELETED_FILE_RETENTION: "interval 30 days"}),
        )


def allows_below(request: VacuumRequest, own_ms: int) -> bool:
    """Return True if the user named the table's own retention, to allow a shorter one."""
    return request.allow_retention_below_ms is not None and request.allow_retention_below_ms >= own_ms


def log_refusals(references: References) -> Iterator[Refusal]:
    """Yield a refusal if the log is damaged or names files that cannot be resolved."""
    for fault in references.faults[:1]:
        more = len(references.faults) - 1
        others = f", and {plural(more, 'more commit')} cannot be read either" if more else ""
        yield Refusal(fault.code, f"the log is damaged: {fault.message}{others}", hint=command("validate"))
    if references.listing.has_compaction_of_lost_versions:
        yield Refusal(
            RULE_COMPACTION_AFTER_NEWEST_COMMIT,
            f"{references.listing.lost_versions_message}, and the files that they named are unknown",
            hint=command("repair", level="log", sources=["COPY"]),
        )
    if references.escaping is not None:
        yield Refusal(
            "path.escapes-root",
            f"the log names {references.escaping}, which leads outside the table: the file that it means is ambiguous",
            hint=command("validate"),
        )


def clock_refusals(snapshot: Snapshot, references: References, now_ms: int) -> Iterator[Refusal]:
    """Yield a refusal if the clocks of machine, store and writers differ too much to judge files by age."""
    listing = references.listing
    files = [*listing.commits.values(), *(file for one in listing.checkpoints for file in one.files)]
    newest_ms = max((file.modified_ms for file in files), default=0)
    if newest_ms <= 0:
        yield Refusal(
            "vacuum.unknown-clock", "the store does not report when files were written, so their age is unknown"
        )
        return
    for moment, what in (
        (newest_ms, "the newest file of the log was written"),
        (snapshot.time.timestamp_ms if snapshot.time else 0, f"version {snapshot.version} was committed"),
    ):
        if moment > now_ms + CLOCK_SKEW_MS:
            yield Refusal(
                "vacuum.clock-skew",
                f"{what} at {format_timestamp(moment)}, but it is {format_timestamp(now_ms)} now: one clock is wrong, "
                "and files may be newer than they appear",
            )
            return


def limit_refusals(request: VacuumRequest, candidates: FileTotals, live: FileTotals) -> Iterator[Refusal]:
    """Yield a refusal if more would be deleted than the limit. `candidates` are of every kind, change data and vectors
    too; `live` are data files, without files of vectors: those found by the listing, in LITE mode all that the log has.
    """
    limit = DeletionLimit.parse(request.max_delete)
    what = f"{plural(candidates.files, 'file')} ({format_size(candidates.size_bytes)})"
    shares = (
        (candidates.files, candidates.files + live.files, "files"),
        (candidates.size_bytes, candidates.size_bytes + live.size_bytes, "bytes"),
    )
    enough = next(percent for percent in range(101) if all(part <= percent / 100 * whole for part, whole, _ in shares))
    override = parameter("vacuum.max_delete", f"{enough}%")
    if limit.size_bytes is not None and candidates.size_bytes > limit.size_bytes:
        yield Refusal(
            "vacuum.max-delete",
            f"{what} would be deleted, above the limit of {limit.text}{' B' if limit.text.isdecimal() else ''}",
            override=override,
        )
    if limit.share is None:
        return
    for gone, all_of_it, noun in shares:
        if gone > limit.share * all_of_it and all_of_it > 0:
            share = f"{100 * gone / all_of_it:.0f}%"
            message = f"{what}, {share} of all {noun}, would be deleted, above the limit of {limit.text}"
            yield Refusal("vacuum.max-delete", message, override=override)
            return


def shared_refusals(tables: Iterable[tuple[str, str]], own: Collection[str]) -> Iterator[Refusal]:
    """Yield a refusal if the directory is also a table of another format. `tables`: directory ('': the root) and
    format; `own`: formats that the table itself is kept readable as.
    """
    for shared in sorted({kind for directory, kind in tables if not directory and kind.lower() not in own}):
        yield Refusal(
            "vacuum.shared-directory",
            f"the directory is also {add_article(shared)} table, whose files the log does not name",
        )


def outer_refusals(outer: Iterable[str], protected: Collection[str]) -> Iterator[Refusal]:
    """Yield a refusal if the directory is inside another table whose files are not protected."""
    for uri in outer:
        if uri not in protected:
            yield Refusal(
                "vacuum.inside-table",
                f"it is inside the directory of another table, {uri}, whose files here would count as unreferenced",
                override=f"{parameter('vacuum.protect_from')} {shlex.quote(uri)}",
            )
            return


def nested_refusals(request: VacuumRequest, directories: Sequence[str], in_nested: int) -> Iterator[Refusal]:
    """Yield a refusal if the directory contains other tables."""
    nested = sorted(directories)
    if nested and not request.skip_nested_tables:
        named = ", ".join(nested[:_NAMED]) + (f" and {len(nested) - _NAMED:,} more" if len(nested) > _NAMED else "")
        looks = f"; {plural(in_nested, 'file')} there would count as unreferenced" if in_nested else ""
        yield Refusal(
            "vacuum.nested-table",
            f"{'another table is' if len(nested) == 1 else f'{len(nested):,} tables are'} below it: {named}{looks}",
            override=parameter("vacuum.skip_nested_tables", True),
        )


def doubts(setting: PlanContext, files: pyarrow.Array) -> Doubts:
    """Return which files (hashes of candidates) the newest version may have lost.

    Commits are checked first. For files that no commit names, the oldest checkpoint is read from which the commits
    reach the newest version. Raises StorageFailed, MemoryExhausted and PathExternal where the checkpoint is unreadable
    because of the store.
    """
    history, fault = setting.references.history, None
    if pc.any(_unknown(setting, files)).as_py():
        fault = _take_older_checkpoints(setting, files)
    unread = _unknown(setting, files)
    if fault is None:
        unread = pc.and_not(unread, unread)
    return Doubts(history.are_unremoved(files), unread, fault)


def _unknown(setting: PlanContext, files: ArrowArray) -> ArrowArray:
    """Return the files that the part read so far does not add, remove or write as change data."""
    references = setting.references
    known = references.history.are_added(files)
    for removed in (references.removed.hashes, references.changes.hashes):
        known = pc.or_(known, pc.is_in(files, value_set=removed))
    return pc.invert(known)


def _take_older_checkpoints(setting: PlanContext, files: ArrowArray) -> Unreadable | None:
    """Record the adds of the oldest readable checkpoint; return why older ones cannot be read, None where all can."""
    fault: Unreadable | None = None
    for version in _older_versions(setting):
        try:
            _take_checkpoint(setting, version, files)
        except Unreadable as found:
            fault = fault or found
        else:
            break
    return fault


def _take_checkpoint(setting: PlanContext, version: int, files: ArrowArray) -> None:
    """Record the adds of a version in the history that name these files."""
    keys, history = setting.keys, setting.references.history
    for batch in read_snapshot(setting.table, version=version).file_actions.read_narrow_batches():
        if batch.adds is None or not batch.adds.num_rows:
            continue
        ids = batch.adds.column("dv_id")
        texts = batch.adds.column("path")
        paths = keys.compute_keys(texts).hashes
        versions = pa.repeat(pa.scalar(version, pa.int64()), len(paths))
        rows = FileKeys(paths, compute_keys_with_external(keys, texts, paths, ids), versions)
        history.record_adds(rows.where(pc.is_in(paths, value_set=files)))
        vectors = keys.compute_vector_keys(ids).hashes
        history.record_vectors(rows._replace(files=vectors).where(pc.is_in(vectors, value_set=files)))


def _older_versions(setting: PlanContext) -> list[int]:
    """Return the versions, ascending, of checkpoints older than the one in use from which no commit is missing; none
    where the commits reach back to the first version and therefore name all files.
    """
    listing, used = setting.references.listing, setting.snapshot.segment.checkpoint
    if used is None or not listing.commit_runs or not listing.commit_runs[-1][0]:
        return []
    first = listing.commit_runs[-1][0]
    complete, torn = (
        (checkpoint.version for checkpoint in listing.checkpoints),
        (version for version, _ in listing.problems),
    )
    return sorted({version for version in (*complete, *torn) if first - 1 <= version < used.version})


def checksum_refusals(setting: PlanContext) -> Iterator[Refusal]:
    """Yield a refusal unless the newest checksum counts the files of the log, or commits explain a higher count."""
    snapshot = _checked_state(setting)
    if snapshot is None:
        return
    references = setting.references
    files, size_bytes = references.live_count.files, references.live_count.size_bytes
    if snapshot is not setting.snapshot:
        counts, _ = snapshot.counts()
        files, size_bytes = counts.count, counts.size_bytes
    difference = find_checksum_contradiction(snapshot, files, size_bytes)
    if difference is None:
        return
    if difference.surplus_files > 0:
        lost = references.history.count_unremoved_files(read_live_keys(setting.snapshot, setting.keys))
        if difference.surplus_files == lost:
            return
    yield Refusal(difference.rule, difference.message, hint=difference.hint)


def _checked_state(setting: PlanContext) -> Snapshot | None:
    """Return the newest version that has a checksum file and is rebuilt from the same checkpoint; None without one."""
    snapshot, used = setting.snapshot, setting.snapshot.segment.checkpoint
    least = 0 if used is None else used.version
    checked = [one for one in setting.references.listing.checksums if least <= one <= snapshot.version]
    if not checked:
        return None
    if checked[-1] == snapshot.version:
        return snapshot
    try:
        return read_snapshot(setting.table, version=checked[-1])
    except Unreadable:
        return None


def retention_contradictions(setting: PlanContext) -> Iterator[Refusal]:
    """Yield a refusal unless the state keeps removed files for as long as the newest metaData of the commits."""
    references, used = setting.references, setting.snapshot.segment.checkpoint
    runs = references.listing.commit_runs
    if used is None or not references.metadata or len(runs) != 1 or runs[0][1] < used.version:
        return
    configuration = references.metadata[0].get("configuration")
    if not isinstance(configuration, dict):
        return
    wanted_ms = deleted_file_retention_ms(configuration)
    if wanted_ms > setting.own_ms and setting.retention_ms < wanted_ms:
        wanted = format_duration(wanted_ms)
        yield Refusal(
            "checkpoint.metadata-differs",
            f"the commits keep removed files for {wanted}, but the checkpoint for {format_duration(setting.own_ms)}",
            override=parameter("vacuum.retention_ms", duration_argument(wanted_ms)),
            hint=command("validate"),
        )


# -- parts of a plan ---------------------------------------------------------------------------------------------------


def choice_of(setting: PlanContext) -> CandidateChoice:
    """Return the requested limit of the candidates."""
    request, selector = setting.request, None
    if request.where is not None:
        from deltacli.delta.partitions.directories import PartitionSelector

        selector = PartitionSelector(setting.snapshot.config, request.where)
    return CandidateChoice(
        include_foreign=request.include_foreign,
        selector=selector,
        proven_only=not setting.is_proven,
        find_doubts=partial(doubts, setting),
        without_logical_names=partial(without_logical_names, setting),
    )


def without_logical_names(setting: PlanContext, rows: ArrowTable) -> tuple[ArrowTable, ArrowTable]:
    """Return the candidates without those that have columns under logical names, and these with the column `why`."""
    config = setting.snapshot.config
    if config.mapping_mode == "none":
        return rows, rows.slice(0, 0)
    from deltacli.operations.vacuum.logical_names import LogicalNameFinder

    why = pa.array(LogicalNameFinder(setting.table, config).explain(rows), pa.string())
    return pc.filter(rows, pc.is_null(why)), pc.filter(rows.append_column("why", why), pc.is_valid(why))


def logical_name_notes(rows: ArrowTable) -> Iterator[str]:
    """Yield a note on files that are kept because they have columns under logical names."""
    if not rows.num_rows:
        return
    is_are, them = is_or_are(rows.num_rows)
    first = "it" if rows.num_rows == 1 else "the first"
    yield (
        f"{plural(rows.num_rows, 'file')} {is_are} kept ({example_of(rows)}): {first} {rows.column('why')[0].as_py()} "
        f"[{MISNAMED}]; readers return null for such a column, so that no other file may have its values; write them "
        f"again under the physical name, and then delete {them} yourself"
    )


def log_notes(setting: PlanContext) -> Iterator[str]:
    """Return notes on information that the log lacks, and on clones that are gone."""
    references = setting.references
    yield from () if setting.clones is None else setting.clones.notes()
    if not setting.is_proven:
        yield (
            f"the log does not reach back {format_duration(setting.retention_ms)}, to "
            f"{format_timestamp(setting.cutoff_ms)}: files whose removal time is unknown are kept"
        )
    if references.unknown_vector is not None:
        yield (
            f"the file of a deletion vector is unknown ({references.unknown_vector[:60]}): every file of deletion "
            "vectors is kept"
        )


def common_refusals(setting: PlanContext) -> Iterator[Refusal]:
    """Return the guards of both modes."""
    yield from retention_refusals(setting.request, setting.retention_ms, setting.own_ms)
    yield from property_refusals(setting.request, setting.snapshot.properties)
    yield from log_refusals(setting.references)
    yield from () if setting.clones is None else setting.clones.refusals()
    yield from () if setting.streams is None else setting.streams.refusals("vacuum")
    yield from clock_refusals(setting.snapshot, setting.references, setting.now_ms)
    stores = map(setting.table.open_other, setting.request.protect_from)
    yield from outer_refusals(
        find_enclosing_tables(setting.table), {uri for storage in stores for uri in (storage.uri, *storage.aliases)}
    )


def contradiction_refusals(setting: PlanContext, rows: ArrowTable) -> Iterator[Refusal]:
    """Return contradictions to the state, if anything would be deleted."""
    if rows.num_rows:
        yield from retention_contradictions(setting)
        yield from checksum_refusals(setting)
        hint = read_hint(setting.table.storage)
        listing, named = setting.references.listing, hint.version if isinstance(hint, Hint) else -1
        if (lost := find_lost_versions_refusal(setting.table.storage, listing, named)) is not None:
            yield lost


def make_plan(
    setting: PlanContext,
    rows: ArrowTable,
    live: FileTotals,
    refusals: Iterable[Refusal],
    *,
    kept: Kept,
    needed: ArrowArray,
    notes: Iterable[str],
    **parts: Any,
) -> VacuumPlan:  # Any: parts of the plan
    """Return the plan of a setting and its candidates, with `refusals` and that of the limit. `needed` are hashes of
    the files that are kept because something needs them.
    """
    request = setting.request
    if (guard := setting.streams) is not None:
        streams, count = _guarded(setting, guard, needed)
        kept = kept._replace(stream=count, retained=max(0, kept.retained - count))
        notes, parts = (*notes, *streams.notes(), *guard.notes), parts | {"streams": streams}
    if setting.ambiguous is not None:
        notes = (*notes, *setting.ambiguous.notes(needed))
    amount = FileTotals(rows.num_rows, pc.sum(rows.column("sizeBytes")).as_py() or 0)
    return VacuumPlan(
        table=setting.table.uri,
        table_id=setting.snapshot.metadata.id,
        mode=Mode(request.mode),
        snapshot_version=setting.snapshot.version,
        now_ms=setting.now_ms,
        retention_ms=setting.retention_ms,
        own_retention_ms=setting.own_ms,
        cutoff_ms=setting.cutoff_ms,
        candidates=rows,
        refusals=(*refusals, *limit_refusals(request, amount, live)),
        selection=request.where or request.prefix,
        allows_below=allows_below(request, setting.own_ms),
        protected=setting.protected,
        copied_ms=_copied_ms(setting),
        made_from=setting.base_version,
        kept=kept,
        notes=tuple(notes),
        **parts,
    )


def _guarded(setting: PlanContext, guard: StreamGuard, needed: ArrowArray) -> tuple[GuardedStreams, int]:
    """Return the queries with the files that are kept for each, and how many are kept for all of them."""
    from deltacli.operations.streams.protection import GuardedStreams

    kept = pc.filter(setting.references.streamed, pc.is_in(setting.references.streamed, value_set=needed))
    queries = []
    for query, units in zip(guard.queries, guard.units, strict=True):
        paths = setting.keys.compute_keys(units.column("path").combine_chunks()).hashes
        vectors = pc.unique(
            pc.drop_null(setting.keys.compute_vector_keys(units.column("dv_id").combine_chunks()).hashes)
        )
        first = pc.index_in(pc.unique(pc.drop_null(paths)), value_set=paths)
        is_kept = pc.is_in(pc.take(paths, first), value_set=kept)
        sizes = pc.filter(pc.take(units.column("size"), first), is_kept)
        files = len(sizes) + (pc.sum(pc.is_in(vectors, value_set=kept)).as_py() or 0)
        queries.append(query._replace(files=files, size_bytes=pc.sum(sizes).as_py() or 0))
    return GuardedStreams(guard.protection, setting.snapshot.metadata.id, tuple(queries)), len(pc.unique(kept))


def _copied_ms(setting: PlanContext) -> int | None:
    """Return the newest time of a copied log: all its commits are retained, the table is older. None for others."""
    references = setting.references
    created = [action.get("createdTime") for action in references.metadata]
    is_old = any(isinstance(moment, int) and moment < setting.cutoff_ms for moment in created)
    if references.window.last_before is not None or not is_old:
        return None
    return max((file.modified_ms for file in references.listing.commits.values()), default=None)


def reach_of(setting: PlanContext, lost_before: int | None, lost_now: int | None, candidates: Any) -> TimeTravelRange:
    """Return the range from the newest versions that removed a missing file and a candidate; Any: an int64 array."""
    references = setting.references
    oldest = min(references.listing.reconstructable, default=None)
    if oldest is None:
        return TimeTravelRange()
    before = max(oldest, -1 if lost_before is None else lost_before)
    first = max(before, -1 if lost_now is None else lost_now)
    lost_changes = newest_among(references.changes.other, pc.is_in(references.changes.hashes, value_set=candidates))
    feed_end = max(-1 if lost_now is None else lost_now, -1 if lost_changes is None else lost_changes)
    has_feed = is_true(setting.snapshot.properties, CHANGE_FEED) or lost_changes is not None
    first_commit = min(references.listing.commits, default=None)
    return TimeTravelRange(
        first_version=first,
        first_ms=read_commit_time(setting.table, references.listing, first, loaded_snapshot=setting.snapshot),
        oldest_before=before,
        lost_feed=(first_commit, feed_end)
        if has_feed and first_commit is not None and feed_end >= first_commit
        else None,
        lost=tuple(_lost(setting, candidates, before, first)),
    )


def _lost(setting: PlanContext, candidates: Any, before: int, first: int) -> Iterator[tuple[int, int]]:
    """Yield the versions from `before` up to `first` that need a candidate, as ranges, ascending.

    A file is needed from its first add to its last remove; from `before` on where the log has no such add.
    """
    removed = setting.references.removed
    goes = pc.and_(pc.is_in(removed.hashes, value_set=candidates), pc.is_valid(removed.other))
    files, ends = pc.filter(removed.hashes, goes), pc.filter(removed.other, goes)
    begins = pc.fill_null(setting.references.history.find_first_add_versions(files), before)
    begins = pc.if_else(pc.less(begins, ends), begins, before)
    spans = aggregate_rows(pa.table({"begin": begins, "end": ends}), ["begin", "end"], [])
    start = end = before
    for begin, stop in sorted(zip(*(column.to_pylist() for column in spans.columns), strict=True)):
        if begin > end:
            yield from find_gaps(setting.request.keep_versions, start, end - 1)
            start = begin
        end = max(end, stop)
    yield from find_gaps(setting.request.keep_versions, start, min(end, first) - 1)


def newest_among(versions: ArrowArray, mask: ArrowArray) -> int | None:
    """Return the newest of the versions that a mask selects; None if it selects none."""
    newest: int | None = pc.max(pc.filter(versions, mask)).as_py()
    return newest


def lost_notes(setting: PlanContext, rows: pyarrow.Table) -> Iterator[str]:
    """Return notes on files (columns `path` and `hash`) that are kept although the newest version lacks them."""
    if not rows.num_rows:
        return
    is_unsure = removed_in_gap(setting, rows.column("hash").combine_chunks())
    lost, unsure = pc.filter(rows, pc.invert(is_unsure)), pc.filter(rows, is_unsure)
    if lost.num_rows:
        yield _lost_note(setting, lost)
    if unsure.num_rows:
        yield _gap_note(setting, unsure)


def removed_in_gap(setting: PlanContext, files: pyarrow.Array) -> pyarrow.Array:
    """Return the lost files (hashes) that missing commits may have removed: every add is before a gap of the log."""
    history = setting.references.history
    adds = history.find_unremoved_adds(files)
    is_after = pc.greater_equal(adds.versions, history.contiguous_from - 1)
    is_sure = pc.is_in(files, value_set=pc.filter(adds.files, is_after))
    return pc.and_not(pc.is_in(files, value_set=adds.files), is_sure)


def missing_commits(setting: PlanContext) -> str:
    """Return the gaps of the log in words."""
    commits = setting.references.listing.commits
    gaps = find_gaps(commits, min(commits), max(commits))
    is_one = len(gaps) == 1 and gaps[0][0] == gaps[0][1]
    return f"{'commit' if is_one else 'commits'} {format_spans(gaps)}"


def _lost_note(setting: PlanContext, rows: pyarrow.Table) -> str:
    count, (is_are, _) = rows.num_rows, is_or_are(rows.num_rows)
    repair = _repair(setting, rows.column("hash").combine_chunks())
    return (
        f"{plural(count, 'file')} that a checkpoint lost {is_are} kept ({example_of(rows)}) "
        f"[{MISSING_ADD_RULE}]; to see why: "
        f"{command('validate', table=setting.table.address)}{repair}"
    )


def _gap_note(setting: PlanContext, rows: pyarrow.Table) -> str:
    count, (is_are, them) = rows.num_rows, is_or_are(rows.num_rows)
    return (
        f"{plural(count, 'file')} {is_are} kept ({example_of(rows)}), because it is not known whether "
        f"{missing_commits(setting)} removed {them} [log.gap]; to see more: "
        f"{command('validate', table=setting.table.address)}"
    )


def _repair(setting: PlanContext, files: pyarrow.Array) -> str:
    """Return the command that repairs the checkpoints, as the end of a sentence. Empty where no older files are left to
    repair them from, where a catalog manages the table, or where it cannot be determined; no plan depends on it.
    """
    if setting.snapshot.protocol.is_catalog_managed:
        return ""
    try:
        wrong = _wrong_checkpoints(setting, files)
        if not wrong or not _is_repairable(setting, wrong[0]):
            return ""
    except (Unreadable, StorageFailed, Refused):
        return ""
    found = command("repair", table=setting.table.address)
    return f"; to repair the {'checkpoint' if len(wrong) == 1 else 'checkpoints'}: {found}"


def _is_repairable(setting: PlanContext, instance: CheckpointInstance) -> bool:
    """Return True if a checkpoint differs from older files of the log."""
    from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoint

    listing = setting.references.listing
    return verify_checkpoint(setting.table, listing, instance).verdict is CheckpointVerdict.DIFFERS


def _wrong_checkpoints(setting: PlanContext, files: pyarrow.Array) -> Sequence[CheckpointInstance]:
    """Return the checkpoints from the first that lacks one of these files on; later ones lack a lost file, too."""
    used = setting.snapshot.segment.checkpoint
    if used is None:
        return ()
    adds = setting.references.history.find_unremoved_adds(files)
    first = pc.min(adds.versions).as_py()
    every = sorted(
        checkpoint for checkpoint in setting.references.listing.checkpoints if checkpoint.version <= used.version
    )
    later = [checkpoint for checkpoint in every if first is not None and checkpoint.version >= first]
    return later[bisect_left(later, True, key=lambda checkpoint: _lacks(setting, checkpoint, adds)) :]


def _lacks(setting: PlanContext, instance: CheckpointInstance, adds: FileKeys) -> bool:
    """Return True if a checkpoint lacks one of the files added before it, or cannot be read."""
    listing = setting.references.listing
    others = {checkpoint: "checkpoint.unreadable" for checkpoint in listing.checkpoints if checkpoint != instance}
    try:
        live = read_live_keys(
            rebuild_version(setting.table, ListedLog(listing), instance.version, unusable=others), setting.keys
        )
    except Unreadable:
        return True
    keys = adds.where(pc.less_equal(adds.versions, instance.version)).keys
    return bool(pc.any(pc.invert(pc.is_in(keys, value_set=live))).as_py())


def is_or_are(files: int) -> tuple[str, str]:
    """Return the verb and the pronoun for so many files."""
    return ("is", "it") if files == 1 else ("are", "them")


def example_of(rows: ArrowTable) -> str:
    example: str = rows.column("path")[0].as_py().decode("utf-8", "replace")
    return example
