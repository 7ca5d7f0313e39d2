"""Find the tables that a list of paths refers to.

Commands such as `validate` accept any number of paths. A path is a table, a directory that contains
tables at any depth, or a pattern such as `lake/*/orders`, if the shell has not expanded it. The
search does not enter tables, and returns each table once: `deltacli validate lake lake/orders
lake/*` checks `lake/orders` once.

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
from deltacli.table.missing_log import build_missing_path_error
from deltacli.table.table_directories import is_paimon_directory, list_table_directories

_WILDCARD = re.compile(r"[*?\[]")
_MAX_BACKUPS_IN_NOTE = 3
MAX_DEPTH = 64
"""Maximum depth of directories to search. It ends the search of a cycle of directories, as links can form it."""

Opener = Callable[[str], Storage]
"""Opens the store of a path or URI."""


class Target(NamedTuple):
    """A table that was found.

    Attributes:
        name: The path or URI of the table in the form that the user typed, such as "lake/orders".
        storage: The store of the table.
        is_paimon: True for a Paimon table, False for a Delta table. A directory that contains no
            table is returned as a Delta table: it may be a table whose log was deleted.
    """

    name: str
    storage: Storage
    is_paimon: bool = False


class Targets(NamedTuple):
    """The result of a search for tables.

    Attributes:
        tables: The tables. Each table occurs once.
        failures: Paths without a table and directories that cannot be listed, each with the error.
        skipped_files: Files next to tables, such as `lake/README.md`. The shell's expansion of
            `lake/*` contains them.
        log_backups: Directories that `deltacli` created as backups of a log. They look like tables,
            but are only returned as tables if their own path is requested.
    """

    tables: tuple[Target, ...]
    failures: tuple[tuple[str, DeltacliError], ...]
    skipped_files: tuple[str, ...]
    log_backups: tuple[str, ...] = ()


def find_tables(names: Sequence[str], open_store: Opener, *, progress: Progress = SILENT) -> Targets:
    """Find the tables at and below paths, in the order of the paths.

    A requested directory without any table is returned as a table, because it may be a table whose
    log was deleted. Paths inside a table that is found are skipped.

    Args:
        names: Paths, URIs and patterns.
        open_store: Opens the store of a path.
        progress: Receives the number of directories that were listed.
    """
    with progress.step("looking for tables", unit="directories") as step:
        search = _TableSearch(open_store, step)
        search.search_all(names)
    return Targets(
        tuple(search.tables.values()), tuple(search.failures), tuple(search.skipped_files), tuple(search.log_backups)
    )


def note_log_backups(note: Callable[[str], None], names: Sequence[str]) -> None:
    """Tell the user that backups of logs were skipped.

    Args:
        note: Prints a note.
        names: The paths of the backups.
    """
    if names:
        are = "is a backup of a log" if len(names) == 1 else "are backups of logs"
        note(f"note: {summarize_names(names, _MAX_BACKUPS_IN_NOTE)} {are} and skipped ({BACKUP_LIST})")


class _FoundTable(NamedTuple):
    """A table that a search has found.

    Attributes:
        path: The path of the table, relative to the directory where the search started.
        is_paimon: True for a Paimon table, False for a Delta table.
    """

    path: str
    is_paimon: bool


class _TableSearch:
    """One search for tables. Call `search_all` once, then read the attributes.

    Attributes:
        tables: The tables by URI.
        failures: Paths without a table and directories that cannot be listed, each with the error.
        skipped_files: Files next to tables, such as `lake/README.md`.
        log_backups: Directories that are backups of a log.
    """

    def __init__(self, open_store: Opener, step: Step) -> None:
        self._open_store = open_store
        self._step = step
        self._searched: set[str] = set()
        self._enclosing_tables: dict[str, str | None] = {}
        self.tables: dict[str, Target] = {}
        self.failures: list[tuple[str, DeltacliError]] = []
        self.skipped_files: list[str] = []
        self.log_backups: list[str] = []

    def search_all(self, names: Sequence[str]) -> None:
        """Search all paths: patterns first, then directories, then files, which may be part of a table."""
        directories: dict[str, Target] = {}
        files: list[Target] = []
        for name in names:
            with self._collect_failure(name):
                target = Target(name, self._open_store(name))
                match target.storage.kind_of(""):
                    case PathKind.DIRECTORY:
                        directories[target.storage.uri] = target
                    case PathKind.FILE:
                        files.append(target)
                    # `a[1]` is a path if it exists, and a pattern otherwise.
                    case PathKind.MISSING if _WILDCARD.search(name):
                        self._search_pattern(name)
                    case PathKind.MISSING:
                        self.failures.append((name, build_missing_path_error(target.storage)))

        # A file is only an error if it is not part of a table, so the tables have to be known first.
        self._search_directories(list(directories.values()), directories.keys())
        other_files = [file for file in files if not _is_below_any(file, directories.keys())]
        self._add_failures(other_files, are_files=True)

    @contextmanager
    def _collect_failure(self, name: str) -> Iterator[None]:
        """Add a storage error in the block to the failures, so that the search continues with the next path."""
        try:
            yield
        except StorageFailed as error:
            self.failures.append((name, error))

    def _search_directories(self, directories: Sequence[Target], requested_uris: Set[str]) -> None:
        """Search the requested directories.

        Args:
            directories: The directories.
            requested_uris: The URIs of all requested directories. A directory below another one is
                not searched twice.
        """
        inside_tables: list[Target] = []
        for target in directories:
            with self._collect_failure(target.name):
                if target.storage.kind_of(LOG_DIRECTORY) is PathKind.DIRECTORY:
                    self._add_table(target)
                elif self._find_enclosing_table(target) is not None:
                    inside_tables.append(target)
                elif not _is_below_any(target, requested_uris) and not self._search_tables_below(target):
                    # No table was found: the directory itself may be a table whose log was deleted.
                    self._add_table(target)
        # A path inside a table is an error unless the table was found by another path, which is
        # known only now.
        self._add_failures(inside_tables, are_files=False)

    def _add_failures(self, targets: Sequence[Target], *, are_files: bool) -> None:
        """Add failures for paths that are not tables, except for paths inside a table that was found.

        Args:
            targets: The paths.
            are_files: True for files, False for directories inside a table.
        """
        reported_uris: set[str] = set()
        for target in targets:
            enclosing_table = self._find_enclosing_table(target)
            if enclosing_table is not None:
                # `table/*` expands to many paths inside the same table. One failure is enough.
                uri = LocalStorage(enclosing_table).uri
                if uri not in self.tables and uri not in reported_uris:
                    reported_uris.add(uri)
                    self.failures.append((target.name, _path_inside_table_error(target, enclosing_table)))
            elif are_files and self.tables:
                self.skipped_files.append(target.name)
            else:
                self.failures.append((target.name, _path_is_file_error(target.storage)))

    def _add_table(self, target: Target) -> None:
        self.tables.setdefault(target.storage.uri, target)

    def _search_pattern(self, pattern: str) -> None:
        """Search the directories that match a pattern (see `find_matching_directories`)."""
        prefix, segments = split_pattern(pattern)
        # Matching directories are searched at any depth anyway.
        while segments and segments[-1] == "**":
            segments.pop()
        base = self._open_store(prefix or ".")
        if base.kind_of("") is PathKind.MISSING:
            self.failures.append((pattern, build_missing_path_error(base)))
            return

        has_table = False
        failures_before = len(self.failures)

        def list_directories(path: str) -> list[str]:
            return self._list_directories(base, path, path or base.uri)

        for path in find_matching_directories(list_directories, segments):
            name = join_name(prefix, path)
            with self._collect_failure(name):
                has_table |= self._search_tables_below(Target(name, self._open_store(name or ".")))
        if not has_table and len(self.failures) == failures_before:
            self.failures.append((pattern, NotATable("no table matches this pattern", code="table.path-missing")))

    def _search_tables_below(self, target: Target) -> bool:
        """Add the table in a directory, or all tables below it.

        Returns:
            True if the directory contains a table. A directory that was searched before counts as if it
            contains one: the first search has reported whatever the directory contains.
        """
        if identify_directory(target.storage, "") in self._searched:
            return True

        has_table = False
        for found_table in self._iterate_tables(target, "", 0):
            has_table = True
            # If the user typed a `file:` URI, the relative path is appended to it, and characters such as
            # spaces must be percent-encoded.
            is_file_uri = target.name.startswith("file:")
            relative_path = quote(found_table.path) if is_file_uri else found_table.path
            name = join_name(target.name, relative_path)
            with self._collect_failure(name):
                storage = self._open_store(name) if found_table.path else target.storage
                self._add_table(Target(name or ".", storage, found_table.is_paimon))
        return has_table

    def _iterate_tables(self, target: Target, path: str, depth: int) -> Iterator[_FoundTable]:
        """Yield the tables in and below a directory, in the order of a depth-first search.

        Args:
            target: The directory where the search started.
            path: The directory to search, relative to `target`; "" for `target` itself.
            depth: The number of directories between them.
        """
        directory = identify_directory(target.storage, path)
        if directory in self._searched or depth > MAX_DEPTH:
            return
        names = self._list_directories(target.storage, path, join_name(target.name, path))
        if LOG_DIRECTORY in names:
            # A backup of a log contains `_delta_log`, too, but also a list of its files.
            if BACKUP_LIST in names:
                self.log_backups.append(join_name(target.name, path))
            else:
                yield _FoundTable(path, is_paimon=False)
            return

        self._searched.add(directory)
        if is_paimon_directory(target.storage, names, path):
            yield _FoundTable(path, is_paimon=True)
            return
        for name in names:
            if not name.startswith("."):
                yield from self._iterate_tables(target, join_name(path, name), depth + 1)

    def _list_directories(self, storage: ReadStorage, path: str, name: str) -> list[str]:
        """Return the names of the subdirectories of a directory.

        If the directory cannot be listed, a failure is added and the list is empty.

        Args:
            storage: The store that contains the directory.
            path: The path of the directory in the store.
            name: The path of the directory as shown to the user, such as `lake/orders`.
        """
        self._step.advance()
        try:
            return list_table_directories(storage, path)
        except DeltacliError as error:
            self.failures.append((name, error))
            return []

    def _find_enclosing_table(self, target: Target) -> str | None:
        """Return the directory of the table that contains a local path, or None. Other stores are not searched."""
        if not isinstance(target.storage, LocalStorage):
            return None
        return self._find_table_upwards(os.path.dirname(target.storage.root))

    def _find_table_upwards(self, directory: str) -> str | None:
        """Return the nearest of a directory and its parents that is a table.

        Results are cached: the shell may expand `table/*` to thousands of paths with the same
        parents.
        """
        if directory not in self._enclosing_tables:
            parent = os.path.dirname(directory)
            if os.path.isdir(os.path.join(directory, LOG_DIRECTORY)):
                self._enclosing_tables[directory] = directory
            elif parent == directory:
                self._enclosing_tables[directory] = None
            else:
                self._enclosing_tables[directory] = self._find_table_upwards(parent)
        return self._enclosing_tables[directory]


def _is_below_any(target: Target, requested_uris: Set[str]) -> bool:
    """Return True if a path is below a requested directory."""
    uri = target.storage.uri
    while "/" in uri:
        uri = uri.rpartition("/")[0]
        if uri in requested_uris:
            return True
    return False


def identify_directory(storage: ReadStorage, path: str = "") -> str:
    """Return a string that identifies a directory. On a local disk, symbolic links are resolved.

    Args:
        storage: The store that contains the directory.
        path: The path of the directory in the store, "" for its root.
    """
    if isinstance(storage, LocalStorage):
        return os.path.realpath(os.path.join(storage.root, path))
    return f"{storage.uri}/{path}"


def is_pattern(storage: ReadStorage, name: str) -> bool:
    """Return True if a path contains wildcards, and no file or directory has exactly this name.

    Args:
        storage: The store that was opened with `name`.
        name: The path.
    """
    return _WILDCARD.search(name) is not None and storage.kind_of("") is PathKind.MISSING


def split_pattern(pattern: str) -> tuple[str, list[str]]:
    """Split a pattern before its first segment with a wildcard.

    `lake/eu/*/orders` is split into `lake/eu` and `["*", "orders"]`.
    """
    parts = pattern.split("/")
    first_wildcard = next(index for index, part in enumerate(parts) if _WILDCARD.search(part))
    prefix = "/".join(parts[:first_wildcard])
    # "/*" starts in the root directory, not in the current one.
    if not prefix and first_wildcard:
        prefix = "/"
    return prefix, [part for part in parts[first_wildcard:] if part]


def find_matching_directories(
    list_directories: Callable[[str], Sequence[str]],
    segments: Sequence[str],
    *,
    table_marker: str = LOG_DIRECTORY,
) -> Iterator[str]:
    """Find the directories whose path matches a pattern.

    `*`, `?` and `[…]` match within one name, and `**` matches any number of directories. Hidden
    directories only match segments that start with a dot.

    Args:
        list_directories: Returns the names of the subdirectories of a path.
        segments: The segments of the pattern, such as `["**", "orders"]`.
        table_marker: `**` does not enter directories with a subdirectory of this name: the
            directories of a table are partitions, not other tables. "" to enter all directories.

    Yields:
        Paths relative to the directory where the search starts, which is `""` for
        `list_directories`.
    """
    yield from _match_segments(list_directories, segments, table_marker, "", 0)


def _match_segments(
    list_directories: Callable[[str], Sequence[str]], segments: Sequence[str], table_marker: str, path: str, depth: int
) -> Iterator[str]:
    """Find the directories below a path that match the remaining segments of a pattern.

    Args:
        list_directories: Returns the names of the subdirectories of a path.
        segments: The remaining segments.
        table_marker: See `find_matching_directories`.
        path: The directory that matches the previous segments.
        depth: The number of directories that the current `**` has matched so far.
    """
    if not segments:
        yield path
        return
    segment, *next_segments = segments
    names = list_directories(path)
    if segment == "**":
        # `**` also matches no directory at all.
        yield from _match_segments(list_directories, next_segments, table_marker, path, depth)
        if table_marker in names or depth >= MAX_DEPTH:
            return

    for name in names:
        is_hidden = name.startswith(".") and not segment.startswith(".")
        if name == LOG_DIRECTORY or is_hidden:
            continue
        child = join_name(path, name)
        if segment == "**":
            yield from _match_segments(list_directories, segments, table_marker, child, depth + 1)
        elif fnmatchcase(name, segment):
            yield from _match_segments(list_directories, next_segments, table_marker, child, depth)


def join_name(directory: str, path: str) -> str:
    """Append a relative path to a directory. An empty directory or path is omitted."""
    if not directory or not path:
        return directory or path
    return f"{directory.rstrip('/')}/{path}"


def _path_is_file_error(storage: ReadStorage) -> NotATable:
    return NotATable(
        "this is a file; a table is a directory that contains _delta_log",
        code="table.path-is-file",
        facts={"path": storage.uri},
    )


def _path_inside_table_error(target: Target, enclosing_table: str) -> NotATable:
    """Build the error for a path inside a table. Its hint contains the table in the form in which the path was typed.

    For the path `../lake/orders/part-0.parquet`, the hint contains `../lake/orders`.
    """
    assert isinstance(target.storage, LocalStorage)
    levels = len(os.path.relpath(target.storage.root, enclosing_table).split(os.sep))
    table = os.path.normpath(os.path.join(target.name, *[os.pardir] * levels))
    message = "this path is inside a table; pass the table's directory"
    code = "table.path-inside"
    if os.path.basename(target.storage.root) == LOG_DIRECTORY:
        message = "this is the log of a table; pass the directory above it"
        code = "table.path-is-log"
    return NotATable(message, code=code, facts={"table": table}, hint=command("validate", table=table))
