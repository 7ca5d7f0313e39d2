"""Live files by deltalake: one task `{"table", "path", "version"}` a line in, one answer a line out."""

from __future__ import annotations

import json
import sys
from typing import Any

import deltalake
import pyarrow as pa


def live_files(path: str, version: int | None) -> list[list[Any]]:  # Any: a path, a size, a number of records
    table = deltalake.DeltaTable(path, version=version)
    adds = pa.table(table.get_add_actions())
    records = adds.column("num_records").to_pylist() if "num_records" in adds.schema.names else [None] * adds.num_rows
    return [
        list(row)
        for row in zip(adds.column("path").to_pylist(), adds.column("size_bytes").to_pylist(), records, strict=True)
    ]


for line in sys.stdin:
    task = json.loads(line)
    try:
        answer: dict[str, Any] = {"files": live_files(task["path"], task["version"])}
    except Exception as fault:  # noqa: BLE001  (whatever it is, it is the peer's answer)
        answer = {"refused": f"{type(fault).__name__}: {fault}"[:300]}
    sys.stdout.write(json.dumps({**task, **answer}) + "\n")
    sys.stdout.flush()
