"""Create a small Delta table for demonstrations: `python examples/make_sample.py DIRECTORY [--damaged]`.

The table has 15 versions of taxi trips, partitioned by day, in Parquet files: appends, an update, a delete, a
compaction, a property change, and a checkpoint at version 10. Content and file times are fixed, so that every run
creates the same table. `--damaged` then damages it in three places that `deltacli validate` reports.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START_MS = 1_767_258_000_000  # 2026-01-01T09:00:00Z
STEP_MS = 4 * 3_600_000
CITIES = ("Aachen", "Bern", "Graz")
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "trip", "type": "long", "nullable": False, "metadata": {"comment": "counted from 1"}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        {
            "name": "ride",
            "type": {
                "type": "struct",
                "fields": [
                    {"name": "city", "type": "string", "nullable": True, "metadata": {}},
                    {"name": "fare", "type": "decimal(8,2)", "nullable": True, "metadata": {}},
                ],
            },
            "nullable": True,
            "metadata": {},
        },
    ],
}
ROWS = pa.schema(
    [
        pa.field("trip", pa.int64()),
        pa.field("ride", pa.struct([pa.field("city", pa.string()), pa.field("fare", pa.decimal128(8, 2))])),
    ]
)


class Sample:
    """Writes the table commit by commit and keeps track of its live files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True)
        self.version = -1
        self.live: dict[str, dict[str, Any]] = {}
        self.removed: list[dict[str, Any]] = []
        self.trip = 0

    def next_trips(self, rows: int) -> list[dict[str, Any]]:
        """Return rows that the table does not have yet."""
        first, self.trip = self.trip + 1, self.trip + rows
        return [
            {"trip": trip, "ride": {"city": CITIES[trip % 3], "fare": Decimal(f"{trip % 50}.50")}}
            for trip in range(first, self.trip + 1)
        ]

    def rows_of(self, paths: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the rows of data files, in their order."""
        return [row for path in paths for row in pq.ParquetFile(self.root / path).read().to_pylist()]

    def write_file(self, day: str, rows: list[dict[str, Any]], *, changes_rows: bool = True) -> dict[str, Any]:
        """Write one data file and return its add action."""
        now = START_MS + (self.version + 1) * STEP_MS
        path = f"day={day}/part-{self.version + 1:05d}-{len(self.live):05d}.snappy.parquet"
        trips = [row["trip"] for row in rows]
        table = pa.Table.from_pylist(rows, schema=ROWS)
        (self.root / path).parent.mkdir(exist_ok=True)
        pq.write_table(table, self.root / path)
        os.utime(self.root / path, (now / 1000, now / 1000))
        stats = {
            "numRecords": len(rows),
            "minValues": {"trip": min(trips)},
            "maxValues": {"trip": max(trips)},
            "nullCount": {"trip": 0},
        }
        return {
            "path": path,
            "partitionValues": {"day": day},
            "size": (self.root / path).stat().st_size,
            "modificationTime": now,
            "dataChange": changes_rows,
            "stats": json.dumps(stats, separators=(",", ":")),
        }

    def commit(
        self,
        operation: str,
        parameters: dict[str, Any],
        *,
        adds: tuple[dict[str, Any], ...] = (),
        removes: tuple[str, ...] = (),
        others: tuple[dict[str, Any], ...] = (),
        metrics: dict[str, int] | None = None,
    ) -> None:
        """Write the next commit."""
        self.version += 1
        now = START_MS + self.version * STEP_MS
        info = {
            "timestamp": now,
            "operation": operation,
            "operationParameters": parameters,
            "operationMetrics": {name: str(value) for name, value in (metrics or {}).items()},
            "isBlindAppend": not removes,
            "engineInfo": "sample/1",
        }
        lines: list[dict[str, Any]] = [{"commitInfo": info}, *others]
        for path in removes:
            old = self.live.pop(path)
            remove = {
                "path": path,
                "deletionTimestamp": now,
                "dataChange": all(add["dataChange"] for add in adds),
                "extendedFileMetadata": True,
                "partitionValues": old["partitionValues"],
                "size": old["size"],
            }
            self.removed.append(remove)
            lines.append({"remove": remove})
        for add in adds:
            self.live[add["path"]] = add
            lines.append({"add": add})
        file = self.log / f"{self.version:020d}.json"
        file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        os.utime(file, (now / 1000, now / 1000))

    def append(self, rows: int) -> None:
        """Append one file per day."""
        adds = tuple(self.write_file(day, self.next_trips(rows)) for day in DAYS)
        metrics = {"numFiles": 3, "numOutputRows": 3 * rows, "numOutputBytes": sum(add["size"] for add in adds)}
        self.commit("WRITE", {"mode": "Append", "partitionBy": '["day"]'}, adds=adds, metrics=metrics)

    def checkpoint(self, protocol: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Write a classic checkpoint of the current version, and the hint."""
        text, strings = pa.string(), pa.map_(pa.string(), pa.string())
        add = pa.struct(
            [
                ("path", text),
                ("partitionValues", strings),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
                ("stats", text),
            ]
        )
        form = pa.struct([("provider", text), ("options", strings)])
        meta = pa.struct(
            [
                ("id", text),
                ("name", text),
                ("format", form),
                ("schemaString", text),
                ("partitionColumns", pa.list_(text)),
                ("configuration", strings),
                ("createdTime", pa.int64()),
            ]
        )
        versions = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
        remove = pa.struct(
            [
                ("path", text),
                ("deletionTimestamp", pa.int64()),
                ("dataChange", pa.bool_()),
                ("extendedFileMetadata", pa.bool_()),
                ("partitionValues", strings),
                ("size", pa.int64()),
            ]
        )
        schema = pa.schema([("protocol", versions), ("metaData", meta), ("add", add), ("remove", remove)])
        rows: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
        rows += [{"add": {**action, "dataChange": False}} for action in self.live.values()]
        rows += [{"remove": {**action, "dataChange": False}} for action in self.removed]
        name = f"{self.version:020d}.checkpoint.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), self.log / name)
        hint = self.log / "_last_checkpoint"
        hint.write_text(json.dumps({"version": self.version, "size": len(rows)}))
        now = START_MS + self.version * STEP_MS
        for file in (self.log / name, hint):
            os.utime(file, (now / 1000, now / 1000))


def make(root: Path) -> None:
    """Create the sample table in `root`. A table that is already there is replaced."""
    if (root / "_delta_log").is_dir():
        shutil.rmtree(root)
    sample = Sample(root)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    metadata = {
        "id": "5f8c3a2e-6d0b-4c1e-9a57-0d9f1b2c3d4e",
        "name": "trips",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA, separators=(",", ":")),
        "partitionColumns": ["day"],
        "configuration": {},
        "createdTime": START_MS,
    }
    sample.commit("CREATE TABLE", {"partitionBy": '["day"]'}, others=({"protocol": protocol}, {"metaData": metadata}))
    for rows in (120, 80, 60):
        sample.append(rows)
    old = next(path for path in sample.live if DAYS[0] in path)
    updated = sample.rows_of((old,))
    next(row for row in updated if row["trip"] == 7)["ride"]["fare"] = Decimal("9.00")
    sample.commit(
        "UPDATE",
        {"predicate": "(trip = 7)"},
        adds=(sample.write_file(DAYS[0], updated),),
        removes=(old,),
        metrics={"numRemovedFiles": 1, "numAddedFiles": 1, "numUpdatedRows": 1},
    )
    metadata["configuration"] = {"delta.deletedFileRetentionDuration": "interval 3 days"}
    properties = json.dumps(metadata["configuration"])
    sample.commit("SET TBLPROPERTIES", {"properties": properties}, others=({"metaData": metadata},))
    for rows in (40, 40, 40):
        sample.append(rows)
    gone = tuple(path for path in sample.live if DAYS[2] in path)[:2]
    sample.commit(
        "DELETE",
        {"predicate": '["(day = 2026-01-03)"]'},
        removes=gone,
        metrics={"numRemovedFiles": 2, "numDeletedRows": 200},
    )
    sample.append(30)
    sample.checkpoint(protocol, metadata)
    sample.append(30)
    small = tuple(path for path in sample.live if DAYS[1] in path)
    sample.commit(
        "OPTIMIZE",
        {"predicate": '["(day = 2026-01-02)"]'},
        adds=(sample.write_file(DAYS[1], sample.rows_of(small), changes_rows=False),),
        removes=small,
        metrics={"numRemovedFiles": len(small), "numAddedFiles": 1},
    )
    for rows in (25, 25):
        sample.append(rows)


def damage(root: Path) -> None:
    """Damage the sample table as failing jobs and disks do.

    A live data file is deleted, another one loses its end, and the checkpoint hint names a version without checkpoint.
    """
    deleted, cut = sorted((root / f"day={DAYS[2]}").glob("part-0001[34]-*.parquet"))
    deleted.unlink()
    written = cut.stat().st_mtime
    cut.write_bytes(cut.read_bytes()[:700])
    os.utime(cut, (written, written))
    (root / "_delta_log" / "_last_checkpoint").write_text('{"version":13,"size":31}')


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Create a small Delta table for demonstrations.")
    parser.add_argument("directory", type=Path, help="directory of the table; a table in it is replaced")
    parser.add_argument("--damaged", action="store_true", help="damage the table in three places")
    arguments = parser.parse_args()
    is_table = (arguments.directory / "_delta_log").is_dir()
    if arguments.directory.is_dir() and any(arguments.directory.iterdir()) and not is_table:
        parser.error(f"{arguments.directory} is not empty and not a table")
    make(arguments.directory)
    if arguments.damaged:
        damage(arguments.directory)
