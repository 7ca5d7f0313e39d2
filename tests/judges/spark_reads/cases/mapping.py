"""Tables whose columns have names or ids of their own in the files, and changes of such columns."""

from __future__ import annotations

from pathlib import Path

from tests.judges.spark import SparkJudge
from tests.judges.spark_reads.cases.case import Case

BY_NAME = "'delta.columnMapping.mode' = 'name'"

BY_ID = "'delta.columnMapping.mode' = 'id'"

NESTED = (
    "id INT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: INT>>, l ARRAY<STRUCT<x: INT, y: STRING>>,"
    " m MAP<STRING, STRUCT<k: INT>>"
)

NESTED_ROW = "(1, struct(1, struct('c', 1)), array(struct(1, 'y'), NULL), map('key', struct(1)))"

CHANGES_OF_COLUMNS = (
    "INSERT INTO {table} VALUES (1, 10, 'one'), (2, 20, 'two')",
    "ALTER TABLE {table} RENAME COLUMN v TO w",
    "ALTER TABLE {table} DROP COLUMN t",
    "ALTER TABLE {table} ADD COLUMNS (t INT FIRST, v STRING AFTER id)",
    "INSERT INTO {table} (id, w, t, v) VALUES (3, 30, 3, 'new')",
)


def overwrite_schema(spark: SparkJudge, table: Path) -> None:
    """Overwrite the rows and the schema, with a column whose name had another type."""
    writer = spark.session.sql("SELECT 'x' AS v, 1L AS n").write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").save(str(table))


CASES = (
    Case(
        "mapping-upgrade",
        "id INT, v INT, t STRING",
        statements=(
            "INSERT INTO {table} VALUES (1, 10, 'one')",
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            *CHANGES_OF_COLUMNS[1:],
        ),
    ),
    Case("mapping-name", "id INT, v INT, t STRING", properties=BY_NAME, statements=CHANGES_OF_COLUMNS),
    Case("mapping-id", "id INT, v INT, t STRING", properties=BY_ID, statements=CHANGES_OF_COLUMNS),
    Case(
        "mapping-nested",
        NESTED,
        properties=BY_NAME,
        statements=(
            f"INSERT INTO {{table}} VALUES {NESTED_ROW}",
            "ALTER TABLE {table} RENAME COLUMN s.b.c TO e",
            "ALTER TABLE {table} DROP COLUMN l.element.x",
            "ALTER TABLE {table} ADD COLUMNS (l.element.x STRING, m.value.n DATE)",
            (
                "INSERT INTO {table} VALUES (2, struct(2, struct('e', 2)), array(struct('y', 'x')),"
                " map('key', struct(2, DATE'2026-01-01')))"
            ),
        ),
    ),
    Case(
        "mapping-nested-id",
        NESTED,
        properties=BY_ID,
        statements=(
            f"INSERT INTO {{table}} VALUES {NESTED_ROW}",
            "ALTER TABLE {table} RENAME COLUMN s.a TO z",
            "ALTER TABLE {table} ADD COLUMNS (s.a STRING FIRST)",
            "INSERT INTO {table} VALUES (2, struct('a', 2, struct('c', 2)), NULL, map())",
        ),
    ),
    Case(
        "mapping-names",
        "`a b` INT, `c.d` STRING, `e,f` INT, `g;{}()` STRING, `h=\t` INT, `back``tick` INT, `ü😀` INT",
        properties=BY_NAME,
        statements=(
            "INSERT INTO {table} VALUES (1, 'x', 2, 'y', 3, 4, 5), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO {table} VALUES (9, 'z', 9, 'z', 9, 9, 9)",
        ),
    ),
    Case(
        "mapping-partition-renamed",
        "id INT, p STRING, q INT",
        clauses="PARTITIONED BY (p, q)",
        properties=BY_NAME,
        statements=(
            "INSERT INTO {table} VALUES (1, 'a', 1), (2, NULL, -1)",
            "ALTER TABLE {table} RENAME COLUMN p TO r",
            "INSERT INTO {table} VALUES (3, 'a b', 1)",
            "DELETE FROM {table} WHERE r = 'a'",
        ),
    ),
    Case(
        "mapping-removed",
        "id INT, v INT",
        properties=BY_NAME,
        statements=(
            "INSERT INTO {table} VALUES (1, 10)",
            "ALTER TABLE {table} RENAME COLUMN v TO w",
            "INSERT INTO {table} VALUES (2, 20)",
            "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
            "INSERT INTO {table} VALUES (3, 30)",
        ),
        settings={"spark.databricks.delta.columnMapping.allowRemoval": "true"},
    ),
    Case(
        "mapping-vectors-feed",
        "id INT, v INT",
        properties=f"{BY_NAME}, 'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'",
        statements=(
            "INSERT INTO {table} SELECT id, id * 10 FROM RANGE(0, 20, 1, 1)",
            "UPDATE {table} SET v = -1 WHERE id = 3",
            "ALTER TABLE {table} RENAME COLUMN v TO w",
            "DELETE FROM {table} WHERE id > 15",
        ),
    ),
    Case(
        "mapping-clustered",
        "id INT, v INT, s STRUCT<k: INT>",
        clauses="CLUSTER BY (v, s.k)",
        properties=BY_NAME,
        statements=(
            "INSERT INTO {table} SELECT id, -id, struct(id) FROM RANGE(0, 10, 1, 1)",
            "ALTER TABLE {table} RENAME COLUMN v TO w",
            "OPTIMIZE {table}",
        ),
    ),
    Case(
        "mapping-overwritten-schema",
        "id INT, v INT",
        properties=BY_NAME,
        statements=("INSERT INTO {table} VALUES (1, 10)",),
        finish=overwrite_schema,
    ),
)
