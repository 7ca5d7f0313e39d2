"""Partitions of shared files: pieces of our own scan, and the URLs of their files. No token is in them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator

from deltacli.delta.vectors.z85 import vector_file
from deltacli.engine.spark.worker import Job
from deltacli.errors import FileMissing
from deltacli.sharing.client.tables.file_urls import FileUrl
from deltacli.sharing.client.tables.share_storage import ShareStorage
from deltacli.spark.executor_rows import SPEC, read_piece
from deltacli.spark.shares.shared_files import SharedFiles
from deltacli.work.outputs.rows import plan_pieces
from deltacli.work.rows.data_files import DataFile, ReadSpec
from deltacli.work.rows.deletion_vectors import Descriptor

FindUrl = Callable[[str], FileUrl | None]


def shared_partitions(share: ShareStorage, spec: ReadSpec, files: Iterable[DataFile], find: FindUrl) -> list[bytes]:
    """Return pickled partitions: what a task of Spark needs to read some files.

    `find` is asked for the URLs of a file as soon as the file is known, while its list is at hand. Raises FileMissing
    for a file that the server does not share.
    """
    urls: dict[str, FileUrl] = {}

    def with_urls() -> Iterator[DataFile]:
        for file in files:
            for name in _names_of(file):
                urls[name] = urls.get(name) or _known(find(name), name)
            yield file

    pieces = list(plan_pieces(with_urls()))
    shared = pickle.dumps({SPEC: spec}, pickle.HIGHEST_PROTOCOL)
    table, endpoint = str(share.address.name), share.requests.transport.endpoint
    partitions = []
    for piece in pieces:
        names = sorted({name for file in piece.files for name in _names_of(file)})
        location = SharedFiles(table, endpoint, tuple((name, urls[name]) for name in names))
        job = pickle.dumps(Job(read_piece, location, None, shared), pickle.HIGHEST_PROTOCOL)
        one = [pickle.dumps(piece, pickle.HIGHEST_PROTOCOL)]
        partitions.append(pickle.dumps((job, one), pickle.HIGHEST_PROTOCOL))
    return partitions


def _names_of(file: DataFile) -> Iterator[str]:
    """Yield the names of a data file and of the files of its deletion vectors."""
    yield file.path
    for vector in (file.vector, file.only):
        if (name := _vector_name(vector)) is not None:
            yield name


def _vector_name(vector: Descriptor | None) -> str | None:
    if vector is None or vector.get("storageType") != "u":
        return None
    return vector_file(str(vector.get("pathOrInlineDv")))


def _known(url: FileUrl | None, name: str) -> FileUrl:
    if url is None:
        raise FileMissing(f"{name} is not a file of this version")
    return url
