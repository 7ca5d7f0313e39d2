"""List the files of a table, directory by directory, without hidden directories and other tables.

What is left out is recorded, because each caller has to say so: tables that were found on the way, links,
hidden directories, empty directories. Links are not followed, so a listing contains such a file only by
its other name.

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
from deltacli.delta.listing import HiddenNames, kind_of_directories
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.keys import binary_paths
from deltacli.delta.paths.spelling import key_text
from deltacli.storage import PathKind, ReadStorage, WalkEntry, is_flat_level, resolve_links
from deltacli.table.nested_tables import find_table_format
from deltacli.work.files.listing import (
    KNOWN_FILES,
    ClassifiedDirectory,
    ClassifiedFiles,
    DirectoryPiece,
    KnownFiles,
    ListedFiles,
    classify_directory,
    in_batches,
)

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle


class TableWalk:
    """Walks over the files of a table once and records what is not walked into.

    Attributes:
        storage: The store of the table.
        names: The rules of hidden names.
        directory: The directory at which the walk starts, "" for the root.
        tables: The format of each directory that is a table of its own; '' if the root is also another one.
        links: Entries that are neither files nor directories, by path: links, and rarely others.
        hidden_directories: Hidden directories that were not entered.
        empty_directories: Empty directories with their times in epoch milliseconds.
    """

    def __init__(self, storage: ReadStorage, names: HiddenNames, directory: str = "") -> None:
        """Prepare a walk.

        Args:
            storage: The store of the table.
            names: The rules known when the walk begins; a directory `key=value` is entered in any case.
            directory: The directory at which to start.
        """
        self.storage = storage
        self.names = names
        self.directory = directory
        self.tables: dict[str, str] = {}
        self.links: list[str] = []
        self.hidden_directories: list[str] = []
        self.empty_directories: list[tuple[str, int]] = []

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files. Raises UsageError if the start directory is not part of the table."""
        if self.directory:
            self.require_part()
        yield from in_batches(self._walk())

    @cached_property
    def hidden_links(self) -> list[str]:
        """The links in hidden directories, which are listed for them."""
        links: list[str] = []
        for directory in self.hidden_directories:
            for entry in self.storage.walk(directory, lambda _, names: names):
                links += links_in(entry.directory, entry.special)
        return links

    def _walk(self) -> Iterator[WalkEntry]:
        for entry in self.storage.walk(self.directory, self._enter):
            empty_modified_ms = entry.directory_modified_ms if entry.is_empty else None
            self._record_entries(entry.directory, entry.special, empty_modified_ms)
            yield entry

    def classified(
        self, table: TableHandle, known: KnownFiles, advance: Callable[[int], None]
    ) -> Iterator[ClassifiedFiles]:
        """Yield the files, classified by tasks that list a directory each.

        Directories are listed level by level, so that all of a level are listed at the same time, on the
        executors of a cluster, too. They are yielded in the order of a walk.

        Args:
            table: The table.
            known: The files that the log names.
            advance: Called with the number of files of each directory.
        """
        if self.directory:
            self.require_part()
        levels = _Levels(self)
        while levels.next:
            results = table.engine.spread(
                classify_directory,
                levels.next,
                table.stores,
                shared={KNOWN_FILES: known},
                at_once=table.storage.capabilities.parallel_reads,
            )
            levels.add(results, advance)
        for path, listed in levels.iterate_in_order_of_walk():
            self._record_entries(path, listed.special, listed.empty_modified_ms)
            # In a flat listing nothing was chosen, so nothing was left out.
            if path in levels.walked:
                self._enter(path, listed.directories)
            yield listed.files

    def visible(self, path: str, directories: Sequence[str]) -> Sequence[str]:
        """Return the subdirectories to walk into: none in another table, and no hidden ones."""
        names = _without_own_log(path, directories)
        if path and kind_of_directories(names) is not None:
            return ()  # the files of another table are not those of this one
        prefix = f"{path}/" if path else ""
        return [name for name in names if "=" in name or not self.names.hides_directory(prefix + name)]

    def _record_entries(self, directory: str, special: Sequence[str], empty_modified_ms: int | None) -> None:
        """Record the entries of a directory that are not files."""
        self.links += links_in(directory, special)
        self._record_table(directory, special)  # its log may be a link
        if directory and empty_modified_ms is not None:
            self.empty_directories.append((directory, empty_modified_ms))

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        """Record the subdirectories that are not walked into, and return the others."""
        visible = self.visible(path, directories)
        if self._record_table(path, directories) and path:
            return ()
        prefix = f"{path}/" if path else ""
        hidden = set(_without_own_log(path, directories)).difference(visible)
        self.hidden_directories += [prefix + name for name in hidden]
        return visible

    def _record_table(self, directory: str, names: Sequence[str]) -> bool:
        """Record that a directory is a table if an entry has a name that indicates one."""
        table_format = kind_of_directories(_without_own_log(directory, names))
        if table_format is not None:
            self.tables[directory] = table_format
        return table_format is not None

    def require_part(self) -> None:
        """Check that the start directory exists and is neither hidden nor inside another table.

        For the root this records whether it is another table, because a walk that starts below it does
        not see that.

        Raises:
            UsageError: If the directory must not be walked.
        """
        root_format = find_table_format(self.storage, "")
        if root_format is not None:
            self.tables[""] = root_format
        parts = self.directory.split("/")
        for length in range(1, len(parts) + 1):
            ancestor = "/".join(parts[:length])
            if self.names.hides_directory(ancestor):
                raise self._start_error(f"{parts[length - 1]} is hidden, and vacuum skips hidden directories")
            if self._is_link(ancestor):
                raise self._start_error(f"{ancestor} is a link, and vacuum does not follow links")
            table_format = self._require_format(ancestor)
            if table_format is not None:
                raise self._start_error(f"{ancestor} is {add_article(table_format)} table of its own")

    def _is_link(self, path: str) -> bool:
        if not self.storage.capabilities.has_directories:
            return False
        return list(resolve_links(self.storage, [path])) != [(path, path)]

    def _require_format(self, path: str) -> str | None:
        """Return the format of the table in a directory, None if it is no table. Raises UsageError without one."""
        try:
            return find_table_format(self.storage, path)
        except errors.FileMissing:
            if self.storage.kind_of(path) is PathKind.FILE:
                raise self._start_error("this is a file, not a directory") from None
            raise self._start_error("the table has no such directory", facts={"looked for": path}) from None

    def _start_error(self, reason: str, *, facts: dict[str, str] | None = None) -> errors.UsageError:
        message = f"{errors.parameter('vacuum.prefix')} {self.directory}: {reason}"
        return errors.UsageError(message, facts=facts or {})


def _without_own_log(directory: str, names: Sequence[str]) -> list[str]:
    """Return the names in a directory without `_delta_log` in the root, which is the log of the table itself."""
    return [name for name in names if directory or name != LOG_DIRECTORY]


class RememberedWalk(TableWalk):
    """A walk whose files are remembered, for several looks at one table by one operation that changes nothing.

    Attributes:
        left_out: Directories that were not entered: hidden ones, and those in other tables. The root's log
            is not one.
    """

    def __init__(self, storage: ReadStorage, names: HiddenNames) -> None:
        super().__init__(storage, names)
        self._files: list[ListedFiles] | None = None
        self.left_out: set[str] = set()

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files, their paths as arrays; only the first call lists them."""
        if self._files is None:
            # An earlier call that was not finished has recorded a part.
            for recorded in (self.tables, self.links, self.hidden_directories, self.empty_directories, self.left_out):
                recorded.clear()
            self._files = [files._replace(paths=binary_paths(list(files.paths))) for files in super().files()]
        yield from self._files

    def find(self, paths: ArrowArray) -> ArrowArray:
        """Return which of some paths are files.

        Args:
            paths: Paths below the root (binary).

        Returns:
            A mask. It is null for paths in directories that were not entered, and on a store with
            directories for all that are not files: links are not followed, and the store may ignore case.
        """
        is_there = pa.repeat(False, len(paths))
        for files in self.files():
            is_there = pc.or_(is_there, pc.is_in(paths, value_set=files.paths))
        # On a disk a name that was not listed may still lead to a file.
        if self.storage.capabilities.has_directories:
            return pc.if_else(is_there, is_there, pa.scalar(None, pa.bool_()))

        parents = pc.replace_substring_regex(paths, r"/?[^/]*$", "")
        not_entered = [parent for parent in pc.unique(parents).to_pylist() if self._is_left_out(key_text(parent))]
        is_unknown = pc.and_not(pc.is_in(parents, value_set=pa.array(not_entered, pa.binary())), is_there)
        return pc.if_else(is_unknown, pa.scalar(None, pa.bool_()), is_there)

    def _is_left_out(self, directory: str) -> bool:
        ancestors = accumulate(directory.split("/"), "{}/{}".format)
        return any(ancestor in self.left_out for ancestor in ancestors)

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        entered = list(super()._enter(path, directories))
        prefix = f"{path}/" if path else ""
        not_entered = set(_without_own_log(path, directories)).difference(entered)
        self.left_out.update(prefix + name for name in not_entered)
        return entered


def links_in(directory: str, special: Iterable[str]) -> list[str]:
    """Return entries of a directory that are neither files nor directories, by path: links, and rarely others."""
    prefix = f"{directory}/" if directory else ""
    return [prefix + name for name in special if name and not name.endswith("/")]


class _Levels:
    """The directories of a walk that is made level by level.

    Attributes:
        next: The directories to list now.
        walked: Directories whose subdirectories were chosen by `TableWalk.visible`, as a walk of the store
            chooses them. Below the first levels of an object store, each directory is listed with all
            that is below it.
    """

    def __init__(self, walk: TableWalk) -> None:
        self._walk = walk
        self._listed: dict[str, ClassifiedDirectory] = {}
        self._subdirectories: dict[str, list[str]] = {}
        self._depth = 0
        self._lists_flat = walk.storage.capabilities.lists_flat
        self.walked: set[str] = set()
        self.next = [DirectoryPiece(walk.directory, is_start=True)]

    def add(self, results: Iterable[ClassifiedDirectory], advance: Callable[[int], None]) -> None:
        """Add the listed directories of a level, and set the next one."""
        is_flat = self._lists_flat and is_flat_level(self._depth, len(self.next))
        next_paths: list[str] = []
        for piece, listed in zip(self.next, results, strict=True):
            names: Sequence[str] = listed.directories
            if not is_flat:
                names = self._walk.visible(piece.path, listed.directories)
                self.walked.add(piece.path)
            paths = [f"{piece.path}/{name}" if piece.path else name for name in names]
            self._listed[piece.path] = listed
            self._subdirectories[piece.path] = paths
            next_paths += paths
            advance(listed.files.listed)
        self.next = [DirectoryPiece(path) for path in next_paths]
        self._depth += 1

    def iterate_in_order_of_walk(self) -> Iterator[tuple[str, ClassifiedDirectory]]:
        """Yield the directories in the order of a walk of the store, and forget them."""
        waiting = [self._walk.directory]
        while waiting:
            path = waiting.pop()
            yield path, self._listed.pop(path)
            waiting += self._subdirectories.pop(path)
