"""Statistics and partition values read in columns say what the same read value by value says."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.file_actions import action_schemas
from deltacli.delta.log.state import MetadataOfVersion, OlderMetadata, TableConfiguration, read_metadata
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.stats import columns as stats_columns
from deltacli.rules.framework.base import CATALOGUE, Finding
from deltacli.rules.framework.views import FilesView, StateView
from deltacli.rules.partitions.partitions import partitions_that_are_too_small
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


def config(partition_columns: Sequence[str]) -> TableConfiguration:
    schema = json.dumps(struct(*(column(name, kind) for name, kind in COLUMNS.items())))
    raw = {"id": "x", "format": {}, "schemaString": schema, "partitionColumns": list(partition_columns)}
    protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    return TableConfiguration(protocol=protocol, metadata=read_metadata(raw, ""), schema=parse_schema(schema))


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
    return FilesView(batch.slice(skip), config(partition_columns), None, None, "checkpoint", 1)


def findings(area: str, view: FilesView) -> list[Finding]:
    return [
        found
        for check in CATALOGUE.find_checks(FilesView)
        if check.rules[0].id.split(".")[0] == area
        for found in check.run(view)
    ]


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

    in_columns = keys(findings("stats", view_of(texts)))
    monkeypatch.setattr(stats_columns, "_read_block", lambda *_: None)
    one_by_one = keys(findings("stats", view_of(texts)))

    assert one_by_one == in_columns


def test_an_unknown_column_of_one_file_among_thousands_is_found() -> None:
    texts = ['{"numRecords":1,"minValues":{"id":1}}'] * 5_000
    texts[3_333] = '{"numRecords":1,"minValues":{"id":1,"stranger":null}}'

    found = findings("stats", view_of(texts))

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

    assert [] == findings("stats", view_of([text]))


@pytest.mark.parametrize("name", ["ratio", "ünï"])
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_floats_without_a_number_do_not_cost_the_columns(name: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_columns, "read_stats", None)
    monkeypatch.setitem(COLUMNS, "ünï", "double")
    texts = [
        f'{{"numRecords":1,"maxValues":{{"{name}":"{word}"}}}}',
        '{"numRecords":-1,"maxValues":{"ratio":1.5}}',
    ] * 50

    found = findings("stats", view_of(texts))

    assert {"stats.num-records-negative"} == {one.rule.id for one in found}


def test_texts_that_are_objects_only_together_are_none() -> None:
    found = findings("stats", view_of(["{}{}", '{"numRecords":1,', '"tightBounds":true}']))

    assert ["stats.bad-json"] * 3 == [one.rule.id for one in found if one.rule.id != "stats.num-records-missing"]


@pytest.mark.parametrize("column_by_column", [True, False])
def test_nested_decimals_with_too_many_digits_are_found_among_others(
    column_by_column: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COLUMNS, "nested", struct(column("d", "decimal(3,2)")))
    if not column_by_column:
        monkeypatch.setattr(stats_columns, "_read_block", lambda *_: None)
    texts = [
        f'{{"numRecords":1,"maxValues":{{"nested":{{"d":{number}}}}}}}' for number in ("9.99", "-9.99", "10", "-10")
    ]

    found = findings("stats", view_of(texts))

    assert [("stats.type-mismatch", f"part-{row}.parquet") for row in (2, 3)] == [
        (one.rule.id, one.place.key) for one in found
    ]


def test_one_faulty_file_among_sound_ones_is_found() -> None:
    sound = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":2}}'

    found = findings("stats", view_of([sound, sound.replace('"id":1', '"id":3'), sound]))

    assert [("stats.min-greater-max", "part-1.parquet")] == [(one.rule.id, one.place.key) for one in found]


def test_an_unknown_column_is_counted_by_its_fullest_statistic() -> None:
    both = '{"numRecords":1,"minValues":{"x":1},"nullCount":{"x":0}}'
    fewer = '{"numRecords":1,"minValues":{"x":1},"maxValues":{"x":1}}'

    for texts, tail in (([fewer, both, both], "in 3 files"), ([both], "not in the schema")):
        found = findings("stats", view_of(texts))

        assert [True] == [one.message.endswith(tail) for one in found]


def test_an_unknown_column_is_reported_at_the_first_file_that_names_it() -> None:
    texts = ['{"numRecords":1,"nullCount":{"x":0}}', '{"numRecords":1,"minValues":{"x":1}}']

    for some in (texts, texts[::-1]):
        found = findings("stats", view_of(some))

        assert ["part-0.parquet"] == [one.place.key for one in found]


def test_values_of_another_type_are_shown_up_to_a_length() -> None:
    whole, longer = "x" * 118, "x" * 119
    texts = [json.dumps({"numRecords": 1, "maxValues": {"id": text}}) for text in (whole, longer)]

    found = findings("stats", view_of(texts))

    assert [f'"{whole}"', f'"{whole}…'] == [one.seen for one in found]


@pytest.mark.parametrize("counts", [[-(2**63), 2**63 - 1], [-(2**63) - 1, 2**63]])
def test_counts_have_64_bits(counts: list[int]) -> None:
    """One text Arrow does not take: all of them are read value by value."""
    texts = [*(json.dumps({"numRecords": count}) for count in counts), '{"numRecords":1} null {}']

    found = findings("stats", view_of(texts))

    expected = ["stats.num-records-negative"] if -(2**63) in counts else ["stats.type-mismatch"] * 2
    assert sorted(["stats.bad-json", *expected]) == sorted(one.rule.id for one in found)


def mapped(view: FilesView, properties: dict[str, str] | None = None, *, of_checkpoint: bool = False) -> FilesView:
    """The view under column mapping, of the first commit or of a checkpoint. No column was ever dropped."""
    protocol = Protocol(3, 7, ("deletionVectors", "columnMapping"), ("deletionVectors", "columnMapping"))
    metadata = view.config.metadata
    assert metadata is not None
    first = OlderMetadata((MetadataOfVersion(0, metadata.as_json()),), reaches_back=True)
    metadata = metadata._replace(configuration={"delta.columnMapping.mode": "name"} | (properties or {}))
    config = replace(view.config, protocol=protocol, metadata=metadata, older_metadata=lambda: first)
    count = len(view.adds)
    return replace(view, config=config, versions=None if of_checkpoint else [1] * count, lines=[1] * count)


OF_STRANGER = '{"numRecords":10,"tightBounds":false,"minValues":{"%s":1}}'


def test_a_new_file_under_mapping_has_no_columns_but_those_of_the_schema() -> None:
    view = mapped(view_of([OF_STRANGER % "stranger"]))

    assert ["stats.unknown-column"] == [one.rule.id for one in findings("stats", view)]


def test_without_mapping_dropped_columns_leave_no_statistics() -> None:
    view = view_of([OF_STRANGER % "col-1"], vector="^-aqEH.-t@S}K{vb[*k^")

    assert ["stats.unknown-column"] == [one.rule.id for one in findings("stats", view)]


@pytest.mark.parametrize(
    "view",
    [
        mapped(view_of([OF_STRANGER % "stranger"]), of_checkpoint=True),
        mapped(view_of([OF_STRANGER % "stranger"], vector="^-aqEH.-t@S}K{vb[*k^")),
        mapped(view_of([OF_STRANGER % "col-4711"])),
        mapped(
            view_of([OF_STRANGER % "_row-id-col-1"]), {"delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}
        ),
    ],
    ids=["of a checkpoint", "again, with a vector", "made-up name", "row ids"],
)
def test_columns_that_were_dropped_under_mapping_stay_in_statistics(view: FilesView) -> None:
    assert [] == findings("stats", view)


def with_features(view: FilesView, features: Sequence[str], properties: dict[str, str]) -> FilesView:
    metadata = view.config.metadata
    assert metadata is not None
    protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", *features))
    metadata = metadata._replace(configuration=properties)
    return replace(view, config=replace(view.config, protocol=protocol, metadata=metadata))


@pytest.mark.parametrize(
    ("features", "properties", "is_told"),
    [
        ([], {}, True),
        (["materializePartitionColumns"], {}, False),
        (["icebergCompatV2"], {"delta.enableIcebergCompatV2": "true"}, False),
        (["icebergCompatV2"], {}, True),
        ([], {"delta.enableIcebergCompatV2": "true"}, True),
    ],
)
def test_files_that_contain_partition_columns_have_statistics_of_them(
    features: list[str], properties: dict[str, str], is_told: bool
) -> None:
    view = view_of(['{"numRecords":1,"nullCount":{"p":0}}'], [{"p": "a"}], partition_columns=("p",))

    found = findings("stats", with_features(view, features, properties))

    assert (["stats.partition-column"] if is_told else []) == [one.rule.id for one in found]


@pytest.mark.parametrize(("feature", "severity"), [("clustering", "warning"), ("rowTracking", "info")])
def test_clustering_needs_counts_of_records(feature: str, severity: str) -> None:
    view = with_features(view_of(['{"minValues":{"id":1}}']), [feature], {})

    found = [one for one in findings("stats", view) if one.rule.id == "stats.num-records-missing"]

    assert [severity] == [one.severity for one in found]


def test_tight_bounds_with_vectors_are_found_file_by_file() -> None:
    bounds = '"minValues":{"id":1}'
    texts = [f'{{"numRecords":10,{bounds},"tightBounds":false}}', f'{{"numRecords":10,{bounds}}}', '{"numRecords":10}']

    found = findings("stats", view_of(texts, vector="^-aqEH.-t@S}K{vb[*k^"))

    assert [("stats.tight-with-dv", "part-1.parquet")] == [(one.rule.id, one.place.key) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"numRecords":"ten"}', {"stats.type-mismatch"}),
        ('{"maxValues":{"id":"ten"}}', {"stats.type-mismatch", "stats.num-records-missing"}),
        ('{"numRecords":1,"nullCount":{"stranger":9}}', {"stats.unknown-column"}),
        ('{"numRecords":-1,"nullCount":{"id":0}}', {"stats.num-records-negative"}),
        ('{"numRecords":-1,"nullCount":{"id":-1}}', {"stats.num-records-negative", "stats.null-count-range"}),
        ('{"numRecords":0,"nullCount":{"id":1}}', {"stats.null-count-range"}),
        ('{"nullCount":{"id":-1}}', {"stats.num-records-missing", "stats.null-count-range"}),
        ('{"numRecords":9,"tightBounds":true,"nullCount":{"id":4}}', set()),
    ],
)
def test_each_fault_of_counts_is_reported_once(text: str, expected: set[str]) -> None:
    assert expected == {one.rule.id for one in findings("stats", view_of([text]))}


@pytest.mark.parametrize("nulls", [0, 9])
def test_null_counts_at_both_ends_are_silent_even_under_wide_bounds(nulls: int) -> None:
    text = json.dumps({"numRecords": 9, "tightBounds": False, "nullCount": {"id": nulls}})

    assert [] == findings("stats", view_of([text]))


def test_files_without_statistics_are_silent() -> None:
    assert [] == findings("stats", view_of([None, "", '{"numRecords":0}']))


@pytest.mark.parametrize("skip", [0, 1, 3])
def test_partition_values_are_found_in_their_rows_wherever_a_batch_begins(skip: int) -> None:
    values: list[dict[str, str | None]] = [{"p": "a", "q": "1"} for _ in range(8)]
    values[4] = {"q": "one", "p": "a"}
    values[5] = {"p": "a"}
    values[6] = {"p": "a", "Q": "1"}
    values[7] = {"p": None, "q": "1", "r": "2"}

    found = findings("partition", view_of([None] * 8, values, partition_columns=("p", "q"), skip=skip))

    assert {
        ("partition.unparsable", "part-4.parquet"),
        ("partition.key-missing", "part-5.parquet"),
        ("partition.key-case", "part-6.parquet"),
        ("partition.key-extra", "part-7.parquet"),
    } == {(f.rule.id, f.place.key) for f in found}


@pytest.mark.parametrize("value", ["-128", "127", "0", None])
def test_plain_partition_values_are_silent(value: str | None) -> None:
    view = view_of([None], [{"small": value}], partition_columns=("small",))

    assert [] == findings("partition", view)


@pytest.mark.parametrize(("files", "size", "expected"), [(1_000, 999_999, 0), (1_001, 999_999, 1), (1_001, 10**6, 0)])
def test_small_files_of_a_partitioned_table_are_reported_above_a_thousand(files: int, size: int, expected: int) -> None:
    live = pa.table({"path": [f"p=a/part-{number}.parquet" for number in range(files)], "size": [size] * files})
    view = StateView(1, config(("p",)), {}, {}, live, 0)

    assert expected == len(list(partitions_that_are_too_small(view)))


@pytest.mark.parametrize("name", ["^-aqEH.-t@S}K{vb[*k^", "ab^-aqEH.-t@S}K{vb[*k^", "%nSc0" * 4])
def test_names_of_vectors_that_decode_are_silent(name: str) -> None:
    view = view_of(['{"numRecords":10}'], vector=name)

    assert [] == findings("dv", view)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        (".-aqEH.-t@S}K{vb[*k^0", "."),
        ("_a^-aqEH.-t@S}K{vb[*k^", "_a"),
        ("a/b\n/.é^-aqEH.-t@S}K{vb[*k^", "a/b\n/.é"),
        (".-aqEH.-t@S}K{vb[*k^", None),  # twenty characters, all of them of the UUID
        ("a^-aqEH/.t@S}K{vb[*k^", None),
        ("a_/b.^-aqEH.-t@S}K{vb[*k^", None),
    ],
)
def test_directories_of_vectors_are_hidden_by_their_first_character(text: str, prefix: str | None) -> None:
    found = findings("dv", view_of(['{"numRecords":10}'], vector=text))

    assert ([prefix] if prefix else []) == [one.seen for one in found if one.rule.id == "dv.random-prefix-dir"]


@pytest.mark.parametrize(
    ("stats", "versions", "told"),
    [
        ([None, None], None, 0),  # a checkpoint may have its statistics in columns alone
        ([None, '{"numRecords":10}'], None, 1),
        ([None, None], [4, 4], 2),
        (['{"numRecords":"x"}', "{"], None, 0),  # other rules say what is wrong with these
        (['{"minValues":3}', "{}"], None, 2),
    ],
)
def test_files_with_vectors_have_counts_of_records(
    stats: list[str | None], versions: list[int] | None, told: int
) -> None:
    view = replace(view_of(stats, vector="^-aqEH.-t@S}K{vb[*k^"), versions=versions, lines=versions)

    assert ["dv.num-records-missing"] * told == [one.rule.id for one in findings("dv", view)]
