"""A session that was configured for delta-spark, whose jar is missing, reads the same rows.

Its catalog is not among the settings: without the jar, Spark then finds no function any more, such as `count`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.gates import SITE
from tests.cluster.grown_tables import Grown
from tests.support.clusters import Cluster
from tests.support.material import REPOSITORY

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.databricks.delta.optimizeWrite.enabled": "true",
    "spark.databricks.delta.formatCheck.enabled": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.properties.defaults.columnMapping.mode": "name",
    "spark.sql.sources.default": "delta",
}
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[3])
from pyspark.sql import SparkSession
from deltacli.spark import plan_table, read_changes, read_table, register

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.sql.shuffle.partitions", "2").config(map=json.loads(sys.argv[2])).getOrCreate()
register(session)

def ids(frame):
    return sorted(row["id"] for row in frame.collect())

plan = plan_table(session, sys.argv[1])
stream = session.readStream.format("deltacli").load(sys.argv[1])
writer = stream.writeStream.format("parquet").option("checkpointLocation", "checkpoint").trigger(availableNow=True)
writer.start("out").awaitTermination()
print(json.dumps({
    "native": plan.native_files,
    "frame": ids(plan.dataframe()),
    "filtered": ids(read_table(session, sys.argv[1], where="id > 3")),
    "inserted": ids(read_changes(session, sys.argv[1], 1).where("_change_type = 'insert'")),
    "source": ids(session.read.format("deltacli").load(sys.argv[1])),
    "stream": ids(session.read.parquet("out")),
}))
"""


def test_settings_of_delta_spark_change_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Acceptance case 18."""
    if cluster.kind != "local":
        pytest.skip("the session is one of its own")
    table = Grown(tmp_path / "table")
    old = table.append(files=2)
    table.delete(old[0], [1])

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(table.root), json.dumps(SETTINGS), str(REPOSITORY)],
        env={**os.environ, "PYTHONPATH": str(SITE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == ended.returncode, ended.stderr
    left = [0, 2, 3, 4, 5]
    assert {
        "native": 2,
        "frame": left,
        "filtered": [4, 5],
        "inserted": [0, 1, 2, 3, 4, 5],
        "source": left,
        "stream": left,
    } == json.loads(ended.stdout.splitlines()[-1])
