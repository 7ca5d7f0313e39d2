"""Checking the files of the target as `operations/recover` checks files: the bytes of all of them, and of those that
come back the footers and the deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.paths.locate_paths import text_of
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.errors import FileMissing, PathExternal
from deltacli.operations.recover.needed import FileKind, NeededFiles, needed_files, whole
from deltacli.operations.recover.presence import look_for
from deltacli.operations.recover.verify import Problem, verify
from deltacli.progress import SILENT
from deltacli.typing import ArrowArray, RecordBatch

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle

VERIFIED = ("path", "size", "deletionVector", "stats")
"""The fields of an add that are compared with its file."""
_FILES_AT_ONCE = 32_768
"""Files of a disk whose paths are held. In a remote store all are looked for at once, because it may be listed."""
_UNSEEN = -1


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
    """The files that cannot be used, and what is needed of those below the root, to look for them elsewhere. `unseen`
    counts files outside the table that stay and may not be opened.
    """

    problems: tuple[ProblemFile, ...] = ()
    needed: tuple[NeededFiles, ...] = ()
    unseen: int = 0


def check_files(
    table: TableHandle, adds: Iterable[tuple[RecordBatch, ArrowArray]], total: int, *, footers: bool
) -> Checked:
    """Compare the bytes of files with the log. The mask of each batch says which of its files come back: of these the
    vectors are read, and with `footers` the numbers of rows.

    Raises StorageFailed, and PathExternal for a file outside the table that comes back and may not be opened.
    """
    problems: list[ProblemFile] = []
    needed: list[NeededFiles] = []
    unseen = 0
    with table.progress.step("checking the files of the version", unit="files", total=total) as step:
        for part in _parts(table, adds):
            found = _check(table, part, footers=footers)
            problems += found.problems
            needed += found.needed
            unseen += found.unseen
            step.advance(part.num_rows)
    return Checked(tuple(dict.fromkeys(problems)), tuple(needed), unseen)


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
            yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]
            held = []
    if held:
        yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def _check(table: TableHandle, adds: RecordBatch, *, footers: bool) -> Checked:
    storage = table.storage
    every = _needed(table, adds)
    problems, unseen = _outside(table, adds) if every.outside else ([], 0)
    if not every.files.num_rows:
        return Checked(tuple(problems), (), unseen)
    comes_back = _come_back(table, adds, every)
    is_vector = whole(pc.equal(every.files["kind"], FileKind.VECTOR.value))
    contents = comes_back if footers else pc.and_(comes_back, is_vector)
    found, sizes = look_for(storage, every, table.engine, SILENT)
    verified = verify(found, sizes, table.stores, table.engine, SILENT, contents=contents)
    is_wrong = pc.invert(verified.is_sound)
    if not pc.any(is_wrong).as_py():
        return Checked(tuple(problems), (), unseen)
    lost = every.where(is_wrong)
    columns = (verified.problems, verified.reasons, pc.invert(comes_back))
    problems += _told(lost, *(pc.filter(column, is_wrong) for column in columns))
    return Checked(tuple(problems), (lost,), unseen)


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


def _outside(table: TableHandle, adds: RecordBatch) -> tuple[list[ProblemFile], int]:
    """Return what is wrong with files outside the table, of which the bytes are compared, and how many of those that
    stay may not be opened. Raises PathExternal.
    """
    files = table.files()
    keys = PathKeys((table.storage.uri, *table.storage.aliases)).of_log(adds.column("path")).keys
    others = pc.filter(adds, pc.is_null(keys))
    columns = (others.column(name).to_pylist() for name in ("path", "size", "comesBack"))
    elsewhere = [one for one in zip(*columns, strict=True) if files.inside(one[0]) is None]

    def look(one: tuple[str, int, bool]) -> int | None:
        try:
            storage, inner = files.locate(one[0])
            return storage.stat(inner).size_bytes
        except FileMissing:
            return None
        except PathExternal:
            if one[2]:
                raise
            return _UNSEEN

    problems, unseen = [], 0
    for (path, size, comes_back), seen in zip(elsewhere, table.engine.run(look, elsewhere), strict=True):
        if seen == _UNSEEN:
            unseen += 1
        elif seen is None:
            problems.append(_outer(path, Problem.MISSING, "no such file", stays=not comes_back))
        elif seen != size:
            problems.append(_outer(path, Problem.SIZE, f"{seen} bytes instead of {size}", stays=not comes_back))
    return problems, unseen


def _outer(path: str, problem: Problem, why: str, *, stays: bool) -> ProblemFile:
    return ProblemFile(path, FileKind.DATA.value, problem, why, stays=stays)
