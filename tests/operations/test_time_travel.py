"""Which version was the newest at a moment: by file times, by in-commit timestamps, across the switch to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import VersionAbsent
from deltacli.delta.log.segment import TimestampSource
from deltacli.table.version_from_checksum import VersionFromChecksum, read_version_from_checksum
from tests.support import damage
from tests.support.actions import Line, birth, commit_info, metadata, protocol, txn
from tests.support.builder import EPOCH_MS, TableBuilder
from tests.support.effort import examples
from tests.support.reading import open_built


def version_at(builder: TableBuilder, timestamp_ms: int) -> int:
    return open_built(builder).snapshot(timestamp_ms=timestamp_ms).version


@pytest.mark.parametrize(
    ("after_ms", "version"), [(0, 0), (1, 0), (999, 0), (1_000, 1), (2_500, 2), (4_000, 4), (10**9, 4)]
)
def test_the_newest_version_at_or_before_the_moment(after_ms: int, version: int, table_builder: TableBuilder) -> None:
    """
    After the newest version: the newest version.
    """
    assert version == version_at(table_builder.commits(5), EPOCH_MS + after_ms)


def test_a_moment_before_the_first_version_names_the_range(table_builder: TableBuilder) -> None:
    with pytest.raises(VersionAbsent) as raised:
        version_at(table_builder.commits(3), EPOCH_MS - 1)

    assert (3, "table.timestamp-before-start") == (raised.value.exit_code, raised.value.code)
    assert {
        "earliest": "version 0, 2023-11-14T22:13:20.000Z",
        "newest": "version 2, 2023-11-14T22:13:22.000Z",
    } == raised.value.facts


def test_files_written_in_the_same_millisecond_are_distinguished(table_builder: TableBuilder) -> None:
    builder = table_builder.commit(*birth(), modified_ms=EPOCH_MS)
    for number in range(3):
        builder.commit(txn("a", number), modified_ms=EPOCH_MS)

    assert [0, 1, 2, 3, 3] == [version_at(builder, EPOCH_MS + later) for later in range(5)]


def test_a_cleaned_head_moves_the_first_version(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(8).checkpoint(5).damaged(damage.head_cleaned(5))

    with pytest.raises(VersionAbsent) as raised:
        version_at(builder, EPOCH_MS + 4_999)

    assert raised.value.facts["earliest"].startswith("version 5,")
    assert [5, 6] == [version_at(builder, EPOCH_MS + 5_000), version_at(builder, EPOCH_MS + 6_000)]


def test_leftover_commits_before_the_first_checkpoint_are_not_versions(table_builder: TableBuilder) -> None:
    """
    Commits 3 and 4 outlived the cleanup, but nothing rebuilds them.
    """
    builder = table_builder.commits(8).checkpoint(5).damaged(damage.head_cleaned(3))

    with pytest.raises(VersionAbsent) as raised:
        version_at(builder, EPOCH_MS + 4_000)

    assert "table.timestamp-before-start" == raised.value.code
    assert raised.value.facts["earliest"].startswith("version 5,")


def test_a_log_without_commit_files_has_no_times(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(3).checkpoint(2).damaged(damage.head_cleaned(3))

    with pytest.raises(VersionAbsent) as raised:
        version_at(builder, EPOCH_MS)

    assert "table.timestamp-unknown" == raised.value.code


def enabled(version: int | None = None, timestamp_ms: int | None = None, *, preview: str = "") -> list[Line]:
    """In-commit timestamps from the first version on, or since a version that a table property names."""
    configuration = {f"delta.enableInCommitTimestamps{preview}": "true"}
    if version is not None:
        configuration[f"delta.inCommitTimestampEnablementVersion{preview}"] = str(version)
        configuration[f"delta.inCommitTimestampEnablementTimestamp{preview}"] = str(timestamp_ms)
    return [protocol(1, 7, writer_features=[f"inCommitTimestamp{preview}"]), metadata(configuration=configuration)]


@pytest.mark.parametrize("preview", ["", "-preview"])
def test_in_commit_timestamps_outrank_file_times(preview: str, table_builder: TableBuilder) -> None:
    """
    A copied table: files as young as the copy, timestamps as old as the commits.
    """
    lines = enabled(preview=preview)
    builder = table_builder.commit(commit_info(inCommitTimestamp=100), *lines, modified_ms=EPOCH_MS)
    builder.commit(commit_info(inCommitTimestamp=200), modified_ms=EPOCH_MS)

    assert [0, 0, 1, 1] == [version_at(builder, moment) for moment in (100, 199, 200, EPOCH_MS)]


@pytest.mark.parametrize("preview", ["", "-preview"])
def test_versions_before_the_enablement_go_by_file_times(preview: str, table_builder: TableBuilder) -> None:
    """
    Versions 0 and 1 have file times; version 2 enabled in-commit timestamps, far in the future of the files.
    """
    late = EPOCH_MS + 10**9
    builder = table_builder.commit(*birth()).commit(commit_info(inCommitTimestamp=7), txn("a", 1))
    builder.commit(commit_info(inCommitTimestamp=late), *enabled(2, late, preview=preview))
    builder.commit(commit_info(inCommitTimestamp=late + 50))

    assert [0, 1] == [version_at(builder, EPOCH_MS), version_at(builder, EPOCH_MS + 1_000)]
    assert 1 == version_at(builder, late - 1)
    assert [2, 2, 3] == [version_at(builder, late), version_at(builder, late + 49), version_at(builder, late + 50)]


def switched(builder: TableBuilder, *, again: bool) -> TableBuilder:
    """In-commit timestamps were enabled by version 1 and disabled by version 3; `again`: and enabled by version 5.

    Each file is 300 ms younger than its in-commit timestamp.
    """
    off: list[Line] = [metadata(configuration={"delta.enableInCommitTimestamps": "false"})]
    lines: list[list[Line]] = [birth(), enabled(1, EPOCH_MS + 1_000), [], off, [], enabled(5, EPOCH_MS + 5_000), []]
    for version, actions in enumerate(lines[: 7 if again else 5]):
        stamp = EPOCH_MS + 1_000 * version
        info: dict[str, Any] = {"inCommitTimestamp": stamp} if version in (1, 2, 3, 5, 6) else {}
        builder.commit(commit_info(timestamp=stamp, **info), *actions, modified_ms=stamp + 300)
    return builder


@pytest.mark.parametrize("again", [False, True])
def test_the_time_that_is_shown_selects_its_version(again: bool, table_builder: TableBuilder) -> None:
    """
    Spark shows the times of files for all versions once the newest one has in-commit timestamps off.
    """
    builder = switched(table_builder, again=again)
    table = open_built(builder)
    stamped = {5, 6} if again else set()

    shown = {item.version: item.time for item in table.history(limit=0).items}
    own = {version: table.snapshot(version=version).time for version in shown}

    assert shown == own
    for version, time in shown.items():
        assert time is not None
        assert (version in stamped) == (time.source is TimestampSource.IN_COMMIT)
        assert version == version_at(builder, time.timestamp_ms)
    assert not table.snapshot(version=2).problems


def test_a_version_that_a_checksum_states_has_the_time_that_selects_it(table_builder: TableBuilder) -> None:
    table = open_built(switched(table_builder, again=False))
    for version in (2, 3, 4):
        table.write_checksum(version=version)

    stated = [read_version_from_checksum(table, version=version) for version in (2, 3, 4)]

    times = [one.time for one in stated if isinstance(one, VersionFromChecksum)]
    assert [table.snapshot(version=version).time for version in (2, 3, 4)] == times


def test_a_history_that_nothing_can_rebuild_has_the_timestamps_of_its_commits(table_builder: TableBuilder) -> None:
    builder = table_builder.commit(commit_info(inCommitTimestamp=7), *enabled()).commit(
        commit_info(inCommitTimestamp=9)
    )
    table = open_built(builder.damaged(damage.head_cleaned(1)))

    assert [9] == [item.time.timestamp_ms for item in table.history(limit=0).items if item.time]


def test_a_commit_without_an_in_commit_timestamp_has_the_time_of_its_file(table_builder: TableBuilder) -> None:
    builder = table_builder.commit(commit_info(inCommitTimestamp=EPOCH_MS), *enabled()).commit(txn("a", 1))

    assert [0, 1] == [version_at(builder, EPOCH_MS + 999), version_at(builder, EPOCH_MS + 1_000)]


def test_an_unreadable_newest_version_does_not_hide_older_ones(table_builder: TableBuilder) -> None:
    builder = table_builder.commits(4).damaged(damage.truncate_commit(3))

    assert 2 == version_at(builder, EPOCH_MS + 2_000)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 60), st.integers(0, 3))
@examples(30)
@pytest.mark.long
def test_time_travel_equals_a_look_at_every_version(steps: list[int], after_ms: int, first_kept: int) -> None:
    """
    The version found is the last whose own snapshot says a time at or before the moment.
    """
    builder = TableBuilder()
    for version, step in enumerate(steps):
        builder.commit(*(birth() if version == 0 else [txn("a", version)]), modified_ms=EPOCH_MS + step)
    kept = min(first_kept, builder.newest)
    builder.checkpoint(kept).damaged(damage.head_cleaned(kept))
    table = open_built(builder)
    times = {version: table.snapshot(version=version).time for version in sorted(builder.reconstructable())}
    expected = [
        version for version, time in times.items() if time is not None and time.timestamp_ms <= EPOCH_MS + after_ms
    ]

    try:
        found = [table.snapshot(timestamp_ms=EPOCH_MS + after_ms).version]
    except VersionAbsent:
        found = []

    assert expected[-1:] == found
