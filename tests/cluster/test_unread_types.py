"""Frames leave out the columns that Spark or deltacli do not read, with a warning; intervals are numbers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import Refused
from deltacli.spark import read_changes, read_table
from tests.support.odd_types import GEOMETRY, make


@pytest.mark.parametrize("name", [GEOMETRY, "timestamp_nanos"])
@pytest.mark.parametrize("shape", ["", "struct"])
def test_frames_lack_the_column(session: Any, tmp_path: Path, name: str, shape: str) -> None:
    uri = make(tmp_path / "t", name, shape=shape, has_vector=True).as_uri()
    with warnings.catch_warnings(record=True) as told:  # those of sockets, too
        warnings.simplefilter("always", UserWarning)
        frame = read_table(session, uri)
        changes = read_changes(session, uri, 0)
    assert 2 == sum(str(one.message).startswith(f"column g ({name}) is left out") for one in told)
    assert ["a"] == frame.columns
    assert [2, 3, 4, 5, 6] == sorted(row.a for row in frame.collect())
    assert [2, 3, 4, 5, 6] == sorted(row.a for row in changes.collect())
    with pytest.raises(Refused, match=r"column g"):
        read_table(session, uri, columns=["g"])


@pytest.mark.parametrize(("name", "wanted"), [("interval day", 86_400_000_000), ("interval year to month", 18)])
def test_intervals_are_numbers(session: Any, tmp_path: Path, name: str, wanted: int) -> None:
    frame = read_table(session, make(tmp_path / "t", name, has_vector=True).as_uri())
    assert {2, 3, 4, 5, 6} == {row.a for row in frame.collect()}
    assert [wanted] == [row.g for row in frame.collect() if row.a == 4]
