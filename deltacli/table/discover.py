"""Finding tables: at given paths, below directories, and by patterns that the shell has not expanded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import quote

from deltacli.core.errors import DeltacliError, NotATable, StorageFailed, command
from deltacli.core.progress import SILENT, Progress, Step
from deltacli.core.texts import summarize_names
from deltacli.delta.log.segment import BACKUP_LIST, LOG_DIRECTORY
from deltacli.storage import LocalStorage, PathKind, ReadStorage, Storage
from deltacli.table.find_log import is_paimon_directory, nothing_at, table_directories

_MAGIC = re.compile(r"[*?\[]")
DEEPEST = 64
"""Maximum depth of directories. Local paths are also recognized by their targets, because links may form cycles."""

Opener = Callable[[str], Storage]


class Target(NamedTuple):
    """A table to check: its name, as the user would write it, and its store."""

    name: str
    storage: Storage
    is_paimon: bool = False
    """Whether it is a Paimon table; a directory that is no table counts as a Delta table that has lost its log."""


class Targets(NamedTuple):
    """The tables found at the given paths, each once.

    `failures` are paths without a table and unreadable directories. `passed_over` are files next to tables, which a
    pattern of the shell may have included, `backups` those of logs, which only their own path makes a table.
    """

    tables: tuple[Target, ...]
    failures: tuple[tuple[str, DeltacliError], ...]
    passed_over: tuple[str, ...]
    backups: tuple[str, ...] = ()


def find_tables(names: Sequence[str], open_: Opener, *, progress: Progress = SILENT) -> Targets:
    """Return the tables at and below the given paths and patterns, in their order.

    A directory without any table is returned itself, because it may be a table that has lost its log. Paths inside a
    table that is checked are skipped silently.
    """
    with progress.step("looking for tables", unit="directories") as step:
        search = _Search(open_, step)
        search.add_all(names)
    return Targets(
        tuple(search.tables.values()), tuple(search.failures), tuple(search.passed_over), tuple(search.backups)
    )


def note_backups(note: Callable[[str], None], names: Sequence[str]) -> None:
    """Note the backups of logs that a search skipped."""
    if names:
        are = "is a backup of a log" if len(names) == 1 else "are backups of logs"
        note(f"note: {summarize_names(names, 3)} {are} and skipped ({BACKUP_LIST})")


class _Search:
    """Tables by their URI, and the other paths found."""

    def __init__(self, open_: Opener, step: Step) -> None:
        self._open = open_
        self._step = step
        self._seen: set[str] = set()
        self._enclosing: dict[str, str | None] = {}
        self.tables: dict[str, Target] = {}
        self.failures: list[tuple[str, DeltacliError]] = []
        self.passed_over: list[str] = []
        self.backups: list[str] = []

    def add_all(self, names: Sequence[str]) -> None:
        """Sort the paths by kind; tables and directories first, because files may belong to them."""
        directories: list[Target] = []
        files: list[Target] = []
        for name in names:
            with self._reported(name):
                target = Target(name, self._open(name))
                match target.storage.kind_of(""):
                    case PathKind.DIRECTORY:
                        directories.append(target)
                    case PathKind.FILE:
                        files.append(target)
                    case PathKind.MISSING if _MAGIC.search(name):
                        self._add_pattern(name)
                    case PathKind.MISSING:
                        self.failures.append((name, nothing_at(target.storage)))
        given = {target.storage.uri: target for target in directories}
        self._add_directories(list(given.values()), given.keys())
        self._explain([target for target in files if not _is_covered(target, given.keys())], is_file=True)

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Report a path that cannot be looked at, and continue with the others."""
        try:
            yield
        except StorageFailed as fault:
            self.failures.append((name, fault))

    def _add_directories(self, directories: Sequence[Target], given: Set[str]) -> None:
        inside: list[Target] = []
        for target in directories:
            with self._reported(target.name):
                if target.storage.kind_of(LOG_DIRECTORY) is PathKind.DIRECTORY:
                    self._add(target)
                elif self._table_around(target) is not None:
                    inside.append(target)
                elif not _is_covered(target, given) and not self._add_below(target):
                    self._add(target)
        self._explain(inside, is_file=False)

    def _explain(self, targets: Sequence[Target], *, is_file: bool) -> None:
        """Skip paths inside a table that is checked; report the others."""
        told: set[str] = set()
        for target in targets:
            around = self._table_around(target)
            if around is not None:
                uri = LocalStorage(around).uri
                if uri not in self.tables and uri not in told:
                    told.add(uri)
                    self.failures.append((target.name, _inside(target, around)))
            elif is_file and self.tables:
                self.passed_over.append(target.name)
            else:
                self.failures.append((target.name, _is_file(target.storage)))

    def _add(self, target: Target) -> None:
        self.tables.setdefault(target.storage.uri, target)

    def _add_pattern(self, pattern: str) -> None:
        """Add the tables that match a pattern: `*`, `?`, `[…]` within a name, `**` for any directories."""
        prefix, segments = split_pattern(pattern)
        while segments and segments[-1] == "**":
            segments.pop()  # directories below are searched anyway
        base = self._open(prefix or ".")
        if base.kind_of("") is PathKind.MISSING:
            self.failures.append((pattern, nothing_at(base)))
            return
        is_found, failed = False, len(self.failures)
        for below in matching(lambda at: self._directories(base, at, at or base.uri), segments):
            name = join(prefix, below)
            with self._reported(name):
                is_found |= self._add_below(Target(name, self._open(name or ".")))
        if not is_found and len(self.failures) == failed:
            self.failures.append((pattern, NotATable("no table matches this pattern", code="table.path-missing")))

    def _add_below(self, target: Target) -> bool:
        """Add a table, or those below a directory; return whether any was found or it was searched before."""
        is_seen = identity(target.storage, "") in self._seen
        for below, is_paimon in self._search(target, "", 0):
            is_seen = True
            name = join(target.name, quote(below) if target.name.startswith("file:") else below)
            with self._reported(name):
                self._add(
                    (Target(name, self._open(name)) if below else target._replace(name=name or "."))._replace(
                        is_paimon=is_paimon
                    )
                )
        return is_seen

    def _search(self, target: Target, at: str, depth: int) -> Iterator[tuple[str, bool]]:
        """Yield the paths of the tables at and below a directory, and whether they are Paimon tables."""
        place = identity(target.storage, at)
        if place in self._seen or depth > DEEPEST:
            return
        names = self._directories(target.storage, at, join(target.name, at))
        if LOG_DIRECTORY in names:
            if BACKUP_LIST in names:
                self.backups.append(join(target.name, at))
            else:
                yield at, False
            return
        self._seen.add(place)
        if is_paimon_directory(target.storage, names, at):
            yield at, True
            return
        for name in names:
            if not name.startswith("."):
                yield from self._search(target, join(at, name), depth + 1)

    def _directories(self, storage: ReadStorage, at: str, name: str) -> list[str]:
        """Return the subdirectories of a directory; an unreadable one is reported, and the search continues."""
        self._step.advance()
        try:
            return table_directories(storage, at)
        except DeltacliError as fault:
            self.failures.append((name, fault))
            return []

    def _table_around(self, target: Target) -> str | None:
        """Return the directory of the table that contains a local path."""
        return self._around(os.path.dirname(target.storage.root)) if isinstance(target.storage, LocalStorage) else None

    def _around(self, directory: str) -> str | None:
        if directory not in self._enclosing:
            parent = os.path.dirname(directory)
            if os.path.isdir(os.path.join(directory, LOG_DIRECTORY)):
                self._enclosing[directory] = directory
            else:
                self._enclosing[directory] = None if parent == directory else self._around(parent)
        return self._enclosing[directory]


def _is_covered(target: Target, given: Set[str]) -> bool:
    """Return True below another given directory, whose search finds it."""
    uri = target.storage.uri
    while "/" in uri:
        uri = uri.rpartition("/")[0]
        if uri in given:
            return True
    return False


def identity(storage: ReadStorage, at: str = "") -> str:
    """Return the identity of a directory: on a local disk its path with links resolved."""
    if isinstance(storage, LocalStorage):
        return os.path.realpath(os.path.join(storage.root, at))
    return f"{storage.uri}/{at}"


def is_pattern(storage: ReadStorage, name: str) -> bool:
    """Return True for a name that is a pattern, and not that of something in the store that it opens."""
    return _MAGIC.search(name) is not None and storage.kind_of("") is PathKind.MISSING


def split_pattern(pattern: str) -> tuple[str, list[str]]:
    """Return what precedes the first name with a wildcard, and the names from it on."""
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if _MAGIC.search(part))
    return "/".join(parts[:first]) or ("/" if first else ""), [part for part in parts[first:] if part]


def matching(
    directories: Callable[[str], Sequence[str]], segments: Sequence[str], *, whole: str = LOG_DIRECTORY, at: str = ""
) -> Iterator[str]:
    """Yield the directories that match the names of a pattern, from `at` on: `**` stands for any directories, and
    enters none that has the directory `whole`. `directories` returns the names of those in a directory.
    """
    yield from _matching(directories, segments, whole, at, 0)


def _matching(
    directories: Callable[[str], Sequence[str]], segments: Sequence[str], whole: str, at: str, depth: int
) -> Iterator[str]:
    if not segments:
        yield at
        return
    first, *rest = segments
    names = directories(at)
    if first == "**":
        yield from _matching(directories, rest, whole, at, depth)
        if whole in names or depth >= DEEPEST:
            return
    for name in names:
        if name == LOG_DIRECTORY or (name.startswith(".") and not first.startswith(".")):
            continue
        if first == "**":
            yield from _matching(directories, segments, whole, join(at, name), depth + 1)
        elif fnmatchcase(name, first):
            yield from _matching(directories, rest, whole, join(at, name), depth)


def join(name: str, below: str) -> str:
    """Return the name of something below a directory, as a user writes it."""
    if not name or not below:
        return name or below
    return f"{name.rstrip('/')}/{below}"


def _is_file(storage: ReadStorage) -> NotATable:
    return NotATable(
        "this is a file; a table is a directory that contains _delta_log",
        code="table.path-is-file",
        facts={"path": storage.uri},
    )


def _inside(target: Target, around: str) -> NotATable:
    """Return the error for a path inside a table that was not given: names its directory, spelled like the path."""
    assert isinstance(target.storage, LocalStorage)
    levels = len(os.path.relpath(target.storage.root, around).split(os.sep))
    table = os.path.normpath(os.path.join(target.name, *[os.pardir] * levels))
    is_log = os.path.basename(target.storage.root) == LOG_DIRECTORY
    return NotATable(
        "this is the log of a table; pass the directory above it"
        if is_log
        else "this path is inside a table; pass the table's directory",
        code="table.path-is-log" if is_log else "table.path-inside",
        facts={"table": table},
        hint=command("validate", table=table),
    )
