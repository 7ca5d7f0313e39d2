"""The tables that own data files which another table references, and the notes that protect these files.

A shallow clone contains absolute paths of files of its source. So does every log that is derived from the log of a
clone: a clone of the clone, a copy that keeps the paths, a log that is restored to another place. The vacuum of the
source lists these files, finds no reference in its own log, and would delete them.

The owner of a file is the table whose vacuum lists it: the nearest parent directory with a Delta log. The paths alone
decide who the owner is, not the table that the log was copied from:

    path in the log of the clone                 owner
    ------------------------------------------   ---------------------------------------------
    s3://lake/source/day=1/part-0.parquet        s3://lake/source, if it contains `_delta_log`
    part-1.parquet                               (none: the file belongs to the clone itself)

Each command that writes such a log calls `find_file_owners` for its plan, and `write_clone_notes` right before it
writes the log. The note tells the vacuum of the owner to keep the files (`clone_notes.py`).

Spec: Add File and Remove File; Deletion Vector Descriptor Schema.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
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
from deltacli.delta.paths.spelling import canonicalize_path, encode_uri, without_dots
from deltacli.delta.paths.spelling_columns import are_absolute
from deltacli.storage import ReadStorage, Storage, is_inside
from deltacli.storage.directory_identity import bind_to_directory
from deltacli.storage.optional_interfaces import require_writable

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

_FILE_NAME = "/+[^/]*$"
"""Matches the last segment of a path, with the slash before it."""

_VECTOR_TYPE_OR_OFFSET = r"^p|@\d+$"
"""Matches all but the path in the id of a deletion vector in a file of its own: `p` + path + `@` + offset."""

_MAX_DIRECTORIES_NAMED = 3


class FileOwners(NamedTuple):
    """The tables that own files which another table references.

    Attributes:
        stores: The stores of the owners that a note can be written to, without duplicates.
        warnings: One sentence per owner that a note cannot be written to, with the option that its vacuum needs
            instead; and a sentence about the directories without an owner.
    """

    stores: tuple[Storage, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def uris(self) -> list[str]:
        """The URIs of the owners."""
        return [store.uri for store in self.stores]


class WrittenNotes(NamedTuple):
    """The result of writing the note about one table to the owners of its files.

    Attributes:
        stores: The stores of the owners that have the note now.
        notes: The notes that this run has written. Fewer than `stores` if an owner already had a newer note.
        warnings: One sentence per owner that the note could not be written to.
    """

    stores: tuple[Storage, ...] = ()
    notes: tuple[WrittenNote, ...] = ()
    warnings: tuple[str, ...] = ()

    def undo(self) -> None:
        """Delete the written notes, after the log that they announced could not be written."""
        for note in self.notes:
            with suppress(errors.DeltacliError):
                note.undo()


def find_external_directories(
    storage: ReadStorage, paths: ArrowArray, vector_ids: ArrowArray | None = None
) -> set[str]:
    """Return the directories outside the table directory that contain files of the log.

    Example for the table `s3://lake/clone`:

        paths          ["part-0.parquet", "s3://lake/source/day=1/a%20b.parquet", "s3://lake/clone/part-1.parquet"]
        vector_ids     ["", "ps3://lake/source/vector.bin@4", "uab^-aqEH.-t@S}K{vb[*k^@4"]
        result         {"s3://lake/source/day=1", "s3://lake/source"}

    Args:
        storage: The store of the table.
        paths: Paths of add, remove or cdc actions, as in the log (string array without nulls).
        vector_ids: Unique ids of deletion vectors (string array, "" for none).

    Returns:
        Decoded absolute paths of local directories, and URIs of others, in the form that `canonicalize_path` returns.
    """
    directories = _find_parents_of_external_paths(storage, paths)
    if vector_ids is not None:
        # Only vectors of type `p` have a path. Types `u` and `i` are below the table directory, or inline.
        has_path = pc.starts_with(pc.fill_null(vector_ids, ""), "p")
        ids_with_path = pc.filter(vector_ids, has_path)
        vector_paths = pc.replace_substring_regex(ids_with_path, _VECTOR_TYPE_OR_OFFSET, "")
        directories |= _find_parents_of_external_paths(storage, vector_paths)
    return directories


def _find_parents_of_external_paths(storage: ReadStorage, paths: ArrowArray) -> set[str]:
    """Return the parent directories of those paths that lead out of the table directory."""
    # Nearly all paths are relative without `..`, and need no closer look.
    may_be_external = pc.or_(are_absolute(paths), _may_have_parent_segment(paths))
    if not pc.any(may_be_external).as_py():
        return set()
    candidates = pc.filter(paths, may_be_external)

    # The key of a path is the path relative to the table directory, or null if it lies outside. A table may have
    # several URIs, such as `s3://` and `s3a://`.
    path_keys = PathKeys((storage.uri, *storage.aliases))
    relative_paths = path_keys.compute_keys(candidates).keys
    is_external = pc.is_null(relative_paths)
    external_paths = pc.filter(candidates, is_external)

    parents = pc.unique(pc.replace_substring_regex(external_paths, _FILE_NAME, ""))
    return {_resolve_directory(storage.uri, parent) for parent in parents.to_pylist()}


def _may_have_parent_segment(paths: ArrowArray) -> ArrowArray:
    """Return False for paths that certainly have no `..` segment, also not a percent-encoded one (`%2e%2E`)."""
    # Two substring searches take a tenth of the time of a regular expression, and nearly no table has a match.
    has_dots = pc.match_substring(paths, "..")
    has_encoded_dot = pc.match_substring(paths, "%2e", ignore_case=True)
    return pc.or_(has_dots, has_encoded_dot)


def find_external_directories_of_version(snapshot: Snapshot, storage: ReadStorage | None = None) -> set[str]:
    """Return the directories outside the table directory that contain live files of a version.

    Args:
        snapshot: The version.
        storage: The store of the table, if the log of the version was read from another directory, such as a backup.
    """
    table_storage = snapshot.table.storage if storage is None else storage
    find_directories = partial(_find_external_directories_of_adds, table_storage)
    results = snapshot.file_actions.map_actions("add", find_directories, fields=["path", "deletionVector"])
    return set[str]().union(*results)


def _find_external_directories_of_adds(storage: ReadStorage, adds: RecordBatch) -> set[str]:
    """Return the directories outside the table directory that contain files of a batch of add actions."""
    vector_ids = unique_id_column(adds.column("deletionVector"))
    return find_external_directories(storage, adds.column("path"), vector_ids)


def _resolve_directory(table_uri: str, directory: str) -> str:
    """Return the absolute path or URI of a directory, decoded and without `..` segments.

    Args:
        table_uri: The URI of the table.
        directory: The directory, percent-encoded as in the log: absolute, or relative to the table directory.
    """
    is_absolute = are_absolute(pa.array([f"{directory}/"]))[0].as_py()
    absolute_path = directory if is_absolute else f"{encode_uri(table_uri)}/{directory}"
    return without_dots(canonicalize_path(absolute_path))


def find_file_owners(table: TableHandle, directories: Collection[str], address: str) -> FileOwners:
    """Find the tables that own the files in some directories, and check whether a note can be written to each.

    Args:
        table: The table whose log references the files, or will reference them. Its handle opens the owners.
        directories: The directories, as `find_external_directories` returns them.
        address: The URI of the table, for the warnings.
    """
    search = _OwnerSearch(table)
    owner_by_uri = dict[str, Storage]()
    unowned_directories = list[str]()
    warnings = list[str]()
    for directory in sorted(directories):
        try:
            owners = search.find_owners(directory)
        except errors.DeltacliError as error:
            warnings.append(_build_warning(directory, address, error.message))
            continue
        if not owners:
            unowned_directories.append(directory)
        owner_by_uri |= {storage.uri: storage for storage in owners}

    writable_owners = list[Storage]()
    for storage in owner_by_uri.values():
        try:
            require_writable(storage)
        except errors.DeltacliError as error:
            warnings.append(_build_warning(storage.uri, address, error.message))
        else:
            writable_owners.append(storage)

    if unowned_directories:
        names = summarize_names(unowned_directories, _MAX_DIRECTORIES_NAMED)
        warnings.append(
            f"no Delta table was found around {names}, which has files of {address}: nothing protects them there"
        )
    return FileOwners(tuple(writable_owners), tuple(dict.fromkeys(warnings)))


class _OwnerSearch:
    """Finds the owners of directories. The log of each parent directory is listed only once."""

    def __init__(self, table: TableHandle) -> None:
        """Prepare a search.

        Args:
            table: The table whose log references the files. It is never returned as an owner.
        """
        self._table = table
        self._table_by_directory = dict[str, Storage | None]()

    def find_owners(self, directory: str) -> list[Storage]:
        """Return the owners of the files in a directory.

        There may be two owners if the path contains a symbolic link: `/lake/link/day=1` may belong to a table in
        `/lake`, and to a table in the directory that the link leads to. Both list the files in a vacuum.

        Args:
            directory: The absolute path of a local directory, or the URI of another one.

        Returns:
            The stores of the owners; none if no parent directory is a table.
        """
        directories = [directory]
        if directory.startswith("/"):
            directories.append(os.path.realpath(directory))

        owners = list[Storage]()
        for candidate in dict.fromkeys(directories):
            storage = self._find_nearest_table(candidate)
            # A link may lead back into the table itself, which needs no note about itself.
            if storage is not None and not _is_same_directory(storage, self._table.storage):
                owners.append(storage)
        return owners

    def _find_nearest_table(self, directory: str) -> Storage | None:
        """Return the table in a directory or in the nearest of its parents; None if there is none."""
        candidates = list(_list_ancestors(directory))
        is_remote = not directory.startswith("/")
        if is_remote:
            # On an object store each candidate costs a request. A directory such as `day=1` is nearly always a
            # partition, of which a table may have thousands, so these are tried last.
            likely_tables = [candidate for candidate in candidates if "=" not in candidate.rpartition("/")[2]]
            candidates = [*likely_tables, *candidates]
        for candidate in candidates:
            storage = self._get_table(candidate)
            if storage is not None:
                return storage
        return None

    def _get_table(self, directory: str) -> Storage | None:
        """Return the store of the table in a directory; None if it is no table. The answer is cached."""
        if directory not in self._table_by_directory:
            self._table_by_directory[directory] = self._open_table(directory)
        return self._table_by_directory[directory]

    def _open_table(self, directory: str) -> Storage | None:
        """Return the store of the table in a directory; None if the directory has no Delta log."""
        storage = self._table.open_other(directory)
        try:
            entries = storage.list_from(LOG_DIRECTORY)
            # `_delta_log` without any commit or checkpoint is not a log.
            has_log = any(entry.name.endswith((".json", ".parquet")) for entry in entries)
        except errors.FileMissing:
            return None
        return storage if has_log else None


def _list_ancestors(directory: str) -> Iterator[str]:
    """Yield a directory, its parent, the parent of the parent, …, up to the bucket or the top of the file system."""
    scheme, separator, path = directory.rpartition("://")
    while path.strip("/"):
        yield f"{scheme}{separator}{path}"
        path = path.rpartition("/")[0]


def _is_same_directory(storage: ReadStorage, other: ReadStorage) -> bool:
    return is_inside(storage, other) and is_inside(other, storage)


def _build_warning(owner: str, address: str, reason: str) -> str:
    option = errors.parameter("vacuum.protect_from", [address])
    return f"{owner} cannot be given a note of {address}: {reason}; its vacuum keeps these files only with {option}"


def write_clone_notes(stores: Iterable[Storage], note: CloneNote) -> WrittenNotes:
    """Write a note to each owner of files, so that the vacuum of the owner keeps the files.

    A failure is only a warning: the owner may be read-only for this user, who may copy a clone nevertheless.

    Args:
        stores: The stores of the owners, as `find_file_owners` returns them.
        note: The note about the table that references their files.
    """
    noted_stores = list[Storage]()
    written_notes = list[WrittenNote]()
    warnings = list[str]()
    for store in stores:
        try:
            bound_store = bind_to_directory(store)
            written_note = note.write(bound_store)
        except errors.DeltacliError as error:
            warnings.append(_build_warning(store.uri, note.uri, error.message))
            continue
        noted_stores.append(bound_store)
        if written_note is not None:
            written_notes.append(written_note)
    return WrittenNotes(tuple(noted_stores), tuple(written_notes), tuple(warnings))
