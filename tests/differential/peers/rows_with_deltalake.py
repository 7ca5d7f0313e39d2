"""Rows by deltalake: one task `{"table", "path", "version", "to"}` a line in; the rows go into the Arrow file `to`."""

from __future__ import annotations

import json
import sys
from typing import Any

import deltalake
import pyarrow as pa


def rows(path: str, version: int | None) -> pa.Table:
    table = deltalake.DeltaTable(path, version=version)
    return pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())


for line in sys.stdin:
    task = json.loads(line)
    try:
        found = rows(task["path"], task["version"])
        with pa.OSFile(task["to"], "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
        answer: dict[str, Any] = {"rows": found.num_rows}
    except BaseException as fault:  # noqa: BLE001  (whatever it is, a panic too, it is the peer's answer)
        answer = {"refused": f"{type(fault).__name__}: {fault}"[:300]}
    sys.stdout.write(json.dumps({**task, **answer}) + "\n")
    sys.stdout.flush()
