"""Sizes, times and ranges, read and written."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.cli.options.moments import corrected_timestamp, parse_timestamp
from deltacli.core.errors import UsageError
from deltacli.core.ranges import find_gaps, find_ranges, format_ranges, name_ranges
from deltacli.core.texts import summarize_names
from deltacli.core.times import UNITS_MS, DailyWindow, format_age, format_duration, format_timestamp, parse_duration
from deltacli.core.units import format_size
from deltacli.spark.source_options import moment as moment_of
from deltacli.table.api_arguments import VersionBounds
from tests.support.effort import examples

DAY_MS = 86_400_000


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
@examples(100)
def test_a_written_time_reads_back(timestamp_ms: int) -> None:
    assert timestamp_ms == parse_timestamp(format_timestamp(timestamp_ms))


@given(st.integers(0, 365_000 * DAY_MS))
@examples(50)
def test_a_written_duration_reads_back(duration_ms: int) -> None:
    assert duration_ms == parse_duration(format_duration(duration_ms), "--retention")


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-02", DAY_MS),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01t00:00:01z", 1_000),
        ("1970-01-01 00:00:01Z", 1_000),
        ("1970-01-01T00:01Z", 60_000),
        ("1970-01-01 08:00:00+08", 0),
        ("1970-01-01T08:30:00+0830", 0),
        ("0001-01-01T00:00:00+23:59", -62_135_683_140_000),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:00.0019Z", 1),
        ("1970-01-01T00:00:00.0019999999Z", 1),
        (" 1970-01-02 ", DAY_MS),
    ],
)
def test_a_time_has_an_offset_and_a_date_is_midnight_in_utc(text: str, timestamp_ms: int) -> None:
    assert timestamp_ms == parse_timestamp(text)


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("1970-01-01T00:00:01", "1970-01-01T00:00:01Z"),
        ("1970-01-01 00:01", "1970-01-01T00:01Z"),
        ("1970-01-01+08", "1970-01-01T00:00:00+08"),
        ("1970-01-01-05:00", "1970-01-01T00:00:00-05:00"),
        ("1970-01-01Z", "1970-01-01T00:00:00Z"),
    ],
)
def test_a_time_without_an_offset_is_a_usage_error_that_gives_one_with_it(text: str, corrected: str) -> None:
    """
    A date with an offset was read as a time of day in UTC.
    """
    with pytest.raises(UsageError) as raised:
        parse_timestamp(text)

    assert "usage.timestamp" == raised.value.code
    assert corrected == corrected_timestamp(text)
    assert parse_timestamp(corrected) is not None


@pytest.mark.parametrize(
    ("text", "why", "corrected"),
    [
        ("2026-02-30", "no such day, February 2026 has 28 days", "2026-02-28"),
        ("2024-2-30", "no such day, February 2024 has 29 days", "2024-02-29"),
        ("2026-04-31T08:12Z", "no such day, April 2026 has 30 days", "2026-04-30T08:12Z"),
        ("2026-04-31 08:12", "no such day, April 2026 has 30 days", "2026-04-30T08:12Z"),
        ("2026-01-00", "no such day, January 2026 has 31 days", None),
        ("2026-13-01", "there is no month 13", None),
        ("2026-01-01T24:00:00Z", "no such time, the last of a day is 23:59:59", None),
        ("2026-01-01T10:60Z", "no such time, the last of a day is 23:59:59", None),
        ("2026-01-01T00:00:60.5Z", "no such time, the last of a day is 23:59:59", None),
        ("2026-01-01T00:00:00+25:00", "no such offset from UTC, +25:00", None),
        ("0000-01-01", "there is no year 0", None),
    ],
)
def test_a_time_that_does_not_exist_says_why(text: str, why: str, corrected: str | None) -> None:
    with pytest.raises(UsageError) as raised:
        parse_timestamp(text)

    assert f"{text!r} is not a timestamp: {why}" == raised.value.message
    assert corrected == corrected_timestamp(text)


def test_a_range_does_not_begin_before_the_moment_that_it_begins_at() -> None:
    """Also where the moment is finer than the times of commits, as the microseconds that Python counts."""
    moment = datetime(2026, 1, 31, 8, 0, 0, 500, tzinfo=UTC)
    ends = VersionBounds(from_timestamp=moment, to_timestamp=moment)

    assert ends.from_timestamp_ms == 1 + (ends.to_timestamp_ms or 0)
    for text in ("2026-01-31T08:00:00.0005Z", "1969-12-31T23:59:59.9995Z"):
        assert 1 == parse_timestamp(text, begins=True) - parse_timestamp(text)
        assert 1 == moment_of("startingTimestamp", text) - moment_of("timestampAsOf", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "yesterday",
        "1970-13-01",
        "1970-13-01T00:00:00",
        "1970-01-01T25:00:00Z",
        "1970-01-01T00:00:00+25:00",
        "1970-01-01x00:00:00Z",
        "1970-W01-1",
        "01.02.1970",
    ],
)
def test_an_invalid_time_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_timestamp(text)

    assert (2, "usage.timestamp") == (raised.value.exit_code, raised.value.code)
    assert corrected_timestamp(text) is None


@pytest.mark.parametrize("timestamp_ms", [-(10**18), 10**18])
def test_a_moment_beyond_every_calendar_is_written_as_a_number(timestamp_ms: int) -> None:
    assert str(timestamp_ms) == format_timestamp(timestamp_ms)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (3_435_973_837, "3.2 GiB"), (2**70, "1024.0 EiB")],
)
def test_sizes_are_written_in_powers_of_1024(size: int, text: str) -> None:
    assert text == format_size(size)


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (0, "now"),
        (999, "now"),
        (1_000, "1 second ago"),
        (3 * DAY_MS, "3 days ago"),
        (-2 * 3_600_000, "in 2 hours"),
        (800 * DAY_MS, "2 years ago"),
    ],
)
def test_ages_are_written_in_the_largest_unit(age_ms: int, text: str) -> None:
    assert text == format_age(0, age_ms)


@given(st.sets(st.integers(0, 40)))
@examples(50)
def test_ranges_hold_the_numbers_and_no_other(numbers: set[int]) -> None:
    runs = find_ranges(numbers)

    assert sorted(numbers) == [number for first, last in runs for number in range(first, last + 1)]
    assert all(before[1] + 1 < after[0] for before, after in pairwise(runs))


def test_ranges_are_written_short() -> None:
    assert "0-9, 12, 14-20" == format_ranges([12, *range(10), *range(14, 21)])
    assert "none" == format_ranges([])
    assert ["commit 12", "commits 0-1, 4"] == [name_ranges("commit", numbers) for numbers in ([12], [0, 1, 4])]


@given(st.sets(st.integers(0, 40)), st.integers(0, 20), st.integers(15, 45))
@examples(50)
def test_gaps_hold_the_numbers_that_are_missing(numbers: set[int], first: int, last: int) -> None:
    gaps = find_gaps(numbers, first, last)

    assert [n for n in range(first, last + 1) if n not in numbers] == [n for a, b in gaps for n in range(a, b + 1)]


def test_of_many_names_some_are_listed_and_the_rest_is_counted() -> None:
    names = [f"c{number}" for number in range(1_003)]

    assert ("c0, c1, c2", "c0; c1 and 1 more") == (summarize_names(names[:3], 3), summarize_names(names[:3], 2, "; "))
    assert ("c0 and 1,002 more", "") == (summarize_names(names, 1), summarize_names([], 3))


def test_a_window_of_the_day_may_reach_beyond_midnight() -> None:
    window, hour = DailyWindow.of("22:30 - 06:00"), UNITS_MS["hour"]

    left = [window.remaining_ms(DAY_MS + int(at * hour)) / hour for at in (0, 5.75, 6, 12, 22.25, 22.5)]

    assert ([6, 0.25, 0, 0, 0, 7.5], "22:30-06:00") == (left, str(window))
    assert 24 * hour == DailyWindow.of("01:00-01:00").remaining_ms(hour)
    for text in ("24:00-01:00", "1:00-2:00", "22:00", "22:60-23:00"):
        with pytest.raises(ValueError):
            DailyWindow.of(text)
