"""Putting found files in their places: data files first, then vectors, so that no commit is seen without its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.paths import text_of
from deltacli.engine.base import Engine
from deltacli.errors import FileMissing, StorageFailed
from deltacli.operations.recover.needed import whole
from deltacli.operations.recover.sources import FoundFiles, Source
from deltacli.progress import SILENT, Progress, weighed
from deltacli.storage import Created, Existed, Storage, Unknown
from deltacli.typing import ArrowArray


@dataclass(slots=True)
class Journal:
    """What was put in place, for the message of an interrupted run."""

    files: int = 0
    size_bytes: int = 0


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
    told = journal or Journal()
    pieces = list(_pieces(found, sources, damaged))

    def put(piece: _Piece) -> _Piece:
        replace = piece.damaged is not None and tag_of(storage, piece.path) == piece.damaged
        put_file(piece.source, piece.path, piece.size_bytes, storage, replace=replace)
        return piece

    total = sum(piece.size_bytes for piece in pieces)
    with weighed(progress, "putting files in place", unit="files", total=len(pieces), weight=total) as step:
        for piece in engine.run(put, pieces, at_once=storage.capabilities.parallel_reads):
            told.files += 1
            told.size_bytes += piece.size_bytes
            step.advance(weight=piece.size_bytes)


def _pieces(found: FoundFiles, sources: Sequence[Source], damaged: Mapping[str, str]) -> Iterator[_Piece]:
    """Yield the found files: data files come before vectors, as `needed_files` has them."""
    files = (whole(found.needed.files["path"]), found.sources, found.sizes)
    columns = (pc.filter(column, found.is_found).to_pylist() for column in files)
    for path, number, size in zip(*columns, strict=True):
        yield _Piece(sources[number], text_of(path), size, damaged.get(text_of(path)))


def put_file(source: Source, path: str, size_bytes: int, storage: Storage, *, replace: bool = False) -> None:
    """Put one file in its place. Raises StorageFailed where it cannot be, or where another file is there."""
    match source.bring(path, size_bytes, storage, replace=replace):
        case Created():
            return
        case Existed():
            why = "another file was created in its place meanwhile"
        case Unknown(cause):
            why = cause
    if size_of(storage, path) != size_bytes:
        raise StorageFailed(f"{path} could not be put in its place: {why}", facts={"source": source.name})


def tags_of(storage: Storage, paths: ArrowArray, engine: Engine) -> dict[str, str]:
    """Return the tags of the files that are there, by path."""
    names = [text_of(path) for path in paths.to_pylist()]
    found = engine.run(lambda name: tag_of(storage, name), names, at_once=storage.capabilities.parallel_reads)
    return {name: tag for name, tag in zip(names, found, strict=True) if tag is not None}


def tag_of(storage: Storage, path: str) -> str | None:
    """Return what identifies the content of a file, None where there is none."""
    try:
        with storage.open(path) as opened:
            return storage.tag(path, opened)
    except FileMissing:
        return None


def size_of(storage: Storage, path: str) -> int | None:
    """Return the bytes of a file, None where there is none."""
    try:
        return storage.stat(path).size_bytes
    except FileMissing:
        return None
