"""Tables whose columns have names or ids of their own in the files, and changes of such columns."""

from __future__ import annotations

from tests.judges.spark_reads.cases.case import Case

BY_NAME = "'delta.columnMapping.mode' = 'name'"


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
        "mapping-names",
        "`a b` INT, `c.d` STRING, `e,f` INT, `g;{}()` STRING, `h=\t` INT, `back``tick` INT, `ü😀` INT",
        properties=BY_NAME,
        statements=(
            "INSERT INTO {table} VALUES (1, 'x', 2, 'y', 3, 4, 5), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO {table} VALUES (9, 'z', 9, 'z', 9, 9, 9)",
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
)
