"""Files that a condition seems to leave out by their statistics, and must not."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from deltacli import open_table
from tests.support.small_reading import column, new_table
from tests.support.small_types import Column, Struct, Type, Value
from tests.support.small_writer import SmallTable


def with_statistics(root: Path, kind: Type, values: list[Value], **said: Any) -> SmallTable:  # Any: JSON values
    """A table of one file of values in column `c`, with statistics as a writer said them."""
    table = new_table(root, column("c", kind, 1))
    file = table.new_file([{1: value} for value in values], mode="none")
    stats = json.dumps({"numRecords": len(values), **{name: {"c": value} for name, value in said.items()}})
    table.append([replace(file, stats=stats)])
    return table


def kept(table: SmallTable, where: str) -> int:
    """How many rows a condition keeps; what is left unread is not more than what it is not true of."""
    return sum(batch.num_rows for batch in open_table(str(table.root)).snapshot().scan(where=where))


SINGLE = 0.10000000149011612
"""0.1 as a FLOAT."""


def test_bounds_of_floats_are_the_shortest_texts_not_the_values(tmp_path: Path) -> None:
    table = with_statistics(tmp_path, "float", [SINGLE], minValues=0.1, maxValues=0.1, nullCount=0)

    assert 1 == kept(table, "c > 0.1")
    assert 0 == kept(table, "c = 0.1")


def test_bounds_of_what_was_float_do_not_bound_the_double(tmp_path: Path) -> None:
    table = with_statistics(tmp_path, "float", [SINGLE], minValues=0.1, maxValues=0.1, nullCount=0)
    table.set_columns([Column("c", "double", 1, "c", True, (("float", "double", ""),))], "widen")

    assert 1 == kept(table, "c > 0.1")
    assert 1 == kept(table, f"c = {SINGLE!r}")
    assert 0 == kept(table, "c > 0.2")


@pytest.mark.parametrize("kind", ["float", "double"])
def test_bounds_of_a_writer_that_passes_over_nan_do_not_hide_it(tmp_path: Path, kind: str) -> None:
    table = with_statistics(tmp_path, kind, [1.0, math.nan], minValues=1.0, maxValues=1.0, nullCount=0)

    assert 1 == kept(table, "c > 5")
    assert 1 == kept(table, "c = 'NaN'")
    assert 1 == kept(table, "c <> 1")
    assert 1 == kept(table, "NOT (c <= 1)")


def test_zero_and_minus_zero_are_one_number(tmp_path: Path) -> None:
    table = with_statistics(tmp_path, "double", [-0.0], minValues=0.0, maxValues=0.0, nullCount=0)

    assert 1 == kept(table, "c <= -0.0")
    assert 1 == kept(table, "c = 0")


@pytest.mark.parametrize(("kind", "zone"), [("timestamp", UTC), ("timestamp_ntz", None)])
def test_bounds_of_instants_are_cut_to_milliseconds(tmp_path: Path, kind: str, zone: Any) -> None:
    said = "2024-01-01T00:00:00.123" + ("Z" if zone else "")
    table = with_statistics(
        tmp_path, kind, [datetime(2024, 1, 1, 0, 0, 0, 123999, zone)], minValues=said, maxValues=said, nullCount=0
    )

    assert 1 == kept(table, f"c > {kind.upper()} '2024-01-01 00:00:00.1239'")


def test_a_text_that_was_cut_bounds_what_it_was_cut_from(tmp_path: Path) -> None:
    table = with_statistics(
        tmp_path, "string", ["aaaaaaaa", "aaaa\U0010ffff"], minValues="aaaa", maxValues="aaaa\U0010ffff", nullCount=0
    )

    assert 1 == kept(table, "c = 'aaaaaaaa'")
    assert 1 == kept(table, "c > 'aaaa\U0010fffe'")


def test_inexact_null_counts_prove_nothing_between_none_and_all(tmp_path: Path) -> None:
    table = with_statistics(tmp_path, "long", [None, 5, 5], nullCount=2)
    stats = {"numRecords": 3, "nullCount": {"c": 2}, "tightBounds": False}
    (live,) = table.live.values()
    table.append([replace(live.file, stats=json.dumps(stats))])

    assert 1 == kept(table, "c IS NULL")
    assert 2 == kept(table, "c IS NOT NULL")


def test_bounds_stay_true_where_a_vector_deletes_the_least(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("c", "long", 1))
    file = table.new_file([{1: value} for value in (1, 2, 3)])
    table.append([file])
    deleted = {file.path: frozenset({0})}
    table.mark(deleted, table.vectors(deleted, how="i", uuid=UUID(int=1)))

    assert 0 == kept(table, "c = 1")
    assert 2 == kept(table, "c >= 1")


def test_integers_beyond_the_precision_of_doubles_are_distinguished(tmp_path: Path) -> None:
    large = 2**53 + 1
    table = with_statistics(tmp_path, "long", [large], minValues=large, maxValues=large, nullCount=0)

    assert 1 == kept(table, f"c = {large}")
    assert 0 == kept(table, f"c = {large - 1}")


def test_statistics_of_a_dropped_column_are_not_those_of_one_of_its_name(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("a", "long", 1), column("b", "long", 2), mapping="name")
    table.append([table.new_file([{1: 1, 2: 2}])])
    table.set_columns([column("b", "long", 2), column("a", "long", 3, physical="col-3")], "drop a, add a")

    assert 1 == kept(table, "a IS NULL")
    assert 0 == kept(table, "a = 1")


def test_statistics_of_struct_fields_are_found_by_physical_names(tmp_path: Path) -> None:
    inside = Struct((column("x", "long", 2, physical="y"), column("y", "long", 3, physical="x")))
    table = new_table(tmp_path, column("s", inside, 1, physical="p"), mapping="name")
    table.append([table.new_file([{1: {2: 1, 3: 100}}])])

    assert 1 == kept(table, "s.x = 1")
    assert 1 == kept(table, "s.y = 100")


def test_a_struct_can_be_compared_with_null(tmp_path: Path) -> None:
    table = new_table(tmp_path, column("s", Struct((column("x", "long", 2),)), 1))
    table.append([table.new_file([{1: {2: None}}, {1: None}])])

    assert 1 == kept(table, "s IS NULL")
    assert 2 == kept(table, "s.x IS NULL")
