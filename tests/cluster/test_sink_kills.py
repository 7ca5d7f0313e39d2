"""Rows that are appended while drivers and executors are killed, or by two jobs at once, are in the table once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.core.machine import fixed_clock
from deltacli.spark import register
from deltacli.spark.source_options import has_stream_writers
from deltacli.storage import LocalStorage
from tests.cluster.gates import SITE, Gates, Step, executor_of, kill, wait_until
from tests.cluster.killed_queries import SECONDS, kill_query
from tests.operations.test_append import _schema as schema_string
from tests.operations.test_append import _table as make_table
from tests.support.clusters import Cluster
from tests.support.effort import is_soaking
from tests.support.material import REPOSITORY

MONTH_MS = 30 * 86_400_000
STEPS = [
    Step("publish", "_delta_log/", executor=True),
    Step("publish", "_delta_log/", "after", executor=True),
    Step("publish", "part-", executor=True),
    Step("publish", "part-", "after", number=2, executor=True),
]
"""Where a batch of a query is: at each, its driver is killed. All of deltacli runs in Python processes of Spark."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_table(tmp_path / "tbl", schema_string(("id", "long"), ("p", "integer")), "p")
    return tmp_path / "tbl"


def ids_of(place: Path) -> Counter[int]:
    return Counter(open_table(str(place)).snapshot().scan(columns=["id"]).to_arrow()["id"].to_pylist())


def require_no_orphans_after_vacuum(place: Path) -> None:
    now_ms = max(path.stat().st_mtime_ns // 1_000_000 for path in place.rglob("*")) + MONTH_MS
    before = ids_of(place)
    Table(LocalStorage(str(place)), clock=fixed_clock(now_ms)).vacuum(max_delete="100%")
    live = sum(batch.num_rows for batch in open_table(str(place)).snapshot().files())
    assert live == len(list(place.rglob("*.parquet")))
    assert before == ids_of(place)


def start_query(source: Path, place: Path, state: Path, gates: Path) -> subprocess.Popen[bytes]:
    settings = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(map(str, (SITE, REPOSITORY))),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "DELTACLI_GATES": str(gates),
    }
    command = [sys.executable, "-m", "tests.cluster.sink_query", str(source), str(place), str(state)]
    with Path(f"{state}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=settings, start_new_session=True)


def kill_at_gate(query: subprocess.Popen[bytes], gates: Gates) -> None:
    """Kill a query once one of its processes waits at the gate."""
    try:
        gates.wait(lambda: query.poll() is not None)
    finally:
        kill_query(query)
    gates.open()


@pytest.mark.skipif(os.environ.get("DELTACLI_CLUSTER", "local") != "local", reason="the driver is one that is killed")
def test_a_query_whose_driver_is_killed_at_each_step_appends_each_row_once(
    session: Any, place: Path, tmp_path: Path
) -> None:
    if not has_stream_writers(session.version):
        pytest.skip("Spark 4.0 has no stream writers for Python")
    source, own = tmp_path / "in", tmp_path / "gates"
    source.mkdir()
    own.mkdir()
    gates, rows = Gates(own), 0
    for number, step in enumerate(STEPS * 5 if is_soaking() else STEPS[:2]):
        for part in range(2):
            ids = range(rows, rows + 40)
            table = pa.table({"id": ids, "p": pa.array([row % 3 for row in ids], pa.int32())})
            pq.write_table(table, source / f"{number}-{part}.draft")
            (source / f"{number}-{part}.draft").rename(source / f"{number}-{part}.parquet")
            rows += 40
        gates.close(step)
        kill_at_gate(start_query(source, place, tmp_path / "state", own), gates)
        assert max(ids_of(place).values(), default=1) == 1, step
    query = start_query(source, place, tmp_path / "state", own)
    try:
        wait_until(lambda: len(ids_of(place)) == rows or query.poll() is not None, SECONDS)
    finally:
        kill_query(query)

    assert Counter(range(rows)) == ids_of(place)
    require_no_orphans_after_vacuum(place)


@pytest.fixture
def gate_left_open(gates: Gates) -> Iterator[Gates]:
    yield gates
    gates.open()


@pytest.mark.parametrize("step", [STEPS[2], STEPS[3]], ids=str)
def test_an_append_of_which_an_executor_is_killed(
    step: Step, cluster: Cluster, session: Any, gate_left_open: Gates, place: Path
) -> None:
    if not is_soaking() and (step is STEPS[2]) == (cluster.kind == "connect"):
        pytest.skip("this step is tried on another kind of cluster")
    register(session)
    frame = session.range(0, 300, numPartitions=3).selectExpr("id", "cast(id % 3 as int) as p")
    gate_left_open.close(step)
    killing = threading.Thread(target=lambda: kill(executor_of(gate_left_open.wait())))
    killing.start()
    with suppress(Exception):  # a local master tries nothing again
        frame.write.format("deltacli").mode("append").save(str(place))
    killing.join()
    gate_left_open.open()

    first = len(ids_of(place))
    assert first == (300 if cluster.kind == "standalone" else 0)
    frame.write.format("deltacli").mode("append").save(str(place))
    assert Counter(dict.fromkeys(range(300), 1 + first // 300)) == ids_of(place)
    require_no_orphans_after_vacuum(place)


def test_jobs_that_append_at_once_lose_and_double_nothing(session: Any, place: Path) -> None:
    register(session)

    def write(job: int) -> None:
        if hasattr(session, "_jsparkSession"):  # a thread of its own has another session
            session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        for batch in range(3):
            start = (job * 3 + batch) * 50
            frame = session.range(start, start + 50, numPartitions=2).selectExpr("id", "cast(id % 3 as int) as p")
            frame.write.format("deltacli").mode("append").save(str(place))

    with ThreadPoolExecutor(2) as jobs:
        list(jobs.map(write, range(2)))

    assert Counter(range(300)) == ids_of(place)
    assert 6 == open_table(str(place)).snapshot().version
