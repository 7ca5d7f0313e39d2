"""Versions and times at the ends of what 64 bits hold: nothing is committed that other engines can't read."""

from __future__ import annotations

import pytest

from deltacli.changing.change import execute_change
from deltacli.changing.commit import Committed
from deltacli.cli.render.vacuum import vacuum_sections
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.core.errors import CommitCorrupt, Refused, VersionAbsent
from deltacli.delta.log.commit_content import CommitRequest
from deltacli.delta.log.segment import MAX_TIME_MS, MAX_VERSION
from deltacli.operations.log.crc_and_compact import Checksum
from deltacli.table.version import Snapshot
from tests.support.actions import add, birth, commit_info, metadata, protocol, remove, to_bytes, txn
from tests.support.builder import EPOCH_MS, LOG, StoredFile, TableBuilder, commit_path
from tests.support.committing import FEATURES, STAMPED, count_up, infos, run
from tests.support.reading import open_at, open_built
from tests.support.vacuum_hazards import OLD_MS, plan_of, table_of, with_files


def stamped(last_ms: int) -> TableBuilder:
    """A table of two versions; the in-commit timestamp of the newest is `last_ms`."""
    birth = [protocol(1, 7, writer_features=FEATURES), metadata(configuration=STAMPED)]
    builder = TableBuilder().commit(commit_info("WRITE", inCommitTimestamp=EPOCH_MS), *birth, add("a", records=1))
    return builder.commit(commit_info("WRITE", inCommitTimestamp=last_ms), add("b", records=1))


def numbered(newest: int) -> TableBuilder:
    """A table of two versions whose newest has this number; the one before is only in a checkpoint."""
    builder = TableBuilder().commits(2).checkpoint(0)
    files = dict(builder.files)
    builder.files.clear()
    for path, file in files.items():
        old = int(path.removeprefix(f"{LOG}/")[:20])
        builder.files[path.replace(f"{old:020d}", f"{newest - 1 + old:020d}")] = StoredFile(file.data, file.modified_ms)
    return builder


@pytest.mark.parametrize("last_ms", [2**63 - 1, MAX_TIME_MS])
def test_no_commit_follows_an_in_commit_timestamp_that_no_later_one_can_follow(last_ms: int) -> None:
    storage = stamped(last_ms).in_memory()

    with pytest.raises(Refused) as raised:
        run(storage, count_up())

    assert "ict.future" == raised.value.code
    assert 1 == open_at(storage).snapshot().version


def test_the_last_timestamp_that_fits_is_written() -> None:
    storage = stamped(MAX_TIME_MS - 1).in_memory()

    done = run(storage, count_up())

    assert isinstance(done, Committed)
    assert MAX_TIME_MS == infos(storage)[2]["inCommitTimestamp"]


def test_a_rival_with_an_impossible_timestamp_stops_the_run() -> None:
    """
    The request is tried after the rival as it is, so that the time is looked at once more.
    """
    storage = stamped(EPOCH_MS + 1).in_memory()
    rival = TableBuilder().commit(commit_info("WRITE", inCommitTimestamp=2**63 - 1)).files[commit_path(0)]

    def make_after_the_rival(snapshot: Snapshot) -> CommitRequest:
        storage.write(commit_path(2), rival.data, modified_ms=EPOCH_MS)
        return CommitRequest("OPTIMIZE", metadata=snapshot.metadata.as_json())

    with pytest.raises(Refused, match="no in-commit timestamp can follow that of version 2"):
        run(storage, make_after_the_rival)


def test_no_commit_follows_the_last_version() -> None:
    storage = numbered(MAX_VERSION).in_memory()

    with pytest.raises(Refused) as raised:
        run(storage, count_up())

    assert "log.version-too-large" == raised.value.code
    assert MAX_VERSION == open_at(storage).snapshot().version


def test_the_last_version_itself_can_be_committed() -> None:
    storage = numbered(MAX_VERSION - 1).in_memory()

    done = run(storage, count_up())

    assert isinstance(done, Committed)
    assert MAX_VERSION == done.version == open_at(storage).snapshot().version


def test_a_log_whose_newest_version_is_the_last_is_an_error() -> None:
    found = open_built(numbered(MAX_VERSION)).validate(select=["log.version-too-large"])

    assert [MAX_VERSION] == [finding.place.version for finding in found.findings]


@pytest.mark.parametrize("last_ms", [2**63 - 1, -(2**63), MAX_TIME_MS + 1])
def test_changes_of_a_version_with_an_invalid_timestamp_are_refused_by_name(last_ms: int) -> None:
    table = open_built(stamped(last_ms))

    with pytest.raises(CommitCorrupt) as raised:
        list(table.changes(from_version=1))

    assert raised.value.code in ("ict.future", "ict.not-monotone")
    assert f"{1:020d}.json" in raised.value.message


@pytest.mark.parametrize(
    ("last_ms", "expected"),
    [
        (2**63 - 1, ("ict.future", "error")),
        (MAX_TIME_MS, ("ict.future", "error")),
        (MAX_TIME_MS - 1, ("ict.future", "warning")),
        (-MAX_TIME_MS - 1, ("ict.not-monotone", "error")),
    ],
)
def test_a_timestamp_that_no_later_one_can_follow_is_an_error(last_ms: int, expected: tuple[str, str]) -> None:
    found = open_built(stamped(last_ms)).validate(select=["ict.*"])

    assert [expected] == [(finding.rule.id, str(finding.severity)) for finding in found.findings]


@pytest.mark.parametrize("number", [2**63, 10**400])
def test_no_checksum_is_written_with_a_number_beyond_64_bits(number: int) -> None:
    """
    The number is written as text: orjson, which encodes the commits of tests, refuses it, too.
    """
    raw = to_bytes([*birth(), txn("app", 77)]).replace(b"77", str(number).encode())
    storage = TableBuilder().commit(*birth(), raw=raw).in_memory()

    with pytest.raises(CommitCorrupt, match="setTransactions has the wrong type"):
        execute_change(Checksum(), open_at(storage))
    assert [f"{0:020d}.json"] == [stat.name for stat in storage.list_from(LOG)]


def far_apart() -> TableBuilder:
    """A table of versions 1 and 2^60, each with a checkpoint."""
    builder = TableBuilder().commits(2).checkpoint(1)
    for path in (commit_path(1), f"{LOG}/{1:020d}.checkpoint.parquet"):
        builder.files[path.replace(f"{1:020d}", f"{1 << 60:020d}")] = builder.files[path]
    return builder


def test_a_gap_of_many_versions_is_named_without_counting_them() -> None:
    table = open_built(far_apart())

    with pytest.raises(VersionAbsent, match=f"commits 2-{(1 << 60) - 1} are missing"):
        table.compact_log(1, 1 << 60)


def test_a_vacuum_of_versions_far_apart_is_planned_and_shown() -> None:
    table = with_files(table_of("live.parquet", "gone.parquet"), "gone.parquet").checkpoint()
    table.commit(remove("gone.parquet", deleted_ms=OLD_MS)).checkpoint()
    for path in (commit_path(1), f"{LOG}/{1:020d}.checkpoint.parquet"):
        table.files[path.replace(f"{1:020d}", f"{1 << 60:020d}")] = table.files.pop(path)

    sections = vacuum_sections(plan_of(table), None, Terminal(is_terminal=False, width=None, colour=False))

    assert f"versions 0-{(1 << 60) - 1} will no longer be fully readable" in [
        line for one in sections for line in one.lines
    ]
