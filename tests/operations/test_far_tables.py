"""Tables on S3: the same answers as on a disk, for as few requests as they need, several of them at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage import Existed, Storage, open_storage
from deltacli.table.find_log import find_log
from tests.cli.support import deltacli
from tests.support.actions import commit_info, to_bytes
from tests.support.builder import LOG, TableBuilder, commit_path
from tests.support.checkpoints import CheckpointKind
from tests.support.optimizing import Ids
from tests.support.reading import open_at
from tests.support.s3 import S3Server
from tests.support.storage import FAR, RecordingStorage
from tests.support.waiting import run_together


def upload(builder: TableBuilder, s3: S3Server) -> str:
    """Put a table into a bucket of its own and return its URI."""
    bucket = s3.make_bucket()
    for path, file in builder.files.items():
        s3.put(bucket, f"lake/trips/{path}", file.data)
    return f"s3://{bucket}/lake/trips"


@pytest.fixture
def hinted(table_builder: TableBuilder) -> TableBuilder:
    """Twenty-four versions, a checkpoint at 20 and a hint that says so."""
    return table_builder.commits(21).checkpoint().hint(20).commits(3)


@pytest.fixture(params=["memory", "s3"])
def far(request: pytest.FixtureRequest, hinted: TableBuilder) -> RecordingStorage:
    """The table on a far store that counts."""
    if request.param == "memory":
        return RecordingStorage(hinted.in_memory(), capabilities=FAR, meet=2)
    s3: S3Server = request.getfixturevalue("s3")
    return RecordingStorage(open_storage(upload(hinted, s3)), meet=2)


def test_opening_a_table_reads_the_hint_lists_once_and_takes_what_it_needs(far: RecordingStorage) -> None:
    snapshot = open_at(far).snapshot()

    assert (23, 20) == (snapshot.version, snapshot.segment.checkpoint and snapshot.segment.checkpoint.version)
    assert [f"{LOG}/{20:020d}."] == far.touched("list_from")
    assert [f"{LOG}/_last_checkpoint"] == far.touched("read_range")
    assert [commit_path(version) for version in (21, 22, 23)] == sorted(far.touched("read"))
    assert {f"{LOG}/{20:020d}.checkpoint.parquet"} == set(far.touched("open"))
    assert {"list_from", "read", "read_range", "open"} == set(far.calls)


def test_opening_a_table_on_s3_asks_for_one_page(hinted: TableBuilder, s3: S3Server) -> None:
    storage = open_storage(upload(hinted, s3))

    open_at(storage).snapshot()

    assert 1 == s3.asked("GET", "list-type")
    files = [f"{LOG}/_last_checkpoint", f"{LOG}/{20:020d}.checkpoint.parquet", *map(commit_path, (21, 22, 23))]
    read = [path.partition("/lake/trips/")[2] for _, path, query in s3.requests if "list-type" not in query]
    assert sorted(files) == sorted(read)
    assert {"GET"} == {method for method, _, _ in s3.requests}


@pytest.fixture(scope="module")
def long_log(s3_server: S3Server) -> str:
    """A table of ten thousand commits on S3."""
    bucket = s3_server.make_bucket()
    for version in range(10_000):
        data = to_bytes([commit_info("WRITE", operationParameters={"mode": str(version)})])
        s3_server.put(bucket, f"t/{commit_path(version)}", data)
    return f"s3://{bucket}/t"


@pytest.mark.long
def test_twenty_of_ten_thousand_commits_cost_twenty_reads_several_at_a_time(long_log: str, s3: S3Server) -> None:
    storage = RecordingStorage(open_storage(long_log), meet=16)

    history = open_at(storage).history(limit=20)

    wanted = range(9_999, 9_979, -1)
    assert list(wanted) == [item.version for item in history.items]
    assert 10_000 == history.total
    assert {commit_path(version) for version in wanted} == set(storage.touched("read"))
    assert {"list_from": 1, "read": 20} == storage.calls
    assert (10, 30) == (s3.asked("GET", "list-type"), len(s3.requests))


def test_a_table_with_sidecars_has_the_same_state_on_s3(
    table_builder: TableBuilder, s3: S3Server, tmp_path: Path
) -> None:
    builder = table_builder.commits(12).checkpoint(None, CheckpointKind.V2_PARQUET).hint(11).commits(4)
    near, far = open_at(builder.in_memory()), open_at(open_storage(upload(builder, s3)))

    assert near.snapshot().counts() == far.snapshot().counts()
    assert find_log(near.storage).listing.newest_version == find_log(far.storage).listing.newest_version


def test_a_small_file_is_read_in_one_request_to_judge_and_one_to_rewrite_it(s3: S3Server) -> None:
    far = open_at(open_storage(upload(Ids().append("a", "b", rows=40_000).builder, s3)))

    far.optimize()

    assert {"a": 2, "b": 2} == {name: s3.asked("GET", f"/lake/trips/{name}") for name in ("a", "b")}


def without_place(document: Any) -> Any:  # Any: JSON
    """A document without what differs by nature: where the table lies, and file times."""
    if isinstance(document, dict):
        return {
            name: without_place(value)
            for name, value in document.items()
            if name not in ("table", "timestamp", "timestampMs", "timestampSource")
        }
    return [without_place(value) for value in document] if isinstance(document, list) else document


@pytest.mark.parametrize(
    "words",
    [
        ("history", "--counts", "--json"),
        ("snapshot", "--digest", "--json"),
        ("snapshot", "--version", "3", "--json"),
        ("snapshot", "--schema", "--json"),
        ("snapshot", "--files", "--json"),
    ],
    ids=" ".join,
)
def test_the_command_line_reports_the_same_for_a_table_on_s3(
    words: tuple[str, ...], hinted: TableBuilder, s3: S3Server, tmp_path: Path
) -> None:
    command, *options = words
    near = deltacli(command, hinted.write(tmp_path), *options)
    far = deltacli(command, upload(hinted, s3), *options)

    assert (0, 0, "", "") == (near.code, far.code, near.err, far.err)
    assert without_place(near.document) == without_place(far.document)


def test_an_empty_place_is_not_a_table(s3: S3Server) -> None:
    bucket = s3.make_bucket()

    empty = deltacli("snapshot", f"s3://{bucket}/t", "--json")
    no_bucket = deltacli("history", f"s3://{bucket}-2/t", "--json")

    assert (3, "table.path-missing") == (empty.code, empty.error["code"])
    assert (7, "storage.bucket-missing") == (no_bucket.code, no_bucket.error["code"])


@pytest.mark.long
def test_no_secret_is_printed_at_any_verbosity(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = s3.environment["AWS_SECRET_ACCESS_KEY"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{secret}@127.0.0.1:1")

    for flags in ((), ("-v",), ("-vv",), ("-vv", "--json")):
        for uri in ("s3://bucket/t", f"s3://me:{secret}@bucket/t"):
            result = deltacli("history", uri, *flags)

            assert result.code in (2, 7)
            assert secret not in result.out + result.err


def commit_once(uri: str, racer: int, together: Any, answers: Any) -> None:
    """Take part in the race for version 24."""
    data = to_bytes([commit_info("WRITE", txnId=f"racer {racer}")])
    storage = open_storage(uri)
    together.wait()
    answers.put((racer, type(storage.put_if_absent(commit_path(24), data)).__name__))


@pytest.fixture(params=["local", "s3"])
def contested(request: pytest.FixtureRequest, hinted: TableBuilder, tmp_path: Path) -> Storage:
    """A table that processes can open by its URI."""
    uri = str(hinted.write(tmp_path)) if request.param == "local" else upload(hinted, request.getfixturevalue("s3"))
    return open_storage(uri)


@pytest.mark.long
def test_of_processes_that_commit_one_version_one_wins_and_can_be_read_back(contested: Storage) -> None:
    outcomes = dict(run_together([(commit_once, (contested.uri, racer)) for racer in range(3)]))

    winners = [racer for racer, outcome in outcomes.items() if outcome == "Created"]
    assert ["Created", "Existed", "Existed"] == sorted(outcomes.values())
    newest = json.loads(contested.read(commit_path(24)).splitlines()[0])
    assert [f"racer {winner}" for winner in winners] == [newest["commitInfo"]["txnId"]]
    assert 24 == open_at(contested).history(limit=1).items[0].version
    assert Existed() == contested.put_if_absent(commit_path(24), b"late")
