"""Executors that cannot do the work: one sentence and an exit code each, before anything is done."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from deltacli.api.table import open_table
from deltacli.core.errors import ClusterFailed, UsageError
from deltacli.engine.spark import worker
from deltacli.engine.spark.engine import SparkEngine
from deltacli.engine.spark.package_archive import write_package
from tests.cluster import mortal_tables as tables
from tests.cluster.commands import run_changed
from tests.support.clusters import Cluster
from tests.support.s3 import S3Server

_SENDS_NOTHING = "from deltacli.engine.spark.cluster import Cluster; Cluster.ship_package = lambda self: ''"
_WITHOUT_CREDENTIALS = """
import os
from deltacli.engine.spark import session
start = session._start_driver
def without_credentials(*arguments):
    taken = {name: os.environ.pop(name) for name in list(os.environ) if name.endswith(("_KEY_ID", "_ACCESS_KEY"))}
    try:
        return start(*arguments)
    finally:
        os.environ.update(taken)
session._start_driver = without_credentials
"""


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of an error; nothing else is said but facts and a hint."""
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr, done.stderr
    assert 1 < len(lines) < 14, done.stderr
    return lines[0]


def test_executors_without_the_package_are_named(cluster: Cluster, tmp_path: Path) -> None:
    """Acceptance case 4."""
    if cluster.kind == "local":
        pytest.skip("tried on the other clusters, where a driver starts faster")
    place = tables.with_orphans(tmp_path / "tbl", 100)

    done = run_changed(_SENDS_NOTHING, "vacuum", str(place), "--yes", "--max-delete", "100%", *cluster.options)

    assert (2, "error: executors cannot import deltacli") == (done.returncode, _sentence(done))
    assert "deltacli spark package" in done.stderr
    assert 100 == tables.orphans(place)


def test_executors_with_another_deltacli_are_named(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance case 4."""
    place = tables.with_orphans(tmp_path / "tbl", 1)
    monkeypatch.setattr(worker, "VERSION", "9.9.9")

    with pytest.raises(UsageError, match=r"executors run deltacli \S+, the driver 9\.9\.9") as raised:
        open_table(str(place), engine=SparkEngine(spark_engine._cluster.session)).vacuum(max_delete="100%")

    assert ("cluster.other-version", 2) == (raised.value.code, raised.value.exit_code)


def test_executors_with_another_python_are_named(
    cluster: Cluster, spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance case 4: an executor compares its version with the one that the driver sends."""
    if cluster.settings.remote:
        pytest.skip("for a driver of our own")
    place = tables.with_orphans(tmp_path / "tbl", 1)
    session = spark_engine._cluster.session
    monkeypatch.setattr(session.sparkContext, "pythonVer", "3.99")

    with pytest.raises(UsageError, match="the executors run another version of Python than the driver") as raised:
        open_table(str(place), engine=SparkEngine(session)).vacuum(max_delete="100%")

    assert ("cluster.other-version", 2) == (raised.value.code, raised.value.exit_code)


def test_other_bytes_under_the_name_of_the_archive_are_refused(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance case 4."""
    place = tables.with_orphans(tmp_path / "tbl", 1)
    open_table(str(place), engine=spark_engine).vacuum(max_delete="100%", dry_run=True)

    def with_other_bytes(directory: str) -> Path:
        path = shutil.copy(write_package(directory), tmp_path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("more.txt", "x")
        return Path(path)

    monkeypatch.setattr("deltacli.engine.spark.cluster.write_package", with_other_bytes)

    with pytest.raises(ClusterFailed) as raised:
        open_table(str(place), engine=SparkEngine(spark_engine._cluster.session)).vacuum(max_delete="100%")

    assert 7 == raised.value.exit_code
    assert "\n" not in raised.value.message


def test_executors_without_credentials_are_named(cluster: Cluster, s3_server: S3Server, tmp_path: Path) -> None:
    """Acceptance case 4."""
    if cluster.kind != "local":
        pytest.skip("the environment of the executors is that of the cluster")
    bucket = s3_server.make_bucket()
    place = tables.with_checkpoint(tmp_path / "tbl", layout="v2")
    for path in place.rglob("*.*"):
        s3_server.put(bucket, f"tbl/{path.relative_to(place)}", path.read_bytes())

    sidecars = ("--layout", "v2", "--rows-per-file", str(tables.ROWS_PER_FILE))
    done = run_changed(_WITHOUT_CREDENTIALS, "checkpoint", f"s3://{bucket}/tbl", *sidecars, *cluster.options)

    assert 7 == done.returncode, done.stderr
    assert "no usable AWS credentials" in _sentence(done)
    assert "executor" in done.stderr.splitlines()[1]
