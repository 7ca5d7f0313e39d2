"""Rows by duckdb's delta extension; lines as in `rows_with_deltalake`."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def connect() -> Any:  # Any: duckdb has no types here
    package = find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    extension = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    connection = duckdb.connect(config=OFFLINE)
    connection.execute("LOAD '" + str(extension).replace("'", "''") + "'")
    connection.execute("SET TimeZone='UTC'")
    return connection


def rows(connection: Any, path: str, version: int | None) -> pa.Table:  # Any: duckdb has no types here
    chosen = "" if version is None else f", version={version}"
    quoted = path.replace("'", "''")
    return connection.execute(f"SELECT * FROM delta_scan('{quoted}'{chosen})").to_arrow_table()


with connect() as shared:
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
