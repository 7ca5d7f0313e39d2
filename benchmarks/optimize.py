"""The compaction of small files beside deltalake's, with the same codec, level, row groups and target, with and without
reading the new files back; DuckDB's copy of the rows into files of that size is reported beside them.

  DELTACLI_PEER_PYTHON=.venv-peers/bin/python .venv/bin/python -m benchmarks.optimize [--files 1000] [--rows 13000]

The files have eight columns and 70 bytes per row: with `--rows 1400` 0.1 MB each, with 13,000 0.9 MB. Runs alternate;
their medians count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

_TARGET, _GROUP_ROWS = 128 << 20, 1 << 20
_LARGE = 2_000_000_000
"""Bytes from which on the bar is for a run that reads the new files back, below for one that does not."""
_MEMORY = 1.2
"""The most memory, of deltalake's."""
_OURS = f"""
import sys
from deltacli.api.table import open_table
from deltacli.work.rewrite.pieces import RewriteSpec
if sys.argv[2] == "without":
    make = RewriteSpec.make.__func__
    RewriteSpec.make = classmethod(lambda cls, *given, **how: make(cls, *given, **(how | {{"reads_back": False}})))
open_table(sys.argv[1]).optimize(target_size={_TARGET})
"""
_DELTALAKE = f"""
import sys, deltalake
properties = deltalake.WriterProperties(compression="ZSTD", compression_level=1, max_row_group_size={_GROUP_ROWS})
deltalake.DeltaTable(sys.argv[1]).optimize.compact(target_size={_TARGET}, writer_properties=properties)
"""
_DUCKDB = f"""
import sys, duckdb
files = "read_parquet('" + sys.argv[1] + "/*.parquet')"
how = "FORMAT parquet, CODEC 'zstd', COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {_GROUP_ROWS}, FILE_SIZE_BYTES {_TARGET}"
duckdb.sql("SET threads = 2")
duckdb.sql(f"COPY (SELECT * FROM {{files}}) TO '" + sys.argv[1] + f"/copied' ({{how}})")
"""
_KINDS = {
    "id": "long",
    "at": "timestamp",
    "a": "double",
    "b": "double",
    "k": "integer",
    "name": "string",
    "note": "string",
    "amount": "decimal(18,2)",
}


class _Run(NamedTuple):
    cpu: float
    wall: float
    peak_mb: float


def main() -> None:
    """Build the table, run the comparison, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=13_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    peer = os.environ["DELTACLI_PEER_PYTHON"]
    commands = {
        "deltalake": [peer, "-c", _DELTALAKE],
        "with read-back": [sys.executable, "-c", _OURS],
        "without read-back": [sys.executable, "-c", _OURS],
        "DuckDB's copy": [peer, "-c", _DUCKDB],
    }
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "table"
        size = build_small_files(table, given.files, given.rows)
        print(f"{given.files:,} files, {size / 1e6:,.0f} MB", flush=True)
        found: Mapping[str, list[_Run]] = {name: [] for name in commands}
        for _ in range(given.rounds):
            for name, command in commands.items():
                copy = Path(scratch) / "copy"
                shutil.copytree(table, copy, copy_function=os.link)
                found[name].append(_measure([*command, str(copy), name.partition(" ")[0]]))
                shutil.rmtree(copy)
    usual = {name: _Run(*map(median, zip(*runs, strict=True))) for name, runs in found.items()}
    theirs = usual["deltalake"]
    is_large = size >= _LARGE
    for name, bar in (
        ("with read-back", 1.0 if is_large else None),
        ("without read-back", None if is_large else 1.0),
        ("DuckDB's copy", None),
    ):
        ours = usual[name]
        cpu, wall = ours.cpu / theirs.cpu, ours.wall / theirs.wall
        verdict = "reported"
        if bar is not None:
            passes = max(cpu, wall) <= bar and ours.peak_mb <= _MEMORY * theirs.peak_mb
            verdict = f"bar {bar}: {'PASS' if passes else 'FAIL'}"
        print(f"{name}: {ours.cpu:.1f} s CPU, {ours.wall:.1f} s wall, {ours.peak_mb:.0f} MB;", end=" ")
        print(f"CPU {cpu:.2f}, wall {wall:.2f}, memory {ours.peak_mb / theirs.peak_mb:.2f}; {verdict}")


def build_small_files(table: Path, files: int, rows: int) -> int:
    """Write a table of files with so many rows each; return the bytes of its files."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    log, draw, size = table / "_delta_log", random.Random(1), 0
    log.mkdir(parents=True)
    names = pa.array([f"name-{number:06d}" for number in range(5_000)])
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _KINDS.items()]
    metadata = {
        "id": "8b8a9a1e-0000-4000-8000-000000000002",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }

    def numbers(most: int) -> pa.Array:
        shares = pc.random(rows, initializer=draw.getrandbits(60))
        return pc.cast(pc.floor(pc.multiply(shares, float(most))), pa.int64())

    with open(log / f"{0:020d}.json", "w") as commit:
        commit.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        commit.write(json.dumps({"metaData": metadata}) + "\n")
        for number in range(files):
            ids = pa.array(range(number * rows, (number + 1) * rows), pa.int64())
            text = draw.randbytes(16 * rows).hex()
            cents = pc.cast(pc.cast(numbers(10**8), pa.decimal128(19, 0)), pa.decimal128(21, 2))
            columns = {
                "id": ids,
                "at": pc.cast(pc.add(pc.multiply(ids, 1_000), 1_700_000_000_000_000), pa.timestamp("us", "UTC")),
                "a": pc.random(rows, initializer=draw.getrandbits(60)),
                "b": pc.divide(pc.cast(numbers(1_000), pa.float64()), 10.0),
                "k": pc.cast(numbers(1_000), pa.int32()),
                "name": pc.take(names, numbers(5_000)),
                "note": [text[begin : begin + 32] for begin in range(0, len(text), 32)],
                "amount": pc.cast(cents, pa.decimal128(18, 2)),
            }
            path = table / f"part-{number:06d}.parquet"
            pq.write_table(pa.table(columns), path, compression="snappy")
            size += path.stat().st_size
            add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "dataChange": True}
            commit.write(json.dumps({"add": {**add, "modificationTime": 1_700_000_000_000}}) + "\n")
    return size


def _measure(command: list[str]) -> _Run:
    """Run a command in a process of its own."""
    begun = monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = monotonic() - begun
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{command[0]} ended with {status}")
    return _Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
