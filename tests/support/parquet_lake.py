"""A directory of Parquet files of several writers' habits, in partitions with names that are hard to read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

MOMENT = datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)


def put(root: Path, path: str, settings: dict[str, Any] | None = None, /, **columns: Any) -> None:
    """Write a file; a column is an array, or values."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), place, **(settings or {}))


def lake(root: Path) -> Path:
    """Six files with seven rows, and what is not part of them."""
    whole = pa.int32()
    put(root, "day=2026-01-01/c=A%2FB/a.parquet", id=pa.array([1, 2], pa.int16()), x=[1.5, float("nan")])
    put(root, "day=2026-01-02/c=__HIVE_DEFAULT_PARTITION__/b.parquet", id=pa.array([3], whole), s=["ü"])
    settings = {"use_deprecated_int96_timestamps": True, "use_compliant_nested_type": False}
    put(root, "day=2026-01-02/c=x y%25/c%20d.parquet", settings, id=pa.array([4], whole), l=[[1, 2]], at=[MOMENT])
    put(root, "day=2026-01-02/c=x y%25/empty.parquet", id=pa.array([], whole))
    put(root, "day=2026-01-03/c=%3D/e f", id=pa.array([5, None], whole), t=[{"a": 1, "b": "q"}, None])
    put(
        root,
        "day=2026-01-03/c=001/g.parquet",
        id=pa.array([6], whole),
        at=pa.array([MOMENT], pa.timestamp("ms", "UTC")),
    )
    (root / "_SUCCESS").touch()
    (root / "day=2026-01-01" / ".a.parquet.crc").write_bytes(b"crc")
    put(root, "_temporary/0/h.parquet", id=[9])
    return root
