"""Change data feeds and the files of a range of versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from tests.sharing.served import DELTA, Served, shared
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.altering import add as add_column
from tests.support.altering import drop
from tests.support.builder import TableBuilder
from tests.support.renamed_columns import make_renamed, replaced_table

FEED = {"delta.enableChangeDataFeed": "true"}


def _cdc(path: str, **values: str) -> Line:
    return {"cdc": {"path": path, "partitionValues": values, "size": 5, "dataChange": False}}


def _born(**fields: Any) -> list[Line]:  # Any: fields of the metadata
    return [protocol(1, 4), metadata(configuration=FEED, **fields)]


def _serve(table: TableBuilder, path: Path, **fields: Any) -> Served:  # Any: fields of the shared table
    return Served((shared(table.write(path), **fields),))


def _kinds(lines: list[Any]) -> list[str]:
    return [next(iter(line)) for line in lines]


def test_change_data_files_stand_for_their_commit(tmp_path: Path) -> None:
    table = (
        TableBuilder()
        .commit(*_born(), add("a", size=1))
        .commit(remove("a", dataChange=True), add("b", size=1), _cdc("_change_data/c"))
        .commit(add("d", size=1, dataChange=False), remove("b", dataChange=False))
        .commit(remove("d", dataChange=True))
    )
    served = _serve(table, tmp_path / "t")

    parquet = served.table("/changes?startingVersion=0")
    delta = served.table("/changes?startingVersion=0", delta_sharing_capabilities=DELTA)

    assert ["add", "cdf", "remove"] == _kinds(parquet.lines[2:])
    assert [0, 1, 3] == [next(iter(line.values()))["version"] for line in parquet.lines[2:]]
    assert {"url", "id", "partitionValues", "size", "timestamp", "version"} <= set(parquet.lines[3]["cdf"])
    assert ["add", "cdc", "remove"] == _kinds([line["file"]["deltaSingleAction"] for line in delta.lines[2:]])
    assert "0" == parquet.headers["delta-table-version"]
    assert {"enableChangeDataFeed": "true"} == parquet.lines[1]["metaData"]["configuration"]


def test_a_merge_that_changed_no_row_is_left_out(tmp_path: Path) -> None:
    metrics = {f"numTargetRows{what}": "0" for what in ("Inserted", "Updated", "Deleted")}
    table = (
        TableBuilder()
        .commit(*_born(), add("a", size=1))
        .commit(commit_info("MERGE", operationMetrics=metrics), remove("a", dataChange=True), add("b", size=1))
    )

    reply = _serve(table, tmp_path / "t").table("/changes?startingVersion=1")

    assert [] == reply.lines[2:]


@pytest.mark.parametrize(
    "query, status",
    [
        ("startingVersion=0&endingVersion=99", 200),
        ("startingTimestamp=2023-11-14T22:13:21Z&endingTimestamp=2023-11-14T22:13:22Z", 200),
        ("endingVersion=1", 400),
        ("startingVersion=2&endingVersion=1", 400),
        ("startingVersion=9", 400),
        ("startingVersion=x", 400),
        ("startingVersion=0&startingTimestamp=2023-11-14T22:13:21Z", 400),
        ("startingTimestamp=2023-11-14", 400),
        ("startingVersion=0&includeHistoricalMetadata=maybe", 400),
        ("startingVersion=0&maxFiles=0", 400),
    ],
)
def test_ranges(tmp_path: Path, query: str, status: int) -> None:
    table = TableBuilder().commit(*_born(), add("a", size=1)).commit(add("b", size=1)).commit(add("c", size=1))

    reply = _serve(table, tmp_path / "t").table(f"/changes?{query}")

    assert status == reply.status


def test_a_feed_must_be_on_in_the_whole_range(tmp_path: Path) -> None:
    table = (
        TableBuilder()
        .commit(*_born(), add("a", size=1))
        .commit(metadata(configuration={}), add("b", size=1))
        .commit(metadata(configuration=FEED), add("c", size=1))
    )
    served = _serve(table, tmp_path / "t")

    statuses = [served.table(f"/changes?{query}").status for query in ("startingVersion=0", "startingVersion=2")]
    before = served.table("/changes?startingVersion=0&endingVersion=0").status

    assert [400, 200, 200] == [*statuses, before]


def test_metadata_of_later_versions_comes_before_their_files_if_asked_for(tmp_path: Path) -> None:
    table = (
        TableBuilder()
        .commit(*_born(name="old"), add("a", size=1))
        .commit(metadata(configuration=FEED, name="new"), add("b", size=1))
        .commit(protocol(1, 5))
    )
    served = _serve(table, tmp_path / "t")

    plain = served.table("/changes?startingVersion=0", delta_sharing_capabilities=DELTA)
    asked = served.table(
        "/changes?startingVersion=0&includeHistoricalMetadata=true&includeHistoricalProtocol=true",
        delta_sharing_capabilities=DELTA,
    )

    assert ["protocol", "metaData", "file", "file"] == _kinds(plain.lines)
    assert ["protocol", "metaData", "file", "metaData", "file", "protocol"] == _kinds(asked.lines)
    names = [line["metaData"]["deltaMetadata"]["name"] for line in asked.lines if "metaData" in line]
    assert ["old", "new"] == names
    assert (0, "new") == (plain.lines[1]["metaData"]["version"], plain.lines[1]["metaData"]["deltaMetadata"]["name"])
    assert [1, 2] == [asked.lines[3]["metaData"]["version"], asked.lines[5]["protocol"]["version"]]


def test_removed_files_have_the_partition_values_of_their_adds(tmp_path: Path) -> None:
    schema = '{"type":"struct","fields":[{"name":"P","type":"string","nullable":true,"metadata":{}}]}'
    table = (
        TableBuilder()
        .commit(*_born(schema_string=schema, partition_columns=["P"]), add("a", size=1, partition_values={"p": "x"}))
        .commit(remove("a", dataChange=True))
    )
    served = _serve(table, tmp_path / "t")

    reply = served.table("/changes?startingVersion=0")

    assert {"P": "x"} == reply.lines[2]["add"]["partitionValues"] == reply.lines[3]["remove"]["partitionValues"]


@pytest.mark.parametrize("query", ["/changes?startingVersion=1", "/query"])
def test_a_removed_file_has_its_size_from_the_log_or_from_the_store(query: str, tmp_path: Path) -> None:
    table = (
        TableBuilder()
        .commit(*_born(), add("a", size=4), add("b", size=7))
        .commit(*_born(), remove("a", dataChange=True), remove("b", dataChange=True))
    )
    path = table.write(tmp_path / "t")
    (path / "b").write_bytes(b"0123456")
    cut = TableBuilder().commit(*_born(), remove("b", dataChange=True), remove("gone", dataChange=True))
    whole, broken = Served((shared(path),)), Served((shared(cut.write(tmp_path / "cut")),))
    (tmp_path / "cut" / "b").write_bytes(b"0123456")

    def asked(served: Served, start: int, **headers: str) -> Any:  # Any: an answer
        if query == "/query":
            return served.query(b'{"startingVersion":%d}' % start, **headers)
        return served.table(f"/changes?startingVersion={start}", **headers)

    sizes = [line["remove"]["size"] for line in asked(whole, 1).lines if "remove" in line]
    refused, in_delta = asked(broken, 0), asked(broken, 0, delta_sharing_capabilities=DELTA)
    both = asked(broken, 0, delta_sharing_capabilities="responseformat=delta,parquet")

    assert [4, 7] == sizes
    assert (400, 200, 200) == (refused.status, in_delta.status, both.status)
    assert "responseformat=delta" in refused.json["message"]
    actions = [line["file"]["deltaSingleAction"]["remove"] for line in in_delta.lines[2:]]
    assert [None, None] == [action.get("size") for action in actions]


def test_a_query_since_a_version_has_added_and_removed_files(tmp_path: Path) -> None:
    table = (
        TableBuilder()
        .commit(*_born(), add("a", size=1))
        .commit(remove("a", dataChange=True), add("b", size=1), _cdc("_change_data/c"))
        .commit(metadata(configuration={}, name="new"))
    )

    reply = _serve(table, tmp_path / "t").query(b'{"startingVersion":0}')

    assert ["protocol", "metaData", "add", "add", "remove", "metaData"] == _kinds(reply.lines)


def test_a_range_whose_commits_are_gone_is_refused(tmp_path: Path) -> None:
    table = TableBuilder().commit(*_born(), add("a", size=1)).commit(add("b", size=1)).commit(add("c", size=1))
    path = table.checkpoint(1).write(tmp_path / "t")
    (path / "_delta_log/00000000000000000000.json").unlink()
    (path / "_delta_log/00000000000000000001.json").unlink()
    served = Served((shared(path),))

    replies = [served.table(f"/changes?startingVersion={version}") for version in (0, 1, 2)]

    assert [400, 400, 200] == [reply.status for reply in replies]


def test_a_feed_across_a_mapping_that_was_removed_needs_the_metadata_in_between(tmp_path: Path) -> None:
    """Without it, a client reads older files by names that are those of other columns now."""
    make_renamed(tmp_path / "t")
    assert 10 == open_table(tmp_path / "t").drop_features("columnMapping").versions[0]
    served = Served((shared(tmp_path / "t"),))

    def ask(query: str) -> Any:  # Any: a reply
        return served.table(f"/changes?{query}", delta_sharing_capabilities=DELTA)

    for query in ("startingVersion=0", "startingVersion=1&endingVersion=12", "startingVersion=9&endingVersion=10"):
        assert 400 == ask(query).status, query
        assert b"version 10 removed column mapping" in ask(query).body
        assert 200 == ask(f"{query}&includeHistoricalMetadata=true").status, query
    assert b"until version 9 and for those from version 10 on" in ask("startingVersion=0").body
    assert [200, 200] == [ask(query).status for query in ("startingVersion=0&endingVersion=9", "startingVersion=10")]
    needs = ask("startingVersion=0&includeHistoricalMetadata=true").lines[0]["protocol"]["deltaProtocol"]
    assert ["columnMapping"] == needs["readerFeatures"]


def test_a_feed_across_a_table_that_was_replaced_is_refused_for_the_parquet_format(tmp_path: Path) -> None:
    served = Served((shared(replaced_table("a", "b", "b").write(tmp_path / "t")),))

    def ask(query: str) -> list[int]:
        replies = [
            served.table(f"/changes?{query}&includeHistoricalMetadata=true", **how)
            for how in ({}, {"delta_sharing_capabilities": DELTA})
        ]
        return [reply.status for reply in replies]

    assert [[400, 200], [400, 400], [200, 200], [200, 200]] == [
        ask(query)
        for query in (
            "startingVersion=0",
            "startingVersion=1",
            "startingVersion=2",
            "startingVersion=0&endingVersion=0",
        )
    ]


def test_a_feed_across_a_column_dropped_and_added_in_one_commit_needs_the_metadata_in_between(tmp_path: Path) -> None:
    make_renamed(tmp_path / "t")
    assert 10 == open_table(tmp_path / "t").alter([drop("a"), add_column("a", "string")]).committed_version
    served = Served((shared(tmp_path / "t"),))

    replies = [
        served.table(f"/changes?startingVersion={query}", delta_sharing_capabilities=DELTA).status
        for query in ("8", "8&includeHistoricalMetadata=true", "8&endingVersion=9", "10")
    ]

    assert [400, 200, 200, 200] == replies
