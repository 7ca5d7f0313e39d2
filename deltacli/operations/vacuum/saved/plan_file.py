"""Saved plans of a vacuum: Parquet files that any tool can read, with a digest that detects changes.

The rows are the candidates; the other fields are one JSON text in the file's metadata, with the digest of both.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.arrow.parquet import ParquetReader
from deltacli.delta.encoding.arrow_digest import sha256_rows
from deltacli.documents import dumps, envelope
from deltacli.errors import PermissionRefused, Unreadable, UsageError
from deltacli.hints import command
from deltacli.memory_limit import stop_if_exhausted
from deltacli.operations.vacuum.plan import Reason, VacuumOutcome, VacuumPlan
from deltacli.operations.vacuum.saved.header import FORMAT_VERSIONS, header_of, plan_of
from deltacli.storage.replacement import replacement, unwritable
from deltacli.units import format_timestamp

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
        **envelope("deltacli.vacuum", plan.table, complete=decided >= plan.files and not outcome.failures),
        **plan.as_json(),
        **outcome.as_json(),
        "dryRun": False,
        "timestampMs": now_ms,
        "timestamp": format_timestamp(now_ms),
    }


def write_report(plan: VacuumPlan, outcome: VacuumOutcome, plan_path: str, *, now_ms: int) -> str:
    """Write the report next to the plan's file, replacing an older one, and return its path. Raises StorageFailed."""
    path = f"{plan_path}.report.json"
    with replacement(path) as sink:
        sink.write(dumps(_report_of(plan, outcome, now_ms=now_ms), indent=True) + b"\n")
    return path
