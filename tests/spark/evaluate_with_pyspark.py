"""Asks Spark for the values of SQL expressions over the rows of a Parquet file. Imports nothing of ours.

First `{"rows": path, "values": path, "expressions": [...]}`: the values, without ANSI and in UTC, are written beside
the rows as v0, v1, …; out comes for each expression its type in Spark's JSON, or why there is none. Then `{"values":
path, "checks": [{"number", "text", "ids"}, ...]}`: out comes for each what is wrong with these rows under ANSI (`ansi`)
and, in Los Angeles, without it (`zone`): the ids of rows with another value, or the error; an empty list for nothing.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

ANSI, ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # hundreds of expressions, each compiled, take minutes
    "spark.driver.memory": "1g",
    "spark.log.level": "OFF",
    ANSI: "false",
    ZONE: "UTC",
}
AT_ONCE = 25


def start() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").appName("deltacli")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def types_of(frame: DataFrame, texts: list[str]) -> list[dict[str, Any]]:
    """For each expression its type, or why it has none."""
    try:
        kinds = frame.selectExpr(*(f"({text}) AS v{at}" for at, text in enumerate(texts))).schema
    except PySparkException as fault:
        if len(texts) == 1:
            return [{"type": None, "fault": str(fault)[:300]}]
        middle = len(texts) // 2
        return types_of(frame, texts[:middle]) + types_of(frame, texts[middle:])
    return [{"type": json.loads(field.dataType.json()), "fault": None} for field in kinds]


def write_values(spark: SparkSession, task: dict[str, Any]) -> list[dict[str, Any]]:
    rows = spark.read.parquet(task["rows"])
    answers = types_of(rows, task["expressions"])
    known = [answer["fault"] is None and answer["type"] != "void" for answer in answers]
    columns = [f"({text}) AS v{at}" for at, text in enumerate(task["expressions"]) if known[at]]
    rows.selectExpr("*", *columns).coalesce(1).write.parquet(task["values"])
    return answers


def differing(frame: DataFrame, checks: list[dict[str, Any]]) -> list[Any]:  # Any: ids of rows, or an error
    """For each check the rows that have another value than was written; the error where one raises."""
    columns = [
        f"CASE WHEN id IN ({','.join(map(str, one['ids']))}) THEN ({one['text']}) <=> v{one['number']} END AS x{at}"
        for at, one in enumerate(checks)
    ]
    try:
        rows = frame.selectExpr("id", *columns).collect()
    except PySparkException as fault:
        if len(checks) == 1:
            return [str(fault)[:300]]
        middle = len(checks) // 2
        return differing(frame, checks[:middle]) + differing(frame, checks[middle:])
    return [[row["id"] for row in rows if row[f"x{at}"] is False] for at in range(len(checks))]


def check(spark: SparkSession, task: dict[str, Any]) -> list[dict[str, Any]]:
    frame = spark.read.parquet(task["values"])
    found: dict[str, list[Any]] = {}
    for name, ansi, zone in (("zone", "false", "America/Los_Angeles"), ("ansi", "true", "UTC")):
        spark.conf.set(ZONE, zone)
        spark.conf.set(ANSI, ansi)
        parts = [task["checks"][at : at + AT_ONCE] for at in range(0, len(task["checks"]), AT_ONCE)]
        found[name] = [one for part in parts for one in differing(frame, part)]
    return [{"zone": zone, "ansi": ansi} for zone, ansi in zip(found["zone"], found["ansi"], strict=True)]


def main() -> None:
    task = json.load(sys.stdin)
    spark = start()
    answers = check(spark, task) if "checks" in task else write_values(spark, task)
    spark.stop()
    json.dump(answers, sys.stdout)


main()
