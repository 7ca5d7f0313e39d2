"""`doctor table`: one replay of the log, one pass over the live files, the check of `validate` that they are all there,
and the planners of the commands that the advice names. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from deltacli.arrow import compute as pc
from deltacli.core.errors import CommitCorrupt, DataUnreadable, FileMissing, Refused, Unreadable, UsageError
from deltacli.core.hints import command
from deltacli.core.typing import RecordBatch
from deltacli.delta.protocol.property_values import deleted_file_retention_ms
from deltacli.delta.schema.stray_partitions import require_partitions
from deltacli.operations.change.table_features import list_features
from deltacli.operations.doctor.table import advice as codes
from deltacli.operations.doctor.table.advice import Advice
from deltacli.operations.doctor.table.commits import read_timeline
from deltacli.operations.doctor.table.examined import Examined, TableReport, Tombstones
from deltacli.operations.doctor.table.file_advice import file_advice, lost_advice
from deltacli.operations.doctor.table.live_state import LiveState, live_state, statistics_state
from deltacli.operations.doctor.table.log_advice import log_advice, problem_advice
from deltacli.operations.doctor.table.prices import DoctorRequest, prices_of
from deltacli.operations.log.expire import ExpiryRequest, plan_expiry
from deltacli.operations.optimize.planning import plan_of_files
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.vacuum.full_plan import kept_walk, plan_vacuum
from deltacli.operations.vacuum.request import VacuumRequest
from deltacli.operations.validate.inspect_storage import list_log_whole
from deltacli.operations.validate.request import LevelChoice, ValidateRequest
from deltacli.operations.validate.validate import Validation, validate_table
from deltacli.storage.base import StoreOfVersions
from deltacli.table.rebuild import read_newest_readable

if TYPE_CHECKING:
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.operations.vacuum.plan import VacuumPlan
    from deltacli.operations.validate.inspect_storage import WholeLog
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.table.walk import KeptWalk

Plan = TypeVar("Plan")


def examine_table(table: TableHandle, request: DoctorRequest) -> TableReport:
    """Return the state of the newest version in numbers, and advice: lost files, else what saves most first. Where
    commits are missing, return the state of the newest version that can be rebuilt, without advice.

    Raises what `read_newest_readable` and `require_partitions` raise, and UsageError for a shared table.
    """
    if isinstance(table.storage, StoreOfVersions):
        raise UsageError(
            "doctor table works on Delta tables only: the provider of a shared table cares for its files",
            hint=command("snapshot"),
        )
    snapshot, gap = read_newest_readable(table)
    require_partitions(snapshot.config, snapshot.version)
    whole = list_log_whole(table.storage, table.progress)
    state = live_state(snapshot, sum(piece.group.rows for piece in snapshot.file_actions.pieces))
    facts = Examined(
        snapshot=snapshot,
        now_ms=table.clock(),
        prices=request.prices or prices_of(table.storage),
        whole=whole,
        state=state,
        statistics=statistics_state(snapshot, state),
        tombstones=_tombstones(snapshot, table.clock()),
        timeline=read_timeline(snapshot, whole.listing, state.count, state.size_bytes),
        features=list_features(snapshot),
        gap=gap,
    )
    if gap is not None:
        facts.notes.append(
            "no advice until the missing commits are back: nothing should be rewritten or deleted before"
        )
        return TableReport(facts, ())
    facts = _with_plans(facts, listing=request.listing)
    return TableReport(facts, tuple(_advice(facts)))


def _with_plans(facts: Examined, *, listing: bool) -> Examined:
    """Return what is known of a table with the plans of the commands that advice names."""
    snapshot, whole, notes = facts.snapshot, facts.whole, facts.notes
    table, walk = snapshot.table, kept_walk(snapshot)
    lost = _planned(notes, "files that are missing", lambda: _lost(table, whole, walk) if listing else None)

    def vacuum_plan() -> VacuumPlan | None:
        request = VacuumRequest(dry_run=True)
        return plan_vacuum(table, request, snapshot=snapshot, walk=walk) if listing else None

    return replace(
        facts,
        optimize=_planned(notes, "data files", lambda: _optimization(snapshot, facts.state, lost)),
        vacuum=_planned(notes, "unreferenced files", vacuum_plan),
        expiry=_planned(
            notes, "the log", lambda: plan_expiry(table, ExpiryRequest(dry_run=True), snapshot=snapshot, whole=whole)
        ),
        lost=lost,
    )


def _lost(table: TableHandle, whole: WholeLog, walk: KeptWalk | None) -> Validation:
    """Look for files of live rows and of deletion vectors that are missing, or have another size than in the log."""
    from deltacli.rules.files.storage import FILE_MISSING, SIZE_MISMATCH
    from deltacli.rules.files.vector_files import FILE_MISSING as VECTOR_FILE_MISSING

    rules = (FILE_MISSING.id, SIZE_MISMATCH.id, VECTOR_FILE_MISSING.id)
    request = ValidateRequest(level=LevelChoice.STORAGE, select=rules)
    return validate_table(table, request, whole=whole, walk=walk)


_REWRITING = frozenset({codes.SMALL_FILES, codes.DELETED_ROWS, codes.NO_STATISTICS})


def _advice(facts: Examined) -> list[Advice]:
    """Return the advice in an order in which each command works after those before it."""
    if lost := list(lost_advice(facts)):
        facts.notes.append("no other advice until these files are back: nothing should be rewritten or deleted before")
        return [*lost, *problem_advice(facts)]
    found = list(chain(file_advice(facts), log_advice(facts)))
    found.sort(key=lambda one: (-one.worth, list(type(one.severity)).index(one.severity)))
    # A vacuum comes before what rewrites files: afterwards the old files are most of the table, and it is refused.
    place = next((place for place, one in enumerate(found) if one.code == codes.UNREFERENCED), 0)
    first = next((place for place, one in enumerate(found[:place]) if one.code in _REWRITING), place)
    if first < place:
        found.insert(first, found.pop(place))
    return found


def _optimization(snapshot: Snapshot, state: LiveState, lost: Validation | None) -> OptimizePlan:
    """Plan in numbers only where files are lost: nothing is advised then, and all might be opened in vain."""
    if not state.is_typed:
        raise Unreadable("partition values are not of the types of their columns", code="partition.unparsable")
    return plan_of_files(
        snapshot, OptimizeRequest(dry_run=True), state.live, open_files=lost is None or not lost.findings
    )


def _planned(notes: list[str], what: str, plan: Callable[[], Plan]) -> Plan | None:
    """Return a plan; None, with a note, where it cannot be made."""
    try:
        return plan()
    except (Unreadable, CommitCorrupt, DataUnreadable, FileMissing, Refused) as fault:
        notes.append(f"no advice on {what}: {fault.message}")
        return None


def _tombstones(snapshot: Snapshot, now_ms: int) -> Tombstones:
    cutoff_ms = now_ms - deleted_file_retention_ms(snapshot.properties)

    def counted(removes: RecordBatch) -> tuple[int, int, int, int]:
        moments, sizes = pc.fill_null(removes.column("deletionTimestamp"), 0), removes.column("size")
        expired = pc.sum(pc.less_equal(moments, cutoff_ms)).as_py() or 0
        return removes.num_rows, expired, pc.sum(sizes).as_py() or 0, sizes.null_count

    parts = list(snapshot.file_actions.map_actions("remove", counted, fields=("deletionTimestamp", "size")))
    count, expired, size_bytes, unknown = (
        (sum(column) for column in zip(*parts, strict=True)) if parts else (0, 0, 0, 0)
    )
    return Tombstones(count, expired, None if unknown else size_bytes)
