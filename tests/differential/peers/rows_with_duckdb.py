"""Rows by duckdb's delta extension; lines as in `rows_with_deltalake`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa

from tests.differential.peers.duckdb_delta import connect


def rows(connection: Any, path: str, version: int | None) -> pa.Table:  # Any: duckdb has no types here
    chosen = "" if version is None else f", version={version}"
    quoted = path.replace("'", "''")
    return connection.execute(f"SELECT * FROM delta_scan('{quoted}'{chosen})").to_arrow_table()


with connect() as shared:
    shared.execute("SET TimeZone='UTC'")
    for line in sys.stdin:
        task = json.loads(line)
        try:
            found = rows(shared, task["path"], task["version"])
            with pa.OSFile(task["to"], "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
                writer.write_table(found)
            answer: dict[str, Any] = {"rows": found.num_rows}
        except Exception as fault:  # noqa: BLE001  (whatever it is, it is the peer's answer)
            answer = {"refused": f"{type(fault).__name__}: {fault}"[:300]}
        sys.stdout.write(json.dumps({**task, **answer}) + "\n")
        sys.stdout.flush()
