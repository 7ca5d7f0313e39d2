"""The tables that Delta for Spark writes before deltacli changes them: one per feature that matters, and one with all.

Each table has a column `id`, which no two rows share, and a column `v` that statements may set. The rows are ordered in
the same way in all columns: row 0 has the nulls, the next one the least values, the last one the greatest. So a single
condition over all columns selects rows although each of its terms may skip a file: a row that a wrong bound hides in
any column is missing from the answer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkTable:
    """A table that Spark creates.

    Attributes:
        name: The name of its directory.
        columns: The columns, as in CREATE TABLE.
        statements: What happens after that, with `{table}` for the name. Each statement makes one version.
        properties: The list of TBLPROPERTIES.
        clauses: Further clauses of CREATE TABLE, such as PARTITIONED BY.
        compared: The columns and fields that conditions ask about.
        new_value: SQL of a value that statements give to the column `v`.
        has_change_feed: Whether all versions from `feed_from` have a change feed.
        feed_from: The first version whose change feed is asked for.
        has_row_ids: Whether rows have ids that survive every change that keeps the rows.
        is_mapped: Whether columns can be renamed.
        reads_stream: Whether a stream from version 0 is asked. A table whose columns were renamed has none.
        finds: Rules of `validate` with warnings that are right about what Spark wrote.
    """

    name: str
    columns: str
    statements: tuple[str, ...]
    properties: str = ""
    clauses: str = ""
    compared: tuple[str, ...] = ("v",)
    new_value: str = "'changed'"
    has_change_feed: bool = False
    feed_from: int = 0
    has_row_ids: bool = False
    is_mapped: bool = False
    reads_stream: bool = True
    finds: tuple[str, ...] = ()


TYPES = SparkTable(
    name="types",
    finds=("data.int96-beyond-nanoseconds",),
    columns=(
        "id BIGINT, flag BOOLEAN, tiny TINYINT, small SMALLINT, whole INT, big BIGINT, single FLOAT, v DOUBLE,"
        " amount DECIMAL(20, 4), text STRING, bytes BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ"
    ),
    statements=(
        "INSERT INTO {table} (id) VALUES (0)",
        (
            "INSERT INTO {table} VALUES"
            " (1, false, -128, -32768, -2147483648, -9223372036854775808, -1.5, -2.5, -9999999999999999.9999, '', X'',"
            "  DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00', TIMESTAMP_NTZ'0001-01-01 00:00:00'),"
            " (2, false, -1, -1, -1, -1, -0.5, -0.1, -0.0001, 'a', X'00', DATE'1582-10-04',"
            "  TIMESTAMP'1582-10-04 23:59:59.999999', TIMESTAMP_NTZ'1582-10-04 23:59:59.999999')"
        ),
        (
            "INSERT INTO {table} VALUES"
            " (3, true, 0, 0, 0, 0, 0, 0, 0, 'b', X'7F', DATE'1970-01-01',"
            "  TIMESTAMP'1970-01-01 00:00:00', TIMESTAMP_NTZ'1970-01-01 00:00:00'),"
            " (4, true, 1, 1, 1, 1, 1.25, 0.1, 0.0001, 'b', X'80', DATE'2024-02-29',"
            "  TIMESTAMP'2024-02-29 12:00:00.000001', TIMESTAMP_NTZ'2024-02-29 12:00:00.000001')"
        ),
        (
            "INSERT INTO {table} VALUES"
            " (5, true, 2, 2, 2, 2, 2.25, 0.2, 0.0002, 'ba', X'81', DATE'2024-03-01',"
            "  TIMESTAMP'2024-03-01 12:00:00.000001', TIMESTAMP_NTZ'2024-03-01 12:00:00.000001'),"
            " (6, true, 127, 32767, 2147483647, 9223372036854775807, 16777217, 1e300, 9999999999999999.9999,"
            "  'ü and a text of more than thirty-two characters, z', X'FFFF', DATE'9999-12-31',"
            "  TIMESTAMP'9999-12-31 23:59:59.999999', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999')"
        ),
    ),
    compared=("tiny", "small", "whole", "big", "single", "v", "amount", "text", "bytes", "day", "at", "local"),
    new_value="7.5D",
)

EXTREMES = SparkTable(
    name="extremes",
    finds=("data.int96-beyond-nanoseconds",),
    columns="id BIGINT, single FLOAT, v DOUBLE, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, text STRING",
    statements=(
        "INSERT INTO {table} (id) VALUES (0)",
        (
            "INSERT INTO {table} VALUES"
            " (1, FLOAT('-Infinity'), DOUBLE('-Infinity'), DATE'-0044-03-15', TIMESTAMP'-0044-03-15 12:00:00.000001',"
            "  TIMESTAMP_NTZ'-0044-03-15 12:00:00.000001', ''),"
            " (2, FLOAT('-0.0'), DOUBLE('-0.0'), DATE'0000-01-01', TIMESTAMP'0000-01-01 00:00:00',"
            "  TIMESTAMP_NTZ'0000-01-01 00:00:00', ' ')"
        ),
        (
            "INSERT INTO {table} VALUES"
            " (3, FLOAT('0.0'), DOUBLE('0.0'), DATE'1899-12-31', TIMESTAMP'1899-12-31 23:59:59',"
            "  TIMESTAMP_NTZ'1899-12-31 23:59:59', 'middle'),"
            " (4, 1.5, 1.5, DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999',"
            "  TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', concat(repeat('n', 40), 'a'))"
        ),
        (
            "INSERT INTO {table} VALUES"
            " (5, FLOAT('Infinity'), DOUBLE('Infinity'), DATE'+10000-01-01', TIMESTAMP'+10000-01-01 00:00:00',"
            "  TIMESTAMP_NTZ'+10000-01-01 00:00:00', concat(repeat('n', 40), 'b')),"
            " (6, FLOAT('NaN'), DOUBLE('NaN'), DATE'+12345-12-31', TIMESTAMP'+12345-12-31 00:00:00.000001',"
            "  TIMESTAMP_NTZ'+12345-12-31 00:00:00.000001', '\U0010ffff')"
        ),
    ),
    compared=("single", "v", "day", "at", "local", "text"),
    new_value="DOUBLE('NaN')",
)

PARTITIONED = SparkTable(
    name="partitioned",
    columns="id BIGINT, v STRING, place STRING, day DATE",
    clauses="PARTITIONED BY (place, day)",
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL, NULL), (1, 'a', ' =%/', DATE'0001-01-01')",
        (
            "INSERT INTO {table} VALUES (2, 'b', '100%25', DATE'1999-12-31'), (3, 'c', 'a b+c', DATE'2024-01-01'),"
            " (4, 'd', \"it's:[x]?{y}#\", DATE'2024-01-02'), (5, 'e', 'ü/ß', DATE'2024-01-03')"
        ),
        (
            "INSERT INTO {table} VALUES (6, 'f', \"it's:[x]?{y}#\", DATE'2024-01-02'),"
            " (7, 'g', '\U0001f600', DATE'9999-12-31')"
        ),
        "DELETE FROM {table} WHERE id = 6",
        "INSERT INTO {table} VALUES (6, 'f', \"it's:[x]?{y}#\", DATE'2024-01-02')",
    ),
    compared=("v", "place", "day"),
)

MAPPED_BY_NAME = SparkTable(
    name="mapped-by-name",
    columns="id BIGINT, gone STRING, old STRING, place STRUCT<city: STRING, gone: INT, zip: INT>, region STRING",
    clauses="PARTITIONED BY (region)",
    statements=(
        (
            "INSERT INTO {table} VALUES (0, NULL, NULL, NULL, NULL),"
            " (1, 'x', 'a', named_struct('city', 'A', 'gone', 1, 'zip', 10), 'east one')"
        ),
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {table} VALUES (2, 'y', 'b', named_struct('city', 'B', 'gone', 2, 'zip', 20), 'east two')",
        "ALTER TABLE {table} RENAME COLUMN old TO v",
        "ALTER TABLE {table} RENAME COLUMN place.city TO `town of, birth`",
        "ALTER TABLE {table} RENAME COLUMN region TO `the region`",
        "ALTER TABLE {table} DROP COLUMNS (gone, place.gone)",
        "INSERT INTO {table} VALUES (3, 'c', named_struct('town of, birth', 'C', 'zip', 30), 'north')",
        "ALTER TABLE {table} ADD COLUMNS (gone BIGINT)",
        "INSERT INTO {table} VALUES (4, 'd', named_struct('town of, birth', 'D', 'zip', 40), 'west', 4)",
    ),
    compared=("v", "place.`town of, birth`", "place.zip", "`the region`"),
    is_mapped=True,
    reads_stream=False,
)

MAPPED_BY_ID = SparkTable(
    name="mapped-by-id",
    columns="id BIGINT, gone STRING, old STRING, places ARRAY<STRUCT<city: STRING, gone: INT>>, by MAP<STRING, INT>",
    properties="'delta.columnMapping.mode' = 'id', 'delta.enableDeletionVectors' = 'true'",
    statements=(
        (
            "INSERT INTO {table} VALUES (0, NULL, NULL, NULL, NULL),"
            " (1, 'x', 'a', array(named_struct('city', 'A', 'gone', 1)), map('k', 1)), (9, 'x', 'a', array(), map())"
        ),
        "DELETE FROM {table} WHERE id = 9",
        "ALTER TABLE {table} RENAME COLUMN old TO v",
        "ALTER TABLE {table} DROP COLUMNS (gone)",
        "INSERT INTO {table} VALUES (2, 'b', array(named_struct('city', 'B', 'gone', 2), NULL), map('k', NULL))",
        (
            "INSERT INTO {table} VALUES (3, 'c', array(named_struct('city', NULL, 'gone', 3)), map('', 3)),"
            " (4, 'd', array(), map())"
        ),
    ),
    is_mapped=True,
    reads_stream=False,
)

VECTORS = SparkTable(
    name="vectors",
    columns="id BIGINT, v STRING, n INT",
    properties="'delta.enableDeletionVectors' = 'true'",
    statements=(
        "INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'v' || lpad(id, 2, '0'), id FROM range(1, 20)",
        "INSERT INTO {table} VALUES (0, NULL, NULL), (20, 'w', 20)",
        "DELETE FROM {table} WHERE id IN (7, 8)",
        "UPDATE {table} SET v = v || '!' WHERE id BETWEEN 9 AND 11",
        "DELETE FROM {table} WHERE id IN (12, 13)",
    ),
    compared=("v", "n"),
)

CHANGE_FEED = SparkTable(
    name="change-feed",
    columns="id BIGINT, v STRING, n INT",
    properties="'delta.enableChangeDataFeed' = 'true'",
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL), (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
        "UPDATE {table} SET v = 'bb' WHERE id = 2",
        "INSERT INTO {table} VALUES (4, 'd', 4), (5, 'e', 5), (6, 'f', 6)",
        "DELETE FROM {table} WHERE id = 6",
    ),
    compared=("v", "n"),
    has_change_feed=True,
)

ROW_IDS = SparkTable(
    name="row-ids",
    columns="id BIGINT, v STRING, n INT",
    properties="'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'",
    statements=(
        "INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'v' || id, id FROM range(1, 10)",
        "INSERT INTO {table} VALUES (0, NULL, NULL), (10, 'w', 10)",
        "UPDATE {table} SET v = v || '!' WHERE id = 4",
        "DELETE FROM {table} WHERE id = 7",
    ),
    compared=("v", "n"),
    has_row_ids=True,
)

CLUSTERED = SparkTable(
    name="clustered",
    columns="id BIGINT, v STRING, day DATE, place STRUCT<city: STRING>",
    clauses="CLUSTER BY (day, place.city)",
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL, NULL), (1, 'a', DATE'2024-01-01', named_struct('city', 'A'))",
        (
            "INSERT INTO {table} VALUES (2, 'b', DATE'2024-01-02', named_struct('city', 'B')),"
            " (3, 'c', DATE'2024-01-03', named_struct('city', 'C'))"
        ),
        "OPTIMIZE {table}",
        "INSERT INTO {table} VALUES (4, 'd', DATE'2024-01-04', named_struct('city', 'D'))",
        "INSERT INTO {table} VALUES (5, 'e', DATE'2024-01-05', named_struct('city', 'E'))",
    ),
    compared=("v", "day", "place.city"),
)

WIDENED = SparkTable(
    name="widened",
    columns=(
        "id INT, v STRING, whole TINYINT, single FLOAT, amount DECIMAL(6, 2), day DATE, place STRUCT<zip: SMALLINT>,"
        " list ARRAY<INT>"
    ),
    properties="'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'",
    statements=(
        "INSERT INTO {table} (id) VALUES (0)",
        (
            # As a double 0.125 is the same number. Spark itself misses the row if the float is 0.1.
            "INSERT INTO {table} VALUES (1, 'a', -128, 0.125, -1234.56, DATE'2024-01-01', named_struct('zip', 1),"
            " array(1))"
        ),
        "ALTER TABLE {table} ALTER COLUMN whole TYPE INT",
        "ALTER TABLE {table} ALTER COLUMN single TYPE DOUBLE",
        "ALTER TABLE {table} ALTER COLUMN amount TYPE DECIMAL(12, 4)",
        "ALTER TABLE {table} ALTER COLUMN place.zip TYPE INT",
        "ALTER TABLE {table} ALTER COLUMN list.element TYPE BIGINT",
        "INSERT INTO {table} VALUES (2, 'b', 40000, 0.25, 0, DATE'2024-01-02', named_struct('zip', 70000), array(2))",
        "ALTER TABLE {table} ALTER COLUMN whole TYPE BIGINT",
        "ALTER TABLE {table} ALTER COLUMN day TYPE TIMESTAMP_NTZ",
        (
            "INSERT INTO {table} VALUES (3, 'c', 5000000000, 1.5, 12345678.9876, TIMESTAMP_NTZ'2024-01-03 01:02:03',"
            " named_struct('zip', 80000), array(5000000000))"
        ),
    ),
    compared=("v", "whole", "single", "amount", "day", "place.zip"),
    reads_stream=False,
)

COMPUTED = SparkTable(
    name="computed",
    columns=(
        "id BIGINT NOT NULL, v STRING DEFAULT 'none', number BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 10"
        " INCREMENT BY 5), at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), label CHAR(4),"
        " short VARCHAR(8)"
    ),
    properties="'delta.feature.allowColumnDefaults' = 'supported'",
    statements=(
        "ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id >= 0)",
        "INSERT INTO {table} (id, v) VALUES (0, NULL)",
        (
            "INSERT INTO {table} (id, v, at, label, short) VALUES (1, 'a', TIMESTAMP'2024-01-01 01:00:00', 'A', 'a'),"
            " (2, 'b', TIMESTAMP'2024-01-02 02:00:00', 'B', 'b ')"
        ),
        "INSERT INTO {table} (id, v, at) VALUES (3, 'c', TIMESTAMP'2024-01-03 03:00:00')",
        "INSERT INTO {table} (id, v, at) VALUES (4, 'd', TIMESTAMP'2024-01-04 04:00:00')",
    ),
    compared=("v", "at", "day"),
)

COMMIT_TIMES = SparkTable(
    name="commit-times",
    columns="id BIGINT, v STRING, n INT",
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL), (1, 'a', 1)",
        "INSERT INTO {table} VALUES (2, 'b', 2)",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO {table} VALUES (3, 'c', 3)",
        "INSERT INTO {table} VALUES (4, 'd', 4)",
    ),
    compared=("v", "n"),
)

V2_CHECKPOINTS = SparkTable(
    name="v2-checkpoints",
    columns="id BIGINT, v STRING, n INT",
    properties="'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL), (1, 'a', 1)",
        "INSERT INTO {table} VALUES (2, 'b', 2)",
        "INSERT INTO {table} VALUES (3, 'c', 3), (9, 'x', 9)",
        "DELETE FROM {table} WHERE id = 9",
        "INSERT INTO {table} VALUES (4, 'd', 4)",
    ),
    compared=("v", "n"),
)

CLASSIC_CHECKPOINTS = SparkTable(
    name="classic-checkpoints",
    columns="id BIGINT, v STRING, day DATE",
    clauses="PARTITIONED BY (day)",
    properties=(
        "'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsStruct' = 'true',"
        " 'delta.enableDeletionVectors' = 'true'"
    ),
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL), (1, 'a', DATE'2024-01-01')",
        "INSERT INTO {table} VALUES (2, 'b', DATE'2024-01-02')",
        "INSERT INTO {table} VALUES (3, 'c', DATE'2024-01-03'), (9, 'x', DATE'2024-01-03')",
        "DELETE FROM {table} WHERE id = 9",
        "INSERT INTO {table} VALUES (4, 'd', DATE'2024-01-04')",
    ),
    compared=("v", "day"),
)

VARIANT = SparkTable(
    name="variant",
    columns="id BIGINT, v STRING, data VARIANT, inner STRUCT<data: VARIANT>",
    statements=(
        "INSERT INTO {table} VALUES (0, NULL, NULL, NULL)",
        (
            "INSERT INTO {table} SELECT 1, 'a', parse_json('{\"a\": [1, 2.5, null, \"x\"]}'),"
            " named_struct('data', parse_json('1'))"
        ),
        "INSERT INTO {table} SELECT 2, 'b', parse_json('null'), named_struct('data', parse_json('\"text\"'))",
        "INSERT INTO {table} SELECT 3, 'c', parse_json('12345678901234567890'), named_struct('data', NULL)",
    ),
)

NESTED = SparkTable(
    name="nested",
    columns=(
        "id BIGINT, v STRING, nothing INT, place STRUCT<city: STRING, at: STRUCT<x: DOUBLE, y: INT>, none: DATE>,"
        " list ARRAY<STRUCT<a: INT, b: ARRAY<STRING>>>, by MAP<STRING, STRUCT<a: INT>>"
    ),
    statements=(
        "INSERT INTO {table} (id) VALUES (0)",
        (
            "INSERT INTO {table} VALUES (1, 'a', NULL, named_struct('city', 'A', 'at', named_struct('x', -1D, 'y', 1),"
            " 'none', NULL), array(named_struct('a', 1, 'b', array('x', NULL)), NULL), map('k', named_struct('a', 1)))"
        ),
        (
            "INSERT INTO {table} VALUES (2, 'b', NULL, named_struct('city', 'B', 'at', named_struct('x', 2.5D, 'y', 2),"
            " 'none', NULL), array(), map())"
        ),
        (
            "INSERT INTO {table} VALUES (3, 'c', NULL, named_struct('city', 'C', 'at', named_struct('x', DOUBLE('NaN'),"
            " 'y', 3), 'none', NULL), array(named_struct('a', NULL, 'b', NULL)),"
            " map('k', NULL, '', named_struct('a', 2)))"
        ),
    ),
    compared=("v", "place.city", "place.at.x", "place.at.y"),
)

REPLACED = SparkTable(
    name="replaced",
    columns="old BIGINT, text STRING",
    clauses="PARTITIONED BY (text)",
    statements=(
        "INSERT INTO {table} VALUES (1, 'x'), (2, 'y')",
        "REPLACE TABLE {table} (id BIGINT, v STRING, n INT) USING delta",
        "INSERT INTO {table} VALUES (0, NULL, NULL), (1, 'a', 1)",
        "INSERT OVERWRITE {table} VALUES (0, NULL, NULL), (1, 'a', 1), (2, 'b', 2)",
        "INSERT INTO {table} VALUES (3, 'c', 3)",
        "INSERT INTO {table} REPLACE WHERE n > 2 VALUES (3, 'cc', 3)",
    ),
    compared=("v", "n"),
    reads_stream=False,
)

EVERYTHING = SparkTable(
    name="everything",
    columns="id BIGINT, gone INT, old STRING, n INT, x DOUBLE, place STRUCT<city: STRING, zip: INT>",
    clauses="CLUSTER BY (n)",
    properties=(
        "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true',"
        " 'delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = 'true',"
        " 'delta.enableTypeWidening' = 'true', 'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '4',"
        " 'delta.enableChangeDataFeed' = 'true'"
    ),
    statements=(
        (
            "INSERT INTO {table} VALUES (0, NULL, NULL, NULL, NULL, NULL),"
            " (1, 1, 'a', 1, -1D, named_struct('city', 'A', 'zip', 10)),"
            " (9, 1, 'a', 1, -1D, named_struct('city', 'A', 'zip', 10))"
        ),
        "DELETE FROM {table} WHERE id = 9",
        "ALTER TABLE {table} RENAME COLUMN old TO v",
        "ALTER TABLE {table} DROP COLUMN gone",
        "ALTER TABLE {table} ALTER COLUMN place.zip TYPE BIGINT",
        (
            "INSERT INTO {table} VALUES (2, 'b', 2, 0D, named_struct('city', 'B', 'zip', 5000000000)),"
            " (3, 'c', 3, 1D, named_struct('city', 'C', 'zip', 6000000000))"
        ),
        "UPDATE {table} SET v = 'bb' WHERE id = 2",
        "INSERT INTO {table} VALUES (4, 'd', 4, DOUBLE('NaN'), named_struct('city', 'D', 'zip', 7000000000))",
    ),
    compared=("v", "n", "x", "place.city", "place.zip"),
    has_change_feed=True,
    feed_from=6,
    has_row_ids=True,
    is_mapped=True,
    reads_stream=False,
)

TABLES = (
    TYPES,
    EXTREMES,
    PARTITIONED,
    MAPPED_BY_NAME,
    MAPPED_BY_ID,
    VECTORS,
    CHANGE_FEED,
    ROW_IDS,
    CLUSTERED,
    WIDENED,
    COMPUTED,
    COMMIT_TIMES,
    V2_CHECKPOINTS,
    CLASSIC_CHECKPOINTS,
    VARIANT,
    NESTED,
    REPLACED,
    EVERYTHING,
)
"""All tables. Their order is that of the tests, so that a table is built once by each process that needs it."""
