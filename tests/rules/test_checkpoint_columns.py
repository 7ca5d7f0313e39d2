"""The columns of a checkpoint: their types, and which of them the properties ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.actions import Action
from deltacli.delta.log.state import TableConfiguration
from deltacli.rules.checkpoints.columns import is_older
from deltacli.rules.framework.views import CheckpointView
from tests.rules.checkpoint_view import PATH, SIDECAR, config_of, features, found_in, opened, rules, state, told
from tests.rules.table_builder import column, struct


def with_columns(*adds: pa.Field, path: str = PATH, **fields: Any) -> CheckpointView:
    """A checkpoint whose `add`, its first column, has these fields; two live files."""
    others: dict[str, Any] = {"counts": {"add": 2}, "inline_file_actions": 2} | fields
    schema = pa.schema([pa.field("add", pa.struct(list(adds))), pa.field("unknown", pa.int8())])
    return opened(schemas={path: schema}, **others)


STATS = pa.field("stats", pa.string())
OFFSET, RECORDS = pa.struct([("offset", pa.int64())]), pa.struct([("numRecords", pa.int32())])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.null()]
)
def test_text_has_many_types(kind: pa.DataType) -> None:
    assert [] == told(with_columns(STATS, pa.field("path", kind)))


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (pa.field("path", pa.binary()), ("add.path", "binary", "string")),
        (pa.field("path", pa.dictionary(pa.int32(), pa.int64())), ("add.path", None, "string")),
        (pa.field("size", pa.int32()), ("add.size", "int32", "int64")),
        (pa.field("dataChange", pa.int8()), ("add.dataChange", "int8", "bool")),
        (pa.field("partitionValues", pa.map_(pa.string(), pa.int8())), ("add.partitionValues", None, None)),
        (pa.field("partitionValues", pa.map_(pa.int8(), pa.string())), ("add.partitionValues", None, None)),
        (pa.field("tags", pa.string()), ("add.tags", "string", "map of string to string")),
        (pa.field("deletionVector", pa.string()), ("add.deletionVector", "string", "a struct")),
        (pa.field("deletionVector", OFFSET), ("add.deletionVector.offset", "int64", "int32")),
        (pa.field("stats_parsed", RECORDS), ("add.stats_parsed.numRecords", "int32", "int64")),
    ],
)
def test_columns_have_the_types_of_the_protocol(field: pa.Field, expected: tuple[str, str | None, str | None]) -> None:
    found = found_in(with_columns(STATS, field))

    assert ["checkpoint.schema-type"] == [finding.rule.id for finding in found]
    key, seen, wanted = expected
    assert key == found[0].place.key
    assert seen in (None, found[0].seen)
    assert wanted in (None, found[0].expected)


def test_other_actions_have_their_types_too() -> None:
    schema = pa.schema(
        [
            ("txn", pa.string()),
            ("remove", pa.null()),
            ("metaData", pa.struct([("partitionColumns", pa.list_(pa.int8())), ("format", pa.string())])),
            ("protocol", pa.struct([("readerFeatures", pa.large_list(pa.string())), ("writerFeatures", pa.string())])),
        ]
    )

    found = found_in(opened(schemas={PATH: schema}))

    assert ["txn", "metaData.format", "metaData.partitionColumns", "protocol.writerFeatures"] == [
        finding.place.key for finding in found
    ]
    assert ["a struct", "a struct", "list of string", "list of string"] == [finding.expected for finding in found]


PARSED = pa.field("stats_parsed", pa.struct([("numRecords", pa.int64())]))
PARTITIONS = pa.field("partitionValues_parsed", pa.struct([("p", pa.string())]))
JSON, STRUCT = "delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"


@pytest.mark.parametrize(
    ("properties", "columns", "expected"),
    [
        ({}, [STATS], []),
        ({}, [PARSED], [(JSON, "no such column")]),
        ({}, [STATS, PARSED], []),
        ({"checkpoint_writeStatsAsJson": "false"}, [STATS], [(JSON, "add.stats")]),
        ({"checkpoint_writeStatsAsJson": "FALSE "}, [PARSED], []),
        ({"checkpoint_writeStatsAsJson": "no"}, [PARSED], [(JSON, "no such column")]),
        ({"checkpoint_writeStatsAsStruct": "true"}, [STATS, PARSED, PARTITIONS], []),
        ({"checkpoint_writeStatsAsStruct": "true"}, [STATS, PARTITIONS], [(STRUCT, "no such column")]),
        ({"checkpoint_writeStatsAsStruct": "false"}, [STATS, PARSED], [(STRUCT, "add.stats_parsed")]),
        ({"checkpoint_writeStatsAsStruct": "true"}, [STATS, PARSED], [(STRUCT, "no such column")]),
    ],
)
def test_columns_of_statistics_follow_the_properties(
    properties: dict[str, Any], columns: list[pa.Field], expected: list[tuple[str, str]]
) -> None:
    view = with_columns(*columns, config=config_of(**properties))

    assert expected == [(finding.place.key, finding.seen) for finding in found_in(view)]
    assert [] == told(replace(view, counts={}))
    assert [] == told(replace(view, config=TableConfiguration(protocol=view.config.protocol)))
    assert [] == told(replace(view, schemas={}))


def test_only_the_sidecars_have_columns_of_files_where_none_are_inline() -> None:
    empty = pa.schema([("add", pa.struct([STATS, PARSED]))])
    view = with_columns(STATS, path=SIDECAR, config=config_of(checkpoint_writeStatsAsStruct="false"))
    view = replace(view, schemas={PATH: empty, **view.schemas})

    assert ["stats-policy"] == rules(view)
    assert [] == rules(replace(view, inline_file_actions=0))


def batches(*stats: str | None) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"stats": pa.array([None], pa.string())})
    yield pa.record_batch({"stats": pa.array(stats, pa.string())})


@pytest.mark.parametrize(("stats", "is_told"), [([None, None], False), ([None, "{}"], True), (["{}"], True)])
def test_a_column_of_statistics_is_due_where_the_commits_have_some(stats: list[str | None], is_told: bool) -> None:
    config = config_of()
    known = state(config, whole_adds=lambda: batches(*stats))
    size = pa.field("size", pa.int64())

    assert ["stats-policy"] * is_told == rules(with_columns(size, expected=known))
    assert [] == rules(with_columns(size, expected=state(config)))
    assert [] == rules(with_columns(size, expected=None))


NESTED = struct(column("y", "long"), column("z", "long"))


def mapped_field(name: str, number: int, kind: Any) -> Action:
    about = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{name}"}
    return column(name, kind) | {"metadata": about}


def test_parsed_columns_go_by_physical_names_at_every_depth() -> None:
    inner = struct(mapped_field("y", 3, "long"), mapped_field("z", 4, "long"))
    schema = struct(mapped_field("id", 1, "long"), mapped_field("n", 2, inner), mapped_field("p", 5, "string"))
    config = config_of(features("columnMapping"), schema, columnMapping_mode="name")
    bounds = pa.struct(
        [
            ("id", pa.int64()),
            ("stranger", pa.int64()),
            ("col-n", pa.struct([("z", pa.int64()), ("col-y", pa.int64()), ("id", pa.int64())])),
        ]
    )
    parsed = pa.field("stats_parsed", pa.struct([("minValues", bounds), ("maxValues", bounds), ("nullCount", bounds)]))

    found = found_in(with_columns(STATS, parsed, config=config))

    assert [
        ("checkpoint.parsed-names", "add.stats_parsed.minValues.id", "id", "col-id"),
        ("checkpoint.parsed-names", "add.stats_parsed.minValues.col-n.z", "z", "col-z"),
    ] == [(finding.rule.id, finding.place.key, finding.seen, finding.expected) for finding in found]
    plain = config_of(schema=schema)
    assert [] == rules(with_columns(STATS, parsed, config=plain))


def test_parsed_columns_of_older_types_are_reported_at_every_depth() -> None:
    schema = struct(column("id", "long"), column("n", NESTED), column("p", "string"))
    bounds = pa.struct(
        [
            ("id", pa.int32()),
            ("n", pa.struct([("y", pa.int64()), ("z", pa.int16()), ("id", pa.int8())])),
            ("y", pa.int8()),
            ("p", pa.string()),
        ]
    )
    parsed = pa.field("stats_parsed", pa.struct([("maxValues", bounds), ("nullCount", bounds)]))

    found = found_in(with_columns(STATS, parsed, config=config_of(schema=schema)))

    assert [
        ("checkpoint.parsed-types-old", "add.stats_parsed.maxValues.id", "int32", "long"),
        ("checkpoint.parsed-types-old", "add.stats_parsed.maxValues.n.z", "int16", "long"),
    ] == [(finding.rule.id, finding.place.key, finding.seen, finding.expected) for finding in found]


@pytest.mark.parametrize(
    ("arrow_type", "name", "expected"),
    [
        (pa.decimal128(10, 2), "decimal(12,2)", True),
        (pa.decimal128(10, 2), "decimal(12,1)", False),
        (pa.decimal128(10, 2), "decimal(11,3)", True),
        (pa.decimal128(10, 2), "decimal(9,2)", False),
        (pa.int16(), "short", False),
        (pa.int8(), "short", True),
        (pa.int16(), "integer", True),
        (pa.int32(), "integer", False),
        (pa.int32(), "decimal(11,1)", True),
        (pa.int32(), "decimal(11,2)", False),
        (pa.int64(), "decimal(19,0)", False),
        (pa.int64(), "decimal(20,0)", True),
        (pa.uint8(), "long", False),
        (pa.float32(), "float", False),
        (pa.date32(), "date", False),
    ],
)
def test_a_type_is_older_only_if_no_digit_is_lost(arrow_type: pa.DataType, name: str, expected: bool) -> None:
    assert expected is is_older(arrow_type, name)
