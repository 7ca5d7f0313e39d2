"""Tables with the extreme values of types, and with types that engines write in several ways."""

from __future__ import annotations

from collections.abc import Mapping

from tests.judges.spark_reads.cases.case import Case

FAR_TIMES = (
    (
        "INSERT INTO {table} VALUES"
        " (1, TIMESTAMP'-0044-03-15T12:00:00.000001Z', TIMESTAMP_NTZ'-0044-03-15 12:00:00.000001'),"
        " (2, TIMESTAMP'+12345-06-07T08:09:10.999999Z', TIMESTAMP_NTZ'+12345-06-07 08:09:10.999999')"
    ),
    (
        "INSERT INTO {table} VALUES (3, TIMESTAMP'0001-01-01T00:00:00Z', TIMESTAMP_NTZ'1582-10-10 00:00:00'),"
        " (4, TIMESTAMP'9999-12-31T23:59:59.999999Z', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'), (5, NULL, NULL)"
    ),
    (
        "INSERT INTO {table} VALUES (6, TIMESTAMP'1899-12-31T23:59:59.123456Z',"
        " TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'), "
        " (7, TIMESTAMP'2026-03-29T01:30:00Z', TIMESTAMP_NTZ'2026-03-29 02:30:00')"
    ),
)

EVERY_TYPE = (
    "b TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(9, 2), m DECIMAL(18, 6), o DECIMAL(38, 18),"
    " t STRING, x BINARY, y BOOLEAN, e DATE, z TIMESTAMP, w TIMESTAMP_NTZ"
)

EVERY_VALUE = (
    (
        "INSERT INTO {table} VALUES (-128, -32768, -2147483648, -9223372036854775808, -1.5, -2.5, -1234567.89,"
        " -123456789012.345678, -12345678901234567890.123456789012345678, 'a', X'00FF', false, DATE'2026-01-01',"
        " TIMESTAMP'2026-01-01 00:00:00', TIMESTAMP_NTZ'2026-01-01 00:00:00')"
    ),
    (
        "INSERT INTO {table} VALUES (127, 32767, 2147483647, 9223372036854775807, 1.5, 2.5, 9999999.99,"
        " 999999999999.999999, 99999999999999999999.999999999999999999, 'ü😀', X'', true, DATE'9999-12-31',"
        " TIMESTAMP'2026-01-01 00:00:00.000001', TIMESTAMP_NTZ'2026-01-01 00:00:00.001'),"
        " (0, 0, 0, 0, 0, 0, 0, 0, 0, '', X'61', NULL, DATE'1970-01-01', TIMESTAMP'1970-01-01 00:00:00', NULL)"
    ),
    f"INSERT INTO {{table}} VALUES ({', '.join(['NULL'] * 15)})",
)

MICROSECONDS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

REBASED = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}

SHREDDING = {"spark.sql.variant.writeShredding.enabled": "true", "spark.sql.variant.allowReadingShredded": "true"}

SHREDDED_ROWS = (
    (
        """INSERT INTO {table} SELECT id, parse_json('{"a": ' || id || ', "b": "x' || id || '", "c": [1, 2]}')"""
        """ FROM RANGE(0, 20, 1, 1)"""
    ),
    """INSERT INTO {table} VALUES (100, parse_json('{"a": "text", "d": 1.5}')), (101, NULL), (102, parse_json('[]'))""",
)


def write_every_type(name: str, settings: Mapping[str, str]) -> Case:
    """Return a case with every type, written with settings of the session."""
    return Case(name, EVERY_TYPE, statements=EVERY_VALUE, settings=settings)


CASES = (
    write_every_type("types", {}),
    write_every_type("types-micros", MICROSECONDS),
    write_every_type("types-millis", {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}),
    write_every_type(
        "types-legacy-parquet",
        {"spark.sql.parquet.writeLegacyFormat": "true", "spark.sql.parquet.compression.codec": "gzip"},
    ),
    write_every_type(
        "types-without-statistics",
        {"spark.databricks.delta.stats.collect": "false", "spark.sql.parquet.compression.codec": "zstd"},
    ),
    Case(
        "floats",
        "id INT, f FLOAT, d DOUBLE, s STRUCT<x: DOUBLE>, l ARRAY<FLOAT>",
        statements=(
            (
                "INSERT INTO {table} SELECT id, IF(id = 1, FLOAT('NaN'), id), IF(id = 1, DOUBLE('NaN'), -id),"
                " struct(id * 1.5D), array(id, FLOAT('NaN')) FROM RANGE(0, 3, 1, 1)"
            ),
            "INSERT INTO {table} VALUES (10, FLOAT('Infinity'), DOUBLE('-Infinity'), struct(DOUBLE('NaN')), NULL)",
            "INSERT INTO {table} VALUES (11, FLOAT('-0.0'), DOUBLE('-0.0'), struct(DOUBLE('-0.0')), array())",
            (
                "INSERT INTO {table} VALUES (12, FLOAT('NaN'), DOUBLE('NaN'), NULL, array(NULL)),"
                " (13, NULL, 4.9E-324, NULL, NULL)"
            ),
        ),
    ),
    Case("times-far", "id INT, t TIMESTAMP, n TIMESTAMP_NTZ", statements=FAR_TIMES),
    Case("times-far-micros", "id INT, t TIMESTAMP, n TIMESTAMP_NTZ", statements=FAR_TIMES, settings=MICROSECONDS),
    Case(
        "dates-far",
        "id INT, d DATE",
        statements=(
            "INSERT INTO {table} VALUES (1, DATE'-0044-03-15'), (2, DATE'0000-12-31')",
            "INSERT INTO {table} VALUES (3, DATE'+12345-06-07'), (4, DATE'1582-10-04'), (5, DATE'1582-10-15')",
            "INSERT INTO {table} VALUES (7, DATE'1969-12-31'), (8, DATE'1900-01-01'), (9, NULL)",
        ),
    ),
    Case(
        "times-rebased",
        "id INT, t TIMESTAMP, d DATE",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, TIMESTAMP'1500-02-28T12:00:00Z', DATE'1500-02-28'),"
                " (2, TIMESTAMP'0044-03-15T12:00:00Z', DATE'0044-03-15'),"
                " (3, TIMESTAMP'1890-01-01T00:00:00Z', DATE'1890-01-01')"
            ),
        ),
        settings={**REBASED, **MICROSECONDS},
    ),
    Case(
        "times-rebased-int96",
        "id INT, t TIMESTAMP, d DATE",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, TIMESTAMP'1500-02-28T12:00:00Z', DATE'1500-02-28'),"
                " (2, TIMESTAMP'1890-01-01T00:00:00Z', DATE'1890-01-01')"
            ),
        ),
        settings={**REBASED, "spark.sql.session.timeZone": "Europe/Zurich"},
    ),
    Case(
        "void",
        "id INT, n VOID, s STRUCT<a: INT, b: VOID>",
        statements=(
            "INSERT INTO {table} VALUES (1, NULL, struct(1, NULL))",
            "INSERT INTO {table} VALUES (2, NULL, NULL)",
        ),
    ),
    Case(
        "char",
        "id INT, c CHAR(5), v VARCHAR(5), s STRUCT<c: CHAR(3)>",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, 'ab', 'ab', struct('x')), (2, 'abcde', '', struct(NULL)),"
                " (3, NULL, ' a ', NULL)"
            ),
        ),
    ),
    Case(
        "collations",
        "id INT, c STRING COLLATE UTF8_LCASE, u STRING COLLATE UNICODE_CI",
        statements=(
            "INSERT INTO {table} VALUES (1, 'a', 'ä'), (2, 'B', 'Z')",
            "INSERT INTO {table} VALUES (3, 'A', 'Ä'), (4, NULL, '')",
        ),
        settings={"spark.databricks.delta.schema.typeCheck.enabled": "false"},
    ),
    Case(
        "texts",
        "id INT, t STRING, x BINARY",
        statements=(
            (
                r"INSERT INTO {table} VALUES (1, '', X''), (2, ' ', X'00'), (3, '\u0000', X'FFFF'), (7, NULL, X'80'),"
                r" (4, 'it''s \\ \"q\"', X'FF'), (5, '😀ü', NULL), (6, '\ufffd\uffff', X'7F')"
            ),
            (
                "INSERT INTO {table} VALUES (8, repeat('a', 40), CAST(repeat('b', 40) AS BINARY)),"
                " (9, repeat('😀', 33), NULL), (10, concat(repeat('a', 31), '\U0010ffff', 'z'), NULL)"
            ),
            r"INSERT INTO {table} VALUES (11, repeat('\U0010ffff', 40), NULL), (12, '\n\t\r', X'0A')",
        ),
    ),
    Case(
        "nested",
        "id INT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<STRUCT<e: DATE>>>>, l ARRAY<ARRAY<INT>>,"
        " m MAP<STRING, MAP<INT, BINARY>>",
        statements=(
            (
                "INSERT INTO {table} VALUES (1, struct(1, struct('x', array(struct(DATE'2026-01-01'), NULL))),"
                " array(array(1, NULL), NULL, array()), map('k', map(1, X'00', 2, NULL), 'n', NULL))"
            ),
            (
                "INSERT INTO {table} VALUES (2, NULL, NULL, NULL), (3, struct(NULL, NULL), array(), map()),"
                " (4, struct(4, struct(NULL, array())), array(NULL), map('', map()))"
            ),
        ),
    ),
    Case("empty", "id INT, v STRING"),
    Case("empty-partitioned", "id INT, p STRING", clauses="PARTITIONED BY (p)"),
    Case("emptied", "id INT", statements=("INSERT INTO {table} VALUES (1), (2)", "DELETE FROM {table}")),
    Case("inserted-nothing", "id INT", statements=("INSERT INTO {table} SELECT 1 WHERE false",)),
    Case(
        "evolved",
        "id INT",
        statements=(
            "INSERT INTO {table} VALUES (1), (NULL)",
            "ALTER TABLE {table} ADD COLUMNS (s STRUCT<a: INT, b: STRING>, Z INT FIRST)",
            "INSERT INTO {table} VALUES (2, 2, struct(2, 'x'))",
            "ALTER TABLE {table} ADD COLUMNS (s.c DATE AFTER a)",
            "INSERT INTO {table} VALUES (3, 3, struct(3, DATE'2026-01-01', 'y')), (NULL, NULL, NULL)",
        ),
    ),
    Case(
        "statistics-of-two-columns",
        "id INT, s STRUCT<a: INT, b: STRING>, v INT, w INT",
        properties="'delta.dataSkippingNumIndexedCols' = '2'",
        statements=(
            "INSERT INTO {table} VALUES (1, struct(1, 'x'), 1, 1)",
            "INSERT INTO {table} VALUES (-1, struct(-1, 'y'), -1, -1)",
        ),
    ),
    Case(
        "statistics-of-named-columns",
        "id INT, s STRUCT<a: INT, b: STRING>, v INT",
        properties="'delta.dataSkippingStatsColumns' = 's.a,v'",
        statements=(
            "INSERT INTO {table} VALUES (1, struct(1, 'x'), 1)",
            "INSERT INTO {table} VALUES (2, struct(2, 'y'), NULL)",
        ),
    ),
    Case(
        "statistics-of-no-columns",
        "id INT, v STRING",
        properties="'delta.dataSkippingNumIndexedCols' = '0'",
        statements=("INSERT INTO {table} VALUES (1, 'a'), (2, NULL)", "DELETE FROM {table} WHERE id = 1"),
    ),
    Case(
        "variant",
        "id INT, v VARIANT",
        statements=(
            (
                """INSERT INTO {table} VALUES (1, parse_json('{"a": 1, "b": [true, null, 1.25, "x"], "ü": {}}')),"""
                " (2, NULL), (3, parse_json('null'))"
            ),
            (
                "INSERT INTO {table} SELECT 4, to_variant_object(named_struct('d', DATE'2026-01-01', 'x', X'00FF',"
                " 't', TIMESTAMP'2026-01-01 00:00:00', 'n', TIMESTAMP_NTZ'2026-01-01 00:00:00', 'f', 1.5F))"
            ),
            (
                "INSERT INTO {table} VALUES (5, CAST(12345678901234567890 AS VARIANT)), (6, CAST('text' AS VARIANT)),"
                " (7, CAST(1E300 AS VARIANT))"
            ),
        ),
    ),
    Case(
        "variant-nested",
        "id INT, s STRUCT<v: VARIANT>, l ARRAY<VARIANT>",
        statements=(
            (
                """INSERT INTO {table} SELECT 1, struct(parse_json('{"a": 1}')),"""
                " array(parse_json('[1]'), parse_json('null'))"
            ),
        ),
    ),
    Case(
        "variant-shredded",
        "id INT, v VARIANT",
        properties="'delta.enableVariantShredding' = 'true'",
        statements=SHREDDED_ROWS,
        settings={**SHREDDING, "spark.sql.variant.inferShreddingSchema": "true"},
    ),
    Case(
        "variant-shredded-by-schema",
        "id INT, v VARIANT",
        properties="'delta.enableVariantShredding' = 'true'",
        statements=SHREDDED_ROWS,
        settings={
            **SHREDDING,
            "spark.sql.variant.forceShreddingSchemaForTest": "a INT, b STRING, c ARRAY<INT>, d DECIMAL(15, 1)",
        },
    ),
)
