"""The plan of a vacuum of a very large table: 5 million live files, 6 million names listed, peak memory and time.

  .venv/bin/python benchmarks/vacuum_plan.py TABLE [--orphans 1000000]

TABLE has a log alone; its listing is made up: every live file, and orphans, 2,000 to a directory. A process of its own
plans by such a walk, another one by an inventory of the same names.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumPlan, VacuumRequest
from deltacli.storage import WalkEntry, open_storage

_OLD_MS = 1_500_000_000_000
_FILES_A_DIRECTORY = 2_000
_LIMIT_BYTES = 1.5 * (1 << 30)


def main() -> None:
    """Make the listing, run both ways, and tell what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("--orphans", type=int, default=1_000_000)
    parser.add_argument("--run", nargs=2, metavar=("HOW", "NAMES"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        _run(given.table, *given.run)
        return
    with tempfile.TemporaryDirectory() as scratch:
        names = str(Path(scratch) / "names.parquet")
        environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}  # as the command line has it
        count = _write_names(given.table, given.orphans, names)
        for how in ("walk", "inventory"):
            command = [sys.executable, __file__, given.table, "--run", how, names]
            answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()
            seconds, peak, candidates = float(answer[0]), int(answer[1]), int(answer[2])
            memory = f"{peak / (1 << 20):,.0f} MiB"
            verdict = "PASS" if peak < _LIMIT_BYTES and candidates == given.orphans else "FAIL"
            print(f"{how:<10} {count:,} names, {candidates:,} go  {seconds:6.1f} s  {memory}  {verdict}")


def _write_names(table: str, orphans: int, place: str) -> int:
    """Write every listed name, with size and time; return how many there are."""
    schema = pa.schema([("path", pa.string()), ("size", pa.int64()), ("modificationTime", pa.int64())])
    count = 0
    with pq.ParquetWriter(place, schema) as writer:

        def write(paths: Any) -> None:  # Any: an Arrow array
            rows = len(paths)
            columns = [paths, pa.repeat(pa.scalar(1_000, pa.int64()), rows), pa.repeat(pa.scalar(_OLD_MS), rows)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))

        for batch in open_table(table).snapshot().file_actions.narrow():
            if batch.adds is not None and batch.adds.num_rows:
                write(batch.adds.column("path"))
                count += batch.adds.num_rows
        numbers = iter(range(orphans))
        while some := list(islice(numbers, 100_000)):
            write(pa.array([f"gone={n // _FILES_A_DIRECTORY}/part-{n:05d}-6f1c1d2e-c000.snappy.parquet" for n in some]))
            count += len(some)
    return count


def _run(table: str, how: str, names: str) -> None:
    opened = open_table(table)
    started = time.perf_counter()
    plan = _by_inventory(opened, names) if how == "inventory" else _by_walk(opened, names)
    taken = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(taken, peak, plan.files)


def _by_inventory(table: Table, names: str) -> VacuumPlan:
    return plan_vacuum(table, VacuumRequest(inventory=names, max_delete="100%"))


def _by_walk(table: Table, names: str) -> VacuumPlan:
    storage = _MadeUpStorage(table.uri, names)
    made_up = Table(storage, clock=table.clock)  # type: ignore[arg-type]  # what it lacks it passes on
    return plan_vacuum(made_up, VacuumRequest(max_delete="100%"))


class _MadeUpStorage:
    """A store that lists made-up files; the log is the real one."""

    def __init__(self, uri: str, names: str) -> None:
        self._inner = open_storage(uri)
        self._names = names

    def __getattr__(self, name: str) -> Any:  # Any: whatever the store has
        return getattr(self._inner, name)

    def walk(self, directory: str, enter: Callable[[str, Sequence[str]], Iterable[str]]) -> Iterator[WalkEntry]:  # noqa: ARG002
        """Every made-up file, as a store that lists flat tells it."""
        for batch in pq.ParquetFile(self._names).iter_batches(batch_size=_FILES_A_DIRECTORY):
            yield WalkEntry("", batch.column("path").to_pylist(), None, None, [])

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        """Old files of one size."""
        return [1_000] * len(paths), [_OLD_MS] * len(paths)


if __name__ == "__main__":
    main()
