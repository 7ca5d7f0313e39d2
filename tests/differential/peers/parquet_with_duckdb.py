"""Rows of Parquet files in Hive partitions by duckdb, without a log: those that symlink manifests name, where there are
any; lines as in `rows_with_deltalake`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

with duckdb.connect() as shared:
    shared.execute("SET TimeZone='UTC'")
    for line in sys.stdin:
        task = json.loads(line)
        root = Path(task["path"])
        places = [path for path in sorted(root.rglob("*")) if path.is_file()]
        names = [str(one) for one in places if not any(part[0] in "_." for part in one.relative_to(root).parts)]
        if manifests := [*root.glob("_symlink_format_manifest/**/manifest")]:
            names = [name.removeprefix("file://") for one in manifests for name in one.read_text().splitlines()]
        options = "hive_partitioning=true, union_by_name=true, hive_types_autocast=false"
        found = shared.execute(f"SELECT * FROM read_parquet($1, {options})", [names]).to_arrow_table()
        with pa.OSFile(task["to"], "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
        sys.stdout.write(json.dumps({**task, "rows": found.num_rows}) + "\n")
        sys.stdout.flush()
