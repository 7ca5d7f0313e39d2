"""The input of a vacuum plan: the request, the state of the table, and every file to keep; and guards that refuse to
execute it: contradictions to that state in commits, an older checkpoint and the checksum file.

A wrong checkpoint makes a live file look unreferenced. Such a file is kept; if a contradiction cannot be traced to
files, nothing is deleted. Spec: Protocol Evolution; VACUUM Protocol Check; Checkpoints; Version Checksum File.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.changing.basis import Basis
from deltacli.changing.plan import Amount
from deltacli.changing.views import files_of_manifests
from deltacli.core.errors import Refusal, Unreadable
from deltacli.core.hints import command, parameter
from deltacli.core.typing import ArrowArray
from deltacli.core.units import CLOCK_SKEW_MS, DAY_MS, duration, format_duration, format_size, format_timestamp, plural
from deltacli.delta.log.segment import BEYOND_LOG
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_values import (
    DELETED_FILE_RETENTION,
    deleted_file_retention_ms,
    parse_interval,
    portable_file_retention_ms,
)
from deltacli.delta.protocol.protocol_action import require_committable
from deltacli.delta.vacuum.file_kinds import HiddenNames
from deltacli.delta.vacuum.keys import PathKeys, binary_paths
from deltacli.operations.vacuum.candidates import Doubts
from deltacli.operations.vacuum.plan import ProtectedTable
from deltacli.operations.vacuum.rechecking import basis_of_plan, open_protected, protected_table
from deltacli.operations.vacuum.references import References, Scope, collect_references, find_window
from deltacli.operations.vacuum.request import DeletionLimit, Mode, VacuumRequest
from deltacli.storage import folds_names
from deltacli.table.checksum_guard import contradiction
from deltacli.table.file_history import NamedKeys, live_keys, logical_keys
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import last_commit_before
from deltacli.table.version import Snapshot
from deltacli.table.walk import hidden_names, readable_formats

if TYPE_CHECKING:
    import pyarrow


class PlanContext(NamedTuple):
    """The input of a plan."""

    table: TableHandle
    request: VacuumRequest
    snapshot: Snapshot
    basis: Basis
    now_ms: int
    own_ms: int
    tombstones_ms: int
    """How long tombstones are kept for certain: the shortest of the table's own retentions in the log."""
    retention_ms: int
    cutoff_ms: int
    keys: PathKeys
    references: References
    protected: tuple[ProtectedTable, ...]
    """The tables given by `--protect-from`."""
    first: TableConfiguration | None
    """The metadata at the oldest version that can be rebuilt; None where unknown."""

    @property
    def hidden_names(self) -> HiddenNames:
        """The rules of hidden names, with the partition columns of every version."""
        return hidden_names(self.snapshot, self.references.metadata, self.first)

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
    """Read the log for all files to keep; `listed_ms` is the time of the listing, if it is not made now.

    Raises as `plan_vacuum`.
    """
    require_committable(snapshot.protocol, snapshot.properties, snapshot.version)
    now_ms = table.clock()
    own_ms = deleted_file_retention_ms(snapshot.properties)
    retention_ms = own_ms if request.retention_ms is None else request.retention_ms
    cutoff_ms = now_ms - retention_ms
    keys = PathKeys(
        (table.uri, *table.storage.aliases),
        folds_case=folds_names(table.storage),
        is_portable=table.engine.may_repeat,
    )
    listing = list_log(table.storage, progress=table.progress)
    basis = basis_of_plan(snapshot, listing, now_ms)
    window = find_window(table, listing, cutoff_ms)
    listed_until = None if listed_ms is None else last_commit_before(table, listing, listed_ms)
    protect = [open_protected(table, uri) for uri in request.protect_from]
    references = collect_references(
        snapshot,
        keys,
        window,
        keep_versions=request.keep_versions,
        protect=protect,
        scope=scope,
        removals_since=removals_since,
        unlisted_since=None if listed_ms is None else (-1 if listed_until is None else listed_until) + 1,
    )
    if manifested := files_of_manifests(table):
        references = references.with_viewed(keys.of_listing(binary_paths(sorted(manifested))))
    first = _first_config(snapshot, references)
    kept_ms = own_ms if window.reaches_back else _least_own_ms(snapshot, references, first)
    protected = tuple(map(protected_table, protect))
    return PlanContext(
        *(table, request, snapshot, basis, now_ms, own_ms, kept_ms, retention_ms, cutoff_ms, keys, references),
        protected=protected,
        first=first,
    )


def _first_config(snapshot: Snapshot, references: References) -> TableConfiguration | None:
    """Return the metadata at the oldest version that can be rebuilt, which may be known from a checkpoint only. None
    where unknown.
    """
    if not references.metadata:
        return snapshot.config
    try:
        return read_snapshot(snapshot.table, version=min(references.listing.reconstructable)).config
    except (Unreadable, ValueError):
        return None


def _least_own_ms(snapshot: Snapshot, references: References, first: TableConfiguration | None) -> int:
    """Return the shortest of the table's own retentions in the log, for any engine: checkpoints of that time may lack
    tombstones that would protect files now.
    """
    if first is None:
        return 0
    configurations = [snapshot.properties, first.properties]
    configurations += [found for one in references.metadata if isinstance(found := one.get("configuration"), dict)]
    return min(map(portable_file_retention_ms, configurations))


def own_formats(setting: PlanContext) -> set[str]:
    """Return the formats that the table is or was kept readable as."""
    return readable_formats(setting.snapshot, setting.references.metadata, setting.first)


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
            override=parameter("vacuum.allow_retention_below_ms", duration(own_ms)),
        )


def property_refusals(request: VacuumRequest, properties: Mapping[str, str]) -> Iterator[Refusal]:
    """Yield a refusal if the table's retention of removed files is invalid, unless another one is given."""
    text = properties.get(DELETED_FILE_RETENTION)
    if text and request.retention_ms is None and parse_interval(text) is None:
        yield Refusal(
            "property.bad-interval",
            f"{DELETED_FILE_RETENTION} is {text!r}, which is not an interval, so the retention of removed files is "
            "unknown",
            override=parameter("vacuum.retention_ms", duration(30 * DAY_MS)),
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
    if references.listing.has_lost_newest:
        yield Refusal(
            BEYOND_LOG,
            f"{references.listing.of_lost_newest}, and the files that they named are unknown",
            hint=command("repair", level="log", sources=["COPY"]),
        )
    if references.escaping is not None:
        yield Refusal(
            "path.escapes-root",
            f"the log names {references.escaping}, which leads outside the table: the file that it means is ambiguous",
            hint=command("validate"),
        )


def clock_refusals(snapshot: Snapshot, references: References, now_ms: int) -> Iterator[Refusal]:
    """Yield a refusal if the clocks of this machine, the store and the writers differ too much to judge files by
    age.
    """
    listing = references.listing
    files = [*listing.commits.values(), *(file for one in listing.checkpoints for file in one.files)]
    newest_ms = max((file.modified_ms for file in files), default=0)
    if newest_ms <= 0:
        yield Refusal(
            "vacuum.unknown-clock",
            "the store does not report when files were written, so their age is unknown",
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


def listing_refusals(listed: int, expected: Amount, actual: Amount) -> Iterator[Refusal]:
    """Yield a refusal if the listing lacks files that the log names."""
    if not expected.files:
        return
    missing = Amount(expected.files - actual.files, expected.size_bytes - actual.size_bytes)
    if not listed:
        yield Refusal(
            "vacuum.empty-listing",
            f"the listing is empty, but the log has {plural(expected.files, 'live file')}",
            hint=command("validate", level="storage"),
        )
    elif missing.files > MISSING_SHARE * expected.files or missing.size_bytes > MISSING_SHARE * expected.size_bytes:
        yield Refusal(
            "vacuum.live-files-missing",
            f"{missing.files:,} of {plural(expected.files, 'live file')} ({format_size(missing.size_bytes)} of "
            f"{format_size(expected.size_bytes)}) are not in the listing, which is therefore incomplete",
            hint=command("validate", level="storage"),
        )


def limit_refusals(request: VacuumRequest, candidates: Amount, live: Amount) -> Iterator[Refusal]:
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
            f"the directory is also a {shared} table, whose files the log does not name",
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
    return Doubts(history.unremoved(files), unread, fault)


def _unknown(setting: PlanContext, files: ArrowArray) -> ArrowArray:
    """Return the files that the part read so far does not add, remove or write as change data."""
    references = setting.references
    known = references.history.adds(files)
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
    import pyarrow as pa

    keys, history = setting.keys, setting.references.history
    for batch in read_snapshot(setting.table, version=version).file_actions.narrow():
        if batch.adds is None or not batch.adds.num_rows:
            continue
        ids = batch.adds.column("dv_id")
        paths = keys.of_log(batch.adds.column("path")).hashes
        versions = pa.repeat(pa.scalar(version, pa.int64()), len(paths))
        rows = NamedKeys(paths, logical_keys(paths, ids), versions)
        history.take_adds(rows.where(pc.is_in(paths, value_set=files)))
        vectors = keys.of_vectors(ids).hashes
        history.take_vectors(rows._replace(files=vectors).where(pc.is_in(vectors, value_set=files)))


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
    """Yield a refusal unless the newest checksum file counts the files of the log, or the commits explain why it counts
    more."""
    snapshot = _checked_state(setting)
    if snapshot is None:
        return
    references = setting.references
    files, size_bytes = references.live_count.files, references.live_count.size_bytes
    if snapshot is not setting.snapshot:
        counts, _ = snapshot.counts()
        files, size_bytes = counts.count, counts.size_bytes
    difference = contradiction(snapshot, files, size_bytes)
    if difference is None:
        return
    if difference.more_files > 0:
        lost = references.history.unremoved_count(live_keys(setting.snapshot, setting.keys))
        if difference.more_files == lost:
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
            override=parameter("vacuum.retention_ms", duration(wanted_ms)),
            hint=command("validate"),
        )
