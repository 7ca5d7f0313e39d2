"""Where files that are gone may be: below a directory or URI, or in the versions that a store keeps of its objects.

Each file found is verified, and put in its place: data files first, then vectors, so that no commit is seen without its
files.

Spec: Delta Log Entries (a commit is written once).
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import FileMissing, StorageFailed, Unreadable, UsageError, parameter
from deltacli.core.progress import SILENT, Progress, start_weighed_step
from deltacli.core.typing import ArrowArray, BinaryFile, Json
from deltacli.core.units import plural
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFileKind, parse_log_path
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.engine.base import Engine
from deltacli.operations.recover.copies import NotedChecksums, compare_digests, copy_file
from deltacli.operations.recover.verify import Problem, verify
from deltacli.storage import (
    Capabilities,
    Created,
    Creation,
    Existed,
    FileStat,
    PathKind,
    ReadStorage,
    ShouldDescend,
    Storage,
    Unknown,
    WalkEntry,
    is_inside,
)
from deltacli.storage.base import PARALLEL_READS, no_atomic_create_error
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.versions import ObjectVersion, VersionedObjects, VersionState
from deltacli.table.needed_files import NeededFiles, combine_chunks, locate_files
from deltacli.work.table_stores import TableStores

if TYPE_CHECKING:
    from deltacli.changing.proofs import ProvenFile

# -- object versions as sources ----------------------------------------------------------------------------------------

VERSIONS = "versions"
"""How a caller asks for the versions of the table's own store."""

_MOST_ASKED = 100
"""Files whose versions are listed one by one; of more, those of the whole table are listed."""


class KeptVersions(NamedTuple):
    """All versions of a file, the newest first."""

    path: str
    versions: tuple[ObjectVersion, ...]

    @property
    def current(self) -> ObjectVersion | None:
        return next((one for one in self.versions if one.state is VersionState.CURRENT), None)

    @property
    def others(self) -> tuple[ObjectVersion, ...]:
        """The contents that are not current."""
        return tuple(one for one in self.versions if one.state in (VersionState.NONCURRENT, VersionState.SOFT_DELETED))


class Overwritten(NamedTuple):
    """A commit of which the store keeps several contents, with the SHA-256 of each, None where it cannot be read."""

    path: str
    versions: tuple[tuple[ObjectVersion, str | None], ...]

    def as_json(self) -> dict[str, Json]:
        return {
            "path": self.path,
            "versions": [
                {
                    "versionId": one.version_id,
                    "sizeBytes": one.size_bytes,
                    "modificationTimeMs": one.modified_ms,
                    "state": one.state.value,
                    "sha256": sha256,
                }
                for one, sha256 in self.versions
            ],
        }


@dataclass(frozen=True)
class _VersionReader:
    """Reads versions by themselves."""

    kept: VersionedObjects

    def read(self, name: ObjectVersion) -> bytes:
        return self.kept.read(name)

    def read_range(self, name: ObjectVersion, offset: int, length: int) -> bytes:
        with self.kept.open(name) as file:
            file.seek(offset, io.SEEK_SET)
            return bytes(file.read(length))

    def open(self, name: ObjectVersion) -> BinaryFile:
        return self.kept.open(name)


@dataclass(frozen=True)
class VersionsSource:
    """One kept version of each of some files. `is_readable`: they can be read before they are brought back."""

    files: FileMap
    kept: VersionedObjects
    chosen: Mapping[str, ObjectVersion]
    current: Mapping[str, ObjectVersion]
    is_readable: bool = True
    name: str = VERSIONS
    digests: None = None

    def keeps_time(self, path: str, to: ReadStorage) -> bool:  # noqa: ARG002
        return self.chosen[path].keeps_time

    def bring(self, path: str, size_bytes: int, to: Storage, *, replace: bool = False) -> Creation:  # noqa: ARG002
        instead_of = self.current.get(path) if replace else None
        return self.kept.bring_back(self.chosen[path], instead_of=instead_of)


def versions_of_log(
    storage: ReadStorage, kept: VersionedObjects, engine: Engine
) -> tuple[list[VersionsSource], list[Overwritten]]:
    """Return the newest kept version of each file that the log lacks, first those that can be read before they are
    brought back; and the commits that were overwritten, which are never chosen.
    """
    files = list(_grouped(kept.list(f"{LOG_DIRECTORY}/")))
    commits = [file for file in files if _is_commit(file.path)]
    overwritten = [found for found in engine.run(lambda file: _overwritten(kept, file), commits) if found is not None]
    barred = {found.path for found in overwritten}
    lost = [file for file in files if file.current is None and file.others and file.path not in barred]
    sources = []
    for is_readable in (True, False):
        chosen = [(file, one) for file in lost for one in file.others[:1] if one.is_readable is is_readable]
        sources.append(_source(storage, kept, chosen, is_readable=is_readable))
    return sources, overwritten


def versions_of_files(storage: ReadStorage, kept: VersionedObjects, missing: NeededFiles) -> list[VersionsSource]:
    """Return the kept versions of files as sources, to be asked in turn: the newest of each file, then the one before.

    Versions of another size than in the log come last, for what is said of the file. Those that cannot be read before
    they are brought back have a source of their own.
    """
    sizes = dict(
        zip(
            (decode_path_bytes(path) for path in combine_chunks(missing.files["path"]).to_pylist()),
            combine_chunks(missing.files["sizeBytes"]).to_pylist(),
            strict=True,
        )
    )
    written = {
        decode_path_bytes(path)
        for path in combine_chunks(missing.files["undecoded_path"]).to_pylist()
        if path is not None
    }
    layers: dict[tuple[bool, int], list[tuple[KeptVersions, ObjectVersion]]] = defaultdict(list)
    for file in _list_kept(kept, {*sizes, *written}):
        size = sizes.get(file.path)
        fitting = [one for one in file.others if size is None or one.size_bytes == size] or file.others[:1]
        for is_readable in (True, False):
            chosen = [one for one in fitting if one.is_readable is is_readable]
            for depth, version in enumerate(chosen):
                layers[not is_readable, depth].append((file, version))
    return [_source(storage, kept, layers[key], is_readable=not key[0]) for key in sorted(layers)]


def _list_kept(kept: VersionedObjects, paths: Collection[str]) -> Iterator[KeptVersions]:
    if len(paths) > _MOST_ASKED:
        yield from (file for file in _grouped(kept.list()) if file.path in paths)
        return
    for path in paths:
        yield from (file for file in _grouped(kept.list(path)) if file.path == path)


def _grouped(versions: Iterable[ObjectVersion]) -> Iterator[KeptVersions]:
    held: list[ObjectVersion] = []
    for version in versions:
        if held and held[0].path != version.path:
            yield KeptVersions(held[0].path, tuple(held))
            held = []
        held.append(version)
    if held:
        yield KeptVersions(held[0].path, tuple(held))


def _source(
    storage: ReadStorage,
    kept: VersionedObjects,
    chosen: Sequence[tuple[KeptVersions, ObjectVersion]],
    *,
    is_readable: bool = True,
) -> VersionsSource:
    reader = _VersionReader(kept)
    files = {file.path: MappedFile(reader, one, one.size_bytes, one.modified_ms) for file, one in chosen}
    current = {file.path: file.current for file, _ in chosen if file.current is not None}
    view = FileMap(storage.uri, files, PARALLEL_READS)
    return VersionsSource(view, kept, {file.path: one for file, one in chosen}, current, is_readable)


def _is_commit(path: str) -> bool:
    directory, _, name = path.rpartition("/")
    return directory == LOG_DIRECTORY and parse_log_path(name).kind is LogFileKind.COMMIT


def _overwritten(kept: VersionedObjects, file: KeptVersions) -> Overwritten | None:
    """Return a commit with the contents that the store keeps of it, if there are several."""
    contents = [one for one in file.versions if one.state is not VersionState.DELETE_MARKER]
    if len(contents) < 2:
        return None
    found = [(one, _sha256(kept, one)) for one in contents]
    return None if _are_one(found) else Overwritten(file.path, tuple(found))


def _are_one(contents: Sequence[tuple[ObjectVersion, str | None]]) -> bool:
    """Return False unless all contents are known to be the same. Of one that cannot be read only the size is known: a
    file that was brought back leaves such a one behind, so beside one that can be read its size is enough.
    """
    known = {sha256 for _, sha256 in contents if sha256 is not None}
    return len(known) == 1 and len({version.size_bytes for version, _ in contents}) == 1


def _sha256(kept: VersionedObjects, version: ObjectVersion) -> str | None:
    import hashlib

    if not version.is_readable:
        return None
    try:
        return hashlib.sha256(kept.read(version)).hexdigest()
    except FileMissing:
        return None


class Reader(Protocol):
    """Reads what a store calls by a name of its own: a path, a version."""

    def read(self, name: Any, /) -> bytes:
        """Return the whole content."""

    def read_range(self, name: Any, offset: int, length: int, /) -> bytes:
        """Return up to `length` bytes from `offset`."""

    def open(self, name: Any, /) -> Any:
        """Open the content for random access."""


class MappedFile(NamedTuple):
    """Where a file is, by what name its reader finds it, and what a listing says of it."""

    reader: Reader
    name: Any
    size_bytes: int
    modified_ms: int


class FileMap(ReadOnlyFiles):
    """The files of a mapping, by path, as a store."""

    def __init__(self, uri: str, files: Mapping[str, MappedFile], parallel_reads: int) -> None:
        self.uri = uri
        self.capabilities = Capabilities(has_cheap_requests=False, parallel_reads=parallel_reads, atomic_create=False)
        self._files = files
        self._below: dict[str, dict[str, None]] = defaultdict(dict)
        """Directory -> the names of directories in it."""
        self._in: dict[str, list[str]] = defaultdict(list)
        """Directory -> the names of files in it."""
        for path in files:
            directory, _, name = path.rpartition("/")
            self._in[directory].append(name)
            while directory and directory.rpartition("/")[2] not in self._below[directory.rpartition("/")[0]]:
                above, _, name = directory.rpartition("/")
                self._below[above][name] = None
                directory = above

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        if directory not in self._in and directory not in self._below:
            raise self._missing(directory)
        for name in sorted(self._in.get(directory, ()), key=_bytes_of):
            if name >= start:
                yield self.stat(f"{directory}/{name}" if directory else name)

    def list_directories(self, directory: str) -> list[str]:
        if directory not in self._in and directory not in self._below:
            raise self._missing(directory)
        return sorted(self._below.get(directory, ()))

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        waiting = [directory]
        while waiting:
            path = waiting.pop()
            below = f"{path}/" if path else ""
            if names := self._in.get(path):
                found = [self._files[below + name] for name in names]
                yield WalkEntry(
                    path, names, [file.size_bytes for file in found], [file.modified_ms for file in found], []
                )
            waiting += [below + name for name in enter(path, sorted(self._below.get(path, ())))]

    def read(self, path: str) -> bytes:
        file = self._file(path)
        return file.reader.read(file.name)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        file = self._file(path)
        return file.reader.read_range(file.name, offset, length)

    def open(self, path: str) -> Any:
        file = self._file(path)
        return file.reader.open(file.name)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        file = self._file(path)
        return f"{file.size_bytes}-{file.modified_ms}-{file.name}"

    def kind_of(self, path: str) -> PathKind:
        if path in self._files:
            return PathKind.FILE
        return PathKind.DIRECTORY if path in self._in or path in self._below else PathKind.MISSING

    def stat(self, path: str) -> FileStat:
        file = self._file(path)
        return FileStat(path.rpartition("/")[2], file.size_bytes, file.modified_ms)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        found = [self._files.get(path) for path in paths]
        return (
            [-1 if file is None else file.size_bytes for file in found],
            [-1 if file is None else file.modified_ms for file in found],
        )

    def _file(self, path: str) -> MappedFile:
        file = self._files.get(path)
        if file is None:
            raise self._missing(path)
        return file

    def _missing(self, path: str) -> FileMissing:
        return FileMissing(f"{self.uri}/{path} does not exist")

    def _refuse(self) -> NoReturn:
        raise no_atomic_create_error(self.uri, "these files are in other stores")


def _bytes_of(name: str) -> bytes:
    return encode_path_bytes(name)


# -- where missing files may be ----------------------------------------------------------------------------------------


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
        missing.wrong_word = name
        raise missing
    return CopySource(name, storage)


def find_in(sources: Sequence[Source], needed: NeededFiles, engine: Engine, progress: Progress = SILENT) -> FoundFiles:
    """Look for files in sources: that of a file is the first that has it as in the log. Raises StorageFailed."""
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
        wanted, sizes = locate_files(source.files, needed.where(is_left), engine, progress)
        verified = verify(wanted, sizes, TableStores(source.files), engine, progress, contents=source.is_readable)
        if source.is_readable and source.digests is not None:
            is_sound = verified.is_sound
            faults, unproven = compare_digests(source.digests, source.files, wanted, sizes, is_sound, engine, progress)
            verified = verified.with_faults(faults)
            found = found._replace(unproven=found.unproven + unproven)
        found = _with(found, is_left, number, wanted, sizes, verified.problems, verified.reasons)
    return found


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
    is_sound = pc.is_null(problems)
    numbers = pc.if_else(is_sound, pa.scalar(number, pa.int32()), pa.scalar(None, pa.int32()))
    says_more = pc.fill_null(pc.not_equal(problems, Problem.MISSING.value), True)
    before = (pc.filter(column, is_left) for column in (found.problems, found.reasons))
    problems, reasons = (pc.if_else(says_more, new, old) for new, old in zip((problems, reasons), before, strict=True))
    paths = pc.replace_with_mask(
        combine_chunks(found.needed.files["path"]), is_left, combine_chunks(wanted.files["path"])
    )
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
    from deltacli.changing.derived_files import annotate_interruption
    from deltacli.changing.proofs import MatchesLog, ProvenFile

    told, counting = journal or Journal(), Lock()
    pieces = list(_pieces(found, sources, damaged))

    def put(piece: _Piece) -> _Piece:
        replace = piece.damaged is not None and tag_of(storage, piece.path) == piece.damaged
        file = ProvenFile(piece.path, piece.size_bytes, MatchesLog(piece.size_bytes))
        with annotate_interruption(piece.path):
            put_file(piece.source, file, storage, replace=replace)
        with counting:
            told.note(piece.path, piece.size_bytes)
        return piece

    total = sum(piece.size_bytes for piece in pieces)
    with start_weighed_step(progress, "putting files in place", unit="files", total=len(pieces), weight=total) as step:
        for piece in engine.run(put, pieces, at_once=storage.capabilities.parallel_reads):
            step.advance(weight=piece.size_bytes)


def _pieces(found: FoundFiles, sources: Sequence[Source], damaged: Mapping[str, str]) -> Iterator[_Piece]:
    """Yield the found files: data files come before vectors, as `needed_files` has them."""
    files = (combine_chunks(found.needed.files["path"]), found.sources, found.sizes)
    columns = (pc.filter(column, found.is_found).to_pylist() for column in files)
    for path, number, size in zip(*columns, strict=True):
        yield _Piece(sources[number], decode_path_bytes(path), size, damaged.get(decode_path_bytes(path)))


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
    names = [decode_path_bytes(path) for path in paths.to_pylist()]
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
