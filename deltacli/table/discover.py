"""Find tables: at given paths, below directories, and by patterns that the shell has not expanded.

A directory stands for all tables at and below it. The search never enters a table, and never reports one
twice: `deltacli validate lake lake/orders lake/*` checks `lake/orders` once.

See docs/decisions/0037-one-place-for-discovery.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import quote

from deltacli.core.errors import DeltacliError, NotATable, StorageFailed
from deltacli.core.hints import command
from deltacli.core.progress import SILENT, Progress, Step
from deltacli.core.texts import summarize_names
from deltacli.delta.log.segment import BACKUP_LIST, LOG_DIRECTORY
from deltacli.storage import LocalStorage, PathKind, ReadStorage, Storage
from deltacli.table.missing_log import missing_path_error
from deltacli.table.table_directories import is_paimon_directory, list_table_directories

_WILDCARD = re.compile(r"[*?\[]")
_MOST_BACKUPS_NAMED = 3
DEEPEST = 64
"""Maximum depth of directories. Local paths are also recognized by their targets, because links may form cycles."""

Opener = Callable[[str], Storage]


class Target(NamedTuple):
    """A table to check.

    Attributes:
        name: Its name, as the user would write it.
        storage: Its store.
        is_paimon: True for a Paimon table. A directory that is no table counts as a Delta table that has
            lost its log.
    """

    name: str
    storage: Storage
    is_paimon: bool = False


class Targets(NamedTuple):
    """The tables found at the given paths, each once.

    Attributes:
        tables: The tables.
        failures: Paths without a table and unreadable directories, each with the error.
        passed_over: Files next to tables, which a pattern of the shell may have included.
        backups: Backups of logs, which only their own path makes a table.
    """

    tables: tuple[Target, ...]
    failures: tuple[tuple[str, DeltacliError], ...]
    passed_over: tuple[str, ...]
    backups: tuple[str, ...] = ()


def find_tables(names: Sequence[str], open_: Opener, *, progress: Progress = SILENT) -> Targets:
    """Return the tables at and below the given paths and patterns, in their order.

    A directory without any table is returned itself, because it may be a table that has lost its log. Paths inside a
    table that is checked are skipped silently.

    Args:
        names: The paths and patterns.
        open_: Opens the store of a path.
        progress: Where the directories are reported.
    """
    with progress.step("looking for tables", unit="directories") as step:
        search = _TableSearch(open_, step)
        search.add_all(names)
    return Targets(
        tuple(search.tables.values()), tuple(search.failures), tuple(search.passed_over), tuple(search.backups)
    )


def note_log_backups(note: Callable[[str], None], names: Sequence[str]) -> None:
    """Tell the user which backups of logs a search skipped.

    Args:
        note: Shows a note.
        names: The names of the backups.
    """
    if names:
        are = "is a backup of a log" if len(names) == 1 else "are backups of logs"
        note(f"note: {summarize_names(names, _MOST_BACKUPS_NAMED)} {are} and skipped ({BACKUP_LIST})")


class _TableSearch:
    """Tables by their URI, and the other paths found.

    Attributes:
        tables: The tables by URI.
        failures: Paths without a table and unreadable directories, each with the error.
        passed_over: Files next to tables.
        backups: Backups of logs.
    """

    def __init__(self, open_: Opener, step: Step) -> None:
        self._open = open_
        self._step = step
        self._searched: set[str] = set()
        self._enclosing_tables: dict[str, str | None] = {}
        self.tables: dict[str, Target] = {}
        self.failures: list[tuple[str, DeltacliError]] = []
        self.passed_over: list[str] = []
        self.backups: list[str] = []

    def add_all(self, names: Sequence[str]) -> None:
        """Sort the paths by kind; tables and directories first, because files may belong to them."""
        directories: dict[str, Target] = {}
        files: list[Target] = []
        for name in names:
            with self._report_failure(name):
                target = Target(name, self._open(name))
                match target.storage.kind_of(""):
                    case PathKind.DIRECTORY:
                        directories[target.storage.uri] = target
                    case PathKind.FILE:
                        files.append(target)
                    # An existing directory with such a name is no pattern.
                    case PathKind.MISSING if _WILDCARD.search(name):
                        self._add_pattern(name)
                    case PathKind.MISSING:
                        self.failures.append((name, missing_path_error(target.storage)))
        self._add_directories(list(directories.values()), directories.keys())
        uncovered_files = [file for file in files if not _is_below_any(file, directories.keys())]
        self._explain_no_tables(uncovered_files, is_file=True)

    @contextmanager
    def _report_failure(self, name: str) -> Iterator[None]:
        """Report a path that cannot be looked at, and continue with the others."""
        try:
            yield
        except StorageFailed as fault:
            self.failures.append((name, fault))

    def _add_directories(self, directories: Sequence[Target], given_uris: Set[str]) -> None:
        """Add given directories: tables, those with tables below, and those that may have lost their log."""
        inside_tables: list[Target] = []
        for target in directories:
            with self._report_failure(target.name):
                if target.storage.kind_of(LOG_DIRECTORY) is PathKind.DIRECTORY:
                    self._add(target)
                elif self._find_enclosing_table(target) is not None:
                    inside_tables.append(target)
                elif not _is_below_any(target, given_uris) and not self._add_tables_below(target):
                    self._add(target)
        # Only now it is known which tables are checked.
        self._explain_no_tables(inside_tables, is_file=False)

    def _explain_no_tables(self, targets: Sequence[Target], *, is_file: bool) -> None:
        """Skip paths inside a table that is checked; report the others, once for each table."""
        reported_uris: set[str] = set()
        for target in targets:
            enclosing_table = self._find_enclosing_table(target)
            if enclosing_table is not None:
                uri = LocalStorage(enclosing_table).uri
                if uri not in self.tables and uri not in reported_uris:
                    reported_uris.add(uri)
                    self.failures.append((target.name, _path_inside_table_error(target, enclosing_table)))
            # `lake/*` of a shell includes files beside the tables.
            elif is_file and self.tables:
                self.passed_over.append(target.name)
            else:
                self.failures.append((target.name, _path_is_file_error(target.storage)))

    def _add(self, target: Target) -> None:
        self.tables.setdefault(target.storage.uri, target)

    def _add_pattern(self, pattern: str) -> None:
        """Add the tables that match a pattern: `*`, `?`, `[…]` within a name, `**` for any directories."""
        prefix, segments = split_pattern(pattern)
        while segments and segments[-1] == "**":
            segments.pop()  # directories below are searched anyway
        base = self._open(prefix or ".")
        if base.kind_of("") is PathKind.MISSING:
            self.failures.append((pattern, missing_path_error(base)))
            return

        has_table = False
        failures_before = len(self.failures)

        def list_directories(at: str) -> list[str]:
            return self._list_directories(base, at, at or base.uri)

        for below in find_matching_directories(list_directories, segments):
            name = join_name(prefix, below)
            with self._report_failure(name):
                has_table |= self._add_tables_below(Target(name, self._open(name or ".")))
        if not has_table and len(self.failures) == failures_before:
            self.failures.append((pattern, NotATable("no table matches this pattern", code="table.path-missing")))

    def _add_tables_below(self, target: Target) -> bool:
        """Add the table at a directory, or those below it.

        Returns:
            True if any was found, or the directory was searched before.
        """
        has_table = identify_directory(target.storage, "") in self._searched
        for below, is_paimon in self._search(target, "", 0):
            has_table = True
            name = join_name(target.name, quote(below) if target.name.startswith("file:") else below)
            with self._report_failure(name):
                storage = self._open(name) if below else target.storage
                self._add(Target(name or ".", storage, is_paimon))
        return has_table

    def _search(self, target: Target, at: str, depth: int) -> Iterator[tuple[str, bool]]:
        """Yield the paths of the tables at and below a directory, and whether they are Paimon tables."""
        directory = identify_directory(target.storage, at)
        if directory in self._searched or depth > DEEPEST:
            return
        names = self._list_directories(target.storage, at, join_name(target.name, at))
        if LOG_DIRECTORY in names:
            # A backup looks like a table; its list of files tells.
            if BACKUP_LIST in names:
                self.backups.append(join_name(target.name, at))
            else:
                yield at, False
            return
        self._searched.add(directory)
        if is_paimon_directory(target.storage, names, at):
            yield at, True
            return
        for name in names:
            if not name.startswith("."):
                yield from self._search(target, join_name(at, name), depth + 1)

    def _list_directories(self, storage: ReadStorage, at: str, name: str) -> list[str]:
        """Return the subdirectories of a directory; an unreadable one is reported, and the search continues."""
        self._step.advance()
        try:
            return list_table_directories(storage, at)
        except DeltacliError as fault:
            self.failures.append((name, fault))
            return []

    def _find_enclosing_table(self, target: Target) -> str | None:
        """Return the directory of the table that contains a local path."""
        if not isinstance(target.storage, LocalStorage):
            return None
        return self._find_table_from(os.path.dirname(target.storage.root))

    def _find_table_from(self, directory: str) -> str | None:
        """Return the nearest table, from a directory upwards. Thousands of paths share their parents."""
        if directory not in self._enclosing_tables:
            parent = os.path.dirname(directory)
            if os.path.isdir(os.path.join(directory, LOG_DIRECTORY)):
                self._enclosing_tables[directory] = directory
            elif parent == directory:
                self._enclosing_tables[directory] = None
            else:
                self._enclosing_tables[directory] = self._find_table_from(parent)
        return self._enclosing_tables[directory]


def _is_below_any(target: Target, given_uris: Set[str]) -> bool:
    """Return True below another given directory, whose search finds it."""
    uri = target.storage.uri
    while "/" in uri:
        uri = uri.rpartition("/")[0]
        if uri in given_uris:
            return True
    return False


def identify_directory(storage: ReadStorage, at: str = "") -> str:
    """Return the identity of a directory: on a local disk its path with links resolved."""
    if isinstance(storage, LocalStorage):
        return os.path.realpath(os.path.join(storage.root, at))
    return f"{storage.uri}/{at}"


def is_pattern(storage: ReadStorage, name: str) -> bool:
    """Return True for a name that is a pattern, and not that of something in the store that it opens."""
    return _WILDCARD.search(name) is not None and storage.kind_of("") is PathKind.MISSING


def split_pattern(pattern: str) -> tuple[str, list[str]]:
    """Return the path before the first name with a wildcard, and the names from it on.

    `lake/*/orders` is `lake` and `["*", "orders"]`.
    """
    parts = pattern.split("/")
    first = next(index for index, part in enumerate(parts) if _WILDCARD.search(part))
    prefix = "/".join(parts[:first]) or ("/" if first else "")
    return prefix, [part for part in parts[first:] if part]


def find_matching_directories(
    list_directories: Callable[[str], Sequence[str]],
    segments: Sequence[str],
    *,
    whole: str = LOG_DIRECTORY,
    at: str = "",
) -> Iterator[str]:
    """Yield the directories that match the names of a pattern.

    Args:
        list_directories: Returns the names of the directories in a directory.
        segments: The names of the pattern. `**` stands for any directories.
        whole: The directory by which one is recognized that `**` does not enter, such as a table.
        at: The directory at which to begin.
    """
    yield from _match_segments(list_directories, segments, whole, at, 0)


def _match_segments(
    list_directories: Callable[[str], Sequence[str]], segments: Sequence[str], whole: str, at: str, depth: int
) -> Iterator[str]:
    """Yield the directories below one that match the remaining names of a pattern.

    Args:
        list_directories: Returns the names of the directories in a directory.
        segments: The remaining names.
        whole: The directory by which one is recognized that `**` does not enter.
        at: The directory.
        depth: How many directories `**` stands for so far.
    """
    if not segments:
        yield at
        return
    first, *remaining = segments
    names = list_directories(at)
    if first == "**":
        yield from _match_segments(list_directories, remaining, whole, at, depth)
        # Directories of a table are partitions, not other tables.
        if whole in names or depth >= DEEPEST:
            return
    for name in names:
        is_hidden = name.startswith(".") and not first.startswith(".")
        if name == LOG_DIRECTORY or is_hidden:
            continue
        if first == "**":
            yield from _match_segments(list_directories, segments, whole, join_name(at, name), depth + 1)
        elif fnmatchcase(name, first):
            yield from _match_segments(list_directories, remaining, whole, join_name(at, name), depth)


def join_name(name: str, below: str) -> str:
    """Return the name of something below a directory, as a user writes it."""
    if not name or not below:
        return name or below
    return f"{name.rstrip('/')}/{below}"


def _path_is_file_error(storage: ReadStorage) -> NotATable:
    return NotATable(
        "this is a file; a table is a directory that contains _delta_log",
        code="table.path-is-file",
        facts={"path": storage.uri},
    )


def _path_inside_table_error(target: Target, enclosing_table: str) -> NotATable:
    """Return the error for a path inside a table that was not given, with its directory spelled like the path."""
    assert isinstance(target.storage, LocalStorage)
    levels = len(os.path.relpath(target.storage.root, enclosing_table).split(os.sep))
    table = os.path.normpath(os.path.join(target.name, *[os.pardir] * levels))
    message = "this path is inside a table; pass the table's directory"
    code = "table.path-inside"
    if os.path.basename(target.storage.root) == LOG_DIRECTORY:
        message = "this is the log of a table; pass the directory above it"
        code = "table.path-is-log"
    return NotATable(message, code=code, facts={"table": table}, hint=command("validate", table=table))
