"""`optimize` on a cluster: what the embedded engine does, also when a driver or an executor is killed at a new file."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table, open_table
from deltacli.core.errors import ClusterFailed
from deltacli.core.machine import fixed_clock
from deltacli.engine.spark.engine import SparkEngine
from deltacli.storage import LocalStorage
from tests.cluster.commands import run
from tests.cluster.gates import Gates, Step, executor_of, kill
from tests.cluster.test_kills import _killed
from tests.support.clusters import Cluster
from tests.support.effort import is_soaking
from tests.support.optimizing import Ids, live_paths, rows_of

PARTITIONS = 4
MONTH_MS = 30 * 86_400_000
STEPS = [
    Step("publish", "part-", executor=True),
    Step("publish", "part-", "after", number=2, executor=True),
    Step("publish", "_delta_log/"),
    Step("publish", "_delta_log/", "after"),
]
CHOSEN = {"local": STEPS[1:2], "connect": STEPS[:3], "standalone": STEPS}
"""The steps that are tried on a cluster, except by `dev.py soak`: a driver of our own takes ten seconds to start."""


@pytest.fixture(autouse=True)
def gate_left_open(gates: Gates) -> Iterator[None]:
    yield
    gates.open()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table of several partitions with three small files each, one of which has deleted rows."""
    ids = Ids()
    for partition in range(PARTITIONS):
        ids.append(f"a{partition}", f"b{partition}", p=str(partition), rows=50)
        ids.append(f"c{partition}", p=str(partition), rows=50, deleted=(1, 7))
    return ids.builder.write(tmp_path / "tbl")


def require_done(place: Path, before: list[Any]) -> None:
    """The work is done, and nothing but live files is there after a vacuum of a month later."""
    table = open_table(str(place))
    assert before == rows_of(table)
    assert PARTITIONS == len(live_paths(table))
    assert table.optimize().plan.is_noop
    now_ms = max(path.stat().st_mtime_ns // 1_000_000 for path in place.rglob("*")) + MONTH_MS
    Table(LocalStorage(str(place)), clock=fixed_clock(now_ms)).vacuum(max_delete="100%")
    files = {str(path.relative_to(place)) for path in place.rglob("*.parquet") if "_delta_log" not in str(path)}
    assert files == live_paths(table)
    assert before == rows_of(table)


@pytest.mark.parametrize("how", [(), ("--zorder", "id")], ids=["compacted", "sorted"])
def test_the_cluster_does_what_the_embedded_engine_does(how: tuple[str, ...], cluster: Cluster, place: Path) -> None:
    """Tasks that Spark starts twice write files that no commit has."""
    if how and cluster.kind == "local" and not is_soaking():
        pytest.skip("tried on the other clusters, where a driver starts faster")
    before = rows_of(open_table(str(place)))
    shutil.copytree(place, place.parent / "here")

    here = run("optimize", str(place.parent / "here"), *how, "--yes", "--verify", "--json")
    there = run("optimize", str(place), *how, "--yes", "--verify", "--json", *cluster.options)

    assert (0, 0) == (here.returncode, there.returncode), there.stderr
    documents = [json.loads(done.stdout) for done in (here, there)]
    for one in documents:
        assert {"rows": 200 * 3 - 8, "scope": "table"} == one["verified"]
    assert documents[0]["bytes"] == documents[1]["bytes"]
    assert None is documents[1]["estimate"]["seconds"]
    require_done(place, before)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_an_optimization_whose_driver_is_killed(
    step: Step, cluster: Cluster, gates: Gates, spark_engine: SparkEngine, place: Path
) -> None:
    if step not in CHOSEN[cluster.kind] and not is_soaking():
        pytest.skip("this step is tried on another kind of cluster")
    before = rows_of(open_table(str(place)))

    _killed(cluster, gates, step, "optimize", str(place), "--yes")

    assert before == rows_of(open_table(str(place)))
    open_table(str(place), engine=spark_engine).optimize()
    require_done(place, before)


def test_an_optimization_of_which_an_executor_is_killed(
    cluster: Cluster, gates: Gates, spark_engine: SparkEngine, place: Path
) -> None:
    before = rows_of(open_table(str(place)))
    gates.close(Step("publish", "part-", executor=True))
    killing = threading.Thread(target=lambda: kill(executor_of(gates.wait())))
    killing.start()
    try:
        open_table(str(place), engine=spark_engine).optimize()
        failed = False
    except ClusterFailed:
        failed = True
    killing.join()
    gates.open()

    assert failed == (cluster.kind != "standalone")  # a local master tries nothing again
    assert before == rows_of(open_table(str(place)))
    open_table(str(place), engine=spark_engine).optimize()
    require_done(place, before)
