"""`convert` takes what Spark wrote without a table format, and refuses Delta tables of Spark whose log is lost."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge

ROWS, OTHER_ROWS = "SELECT id, id % 2 AS p FROM range(0, 6, 1, 3)", "SELECT id, id % 2 AS p FROM range(6, 8, 1, 1)"


def write_output(spark: SparkJudge, directory: Path, jobs: Sequence[str], partitions: Sequence[str]) -> Path:
    """Let Spark write the rows of each query into a directory, by a job each."""
    for query in jobs:
        spark.session.sql(query).write.mode("append").partitionBy(*partitions).parquet(str(directory))
    return directory


def lose_log(table: Path) -> Path:
    shutil.rmtree(table / "_delta_log")
    return table


@pytest.mark.parametrize("partitions", [(), ("p",)], ids=["flat", "partitioned"])
@pytest.mark.parametrize(
    "jobs", [(ROWS,), (ROWS, OTHER_ROWS), (OTHER_ROWS, OTHER_ROWS)], ids=["one job", "appended", "a file for each job"]
)
def test_output_of_jobs_becomes_a_table(
    spark: SparkJudge, tables: Path, jobs: tuple[str, ...], partitions: tuple[str, ...]
) -> None:
    output = write_output(spark, tables / "out", jobs, partitions)
    rows = sorted(tuple(row) for row in spark.session.read.parquet(str(output)).select("id", "p").collect())

    deltacli("convert", output, "--partition", "p long", "--yes") if partitions else deltacli(
        "convert", output, "--yes"
    )

    assert rows == sorted(spark.rows(output, columns="id, p"))


@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (p)"], ids=["flat", "partitioned"])
def test_a_table_without_its_log_is_refused(spark: SparkJudge, tables: Path, clause: str) -> None:
    inserts = [f"INSERT INTO {{table}} {query}" for query in (OTHER_ROWS, OTHER_ROWS)]
    table = spark.create(
        tables / "t", "id BIGINT, p BIGINT", *inserts, "DELETE FROM {table} WHERE id = 6", clauses=clause
    )

    refused = deltacli("convert", lose_log(table), "--yes", "--json", codes=(4,))

    assert ["convert.lost-log"] == [refusal["code"] for refusal in refused.document()["refusals"]]


def test_output_that_was_a_table_for_a_while_is_refused(spark: SparkJudge, tables: Path) -> None:
    output = write_output(spark, tables / "out", (ROWS,), ())
    spark.sql(f"CONVERT TO DELTA parquet.`{output}`")
    spark.run(output, "DELETE FROM {table} WHERE id = 1")

    refused = deltacli("convert", lose_log(output), "--yes", "--json", codes=(4,))

    assert ["convert.lost-log"] == [refusal["code"] for refusal in refused.document()["refusals"]]
