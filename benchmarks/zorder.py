"""A z-order against that of deltalake: processor time, time, memory, and the files that queries open afterwards.

  .venv/bin/python benchmarks/zorder.py --peer-python .venv-peers/bin/python [--work DIR] [--rows 6000000] [-n 3]

Run it with the Python of the environment that has deltacli. The table has orders in 24 files, which deltalake writes.
Every run sorts a copy by customer and day, in a process of its own; ratios are of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

TARGET_BYTES = 32 << 20

MAKE = """
import sys
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

place, rows = sys.argv[1], int(sys.argv[2]) // 24

def number(below, seed):
    return pc.cast(pc.floor(pc.multiply(pc.random(rows, initializer=seed), below)), pa.int64())

for file in range(24):
    seed = 10 * file
    customers = number(1_000_000, seed)
    words = pc.binary_join_element_wise(customers.cast(pa.string()), number(10**9, seed + 1).cast(pa.string()), "-")
    columns = {
        "id": pa.array(range(file * rows, (file + 1) * rows)),
        "customer": customers,
        "day": number(3_650, seed + 2).cast(pa.int32()),
        "amount": pc.random(rows, initializer=seed + 3),
        "quantity": number(100, seed + 4),
        "text": words,
        "status": pc.take(pa.array(["new", "paid", "sent", "done"]), number(4, seed + 5)),
    }
    write_deltalake(place, pa.table(columns), mode="append")
"""
OURS = """
import sys
from deltacli import open_table
open_table(sys.argv[1]).optimize(zorder=["customer", "day"], target_size=int(sys.argv[2]))
"""
THEIRS = """
import sys
from deltalake import DeltaTable
DeltaTable(sys.argv[1]).optimize.z_order(["customer", "day"], target_size=int(sys.argv[2]))
"""
OPENED = """
import json, sys
from deltacli import open_table
batches = open_table(sys.argv[1]).snapshot().files()
stats = [json.loads(text) for one in batches for text in one.column("stats").to_pylist()]
found = {}
for column, below in (("customer", 1_000_000), ("day", 3_650)):
    ranges = [(step * below // 100, (step + 1) * below // 100 - 1) for step in range(100)]
    bounds = [(one["minValues"][column], one["maxValues"][column]) for one in stats]
    found[column] = sum(low <= last and first <= high for first, last in ranges for low, high in bounds) / len(ranges)
print(json.dumps({"files": len(stats), **found}))
"""


class Measured(NamedTuple):
    """One process: wall and processor time in seconds, peak memory in MiB."""

    wall: float
    cpu: float
    memory: float


def main() -> None:
    """Make the table, sort copies of it in turn, and print what was measured."""
    options = _options()
    work = Path(options.work or tempfile.mkdtemp(prefix="deltacli-zorder-"))
    table = work / "orders"
    if not table.exists():
        subprocess.run([options.peer_python, "-c", MAKE, table, str(options.rows)], check=True)
    size = sum(path.stat().st_size for path in table.glob("*.parquet"))
    print(f"{options.rows:,} rows, {size >> 20} MiB; opened by a query for 1 % of a range: {_opened(table)}")
    programs = {"deltacli": (sys.executable, OURS), "deltalake": (options.peer_python, THEIRS)}
    runs: dict[str, list[Measured]] = {name: [] for name in programs}
    for turn in range(options.n):
        for name, (python, text) in programs.items():
            copy = work / name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(table, copy)
            runs[name].append(_run([python, "-c", text, str(copy), str(TARGET_BYTES)]))
            if not turn:
                print(f"{name}: {_opened(copy)}")
    medians = {name: Measured(*map(statistics.median, zip(*found, strict=True))) for name, found in runs.items()}
    for name, one in medians.items():
        print(f"{name:10} {one.wall:6.1f} s, {one.cpu:6.1f} s of processors, {one.memory:6.0f} MiB")
    ratios = [ours / theirs for ours, theirs in zip(*medians.values(), strict=True)]
    print("ratios of time, processor time, memory: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))


def _opened(table: Path) -> dict[str, float]:
    """Return the number of files, and how many a query for a hundredth of a column's range opens."""
    done = subprocess.run([sys.executable, "-c", OPENED, str(table)], check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _run(command: list[str]) -> Measured:
    begun = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return Measured(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare z-orders.")
    parser.add_argument("--peer-python", required=True, help="Python of an environment with deltalake")
    parser.add_argument("--work", help="directory for the tables")
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("-n", type=int, default=3, help="runs of each")
    return parser.parse_args()


if __name__ == "__main__":
    main()
