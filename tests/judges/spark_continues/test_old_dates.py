"""Spark reads old dates and times in files of deltacli as they are, whatever it assumes of unknown writers.

In the mode EXCEPTION, the default of Spark 3, it refuses them in files that do not state a version of Spark; in the
mode LEGACY it shifts them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, copy_table

COLUMNS = "id BIGINT, d DATE, t TIMESTAMP, inside STRUCT<l: ARRAY<DATE>>"
ROWS = (
    "INSERT INTO {table} SELECT id, DATE'0001-01-01', TIMESTAMP'1850-02-03 04:05:06',"
    " named_struct('l', array(DATE'1500-02-28')) FROM range(3)"
)
SETTING = "spark.sql.parquet.datetimeRebaseModeInRead"
CHANGES = {
    "optimize": ("optimize", "{table}", "--yes"),
    "z-order": ("optimize", "{table}", "--zorder", "d", "--yes"),
    "checkpoint": ("checkpoint", "{table}"),
    "v2 checkpoint": ("checkpoint", "{table}", "--layout", "v2"),
}


@pytest.mark.parametrize("mode", ["EXCEPTION", "LEGACY", "CORRECTED"])
@pytest.mark.parametrize("change", CHANGES)
def test_old_dates_are_read_as_they_are(spark: SparkJudge, tables: Path, change: str, mode: str) -> None:
    properties = "'delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpoint.writeStatsAsJson' = 'false'"
    if change == "v2 checkpoint":
        properties += ", 'delta.checkpointPolicy' = 'v2'"
    table = spark.create(tables / "t", COLUMNS, ROWS, ROWS, properties=properties)
    before = spark.rows(table)

    deltacli(*(word.replace("{table}", str(table)) for word in CHANGES[change]))

    with Comparison(f"old dates after {change}") as comparison, spark.settings({SETTING: mode}):
        copied = copy_table(table, tables / "copy")
        comparison.equal("rows", before, spark.rows(copied))
        for condition in ("d < DATE'0001-01-02'", "t < TIMESTAMP'1850-02-03 04:05:07'", "d = DATE'0001-01-01'"):
            comparison.equal(condition, before, spark.rows(copied, condition))
        spark.run(copied, "DELETE FROM {table} WHERE d = DATE'0001-01-01' AND id = 1")
        comparison.equal("rows left", len(before) - 2, len(spark.rows(copied)))
