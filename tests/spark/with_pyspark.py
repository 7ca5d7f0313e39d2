"""Asks Spark about Parquet files and texts: one JSON document in, one out. Imports nothing of ours.

In: `{"files": {name: path}, "texts": [...], "parts": N}`. Out: for each file its schema, how many rows of each action
it has, the paths with Spark's hash of them, and its parsed columns as JSON beside the texts; the hashes of the texts.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

PATH = "coalesce(add.path, remove.path)"
ACTIONS = ("txn", "add", "remove", "metaData", "protocol", "domainMetadata", "checkpointMetadata", "sidecar")


def start() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").appName("deltacli")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
        "spark.driver.memory": "1g",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def describe(spark: SparkSession, path: str, parts: int) -> dict[str, Any]:  # Any: JSON values
    frame = spark.read.parquet(path)
    kinds = [kind for kind in ACTIONS if kind in frame.columns]
    columns = [f"{kind} IS NOT NULL AS has_{kind}" for kind in kinds]
    parsed: list[str] = []
    if "add" in kinds:
        names = frame.schema["add"].dataType.names
        parsed = [name for name in ("partitionValues_parsed", "stats_parsed") if name in names]
        columns += [f"{PATH} AS path", f"hash({PATH}) AS hash", f"pmod(hash({PATH}), {parts}) AS part"]
        columns += ["add.stats", "add.partitionValues", *(f"to_json(add.{name}) AS {name}" for name in parsed)]
    rows = [row.asDict() for row in frame.selectExpr(*columns).collect()]
    answer: dict[str, Any] = {
        "schema": json.loads(frame.schema.json()),
        "counts": {kind: sum(row[f"has_{kind}"] for row in rows) for kind in kinds},
    }
    if "add" in kinds:
        wanted = ("path", "stats", "partitionValues", *parsed)
        answer["hashes"] = [[row["path"], row["hash"], row["part"]] for row in rows]
        answer["adds"] = [{name: row[name] for name in wanted} for row in rows if row["has_add"]]
    return answer


def main() -> None:
    task = json.load(sys.stdin)
    spark = start()
    files = {name: describe(spark, path, task["parts"]) for name, path in task["files"].items()}
    texts = spark.createDataFrame([(text,) for text in task["texts"]], "text string")
    hashes = [row[0] for row in texts.selectExpr("hash(text)").collect()]
    spark.stop()
    json.dump({"files": files, "hashes": hashes}, sys.stdout)


main()
