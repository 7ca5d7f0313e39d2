"""Bytes at the beginning of the paths of files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltacli.delta.paths.spelling_columns import drop_first_bytes


@pytest.mark.parametrize("rows", range(9))
@pytest.mark.parametrize("count", [0, 1, 3, 1_000])
def test_first_bytes_are_dropped_from_any_number_of_values(rows: int, count: int) -> None:
    values = [b"table/part-%d" % (10**row) for row in range(rows)]
    expected = [value[count:] for value in values]
    column = pa.array(values, pa.binary())
    assert expected == drop_first_bytes(column, count).to_pylist()
    assert expected == drop_first_bytes(pa.chunked_array([column[:1], column[1:]]), count).to_pylist()
    assert [*expected, None] == drop_first_bytes(pa.array([*values, None], pa.binary()), count).to_pylist()
