"""`snapshot` of a Paimon table: points, tree, DDL, documents, and points that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.paimon.conversions import create_table
from deltacli.paimon.schema import read_schema
from tests.cli.support import deltacli
from tests.paimon.answers import Capture, ask, document, lines, rows
from tests.support.builder import TableBuilder
from tests.support.paimon_builder import ID, NAME, PRICE, PaimonBuilder, field
from tests.support.paimon_corpus import branches, manifest

NESTED = {
    "type": "MAP",
    "key": "STRING NOT NULL",
    "value": {"type": "ARRAY", "element": {"type": "ROW", "fields": [field(4, "a.b", "INT", description="c")]}},
}


@pytest.fixture
def table(tmp_path: Path) -> PaimonBuilder:
    """A table with three schemas and two snapshots; the first one has expired and is kept by a tag."""
    built = PaimonBuilder(tmp_path / "t").schema(ID, NAME, version=1, options={}).snapshot(0)
    built.schema(ID, NAME, PRICE).snapshot(1, statistics="stat-1").tag("old", 1).without("snapshot/snapshot-1")
    built.write("statistics/stat-1", {"snapshotId": 2, "mergedRecordCount": 20, "colStats": {"id": {}}})
    return built.schema(ID, NAME, field(3, "n", NESTED), comment="it's")


@pytest.mark.parametrize(
    ("options", "schema", "snapshot"),
    [
        ([], 2, 2),
        (["--schema-id", "0"], 0, None),
        (["--snapshot-id", "2"], 1, 2),
        (["--snapshot-id", "1"], 0, 1),
        (["--tag", "old"], 0, 1),
    ],
)
def test_a_point_has_its_schema_and_its_snapshot(
    options: list[str], schema: int, snapshot: int | None, table: PaimonBuilder, capsys: Capture
) -> None:
    found = document(capsys, "snapshot", table.root, *options)

    assert (schema, schema, 2) == (found["schemaId"], found["schema"]["id"], found["latestSchemaId"])
    assert snapshot == found.get("snapshot", {}).get("id")
    assert found.get("tags", []) == (["old"] if snapshot == 1 else [])
    assert ("statistics" in found) == (snapshot == 2)


def test_old_schemas_have_their_defaults_and_stay_verbatim(table: PaimonBuilder, capsys: Capture) -> None:
    found = document(capsys, "snapshot", table.root, "--tag", "old")
    _, out, _ = ask(capsys, "snapshot", table.root, "--tag", "old")

    assert ({}, {"bucket": "1", "file.format": "orc"}) == (found["schema"]["options"], found["options"])
    assert "bucket = 1  (default of file version 1)" in out


def test_the_tree_shows_ids_keys_and_rows_inside_of_maps_and_arrays(table: PaimonBuilder, capsys: Capture) -> None:
    _, out, _ = ask(capsys, "snapshot", table.root, "--schema")

    assert [
        "root",
        "├── id: BIGINT NOT NULL  [id 0]  (primary key)",
        "├── name: STRING  [id 1]",
        "└── n: MAP<STRING NOT NULL, ARRAY<ROW>>  [id 3]",
        "    └── value: ARRAY<ROW>",
        "        └── element: ROW",
        "            └── `a.b`: INT  [id 4]  -- c",
    ] == out.splitlines()


def test_the_schema_is_the_same_in_every_format(table: PaimonBuilder, capsys: Capture) -> None:
    found = document(capsys, "snapshot", table.root, "--schema")
    told = lines(capsys, "snapshot", table.root, "--schema")
    listed = rows(capsys, "snapshot", table.root, "--schema")

    assert 2 == found["schemaId"]
    assert ["id", "name", "n", "n.value.element.`a.b`"] == [line["path"] for line in told]
    assert [(line["path"], str(line["fieldId"]), line["dataType"]) for line in told] == [
        (row["column"], row["fieldId"], row["type"]) for row in listed
    ]


def test_the_statement_names_what_it_cannot_state() -> None:
    fields: list[dict[str, Any]] = [
        field(0, "a`b", "INT NOT NULL", description="it's"),
        field(1, "v", {"type": "VECTOR", "element": "FLOAT", "length": 4}),
        field(2, "d", "STRING", defaultValue="x\ny"),
        field(3, "n", NESTED),
    ]
    data = PaimonBuilder.content(fields, primaryKeys=["a`b"], partitionKeys=["d"], options={"k": "it's"}, comment="c")

    statement = create_table(read_schema(data), "t")

    assert [
        "-- not in Flink SQL: type of v: VECTOR",
        "-- not in Flink SQL: default value of d: x y",
        "CREATE TABLE `t` (",
        "  `a``b` INT NOT NULL COMMENT 'it''s',",
        "  `v` VECTOR<FLOAT, 4>,",
        "  `d` STRING,",
        "  `n` MAP<STRING NOT NULL, ARRAY<ROW<`a.b` INT 'c'>>>,",
        "  PRIMARY KEY (`a``b`) NOT ENFORCED",
        ") COMMENT 'c' PARTITIONED BY (`d`) WITH (",
        "  'k' = 'it''s'",
        ");",
    ] == statement.splitlines()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--schema-id", "7"], 3, "schema 7 does not exist"),
        (["--snapshot-id", "7"], 3, "snapshot 7 does not exist"),
        (["--tag", "x"], 3, "tag x does not exist"),
        (["--branch", "x"], 3, "branch 'x' does not exist"),
        (["--tag", "old", "--schema-id", "1"], 2, "exclude each other"),
        (["--version", "1"], 2, "--version works on Delta tables only"),
        (["--files"], 2, "--files works on Delta tables only"),
    ],
)
def test_a_point_that_does_not_exist_is_an_error(
    options: list[str], code: int, message: str, table: PaimonBuilder, capsys: Capture
) -> None:
    answer = ask(capsys, "snapshot", table.root, *options)

    assert (code, "", True) == (answer[0], answer[1], message in answer[2].splitlines()[0])
    assert "{" not in answer[2]


def test_a_misspelled_tag_is_answered_with_the_command_that_was_meant(table: PaimonBuilder, capsys: Capture) -> None:
    _, _, err = ask(capsys, "snapshot", table.root, "--tag", "odl")

    assert err.endswith(f"hint: deltacli snapshot {table.root} --tag old\n")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": 2}'])
def test_a_schema_that_cannot_be_read_is_an_error_that_names_the_file(
    content: bytes, table: PaimonBuilder, capsys: Capture
) -> None:
    table.write("schema/schema-2", content)

    code, out, err = ask(capsys, "snapshot", table.root)

    assert (3, "") == (code, out)
    assert "schema/schema-2" in err


def test_options_of_paimon_are_refused_on_a_delta_table(tmp_path: Path, capsys: Capture) -> None:
    table = TableBuilder().commits(1).write(tmp_path / "t")

    answers = [ask(capsys, "snapshot", table, *option) for option in (["--tag", "x"], ["--ddl"], ["--schema-id", "0"])]

    assert [2, 2, 2] == [code for code, _, _ in answers]
    assert "error: --tag works on Paimon tables only" == answers[0][2].splitlines()[0]


@pytest.mark.parametrize(
    "line",
    [
        "history nope --branch dev",
        "snapshot nope --schema-id 1",
        "vacuum nope --schemas",
        "alter nope drop a --with-options",
    ],
)
def test_a_missing_path_is_reported_before_its_format(line: str, tmp_path: Path) -> None:
    done = deltacli(*line.split(), cwd=tmp_path)

    assert (3, "error: nope: no such file or directory") == (done.code, done.err.splitlines()[0])


def test_every_point_of_the_corpus_can_be_shown(corpus: Path, capsys: Capture) -> None:
    for branch in branches():
        table, on = corpus / branch.table, ["--branch", branch.name]
        newest = document(capsys, "snapshot", table, *on)
        tagged = [document(capsys, "snapshot", table, *on, "--tag", tag)["schemaId"] for tag in branch.facts["tags"]]
        held = [
            document(capsys, "snapshot", table, *on, "--snapshot-id", one["id"]) for one in branch.facts["snapshots"]
        ]

        assert branch.facts["latest"] == newest["schemaId"]
        assert [fact["schemaId"] for fact in branch.facts["tags"].values()] == tagged
        assert [fact["schemaId"] for fact in branch.facts["snapshots"]] == [one["schemaId"] for one in held]

    assert 20 == len(manifest()["pypaimon"])


def test_statistics_that_cannot_be_read_are_named(table: PaimonBuilder, capsys: Capture) -> None:
    table.write("statistics/stat-1", b"{")

    found = document(capsys, "snapshot", table.root)
    _, out, _ = ask(capsys, "snapshot", table.root)

    assert [("statistics/stat-1", "paimon.bad-statistics")] == [(p["path"], p["rule"]) for p in found["problems"]]
    assert "statistics   cannot be read: statistics/stat-1: it is not JSON" in out
