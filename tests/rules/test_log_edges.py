"""Rules about the log's files, at the very edge, over listings that need no files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from deltacli.delta.log.segment import MAX_VERSION, CheckpointInstance, LogFile, LogListing, commit_name, parse_log_path
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.protocol.features import Protocol
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.views import ListingView
from deltacli.rules.log import log_files
from deltacli.rules.log import log_files as file_times
from tests.rules.table_builder import NOW_MS, START_MS


def log_file(name: str, modified_ms: int = START_MS) -> LogFile:
    return LogFile(parse_log_path(name), 1, modified_ms)


def config(**properties: str) -> TableConfiguration:
    """A regime with in-commit timestamps supported; properties without their `delta.`."""
    configuration = {f"delta.{name}": value for name, value in properties.items()}
    metadata = read_metadata({"id": "x", "format": {}, "schemaString": "{}", "configuration": configuration}, "")
    return TableConfiguration(protocol=Protocol(1, 7, None, ("inCommitTimestamp",)), metadata=metadata)


def view_of(
    commits: Iterable[int] = (), *, checkpoint: int | None = None, names: Iterable[str] = (), **properties: str
) -> ListingView:
    """A log of commits, each one millisecond younger than the one before, at most one checkpoint, and other files."""
    files = {version: log_file(commit_name(version), START_MS + version) for version in commits}
    checkpoints: tuple[CheckpointInstance, ...] = ()
    if checkpoint is not None:
        file = log_file(f"{checkpoint:020d}.checkpoint.parquet")
        checkpoints = (CheckpointInstance(checkpoint, file.path.kind, (file,)),)
    return ListingView(
        files=[*files.values(), *(log_file(name) for name in names)],
        directories=(),
        sidecars=(),
        staged=(),
        listing=LogListing(files, checkpoints),
        config=config(**properties),
        now_ms=NOW_MS,
        has_hint=True,
    )


def words(found: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(finding.rule.id, finding.message) for finding in found]


def test_a_checkpoint_is_missed_after_ten_intervals_and_more_than_a_hundred_commits() -> None:
    def told(view: ListingView) -> list[str]:
        return [finding.message for finding in log_files.many_commits_without_checkpoint(view)]

    assert [] == told(view_of(range(100)))
    assert ["101 commits and there is no complete checkpoint"] == told(view_of(range(101)))
    assert [] == told(view_of(range(103), checkpoint=2))
    assert ["101 commits since the checkpoint of version 2"] == told(view_of(range(104), checkpoint=2))
    assert [] == told(view_of(range(200), checkpointInterval="20"))
    assert ["201 commits and there is no complete checkpoint"] == told(view_of(range(201), checkpointInterval="20"))
    for odd in ("0", "-5", "2", "often"):
        assert [] == told(view_of(range(100), checkpointInterval=odd))
        assert 1 == len(told(view_of(range(101), checkpointInterval=odd)))


def test_the_greatest_version_has_63_bits() -> None:
    found = log_files.odd_names(view_of(names=[f"{MAX_VERSION:020d}.crc", f"{MAX_VERSION + 1:020d}.crc"]))

    assert [("log.version-too-large", f"{MAX_VERSION + 1:020d}.crc has a version above 2^63 - 1")] == words(found)


def test_a_jump_is_reported_with_the_commit_after_it() -> None:
    message = "is 1000001 versions after version 3, which no writer reaches by counting"
    name = commit_name(1_000_004)

    assert [("log.version-too-large", f"{name} {message}")] == words(
        log_files.commits_are_missing(view_of([0, 1, 2, 3, 1_000_004], checkpoint=2))
    )
    assert ["log.gap"] == [rule for rule, _ in words(log_files.commits_are_missing(view_of([0, 1, 2, 3, 1_000_003])))]


@pytest.mark.parametrize(("beginning", "told"), [(3, 0), (4, 1)])
def test_times_of_files_count_below_the_version_with_which_timestamps_begin(beginning: int, told: int) -> None:
    view = view_of(range(5), enableInCommitTimestamps="true", inCommitTimestampEnablementVersion=str(beginning))
    commits = view.listing.commits | {3: log_file(commit_name(3), START_MS)}

    found = file_times.commit_files_out_of_order(replace(view, listing=LogListing(commits, ())))

    assert ["log.mtime-order"] * told == [finding.rule.id for finding in found]
