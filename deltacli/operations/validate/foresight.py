"""What each step of `validate` is expected to cost, before it begins and as more becomes known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from deltacli.core.progress import Plan, Progress, planned
from deltacli.delta.log.state import TableConfiguration
from deltacli.operations.validate.inspect_storage import WholeLog
from deltacli.rules.framework.views import LocatedAction, Totals

READING_ROWS, READING_FOOTERS = "reading rows", "reading footers"

_NEAR = {
    "reading the checkpoint": 2.2e-6,
    "looking for duplicates": 1.1e-6,
    "comparing the checkpoint": 5.7e-6,
    "checking the log": 2.2e-8,
    "checking the state": 2.2e-6,
    "listing the table": 4.7e-6,
    "comparing files": 2.3e-6,
    READING_FOOTERS: 4e-5,
    READING_ROWS: 1e-8,
    "reading change data": 2e-4,
}
"""Seconds per row, byte of commits, file, and byte of data files: processor time of one core for 1,000,000 adds and for
20,000 files on a disk. A byte of commits takes 1.5e-8 where adds have long statistics and 2.6e-8 where they have short
ones.
"""
_FAR = {"listing the table": 7.4e-5, READING_FOOTERS: 2.5e-3, "checking the log": 5e-8}
"""Those of remote stores: listing from docs/scale.md, footers as in `cli/options/cluster.py`, commits estimated."""
_ONLY_OF = {
    "listing the table": ("storage", "footers", "data"),
    "comparing files": ("storage", "footers", "data"),
    READING_FOOTERS: ("footers", "data"),
    READING_ROWS: ("data",),
    "reading change data": ("footers", "data"),
}
OPENING_BYTES = 64 << 10
"""How many bytes of rows take as long as opening a file does: 20,000 files of 4 KB took 0.7 to 1 ms each."""
_BYTES_A_COMMITTED_FILE, _BYTES_A_ROW, _BYTES_A_DATA_FILE = 400, 40, 1 << 20
"""What a file takes in a commit and in a checkpoint, and what it has, until that is known."""


def foreseen(progress: Progress, level: str, *, is_far: bool) -> AbstractContextManager[Plan]:
    """Start the progress of a validation."""
    costs = _NEAR | (_FAR if is_far else {})
    costs = {what: cost for what, cost in costs.items() if level in _ONLY_OF.get(what, (level,))}
    return planned(progress, "checking the table", costs)


class Foresight:
    """Tells the plan of a validation how much there is to do: from the sizes of the log, from the files that its
    commits add, from the rows of its checkpoints.
    """

    def __init__(self, plan: Plan, log: WholeLog, *, with_rows: bool) -> None:
        self._plan, self._asks_for_rows, self._with_rows = plan, with_rows, with_rows
        self._config = TableConfiguration()
        commits = log.listing.commits
        self._commit_bytes, self._bytes_done = sum(file.size_bytes for file in commits.values()), 0
        sizes = [sum(part.size_bytes for part in instance.files) for instance in log.listing.checkpoints]
        self._checkpoints = sum(sizes) / max([*sizes, 1])
        """How many as large as the largest they would be."""
        self._checkpoint_bytes = sum(sizes) + sum(file.size_bytes for file in log.sidecars)
        self._has_all = 0 in commits
        self._files = self._commit_bytes / _BYTES_A_COMMITTED_FILE if self._has_all else self._rows_of(1 / _BYTES_A_ROW)
        self._bytes_a_file: float = _BYTES_A_DATA_FILE
        self._plan.expect("checking the log", self._commit_bytes)
        self._tell()

    def take_config(self, config: TableConfiguration) -> None:
        """Learn from a schema whether rows can be read; else only the footers of the files are."""
        if not self._asks_for_rows or config.metadata is self._config.metadata:
            return
        from deltacli.work.rows.row_checks import ChecksOfTable

        self._config, self._with_rows = config, ChecksOfTable(config).are_possible
        self._tell()

    def take_live(self, size_bytes: int, live: Totals | None) -> None:
        """Learn from the live files after a commit, if they are known, how many there will be."""
        self._bytes_done += size_bytes
        if live is not None:
            self._extrapolate(self._bytes_done, live.files, live.size_bytes)

    def take_first(self, size_bytes: int, config: TableConfiguration, adds: Sequence[LocatedAction]) -> None:
        """Learn from the first commit before it is checked, which takes about as long as reading it did."""
        self.take_config(config)
        self._extrapolate(size_bytes, len(adds), sum(placed.action.get("size") or 0 for placed in adds))

    def _extrapolate(self, commit_bytes: int, files: int, size_bytes: int) -> None:
        if files:
            growth = self._commit_bytes / max(commit_bytes, 1) if self._has_all else 1.0
            self._files, self._bytes_a_file = files * growth, size_bytes / files
            self._tell()

    def take_rows(self, rows: int, size_bytes: int, *, is_known: bool) -> None:
        """Learn from rows of a checkpoint and what they take in its file."""
        if not is_known:
            self._files = self._rows_of(rows / max(size_bytes, 1))
            self._tell()

    def _rows_of(self, rows_a_byte: float) -> float:
        return self._checkpoint_bytes * rows_a_byte / max(self._checkpoints, 1)

    def _tell(self) -> None:
        rows = self._files * self._checkpoints
        self._plan.expect("reading the checkpoint", rows)
        self._plan.expect("looking for duplicates", rows)
        self._plan.expect(
            "comparing the checkpoint", rows if self._has_all else max(rows - self._files, 0)
        )  # one is first
        for what in ("checking the state", "listing the table", "comparing files"):
            self._plan.expect(what, self._files)
        self._plan.expect(READING_FOOTERS, 0 if self._with_rows else self._files)
        self._plan.expect(READING_ROWS, self._files * (self._bytes_a_file + OPENING_BYTES) if self._with_rows else 0)
