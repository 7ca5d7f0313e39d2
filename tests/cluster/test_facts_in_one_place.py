"""Frames have the rows that every other user of a table has (`tests/operations/test_facts_in_one_place.py`)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.spark import read_table
from tests.support.fact_tables import TABLES


@pytest.mark.parametrize("about", TABLES)
def test_frames_have_the_rows_that_are_read(session: Any, tmp_path: Path, about: str) -> None:
    build, rows, _ = TABLES[about]
    build(tmp_path / "t")
    wanted = open_table(tmp_path / "t").snapshot().scan(columns=["id" if about not in _WITH_A else "a"]).to_arrow()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        frame = read_table(session, (tmp_path / "t").as_uri())

    (name,) = wanted.schema.names
    assert rows == frame.count()
    assert sorted(wanted.column(name).to_pylist()) == sorted(row[name] for row in frame.select(name).collect())


_WITH_A = ("geometry", "interval", "nanoseconds")
