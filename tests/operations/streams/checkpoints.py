"""Checkpoint directories of Spark queries, made by hand after the files that Spark 4.0 and 4.3 write."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.actions import metadata
from tests.support.reading import NOW_MS

TABLE_ID: str = metadata()["metaData"]["id"]
"""The id of the tables that tests build."""
QUERY_ID = "0f6a0b52-7a52-4a0c-a3a6-3cf7a7f5b8a1"
NOTHING = "-"
"""What stands for a source without an offset."""


def delta(
    version: int,
    index: int = -1,
    *,
    in_snapshot: bool = False,
    source_version: int = 1,
    table: str = TABLE_ID,
) -> str:
    """Return an offset of Delta's source; an index of -1 is the beginning of the version."""
    if source_version == 3 and index == -1:
        index = -100
    fields = {
        "sourceVersion": source_version,
        "reservoirId": table,
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": in_snapshot,
    }
    return json.dumps(fields, separators=(",", ":"))


def own(
    version: int,
    index: int = 0,
    *,
    first: int = 0,
    with_snapshot: bool = False,
    table: str = TABLE_ID,
    schema: str = "s",
) -> str:
    """Return an offset of deltacli's source, as Spark writes what Python returned: with spaces."""
    fields = {
        "format": 1,
        "table": table,
        "schema": schema,
        "first": first,
        "snapshot": with_snapshot,
        "version": version,
        "index": index,
    }
    return json.dumps(fields)


def offset_log(*sources: str, log_version: int = 1, names: tuple[str, ...] = ()) -> bytes:
    """Return the content of a file of `offsets/`."""
    head: dict[str, object] = {
        "batchWatermarkMs": 0,
        "batchTimestampMs": NOW_MS,
        "conf": {"spark.sql.shuffle.partitions": "2"},
    }
    if log_version == 1:
        lines = ["v1", json.dumps(head, separators=(",", ":")), *sources]
    else:
        head["sourceMetadataInfo"] = {}
        named = zip(names or map(str, range(len(sources))), sources, strict=True)
        entries = [f"{name}:{offset}" for name, offset in named if offset != NOTHING]
        lines = [f"v{log_version}", json.dumps(head, separators=(",", ":")), *entries]
    return "\n".join(lines).encode()


@dataclass
class Checkpoint:
    """A checkpoint directory, file by file."""

    query_id: str | None = QUERY_ID
    files: dict[str, bytes] = field(default_factory=dict)
    modified_ms: int = NOW_MS
    log_version: int = 1

    def batch(self, number: int, *sources: str, committed: bool = True) -> Checkpoint:
        """Add a batch that ends at these offsets, and is finished."""
        self.files[f"offsets/{number}"] = offset_log(*sources, log_version=self.log_version)
        if committed:
            self.files[f"commits/{number}"] = b'v1\n{"nextBatchWatermarkMs":0}'
        return self

    def file(self, path: str, data: bytes = b"") -> Checkpoint:
        """Add any other file."""
        self.files[path] = data
        return self

    def without(self, *paths: str) -> Checkpoint:
        """Leave files out."""
        for path in paths:
            del self.files[path]
        return self

    def write(self, directory: Path) -> Path:
        """Put it into a directory, and return that."""
        files = (
            self.files
            if self.query_id is None
            else {"metadata": json.dumps({"id": self.query_id}).encode()} | self.files
        )
        for path, data in files.items():
            place = directory / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            os.utime(place, ns=(self.modified_ms * 1_000_000,) * 2)
        for name in ("offsets", "commits"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        return directory


def standing(
    end: str,
    start: str | None = None,
    *,
    batch: int = 7,
    committed: bool = True,
    log_version: int = 1,
    **fields: object,
) -> Checkpoint:
    """Return the checkpoint of a query whose newest batch goes from one offset to another (None: it is empty)."""
    found = Checkpoint(log_version=log_version, **fields)  # type: ignore[arg-type]
    if batch:
        found.batch(batch - 1, end if start is None else start)
    return found.batch(batch, end, committed=committed)
