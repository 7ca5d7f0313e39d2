"""History: every commit file, whatever else the log lacks, for the price of one listing and the first lines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from deltacli.core.errors import NotATable
from deltacli.delta.log.segment import CommitTime, TimestampSource
from tests.support import damage
from tests.support.actions import add, birth, commit_info, metadata, protocol, remove, to_bytes
from tests.support.builder import EPOCH_MS, LOG, Damage, TableBuilder
from tests.support.checkpoints import CheckpointKind
from tests.support.reading import open_at, open_built
from tests.support.storage import FAR, RecordingStorage


def test_commits_come_newest_first(table_builder: TableBuilder) -> None:
    history = open_built(table_builder.commits(4)).history()

    assert [3, 2, 1, 0] == [item.version for item in history.items]
    assert history.is_complete


def test_a_limit_is_applied_and_marked(table_builder: TableBuilder) -> None:
    history = open_built(table_builder.commits(12)).history(limit=3)

    assert [11, 10, 9] == [item.version for item in history.items]
    assert (12, False) == (history.total, history.is_complete)


def test_a_range_is_given_by_versions_or_times(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(6))
    committed = table.history().items[1].time
    assert committed is not None
    time = datetime.fromtimestamp(committed.timestamp_ms / 1_000, UTC)

    assert [4, 3, 2] == [item.version for item in table.history(from_version=2, to_timestamp=time).items]
    assert [5, 4] == [item.version for item in table.history(from_timestamp=time).items]
    assert [3] == [item.version for item in table.history(to_version=3, limit=1).items]


def test_history_never_opens_a_checkpoint_and_lists_once(table_builder: TableBuilder) -> None:
    for kind in CheckpointKind:
        table_builder.commits(3).checkpoint(None, kind)
    builder = table_builder.commits(2).hint(23)
    storage = RecordingStorage(builder.in_memory())

    open_at(storage).history(counts=True)

    assert 1 == storage.calls["list_from"]
    assert 0 == storage.calls["open"]
    assert {f"{LOG}/{version:020d}.json" for version in range(26)} == set(storage.touched("read", "read_range"))


def test_history_of_a_far_store_is_the_same(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(30)
    near, far = open_built(builder), open_at(RecordingStorage(builder.in_memory(), capabilities=FAR))

    assert near.history(counts=True).items == far.history(counts=True).items


def test_a_large_commit_costs_its_two_ends_alone(table_builder: TableBuilder) -> None:
    many = [add(f"part-{number}.parquet", size=1) for number in range(5_000)]
    builder = table_builder.commit(commit_info("WRITE"), *birth(), *many)
    storage = RecordingStorage(builder.in_memory())

    items = open_at(storage).history().items

    assert ["WRITE"] == [item.operation for item in items]
    assert storage.bytes_read <= 2 * 8_192


def test_a_first_line_longer_than_a_block_is_read_to_its_end(table_builder: TableBuilder) -> None:
    long = commit_info("MERGE", operationParameters={"predicate": "x" * 50_000})
    builder = table_builder.commit(long, *birth(), *(add(f"f{number}") for number in range(2_000)))
    storage = RecordingStorage(builder.in_memory())

    item = open_at(storage).history().items[0]

    assert long["commitInfo"] == item.commit_info
    assert storage.bytes_read < len(builder.files[f"{LOG}/{0:020d}.json"].data)


@pytest.mark.parametrize("fill", [0, 3_000], ids=["small", "beyond the first block"])
def test_provenance_is_found_on_any_line(fill: int, table_builder: TableBuilder) -> None:
    """
    Last, and only as the last one counts as an in-commit timestamp: that must be first.
    """
    lines = [*birth(), *(add(f"part-{number}.parquet") for number in range(fill))]
    builder = table_builder.commit(*lines, commit_info("DELETE", inCommitTimestamp=5))

    item = open_built(builder).history().items[0]

    assert "DELETE" == item.operation
    assert CommitTime(EPOCH_MS, TimestampSource.FILE) == item.time
    assert 5 == item.as_json()["inCommitTimestampMs"]


def test_a_commit_without_provenance_is_an_item_without_an_operation(table_builder: TableBuilder) -> None:
    item = open_built(table_builder.commit(*birth(), add("a"))).history().items[0]

    assert (None, None, None) == (item.commit_info, item.operation, item.problem)
    assert not item.as_json()["hasCommitInfo"]
    assert "operation" not in item.as_json()


def test_provenance_is_given_as_found(table_builder: TableBuilder) -> None:
    """
    Metrics are text for Spark and numbers for others; parameters are text that holds JSON, or JSON.
    """
    fields = {
        "timestamp": 17,
        "userId": "u",
        "operationParameters": {"mode": "Append", "partitionBy": ["a"], "x": None},
        "operationMetrics": {"numFiles": "1", "numOutputRows": 2},
        "readVersion": 0,
        "isBlindAppend": False,
        "engineInfo": "e\u2028",
        "txnId": "t",
        "unknownField": {"a": [1]},
    }
    builder = table_builder.commit(commit_info("WRITE", **fields), *birth())

    item = open_built(builder).history().items[0]

    assert {"operation": "WRITE", **fields} == item.commit_info
    document = item.as_json()
    assert 17 == document["commitInfoTimestampMs"]
    assert {
        name: fields[name] for name in ("operationParameters", "operationMetrics", "readVersion", "isBlindAppend")
    } == {name: document[name] for name in ("operationParameters", "operationMetrics", "readVersion", "isBlindAppend")}
    assert fields["unknownField"] == document["unknownField"]


def test_the_in_commit_timestamp_is_the_time_if_it_is_the_first_action(table_builder: TableBuilder) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    stamped = protocol(1, 7, writer_features=["inCommitTimestamp"])
    builder = table_builder.commit(commit_info("WRITE", inCommitTimestamp=5), stamped, enabled)

    assert CommitTime(5, TimestampSource.IN_COMMIT) == open_built(builder).history().items[0].time


def test_holes_are_named_and_stop_nothing(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(12).damaged(damage.gap(2, 4), damage.gap(7))

    history = open_built(builder).history()

    assert ((2, 4), (7, 7)) == history.gaps
    assert [11, 10, 9, 8, 6, 5, 1, 0] == [item.version for item in history.items]


def test_a_missing_head_is_not_a_gap(table_builder: TableBuilder) -> None:
    history = open_built(table_builder.commits(5).damaged(damage.head_cleaned(3))).history()

    assert ((), ((0, 2),), ((3, 4),)) == (history.gaps, history.missing, history.lost)


def test_a_head_that_a_checkpoint_replaces_is_not_missing(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(4).checkpoint(2).commits(2).damaged(damage.head_cleaned(3), damage.gap(4))

    history = open_built(builder).history(limit=1)

    assert (((4, 4),), ((5, 5),)) == (history.missing, history.lost)


def test_a_log_of_checkpoints_alone_has_no_items(table_builder: TableBuilder) -> None:
    history = open_built(table_builder.commits(3).checkpoint(2).damaged(damage.head_cleaned(3))).history()

    assert ((), True) == (history.items, history.is_complete)


def test_features_do_not_matter(table_builder: TableBuilder) -> None:
    future = protocol(9, 9, reader_features=["futureFeature"], writer_features=["futureFeature"])
    builder = table_builder.commit(commit_info("CREATE"), future, metadata())

    assert ["CREATE"] == [item.operation for item in open_built(builder).history(counts=True).items]


@pytest.mark.parametrize(
    ("harm", "problem", "operation"),
    [
        (damage.zero_byte_commit(1), "commit.empty", None),
        (damage.commit_line(1, 1, b'{"commitInfo":{"operation":"WRI'), "commit.bad-json", None),
        (damage.commit_line(1, 1, b"[1]"), "commit.line-not-object", None),
        (damage.commit_line(1, 1, b'{"commitInfo":{"operation":"\xff"}}'), "commit.not-utf8", None),
        (damage.commit_line(1, 2, b'{"add":{"path":'), "commit.bad-json", "WRITE"),
    ],
)
def test_a_commit_that_cannot_be_read_is_an_item_with_a_problem(
    harm: Damage, problem: str, operation: str | None, table_builder: TableBuilder
) -> None:
    history = open_built(table_builder.commits(3).damaged(harm)).history(counts=True)

    assert [None, problem, None] == [item.problem for item in history.items]
    assert ["WRITE", operation, "WRITE"] == [item.operation for item in history.items]
    assert history.items[1].counts is None


def test_a_bad_line_in_the_middle_is_ignored_if_nothing_is_counted(table_builder: TableBuilder) -> None:
    harm = damage.commit_line(1, 2, b'{"add":\n{"add":{"path":"a"}}')

    history = open_built(table_builder.commits(3).damaged(harm)).history()

    assert [None, None, None] == [item.problem for item in history.items]


@pytest.mark.parametrize("files", [3, 300], ids=["one block", "many blocks"])
@pytest.mark.parametrize("cut", [2, 30, 200])
def test_a_torn_commit_is_an_item_with_a_problem(files: int, cut: int, table_builder: TableBuilder) -> None:
    lines = [commit_info("WRITE"), *birth(), *(add(f"part-{number}.parquet") for number in range(files))]
    builder = table_builder.commit(*lines, raw=to_bytes(lines)[:-cut])

    item = open_built(builder).history().items[0]

    assert ("WRITE", "commit.bad-json") == (item.operation, item.problem)


def test_a_commit_without_its_last_line_end_is_whole(table_builder: TableBuilder) -> None:
    lines = [commit_info("WRITE"), *birth(), add("a" * 20_000)]
    builder = table_builder.commit(*lines, raw=to_bytes(lines)[:-1])

    assert [None] == [item.problem for item in open_built(builder).history().items]


def test_an_action_over_several_lines_is_read(table_builder: TableBuilder) -> None:
    text = b'{\n  "commitInfo": {\n    "operation": "PRETTY"\n  }\n}\n'
    builder = table_builder.commit(commit_info("PRETTY"), *birth(), raw=text + to_bytes(birth()))

    item = open_built(builder).history().items[0]

    assert ("PRETTY", None) == (item.operation, item.problem)


def test_counts_are_numbers_of_actions_files_and_bytes(table_builder: TableBuilder) -> None:
    """
    A remove need not say its size.
    """
    lines = [
        commit_info("X"),
        *birth(),
        add("a", size=5),
        add("b", size=7),
        remove("c", size=3),
        remove("d"),
        {"future": {}},
    ]
    builder = table_builder.commit(*lines, {"cdc": {"path": "c", "size": 9}}, {"add": None})

    counts = open_built(builder).history(counts=True).items[0].counts

    assert counts is not None
    assert {
        "add": 2,
        "cdc": 1,
        "commitInfo": 1,
        "future": 1,
        "metaData": 1,
        "protocol": 1,
        "remove": 2,
    } == counts.actions
    assert (2, 2, 12, 3) == (counts.added_files, counts.removed_files, counts.added_bytes, counts.removed_bytes)


def test_history_of_nothing_is_refused(table_builder: TableBuilder) -> None:
    with pytest.raises(NotATable):
        open_built(table_builder.file("data.parquet", b"x")).history()


@pytest.mark.parametrize(
    ("corruptions", "newest"),
    [
        ((), 5),
        ((damage.gap(4),), 3),
        ((damage.truncate_commit(5),), 4),
        ((damage.zero_byte_commit(4), damage.truncate_commit(3)), 2),
        ((damage.truncate_commit(0),), None),
    ],
)
def test_history_has_the_newest_version_that_can_be_rebuilt(
    corruptions: tuple[Damage, ...], newest: int | None, table_builder: TableBuilder
) -> None:
    """
    What it suggests to look at next can be looked at.
    """
    table = open_built(table_builder.commits(6).damaged(*corruptions))

    found = table.history()

    assert newest == found.newest_readable
    assert newest is None or newest == table.snapshot(version=newest).version


def test_history_shows_the_keys_of_commit_info_that_it_does_not_know(table_builder: TableBuilder) -> None:
    """
    Custom metadata stands beside the fields; what has the name of a field stands in `commitInfo`.
    """
    theirs: dict[str, Any] = {
        "job": "nightly",
        "clientVersion": "delta-rs.1",
        "tags": {"a": 1},
        "nothing": None,
        "problem": "none",
    }
    builder = table_builder.commit(commit_info(**theirs, type="x", txnId="t"))

    item = open_built(builder).history().items[0].as_json()

    shown = {"job": "nightly", "clientVersion": "delta-rs.1", "tags": {"a": 1}, "txnId": "t"}
    assert shown == {key: item[key] for key in shown}
    assert {"problem": "none", "type": "x"} == item["commitInfo"]
    assert {"nothing", "problem", "type"}.isdisjoint(item)
