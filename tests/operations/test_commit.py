"""`commit`: one request, one version, whoever else commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.changing.commit import Committed, NothingToDo, commit, wait_before_retry
from deltacli.changing.commit_options import CommitOptions
from deltacli.changing.commit_sender import ENGINE_INFO
from deltacli.core.errors import (
    CommitCorrupt,
    ConflictLost,
    DeltacliError,
    NoAtomicCreate,
    OutcomeUnknown,
    Refused,
    StorageFailed,
)
from deltacli.core.machine import Machine
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.storage import Created, Creation, Existed, Storage, Unknown
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from tests.support.actions import Line, add, commit_info, domain, metadata, protocol, remove, to_bytes, txn
from tests.support.builder import EPOCH_MS, LOG, TableBuilder, commit_path
from tests.support.committing import (
    FEATURES,
    STAMPED,
    Rivals,
    add_feature,
    commits,
    count_up,
    count_up_domain,
    infos,
    run,
    say,
    table_of_commits,
    versions_of,
)
from tests.support.reading import NOW_MS, open_at
from tests.support.storage import NEAR, RecordingStorage


def commits_of(storage: Storage) -> list[str]:
    return [stat.name for stat in storage.list_from(LOG)]


def test_a_request_is_committed_as_the_next_version() -> None:
    storage = table_of_commits(3).in_memory()

    done = run(storage, count_up())

    assert isinstance(done, Committed)
    assert (3, 2, 0, "ours") == (done.version, done.read_version, done.lost_attempts, done.txn_id)
    snapshot = open_at(storage).snapshot()
    assert (3, "1", 2) == (snapshot.version, snapshot.properties["count"], infos(storage)[3]["readVersion"])
    assert ENGINE_INFO == infos(storage)[3]["engineInfo"]
    assert NOW_MS == infos(storage)[3]["timestamp"]


def test_nothing_to_do_makes_no_version() -> None:
    storage = table_of_commits(3).in_memory()

    done = run(storage, lambda _snapshot: None)

    assert isinstance(done, NothingToDo)
    assert (2, 3) == (done.read_version, len(commits(storage)))


def test_a_commit_costs_one_creation_and_no_listing_of_its_own() -> None:
    storage = RecordingStorage(table_of_commits(3).in_memory())

    run(storage, count_up())

    assert (1, 1, 3) == tuple(storage.calls[verb] for verb in ("put_if_absent", "list_from", "read"))


def test_a_store_that_cannot_create_atomically_is_not_even_read() -> None:
    storage = RecordingStorage(table_of_commits(3).in_memory(), capabilities=NEAR._replace(atomic_create=False))

    with pytest.raises(NoAtomicCreate):
        run(storage, count_up())

    assert not storage.paths


@pytest.mark.parametrize("data", [b"", b'{"commitInfo":{}', b'{"commitInfo":{}}\n{"add":{"pa'])
def test_a_log_that_ends_in_a_torn_commit_is_not_continued(data: bytes) -> None:
    storage = table_of_commits(3).in_memory()
    storage.write(commit_path(3), data)

    with pytest.raises(CommitCorrupt):
        run(storage, count_up())

    assert 4 == len(commits_of(storage))


def test_a_table_of_another_writer_kind_is_refused() -> None:
    storage = TableBuilder().commit(protocol(1, 7, writer_features=["futureOne"]), metadata()).in_memory()

    with pytest.raises(Refused, match="futureOne"):
        run(storage, say())

    assert 1 == len(commits_of(storage))


def test_no_commit_takes_the_place_of_one_that_only_a_compaction_has() -> None:
    """Engines read the compaction instead of the commits that it covers, also of those made after their loss."""
    storage, lost = table_of_commits(3).in_memory(), table_of_commits(4).in_memory().read(commit_path(3))
    storage.write(f"{LOG}/{1:020}.{3:020}.compacted.json", b"")

    with pytest.raises(Refused, match="commits after version 2 seem to be lost") as caught:
        run(storage, count_up())

    assert ("compaction.beyond-log", 4) == (caught.value.code, len(commits_of(storage)))
    assert f"_delta_log/*.{3:020}.compacted.json" == caught.value.facts["file"]

    def read_too_early(table: TableHandle) -> Snapshot:
        """Another writer adds the commit and the compaction while the log is listed."""
        snapshot = read_snapshot(table)
        storage.write(commit_path(3), lost)
        return snapshot

    done = commit(open_at(storage), count_up(), read=read_too_early, options=CommitOptions(pause=lambda _: None))

    assert isinstance(done, Committed)
    assert (4, 2) == (done.version, done.read_version)


HARMLESS: list[list[Line]] = [
    [commit_info("WRITE"), add("a")],
    [commit_info("DELETE"), remove("part-0.parquet")],
    [commit_info("STREAMING UPDATE"), txn("app", 1)],
    [commit_info("CLUSTER BY"), domain("other")],
    [add("a"), commit_info("WRITE")],
    [add("a")],
]
CHANGING: list[list[Line]] = [
    [
        commit_info("SET TBLPROPERTIES"),
        {"metaData": metadata(configuration={"count": "5"})["metaData"]},
    ],
    [commit_info("UPGRADE PROTOCOL"), protocol(1, 7, writer_features=[*FEATURES, "appendOnly"])],
    [commit_info("COUNT"), domain("count", "5")],
]


@pytest.mark.parametrize("winner", HARMLESS)
@pytest.mark.parametrize("rounds", [1, 3])
def test_after_harmless_winners_the_same_request_follows(winner: list[Line], rounds: int) -> None:
    storage = table_of_commits(3).in_memory()
    made: list[int] = []

    def make(snapshot: Snapshot) -> CommitRequest | None:
        made.append(snapshot.version)
        return count_up()(snapshot)

    pauses: list[int] = []
    done = run(Rivals(storage, *[winner] * rounds), make, pauses=pauses)

    assert isinstance(done, Committed)
    assert (3 + rounds, rounds) == (done.version, done.lost_attempts)
    assert [2] == made
    assert list(range(1, rounds + 1)) == pauses
    assert [3 + rounds] == versions_of(storage)
    assert 2 + rounds == infos(storage)[-1]["readVersion"]


@pytest.mark.parametrize("winner", CHANGING[:2])
def test_after_a_change_of_what_was_read_the_request_is_planned_again(winner: list[Line]) -> None:
    storage = table_of_commits(3).in_memory()
    made: list[int] = []

    def make(snapshot: Snapshot) -> CommitRequest | None:
        made.append(snapshot.version)
        return count_up()(snapshot)

    run(Rivals(storage, winner), make)

    assert [2, 3] == made
    assert [4] == versions_of(storage)
    assert ("6" if "metaData" in winner[1] else "1") == open_at(storage).snapshot().properties["count"]


def test_a_domain_that_both_write_counts_both() -> None:
    storage = table_of_commits(3).in_memory()

    run(Rivals(storage, CHANGING[2]), count_up_domain())

    assert ["6"] == [found.configuration for found in open_at(storage).snapshot().domains]


def test_a_winner_may_leave_nothing_to_do() -> None:
    storage = table_of_commits(3).in_memory()

    done = run(Rivals(storage, CHANGING[1]), add_feature("appendOnly"))

    assert isinstance(done, NothingToDo)
    assert 3 == done.read_version
    assert 4 == len(commits(storage))


def test_a_winner_may_make_the_table_one_that_we_do_not_write() -> None:
    storage = table_of_commits(3).in_memory()
    winner = [commit_info(), protocol(1, 7, writer_features=[*FEATURES, "futureOne"])]

    with pytest.raises(Refused, match="version 3 has the writer feature futureOne"):
        run(Rivals(storage, winner), count_up())

    assert 4 == len(commits(storage))


def test_a_winner_may_make_the_table_one_that_we_cannot_read() -> None:
    storage = table_of_commits(3).in_memory()
    both = [*FEATURES, "futureTwo"]
    winner = [commit_info(), protocol(3, 7, reader_features=["futureTwo"], writer_features=both)]

    with pytest.raises(DeltacliError, match="futureTwo") as raised:
        run(Rivals(storage, winner), count_up())

    assert 3 == raised.value.exit_code
    assert 4 == len(commits(storage))


@pytest.mark.parametrize("torn", [b"", b'{"commitInfo":{"operation":"WRITE"}}\n{"add":{"pat'])
def test_a_torn_winner_is_not_followed(torn: bytes) -> None:
    storage = table_of_commits(3).in_memory()

    with pytest.raises(CommitCorrupt):
        run(Rivals(storage, torn), say())

    assert 4 == len(commits_of(storage))


def test_a_winner_of_many_commits_is_followed_at_its_end() -> None:
    storage = table_of_commits(3).in_memory()

    class Busy(Rivals):
        def put_if_absent(self, path: str, data: bytes, **options: Any) -> Any:  # Any: as in the port
            if path == commit_path(3):
                for version in range(3, 9):
                    storage.put_if_absent(commit_path(version), to_bytes([commit_info("W"), add(f"f{version}")]))
            return storage.put_if_absent(path, data, **options)

    done = run(Busy(storage), say())

    assert isinstance(done, Committed)
    assert (9, 1) == (done.version, done.lost_attempts)


def test_a_version_in_the_request_follows_the_snapshot() -> None:
    storage = table_of_commits(3).in_memory()

    def make(snapshot: Snapshot) -> CommitRequest:
        action = {"domain": "d", "configuration": str(snapshot.version + 1), "removed": False}
        return CommitRequest("X", domains=(action,), contains_own_version=True)

    done = run(Rivals(storage, HARMLESS[0]), make)

    assert isinstance(done, Committed)
    assert [str(done.version)] == [found.configuration for found in open_at(storage).snapshot().domains]


@pytest.mark.parametrize("winner", [HARMLESS[0], CHANGING[0]])
def test_repeated_conflicts_name_the_winners(winner: list[Line]) -> None:
    storage = table_of_commits(3).in_memory()
    pauses: list[int] = []
    rounds = [[commit_info("WRITE", engineInfo="Other/1"), *winner[1:]] for _ in range(5)]

    with pytest.raises(ConflictLost) as raised:
        run(Rivals(storage, *rounds), count_up(), max_attempts=5, pauses=pauses)

    assert 6 == raised.value.exit_code
    assert {
        "versions tried": "5, in 0 s",
        "last lost to": "version 7, WRITE by Other/1",
        "next": "let the other writers pause, or run the same command again when they commit less often",
    } == raised.value.facts
    assert [1, 2, 3, 4, 5] == pauses
    assert [] == versions_of(storage)


def stamp_of(storage: Storage, version: int) -> int | None:
    (kind, action), *_ = commits(storage)[version]
    assert "commitInfo" == kind
    return action.get("inCommitTimestamp")


def test_timestamps_follow_the_clock_and_the_winners() -> None:
    far = NOW_MS + 5_000
    storage = table_of_commits(3, STAMPED).in_memory()
    run(storage, say())

    run(Rivals(storage, [commit_info(inCommitTimestamp=far), add("a")]), say(), txn_id="second")

    assert [NOW_MS, far, far + 1] == [stamp_of(storage, version) for version in (3, 4, 5)]


def test_timestamps_that_are_switched_on_begin_after_the_file_before() -> None:
    storage = table_of_commits(3).in_memory()
    storage.write(commit_path(2), storage.read(commit_path(2)), modified_ms=NOW_MS + 70)

    def make(snapshot: Snapshot) -> CommitRequest:
        return CommitRequest("X", metadata=snapshot.metadata.as_json() | {"configuration": STAMPED})

    run(storage, make)

    assert NOW_MS + 71 == stamp_of(storage, 3)
    snapshot = open_at(storage).snapshot()
    assert snapshot.time is not None
    assert NOW_MS + 71 == snapshot.time.timestamp_ms
    assert ("3", str(NOW_MS + 71)) == (
        snapshot.properties["delta.inCommitTimestampEnablementVersion"],
        snapshot.properties["delta.inCommitTimestampEnablementTimestamp"],
    )
    assert [] == [finding.rule.id for finding in open_at(storage).validate(select=["ict.*"]).findings]


def test_a_timestamp_that_is_missing_stops_the_log() -> None:
    builder = table_of_commits(3, STAMPED)
    storage = builder.commit(add("a"), commit_info(inCommitTimestamp=EPOCH_MS)).in_memory()

    with pytest.raises(Refused) as raised:
        run(storage, say())

    assert "ict.missing" == raised.value.code
    assert 4 == len(commits(storage))


def test_a_timestamp_that_a_winner_lacks_stops_the_log() -> None:
    storage = table_of_commits(3, STAMPED).in_memory()

    with pytest.raises(Refused) as raised:
        run(Rivals(storage, [add("a")]), say())

    assert "ict.missing" == raised.value.code


class Answering(Rivals):
    """A store that answers every creation as configured."""

    def __init__(self, inner: Storage, answer: Callable[[str, bytes], Creation]) -> None:
        super().__init__(inner)
        self._answer = answer

    def put_if_absent(self, path: str, data: bytes, **_: Any) -> Creation:  # Any: as in the port
        return self._answer(path, data)


def test_an_unknown_outcome_is_reported_with_how_to_verify_it() -> None:
    storage = table_of_commits(3).in_memory()

    with pytest.raises(OutcomeUnknown) as raised:
        run(Answering(storage, lambda *_: Unknown("no answer in 60 seconds")), count_up())

    assert 8 == raised.value.exit_code
    assert "version 3 " in raised.value.message
    assert {"file": commit_path(3), "txnId": "ours", "why": "no answer in 60 seconds"}.items() <= (
        raised.value.facts.items()
    )
    assert "deltacli log cat {table} 3" == raised.value.hint
    assert 3 == len(commits(storage))


def test_a_version_that_the_log_went_past_is_not_created_behind_it() -> None:
    storage = table_of_commits(3).in_memory()

    def answer(path: str, data: bytes) -> Creation:
        if storage.put_if_absent(commit_path(4), to_bytes([commit_info("W")])) == Created():
            return Unknown("no answer")
        return storage.put_if_absent(path, data)

    with pytest.raises(OutcomeUnknown):
        run(Answering(storage, answer), count_up())

    assert [f"{LOG}/{name}" for name in commits_of(storage)] == [commit_path(version) for version in (0, 1, 2, 4)]


def test_a_version_that_was_taken_back_is_tried_again() -> None:
    storage = table_of_commits(3).in_memory()
    answers = iter([Existed()])  # what was there is gone before it is looked at
    made: list[int] = []

    def make(snapshot: Snapshot) -> CommitRequest | None:
        made.append(snapshot.version)
        return say()(snapshot)

    done = run(Answering(storage, lambda path, data: next(answers, None) or storage.put_if_absent(path, data)), make)

    assert isinstance(done, Committed)
    assert (3, [2, 2]) == (done.version, made)


def test_a_creation_that_certainly_failed_is_reported_at_once() -> None:
    storage = table_of_commits(3).in_memory()
    sent: list[str] = []

    def answer(path: str, _data: bytes) -> Creation:
        sent.append(path)
        raise StorageFailed("the disk is full")

    with pytest.raises(StorageFailed, match="the disk is full"):
        run(Answering(storage, answer), count_up())

    assert [commit_path(3)] == sent


def test_an_answer_is_waited_for_with_pauses() -> None:
    storage = table_of_commits(3).in_memory()
    pauses: list[int] = []
    answers = iter([Unknown("no answer")] * 3)

    run(Answering(storage, lambda *sent: next(answers, None) or storage.put_if_absent(*sent)), say(), pauses=pauses)

    assert [1, 2, 3] == pauses
    assert [3] == versions_of(storage)


def test_pauses_grow_to_half_a_second_and_never_repeat() -> None:
    waited: list[float] = []
    machine = Machine(sleep=waited.append)

    for repetition in range(1, 40):
        wait_before_retry(machine, repetition)

    assert len(waited) == len(set(waited))
    assert all(0 <= wait <= min(0.5, 0.01 * 2**number) for number, wait in enumerate(waited, 1))
    assert max(waited) > 0.1


@pytest.mark.parametrize(
    ("is_done", "is_lost", "note"),
    [
        (True, False, "version 3 was committed"),
        (False, True, "nothing was committed"),
        (False, False, "version 3 may have been committed: it was if 00000000000000000003.json contains ours"),
    ],
)
def test_an_interruption_in_flight_reports_what_it_left(is_done: bool, is_lost: bool, note: str) -> None:
    class Stop(BaseException):
        pass

    storage = table_of_commits(3).in_memory()

    def answer(path: str, data: bytes) -> Creation:
        if is_done or is_lost:
            storage.put_if_absent(path, data if is_done else to_bytes([commit_info("W")]))
        raise Stop

    with pytest.raises(Stop) as raised:
        run(Answering(storage, answer), count_up())

    assert [note] == raised.value.__notes__
