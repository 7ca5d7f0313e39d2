"""The hash that spreads actions over parts, with the answers of Spark 4.0.5 to `hash(text)`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltacli.delta.checkpoint.layout import assign_parts, part_of_others, spark_hash

OF_SPARK = {
    "": 142593372,
    "a": 1485273170,
    "ab": -97053317,
    "abc": 1322437556,
    "abcd": -396302900,
    "abcde": 814637928,
    "aaaaaaa": -1506828653,
    "é": 2119106806,
    "ü1": 396634516,
    "日本": -336983209,
    "ééééé": -1308901336,
    "𝄞": 228972798,
    "\x7f\x80": 2038243986,
    "\U0010ffff": 1132366802,
    "p=%20a/part-0.parquet": -510180963,
    "part-00000-c8e2a6f4.snappy.parquet": -649999237,
    "x" * 1000: -1727652553,
}


def test_texts_of_every_length_have_the_hash_of_spark() -> None:
    assert list(OF_SPARK.values()) == spark_hash(pa.array(list(OF_SPARK), pa.string())).to_pylist()


def test_a_text_has_its_hash_in_a_slice_and_alone() -> None:
    texts = pa.array(["before", *OF_SPARK, "after"], pa.string())

    assert list(OF_SPARK.values()) == spark_hash(texts.slice(1, len(OF_SPARK))).to_pylist()
    assert [[found] for found in OF_SPARK.values()] == [spark_hash(pa.array([text])).to_pylist() for text in OF_SPARK]
    assert [] == spark_hash(pa.array([], pa.string())).to_pylist()


@pytest.mark.parametrize("parts", [2, 3, 7, 1000])
def test_the_part_is_the_positive_rest(parts: int) -> None:
    expected = [found % parts for found in OF_SPARK.values()]

    assert expected == assign_parts(pa.array(list(OF_SPARK), pa.string()), parts).to_pylist()
    assert 42 % parts == part_of_others(parts)
