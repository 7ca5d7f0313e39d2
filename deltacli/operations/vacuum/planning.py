"""Planning a vacuum: everything is looked at, nothing is changed.

Spec: Add File and Remove File; Protocol Evolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import read_metadata
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.protocol.properties import deleted_file_retention_ms, portable_file_retention_ms
from deltacli.delta.protocol.protocol import require_committable
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.vacuum.keys import PathKeys, binary_paths
from deltacli.delta.vacuum.names import HiddenNames
from deltacli.engine.ahead import ReadAhead
from deltacli.errors import DeltacliError, Unreadable
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.log import list_log
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.time_travel import last_commit_before
from deltacli.operations.table.version import Snapshot
from deltacli.operations.vacuum.candidates import (
    CandidateChoice,
    CandidateClassifier,
    Candidates,
    batches_of,
    choose,
    kept_files,
    rows_at_once,
)
from deltacli.operations.vacuum.contradictions import (
    checksum_refusals,
    doubts,
    retention_contradictions,
)
from deltacli.operations.vacuum.guards import (
    allows_below,
    clock_refusals,
    limit_refusals,
    listing_refusals,
    log_refusals,
    nested_refusals,
    outer_refusals,
    property_refusals,
    retention_refusals,
    shared_refusals,
)
from deltacli.operations.vacuum.lost_notes import lost_notes, unread_note
from deltacli.operations.vacuum.plan import Amount, Mode, ProtectedTable, Refusal, VacuumPlan
from deltacli.operations.vacuum.references import References, Scope, collect_references, find_window
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.operations.vacuum.surroundings.links import spare_linked
from deltacli.operations.vacuum.surroundings.other_tables import tables_above, tables_around
from deltacli.operations.vacuum.surroundings.protecting import open_protected, protected_table
from deltacli.operations.vacuum.surroundings.walk import TableWalk
from deltacli.operations.vacuum.time_travel_range import find_horizon, find_reach
from deltacli.storage import folds_names
from deltacli.units import format_duration, format_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltacli.operations.vacuum.candidates import ListedFiles
    from deltacli.operations.vacuum.surroundings.inventories import InventoryListing
    from deltacli.storage import Storage

_ICEBERG_FEATURES = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
_BATCHES_AHEAD = 4
"""Of a listing that is made while the log is read."""

_UNIVERSAL = "delta.universalFormat.enabledFormats"


class PlanContext(NamedTuple):
    """What a plan is made from."""

    table: TableHandle
    request: VacuumRequest
    snapshot: Snapshot
    now_ms: int
    own_ms: int
    tombstones_ms: int
    """How long tombstones are kept for certain: the least of the table's own retentions that the log tells of."""
    retention_ms: int
    cutoff_ms: int
    keys: PathKeys
    references: References
    protected: tuple[ProtectedTable, ...]
    """The tables whose files stay because somebody asked for it."""
    first: TableConfiguration | None
    """What was in force at the oldest version that can be rebuilt; None where nobody knows."""

    @property
    def hidden_names(self) -> HiddenNames:
        """The rules of hidden names, with the partition columns of every version."""
        return hidden_names(self.snapshot, self.references.metadata, self.first)

    @property
    def is_proven(self) -> bool:
        """True if the log tells of every removal since the cutoff, by commits or by tombstones."""
        return self.references.window.reaches_back or self.retention_ms <= self.tombstones_ms

    @property
    def is_listed(self) -> bool:
        """True if the plan is made from a listing of the table."""
        return self.request.mode is Mode.FULL and self.request.inventory is None

    @property
    def is_whole(self) -> bool:
        """True if the plan covers the whole table, by a listing of its own."""
        return not (self.request.prefix or self.request.where or self.request.inventory)


def plan_vacuum(table: TableHandle, request: VacuumRequest) -> VacuumPlan:
    """Decide what can go. Refusals are part of the plan; nothing is deleted.

    Raises what `read_snapshot` raises for the newest version, and for versions to be kept; Refused where the protocol
    keeps deltacli from writing; UsageError for a prefix or a condition that is none of this table.
    """
    if request.mode is Mode.LITE:
        from deltacli.operations.vacuum.lite import plan_lite

        return plan_lite(table, request)
    begun = monotonic()
    snapshot = read_snapshot(table)
    names = hidden_names(snapshot, ())
    inventory = None if request.inventory is None else _open_inventory(table, request.inventory)
    walk = TableWalk(table.storage, names, request.prefix or "")
    if inventory is not None and request.prefix:
        walk.require_part()
    listing = walk.files() if inventory is None else inventory.files(request.prefix or "")
    with _begun(table.storage, listing) as listed:
        scope = _Listed(names, request.prefix)
        setting = prepare(table, request, snapshot, scope, listed_ms=None if inventory is None else inventory.made_ms)
        names = setting.hidden_names
        is_inventory = inventory is not None
        judge = CandidateClassifier(
            table.storage, setting.references, setting.keys, names, setting.cutoff_ms, is_inventory
        )
        with table.progress.step("listing the table", unit="files") as step:
            for files in batches_of(listed, rows_at_once(setting.references)):
                judge.take(files)
                step.advance(len(files.paths))
    is_whole = inventory is None and not request.prefix
    old = spare_linked(judge, walk if is_whole else None, names_hidden=scope.hides)
    above = {} if inventory is None else tables_above(table, old.column("path").combine_chunks())
    tables = judge.tables | walk.tables | above
    found = choose(old, _below(tables), setting.references, choice_of(setting))
    judge.lost = found.lost.column("hash").combine_chunks()
    notes = [
        *lost_notes(setting, found.lost),
        *([unread_note(setting, found.unread, found.fault)] if found.unread.num_rows else ()),
        *log_notes(setting),
        *(inventory.notes() if inventory is not None else ()),
    ]
    plan = _plan(setting, judge, walk, found, tables, notes)
    return replace(plan, by_inventory=inventory is not None, looked_at=begun)


def prepare(
    table: TableHandle,
    request: VacuumRequest,
    snapshot: Snapshot,
    scope: Scope | None = None,
    *,
    removals_since: int | None = None,
    listed_ms: int | None = None,
) -> PlanContext:
    """Read the log for everything that must stay; `listed_ms` is when the listing was made, where it is not made now.

    Raises as `plan_vacuum`.
    """
    require_committable(snapshot.protocol, snapshot.properties, snapshot.version)
    now_ms = table.clock()
    own_ms = deleted_file_retention_ms(snapshot.properties)
    retention_ms = own_ms if request.retention_ms is None else request.retention_ms
    cutoff_ms = now_ms - retention_ms
    keys = PathKeys((table.uri, *table.storage.aliases), folds_case=folds_names(table.storage))
    listing = list_log(table.storage, progress=table.progress)
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
    first = _first_config(snapshot, references)
    kept_ms = own_ms if window.reaches_back else _least_own_ms(snapshot, references, first)
    protected = tuple(map(protected_table, protect))
    return PlanContext(
        *(table, request, snapshot, now_ms, own_ms, kept_ms, retention_ms, cutoff_ms, keys, references),
        protected=protected,
        first=first,
    )


def _first_config(snapshot: Snapshot, references: References) -> TableConfiguration | None:
    """What was in force at the oldest version that can be rebuilt: what commits have changed since, perhaps only a
    checkpoint tells. None where nobody knows.
    """
    if not references.metadata:
        return snapshot.config
    try:
        return read_snapshot(snapshot.table, version=min(references.listing.reconstructable)).config
    except (Unreadable, ValueError):
        return None


def _least_own_ms(snapshot: Snapshot, references: References, first: TableConfiguration | None) -> int:
    """The table's own retention when it was shortest, for whatever engine, as far as the log tells: checkpoints of that
    time left tombstones out that protect by now.
    """
    if first is None:
        return 0
    configurations = [snapshot.properties, first.properties]
    configurations += [found for one in references.metadata if isinstance(found := one.get("configuration"), dict)]
    return min(map(portable_file_retention_ms, configurations))


def hidden_names(
    snapshot: Snapshot, metadata: Sequence[Action], first: TableConfiguration | None = None
) -> HiddenNames:
    """The rules of hidden names, with the partition columns of now, of all the metaData actions given, and of a first
    version.
    """
    columns = _partition_names(snapshot.config) | (_partition_names(first) if first is not None else set())
    for action in metadata:
        try:
            found = read_metadata(action, "a commit")
            schema = parse_schema(found.schema_string) if found.schema_string else None
        except DeltacliError:
            continue  # an older metaData that nobody can read any more protects nothing
        columns |= _partition_names(TableConfiguration(snapshot.protocol, found, schema))
    return HiddenNames(sorted(columns), hides_metadata="iceberg" in _own_formats(snapshot, metadata, first))


def _partition_names(config: TableConfiguration) -> set[str]:
    logical = config.metadata.partition_columns if config.metadata else ()
    fields = {column.name: column for column in (config.schema.fields if config.schema else ())}
    physical = (fields[name].metadata.get("delta.columnMapping.physicalName") for name in logical if name in fields)
    return {*logical, *(name for name in physical if isinstance(name, str))}


def own_formats(setting: PlanContext) -> set[str]:
    """The formats that the table is kept readable as, or was."""
    return _own_formats(setting.snapshot, setting.references.metadata, setting.first)


def _own_formats(snapshot: Snapshot, metadata: Sequence[Action], first: TableConfiguration | None) -> set[str]:
    """The formats that the table is kept readable as, or was: what they put into its directory is its own."""
    regimes = [snapshot.config] if first is None else [snapshot.config, first]
    configurations = [*(one.properties for one in regimes), *(action.get("configuration") for action in metadata)]
    texts = [one.get(_UNIVERSAL) for one in configurations if isinstance(one, Mapping)]
    found = {name.strip().lower() for text in texts if isinstance(text, str) for name in text.split(",")}
    if any(not one.features.isdisjoint(_ICEBERG_FEATURES) for one in regimes):
        found.add("iceberg")
    return found


@dataclass
class _Listed:
    """Says which keys a listing shows; `hides` is true once it was asked of a hidden one."""

    names: HiddenNames
    prefix: str | None
    hides: bool = False

    def __call__(self, keys: Any) -> Any:  # Any: binary in, boolean out
        is_hidden = self.names.mask(keys)
        self.hides = self.hides or bool(pc.any(is_hidden).as_py())
        visible = pc.invert(is_hidden)
        if not self.prefix:
            return visible
        return pc.and_(visible, pc.starts_with(keys, pattern=self.prefix.encode("utf-8", "surrogateescape") + b"/"))


def choice_of(setting: PlanContext) -> CandidateChoice:
    """What limits the candidates, as it was asked for."""
    request, selector = setting.request, None
    if request.where is not None:
        from deltacli.delta.vacuum.partition_paths import PartitionSelector

        selector = PartitionSelector(setting.snapshot.config, request.where)
    return CandidateChoice(
        include_foreign=request.include_foreign,
        selector=selector,
        proven_only=not setting.is_proven,
        find_doubts=partial(doubts, setting),
    )


def log_notes(setting: PlanContext) -> Iterator[str]:
    """What the log can't tell."""
    references = setting.references
    if not setting.is_proven:
        yield (
            f"the log does not reach back {format_duration(setting.retention_ms)}, to "
            f"{format_timestamp(setting.cutoff_ms)}, and tombstones are kept {format_duration(setting.tombstones_ms)}: "
            "files whose removal can't be dated are kept"
        )
    if references.unknown_vector is not None:
        yield (
            "the log names a deletion vector whose file can't be told "
            f"({references.unknown_vector[:60]}): every file of deletion vectors is kept"
        )


def _below(tables: Mapping[str, str]) -> list[str]:
    """The directories of tables below the root."""
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
    own = own_formats(setting)
    expected, live = judge.live_found
    amount = Amount(found.rows.num_rows, pc.sum(found.rows.column("sizeBytes")).as_py() or 0)
    refusals: list[Refusal] = [
        *common_refusals(setting),
        *listing_refusals(judge.listed, expected, live),
        *contradiction_refusals(setting, found.rows),
        *shared_refusals({*judge.tables.items(), *tables.items()}, own),
        *nested_refusals(request, _below(tables), found.in_nested),
        *limit_refusals(request, amount, live),
    ]
    return make_plan(
        setting,
        found.rows,
        kept=kept_files(judge, found, walk, _below(tables)),
        refusals=tuple(refusals),
        notes=tuple(notes),
        directories=() if request.where else _removable(judge, walk, _below(tables)),
        reach=find_reach(setting, judge, found.hashes),
        horizon=find_horizon(setting, judge) if setting.is_whole else None,
    )


def _open_inventory(table: TableHandle, place: str) -> InventoryListing:
    from deltacli.operations.vacuum.surroundings.inventories import InventoryListing

    return InventoryListing(table, place)


@contextmanager
def _begun(storage: Storage, listing: Iterator[ListedFiles]) -> Iterator[Iterator[ListedFiles]]:
    """The listing, made while the log is read where it waits for a network; on a disk two threads only take turns."""
    if storage.capabilities.cheap_listing:
        yield listing
        return
    ahead = ReadAhead(listing, depth=_BATCHES_AHEAD)
    try:
        yield ahead
    finally:
        ahead.close()


def _removable(judge: CandidateClassifier, walk: TableWalk, nested: Sequence[str]) -> tuple[str, ...]:
    """The old empty directories, deepest first: none that is hidden, none of another table."""
    inside = tuple(f"{directory}/" for directory in nested)
    old = [path for path, modified_ms in walk.empty_directories if modified_ms < judge.cutoff_ms]
    hidden = judge.names.mask(binary_paths(old)).to_pylist()
    free = (path for path, is_hidden in zip(old, hidden, strict=True) if not is_hidden)
    ours = (path for path in free if not f"{path}/".startswith(inside))
    return tuple(sorted(ours, key=lambda path: (-path.count("/"), path)))


def common_refusals(setting: PlanContext) -> Iterator[Refusal]:
    """What both modes look at."""
    yield from retention_refusals(setting.request, setting.retention_ms, setting.own_ms)
    yield from property_refusals(setting.request, setting.snapshot.properties)
    yield from log_refusals(setting.references)
    yield from clock_refusals(setting.snapshot, setting.references, setting.now_ms)
    yield from outer_refusals(tables_around(setting.table), _protected(setting))


def contradiction_refusals(setting: PlanContext, rows: Any) -> Iterator[Refusal]:  # Any: an Arrow table
    """What contradicts the state where something would be deleted."""
    if rows.num_rows:
        yield from retention_contradictions(setting)
        yield from checksum_refusals(setting)


def _protected(setting: PlanContext) -> set[str]:
    """The URIs of the tables whose files stay because somebody asked for it."""
    stores = map(setting.table.open_other, setting.request.protect_from)
    return {uri for storage in stores for uri in (storage.uri, *storage.aliases)}


def make_plan(setting: PlanContext, rows: Any, **parts: Any) -> VacuumPlan:  # Any: an Arrow table; parts of the plan
    """The plan of a setting and its candidates."""
    request = setting.request
    return VacuumPlan(
        table=setting.table.uri,
        table_id=setting.snapshot.metadata.id,
        mode=request.mode,
        snapshot_version=setting.snapshot.version,
        now_ms=setting.now_ms,
        retention_ms=setting.retention_ms,
        own_retention_ms=setting.own_ms,
        cutoff_ms=setting.cutoff_ms,
        candidates=rows,
        selection=request.where or request.prefix,
        allows_below=allows_below(request, setting.own_ms),
        protected=setting.protected,
        **parts,
    )
