"""Finding tables: at the paths somebody gave, below directories, and behind patterns that no shell has expanded."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence, Set
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import quote

from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.errors import DeltacliError, NotATable
from deltacli.progress import SILENT, Progress, Step
from deltacli.storage import LocalStorage, PathKind, Storage

_MAGIC = re.compile(r"[*?\[]")
_DEEPEST = 64
"""Directories below each other; where links make circles a local path is also remembered by what it leads to."""

Opener = Callable[[str], Storage]


class Target(NamedTuple):
    """A table to look at: its name, as the user would write it, and its store."""

    name: str
    storage: Storage


class Targets(NamedTuple):
    """What the given paths came to, each table once.

    `failures` are paths without a table and directories that can't be read. `passed_over` are files beside tables,
    which a shell's pattern may have brought.
    """

    tables: tuple[Target, ...]
    failures: tuple[tuple[str, DeltacliError], ...]
    passed_over: tuple[str, ...]


def find_tables(names: Sequence[str], open_: Opener, *, progress: Progress = SILENT) -> Targets:
    """Return the tables at, below and behind the given paths and patterns, in their order.

    A directory that holds no table at all stands for itself: it may be a table that has lost its log. What lies inside
    a table that is looked at is passed over without a word.
    """
    with progress.step("looking for tables", unit="directories") as step:
        search = _Search(open_, step)
        search.add_all(names)
    return Targets(tuple(search.tables.values()), tuple(search.failures), tuple(search.passed_over))


class _Search:
    """Tables by their URI, and what else was found on the way."""

    def __init__(self, open_: Opener, step: Step) -> None:
        self._open = open_
        self._step = step
        self._seen: set[str] = set()
        self._enclosing: dict[str, str | None] = {}
        self.tables: dict[str, Target] = {}
        self.failures: list[tuple[str, DeltacliError]] = []
        self.passed_over: list[str] = []

    def add_all(self, names: Sequence[str]) -> None:
        """Sort the paths by what lies there; tables and directories first, since files may belong to them."""
        directories: list[Target] = []
        files: list[Target] = []
        for name in names:
            target = Target(name, self._open(name))
            match target.storage.kind_of(""):
                case PathKind.DIRECTORY:
                    directories.append(target)
                case PathKind.FILE:
                    files.append(target)
                case PathKind.MISSING if _MAGIC.search(name):
                    self._add_pattern(name)
                case PathKind.MISSING:
                    self.failures.append((name, _nothing_at(target.storage)))
        given = {target.storage.uri: target for target in directories}
        self._add_directories(list(given.values()), given.keys())
        self._explain([target for target in files if not _is_covered(target, given.keys())], is_file=True)

    def _add_directories(self, directories: Sequence[Target], given: Set[str]) -> None:
        inside: list[Target] = []
        for target in directories:
            if _is_table(target.storage):
                self._add(target)
            elif self._table_around(target) is not None:
                inside.append(target)
            elif not _is_covered(target, given) and not self._add_below(target):
                self._add(target)
        self._explain(inside, is_file=False)

    def _explain(self, targets: Sequence[Target], *, is_file: bool) -> None:
        """Pass over what lies inside a table that is looked at; say so of the rest."""
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
        """Add the tables behind a pattern: `*`, `?`, `[…]` within a name, `**` for any directories."""
        parts = pattern.split("/")
        first = next(index for index, part in enumerate(parts) if _MAGIC.search(part))
        prefix = "/".join(parts[:first]) or ("/" if first else "")
        segments = [part for part in parts[first:] if part]
        while segments and segments[-1] == "**":
            segments.pop()  # whatever lies below is searched anyway
        base = self._open(prefix or ".")
        if base.kind_of("") is PathKind.MISSING:
            self.failures.append((pattern, _nothing_at(base)))
            return
        found = False
        for below in self._matching(base, "", segments, 0):
            name = _join(prefix, below)
            found |= self._add_below(Target(name, self._open(name or ".")))
        if not found:
            self.failures.append((pattern, NotATable("no table matches this pattern", code="table.path-missing")))

    def _matching(self, storage: Storage, at: str, segments: Sequence[str], depth: int) -> Iterator[str]:
        if not segments:
            yield at
            return
        first, *rest = segments
        names = self._directories(storage, at, at or storage.uri)
        if first == "**":
            yield from self._matching(storage, at, rest, depth)
            if LOG_DIRECTORY in names or depth >= _DEEPEST:
                return
        for name in names:
            if name == LOG_DIRECTORY or (name.startswith(".") and not first.startswith(".")):
                continue
            if first == "**":
                yield from self._matching(storage, _join(at, name), segments, depth + 1)
            elif fnmatchcase(name, first):
                yield from self._matching(storage, _join(at, name), rest, depth + 1)

    def _add_below(self, target: Target) -> bool:
        """Add a table, or those below a directory; return whether there was any, or whether it was searched before."""
        found = _identity(target.storage, "") in self._seen
        for below in self._search(target, "", 0):
            found = True
            name = _join(target.name, quote(below) if target.name.startswith("file:") else below)
            self._add(Target(name, self._open(name)) if below else target)
        return found

    def _search(self, target: Target, at: str, depth: int) -> Iterator[str]:
        place = _identity(target.storage, at)
        if place in self._seen or depth > _DEEPEST:
            return
        names = self._directories(target.storage, at, _join(target.name, at))
        if LOG_DIRECTORY in names:
            yield at
            return
        self._seen.add(place)
        for name in names:
            if not name.startswith("."):
                yield from self._search(target, _join(at, name), depth + 1)

    def _directories(self, storage: Storage, at: str, name: str) -> list[str]:
        """The directories in one; one that can't be read is told, and the search goes on."""
        self._step.advance()
        try:
            return storage.list_directories(at)
        except DeltacliError as fault:
            self.failures.append((name, fault))
            return []

    def _table_around(self, target: Target) -> str | None:
        """The directory of the table that a local path lies in."""
        return self._around(os.path.dirname(target.storage.root)) if isinstance(target.storage, LocalStorage) else None

    def _around(self, directory: str) -> str | None:
        if directory not in self._enclosing:
            parent = os.path.dirname(directory)
            if os.path.isdir(os.path.join(directory, LOG_DIRECTORY)):
                self._enclosing[directory] = directory
            else:
                self._enclosing[directory] = None if parent == directory else self._around(parent)
        return self._enclosing[directory]


def _is_table(storage: Storage) -> bool:
    return storage.kind_of(LOG_DIRECTORY) is PathKind.DIRECTORY


def _is_covered(target: Target, given: Set[str]) -> bool:
    """True below another given directory: the search there finds it."""
    uri = target.storage.uri
    while "/" in uri:
        uri = uri.rpartition("/")[0]
        if uri in given:
            return True
    return False


def _identity(storage: Storage, at: str) -> str:
    """What a directory is known by: on a local disk where its links lead."""
    if isinstance(storage, LocalStorage):
        return os.path.realpath(os.path.join(storage.root, at))
    return f"{storage.uri}/{at}"


def _join(name: str, below: str) -> str:
    if not name or not below:
        return name or below
    return f"{name.rstrip('/')}/{below}"


def _nothing_at(storage: Storage) -> NotATable:
    return NotATable("there is nothing at this path", code="table.path-missing", facts={"path": storage.uri})


def _is_file(storage: Storage) -> NotATable:
    return NotATable(
        "this is a file; a table is a directory that holds _delta_log",
        code="table.path-is-file",
        facts={"path": storage.uri},
    )


def _inside(target: Target, around: str) -> NotATable:
    """What is said of a path inside a table that nobody asked for: its directory, written as the path was."""
    assert isinstance(target.storage, LocalStorage)
    levels = len(os.path.relpath(target.storage.root, around).split(os.sep))
    table = os.path.normpath(os.path.join(target.name, *[os.pardir] * levels))
    is_log = os.path.basename(target.storage.root) == LOG_DIRECTORY
    return NotATable(
        "this is the log of a table; give the directory above it"
        if is_log
        else "this lies inside a table; give the table's directory",
        code="table.path-is-log" if is_log else "table.path-inside",
        facts={"table": table},
        hint=f"deltacli validate {shlex.quote(table)}",
    )
