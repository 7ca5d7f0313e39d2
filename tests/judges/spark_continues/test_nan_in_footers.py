"""Spark finds rows with NaN in files that deltacli has written.

Spark orders NaN above all numbers and skips row groups by the bounds in their footers.
"""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, copy_table, name_of

NAN = "double('NaN')"
ROWS = (
    f"INSERT INTO {{table}} SELECT id, IF(id % 4 = 0, {NAN}, id * 1.0D), IF(id % 4 = 1, float('NaN'), float(id)), "
    f"named_struct('h', IF(id % 4 = 2, {NAN}, id * 1.0D)), array(IF(id % 4 = 3, {NAN}, 1.0D)) FROM range({{0}})"
)
COLUMNS = "id BIGINT, f DOUBLE, g FLOAT, inside STRUCT<h: DOUBLE>, list ARRAY<DOUBLE>"
CONDITIONS = tuple(
    condition.format(column)
    for column in ("f", "g", "inside.h")
    for condition in (
        "{} > 100",
        "{} = double('NaN')",
        "NOT ({} < 100)",
        "{} >= 7",
        "isnan({})",
        "{} < 3",
        "{} IS NULL",
    )
)

CHANGES = {
    "compact": ("optimize",),
    "z-order": ("optimize", "--zorder", "id"),
    "z-order by the column": ("optimize", "--zorder", "f"),
    "purge": ("optimize", "--purge"),
    "drop mapping": ("features", "{table}", "drop", "columnMapping"),
}


def count_rows(spark: SparkJudge, directory: Path) -> dict[str, int]:
    """Return how many rows fulfil each condition, as one statement: a WHERE clause each, which skips row groups."""
    name = name_of(directory)
    counted = (f"SELECT {number}, count(*) FROM {name} WHERE {CONDITIONS[number]}" for number in range(len(CONDITIONS)))
    return {CONDITIONS[number]: count for number, count in spark.sql(" UNION ALL ".join(counted))}


@pytest.mark.parametrize("change", CHANGES)
def test_conditions_find_nan_in_new_files(spark: SparkJudge, tables: Path, change: str) -> None:
    mapping = "'delta.columnMapping.mode' = 'name'" if change == "drop mapping" else ""
    table = spark.create(
        tables / "t",
        COLUMNS,
        ROWS.replace("{0}", "8"),
        ROWS.replace("{0}", "12"),
        *(["DELETE FROM {table} WHERE id = 5"] if change == "purge" else []),
        properties=", ".join(filter(None, ("'delta.enableDeletionVectors' = 'true'", mapping))),
    )
    before = count_rows(spark, table)

    words = [word.replace("{table}", str(table)) for word in CHANGES[change]]
    command = words if change == "drop mapping" else [words[0], str(table), *words[1:]]
    deltacli(*command, "--yes")

    with Comparison(f"NaN after {change}") as comparison:
        copied = copy_table(table, tables / "copy")
        comparison.equal("rows by condition", before, count_rows(spark, copied))
        deleted = spark.sql(f"DELETE FROM {name_of(copied)} WHERE f > 100")[0][0]
        comparison.equal("deleted rows", before["f > 100"], deleted)
        deltacli("validate", table, "--level", "data", "--fail-on", "warning")


def test_a_purge_cures_files_that_leave_nan_out(spark: SparkJudge, tables: Path) -> None:
    table = tables / "t"
    table.mkdir()
    numbers = [math.nan, 1.0, 2.0, 3.0]
    pq.write_table(pa.table({"f": numbers, "inside": [{"h": number} for number in numbers]}), table / "f.parquet")
    deltacli("convert", table, "--yes")
    missed = spark.rows(copy_table(table, tables / "before"), "f > 100 AND inside.h > 100")
    assert [] == missed, "Spark no longer skips row groups by bounds that leave NaN out: the rule needs another reason"

    found = deltacli("validate", table, "--level", "data", "--fail-on", "warning", "--format", "ndjson", codes=(1,))
    assert "data.nan-beyond-bounds" in found.stdout
    deltacli("optimize", table, "--purge", "--yes")

    deltacli("validate", table, "--level", "data", "--fail-on", "warning")
    assert 1 == len(spark.rows(copy_table(table, tables / "after"), "f > 100 AND inside.h > 100"))
