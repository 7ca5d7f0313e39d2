"""LITE: deletes the files that commits of the log removed, without listing the table.

Like the reference: from the version after the one that `_last_vacuum_info` names to the newest one that is not
retained. Files that no commit names are kept. Spec: Add File and Remove File; Metadata Cleanup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import FileMissing, Refusal, Refused, command, parameter
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.delta.listing import partition_of
from deltacli.delta.log.segment import LOG_DIRECTORY, LogListing
from deltacli.operations.vacuum.candidates import is_live_by_links, outside_of
from deltacli.operations.vacuum.missing_files import find_misnamed, misnamed_notes
from deltacli.operations.vacuum.plan import Kept, Reason, VacuumPlan, VacuumRequest
from deltacli.operations.vacuum.plan_context import (
    MISSING_SHARE,
    PlanContext,
    common_refusals,
    contradiction_refusals,
    doubts,
    log_notes,
    logical_name_notes,
    lost_notes,
    make_plan,
    nested_refusals,
    own_formats,
    prepare,
    reach_of,
    shared_refusals,
    without_logical_names,
)
from deltacli.storage import ReadStorage, Storage
from deltacli.table.find_log import list_log
from deltacli.table.nested_tables import find_tables_containing
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle


INFO_PATH = f"{LOG_DIRECTORY}/_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_CUTOFF = "deleteBeforeMs"  # deltacli's field: the reference ignores unknown fields


def read_last_vacuum(storage: ReadStorage, *, newest: int) -> int | None:
    """Return the newest version whose removals earlier vacuums have processed; None where the file is missing,
    unreadable, or names a version above the `newest` of the table and is therefore of another history.
    """
    try:
        info = orjson.loads(storage.read(INFO_PATH))
    except (FileMissing, orjson.JSONDecodeError):
        return None
    version = info.get(_VERSION) if isinstance(info, dict) else None
    return version if type(version) is int and 0 <= version <= newest else None


def write_last_vacuum(storage: Storage, version: int, cutoff_ms: int, *, newest: int) -> None:
    """Record that everything removed up to a version was processed. An existing higher version is kept."""
    before = read_last_vacuum(storage, newest=newest)
    if before is not None and before >= version:
        return
    storage.put(INFO_PATH, orjson.dumps({_VERSION: version, _CUTOFF: cutoff_ms}) + b"\n")


def plan_lite(table: TableHandle, request: VacuumRequest) -> VacuumPlan:
    """Plan from the log only. Raises Refused (`vacuum.lite-impossible`) where it has gaps, and as `plan_vacuum`."""
    begun = table.machine.monotonic()
    snapshot = read_snapshot(table)
    listing = list_log(table.storage, progress=table.progress)
    begin = _begin(table, listing)
    directories = _Directories()
    has_links = table.storage.capabilities.has_directories
    setting = prepare(table, request, snapshot, directories if has_links else None, removals_since=begin)
    references = setting.references
    hashes = _flat(references.removals.column("hash"))  # a row per file, with its newest removal
    removals = pc.take(references.removals, pc.index_in(pc.unique(hashes), value_set=hashes))
    live = _whole([references.live, references.live_written, references.live_vectors])
    is_live = pc.is_in(removals.column("hash"), value_set=live)
    is_needed = pc.is_in(removals.column("hash"), value_set=references.protected)
    is_late = pc.greater_equal(removals.column("modificationTimeMs"), setting.cutoff_ms)
    is_hidden = setting.hidden_names.mask(_flat(removals.column("path")))
    is_retained = pc.and_not(pc.or_(is_needed, is_late), is_live)
    is_passed_over = pc.and_not(is_hidden, pc.or_(is_live, is_retained))
    stays = pc.or_(pc.or_(is_live, is_retained), is_hidden)
    if references.unknown_vector is not None:
        stays = pc.or_(stays, pc.equal(removals.column("reason"), Reason.VECTOR.value))
    is_lost = pc.and_not(doubts(setting, _flat(removals.column("hash"))).lost, stays)
    stays = pc.or_(stays, is_lost)
    retained = pc.filter(removals, pc.and_not(stays, pc.or_(is_live, is_passed_over)))
    free = pc.filter(removals, pc.invert(stays))
    on_disk, young = _on_disk(setting, free)
    on_disk, linked = _by_links(setting, on_disk, directories.found, live)
    tables = find_tables_containing(table, _flat(on_disk.column("path")))
    nested = sorted(directory for directory in tables if directory)
    rows = outside_of(on_disk, nested)
    in_nested = on_disk.num_rows - rows.num_rows
    doubts_by_name = find_misnamed(setting, rows)
    doubtful = pc.filter(rows, doubts_by_name.is_doubtful)
    misnamed = doubts_by_name.table_of(rows)
    rows = pc.filter(rows, pc.invert(doubts_by_name.is_doubtful))
    rows, with_logical_names = without_logical_names(setting, rows)
    lost, _ = _on_disk(setting, pc.filter(removals, is_lost))
    stay = [retained, young, linked, lost, doubtful, with_logical_names, *([on_disk] if in_nested else [])]
    kept_from = pc.min(_whole([_flat(part.column("removedAtVersion")) for part in stay])).as_py()
    refusals = (
        *shared_refusals(tables.items(), own_formats(setting)),
        *nested_refusals(request, nested, in_nested),
        *contradiction_refusals(setting, rows),
    )
    hidden = pc.sum(is_passed_over).as_py() or 0
    kept = Kept(
        retained=retained.num_rows + linked.num_rows,
        young=young.num_rows,
        hidden=hidden,
        unproven=lost.num_rows + misnamed.num_rows + with_logical_names.num_rows,
        nested_tables=tuple(nested),
    )
    notes = (
        *lost_notes(setting, lost),
        *misnamed_notes(setting, misnamed),
        *logical_name_notes(with_logical_names),
    )
    return _plan(setting, rows, kept, refusals, kept_from, begun, notes, _flat(retained.column("hash")))


def _plan(
    setting: PlanContext,
    rows: Any,
    kept: Kept,
    refusals: Sequence[Refusal],
    kept_from: int | None,
    begun: float,
    notes: tuple[str, ...],
    retained: ArrowArray,
) -> VacuumPlan:
    """`kept_from` is the oldest version that removed a file that is kept; Any: an Arrow table."""
    references = setting.references
    end = references.window.last_before
    live = FileTotals(len(references.live), pc.sum(references.live_sizes).as_py() or 0)
    newest = pc.max(rows.column("removedAtVersion")).as_py()
    paths = _flat(rows.column("path"))
    candidates = rows.drop_columns(["hash"]).append_column("partition", partition_of(paths))
    horizon = end if end is None or kept_from is None else min(end, kept_from - 1)
    return make_plan(
        setting,
        candidates,
        live,
        (*common_refusals(setting), *_place_refusals(setting), *refusals),
        kept=kept,
        needed=retained,
        notes=(*notes, *log_notes(setting)),
        reach=reach_of(setting, _lost_before(setting), newest, _flat(rows.column("hash"))),
        horizon=None if horizon is None or horizon < 0 else horizon,
        looked_at=begun,
    )


def _lost_before(setting: PlanContext) -> int | None:
    """Return the newest version whose removals earlier vacuums have processed; None where there is none."""
    last = read_last_vacuum(setting.table.storage, newest=setting.snapshot.version)
    if last is None:
        return None
    versions = setting.references.removed.other
    lost_before: int | None = pc.max(pc.filter(versions, pc.fill_null(pc.less_equal(versions, last), False))).as_py()
    return lost_before


def _begin(table: TableHandle, listing: LogListing) -> int:
    """Return the first version. Raises Refused where commits between it and the newest one are missing."""
    last = read_last_vacuum(table.storage, newest=listing.newest_version)
    first = min(listing.commits, default=None)
    begin = 0 if last is None else last + 1
    if last is not None and last >= listing.newest_version:
        return begin
    runs = listing.commit_runs
    if runs and runs[-1][0] <= begin:
        return begin
    said = f"{INFO_PATH} names version {last} as the last one processed" if last is not None else f"no {INFO_PATH}"
    raise Refused(
        f"{parameter('vacuum.mode', 'lite')} needs every commit from version "
        f"{begin} on, but the log begins later or has a gap",
        code="vacuum.lite-impossible",
        facts={
            "commits in the log": "none" if first is None else format_ranges(listing.commits),
            "earlier vacuums": said,
            "fix": "a full run processes everything older, and lite runs can continue from there",
        },
        hint=command("vacuum", mode="full", dry_run=True),
    )


def _on_disk(setting: PlanContext, rows: ArrowTable) -> tuple[ArrowTable, ArrowTable]:
    """Return the rows whose files exist, with actual sizes, and recent ones; all rows where checks are expensive."""
    rows = rows.combine_chunks()
    rows = pc.take(rows, pc.sort_indices(rows.column("path").combine_chunks()))
    storage = setting.table.storage
    if not storage.capabilities.has_cheap_requests or not rows.num_rows:
        return rows, rows.slice(0, 0)
    paths = [path.decode("utf-8", "surrogateescape") for path in rows.column("path").to_pylist()]
    sizes, times = (pa.array(column, pa.int64()) for column in storage.stat_many(paths))
    rows = rows.set_column(1, "sizeBytes", sizes)
    is_there, is_old = pc.greater_equal(sizes, 0), pc.less(times, setting.cutoff_ms)
    return pc.filter(rows, pc.and_(is_there, is_old)), pc.filter(rows, pc.and_not(is_there, is_old))


@dataclass
class _Directories:
    """Collects the directories of the live files while the log is read."""

    found: set[bytes] = field(default_factory=set)

    def __call__(self, keys: ArrowArray) -> ArrowArray:
        parents = pc.replace_substring_regex(keys, r"/?[^/]*\z", "")
        self.found.update(pc.unique(pc.drop_null(parents)).to_pylist())
        return pa.repeat(True, len(keys))


def _by_links(setting: PlanContext, rows: Any, directories: set[bytes], live: Any) -> tuple[ArrowTable, ArrowTable]:
    """Return the rows to delete, and those that are live by a name through a link."""
    names = (name.decode("utf-8", "surrogateescape") for name in directories if name)
    keys = setting.keys

    def is_live(paths: ArrowArray) -> ArrowArray:
        return pc.is_in(keys.hash_listed_paths(paths), value_set=live)

    mask = is_live_by_links(rows, setting.table.storage, names if rows.num_rows else (), is_live)
    return pc.filter(rows, pc.invert(mask)), pc.filter(rows, mask)


def _place_refusals(setting: PlanContext) -> tuple[Refusal, ...]:
    """Yield a refusal unless a few live files exist where the log names them."""
    spellings = setting.references.some_live
    if not spellings:
        return ()
    by_key, by_writing = (setting.table.storage.stat_many(paths)[0] for paths in zip(*spellings, strict=True))
    missing = [path for (path, _), *sizes in zip(spellings, by_key, by_writing, strict=True) if max(sizes) < 0]
    if len(missing) <= MISSING_SHARE * len(spellings):
        return ()
    message = f"{len(missing)} of {len(spellings)} checked live files are missing, such as {missing[0]}"
    return (Refusal("vacuum.live-files-missing", message, hint=command("validate", level="storage")),)


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _whole(arrays: list[ArrowArray]) -> ArrowArray:
    return pa.concat_arrays(arrays)
