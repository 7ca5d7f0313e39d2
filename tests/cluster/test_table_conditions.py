"""A `where` has the same rows as a condition of Spark and as a predicate of our own scan, in any zone."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.delta.predicate import parse_predicate
from deltacli.spark import plan_table, read_table
from deltacli.spark.parquet_schema import spark_condition
from tests.cluster.spark_rows import counted, counts_of
from tests.support.rows import parquet_bytes, schema_of, table_of

CONDITIONS = (
    "b < 100",
    "b <= 126.5",
    "b = 300",
    "b < 300",
    "b > -129",
    "b in (1, 2.5, 127, 1000)",
    "not b in (1, null)",
    "l = 9223372036854775807",
    "l >= 9223372036854775808",
    "l < -1e30",
    "d = 1.10",
    "d < 1.105",
    "d > 12345678901234567890",
    "d in (1.1, 99999.99)",
    "f = 'NaN'",
    "f > 1.5",
    "f <= 0",
    "f <=> null",
    "x < 0.1",
    "x = 0.0",
    "x > 1e300 or x is null",
    "x in (0.0, 1e300)",
    "s = 'a%b'",
    "s like 'a\\%b'",
    "s like 'a%'",
    "s like '_'",
    "s like 'ä_%'",
    "s >= 'a' and s < 'b'",
    "s in ('', 'ä€', 'z')",
    "z = X'00FF'",
    "z > X'00'",
    "t = true",
    "t",
    "not t",
    "t is not true",
    "t < (b < 100)",
    "(b < 100) <=> t",
    "y = '2024-02-29'",
    "y < '0001-01-02'",
    "y between '1582-10-01' and '2024-03-01'",
    "m = '2024-02-29 12:00:00.000001Z'",
    "m >= '2024-02-29 12:00:00'",
    "m > date'2024-02-29'",
    "n = '2024-02-29 12:00:00.000001'",
    "n < '1500-01-01'",
    "n in ('2024-02-29 12:00:00.000001', '1970-01-01')",
    "b < l",
    "l = l",
    "f < x",
    "s < s",
    "o.i > 1",
    "o.i is null",
    "o is not null and o.t = 'q'",
    "b = null",
    "1 < 2 and b is not null",
)
_NAN, _INF = float("nan"), float("inf")


def _rows() -> pa.Table:
    micros = [1_709_208_000_000_001, -62_135_596_800_000_000, 0, None, 1_709_208_000_000_000, 253_402_300_799_999_999]
    inner = pa.struct([("i", pa.int32()), ("t", pa.string())])
    return pa.table(
        {
            "b": pa.array([1, 127, -128, None, 0, 100], pa.int8()),
            "l": pa.array([1, 2**63 - 1, -(2**63), None, 0, 5], pa.int64()),
            "d": pa.array(
                [Decimal("1.10"), Decimal("99999.99"), Decimal("-99999.99"), None, 0, 1], pa.decimal128(7, 2)
            ),
            "f": pa.array([_NAN, 1.5, -0.0, None, _INF, -_INF], pa.float32()),
            "x": pa.array([_NAN, 0.1, -0.0, None, _INF, 1e300], pa.float64()),
            "s": pa.array(["a%b", "ä€", "", None, "acb", "z"], pa.string()),
            "z": pa.array([b"\x00\xff", b"", b"\x00", None, b"\xff", b"a"], pa.binary()),
            "t": pa.array([True, False, None, True, False, True], pa.bool_()),
            "y": pa.array([19_782, -719_162, -141_438, None, 0, 2_932_896], pa.int32()).cast(pa.date32()),
            "m": pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            "n": pa.array(micros, pa.int64()).cast(pa.timestamp("us")),
            "o": pa.array([{"i": 1, "t": "q"}, {"i": 2, "t": None}, None, {"i": None, "t": "q"}, None, None], inner),
        }
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with values at the ends of every type."""
    return table_of({"f.parquet": parquet_bytes(_rows())}, schema_of(_rows())).write(tmp_path / "t")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_smoke_conditions_of_spark_are_those_of_our_own_scan(
    zone: str, session: Any, setting: Callable[[str, str], None], root: Path
) -> None:
    from pyspark.sql import functions as fn

    setting("spark.sql.session.timeZone", zone)
    schema = open_table(root).snapshot().schema
    batch = open_table(root).snapshot().scan().to_arrow().combine_chunks().to_batches()[0]
    predicates = [parse_predicate(text, schema) for text in CONDITIONS]
    ours = {text: each.matches(batch).to_pylist() for text, each in zip(CONDITIONS, predicates, strict=True)}

    frame = read_table(session, root)
    columns = [
        fn.coalesce(spark_condition(each.condition), fn.lit(False)).alias(f"c{number}")
        for number, each in enumerate(predicates)
    ]
    rows = frame.select(*columns).toArrow()

    theirs = {text: rows.column(number).to_pylist() for number, text in enumerate(CONDITIONS)}
    assert ours == theirs


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_pushed_conditions_keep_the_same_rows(
    pushed: str, session: Any, setting: Callable[[str, str], None], root: Path
) -> None:
    setting("spark.sql.parquet.filterPushdown", pushed)
    for text in (
        "x > 1",
        "f >= 1.5 and b < 100",
        "s like 'a%'",
        "n < '1500-01-01'",
        "d < 1.105",
        "m > date'2024-02-29'",
    ):
        ours = open_table(root).snapshot().scan(where=text).to_arrow()

        assert counted(ours) == counts_of(read_table(session, root, where=text)), text


def test_comparisons_that_spark_would_make_in_another_type_are_left_to_our_own_scan(session: Any, root: Path) -> None:
    for text in ("y < m", "m < n", "d < l", "d < x"):
        ours = open_table(root).snapshot().scan(where=text).to_arrow()

        plan = plan_table(session, root, where=text)

        assert 0 == plan.native_files
        assert counted(ours) == counts_of(plan.dataframe()), text
