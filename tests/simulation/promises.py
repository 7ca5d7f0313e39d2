"""What an actor says that it is about to do, what it answers, and what is wrong about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from tests.simulation.reading import Rows
from tests.support.builder import Files

ENVIRONMENT = "environment"
"""The actor of what happens to a table from outside: the model follows it."""


class Tree(Protocol):
    """One directory of files."""

    name: str
    files: Files


class Invariant(StrEnum):
    """What holds for every table in every history."""

    ROWS = "no row is lost, doubled or invented"
    UNREADABLE = "what a commit says can be read"
    FILES = "added files are there, with their size and number of rows"
    ABSENT = "removed files were live"
    GAP = "the log has no gap"
    REPLACED = "a commit is never replaced or deleted"
    OTHER_PAST = "what is put back is what the table had"
    IMMUTABLE = "files of a version do not change"
    ROW_IDS = "row ids and commit versions stay with their rows"
    HIGH_WATER_MARK = "new row ids are above the mark"
    TIME = "in-commit timestamps grow"
    METADATA = "properties, protocol and schema change only where they are meant to"
    DATA_CHANGE = "files that hold the same rows are no change of data"
    CHECKPOINT = "a checkpoint is the state of its version"
    COMPACTION = "a compaction is what its commits are"
    CHECKSUM = "a checksum is that of its version"
    REBUILT = "versions that could be rebuilt still can"
    NEEDED = "no file is deleted that is needed"
    OUTSIDE = "nothing outside the table is touched"
    REFUSAL = "a refusal changes nothing"
    DONE = "success means done"
    AGAIN = "a second run has nothing to do"
    LEFTOVER = "leftovers are found by vacuum"


class Violation(NamedTuple):
    """An invariant that does not hold, by whom, and what is wrong."""

    invariant: Invariant
    actor: str
    message: str


class Answer(StrEnum):
    """How an actor ended."""

    DONE = "done"
    NOTHING = "nothing to do"
    REFUSED = "refused, or lost to another: nothing is changed"
    GAVE_UP = "lost to another: the log is unchanged, files may be left behind"
    PARTLY = "partly done"
    UNKNOWN = "the outcome is unknown"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Intent:
    """What an actor is about to do to a table: the rows of its commits, and what else it may touch.

    Without any of it, its commits keep all rows, metadata and protocol, and it deletes nothing that it has not made.
    """

    what: str
    adds: Rows = field(default_factory=Counter)
    removes: Rows = field(default_factory=Counter)
    """Rows by the names of the columns in files, as they are in the version that was read."""
    restores: int | None = None
    """The version whose rows the commit has, or those of them for which `where` is true."""
    where: Callable[[Mapping[str, object]], bool] | None = None
    commits: bool = False
    """Success means a commit, unless others committed meanwhile: then there may be nothing left to do."""
    alters: bool = False
    """Metadata or protocol may change."""
    sets: Mapping[str, str | None] | None = None
    """The only properties that change, and their new values; None for one that goes."""
    accepts_loss: bool = False
    """Rows may go with files that are lost."""
    puts_back: bool = False
    """Commits that it makes at or below the newest version are those that the table had."""
    believes: frozenset[tuple[int, bytes]] = frozenset()
    """The commits of directories that differ from this one in nothing, so that nothing tells whether they are its."""
    replaces: bool = False
    """It may write derived files of the log anew."""
    deletes: bool = False
    expires: bool = False
    """It may delete data files, or versions from the log, that are older than the retention."""
    retention_ms: int | None = None
    """Instead of that of the table."""
    undoes: bool = False
    """What it puts back is as it was, damaged or not."""
    cleans: bool = False
    """Success, or nothing to do, means that nothing is left of what a vacuum could delete when it began."""
    is_again: bool = False
    """The same was done just before: there is nothing to do."""
    is_trusting: bool = False
    """Another engine, which does not look again at what it has read: what it makes of a table that the environment
    changed meanwhile is believed.
    """
    txn_id: str = ""
    """That of its commit, which may appear later than the answer."""
    done: Callable[[], str | None] | None = None
    """After a success: what is wrong."""


class Witness(Protocol):
    """Whoever is told of what an actor is about to do, and how it ended."""

    def intends(self, actor: str, intent: Intent) -> None: ...

    def judge_answer(self, actor: str, answer: Answer) -> None: ...
