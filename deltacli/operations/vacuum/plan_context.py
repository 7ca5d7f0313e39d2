"""The input of a vacuum plan: the request, the state of the table, and every file to keep."""

from __future__ import annotations

from typing import NamedTuple

from deltacli.changing.basis import basis_of, require_same
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.protocol.property_values import deleted_file_retention_ms, portable_file_retention_ms
from deltacli.delta.protocol.protocol_action import require_committable
from deltacli.delta.vacuum.file_kinds import HiddenNames
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.errors import Unreadable
from deltacli.operations.table.find_log import list_log
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.table.time_travel import last_commit_before
from deltacli.operations.table.version import Snapshot
from deltacli.operations.table.walk import hidden_names, readable_formats
from deltacli.operations.vacuum.plan import ProtectedTable
from deltacli.operations.vacuum.rechecking import open_protected, protected_table, with_codes_of_vacuum
from deltacli.operations.vacuum.references import References, Scope, collect_references, find_window
from deltacli.operations.vacuum.request import Mode, VacuumRequest
from deltacli.storage import folds_names


class PlanContext(NamedTuple):
    """The input of a plan."""

    table: TableHandle
    request: VacuumRequest
    snapshot: Snapshot
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
    with with_codes_of_vacuum():
        require_same(basis_of(snapshot), listing)
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
