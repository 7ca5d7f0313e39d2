"""Putting found files in their places: data files first, then vectors, so that no commit is seen without its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.paths.locate_paths import text_of
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
    replaces: bool


def put_found(
    found: FoundFiles,
    sources: Sequence[Source],
    storage: Storage,
    engine: Engine,
    *,
    progress: Progress = SILENT,
    journal: Journal | None = None,
    damaged: ArrowArray | None = None,
) -> None:
    """Put every found file in its place, unless it is there already. Running it again continues an interrupted run.
    `damaged` are the files whose place has one of another size, which is replaced.

    Raises StorageFailed, also where another file is in the place of one.
    """
    told = journal or Journal()
    pieces = list(_pieces(found, sources, damaged))

    def put(piece: _Piece) -> _Piece:
        if not piece.replaces or size_of(storage, piece.path) != piece.size_bytes:
            put_file(piece.source, piece.path, piece.size_bytes, storage, replace=piece.replaces)
        return piece

    total = sum(piece.size_bytes for piece in pieces)
    with weighed(progress, "putting files in place", unit="files", total=len(pieces), weight=total) as step:
        for piece in engine.run(put, pieces, at_once=storage.capabilities.parallel_reads):
            told.files += 1
            told.size_bytes += piece.size_bytes
            step.advance(weight=piece.size_bytes)


def _pieces(found: FoundFiles, sources: Sequence[Source], damaged: ArrowArray | None) -> Iterator[_Piece]:
    """Yield the found files: data files come before vectors, as `needed_files` has them."""
    import pyarrow as pa

    replaces = pa.repeat(pa.scalar(False), len(found.sources)) if damaged is None else damaged
    files = (whole(found.needed.files["path"]), found.sources, found.sizes, replaces)
    columns = (pc.filter(column, found.is_found).to_pylist() for column in files)
    for path, number, size, is_damaged in zip(*columns, strict=True):
        yield _Piece(sources[number], text_of(path), size, is_damaged)


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


def size_of(storage: Storage, path: str) -> int | None:
    """Return the bytes of a file, None where there is none."""
    try:
        return storage.stat(path).size_bytes
    except FileMissing:
        return None
