"""Statistics and partition values read in columns say what the same read value by value says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta import stats_columns
from deltacli.delta.file_actions import action_schemas
from deltacli.delta.protocol import Protocol
from deltacli.delta.rules import deletion_vectors, partitions, statistics
from deltacli.delta.rules.base import Area, Finding
from deltacli.delta.rules.views import FilesView, Regime, StateView
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.state import read_metadata
from tests.rules.table_builder import column, struct

COLUMNS = {
    "id": "long",
    "small": "byte",
    "name": "string",
    "at": "timestamp",
    "day": "date",
    "ratio": "double",
    "price": "decimal(10,2)",
    "flag": "boolean",
    "nested": struct(column("y", "long"), column("z", "string")),
    "p": "string",
    "q": "integer",
}
ODD_VALUES = [
    *(0, -129, 127, 2**31, 2**63 - 1, 2**63, 10**30, 1.5, 1e10, 99999999.99, 123456789.5),
    *("", "é", "\ud800", "NaN", "Infinity", "-Infinity", "2024-02-29", "2023-02-29", "99999999.99"),
    *("2024-01-01T00:00:00.000Z", "2024-01-01 01:00:00", "2024-01-01T00:00:00.123456789Z"),
    *(True, None, {}, {"y": 1}, [1]),
]
ODD_TEXTS = ["{} null {}", "{}{}", '{"a":1,"a":2}', '{"maxValues":{"ratio":NaN}}', "null", "", " {} ", '{"a":']


def regime(partition_columns: Sequence[str]) -> Regime:
    schema = json.dumps(struct(*(column(name, kind) for name, kind in COLUMNS.items())))
    raw = {"id": "x", "format": {}, "schemaString": schema, "partitionColumns": list(partition_columns)}
    protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    return Regime(protocol=protocol, metadata=read_metadata(raw, ""), schema=parse_schema(schema))


def view_of(
    stats: Sequence[str | None],
    partition_values: Sequence[dict[str, str | None]] = (),
    *,
    partition_columns: Sequence[str] = (),
    skip: int = 0,
    vector: str | None = None,
) -> FilesView:
    """A view of one add for each text; `skip`: a part of a longer batch, as checkpoints have them."""
    rows = [
        {
            "path": f"part-{number}.parquet",
            "partitionValues": list((partition_values[number] if partition_values else {}).items()),
            "size": 1,
            "modificationTime": 1,
            "dataChange": True,
            "stats": text,
            "deletionVector": vector
            and {"storageType": "u", "pathOrInlineDv": vector, "offset": 1, "sizeInBytes": 34, "cardinality": 9},
        }
        for number, text in enumerate(stats)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=action_schemas().add)
    return FilesView(batch.slice(skip), regime(partition_columns), None, None, "checkpoint", 1)


def findings(area: Area, view: FilesView) -> list[Finding]:
    return [found for check in area.checks if check.view is FilesView for found in check.run(view)]


def keys(found: Iterable[Finding]) -> set[tuple[str, str, str | None]]:
    return {(finding.rule.id, finding.message, finding.place.key) for finding in found}


def some_stats(chance: random.Random, fault_rate: float) -> str:
    names = chance.sample(["id", "name", "at", "ratio", "price"], 3)
    value: dict[str, Any] = {"numRecords": 9, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in names:
        for part in ("minValues", "maxValues"):
            value[part][name] = {
                "id": chance.randint(0, 9),
                "name": chance.choice("abcé"),
                "at": f"2024-01-01T00:00:00.{chance.choice(['000', '0001', '999'])}Z",
                "ratio": chance.choice([1.5, 2, "NaN", "-Infinity"]),
                "price": chance.choice([1, 2.25, -3]),
            }[name]
        value["nullCount"][name] = chance.randint(0, 10)
    if chance.random() < fault_rate:
        if chance.random() < 0.2:
            return chance.choice(ODD_TEXTS)
        part = chance.choice(["minValues", "maxValues", "nullCount"])
        value[part][chance.choice([*COLUMNS, "unknown"])] = chance.choice(ODD_VALUES)
    return json.dumps(value)


@pytest.mark.parametrize("fault_rate", [0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_statistics_in_columns_and_one_by_one_give_the_same_findings(
    seed: int, fault_rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    texts = [some_stats(chance, fault_rate) for _ in range(300)]

    in_columns = keys(findings(statistics.AREA, view_of(texts)))
    monkeypatch.setattr(stats_columns, "_read_block", lambda *_: None)
    one_by_one = keys(findings(statistics.AREA, view_of(texts)))

    assert one_by_one == in_columns


def test_an_unknown_column_of_one_file_among_thousands_is_found() -> None:
    texts = ['{"numRecords":1,"minValues":{"id":1}}'] * 5_000
    texts[3_333] = '{"numRecords":1,"minValues":{"id":1,"stranger":null}}'

    found = findings(statistics.AREA, view_of(texts))

    assert {("stats.unknown-column", "part-3333.parquet")} == {(f.rule.id, f.place.key) for f in found}


@pytest.mark.parametrize(
    ("name", "minimum", "maximum"),
    [
        ("id", 2**63 - 1, 2**63 - 1),
        ("small", -128, 127),
        ("ratio", "-Infinity", "NaN"),
        ("ratio", "Infinity", "NaN"),
        ("ratio", 1.7976931348623157e308, "Infinity"),
        ("price", 99999999.99, 99999999.99),
        ("price", -5, "-5.00"),
        ("name", "z", "\U0001f600"),
        ("day", "9999-12-31", "+10000-01-01"),
        ("at", "2024-01-01T01:00:00.000+01:00", "2024-01-01T00:00:00.000Z"),
        ("flag", False, True),
        ("nested", {"y": 1, "z": "a"}, {"y": 1, "z": "a"}),
    ],
)
def test_bounds_that_are_in_order_are_silent(name: str, minimum: Any, maximum: Any) -> None:
    text = json.dumps({"numRecords": 1, "minValues": {name: minimum}, "maxValues": {name: maximum}})

    assert [] == findings(statistics.AREA, view_of([text]))


@pytest.mark.parametrize("nulls", [0, 9])
def test_null_counts_at_both_ends_are_silent_even_under_wide_bounds(nulls: int) -> None:
    text = json.dumps({"numRecords": 9, "tightBounds": False, "nullCount": {"id": nulls}})

    assert [] == findings(statistics.AREA, view_of([text]))


def test_files_without_statistics_are_silent() -> None:
    assert [] == findings(statistics.AREA, view_of([None, "", '{"numRecords":0}']))


@pytest.mark.parametrize("skip", [0, 1, 3])
def test_partition_values_are_found_in_their_rows_wherever_a_batch_begins(skip: int) -> None:
    values: list[dict[str, str | None]] = [{"p": "a", "q": "1"} for _ in range(8)]
    values[4] = {"q": "one", "p": "a"}
    values[5] = {"p": "a"}
    values[6] = {"p": "a", "Q": "1"}
    values[7] = {"p": None, "q": "1", "r": "2"}

    found = findings(partitions.AREA, view_of([None] * 8, values, partition_columns=("p", "q"), skip=skip))

    assert {
        ("partition.unparsable", "part-4.parquet"),
        ("partition.key-missing", "part-5.parquet"),
        ("partition.key-case", "part-6.parquet"),
        ("partition.key-extra", "part-7.parquet"),
    } == {(f.rule.id, f.place.key) for f in found}


@pytest.mark.parametrize("value", ["-128", "127", "0", "", None])
def test_plain_partition_values_are_silent(value: str | None) -> None:
    view = view_of([None], [{"small": value}], partition_columns=("small",))

    assert [] == findings(partitions.AREA, view)


@pytest.mark.parametrize(("files", "size", "expected"), [(1_000, 999_999, 0), (1_001, 999_999, 1), (1_001, 10**6, 0)])
def test_small_files_of_a_partitioned_table_are_told_above_a_thousand(files: int, size: int, expected: int) -> None:
    live = pa.table({"path": [f"p=a/part-{number}.parquet" for number in range(files)], "size": [size] * files})
    view = StateView(1, regime(("p",)), {}, {}, live, 0)

    assert expected == len(list(partitions.partitions_that_are_too_small(view)))


@pytest.mark.parametrize("name", ["^-aqEH.-t@S}K{vb[*k^", "ab^-aqEH.-t@S}K{vb[*k^", "%nSc0" * 4])
def test_names_of_vectors_that_decode_are_silent(name: str) -> None:
    view = view_of(['{"numRecords":10}'], vector=name)

    assert [] == findings(deletion_vectors.AREA, view)
