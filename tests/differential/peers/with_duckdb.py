"""Live files by duckdb's delta extension, loaded from the package that ships it; lines as in `with_deltalake`."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.differential.peers.duckdb_delta import connect

UNKNOWN = 2**64 - 1
"""What it answers for a number of records that the log does not say."""


def live_files(
    connection: Any, path: str, version: int | None
) -> list[list[Any]]:  # Any: a path, no size, a number of records
    chosen = "" if version is None else f", version={version}"
    quoted = path.replace("'", "''")
    rows = connection.execute(f"SELECT data_file, cardinality FROM delta_list_files('{quoted}'{chosen})").fetchall()
    return [[file, None, None if records == UNKNOWN else records] for file, records in rows]


with connect() as shared:
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer: dict[str, Any] = {"files": live_files(shared, task["path"], task["version"])}
        except Exception as fault:  # noqa: BLE001  (whatever it is, it is the peer's answer)
            answer = {"refused": f"{type(fault).__name__}: {fault}"[:300]}
        sys.stdout.write(json.dumps({**task, **answer}) + "\n")
        sys.stdout.flush()
