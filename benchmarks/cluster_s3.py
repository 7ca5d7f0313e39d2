"""Listing, footers, deletes and rewrites against the S3 stub: slots of Spark beside the embedded engine, and a bound.

  PYTHONPATH=. .venv-cluster/bin/python benchmarks/cluster_s3.py [--kinds listing,optimize] [--slots 8,4,2,1]
      [--calls 192] [--latency-ms 200] [--svg docs/img/cluster-slots.svg] [--json FILE]

Run it with a Python that has PySpark and botocore. Every task of Spark makes one call at a time; the embedded engine
makes as many as it prefers for a remote store. Each number of slots is a process of its own, in which the embedded
engine is measured again. A cell is the minimum of its runs.

The bound of a cell is calls x (latency + service time of the stub) / slots + calls x seconds of parsing + the floor of
a job for each job. Service time is measured by the stub. Parsing is measured as the time per call without latency, one
call after the other, less the service time. The floor is a job whose tasks do nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.slots_plot import draw
from benchmarks.synthetic import FILES_A_DIRECTORY, data_file, name_of, write_table
from deltacli import open_table
from deltacli.core.machine import system_clock
from deltacli.engine.base import Engine
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.engine.spark.engine import open_engine
from deltacli.engine.spark.session import SparkSettings
from deltacli.engine.spark.worker import _do_nothing
from deltacli.storage.base import PARALLEL_READS
from deltacli.work.files.deleting import DeleteBatch, DeletePiece, count_files
from deltacli.work.table_stores import TableStores

if TYPE_CHECKING:
    from deltacli.work.rewrite.pieces import RewriteSpec

FOOTERS_A_PIECE = 8
BATCHES_A_WAVE = 64
FILES_A_BIN = 8
KINDS = ("listing", "footers", "deletes", "optimize")
CALLS_OF = {"listing": ("LIST",), "footers": ("GET",), "deletes": ("DELETES",), "optimize": ("GET", "PUT", "HEAD")}
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Cell(NamedTuple):
    """One measurement; times in seconds. `slots` is 0 for the embedded engine."""

    kind: str
    slots: int
    calls: int
    wall: float
    service: float
    parsing: float
    floor: float
    jobs: int
    latency: float

    @property
    def at_once(self) -> int:
        """Return the calls at a time that the bound assumes: one of a task, although that of `optimize` reads ahead."""
        return self.slots or (EmbeddedEngine().threads if self.kind == "optimize" else PARALLEL_READS)

    @property
    def bound(self) -> float:
        """Return what the wall time must not exceed."""
        waiting = self.calls * (self.latency + self.service) / self.at_once
        return waiting + self.calls * self.parsing + self.jobs * self.floor


class Measured(NamedTuple):
    """The shortest wall time of several runs, the service time of the stub per call, and the calls and jobs of one."""

    wall: float
    service: float
    calls: int
    jobs: int


@contextmanager
def running_stub(files: int, log: Path) -> Iterator[str]:
    """Start the stub in a process of its own; yield its URL."""
    command = [sys.executable, str(Path(__file__).with_name("s3_stub.py")), "--files", str(files), "--log", str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


@dataclass(frozen=True)
class Bench:
    """The work of one process: `calls` of each kind on the table of the stub."""

    url: str
    calls: int
    latency: float

    def ask(self, what: str) -> dict[str, list[float]]:
        """Send a request to the stub itself; return the calls since the last one."""
        with urllib.request.urlopen(f"{self.url}/-/{what}") as answer:
            found: dict[str, list[float]] = json.loads(answer.read())
        return found

    def work(self, kind: str, engine: Engine, calls: int) -> int:
        """Run a kind of work; return the number of jobs."""
        stores = open_table("s3://lake/t", engine=engine).stores
        works = {"listing": _list, "footers": _footers, "deletes": _delete, "optimize": _optimize}
        return works[kind](engine, stores, calls)

    def measure(self, kind: str, engine: Engine, runs: int, calls: int) -> Measured:
        """Return the shortest wall time, the service time per call, the number of calls, and of jobs."""
        walls, services, made, jobs = [], [], 0, 0
        for _ in range(runs):
            self.ask("calls")
            started = time.perf_counter()
            jobs = self.work(kind, engine, calls)
            walls.append(time.perf_counter() - started)
            counts = self.ask("restore")
            found = [counts[name] for name in CALLS_OF[kind] if name in counts]
            made = int(sum(count for count, _ in found))
            services.append(sum(seconds for _, seconds in found) / made)
        return Measured(min(walls), min(services), made, jobs)

    def parsing(self, kind: str) -> float:
        """Return the seconds that one call takes without latency, less the service time."""
        self.ask("latency?ms=0")
        one = EmbeddedEngine(1)
        calls = max(FOOTERS_A_PIECE, self.calls // 4)
        self.work(kind, _OneAtATime(one), 8)
        self.ask("restore")
        found = self.measure(kind, _OneAtATime(one), 1, calls)
        self.ask(f"latency?ms={self.latency * 1_000}")
        return found.wall / found.calls - found.service

    def floor(self, engine: Engine, slots: int) -> float:
        """Return the shortest time of a job whose tasks do nothing."""
        stores = open_table("s3://lake/t", engine=engine).stores
        found = []
        for _ in range(5):  # the first one starts the workers
            started = time.perf_counter()
            list(engine.run_tasks(_do_nothing, range(24 * slots), stores))
            found.append(time.perf_counter() - started)
        return min(found)


class _OneAtATime(EmbeddedEngine):
    """Ignores how many calls are useful at a time."""

    def __init__(self, engine: EmbeddedEngine) -> None:
        super().__init__(engine.threads)

    def run_tasks(self, *given: Any, **more: Any) -> Iterator[Any]:  # Any: as in the port
        return super().run_tasks(*given, **more | {"at_once": 1})


def _list(engine: Engine, stores: TableStores, calls: int) -> int:
    """List directories and classify their files, of which nine in ten are live."""
    from deltacli.work.files.classifying import KNOWN_FILES, DirectoryPiece, classify_directory

    pieces = [DirectoryPiece(name_of(number * FILES_A_DIRECTORY).partition("/")[0]) for number in range(calls)]
    found = engine.run_tasks(
        classify_directory, pieces, stores, shared={KNOWN_FILES: _known(calls)}, at_once=PARALLEL_READS
    )
    total = sum(one.files.listed for one in found)
    assert total == calls * FILES_A_DIRECTORY, total
    return 1


_known_files: dict[int, Any] = {}  # Any: KnownFiles


def _known(calls: int) -> Any:  # Any: KnownFiles
    import pyarrow as pa

    from deltacli.delta.listing import HiddenNames
    from deltacli.delta.paths.keys import PathKeys, encode_paths_as_binary
    from deltacli.work.files.classifying import KnownFiles

    if calls not in _known_files:
        keys = PathKeys(("s3://lake/t",), is_portable=True)
        live = keys.hash_listed_paths(
            encode_paths_as_binary([name_of(n) for n in range(calls * FILES_A_DIRECTORY) if n % 10])
        )
        none = pa.array([], pa.int64())
        _known_files[calls] = KnownFiles(keys, HiddenNames(["d"]), system_clock(), live, none).sorted()
    return _known_files[calls]


def _footers(engine: Engine, stores: TableStores, calls: int) -> int:
    """Read the footer of one file after the other, as many to a piece as `validate` takes of a remote store."""
    from deltacli.work.facts.footer_files import ListedFile, ReadFooters

    size = len(data_file())
    files = [ListedFile(name_of(number), size) for number in range(calls)]
    pieces = [tuple(files[first : first + FOOTERS_A_PIECE]) for first in range(0, calls, FOOTERS_A_PIECE)]
    at_once = PARALLEL_READS if engine.may_repeat else None
    found = engine.run_tasks(ReadFooters(), pieces, stores, weigh=len, at_once=at_once or PARALLEL_READS)
    assert all(footer is not None for part in found for footer, _ in part)
    return 1


def _delete(engine: Engine, stores: TableStores, calls: int) -> int:
    """Delete files, a thousand to a call, in waves as `vacuum` sends them."""
    until = system_clock() + 600_000
    wave = BATCHES_A_WAVE if engine.may_repeat else PARALLEL_READS
    starts = range(0, calls * 1_000, 1_000)
    pieces = [DeletePiece(tuple(map(name_of, range(first, first + 1_000))), until) for first in starts]
    jobs = 0
    for first in range(0, calls, wave):
        sent = pieces[first : first + wave]
        found = engine.run_tasks(DeleteBatch(), sent, stores, weigh=count_files, at_once=PARALLEL_READS)
        assert sum(one.codes.count(1) for one in found) == 1_000 * len(sent)
        jobs += 1
    return jobs


def _optimize(engine: Engine, stores: TableStores, calls: int) -> int:
    """Write new files of eight files each, and read them back, as `optimize` does before it commits."""
    from deltacli.work.rewrite.pieces import SPEC, RewritePiece, SourceFile
    from deltacli.work.rewrite.rewriting import RewriteFiles
    from deltacli.work.rows.data_files import DataFile

    size = len(data_file())
    files = [SourceFile(DataFile(name_of(number), size)) for number in range(calls)]
    pieces = [
        RewritePiece(number, tuple(files[first : first + FILES_A_BIN]), {"d": "0"})
        for number, first in enumerate(range(0, calls, FILES_A_BIN))
    ]
    found = list(engine.run_tasks(RewriteFiles(), pieces, stores, shared={SPEC: _spec()}, weigh=lambda one: one.weight))
    assert sum(len(one.used) for one in found) == calls, found[0]
    return 1


@cache
def _spec() -> RewriteSpec:
    """How the files of the table are rewritten."""
    from deltacli.work.rewrite.pieces import RewriteSpec

    return RewriteSpec.make(open_table("s3://lake/t").snapshot().config, target_bytes=1 << 27)


def measure_slots(bench: Bench, kinds: Iterable[str], slots: int, runs: int) -> list[Cell]:
    """Measure every kind with this many slots and embedded, in turn."""
    spark = open_engine(SparkSettings(master=f"local[{slots}]"))
    embedded = EmbeddedEngine()
    cells: list[Cell] = []
    bench.ask(f"latency?ms={bench.latency * 1_000}")
    floor = bench.floor(spark, slots)
    for kind in kinds:
        parsing = bench.parsing(kind)
        for engine, count in ((spark, slots), (embedded, 0)):
            bench.work(kind, engine, 8 * max(1, count))
            bench.ask("restore")
            found = bench.measure(kind, engine, runs, bench.calls)
            own_floor = floor if count else 0.0
            times = found.wall, found.service, parsing, own_floor
            cells.append(Cell(kind, count, found.calls, *times, found.jobs, bench.latency))
    spark.close()
    return cells


def best(cells: Iterable[Cell]) -> list[Cell]:
    """Return one cell for each kind and number of slots, that of the shortest wall time."""
    chosen: dict[tuple[str, int], Cell] = {}
    for cell in cells:
        known = chosen.get((cell.kind, cell.slots))
        if known is None or cell.wall < known.wall:
            chosen[cell.kind, cell.slots] = cell
    return sorted(chosen.values(), key=lambda cell: (KINDS.index(cell.kind), cell.slots or 99))


def row(cell: Cell) -> str:
    """Return a row of the table."""
    name = str(cell.slots) if cell.slots else f"embedded, {cell.at_once} at a time"
    under = 100 * (1 - cell.wall / cell.bound)
    return (
        f"| {cell.kind} | {name} | {cell.wall:.1f} s | {cell.bound:.1f} s | {under:.0f} % | {cell.floor:.2f} s "
        f"| {1_000 * cell.service:.1f} ms | {1_000 * cell.parsing:.1f} ms |"
    )


def main() -> None:
    """Start the stub and a process per number of slots, and print Markdown; fail if a cell exceeds its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--slots", default="8,4,2,1")
    parser.add_argument("--calls", type=int, default=192)
    parser.add_argument("--latency-ms", type=float, default=200)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--more", action="store_true", help="add to the measurements in the file of --json")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.url:
        bench = Bench(given.url, given.calls, given.latency_ms / 1_000)
        print(json.dumps(measure_slots(bench, given.kinds.split(","), int(given.slots), given.runs)))
        return
    cells = [Cell(*values) for values in json.loads(given.json.read_text())] if given.more else list[Cell]()
    with tempfile.TemporaryDirectory(prefix="deltacli-bench-") as place:
        write_table(Path(place) / "table", 1)
        with running_stub(given.calls * FILES_A_DIRECTORY, Path(place) / "table") as url:
            environment = {**os.environ, **ENVIRONMENT, "AWS_ENDPOINT_URL": url}
            for slots in given.slots.split(","):
                command = [sys.executable, *sys.argv, "--url", url, "--slots", slots]
                command += ["--runs", str(given.runs if int(slots) > 2 else 1)]  # the last option of a name counts
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
                cells += [Cell(*values) for values in json.loads(done.stdout.splitlines()[-1])]
                if given.json:
                    given.json.write_text(json.dumps(cells))
                print(f"{slots} slots: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    report(best(cells), given.svg)


def report(cells: list[Cell], svg: Path | None) -> None:
    """Print the table, write the plot, and exit with 1 if a cell exceeds its bound."""
    print("| work | slots | wall | bound | under it by | floor of a job | service | parsing |")
    print("|---|---|---|---|---|---|---|---|")
    for cell in cells:
        print(row(cell))
    if svg is not None:
        svg.write_text(draw([(cell.kind, cell.slots, cell.wall) for cell in cells]), encoding="utf-8")
    beyond = [cell for cell in cells if cell.wall > cell.bound]
    if beyond:
        sys.exit(f"{len(beyond)} of {len(cells)} cells exceed their bound")


if __name__ == "__main__":
    main()
