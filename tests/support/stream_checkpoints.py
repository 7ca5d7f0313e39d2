"""Checkpoint directories of Spark queries, as files: offsets of Delta's source, one source per query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

QUERY_ID = "0f6a0b52-7a52-4a0c-a3a6-3cf7a7f5b8a1"


def offset(table_id: str, version: int, index: int = -1, *, in_snapshot: bool = False) -> str:
    """The offset of Delta's source after the file `index` of a version, as Spark writes it; -1: before the first."""
    fields = {"sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": version, "index": index}
    return json.dumps({**fields, "isStartingVersion": in_snapshot}, separators=(",", ":"))


def entry(*offsets: str) -> bytes:
    """The content of `offsets/N`, of format 1."""
    return "\n".join(["v1", '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}', *offsets]).encode()


def checkpoint_files(offsets: Sequence[str], *, first: int = 6, is_committed: bool = True) -> dict[str, bytes]:
    """The files of a directory whose batches from `first` on end at these offsets, the last one finished or not."""
    files = {"metadata": json.dumps({"id": QUERY_ID}, separators=(",", ":")).encode()}
    for number, one in enumerate(offsets, first):
        files[f"offsets/{number}"] = entry(one)
        if is_committed or number < first + len(offsets) - 1:
            files[f"commits/{number}"] = b'v1\n{"nextBatchWatermarkMs":0}'
    return files


def write_checkpoint(directory: Path, offsets: Sequence[str], *, is_committed: bool = True) -> Path:
    """Write these files, and return the directory."""
    for path, data in checkpoint_files(offsets, is_committed=is_committed).items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)
    return directory
