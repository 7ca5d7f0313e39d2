"""Partition values that the remove of a file lacks."""

from __future__ import annotations

import pytest

from deltacli.delta.partitions.values import decimal_meant, is_refused_by_kernel, lacking_values
from deltacli.delta.schema import types


@pytest.mark.parametrize(
    ("known", "lacking"),
    [({"day": "1", "hour": "2"}, ()), ({"DAY": "1"}, ("hour",)), ({}, ("day", "hour")), (None, ("day", "hour"))],
)
def test_a_remove_lacks_the_values_whose_names_are_not_in_the_map_in_any_case(
    known: dict[str, str] | None, lacking: tuple[str, ...]
) -> None:
    assert lacking == lacking_values({"path": "a", "partitionValues": known}, ["day", "hour"])


def test_no_index_of_names_is_built_for_a_remove_with_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "NameIndex", None)

    assert () == lacking_values({"partitionValues": {"day": "1", "hour": "2"}}, ["day", "hour"])


@pytest.mark.parametrize(
    ("type_name", "refused", "read"),
    [
        ("decimal(10,2)", ["1.5", "15E-1", "1E+2", "1.50 "], ["1.50", "01.50", "+1.50", "150E-2"]),
        ("decimal(38,0)", ["1E+2"], ["100"]),
        (
            "timestamp",
            ["2026-01-01 10:00", "2026-01-01", "2026-01-01T10:00:00", "2026-01-01T10:00Z"],
            [
                "2026-01-01 10:00:00",
                "2026-01-01T10:00:00Z",
                "2026-01-01 10:00:00.1234567",
                "2026-01-01T10:00:00+0100",
                "2026-1-1 1:00:00",
                "2026-01-01 10:00:00 UTC",
            ],
        ),
        ("timestamp_ntz", ["2026-01-01 10:00", "2026-01-01T10:00:00", "2026-01-01"], ["2026-01-01 10:00:00"]),
        ("integer", ["7 "], ["+7", "007"]),
        ("double", ["1.5f"], ["1e5", "inf", "Infinity", "NaN", ".5", "5."]),
        ("boolean", [" true"], ["TRUE"]),
        ("date", ["2026-01-01 "], ["2026-1-1"]),
        ("string", [], [" x", "1.5f"]),
    ],
)
def test_spellings_that_deltalake_refuses(type_name: str, refused: list[str], read: list[str]) -> None:
    """
    As deltalake 1.x, whose reader is the kernel, opened tables with them.
    """
    assert refused == [text for text in (*refused, *read) if is_refused_by_kernel(type_name, text)]


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("decimal(5,2)", "-1.-50", "-1.50"),
        ("decimal(5,2)", "-1.-5", "-1.05"),
        ("decimal(5,2)", "0.-1", "-0.01"),
        ("decimal(10,3)", "0.0-1", "-0.001"),
        ("decimal(10,3)", "-12.-340", "-12.340"),
        ("decimal(5,2)", "-1.-500", None),
        ("decimal(5,2)", "-1.50", None),
        ("decimal(5,2)", "1.5-0", None),
        ("decimal(5,2)", "--1.-50", None),
        ("string", "-1.-50", None),
    ],
)
def test_a_decimal_that_deltalake_wrote_with_two_signs_is_known(
    type_name: str, text: str, expected: str | None
) -> None:
    assert expected == decimal_meant(type_name, text)
