"""Which files rebuild a version, and which errors say that none do."""

from __future__ import annotations

import pytest

from deltacli.core.errors import LogIncomplete, NotATable, VersionAbsent
from deltacli.delta.log.segment import LogFileKind, LogListing, LogSegment, choose_segment, make_log_file, read_listing

CLASSIC = "checkpoint.parquet"
UUID_JSON = "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"


def listing(*names: str, empty: tuple[str, ...] = ()) -> LogListing:
    """A log of the named files; `3` is commit 3, `0-5` are commits, `4.checkpoint.parquet` is padded."""
    files = []
    for name in (*names, *empty):
        size = 0 if name in empty else 100
        head, _, rest = name.partition(".")
        first, _, last = head.partition("-")
        for version in range(int(first), int(last or first) + 1):
            files.append(make_log_file(f"{version:020d}.{rest or 'json'}", size, 1_000 * version))
    return read_listing(files)


def chosen(segment: LogSegment) -> tuple[int | None, list[int]]:
    """The checkpoint's version and the commits after it."""
    return segment.checkpoint.version if segment.checkpoint else None, [file.version for file in segment.commits]


def test_without_a_checkpoint_all_commits_are_replayed() -> None:
    assert (None, [0, 1, 2, 3]) == chosen(choose_segment(listing("0-3")))


def test_the_newest_checkpoint_spares_the_commits_up_to_it() -> None:
    log = listing("0-12", "4.checkpoint.parquet", "10.checkpoint.parquet")

    assert (10, [11, 12]) == chosen(choose_segment(log))


def test_time_travel_takes_the_newest_checkpoint_at_or_below() -> None:
    log = listing("0-12", "4.checkpoint.parquet", "10.checkpoint.parquet")

    assert (4, [5, 6, 7, 8, 9]) == chosen(choose_segment(log, 9))
    assert (10, []) == chosen(choose_segment(log, 10))
    assert (None, [0, 1, 2, 3]) == chosen(choose_segment(log, 3))


def test_ten_billion_parts_cost_nothing() -> None:
    found = listing("0-2", "1.checkpoint.0000000001.9999999999.parquet", "2.checkpoint.0000000001.0000000000.parquet")

    assert ((), (None, [0, 1, 2])) == (found.checkpoints, chosen(choose_segment(found)))


def test_the_commits_before_the_checkpoint_may_be_missing() -> None:
    log = listing("9-12", "10.checkpoint.parquet")

    assert (10, [11, 12]) == chosen(choose_segment(log))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ((CLASSIC, UUID_JSON), LogFileKind.UUID_CHECKPOINT),
        (
            (CLASSIC, "checkpoint.0000000001.0000000002.parquet", "checkpoint.0000000002.0000000002.parquet"),
            LogFileKind.CLASSIC_CHECKPOINT,
        ),
        (
            ("checkpoint.0000000001.0000000002.parquet", "checkpoint.0000000002.0000000002.parquet"),
            LogFileKind.MULTI_PART_CHECKPOINT,
        ),
    ],
)
def test_of_several_checkpoints_of_a_version_the_safest_form_is_taken(
    names: tuple[str, ...], kind: LogFileKind
) -> None:
    segment = choose_segment(listing("5-6", *(f"5.{name}" for name in names)))

    assert segment.checkpoint is not None
    assert kind is segment.checkpoint.kind


def test_an_incomplete_multi_part_checkpoint_is_a_problem_not_a_checkpoint() -> None:
    parts = [f"4.checkpoint.{part:010d}.0000000003.parquet" for part in (1, 3)]

    segment = choose_segment(listing("0-5", *parts))

    assert (None, [0, 1, 2, 3, 4, 5]) == chosen(segment)
    assert ("checkpoint.multipart-incomplete",) == segment.problems


def test_parts_of_two_writers_do_not_make_one_checkpoint() -> None:
    """
    Part 1 of 2 and parts 2 and 3 of 3: each set lacks a part.
    """
    parts = ["4.checkpoint.0000000001.0000000002.parquet"] + [
        f"4.checkpoint.{part:010d}.0000000003.parquet" for part in (2, 3)
    ]

    assert (None, [0, 1, 2, 3, 4]) == chosen(choose_segment(listing("0-4", *parts)))


def test_a_part_beyond_the_number_of_parts_completes_nothing() -> None:
    parts = [f"4.checkpoint.{part:010d}.0000000002.parquet" for part in (1, 3)]

    assert (None, [0, 1, 2, 3, 4]) == chosen(choose_segment(listing("0-4", *parts)))


def test_a_zero_byte_checkpoint_is_a_problem_not_a_checkpoint() -> None:
    segment = choose_segment(listing("0-5", empty=("4.checkpoint.parquet",)))

    assert (None, [0, 1, 2, 3, 4, 5]) == chosen(segment)
    assert ("checkpoint.zero-length",) == segment.problems


def test_a_problem_of_a_checkpoint_beyond_the_version_is_not_reported() -> None:
    assert () == choose_segment(listing("0-5", empty=("4.checkpoint.parquet",)), 3).problems


def test_a_zero_byte_commit_below_the_checkpoint_is_only_a_problem() -> None:
    segment = choose_segment(listing("0-1", "3-5", "4.checkpoint.parquet", empty=("2",)))

    assert (4, [5]) == chosen(segment)
    assert ("commit.empty",) == segment.problems


def test_a_zero_byte_commit_that_replay_needs_is_kept_in_the_segment() -> None:
    """
    Dropping it would be a wrong answer; reading it is an error (see `commit.empty` in the snapshot tests).
    """
    assert (None, [0, 1, 2]) == chosen(choose_segment(listing("0-1", empty=("2",))))


def test_a_checkpoint_newer_than_every_commit_is_the_newest_version() -> None:
    segment = choose_segment(listing("0-3", "7.checkpoint.parquet"))

    assert 7 == segment.version
    assert (7, []) == chosen(segment)
    assert ("log.checkpoint-commit-missing",) == segment.problems


def test_unpadded_names_are_a_problem_and_no_commits() -> None:
    files = [make_log_file("00000000000000000000.json", 1, 0), make_log_file("1.json", 1, 0)]

    segment = choose_segment(read_listing(files))

    assert 0 == segment.version
    assert ("log.name-not-padded",) == segment.problems


def test_an_unusable_checkpoint_leaves_the_next_lower_one() -> None:
    log = listing("0-12", "4.checkpoint.parquet", "10.checkpoint.parquet")
    newest = choose_segment(log).checkpoint
    assert newest is not None

    assert (4, list(range(5, 13))) == chosen(choose_segment(log, unusable=[newest]))


def test_a_gap_is_an_error_that_names_the_missing_commit() -> None:
    with pytest.raises(LogIncomplete) as raised:
        choose_segment(listing("0-16", "18-20", "10.checkpoint.parquet"))

    assert "log.gap" == raised.value.code
    assert "version 20 cannot be rebuilt: commit 17 is missing" == raised.value.message
    assert "00000000000000000017.json" == raised.value.facts["needed"]
    assert "0-16" == raised.value.facts["readable versions"]


def test_versions_before_a_gap_and_after_a_later_checkpoint_stay_readable() -> None:
    log = listing("0-3", "5-9", "7.checkpoint.parquet")

    assert [0, 1, 2, 3, 7, 8, 9] == log.reconstructable
    assert (None, [0, 1, 2]) == chosen(choose_segment(log, 2))
    assert (7, [8, 9]) == chosen(choose_segment(log))


@pytest.mark.parametrize("version", [5, 6])
def test_a_version_between_a_gap_and_the_checkpoint_after_it_is_a_gap(version: int) -> None:
    with pytest.raises(LogIncomplete) as raised:
        choose_segment(listing("0-3", "5-9", "7.checkpoint.parquet"), version)

    assert "log.gap" == raised.value.code


def test_a_log_without_its_beginning_is_an_error_that_names_what_is_missing() -> None:
    with pytest.raises(LogIncomplete) as raised:
        choose_segment(listing("3-8"))

    assert "log.start-missing" == raised.value.code
    assert "commits 3-8" == raised.value.facts["found"]
    assert "00000000000000000000.json" in raised.value.facts["needed"]


def test_a_version_before_the_first_checkpoint_of_a_cleaned_log_is_unavailable() -> None:
    with pytest.raises(VersionAbsent) as raised:
        choose_segment(listing("10-12", "10.checkpoint.parquet"), 4)

    assert "table.version-absent" == raised.value.code
    assert "10-12" == raised.value.facts["readable versions"]


def test_a_version_that_never_was_names_the_newest() -> None:
    with pytest.raises(VersionAbsent) as raised:
        choose_segment(listing("0-5"), 9)

    assert "version 9 does not exist; the newest is 5" == raised.value.message


def test_an_empty_log_is_not_a_table() -> None:
    with pytest.raises(NotATable):
        choose_segment(read_listing([make_log_file("00000000000000000000.crc", 1, 0)]))
