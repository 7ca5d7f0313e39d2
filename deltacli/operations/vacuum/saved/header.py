"""The fields of a plan besides its candidates, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from deltacli.operations.vacuum.plan import Amount, Kept, ProtectedTable, Refusal, TimeTravelRange, VacuumPlan
from deltacli.operations.vacuum.request import Mode
from deltacli.typing import Json

if TYPE_CHECKING:
    import pyarrow

FORMAT_VERSIONS = (1, 2)
"""Of plans without a quarantine, and with one: who knows only the first would delete without copies."""

Kind = TypeVar("Kind")


def header_of(plan: VacuumPlan) -> dict[str, Any]:
    """Return the header of a plan's file, without the digest."""
    return {
        "formatVersion": FORMAT_VERSIONS[plan.quarantine is not None],
        "planId": plan.plan_id,
        "files": plan.files,
        "sizeBytes": plan.size_bytes,
        "table": plan.table,
        "tableId": plan.table_id,
        "mode": plan.mode.value,
        "snapshotVersion": plan.snapshot_version,
        "snapshotSha256": plan.snapshot_sha256,
        "nowMs": plan.now_ms,
        "retentionMs": plan.retention_ms,
        "ownRetentionMs": plan.own_retention_ms,
        "cutoffMs": plan.cutoff_ms,
        "allowsBelow": plan.allows_below,
        "kept": _kept_as_json(plan.kept),
        "refusals": [list(refusal) for refusal in plan.refusals],
        "notes": list(plan.notes),
        "directories": list(plan.directories),
        "reach": {
            "firstVersion": plan.reach.first_version,
            "firstMs": plan.reach.first_ms,
            "oldestBefore": plan.reach.oldest_before,
            "lostFeed": None if plan.reach.lost_feed is None else list(plan.reach.lost_feed),
            "keptVersions": list(plan.reach.kept_versions),
        },
        "selection": plan.selection,
        "horizon": plan.horizon,
        "byInventory": plan.by_inventory,
        **({} if plan.quarantine is None else {"quarantine": plan.quarantine}),
        "protected": [list(one) for one in plan.protected],
    }


def plan_of(header: Mapping[str, Any], candidates: pyarrow.Table) -> VacuumPlan:
    """Return the plan of a header and its candidates. Raises ValueError and LookupError for an invalid header."""
    plan = VacuumPlan(
        table=_get(header, "table", str),
        table_id=_get(header, "tableId", str),
        mode=Mode(_get(header, "mode", str)),
        snapshot_version=_get(header, "snapshotVersion", int),
        snapshot_sha256=_find(header, "snapshotSha256", str),
        now_ms=_get(header, "nowMs", int),
        retention_ms=_get(header, "retentionMs", int),
        own_retention_ms=_get(header, "ownRetentionMs", int),
        cutoff_ms=_get(header, "cutoffMs", int),
        candidates=candidates,
        kept=_read_kept(_get(header, "kept", dict)),
        refusals=tuple(map(_read_refusal, _get(header, "refusals", list))),
        notes=_texts(header, "notes"),
        directories=_texts(header, "directories"),
        reach=_read_reach(_get(header, "reach", dict)),
        selection=_find(header, "selection", str),
        horizon=_find(header, "horizon", int),
        allows_below=_get(header, "allowsBelow", bool),
        quarantine=_find({"quarantine": None, **header}, "quarantine", str),
        by_inventory=_get({"byInventory": False, **header}, "byInventory", bool),
        protected=tuple(map(_read_protected, _get({"protected": [], **header}, "protected", list))),
    )
    if plan.plan_id != header["planId"]:
        raise ValueError(f"its id is {header['planId']}, but that of its rows is {plan.plan_id}")
    return plan


def _kept_as_json(kept: Kept) -> dict[str, Any]:
    return {
        "live": list(kept.live),
        "retained": kept.retained,
        "young": kept.young,
        "foreign": list(kept.foreign),
        "hidden": kept.hidden,
        "links": kept.links,
        "unproven": kept.unproven,
        "outsideSelection": kept.outside_selection,
        "nestedTables": list(kept.nested_tables),
        "foreignExamples": list(kept.foreign_examples),
    }


def _read_kept(kept: Mapping[str, Any]) -> Kept:
    return Kept(
        live=_amount(kept, "live"),
        retained=_get(kept, "retained", int),
        young=_get(kept, "young", int),
        foreign=_amount(kept, "foreign"),
        hidden=_get(kept, "hidden", int),
        links=_get(kept, "links", int),
        unproven=_get(kept, "unproven", int),
        outside_selection=_get(kept, "outsideSelection", int),
        nested_tables=_texts(kept, "nestedTables"),
        foreign_examples=_texts(kept, "foreignExamples"),
    )


def _read_refusal(value: Json) -> Refusal:
    code, message, *rest = value
    _require(all(isinstance(text, str) for text in (code, message)), "refusals")
    _require(all(text is None or isinstance(text, str) for text in rest), "refusals")
    return Refusal(code, message, *rest)


def _read_protected(value: Json) -> ProtectedTable:
    uri, table_id, version = value
    _require(isinstance(uri, str) and isinstance(table_id, str) and type(version) is int, "protected")
    return ProtectedTable(uri, table_id, version)


def _read_reach(reach: Mapping[str, Any]) -> TimeTravelRange:
    lost, kept = _find(reach, "lostFeed", list), _get({"keptVersions": [], **reach}, "keptVersions", list)
    _require(all(type(version) is int for version in kept), "keptVersions")
    return TimeTravelRange(
        first_version=_find(reach, "firstVersion", int),
        first_ms=_find(reach, "firstMs", int),
        oldest_before=_find(reach, "oldestBefore", int),
        lost_feed=None if lost is None else _pair(lost, "lostFeed"),
        kept_versions=tuple(kept),
    )


def _amount(header: Mapping[str, Any], name: str) -> Amount:
    return Amount(*_pair(_get(header, name, list), name))


def _pair(values: list[Any], name: str) -> tuple[int, int]:
    _require(len(values) == 2 and all(type(value) is int for value in values), name)
    return values[0], values[1]


def _texts(header: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = _get(header, name, list)
    _require(all(isinstance(value, str) for value in values), name)
    return tuple(values)


def _get(header: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    value = header[name]
    if type(value) is not kind:  # a bool is not an int here
        raise ValueError(f"{name} in its metadata is of a wrong type")
    return value


def _find(header: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind | None:
    return None if header[name] is None else _get(header, name, kind)


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} in its metadata is of a wrong type")
