"""Histories of a table that gets vacuumed, as values: what is done to it, step by step, and strategies for that.

A step names files and versions by numbers that wrap around, so that every sequence of steps is a history.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hypothesis import strategies as st


class Spelling(StrEnum):
    """How a commit writes the path of a file."""

    ENCODED = "encoded"
    RAW = "raw"
    URI = "file:///"
    SHORT_URI = "file:/"
    ABSOLUTE = "/"


class Stamp(StrEnum):
    """What a remove gives as its time: the truth, nothing, or what a clock says that is wrong by some hours."""

    NOW = "now"
    NONE = "none"
    EARLY = "early"
    LATE = "late"


class Vectors(StrEnum):
    """Where deletion vectors lie."""

    INLINE = "i"
    RELATIVE = "u"
    PREFIXED = "u with a prefix"
    ABSOLUTE = "p"
    ODD_NAME = "p with a name of its own"


FOLDERS = ("", "p=1/", "p=a%20b/", "p=__HIVE_DEFAULT_PARTITION__/", "_p=1/", "sub/deep/", "p=é/")
NAMES = ("f-{}.parquet", "f {}.parquet", "f%20{}.parquet", "é-{}.parquet", "f+{}.parquet", "f#{}?.parquet", "f-{}")
ROOTS = ("table", "my table", "50%41 ü")


@dataclass(frozen=True)
class NewFile:
    """A data file to be written, `age` hours before it is committed."""

    folder: str = ""
    name: str = NAMES[0]
    spelling: Spelling = Spelling.ENCODED
    age: int = 0


@dataclass(frozen=True)
class Start:
    """The table to begin with; `own` is its retention in hours, None: it does not say."""

    root: str = ROOTS[0]
    partition: str | None = "p"
    own: int | None = 48
    stamped: bool = False


@dataclass(frozen=True)
class Wait:
    hours: int


@dataclass(frozen=True)
class Write:
    """Files are written and added; what `picks` names is removed in the same commit."""

    files: tuple[NewFile, ...] = (NewFile(),)
    picks: tuple[int, ...] = ()
    stamp: Stamp = Stamp.NOW
    changes: int | None = None
    """Change data is written, too, so many hours before the commit."""


@dataclass(frozen=True)
class Remove:
    picks: tuple[int, ...]
    stamp: Stamp = Stamp.NOW


@dataclass(frozen=True)
class Mark:
    """Rows of files are marked as deleted, by vectors in one file."""

    picks: tuple[int, ...]
    how: Vectors = Vectors.RELATIVE
    stamp: Stamp = Stamp.NOW
    age: int = 0


@dataclass(frozen=True)
class AddAgain:
    """A removed path comes back: as it was, or written anew."""

    pick: int
    anew: bool = False


@dataclass(frozen=True)
class Restore:
    pick: int


@dataclass(frozen=True)
class Leave:
    """Something is put into the directory that no commit names."""

    what: str
    age: int = 0


@dataclass(frozen=True)
class Touch:
    """A file of the table gets another age."""

    pick: int
    age: int


@dataclass(frozen=True)
class SetOwn:
    hours: int


@dataclass(frozen=True)
class Repartition:
    """Everything is overwritten, by other partition columns."""

    column: str | None


@dataclass(frozen=True)
class StampCommits:
    """In-commit timestamps are switched on."""


@dataclass(frozen=True)
class Checkpoint:
    pass


@dataclass(frozen=True)
class ExpireLog:
    hours: int


@dataclass(frozen=True)
class Vacuum:
    """`hours` is the retention, None: the table's own. `prefix` picks a directory. `since` picks a commit or a file
    instead, with whose time the retention begins.
    """

    hours: int | None = None
    lite: bool = False
    keep: tuple[int, ...] = ()
    entries: bool = True
    prefix: int | None = None
    since: int | None = None


Step = (
    Wait
    | Write
    | Remove
    | Mark
    | AddAgain
    | Restore
    | Leave
    | Touch
    | SetOwn
    | Repartition
    | StampCommits
    | Checkpoint
    | ExpireLog
    | Vacuum
)

DATA_LITTER = (
    "left.parquet", "p=1/left.parquet", "p=a%20b/left.parquet", "_p=1/left.parquet", "sub/deep/left.parquet",
    "metadata/left.parquet", "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
    "ab/deletion_vector_c1cfa9a7-9ee3-4d4c-8b2e-4b7d7dd5d0e4.bin", "_change_data/left.parquet",
    "_change_data/p=1/left.parquet", "_delta_index/left", "_change_data_old/left.parquet", "é/left.parquet",
)  # fmt: skip
"""Files of a table that a writer did not commit; which of them have hidden names depends on partition columns."""

OTHER_LITTER = (
    "README.md", "p=1/x.csv", "deletion_vector.bin", "left.parquet.crc", "_hidden.parquet", ".left.parquet.crc",
    "_hidden/left.parquet", "sub/deep/_hidden/left.parquet", "sub/deep/_SUCCESS", "p=1/.tmp/left.parquet",
    "_temporary/0/left.parquet", "_pp=1/left.parquet", "_p/left.parquet", "_delta_log/.left.tmp",
)  # fmt: skip

DIRECTORIES = ("empty/", "p=9/", "sub/empty/", "_empty/", "_change_data/empty/", ".empty/")
LINKS = ("link.parquet@", "p=1/link.parquet@", "linked@/", "dangling.parquet@!")
NESTED = ("nested/table/", "p=1/table/")

HOURS = (0, 1, 5, 24, 48, 72, 240)


def _picks(least: int = 1) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, 7), min_size=least, max_size=3).map(tuple)


def _some_of(strategy: st.SearchStrategy[Step], most: int, least: int = 0) -> st.SearchStrategy[list[Step]]:
    return st.lists(strategy, min_size=least, max_size=most)


_AGES = st.sampled_from((0, 1, 24, 24, 500))
_STAMPS = st.sampled_from((*[Stamp.NOW] * 4, *Stamp))
_SPELLINGS = st.sampled_from((Spelling.ENCODED, Spelling.ENCODED, *Spelling))
_FILES = st.builds(NewFile, st.sampled_from(("", *FOLDERS)), st.sampled_from((NAMES[0], *NAMES)), _SPELLINGS, _AGES)
_CHANGES = st.sampled_from((None, None, 0, 24, 500))
_WRITES = st.builds(Write, st.lists(_FILES, min_size=1, max_size=3).map(tuple), st.just(()), _STAMPS, _CHANGES)
_REWRITES = st.builds(Write, st.lists(_FILES, max_size=2).map(tuple), _picks(), _STAMPS, _CHANGES)
_WAITS = st.builds(Wait, st.sampled_from(HOURS))
_LITTER = st.builds(
    Leave, st.sampled_from((*DATA_LITTER, *DATA_LITTER, *OTHER_LITTER, *DIRECTORIES, *LINKS, *NESTED)), _AGES
)
_CHANGING: st.SearchStrategy[Step] = st.one_of(
    _REWRITES,
    st.builds(Remove, _picks(), _STAMPS),
    st.builds(Mark, _picks(), st.sampled_from(Vectors), _STAMPS, _AGES),
    st.builds(Mark, _picks(), st.sampled_from(Vectors), _STAMPS, _AGES),
    st.builds(AddAgain, st.integers(0, 7), st.booleans()),
    st.builds(Restore, st.integers(0, 20)),
    _WAITS,
)
_SETTING: st.SearchStrategy[Step] = st.one_of(
    st.builds(SetOwn, st.sampled_from(HOURS)),
    st.builds(Repartition, st.sampled_from((None, "p", "_p"))),
    st.just(StampCommits()),
    st.builds(Touch, st.integers(0, 30), _AGES),
    _LITTER,
    _LITTER,
)
_KEEPING: st.SearchStrategy[Step] = st.one_of(
    _WAITS,
    st.just(Checkpoint()),
    st.just(Checkpoint()),
    st.builds(ExpireLog, st.sampled_from((0, 0, *HOURS))),
)
_RETENTIONS = st.sampled_from((None, None, 0, *HOURS))
_KEPT = st.one_of(st.just(()), st.just(()), _picks())
_SINCE = st.one_of(st.none(), st.integers(0, 30))
_LITE = st.builds(Vacuum, _RETENTIONS, st.just(True), _KEPT, st.booleans(), st.none(), _SINCE)
_FULL = st.builds(
    Vacuum, _RETENTIONS, st.just(False), _KEPT, st.booleans(), st.sampled_from((*[None] * 9, *range(3))), _SINCE
)
VACUUMS = st.one_of(_LITE, _FULL)

_SHORTENING: st.SearchStrategy[list[Step]] = st.tuples(
    st.sampled_from((Wait(0), Wait(24), Wait(48))),
    st.just(Checkpoint()),
    st.sampled_from((Wait(24), Wait(48))),
    st.builds(Remove, _picks(), _STAMPS),
    st.just(ExpireLog(0)),
).map(list)
"""What makes a log begin with a checkpoint."""

STARTS = st.builds(
    Start, st.sampled_from(ROOTS), st.sampled_from(("p", "_p", None)), st.sampled_from((None, *HOURS)), st.booleans()
)


@st.composite
def histories(draw: st.DrawFn, *, seasons: int) -> tuple[Step, ...]:
    """Seasons of writes, changes and waiting, each with a vacuum at its end."""
    found: list[Step] = []
    for _ in range(draw(st.integers(1, seasons))):
        found += draw(_some_of(_WRITES, 2, least=1))
        found += draw(_some_of(_CHANGING, 4))
        found += draw(_some_of(_SETTING, 1))
        found += draw(_SHORTENING) if draw(st.integers(0, 2)) == 0 else draw(_some_of(_KEEPING, 3))
        found += draw(_some_of(_CHANGING, 2))
        found += [draw(_WAITS), draw(VACUUMS)]
    return tuple(found)
