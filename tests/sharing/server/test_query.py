"""Versions, metadata and files of a table, in both formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from tests.sharing.served import DELTA, NOW_MS, SETTINGS, Served, shared, urls_of
from tests.support.actions import add, birth, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder
from tests.support.rows import parquet_bytes, schema_of, table_of

PLAIN = pa.table({"id": pa.array([1, 2, 3]), "name": ["a", "b", "\u2028é"]})


@pytest.fixture
def plain(tmp_path: Path) -> Served:
    """A server of a table with one file, whose name needs an escape, and of one with commits only."""
    table = table_of({"a b%2525.parquet": parquet_bytes(PLAIN)}, schema_of(PLAIN))
    table.file("a b%25.parquet", parquet_bytes(PLAIN))
    TableBuilder().commits(9).checkpoint(5).write(tmp_path / "many")
    return Served((shared(table.write(tmp_path / "t")), shared(tmp_path / "many", "many")))


@pytest.mark.parametrize("path, method", [("/version", "GET"), ("/version", "HEAD"), ("", "HEAD")])
def test_version_is_a_header(plain: Served, path: str, method: str) -> None:
    reply = plain.table(path, "many", method=method)

    assert (200, "8", b"") == (reply.status, reply.headers["delta-table-version"], reply.body)


def test_version_since_a_time_is_the_first_at_or_after_it(plain: Served) -> None:
    exact = plain.table("/version?startingTimestamp=2023-11-14T22:13:23Z", "many")  # the time of version 3
    later = plain.table("/version?startingTimestamp=2023-11-14T22:13:23.000001Z", "many")
    before = plain.table("/version?startingTimestamp=2001-01-01T00:00:00Z", "many")
    after = plain.table("/version?startingTimestamp=2030-01-01T00:00:00Z", "many")

    assert ["3", "4", "0"] == [reply.headers["delta-table-version"] for reply in (exact, later, before)]
    assert 400 == after.status


def test_version_since_a_time_before_a_cleaned_log_is_the_oldest_one_that_can_be_read(tmp_path: Path) -> None:
    TableBuilder().commits(9).checkpoint(5).write(tmp_path / "t")
    for number in range(5):
        (tmp_path / "t" / "_delta_log" / f"{number:020d}.json").unlink()
    served = Served((shared(tmp_path / "t"),))

    early = served.table("/version?startingTimestamp=2001-01-01T00:00:00Z")
    feed = served.table("/changes?startingTimestamp=2001-01-01T00:00:00Z")

    assert (200, "5") == (early.status, early.headers["delta-table-version"])
    assert 400 == feed.status  # changes that are gone must not look like no changes


def test_a_version_that_is_missing_from_the_log_is_not_the_first_since_a_time(tmp_path: Path) -> None:
    TableBuilder().commits(9).checkpoint(5).write(tmp_path / "t")
    (tmp_path / "t" / "_delta_log" / f"{3:020d}.json").unlink()
    served = Served((shared(tmp_path / "t"),))

    inside = served.table("/version?startingTimestamp=2023-11-14T22:13:22.500Z")
    behind = served.table("/version?startingTimestamp=2023-11-14T22:13:24.500Z")

    assert 400 == inside.status
    assert "version 3 is missing from the log" in inside.body.decode()
    assert (200, "5") == (behind.status, behind.headers["delta-table-version"])


def test_a_log_without_versions_has_no_version_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.crc").write_text("{}")
    served = Served((shared(tmp_path / "t"),))

    replies = [
        served.table("/version"),
        served.table("/version"),
        served.table("/version?startingTimestamp=2001-01-01T00:00:00Z"),
    ]

    assert [400] * 3 == [reply.status for reply in replies]
    assert {"RESOURCE_DOES_NOT_EXIST"} == {reply.json["errorCode"] for reply in replies}


def test_query_in_parquet_format_leads_to_the_file(plain: Served) -> None:
    reply = plain.query()

    head, about, file = reply.lines
    assert {"protocol": {"minReaderVersion": 1}} == head
    assert ({"provider": "parquet"}, [], 1) == (
        about["metaData"]["format"],
        about["metaData"]["partitionColumns"],
        about["metaData"]["numFiles"],
    )
    assert {"url", "id", "partitionValues", "size", "expirationTimestamp"} <= set(file["file"])
    assert "version" not in file["file"]
    assert NOW_MS + 3_600_000 == file["file"]["expirationTimestamp"]
    assert "responseformat=parquet" == reply.headers["delta-sharing-capabilities"]
    assert "application/x-ndjson; charset=utf-8" == reply.headers["content-type"]
    assert parquet_bytes(PLAIN) == plain.get(urls_of(reply)[0]).body


def test_query_in_delta_format_has_the_actions_of_the_log(plain: Served) -> None:
    reply = plain.query(delta_sharing_capabilities=DELTA)

    head, about, file = reply.lines
    assert {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": []} == head["protocol"]["deltaProtocol"]
    assert {"id", "format", "schemaString", "partitionColumns"} <= set(about["metaData"]["deltaMetadata"])
    action = file["file"]["deltaSingleAction"]["add"]
    assert {"path", "partitionValues", "size", "modificationTime", "dataChange"} <= set(action)
    assert "responseformat=delta" == reply.headers["delta-sharing-capabilities"]
    assert 200 == plain.get(urls_of(reply)[0]).status


def test_answers_are_ascii_and_repeat_byte_for_byte(tmp_path: Path) -> None:
    line = add("p.parquet", size=1, stats=json.dumps({"numRecords": 1, "minValues": {"n": "\u2028\x0bé\U0001f600\\"}}))
    table = TableBuilder().commit(*birth(description="é\u2028"), line)
    served = Served((shared(table.write(tmp_path / "t")),))

    first, second = (served.query(delta_sharing_capabilities=DELTA) for _ in range(2))

    assert first.body.isascii()
    assert 3 == len(first.body.decode().splitlines())
    assert first.body == second.body
    stats = first.lines[2]["file"]["deltaSingleAction"]["add"]["stats"]
    assert "\u2028\x0bé\U0001f600\\" == json.loads(stats)["minValues"]["n"]


def test_a_chosen_version_names_itself_and_its_time(plain: Served) -> None:
    by_number = plain.query(b'{"version":3}', "many")
    by_time = plain.query(b'{"timestamp":"2023-11-14T22:13:23.500Z"}', "many")

    assert "3" == by_number.headers["delta-table-version"] == by_time.headers["delta-table-version"]
    assert {3} == {line["file"]["version"] for line in by_number.lines[2:]}
    assert 1_700_000_003_000 == by_number.lines[2]["file"]["timestamp"]
    assert 3 == by_number.lines[1]["metaData"]["version"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"version":9}',
        b'{"version":-1}',
        b'{"version":1,"timestamp":"2023-11-14T22:13:23Z"}',
        b'{"timestamp":"2030-01-01T00:00:00Z"}',
        b'{"timestamp":"2001-01-01T00:00:00Z"}',
        b'{"timestamp":"yesterday"}',
        b'{"startingVersion":3,"endingVersion":2}',
        b'{"endingVersion":2}',
        b'{"startingVersion":9}',
        b'{"startingVersion":1,"endingVersion":10}',
        b'{"startingVersion":1,"version":1}',
        b'{"limitHint":"many"}',
        b'{"predicateHints":"a = 1"}',
        b'{"version":1e400}',
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(plain: Served, body: bytes) -> None:
    reply = plain.query(body, "many")

    assert 400 == reply.status
    assert {"errorCode", "message"} == set(reply.json)


def test_history_that_is_not_shared_cannot_be_read(tmp_path: Path) -> None:
    path = TableBuilder().commits(9).write(tmp_path / "t")
    closed = Served((shared(path, history_shared=False), shared(path, "late", start_version=5)))

    refused = [
        closed.query(b'{"version":8}'),
        closed.query(b'{"startingVersion":8}'),
        closed.table("/changes?startingVersion=8"),
        closed.table("/metadata?version=8"),
        closed.table("/version?startingTimestamp=2023-11-14T22:13:23Z"),
        closed.query(b'{"version":4}', "late"),
        closed.query(b'{"startingVersion":4}', "late"),
    ]
    open_to_all = [closed.query(), closed.query(b'{"version":5}', "late")]

    assert {400} == {reply.status for reply in refused}
    assert {200} == {reply.status for reply in open_to_all}


def test_a_time_before_the_shared_history_chooses_no_version(tmp_path: Path) -> None:
    table = TableBuilder().commit(*birth(configuration={"delta.enableChangeDataFeed": "true"}))
    for _ in range(8):
        table = table.commit(add("a", size=1))
    served = Served((shared(table.write(tmp_path / "t"), start_version=5),))

    replies = [
        served.table(f"/{what}?startingTimestamp={moment}")
        for what in ("version", "changes")
        for moment in ("2001-01-01T00:00:00Z", "2023-11-14T22:13:24Z", "2023-11-14T22:13:25Z")
    ]

    assert [400, 400, 200] * 2 == [reply.status for reply in replies]
    assert "version 4, and the first shared version is 5" in replies[1].json["message"]
    assert ["5", "5"] == [reply.headers["delta-table-version"] for reply in (replies[2], replies[5])]


def test_a_time_before_a_cleaned_log_is_refused_where_what_is_left_is_not_shared(tmp_path: Path) -> None:
    TableBuilder().commits(9).checkpoint(5).write(tmp_path / "t")
    for number in range(5):
        (tmp_path / "t" / "_delta_log" / f"{number:020d}.json").unlink()
    served = Served((shared(tmp_path / "t", start_version=6),))

    assert 400 == served.table("/version?startingTimestamp=2001-01-01T00:00:00Z").status


@pytest.mark.parametrize("name", ["timestamp", "version", "startingVersion", "endingVersion", "limitHint", "maxFiles"])
def test_an_empty_value_of_a_query_is_refused_not_taken_for_absent(plain: Served, name: str) -> None:
    reply = plain.query(json.dumps({name: ""}).encode(), "many")

    assert (400, "INVALID_PARAMETER_VALUE") == (reply.status, reply.json["errorCode"])
    assert name in reply.json["message"]
    assert 200 == plain.query(json.dumps({name: None}).encode(), "many").status  # clients send null for absent


@pytest.mark.parametrize(
    "target",
    [
        "/version?startingTimestamp=",
        "/metadata?version=",
        "/metadata?timestamp=",
        "/changes?startingVersion=0&endingVersion=",
        "/changes?startingVersion=0&endingTimestamp=",
        "/changes?startingTimestamp=",
        "/changes?startingVersion=0&includeHistoricalMetadata=",
        "/changes?startingVersion=0&maxFiles=",
    ],
)
def test_an_empty_parameter_is_refused_by_its_name(plain: Served, target: str) -> None:
    reply = plain.table(target, "many")

    assert (400, "INVALID_PARAMETER_VALUE") == (reply.status, reply.json["errorCode"])
    assert target.rpartition("?")[2].removesuffix("=").rpartition("&")[2] in reply.json["message"]


def test_the_limit_of_nesting_applies_to_queries_not_to_texts_in_them(tmp_path: Path) -> None:
    limits = replace(SETTINGS.limits, json_depth=3)
    path = TableBuilder().commits(2).write(tmp_path / "t")
    served = Served((shared(path),), options={"limits": limits})

    statuses = [served.query(body).status for body in (b'{"a":[[1]]}', b'{"a":[[[1]]]}', b'{"a":"[[[[[["}')]

    assert [200, 400, 200] == statuses
    assert "nested more than 3 levels" in served.query(b'{"a":[[[1]]]}').json["message"]


def test_an_unknown_table_and_an_empty_directory_are_client_errors(tmp_path: Path) -> None:
    served = Served((shared(tmp_path / "gone"),))

    assert (404, "RESOURCE_DOES_NOT_EXIST") == (served.query(name="no").status, served.query().json["errorCode"])
    assert 400 == served.query().status
    assert str(tmp_path) not in served.query().body.decode()


def test_files_outside_the_table_are_never_shared(tmp_path: Path) -> None:
    (tmp_path / "secret.parquet").write_bytes(b"secret")
    bodies = []
    for number, path in enumerate(
        ("../secret.parquet", f"file://{tmp_path}/secret.parquet", "a/%2e%2e/%2e%2e/secret.parquet")
    ):
        table = TableBuilder().commit(*birth(), add(path, size=6))
        bodies.append(Served((shared(table.write(tmp_path / f"t{number}")),)).query())

    assert [400] * 3 == [reply.status for reply in bodies]
    assert {"UNSUPPORTED_OPERATION"} == {reply.json["errorCode"] for reply in bodies}


def test_a_table_that_needs_features_names_them_and_the_way_out(tmp_path: Path) -> None:
    schema = json.dumps(
        {
            "type": "struct",
            "fields": [
                {
                    "name": "id",
                    "type": "timestamp_ntz",
                    "nullable": True,
                    "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
                }
            ],
        }
    )
    features = ["columnMapping", "timestampNtz", "v2Checkpoint"]
    table = TableBuilder().commit(
        protocol(3, 7, reader_features=features, writer_features=[*features, "inCommitTimestamp"]),
        metadata(schema_string=schema, configuration={"delta.columnMapping.mode": "name"}),
    )
    served = Served((shared(table.write(tmp_path / "t")),))

    parquet = served.query()
    lacking = served.query(delta_sharing_capabilities="responseformat=delta;readerfeatures=columnmapping")
    both = served.query(delta_sharing_capabilities=DELTA.replace("=delta", "=delta,parquet", 1))

    assert "column mapping" in parquet.json["message"]
    assert "use_delta_format=True" in parquet.json["message"]
    assert "timestampNtz" in lacking.json["message"]
    assert "columnMapping" not in lacking.json["message"].partition(",")[0]
    handed_out = both.lines[0]["protocol"]["deltaProtocol"]
    assert ["columnMapping", "timestampNtz"] == handed_out["readerFeatures"] == handed_out["writerFeatures"]


def test_ids_of_files_are_hashes_of_the_wanted_kind(plain: Served) -> None:
    replies = [plain.query(), plain.query(fileidhash="Delta"), plain.query(delta_sharing_capabilities=DELTA)]
    ids = [reply.lines[2]["file"]["id"] for reply in replies]
    refused = plain.query(fileidhash="sha1")

    assert [32, 64, 64] == list(map(len, ids))
    assert ids[1] == ids[2]
    assert "delta" == plain.query(fileidhash="Delta").headers["fileidhash"]
    assert 400 == refused.status


def test_the_end_is_told_only_to_clients_that_asked(plain: Served) -> None:
    silent = plain.query()
    asked = plain.query(delta_sharing_capabilities="responseformat=parquet;includeEndStreamAction=true")

    assert ["protocol", "metaData", "file"] == [next(iter(line)) for line in silent.lines]
    assert {"minUrlExpirationTimestamp": NOW_MS + 3_600_000} == asked.lines[-1]["endStreamAction"]
    assert "includeendstreamaction=true" in asked.headers["delta-sharing-capabilities"]


def test_new_commits_are_seen_and_read_as_after_a_rebuild(tmp_path: Path) -> None:
    builder = TableBuilder().commits(3)
    served = Served((shared(builder.write(tmp_path / "t")),))
    served.query()
    builder.commits(2).commit(commit_info(), remove("part-00003.parquet"), add("part-00001.parquet", size=7))
    builder.write(tmp_path / "t")

    reply = served.query(delta_sharing_capabilities=DELTA)

    live = sorted(
        (row["path"], row["size"])
        for batch in open_table(tmp_path / "t").snapshot().files()
        for row in batch.to_pylist()
    )
    assert len(live) == reply.lines[1]["metaData"]["numFiles"]
    assert sorted(size for _, size in live) == sorted(
        line["file"]["deltaSingleAction"]["add"]["size"] for line in reply.lines[2:]
    )
    assert (1, 1) == (served.snapshots.use.rebuilt, served.snapshots.use.refreshed)


def test_a_table_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    TableBuilder().commits(3).write(tmp_path / "t")
    served = Served((shared(tmp_path / "t"),))
    served.query()
    other = TableBuilder().commit(*birth(name="another"), add("x.parquet", size=1))
    for number in range(4):
        other.commit(commit_info(), add(f"{number}.parquet", size=1), modified_ms=NOW_MS + number)
    other.write(tmp_path / "t")

    reply = served.query()

    assert "another" == reply.lines[1]["metaData"]["name"]
    assert 0 == served.snapshots.use.refreshed
