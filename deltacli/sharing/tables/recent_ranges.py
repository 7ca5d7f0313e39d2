"""What was found out about the last ranges of commits, so that the next page of an answer does not check all again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock

from deltacli.sharing.model import SharedTable
from deltacli.sharing.tables.changes import Changes, read_changes
from deltacli.sharing.tables.snapshots import Place, SharedSnapshots, place_of

MOST_RANGES = 8
MOST_COMMITS = 10_000
"""Per range. A commit takes some hundred bytes."""


class RecentRanges:
    """Keeps ranges without their files, which are read again for each page. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Place, int, int, bool], Changes] = OrderedDict()
        self._lock = Lock()

    def read(self, snapshots: SharedSnapshots, table: SharedTable, first: int, last: int, *, is_feed: bool) -> Changes:
        """Return the changes of a range, as `read_changes` does; without reading where the commits are still those
        that were checked.
        """
        key = (place_of(table), first, last, is_feed)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            commits = snapshots.whole_log(table).listing.commits
            if all(commits.get(commit.version) == commit.files.file for commit in known.commits):
                return known
        found = read_changes(snapshots, table, first, last, is_feed=is_feed)
        if len(found.commits) <= MOST_COMMITS:
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[Place, int, int, bool], changes: Changes) -> None:
        commits = tuple(replace(commit, held=None) for commit in changes.commits)
        with self._lock:
            self._known[key] = Changes(changes.start, commits)
            self._known.move_to_end(key)
            while len(self._known) > MOST_RANGES:
                self._known.popitem(last=False)
