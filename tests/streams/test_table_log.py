"""What a stream delivers of a table: which files of a commit, and where it stops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError, UsageError, VersionAbsent
from deltacli.spark.source_options import StreamOptions
from deltacli.spark.table_log import Limits, StreamOffset, TableLog, files_between, next_offset
from tests.support.actions import Line, add, birth, deletion_vector, metadata, protocol, remove
from tests.support.altering import add as add_column
from tests.support.altering import drop
from tests.support.builder import EPOCH_MS, TableBuilder, commit_path
from tests.support.reading import open_at, open_built
from tests.support.renamed_columns import make_renamed, replaced_table


def fields(*columns: tuple[str, str]) -> str:
    """A schemaString of nullable columns."""
    found = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return json.dumps({"type": "struct", "fields": found})


def table_of(*commits: Sequence[Line]) -> TableBuilder:
    """A table of these commits; the first one is its birth as well."""
    builder = TableBuilder()
    for version, lines in enumerate(commits):
        builder.commit(*(birth() if version == 0 else []), *lines)
    return builder


def log_of(builder: TableBuilder, **options: Any) -> TableLog:  # Any: fields of StreamOptions
    return TableLog(open_built(builder), StreamOptions("tbl", **options))


def paths_of(log: TableLog, start: StreamOffset | None = None) -> list[str]:
    """The paths of the batch that takes all there is."""
    newest = log.newest()
    start = start or log.first_offset(newest)
    end = next_offset(log, start, newest, Limits())
    return [file.path for file in files_between(log, start, end)]


def from_0(log: TableLog) -> StreamOffset:
    return StreamOffset.after(log.table, log.schema, -1, with_snapshot=False)


def code_of(log: TableLog, version: int) -> str:
    with pytest.raises(DeltacliError) as caught:
        log.commit_files(version)
    return caught.value.code


def test_a_stream_begins_with_the_newest_version_oldest_file_first() -> None:
    builder = table_of([add("b", modified_ms=1), add("c", modified_ms=2)], [add("a", modified_ms=2)])

    assert ["b", "a", "c"] == paths_of(log_of(builder))


def test_commits_follow_the_version_that_a_stream_begins_with() -> None:
    storage = table_of([add("a")]).in_memory()
    log = TableLog(open_at(storage), StreamOptions("tbl"))
    start = log.first_offset(log.newest())
    end = next_offset(log, start, 0, Limits())
    assert ["a"] == [file.path for file in files_between(log, start, end)]
    storage.write(commit_path(1), b'{"add":{"path":"b","partitionValues":{},"size":1,"dataChange":true}}\n')

    assert ["b"] == paths_of(log, end)


@pytest.mark.parametrize("version, expected", [(0, ["a", "b"]), (1, ["b"]), (2, []), ("latest", [])])
def test_starting_versions(version: int | str, expected: list[str]) -> None:
    assert expected == paths_of(log_of(table_of([add("a")], [add("b")]), starting_version=version))


@pytest.mark.parametrize("offset_ms, expected", [(-1, ["a", "b"]), (0, ["a", "b"]), (1, ["b"]), (1_000, ["b"])])
def test_starting_timestamps(offset_ms: int, expected: list[str]) -> None:
    builder = table_of([add("a")], [add("b")])

    assert expected == paths_of(log_of(builder, starting_timestamp_ms=EPOCH_MS + offset_ms))


@pytest.mark.parametrize("options", [{"starting_version": 3}, {"starting_timestamp_ms": EPOCH_MS + 1_001}])
def test_a_start_after_the_newest_version_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(VersionAbsent, match="the newest is 1"):
        paths_of(log_of(table_of([add("a")], [add("b")]), **options))


DELETE = [remove("a")]
UPDATE = [remove("a"), add("b")]
VECTOR = [remove("a"), add("a", vector=deletion_vector())]


@pytest.mark.parametrize(
    "option, delete, update, vector",
    [
        ({}, "stream.deletes", "stream.changes", "stream.changes"),
        ({"ignore_deletes": True}, [], "stream.changes", "stream.changes"),
        ({"ignore_changes": True}, [], ["b"], ["a"]),
        ({"skip_change_commits": True}, [], [], []),
    ],
)
def test_commits_that_remove_files(option: dict[str, bool], delete: object, update: object, vector: object) -> None:
    commits = ([add("a")], DELETE), ([add("a")], UPDATE), ([add("a")], VECTOR)

    found = [_delivered(log_of(_with_vectors(*lines), **option), 1) for lines in commits]

    assert [delete, update, vector] == found


def _with_vectors(*commits: Sequence[Line]) -> TableBuilder:
    builder = TableBuilder()
    features = ["deletionVectors"]
    builder.commit(protocol(3, 7, reader_features=features, writer_features=features), metadata(), *commits[0])
    for lines in commits[1:]:
        builder.commit(*lines)
    return builder


def _delivered(log: TableLog, version: int) -> object:
    try:
        return [file.path for file in log.commit_files(version)]
    except DeltacliError as fault:
        return fault.code


def test_files_that_are_rewritten_without_a_change_of_data_are_not_delivered() -> None:
    log = log_of(table_of([add("a")], [{"remove": {"path": "a", "dataChange": False}}, add("b", dataChange=False)]))

    assert ["a"] == paths_of(log, from_0(log))


def test_a_commit_that_is_gone_is_named() -> None:
    builder = table_of([add("a")], [add("b")], [add("c")]).checkpoint(1)
    del builder.files[commit_path(0)], builder.files[commit_path(1)]
    log = log_of(builder, starting_version=1)

    with pytest.raises(VersionAbsent, match="the commit of version 1 is no longer in the log") as caught:
        paths_of(log)

    assert '.option("startingVersion", "2")' in str(caught.value.hint)


def test_the_hint_names_a_version_that_a_stream_can_begin_at() -> None:
    """
    Commit 4 is left over below the checkpoint of version 5, as by a clean-up that was interrupted.
    """
    builder = table_of(*([add(str(version))] for version in range(7))).checkpoint(5)
    for version in range(4):
        del builder.files[commit_path(version)]

    with pytest.raises(VersionAbsent) as caught:
        paths_of(log_of(builder, starting_version=2))

    assert '.option("startingVersion", "5")' in str(caught.value.hint)
    assert ["5", "6"] == paths_of(log_of(builder, starting_version=5))


def test_a_commit_that_goes_while_the_stream_runs_is_named() -> None:
    storage = table_of([add("a")], [add("b")]).in_memory()
    log = TableLog(open_at(storage), StreamOptions("tbl"))
    log.newest()
    list(storage.delete_many([commit_path(0)]))

    with pytest.raises(VersionAbsent, match="the commit of version 0 is no longer in the log"):
        log.commit_files(0)


A, B = ("a", "long"), ("b", "string")


@pytest.mark.parametrize(
    "before, after, change",
    [
        ([A], [A, B], "column b is new"),
        ([A, B], [A], "column b is dropped"),
        ([("a", "integer")], [A], "column a has another type"),
    ],
)
def test_a_later_change_of_the_schema_stops_the_stream(
    before: list[tuple[str, str]], after: list[tuple[str, str]], change: str
) -> None:
    storage = TableBuilder().commit(*birth(schema_string=fields(*before)), add("x")).in_memory()
    log = TableLog(open_at(storage), StreamOptions("tbl"))
    for version, lines in [(1, [add("y")]), (2, [metadata(schema_string=fields(*after)), add("z")])]:
        storage.write(commit_path(version), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    newest = log.newest()

    end = next_offset(log, log.first_offset(newest), newest, Limits())

    assert (2, 0) == end.place
    with pytest.raises(DeltacliError, match=f"version 2 changes the schema: {change}") as caught:
        next_offset(log, end, newest, Limits())
    assert "stream.schema-changed" == caught.value.code
    again = TableLog(open_at(storage), StreamOptions("tbl"))
    assert ["z"] == paths_of(again, end)


def test_a_later_comment_does_not_stop_the_stream() -> None:
    storage = table_of([add("x")]).in_memory()
    log = TableLog(open_at(storage), StreamOptions("tbl"))
    line = metadata(description="a comment", configuration={"a": "b"})
    storage.write(commit_path(1), b"".join(json.dumps(each).encode() + b"\n" for each in [line, add("y")]))

    assert ["x", "y"] == paths_of(log)


@pytest.mark.parametrize(
    "before, after, expected",
    [
        ([A], [A, B], ["x"]),
        ([("a", "integer")], [A], ["x"]),
        ([("a", "string")], [A], "stream.schema-changed"),
        ([A, B], [A], "stream.schema-changed"),
    ],
)
def test_older_columns_are_read_as_those_of_now_or_refused(
    before: list[tuple[str, str]], after: list[tuple[str, str]], expected: object
) -> None:
    builder = TableBuilder().commit(*birth(schema_string=fields(*before)), add("x"))
    builder.commit(metadata(schema_string=fields(*after)))

    assert expected == _delivered(log_of(builder), 0)


def test_the_change_feed_begins_with_inserts_and_goes_on_with_changes() -> None:
    builder = table_of([add("a")], [add("b"), remove("a")])
    builder.commit({"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}}, *UPDATE)
    log = log_of(builder, read_change_feed=True)

    inserts = log.snapshot_files(0)

    assert [("a", "insert", 0)] == [
        (file.path, file.constants["_change_type"].as_py(), file.constants["_commit_version"].as_py())
        for file in inserts
    ]
    assert ["c"] == [file.path for file in log.commit_files(2)]
    assert "stream.changes-not-recorded" == code_of(log, 1)


@pytest.mark.parametrize("before, after", [(["p"], []), ([], ["p"])])
def test_removed_files_have_the_partition_columns_of_their_own_time(before: list[str], after: list[str]) -> None:
    """Else a value of a partition would be null in deleted rows, or one that a file stores would be overwritten."""
    columns, recorded = fields(("id", "long"), ("p", "string")), {"delta.enableChangeDataFeed": "true"}
    values = {"p": "of the log"}

    def lines(partitions: list[str]) -> Line:
        return metadata(schema_string=columns, partition_columns=partitions, configuration=recorded)

    old, new = values if before else {}, values if after else {}
    builder = TableBuilder().commit(protocol(1, 4), lines(before), add("a", partition_values=old))
    builder.commit(lines(after), remove("a", partitionValues=old), add("b", partition_values=new))

    files = log_of(builder, read_change_feed=True).commit_files(1)

    found = [(file.path, file.constants["_change_type"].as_py(), file.constants.get("p")) for file in files]
    assert [("a", "delete", old.get("p")), ("b", "insert", new.get("p"))] == [
        (path, change, None if value is None else value.as_py()) for path, change, value in found
    ]
    assert ["p" in old, "p" in new] == [value is not None for _, _, value in found]


def test_a_column_with_the_name_of_one_that_describes_changes_is_refused() -> None:
    builder = TableBuilder().commit(*birth(schema_string=fields(("_Change_Type", "string"))))

    with pytest.raises(UsageError, match="_Change_Type"):
        log_of(builder, read_change_feed=True)


@pytest.mark.parametrize("feed", [False, True])
def test_a_stream_that_begins_before_a_mapping_that_was_removed_is_refused(feed: bool, tmp_path: Path) -> None:
    """Also before it existed: the `a` of version 0 is not the `a` of now."""
    make_renamed(tmp_path)
    table = open_table(tmp_path)
    assert 10 == table.drop_features("columnMapping").versions[0]
    log = TableLog(table, StreamOptions(str(tmp_path), read_change_feed=feed))
    log.newest()

    assert {"stream.schema-changed"} == {code_of(log, version) for version in range(10)}
    with pytest.raises(DeltacliError, match="version 10 removed column mapping") as caught:
        log.snapshot_files(1)
    assert '"startingVersion", "10"' in str(caught.value.hint)
    assert [] == log.commit_files(10)
    assert log.snapshot_files(10)


def test_a_stream_does_not_deliver_what_a_table_had_before_it_was_replaced() -> None:
    log = log_of(replaced_table(("a", "col-x"), ("a", "col-y"), ("a", "col-y")), read_change_feed=True)
    log.newest()

    assert ["stream.schema-changed"] * 2 == [code_of(log, version) for version in (0, 1)]
    assert ["f1", "f2"] == sorted(file.path for file in log.commit_files(2))


def test_a_stream_delivers_no_row_before_a_commit_that_drops_and_adds_a_column(tmp_path: Path) -> None:
    make_renamed(tmp_path)
    table = open_table(tmp_path)
    assert 10 == table.alter([drop("a"), add_column("a", "string")]).committed_version
    log = TableLog(table, StreamOptions(str(tmp_path)))
    log.newest()

    assert {"stream.schema-changed"} == {code_of(log, version) for version in (0, 5, 8)}
    assert log.snapshot_files(10)
