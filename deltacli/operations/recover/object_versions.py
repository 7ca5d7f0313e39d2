"""Object versions as sources, what a store keeps of files that were overwritten or deleted; and a read-only store whose
files are elsewhere: in other stores, or such versions.

Spec: Delta Log Entries (a commit is written once).
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Protocol

from deltacli.core.errors import FileMissing
from deltacli.core.typing import BinaryFile, Json
from deltacli.delta.log.log_path import LOG_DIRECTORY, LogFileKind, parse_log_path
from deltacli.delta.paths import text_of
from deltacli.engine.base import Engine
from deltacli.storage import Capabilities, Creation, FileStat, PathKind, ReadStorage, ShouldDescend, Storage, WalkEntry
from deltacli.storage.base import PARALLEL_READS, no_atomic_create
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.versions import ObjectVersion, VersionedObjects, VersionState
from deltacli.table.needed import NeededFiles, whole

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
        return range_of(self.kept.open(name), offset, length)

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
            (text_of(path) for path in whole(missing.files["path"]).to_pylist()),
            whole(missing.files["sizeBytes"]).to_pylist(),
            strict=True,
        )
    )
    written = {text_of(path) for path in whole(missing.files["written"]).to_pylist() if path is not None}
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
        self.capabilities = Capabilities(cheap_listing=False, parallel_reads=parallel_reads, atomic_create=False)
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
        raise no_atomic_create(self.uri, "these files are in other stores")


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def range_of(opened: Any, offset: int, length: int) -> bytes:
    """Return a range of an open file."""
    with opened as file:
        file.seek(offset, io.SEEK_SET)
        return bytes(file.read(length))
