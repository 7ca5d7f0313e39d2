"""Any commits, limits and restarts: each file is delivered exactly once, in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import Refused, Unreadable
from deltacli.spark.table_log import Limits, StreamOffset, files_between, next_offset
from deltacli.work.rows.data_files import DataFile
from tests.support.effort import examples

SIZES = st.lists(st.integers(0, 4), max_size=4)
"""The files of a commit, by their sizes."""


@dataclass
class SmallLog:
    """A log whose commits are lists of sizes. The stream must stop before the versions of `stops`."""

    commits: list[list[int]]
    snapshot: list[int] = field(default_factory=list)
    is_atomic: bool = False
    stops: frozenset[int] = frozenset()
    table: str = "table"
    schema: str = "schema"

    def snapshot_files(self, version: int) -> Sequence[DataFile]:
        return [DataFile(f"snapshot {version}, {place}", size) for place, size in enumerate(self.snapshot)]

    def commit_files(self, version: int) -> Sequence[DataFile]:
        if version in self.stops:
            raise Refused(f"stopped at {version}")
        return [DataFile(f"{version}, {place}", size) for place, size in enumerate(self.commits[version])]

    def expected(self, first: int, *, with_snapshot: bool) -> list[DataFile]:
        """All files of a stream that begins at a version."""
        files = [*self.snapshot_files(first - 1)] if with_snapshot else []
        return files + [file for version in range(first, len(self.commits)) for file in self.commit_files(version)]


@given(
    st.lists(SIZES, min_size=1, max_size=6),
    SIZES,
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 9),
    st.data(),
)
@examples(100)
def test_every_file_is_delivered_exactly_once(
    commits: list[list[int]],
    snapshot: list[int],
    with_snapshot: bool,
    atomic: bool,
    steps: list[tuple[int, bool]],
    most_files: int | None,
    most_bytes: int | None,
    data: st.DataObject,
) -> None:
    log, limits = SmallLog(commits, snapshot, atomic), Limits(most_files, most_bytes)
    base = data.draw(st.integers(0, len(commits) - 1))
    newest, delivered = base, list[DataFile]()
    start = beginning = StreamOffset(log.table, log.schema)
    arrivals = [*steps, *[(9, False)] * 60]  # in the end all commits arrive, and batches deliver them

    for arriving, is_killed in arrivals:
        newest = min(newest + arriving, len(commits) - 1)
        after = StreamOffset.after(log.table, log.schema, base, with_snapshot=with_snapshot)
        end = next_offset(log, after if start.is_beginning else start, newest, limits)
        end = StreamOffset.of_json(end.as_json())
        batch = list(files_between(log, start, end))
        if is_killed:  # the end is in the checkpoint, and the batch is delivered again
            assert batch == list(files_between(log, beginning if start.is_beginning else start, end))
        _require_within(batch, limits, whole=atomic)
        delivered += batch
        start = end

    assert log.expected(base + 1, with_snapshot=with_snapshot) == delivered


def _require_within(batch: Sequence[DataFile], limits: Limits, *, whole: bool) -> None:
    """Without its last file, a batch is below the limits."""
    if whole:
        return
    assert limits.files is None or len(batch) <= limits.files
    assert limits.size_bytes is None or sum(file.size_bytes or 0 for file in batch[:-1]) < limits.size_bytes


def _start(log: SmallLog, version: int) -> StreamOffset:
    return StreamOffset.after(log.table, log.schema, version - 1, with_snapshot=False)


def test_a_commit_of_changes_is_never_divided() -> None:
    log = SmallLog([[1, 1, 1], [1, 1]], is_atomic=True)

    end = next_offset(log, _start(log, 0), 1, Limits(1))

    assert (1, 0) == end.place


def test_the_rows_that_changes_begin_with_are_divided() -> None:
    log = SmallLog([[]], snapshot=[1, 1], is_atomic=True)

    end = next_offset(log, StreamOffset.after(log.table, log.schema, 0, with_snapshot=True), 0, Limits(1))

    assert (0, 1) == end.place


def test_what_precedes_a_stop_is_delivered_before_it_is_raised() -> None:
    log = SmallLog([[1], [1], [1]], stops=frozenset({2}))

    end = next_offset(log, _start(log, 0), 2, Limits())

    assert (2, 0) == end.place
    assert ["0, 0", "1, 0"] == [file.path for file in files_between(log, _start(log, 0), end)]
    with pytest.raises(Refused, match="stopped at 2"):
        next_offset(log, end, 2, Limits())


def test_a_stop_within_a_batch_that_is_replayed_is_raised() -> None:
    log = SmallLog([[1], [1]])
    end = next_offset(log, _start(log, 0), 1, Limits())
    log.stops = frozenset({1})

    with pytest.raises(Refused, match="stopped at 1"):
        list(files_between(log, _start(log, 0), end))


def test_nothing_new_is_the_same_offset_although_the_columns_are_others() -> None:
    log = SmallLog([[1]])
    end = next_offset(log, _start(log, 0), 0, Limits())
    log.schema = "other"

    assert end.as_json() == next_offset(log, end, 0, Limits()).as_json()


def test_commits_without_files_are_passed() -> None:
    log = SmallLog([[], [], []])

    assert (3, 0) == next_offset(log, _start(log, 0), 2, Limits(1)).place


def test_offsets_of_another_table_are_refused() -> None:
    log = SmallLog([[1]])
    other = StreamOffset.after("other", "schema", 0, with_snapshot=False)

    with pytest.raises(Unreadable) as caught:
        next_offset(log, other, 0, Limits())

    assert "stream.other-table" == caught.value.code


@pytest.mark.parametrize("is_end", [False, True])
def test_an_offset_after_more_files_than_a_commit_has_is_refused(is_end: bool) -> None:
    log = SmallLog([[1]])
    beyond = _start(log, 0).after_files(2)

    with pytest.raises(Unreadable) as caught:
        list(files_between(log, _start(log, 0) if is_end else beyond, beyond if is_end else beyond.after_version))

    assert "stream.offset" == caught.value.code


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"version": "1"}, {"index": None}, {"snapshot": 1}, {"table": None}, {"first": True}]
)
def test_json_that_is_no_offset_is_refused(change: dict[str, object]) -> None:
    good = StreamOffset.after("table", "schema", 3, with_snapshot=True).as_json()

    with pytest.raises(Unreadable) as caught:
        StreamOffset.of_json(good | change)

    assert "stream.offset" == caught.value.code
