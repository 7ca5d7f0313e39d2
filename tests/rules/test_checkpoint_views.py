"""Checkpoint contents other than files: the small actions, and the names and sizes of sidecars."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from deltacli.delta.log.actions import Action
from deltacli.rules.framework.views import CheckpointView
from tests.rules.checkpoint_view import (
    PATH,
    SIDECAR,
    UUID_NAME,
    config_of,
    features,
    found_in,
    opened,
    rules,
    state,
    told,
)
from tests.rules.table_builder import NOW_MS


def without(view: CheckpointView, kind: str) -> CheckpointView:
    return replace(view, small=[row for row in view.small if row[0] != kind])


@pytest.mark.parametrize(("kind", "rule"), [("protocol", "no-protocol"), ("metaData", "no-metadata")])
def test_a_checkpoint_has_one_protocol_and_one_metadata(kind: str, rule: str) -> None:
    view = opened()
    twice = replace(view, small=[*view.small, *(row for row in view.small if row[0] == kind)])

    assert [] == told(view)
    assert [(rule, "0", "1")] == told(without(view, kind))
    assert [(rule, "2", "1")] == told(twice)
    assert [] == told(replace(without(view, kind), small_is_whole=False))


@pytest.mark.parametrize("kind", ["commitInfo", "cdc"])
def test_a_checkpoint_has_no_actions_of_commits(kind: str) -> None:
    assert [("forbidden-action", "1", "0")] == told(opened(counts={kind: 1}))
    assert [] == told(opened(counts={kind: 0}))


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({"minReaderVersion": 2, "minWriterVersion": 6}, []),
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}, []),
        ({"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": []}, []),
        ({"minReaderVersion": "3", "minWriterVersion": 2}, []),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": []},
            [("null", "a list", "readerFeatures of the protocol in the checkpoint is null with minReaderVersion 3")],
        ),
        (
            {"minReaderVersion": 1, "minWriterVersion": 6, "writerFeatures": ["a"]},
            [("['a']", "null", "writerFeatures of the protocol in the checkpoint is not null with minWriterVersion 6")],
        ),
    ],
)
def test_lists_of_features_fit_the_versions(protocol: Action, expected: list[tuple[str, str, str]]) -> None:
    view = opened()
    view = replace(view, small=[*without(view, "protocol").small, ("protocol", protocol, PATH)])

    found = [(finding.seen, finding.expected, finding.message) for finding in found_in(view)]

    assert expected == found
    assert "features-null" not in rules(replace(view, small=[*view.small, view.small[-1]]))


def test_the_configuration_is_compared_field_by_field() -> None:
    plain, other = config_of(), config_of(features("appendOnly"), appendOnly="true")
    name = replace(plain, metadata=plain.metadata._replace(name="x") if plain.metadata else None)

    assert [] == told(opened(config=plain, expected=state(plain)))
    assert [("metadata-differs", "x", "none")] == told(opened(config=name, expected=state(plain)))
    assert [("metadata-differs", "none", "x")] == told(opened(config=plain, expected=state(name)))
    assert [
        ("metadata-differs", "3", "1"),
        ("metadata-differs", "7", "2"),
        ("metadata-differs", "['appendOnly']", "none"),
        ("metadata-differs", "['appendOnly']", "none"),
    ] == [one for one in told(opened(config=other, expected=state(plain))) if "{" not in str(one)]
    assert [] == told(opened(config=other, expected=state(plain), small_is_whole=False))
    for config in (replace(plain, protocol=None), replace(plain, metadata=None)):
        assert [] == told(opened(config=plain, expected=state(config)))
        assert [] == told(opened(config=config, expected=state(plain)))


def test_duplicate_entries_are_not_compared() -> None:
    plain, other = config_of(), config_of({"minReaderVersion": 1, "minWriterVersion": 1}, x="1")
    view = opened(config=other, expected=state(plain))

    assert ["metadata-differs", "metadata-differs"] == rules(view)
    assert ["no-protocol", "no-metadata"] == rules(replace(view, small=[*view.small, *view.small]))


RETENTION_MS = 60_000


def txn(application: str, version: int, **fields: str) -> tuple[str, Action]:
    return "txn", {"appId": application, "version": version} | fields


@pytest.mark.parametrize(
    ("retention", "updated", "is_told"),
    [
        (None, None, True),
        (None, NOW_MS, True),
        ("interval 1 minute", NOW_MS - RETENTION_MS, False),
        ("interval 1 minute", NOW_MS - RETENTION_MS + 1, True),
        ("interval 1 minute", None, False),
        ("no interval", NOW_MS, False),
        ("", NOW_MS, False),
    ],
)
def test_transactions_may_be_missing_once_they_expire(
    retention: str | None, updated: int | None, is_told: bool
) -> None:
    properties: dict[str, Any] = {} if retention is None else {"setTransactionRetentionDuration": retention}
    config = config_of(**properties)
    expected = state(config, transactions={"a": (7, updated)})
    right, wrong, other = txn("a", 7), txn("a", 6), txn("b", 1)

    assert [("missing-txn", "none", "7")] * is_told == told(opened(config=config, expected=expected))
    assert [("missing-txn", "6", "7")] == told(opened(wrong, config=config, expected=expected))
    assert [] == told(opened(right, other, config=config, expected=expected))
    assert [] == told(opened(wrong, config=config, expected=None))
    astray = opened(txn("a", 7, file=SIDECAR), config=config, expected=expected)
    assert is_told is ("missing-txn" in rules(astray))


def domain(configuration: str | None = "{}", **fields: object) -> tuple[str, Action]:
    return "domainMetadata", {"domain": "a", "configuration": configuration, "removed": False} | fields


def test_domains_are_those_of_the_commits() -> None:
    known = state(config_of(), domains={"a": "{}"})

    assert [] == told(opened(domain(), expected=known))
    assert [] == told(opened(domain("x"), expected=None))
    assert [] == told(opened(domain(None), expected=state(config_of(), domains={"a": ""})))
    assert [("missing-domain", "none", "{}")] == told(opened(expected=known))
    assert [("missing-domain", "x", "{}")] == told(opened(domain("x"), expected=known))
    assert [("missing-domain", "{}", "none")] == told(opened(domain(), expected=state(config_of())))
    assert ["missing-domain", "domain-tombstone"] == rules(opened(domain(removed=True), expected=known))
    assert ["domain-tombstone"] == rules(opened(domain(removed=True), expected=state(config_of())))


def test_invalid_domains_are_described() -> None:
    known = state(config_of(), domains={"a": "{}"})
    views = (opened(expected=known), opened(domain("x"), expected=known))

    assert [
        ["the checkpoint of version 2 lacks the domain a"],
        ["the checkpoint of version 2 has a different configuration of the domain a than the commits"],
    ] == [[finding.message for finding in found_in(view)] for view in views]


# -- V2 ---------------------------------------------------------------------------------------------------------------

V2 = config_of(features("v2Checkpoint"))


def about(version: object = 2, **tags: str) -> tuple[str, Action]:
    return "checkpointMetadata", {"version": version, "tags": tags}


def sidecar(path: str = "s.parquet", **fields: object) -> tuple[str, Action]:
    return "sidecar", {"path": path, "sizeInBytes": 10, "modificationTime": 1} | fields


def test_a_v2_checkpoint_describes_itself_once() -> None:
    assert [] == told(opened(about(), config=V2))
    assert [] == told(opened(config=V2))
    assert [("v2-metadata-missing", "0", "1")] == told(opened(config=V2, name=UUID_NAME))
    assert [("v2-metadata-missing", "0", "1")] == told(opened(sidecar(), config=V2))
    assert [("v2-metadata-missing", "2", "1")] == told(opened(about(), about(), config=V2))
    assert [("v2-version", "3", "2")] == told(opened(about(3), config=V2))
    assert [] == told(opened(config=V2, name=UUID_NAME, small_is_whole=False))


def test_v2_content_needs_the_feature() -> None:
    legacy = config_of()

    assert ["v2-without-feature"] == rules(opened(about(), config=legacy))
    assert [] == rules(opened(about(), config=legacy, name=UUID_NAME))
    assert [] == rules(opened(about(), config=replace(legacy, protocol=None)))


def test_file_actions_are_inline_or_in_sidecars() -> None:
    tree = config_of(features("adaptiveMetadata"))
    root = {PATH: pa.schema([("contentRoot", pa.string())])}

    assert [] == told(opened(about(), config=V2, inline_file_actions=1))
    assert [("v2-mixed", "1 inline, 1 sidecar", "all inline, or all in sidecars")] == told(
        opened(about(), sidecar(), config=V2, inline_file_actions=1)
    )
    assert [] == told(opened(about(), sidecar(), config=tree, inline_file_actions=1, schemas=root))


def test_tags_count_what_is_there() -> None:
    tags = {"sidecarNumActions": "3", "sidecarSizeInBytes": "10", "numOfAddFiles": "2"}
    fields: dict[str, Any] = {"rows": {SIDECAR: 3}, "file_sizes": {SIDECAR: 10}, "counts": {"add": 2}, "config": V2}

    assert [] == told(opened(about(**tags), sidecar(), **fields))
    assert [] == told(opened(about(other="1"), sidecar(), **fields))
    for tag, number in tags.items():
        assert [("v2-tags", "1", number)] == told(opened(about(**tags | {tag: "1"}), sidecar(), **fields))
    wrong = about(numOfAddFiles="1")
    assert ["missing"] == rules(opened(wrong, sidecar(), missing_sidecars=["t.parquet"], **fields))
    assert ["v2-metadata-missing"] == rules(opened(wrong, wrong, **fields))


COLUMNS = {
    "path": pa.string(),
    "offset": pa.int32(),
    "min": pa.timestamp("ns"),
    "values": pa.map_(pa.string(), pa.string()),
    "names": pa.list_(pa.string()),
    "extra": pa.null(),
}


def schema_of(**columns: Any) -> dict[str, Any]:
    """A schema with `COLUMNS`, some of them replaced, below `add`."""
    fields = [
        {"name": name, "type": kind, "nullable": False, "metadata": {}}
        for name, kind in {
            "min": "timestamp",
            "path": "string",
            "offset": "integer",
            "values": {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True},
            "names": {"type": "array", "elementType": "string", "containsNull": True},
            **columns,
        }.items()
        if kind
    ]
    return {"type": "struct", "fields": [{"name": "add", "type": {"type": "struct", "fields": fields}}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        (json.dumps(schema_of()), None),
        (json.dumps(schema_of(min="timestamp_ntz", extra="string")), None),
        (json.dumps(schema_of(offset="long")), ("add.offset: long", "add.offset: integer")),
        (json.dumps(schema_of(offset=None)), ("no add.offset", "add.offset: integer")),
        (json.dumps(schema_of(other="string")), ("add.other: string", "no add.other")),
        (json.dumps(schema_of(names="string")), ("add.names: string", "no add.names")),
        ("{", ("no schema", "7 columns")),
        ('{"type":"map"}', ("no schema", "7 columns")),
    ],
)
def test_the_schema_in_a_tag_is_that_of_the_sidecars(text: str, expected: tuple[str, str] | None) -> None:
    schema = pa.schema([("add", pa.struct(list(COLUMNS.items())))])
    view = opened(about(sidecarFileSchema=text), sidecar(), config=V2, schemas={SIDECAR: schema})

    found = [(finding.seen, finding.expected) for finding in found_in(view) if finding.rule.id == "checkpoint.v2-tags"]

    assert ([] if expected is None else [expected]) == found


def test_the_parts_of_a_variant_in_a_sidecar_are_those_of_the_tag() -> None:
    variant = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    schema = pa.schema([("add", pa.struct([*COLUMNS.items(), ("v", variant)]))])
    tag = json.dumps(schema_of(v="variant"))

    assert [] == rules(opened(about(sidecarFileSchema=tag), sidecar(), config=V2, schemas={SIDECAR: schema}))


@pytest.mark.parametrize(
    ("path", "is_inside"),
    [
        ("s.parquet", True),
        ("_sidecars/s.parquet", True),
        ("_delta_log/_sidecars/s.parquet", True),
        ("/t/_delta_log/_sidecars/s.parquet", True),
        ("../s.parquet", False),
        ("x_delta_log/_sidecars/s.parquet", False),
        ("/t/_sidecars/s.parquet", False),
    ],
)
def test_sidecars_must_be_in_their_directory(path: str, is_inside: bool) -> None:
    fields: dict[str, Any] = {"file_sizes": {SIDECAR: 10}, "config": V2}

    assert [("path-outside", path, "s.parquet")] * (not is_inside) == told(opened(about(), sidecar(path), **fields))


def test_sidecars_have_the_recorded_size() -> None:
    def of_size(size: object, **fields: Any) -> list[tuple[str, str | None, str | None]]:
        others: dict[str, Any] = {"config": V2, "file_sizes": {SIDECAR: 10}} | fields
        return told(opened(about(), sidecar(sizeInBytes=size), **others))

    assert [] == of_size(10)
    assert [] == of_size(None)
    assert [] == of_size(9, file_sizes={})
    assert [("size-mismatch", "10", "9")] == of_size(9)
    assert [("size-mismatch", "10", "11")] == of_size(11)
    tree = {
        "config": config_of(features("adaptiveMetadata")),
        "schemas": {PATH: pa.schema([("contentRoot", pa.null())])},
    }
    assert [] == of_size(9, **tree)


def test_sidecars_contain_only_file_actions() -> None:
    inside = txn("a", 7, file=SIDECAR)

    assert [("non-file-action", "txn", "add and remove only")] == told(opened(about(), inside, inside, config=V2))
    assert ["a sidecar of the checkpoint of version 2 has 2 txn actions"] == [
        finding.message for finding in found_in(opened(about(), inside, inside, config=V2))
    ]


def test_a_standalone_checkpoint_refers_to_the_tree() -> None:
    tree = config_of(features("adaptiveMetadata"))
    plain, root = pa.schema([("add", pa.null())]), pa.schema([("contentRoot", pa.null())])

    assert ["amt-classic"] == rules(opened(config=tree, schemas={PATH: plain}))
    assert [] == rules(opened(config=tree, schemas={PATH: plain, SIDECAR: root}))
    assert [] == rules(opened(config=config_of(), schemas={PATH: plain}))
    assert [] == rules(opened(about(), config=tree, name=UUID_NAME, schemas={PATH: plain}))
