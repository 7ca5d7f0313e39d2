"""Find files that a commit adds and no later commit removes.

Such a file is live. A version that lacks one was rebuilt from a wrong checkpoint, and a vacuum of that
version would delete rows of the table. So `vacuum` and `validate` compare the history of all commits with
the version that they work on.

    commit 3   add a          commit 5   remove a       -> removed
    commit 4   add b                                    -> live, or the checkpoint is wrong
    commit 6   add a                                    -> live again

Files are compared by 64-bit hashes of their keys, as in `deltacli.delta.listing`.

Spec: Action Reconciliation; Deletion Vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.batches import aggregate_rows
from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.segment import LogListing
from deltacli.table.file_references import read_file_references

if TYPE_CHECKING:
    import pyarrow

    from deltacli.delta.paths.keys import PathKeys
    from deltacli.table.version import Snapshot

MISSING_ADD_RULE = "checkpoint.missing-add"
"""The rule of `validate` that reports a version that lacks such a file."""


class FileKeys(NamedTuple):
    """Files named by actions, one row each (int64 arrays).

    Attributes:
        files: Hashes of paths: of a data file, or of the file that holds its deletion vector.
        keys: Hashes of the logical file, which is path and deletion vector.
        versions: The versions of the commits, the newest first.
    """

    files: pyarrow.Array
    keys: pyarrow.Array
    versions: pyarrow.Array

    def where(self, mask: ArrowArray) -> FileKeys:
        """Return the rows of a mask."""
        return FileKeys(*(pc.filter(column, mask) for column in self))


def compute_logical_keys(paths: pyarrow.Array, vectors: pyarrow.Array) -> pyarrow.Array:
    """Return the keys (int64) of logical files.

    Args:
        paths: Hashes of their paths.
        vectors: The ids of their deletion vectors, "" for none.
    """
    encoded = pc.dictionary_encode(vectors)
    id_hashes = [hash(vector_id) if vector_id else 0 for vector_id in encoded.dictionary.to_pylist()]
    # Without vectors, the key of a file is the hash of its path.
    if not any(id_hashes):
        return paths
    return pc.bit_wise_xor(paths, pc.take(pa.array(id_hashes, pa.int64()), encoded.indices))


def compute_keys_with_outside(
    keys: PathKeys, paths: pyarrow.Array, hashes: pyarrow.Array, vectors: pyarrow.Array
) -> pyarrow.Array:
    """Return the keys (int64) of logical files, also of files outside the table whose vector may be in it.

    Args:
        keys: The keys of the paths of the table.
        paths: Raw paths of the log. Outside the table they are compared as text, so that a vector is not taken for
            removed by an action that some engine relates to another file.
        hashes: Their hashes by `keys`; null outside the table.
        vectors: The ids of their deletion vectors, "" for none.

    Returns:
        Null for files outside the table without a vector.
    """
    if hashes.null_count:
        is_outside = pc.and_(pc.is_null(hashes), pc.not_equal(vectors, ""))
        outside_hashes = keys.of_listing(pc.cast(pc.filter(paths, is_outside), pa.binary()))
        hashes = pc.replace_with_mask(hashes, is_outside, outside_hashes)
    return compute_logical_keys(hashes, vectors)


class _FileKeyRows:
    """Collects rows of files into one table of columns."""

    def __init__(self) -> None:
        self._parts: list[FileKeys] = []

    def add(self, rows: FileKeys) -> None:
        if len(rows.files):
            self._parts.append(rows)

    def combine(self) -> FileKeys:
        """Return every row, in the order in which they were added."""
        combined = _concatenate_keys(self._parts)
        self._parts = [combined]
        return combined


class FileHistory:
    """Collects the files that actions add and remove, commits newest first, and tells which are not removed.

    Attributes:
        last_run: The first version of the commits that reach the newest version without a gap. Tombstones
            of a checkpoint count only for files that were added before it; for later files the commits
            are the more reliable source.
    """

    def __init__(self, last_run: int = 0) -> None:
        self.last_run = last_run
        self._adds = _FileKeyRows()
        self._vectors = _FileKeyRows()
        self._removes = _FileKeyRows()
        self._tombstones: list[ArrowArray] = []
        self._other_adds: list[ArrowArray] = []
        self._other_removes: list[ArrowArray] = []

    def record_adds(self, rows: FileKeys) -> None:
        """Add data files; the hash of a file outside the table is null."""
        # A file outside of the table is not one to delete.
        self._adds.add(rows.where(pc.is_valid(rows.files)))

    def record_vectors(self, rows: FileKeys) -> None:
        """Add the files of deletion vectors that belong to added data files."""
        self._vectors.add(rows.where(pc.is_valid(rows.files)))

    def record_removes(self, rows: FileKeys) -> None:
        """Remove data files. Of those outside the table, only the ones with vectors have keys."""
        self._removes.add(rows.where(pc.is_valid(rows.keys)))

    def record_tombstones(self, keys: ArrowArray) -> None:
        """Remove data files in an unknown version."""
        self._tombstones.append(pc.drop_null(keys))

    def record_other_spellings(self, hashes: ArrowArray, *, are_added: bool) -> None:
        """Add or remove the files that paths name for a reader with other decoding rules."""
        if len(hashes):
            (self._other_adds if are_added else self._other_removes).append(hashes)

    def adds(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return which files (hashes) an action adds."""
        is_data_file = pc.is_in(files, value_set=self._adds.combine().files)
        is_vector_file = pc.is_in(files, value_set=self._vectors.combine().files)
        return pc.or_(is_data_file, is_vector_file)

    def first_adds(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return the first version that adds each of these files (hashes); null if no commit does."""
        rows = _concatenate_keys([self._adds.combine(), self._vectors.combine()])
        adds = pa.table({"files": rows.files, "versions": rows.versions})
        adds = pc.filter(adds, pc.is_in(adds.column("files"), value_set=files))
        first_versions = aggregate_rows(adds, ["files"], [("versions", "min")])
        rows_of_files = pc.index_in(files, value_set=first_versions.column("files").combine_chunks())
        return pc.take(first_versions.column("versions_min").combine_chunks(), rows_of_files)

    def unremoved(self, files: pyarrow.Array) -> pyarrow.Array:
        """Return which files (hashes) an add names whose logical file no later action removes."""
        other_adds = _concatenate(self._other_adds)
        other_adds = pc.filter(other_adds, pc.is_in(other_adds, value_set=files))
        is_removed = pc.is_in(other_adds, value_set=_concatenate(self._other_removes))
        other_adds = pc.filter(other_adds, pc.invert(is_removed))
        return pc.is_in(files, value_set=_concatenate([self.unremoved_adds(files).files, other_adds]))

    def unremoved_adds(self, files: pyarrow.Array) -> FileKeys:
        """Return the adds that name these files (hashes) and that no later action removes."""
        parts = []
        for added in (self._adds.combine(), self._vectors.combine()):
            rows = added.where(pc.is_in(added.files, value_set=files))
            parts.append(rows.where(self._are_last(rows)))
        return _concatenate_keys(parts)

    def unremoved_count(self, live: pyarrow.Array) -> int:
        """Return the number of logical files that are added, not removed later and not live (keys)."""
        rows = self._adds.combine()
        keys = pc.filter(rows.keys, self._are_last(rows))
        return len(pc.unique(pc.filter(keys, pc.invert(pc.is_in(keys, value_set=live)))))

    def _are_last(self, rows: FileKeys) -> pyarrow.Array:
        """Return which added rows no later action removes.

        The newest remove of a key decides: commits were added newest first, so it is the first one that
        `index_in` finds. An add in the same commit counts as removed; versions have to be greater.
        """
        removes = self._removes.combine()
        removes = removes.where(pc.is_in(removes.keys, value_set=rows.keys))
        removed_versions = pc.take(removes.versions, pc.index_in(rows.keys, value_set=removes.keys))
        are_last = pc.fill_null(pc.greater(rows.versions, removed_versions), True)
        if not self.last_run or not self._tombstones:
            return are_last

        is_before_last_run = pc.less(rows.versions, pa.scalar(self.last_run, pa.int64()))
        is_tombstone = pc.is_in(rows.keys, value_set=_concatenate(self._tombstones))
        return pc.and_not(are_last, pc.and_(is_before_last_run, is_tombstone))


def _concatenate(arrays: list[ArrowArray]) -> ArrowArray:
    """Return arrays of int64 as one; a single one as it is."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays([pa.array([], pa.int64()), *arrays])


def _concatenate_keys(parts: list[FileKeys]) -> FileKeys:
    return FileKeys(
        _concatenate([part.files for part in parts]),
        _concatenate([part.keys for part in parts]),
        _concatenate([part.versions for part in parts]),
    )


def count_lost_files(snapshot: Snapshot, listing: LogListing) -> int:
    """Return the number of logical files that commits add and do not remove, but a version lacks.

    Args:
        snapshot: The version.
        listing: The commits.

    Raises:
        CommitCorrupt: If a commit cannot be read.
    """
    from deltacli.delta.paths.keys import PathKeys

    table = snapshot.table
    keys = PathKeys((table.uri, *table.storage.aliases))
    history = FileHistory()
    faults: list[CommitCorrupt] = []
    for references in read_file_references(table, listing, faults, []):
        paths = keys.of_log(references.path).hashes
        rows = FileKeys(paths, compute_logical_keys(paths, references.vector), references.version)
        if references.kind == "add":
            history.record_adds(rows)
        elif references.kind == "remove":
            history.record_removes(rows)
    # A commit that cannot be read may be the one that removes a file.
    if faults:
        raise faults[0]
    return history.unremoved_count(read_live_keys(snapshot, keys))


def read_live_keys(snapshot: Snapshot, keys: PathKeys) -> pyarrow.Array:
    """Return the keys (int64) of the live logical files of a version."""
    parts = []
    for batch in snapshot.file_actions.read_narrow_batches():
        if batch.adds is not None and batch.adds.num_rows:
            hashes = keys.of_log(batch.adds.column("path")).hashes
            parts.append(compute_logical_keys(hashes, batch.adds.column("dv_id")))
    return _concatenate(parts)
