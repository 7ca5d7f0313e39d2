"""When a vacuum must not run, and what happens when others change the table, or the store fails, while it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from deltacli.core.errors import CommitCorrupt, DeltacliError, PartlyDone, Refused, Unreadable
from deltacli.core.machine import system_clock
from deltacli.operations.vacuum.execute import execute_vacuum
from deltacli.operations.vacuum.plan import VacuumRequest
from deltacli.storage import Creation, Deletion, Failed, FileStat, Storage
from tests.support.actions import Line, add, commit_info, metadata, protocol, remove
from tests.support.builder import TableBuilder, commit_path
from tests.support.committing import infos
from tests.support.damage import truncate_commit, zero_byte_commit
from tests.support.in_memory import MemoryStorage
from tests.support.reading import NOW_MS
from tests.support.small_vectors import vector_path
from tests.support.storage import FAR, RecordingStorage
from tests.support.vacuum_hazards import (
    DAY_MS,
    ID,
    OLD_MS,
    WEEK_MS,
    Meanwhile,
    ago,
    commit_to,
    goes,
    open_at,
    paths_of,
    plan_of,
    refusals,
    table_of,
    vacuum,
    vector_of,
    with_files,
)

MINUTE_MS = 60_000
NEAR_OR_FAR = pytest.mark.parametrize("is_far", [False, True], ids=["near", "far"])


def with_orphans(count: int = 1, **fields: Any) -> TableBuilder:
    """A table of one file and `count` unneeded ones: f-0.parquet and so on."""
    return with_files(table_of("a.parquet", **fields), *(f"f-{number}.parquet" for number in range(count)))


def seen_from(storage: Storage, *, is_far: bool) -> Storage:
    """The store as one behind a network, where nothing is looked at twice, or as it is."""
    return RecordingStorage(storage, capabilities=FAR) if is_far else storage


def operations(storage: Storage) -> list[str]:
    """What the commits say that they are."""
    return [str(info.get("operation")) for info in infos(storage)]


def data_of(storage: MemoryStorage) -> set[str]:
    return {path for path in storage._files if not path.startswith("_delta_log/")}


# The listing is not that of the table


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_without_its_files_a_table_is_at_the_wrong_place(mode: str) -> None:
    """
    users.md 3.2 and 6.1: another directory is mounted here, or nothing.
    """
    table = TableBuilder().commit(protocol(), metadata(), *(add(f"{n}.parquet", size=10) for n in range(20)))
    code = "vacuum.empty-listing" if mode == "full" else "vacuum.live-files-missing"

    assert [code] == refusals(table, mode=mode)
    with_files(table, "another.parquet")
    assert ["vacuum.live-files-missing"] == refusals(table, mode=mode)


@pytest.mark.parametrize(("missing", "is_refused"), [(0, False), (2, False), (3, True), (20, True)])
def test_more_than_a_tenth_of_the_live_files_must_not_be_missing(missing: int, is_refused: bool) -> None:
    """
    users.md 6.2.
    """
    names = [f"{number:02d}.parquet" for number in range(20)]
    table = TableBuilder().commit(protocol(), metadata(), *(add(name, size=10) for name in names))
    with_files(table, "orphan.parquet", *names[missing:])

    assert (["vacuum.live-files-missing"] if is_refused else []) == refusals(table)


@pytest.mark.parametrize(("size", "is_refused"), [(100, False), (101, True)])
def test_more_than_a_tenth_of_the_live_bytes_must_not_be_missing(size: int, is_refused: bool) -> None:
    table = TableBuilder().commit(
        protocol(), metadata(), add("large.parquet", size=size), *(add(f"{n}.parquet", size=9) for n in range(100))
    )
    with_files(table, "orphan.parquet", *(f"{number}.parquet" for number in range(100)))

    assert (["vacuum.live-files-missing"] if is_refused else []) == refusals(table)


def test_a_table_without_live_files_may_be_cleaned() -> None:
    table = table_of("a.parquet").commit(remove("a.parquet", deleted_ms=OLD_MS))

    assert {"a.parquet"} == goes(table)
    assert not goes(TableBuilder().commit(protocol(), metadata()))


# How much, how old, by which clock


@pytest.mark.parametrize(
    ("limit", "count", "enough"),
    [
        ("50%", 1, None),
        ("50%", 2, "67%"),
        ("66%", 2, "67%"),
        ("67%", 2, None),
        ("10B", 1, None),
        ("9B", 1, "50%"),
        ("9", 1, "50%"),
        ("1KiB", 100, None),
    ],
)
def test_no_more_is_deleted_than_expected(limit: str, count: int, enough: str | None) -> None:
    table = with_orphans(count)

    plan = plan_of(table, max_delete=limit)

    assert count == plan.files
    assert [("vacuum.max-delete", f"--max-delete {enough}")] * (enough is not None) == [
        (refusal.code, refusal.override) for refusal in plan.refusals
    ]
    if limit == "9":
        assert plan.refusals[0].message.endswith(" above the limit of 9 B")


def test_few_large_files_are_as_much_as_many() -> None:
    table = with_files(table_of("a.parquet", "b.parquet")).file("c.parquet", b"x" * 21, modified_ms=OLD_MS)

    assert ["vacuum.max-delete"] == refusals(table, max_delete="50%")


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_retention_below_the_tables_own_needs_its_name(mode: str) -> None:
    """
    C.2.
    """
    table = with_orphans(configuration={"delta.deletedFileRetentionDuration": "interval 30 days"})

    assert ["vacuum.retention"] == refusals(table, mode=mode, retention_ms=29 * DAY_MS)
    below = {"mode": mode, "retention_ms": 29 * DAY_MS}
    assert ["vacuum.retention"] == refusals(table, allow_retention_below_ms=29 * DAY_MS, **below)
    assert not refusals(table, allow_retention_below_ms=30 * DAY_MS, **below)


def test_a_negative_retention_is_refused() -> None:
    """
    C.2: what is yet to be written would be old.
    """
    with pytest.raises(DeltacliError):
        goes(with_orphans(), retention_ms=-1, allow_retention_below_ms=WEEK_MS)


@pytest.mark.parametrize(("ahead_ms", "is_refused"), [(5 * MINUTE_MS, False), (5 * MINUTE_MS + 1, True)])
@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_log_from_the_future_means_that_a_clock_is_wrong(mode: str, ahead_ms: int, is_refused: bool) -> None:
    by_store = with_orphans().commit(commit_info("WRITE"), modified_ms=NOW_MS + ahead_ms)
    stamped = {"delta.enableInCommitTimestamps": "true"}
    by_writer = TableBuilder().commit(
        commit_info("WRITE", inCommitTimestamp=NOW_MS + ahead_ms),
        protocol(1, 7, writer_features=["inCommitTimestamp"]),
        metadata(configuration=stamped),
    )

    for table in (by_store, by_writer):
        assert ["vacuum.clock-skew"] * is_refused == refusals(table, mode=mode)


def test_a_store_without_modification_times_is_refused() -> None:
    table = table_of("a.parquet").file("b.parquet", b"b", modified_ms=0)
    table.files = {path: file.__class__(file.data, 0) for path, file in table.files.items()}

    assert ["vacuum.unknown-clock"] == refusals(table)


@pytest.mark.parametrize(("behind_ms", "is_refused"), [(4 * MINUTE_MS, False), (6 * MINUTE_MS, True)])
def test_a_clock_that_is_ahead_of_the_stores_is_noticed_before_the_first_delete(
    behind_ms: int, is_refused: bool
) -> None:
    """
    C.2: seen from the future, everything is old. START tells, which was written just now.
    """

    class Behind(RecordingStorage):
        """A store whose clock is late."""

        def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:
            return super().put_if_absent(path, data, modified_ms=(modified_ms or system_clock()) - behind_ms)

    inner = with_orphans().in_memory()
    table = open_at(Behind(inner), clock=system_clock)

    if is_refused:
        with pytest.raises(PartlyDone) as raised:
            vacuum(table)
        assert ("vacuum.clock-skew", 4) == (raised.value.code, raised.value.cause_exit_code)
        assert {"status": "FAILED"} == infos(inner)[-1]["operationParameters"]
    else:
        vacuum(table)

    assert (2 if is_refused else 1) == len(data_of(inner))


# The log is damaged, or of a kind that deltacli does not know


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("is_stamped", [False, True])
@pytest.mark.parametrize("damage", [zero_byte_commit, truncate_commit])
def test_a_damaged_commit_that_no_reader_needs_is_refused_all_the_same(
    damage: Callable[[int], Any], is_stamped: bool, mode: str
) -> None:
    """
    users.md 6.6: what it removed, or added, is unknown.
    """
    table = TableBuilder()
    for version in range(5):
        born = [protocol(1, 7, writer_features=["inCommitTimestamp"] * is_stamped)]
        born += [metadata(configuration={"delta.enableInCommitTimestamps": "true"} if is_stamped else {})]
        info = commit_info("WRITE", inCommitTimestamp=OLD_MS + 1_000 * version)
        table.commit(info, *(born if not version else []), add(f"{version}.parquet", size=10))
        with_files(table, f"{version}.parquet")
    table = with_files(table.checkpoint(3), "orphan.parquet")

    above = with_copy(table).damaged(damage(4))
    table.damaged(damage(2))

    code = "commit.empty" if damage is zero_byte_commit else "commit.bad-json"
    assert [code] == refusals(table, mode=mode)
    with pytest.raises(Refused) as refused:
        vacuum(table.in_memory(), mode=mode)
    assert (4, code) == (refused.value.exit_code, refused.value.code)
    with pytest.raises(Unreadable) as unreadable:
        plan_of(above, mode=mode)
    assert 3 == unreadable.value.exit_code


def with_copy(table: TableBuilder) -> TableBuilder:
    copy = TableBuilder()
    copy.files = dict(table.files)
    return copy


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    ("features", "configuration", "exit_code"),
    [
        ({"writer_features": ["futureWriter"]}, {}, 4),
        ({"reader_features": ["future"], "writer_features": ["future"]}, {}, 3),
        ({"writer_features": ["adaptiveMetadata"]}, {}, 4),
        ({"writer_features": ["catalogManaged", "inCommitTimestamp"]}, {}, 4),
        ({}, {"delta.coordinatedCommits.commitCoordinator-preview": "there"}, 4),
        ({"reader_features": ["vacuumProtocolCheck"], "writer_features": ["vacuumProtocolCheck", "future"]}, {}, 4),
    ],
)
def test_a_protocol_that_deltacli_does_not_know_is_refused_for_dry_runs_too(
    features: dict[str, Any], configuration: dict[str, str], exit_code: int, mode: str
) -> None:
    """
    C.8: its files may be named in ways that nobody here can see.
    """
    reader = 3 if "reader_features" in features else 1
    table = TableBuilder().commit(
        protocol(reader, 7, **{"writer_features": [], **features}), metadata(configuration=configuration)
    )

    with pytest.raises(DeltacliError) as raised:
        plan_of(with_files(table, "orphan.parquet"), mode=mode)

    assert exit_code == raised.value.exit_code


def test_a_table_that_asks_for_the_check_of_the_protocol_has_got_it() -> None:
    lists = ["vacuumProtocolCheck"]
    table = TableBuilder().commit(protocol(3, 7, reader_features=lists, writer_features=lists), metadata())

    assert {"orphan.parquet"} == goes(with_files(table, "orphan.parquet"))


# Others come between


def test_a_log_that_was_copied_makes_a_vacuum_keep_more() -> None:
    """
    C.9.7: its commits look younger than they are.
    """
    table = table_of("a.parquet", "b.parquet").commit(remove("b.parquet", deleted_ms=OLD_MS), modified_ms=ago(0))

    assert not goes(table)


RETURNS: dict[str, list[Line]] = {
    "restore": [add("f-0.parquet", size=10)],
    "another-spelling": [add("./%66-0.parquet", size=10)],
    "clone": [add("memory://table/f-0.parquet", size=10)],
    "removed-again": [add("f-0.parquet", size=10), remove("f-1.parquet", deleted_ms=NOW_MS)],
    "change-data": [{"cdc": {"path": "f-0.parquet", "partitionValues": {}, "size": 10, "dataChange": False}}],
}


@NEAR_OR_FAR
@pytest.mark.parametrize("kind", RETURNS)
def test_files_named_by_a_newer_version_are_kept(kind: str, is_far: bool) -> None:
    """
    C.9.3: RESTORE, a writer that copied data with old times, a clone that gives whole addresses.
    """
    inner = with_orphans(3).in_memory()
    storage = seen_from(inner, is_far=is_far)
    plan = plan_of(storage)
    commit_to(inner, 1, *RETURNS[kind])

    outcome = execute_vacuum(open_at(storage), plan)

    spared = {"f-0.parquet", "f-1.parquet"} if kind == "removed-again" else {"f-0.parquet"}
    assert data_of(inner) == {"a.parquet"} | spared
    assert (len(spared), 3 - len(spared)) == (outcome.spared, outcome.deleted.files)


def test_a_vector_that_a_newer_version_names_is_spared() -> None:
    table = table_of("a.parquet", add("b.parquet", size=10, vector=vector_of(ID)), has_vectors=True)
    table.commit(remove("b.parquet", vector=vector_of(ID), deleted_ms=OLD_MS))
    storage = with_files(table, "b.parquet", vector_path(ID)).in_memory()
    plan = plan_of(storage)
    commit_to(storage, 2, add("b.parquet", size=10, vector=vector_of(ID)))

    execute_vacuum(open_at(storage), plan)

    assert {"a.parquet", "b.parquet", vector_path(ID)} == data_of(storage)


@NEAR_OR_FAR
def test_a_commit_between_start_and_the_first_delete_is_seen(is_far: bool) -> None:
    inner = with_orphans(2).in_memory()
    act = partial(commit_to, inner, 2, add("f-1.parquet", size=10))
    storage: Any = Meanwhile(seen_from(inner, is_far=is_far), "put_if_absent", act, after=True)

    outcome = vacuum(storage)

    assert {"a.parquet", "f-1.parquet"} == data_of(inner)
    assert (1, 3, 1) == (outcome.start_version, outcome.end_version, outcome.spared)


@NEAR_OR_FAR
def test_a_commit_between_two_batches_is_seen(is_far: bool) -> None:
    inner = with_orphans(1_500).in_memory()
    last = sorted(data_of(inner))[-1]
    act = partial(commit_to, inner, 2, add(last, size=10))
    storage: Any = Meanwhile(seen_from(inner, is_far=is_far), "delete_many", act)

    outcome = vacuum(storage, threads=1)

    assert {"a.parquet", last} == data_of(inner)
    assert (1_499, 1) == (outcome.deleted.files, outcome.spared)


@NEAR_OR_FAR
def test_two_vacuums_at_once_do_each_others_work(is_far: bool) -> None:
    """
    C.9.5: what is gone already counts as done.
    """
    inner = with_orphans(10).in_memory()
    storage: Any = Meanwhile(seen_from(inner, is_far=is_far), "put_if_absent", lambda: vacuum(inner), after=True)

    outcome = vacuum(storage)

    assert {"a.parquet"} == data_of(inner)
    assert (0, 10, 0) == (outcome.deleted.files, outcome.missing, outcome.failed.count)
    assert ["VACUUM START", "VACUUM START", "VACUUM END", "VACUUM END"] == operations(inner)[1:]


TORN: dict[str, bytes] = {"empty": b"", "truncated": b'{"add":{"path":"f-0.parquet"'}


@NEAR_OR_FAR
@pytest.mark.parametrize("how", TORN)
def test_a_newer_commit_that_is_torn_stops_everything(how: str, is_far: bool) -> None:
    """
    It may need what the plan deletes.
    """
    inner = with_orphans(3).in_memory()
    storage: Any = Meanwhile(
        seen_from(inner, is_far=is_far), "put_if_absent", partial(commit_to, inner, 2, TORN[how]), after=True
    )

    with pytest.raises(DeltacliError):
        vacuum(storage)

    assert 4 == len(data_of(inner))


def test_a_torn_commit_that_comes_after_the_protocol_was_checked_stops_everything() -> None:
    """
    Without START and END nothing else looks at the newest commits.
    """
    inner = with_orphans(3).in_memory()
    plan = plan_of(inner)

    class Torn(RecordingStorage):
        """Shows an empty commit to whoever lists from the version of the plan on."""

        def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
            yield from super().list_from(directory, start)
            if start.startswith(f"{0:020d}"):
                yield FileStat(commit_path(1).rpartition("/")[2], 0, NOW_MS)

        def read(self, path: str) -> bytes:
            return b"" if path == commit_path(1) else super().read(path)

    with pytest.raises(CommitCorrupt):
        execute_vacuum(open_at(Torn(inner)), plan, VacuumRequest(log_entries=False))

    assert 4 == len(data_of(inner))


@pytest.mark.parametrize("log_entries", [True, False])
def test_a_version_far_above_the_plan_stops_everything(log_entries: bool) -> None:
    table = with_orphans(3)
    storage = table.in_memory()
    plan = plan_of(storage)
    table.commit(remove("a.parquet", deleted_ms=NOW_MS)).checkpoint(1)
    for path, file in table.files.items():
        if f"{1:020d}" in path:
            storage.put(path.replace(f"{1:020d}", f"{1 << 60:020d}"), file.data, modified_ms=file.modified_ms)

    with pytest.raises(Refused) as raised:
        execute_vacuum(open_at(storage), plan, VacuumRequest(log_entries=log_entries))

    assert "vacuum.plan-too-old" == raised.value.code
    assert 4 == len(data_of(storage))


@pytest.mark.parametrize("log_entries", [True, False])
def test_commits_that_were_cleaned_before_anybody_read_them_stop_everything(log_entries: bool) -> None:
    table = with_orphans(3)
    storage = table.in_memory()
    plan = plan_of(storage)
    table.commit(add("f-0.parquet", size=10)).commit(remove("f-0.parquet", deleted_ms=NOW_MS)).checkpoint(2)
    for path, file in table.files.items():
        if path not in (commit_path(1), commit_path(2)):
            storage.put(path, file.data, modified_ms=file.modified_ms)

    with pytest.raises(Refused) as raised:
        execute_vacuum(open_at(storage), plan, VacuumRequest(log_entries=log_entries))

    assert "vacuum.plan-too-old" == raised.value.code
    assert 4 == len(data_of(storage))


@pytest.mark.parametrize(
    "lines",
    [
        [protocol(1, 7, writer_features=["futureWriter"])],
        [metadata(configuration={"delta.deletedFileRetentionDuration": "interval 60 days"})],
        [metadata("another-table")],
        [add("../t/f-0.parquet", size=10)],
        [add("a.parquet", size=10, vector={**vector_of(ID), "storageType": "z"})],
    ],
    ids=["protocol", "retention", "replaced", "escaping", "vector"],
)
@pytest.mark.parametrize("log_entries", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
def test_a_newer_version_that_changes_what_the_plan_rests_on_stops_it(
    lines: list[Line], log_entries: bool, is_late: bool
) -> None:
    inner = with_orphans(1_500).in_memory()
    storage: Any = inner
    plan = plan_of(inner)
    if is_late:
        version = 2 if log_entries else 1
        storage = Meanwhile(inner, "delete_many", partial(commit_to, inner, version, *lines))
    else:
        commit_to(inner, 1, *lines)

    with pytest.raises(Refused):
        execute_vacuum(open_at(storage), plan, VacuumRequest(threads=1, log_entries=log_entries))

    assert (501 if is_late else 1_501) == len(data_of(inner))


# START and END, and stores that fail


class Stubborn(RecordingStorage):
    """A store that deletes nothing whose path has a part."""

    part = "-1"

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        for path in paths:
            if self.part in path:
                yield path, Failed("it does not want to")
            else:
                yield from super().delete_many([path])


@NEAR_OR_FAR
def test_files_that_could_not_be_deleted_are_reported_and_the_end_is_failed(is_far: bool) -> None:
    """
    C.9.6.
    """
    inner = with_orphans(3).in_memory()
    storage = Stubborn(inner, capabilities=FAR if is_far else None)

    with pytest.raises(PartlyDone) as raised:
        vacuum(storage)

    assert (5, "f-1.parquet") == (raised.value.exit_code, raised.value.facts["first"])
    assert {"a.parquet", "f-1.parquet"} == data_of(inner)
    start, end = infos(inner)[1:]
    assert ("VACUUM END", {"status": "FAILED"}) == (end["operation"], end["operationParameters"])
    assert "operationMetrics" not in end or not end["operationMetrics"]
    assert {"numFilesToDelete": "3", "sizeOfDataToDelete": "30"} == start["operationMetrics"]
    assert "_delta_log/_last_vacuum_info" not in inner._files


def test_start_and_end_are_commits_like_others() -> None:
    """
    C.6: with in-commit timestamps, before the first delete and after the last one.
    """
    stamped = {"delta.enableInCommitTimestamps": "true"}
    table = TableBuilder().commit(
        commit_info("WRITE", inCommitTimestamp=OLD_MS),
        protocol(1, 7, writer_features=["inCommitTimestamp"]),
        metadata(configuration=stamped),
    )
    storage = with_files(table, "orphan.parquet").in_memory()

    outcome = vacuum(storage, retention_ms=2 * WEEK_MS)

    start, end = infos(storage)[1:]
    assert (1, 2) == (outcome.start_version, outcome.end_version)
    assert ["VACUUM START", "VACUUM END"] == [start["operation"], end["operation"]]
    assert OLD_MS < start["inCommitTimestamp"] < end["inCommitTimestamp"]
    assert {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(WEEK_MS),
        "specifiedRetentionMillis": str(2 * WEEK_MS),
    } == {name: str(value).lower() for name, value in start["operationParameters"].items()}
    assert {"status": "COMPLETED"} == end["operationParameters"]
    assert {"numDeletedFiles": "1", "numVacuumedDirectories": "0"} == end["operationMetrics"]
    assert 0 == open_at(storage).snapshot().version - 2


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_without_candidates_nothing_is_committed(mode: str) -> None:
    storage = table_of("a.parquet").in_memory()

    outcome = vacuum(storage, mode=mode)

    assert (None, None) == (outcome.start_version, outcome.end_version)
    assert 1 == len(infos(storage))


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_second_run_has_nothing_to_do(mode: str) -> None:
    table = with_orphans(3, has_vectors=True).commit(add("b.parquet", size=10, vector=vector_of(ID)))
    table.commit(remove("b.parquet", vector=vector_of(ID), deleted_ms=OLD_MS))
    storage = with_files(table, "b.parquet", vector_path(ID), "_change_data/x.parquet").in_memory()

    vacuum(storage, mode=mode)

    assert not goes(storage, mode=mode)
    assert set() == paths_of(plan_of(storage)) or mode == "lite"


def test_log_entries_are_omitted_on_request() -> None:
    storage = with_orphans().in_memory()

    vacuum(storage, log_entries=False)

    assert ({"a.parquet"}, 1) == (data_of(storage), len(infos(storage)))
