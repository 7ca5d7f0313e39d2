"""Conditions evaluated for a whole file: violations are counted, even next to rows without a certain value."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.arrow.parquet import ParquetReader
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.rules.expressions.row_values import Violations
from deltacli.work.facts.row_facts import OpenFileContext
from deltacli.work.rows.data_files import DataFile, OpenDataFile
from deltacli.work.rows.row_conditions import _MOST_FAILURES, StoredConditions
from tests.support.actions import metadata
from tests.support.made_footers import footer_of


def open_file() -> OpenFileContext:
    """Return a file, of which conditions need nothing but the rows that they are given."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"i": pa.array([], pa.int32())}), sink)
    parquet = ParquetReader(sink)
    opened = OpenDataFile(parquet, parquet.schema_arrow, sink, is_near=True)
    return OpenFileContext({}, DataFile("f.parquet", 4), footer_of(b"", []), parquet.schema_arrow, opened)


MOST = 2**31 - 1
"""One more is an overflow."""


def answer_of(*batches: Sequence[int]) -> Violations:
    """What a file says whose rows come in these batches."""
    found = read_metadata(metadata(configuration={"delta.constraints.c": "i + 1 > 0"})["metaData"], "")
    config = TableConfiguration(
        metadata=found, schema=StructType((StructField("i", PrimitiveType("integer"), True, {}),))
    )
    asking = StoredConditions(config).begin(open_file())
    for numbers in batches:
        asking.take(pa.record_batch({"i": pa.array(numbers, pa.int32())}))
    [violations] = asking.answer()
    return violations


@pytest.mark.parametrize(
    ("batches", "rows", "first", "unjudged"),
    [
        ([[MOST]], 0, None, 1),
        ([[1, -5, MOST, -6]], 2, "i=-5", 1),
        ([[MOST, -5], [-6, 1]], 2, "i=-5", 1),
        ([[MOST, 1, MOST], [MOST, -7]], 1, "i=-7", 3),
        ([[*[1] * 5_000, MOST, *[1] * 5_000, -8]], 1, "i=-8", 1),
    ],
)
def test_rows_next_to_one_without_a_value_are_checked(
    batches: list[list[int]], rows: int, first: str | None, unjudged: int
) -> None:
    found = answer_of(*batches)

    assert (rows, first, unjudged) == (found.rows, found.first, found.unjudged)
    assert found.fault is not None


def test_a_file_full_of_rows_without_a_value_is_given_up() -> None:
    found = answer_of([-5], [MOST] * 100_000, [-6])

    assert (1, 100_001) == (found.rows, found.unjudged), _MOST_FAILURES
