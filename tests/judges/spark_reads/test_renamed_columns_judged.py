"""Tables with column mapping that Spark wrote are never accused of columns under logical names; and what Spark reads
from a file that really has such a column.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from tests.judges.answers import Comparison
from tests.judges.commands import deltacli
from tests.judges.spark import SparkJudge, copy_table, name_of
from tests.support.misnamed_columns import FOREIGN, append_unmapped

RULE = "mapping.file-with-logical-names"
UPGRADE = "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
MAPPED = "'delta.columnMapping.mode' = 'name'"
BY_ID = "'delta.columnMapping.mode' = 'id'"
TWO_ROWS = "INSERT INTO {table} VALUES (1, 10), (2, 20)"

UPGRADED = {
    "upgraded": ("INSERT INTO {table} VALUES (3, 30)",),
    "added later": ("ALTER TABLE {table} ADD COLUMN (w BIGINT)", "INSERT INTO {table} VALUES (3, 30, 300)"),
    "renamed": ("ALTER TABLE {table} RENAME COLUMN v TO w", "INSERT INTO {table} VALUES (3, NULL)"),
    "dropped and added again": (
        "ALTER TABLE {table} DROP COLUMN v",
        "ALTER TABLE {table} ADD COLUMN (v BIGINT)",
        "INSERT INTO {table} VALUES (3, 30)",
    ),
    "dropped and added twice": (
        "ALTER TABLE {table} DROP COLUMN v",
        "ALTER TABLE {table} ADD COLUMN (v BIGINT)",
        "INSERT INTO {table} VALUES (3, 30)",
        "ALTER TABLE {table} DROP COLUMN v",
        "ALTER TABLE {table} ADD COLUMN (v STRING)",
        "INSERT INTO {table} VALUES (4, 'forty')",
    ),
    "renamed to the name of a dropped column": (
        "ALTER TABLE {table} ADD COLUMN (w BIGINT)",
        "INSERT INTO {table} VALUES (3, 30, 300)",
        "ALTER TABLE {table} DROP COLUMN v",
        "ALTER TABLE {table} RENAME COLUMN w TO v",
        "INSERT INTO {table} VALUES (4, 400)",
    ),
    "swapped": (
        "ALTER TABLE {table} RENAME COLUMN id TO t",
        "ALTER TABLE {table} RENAME COLUMN v TO id",
        "ALTER TABLE {table} RENAME COLUMN t TO v",
        "INSERT INTO {table} VALUES (3, 30)",
    ),
    "the old name for a new column": (
        "ALTER TABLE {table} RENAME COLUMN v TO w",
        "ALTER TABLE {table} ADD COLUMN (v BIGINT)",
        "INSERT INTO {table} VALUES (3, 30, 300)",
    ),
    "all columns dropped and added again": (
        "ALTER TABLE {table} ADD COLUMN (x BIGINT)",
        "ALTER TABLE {table} DROP COLUMNS (id, v)",
        "ALTER TABLE {table} ADD COLUMNS (id BIGINT, v BIGINT)",
        "INSERT INTO {table} (x, id, v) VALUES (3, 30, 300)",
    ),
    "rewritten by Spark": (
        "ALTER TABLE {table} DROP COLUMN v",
        "ALTER TABLE {table} ADD COLUMN (v BIGINT)",
        "INSERT INTO {table} VALUES (3, 30)",
        "UPDATE {table} SET v = 7 WHERE id = 1",
        "OPTIMIZE {table}",
        "INSERT INTO {table} VALUES (5, 50)",
    ),
    "restored": (
        "ALTER TABLE {table} RENAME COLUMN v TO w",
        "INSERT INTO {table} VALUES (3, 30)",
        "RESTORE TABLE {table} TO VERSION AS OF 2",
        "INSERT INTO {table} VALUES (4, 40)",
    ),
}
"""What follows after two rows were written without column mapping, and the table was upgraded."""

NESTED_COLUMNS = (
    "id BIGINT, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, m MAP<STRING, STRUCT<a: INT, b: INT>>"
)
NESTED_ROW = (
    "INSERT INTO {table} VALUES ({id}, named_struct('a', 1, '{b}', 2), array(named_struct('a', 1, '{b}', 2)), "
    "map('k', named_struct('a', 1, '{b}', 2)))"
)


def nested_row(number: int, name: str = "b") -> str:
    return NESTED_ROW.replace("{id}", str(number)).replace("{b}", name)


def both(statement: str) -> list[str]:
    """A statement for the field `b` in the struct, in the array and in the map."""
    return [statement.replace("{inside}", inside) for inside in ("s", "l.element", "m.value")]


WHOLE = {
    "mapped from the start": (
        "id BIGINT, v BIGINT",
        MAPPED,
        (TWO_ROWS, "ALTER TABLE {table} RENAME COLUMN v TO w", "INSERT INTO {table} VALUES (3, 30)"),
    ),
    "mapped from the start, dropped and added again": (
        "id BIGINT, v BIGINT",
        MAPPED,
        (
            TWO_ROWS,
            "ALTER TABLE {table} DROP COLUMN v",
            "ALTER TABLE {table} ADD COLUMN (v BIGINT)",
            "INSERT INTO {table} VALUES (3, 30)",
        ),
    ),
    "by id": (
        "id BIGINT, v BIGINT",
        BY_ID,
        (
            TWO_ROWS,
            "ALTER TABLE {table} RENAME COLUMN v TO w",
            "ALTER TABLE {table} ADD COLUMN (v BIGINT)",
            "INSERT INTO {table} VALUES (3, 30, 300)",
        ),
    ),
    "replaced": (
        "id BIGINT, v BIGINT",
        MAPPED,
        (
            TWO_ROWS,
            f"REPLACE TABLE {{table}} (v BIGINT, id BIGINT, w BIGINT) USING delta TBLPROPERTIES ({MAPPED})",
            "INSERT INTO {table} VALUES (3, 30, 300)",
        ),
    ),
    "replaced by one with mapping": (
        "id BIGINT, v BIGINT",
        "",
        (
            TWO_ROWS,
            f"REPLACE TABLE {{table}} (v BIGINT, id BIGINT) USING delta TBLPROPERTIES ({MAPPED})",
            "INSERT INTO {table} VALUES (3, 30)",
        ),
    ),
    "nested, added later": (
        NESTED_COLUMNS,
        "",
        (
            nested_row(1),
            UPGRADE,
            *both("ALTER TABLE {table} ADD COLUMN ({inside}.c INT)"),
            *both("ALTER TABLE {table} RENAME COLUMN {inside}.b TO d"),
        ),
    ),
    "nested, dropped and added again": (
        NESTED_COLUMNS,
        "",
        (
            nested_row(1),
            UPGRADE,
            *both("ALTER TABLE {table} DROP COLUMN {inside}.b"),
            *both("ALTER TABLE {table} ADD COLUMN ({inside}.b INT)"),
            nested_row(2),
        ),
    ),
    "nested, swapped": (
        NESTED_COLUMNS,
        "",
        (
            nested_row(1),
            UPGRADE,
            *both("ALTER TABLE {table} RENAME COLUMN {inside}.a TO t"),
            *both("ALTER TABLE {table} RENAME COLUMN {inside}.b TO a"),
            *both("ALTER TABLE {table} RENAME COLUMN {inside}.t TO b"),
        ),
    ),
}
"""Columns, properties, and statements."""


def rows_of_spark(spark: SparkJudge, directory: Path) -> list[str]:
    rows = spark.sql(f"SELECT * FROM {name_of(directory)}")
    return sorted(json.dumps(row.asDict(recursive=True), sort_keys=True) for row in rows)


def rows_of_deltacli(directory: Path) -> list[str]:
    rows = open_table(directory).snapshot().scan().to_arrow().to_pylist(maps_as_pydicts="strict")
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def judge(spark: SparkJudge, case: str, directory: Path, copies: Path) -> None:
    """Read, check, rewrite and clean a table that Spark wrote: nothing is accused, and Spark reads the same rows."""
    with Comparison(case) as compared:
        expected = rows_of_spark(spark, directory)
        compared.equal("rows", expected, rows_of_deltacli(directory))
        read = deltacli("read", directory, "--format", "ndjson")
        compared.equal("notes of read", False, RULE in read.stderr)
        checked = deltacli("validate", directory, "--level", "data", "--select", RULE, "--format", "json", codes=(0, 1))
        compared.equal("findings", [], checked.document()["tables"][0]["findings"])

        rewritten = copy_table(directory, copies / "rewritten")
        done = deltacli("optimize", rewritten, "--yes", "--verify", codes=(0, 4, 5))
        compared.equal("files that optimize leaves alone", False, RULE in done.stdout + done.stderr)
        compared.equal("rows after optimize", expected, rows_of_spark(spark, copy_table(rewritten, copies / "read")))

        plan = deltacli(
            *("vacuum", rewritten, "--dry-run", "--retention", "0s", "--allow-retention-below", "7d"), codes=(0, 4)
        )
        compared.equal("files that vacuum keeps", False, RULE in plan.stdout + plan.stderr)


@pytest.mark.parametrize("case", UPGRADED)
def test_an_upgraded_table_is_not_accused(spark: SparkJudge, tables: Path, tmp_path: Path, case: str) -> None:
    table = spark.create(tables / "t", "id BIGINT, v BIGINT", TWO_ROWS, UPGRADE, *UPGRADED[case])

    judge(spark, case, table, tmp_path)


@pytest.mark.parametrize("case", WHOLE)
def test_a_table_with_column_mapping_is_not_accused(spark: SparkJudge, tables: Path, tmp_path: Path, case: str) -> None:
    columns, properties, statements = WHOLE[case]
    table = spark.create(tables / "t", columns, *statements, properties=properties)

    judge(spark, case, table, tmp_path)


def test_a_partitioned_table_is_not_accused(spark: SparkJudge, tables: Path, tmp_path: Path) -> None:
    table = spark.create(
        tables / "t",
        "id BIGINT, p STRING, v BIGINT",
        "INSERT INTO {table} VALUES (1, 'a', 10), (2, 'b', 20)",
        UPGRADE,
        "ALTER TABLE {table} RENAME COLUMN p TO q",
        "ALTER TABLE {table} RENAME COLUMN v TO p",
        "INSERT INTO {table} VALUES (3, 'c', 30)",
        clauses="PARTITIONED BY (p)",
    )

    judge(spark, "partitioned", table, tmp_path)


def test_a_clone_by_spark_is_not_accused_of_what_its_own_log_explains(
    spark: SparkJudge, tables: Path, tmp_path: Path
) -> None:
    source = spark.create(
        tables / "source", "id BIGINT, v BIGINT", TWO_ROWS, UPGRADE, "ALTER TABLE {table} RENAME COLUMN v TO w"
    )
    spark.sql(f"CREATE TABLE {name_of(tables / 'clone')} SHALLOW CLONE {name_of(source)}")

    options = ("--level", "data", "--select", RULE, "--allow-external", str(source), "--format", "json")
    checked = deltacli("validate", tables / "clone", *options, codes=(0, 1))

    assert [] == checked.document()["tables"][0]["findings"]
    assert tmp_path.exists()


def test_spark_reads_null_where_a_file_has_the_column_under_its_logical_name(
    spark: SparkJudge, tables: Path, tmp_path: Path
) -> None:
    table = spark.create(
        tables / "t", "id BIGINT, v BIGINT", TWO_ROWS, UPGRADE, "ALTER TABLE {table} RENAME COLUMN v TO w"
    )
    append_unmapped(table, pa.table({"id": [3], "w": [30]}))

    with Comparison("one column under its logical name") as compared:
        expected = rows_of_spark(spark, copy_table(table, tmp_path / "before"))
        compared.equal("rows", expected, rows_of_deltacli(table))
        compared.equal("the row of the file", True, '{"id": 3, "w": null}' in expected)
        compared.equal("note of read", True, RULE in deltacli("read", table).stderr)
        checked = deltacli("validate", table, "--level", "data", "--select", RULE, "--format", "json", codes=(1,))
        compared.equal("findings", ["error"], [one["severity"] for one in checked.document()["tables"][0]["findings"]])

        optimized = deltacli("optimize", table, "--yes", codes=(4,))
        compared.equal("optimize names the rule", True, RULE in optimized.stdout + optimized.stderr)
        compared.equal("rows after optimize", expected, rows_of_spark(spark, copy_table(table, tmp_path / "after")))

        # What Spark does with the file is lost for its readers; the file itself must stay.
        spark.run(table, "UPDATE {table} SET id = id + 100")
        vacuum = deltacli(
            *("vacuum", table, "--yes", "--retention", "0s", "--allow-retention-below", "7d", "--max-delete", "100%")
        )
        compared.equal("note of vacuum", True, RULE in vacuum.stdout + vacuum.stderr)
        compared.equal("the file", True, (table / FOREIGN).exists())


def test_spark_reads_null_for_a_nested_field_under_its_logical_name(
    spark: SparkJudge, tables: Path, tmp_path: Path
) -> None:
    statements = both("ALTER TABLE {table} RENAME COLUMN {inside}.b TO c")
    table = spark.create(tables / "t", NESTED_COLUMNS, nested_row(1), UPGRADE, *statements)
    inner = pa.struct([("a", pa.int32()), ("c", pa.int32())])
    value = {"a": 3, "c": 30}
    columns: dict[str, Any] = {
        "id": pa.array([3], pa.int64()),
        "s": pa.array([value], inner),
        "l": pa.array([[value]], pa.list_(inner)),
        "m": pa.array([[("k", value)]], pa.map_(pa.string(), inner)),
    }
    append_unmapped(table, pa.table(columns))

    with Comparison("nested fields under logical names") as compared:
        compared.equal("rows", rows_of_spark(spark, copy_table(table, tmp_path / "copy")), rows_of_deltacli(table))
        checked = deltacli("validate", table, "--level", "data", "--select", RULE, "--format", "json", codes=(1,))
        paths = sorted(one["expected"] + " " + one["severity"] for one in checked.document()["tables"][0]["findings"])
        compared.equal("findings", ["b error"] * 3, paths)
