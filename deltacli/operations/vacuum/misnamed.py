"""Candidates that may be files which the table needs, under other names.

A needed file can be missing under its name although it is there: a path in the log is one level of encoding off, a copy
folded letter case, a tool renamed the file (`delta/paths/lookalikes.py`). Its only copy then looks unreferenced. While
a needed file is missing, a candidate is in doubt if

* its name is another spelling of the missing file's name, or
* it has the size of the missing data file, and no version names it, or
* the file of a deletion vector is missing, and no version names the candidate, whose content may be the vector.

A needed file whose path leads outside of the table may be in it, too: the table was moved, and the log still has the
path of the old place. Nobody looks there, so that the file counts as missing, and a candidate is in doubt if it has the
same file name in any directory, and no version names it.

`missing_files.py` asks when the log is read for that.

Spec: Add File and Remove File; Deletion Vectors; Add CDC File.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.delta.paths.keys import LogKeys, PathKeys, is_among
from deltacli.delta.paths.lookalikes import common_spellings, file_names
from deltacli.operations.vacuum.plan import Reason
from deltacli.table.needed_files import FileKind, NeededFiles, locate_files

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

_VECTOR_LIKE = (Reason.VECTOR.value, Reason.FOREIGN.value)
"""Files that may hold deletion vectors. A renamed one may have any name, so unrecognized files count, too."""


class NamedBatch(NamedTuple):
    """Files named by the log: raw paths, bytes (null if unknown), and ids of deletion vectors (`""` for none)."""

    paths: ArrowArray
    sizes: ArrowArray
    vectors: ArrowArray


class MisnamedFiles(NamedTuple):
    """The candidates that are in doubt.

    Attributes:
        is_doubtful: Which candidates are in doubt, one boolean per row.
        name_of: For each of them the name of the missing file that it may be, an absolute path if that leads outside of
            the table; null for the others.
        of_vectors: Which of them may be the file of a deletion vector; never null.
    """

    is_doubtful: ArrowArray
    name_of: ArrowArray
    of_vectors: ArrowArray

    @classmethod
    def none_of(cls, rows: int) -> MisnamedFiles:
        """Return the value for so many candidates of which none is in doubt."""
        no = pa.repeat(pa.scalar(False), rows)
        return cls(no, pa.nulls(rows, pa.binary()), no)

    def table_of(self, candidates: ArrowTable) -> ArrowTable:
        """Return the candidates in doubt: `path`, `hash`, `missing` (the name of the missing file) and `isOfVector`."""
        columns = {"path": candidates["path"], "hash": candidates["hash"]}
        columns |= {"missing": self.name_of, "isOfVector": self.of_vectors}
        return pc.filter(pa.table(columns), self.is_doubtful)


class Lookalikes(NamedTuple):
    """What the needed files of a table have in common with files that may be they. It tells in most cases that no
    candidate is in doubt, so that the log is not read again.

    Attributes:
        spellings: Hashes of their common spellings.
        sizes: Their bytes, as far as the log says them.
        outside: Hashes of the file names of those whose paths lead outside of the table, see `file_names`.
        is_complete: False if the whole table is listed. Then the listing shows which files are missing, and `spellings`
            and `sizes` are empty.
    """

    spellings: ArrowArray
    sizes: ArrowArray
    outside: ArrowArray
    is_complete: bool


class LookalikeCollector:
    """Collects lookalikes while the log is read."""

    def __init__(self, keys: PathKeys, *, is_listed: bool) -> None:
        """Begin without files. `is_listed`: the whole table is listed."""
        self._keys = keys
        self._is_listed = is_listed
        self._spellings: list[ArrowArray] = []
        self._sizes: list[ArrowArray] = []
        self._outside: list[ArrowArray] = []

    def add(self, files: LogKeys, sizes: ArrowArray | None, vectors: ArrowArray) -> None:
        """Add needed files, with their bytes if these are known, and the ids of their deletion vectors."""
        self._add_outside(files.outside)
        # Only vectors with a path can be outside; most tables have none of these.
        with_paths = pc.filter(_flat(vectors), pc.starts_with(vectors, "p"))
        if len(with_paths):
            self._add_outside(self._keys.compute_vector_keys(with_paths).outside)
        if self._is_listed:
            return

        names = pc.drop_null(files.keys)
        spellings = common_spellings(names)
        is_usual = spellings is names  # then the hashes are known
        self._spellings.append(pc.drop_null(files.hashes) if is_usual else self._keys.hash_listed_paths(spellings))
        if sizes is not None:
            self._sizes.append(pc.unique(pc.drop_null(_flat(sizes))))

    def finish(self) -> Lookalikes:
        """Return everything that was added."""
        nothing = pa.array([], pa.int64())
        collected = (self._spellings, self._sizes, self._outside)
        spellings, sizes, outside = (pa.concat_arrays([nothing, *parts]) for parts in collected)
        return Lookalikes(spellings, sizes, outside, is_complete=not self._is_listed)

    def _add_outside(self, paths: ArrowArray) -> None:
        if len(paths):
            self._outside.append(pc.unique(self._keys.hash_listed_paths(file_names(pc.cast(paths, pa.binary())))))


class NameSearch:
    """Looks for candidates that may be needed files which are missing, while the log is read batch by batch."""

    def __init__(self, keys: PathKeys, candidates: ArrowTable, suspects: ArrowArray | None = None) -> None:
        """Begin a search.

        Args:
            keys: How the names of this table are hashed.
            candidates: Columns `path` (binary), `sizeBytes`, `reason` and `removedAtVersion`, as in `VacuumPlan`. Only
                its name can make a candidate doubtful that a commit is known to have removed.
            suspects: Hashes of the files that are needed and may be missing; None if all files that are added may be.
        """
        self._keys, self._suspects = keys, suspects
        self._spellings = common_spellings(_flat(candidates.column("path")))
        is_tombstone = pc.equal(candidates.column("reason"), Reason.TOMBSTONE.value)
        is_named = pc.or_(is_tombstone, pc.is_valid(candidates.column("removedAtVersion")))
        is_vector_like = pc.is_in(candidates.column("reason"), value_set=pa.array(_VECTOR_LIKE))
        is_vector_only = pc.equal(candidates.column("reason"), Reason.VECTOR.value)
        self._may_be_vector = _flat(pc.and_not(is_vector_like, is_named))
        self._may_be_data = _flat(pc.and_(pc.invert(is_named), pc.invert(is_vector_only)))
        self._sizes = _flat(candidates.column("sizeBytes"))
        self._wanted_sizes = pc.unique(pc.drop_null(pc.filter(self._sizes, self._may_be_data)))
        self._file_names = file_names(_flat(candidates.column("path")))
        self._is_unnamed = _flat(pc.invert(is_named))
        self._parts: list[ArrowTable] = []
        self._outside: list[ArrowTable] = []

    def may_be_outside(self, needed: Lookalikes) -> bool:
        """Return whether a candidate may be a file whose path in the log leads outside of the table."""
        names = self._keys.hash_listed_paths(pc.filter(self._file_names, self._is_unnamed))
        return bool(pc.any(is_among(names, needed.outside)).as_py())

    def may_match(self, needed: Lookalikes, *, has_vectors: bool) -> bool:
        """Return whether a candidate may be in doubt, if its lookalike among the needed files is missing."""
        spellings = self._keys.hash_listed_paths(self._spellings)
        return (
            pc.any(is_among(spellings, needed.spellings)).as_py()
            or pc.any(pc.is_in(self._wanted_sizes, value_set=needed.sizes)).as_py()
            or (has_vectors and pc.any(self._may_be_vector).as_py())
        ) or False

    def add(self, batch: NamedBatch) -> None:
        """Keep the files of a batch that could be one of the candidates."""
        of_paths = self._keys.compute_keys(_flat(batch.paths))
        self._take_outside(of_paths.outside, FileKind.DATA)
        self._take(of_paths.keys, of_paths.undecoded, of_paths.hashes, _flat(batch.sizes), FileKind.DATA)
        if pc.any(pc.not_equal(batch.vectors, "")).as_py():
            of_vectors = self._keys.compute_vector_keys(pc.unique(_flat(batch.vectors)))
            self._take_outside(of_vectors.outside, FileKind.VECTOR)
            no_sizes = pa.nulls(len(of_vectors.keys), pa.int64())
            self._take(of_vectors.keys, of_vectors.keys, of_vectors.hashes, no_sizes, FileKind.VECTOR)

    def _take_outside(self, paths: ArrowArray, kind: FileKind) -> None:
        """Keep the absolute paths to other places whose file names candidates have."""
        if not len(paths):
            return
        written = pc.cast(paths, pa.binary())
        names = file_names(written)
        files = pa.table({"path": written, "fileName": names, "kind": pa.repeat(kind.value, len(paths))})
        self._outside.append(pc.filter(files, pc.is_in(names, value_set=self._file_names)))

    def _take(
        self, names: ArrowArray, written: ArrowArray, hashes: ArrowArray, sizes: ArrowArray, kind: FileKind
    ) -> None:
        is_suspect = pc.is_valid(hashes)
        if self._suspects is not None:
            is_suspect = pc.and_(is_suspect, is_among(hashes, self._suspects))
        columns = (pc.filter(column, is_suspect) for column in (names, written, sizes))
        files = pa.table(dict(zip(("path", "undecoded_path", "sizeBytes"), columns, strict=True)))
        if not files.num_rows:
            return

        spellings = common_spellings(_flat(files["path"]))
        is_possible = pc.is_in(spellings, value_set=self._spellings)
        if kind is FileKind.VECTOR:
            is_possible = pc.or_(is_possible, bool(pc.any(self._may_be_vector).as_py()))
        else:
            has_size = pc.is_in(_flat(files["sizeBytes"]), value_set=self._wanted_sizes, skip_nulls=True)
            is_possible = pc.or_(is_possible, has_size)
        files = files.append_column("spelling", spellings)
        files = files.append_column("kind", pa.repeat(kind.value, files.num_rows))
        self._parts.append(pc.filter(files, is_possible))

    def finish(self, table: TableHandle) -> MisnamedFiles:
        """Return the candidates in doubt. Only now is the store of the table asked, for few files.

        Raises:
            StorageFailed: If the store cannot tell whether a file is there.
        """
        found = MisnamedFiles.none_of(len(self._spellings))
        parts = [part for part in self._parts if part.num_rows]
        if parts:
            missing = _missing_of(table, pa.concat_tables(parts).combine_chunks())
            if missing.num_rows:
                found = self._compare_with(missing)
        outside = [part for part in self._outside if part.num_rows]
        if outside:
            found = self._add_namesakes(found, pa.concat_tables(outside).combine_chunks())
        return found

    def _add_namesakes(self, found: MisnamedFiles, outside: ArrowTable) -> MisnamedFiles:
        """Add the candidates with the file name of a needed file whose path leads outside of the table."""
        row = pc.index_in(self._file_names, value_set=_flat(outside["fileName"]))
        row = pc.if_else(self._is_unnamed, row, pa.scalar(None, row.type))
        is_vector = pc.fill_null(pc.equal(pc.take(_flat(outside["kind"]), row), FileKind.VECTOR.value), False)
        return MisnamedFiles(
            pc.or_(found.is_doubtful, pc.is_valid(row)),
            pc.coalesce(found.name_of, pc.take(_flat(outside["path"]), row)),
            pc.if_else(found.is_doubtful, found.of_vectors, is_vector),
        )

    def _compare_with(self, missing: ArrowTable) -> MisnamedFiles:
        """Return which candidates may be one of the missing files, of which there is at least one."""
        names = _flat(missing["path"])
        is_vector = _flat(pc.equal(missing["kind"], FileKind.VECTOR.value))

        by_name = pc.index_in(self._spellings, value_set=_flat(missing["spelling"]))
        of_size = pc.index_in(self._sizes, value_set=_flat(missing["sizeBytes"]), skip_nulls=True)
        of_size = pc.if_else(self._may_be_data, of_size, pa.scalar(None, of_size.type))
        vectors = pc.indices_nonzero(is_vector)
        first_vector = vectors[0].as_py() if len(vectors) else None
        as_vector = pc.if_else(
            self._may_be_vector, pa.scalar(first_vector, of_size.type), pa.scalar(None, of_size.type)
        )

        row = pc.coalesce(by_name, of_size, as_vector)
        of_vectors = pc.fill_null(pc.take(is_vector, row), False)
        return MisnamedFiles(pc.is_valid(row), pc.take(names, row), of_vectors)


def _missing_of(table: TableHandle, files: ArrowTable) -> ArrowTable:
    """Return the files that the store does not have under their names, decoded or as the log writes them."""
    paths = _flat(files["path"])
    each_once = files.take(pc.index_in(pc.unique(paths), value_set=paths))  # several actions may name a file
    is_same = pc.equal(each_once["path"], each_once["undecoded_path"])
    written = pc.if_else(is_same, pa.scalar(None, pa.binary()), each_once["undecoded_path"])
    columns = {"path": each_once["path"], "undecoded_path": written, "kind": each_once["kind"]}
    needed = NeededFiles(pa.table(columns), pa.table({"path": pa.array([], pa.binary())}))
    _, sizes = locate_files(table.storage, needed, table.engine, table.progress)
    names = pc.filter(each_once["path"], pc.is_null(sizes))
    return pc.filter(files, pc.is_in(files["path"], value_set=_flat(names)))


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
