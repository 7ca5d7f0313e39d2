"""Commit times by file: strictly increasing from the earliest commit there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta.log.segment import CommitTime, TimestampSource, compute_file_times, make_log_file
from tests.support.effort import examples


def times_of(modified_ms: list[int], first: int = 0) -> list[CommitTime]:
    commits = {
        version: make_log_file(f"{version:020d}.json", 1, moment)
        for version, moment in enumerate(modified_ms, start=first)
    }
    return [time for _, time in sorted(compute_file_times(commits).items())]


def test_increasing_times_stay_as_they_are() -> None:
    assert [CommitTime(moment, TimestampSource.FILE) for moment in (5, 6, 100)] == times_of([5, 6, 100])


def test_ties_and_steps_back_are_pushed_a_millisecond_ahead() -> None:
    found = times_of([10, 10, 10, 5, 13, 14])

    assert [10, 11, 12, 13, 14, 15] == [time.timestamp_ms for time in found]
    assert [TimestampSource.FILE] + 5 * [TimestampSource.FILE_ADJUSTED] == [time.source for time in found]


def test_a_jump_ahead_ends_the_pushing() -> None:
    assert [10, 11, 50] == [time.timestamp_ms for time in times_of([10, 10, 50])]
    assert TimestampSource.FILE is times_of([10, 10, 50])[2].source


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(0, 5))
@examples(50)
def test_times_increase_and_are_never_before_the_file(modified_ms: list[int], first: int) -> None:
    found = [time.timestamp_ms for time in times_of(modified_ms, first)]

    assert found == sorted(set(found))
    assert all(moment >= modified for moment, modified in zip(found, modified_ms, strict=True))
    assert modified_ms[0] == found[0]
