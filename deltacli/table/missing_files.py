"""Find files that a log names and no store has, also outside the table and under other spellings."""

from __future__ import annotations

from collections.abc import Callable
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
    combine_chunks,
    locate_files,
    make_no_needed_files,
    make_unmeasured_files,
)

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot


class LoggedNames(NamedTuple):
    """Files as a log names them.

    Attributes:
        paths: Paths of data files.
        vector_ids: Ids of deletion vectors.
    """

    paths: ArrowArray
    vector_ids: ArrowArray


class UnavailableFiles(NamedTuple):
    """Files that a log names and that cannot be read.

    Attributes:
        missing: Those that no store has.
        forbidden: Those outside the table that must not be looked at.
    """

    missing: LoggedNames
    forbidden: LoggedNames


class _ElsewhereFiles(NamedTuple):
    """Names of files outside a table, as in its log."""

    missing: ArrowArray
    forbidden: ArrowArray


def find_missing_files(
    table: TableHandle,
    paths: ArrowArray,
    vector_ids: ArrowArray,
    find_listed: Callable[[ArrowArray], ArrowArray] | None = None,
) -> UnavailableFiles:
    """Return the files that are missing, and those that must not be looked at.

    Args:
        table: The table.
        paths: Paths of data files, as in the log.
        vector_ids: Ids of deletion vectors, as in the log.
        find_listed: As for `locate_files`.

    Raises:
        StorageFailed: If a store cannot tell.
    """
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    paths = pc.unique(paths)
    vector_ids = pc.unique(vector_ids)
    path_keys = keys.of_log(paths)
    vector_keys = keys.of_vectors(vector_ids)

    # Data files and files of vectors are looked for together: that takes fewer calls.
    data_files = _make_files_inside(path_keys.keys, path_keys.written, FileKind.DATA)
    vector_files = _make_files_inside(vector_keys.keys, vector_keys.keys, FileKind.VECTOR)
    needed = make_no_needed_files((table.uri,))._replace(files=pa.concat_tables([data_files, vector_files]))
    sizes = combine_chunks(locate_files(table.storage, needed, table.engine, table.progress, find_listed).sizes)
    sizes_of_data_files = sizes.slice(0, data_files.num_rows)
    sizes_of_vectors = sizes.slice(data_files.num_rows)

    # A name without a key is outside of the table. There each file is asked for alone, in its own store.
    missing_paths = pc.filter(pc.filter(paths, pc.is_valid(path_keys.keys)), pc.is_null(sizes_of_data_files))
    paths_elsewhere = _look_elsewhere(table, pc.filter(paths, pc.is_null(path_keys.keys)), are_vectors=False)
    missing_ids = pc.filter(pc.filter(vector_ids, pc.is_valid(vector_keys.keys)), pc.is_null(sizes_of_vectors))
    ids_elsewhere = _look_elsewhere(table, pc.filter(vector_ids, pc.is_null(vector_keys.keys)), are_vectors=True)
    return UnavailableFiles(
        missing=LoggedNames(
            pa.concat_arrays([combine_chunks(missing_paths), paths_elsewhere.missing]),
            pa.concat_arrays([combine_chunks(missing_ids), ids_elsewhere.missing]),
        ),
        forbidden=LoggedNames(paths_elsewhere.forbidden, ids_elsewhere.forbidden),
    )


def _make_files_inside(keys: ArrowArray, written: ArrowArray, kind: FileKind) -> ArrowTable:
    """Return the files that have a key, which are those inside the table."""
    is_inside = pc.is_valid(keys)
    return make_unmeasured_files(pc.filter(keys, is_inside), pc.filter(written, is_inside), kind)


def _look_elsewhere(table: TableHandle, names: ArrowArray, *, are_vectors: bool) -> _ElsewhereFiles:
    """Look for files outside of a table, one by one.

    Args:
        table: The table.
        names: Paths of data files, or ids of vectors.
        are_vectors: True for ids. Of these only absolute paths (`p…@offset`) name a file elsewhere.
    """
    files = table.files()

    def is_there(path: str) -> bool | None:
        try:
            storage, inner_path = files.locate(path)
            storage.stat(inner_path)
        except errors.FileMissing:
            return False
        except errors.PathExternal:
            return None  # the user has not allowed it, so nothing is known
        return True

    if are_vectors:
        elsewhere = [name for name in names.to_pylist() if name[:1] == "p"]
        locations = [name[1:].rpartition("@")[0] or name[1:] for name in elsewhere]
    else:
        elsewhere = names.to_pylist()
        locations = elsewhere
    answers = list(zip(elsewhere, table.engine.run(is_there, locations), strict=True))
    missing = [name for name, answer in answers if answer is False]
    forbidden = [name for name, answer in answers if answer is None]
    return _ElsewhereFiles(pa.array(missing, pa.string()), pa.array(forbidden, pa.string()))


def find_undecoded_paths(snapshot: Snapshot) -> ArrowArray:
    """Return the relative paths of live files that a writer did not encode, although they have escapes.

    Decoded, as the protocol has it, they name no file, but there is one with the name as it is written. deltacli reads
    it. In another log such a path needs its percent signs encoded.

    Raises:
        StorageFailed: If the store cannot tell which files are there.
    """
    parts = [pa.array([], pa.string())]
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            paths = batch.adds.column("path")
            has_escape = pc.match_substring(paths, "%")
            parts.append(pc.filter(paths, pc.and_not(has_escape, are_absolute(paths))))
    escaped = pc.unique(pa.concat_arrays(parts))

    table = snapshot.table
    keys = PathKeys((table.storage.uri, *table.storage.aliases)).of_log(escaped)
    differs = pc.fill_null(pc.not_equal(keys.keys, keys.written), False)
    escaped = pc.filter(escaped, differs)
    # Most tables end here, without a request.
    if not len(escaped):
        return escaped

    decoded = pc.filter(keys.keys, differs)
    files = _make_files_inside(decoded, pc.filter(keys.written, differs), FileKind.DATA)
    needed = NeededFiles(files, pa.table({"path": pa.array([], pa.binary())}))
    located = locate_files(table.storage, needed, table.engine, table.progress)
    has_other_path = pc.not_equal(combine_chunks(located.needed.files["path"]), decoded)
    return pc.filter(escaped, pc.and_(pc.is_valid(located.sizes), has_other_path))


def encode_undecoded_paths(paths: ArrowArray, undecoded: ArrowArray) -> ArrowArray:
    """Return paths of a log so that all of them name their files when they are decoded.

    Args:
        paths: The paths.
        undecoded: The paths that `find_undecoded_paths` has returned, whose percent signs are encoded.
    """
    return pc.if_else(pc.is_in(paths, value_set=undecoded), encode_percent_signs_column(paths), paths)
