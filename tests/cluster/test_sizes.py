"""Results that the driver does not accept at once, and shared values that are too large for every task."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import open_table
from deltacli.engine.spark import engine as module
from deltacli.engine.spark.engine import SparkEngine
from deltacli.engine.spark.jobs import run_job
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from deltacli.work.table_stores import TableStores
from tests.cluster.commands import run
from tests.cluster.tasks import use_keys
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import LOG, TableBuilder
from tests.support.clusters import Cluster

_LIMIT = ("--spark-conf", "spark.driver.maxResultSize=8m")
_LONG = "x" * 200
_FILES = 60_000
_DIRECTORIES = 60
_KEYS = 1_000_000
_GROUPS = 300
"""More row groups than the first job of an operation takes."""


def foreign(place: Path) -> Path:
    """A table with files whose names are together longer than the limit."""
    TableBuilder().commits(3).write(place)
    for directory in range(_DIRECTORIES):
        (place / f"p={directory}").mkdir()
        for number in range(_FILES // _DIRECTORIES):
            (place / f"p={directory}" / f"{number:05d}-{_LONG}.parquet").touch()
    return place


@pytest.mark.soak
def test_a_listing_larger_than_the_driver_accepts_ends_right(cluster: Cluster, tmp_path: Path) -> None:
    """Acceptance case 7: `maxResultSize=8m`, and more in a listing."""
    if cluster.settings.remote:
        pytest.skip("a server has this setting for all of its sessions")
    place = str(foreign(tmp_path / "tbl"))
    arguments = ("validate", place, "--level", "storage", "--json")

    here, there = run(*arguments), run(*arguments, *cluster.options, *_LIMIT)

    assert (here.returncode, here.stdout) == (there.returncode, there.stdout), there.stderr
    assert here.returncode in (0, 1), here.stderr
    assert 8 << 20 < _FILES * len(_LONG)


class Sent:
    """What went to the cluster: the names of files, and the largest description of a job."""

    def __init__(self, engine: SparkEngine, patch: pytest.MonkeyPatch) -> None:
        self.files: list[str] = []
        self.job_bytes: list[int] = []
        session = engine._cluster.session
        send = session.addArtifacts

        def sending(*paths: str, **kind: bool) -> None:
            self.files += [Path(path).suffix for path in paths]
            send(*paths, **kind)

        def running(cluster: Any, job: Any, *rest: Any) -> Any:  # Any: as in the engine
            self.job_bytes.append(len(pickle.dumps(job)))
            return run_job(cluster, job, *rest)

        patch.setattr(session, "addArtifacts", sending)
        patch.setattr(module, "run_job", running)


def test_large_shared_values_are_sent_once(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance case 8: a million keys, in several jobs of two operations."""
    (tmp_path / LOG).mkdir()
    (tmp_path / LOG / f"{0:020d}.json").write_text("{}\n")
    stores = TableStores(open_storage(str(tmp_path)), location=StoreLocation.of(str(tmp_path)))
    keys = list(range(_KEYS))
    list(spark_engine.run_tasks(use_keys, range(3), stores, shared={"keys": keys[:3]}))
    sent = Sent(spark_engine, monkeypatch)

    for _ in range(2):
        assert list(range(1_000)) == list(spark_engine.run_tasks(use_keys, range(1_000), stores, shared={"keys": keys}))

    assert [".pickle"] == sent.files
    assert 4 <= len(sent.job_bytes)
    assert max(sent.job_bytes) < 2_000


@pytest.mark.soak
def test_a_million_keys_of_newer_commits_are_sent_once(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance case 8: counts of a table whose newest commit touches a million files."""
    features = ["v2Checkpoint"]
    first = [protocol(3, 7, reader_features=features, writer_features=features), metadata()]
    adds = (add(f"part-{number:05d}.parquet", size=1, records=1) for number in range(_GROUPS))
    builder = TableBuilder().commit(*first, *adds)
    place = builder.write(tmp_path / "tbl")
    open_table(str(place)).checkpoint(layout="v2", rows_per_file=1)
    with (place / LOG / f"{1:020d}.json").open("wb") as commit:
        for number in range(_KEYS):
            commit.write(json.dumps(remove(f"gone-{number:07d}.parquet")).encode() + b"\n")
    wanted = open_table(str(place)).snapshot().counts()
    sent = Sent(spark_engine, monkeypatch)

    found = open_table(str(place), engine=spark_engine).snapshot().counts()

    assert wanted == found
    assert 1 == sent.files.count(".pickle")
    assert 2 <= len(sent.job_bytes)
    assert max(sent.job_bytes) < 2_000
