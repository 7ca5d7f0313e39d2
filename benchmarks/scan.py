"""Scans against deltalake and duckdb: the same table of 2 GB, whole processes in turn, medians, ratios.

  .venv/bin/python benchmarks/scan.py --peer-python .venv-peers/bin/python [--work DIR] [--files 200] [-n 5]

Run it with the Python of the environment that has deltacli. Three cases: every row to Arrow batches, a condition that
one file in 200 can meet, and the same table with a tenth of its rows deleted by deletion vectors. Peers are asked for
streams of batches too, and a peer that can't read a table is left out of its case.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from pathlib import Path
from typing import Any, NamedTuple

ROWS_A_FILE = 190_000
NAMES = ("id", "account", "amount", "score", "ratio", "moment", "day", "category", "note", "is_open")
TYPES = ("long", "integer", "decimal(12,2)", "double", "double", "timestamp", "date", "string", "string", "boolean")
SELECTIVE = "id >= {first} AND id < {last}"

OURS = """
import sys
from deltacli import open_table
rows = size = 0
for batch in open_table(sys.argv[1]).snapshot().scan(where=sys.argv[2] or None):
    rows += batch.num_rows
    size += batch.nbytes
print(rows, size)
"""
DELTALAKE = """
import sys
from deltalake import DeltaTable
import pyarrow.dataset as ds, pyarrow.compute as pc
dataset = DeltaTable(sys.argv[1]).to_pyarrow_dataset()
chosen = None
if sys.argv[2]:
    first, last = (int(word) for word in sys.argv[2].split() if word.isdigit())
    chosen = (ds.field("id") >= first) & (ds.field("id") < last)
rows = size = 0
for batch in dataset.scanner(filter=chosen).to_reader():
    rows += batch.num_rows
    size += batch.nbytes
print(rows, size)
"""
DATAFUSION = """
import sys
from deltalake import DeltaTable, QueryBuilder
query = "select * from t" + (" where " + sys.argv[2] if sys.argv[2] else "")
rows = size = 0
import pyarrow
for batch in QueryBuilder().register("t", DeltaTable(sys.argv[1])).execute(query):
    rows += batch.num_rows
    size += pyarrow.record_batch(batch).nbytes
print(rows, size)
"""
DUCKDB = """
import sys
import duckdb, duckdb_extension_delta, pathlib
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
found = next(pathlib.Path(duckdb_extension_delta.__path__[0]).rglob("*.duckdb_extension*"))
connection.execute("set enable_progress_bar = false")
connection.load_extension(str(found))
query = f"select * from delta_scan('{sys.argv[1]}')" + (" where " + sys.argv[2] if sys.argv[2] else "")
rows = size = 0
result = connection.execute(query)
reader = result.to_arrow_reader(65536) if hasattr(result, "to_arrow_reader") else result.fetch_record_batch(65536)
for batch in reader:
    rows += batch.num_rows
    size += batch.nbytes
print(rows, size)
"""


class Measured(NamedTuple):
    """One process: wall and processor time in seconds, peak memory in MB, and what it printed."""

    wall: float
    cpu: float
    memory: float
    said: str


def main() -> None:
    options = _options()
    work = Path(options.work or tempfile.mkdtemp(prefix="deltacli-scan-"))
    plain, deleted = work / "plain", work / "deleted"
    if not (plain / "_delta_log").exists():
        _make_tables(plain, deleted, options.files)
    first = ROWS_A_FILE * (options.files // 2) + 10
    where = SELECTIVE.format(first=first, last=first + 100)
    peers = {"deltalake": DELTALAKE, "deltalake-sql": DATAFUSION, "duckdb": DUCKDB}
    for name, table, condition in (("full", plain, ""), ("selective", plain, where), ("vectors", deleted, "")):
        if options.only and name not in options.only.split(","):
            continue
        _compare(name, str(table), condition, peers, options)


def _compare(name: str, table: str, where: str, peers: dict[str, str], options: argparse.Namespace) -> None:
    programs = {"deltacli": (sys.executable, OURS)}
    programs |= {peer: (options.peer_python, program) for peer, program in peers.items()}
    runs: dict[str, list[Measured]] = {program: [] for program in programs}
    for _ in range(options.n):
        for program, (python, text) in programs.items():
            measured = _run([python, "-c", text, table, where])
            if measured is not None:
                runs[program].append(measured)
    ours = runs["deltacli"]
    wall, memory = (statistics.median(run[field] for run in ours) for field in (0, 2))
    print(f"{name:10} deltacli       {wall:7.2f} s {memory:7.0f} MB   {ours[0].said}")
    for peer in peers:
        if not runs[peer]:
            print(f"{name:10} {peer:13} can't read it")
            continue
        theirs, their_memory = (statistics.median(run[field] for run in runs[peer]) for field in (0, 2))
        print(
            f"{name:10} {peer:13} {theirs:8.2f} s {their_memory:7.0f} MB   {runs[peer][0].said}"
            f"   ratio {wall / theirs:.2f} wall, {memory / their_memory:.2f} memory"
        )


def _run(command: list[str]) -> Measured | None:
    """Run a process to its end; None where it fails."""
    begun = time.perf_counter()
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc", **os.environ}  # as the command line sets it
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return None
    wall = time.perf_counter() - begun
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, said.decode().split("\n")[-2])


# -- the tables -------------------------------------------------------------------------------------------------------


def _make_tables(plain: Path, deleted: Path, files: int) -> None:
    """A table of `files` files of some 10 MB, and one of the same files with deletion vectors."""
    import pyarrow.parquet

    for table in (plain, deleted):
        (table / "_delta_log").mkdir(parents=True)
    adds = []
    base = _columns()
    for number in range(files):
        rows = base.set_column(0, "id", _ids(number))
        path = plain / f"part-{number:05}.parquet"
        pyarrow.parquet.write_table(
            rows, path, compression="snappy", row_group_size=ROWS_A_FILE, store_decimal_as_integer=True
        )
        os.link(path, deleted / path.name)
        first = number * ROWS_A_FILE
        bounds = {"numRecords": ROWS_A_FILE, "minValues": {"id": first}, "maxValues": {"id": first + ROWS_A_FILE - 1}}
        stats = _compact(bounds | {"nullCount": {"id": 0}})
        adds.append(
            {
                "path": path.name,
                "partitionValues": {},
                "size": path.stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
                "stats": stats,
            }
        )
    _commit(plain, {"minReaderVersion": 1, "minWriterVersion": 2}, adds)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    vectors = [add | {"deletionVector": _vector(deleted)} for add in adds]
    _commit(deleted, {"minReaderVersion": 3, "minWriterVersion": 7, **features}, vectors)


def _columns() -> Any:  # Any: an Arrow table
    import pyarrow as pa
    import pyarrow.compute as pc

    chance = random.Random(6)
    numbers = pc.random(ROWS_A_FILE, initializer=1)
    whole = pc.multiply(numbers, 1_000_000_000).cast(pa.int64(), safe=False)
    words = pa.array([f"category {number}" for number in range(40)])
    return pa.table(
        {
            "id": whole,
            "account": pc.bit_wise_and(whole, 0xFFFFF).cast(pa.int32()),
            "amount": pc.divide(whole, 100)
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(21, 2))
            .cast(pa.decimal128(12, 2)),
            "score": numbers,
            "ratio": pc.random(ROWS_A_FILE, initializer=2),
            "moment": pc.add(pc.multiply(whole, 1_000_000), 500).cast(pa.timestamp("us", tz="UTC")),
            "day": pc.bit_wise_and(whole, 0x3FFF).cast(pa.int32()).cast(pa.date32()),
            "category": words.take(pa.array([chance.randrange(40) for _ in range(ROWS_A_FILE)])),
            "note": pc.binary_join_element_wise("order ", whole.cast(pa.string()), ""),
            "is_open": pc.less(numbers, 0.3),
        }
    )


def _ids(number: int) -> Any:  # Any: an Arrow array
    import pyarrow as pa

    first = number * ROWS_A_FILE
    return pa.array(range(first, first + ROWS_A_FILE), pa.int64())


def _vector(table: Path) -> dict[str, object]:
    """Write a vector that deletes every tenth row, and return its descriptor."""
    containers = []
    for first in range(0, ROWS_A_FILE, 1 << 16):
        rows = [row - first for row in range(first, min(first + (1 << 16), ROWS_A_FILE)) if row % 10 == 3]
        bits = 0
        for row in rows:
            bits |= 1 << row
        is_array = len(rows) <= 4096
        data = struct.pack(f"<{len(rows)}H", *rows) if is_array else bits.to_bytes(8192, "little")
        containers.append((first >> 16, len(rows), data))
    head = struct.pack("<II", 12346, len(containers))
    head += b"".join(struct.pack("<HH", key, count - 1) for key, count, _ in containers)
    at = len(head) + 4 * len(containers)
    for _, _, data in containers:
        head += struct.pack("<I", at)
        at += len(data)
    bitmap = head + b"".join(data for _, _, data in containers)
    content = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    name = uuid.uuid4()
    file = b"\x01" + struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))
    (table / f"deletion_vector_{name}.bin").write_bytes(file)
    return {
        "storageType": "p",
        "pathOrInlineDv": f"file://{table.resolve()}/deletion_vector_{name}.bin",
        "offset": 1,
        "sizeInBytes": len(content),
        "cardinality": sum(count for _, count, _ in containers),
    }


def _commit(table: Path, protocol: dict[str, object], adds: list[dict[str, object]]) -> None:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in zip(NAMES, TYPES, strict=True)
    ]
    metadata = {
        "id": "8b8a9a1e-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _compact({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    actions = [{"protocol": protocol}, {"metaData": metadata}, *({"add": add} for add in adds)]
    name = table / "_delta_log" / "00000000000000000000.json"
    name.write_text("".join(_compact(action) + "\n" for action in actions))


def _compact(value: object) -> str:
    """JSON without blanks, as the usual writers write it."""
    return json.dumps(value, separators=(",", ":"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--work", help="keep the tables here, and use those that are there")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--only", help="cases, with commas")
    parser.add_argument("-n", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
