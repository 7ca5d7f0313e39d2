"""Statistics of new files: exact bounds, and none where readers would not agree on one."""

from __future__ import annotations

import io
import json
import math
import tracemalloc
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.delta.stats.collect import StatisticsCollector

LAST = "\U0010ffff"


def collected(kind: str, *batches: list[Any], arrow: Any) -> tuple[Any, Any, int]:
    """The bounds and the null count of a column, whose rows come in batches."""
    config = TableConfiguration(schema=StructType((StructField("c", PrimitiveType(kind), True, {}),)))
    schema = pa.schema({"c": arrow})
    rows = [pa.record_batch([pa.array(values, arrow)], schema=schema) for values in batches]
    collector, of_footer = (StatisticsCollector(config, schema, from_footer=given) for given in (False, True))
    for batch in rows:
        collector.take(batch)
        of_footer.take(batch)
    for group, leaf in of_footer.take_footer(footer(rows)):
        of_footer.take_leaf(leaf, rows[group])
    assert collector.text() == of_footer.text()
    found = json.loads(collector.text(), parse_float=Decimal)
    assert sum(map(len, batches)) == found["numRecords"]
    return found["minValues"].get("c"), found["maxValues"].get("c"), found["nullCount"]["c"]


def footer(rows: list[pa.RecordBatch]) -> pq.FileMetaData:
    """The footer of a file that has a row group for each batch."""
    writer = pq.ParquetWriter(io.BytesIO(), rows[0].schema, store_decimal_as_integer=True)
    for batch in rows:
        writer.write_batch(batch)
    writer.close()
    return writer.writer.metadata


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0.0, -0.0], "-0.0", "0.0"),
        ([1.5, math.nan], None, None),
        ([math.nan], None, None),
        ([math.inf, 2.0], None, None),
        ([-math.inf, 2.0], None, None),
    ],
)
def test_floats(values: list[float], low: str | None, high: str | None) -> None:
    found = collected("double", values, [None], arrow=pa.float64())
    assert (low, high, 1) == (*(None if each is None else str(each) for each in found[:2]), found[2])


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("x" * 32, "x" * 32, "x" * 32),
        ("x" * 33, "x" * 32, "x" * 32 + "\x7f"),
        ("x" * 32 + "é", "x" * 32, "x" * 32 + LAST),
        ("x" * 32 + LAST + "a", "x" * 32, "x" * 32 + LAST + "\x7f"),
        ("\U0001f600" * 40, "\U0001f600" * 32, "\U0001f600" * 32 + LAST),
        (LAST * 64, LAST * 32, LAST * 64),
        (LAST * 70, None, None),
        ("x" * 33 + LAST * 70, "x" * 32, "x" * 32 + "\x7f"),
        (LAST * 63 + "éa" + LAST * 70, LAST * 32, LAST * 63 + LAST),
        ("é" + LAST * 70, None, None),
    ],
)
def test_long_texts_are_cut(text: str, low: str | None, high: str | None) -> None:
    found = collected("string", [text], arrow=pa.string())
    assert (low, high, 0) == found
    assert low is None or high is None or low.encode() <= text.encode() <= high.encode()


@pytest.mark.parametrize("number", [0, 1])
def test_texts_too_long_for_a_footer_are_looked_up(number: int) -> None:
    texts = [["b", "c" + "x" * 5_000], ["a"]]
    assert ("a", "c" + "x" * 31 + "\x7f", 0) == collected("string", *texts[:: 1 - 2 * number], arrow=pa.string())


def test_a_long_text_is_not_copied_for_its_bounds() -> None:
    long = pa.array(["x" * 50_000_000])
    rows = pa.record_batch([long], names=["c"])
    collector = StatisticsCollector(
        TableConfiguration(schema=StructType((StructField("c", PrimitiveType("string"), True, {}),))), rows.schema
    )

    tracemalloc.start()
    collector.take(rows)
    text = collector.text()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert "x" * 32 == json.loads(text)["minValues"]["c"]
    assert most < 10_000_000


def test_columns_whose_names_have_dots_have_their_own_bounds() -> None:
    inner = StructType((StructField("b", PrimitiveType("long"), True, {}),))
    fields = (StructField("a", inner, True, {}), StructField("a.b", PrimitiveType("long"), True, {}))
    config = TableConfiguration(schema=StructType(fields))
    rows = pa.record_batch({"a": pa.array([{"b": 1}, None]), "a.b": pa.array([7, 9])})
    collector = StatisticsCollector(config, rows.schema, from_footer=True)
    collector.take(rows)
    assert not collector.take_footer(footer([rows]))
    assert {"a": {"b": 1}, "a.b": 7} == json.loads(collector.text())["minValues"]


def test_text_that_is_not_utf8_has_no_bounds() -> None:
    odd = pa.array([b"\xff"], pa.binary()).view(pa.string())
    schema = pa.schema({"c": pa.string()})
    config = TableConfiguration(schema=StructType((StructField("c", PrimitiveType("string"), True, {}),)))
    collector = StatisticsCollector(config, schema)
    collector.take(pa.record_batch([odd], schema=schema))
    assert {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {"c": 0}} == json.loads(collector.text())


def test_times_have_milliseconds_or_what_they_need() -> None:
    utc = pa.timestamp("us", "UTC")
    assert ("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000001Z", 0) == collected(
        "timestamp", [-1_000], [1], arrow=utc
    )
    assert (None, None, 0) == collected("timestamp_ntz", [0, 2**62], arrow=pa.timestamp("us"))


def test_decimals_have_all_digits_and_bytes_no_bounds() -> None:
    most = Decimal("9" * 28 + "." + "9" * 10)
    assert (most.copy_negate(), most, 0) == collected(
        "decimal(38,10)", [most.copy_negate(), most], arrow=pa.decimal128(38, 10)
    )
    assert (None, None, 1) == collected("binary", [b"a", None], arrow=pa.binary())
    assert (None, None, 0) == collected("boolean", [True], arrow=pa.bool_())
