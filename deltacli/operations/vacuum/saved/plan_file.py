"""Saved plans of a vacuum: Parquet files that any tool can read, with a digest that detects changes.

The rows are the candidates; the other fields are one JSON text in the file's metadata, with the digest of both.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from deltacli.arrow import compute as pc
from deltacli.arrow.parquet import ParquetReader
from deltacli.changing.plan import Amount
from deltacli.core.documents import dumps, envelope
from deltacli.core.errors import PermissionRefused, Refusal, Unreadable, UsageError
from deltacli.core.hints import command
from deltacli.core.memory_limit import stop_if_exhausted
from deltacli.core.typing import Json
from deltacli.core.units import format_timestamp, gaps_in
from deltacli.delta.encoding.digests import sha256_rows
from deltacli.operations.vacuum.plan import Kept, ProtectedTable, Reason, TimeTravelRange, VacuumOutcome, VacuumPlan
from deltacli.operations.vacuum.request import Mode
from deltacli.storage.replacement import replacement, unwritable

if TYPE_CHECKING:
    import pyarrow


METADATA_KEY = b"deltacli.vacuum"
_DIGEST = "sha256"
_ROWS_PER_GROUP = 100_000
_NEVER_OURS = rb"^$|\x00|(?:^|/)(?:\.\.|_delta_log)(?:/|$)"
"""Paths that a plan must not contain: files of a log, and files outside the table."""


class _Column(NamedTuple):
    """A column of the file, and of the plan's candidates."""

    name: str
    candidates: str
    is_known: bool = True
    """False if rows may have no value."""


_COLUMNS = (
    _Column("path", "path"),
    _Column("size", "sizeBytes", is_known=False),
    _Column("modificationTime", "modificationTimeMs", is_known=False),
    _Column("reason", "reason"),
    _Column("removedAtVersion", "removedAtVersion", is_known=False),
    _Column("partition", "partition", is_known=False),
)


def save_plan(plan: VacuumPlan, path: str) -> None:
    """Write a plan to a local file atomically, replacing an existing one. Raises StorageFailed."""
    import pyarrow.parquet as pq

    _require_regular(path)
    rows = _to_file(plan.candidates)
    header = header_of(plan)
    text = _to_text({**header, _DIGEST: _digest(header, rows)})
    with (
        replacement(path) as sink,
        pq.ParquetWriter(
            sink,
            rows.schema,
            compression="zstd",
            use_dictionary=["reason", "partition"],
            write_page_checksum=True,
            store_schema=False,
        ) as writer,
    ):
        writer.write_table(rows, _ROWS_PER_GROUP)
        writer.add_key_value_metadata({METADATA_KEY: text})


def read_plan(path: str) -> VacuumPlan:
    """Read a plan as it was saved.

    Raises UsageError where there is no such file, Unreadable (`vacuum.plan-unreadable`) where it was changed.
    """
    import pyarrow as pa

    _require_readable(path)
    try:
        header, rows = _read(path)
        digest = header.pop(_DIGEST, None)
        if header.get("formatVersion") not in FORMAT_VERSIONS:
            known = ", ".join(map(str, FORMAT_VERSIONS))
            raise ValueError(f"its format is {header.get('formatVersion')}; this deltacli reads {known}")
        if digest != _digest(header, rows):
            raise ValueError("it was changed: its digest does not match")
        _require_sane(rows, header)
        return plan_of(header, _to_candidates(rows))
    # Decoders raise various errors for damaged bytes; none of them is a bug.
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError, RecursionError) as fault:
        stop_if_exhausted(fault)
        reason = " ".join(str(fault).split())[:300]
        raise _unreadable(path, reason or type(fault).__name__) from fault


def file_schema() -> pyarrow.Schema:
    """The columns of the file."""
    import pyarrow as pa

    kinds = (pa.binary(), pa.int64(), pa.timestamp("ms", "UTC"), pa.string(), pa.int64(), pa.string())
    return pa.schema(
        [
            pa.field(column.name, kind, nullable=not column.is_known)
            for column, kind in zip(_COLUMNS, kinds, strict=True)
        ]
    )


def _to_file(candidates: pyarrow.Table) -> pyarrow.Table:
    import pyarrow as pa

    schema = file_schema()
    columns = [
        pc.cast(candidates.column(column.candidates), field.type)
        for column, field in zip(_COLUMNS, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _to_candidates(rows: pyarrow.Table) -> pyarrow.Table:
    import pyarrow as pa

    columns = {column.candidates: rows.column(column.name) for column in _COLUMNS}
    columns["modificationTimeMs"] = pc.cast(columns["modificationTimeMs"], pa.int64())
    return pa.table(columns)


def _read(path: str) -> tuple[dict[str, Any], pyarrow.Table]:
    """Return the header and the rows. Raises what decoders raise."""
    with open(path, "rb") as source:
        file = ParquetReader(source, verify_pages=True)
        text = (file.metadata.metadata or {}).get(METADATA_KEY)
        if text is None:
            raise ValueError("it is not a plan: its metadata has no plan header")
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("its metadata is not a JSON object")
        rows = file.read_all()
    if not rows.schema.equals(file_schema()):
        raise ValueError(f"its columns are {', '.join(f'{field.name} {field.type}' for field in rows.schema)}")
    return header, rows


def _digest(header: dict[str, Any], rows: pyarrow.Table) -> str:
    return sha256_rows(rows, _to_text(header))


def _to_text(header: dict[str, Any]) -> bytes:
    """Return canonical JSON. Names that are not UTF-8 contain lone surrogates, which only the standard library
    writes.
    """
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode("ascii")


def _require_sane(rows: pyarrow.Table, header: dict[str, Any]) -> None:
    """Raise ValueError for rows that a vacuum never plans, even if the digest matches."""
    import pyarrow as pa

    for column in _COLUMNS:
        if column.is_known and rows.column(column.name).null_count:
            raise ValueError(f"{column.name} is null in some rows")
    directories = pa.array([os.fsencode(name) for name in header["directories"]], pa.binary())
    for names in (rows.column("path"), directories):
        wrong = pc.filter(names, pc.match_substring_regex(names, _NEVER_OURS))
        if len(wrong):
            raise ValueError(f"{os.fsdecode(wrong[0].as_py())!r} is not a file that a vacuum deletes")
    reasons = set(pc.unique(rows.column("reason")).to_pylist()) - set(Reason)
    if reasons:
        raise ValueError(f"it has rows with unknown reasons: {', '.join(sorted(reasons))}")


def _require_regular(path: str) -> None:
    """Raise StorageFailed where the name is not that of a regular file, which writing would replace."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as fault:
        raise unwritable(path, fault if isinstance(fault, OSError) else OSError(str(fault))) from fault
    if not stat.S_ISREG(mode):
        raise unwritable(path, OSError("it is not a regular file"))


def _require_readable(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except PermissionError as fault:
        raise PermissionRefused(f"{path} cannot be read: {(fault.strerror or str(fault)).lower()}") from fault
    except (OSError, ValueError) as fault:
        raise UsageError(
            f"plan {path} not found",
            code="usage.plan",
            facts={"reason": (getattr(fault, "strerror", None) or str(fault)).lower()},
            hint=command("vacuum", save_plan="plan.parquet"),
        ) from fault
    if not stat.S_ISREG(mode):
        raise _unreadable(path, "it is not a regular file")
    if not os.access(path, os.R_OK):
        raise PermissionRefused(f"{path} cannot be read: permission denied")


def _unreadable(path: str, reason: str) -> Unreadable:
    return Unreadable(
        "the plan cannot be read",
        code="vacuum.plan-unreadable",
        facts={"file": path, "reason": reason},
        hint=command("vacuum", save_plan="plan.parquet"),
    )


def _report_of(plan: VacuumPlan, outcome: VacuumOutcome, *, now_ms: int) -> dict[str, Any]:
    """Return the document `deltacli.vacuum`. It is complete where every file of the plan is deleted or needed again."""
    decided = outcome.deleted.files + outcome.missing + outcome.spared
    return {
        **envelope("deltacli.vacuum", plan.table, complete=decided >= plan.files and not outcome.failed.count),
        **plan.as_json(),
        **outcome.as_json(),
        "dryRun": False,
        "timestampMs": now_ms,
        "timestamp": format_timestamp(now_ms),
    }


def write_report(plan: VacuumPlan, outcome: VacuumOutcome | None, plan_path: str, *, now_ms: int) -> str:
    """Write the report next to the plan's file, replacing an older one, and return its path. Raises StorageFailed."""
    path = f"{plan_path}.report.json"
    with replacement(path) as sink:
        sink.write(dumps(_report_of(plan, outcome or VacuumOutcome(), now_ms=now_ms), indent=True) + b"\n")
    return path


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
        "refusals": [[one.code, one.message, one.override, one.hint] for one in plan.refusals],
        "notes": list(plan.notes),
        "directories": list(plan.directories),
        "reach": {
            "firstVersion": plan.reach.first_version,
            "firstMs": plan.reach.first_ms,
            "oldestBefore": plan.reach.oldest_before,
            "lostFeed": None if plan.reach.lost_feed is None else list(plan.reach.lost_feed),
            "lostVersions": [list(pair) for pair in plan.reach.lost],
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
        "live": [kept.live.files, kept.live.size_bytes],
        "retained": kept.retained,
        "young": kept.young,
        "foreign": [kept.foreign.files, kept.foreign.size_bytes],
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
    override, hint = (*rest, None, None)[:2]
    return Refusal(code, message, hint, override)


def _read_protected(value: Json) -> ProtectedTable:
    uri, table_id, version, *rest = value
    _require(isinstance(uri, str) and isinstance(table_id, str) and type(version) is int, "protected")
    (sha256,) = rest or (None,)
    _require(sha256 is None or isinstance(sha256, str), "protected")
    return ProtectedTable(uri, table_id, version, sha256)


def _read_reach(reach: Mapping[str, Any]) -> TimeTravelRange:
    feed = _find(reach, "lostFeed", list)
    first, before = _find(reach, "firstVersion", int), _find(reach, "oldestBefore", int)
    lost = _find(reach, "lostVersions", list)
    if lost is None:  # a plan of an earlier release
        lost = [] if first is None or before is None else gaps_in(reach.get("keptVersions", ()), before, first - 1)
    return TimeTravelRange(
        first_version=first,
        first_ms=_find(reach, "firstMs", int),
        oldest_before=before,
        lost_feed=None if feed is None else _pair(feed, "lostFeed"),
        lost=tuple(_pair(list(pair), "lostVersions") for pair in lost),
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
