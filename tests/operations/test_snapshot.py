"""Snapshots of built tables: what is worked around, what is refused, and with which words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deltacli.core.errors import (
    CheckpointUnreadable,
    CommitCorrupt,
    DeltacliError,
    ProtocolUnsupported,
    Unreadable,
    UsageError,
    VersionAbsent,
)
from deltacli.delta.log.segment import CommitTime, TimestampSource
from deltacli.operations.read.snapshot import digest_of_keys, summarize
from deltacli.storage import FileStat
from tests.support import damage
from tests.support.actions import (
    Line,
    add,
    birth,
    commit_info,
    deletion_vector,
    metadata,
    protocol,
    remove,
    to_bytes,
    txn,
)
from tests.support.builder import EPOCH_MS, HINT, LOG, Damage, TableBuilder
from tests.support.checkpoints import CheckpointKind, Shape
from tests.support.model import WEEK_MS
from tests.support.reading import NOW_MS, document, open_at, open_built, state_document
from tests.support.storage import FAR, RecordingStorage

PARQUET_KINDS = [CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART, CheckpointKind.V2_PARQUET_INLINE]


def test_an_empty_table_is_a_table(table_builder: TableBuilder) -> None:
    builder = table_builder.commit(*birth())

    files = document(open_built(builder))["files"]

    assert (0, 0, 0, 0, 0) == (
        files["count"],
        files["sizeBytes"],
        files["records"],
        files["filesWithoutRecords"],
        files["rows"],
    )


@pytest.mark.parametrize("kind", list(CheckpointKind))
def test_the_segment_shows_how_the_version_was_rebuilt(kind: CheckpointKind, table_builder: TableBuilder) -> None:
    builder = table_builder.commits(12).checkpoint(9, kind, shape=Shape(files=3))

    segment = document(open_built(builder))["logSegment"]

    files = 3 if kind is CheckpointKind.MULTI_PART else 1
    sidecars = 3 if kind.has_sidecars else 0
    assert {"version": 9, "layout": kind.layout, "files": files, "sidecars": sidecars} == segment["checkpoint"]
    assert (10, 11, []) == (segment["firstCommit"], segment["lastCommit"], segment["problems"])


def test_no_commits_are_named_where_none_is_replayed(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(4).checkpoint(3)

    assert {"checkpoint", "problems"} == document(open_built(builder))["logSegment"].keys()


@pytest.mark.parametrize("stats", ["json", "struct", "both", "blank"])
def test_records_are_found_in_either_form_of_statistics(stats: str, table_builder: TableBuilder) -> None:
    builder = table_builder.commits(4).checkpoint(3, shape=Shape(stats=stats))

    assert 3 * 10 == document(open_built(builder))["files"]["records"]


@pytest.mark.parametrize("stats", ["struct", "blank"])
def test_struct_statistics_are_listed_as_json(stats: str, table_builder: TableBuilder) -> None:
    builder = table_builder.commits(2).checkpoint(1, shape=Shape(stats=stats))

    texts = {text for batch in open_built(builder).snapshot().files() for text in batch.column("stats").to_pylist()}

    assert {'{"numRecords":10,"nullCount":{"id":0}}'} == texts


def test_the_row_count_is_unknown_if_one_file_does_not_record_it(table_builder: TableBuilder) -> None:
    vector = deletion_vector(rows=3)
    lines = [add("a", records=10, vector=vector), add("b", records=5), add("c")]
    builder = table_builder.commit(*birth(), *lines[:2]).commit(lines[2])
    table = open_built(builder)

    assert 12 == document(table, 0)["files"]["rows"]
    assert (15, 1, None) == tuple(
        document(table, 1)["files"][name] for name in ("records", "filesWithoutRecords", "rows")
    )


@pytest.mark.parametrize(
    ("deleted_ms", "expired"),
    [(None, 1), (0, 1), (NOW_MS - WEEK_MS - 1, 1), (NOW_MS - WEEK_MS, 1), (NOW_MS - WEEK_MS + 1, 0), (NOW_MS + 1, 0)],
)
def test_a_tombstone_expires_when_the_retention_is_over(
    deleted_ms: int | None, expired: int, table_builder: TableBuilder
) -> None:
    builder = table_builder.commit(*birth(), remove("a", deleted_ms=deleted_ms))

    tombstones = document(open_built(builder))["tombstones"]

    assert (1, expired) == (tombstones["count"], tombstones["expired"])


@pytest.mark.parametrize(("text", "expired"), [("interval 1 day", 1), ("2 days", 0), ("nonsense", 0)])
def test_the_tables_own_retention_decides(text: str, expired: int, table_builder: TableBuilder) -> None:
    configuration = {"delta.deletedFileRetentionDuration": text}
    builder = table_builder.commit(*birth(configuration=configuration), remove("a", deleted_ms=NOW_MS - WEEK_MS // 7))

    assert expired == document(open_built(builder))["tombstones"]["expired"]


def test_offset_zero_and_no_offset_are_two_vectors(table_builder: TableBuilder) -> None:
    without, zero = deletion_vector(offset=None), deletion_vector(offset=0)
    builder = table_builder.commit(*birth(), add("a", vector=without)).commit(remove("a", vector=zero))

    found = document(open_built(builder))

    assert (1, 1) == (found["files"]["count"], found["tombstones"]["count"])


def test_a_transaction_may_go_back(table_builder: TableBuilder) -> None:
    builder = table_builder.commit(*birth(), txn("app", 9)).commit(txn("app", 3, last_updated=7))

    assert [{"appId": "app", "version": 3, "lastUpdated": 7}] == document(open_built(builder))["transactions"]


def test_log_compactions_are_not_read(table_builder: TableBuilder) -> None:
    """
    Their writers drop expired removes and removed domains: read above an older checkpoint, they would revive files.
    """
    ghost = to_bytes([add("ghost", size=7)])
    builder = table_builder.commits(4).file(f"{LOG}/{1:020d}.{3:020d}.compacted.json", ghost)

    assert builder.states[3].document(now_ms=NOW_MS) == state_document(open_built(builder))


# What the log lacks, or holds that cannot be read


@pytest.mark.parametrize(
    ("line", "code", "names"),
    [
        ({"add": {"path": "a", "size": 2**63}}, "action.wrong-type", "add.size"),
        ({"add": {"path": "a", "size": 2**64}}, "action.wrong-type", "add.size"),
        ({"add": {"path": "a", "size": 10**400}}, "action.wrong-type", "add.size"),
        ({"add": {"path": "a", "size": "1"}}, "action.wrong-type", "add.size"),
        ({"add": {"path": "a", "size": 1.5}}, "action.wrong-type", "add.size"),
        ({"add": {"path": "a"}}, "action.missing-required", "add.size"),
        ({"add": {"size": 1}}, "action.missing-required", "path"),
        ({"add": {"path": 5, "size": 1}}, "action.wrong-type", "path"),
        ({"add": {"path": "a", "size": 1, "deletionVector": "x"}}, "action.wrong-type", "deletionVector"),
        (
            {"add": {"path": "a", "size": 1, "deletionVector": {"storageType": "u"}}},
            "action.missing-required",
            "deletionVector",
        ),
        ({"remove": {}}, "action.missing-required", "path"),
        ({"remove": {"path": "a", "deletionTimestamp": "x"}}, "action.wrong-type", "remove.deletionTimestamp"),
        ({"txn": {"appId": "a"}}, "action.missing-required", "txn.version"),
        ({"txn": {"appId": 7, "version": 1}}, "action.wrong-type", "txn.appId"),
        ({"domainMetadata": {"configuration": ""}}, "action.missing-required", "domainMetadata.domain"),
        (
            {"protocol": {"minReaderVersion": "1", "minWriterVersion": 2}},
            "action.wrong-type",
            "protocol.minReaderVersion",
        ),
        ({"protocol": {"minReaderVersion": 1}}, "action.missing-required", "protocol.minWriterVersion"),
        ({"metaData": {"id": "x", "schemaString": 5}}, "action.wrong-type", "metaData.schemaString"),
    ],
)
def test_a_wrong_action_is_an_error_that_names_the_file_the_line_and_the_field(
    line: Line, code: str, names: str, table_builder: TableBuilder
) -> None:
    """
    The model is told nothing of the line: it could not make sense of it either.
    """
    builder = table_builder.commit(*birth()).commit(raw=to_bytes([{"commitInfo": {}}, line]))

    with pytest.raises(CommitCorrupt) as raised:
        summarize(open_built(builder))

    assert (3, code) == (raised.value.exit_code, raised.value.code)
    assert ("2", "18") == (raised.value.facts["line"], raised.value.facts["byte"])
    assert "00000000000000000001.json" in raised.value.message
    assert names in raised.value.message


@pytest.mark.parametrize(("lines", "code"), [([metadata()], "protocol.missing"), ([protocol()], "metadata.missing")])
def test_a_version_without_protocol_or_metadata_is_refused(
    lines: list[Line], code: str, table_builder: TableBuilder
) -> None:
    with pytest.raises(Unreadable) as raised:
        open_built(table_builder.commit(*lines)).snapshot()

    assert code == raised.value.code


def test_metadata_without_a_schema_is_read_as_an_empty_schema(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commit(protocol(), metadata(schema_string=None)))

    snapshot = table.snapshot()

    assert () == snapshot.schema.fields
    assert ("action.missing-required",) == snapshot.problems
    assert "schemaString" not in document(table)["metadata"]


def test_a_zero_byte_commit_that_replay_needs_is_refused(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(4).damaged(damage.zero_byte_commit(2)))

    with pytest.raises(CommitCorrupt) as raised:
        table.snapshot()

    assert "commit.empty" == raised.value.code
    assert "_delta_log/00000000000000000002.json" == raised.value.facts["file"]
    assert "deltacli snapshot {table} --version 1" == raised.value.hint
    assert 1 == table.snapshot(version=1).version


def test_a_zero_byte_commit_below_a_checkpoint_is_only_a_problem(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(6).checkpoint(4).damaged(damage.zero_byte_commit(2))

    found = document(open_built(builder))

    assert ["commit.empty"] == found["logSegment"]["problems"]
    assert builder.states[5].document(now_ms=NOW_MS)["files"] == found["files"]


def test_a_truncated_commit_is_refused_and_the_version_before_it_is_not(table_builder: TableBuilder) -> None:
    table = open_built(table_builder.commits(4).damaged(damage.truncate_commit(3)))

    with pytest.raises(CommitCorrupt) as raised:
        table.snapshot()

    assert "commit.bad-json" == raised.value.code
    assert "00000000000000000003.json ends in the middle of line 2" in raised.value.message
    assert 2 == table.snapshot(version=2).version


def test_an_unsupported_reader_feature_is_named_and_other_versions_stay_readable(table_builder: TableBuilder) -> None:
    future = protocol(
        3, 7, reader_features=["deletionVectors", "futureFeature"], writer_features=["deletionVectors", "futureFeature"]
    )
    table = open_built(table_builder.commits(2).commit(future).commit(protocol()))

    with pytest.raises(ProtocolUnsupported) as raised:
        table.snapshot(version=2)

    assert "version 2 needs the reader feature futureFeature, which deltacli cannot read" == raised.value.message
    assert [1, 3] == [table.snapshot(version=1).version, table.snapshot().version]


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalog_managed_table_is_labelled(feature: str, table_builder: TableBuilder) -> None:
    builder = table_builder.commit(protocol(3, 7, reader_features=[feature], writer_features=[feature]), metadata())

    assert ("catalog.unpublished-possible",) == open_built(builder).snapshot().problems


# Checkpoints that can't be used

UNUSABLE: list[tuple[CheckpointKind, Damage, str]] = [
    (CheckpointKind.CLASSIC, damage.truncate(4), "checkpoint.unreadable"),
    (CheckpointKind.CLASSIC, damage.corrupt_footer(4), "checkpoint.unreadable"),
    (CheckpointKind.CLASSIC, damage.corrupt_page(4, "metaData.id"), "checkpoint.unreadable"),
    (CheckpointKind.CLASSIC, damage.corrupt_page(4, "add.size"), "checkpoint.unreadable"),
    (CheckpointKind.CLASSIC, damage.zero_byte_checkpoint(4), "checkpoint.zero-length"),
    (CheckpointKind.MULTI_PART, damage.drop_part(4), "checkpoint.multipart-incomplete"),
    (CheckpointKind.MULTI_PART, damage.corrupt_page(4, "remove.path"), "checkpoint.unreadable"),
    (CheckpointKind.V2_PARQUET, damage.drop_sidecar(4), "sidecar.missing"),
    (CheckpointKind.V2_JSON, damage.drop_sidecar(4, 1), "sidecar.missing"),
    (CheckpointKind.V2_JSON, damage.truncate(4), "checkpoint.unreadable"),
    (CheckpointKind.V2_JSON, damage.corrupt_page(4, "add.path", sidecars=True), "checkpoint.unreadable"),
    (CheckpointKind.V2_CLASSIC_NAME, damage.drop_sidecar(4), "sidecar.missing"),
]


@pytest.mark.parametrize(("kind", "harm", "rule"), UNUSABLE)
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("older", [None, 2], ids=["commits", "older checkpoint"])
def test_an_unusable_checkpoint_costs_a_problem_where_an_older_start_helps(
    kind: CheckpointKind, harm: Damage, rule: str, far: bool, older: int | None, table_builder: TableBuilder
) -> None:
    """
    Page-level damage is found only while counting; a hint makes a far store list from the checkpoint on at first.
    """
    builder = table_builder.commits(6).checkpoint(4, kind).hint(4)
    if older is not None:
        builder.checkpoint(older).damaged(damage.head_cleaned(older))
    builder.damaged(harm)
    table = open_at(RecordingStorage(builder.in_memory(), capabilities=FAR if far else None))

    found = document(table)

    expected = builder.states[5].document(now_ms=NOW_MS)
    assert expected == {name: found[name] for name in expected}
    assert older == found["logSegment"].get("checkpoint", {}).get("version")
    assert rule in found["logSegment"]["problems"]


@pytest.mark.parametrize(("kind", "harm", "rule"), UNUSABLE)
@pytest.mark.parametrize("older", [None, 2], ids=["commits", "older checkpoint"])
def test_the_digest_of_keys_alone_is_that_of_the_snapshot(
    kind: CheckpointKind, harm: Damage, rule: str, older: int | None, table_builder: TableBuilder
) -> None:
    """
    Also where a damaged page is found only while it is computed.
    """
    builder = table_builder.commits(6).checkpoint(4, kind)
    if older is not None:
        builder.checkpoint(older)
    sound = summarize(open_built(builder), digest=True).digests
    assert sound is not None

    found = digest_of_keys(open_built(builder).snapshot())
    damaged = digest_of_keys(open_built(builder.damaged(harm)).snapshot())

    assert [sound.keys, sound.keys] == [found, damaged], rule


@pytest.mark.parametrize(
    ("kind", "harm", "rule"), [case for case in UNUSABLE if case[2] in ("checkpoint.unreadable", "sidecar.missing")]
)
def test_an_unusable_checkpoint_is_refused_where_nothing_older_helps(
    kind: CheckpointKind, harm: Damage, rule: str, table_builder: TableBuilder
) -> None:
    builder = table_builder.commits(6).checkpoint(4, kind).damaged(harm, damage.head_cleaned(3))

    with pytest.raises(CheckpointUnreadable) as raised:
        document(open_built(builder))

    assert (3, rule) == (raised.value.exit_code, raised.value.code)
    assert f"{4:020d}.checkpoint." in raised.value.message


@pytest.mark.parametrize(
    ("action", "rule"), [("protocol", "checkpoint.no-protocol"), ("metaData", "checkpoint.no-metadata")]
)
def test_a_checkpoint_without_protocol_or_metadata_is_not_used(
    action: str, rule: str, table_builder: TableBuilder
) -> None:
    builder = table_builder.commits(5)
    content = [line for line in builder.states[3].actions() if action not in line]
    builder.checkpoint(3, actions=content)

    found = document(open_built(builder))

    assert "checkpoint" not in found["logSegment"]
    assert [rule] == found["logSegment"]["problems"]


@pytest.mark.parametrize("kind", PARQUET_KINDS)
@pytest.mark.parametrize("column", ["add.size", "add.path", "remove.path", "add.stats"])
def test_a_counted_version_is_right_or_refused_whatever_page_is_damaged(
    kind: CheckpointKind, column: str, table_builder: TableBuilder
) -> None:
    """
    Counting alone may never look at the damaged column; then the numbers are right without it.
    """
    builder = (
        table_builder.commits(6).checkpoint(5, kind).damaged(damage.corrupt_page(5, column), damage.head_cleaned(5))
    )
    expected: dict[str, Any] = builder.states[5].document(now_ms=NOW_MS)["files"]  # type: ignore[assignment]

    try:
        found = summarize(open_built(builder)).as_json()["files"]
    except CheckpointUnreadable:
        return

    assert {name: expected[name] for name in found} == found


def test_listing_a_damaged_checkpoint_is_an_error_never_a_shorter_list(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(30).checkpoint(29, shape=Shape(row_group_rows=4))
    snapshot = open_built(builder.damaged(damage.corrupt_page(29, "add.path"))).snapshot()

    with pytest.raises(CheckpointUnreadable):
        list(snapshot.files())


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.V2_JSON, CheckpointKind.V2_JSON_INLINE])
@pytest.mark.parametrize(
    "broken",
    [{"add": {"size": 1}}, {"add": {"path": "a"}}, {"remove": {"deletionTimestamp": 1}}, {"txn": {"appId": "a"}}],
)
def test_a_checkpoint_with_an_incomplete_action_is_not_used(
    broken: Line, kind: CheckpointKind, table_builder: TableBuilder
) -> None:
    """
    With the commits it is a problem; without them an error that names the checkpoint's file.
    """
    builder = table_builder.commits(3)
    builder.checkpoint(2, kind, actions=[*builder.states[2].actions(), broken])

    assert builder.states[2].document(now_ms=NOW_MS) == state_document(open_built(builder))
    with pytest.raises(CheckpointUnreadable) as raised:
        document(open_built(builder.damaged(damage.head_cleaned(2))))
    assert f"{2:020d}.checkpoint." in raised.value.message


def test_large_text_in_a_checkpoints_schema_is_text(table_builder: TableBuilder) -> None:
    """
    A file written through Arrow carries the writer's own types; deletion vectors, maps and lists included.
    """
    partition = metadata(configuration={"a": "b"}, partition_columns=["p"])
    lines = [
        add("a", records=10, vector=deletion_vector(), partition_values={"p": "1"}),
        remove("b", vector=deletion_vector()),
    ]
    builder = table_builder.commit(protocol(), partition, *lines).checkpoint(0, shape=Shape(large_text=True))

    found = document(open_built(builder))

    expected = builder.states[0].document(now_ms=NOW_MS)
    assert expected == {name: found[name] for name in expected}
    assert [] == found["logSegment"]["problems"]
    assert [{"p": "1"}] == [
        dict(row["partitionValues"]) for batch in open_built(builder).snapshot().files() for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    "spelling", ["{name}", "_sidecars/{name}", "file:///elsewhere/_delta_log/_sidecars/{name}", "%30{rest}"]
)
def test_a_sidecar_is_found_by_the_last_segment_of_its_path(spelling: str, table_builder: TableBuilder) -> None:
    builder = table_builder.commits(3).checkpoint(2, CheckpointKind.V2_JSON)
    top = next(name for name in builder.files if ".checkpoint." in name and name.endswith(".json"))
    sidecars = [name.rpartition("/")[2] for name in builder.files if "_sidecars" in name]
    data = builder.files[top].data
    for name in sidecars:
        data = data.replace(
            f'"path":"{name}"'.encode(), f'"path":"{spelling.format(name=name, rest=name[1:])}"'.encode()
        )

    found = document(open_built(builder.file(top, data).damaged(damage.head_cleaned(3))))

    assert 2 == found["logSegment"]["checkpoint"]["sidecars"]
    assert builder.states[2].document(now_ms=NOW_MS)["files"] == found["files"]


# Hints


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize(
    ("hint", "problems"),
    [
        ({"version": 8}, []),
        ({"version": 8, "checksum": "right"}, []),
        ({"version": 4}, []),
        ({"version": 8, "checksum": "wrong"}, ["hint.checksum-bad"]),
        ({"version": 6}, ["hint.checkpoint-missing"]),
        ({"version": 99}, ["hint.ahead-of-log", "hint.checkpoint-missing"]),
    ],
)
def test_a_hint_never_changes_the_answer(
    hint: dict[str, Any], problems: list[str], far: bool, table_builder: TableBuilder
) -> None:
    builder = table_builder.commits(11).checkpoint(4).checkpoint(8).hint(**hint)
    table = open_at(RecordingStorage(builder.in_memory(), capabilities=FAR if far else None))

    found = document(table)

    assert (10, 8) == (found["version"], found["logSegment"]["checkpoint"]["version"])
    assert problems == found["logSegment"]["problems"]


@pytest.mark.parametrize("data", [b"", b'{"version":8,"si', b"[]", b"\xff"])
def test_a_torn_hint_is_a_problem_not_an_error(data: bytes, table_builder: TableBuilder) -> None:
    builder = table_builder.commits(11).checkpoint(8).file(HINT, data)

    assert ["hint.bad-json"] == document(open_built(builder))["logSegment"]["problems"]


def test_a_good_hint_spares_a_far_store_the_beginning_of_the_listing(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(11).checkpoint(8).hint(8)
    storage = RecordingStorage(builder.in_memory(), capabilities=FAR)

    open_at(storage).snapshot()

    assert [f"{LOG}/{8:020d}."] == storage.touched("list_from")


def test_a_stale_hint_costs_one_listing_not_the_table(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(12).checkpoint(10).hint(99)
    storage = RecordingStorage(builder.in_memory())

    snapshot = open_at(storage).snapshot()

    assert 11 == snapshot.version
    assert 1 == storage.calls["list_from"]


def test_a_snapshot_reads_only_the_commits_after_its_checkpoint(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(12).checkpoint(9)
    storage = RecordingStorage(builder.in_memory())

    open_at(storage).snapshot()

    assert [HINT, f"{LOG}/{11:020d}.json", f"{LOG}/{10:020d}.json"] == storage.touched("read", "read_range")
    assert [f"{LOG}/{9:020d}.checkpoint.parquet"] == storage.touched("open")


def test_a_cleanup_between_the_listing_and_the_reading_is_survived(table_builder: TableBuilder) -> None:
    """
    Another process wrote a checkpoint and deleted what it covers, right after we had listed the log.
    """
    builder = table_builder.commits(6)
    before = builder.in_memory()
    after = builder.checkpoint(4).damaged(damage.head_cleaned(4)).in_memory()

    class Cleaned(RecordingStorage):
        def read(self, path: str) -> bytes:
            return before.read(path) if path.endswith(f"{5:020d}.json") else after.read(path)

        def open(self, path: str) -> Any:  # Any: as in the port
            return after.open(path)

        def tag(self, path: str, opened: Any) -> str:  # Any: as in the port
            return after.tag(path, opened)

        def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
            self.calls["list_from"] += 1
            return (before if self.calls["list_from"] == 1 else after).list_from(directory, start)

    storage = Cleaned(before)

    found = document(open_at(storage))

    assert builder.states[5].document(now_ms=NOW_MS)["files"] == found["files"]
    assert (2, 4) == (storage.calls["list_from"], found["logSegment"]["checkpoint"]["version"])


# When a version was committed

ICT = [
    protocol(1, 7, writer_features=["inCommitTimestamp"]),
    metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
]


@pytest.mark.parametrize(
    ("lines", "time", "problems"),
    [
        ([commit_info(inCommitTimestamp=5), *ICT], CommitTime(5, TimestampSource.IN_COMMIT), ()),
        (ICT, CommitTime(EPOCH_MS, TimestampSource.FILE), ("ict.missing",)),
        ([commit_info(timestamp=5), *ICT], CommitTime(EPOCH_MS, TimestampSource.FILE), ("ict.missing",)),
        ([*ICT, commit_info(inCommitTimestamp=5)], CommitTime(EPOCH_MS, TimestampSource.FILE), ("ict.missing",)),
        ([commit_info(timestamp=5), *birth()], CommitTime(EPOCH_MS, TimestampSource.FILE), ()),
    ],
    ids=["in commit", "no commitInfo", "no in-commit timestamp", "commitInfo not first", "not enabled"],
)
def test_the_commit_time_is_in_the_commit_if_the_table_enables_it(
    lines: list[Line], time: CommitTime, problems: tuple[str, ...], table_builder: TableBuilder
) -> None:
    snapshot = open_built(table_builder.commit(*lines)).snapshot()

    assert time == snapshot.time
    assert problems == snapshot.problems


def test_commit_time_of_a_checkpointed_version_is_read_from_its_commit(table_builder: TableBuilder) -> None:
    builder = (
        table_builder.commit(commit_info(inCommitTimestamp=5), *ICT)
        .commit(commit_info(inCommitTimestamp=9))
        .checkpoint(1)
    )

    assert CommitTime(9, TimestampSource.IN_COMMIT) == open_built(builder).snapshot().time


def test_a_version_without_a_commit_file_has_no_time(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(3).checkpoint(2).damaged(damage.head_cleaned(3))

    found = document(open_built(builder))

    assert (None, None, None) == (found["timestampMs"], found["timestamp"], found["timestampSource"])
    assert ["log.checkpoint-commit-missing"] == found["logSegment"]["problems"]


def test_file_times_are_made_increasing(table_builder: TableBuilder) -> None:
    builder = table_builder.commit(*birth(), modified_ms=EPOCH_MS).commit(txn("a", 1), modified_ms=EPOCH_MS)

    assert CommitTime(EPOCH_MS + 1, TimestampSource.FILE_ADJUSTED) == open_built(builder).snapshot().time


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_version_has_the_time_that_history_gives_it(far: bool, table_builder: TableBuilder) -> None:
    """
    A copied table: all files are equally old, and the walk that tells them apart begins at the earliest commit.
    """
    builder = table_builder.commit(*birth(), modified_ms=EPOCH_MS)
    for number in range(5):
        builder.commit(txn("a", number), modified_ms=EPOCH_MS)
    builder.checkpoint(3).hint(3)
    table = open_at(RecordingStorage(builder.in_memory(), capabilities=FAR if far else None))

    assert table.history().items[0].time == table.snapshot().time


def test_blank_lines_before_provenance_change_no_time(table_builder: TableBuilder) -> None:
    lines = [commit_info(inCommitTimestamp=5), *ICT]
    table = open_built(table_builder.commit(*lines, raw=b"\n \r\n" + to_bytes(lines)))

    assert CommitTime(5, TimestampSource.IN_COMMIT) == table.snapshot().time == table.history().items[0].time


@pytest.mark.parametrize("version", [2**63, 10**30])
def test_a_version_that_no_log_can_have_is_out_of_range(version: int, table_builder: TableBuilder) -> None:
    with pytest.raises(UsageError, match="version is out of range"):
        open_built(table_builder.commits(3)).snapshot(version=version)


@pytest.mark.parametrize("version", [-1, 3, 2**63 - 1])
def test_a_version_that_never_was_is_absent(version: int, table_builder: TableBuilder) -> None:
    with pytest.raises(VersionAbsent) as raised:
        open_built(table_builder.commits(3)).snapshot(version=version)

    assert "table.version-absent" == raised.value.code
    assert "0-2" == raised.value.facts["readable versions"]


def test_no_error_of_a_damaged_log_is_a_bug(table_builder: TableBuilder) -> None:
    """
    A small commit, cut at every byte: an answer or a named error, nothing else.
    """
    whole = table_builder.commits(1).files[f"{LOG}/{0:020d}.json"].data

    codes = {exit_code(TableBuilder().commit(*birth()).commit(raw=whole[:cut])) for cut in range(len(whole))}

    assert {0, 3} == codes


def exit_code(builder: TableBuilder) -> int:
    try:
        document(open_built(builder))
    except DeltacliError as error:
        return error.exit_code
    return 0
