"""The whole log of a table, listed once and continued by newer listings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from deltacli.delta.log.commit_times import CommitTime, file_times
from deltacli.delta.log.segment import LogListing


@dataclass(frozen=True)
class WholeLog:
    """The listing of a log from its start. It may have commits that were deleted since. `at` is when it began, in
    seconds.
    """

    listing: LogListing
    at: float

    @cached_property
    def times(self) -> Mapping[int, CommitTime]:
        """The time of each commit, by the times of its file and of those before."""
        return file_times(self.listing.commits)

    def joined(self, newer: LogListing) -> WholeLog | None:
        """Return this log with what a newer listing has; None where they have no commit in common, or where a commit
        that they have in common was replaced.
        """
        ours = self.listing
        both = [version for version in newer.commits if version in ours.commits]
        if not both or any(newer.commits[version] != ours.commits[version] for version in both):
            return None
        if newer.newest_version < ours.newest_version:
            return None
        checkpoints = {*ours.checkpoints, *newer.checkpoints}
        if len(both) == len(newer.commits) and len(checkpoints) == len(ours.checkpoints):
            return self
        commits = ours.commits | newer.commits
        ordered = tuple(sorted(checkpoints, key=lambda found: found.preference))
        return WholeLog(LogListing(commits, ordered), self.at)
