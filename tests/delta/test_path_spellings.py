"""Which names are spellings of one path, and which are not; a column is spelled like its rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.paths.lookalikes import common_spelling, common_spellings, other_readings

ALIKE = (
    ("c=13:00/a.parquet", "c=13%3A00/a.parquet", "c=13%253a00/a.parquet", "C=13:00/A.PARQUET"),
    ("p=a/b/x", "p=a%2Fb/x", "p=a\\b\\x", "p=a//b/x", "./p=a/b/./x", "p=a/c/../b/x"),
    ("p=a b/x", "p=a+b/x", "p=a%20b/x", "p=a%2Bb/x", "p=a%2520b/x", "p=a b/x ", "p=a b./x"),
    ("p=Z\u00fcrich/x", "p=Zu\u0308rich/x", "p=Z%C3%BCrich/x", "P=Z\u00dcRICH/x", "p=ZU%CC%88RICH/x"),
    ("p=stra\u00dfe/x", "p=STRASSE/x"),
    (".x/a", ".X/a"),
    ("p=%/x", "P=%/x"),
)
"""Names of a group have one spelling in common."""
NAMES = st.text("aAbB%25+ \\/.=\u00fc\u0308\u00dc", max_size=12)


def encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("group", ALIKE)
def test_confusable_names_have_a_spelling_in_common(group: tuple[str, ...]) -> None:
    assert 1 == len({common_spelling(encoded(name)) for name in group})


def test_other_names_have_none_in_common() -> None:
    firsts = [common_spelling(encoded(group[0])) for group in ALIKE]

    assert len(ALIKE) == len(set(firsts))
    assert common_spelling(b"p=1/a.parquet") != common_spelling(b"p=1/a_parquet")
    assert common_spelling(b"a b") != common_spelling(b"ab")


def test_bytes_that_are_no_text_are_kept() -> None:
    assert b"\xff\xfea.parquet" == common_spelling(b"%FF\xfeA.parquet")


@given(st.lists(st.one_of(st.none(), NAMES), max_size=6))
def test_a_column_is_spelled_like_its_rows(names: list[str | None]) -> None:
    column = pa.array([None if name is None else encoded(name) for name in names], pa.binary())

    expected = [None if name is None else common_spelling(encoded(name)) for name in names]
    assert expected == common_spellings(column).to_pylist()
    assert expected[2:] == common_spellings(column.slice(2)).to_pylist()


@given(NAMES)
def test_a_common_spelling_is_its_own(name: str) -> None:
    spelling = common_spelling(encoded(name))

    assert spelling == common_spelling(spelling)


def test_usual_names_are_returned_as_they_are() -> None:
    column = pa.array([b"date=2026-11-30/part-00000-c000.snappy.parquet"], pa.binary())

    assert common_spellings(column) is column


def test_other_readings_are_those_of_readers_that_decode_twice_or_not_at_all() -> None:
    assert () == other_readings("p=1/a.parquet")
    assert ("p=a%20b",) == other_readings("p=a%20b")
    assert ("p=a%2520b", "p=a b") == other_readings("p=a%2520b")
