"""Which files a restore adds and removes: live files of two versions compared by path and deletion vector, in columns.

A file is represented by sixteen bytes, two independent hashes of its key: of a million files of each version 16 MB are
held instead of their paths. The files of a version come in the same order each time, which is checked when they are
encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.changing.plan import Amount
from deltacli.core.cached import cached_property
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.operations.restore.verify import ProblemFile
from deltacli.storage import ReadStorage
from deltacli.table.keyed_files import KEY_BYTES, Mask, differing_keys, file_keys
from deltacli.table.needed import FileKind

if TYPE_CHECKING:
    from deltacli.table.version import Snapshot

COLUMNS = ("path", "change", "kind", "sizeBytes", "problem", "why", "source")
_COUNTED = ("path", "size", "deletionVector", "stats")


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """The chosen live files of a version in the order in which it yields them: keys, bytes, rows (null: unknown)."""

    keys: ArrowArray
    sizes: ArrowArray
    rows: ArrowArray
    physical_rows: ArrowArray
    """Rows with those that a deletion vector deletes."""
    has_vector: ArrowArray
    has_row_id: ArrowArray


@dataclass(frozen=True, eq=False)
class Difference:
    """The files that come back and those that go. `added` says which chosen files of the target are not live now,
    `removed` which chosen files of now the target does not have.
    """

    now: LiveFiles
    target: LiveFiles
    added: ArrowArray
    removed: ArrowArray

    @cached_property
    def added_amount(self) -> Amount:
        """The files that come back."""
        return amount_of(self.target, self.added)

    @cached_property
    def removed_amount(self) -> Amount:
        """The files that go."""
        return amount_of(self.now, self.removed)

    @property
    def unchanged(self) -> int:
        """The number of files that stay."""
        return len(self.now.keys) - self.removed_amount.files

    @property
    def unchanged_without_row_id(self) -> int:
        """The number of files that stay and have no row ids."""
        return _sum(pc.and_not(pc.invert(self.removed), self.now.has_row_id))

    @property
    def files_after(self) -> int:
        """The number of chosen files afterwards."""
        return len(self.target.keys)

    @property
    def size_after(self) -> int:
        """Their bytes."""
        return _sum(self.target.sizes)

    @property
    def brings_vectors(self) -> bool:
        """Whether a file with a deletion vector comes back."""
        return bool(pc.any(pc.and_(self.added, self.target.has_vector)).as_py())

    @property
    def without_row_id(self) -> ArrowArray:
        """Which files of the target come back without row ids."""
        return pc.and_(self.added, pc.invert(self.target.has_row_id))

    def physical(self, chosen: ArrowArray) -> Amount:
        """Return some files of the target with their physical rows."""
        rows, sizes = pc.filter(self.target.physical_rows, chosen), pc.filter(self.target.sizes, chosen)
        return Amount(len(rows), _sum(sizes), None if rows.null_count else _sum(rows))


def compare(now: Snapshot, target: Snapshot, where: Mask | None = None) -> Difference:
    """Return what differs between two versions of a table, of the files that `where` chooses.

    Raises CommitCorrupt, CheckpointUnreadable and StorageFailed.
    """
    return difference_of(live_files(now, where), live_files(target, where))


def difference_of(ours: LiveFiles, theirs: LiveFiles) -> Difference:
    """Return what differs between the files of two versions: those of now, and those of the target."""
    removed, added = differing_keys(ours.keys, theirs.keys)
    return Difference(ours, theirs, added, removed)


def no_difference() -> Difference:
    """Return the difference of two versions without files."""
    import pyarrow as pa

    nothing = joined_files([])
    return Difference(nothing, nothing, pa.array([], pa.bool_()), pa.array([], pa.bool_()))


def live_files(snapshot: Snapshot, where: Mask | None) -> LiveFiles:
    """Return the live files of a version."""
    fields = [*_COUNTED, "baseRowId", *(["partitionValues"] if where is not None else [])]

    def read(adds: RecordBatch) -> tuple[ArrowArray, ...]:
        import pyarrow as pa

        rows = adds if where is None else pc.filter(adds, where(adds))
        vectors = rows.column("deletionVector")
        physical = num_records_column(rows.column("stats"))
        deleted = pc.coalesce(
            pc.struct_field(vectors, ["cardinality"]), pa.scalar(0, vectors.type.field("cardinality").type)
        )
        return (
            file_keys(rows),
            rows.column("size"),
            pc.subtract(physical, pc.cast(deleted, pa.int64())),
            physical,
            pc.is_valid(vectors),
            pc.is_valid(rows.column("baseRowId")),
        )

    parts = list(snapshot.file_actions.map_actions("add", read, fields=fields))
    return joined_files(parts)


def joined_files(parts: Sequence[tuple[ArrowArray, ...]], *, are_keys_narrow: bool = False) -> LiveFiles:
    """Return the files of several parts, each with the columns of `LiveFiles`, with keys of `file_keys`, or of
    `narrow_keys`.
    """
    import pyarrow as pa

    of_keys = pa.int64() if are_keys_narrow else pa.binary(KEY_BYTES)
    kinds = (of_keys, pa.int64(), pa.int64(), pa.int64(), pa.bool_(), pa.bool_())
    return LiveFiles(
        *(pa.concat_arrays([pa.array([], kind), *(part[place] for part in parts)]) for place, kind in enumerate(kinds))
    )


def amount_of(files: LiveFiles, chosen: ArrowArray | None) -> Amount:
    """Return the bytes and rows of the chosen files; None: of all."""
    sizes, rows = (one if chosen is None else pc.filter(one, chosen) for one in (files.sizes, files.rows))
    return Amount(len(sizes), _sum(sizes), None if rows.null_count else _sum(rows))


def _sum(values: ArrowArray) -> int:
    total: int | None = pc.sum(values).as_py()
    return total or 0


# -- as rows ----------------------------------------------------------------------------------------------------------


def file_rows(
    storage: ReadStorage, adds: RecordBatch, change: str, problems: Sequence[ProblemFile] = ()
) -> RecordBatch:
    """Return live files as rows of a kind of change, with the problems of some."""
    import pyarrow as pa

    count, text = adds.num_rows, pa.string()
    paths = _paths(storage, adds.column("path"))
    places = pc.index_in(paths, value_set=pa.array([one.path for one in problems], text))
    told = (
        pc.take(pa.array(values, text), places)
        for values in (
            [one.problem.value for one in problems],
            [one.why for one in problems],
            [one.source for one in problems],
        )
    )
    columns = (paths, pa.repeat(change, count), pa.repeat(FileKind.DATA.value, count), adds.column("size"), *told)
    return pa.RecordBatch.from_arrays(list(columns), names=list(COLUMNS))


def rows_of_problems(problems: Sequence[ProblemFile]) -> RecordBatch:
    import pyarrow as pa

    rows = [(one.path, None, one.kind, None, one.problem.value, one.why, one.source) for one in problems]
    kinds = [pa.int64() if name == "sizeBytes" else pa.string() for name in COLUMNS]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def _paths(storage: ReadStorage, raw: ArrowArray) -> ArrowArray:
    """Return paths below the root, not encoded, or as in the log outside of it, and where they are no text."""
    import pyarrow as pa

    below = PathKeys((storage.uri, *storage.aliases)).of_log(raw).keys
    try:
        return pc.coalesce(pc.cast(below, pa.string()), raw)
    except pa.ArrowInvalid:
        return raw
