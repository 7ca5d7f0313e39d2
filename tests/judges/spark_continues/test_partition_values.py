"""Spark reads the rows of files whose partition values `repair` corrected or `convert` wrote, and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, copy_table

COLUMNS = "id INT, p INT, t TIMESTAMP"
INSERT = (
    "INSERT INTO {table} VALUES (1, 1, TIMESTAMP'2026-01-01 13:00:00'), (2, 2, TIMESTAMP'2026-01-02 00:00:00'),"
    " (3, NULL, TIMESTAMP'2026-01-03 00:00:00.5'), (4, -1, NULL)"
)
CONDITIONS = ("", "p = 1", "p IS NULL", "p < 0", "t = TIMESTAMP'2026-01-01 13:00:00'", "t IS NULL", "t > '2026-01-02'")

FEATURES = "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true'"

Values = dict[str, Any]


def drop_key(values: Values) -> Values:
    return {name: text for name, text in values.items() if name != "p"}


def write_in_capitals(values: Values) -> Values:
    return {name.upper() if name == "p" else name: text for name, text in values.items()}


def spoil_text(values: Values) -> Values:
    return {name: "no number" if name == "p" and text is not None else text for name, text in values.items()}


def damage_values(table: Path, damage: Callable[[Values], Values]) -> None:
    """Change the partition values of every add of the table's first commit with rows."""
    commit = table / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"] = damage(action["add"]["partitionValues"])
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for checksum in table.glob(f"_delta_log/.{commit.name}.crc"):
        checksum.unlink()
    for checksum in table.glob("_delta_log/[0-9]*.crc"):
        checksum.unlink()


@pytest.mark.parametrize("damage", [drop_key, write_in_capitals, spoil_text])
@pytest.mark.parametrize("properties", ["", FEATURES], ids=["plain", "vectors and row ids"])
def test_spark_continues_after_a_repair_of_partition_values(
    damage: Callable[[Values], Values], properties: str, spark: SparkJudge, tables: Path
) -> None:
    table = spark.create(tables / "t", COLUMNS, INSERT, properties=properties, clauses="PARTITIONED BY (p, t)")
    if properties:
        spark.run(table, "INSERT INTO {table} VALUES (5, 1, TIMESTAMP'2026-01-01 13:00:00')")
    before = {condition: spark.rows(table, condition) for condition in CONDITIONS}
    damaged = copy_table(table, tables / "damaged")
    damage_values(damaged, damage)

    deltacli("repair", damaged, "--allow-in-use", "--yes", codes=(0, 1))
    asked = copy_table(damaged, tables / "asked")

    with Comparison(f"{damage.__name__}/{'features' if properties else 'plain'}") as comparison:
        for condition, rows in before.items():
            comparison.equal(f"rows where {condition}", rows, spark.rows(asked, condition))
        spark.run(asked, "UPDATE {table} SET id = id + 10 WHERE p = 1", "DELETE FROM {table} WHERE p < 0")
        rows = sorted(((row[0] + 10, *row[1:]) if row[1] == 1 else row for row in before[""] if row[1] != -1), key=repr)
        comparison.equal("rows after UPDATE and DELETE", rows, spark.rows(asked))
        comparison.equal("rows of deltacli", len(rows), count_of(asked))


def count_of(table: Path) -> int:
    counted: int = deltacli("read", table, "--count", "--json").document()["rows"]
    return counted


@pytest.mark.parametrize(
    ("directories", "column", "options"),
    [
        (["month=01", "month=12"], "month int", ()),
        (["month=True", "month=false"], "month boolean", ()),
        (["month=2024-1-5", "month=2024-12-31"], "month date", ()),
        (["month=2025-02-19 13%3A00%3A00", "month=2025-07-19 13%3A00%3A00.5"], "month timestamp", ("Europe/Zurich",)),
        # With fewer digits than the scale, Spark reads 1.50 of a directory as 0.150, but of a table as 1.500.
        (["month=1.50", "month=-0.01"], "month decimal(10,2)", ()),
    ],
    ids=["integers", "booleans", "dates", "local times", "decimals"],
)
def test_spark_reads_the_values_of_directories_as_it_did_before_they_were_a_table(
    directories: list[str], column: str, options: tuple[str, ...], spark: SparkJudge, tables: Path
) -> None:
    output = tables / "out"
    for number, directory in enumerate(directories):
        (output / directory).mkdir(parents=True)
        pq.write_table(pa.table({"id": [number, number + 1]}), output / directory / "rows.parquet")
    zone = {"spark.sql.session.timeZone": options[0]} if options else {}
    with spark.settings(zone):
        found = spark.session.read.schema(f"id BIGINT, {column}").parquet(str(output))
        before = sorted((tuple(row) for row in found.collect()), key=repr)

    zones = [f"--time-zone={zone}" for zone in options]
    deltacli("convert", output, "--partition", column, *zones, "--yes")

    assert all(row[1] is not None for row in before)
    assert before == spark.rows(output)
