"""How many rows a filter keeps: one task `{"peer", "path", "where"}` a line in, with the number as `rows` out."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa

OFFLINE = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


def by_duckdb(path: str, where: str) -> int:
    package = find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    extension = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    connection = duckdb.connect(config=OFFLINE)
    connection.execute("LOAD '" + str(extension).replace("'", "''") + "'")
    quoted = path.replace("'", "''")
    found = connection.execute(f"SELECT * FROM delta_scan('{quoted}') WHERE {where}").to_arrow_table()
    return int(found.num_rows)


def by_deltalake(path: str, where: str) -> int:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return int(pa.table(query.execute(f"SELECT * FROM t WHERE {where}").read_all()).num_rows)


for line in sys.stdin:
    task = json.loads(line)
    count = by_duckdb if task["peer"] == "duckdb" else by_deltalake
    sys.stdout.write(json.dumps({**task, "rows": count(task["path"], task["where"])}) + "\n")
    sys.stdout.flush()
