"""Frames of `deltacli.spark` against `spark.read.parquet` on the same files, in one session of local[2].

  PYTHONPATH=. .venv-cluster/bin/python benchmarks/spark_tables.py [--work DIR] [--rows 2000000] [--files 20000,100000]
                                                                   [--write 4000000] [--tables 10000] [--first 5]

Reading: 2,000,000 rows of 15 columns in 8 partitions, both readers in turn; the least of some runs counts. Planning:
directories with as many files as asked for, links to one file of one row, against Spark's plain listing of them.
Writing: rows appended to a table, against `write.parquet`. Tables: their facts against `fleet plan`.
First: the first count of a new session, in processes of their own. 0 leaves a part out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.spark import fleet_facts, plan_table, register

PARTITIONS = 8
COLUMNS = 15
RUNS = 5
FIELD = {"nullable": True, "metadata": {}}
NESTED = (("a", "long"), ("b", "string"))
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", default="20000,100000")
    parser.add_argument("--write", type=int, default=4_000_000)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=5)
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from deltacli.engine.spark.session import SparkSettings, open_session

    work = Path(tempfile.mkdtemp(dir=options.work))
    if options.first:
        first_frames(rows_table(work / "first", 8_000), options.first)
    session = open_session(SparkSettings(master="local[2]"))
    try:
        if options.write:
            writing(session, work, options.write)
        if options.tables:
            facts(session, work / "tables", options.tables)
        if options.rows:
            reading(session, rows_table(work / "rows", options.rows), options.rows)
        for count in map(int, options.files.split(",") if options.files else ()):
            planning(session, files_table(work / f"files-{count}", count), count)
    finally:
        session.stop()
        shutil.rmtree(work)
    return 0


def reading(session: Any, root: Path, rows: int) -> None:
    """Compare the two readers on each question."""
    questions: dict[str, Callable[[Any], Any]] = {
        "all columns": lambda frame: frame,
        "2 of 15 columns": lambda frame: frame.select("c0", "c8"),
        "1 % filter": lambda frame: frame.where(f"c0 between {rows // 2} and {rows // 2 + rows // 100}"),
        "partition filter": lambda frame: frame.where("p = 3"),
    }
    began = time.perf_counter()
    plan = plan_table(session, root)
    frames = {"ours": plan.dataframe(), "plain": None}
    print(f"{plan}\nplanned in {time.perf_counter() - began:.2f} s")
    frames["plain"] = session.read.schema(frames["ours"].schema).parquet(str(root))
    for name, ask in questions.items():
        least = dict.fromkeys(frames, float("inf"))
        for _ in range(RUNS + 1):
            for reader, frame in frames.items():
                took = seconds(ask(frame).write.format("noop").mode("overwrite").save)
                least[reader] = min(least[reader], took)
        ratio = least["ours"] / least["plain"]
        print(f"{name:<18} ours {least['ours']:.2f} s, plain {least['plain']:.2f} s: x{ratio:.2f}", flush=True)
    path = frames["ours"].metadataColumn("_metadata").getField("file_path")
    print("files of the partition filter:", frames["ours"].where("p = 3").select(path).distinct().count())


def planning(session: Any, root: Path, count: int) -> None:
    """Compare planning with the plain listing."""
    listed = seconds(lambda: session.read.schema("id bigint").parquet(str(root)))
    planned = seconds(lambda: plan_table(session, root).dataframe())
    print(f"{count} files: planned in {planned:.1f} s, plain listing {listed:.1f} s", flush=True)


def writing(session: Any, work: Path, rows: int) -> None:
    """Compare appends with writing plain files: flat numbers, and nested columns; no partitions, both with Snappy."""
    kinds = {"long": "id * {}", "double": "id * 0.37D + {}", "integer": "cast(id % 1000000 + {} as int)"}
    flat = [(f"c{number}", list(kinds)[number % 3], number + 1) for number in range(8)]
    numbers = [(name, kind, kinds[kind].format(number)) for name, kind, number in flat]
    texts = {"type": "array", "elementType": "string", "containsNull": True}
    counts = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    inner = {"type": "struct", "fields": [{"name": name, "type": kind, **FIELD} for name, kind in NESTED]}
    nested = [
        ("texts", texts, "array(cast(id as string), 'b')"),
        ("counts", counts, "map('n', id)"),
        ("inner", inner, "named_struct('a', id, 'b', cast(id as string))"),
    ]
    register(session)
    for name, columns, count in (("flat", numbers, rows), ("nested", nested, rows // 4)):
        frame = (
            session.range(0, count, 1, 4).selectExpr(*(f"{value} as {column}" for column, _, value in columns)).cache()
        )
        frame.count()
        fields = [{"name": column, "type": kind, **FIELD} for column, kind, _ in columns]
        root = commit(work / name, fields, [], [])
        took: dict[str, list[float]] = {"ours": [], "plain": []}
        for number in range(RUNS + 1):
            plain = partial(frame.write.option("compression", "snappy").parquet, str(work / f"{name}-{number}"))
            took["plain"].append(seconds(plain))
            took["ours"].append(seconds(partial(frame.write.format("deltacli").mode("append").save, str(root))))
        least = {writer: min(times) for writer, times in took.items()}
        frame.unpersist()
        print(f"append of {count:,} {name} rows: {least}, throughput x{least['plain'] / least['ours']:.2f}", flush=True)


def facts(session: Any, root: Path, count: int) -> None:
    """Compare the facts of many small tables with what the command plans for them."""
    for number in range(count):
        table = root / f"d{number // 1000}" / f"t{number}"
        table.mkdir(parents=True)
        commit(table, [{"name": "id", "type": "long", **FIELD}], [], [add("a.parquet", 1, {})])
    policy = root / "fleet.toml"
    group = f'[groups.g]\npolicy = "p"\nglobs = ["{root}/*/*"]\n'
    policy.write_text(f"[policies.p]\ncheckpoint = {{ commits = 10 }}\n{group}")
    command = [sys.executable, "-m", "deltacli", "fleet", "plan", str(policy), "--format", "json"]
    spark, plain = [], []
    for _ in range(3):
        plain.append(seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)))
        frame = fleet_facts(session, str(policy))
        spark.append(seconds(lambda frame=frame: frame.write.format("noop").mode("overwrite").save()))
    ratio = min(spark) / min(plain)
    print(f"facts of {count:,} tables: {min(spark):.1f} s, fleet plan {min(plain):.1f} s: x{ratio:.2f}", flush=True)


FIRST = """
import sys, time
from deltacli.engine.spark.engine import SparkSettings, open_session
from deltacli.spark import read_table
session = open_session(SparkSettings(master="local[2]"))
began = time.perf_counter()
frame = read_table(session, sys.argv[1]) if sys.argv[2] == "ours" else session.read.parquet(sys.argv[1] + "/p=*")
assert frame.count() == 8_000
print(time.perf_counter() - began)
"""


def first_frames(root: Path, runs: int) -> None:
    """Compare the first frames of sessions, in turn: from the call to the count of its rows."""
    took: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(runs):
        for reader, times in took.items():
            command = [sys.executable, "-c", FIRST, str(root), reader]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            times.append(float(done.stdout.splitlines()[-1]))
    ours, plain = (sorted(took[reader])[runs // 2] for reader in ("ours", "plain"))
    print(f"first frame: ours {ours:.2f} s, plain {plain:.2f} s: x{ours / plain:.2f}", flush=True)


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def rows_table(root: Path, rows: int) -> Path:
    """Write a table of 15 columns beside the partition column."""
    each = rows // PARTITIONS
    lines: list[dict[str, Any]] = []
    for partition in range(PARTITIONS):
        ids = pa.array(range(partition * each, (partition + 1) * each), pa.int64())
        columns = {}
        for number in range(COLUMNS):
            values: Any = pc.add(ids, number)
            if number % 3 == 1:
                values = pc.cast(pc.multiply(values, 0.37), pa.float64())
            elif number % 3 == 2:
                values = pc.cast(values, pa.string())
            columns[f"c{number}"] = values
        path = f"p={partition}/f.parquet"
        (root / path).parent.mkdir(parents=True)
        pq.write_table(pa.table(columns), root / path, row_group_size=each // 4)
        lines.append(add(path, (root / path).stat().st_size, {"p": str(partition)}))
    kinds = ("long", "double", "string")
    fields = [{"name": f"c{number}", "type": kinds[number % 3], **FIELD} for number in range(COLUMNS)]
    return commit(root, [*fields, {"name": "p", "type": "integer", **FIELD}], ["p"], lines)


def files_table(root: Path, count: int) -> Path:
    """Write a table of copies of one file, a thousand in each directory; the further ones are links to the first,
    because a file of many disks has at most 65,000 links.
    """
    lines = []
    for number in range(count):
        path = f"d{number // 1000:04d}/{number}.parquet"
        if number % 1000 == 0:
            (root / path).parent.mkdir(parents=True)
            first = root / path
            pq.write_table(pa.table({"id": [1]}), first)
        else:
            os.link(first, root / path)
        lines.append(add(path, first.stat().st_size, {}))
    return commit(root, [{"name": "id", "type": "long", **FIELD}], [], lines)


def add(path: str, size: int, values: dict[str, str]) -> dict[str, Any]:
    action = {"path": path, "partitionValues": values, "size": size, "modificationTime": 0, "dataChange": True}
    return {"add": action}


def commit(root: Path, fields: list[Any], partitions: list[str], lines: list[dict[str, Any]]) -> Path:
    schema = json.dumps({"type": "struct", "fields": fields})
    about = {"id": "b", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    metadata = {"metaData": {**about, "partitionColumns": partitions, "configuration": {}}}
    (root / "_delta_log").mkdir(parents=True)
    text = "".join(f"{json.dumps(line)}\n" for line in (PROTOCOL, metadata, *lines))
    (root / "_delta_log" / f"{0:020d}.json").write_text(text)
    return root


if __name__ == "__main__":
    sys.exit(main())
