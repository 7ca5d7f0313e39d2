"""Tables whose columns have rules: identity, generated, default and required columns, constraints, widened types."""

from __future__ import annotations

from collections.abc import Mapping

from tests.judges.spark_reads.cases.case import Case

WIDENING = "'delta.enableTypeWidening' = 'true'"

INTEGER_PAIRS = {
    "bs": ("TINYINT", "SMALLINT"),
    "bi": ("TINYINT", "INT"),
    "bl": ("TINYINT", "BIGINT"),
    "bn": ("TINYINT", "DECIMAL(10, 0)"),
    "bd": ("TINYINT", "DOUBLE"),
    "si": ("SMALLINT", "INT"),
    "sl": ("SMALLINT", "BIGINT"),
    "sn": ("SMALLINT", "DECIMAL(12, 2)"),
    "sd": ("SMALLINT", "DOUBLE"),
    "il": ("INT", "BIGINT"),
    "in_": ("INT", "DECIMAL(10, 0)"),
    "id_": ("INT", "DOUBLE"),
    "ln": ("BIGINT", "DECIMAL(20, 0)"),
}
"""Names of columns, their types, and the types to which they are widened."""

OTHER_PAIRS = {
    "fd": ("FLOAT", "DOUBLE"),
    "nn": ("DECIMAL(5, 2)", "DECIMAL(7, 2)"),
    "ns": ("DECIMAL(5, 2)", "DECIMAL(20, 5)"),
    "nl": ("DECIMAL(10, 2)", "DECIMAL(38, 10)"),
    "dt": ("DATE", "TIMESTAMP_NTZ"),
}

LEAST = {"TINYINT": -128, "SMALLINT": -32768, "INT": -2147483648, "BIGINT": -9223372036854775807}


def list_columns(pairs: Mapping[str, tuple[str, str]]) -> str:
    """Return the columns of a table before they are widened."""
    return ", ".join(f"{name} {narrow}" for name, (narrow, _) in pairs.items())


def widen_columns(pairs: Mapping[str, tuple[str, str]]) -> str:
    """Return the statement that widens all columns."""
    changes = ", ".join(f"{name} TYPE {wide}" for name, (_, wide) in pairs.items())
    return f"ALTER TABLE {{table}} ALTER COLUMN {changes}"


def insert_integers(*rows: list[int | None]) -> str:
    """Return the statement that inserts rows of integers."""
    texts = ("NULL" if value is None else str(value) for row in rows for value in row)
    width = len(INTEGER_PAIRS)
    values = list(texts)
    lines = (", ".join(values[start : start + width]) for start in range(0, len(values), width))
    return f"INSERT INTO {{table}} VALUES {', '.join(f'({line})' for line in lines)}"


LEAST_INTEGERS: list[int | None] = [LEAST[narrow] for narrow, _ in INTEGER_PAIRS.values()]

GREATEST_INTEGERS: list[int | None] = [-1 - LEAST[narrow] for narrow, _ in INTEGER_PAIRS.values()]

CASES = (
    Case(
        "widened-integers",
        list_columns(INTEGER_PAIRS),
        properties=WIDENING,
        statements=(
            insert_integers(LEAST_INTEGERS, GREATEST_INTEGERS),
            widen_columns(INTEGER_PAIRS),
            insert_integers([1000] * len(INTEGER_PAIRS), [None] * len(INTEGER_PAIRS)),
        ),
    ),
    Case(
        "widened-others",
        list_columns(OTHER_PAIRS),
        properties=f"{WIDENING}, 'delta.feature.timestampNtz' = 'supported'",
        statements=(
            "INSERT INTO {table} VALUES (0.1, -1.25, 999.99, -12345678.12, DATE'1582-10-04')",
            "INSERT INTO {table} VALUES (FLOAT('NaN'), 0, 0, 0, DATE'9999-12-31')",
            widen_columns(OTHER_PAIRS),
            (
                "INSERT INTO {table} VALUES (1E300, 12345.67, 123456789012345.12345, 0.0000000001,"
                " TIMESTAMP_NTZ'2026-01-01 12:00:00.000001')"
            ),
        ),
    ),
    Case(
        "widened-nested",
        "id INT, s STRUCT<a: TINYINT, l: ARRAY<SMALLINT>>, m MAP<INT, FLOAT>",
        properties=WIDENING,
        statements=(
            "INSERT INTO {table} VALUES (1, struct(1, array(1, NULL)), map(1, 0.5))",
            (
                "ALTER TABLE {table} ALTER COLUMN s.a TYPE INT, s.l.element TYPE BIGINT, m.key TYPE BIGINT,"
                " m.value TYPE DOUBLE"
            ),
            "INSERT INTO {table} VALUES (2, struct(100000, array(5000000000)), map(5000000000, 1E300))",
        ),
    ),
    Case(
        "widened-partition",
        "id INT, p SMALLINT, d DATE",
        clauses="PARTITIONED BY (p, d)",
        properties=f"{WIDENING}, 'delta.feature.timestampNtz' = 'supported'",
        statements=(
            "INSERT INTO {table} VALUES (1, -5, DATE'2026-01-01'), (2, NULL, NULL)",
            "ALTER TABLE {table} ALTER COLUMN p TYPE BIGINT, d TYPE TIMESTAMP_NTZ",
            "INSERT INTO {table} VALUES (3, 5000000000, TIMESTAMP_NTZ'2026-01-01 12:30:00')",
        ),
    ),
    Case(
        "widened-vectors-mapped",
        "id INT, v TINYINT",
        properties=f"{WIDENING}, 'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'",
        statements=(
            "INSERT INTO {table} SELECT id, id FROM RANGE(0, 10, 1, 1)",
            "DELETE FROM {table} WHERE id = 4",
            "ALTER TABLE {table} ALTER COLUMN v TYPE INT",
            "ALTER TABLE {table} RENAME COLUMN v TO w",
            "UPDATE {table} SET w = 1000000 WHERE id = 5",
        ),
    ),
    Case(
        "widened-feature-dropped",
        "id INT, v SMALLINT",
        properties=WIDENING,
        statements=(
            "INSERT INTO {table} VALUES (1, 1)",
            "ALTER TABLE {table} ALTER COLUMN v TYPE INT",
            "INSERT INTO {table} VALUES (2, 100000)",
            "ALTER TABLE {table} DROP FEATURE typeWidening",
        ),
    ),
    Case(
        "widened-checkpoint",
        "id SMALLINT, d DECIMAL(5, 2)",
        properties=f"{WIDENING}, 'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsStruct' = 'true',"
        " 'delta.checkpoint.writeStatsAsJson' = 'false'",
        statements=(
            "INSERT INTO {table} VALUES (1, 1.5)",
            "ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT, d TYPE DECIMAL(20, 4)",
            "INSERT INTO {table} VALUES (5000000000, 12345.6789)",
        ),
    ),
    Case(
        "identity",
        "a BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY -3),"
        " b BIGINT GENERATED BY DEFAULT AS IDENTITY, v INT",
        statements=(
            "INSERT INTO {table} (v) VALUES (1), (2), (3)",
            "INSERT INTO {table} (b, v) VALUES (500, 4)",
            "ALTER TABLE {table} ALTER COLUMN b SYNC IDENTITY",
            "INSERT INTO {table} (v) VALUES (5)",
            "UPDATE {table} SET v = 0 WHERE v = 1",
        ),
    ),
    Case(
        "generated",
        "id INT, t TIMESTAMP, d DATE GENERATED ALWAYS AS (CAST(t AS DATE)),"
        " u STRING GENERATED ALWAYS AS (concat('x', CAST(id AS STRING)))",
        clauses="PARTITIONED BY (d)",
        statements=(
            "INSERT INTO {table} (id, t) VALUES (1, TIMESTAMP'2026-01-01 23:59:59Z'), (2, NULL)",
            "INSERT INTO {table} (id, t) VALUES (NULL, TIMESTAMP'1969-12-31 00:00:00Z')",
        ),
    ),
    Case(
        "defaults",
        "id INT, s STRING DEFAULT 'a''b', d DATE DEFAULT DATE'2026-01-01', n INT DEFAULT 1 + 2",
        properties="'delta.feature.allowColumnDefaults' = 'supported'",
        statements=(
            "INSERT INTO {table} (id) VALUES (1)",
            "INSERT INTO {table} VALUES (2, DEFAULT, NULL, 7)",
            "ALTER TABLE {table} ALTER COLUMN s SET DEFAULT 'c'",
            "INSERT INTO {table} (id) VALUES (3)",
        ),
    ),
    Case(
        "constraints",
        "id INT NOT NULL, s STRUCT<a: INT NOT NULL, b: STRING>, v INT",
        statements=(
            "ALTER TABLE {table} ADD CONSTRAINT positive CHECK (v > 0 OR v IS NULL)",
            "INSERT INTO {table} VALUES (1, struct(1, NULL), 1), (2, struct(2, 'x'), NULL)",
            "ALTER TABLE {table} ADD CONSTRAINT `odd name` CHECK (id < 100 AND s.a IS NOT NULL)",
            "ALTER TABLE {table} DROP CONSTRAINT positive",
            "INSERT INTO {table} VALUES (3, struct(3, 'y'), -1)",
        ),
    ),
    Case(
        "not-null-dropped",
        "id INT NOT NULL, v STRING",
        statements=(
            "INSERT INTO {table} VALUES (1, 'a')",
            "ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL",
            "INSERT INTO {table} VALUES (NULL, 'b')",
            "ALTER TABLE {table} ALTER COLUMN v COMMENT 'it''s'",
            "ALTER TABLE {table} ALTER COLUMN v FIRST",
        ),
    ),
    Case(
        "everything-at-once",
        "id BIGINT GENERATED ALWAYS AS IDENTITY, v SMALLINT NOT NULL, w INT GENERATED ALWAYS AS (v * 2),"
        " s STRING DEFAULT 'x'",
        clauses="CLUSTER BY (v)",
        properties=f"{WIDENING}, 'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true',"
        " 'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true',"
        " 'delta.enableInCommitTimestamps' = 'true', 'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2',"
        " 'delta.feature.allowColumnDefaults' = 'supported'",
        statements=(
            "INSERT INTO {table} (v) VALUES (1), (2), (3)",
            "DELETE FROM {table} WHERE v = 2",
            "ALTER TABLE {table} RENAME COLUMN s TO t",
            "UPDATE {table} SET t = 'y' WHERE v = 3",
        ),
    ),
)
