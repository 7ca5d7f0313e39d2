"""Cases of the reference suite about properties."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from deltacli.core.errors import DeltacliError
from tests.support.altering import Altering, table_of

LOG, FILES = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
MAPPED = {"delta.columnMapping.mode": "name"}
Values = Mapping[str, str]

SET: list[tuple[str, Values, Values, str]] = [
    # id, properties before, those to set, the verdict
    ("5.1", {}, {"k": "v"}, "ok"),
    ("5.3", {}, {"dEltA.lOgrEteNtiOndURaTion": "interval 5 weeks"}, "properties.key-case"),
    ("5.3 others", {}, {"key": "1", "kEy": "2"}, "ok"),
    ("5.4", {}, {"delta.key": "v"}, "properties.unknown-key"),
    ("5.5", {}, {"delta.randomizeFilePrefixes": "text"}, "usage.property"),
    ("5.6", {}, {"delta.randomizeFilePrefixes": "true"}, "ok"),
    ("5.8", {}, {"delta.constraints.c": "a > 0"}, "properties.constraint"),
    ("5.9", {}, {"location": "/elsewhere"}, "ok"),
    ("5.10", {}, {LOG: "interval 1 day"}, "property.retention-order"),
    ("5.10 files", {}, {FILES: "interval 60 days"}, "property.retention-order"),
    ("5.10 both", {}, {LOG: "interval 1 day", FILES: "interval 2 days"}, "property.retention-order"),
    ("5.11", {}, {LOG: "INTERVAL 2 Days", FILES: "interval 48 hours"}, "ok"),
    ("5.12", {LOG: "interval 1 day"}, {"k": "v"}, "ok"),
    ("6.3", MAPPED, {"delta.columnMapping.mode": "none"}, "properties.column-mapping"),
    ("6.2", MAPPED, {"delta.columnMapping.mode": "id"}, "properties.column-mapping"),
    ("6.4", {}, {"delta.columnMapping.mode": "nmae"}, "usage.property"),
    ("6.11", {}, {"delta.columnMapping.maxColumnId": "9"}, "properties.internal"),
    ("7.14", {}, {"delta.constraints.c": "3"}, "properties.constraint"),
    ("8.45", {}, {"delta.minReaderVersion": "1"}, "property.protocol-in-config"),
    ("8.46", {}, {"delta.feature.deletionVectors": "supported"}, "property.protocol-in-config"),
]


@pytest.mark.parametrize(("case", "before", "values", "verdict"), SET, ids=[case for case, *_ in SET])
def test_properties_that_are_set(case: str, before: Values, values: Values, verdict: str) -> None:
    features = ["columnMapping"] if before == MAPPED else None
    table = Altering(table_of("a int", properties=before, features=features))

    assert verdict == made(table, lambda: table.table.set_properties(values)), case
    assert all((key in table.properties) == (verdict == "ok" or key in before) for key in values)


def made(table: Altering, change: object) -> str:
    try:
        done = change()  # type: ignore[operator]
    except DeltacliError as error:
        return error.code
    return "nothing" if done.committed_version is None else "ok"


def test_a_property_that_is_not_set_is_not_unset() -> None:
    """5.2."""
    table = Altering(table_of("a int", properties={"k": "v"}))

    assert ["ok", "nothing"] == [made(table, lambda: table.table.unset_properties(["k"])) for _ in range(2)]
    assert 2 == len(table.table.history().items)
