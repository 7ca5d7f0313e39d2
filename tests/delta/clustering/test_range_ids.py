"""Ranges of columns: their order is that of the values, and they are of about the same size."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.clustering.sorting import orderable_values, range_bounds, range_ids, ranks


def ids_of(values: list[Any], kind: pa.DataType, sample: list[Any] | None = None) -> list[int]:
    bounds = range_bounds(orderable_values(pa.array(values if sample is None else sample, kind)))
    ids: list[int] = range_ids(orderable_values(pa.array(values, kind)), bounds).to_pylist()
    return ids


@given(st.lists(st.integers(-50, 50)), st.lists(st.one_of(st.none(), st.integers(-60, 60))))
def test_ranks_count_bounds(bounds: list[int], values: list[int | None]) -> None:
    ordered = pa.array(sorted(set(bounds)), pa.int64())
    rows = pa.array(values, pa.int64())

    up_to = [None if value is None else sum(bound <= value for bound in set(bounds)) for value in values]

    assert up_to == ranks(rows, ordered).to_pylist()


@given(st.lists(st.one_of(st.none(), st.text())), st.lists(st.text()))
def test_ids_are_in_the_order_of_the_values_and_null_is_lowest(values: list[str | None], sample: list[str]) -> None:
    ids = ids_of(values, pa.string(), sample)

    assert all(0 <= one < 1024 for one in ids)
    rows = sorted(zip(values, ids, strict=True), key=lambda row: (row[0] is not None, (row[0] or "").encode()))
    assert [one for _, one in rows] == sorted(ids)
    assert {0} >= {one for value, one in rows if value is None}
    assert 0 not in {one for value, one in rows if value is not None}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-3, 0, 3]),
        (pa.int64(), [-(2**63), 0, 2**63 - 1]),
        (pa.float32(), [-math.inf, -0.5, 2.0]),
        (pa.float64(), [-1.0, math.inf]),
        (pa.float64(), [-math.inf, 0.0, math.nan]),
        (pa.decimal128(38, 2), [Decimal("-1.10"), Decimal("1e30")]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
        (pa.timestamp("us"), [dt.datetime(1900, 1, 1), dt.datetime(2026, 1, 1)]),
        (pa.timestamp("us", "UTC"), [dt.datetime(1900, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]),
        (pa.bool_(), [False, True]),
        (pa.string(), ["", "a", "b", "é", "\U0001f600"]),
    ],
)
def test_few_values_of_every_type_have_ids_that_differ_in_their_highest_bits(
    kind: pa.DataType, values: list[Any]
) -> None:
    ids = ids_of([*values, None] * 100, kind)

    assert [*sorted(set(ids[1 : len(values)])), 0] == [*ids[1 : len(values)], ids[len(values)]]
    assert len(values) + 1 == len(set(ids))
    assert len(values) == len({one >> 10 - 1 - len(values).bit_length() for one in ids[: len(values)]})


def test_ranges_have_equally_many_rows() -> None:
    values = [number * number for number in range(50_000)]

    rows = Counter(ids_of(values, pa.int64()))

    assert 1000 == len(rows)
    assert {50} == set(rows.values())


def test_a_text_is_compared_by_its_beginning_so_that_long_ones_are_not_copied() -> None:
    bounds = range_bounds(orderable_values(pa.array(["a" * 1_000_000, "b" * 1_000_000])))

    assert [128] == [len(bound) for bound in bounds.to_pylist()]
    assert [1, 0] == ranks(orderable_values(pa.array(["b" * 200, "a" * 200])), bounds).to_pylist()
