"""Which files a restore adds and removes, and whether those that come back are what the log says.

A file is represented by sixteen bytes, two independent hashes of its key: of a million files of each version 16 MB are
held instead of their paths. The files of a version come in the same order each time, which is checked when they are
encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import FileMissing, PathExternal, parameter
from deltacli.core.lock_free_property import cached_property
from deltacli.core.progress import SILENT
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.data_files import unique_id_column
from deltacli.delta.log.actions import Action
from deltacli.delta.log.conflicts import is_vacuum
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import decode_path_bytes
from deltacli.operations.recover.verify import Problem, faults_within, other_size, verify
from deltacli.storage import ReadStorage
from deltacli.table.file_keys import KEY_BYTES, find_unmatched_keys, hash_file_actions
from deltacli.table.find_log import list_log
from deltacli.table.needed_files import (
    FileKind,
    NeededFiles,
    build_needed_files,
    combine_chunks,
    join_needed_files,
    locate_files,
)
from deltacli.table.partition_condition import Mask
from deltacli.work.commits.reading import stream_commit
from deltacli.work.facts.footer_files import ListedFile

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- the check of the target's files -----------------------------------------------------------------------------------

VERIFIED = ("path", "size", "deletionVector", "stats")
"""The fields of an add that are compared with its file."""
_FILES_AT_ONCE = 32_768
"""Files of a disk whose paths are held. In a remote store all are looked for at once, because it may be listed."""
_DATA = FileKind.DATA.value
_VACUUM_MS = 3_600_000
"""The age up to which a vacuum that has not ended counts as running."""
WAIT_FOR_VACUUM = (
    "wait until it has ended; one that was killed counts as running for an hour, or until another has ended"
)


def vacuum_is_running(table: TableHandle, first: int = 0) -> bool:
    """Return whether the commits of the last hour, from a version on, say that a vacuum began and has not ended. It
    knows nothing of files that are needed again.
    """
    listing = list_log(table.storage, start_version=first)
    since_ms = table.clock() - _VACUUM_MS
    for _, file in sorted(listing.commits.items(), reverse=True):
        if file.modified_ms < since_ms:
            return False
        info = next((action for kind, action in stream_commit(table.storage, file) if kind == "commitInfo"), {})
        if is_vacuum(info):
            return info.get("operation") == "VACUUM START"
    return False


class ProblemFile(NamedTuple):
    """A file that cannot be used as it is; `path` is below the root of the table, or as in the log outside of it."""

    path: str
    kind: str
    problem: Problem
    why: str
    source: str | None = None
    """Where it is brought from; None: it is in no source."""
    stays: bool = False
    """Whether it is live now, too: then the newest version cannot be read either."""


class Checked(NamedTuple):
    """The files that cannot be used, and what is needed of those below the root. `notes`: what was not looked at."""

    problems: tuple[ProblemFile, ...] = ()
    needed: NeededFiles | None = None
    notes: tuple[str, ...] = ()


def check_files(
    table: TableHandle, adds: Iterable[tuple[RecordBatch, ArrowArray]], total: int, *, footers: bool
) -> Checked:
    """Compare the bytes of files with the log. The mask of each batch says which of its files come back: of these the
    vectors are read, and with `footers` the numbers of rows.

    Raises StorageFailed, and PathExternal for a file or a vector outside the table that comes back and may not be
    opened.
    """
    problems: list[ProblemFile] = []
    needed: list[NeededFiles] = []
    unseen = 0
    with table.progress.step("checking the files of the version", unit="files", total=total) as step:
        for part in _parts(table, adds):
            every = _needed(table, part)
            for lost, found in _check(table, part, every, footers=footers):
                problems += found
                needed.append(lost)
            elsewhere = _Elsewhere(table, part, has_files=bool(every.outside))
            problems += elsewhere.problems(footers=footers)
            unseen += elsewhere.unseen
            step.advance(part.num_rows)
    notes = (_not_looked_at(unseen),) if unseen else ()
    return Checked(tuple(dict.fromkeys(problems)), join_needed_files(needed) if needed else None, notes)


def check_sizes(table: TableHandle, adds: Iterable[RecordBatch], total: int) -> tuple[ProblemFile, ...]:
    """Compare the bytes of files with the log, and return those that cannot be used. Raises as `check_files`."""
    all_stay = ((batch, pa.repeat(False, batch.num_rows)) for batch in adds)
    return check_files(table, all_stay, total, footers=False).problems


def _parts(table: TableHandle, adds: Iterable[tuple[RecordBatch, ArrowArray]]) -> Iterator[RecordBatch]:
    """Yield what is compared of some thousand adds together, with their numbers of `rows`, and which come back."""
    at_once = _FILES_AT_ONCE if table.storage.capabilities.has_cheap_requests else None
    held: list[RecordBatch] = []
    for batch, comes_back in adds:
        columns = {name: batch.column(name) for name in ("path", "size", "deletionVector")}
        columns |= {"rows": extract_num_records_column(batch.column("stats")), "comesBack": comes_back}
        held.append(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        if at_once is not None and sum(one.num_rows for one in held) >= at_once:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()  # none where there are no rows
            held = []
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _check(
    table: TableHandle, adds: RecordBatch, every: NeededFiles, *, footers: bool
) -> Iterator[tuple[NeededFiles, Iterator[ProblemFile]]]:
    if not every.files.num_rows:
        return
    comes_back = _come_back(table, adds, every)
    is_vector = combine_chunks(pc.equal(every.files["kind"], FileKind.VECTOR.value))
    contents = comes_back if footers else pc.and_(comes_back, is_vector)
    found, sizes = locate_files(table.storage, every, table.engine, SILENT)
    verified = verify(found, sizes, table.stores, table.engine, SILENT, contents=contents)
    is_wrong = pc.invert(verified.is_sound)
    if pc.any(is_wrong).as_py():
        lost = every.where(is_wrong)
        columns = (verified.problems, verified.reasons, pc.invert(comes_back))
        yield lost, _told(lost, *(pc.filter(column, is_wrong) for column in columns))


def _needed(table: TableHandle, adds: RecordBatch) -> NeededFiles:
    uris = (table.storage.uri, *table.storage.aliases)
    return build_needed_files(uris, *(adds.column(name) for name in ("path", "size", "rows", "deletionVector")))


def _come_back(table: TableHandle, adds: RecordBatch, every: NeededFiles) -> ArrowArray:
    """Return which data files and vectors come back, or are of data files that do."""
    mask = adds.column("comesBack")
    if len(pc.unique(mask)) == 1:
        return pa.repeat(mask[0], every.files.num_rows)
    chosen = _needed(table, pc.filter(adds, mask))
    return combine_chunks(pc.is_in(every.files["path"], value_set=combine_chunks(chosen.files["path"])))


def _told(lost: NeededFiles, problems: ArrowArray, reasons: ArrowArray, stay: ArrowArray) -> Iterator[ProblemFile]:
    columns = (lost.files["path"], lost.files["kind"], problems, pc.fill_null(reasons, "no such file"), stay)
    for path, kind, problem, why, stays in zip(
        *(combine_chunks(column).to_pylist() for column in columns), strict=True
    ):
        yield ProblemFile(decode_path_bytes(path), kind, Problem(problem), why, stays=stays)


class _Elsewhere:
    """What of some files is not in a file of the table. `unseen` counts files that stay and may not be opened."""

    def __init__(self, table: TableHandle, adds: RecordBatch, *, has_files: bool) -> None:
        self._table, self._files = table, table.files()
        self.unseen = 0
        keys = PathKeys((table.storage.uri, *table.storage.aliases))
        outside = (
            pc.filter(adds, pc.is_null(keys.compute_keys(adds.column("path")).keys)) if has_files else adds.slice(0, 0)
        )
        vectors = pc.filter(adds, pc.and_(pc.is_valid(adds.column("deletionVector")), adds.column("comesBack")))
        ids = unique_id_column(vectors.column("deletionVector"))
        self._outside: list[Action] = outside.to_pylist()
        self._vectors: list[Action] = pc.filter(vectors, pc.is_null(keys.compute_vector_keys(ids).keys)).to_pylist()

    def problems(self, *, footers: bool) -> Iterator[ProblemFile]:
        """Yield faults of bytes, returning vectors and, by `footers`, rows. Raises PathExternal, StorageFailed."""
        outside = [add for add in self._outside if self._files.find_path_in_table(add["path"]) is None]
        if not outside and not self._vectors:
            return
        table = self._table
        read: list[Action] = []
        for add, (size, is_seen) in zip(outside, table.engine.run(self._look, outside), strict=True):
            stays = not add["comesBack"]
            if not is_seen:
                self.unseen += 1
            elif size is None:
                yield ProblemFile(add["path"], _DATA, Problem.MISSING, "no such file", stays=stays)
            elif size != add["size"]:
                yield ProblemFile(add["path"], _DATA, Problem.SIZE, other_size(size, add["size"]), stays=stays)
            elif footers and not stays:
                read.append(add)
        listed = [(ListedFile(add["path"], add["size"]), add["rows"]) for add in read]
        vectors = [self._descriptor(add["deletionVector"]) for add in self._vectors]
        faults = faults_within(listed, vectors, {}, table.stores, table.engine, SILENT)
        places = [(add["path"], _DATA) for add in read]
        places += [(self._place_of(add), FileKind.VECTOR.value) for add in self._vectors]
        for (path, kind), fault in zip(places, faults, strict=True):
            if fault is not None:
                yield ProblemFile(path, kind, *fault)

    def _look(self, add: Action) -> tuple[int | None, bool]:
        """Return the bytes of a file, None where there is none, and whether it may be opened. Raises PathExternal."""
        try:
            storage, inner = self._files.locate(add["path"])
            return storage.stat(inner).size_bytes, True
        except FileMissing:
            return None, True
        except PathExternal:
            if add["comesBack"]:
                raise
            return None, False

    def _descriptor(self, stated: Action) -> Action:
        """Return the descriptor of a vector. Raises PathExternal where its file may not be opened."""
        if stated["storageType"] == "p":
            self._files.locate(stated["pathOrInlineDv"])
        return {name: value for name, value in stated.items() if value is not None}

    def _place_of(self, add: Action) -> str:
        """Return the file of a vector as in the log, or the data file of one in the log."""
        stated = add["deletionVector"]
        return str(stated["pathOrInlineDv"] if stated["storageType"] == "p" else add["path"])


def _not_looked_at(unseen: int) -> str:
    stay = "stays and was" if unseen == 1 else "stay and were"
    allowed = parameter("open_table.allow_external", "PREFIX")
    return f"{plural(unseen, 'file')} outside of the table {stay} not looked at; {allowed} allows it"


# -- files added and removed -------------------------------------------------------------------------------------------

COLUMNS = ("path", "change", "kind", "sizeBytes", "problem", "why", "source")
_COUNTED = ("path", "size", "deletionVector", "stats")


@dataclass(frozen=True, eq=False)
class KeyedLiveFiles:
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

    now: KeyedLiveFiles
    target: KeyedLiveFiles
    added: ArrowArray
    removed: ArrowArray

    @cached_property
    def added_amount(self) -> FileTotals:
        return amount_of(self.target, self.added)

    @cached_property
    def removed_amount(self) -> FileTotals:
        return amount_of(self.now, self.removed)

    @property
    def unchanged(self) -> int:
        return len(self.now.keys) - self.removed_amount.files

    @property
    def unchanged_without_row_id(self) -> int:
        """The number of files that stay and have no row ids."""
        return _sum(pc.and_not(pc.invert(self.removed), self.now.has_row_id))

    @property
    def files_after(self) -> int:
        return len(self.target.keys)

    @property
    def size_after(self) -> int:
        return _sum(self.target.sizes)

    @property
    def brings_vectors(self) -> bool:
        return bool(pc.any(pc.and_(self.added, self.target.has_vector)).as_py())

    @property
    def without_row_id(self) -> ArrowArray:
        return pc.and_(self.added, pc.invert(self.target.has_row_id))

    def physical(self, chosen: ArrowArray) -> FileTotals:
        """Return some files of the target with their physical rows."""
        rows, sizes = pc.filter(self.target.physical_rows, chosen), pc.filter(self.target.sizes, chosen)
        return FileTotals(len(rows), _sum(sizes), None if rows.null_count else _sum(rows))


def compare(now: Snapshot, target: Snapshot, where: Mask | None = None) -> Difference:
    """Return what differs between two versions of a table, of the files that `where` chooses.

    Raises CommitCorrupt, CheckpointUnreadable and StorageFailed.
    """
    return difference_of(read_keyed_files(now, where), read_keyed_files(target, where))


def difference_of(ours: KeyedLiveFiles, theirs: KeyedLiveFiles) -> Difference:
    """Return what differs between the files of two versions: those of now, and those of the target."""
    removed, added = find_unmatched_keys(ours.keys, theirs.keys)
    return Difference(ours, theirs, added, removed)


def no_difference() -> Difference:
    """Return the difference of two versions without files."""
    nothing = joined_files([])
    return Difference(nothing, nothing, pa.array([], pa.bool_()), pa.array([], pa.bool_()))


def read_keyed_files(snapshot: Snapshot, where: Mask | None) -> KeyedLiveFiles:
    """Return the live files of a version."""
    fields = [*_COUNTED, "baseRowId", *(["partitionValues"] if where is not None else [])]

    def read(adds: RecordBatch) -> tuple[ArrowArray, ...]:
        rows = adds if where is None else pc.filter(adds, where(adds))
        vectors = rows.column("deletionVector")
        physical = extract_num_records_column(rows.column("stats"))
        deleted = pc.coalesce(
            pc.struct_field(vectors, ["cardinality"]), pa.scalar(0, vectors.type.field("cardinality").type)
        )
        return (
            hash_file_actions(rows),
            rows.column("size"),
            pc.subtract(physical, pc.cast(deleted, pa.int64())),
            physical,
            pc.is_valid(vectors),
            pc.is_valid(rows.column("baseRowId")),
        )

    parts = list(snapshot.file_actions.map_actions("add", read, fields=fields))
    return joined_files(parts)


def joined_files(parts: Sequence[tuple[ArrowArray, ...]], *, are_keys_narrow: bool = False) -> KeyedLiveFiles:
    """Return the files of several parts, each with the columns of `LiveFiles`, under their keys."""
    of_keys = pa.int64() if are_keys_narrow else pa.binary(KEY_BYTES)
    kinds = (of_keys, pa.int64(), pa.int64(), pa.int64(), pa.bool_(), pa.bool_())
    return KeyedLiveFiles(
        *(pa.concat_arrays([pa.array([], kind), *(part[place] for part in parts)]) for place, kind in enumerate(kinds))
    )


def amount_of(files: KeyedLiveFiles, chosen: ArrowArray | None) -> FileTotals:
    """Return the bytes and rows of the chosen files; None: of all."""
    sizes, rows = (one if chosen is None else pc.filter(one, chosen) for one in (files.sizes, files.rows))
    return FileTotals(len(sizes), _sum(sizes), None if rows.null_count else _sum(rows))


def _sum(values: ArrowArray) -> int:
    total: int | None = pc.sum(values).as_py()
    return total or 0


# -- as rows ----------------------------------------------------------------------------------------------------------


def file_rows(
    storage: ReadStorage, adds: RecordBatch, change: str, problems: Sequence[ProblemFile] = ()
) -> RecordBatch:
    """Return live files as rows of a kind of change, with the problems of some."""
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
    rows = [(one.path, None, one.kind, None, one.problem.value, one.why, one.source) for one in problems]
    kinds = [pa.int64() if name == "sizeBytes" else pa.string() for name in COLUMNS]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def _paths(storage: ReadStorage, raw: ArrowArray) -> ArrowArray:
    """Return paths below the root, not encoded, or as in the log outside of it, and where they are no text."""
    below = PathKeys((storage.uri, *storage.aliases)).compute_keys(raw).keys
    try:
        return pc.coalesce(pc.cast(below, pa.string()), raw)
    except pa.ArrowInvalid:
        return raw
