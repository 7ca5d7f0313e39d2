"""A vacuum: its plan, which changes nothing, and the way from there.

Spec: Add File and Remove File; Protocol Evolution.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.change import execute_change
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import Refusal, Unreadable, command
from deltacli.core.times import format_timestamp
from deltacli.core.typing import ArrowArray
from deltacli.core.units import format_size, plural
from deltacli.delta.data_files import MANIFESTS
from deltacli.delta.listing import HiddenNames
from deltacli.delta.log.actions import require_unreserved_keys
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.keys import encode_paths_as_binary, is_among
from deltacli.delta.paths.spelling import encode_path_bytes
from deltacli.engine.read_ahead import ReadAhead
from deltacli.operations.vacuum.candidates import (
    CandidateClassifier,
    Candidates,
    batches_of,
    choose,
    kept_files,
    outside_of,
    rows_at_once,
    spare_linked,
)
from deltacli.operations.vacuum.missing_files import choose_without_misnamed, misnamed_notes
from deltacli.operations.vacuum.plan import (
    Mode,
    TimeTravelRange,
    VacuumOutcome,
    VacuumPlan,
    VacuumRequest,
    VacuumResult,
)
from deltacli.operations.vacuum.plan_context import (
    MISSING_SHARE,
    PlanContext,
    common_refusals,
    contradiction_refusals,
    example_of,
    is_or_are,
    log_notes,
    logical_name_notes,
    lost_notes,
    make_plan,
    nested_refusals,
    newest_among,
    own_formats,
    prepare,
    reach_of,
    shared_refusals,
)
from deltacli.table.handle import TableHandle
from deltacli.table.hidden_names import build_hidden_names
from deltacli.table.nested_tables import find_tables_containing
from deltacli.table.rebuild import read_snapshot
from deltacli.table.walk import CachedWalk, TableWalk
from deltacli.work.files.walking import ListedFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow

    from deltacli.changing.execution import ChangeExecution
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot


_BATCHES_AHEAD = 4
"""Number of threads of a listing that is made while the log is read."""


@dataclass(frozen=True)
class VacuumChange:
    """A vacuum, to be planned and executed."""

    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_FILES

    request: VacuumRequest

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> VacuumPlan:
        require_unreserved_keys(self.request.commit_metadata)
        return plan_vacuum(table, self.request, snapshot=now)

    def outcome(self, plan: VacuumPlan) -> VacuumResult:
        return VacuumResult(plan, VacuumOutcome())

    def execute(self, execution: ChangeExecution[VacuumPlan, VacuumResult]) -> None:
        from deltacli.operations.vacuum.execute import execute_by

        execute_by(execution, self.request)


def vacuum(
    table: TableHandle, request: VacuumRequest, plan: VacuumPlan | None = None, *, accept_copy: bool = False
) -> VacuumResult:
    """Plan a vacuum, unless there is a plan, and execute it without a question. `accept_copy` accepts the plan of a
    table elsewhere with the same past. Raises what `execute_change` raises.
    """
    from deltacli.operations.vacuum.execute import bound, note_progress
    from deltacli.operations.vacuum.rechecking import adopted

    if plan is not None and (plan.made_from is None or accept_copy):
        plan = adopted(table, plan, accept_copy=accept_copy)
    elif plan is not None:
        plan = replace(plan, made_from=replace(plan.base_version, table=bound(table, plan)))
    result = execute_change(VacuumChange(request), table, plan=plan)
    note_progress(result.plan)
    return result


def plan_vacuum(
    table: TableHandle, request: VacuumRequest, *, snapshot: Snapshot | None = None, walk: CachedWalk | None = None
) -> VacuumPlan:
    """Determine which files can be deleted. Refusals are part of the plan; nothing is deleted. `snapshot` is the newest
    version where it was rebuilt before, `walk` the whole table where it is looked at several times: not to be executed.
    The plan is bound to the directory that the table is in now.

    Raises what `read_snapshot` raises for the newest version and for versions to keep; Refused where the protocol
    prevents deltacli from writing or the quarantine is in a table; UsageError for a prefix or a condition that does not
    fit this table.
    """
    table = table if snapshot else table.bind_to_directory()
    if request.quarantine is None:
        return _plan_of_mode(table, request, snapshot, walk)
    from deltacli.operations.vacuum.quarantine import open_quarantine

    quarantine = open_quarantine(table, request.quarantine)
    return replace(_plan_of_mode(table, request, snapshot, walk), quarantine=quarantine.uri)


def kept_walk(snapshot: Snapshot) -> CachedWalk | None:
    """Return a walk for several looks at the table of a newest version; None where tasks of a cluster list, in
    parallel, and where the version has no valid schema.
    """
    if snapshot.table.engine.may_repeat:
        return None
    try:
        return CachedWalk(snapshot.table.storage, build_hidden_names(snapshot, ()))
    except Unreadable:
        return None


def _plan_of_mode(
    table: TableHandle, request: VacuumRequest, known: Snapshot | None, kept: CachedWalk | None
) -> VacuumPlan:
    if request.mode is Mode.LITE:
        from deltacli.operations.vacuum.lite_plan import plan_lite

        return plan_lite(table, request)
    begun = table.machine.monotonic()
    snapshot = known or read_snapshot(table)
    names = build_hidden_names(snapshot, ())
    inventory = None if request.inventory is None else _InventoryListing(table, request.inventory)
    walk = kept or TableWalk(table.storage, names, request.prefix or "")
    if inventory is not None and request.prefix:
        walk.check_start_directory()
    by_tasks = table.engine.may_repeat and inventory is None and kept is None
    listing = iter(()) if by_tasks else walk.files() if inventory is None else inventory.files(request.prefix or "")
    with _begun(table.storage, listing) as listed:
        scope = _Listed(names, request.prefix)
        setting = prepare(table, request, snapshot, scope, listed_ms=None if inventory is None else inventory.made_ms)
        names = setting.hidden_names
        is_inventory = inventory is not None
        judge = CandidateClassifier(
            table.storage, setting.references, setting.keys, names, setting.cutoff_ms, is_inventory
        )
        with table.progress.step("listing the table", unit="files") as step:
            if by_tasks:
                deque(map(judge.merge, walk.classify_files(table, judge.known.sorted(), step.advance)), maxlen=0)
            for files in batches_of(listed, rows_at_once(setting.references)):
                judge.take(files)
                step.advance(len(files.paths))
    is_whole = inventory is None and not request.prefix
    old = spare_linked(judge, walk if is_whole else None, names_hidden=scope.hides)
    old = outside_of(old, setting.checkpoints)
    above = {} if inventory is None else find_tables_containing(table, old.column("path").combine_chunks())
    tables = judge.tables | walk.tables | above
    found = choose(old, _below(tables), setting.references, choose_without_misnamed(setting, judge))
    doubtful = [part["hash"].combine_chunks() for part in (found.lost, found.misnamed, found.with_logical_names)]
    judge.lost = pa.concat_arrays(doubtful)
    notes = [
        *viewed_notes(setting, judge.needed),
        *lost_notes(setting, found.lost),
        *misnamed_notes(setting, found.misnamed),
        *([unread_note(setting, found.unread, found.fault)] if found.unread.num_rows else ()),
        *logical_name_notes(found.with_logical_names),
        *log_notes(setting),
        *(inventory.notes() if inventory is not None else ()),
    ]
    plan = _plan(setting, judge, walk, found, tables, notes)
    return replace(plan, by_inventory=inventory is not None, looked_at=begun)


class _Listed:
    """Returns which keys a listing contains; `hides` is true once it was called with a hidden one."""

    def __init__(self, names: HiddenNames, prefix: str | None) -> None:
        self.names, self.prefix, self.hides = names, prefix, False

    def __call__(self, keys: ArrowArray) -> ArrowArray:
        is_hidden = self.names.mask(keys)
        self.hides = self.hides or bool(pc.any(is_hidden).as_py())
        visible = pc.invert(is_hidden)
        if not self.prefix:
            return visible
        return pc.and_(visible, pc.starts_with(keys, pattern=encode_path_bytes(self.prefix) + b"/"))


def _below(tables: Mapping[str, str]) -> list[str]:
    return [directory for directory in tables if directory]


def _plan(
    setting: PlanContext,
    judge: CandidateClassifier,
    walk: TableWalk,
    found: Candidates,
    tables: Mapping[str, str],
    notes: Sequence[str],
) -> VacuumPlan:
    request = setting.request
    expected, live = judge.live_found
    refusals: list[Refusal] = [
        *common_refusals(setting),
        *listing_refusals(judge.listed, expected, live),
        *contradiction_refusals(setting, found.rows),
        *shared_refusals({*judge.tables.items(), *tables.items()}, own_formats(setting)),
        *nested_refusals(request, _below(tables), found.in_nested),
    ]
    lost = FileTotals(expected.files - live.files, expected.size_bytes - live.size_bytes)
    if request.inventory is not None:
        from deltacli.operations.vacuum.inventory_names import find_encoded_names

        refusals += find_encoded_names(setting.table.storage, found.rows.column("path").combine_chunks())
        lost = FileTotals()  # it may be older than these files
    reach = find_time_travel(setting, judge, found.hashes)
    return make_plan(
        setting,
        found.rows,
        live,
        refusals,
        missing_live=lost,
        kept=kept_files(judge, found, walk, _below(tables)),
        needed=judge.needed,
        notes=(*notes, *missing_notes(setting, lost)),
        directories=() if request.where else _removable(judge, walk, [*_below(tables), *setting.checkpoints]),
        reach=reach._replace(first_version=None, first_ms=None) if lost.files else reach,
        horizon=find_horizon(setting, judge) if setting.is_whole else None,
    )


def listing_refusals(listed: int, expected: FileTotals, actual: FileTotals) -> Iterator[Refusal]:
    """Yield a refusal if the listing lacks files that the log names."""
    if not expected.files:
        return
    missing = FileTotals(expected.files - actual.files, expected.size_bytes - actual.size_bytes)
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


def find_time_travel(setting: PlanContext, judge: CandidateClassifier, candidates: Any) -> TimeTravelRange:
    """Return the remaining range of time travel and change feeds; `candidates` are hashes (Any: an int64 array).

    A version is complete if every file that a later commit removed still exists. Without a listing of the whole table
    only the deletions of this plan count.
    """
    removed = setting.references.removed
    goes = pc.is_in(removed.hashes, value_set=candidates)
    if setting.is_whole:
        lost_before = pc.and_not(pc.invert(judge.removed_stays), goes)
    else:
        lost_before = pc.and_(goes, pc.invert(goes))
    return reach_of(setting, newest_among(removed.other, lost_before), newest_among(removed.other, goes), candidates)


def find_horizon(setting: PlanContext, judge: CandidateClassifier) -> int | None:
    """Return the newest version up to which all eligible files are deleted after the plan: below every removal whose
    file is kept although it is not live. None where there is none.
    """
    references = setting.references
    end = references.window.last_before
    if end is None or references.unknown_vector is not None:
        return None
    changes = references.changes
    changes_stay = pc.is_in(changes.hashes, value_set=pa.concat_arrays([judge.needed, *judge.young]))
    live = pa.concat_arrays([references.live, references.live_written, references.live_vectors])
    for source, stays in ((references.removed, judge.removed_stays), (changes, changes_stay)):
        is_late = pc.and_(stays, pc.fill_null(pc.less_equal(source.other, end), False))
        late = pc.filter(source.hashes, is_late)
        if not len(late):
            continue
        versions = pc.filter(pc.filter(source.other, is_late), pc.invert(is_among(late, live)))
        first = pc.min(versions).as_py()
        end = end if first is None else min(end, first - 1)
    return end if end >= 0 else None


def viewed_notes(setting: PlanContext, needed: ArrowArray) -> Iterator[str]:
    """Yield a note where listed files are kept for a symlink manifest alone; `needed` are hashes of listed files."""
    viewed = setting.references.viewed
    kept = 0 if viewed is None else pc.sum(pc.is_in(viewed, value_set=needed)).as_py() or 0
    if kept:
        yield f"{plural(kept, 'file')} kept, because a manifest in {MANIFESTS} names {'it' if kept == 1 else 'them'}"


def missing_notes(setting: PlanContext, lost: FileTotals) -> Iterator[str]:
    """Return a note on live files that are not in the listing."""
    if lost.files:
        is_are, them = is_or_are(lost.files)
        table = setting.table.address
        way = f"to see and recover {them}: {command('repair', table=table, dry_run=True)}"
        if setting.snapshot.protocol.is_catalog_managed:
            way = f"to see which versions can be read: {command('reach', table=table)}"
        yield (
            f"{plural(lost.files, 'live file')} ({format_size(lost.size_bytes)}) {is_are} missing, so version "
            f"{setting.snapshot.version} cannot be read completely; {way}"
        )


def unread_note(setting: PlanContext, rows: pyarrow.Table, fault: Unreadable | None) -> str:
    """Return a note on files that were kept because an older checkpoint is damaged."""
    count, (is_are, them) = rows.num_rows, is_or_are(rows.num_rows)
    reason = "" if fault is None else f": {fault.message} [{fault.code}]"
    return (
        f"{plural(count, 'file')} {is_are} kept ({example_of(rows)}), because a damaged older checkpoint may name "
        f"{them}{reason}; to see all damage: {command('validate', table=setting.table.address)}"
    )


@contextmanager
def _begun(storage: ReadStorage, listing: Iterator[ListedFiles]) -> Iterator[Iterator[ListedFiles]]:
    """Return the listing, made while the log is read if that is faster: not on a local disk."""
    if storage.capabilities.has_cheap_requests or storage.capabilities.parallel_reads == 1:
        yield listing
        return
    ahead = ReadAhead(listing, depth=_BATCHES_AHEAD)
    try:
        yield ahead
    finally:
        ahead.close()


def _removable(judge: CandidateClassifier, walk: TableWalk, nested: Sequence[str]) -> tuple[str, ...]:
    """Return the old empty directories, deepest first, without hidden ones and those of other tables."""
    inside = tuple(f"{directory}/" for directory in nested)
    old = [path for path, modified_ms in walk.empty_directories if modified_ms < judge.cutoff_ms]
    hidden = judge.names.mask(encode_paths_as_binary(old)).to_pylist()
    free = (path for path, is_hidden in zip(old, hidden, strict=True) if not is_hidden)
    ours = (path for path in free if not f"{path}/".startswith(inside))
    return tuple(sorted(ours, key=lambda path: (-path.count("/"), path)))


class _InventoryListing:
    """The files of a listing made by the store, an inventory, which is used instead of listing the table.

    `made_ms` is when the inventory was started, or, where unknown, written: it lacks later files.
    """

    def __init__(self, table: TableHandle, place: str) -> None:
        from deltacli.work.inventory.files import split_location
        from deltacli.work.inventory.reading import open_inventory

        self._inventory = open_inventory(place, table.open_other, (table.uri, *table.storage.aliases))
        directory, name = split_location(place)
        created = self._inventory.created_ms
        self.made_ms = table.open_other(directory).stat(name).modified_ms if created is None else created
        self._outside = self._without_time = 0

    def files(self, directory: str = "") -> Iterator[ListedFiles]:
        """Yield the files below a directory. Raises Unreadable (`vacuum.inventory`)."""
        below = encode_path_bytes(directory) + b"/"
        for batch in self._inventory.batches():
            self._outside += batch.outside
            self._without_time += batch.without_time
            is_wanted = pc.invert(pc.starts_with(batch.paths, pattern=f"{LOG_DIRECTORY}/"))
            if directory:
                is_wanted = pc.and_(is_wanted, pc.starts_with(batch.paths, pattern=below))
            yield ListedFiles(*(pc.filter(column, is_wanted) for column in batch[:3]))

    def notes(self) -> Iterator[str]:
        """Return the notes, once the files were read."""
        yield f"the inventory was made at {format_timestamp(self.made_ms)}; files written since are kept"
        if self._outside:
            yield f"{plural(self._outside, 'row')} of the inventory are outside the table"
        if self._without_time:
            yield f"{plural(self._without_time, 'row')} of the inventory have no time or size; these files are kept"
