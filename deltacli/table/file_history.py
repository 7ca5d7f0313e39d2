"""Find files that a commit adds and that no later commit removes.

Such a file is live. If a version does not contain it, the checkpoint that the version was rebuilt
from is wrong, and a vacuum of that version would delete rows of the table. Therefore `vacuum`,
`validate` and log expiration compare all commits of the log with the version that they work on:

    commit 3   add a          commit 5   remove a       -> removed
    commit 4   add b                                    -> live, or the checkpoint is wrong
    commit 6   add a                                    -> live again

Millions of files are compared, so paths are represented by 64-bit hashes (see
`deltacli.delta.paths.keys`). A collision can only cause a file to be kept.

Spec: Action Reconciliation; Deletion Vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.segment import LogListing
from deltacli.delta.paths.keys import PathKeys
from deltacli.table.file_references import FileReferenceReader

if TYPE_CHECKING:
    import pyarrow

    from deltacli.table.version import Snapshot

MISSING_ADD_RULE = "checkpoint.missing-add"
"""The rule of `validate` for a version that does not contain a file that was added and never removed."""


class FileKeys(NamedTuple):
    """The files of some actions. Each attribute is an int64 array with one row per action.

    Attributes:
        files: Hashes of file paths: the path of the data file, or of the file that contains its
            deletion vector. Null if the file is outside the table directory.
        keys: Hashes of logical files. A logical file is a path together with a deletion vector.
        versions: Versions of the commits that contain the actions, in descending order.
    """

    files: pyarrow.Array
    keys: pyarrow.Array
    versions: pyarrow.Array

    def where(self, mask: ArrowArray) -> FileKeys:
        """Return the rows for which `mask` is true."""
        return FileKeys(*(pc.filter(column, mask) for column in self))


def compute_logical_keys(paths: pyarrow.Array, vectors: pyarrow.Array) -> pyarrow.Array:
    """Combine path hashes and deletion vector ids into hashes of logical files (int64).

    The key of a file without a deletion vector is the hash of its path.

    Args:
        paths: Hashes of the paths (int64).
        vectors: Unique ids of the deletion vectors, "" for files without one.
    """
    encoded = pc.dictionary_encode(vectors)
    id_hashes = [hash(vector_id) if vector_id else 0 for vector_id in encoded.dictionary.to_pylist()]

    has_vectors = any(id_hashes)
    if not has_vectors:
        return paths
    vector_hashes = pc.take(pa.array(id_hashes, pa.int64()), encoded.indices)
    return pc.bit_wise_xor(paths, vector_hashes)


def compute_keys_with_external(
    keys: PathKeys, paths: pyarrow.Array, hashes: pyarrow.Array, vectors: pyarrow.Array
) -> pyarrow.Array:
    """Compute hashes of logical files, including external data files with a deletion vector inside the table.

    A shallow clone references data files of another table, but writes deletion vectors into its own
    directory. Such a vector must be kept as long as the logical file is live, so the logical file
    needs a key although its data file is outside the table directory.

    Args:
        keys: Computes the path hashes of the table.
        paths: Paths as written in the log. Paths of external data files are hashed as text, because
            two spellings of an external path might be different files for some engine.
        hashes: Hashes of `paths` by `keys`, null for external files.
        vectors: Unique ids of the deletion vectors, "" for files without one.

    Returns:
        One key per path (int64), null for external files without a deletion vector.
    """
    if hashes.null_count:
        is_external = pc.is_null(hashes)
        has_vector = pc.not_equal(vectors, "")
        needs_text_hash = pc.and_(is_external, has_vector)
        external_paths = pc.cast(pc.filter(paths, needs_text_hash), pa.binary())
        hashes = pc.replace_with_mask(hashes, needs_text_hash, keys.hash_listed_paths(external_paths))
    return compute_logical_keys(hashes, vectors)


class _FileKeyRows:
    """Batches of `FileKeys`, concatenated when they are first read."""

    def __init__(self) -> None:
        self._batches: list[FileKeys] = []

    def append(self, rows: FileKeys) -> None:
        if len(rows.files):
            self._batches.append(rows)

    def combine(self) -> FileKeys:
        """Return the rows of all batches, in the order in which the batches were appended."""
        combined = _concatenate_keys(self._batches)
        self._batches = [combined]
        return combined


class FileHistory:
    """The adds and removes of all commits of a log.

    Record the actions of the newest commit first: the queries rely on this order. Tombstones of a
    checkpoint and alternative paths may be recorded at any time. Queries may be made after
    everything is recorded.

    All file arguments are path hashes, as in `FileKeys.files`.

    Attributes:
        contiguous_from: First version of the newest run of commits without a gap, for example 7 if
            the log contains the commits 2, 3, 7, 8 and 9. A file that was added before this version
            may have been removed by a missing commit, so a tombstone of the checkpoint counts as
            its remove. From this version on every remove is in a commit, and tombstones are
            ignored.
    """

    def __init__(self, contiguous_from: int = 0) -> None:
        self.contiguous_from = contiguous_from
        self._adds = _FileKeyRows()
        self._vectors = _FileKeyRows()
        self._removes = _FileKeyRows()
        self._tombstones: list[ArrowArray] = []
        self._alternative_adds: list[ArrowArray] = []
        self._alternative_removes: list[ArrowArray] = []

    def record_adds(self, rows: FileKeys) -> None:
        """Record added data files. External files are ignored, because no vacuum deletes them."""
        is_in_table = pc.is_valid(rows.files)
        self._adds.append(rows.where(is_in_table))

    def record_vectors(self, rows: FileKeys) -> None:
        """Record the files that contain the deletion vectors of added data files. External files are ignored."""
        is_in_table = pc.is_valid(rows.files)
        self._vectors.append(rows.where(is_in_table))

    def record_removes(self, rows: FileKeys) -> None:
        """Record removed data files. External files without a deletion vector have no key and are ignored."""
        has_key = pc.is_valid(rows.keys)
        self._removes.append(rows.where(has_key))

    def record_tombstones(self, keys: ArrowArray) -> None:
        """Record the tombstones of a checkpoint, for which the version of the remove is unknown.

        Args:
            keys: Hashes of logical files, null for external files without a deletion vector.
        """
        self._tombstones.append(pc.drop_null(keys))

    def record_alternative_paths(self, hashes: ArrowArray, *, are_added: bool) -> None:
        """Record the files that another reader would find under the path of an add or a remove.

        For example, the path `a%20b.parquet` is the file `a b.parquet`, but a reader that does not
        decode paths opens a file named `a%20b.parquet` (see `LogKeys.alternative_hashes`).

        Args:
            hashes: Hashes of the paths.
            are_added: True for paths of adds, False for paths of removes.
        """
        if not len(hashes):
            return
        recorded = self._alternative_adds if are_added else self._alternative_removes
        recorded.append(hashes)

    def are_added(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return a mask of the files that some commit adds, as a data file or as a deletion vector."""
        is_data_file = pc.is_in(files, value_set=self._adds.combine().files)
        is_vector_file = pc.is_in(files, value_set=self._vectors.combine().files)
        return pc.or_(is_data_file, is_vector_file)

    def find_first_add_versions(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return the first version that adds each file, null for files that no commit adds."""
        rows = _concatenate_keys([self._adds.combine(), self._vectors.combine()])
        adds = pa.table({"files": rows.files, "versions": rows.versions})
        adds = pc.filter(adds, pc.is_in(adds.column("files"), value_set=files))

        first_versions = aggregate_rows(adds, ["files"], [("versions", "min")])
        row_of_file = pc.index_in(files, value_set=first_versions.column("files").combine_chunks())
        return pc.take(first_versions.column("versions_min").combine_chunks(), row_of_file)

    def are_unremoved(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return a mask of the files that are added and not removed later.

        A file counts as unremoved if at least one of its logical files is unremoved, or if the same
        holds for an alternative path (see `record_alternative_paths`).
        """
        unremoved_files = self.find_unremoved_adds(files).files

        alternatives = _concatenate(self._alternative_adds)
        alternatives = pc.filter(alternatives, pc.is_in(alternatives, value_set=files))
        is_removed = pc.is_in(alternatives, value_set=_concatenate(self._alternative_removes))
        unremoved_alternatives = pc.filter(alternatives, pc.invert(is_removed))

        return pc.is_in(files, value_set=_concatenate([unremoved_files, unremoved_alternatives]))

    def find_unremoved_adds(self, files: pyarrow.Array) -> FileKeys:
        """Return the adds of these files that no later action removes."""
        unremoved = []
        for recorded in (self._adds.combine(), self._vectors.combine()):
            adds = recorded.where(pc.is_in(recorded.files, value_set=files))
            unremoved.append(adds.where(self._are_unremoved_adds(adds)))
        return _concatenate_keys(unremoved)

    def count_unremoved_files(self, live: pyarrow.Array) -> int:
        """Count the logical files that are added and not removed later, but are missing from a version.

        Args:
            live: Keys of the live logical files of the version.
        """
        adds = self._adds.combine()
        unremoved_keys = pc.filter(adds.keys, self._are_unremoved_adds(adds))
        is_live = pc.is_in(unremoved_keys, value_set=live)
        missing_keys = pc.filter(unremoved_keys, pc.invert(is_live))
        return len(pc.unique(missing_keys))

    def _are_unremoved_adds(self, adds: FileKeys) -> pyarrow.Array:
        """Return a mask of the adds whose logical file no later action removes.

        Only the newest remove of a key matters. Removes are recorded newest first, so it is the row
        that `index_in` returns. A remove in the commit of the add counts as later.
        """
        removes = self._removes.combine()
        removes = removes.where(pc.is_in(removes.keys, value_set=adds.keys))
        newest_remove = pc.index_in(adds.keys, value_set=removes.keys)
        removed_in = pc.take(removes.versions, newest_remove)
        # Null: no commit removes the file.
        is_unremoved = pc.fill_null(pc.greater(adds.versions, removed_in), True)
        if not self.contiguous_from or not self._tombstones:
            return is_unremoved

        is_before_gap = pc.less(adds.versions, pa.scalar(self.contiguous_from, pa.int64()))
        has_tombstone = pc.is_in(adds.keys, value_set=_concatenate(self._tombstones))
        is_removed_in_gap = pc.and_(is_before_gap, has_tombstone)
        return pc.and_not(is_unremoved, is_removed_in_gap)


def _concatenate(arrays: list[ArrowArray]) -> ArrowArray:
    """Concatenate int64 arrays. A single array is returned without a copy."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays([pa.array([], pa.int64()), *arrays])


def _concatenate_keys(batches: list[FileKeys]) -> FileKeys:
    return FileKeys(
        _concatenate([batch.files for batch in batches]),
        _concatenate([batch.keys for batch in batches]),
        _concatenate([batch.versions for batch in batches]),
    )


def count_missing_live_files(snapshot: Snapshot, listing: LogListing) -> int:
    """Count the logical files that commits add and never remove, but that a version does not contain.

    Args:
        snapshot: The version to check.
        listing: The commits to compare the version with.

    Raises:
        CommitCorrupt: If a commit cannot be read. It might be the commit that removes a file.
    """
    table = snapshot.table
    keys = PathKeys((table.uri, *table.storage.aliases))
    history = FileHistory()
    reader = FileReferenceReader(table, listing)
    for references in reader.read():
        path_hashes = keys.compute_keys(references.path).hashes
        logical_keys = compute_logical_keys(path_hashes, references.vector)
        rows = FileKeys(path_hashes, logical_keys, references.version)
        if references.kind == "add":
            history.record_adds(rows)
        elif references.kind == "remove":
            history.record_removes(rows)
    if reader.errors:
        raise reader.errors[0]
    return history.count_unremoved_files(read_live_keys(snapshot, keys))


def read_live_keys(snapshot: Snapshot, keys: PathKeys) -> pyarrow.Array:
    """Return the keys (int64) of the live logical files of a version."""
    batches = []
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            path_hashes = keys.compute_keys(batch.adds.column("path")).hashes
            batches.append(compute_logical_keys(path_hashes, batch.adds.column("dv_id")))
    return _concatenate(batches)
