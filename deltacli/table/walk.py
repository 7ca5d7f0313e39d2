"""Listing a table: directory by directory, without hidden ones and other tables, which are found on the way.

Links are not followed, so a listing contains such a file only by its other name.

Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.core.texts import add_article
from deltacli.core.typing import ArrowArray
from deltacli.delta.listing import HiddenNames, find_table_roots, kind_of_directories, partition_names
from deltacli.delta.log.actions import Action
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.log.state import TableConfiguration, read_metadata
from deltacli.delta.paths.keys import binary_paths
from deltacli.delta.paths.spelling import key_text
from deltacli.delta.schema.types import parse_schema
from deltacli.storage import PathKind, ReadStorage, Storage, WalkEntry, is_flat_level, link_targets
from deltacli.work.files.listing import (
    KNOWN_FILES,
    TELLING,
    ClassifiedDirectory,
    ClassifiedFiles,
    DirectoryPiece,
    KnownFiles,
    ListedFiles,
    classify_directory,
    in_batches,
)

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- other tables below a table ----------------------------------------------------------------------------------------


def kind_at(storage: ReadStorage, directory: str) -> str | None:
    """Return the format of the table in a directory, None without one (the root's log apart). Raises FileMissing."""
    names = [name for name in storage.list_directories(directory) if directory or name != LOG_DIRECTORY]
    kind = kind_of_directories(names)
    if kind is not None:
        return kind
    below = f"{directory}/" if directory else ""
    telling = [name for name in TELLING if name in names]
    paths = [f"{name}/{stat.name}" for name in telling for stat in storage.list_from(f"{below}{name}")]
    return find_table_roots(binary_paths(paths)).get("")


def tables_above(table: TableHandle, paths: pyarrow.Array) -> dict[str, str]:
    """Return the directories above files (binary array), including the root, that are tables of their own: directory ->
    format. Each directory is checked once.
    """
    above = {""}
    for parent in pc.unique(pc.replace_substring_regex(paths, "/?[^/]*$", "")).to_pylist():
        parts = parent.decode("utf-8", "surrogateescape").split("/")
        above |= {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}
    directories, storage = sorted(above), table.storage
    look = partial(_kind_if_there, storage)
    kinds = table.engine.run(look, directories, at_once=storage.capabilities.parallel_reads)
    return {directory: kind for directory, kind in zip(directories, kinds, strict=True) if kind is not None}


def _kind_if_there(storage: ReadStorage, directory: str) -> str | None:
    try:
        return kind_at(storage, directory)
    except errors.FileMissing:
        return None


def table_at(storage: ReadStorage) -> str | None:
    """Return the URI of the root of a store where that is a table of any format, whatever is left of its log."""
    with suppress(errors.FileMissing):
        if kind_at(storage, "") is not None:
            return storage.uri
    with suppress(errors.FileMissing):
        if any(True for _ in storage.list_from(LOG_DIRECTORY)):
            return storage.uri
    return None


def tables_around(table: TableHandle) -> Iterator[str]:
    """Yield the URIs of the Delta tables around a table, nearest first; inaccessible directories are skipped."""
    for storage in stores_around(table):
        with suppress(errors.FileMissing, errors.PermissionRefused, errors.CredentialsMissing):
            if any(file.name.endswith((".json", ".parquet")) for file in storage.list_from(LOG_DIRECTORY)):
                yield storage.uri


def stores_around(table: TableHandle) -> Iterator[Storage]:
    """Yield the directories that contain a table, the nearest first."""
    # Of a local directory, aliases have other directories above them; elsewhere they spell the same ones differently.
    aliases = table.storage.aliases if table.storage.capabilities.has_directories else ()
    for root in dict.fromkeys((table.uri, *aliases)):
        scheme, separator, path = root.partition("://")
        place = path.rstrip("/")
        while separator and "/" in place:
            place = place.rpartition("/")[0]
            if not place:
                break
            yield table.open_other(f"{scheme}://{place}")


# -- listing a table ---------------------------------------------------------------------------------------------------

_ICEBERG_FEATURES = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")
_UNIVERSAL = "delta.universalFormat.enabledFormats"


class TableWalk:
    """Walks over the files of a table once and records other entries."""

    def __init__(self, storage: ReadStorage, names: HiddenNames, directory: str = "") -> None:
        """`names` are the rules known when the walk begins; a directory `key=value` is entered in any case."""
        self.storage, self.names, self.directory = storage, names, directory
        self.tables: dict[str, str] = {}
        """Directories that are tables of their own, '' where the root is also another one -> the format."""
        self.links: list[str] = []
        """Entries that are neither files nor directories, by path: links, and rarely others."""
        self.hidden_directories: list[str] = []
        """Hidden directories that were not entered."""
        self.empty_directories: list[tuple[str, int]] = []
        """Empty directories with their times in epoch milliseconds."""

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files. Raises UsageError where the start directory is not part of the table."""
        if self.directory:
            self.require_part()
        yield from in_batches(self._noted())

    @cached_property
    def hidden_links(self) -> list[str]:
        """The links in hidden directories, which are listed for them."""
        return [
            link
            for directory in self.hidden_directories
            for walked in self.storage.walk(directory, lambda _, names: names)
            for link in links_in(walked.directory, walked.special)
        ]

    def _noted(self) -> Iterator[WalkEntry]:
        for walked in self.storage.walk(self.directory, self._enter):
            self._note(walked.directory, walked.special, walked.directory_modified_ms if walked.is_empty else None)
            yield walked

    def classified(
        self, table: TableHandle, known: KnownFiles, advance: Callable[[int], None]
    ) -> Iterator[ClassifiedFiles]:
        """Yield the files, classified by tasks that list a directory each: level by level, but in the order of a walk.

        `advance` is called with the number of files of each directory.
        """
        if self.directory:
            self.require_part()
        levels = _Levels(self)
        while levels.next:
            found = table.engine.spread(
                classify_directory,
                levels.next,
                table.stores,
                shared={KNOWN_FILES: known},
                at_once=table.storage.capabilities.parallel_reads,
            )
            levels.take(found, advance)
        for path, one in levels.in_order():
            self._note(path, one.special, one.empty_modified_ms)
            if path in levels.walked:
                self._enter(path, one.directories)
            yield one.files

    def visible(self, path: str, directories: Sequence[str]) -> Sequence[str]:
        """Return the subdirectories to walk into: none in another table, and no hidden ones."""
        found = [name for name in directories if path or name != LOG_DIRECTORY]
        if path and kind_of_directories(found) is not None:
            return ()
        below = f"{path}/" if path else ""
        return [name for name in found if "=" in name or not self.names.hides_directory(below + name)]

    def _note(self, directory: str, special: Sequence[str], empty_modified_ms: int | None) -> None:
        """Record the entries of a directory that are not files."""
        self.links += links_in(directory, special)
        self._note_table(directory, special)  # its log may be a link
        if directory and empty_modified_ms is not None:
            self.empty_directories.append((directory, empty_modified_ms))

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        """Record the subdirectories that are not walked into, and return the others."""
        visible = self.visible(path, directories)
        if self._note_table(path, directories) and path:
            return ()
        below = f"{path}/" if path else ""
        found = (name for name in directories if path or name != LOG_DIRECTORY)
        self.hidden_directories += [below + name for name in set(found).difference(visible)]
        return visible

    def _note_table(self, directory: str, names: Sequence[str]) -> bool:
        """Record that a directory is a table if an entry has a name that indicates one."""
        kind = kind_of_directories([name for name in names if directory or name != LOG_DIRECTORY])
        if kind is not None:
            self.tables[directory] = kind
        return kind is not None

    def require_part(self) -> None:
        """Check that the start directory exists and is neither hidden nor inside another table; for the root record
        whether it is another table.
        """
        shared = kind_at(self.storage, "")
        if shared is not None:
            self.tables[""] = shared
        parts = self.directory.split("/")
        for length in range(1, len(parts) + 1):
            above = "/".join(parts[:length])
            if self.names.hides_directory(above):
                raise errors.UsageError(
                    f"{errors.parameter('vacuum.prefix')} {self.directory}: {parts[length - 1]} is "
                    "hidden, and vacuum skips hidden directories"
                )
            if self._is_link(above):
                raise errors.UsageError(
                    f"{errors.parameter('vacuum.prefix')} {self.directory}: {above} is a "
                    "link, and vacuum does not follow links"
                )
            kind = self._kind_at(above)
            if kind is not None:
                raise errors.UsageError(
                    f"{errors.parameter('vacuum.prefix')} {self.directory}: "
                    f"{above} is {add_article(kind)} table of its own"
                )

    def _is_link(self, path: str) -> bool:
        return self.storage.capabilities.has_directories and [*link_targets(self.storage, [path])] != [(path, path)]

    def _kind_at(self, path: str) -> str | None:
        try:
            return kind_at(self.storage, path)
        except errors.FileMissing:
            if self.storage.kind_of(path) is PathKind.FILE:
                raise errors.UsageError(
                    f"{errors.parameter('vacuum.prefix')} {self.directory}: this is a file, not a directory"
                ) from None
            raise errors.UsageError(
                f"{errors.parameter('vacuum.prefix')} {self.directory}: the table has no such directory",
                facts={"looked for": path},
            ) from None


class KeptWalk(TableWalk):
    """A walk whose files are kept, for several looks at one table by one operation that changes nothing."""

    def __init__(self, storage: ReadStorage, names: HiddenNames) -> None:
        super().__init__(storage, names)
        self._kept: list[ListedFiles] | None = None
        self.left_out: set[str] = set()
        """Directories that were not entered: hidden ones, and those in other tables. The root's log is not one."""

    def files(self) -> Iterator[ListedFiles]:
        """Yield the files, their paths as arrays; only the first call lists them."""
        if self._kept is None:
            for found in (self.tables, self.links, self.hidden_directories, self.empty_directories, self.left_out):
                found.clear()  # of a call that was not finished
            self._kept = [one._replace(paths=binary_paths(list(one.paths))) for one in super().files()]
        yield from self._kept

    def find(self, paths: ArrowArray) -> ArrowArray:
        """Return which of some paths are files; null for those in directories that were not entered, and on a store
        with directories for all others: links are not followed, and the store may ignore case.
        """
        is_there = pa.repeat(False, len(paths))
        for files in self.files():
            is_there = pc.or_(is_there, pc.is_in(paths, value_set=files.paths))
        if self.storage.capabilities.has_directories:
            return pc.if_else(is_there, is_there, pa.scalar(None, pa.bool_()))
        parents = pc.replace_substring_regex(paths, r"/?[^/]*$", "")
        unseen = pa.array(
            [one for one in pc.unique(parents).to_pylist() if self._is_left_out(key_text(one))], pa.binary()
        )
        is_unseen = pc.and_not(pc.is_in(parents, value_set=unseen), is_there)
        return pc.if_else(is_unseen, pa.scalar(None, pa.bool_()), is_there)

    def _is_left_out(self, directory: str) -> bool:
        return any(above in self.left_out for above in accumulate(directory.split("/"), "{}/{}".format))

    def _enter(self, path: str, directories: Sequence[str]) -> Iterable[str]:
        entered = list(super()._enter(path, directories))
        below = f"{path}/" if path else ""
        found = (name for name in directories if path or name != LOG_DIRECTORY)
        self.left_out.update(below + name for name in set(found).difference(entered))
        return entered


def links_in(directory: str, special: Iterable[str]) -> list[str]:
    """Return entries of a directory that are neither files nor directories, by path: links, and rarely others."""
    below = f"{directory}/" if directory else ""
    return [below + name for name in special if name and not name.endswith("/")]


class _Levels:
    """The directories of a walk that is made level by level. `next` are those to list now; `walked` are those whose
    subdirectories were chosen by `TableWalk.visible`, as a walk of the store chooses them.
    """

    def __init__(self, walk: TableWalk) -> None:
        self._walk = walk
        self._listed: dict[str, ClassifiedDirectory] = {}
        self._inner: dict[str, list[str]] = {}
        self._depth = 0
        self._lists_flat = walk.storage.capabilities.lists_flat
        self.walked: set[str] = set()
        self.next = [DirectoryPiece(walk.directory, is_start=True)]

    def take(self, results: Iterable[ClassifiedDirectory], advance: Callable[[int], None]) -> None:
        """Add the directories of a level, and set the next one."""
        is_flat = self._lists_flat and is_flat_level(self._depth, len(self.next))
        below: list[str] = []
        for piece, found in zip(self.next, results, strict=True):
            names = found.directories if is_flat else self._walk.visible(piece.path, found.directories)
            if not is_flat:
                self.walked.add(piece.path)
            self._listed[piece.path] = found
            self._inner[piece.path] = [f"{piece.path}/{name}" if piece.path else name for name in names]
            below += self._inner[piece.path]
            advance(found.files.listed)
        self.next = [DirectoryPiece(path) for path in below]
        self._depth += 1

    def in_order(self) -> Iterator[tuple[str, ClassifiedDirectory]]:
        """Yield the directories in the order of a walk of the store."""
        waiting = [self._walk.directory]
        while waiting:
            path = waiting.pop()
            yield path, self._listed.pop(path)
            waiting += self._inner.pop(path)


def hidden_names(
    snapshot: Snapshot, metadata: Sequence[Action], first: TableConfiguration | None = None
) -> HiddenNames:
    """Return the rules of hidden names, with the current partition columns, those of all given metaData actions, and
    those of a first version.
    """
    columns = partition_names(snapshot.config) | (partition_names(first) if first is not None else set())
    for action in metadata:
        try:
            found = read_metadata(action, "a commit")
            schema = parse_schema(found.schema_string) if found.schema_string else None
        except errors.DeltacliError:
            continue  # an unreadable older metaData protects nothing
        columns |= partition_names(TableConfiguration(snapshot.protocol, found, schema))
    return HiddenNames(sorted(columns), hides_metadata="iceberg" in readable_formats(snapshot, metadata, first))


def readable_formats(snapshot: Snapshot, metadata: Sequence[Action], first: TableConfiguration | None) -> set[str]:
    """Return the formats that the table is or was kept readable as, whose files in its directory belong to it."""
    regimes = [snapshot.config] if first is None else [snapshot.config, first]
    configurations = [*(one.properties for one in regimes), *(action.get("configuration") for action in metadata)]
    texts = [one.get(_UNIVERSAL) for one in configurations if isinstance(one, Mapping)]
    found = {name.strip().lower() for text in texts if isinstance(text, str) for name in text.split(",")}
    if any(not one.features.isdisjoint(_ICEBERG_FEATURES) for one in regimes):
        found.add("iceberg")
    return found
