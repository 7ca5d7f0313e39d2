"""Properties and features are committed once, on top of whatever others commit meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.core.errors import NoAtomicCreate, Refused
from deltacli.delta.log.state import drop_null_fields
from deltacli.operations.change.properties_and_features import show_properties
from tests.support.actions import add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.checkpoints import CheckpointKind
from tests.support.committing import Rivals, commits, infos
from tests.support.reading import open_at
from tests.support.storage import NEAR, RecordingStorage


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltacli.changing.commit.wait_before_retry", lambda *_: None)


def built(configuration: dict[str, Any] | None = None) -> TableBuilder:  # Any: JSON values
    """A table of one commit."""
    lines = [commit_info(), protocol(), metadata(configuration=configuration)]
    return TableBuilder().commit(*lines, add("part-0.parquet", records=1))


def test_properties_set_concurrently_are_kept() -> None:
    storage = built({"mine": "1"}).in_memory()
    rivals = Rivals(storage, [metadata(configuration={"mine": "2", "theirs": "3"})], [add("part-1.parquet", records=1)])

    done = open_at(rivals).set_properties({"mine": "9"})

    assert (3, {"mine": "9", "theirs": "3"}) == (done.committed_version, open_at(storage).snapshot().properties)
    assert [("mine", "2", "9")] == list(done.plan.changes)


def test_changes_already_made_by_others_are_not_repeated() -> None:
    storage = built().in_memory()
    rivals = Rivals(storage, [metadata(configuration={"owner": "me"})])

    done = open_at(rivals).set_properties({"owner": "me"})

    assert (None, 2) == (done.committed_version, len(commits(storage)))


def test_a_feature_is_added_to_the_protocol_committed_concurrently() -> None:
    storage = built().in_memory()
    rivals = Rivals(
        storage, [protocol(1, 7, writer_features=["appendOnly", "invariants", "rowTracking", "domainMetadata"])]
    )

    done = open_at(rivals).add_features(["deletionVectors", "domainMetadata"])

    assert (2, ["deletionVectors"]) == (done.committed_version, [one.name for one in done.plan.added])
    assert ("deletionVectors",) == open_at(storage).snapshot().protocol.reader_features
    assert "rowTracking" in open_at(storage).snapshot().protocol.supported_features


def test_a_concurrent_change_may_cause_a_refusal() -> None:
    storage = built().in_memory()
    rivals = Rivals(storage, [protocol(1, 7, writer_features=["catalogManaged", "inCommitTimestamp"])])

    with pytest.raises(Refused):
        open_at(rivals).set_properties({"owner": "me"})

    assert 2 == len(commits(storage))


def test_a_plan_on_a_read_only_store_reports_it() -> None:
    storage = RecordingStorage(built().in_memory(), capabilities=NEAR._replace(atomic_create=False))

    with pytest.raises(NoAtomicCreate):
        open_at(storage).set_properties({"owner": "me"}, dry_run=True)
    with pytest.raises(NoAtomicCreate):
        open_at(storage).add_features(["domainMetadata"], dry_run=True)


def test_unknown_fields_of_metadata_and_protocol_are_kept() -> None:
    storage = (
        TableBuilder()
        .commit(
            commit_info(),
            {
                "protocol": {
                    "minReaderVersion": 1,
                    "minWriterVersion": 7,
                    "writerFeatures": ["rowTracking", "appendOnly"],
                    "x": 1,
                }
            },
            metadata(configuration={"a": "1"}, createdTime=5, description="d", later={"kept": [None, 1]}),
        )
        .in_memory()
    )
    table = open_at(storage)

    table.set_properties({"b": "2"})
    table.add_features(["vacuumProtocolCheck"])

    made, before = dict(commits(storage)[1])["metaData"], dict(commits(storage)[0])["metaData"]
    assert before | {"configuration": {"a": "1", "b": "2"}} == made
    assert {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["vacuumProtocolCheck"],
        "writerFeatures": ["rowTracking", "appendOnly", "vacuumProtocolCheck"],
        "x": 1,
    } == dict(commits(storage)[2])["protocol"]


@pytest.mark.parametrize("kind", [CheckpointKind.CLASSIC, CheckpointKind.MULTI_PART, CheckpointKind.V2_PARQUET])
def test_a_state_out_of_a_checkpoint_is_committed_as_commits_have_it(kind: CheckpointKind) -> None:
    builder = built({"a": "1", "b": "2"}).checkpoint(0, kind)
    state = open_at(builder.in_memory()).snapshot().metadata.as_json()
    storage = builder.in_memory()
    table = open_at(storage)
    assert table.snapshot().segment.checkpoint is not None

    table.set_properties({"c": "3"})
    table.add_features(["domainMetadata"])

    assert state | {"configuration": {"a": "1", "b": "2", "c": "3"}} == dict(commits(storage)[1])["metaData"]
    assert {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly", "invariants", "domainMetadata"],
    } == dict(commits(storage)[2])["protocol"]
    assert ["SET TBLPROPERTIES", "UPGRADE PROTOCOL"] == [info["operation"] for info in infos(storage)[1:]]


def test_null_fields_of_a_checkpoint_are_omitted_from_commits() -> None:
    found = {
        "id": "one",
        "name": None,
        "format": {"provider": "parquet", "options": None},
        "configuration": {"a": None},
    }

    assert {"id": "one", "format": {"provider": "parquet"}, "configuration": {"a": None}} == drop_null_fields(found)


def test_shown_properties_state_what_is_invalid() -> None:
    table = open_at(built({"delta.appendOnly": "yes", "delta.appendonly": "true", "owner": "me"}).in_memory())
    shown = {one.key: (one.is_known, one.is_valid) for one in show_properties(table.snapshot())}

    assert {"delta.appendOnly": (True, False), "delta.appendonly": (False, True), "owner": (None, True)} == shown
