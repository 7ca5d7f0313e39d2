"""A worker that stops in the middle of a batch, while the table changes, and wakes up later."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

from deltacli.api.table import open_table
from deltacli.core.machine import Machine
from deltacli.engine.spark.engine import SparkEngine
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.full_plan import plan_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from tests.cluster import mortal_tables as tables
from tests.cluster.gates import Gates, Step
from tests.cluster.tasks import ClockInFile
from tests.support.actions import add, to_bytes
from tests.support.builder import LOG

FILES = 100
"""One batch."""
_LATER_MS = 3_600_000


def test_a_file_that_is_needed_by_the_time_a_paused_worker_wakes_survives(
    spark_engine: SparkEngine, gates: Gates, tmp_path: Path
) -> None:
    """Acceptance case 3: the file survives, because no request is sent after the time of the batch."""
    place = tables.with_orphans(tmp_path / "tbl", FILES)
    clock = ClockInFile(str(tmp_path / "clock"))
    clock.set(1_000_000)
    table = open_table(str(place), engine=spark_engine)
    plan = plan_vacuum(table, VacuumRequest(max_delete="100%"))
    gates.close(Step("delete", "orphan", "after", number=5, executor=True))
    needed: list[str] = []
    waking = threading.Thread(target=lambda: needed.append(_need_meanwhile(gates, place, clock)))
    waking.start()

    table.stores = replace(table.stores, machine=Machine(clock))
    outcome = execute_vacuum(table, plan)
    waking.join()

    assert needed == [str(path.relative_to(place)) for path in place.glob("p=*/*.parquet")]
    assert (FILES - 1, 1, 0) == (outcome.deleted.files, outcome.spared, outcome.failed.count)
    assert FILES - 1 == int(tables.last_commit(place)["operationMetrics"]["numDeletedFiles"])
    assert [] == list(open_table(str(place)).validate(level="storage", select=["data.file-missing"]).findings)


def _need_meanwhile(gates: Gates, place: Path, clock: ClockInFile) -> str:
    """Pause the worker at the gate, let a commit need a file that it has not deleted, and wake it much later."""
    worker = gates.wait()
    os.kill(worker, signal.SIGSTOP)
    assert FILES - 5 == tables.orphans(place)
    needed = max(place.glob("p=*/orphan-*.parquet")).relative_to(place)
    newest = max(int(path.name[:20]) for path in (place / LOG).glob("0*.json"))
    content = to_bytes([add(str(needed), size=2, records=1)])
    (place / LOG / f"{newest + 1:020d}.json").write_bytes(content)
    clock.set(clock() + _LATER_MS)
    gates.open()
    os.kill(worker, signal.SIGCONT)
    return str(needed)
