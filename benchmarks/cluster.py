"""The Spark engine beside the embedded one in the same process: counts and a V2 checkpoint of a large table, warm.

  PYTHONPATH=. .venv-cluster/bin/python benchmarks/cluster.py [--adds 1000000] [--slots 2] [-n 7] [--work DIR]

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

from benchmarks.synthetic import write_table
from deltacli import open_table
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.session import SparkSettings, open_engine


class Case(NamedTuple):
    """An operation on a table, and how many times the time of the embedded engine it may take."""

    name: str
    target: float
    run: Callable[[Path, Engine], object]


def count(table: Path, engine: Engine) -> object:
    """Count the files of the newest version."""
    return open_table(table, engine=engine).snapshot().counts()


def checkpoint(table: Path, engine: Engine) -> object:
    """Write a V2 checkpoint of the newest version; return the number of its actions."""
    return sorted(open_table(table, engine=engine).checkpoint(layout="v2").actions.items())


def without_new_checkpoint(table: Path) -> None:
    """Delete what `checkpoint` wrote, so that the other side starts from the same files."""
    log = table / "_delta_log"
    shutil.rmtree(log / "_sidecars", ignore_errors=True)
    for path in log.glob(f"{2:020d}.checkpoint.*"):
        path.unlink()
    (log / "_last_checkpoint").write_text('{"version":1,"size":1}')


def seconds_of(case: Case, table: Path, engine: Engine) -> tuple[float, object]:
    """Return how long a case takes, and its result."""
    without_new_checkpoint(table)
    started = time.perf_counter()
    result = case.run(table, engine)
    return time.perf_counter() - started, result


def compare(case: Case, table: Path, spark: Engine, runs: int) -> str:
    """Run both sides in turn, and return a row of the table."""
    embedded = EmbeddedEngine()
    first, _ = seconds_of(case, table, spark)
    seconds_of(case, table, spark)
    seconds_of(case, table, embedded)
    ours, theirs = [], []
    for _ in range(runs):
        here, expected = seconds_of(case, table, embedded)
        there, found = seconds_of(case, table, spark)
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
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("-n", type=int, default=7)
    parser.add_argument("--work", help="a directory for the table (default: a temporary one)")
    given = parser.parse_args()
    cases = [
        Case(f"counts of {given.adds:,} adds", 2.5, count),
        Case(f"V2 checkpoint of {given.adds:,} adds", 2.0, checkpoint),
    ]
    with tempfile.TemporaryDirectory(prefix="deltacli-bench-", dir=given.work) as place:
        table = Path(place) / "table"
        write_table(table, given.adds)
        started = time.perf_counter()
        spark = open_engine(SparkSettings(master=f"local[{given.slots}]"))
        print(f"session: {time.perf_counter() - started:.1f} s, load {os.getloadavg()[0]:.1f}\n")
        print(
            "| case | embedded | Spark | ratio | of medians | target | first job | |\n|---|---|---|---|---|---|---|---|"
        )
        for case in cases:
            print(compare(case, table, spark, given.n), flush=True)
        spark.close()
        print(f"\nload {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
