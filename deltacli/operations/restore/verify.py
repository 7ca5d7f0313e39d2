"""Checking the files of the target as `operations/recover` checks files: the bytes of all of them, and of those that
come back the footers and the deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.errors import FileMissing, PathExternal
from deltacli.core.hints import parameter
from deltacli.core.progress import SILENT
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.paths import text_of
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.delta.vectors import unique_id_column
from deltacli.operations.recover.verify import Problem, faults_within, other_size, verify
from deltacli.table.needed import FileKind, NeededFiles, joined, look_for, needed_files, whole
from deltacli.work.file_facts import ListedFile

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

VERIFIED = ("path", "size", "deletionVector", "stats")
"""The fields of an add that are compared with its file."""
_FILES_AT_ONCE = 32_768
"""Files of a disk whose paths are held. In a remote store all are looked for at once, because it may be listed."""
_DATA = FileKind.DATA.value


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
    """The files that cannot be used, and what is needed of those below the root, to look for them elsewhere. `notes`
    say what was not looked at.
    """

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
    return Checked(tuple(dict.fromkeys(problems)), joined(needed) if needed else None, notes)


def check_sizes(table: TableHandle, adds: Iterable[RecordBatch], total: int) -> tuple[ProblemFile, ...]:
    """Compare the bytes of files with the log, and return those that cannot be used. Raises as `check_files`."""
    import pyarrow as pa

    all_stay = ((batch, pa.repeat(False, batch.num_rows)) for batch in adds)
    return check_files(table, all_stay, total, footers=False).problems


def _parts(table: TableHandle, adds: Iterable[tuple[RecordBatch, ArrowArray]]) -> Iterator[RecordBatch]:
    """Yield what is compared of some thousand adds together, with their numbers of `rows`, and which come back."""
    import pyarrow as pa

    at_once = _FILES_AT_ONCE if table.storage.capabilities.cheap_listing else None
    held: list[RecordBatch] = []
    for batch, comes_back in adds:
        columns = {name: batch.column(name) for name in ("path", "size", "deletionVector")}
        columns |= {"rows": num_records_column(batch.column("stats")), "comesBack": comes_back}
        held.append(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        if at_once is not None and sum(one.num_rows for one in held) >= at_once:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()  # none where there are no rows
            held = []
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _check(
    table: TableHandle, adds: RecordBatch, every: NeededFiles, *, footers: bool
) -> Iterator[tuple[NeededFiles, Iterator[ProblemFile]]]:
    """Yield the files in the table that cannot be used, if there are any."""
    if not every.files.num_rows:
        return
    comes_back = _come_back(table, adds, every)
    is_vector = whole(pc.equal(every.files["kind"], FileKind.VECTOR.value))
    contents = comes_back if footers else pc.and_(comes_back, is_vector)
    found, sizes = look_for(table.storage, every, table.engine, SILENT)
    verified = verify(found, sizes, table.stores, table.engine, SILENT, contents=contents)
    is_wrong = pc.invert(verified.is_sound)
    if pc.any(is_wrong).as_py():
        lost = every.where(is_wrong)
        columns = (verified.problems, verified.reasons, pc.invert(comes_back))
        yield lost, _told(lost, *(pc.filter(column, is_wrong) for column in columns))


def _needed(table: TableHandle, adds: RecordBatch) -> NeededFiles:
    uris = (table.storage.uri, *table.storage.aliases)
    return needed_files(uris, *(adds.column(name) for name in ("path", "size", "rows", "deletionVector")))


def _come_back(table: TableHandle, adds: RecordBatch, every: NeededFiles) -> ArrowArray:
    """Return which data files and vectors come back, or are of data files that do."""
    import pyarrow as pa

    mask = adds.column("comesBack")
    if len(pc.unique(mask)) == 1:
        return pa.repeat(mask[0], every.files.num_rows)
    chosen = _needed(table, pc.filter(adds, mask))
    return whole(pc.is_in(every.files["path"], value_set=whole(chosen.files["path"])))


def _told(lost: NeededFiles, problems: ArrowArray, reasons: ArrowArray, stay: ArrowArray) -> Iterator[ProblemFile]:
    columns = (lost.files["path"], lost.files["kind"], problems, pc.fill_null(reasons, "no such file"), stay)
    for path, kind, problem, why, stays in zip(*(whole(column).to_pylist() for column in columns), strict=True):
        yield ProblemFile(text_of(path), kind, Problem(problem), why, stays=stays)


class _Elsewhere:
    """What of some files is not in a file of the table: those outside of it, and vectors outside of it or in the log.
    `unseen` counts files that stay and may not be opened.
    """

    def __init__(self, table: TableHandle, adds: RecordBatch, *, has_files: bool) -> None:
        self._table, self._files = table, table.files()
        self.unseen = 0
        keys = PathKeys((table.storage.uri, *table.storage.aliases))
        outside = pc.filter(adds, pc.is_null(keys.of_log(adds.column("path")).keys)) if has_files else adds.slice(0, 0)
        vectors = pc.filter(adds, pc.and_(pc.is_valid(adds.column("deletionVector")), adds.column("comesBack")))
        ids = unique_id_column(vectors.column("deletionVector"))
        self._outside: list[Action] = outside.to_pylist()
        self._vectors: list[Action] = pc.filter(vectors, pc.is_null(keys.of_vectors(ids).keys)).to_pylist()

    def problems(self, *, footers: bool) -> Iterator[ProblemFile]:
        """Yield what is wrong: bytes, and of what comes back vectors, and with `footers` the numbers of rows. Raises
        PathExternal and StorageFailed.
        """
        outside = [add for add in self._outside if self._files.inside(add["path"]) is None]
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
