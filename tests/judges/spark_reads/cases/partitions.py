"""Tables with partition columns of every type, and values that are odd as text, as JSON or as a part of a path."""

from __future__ import annotations

from tests.judges.spark_reads.cases.case import Case

ODD_TEXTS = r"""
    INSERT INTO {table} VALUES (1, NULL), (2, ''), (3, ' '), (4, 'a b'), (5, 'ü日本😀'), (6, 'a%20b'), (7, 'a/b'),
    (8, 'a:b'), (9, 'a=b'), (10, 'say "x"'), (11, 'it''s'), (12, '\u0001\t\n'), (13, '#?&*[]{}'), (14, '..'),
    (15, 'a\\b'), (16, '%'), (17, '__HIVE_DEFAULT_PARTITION__'), (18, 'null'), (19, ' trailing '), (20, '\u007f'),
    (21, 'A'), (22, 'a')
"""

BY_NAME = "'delta.columnMapping.mode' = 'name'"

CASES = (
    Case(
        "partition-string",
        "id INT, p STRING",
        clauses="PARTITIONED BY (p)",
        statements=(
            ODD_TEXTS,
            "INSERT INTO {table} VALUES (30, 'a b'), (31, NULL)",
            "DELETE FROM {table} WHERE p = 'a:b'",
        ),
    ),
    Case(
        "partition-string-mapped",
        "id INT, p STRING",
        clauses="PARTITIONED BY (p)",
        properties=BY_NAME,
        statements=(ODD_TEXTS,),
    ),
    Case(
        "partition-integers",
        "id INT, a TINYINT, b SMALLINT, c INT, d BIGINT",
        clauses="PARTITIONED BY (a, b, c, d)",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, -128, -32768, -2147483648, -9223372036854775808),"
                " (2, 127, 32767, 2147483647, 9223372036854775807), (3, NULL, NULL, NULL, NULL), (4, 0, 0, 0, 0)"
            ),
        ),
    ),
    Case(
        "partition-floats",
        "id INT, f FLOAT, d DOUBLE",
        clauses="PARTITIONED BY (f, d)",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, FLOAT('NaN'), DOUBLE('NaN')),"
                " (2, FLOAT('Infinity'), DOUBLE('-Infinity')), (3, FLOAT('-0.0'), DOUBLE('-0.0')),"
                " (4, 0.0, 0.0), (5, 1.5E-40, 1.7976931348623157E308),"
                " (6, NULL, NULL), (7, 0.1, 4.9E-324), (8, 16777216, 1E22)"
            ),
        ),
    ),
    Case(
        "partition-decimals",
        "id INT, a DECIMAL(3, 2), b DECIMAL(38, 10), c DECIMAL(18, 0)",
        clauses="PARTITIONED BY (a, b, c)",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, -1.50, -0.0000000001, -5),"
                " (2, 9.99, 9999999999999999999999999999.9999999999, 999999999999999999), (3, NULL, NULL, NULL),"
                " (4, 0, 0, 0), (5, -0.01, 1, 100)"
            ),
        ),
    ),
    Case(
        "partition-boolean",
        "id INT, p BOOLEAN",
        clauses="PARTITIONED BY (p)",
        statements=("INSERT INTO {table} VALUES (1, true), (2, false), (3, NULL)",),
    ),
    Case(
        "partition-binary",
        "id INT, p BINARY",
        clauses="PARTITIONED BY (p)",
        statements=("INSERT INTO {table} VALUES (1, X'61'), (2, X'C3BC'), (3, NULL), (4, X'25'), (5, X'20')",),
    ),
    Case(
        "partition-date",
        "id INT, p DATE",
        clauses="PARTITIONED BY (p)",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, DATE'2026-02-28'), (2, DATE'0001-01-01'), (3, DATE'9999-12-31'),"
                " (4, NULL), (5, DATE'1582-10-04'), (6, DATE'1969-12-31')"
            ),
        ),
    ),
    Case(
        "partition-date-far",
        "id INT, p DATE",
        clauses="PARTITIONED BY (p)",
        statements=(
            "INSERT INTO {table} VALUES (1, DATE'-0044-03-15'), (2, DATE'+12345-06-07'), (3, DATE'0000-01-01')",
        ),
    ),
    Case(
        "partition-timestamp",
        "id INT, p TIMESTAMP",
        clauses="PARTITIONED BY (p)",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, TIMESTAMP'2026-03-29T02:30:00+05:30'),"
                " (2, TIMESTAMP'0001-01-01T00:00:00Z'), (3, TIMESTAMP'1969-12-31T23:59:59.999999Z'),"
                " (4, NULL), (5, TIMESTAMP'9999-12-31T23:59:59.999999Z'),"
                " (6, TIMESTAMP'2026-10-25T01:30:00.1Z')"
            ),
        ),
        settings={"spark.sql.session.timeZone": "Europe/Zurich"},
    ),
    Case(
        "partition-timestamp-local",
        "id INT, p TIMESTAMP",
        clauses="PARTITIONED BY (p)",
        statements=(
            "INSERT INTO {table} VALUES (1, TIMESTAMP'2026-03-29 02:30:00.5'), (2, TIMESTAMP'2026-03-29 00:00:00')",
        ),
        settings={"spark.databricks.delta.write.utcTimestampPartitionValues": "false"},
    ),
    Case(
        "partition-timestamp-ntz",
        "id INT, p TIMESTAMP_NTZ",
        clauses="PARTITIONED BY (p)",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, TIMESTAMP_NTZ'2026-03-29 02:30:00'), (3, NULL),"
                " (2, TIMESTAMP_NTZ'1582-10-10 12:00:00.000001'), (4, TIMESTAMP_NTZ'0001-01-01 00:00:00')"
            ),
        ),
    ),
    Case(
        "partition-names",
        "id INT, `p q` STRING, `ü%=` STRING, `a.b` INT",
        clauses="PARTITIONED BY (`p q`, `ü%=`, `a.b`)",
        properties=BY_NAME,
        statements=("INSERT INTO {table} VALUES (1, 'x y', 'ä', 1), (2, '%', NULL, -1)",),
    ),
    Case(
        "partition-names-unmapped",
        "id INT, `ü%:#` STRING, `P` INT",
        clauses="PARTITIONED BY (`ü%:#`, `P`)",
        statements=("INSERT INTO {table} VALUES (1, 'ä', 1), (2, NULL, -1)",),
    ),
    Case(
        "partition-char",
        "id INT, p CHAR(4), q VARCHAR(4)",
        clauses="PARTITIONED BY (p, q)",
        statements=("INSERT INTO {table} VALUES (1, 'ab', 'ab'), (2, NULL, NULL), (3, 'abcd', ' ')",),
    ),
    Case(
        "partition-materialized",
        "id INT, p STRING, q DATE",
        clauses="PARTITIONED BY (p, q)",
        properties="'delta.feature.materializePartitionColumns' = 'supported'",
        statements=("INSERT INTO {table} VALUES (1, 'a b', DATE'2026-01-01'), (2, NULL, NULL)",),
    ),
    Case(
        "partition-in-checkpoint",
        "id INT, s STRING, i INT, d DATE, t TIMESTAMP, n DECIMAL(10, 3), b BOOLEAN, f DOUBLE",
        clauses="PARTITIONED BY (s, i, d, t, n, b, f)",
        properties="'delta.checkpointInterval' = '2', 'delta.checkpoint.writeStatsAsStruct' = 'true',"
        " 'delta.checkpoint.writeStatsAsJson' = 'false'",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, 'a b', -1, DATE'2026-01-01', TIMESTAMP'2026-01-01 12:00:00.000001', "
                " -0.5, true, 0.1), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
            ),
            (
                "INSERT INTO {table} VALUES (3, '%', 2147483647, DATE'1582-10-04', TIMESTAMP'1900-01-01 00:00:00',"
                " 0, false, 'NaN')"
            ),
        ),
    ),
    Case(
        "partition-overwritten",
        "id INT, p STRING",
        clauses="PARTITIONED BY (p)",
        statements=(
            "INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, NULL)",
            "INSERT OVERWRITE {table} VALUES (4, 'b'), (5, 'c')",
            "DELETE FROM {table} WHERE p = 'a'",
            "UPDATE {table} SET p = 'd' WHERE p IS NULL",
        ),
        settings={"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ),
)
