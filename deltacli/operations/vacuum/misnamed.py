"""Candidates that may be files which the table needs, under other names.

A needed file can be missing under its name although it is there: a path in the log is one level of encoding off, a copy
folded letter case, a tool renamed the file (`delta/path_spellings.py`). Its only copy then looks unreferenced. While a
needed file is missing, a candidate is in doubt if

* its name is another spelling of the missing file's name, or
* it has the size of the missing data file, and no version names it, or
* the file of a deletion vector is missing, and no version names the candidate, whose content may be the vector.

Where the whole table was listed, the listing shows that nothing is missing, and nothing more is read. Otherwise the log
is read once more for the few needed files that could be one of the candidates, and the store is asked for these.

Spec: Add File and Remove File; Deletion Vectors; Add CDC File.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.arrow import pa
from deltacli.core.errors import CommitCorrupt, command
from deltacli.core.made_once import NamedTuple
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import plural
from deltacli.delta.data_files import encoded_root, made_absolute
from deltacli.delta.listing import LogKeys, PathKeys, is_among
from deltacli.delta.path_spellings import common_spellings
from deltacli.operations.vacuum.plan import Reason
from deltacli.table.file_history import named_files
from deltacli.table.find_log import list_log
from deltacli.table.live_files import FileKind, NeededFiles, look_for
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.delta.log.segment import LogListing
    from deltacli.operations.vacuum.candidates import References
    from deltacli.operations.vacuum.plan_context import PlanContext
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

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
        name_of: For each of them the name of the missing file that it may be; null for the others.
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


def find_misnamed(setting: PlanContext, candidates: ArrowTable, suspects: ArrowArray | None = None) -> MisnamedFiles:
    """Return which candidates of a plan may be needed files that are missing under their names.

    Args:
        setting: The plan's input.
        candidates: Columns `path` (binary), `sizeBytes`, `reason` and `hash`.
        suspects: Hashes of the needed files that a listing of the table has not shown; None without a listing.

    Raises:
        StorageFailed: If the store cannot tell whether a file is there.
    """
    if not candidates.num_rows or (suspects is not None and not len(suspects)):
        return MisnamedFiles.none_of(candidates.num_rows)
    if suspects is None:
        suspects = pa.concat_arrays(setting.references.needed)
    is_named = _are_named(setting.references, _flat(candidates.column("hash")))
    return _search_log(setting, candidates, is_named, suspects)


class Lookalikes(NamedTuple):
    """What the needed files of a table have in common with files that may be they. Without a listing of the whole table
    it tells in most cases that no candidate is in doubt, so that the log is not read again.

    Attributes:
        spellings: Hashes of their common spellings.
        sizes: Their bytes, as far as the log says them.
    """

    spellings: ArrowArray
    sizes: ArrowArray


class LookalikeCollector:
    """Collects lookalikes while the log is read."""

    def __init__(self, keys: PathKeys) -> None:
        self._keys = keys
        self._spellings: list[ArrowArray] = []
        self._sizes: list[ArrowArray] = []

    def add(self, files: LogKeys, sizes: ArrowArray | None) -> None:
        """Add needed files, with their bytes if these are known."""
        names = pc.drop_null(files.keys)
        spellings = common_spellings(names)
        is_usual = spellings is names  # then the hashes are known
        self._spellings.append(pc.drop_null(files.hashes) if is_usual else self._keys.of_listing(spellings))
        if sizes is not None:
            self._sizes.append(pc.unique(pc.drop_null(_flat(sizes))))

    def finish(self) -> Lookalikes:
        """Return everything that was added."""
        nothing = pa.array([], pa.int64())
        return Lookalikes(*(pa.concat_arrays([nothing, *parts]) for parts in (self._spellings, self._sizes)))


def find_namesakes(setting: PlanContext, removals: ArrowTable) -> MisnamedFiles:
    """Return which removed files (columns `path`, `sizeBytes`, `reason`) may be needed ones that are missing. Commits
    name all of them, and nothing was listed.
    """
    is_named = pa.repeat(pa.scalar(True), removals.num_rows)
    if not removals.num_rows:
        return MisnamedFiles.none_of(0)
    return _search_log(setting, removals, is_named, pa.concat_arrays(setting.references.needed))


def _search_log(
    setting: PlanContext, candidates: ArrowTable, is_named: ArrowArray, suspects: ArrowArray
) -> MisnamedFiles:
    search = NameSearch(setting.keys, candidates, is_named, suspects)
    lookalikes = setting.references.lookalikes
    if lookalikes is not None and not search.may_match(lookalikes, has_vectors=len(setting.references.vectors) > 0):
        return MisnamedFiles.none_of(candidates.num_rows)
    for batch in _needed_batches(setting):
        search.add(batch)
    return search.finish(setting.table)


class NameSearch:
    """Looks for candidates that may be needed files which are missing, while the log is read batch by batch."""

    def __init__(
        self, keys: PathKeys, candidates: ArrowTable, is_named: ArrowArray, suspects: ArrowArray | None = None
    ) -> None:
        """Begin a search.

        Args:
            keys: How the names of this table are hashed.
            candidates: Columns `path` (binary), `sizeBytes` and `reason`.
            is_named: Whether some version names the candidate. Then only its name can make it a doubtful one.
            suspects: Hashes of the files that are needed and may be missing; None if all files that are added may be.
        """
        self._keys, self._suspects = keys, suspects
        self._spellings = common_spellings(_flat(candidates.column("path")))
        is_vector_like = pc.is_in(candidates.column("reason"), value_set=pa.array(_VECTOR_LIKE))
        is_vector_only = pc.equal(candidates.column("reason"), Reason.VECTOR.value)
        self._may_be_vector = _flat(pc.and_not(is_vector_like, is_named))
        self._may_be_data = _flat(pc.and_(pc.invert(is_named), pc.invert(is_vector_only)))
        self._sizes = _flat(candidates.column("sizeBytes"))
        self._wanted_sizes = pc.unique(pc.drop_null(pc.filter(self._sizes, self._may_be_data)))
        self._parts: list[ArrowTable] = []

    def may_match(self, needed: Lookalikes, *, has_vectors: bool) -> bool:
        """Return whether a candidate may be in doubt, if its lookalike among the needed files is missing."""
        spellings = self._keys.of_listing(self._spellings)
        return (
            pc.any(is_among(spellings, needed.spellings)).as_py()
            or pc.any(pc.is_in(self._wanted_sizes, value_set=needed.sizes)).as_py()
            or (has_vectors and pc.any(self._may_be_vector).as_py())
        ) or False

    def add(self, batch: NamedBatch) -> None:
        """Keep the files of a batch that could be one of the candidates."""
        of_paths = self._keys.of_log(_flat(batch.paths))
        self._take(of_paths.keys, of_paths.written, of_paths.hashes, _flat(batch.sizes), FileKind.DATA)
        if pc.any(pc.not_equal(batch.vectors, "")).as_py():
            of_vectors = self._keys.of_vectors(pc.unique(_flat(batch.vectors)))
            no_sizes = pa.nulls(len(of_vectors.keys), pa.int64())
            self._take(of_vectors.keys, of_vectors.keys, of_vectors.hashes, no_sizes, FileKind.VECTOR)

    def _take(
        self, names: ArrowArray, written: ArrowArray, hashes: ArrowArray, sizes: ArrowArray, kind: FileKind
    ) -> None:
        is_suspect = pc.is_valid(hashes)
        if self._suspects is not None:
            is_suspect = pc.and_(is_suspect, is_among(hashes, self._suspects))
        columns = (pc.filter(column, is_suspect) for column in (names, written, sizes))
        files = pa.table(dict(zip(("path", "written", "sizeBytes"), columns, strict=True)))
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
        parts = [part for part in self._parts if part.num_rows]
        if not parts:
            return MisnamedFiles.none_of(len(self._spellings))
        return self._compare_with(_missing_of(table, pa.concat_tables(parts).combine_chunks()))

    def _compare_with(self, missing: ArrowTable) -> MisnamedFiles:
        """Return which candidates may be one of the missing files."""
        if not missing.num_rows:
            return MisnamedFiles.none_of(len(self._spellings))
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
    is_same = pc.equal(each_once["path"], each_once["written"])
    written = pc.if_else(is_same, pa.scalar(None, pa.binary()), each_once["written"])
    columns = {"path": each_once["path"], "written": written, "kind": each_once["kind"]}
    needed = NeededFiles(pa.table(columns), pa.table({"path": pa.array([], pa.binary())}))
    _, sizes = look_for(table.storage, needed, table.engine, table.progress)
    names = pc.filter(each_once["path"], pc.is_null(sizes))
    return pc.filter(files, pc.is_in(files["path"], value_set=_flat(names)))


def _are_named(references: References, files: ArrowArray) -> ArrowArray:
    """Return which files (hashes) some version names, so that they are known to be no other file."""
    is_named = references.history.adds(files)
    for known in (references.removed.hashes, references.changes.hashes, references.named, references.vectors):
        is_named = pc.or_(is_named, pc.is_in(files, value_set=known))
    return is_named


def _needed_batches(setting: PlanContext) -> Iterator[NamedBatch]:
    """Yield every file that the log of a table, or of another table that needs its files, names."""
    yield from _version_batches(setting.snapshot)
    yield from _commit_batches(setting.table, setting.references.listing)
    for version in setting.request.keep_versions:
        yield from _version_batches(read_snapshot(setting.table, version=version))
    for other in setting.others:
        root = encoded_root(other.table.uri)
        listing = list_log(other.table.storage, progress=other.table.progress)
        for batch in chain(_version_batches(other), _commit_batches(other.table, listing)):
            yield batch._replace(paths=made_absolute(_flat(batch.paths), root))


def _version_batches(snapshot: Snapshot) -> Iterator[NamedBatch]:
    """Yield the live files of a version, and the removed ones that it remembers."""
    for batch in snapshot.file_actions.narrow():
        if batch.adds is not None and batch.adds.num_rows:
            yield NamedBatch(*(batch.adds.column(name) for name in ("path", "size", "dv_id")))
        if batch.removes is not None and batch.removes.num_rows:
            paths, vectors = (batch.removes.column(name) for name in ("path", "dv_id"))
            yield NamedBatch(paths, pa.nulls(len(paths), pa.int64()), vectors)


def _commit_batches(table: TableHandle, listing: LogListing) -> Iterator[NamedBatch]:
    """Yield the files that commits name. Commits that cannot be read refuse the plan elsewhere."""
    faults: list[CommitCorrupt] = []
    for rows in named_files(table, listing, faults, []):
        yield NamedBatch(rows.path, rows.size, rows.vector)


def misnamed_notes(setting: PlanContext, files: ArrowTable) -> Iterator[str]:
    """Yield notes on candidates that are kept because they may be missing files.

    Args:
        setting: The plan's input.
        files: The candidates in doubt: `path`, `isOfVector`, and `missing`, the name of the file that each may be.
    """
    for is_of_vector in (False, True):
        rows = pc.filter(files, pc.equal(files["isOfVector"], is_of_vector))
        if rows.num_rows:
            yield _misnamed_note(setting, rows, is_of_vector=is_of_vector)


def _misnamed_note(setting: PlanContext, rows: ArrowTable, *, is_of_vector: bool) -> str:
    candidate, missing = (rows[name][0].as_py().decode("utf-8", "replace") for name in ("path", "missing"))
    what = "the file of a deletion vector" if is_of_vector else "the file"
    if rows.num_rows == 1:
        kept = f"1 file is kept ({candidate}), because it may be {what} {missing}, which is needed and missing"
    else:
        kept = (
            f"{plural(rows.num_rows, 'file')} are kept, because they may be needed files that are missing under their "
            f"names, such as {candidate} for {what} {missing}"
        )
    return f"{kept}; to see what is missing, and where it may be: {advice(setting)}"


def advice(setting: PlanContext) -> str:
    """Return the command that says more about missing files."""
    if setting.snapshot.protocol.is_catalog_managed:  # which `repair` does not change
        return command("validate", table=setting.table.address, level="storage")
    return command("repair", table=setting.table.address, dry_run=True)


def _flat(column: ArrowArray) -> ArrowArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
