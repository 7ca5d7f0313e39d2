"""Partition values that the remove of a file lacks."""

from __future__ import annotations

import pytest

from deltacli.delta.partitions import values
from deltacli.delta.partitions.values import lacking_values


@pytest.mark.parametrize(
    ("known", "lacking"),
    [({"day": "1", "hour": "2"}, ()), ({"DAY": "1"}, ("hour",)), ({}, ("day", "hour")), (None, ("day", "hour"))],
)
def test_a_remove_lacks_the_values_whose_names_are_not_in_the_map_in_any_case(
    known: dict[str, str] | None, lacking: tuple[str, ...]
) -> None:
    assert lacking == lacking_values({"path": "a", "partitionValues": known}, ["day", "hour"])


def test_no_index_of_names_is_built_for_a_remove_with_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "NameIndex", None)

    assert () == lacking_values({"partitionValues": {"day": "1", "hour": "2"}}, ["day", "hour"])
