"""Restores of some partitions under constraints that did not exist at the version: which rows violate them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from deltacli.operations.restore.restore import RestorePlan, RestoreRequest, plan_restore
from tests.support.actions import add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.reading import open_at
from tests.support.rows import parquet_bytes
from tests.support.small_vectors import inline

Field = dict[str, Any]  # Any: JSON values
FEATURES = ("deletionVectors", "checkConstraints", "generatedColumns", "invariants")
FIELDS = {"p": "string", "x": "long", "xs": "array", "s": "struct", "y": "long"}
ROWS = {
    "x": [1, None, -3, 4],
    "xs": [[1], [None, 2], None, [3, None]],
    "s": [{"z": 1}, None, {"z": None}, {"z": 4}],
}


def schema(**changed: Field) -> str:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    struct = {"type": "struct", "fields": [{"name": "z", "type": "long", "nullable": True, "metadata": {}}]}
    types: Mapping[str, object] = {**FIELDS, "xs": array, "s": struct}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} | changed.get(name, {})
        for name, kind in types.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def planned(
    checks: Mapping[str, str] | None = None,
    *,
    data: bytes | None = None,
    stats: Mapping[str, object] | None = None,
    partition: str | None = "1",
    vector: Field | None = None,
    **changed: Field,
) -> RestorePlan:
    """The restore of a file of version 0, which has `ROWS`, under constraints that came with version 1."""
    table = pa.table({**ROWS, "xs": pa.array(ROWS["xs"], pa.list_(pa.int64()))})
    data = parquet_bytes(table) if data is None else data
    values = {"p": partition}
    readers = {"reader_features": ["deletionVectors"], "writer_features": FEATURES}
    file = add("a", size=len(data), partition_values=values, vector=vector, stats=json.dumps(stats) if stats else None)
    settings = {"delta.enableDeletionVectors": "true"}
    builder = TableBuilder().file("a", data)
    first = metadata(configuration=settings, schema_string=schema(), partition_columns=["p"])
    builder.commit(commit_info(), protocol(3, 7, **readers), first, file)
    settings |= {f"delta.constraints.{name}": text for name, text in (checks or {}).items()}
    later = metadata(configuration=settings, schema_string=schema(**changed), partition_columns=["p"])
    builder.commit(commit_info(), later, remove("a", vector=vector, partitionValues=values))
    where = "p is null" if partition is None else f"p = '{partition}'"
    return plan_restore(open_at(builder.in_memory()), RestoreRequest(version=0, where=where, trust_listing=True))


def messages(plan: RestorePlan) -> list[str]:
    assert {"restore.constraint"} >= {one.code for one in plan.refusals}
    return [one.message for one in plan.refusals]


NOT_NULL = {"nullable": False}
ELEMENTS = {"type": {"type": "array", "elementType": "long", "containsNull": False}}
GENERATED = {"metadata": {"delta.generationExpression": "x + 1"}}
INVARIANT = {"metadata": {"delta.invariants": json.dumps({"expression": {"expression": "x <> 4"}})}}
STRUCT = {"type": {"type": "struct", "fields": [{"name": "z", "type": "long", "nullable": False, "metadata": {}}]}}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a null": ({"x": NOT_NULL}, "1 null in 1 file of version 0 violates column x (NOT NULL), first in a"),
    "a null in a struct": ({"s": STRUCT}, "1 null in 1 file of version 0 violates column s.z (NOT NULL), first in a"),
    "null elements": ({"xs": ELEMENTS}, "2 nulls in 1 file of version 0 violate column xs.element (NOT NULL)"),
    "a column that the file lacks": ({"y": NOT_NULL}, "4 nulls in 1 file of version 0 violate column y (NOT NULL)"),
    "false and null": ({"checks": {"c": "x > 0"}}, "2 rows in 1 file of version 0 violate CHECK constraint c (x > 0)"),
    "statistics that leave nulls open": (
        {
            "checks": {"c": "x > 0"},
            "stats": {"numRecords": 4, "minValues": {"x": 1}, "maxValues": {"x": 4}, "nullCount": {"x": 1}},
        },
        "2 rows in 1 file of version 0 violate CHECK constraint c (x > 0)",
    ),
    "an invariant": ({"x": INVARIANT}, "2 rows in 1 file of version 0 violate invariant x (x <> 4)"),
    "a generated column": ({"y": GENERATED}, "3 rows in 1 file of version 0 violate generated column y (x + 1)"),
    "a null partition": (
        {"p": NOT_NULL, "partition": None, "stats": {"numRecords": 4}},
        "4 nulls in 1 file of version 0 violate column p (NOT NULL)",
    ),
    "unknown functions": (
        {"checks": {"c": "f(x)"}},
        "1 file of version 0 may violate CHECK constraint c (f(x)), first a",
    ),
    "a damaged file": (
        {"checks": {"c": "x > 0"}, "data": b"no Parquet"},
        "1 file of version 0 may violate CHECK constraint c (x > 0), first a: its rows cannot be read",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rows_that_violate_a_constraint_of_today_do_not_come_back(case: str) -> None:
    demands, said = BROKEN[case]

    plan = planned(**demands)

    assert [True] == [said in message for message in messages(plan)], messages(plan)
    assert [("a",)] == [one.files for one in plan.refusals]


def test_each_constraint_is_named_and_the_first_row_shown() -> None:
    plan = planned({"c": "x > 0", "d": "x < 9 or x is null", "e": "p = '1'"}, x=NOT_NULL)

    assert [
        "1 null in 1 file of version 0 violates column x (NOT NULL), first in a",
        "2 rows in 1 file of version 0 violate CHECK constraint c (x > 0), first in a: x=null",
    ] == messages(plan)


KEPT: dict[str, dict[str, Any]] = {
    "rows": {"checks": {"c": "x < 9 or x is null"}, "s": {"nullable": True}},
    "a partition": {"p": NOT_NULL, "checks": {"c": "p <> '2'"}},
    "deleted rows": {"checks": {"c": "x > 0"}, "x": NOT_NULL, "vector": inline([1, 2])},
    "statistics": {
        "checks": {"c": "x > 0"},
        "x": NOT_NULL,
        "data": b"never read",
        "stats": {"numRecords": 4, "minValues": {"x": 1}, "maxValues": {"x": 4}, "nullCount": {"x": 0}},
    },
}


@pytest.mark.parametrize("case", KEPT)
def test_rows_that_keep_the_constraints_of_today_come_back(case: str) -> None:
    plan = planned(**KEPT[case])

    assert [] == messages(plan)
    assert 1 == plan.difference.added_amount.files


def test_the_error_names_the_files() -> None:
    refused = planned({"c": "x > 0"}).build_refusal()

    assert refused is not None
    assert "2 rows in 1 file" in refused.message
    assert "a" == refused.facts["file 1"]
