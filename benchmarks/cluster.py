"""The Spark engine beside the embedded one in the same process, warm: counts and a V2 checkpoint of a large table, and
`optimize` of small files with the read-back of the new ones.

  PYTHONPATH=. .venv-cluster/bin/python benchmarks/cluster.py [--adds 1000000] [--files 1000] [--slots 2] [-n 7]
      [--work DIR]

Run it with a Python that has PySpark. The sides take turns; the first job is shown apart. The ratio is that of the
minima, because other work on the machine only ever adds time; medians are shown beside them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.optimize import build_small_files
from benchmarks.synthetic import write_table
from deltacli import open_table
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.engine import open_engine
from deltacli.engine.spark.session import SparkSettings

OPTIMIZED_BYTES = 128 << 20


class Case(NamedTuple):
    """An operation on a table, how many times the time of the embedded engine it may take, and what makes the table
    as it was for each run: it returns the place.
    """

    name: str
    target: float
    run: Callable[[Path, Engine], object]
    table: Path
    as_before: Callable[[Path], Path]


def count(table: Path, engine: Engine) -> object:
    """Count the files of the newest version."""
    return open_table(table, engine=engine).snapshot().counts()


def checkpoint(table: Path, engine: Engine) -> object:
    """Write a V2 checkpoint of the newest version; return the number of its actions."""
    return sorted(open_table(table, engine=engine).checkpoint(layout="v2").actions.items())


def optimize(table: Path, engine: Engine) -> object:
    """Make few files of many, and return their number."""
    return open_table(table, engine=engine).optimize(target_size=OPTIMIZED_BYTES).files_added


def linked_copy(table: Path) -> Path:
    """Return another table of the same files beside it, in place of the last one."""
    copy = table.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=os.link)
    return copy


def without_new_checkpoint(table: Path) -> Path:
    """Delete what `checkpoint` wrote, so that the other side starts from the same files."""
    log = table / "_delta_log"
    shutil.rmtree(log / "_sidecars", ignore_errors=True)
    for path in log.glob(f"{2:020d}.checkpoint.*"):
        path.unlink()
    (log / "_last_checkpoint").write_text('{"version":1,"size":1}')
    return table


def seconds_of(case: Case, engine: Engine) -> tuple[float, object]:
    """Return how long a case takes, and its result."""
    table = case.as_before(case.table)
    started = time.perf_counter()
    result = case.run(table, engine)
    return time.perf_counter() - started, result


def compare(case: Case, spark: Engine, runs: int) -> str:
    """Run both sides in turn, and return a row of the table."""
    embedded = EmbeddedEngine()
    first, _ = seconds_of(case, spark)
    seconds_of(case, spark)
    seconds_of(case, embedded)
    ours, theirs = [], []
    for _ in range(runs):
        here, expected = seconds_of(case, embedded)
        there, found = seconds_of(case, spark)
        if found != expected:
            sys.exit(f"error: {case.name}: {found} on Spark, {expected} embedded")
        ours.append(here)
        theirs.append(there)
    ratio = min(theirs) / min(ours)
    middle = statistics.median(theirs) / statistics.median(ours)
    verdict = "PASS" if ratio <= case.target else "FAIL"
    return (
        f"| {case.name} | {min(ours):.2f} s | {min(theirs):.2f} s | {ratio:.2f} | {middle:.2f} | {case.target} "
        f"| {first:.1f} s | {verdict} |"
    )


def main() -> None:
    """Make the table, measure, and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=1_000, help="small files of 0.9 MB to optimize")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("-n", type=int, default=7)
    parser.add_argument("--work", help="a directory for the table (default: a temporary one)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deltacli-bench-", dir=given.work) as place:
        table, small = Path(place) / "table", Path(place) / "small"
        write_table(table, given.adds)
        build_small_files(small, given.files, 13_000)
        cases = [
            Case(f"counts of {given.adds:,} adds", 2.5, count, table, without_new_checkpoint),
            Case(f"V2 checkpoint of {given.adds:,} adds", 2.0, checkpoint, table, without_new_checkpoint),
            Case(f"optimize of {given.files:,} small files", 1.3, optimize, small, linked_copy),
        ]
        started = time.perf_counter()
        spark = open_engine(SparkSettings(master=f"local[{given.slots}]"))
        print(f"session: {time.perf_counter() - started:.1f} s, load {os.getloadavg()[0]:.1f}\n")
        print(
            "| case | embedded | Spark | ratio | of medians | target | first job | |\n|---|---|---|---|---|---|---|---|"
        )
        for case in cases:
            print(compare(case, spark, given.n), flush=True)
        spark.close()
        print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
