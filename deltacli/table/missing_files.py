"""Find data files and deletion vectors that the log references but that do not exist in storage.

Files inside the table directory are looked up together. Files outside of it, such as those of a shallow
clone, are looked up one by one, each in its own store, if the user has allowed access to it.

The module also finds paths that a writer forgot to percent-encode, because a copy of the log must encode
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling_columns import are_absolute, encode_percent_signs_column
from deltacli.table.needed_files import (
    FileKind,
    NeededFiles,
    build_empty_needed_files,
    build_files_of_unknown_size,
    combine_chunks,
    locate_files,
)

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.work.table_files import TableFiles


class ReferencedFiles(NamedTuple):
    """References to files, as they occur in a log.

    Attributes:
        paths: Paths of data files.
        vector_ids: Unique ids of deletion vectors, such as `u<random prefix><encoded uuid>@1` or
            `p<absolute path>@1`.
    """

    paths: ArrowArray
    vector_ids: ArrowArray


class UnavailableFiles(NamedTuple):
    """Referenced files that cannot be read.

    Attributes:
        missing: Files that do not exist.
        inaccessible: Files outside the table directory that this process may not access, because the user
            has not allowed it. Whether they exist is unknown.
    """

    missing: ReferencedFiles
    inaccessible: ReferencedFiles


class _UnavailableExternalFiles(NamedTuple):
    """References of one kind, paths or ids of deletion vectors, to external files that cannot be read.

    Attributes:
        missing: References to files that do not exist.
        inaccessible: References to files that this process may not access.
    """

    missing: ArrowArray
    inaccessible: ArrowArray


def find_missing_files(
    table: TableHandle,
    paths: ArrowArray,
    vector_ids: ArrowArray,
    check_listing: Callable[[ArrowArray], ArrowArray] | None = None,
) -> UnavailableFiles:
    """Return referenced files that do not exist, and external files that this process may not access.

    Args:
        table: The table.
        paths: The paths of data files, as in the log.
        vector_ids: The unique ids of deletion vectors, as in the log.
        check_listing: A function that looks up files in a listing of the table, as for `locate_files`.

    Raises:
        StorageFailed: If a store does not answer.
    """
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    paths = pc.unique(paths)
    vector_ids = pc.unique(vector_ids)
    path_keys = keys.compute_keys(paths)
    vector_keys = keys.compute_vector_keys(vector_ids)

    # The key of a file outside the table directory is null.
    is_internal_path = pc.is_valid(path_keys.keys)
    is_internal_vector = pc.is_valid(vector_keys.keys)
    internal_paths = pc.filter(paths, is_internal_path)
    internal_ids = pc.filter(vector_ids, is_internal_vector)
    external_paths = pc.filter(paths, pc.invert(is_internal_path))
    external_ids = pc.filter(vector_ids, pc.invert(is_internal_vector))

    # Look up data files and files of deletion vectors together, which takes fewer requests. The sizes are
    # in the order of the references.
    data_files = _build_internal_files(path_keys.keys, path_keys.undecoded, FileKind.DATA)
    vector_files = _build_internal_files(vector_keys.keys, vector_keys.keys, FileKind.VECTOR)
    internal_files = pa.concat_tables([data_files, vector_files])
    needed = build_empty_needed_files((table.uri,))._replace(files=internal_files)
    located = locate_files(table.storage, needed, table.engine, table.progress, check_listing)
    is_missing = pc.is_null(combine_chunks(located.sizes))
    missing_paths = pc.filter(internal_paths, is_missing.slice(0, data_files.num_rows))
    missing_ids = pc.filter(internal_ids, is_missing.slice(data_files.num_rows))

    # Look up external files one by one, each in its own store.
    unavailable_paths = _find_unavailable_external_files(table, external_paths)
    unavailable_ids = _find_unavailable_external_vectors(table, external_ids)
    return UnavailableFiles(
        missing=ReferencedFiles(
            pa.concat_arrays([combine_chunks(missing_paths), unavailable_paths.missing]),
            pa.concat_arrays([combine_chunks(missing_ids), unavailable_ids.missing]),
        ),
        inaccessible=ReferencedFiles(unavailable_paths.inaccessible, unavailable_ids.inaccessible),
    )


def _build_internal_files(keys: ArrowArray, undecoded: ArrowArray, kind: FileKind) -> ArrowTable:
    """Build the table `NeededFiles.files` of the files whose key is not null."""
    is_internal = pc.is_valid(keys)
    return build_files_of_unknown_size(pc.filter(keys, is_internal), pc.filter(undecoded, is_internal), kind)


def _find_unavailable_external_files(table: TableHandle, paths: ArrowArray) -> _UnavailableExternalFiles:
    """Look up data files outside the table directory.

    Args:
        table: The table.
        paths: Absolute paths, as in the log.
    """
    return _look_up_external_files(table, {path: path for path in paths.to_pylist()})


def _find_unavailable_external_vectors(table: TableHandle, vector_ids: ArrowArray) -> _UnavailableExternalFiles:
    """Look up the files of deletion vectors outside the table directory.

    Args:
        table: The table.
        vector_ids: Unique ids of deletion vectors. Inline vectors have no file and are skipped.
    """
    paths_by_id: dict[str, str] = {}
    for vector_id in vector_ids.to_pylist():
        # The id of a vector with an absolute path is `p<path>@<offset>`, or `p<path>` without an offset.
        if vector_id[:1] == "p":
            paths_by_id[vector_id] = vector_id[1:].rpartition("@")[0] or vector_id[1:]
    return _look_up_external_files(table, paths_by_id)


def _look_up_external_files(table: TableHandle, paths_by_reference: Mapping[str, str]) -> _UnavailableExternalFiles:
    """Look up files outside the table directory in parallel.

    Args:
        table: The table.
        paths_by_reference: The absolute path of each file, by the path or vector id that the result contains.
    """
    look_up_file = partial(_look_up_file, table.files())
    lookups = list(table.engine.run(look_up_file, paths_by_reference.values()))
    missing: list[str] = []
    inaccessible: list[str] = []
    for reference, lookup in zip(paths_by_reference, lookups, strict=True):
        if lookup is _Lookup.INACCESSIBLE:
            inaccessible.append(reference)
        elif lookup is _Lookup.MISSING:
            missing.append(reference)
    return _UnavailableExternalFiles(pa.array(missing, pa.string()), pa.array(inaccessible, pa.string()))


class _Lookup(Enum):
    """The result of looking up a file. A file is inaccessible if the user has not allowed access to its location."""

    EXISTS = auto()
    MISSING = auto()
    INACCESSIBLE = auto()


def _look_up_file(files: TableFiles, path: str) -> _Lookup:
    """Look up a file by its path in the log, in the store that contains it."""
    try:
        storage, path_in_store = files.locate(path)
        storage.stat(path_in_store)
    except errors.FileMissing:
        return _Lookup.MISSING
    except errors.PathExternal:
        return _Lookup.INACCESSIBLE
    return _Lookup.EXISTS


def find_unencoded_paths(snapshot: Snapshot) -> ArrowArray:
    """Return the paths of live files that contain an escape sequence but were not percent-encoded.

    The protocol says that paths are percent-encoded. Some writers forget: for `a%20b.parquet`, the file
    `a%20b.parquet` exists and `a b.parquet` does not. deltacli reads such a file. But if the path is copied
    to the log of another table, its percent sign must be encoded: `a%2520b.parquet`.

    Args:
        snapshot: The version.

    Returns:
        Relative paths, as in the log.

    Raises:
        StorageFailed: If the store does not answer.
    """
    batches = [pa.array([], pa.string())]
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            paths = batch.adds.column("path")
            has_escape = pc.match_substring(paths, "%")
            batches.append(pc.filter(paths, pc.and_not(has_escape, are_absolute(paths))))
    escaped_paths = pc.unique(pa.concat_arrays(batches))

    # Most tables have no path that decoding changes. They need no request.
    table = snapshot.table
    keys = PathKeys((table.storage.uri, *table.storage.aliases)).compute_keys(escaped_paths)
    differs = pc.fill_null(pc.not_equal(keys.keys, keys.undecoded), False)
    escaped_paths = pc.filter(escaped_paths, differs)
    if not len(escaped_paths):
        return escaped_paths

    # `locate_files` returns the actual path of each file. If it is not the decoded path, the path in the
    # log is not encoded.
    decoded_paths = pc.filter(keys.keys, differs)
    files = _build_internal_files(decoded_paths, pc.filter(keys.undecoded, differs), FileKind.DATA)
    needed = NeededFiles(files, pa.table({"path": pa.array([], pa.binary())}))
    located = locate_files(table.storage, needed, table.engine, table.progress)
    exists = pc.is_valid(located.sizes)
    has_other_path = pc.not_equal(combine_chunks(located.needed.files["path"]), decoded_paths)
    return pc.filter(escaped_paths, pc.and_(exists, has_other_path))


def encode_unencoded_paths(paths: ArrowArray, unencoded_paths: ArrowArray) -> ArrowArray:
    """Encode the percent signs of unencoded paths, so that decoding them gives the name of the file.

    Args:
        paths: Paths of a log.
        unencoded_paths: The result of `find_unencoded_paths`. All other paths are returned unchanged.
    """
    is_unencoded = pc.is_in(paths, value_set=unencoded_paths)
    return pc.if_else(is_unencoded, encode_percent_signs_column(paths), paths)
