"""A cluster for the tests of the Spark engine: `DELTACLI_CLUSTER` chooses which; run by `python3 dev.py cluster`.

`local`: a driver with executors in its own JVM. `connect`: a Connect server. `standalone`: a master and two workers.
"""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from deltacli.engine.spark.engine import SparkEngine
from tests.cluster.gates import SITE, Gates
from tests.support.clusters import Cluster, running_cluster
from tests.support.material import REPOSITORY
from tests.support.s3 import S3Server

OF_THE_WORKERS = (
    "tests/cluster/test_jobs.py::test_a_job_that_failed_is_over_when_its_slowest_task_is",
    "tests/cluster/test_streams.py::test_a_commit_that_is_gone_is_named",
    "tests/cluster/test_streams.py::test_a_single_batch_has_all_rows_whatever_the_limits",
    "tests/cluster/test_streams.py::test_commits_that_change_rows_are_refused_or_skipped",
    "tests/cluster/test_streams.py::test_files_outside_the_table_need_a_prefix",
    "tests/cluster/test_streams.py::test_rows_before_a_change_of_the_schema_are_delivered_before_the_stop",
    "tests/cluster/test_table_traps.py::test_comments_and_metadata_of_columns_are_kept",
    "tests/cluster/test_table_traps.py::test_narrow_integers_become_decimals",
    "tests/cluster/test_table_traps.py::test_timestamps_as_partition_values",
    "tests/cluster/test_vectors.py::test_deleted_rows_of_s3_stay_deleted_in_the_data_source",
)
"""Tests of what a worker or Spark's own scan does, whatever the kind of the session: in the gate on the local cluster
only.
"""

OF_A_KIND = (
    *("commands", "delta_settings", "extras", "hosts", "kills", "optimize", "pauses", "refusals", "secrets"),
    *("share_kills", "sink_kills", "sizes", "stream_kills"),
)
"""Files of tests that are about the kind of the cluster, or choose it themselves."""

HALF = os.environ.get("DELTACLI_HALF")
"""Where one run is on the local cluster (0) and one on Connect (1): which of the tests that are alike on both are left
to this run. A quarter is on the local cluster, which has more tests of its own. `dev.py soak spark` has all of them on
each kind.
"""

TURN = os.environ.get("DELTACLI_TURN")
"""Of the gate, which has a third of the tests, of kills a half, and others in the next turn. The smoke test, which
tries a bit of each, is whole in each turn: on the newest Spark shared out between the local cluster and Connect.
"""

collect_ignore_glob = [] if find_spec("pyspark") is not None else ["test_*.py"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [item for item in items if not _is_of_this_run(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def _is_of_this_run(item: pytest.Item) -> bool:
    number, turn = zlib.crc32(item.nodeid.encode()), int(TURN or 0)
    if "smoke" in item.name:  # a sample, of which Connect has all answers
        return HALF is None or "smoke_answers" in item.name or int(HALF) == (number + turn) % 2
    name = item.path.stem.removeprefix("test_")
    if TURN is not None and (number // 4 + turn) % (2 if name.endswith("kills") else 3):
        return False
    if name in OF_A_KIND:
        return True
    return HALF is None or int(HALF) == (0 if item.nodeid.startswith(OF_THE_WORKERS) else min(number % 4, 1))


@pytest.fixture(scope="session")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Gates:
    """The gates of the processes of this run: of the cluster, and of the drivers that tests start."""
    return Gates(tmp_path_factory.mktemp("gates"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, gates: Gates, s3_server: S3Server) -> Iterator[Cluster]:
    """The cluster of this run, one for all tests. Its processes stop at gates, find an S3 on loopback, and
    do not find deltacli in the working directory.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.update(gates.environment, PYTHONPATH=str(SITE), PYTHONSAFEPATH="1", **s3_server.environment)
    with running_cluster(os.environ.get("DELTACLI_CLUSTER", "local"), tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def spark_engine(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """An engine on a session of the cluster, one for all tests."""
    from deltacli.engine.spark.engine import open_engine

    engine = open_engine(cluster.settings)
    engine._cluster.session.addArtifacts(str(_tasks(tmp_path_factory.mktemp("tasks"))), pyfile=True)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def session(spark_engine: SparkEngine) -> Any:  # Any: a SparkSession, classic or Connect
    """The session of the cluster."""
    session = spark_engine._cluster.session
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture
def setting(session: Any) -> Iterator[Callable[[str, str], None]]:
    """Sets settings of the session, and sets them back."""
    before: dict[str, str | None] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, session.conf.get(name, None))
        session.conf.set(name, value)

    yield change
    for name, value in before.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


def _tasks(place: Path) -> Path:
    """Return an archive with the tasks of the tests, which executors import from nowhere else."""
    path = place / "deltacli-test-tasks.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("tests/__init__.py", "tests/cluster/__init__.py", "tests/cluster/tasks.py"):
            archive.write(REPOSITORY / name, name)
    return path
