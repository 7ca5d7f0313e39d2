"""`log cat`: the raw actions of one version, from its commit or its checkpoint.

Finds files by name and does not rebuild a state, so it works on tables that cannot be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from deltacli.core import errors
from deltacli.core.progress import SILENT, Progress, report_items
from deltacli.core.ranges import format_ranges
from deltacli.core.texts import parse_names
from deltacli.delta.log import segment
from deltacli.delta.log.actions import KNOWN_ACTIONS
from deltacli.storage import ReadStorage
from deltacli.table.find_log import list_log
from deltacli.work.commits.raw_lines import SkippedLines, read_commit_lines

_MANY = 20


class Kinds(NamedTuple):
    """Kinds of action: all requested ones, and the unrecognized ones among them."""

    all: frozenset[str]
    unknown: tuple[str, ...]


_ALIKE = 0.75


def choose_kinds(text: str) -> Kinds:
    """Return the kinds named in a comma-separated list; case does not matter where a kind is known."""
    known = {kind.lower(): kind for kind in KNOWN_ACTIONS}
    names = parse_names(text, errors.parameter("log cat.actions"), facts={"known": ", ".join(sorted(KNOWN_ACTIONS))})
    chosen = [known.get(name.lower(), name) for name in names]
    unknown = tuple(name for name in dict.fromkeys(chosen) if name not in KNOWN_ACTIONS)
    for name in unknown:
        if (near := errors.nearest_name(name, KNOWN_ACTIONS, ignores_case=True, cutoff=_ALIKE)) is not None:
            raise errors.UsageError(
                f"{errors.parameter('log cat.actions')}: there is no action {name!r}",
                facts={"known": ", ".join(sorted(KNOWN_ACTIONS))},
            ).suggest(name, near, is_quoted=True)
    return Kinds(frozenset(chosen), unknown)


@dataclass(frozen=True, slots=True)
class Found:
    """The source of a version's actions. `was_asked_for`: the checkpoint was requested, no commit was missing."""

    storage: ReadStorage
    version: int
    place: segment.LogFile | segment.CheckpointInstance
    was_asked_for: bool


@dataclass(frozen=True, slots=True)
class CatSummary:
    """What was written: whether it was a checkpoint, and the number of lines of unknown kind."""

    version: int
    is_checkpoint: bool
    was_asked_for: bool
    is_empty: bool
    unjudged: int


@dataclass(frozen=True)
class LoggedActions:
    """The raw actions of a version, of some kinds. They are read when they are written somewhere.

    Attributes:
        found: The file or files that have them.
        kinds: The kinds. None: all of them.
        progress: Receives the progress of reading.
    """

    found: Found
    kinds: Kinds | None
    progress: Progress = SILENT

    @property
    def unknown_kinds(self) -> tuple[str, ...]:
        """The kinds that are no actions of the protocol. Logs may have them all the same."""
        return () if self.kinds is None else self.kinds.unknown

    def write_to(self, write: Callable[[bytes], object]) -> CatSummary:
        """Write the actions in blocks of whole lines, in file order, and return what was left out."""
        kinds = None if self.kinds is None else self.kinds.all
        return read_raw(self.found, kinds, write, progress=self.progress)


def find_actions(storage: ReadStorage, version: int, *, checkpoint: bool = False) -> Found:
    """Find the commit of a version, else (or with `checkpoint`) the checkpoint that readers prefer.

    Raises VersionAbsent, naming the existing versions, and NotATable.
    """
    listing = _files_of(storage, version)
    if not checkpoint and version in listing.commits:
        return Found(storage, version, listing.commits[version], True)
    instance = max(listing.checkpoints, key=lambda found: found.preference, default=None)
    if instance is None:
        raise _absent(list_log(storage), version, checkpoint=checkpoint)
    return Found(storage, version, instance, checkpoint)


def read_raw(
    found: Found, kinds: frozenset[str] | None, write: Callable[[bytes], object], *, progress: Progress = SILENT
) -> CatSummary:
    """Write the actions (of these kinds) in blocks of whole lines, in file order."""
    unjudged = SkippedLines()
    blocks: Iterator[bytes]
    match found.place:
        case segment.CheckpointInstance():
            # Imports pyarrow, which takes longer than printing a commit.
            from deltacli.work.checkpoints.raw_lines import read_checkpoint_lines

            blocks = read_checkpoint_lines(found.storage, found.place, kinds, unjudged)
        case segment.LogFile():
            blocks = read_commit_lines(found.storage, found.place, kinds, unjudged)
    for block in report_items(blocks, progress, "reading the actions", unit="blocks"):
        write(block)
    is_commit = isinstance(found.place, segment.LogFile)
    is_empty = isinstance(found.place, segment.LogFile) and found.place.size_bytes == 0
    return CatSummary(found.version, not is_commit, found.was_asked_for, is_empty, unjudged.lines)


def _files_of(storage: ReadStorage, version: int) -> segment.LogListing:
    prefix = segment.version_prefix(version)
    try:
        stats = takewhile(lambda stat: stat.name.startswith(prefix), storage.list_from(segment.LOG_DIRECTORY, prefix))
        return segment.read_listing(
            [segment.make_log_file(stat.name, stat.size_bytes, stat.modified_ms) for stat in stats]
        )
    except errors.FileMissing:
        return segment.read_listing([])


def _absent(listing: segment.LogListing, version: int, *, checkpoint: bool) -> errors.VersionAbsent | errors.NotATable:
    if listing.is_empty:
        return errors.NotATable("the log has no commit and no complete checkpoint", hint=errors.command("validate"))
    with_checkpoint = sorted({instance.version for instance in listing.checkpoints})
    facts = {"commits": _some(sorted(listing.commits)), "checkpoints": _some(with_checkpoint)}
    if checkpoint:
        nearest = min(with_checkpoint, key=lambda other: abs(other - version), default=None)
        return errors.VersionAbsent(
            f"version {version} has no complete checkpoint",
            facts=facts,
            hint=None if nearest is None else errors.command("log cat", nearest, checkpoint=True),
        )
    nearest = min({*listing.commits, *with_checkpoint}, key=lambda other: (abs(other - version), other))
    return errors.VersionAbsent(
        f"version {version} has neither a commit nor a complete checkpoint",
        facts=facts,
        hint=errors.command("log cat", nearest),
    )


def _some(versions: list[int]) -> str:
    """Return versions as ranges; only the last ones of a log with many gaps."""
    text = format_ranges(versions)
    parts = text.split(", ")
    return text if len(parts) <= _MANY else f"… {', '.join(parts[-_MANY:])}"
