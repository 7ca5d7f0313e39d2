"""Checking the files that come back: bytes, footers and deletion vectors, as `operations/recover` checks files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.paths.locate_paths import text_of
from deltacli.delta.stats.record_counts import num_records_column
from deltacli.errors import FileMissing
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


class ProblemFile(NamedTuple):
    """A file that cannot be used as it is; `path` is below the root of the table, or as in the log outside of it."""

    path: str
    kind: str
    problem: Problem
    why: str
    source: str | None = None
    """Where it is brought from; None: it is in no source."""


class Checked(NamedTuple):
    """The files that cannot be used, and what is needed of those below the root, to look for them elsewhere."""

    problems: tuple[ProblemFile, ...] = ()
    needed: tuple[NeededFiles, ...] = ()


def check_files(
    table: TableHandle, adds: Iterable[RecordBatch], total: int, *, footers: bool, vectors: bool
) -> Checked:
    """Compare the bytes of files with the log, with `footers` their rows, and with `vectors` the contents of vectors.

    Raises StorageFailed, and PathExternal for a file outside the table that may not be opened.
    """
    read = {FileKind.DATA: footers, FileKind.VECTOR: vectors}
    problems: list[ProblemFile] = []
    needed: list[NeededFiles] = []
    with table.progress.step("checking files that come back", unit="files", total=total) as step:
        for part in _parts(table, adds):
            found = _check(table, part, read)
            problems += found.problems
            needed += found.needed
            step.advance(part.num_rows)
    return Checked(tuple(dict.fromkeys(problems)), tuple(needed))


def _parts(table: TableHandle, adds: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield adds, some thousand together."""
    import pyarrow as pa

    at_once = _FILES_AT_ONCE if table.storage.capabilities.cheap_listing else None
    held: list[RecordBatch] = []
    for batch in adds:
        held.append(batch.select(list(VERIFIED)))
        if at_once is not None and sum(one.num_rows for one in held) >= at_once:
            yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]
            held = []
    if held:
        yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def _check(table: TableHandle, adds: RecordBatch, read: Mapping[FileKind, bool]) -> Checked:
    storage = table.storage
    rows = num_records_column(adds.column("stats"))
    uris = (storage.uri, *storage.aliases)
    every = needed_files(uris, adds.column("path"), adds.column("size"), rows, adds.column("deletionVector"))
    problems, needed = list(_outside(table, adds)) if every.outside else [], list[NeededFiles]()
    for kind, contents in read.items():
        of_kind = every.where(pc.equal(every.files["kind"], kind.value))
        if not of_kind.files.num_rows:
            continue
        found, sizes = look_for(storage, of_kind, table.engine, SILENT)
        verified = verify(found, sizes, table.stores, table.engine, SILENT, contents=contents)
        is_wrong = pc.invert(verified.is_sound)
        if pc.any(is_wrong).as_py():
            needed.append(of_kind.where(is_wrong))
            problems += _told(needed[-1], pc.filter(verified.problems, is_wrong), pc.filter(verified.reasons, is_wrong))
    return Checked(tuple(problems), tuple(needed))


def _told(lost: NeededFiles, problems: ArrowArray, reasons: ArrowArray) -> Iterator[ProblemFile]:
    columns = (lost.files["path"], lost.files["kind"], problems, pc.fill_null(reasons, "no such file"))
    for path, kind, problem, why in zip(*(whole(column).to_pylist() for column in columns), strict=True):
        yield ProblemFile(text_of(path), kind, Problem(problem), why)


def _outside(table: TableHandle, adds: RecordBatch) -> Iterator[ProblemFile]:
    """Yield what is wrong with files outside the table, of which the bytes are compared. Raises PathExternal."""
    files = table.files()
    pairs = zip(adds.column("path").to_pylist(), adds.column("size").to_pylist(), strict=True)
    elsewhere = [(path, size) for path, size in pairs if files.inside(path) is None]

    def look(one: tuple[str, int]) -> int | None:
        storage, inner = files.locate(one[0])
        try:
            return storage.stat(inner).size_bytes
        except FileMissing:
            return None

    for (path, size), seen in zip(elsewhere, table.engine.run(look, elsewhere), strict=True):
        if seen is None:
            yield ProblemFile(path, FileKind.DATA.value, Problem.MISSING, "no such file")
        elif seen != size:
            yield ProblemFile(path, FileKind.DATA.value, Problem.SIZE, f"{seen} bytes instead of {size}")
