"""The other tables whose data files a table names, and the notes that keep their vacuum from deleting these files.

A shallow clone names files of its source by absolute paths. So does everything that is made from the log of a clone: a
copy that keeps the paths, a clone of the clone, a log that is restored to another place. Whatever writes such a log
asks `find_file_owners` before, and `put_notes` right before the log is written. The owner of a file is the nearest
directory above it that has a Delta log: its vacuum lists the file. It does not matter from which table the log was
taken.

Spec: Add File and Remove File; Deletion Vector Descriptor Schema.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.clone_notes import CloneNote, WrittenNote
from deltacli.core import errors
from deltacli.core.texts import summarize_names
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import canonical, encode_uri, without_dots
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.storage import ReadStorage, Storage, is_inside
from deltacli.storage.base import held, require_writable

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_LAST_SEGMENT = "/+[^/]*$"
_VECTOR_OF_PATH = r"^p|@\d+$"
_MOST_NAMED = 3


class FileOwners(NamedTuple):
    """The tables that own files which another table names.

    Attributes:
        tables: The stores of the owners that can be given a note, each once.
        warnings: One sentence per owner that cannot, or per directory of files whose owner is unknown, with the option
            that its vacuum needs instead.
    """

    tables: tuple[Storage, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def uris(self) -> list[str]:
        return [storage.uri for storage in self.tables]


class PutNotes(NamedTuple):
    """The result of writing the note of one table into the owners of its files.

    Attributes:
        noted: The stores of the owners that have the note now.
        written: The notes that this run has written.
        warnings: One sentence per owner that did not take the note.
    """

    noted: tuple[Storage, ...] = ()
    written: tuple[WrittenNote, ...] = ()
    warnings: tuple[str, ...] = ()

    def undo(self) -> None:
        """Undo the writing of the notes, because the log that they announced was not written."""
        for note in self.written:
            with suppress(errors.DeltacliError):
                note.undo()


def find_external_directories(
    storage: ReadStorage, paths: ArrowArray, vector_ids: ArrowArray | None = None
) -> set[str]:
    """Return the directories outside of a table in which the log names files.

    Args:
        storage: The store of the table.
        paths: Raw paths of add, remove or cdc actions (string array without nulls).
        vector_ids: The ids of deletion vectors (string array, "" for none).

    Returns:
        Decoded absolute paths of local directories, and plain URIs, as `canonical` spells them.
    """
    named = [paths]
    if vector_ids is not None:
        in_files = pc.filter(vector_ids, pc.starts_with(pc.fill_null(vector_ids, ""), "p"))
        named.append(pc.replace_substring_regex(in_files, _VECTOR_OF_PATH, ""))

    uris = (storage.uri, *storage.aliases)
    keys = PathKeys(uris)
    directories = set[str]()
    for texts in named:
        may_leave = pc.or_(are_absolute(texts), _find_dot_segments(texts))
        if not pc.any(may_leave).as_py():
            continue
        candidates = pc.filter(texts, may_leave)
        outside = pc.filter(candidates, pc.is_null(keys.of_log(candidates).keys))
        parents = pc.unique(pc.replace_substring_regex(outside, _LAST_SEGMENT, ""))
        directories |= {_resolve_directory(storage.uri, parent) for parent in parents.to_pylist()}
    return directories


def _find_dot_segments(paths: ArrowArray) -> ArrowArray:
    """Return which paths have a segment `..`, also an encoded one, and few others."""
    # Nearly no table has one, and these two searches take a tenth of the time of a regular expression.
    dots = pc.match_substring(paths, "..")
    encoded_dots = pc.match_substring(paths, "%2e", ignore_case=True)
    return pc.or_(dots, encoded_dots)


def find_external_directories_of_version(snapshot: Snapshot, storage: ReadStorage | None = None) -> set[str]:
    """Return the directories outside of a table in which a version has live files.

    Args:
        snapshot: The version.
        storage: The store of the table, where the log of the version was read from elsewhere.
    """
    root = snapshot.table.storage if storage is None else storage

    def collect(adds: RecordBatch) -> set[str]:
        return find_external_directories(root, adds.column("path"), unique_id_column(adds.column("deletionVector")))

    fields = ["path", "deletionVector"]
    return set[str]().union(*snapshot.file_actions.map_actions("add", collect, fields=fields))


def _resolve_directory(uri: str, directory: str) -> str:
    """Return a directory from a path of the log as an absolute one, decoded as `canonical` does.

    Args:
        uri: The URI of the table, which a relative path is below of.
        directory: The directory, as in the log.
    """
    if are_absolute(pa.array([f"{directory}/"]))[0].as_py():
        return without_dots(canonical(directory))
    return without_dots(canonical(f"{encode_uri(uri)}/{directory}"))


def find_file_owners(table: TableHandle, directories: Collection[str], address: str) -> FileOwners:
    """Find the tables that own the files in some directories, and say which of them cannot be given a note.

    Args:
        table: The table whose log names the files, or is about to. It opens the other ones.
        directories: As from `find_external_directories`.
        address: The URI of that table, for the warnings.
    """
    search = _OwnerSearch(table)
    tables = dict[str, Storage]()
    warnings = list[str]()
    unowned = list[str]()
    for directory in sorted(directories):
        try:
            owners = search.find_owners(directory)
        except errors.DeltacliError as error:
            warnings.append(_build_warning(directory, address, error.message))
            continue
        if not owners:
            unowned.append(directory)
        tables |= {storage.uri: storage for storage in owners}

    notable = list[Storage]()
    for storage in tables.values():
        try:
            require_writable(storage)
        except errors.DeltacliError as error:
            warnings.append(_build_warning(storage.uri, address, error.message))
        else:
            notable.append(storage)
    if unowned:
        warnings.append(
            f"no Delta table was found around {summarize_names(unowned, _MOST_NAMED)}, which has files of {address}: "
            "nothing protects them there"
        )
    return FileOwners(tuple(notable), tuple(dict.fromkeys(warnings)))


class _OwnerSearch:
    """Looks for the nearest table above directories. Each directory is looked at once."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table
        self._tables = dict[str, Storage | None]()

    def find_owners(self, directory: str) -> list[Storage]:
        """Return the nearest table above a directory, and above the one that links in its path lead to."""
        directories = [directory]
        if directory.startswith("/"):
            directories.append(os.path.realpath(directory))

        owners = list[Storage]()
        for candidate in dict.fromkeys(directories):
            storage = self._find_nearest(candidate)
            # Behind a link, the nearest table may be the one that names the files. It needs no note about itself.
            if storage is not None and not _is_same_directory(storage, self._table.storage):
                owners.append(storage)
        return owners

    def _find_nearest(self, directory: str) -> Storage | None:
        """Return the nearest table at a directory or above it; None if there is none."""
        candidates = list(_list_ancestors(directory))
        is_remote = not directory.startswith("/")
        if is_remote:
            # A directory such as `day=1` is nearly always a partition, and a table may have thousands: on an object
            # store each costs a request. They are looked at only if there is no table above them.
            no_partitions = [candidate for candidate in candidates if "=" not in candidate.rpartition("/")[2]]
            candidates = [*no_partitions, *candidates]
        for candidate in candidates:
            storage = self._get_table(candidate)
            if storage is not None:
                return storage
        return None

    def _get_table(self, directory: str) -> Storage | None:
        if directory not in self._tables:
            self._tables[directory] = self._open_table(directory)
        return self._tables[directory]

    def _open_table(self, directory: str) -> Storage | None:
        """Return the store of the table in a directory; None if the directory has no log."""
        storage = self._table.open_other(directory)
        try:
            entries = storage.list_from(LOG_DIRECTORY)
            # A directory without a commit and a checkpoint is no log, and so there is no table.
            has_log = any(entry.name.endswith((".json", ".parquet")) for entry in entries)
        except errors.FileMissing:
            return None
        return storage if has_log else None


def _list_ancestors(directory: str) -> Iterator[str]:
    """Yield a directory and those above it, the nearest first, up to the bucket or the root of the file system."""
    scheme, separator, path = directory.rpartition("://")
    while path.strip("/"):
        yield f"{scheme}{separator}{path}"
        path = path.rpartition("/")[0]


def _is_same_directory(storage: ReadStorage, other: ReadStorage) -> bool:
    return is_inside(storage, other) and is_inside(other, storage)


def _build_warning(owner: str, address: str, why: str) -> str:
    option = errors.parameter("vacuum.protect_from", [address])
    return f"{owner} cannot be given a note of {address}: {why}; its vacuum keeps these files only with {option}"


def put_notes(tables: Iterable[Storage], note: CloneNote) -> PutNotes:
    """Write a note into each owner.

    An owner that does not take the note is a warning. As an error it would make a copy of a clone impossible wherever
    the source is read-only.

    Args:
        tables: The stores of the owners, as from `find_file_owners`.
        note: The note about the table that names their files.
    """
    noted = list[Storage]()
    written = list[WrittenNote]()
    warnings = list[str]()
    for table in tables:
        try:
            storage = held(table)
            written_note = note.put(storage)
        except errors.DeltacliError as error:
            warnings.append(_build_warning(table.uri, note.uri, error.message))
            continue
        noted.append(storage)
        if written_note is not None:
            written.append(written_note)
    return PutNotes(tuple(noted), tuple(written), tuple(warnings))
