"""Plans of a vacuum made by hand, for what the command line makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import Refusal
from deltacli.operations.vacuum.plan import Kept, Mode, TimeTravelRange, VacuumPlan
from tests.support.vacuum_plans import SCHEMA

DAY_MS = 86_400_000
NOW_MS = 1_770_000_000_000  # 2026-02-02T02:40:00Z

Row = tuple[bytes, int, int, str, int | None, str | None]

ROWS: tuple[Row, ...] = (
    (b"README, old.md", 12, NOW_MS - 90 * DAY_MS, "foreign", None, None),
    (b"_change_data/cdc-0.parquet", 700, NOW_MS - 20 * DAY_MS, "change-data", 7, None),
    (b"day=2026-01-01/part-0.parquet", 3 << 30, NOW_MS - 400 * DAY_MS, "tombstone", 12, "day=2026-01-01"),
    (b"day=2026-01-01/part-1.parquet", 1 << 20, NOW_MS - 8 * DAY_MS, "tombstone", 13, "day=2026-01-01"),
    (b"day=2026-01-02/part-2.parquet", 2048, NOW_MS - 9 * DAY_MS, "uncommitted", None, "day=2026-01-02"),
    (b"deletion_vector_1.bin", 43, NOW_MS - 9 * DAY_MS, "deletion-vector", 13, None),
)

KEPT = Kept(
    live=FileTotals(120, 5 << 30),
    retained=30,
    young=4,
    foreign=FileTotals(7, 4096),
    hidden=2,
    links=1,
    unproven=3,
    nested_tables=("archive/orders", "tmp/x"),
    foreign_examples=("notes.txt", "a b/notes.md"),
)


def make_plan(rows: Sequence[Row] = ROWS, **settings: Any) -> VacuumPlan:  # Any: fields of a plan
    """A plan of seven days; `settings` are its other fields."""
    candidates = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
    known: dict[str, Any] = {  # Any: fields of a plan
        "table": "file:///lake/trips",
        "table_id": "5f8c3a2e-6d0b-4c1e-9a57-0d9f1b2c3d4e",
        "mode": Mode.FULL,
        "snapshot_version": 42,
        "now_ms": NOW_MS,
        "retention_ms": 7 * DAY_MS,
        "own_retention_ms": 7 * DAY_MS,
        "cutoff_ms": NOW_MS - 7 * DAY_MS,
        "kept": KEPT,
        "reach": TimeTravelRange(41, NOW_MS - 6 * DAY_MS, 12, (3, 40), ((12, 40),)),
    }
    return VacuumPlan(candidates=candidates, **{**known, **settings})


TOO_MUCH = Refusal(
    "vacuum.max-delete", "83% of the bytes would be deleted, above the limit of 50%", override="--max-delete 100%"
)
TORN = Refusal("commit.empty", "commit 3 has no bytes", "deltacli validate {table} --select 'commit.*'")
