"""The parts of a vacuum plan that both modes share: refusals, notes, and the plan itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from deltacli.operations.vacuum.candidates import CandidateChoice
from deltacli.operations.vacuum.contradictions import checksum_refusals, doubts, retention_contradictions
from deltacli.operations.vacuum.guards import (
    allows_below,
    clock_refusals,
    log_refusals,
    outer_refusals,
    property_refusals,
    retention_refusals,
)
from deltacli.operations.vacuum.plan import Refusal, VacuumPlan
from deltacli.operations.vacuum.plan_context import PlanContext
from deltacli.operations.vacuum.request import Mode
from deltacli.operations.vacuum.surroundings.other_tables import tables_around
from deltacli.typing import ArrowTable
from deltacli.units import format_duration, format_timestamp


def choice_of(setting: PlanContext) -> CandidateChoice:
    """Return the requested limit of the candidates."""
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
    """Return notes on information that the log lacks."""
    references = setting.references
    if not setting.is_proven:
        yield (
            f"the log does not reach back {format_duration(setting.retention_ms)}, to "
            f"{format_timestamp(setting.cutoff_ms)}, and tombstones are kept for "
            f"{format_duration(setting.tombstones_ms)}: files whose removal time is unknown are kept"
        )
    if references.unknown_vector is not None:
        yield (
            "the log names a deletion vector whose file is unknown "
            f"({references.unknown_vector[:60]}): every file of deletion vectors is kept"
        )


def common_refusals(setting: PlanContext) -> Iterator[Refusal]:
    """Return the guards of both modes."""
    yield from retention_refusals(setting.request, setting.retention_ms, setting.own_ms)
    yield from property_refusals(setting.request, setting.snapshot.properties)
    yield from log_refusals(setting.references)
    yield from clock_refusals(setting.snapshot, setting.references, setting.now_ms)
    yield from outer_refusals(tables_around(setting.table), _protected(setting))


def contradiction_refusals(setting: PlanContext, rows: ArrowTable) -> Iterator[Refusal]:
    """Return contradictions to the state, if anything would be deleted."""
    if rows.num_rows:
        yield from retention_contradictions(setting)
        yield from checksum_refusals(setting)


def _protected(setting: PlanContext) -> set[str]:
    """Return the URIs of the tables given by `--protect-from`."""
    stores = map(setting.table.open_other, setting.request.protect_from)
    return {uri for storage in stores for uri in (storage.uri, *storage.aliases)}


def make_plan(setting: PlanContext, rows: Any, **parts: Any) -> VacuumPlan:  # Any: an Arrow table; parts of the plan
    """Return the plan of a setting and its candidates."""
    request = setting.request
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
        selection=request.where or request.prefix,
        allows_below=allows_below(request, setting.own_ms),
        protected=setting.protected,
        copied_ms=_copied_ms(setting),
        **parts,
    )


def _copied_ms(setting: PlanContext) -> int | None:
    """Return the newest time of a log whose commits are all retained, though the table was created before the cutoff:
    it was copied. None for other logs.
    """
    references = setting.references
    created = [action.get("createdTime") for action in references.metadata]
    is_old = any(isinstance(moment, int) and moment < setting.cutoff_ms for moment in created)
    if references.window.last_before is not None or not is_old:
        return None
    return max((file.modified_ms for file in references.listing.commits.values()), default=None)
