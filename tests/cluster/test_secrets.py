"""Secrets stay where they are: none in what is sent, in the event log of Spark, in a command line, or in an error."""

from __future__ import annotations

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
from tests.cluster import mortal_tables as tables
from tests.cluster.commands import start
from tests.cluster.gates import Gates, Step, of_session
from tests.cluster.tasks import leak
from tests.support.clusters import Cluster
from tests.support.s3 import ENVIRONMENT, S3Server

SECRET = ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]
OTHER_SECRET = "another-secret-nobody-may-see"


def test_nothing_that_is_sent_holds_a_secret(
    spark_engine: SparkEngine, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance case 19: pickles, and files that are sent."""
    bucket = s3_server.make_bucket()
    place = tables.with_checkpoint(tmp_path / "tbl", layout="v2")
    for path in place.rglob("*.*"):
        s3_server.put(bucket, f"tbl/{path.relative_to(place)}", path.read_bytes())
    sent: list[bytes] = []
    session = spark_engine._cluster.session
    send = session.addArtifacts

    def sending(*paths: str, **kind: bool) -> None:
        sent.extend(Path(path).read_bytes() for path in paths)
        send(*paths, **kind)

    def running(cluster: Any, job: Any, pieces: Any, *rest: Any) -> Any:  # Any: as in the engine
        sent.extend([pickle.dumps(job), *pieces])
        return run_job(cluster, job, pieces, *rest)

    monkeypatch.setattr(session, "addArtifacts", sending)
    monkeypatch.setattr(module, "run_job", running)

    table = open_table(f"s3://{bucket}/tbl", engine=spark_engine)
    files, _ = table.snapshot().counts()
    written = table.checkpoint(layout="v2", rows_per_file=tables.ROWS_PER_FILE)

    assert (tables.FILES, 1) == (files.count, written.hint_version)
    assert len(sent) > 10
    assert not [content for content in sent if SECRET.encode() in content]


def test_an_error_of_an_executor_holds_no_secret(spark_engine: SparkEngine, tmp_path: Path) -> None:
    """Acceptance case 19: error text."""
    tables.with_orphans(tmp_path / "tbl", 1)
    uri = str(tmp_path / "tbl")
    stores = TableStores(open_storage(uri), location=StoreLocation.of(uri))

    with pytest.raises(RuntimeError, match="ValueError: piece 0") as raised:
        list(spark_engine.run_tasks(leak, range(2), stores))

    assert SECRET not in str(raised.value)


def test_no_process_and_no_event_log_shows_a_secret(cluster: Cluster, gates: Gates, tmp_path: Path) -> None:
    """Acceptance case 19: event logs, command lines, and what a command writes."""
    if cluster.settings.remote:
        pytest.skip("a server has its own event log")
    place, logs = tables.with_orphans(tmp_path / "tbl", 100), tmp_path / "events"
    logs.mkdir()
    (tmp_path / "secret").write_text(OTHER_SECRET)
    settings = (
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        f"spark.eventLog.dir=file://{logs}",
        f"spark.hadoop.fs.s3a.secret.key=@{tmp_path / 'secret'}",
    )
    gates.close(Step("walk", executor=True))

    conf = [part for setting in settings for part in ("--spark-conf", setting)]
    driver = start("vacuum", str(place), "--dry-run", "--max-delete", "100%", *cluster.options, *conf)
    gates.wait(lambda: driver.poll() is not None)
    seen = [Path(f"/proc/{process}/cmdline").read_bytes() for process in of_session(driver.pid)]
    gates.open()
    said = driver.communicate()

    assert 0 == driver.returncode, said
    seen += [path.read_bytes() for path in logs.rglob("*") if path.is_file()] + [text.encode() for text in said]
    assert any(b"SparkListenerTaskEnd" in content for content in seen)
    for secret in (SECRET, OTHER_SECRET):
        assert not [content[:300] for content in seen if secret.encode() in content]
