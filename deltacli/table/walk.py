"""List the files in a table directory, without hidden directories and nested tables.

The walk records everything that it skips, because callers report it or have to examine it: nested tables,
symbolic links, hidden directories and empty directories. Links are not followed. A file that is reachable
through a link is listed only under its actual path.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.core.texts import add_article
from deltacli.core.typing import ArrowArray
from deltacli.delta.listing import HiddenNames, identify_table_format
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.keys import encode_paths_as_binary
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.storage import PathKind, ReadStorage, WalkEntry, is_flat_level, resolve_links
from deltacli.table.nested_tables import find_table_format
from deltacli.work.files.classifying import (
    KNOWN_FILES,
    ClassifiedDirectory,
    ClassifiedFiles,
    DirectoryPiece,
    KnownFiles,
    classify_directory,
)
from deltacli.work.files.walking import ListedFiles, batch_listed_files

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle


class TableWalk:
    """Walks through a table directory once, and records entries that are not files of the table.

    The attributes from `tables` on are complete after `files` or `classify_files` is exhausted.

    Attributes:
        storage: The store of the table.
        names: The rules that decide which names are hidden, such as names that start with `_`.
        directory: The directory in which the walk starts, "" for the table directory.
        tables: The format of each nested table by its directory, such as `{"archive/orders": "paimon"}`. "" is
            a key if the table directory is also a table of another format.
        links: The paths of entries that are neither files nor directories. Nearly all are symbolic links.
        hidden_directories: Hidden directories, such as `_tmp`. They were not entered.
        empty_directories: Empty directories, and their modification times in epoch milliseconds.
    """

    def __init__(self, storage: ReadStorage, names: HiddenNames, directory: str = "") -> None:
        """Set the rules of the walk. The directory is listed when `files` or `classify_files` is iterated.

        Args:
            storage: The store of the table.
            names: The rules that decide which names are hidden. Directories such as `key=value` are entered
                even if they are hidden, because the caller may learn later that `key` is a partition column.
            directory: The directory in which the walk starts, "" for the table directory.
        """
        self.storage = storage
        self.names = names
        self.directory = directory
        self.tables: dict[str, str] = {}
        self.links: list[str] = []
        self.hidden_directories: list[str] = []
        self.empty_directories: list[tuple[str, int]] = []

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files in batches.

        Raises:
            UsageError: If the start directory is not part of the table.
        """
        if self.directory:
            self.check_start_directory()
        yield from batch_listed_files(self._walk())

    @cached_property
    def hidden_links(self) -> list[str]:
        """The paths of links in hidden directories. The first access lists these directories."""
        links: list[str] = []
        for directory in self.hidden_directories:
            for entry in self.storage.walk(directory, _enter_all):
                links += _list_special_paths(entry.directory, entry.special)
        return links

    def _walk(self) -> Iterator[WalkEntry]:
        for entry in self.storage.walk(self.directory, self._enter):
            empty_modified_ms = entry.directory_modified_ms if entry.is_empty else None
            self._record_entries(entry.directory, entry.special, empty_modified_ms)
            yield entry

    def classify_files(
        self, table: TableHandle, known: KnownFiles, advance: Callable[[int], None]
    ) -> Iterator[ClassifiedFiles]:
        """Yield the classified files of each directory. The directories are listed by tasks of the engine.

        All directories of one level are listed in parallel, if possible on the executors of a cluster. The
        results are yielded in the order of a depth-first walk.

        Args:
            table: The table.
            known: The files that the log references.
            advance: Called with the number of files of each directory, to report progress.

        Raises:
            UsageError: If the start directory is not part of the table.
        """
        if self.directory:
            self.check_start_directory()

        levels = _DirectoryLevels(self)
        while levels.next_level:
            listings = table.engine.run_tasks(
                classify_directory,
                levels.next_level,
                table.stores,
                shared={KNOWN_FILES: known},
                at_once=table.storage.capabilities.parallel_reads,
            )
            levels.add_listings(listings, advance)

        for path, listing in levels.iterate_depth_first():
            self._record_entries(path, listing.special, listing.empty_modified_ms)
            # Below the first levels, object stores list recursively, so no subdirectory has been skipped.
            if path in levels.filtered_directories:
                self._enter(path, listing.directories)
            yield listing.files

    def select_visible(self, path: str, directories: Sequence[str]) -> Sequence[str]:
        """Return the subdirectories to enter: those that are not hidden, and none of a nested table.

        Args:
            path: The path of the parent directory, "" for the table directory.
            directories: The names of its subdirectories.
        """
        names = _exclude_own_log(path, directories)
        # The files of a nested table belong to that table.
        if path and identify_table_format(names) is not None:
            return ()
        prefix = f"{path}/" if path else ""
        return [name for name in names if "=" in name or not self.names.hides_directory(prefix + name)]

    def _record_entries(self, directory: str, special: Sequence[str], empty_modified_ms: int | None) -> None:
        """Record the entries of a directory that are neither files nor directories.

        Args:
            directory: The path of the directory.
            special: The names of the entries.
            empty_modified_ms: The modification time of the directory if it is empty, else None.
        """
        self.links += _list_special_paths(directory, special)
        # The log directory of a nested table may be a symbolic link.
        self._record_table(directory, special)
        if directory and empty_modified_ms is not None:
            self.empty_directories.append((directory, empty_modified_ms))

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        """Return the subdirectories to enter, and record the others. Called by `ReadStorage.walk`."""
        visible = self.select_visible(path, directories)
        if self._record_table(path, directories) and path:
            return ()
        prefix = f"{path}/" if path else ""
        hidden = set(_exclude_own_log(path, directories)).difference(visible)
        self.hidden_directories += [prefix + name for name in hidden]
        return visible

    def _record_table(self, directory: str, names: Sequence[str]) -> bool:
        """Record a directory as a nested table if it contains a name such as `_delta_log`.

        Returns:
            True if the directory is a table.
        """
        table_format = identify_table_format(_exclude_own_log(directory, names))
        if table_format is not None:
            self.tables[directory] = table_format
        return table_format is not None

    def check_start_directory(self) -> None:
        """Check that the start directory exists, and is neither hidden nor inside a nested table.

        A walk that starts in a subdirectory does not list the table directory. So this also records
        whether the table directory is a table of another format.

        Raises:
            UsageError: If the walk must not start in this directory.
        """
        root_format = find_table_format(self.storage, "")
        if root_format is not None:
            self.tables[""] = root_format

        segments = self.directory.split("/")
        for length in range(1, len(segments) + 1):
            ancestor = "/".join(segments[:length])
            if self.names.hides_directory(ancestor):
                raise self._start_error(f"{segments[length - 1]} is hidden, and vacuum skips hidden directories")
            if self._is_link(ancestor):
                raise self._start_error(f"{ancestor} is a link, and vacuum does not follow links")
            table_format = self._find_format(ancestor)
            if table_format is not None:
                raise self._start_error(f"{ancestor} is {add_article(table_format)} table of its own")

    def _is_link(self, path: str) -> bool:
        if not self.storage.capabilities.has_directories:
            return False
        return list(resolve_links(self.storage, [path])) != [(path, path)]

    def _find_format(self, path: str) -> str | None:
        """Return the format of the table in a directory; None if it is not a table.

        Raises:
            UsageError: If the directory does not exist or is a file.
        """
        try:
            return find_table_format(self.storage, path)
        except errors.FileMissing:
            if self.storage.kind_of(path) is PathKind.FILE:
                raise self._start_error("this is a file, not a directory") from None
            raise self._start_error("the table has no such directory", facts={"looked for": path}) from None

    def _start_error(self, reason: str, *, facts: dict[str, str] | None = None) -> errors.UsageError:
        message = f"{errors.parameter('vacuum.prefix')} {self.directory}: {reason}"
        return errors.UsageError(message, facts=facts or {})


def _enter_all(_: str, names: Sequence[str]) -> Sequence[str]:
    """Enter all subdirectories. Called by `ReadStorage.walk`."""
    return names


def _exclude_own_log(directory: str, names: Sequence[str]) -> list[str]:
    """Remove `_delta_log` from the names in the table directory: it does not indicate a nested table."""
    return [name for name in names if directory or name != LOG_DIRECTORY]


def _list_special_paths(directory: str, special: Iterable[str]) -> list[str]:
    """Return the paths of entries that are neither files nor directories.

    On object stores, entries that end in `/` are marker objects of directories. They are left out.
    """
    prefix = f"{directory}/" if directory else ""
    return [prefix + name for name in special if name and not name.endswith("/")]


class CachedWalk(TableWalk):
    """A walk that stores the list of files, for operations that need it several times.

    Use it only in operations that do not change the table.

    Attributes:
        skipped_directories: Directories that were not entered: hidden directories, and the subdirectories of
            nested tables. `_delta_log` in the table directory is not included.
    """

    def __init__(self, storage: ReadStorage, names: HiddenNames) -> None:
        super().__init__(storage, names)
        self._files: list[ListedFiles] | None = None
        self.skipped_directories: set[str] = set()

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files in batches, with their paths as binary arrays. Only the first call lists them."""
        if self._files is None:
            # If the caller did not exhaust an earlier walk, its records are incomplete. Start over.
            self.tables.clear()
            self.links.clear()
            self.hidden_directories.clear()
            self.empty_directories.clear()
            self.skipped_directories.clear()
            self._files = [files._replace(paths=encode_paths_as_binary(list(files.paths))) for files in super().files()]
        yield from self._files

    def check_paths(self, paths: ArrowArray) -> ArrowArray:
        """Look up paths in the list of files.

        Args:
            paths: Paths inside the table directory (binary).

        Returns:
            For each path, True if the file exists, and False if not. The result is null if the listing
            cannot tell: for a path in a directory that was not entered, and on a local disk for every path
            that was not listed, because it may lead through a link, or differ from the listed path in case
            only.
        """
        is_listed = pa.repeat(False, len(paths))
        for files in self.files():
            is_listed = pc.or_(is_listed, pc.is_in(paths, value_set=files.paths))
        if self.storage.capabilities.has_directories:
            return pc.if_else(is_listed, is_listed, pa.scalar(None, pa.bool_()))

        parents = pc.replace_substring_regex(paths, r"/?[^/]*$", "")
        skipped_parents = [
            parent for parent in pc.unique(parents).to_pylist() if self._is_skipped(decode_path_bytes(parent))
        ]
        is_in_skipped_directory = pc.is_in(parents, value_set=pa.array(skipped_parents, pa.binary()))
        is_unknown = pc.and_not(is_in_skipped_directory, is_listed)
        return pc.if_else(is_unknown, pa.scalar(None, pa.bool_()), is_listed)

    def _is_skipped(self, directory: str) -> bool:
        """Return True if a directory, or one of its parent directories, was not entered."""
        ancestors = accumulate(directory.split("/"), "{}/{}".format)
        return any(ancestor in self.skipped_directories for ancestor in ancestors)

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        entered = list(super()._enter(path, directories))
        prefix = f"{path}/" if path else ""
        skipped = set(_exclude_own_log(path, directories)).difference(entered)
        self.skipped_directories.update(prefix + name for name in skipped)
        return entered


class _DirectoryLevels:
    """Collects the listings of directories, level by level.

    List the directories in `next_level`, pass the results to `add_listings`, and repeat until `next_level`
    is empty. Then call `iterate_depth_first`.

    Attributes:
        next_level: The directories to list next.
        filtered_directories: Directories whose subdirectories were filtered by `TableWalk.select_visible`.
            On an object store with many directories, the lower levels are listed recursively instead, and
            their subdirectories are not filtered.
    """

    def __init__(self, walk: TableWalk) -> None:
        self._walk = walk
        self._listings: dict[str, ClassifiedDirectory] = {}
        self._subdirectories: dict[str, list[str]] = {}
        self._depth = 0
        self._lists_flat = walk.storage.capabilities.lists_flat
        self.filtered_directories: set[str] = set()
        self.next_level = [DirectoryPiece(walk.directory, is_start=True)]

    def add_listings(self, listings: Iterable[ClassifiedDirectory], advance: Callable[[int], None]) -> None:
        """Store the listings of `next_level`, and replace it by the subdirectories to enter.

        Args:
            listings: The listings, in the order of `next_level`.
            advance: Called with the number of files of each directory, to report progress.
        """
        is_flat = self._lists_flat and is_flat_level(self._depth, len(self.next_level))
        next_paths: list[str] = []
        for piece, listing in zip(self.next_level, listings, strict=True):
            names: Sequence[str] = listing.directories
            if not is_flat:
                names = self._walk.select_visible(piece.path, listing.directories)
                self.filtered_directories.add(piece.path)
            paths = [f"{piece.path}/{name}" if piece.path else name for name in names]
            self._listings[piece.path] = listing
            self._subdirectories[piece.path] = paths
            next_paths += paths
            advance(listing.files.listed)
        self.next_level = [DirectoryPiece(path) for path in next_paths]
        self._depth += 1

    def iterate_depth_first(self) -> Iterator[tuple[str, ClassifiedDirectory]]:
        """Yield the path and listing of each directory, depth first. Listings are released on the way."""
        stack = [self._walk.directory]
        while stack:
            path = stack.pop()
            yield path, self._listings.pop(path)
            stack += self._subdirectories.pop(path)
