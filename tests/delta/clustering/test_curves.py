"""Positions on space-filling curves, against their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.clustering.sorting import hilbert, z_order


def columns_of(points: Sequence[Sequence[int]]) -> list[pa.Array]:
    return [pa.array(column, pa.int64()) for column in zip(*points, strict=True)]


def bits_in_turn(point: Sequence[int], bits: int) -> int:
    """Return the bits of a point one after another, as text would be read."""
    text = "".join(format(value, f"0{bits}b")[place] for place in range(bits) for value in point)
    return int(text, 2)


@pytest.mark.parametrize(("axes", "bits"), [(2, 1), (2, 5), (3, 3), (4, 2)])
def test_successive_positions_of_a_hilbert_curve_are_neighbours_and_reach_every_point(axes: int, bits: int) -> None:
    points = list(product(range(1 << bits), repeat=axes))

    positions = hilbert(columns_of(points), bits=bits).to_pylist()

    assert list(range(len(points))) == sorted(positions)
    curve = [point for _, point in sorted(zip(positions, points, strict=True))]
    assert {1} == {sum(abs(a - b) for a, b in zip(one, other, strict=True)) for one, other in pairwise(curve)}


@given(st.integers(2, 4).flatmap(lambda axes: st.lists(st.tuples(*[st.integers(0, 1023)] * axes), min_size=1)))
def test_a_hilbert_curve_of_ten_bits_refines_the_one_of_fewer_bits(points: list[tuple[int, ...]]) -> None:
    """
    The first bits of a position are the position of the cell, up to the orientation: equal cells share their prefix.
    """
    axes = len(points[0])
    cells = [tuple(value >> 7 for value in point) for point in points]

    prefixes = [position >> 7 * axes for position in hilbert(columns_of(points)).to_pylist()]

    assert len(set(cells)) == len(set(prefixes)) == len(set(zip(cells, prefixes, strict=True)))


@given(st.integers(1, 9).flatmap(lambda axes: st.lists(st.tuples(*[st.integers(0, 1023)] * axes), min_size=1)))
def test_a_z_order_takes_the_bits_of_its_columns_in_turn(points: list[tuple[int, ...]]) -> None:
    bits = min(10, 63 // len(points[0]))

    keys = z_order(columns_of(points)).to_pylist()

    assert [bits_in_turn([value >> 10 - bits for value in point], bits) for point in points] == keys


def test_a_z_order_of_many_columns_has_keys_that_are_not_negative() -> None:
    keys = z_order(columns_of([(1023,) * 32, (0,) * 32, (512,) + (0,) * 31])).to_pylist()

    assert [(1 << 32) - 1, 0, 1 << 31] == keys
