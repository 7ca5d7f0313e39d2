"""Whole operations on a large synthetic table with Spark: what tasks take, what the driver takes, and its memory.

  PYTHONPATH=. .venv-cluster/bin/python benchmarks/scale_run.py --files 1000000 --json FILE
      [--slots 2] [--latency-ms 50] [--footers 20000] [--repeat 1] [--only counts,checkpoint]

Nine in ten of the files are live, one in ten is to be deleted; the log has nine tombstones for each file, within the
retention, so that it has ten times as many actions as there are files. Counts and checkpoint read the log from the
local disk; vacuum and footers use the S3 stub. `scale.py` makes unit costs of the figures, and predictions of those.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.cluster import without_new_checkpoint
from benchmarks.cluster_s3 import ENVIRONMENT, FOOTERS_A_PIECE, Bench, running_stub
from benchmarks.synthetic import data_file, name_of, write_table
from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.machine import system_clock
from deltacli.engine.spark import engine as spark_module
from deltacli.engine.spark.engine import SparkEngine
from deltacli.engine.spark.session import SparkSettings, open_session
from deltacli.engine.spark.worker import _do_nothing
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.storage.base import PARALLEL_READS
from deltacli.work.checkpoints.encoding import ROWS_PER_GROUP


@dataclass
class Measured:
    """An operation: wall time, how much of it was spent in jobs, jobs and pieces, and bytes sent and returned; memory
    that the driver had in addition at its peak; processor time of the driver's Python, and of the JVM and the workers,
    which other load on the machine does not change; calls of the store, and seconds that the stub took for them.
    """

    name: str
    units: int
    seconds: float = 0.0
    in_jobs: float = 0.0
    jobs: int = 0
    pieces: int = 0
    sent: int = 0
    shared: int = 0
    returned: int = 0
    driver_bytes: int = 0
    driver_cpu: float = 0.0
    cluster_cpu: float = 0.0
    calls: dict[str, list[float]] = field(default_factory=dict)


class CountingEngine(SparkEngine):
    """A Spark engine that adds up what its jobs take."""

    now: Measured | None = None

    def _rows(self, job: Any, window: Any) -> Iterator[Any]:  # Any: as in the engine
        began = time.perf_counter()
        rows = list(super()._rows(job, window))
        if self.now is not None:
            self.now.in_jobs += time.perf_counter() - began
            self.now.jobs += 1
            self.now.pieces += len(window)
            self.now.sent += sum(len(piece) for piece, _ in window)
            self.now.returned += sum(len(row.content) for row in rows)
        yield from rows


def _memory(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) << 10 if found else 0


def _cluster_cpu() -> float:
    """Return the processor seconds of all processes below this one, living or waited for, but those of the stub."""
    stats = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            if b"s3_stub" not in Path("/proc", name, "cmdline").read_bytes():
                stats[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
        except OSError:
            continue
    found, level = 0, {os.getpid()}
    while level:
        level = {pid for pid, (parent, _) in stats.items() if parent in level}
        found += sum(stats[pid][1] for pid in level)
    return found / os.sysconf("SC_CLK_TCK")


@dataclass
class Runner:
    """Measures operations one after the other."""

    engine: CountingEngine
    repeat: int
    done: list[Measured] = field(default_factory=list)

    def measure(
        self, name: str, units: int, work: Callable[[], object], *, before: Callable[[], object] = lambda: None
    ) -> object:
        """Run an operation `repeat` times, keep the fastest, and return the result of the last."""
        found: list[Measured] = []
        result: object = None
        for _ in range(self.repeat):
            result = None
            before()
            gc.collect()
            now = self.engine.now = Measured(name, units)
            Path("/proc/self/clear_refs").write_text("5")
            had = _memory("VmRSS")
            cpu, others, began = time.process_time(), _cluster_cpu(), time.perf_counter()
            result = work()
            now.seconds = time.perf_counter() - began
            now.driver_bytes = _memory("VmHWM") - had
            now.driver_cpu, now.cluster_cpu = time.process_time() - cpu, _cluster_cpu() - others
            found.append(now)
        fastest = min(found, key=lambda one: one.seconds)
        fastest.driver_bytes = max(one.driver_bytes for one in found)
        self.done.append(fastest)
        print(f"{fastest}  load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        return result


def run_log(runner: Runner, place: Path, files: int) -> None:
    """Count the files, and write a V2 checkpoint."""
    table = open_table(place, engine=runner.engine)
    actions = 10 * files
    runner.measure("floor of a job", 1, lambda: list(runner.engine.run_tasks(_do_nothing, range(64), table.stores)))
    runner.measure("counts", actions, lambda: open_table(place, engine=runner.engine).snapshot().counts())
    runner.measure(
        "checkpoint",
        actions,
        lambda: open_table(place, engine=runner.engine).checkpoint(layout="v2"),
        before=lambda: without_new_checkpoint(place),
    )
    without_new_checkpoint(place)


def run_store(runner: Runner, bench: Bench, files: int, footers: int) -> None:
    """Plan a vacuum, delete, and read some of the footers, all on the stub."""

    def with_calls(name: str, units: int, work: Callable[[Table], object]) -> object:
        result = runner.measure(
            name,
            units,
            lambda: work(open_table("s3://lake/t", engine=runner.engine)),
            before=lambda: bench.ask("calls"),
        )
        runner.done[-1].calls = bench.ask("calls")
        return result

    with_calls(
        "floor of a job, S3", 1, lambda table: list(runner.engine.run_tasks(_do_nothing, range(64), table.stores))
    )
    plan: Any = with_calls("vacuum, dry run", files, lambda table: table.vacuum(dry_run=True))
    assert plan.plan.files == files // 10, plan.plan.files
    with_calls("footers", footers, lambda table: _read_footers(runner.engine, table, footers))
    runner.repeat = 1
    done: Any = with_calls(
        "vacuum, execution", files // 10, lambda table: execute_vacuum(table, plan.plan, VacuumRequest())
    )
    assert done.deleted.files == files // 10, done


def _read_footers(engine: CountingEngine, table: Table, footers: int) -> None:
    from deltacli.work.facts.footer_files import ListedFile, ReadFooters

    size = len(data_file())
    starts = range(0, footers, FOOTERS_A_PIECE)
    pieces = (tuple(ListedFile(name_of(n), size) for n in range(first, first + FOOTERS_A_PIECE)) for first in starts)
    for _ in engine.run_tasks(ReadFooters(), pieces, table.stores, weigh=len, at_once=PARALLEL_READS):
        pass


def main() -> None:
    """Make the table, run the operations, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--footers", type=int, default=2_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--work", help="a directory for the table (default: a temporary one)")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deltacli-bench-", dir=given.work) as place:
        table = Path(place) / "table"
        live = given.files * 9 // 10
        now_ms = system_clock()
        write_table(
            table,
            live,
            10 * given.files - live,
            first_removed=given.files,
            removed_ms=now_ms,
            rows_a_group=ROWS_PER_GROUP,
        )
        with running_stub(given.files, table) as url:
            os.environ.update({**ENVIRONMENT, "AWS_ENDPOINT_URL": url})
            bench = Bench(url, 0, given.latency_ms / 1_000)
            bench.ask(f"latency?ms={given.latency_ms}")
            engine = CountingEngine(open_session(SparkSettings(master=f"local[{given.slots}]")), is_own=True)
            list(engine.run_tasks(_do_nothing, range(64), open_table(table, engine=engine).stores))  # the first job
            runner = Runner(engine, given.repeat)
            _note_shared(runner)
            run_log(runner, table, given.files)
            run_store(runner, bench, given.files, given.footers)
            engine.close()
    scenario = {"files": given.files, "slots": given.slots, "latency": given.latency_ms / 1_000}
    given.json.write_text(json.dumps({**scenario, "measured": [asdict(one) for one in runner.done]}, indent=1) + "\n")


def _note_shared(runner: Runner) -> None:
    """Add up the bytes of shared values that are sent as files."""
    ship = spark_module.Cluster.ship_file

    def noted(cluster: Any, name: str, content: bytes) -> None:  # Any: a Cluster
        if runner.engine.now is not None:
            runner.engine.now.shared += len(content)
        ship(cluster, name, content)

    spark_module.Cluster.ship_file = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
