"""Cases of the reference suite about properties, and the list of all cases: each is tried, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from deltacli.errors import DeltacliError
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


DIFFERENT = {
    "5.2": "the reference commits a version that changes nothing, or refuses; here it is nothing to do, with a warning",
    "5.3": "the reference corrects the case of a key; here the message has the right spelling, and nothing is changed",
    "5.9": "location and provider are words of SQL; here they are keys like any other, without effect",
    "5.34": "the reference commits a version that changes nothing",
    "5.40": "the reference refuses NOT NULL even of an empty table; here the rows are read",
    "5.47": "the reference refuses a default without the feature; here an option adds the feature in the same commit",
    "5.49": "a table is where its files are; no change has a place",
    "5.50": "as 5.49",
    "6.3": "the mapping goes with its feature (features drop columnMapping), where the reference has a property for it",
    "6.5": "the feature is always listed: deltalake 1.6.6 reads the versions 2 and 5 wrong",
    "6.8": "mapping is always a commit of its own, as for every table with a schema in the reference",
    "6.12": "an add writes the right number; other changes leave what `validate` reports (mapping.max-id-too-small)",
    "6.14": "as 6.8, with and without change data",
    "6.19": "no change replaces a table",
    "6.20": "tables are not converted",
    "6.25": "a text in an expression that could name the column counts as its name",
    "6.30": "dependent expressions are always checked",
    "6.47": "a drop of a feature takes no other property",
    "7.8": "no rows are written here; `validate` counts null as a violation (constraint.violated)",
    "7.12": "the text of a condition is kept as it was given, as by the reference's programming interface",
    "7.14": "a constraint is never a property: its rows would not be checked",
    "7.17": "what only an engine evaluates has not been checked here, so it is refused (alter.rows-unknown)",
    "7.18": "as 7.17",
    "7.19": "as 7.17",
    "7.20": "lengths only grow, so no row that exists is too long",
    "8.26": "reader version 3 instead of 2, see 6.5",
    "8.36": "only the catalog commits to its tables, so that nothing is dropped at all",
    "8.38": "as 8.36",
    "8.39": "only the engine that redirects a table knows when that ends",
    "8.45": "the reference ignores a lower version; here it is refused, with the command for features",
    "8.46": "features have a command of their own (features add)",
    "8.47": "as 5.47",
}
"""Cases whose verdict differs from that of the reference, or that mean nothing here, and why."""

NOWHERE = {"5.49", "5.50", "6.14", "6.19", "6.20", "6.30", "6.47", "7.8", "7.20"}
"""Those for which there is nothing to try."""

_HERE = Path(__file__).parent
_ID = re.compile(r"\b([5-8]\.[0-9]{1,2})\b")


def test_every_case_of_the_reference_is_tried_or_explained() -> None:
    every = {
        f"{chapter}.{number}" for chapter, last in {5: 51, 6: 47, 7: 21, 8: 48}.items() for number in range(1, last + 1)
    }
    own = Path(__file__).name
    tried = {
        found
        for file in _HERE.glob("test_*.py")
        for found in _ID.findall(file.read_text().split("DIFFERENT = {")[0] if file.name == own else file.read_text())
    }

    assert 167 == len(every)
    assert [] == sorted(every - tried - NOWHERE)
    assert set(DIFFERENT) <= every
