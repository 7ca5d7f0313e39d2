"""Where files that are gone may be: a directory or URI with the same paths below it. Each file found is verified, and
put in its place: data files first, then vectors, so that no commit is seen without its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from deltacli.arrow import compute as pc
from deltacli.core.errors import FileMissing, StorageFailed, Unreadable, UsageError
from deltacli.core.hints import parameter
from deltacli.core.progress import SILENT, Progress, weighed
from deltacli.core.typing import ArrowArray
from deltacli.core.units import plural
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.paths import text_of
from deltacli.engine.base import Engine
from deltacli.operations.recover.copies import compare_digests, copy_file
from deltacli.operations.recover.quarantine_layout import NotedChecksums
from deltacli.operations.recover.verify import Problem, Verified, verify
from deltacli.storage import Created, Creation, Existed, PathKind, ReadStorage, Storage, Unknown, is_inside
from deltacli.table.needed import NeededFiles, look_for, whole
from deltacli.work.task import TableStores

if TYPE_CHECKING:
    from deltacli.changing.proofs import ProvenFile


class Source(Protocol):
    """A place that may have files of a table."""

    @property
    def name(self) -> str:
        """Return the source as the caller wrote it."""

    @property
    def digests(self) -> NotedChecksums | None:
        """Return what was noted of the files when they were copied there, None where nothing is."""

    @property
    def files(self) -> Storage:
        """Return the files, by their paths below the root of the table. Nothing is written there."""

    @property
    def is_readable(self) -> bool:
        """Return False where files can be read only once they are back in their places."""

    def keeps_time(self, path: str, to: ReadStorage) -> bool:
        """Return True if a file has the time in its place that it has here."""

    def bring(self, path: str, size_bytes: int, to: Storage, *, replace: bool = False) -> Creation:
        """Put a file in its place in the table, if there is none or it is to be replaced. Raises StorageFailed."""


class CopySource(NamedTuple):
    """A directory or URI with the same relative paths: a backup, a clone, a copy."""

    name: str
    files: Storage
    within: Callable[[str, str], Creation] | None = None
    """Copies a file by the store that has both places."""
    is_readable: bool = True
    digests: NotedChecksums | None = None
    """What was noted of the files when they were copied there."""

    def keeps_time(self, path: str, to: ReadStorage) -> bool:  # noqa: ARG002
        return to.capabilities.has_directories

    def bring(self, path: str, size_bytes: int, to: Storage, *, replace: bool = False) -> Creation:
        if self.within is not None and not replace:
            return self.within(path, path)
        return copy_file(self.files, path, size_bytes, to, replace=replace)


class FoundFiles(NamedTuple):
    """Needed files and where they are. `needed` spells each path as its source does. `sources` has the number of the
    source of each file (null: none has it as it should be), `sizes` its bytes there; `problems` and `reasons` say what
    is wrong with the last candidate of the others.
    """

    needed: NeededFiles
    sources: ArrowArray
    sizes: ArrowArray
    problems: ArrowArray
    reasons: ArrowArray
    unproven: int = 0
    """Found files of a quarantine that has no checksum of them."""

    @property
    def is_found(self) -> ArrowArray:
        """Return which files are in one of the sources."""
        return pc.is_valid(self.sources)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is to be said of files that no checksum proves."""
        if not self.unproven:
            return ()
        have, were = ("has", "was") if self.unproven == 1 else ("have", "were")
        why = f"{have} no checksum in the quarantine, or {were} written there again since"
        return (f"{plural(self.unproven, 'file')} {why}: compared by size, footer and number of rows",)


def open_copy(name: str, storage: Storage, table: ReadStorage) -> CopySource:
    """Return a directory or URI as a source. Raises UsageError for the table itself and for a log without its table,
    Unreadable for nothing there.
    """
    if is_inside(storage, table) and is_inside(table, storage):
        raise UsageError("the source of the files is the table itself", code="recover.source-is-table")
    if storage.uri.rstrip("/").endswith(f"/{LOG_DIRECTORY}"):
        raise UsageError(
            f"{name} is the log of a table, not a copy of the table",
            code="recover.source-is-log",
            hint=f"name the directory that contains it: {parameter('undelete.sources', 'COPY')}",
        )
    if storage.kind_of("") is not PathKind.DIRECTORY:
        facts = {"looked for": storage.uri}
        missing = Unreadable(f"there is no directory {name}", code="recover.source-missing", facts=facts)
        missing.written = name
        raise missing
    return CopySource(name, storage)


def find_in(
    sources: Sequence[Source],
    needed: NeededFiles,
    engine: Engine,
    progress: Progress = SILENT,
) -> FoundFiles:
    """Look for files in sources, in their order; the first that has a file as the log describes it is its source.
    Raises StorageFailed.
    """
    import pyarrow as pa

    count = needed.files.num_rows
    rows = pa.array(range(count), pa.int64())
    found = FoundFiles(
        needed,
        pa.nulls(count, pa.int32()),
        pa.nulls(count, pa.int64()),
        pa.repeat(Problem.MISSING.value, count),
        pa.nulls(count, pa.string()),
    )
    for number, source in enumerate(sources):
        is_left = pc.is_null(found.sources)
        left = pc.filter(rows, is_left)
        if not len(left):
            break
        wanted, sizes = look_for(source.files, needed.where(is_left), engine, progress)
        verified = verify(wanted, sizes, TableStores(source.files), engine, progress, contents=source.is_readable)
        if source.is_readable and source.digests is not None:
            verified, unproven = _with_digests(source.digests, source.files, wanted, sizes, verified, engine, progress)
            found = found._replace(unproven=found.unproven + unproven)
        found = _with(found, is_left, number, wanted, sizes, verified.problems, verified.reasons)
    return found


def _with_digests(
    digests: NotedChecksums,
    files: ReadStorage,
    wanted: NeededFiles,
    sizes: ArrowArray,
    verified: Verified,
    engine: Engine,
    progress: Progress,
) -> tuple[Verified, int]:
    """Add which sound files have other bytes than was noted; return the number of those of which nothing is noted."""
    faults, unproven = compare_digests(digests, files, wanted, sizes, verified.is_sound, engine, progress)
    return verified.with_faults(faults), unproven


def _with(
    found: FoundFiles,
    is_left: ArrowArray,
    number: int,
    wanted: NeededFiles,
    sizes: ArrowArray,
    problems: ArrowArray,
    reasons: ArrowArray,
) -> FoundFiles:
    """Add what one source has. A problem of an earlier source stays where a later one lacks the file."""
    import pyarrow as pa

    is_sound = pc.is_null(problems)
    numbers = pc.if_else(is_sound, pa.scalar(number, pa.int32()), pa.scalar(None, pa.int32()))
    says_more = pc.fill_null(pc.not_equal(problems, Problem.MISSING.value), True)
    before = (pc.filter(column, is_left) for column in (found.problems, found.reasons))
    problems, reasons = (pc.if_else(says_more, new, old) for new, old in zip((problems, reasons), before, strict=True))
    paths = pc.replace_with_mask(whole(found.needed.files["path"]), is_left, whole(wanted.files["path"]))
    column = found.needed.files.schema.get_field_index("path")
    files = found.needed.files.set_column(column, "path", pa.chunked_array([paths]))
    return found._replace(
        needed=found.needed._replace(files=files),
        sources=pc.replace_with_mask(found.sources, is_left, numbers),
        sizes=pc.replace_with_mask(found.sizes, is_left, sizes),
        problems=pc.replace_with_mask(found.problems, is_left, problems),
        reasons=pc.replace_with_mask(found.reasons, is_left, reasons),
    )


@dataclass(slots=True)
class Journal:
    """What was put in place."""

    files: int = 0
    size_bytes: int = 0
    paths: list[str] = field(default_factory=list, repr=False)

    def note(self, path: str, size_bytes: int) -> None:
        """Add a file that is in its place."""
        self.files += 1
        self.size_bytes += size_bytes
        self.paths.append(path)


class _Piece(NamedTuple):
    source: Source
    path: str
    size_bytes: int
    damaged: str | None
    """The tag of the file that is replaced."""


def put_found(
    found: FoundFiles,
    sources: Sequence[Source],
    storage: Storage,
    engine: Engine,
    *,
    progress: Progress = SILENT,
    journal: Journal | None = None,
    damaged: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Put every found file in its place, unless it is there already. Running it again continues an interrupted run.
    `damaged` are the tags of files that are replaced, unless somebody else has done so since.

    Raises StorageFailed, also where another file is in the place of one.
    """
    from deltacli.changing.derived import in_flight
    from deltacli.changing.proofs import AsLogged, ProvenFile

    told, counting = journal or Journal(), Lock()
    pieces = list(_pieces(found, sources, damaged))

    def put(piece: _Piece) -> _Piece:
        replace = piece.damaged is not None and tag_of(storage, piece.path) == piece.damaged
        file = ProvenFile(piece.path, piece.size_bytes, AsLogged(piece.size_bytes))
        with in_flight(piece.path):
            put_file(piece.source, file, storage, replace=replace)
        with counting:
            told.note(piece.path, piece.size_bytes)
        return piece

    total = sum(piece.size_bytes for piece in pieces)
    with weighed(progress, "putting files in place", unit="files", total=len(pieces), weight=total) as step:
        for piece in engine.run(put, pieces, at_once=storage.capabilities.parallel_reads):
            step.advance(weight=piece.size_bytes)


def _pieces(found: FoundFiles, sources: Sequence[Source], damaged: Mapping[str, str]) -> Iterator[_Piece]:
    """Yield the found files: data files come before vectors, as `needed_files` has them."""
    files = (whole(found.needed.files["path"]), found.sources, found.sizes)
    columns = (pc.filter(column, found.is_found).to_pylist() for column in files)
    for path, number, size in zip(*columns, strict=True):
        yield _Piece(sources[number], text_of(path), size, damaged.get(text_of(path)))


def put_file(source: Source, file: ProvenFile, storage: Storage, *, replace: bool = False) -> None:
    """Put one file in its place. Raises StorageFailed where it cannot be, or where another file is there."""
    path, size_bytes = file.path, file.size_bytes
    match source.bring(path, size_bytes, storage, replace=replace):
        case Created():
            return
        case Existed():
            why = "another file was created in its place meanwhile"
        case Unknown(cause):
            why = cause
    if size_of(storage, path) != size_bytes:
        raise StorageFailed(f"{path} could not be put in its place: {why}", facts={"source": source.name})


def tags_of(storage: ReadStorage, paths: ArrowArray, engine: Engine) -> dict[str, str]:
    """Return the tags of the files that are there, by path."""
    names = [text_of(path) for path in paths.to_pylist()]
    found = engine.run(lambda name: tag_of(storage, name), names, at_once=storage.capabilities.parallel_reads)
    return {name: tag for name, tag in zip(names, found, strict=True) if tag is not None}


def tag_of(storage: ReadStorage, path: str) -> str | None:
    """Return what identifies the content of a file, None where there is none."""
    try:
        with storage.open(path) as opened:
            return storage.tag(path, opened)
    except FileMissing:
        return None


def size_of(storage: ReadStorage, path: str) -> int | None:
    """Return the bytes of a file, None where there is none."""
    try:
        return storage.stat(path).size_bytes
    except FileMissing:
        return None
