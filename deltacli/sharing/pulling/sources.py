"""A version of a shared table as it is pulled: its files, by names of their own, and what downloads them.

A file of a directory is named as our own server names it, so that both ways of a table that it shares make one copy.

Spec: File (id); Deletion Vector Descriptor Schema.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deltacli.core.errors import FileMissing
from deltacli.core.progress import Progress
from deltacli.core.typing import BinaryFile
from deltacli.delta.data_files import vector_file
from deltacli.sharing.client.faults import FilesMovedOn, invalid_answer, other_size
from deltacli.sharing.client.share_storage import ShareStorage
from deltacli.sharing.client.shared_directory import DirectoryStorage
from deltacli.sharing.client.shared_files import data_file_name, vector_file_name, vector_text, vector_uuid
from deltacli.sharing.client.table_requests import Query
from deltacli.sharing.protocol.lines import HASHES, IdHash
from deltacli.sharing.protocol.parameters import Point, ResponseFormat
from deltacli.sharing.pulling.downloading import MOST_UNSIZED_BYTES, Destination, Downloads, UrlDownloads, WantedFile
from deltacli.sharing.pulling.local_table import Part, list_adds
from deltacli.storage import ReadStorage
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import find_snapshot
from deltacli.table.version import Snapshot
from deltacli.work.rows.deletion_vectors import find_vector

Share = ShareStorage | DirectoryStorage
"""The store of a shared table, by URLs or in its directory."""
FORMATS = (ResponseFormat.DELTA,)
"""Ids of files depend on the format, so every pull asks for the same one. A server without it answers in the other."""
_BLOCK_BYTES = 8 << 20


class UrlVersion:
    """A version that the server lists. `store` is that of its files."""

    def __init__(self, store: ShareStorage, table: TableHandle) -> None:
        self.store = store
        self.snapshot: Snapshot = read_snapshot(TableHandle(store, clock=table.clock))

    def adds(self) -> Iterator[dict[str, Any]]:
        """Yield the live files as dictionaries, without absent fields."""
        return list_adds(self.snapshot.files())

    def downloads(self, to: Destination) -> Downloads:
        """Return what downloads the files."""
        shared = self.store.shared
        transport = self.store.requests.transport
        return UrlDownloads(to, transport, lambda name, not_this: shared.url_of(name, not_this=not_this))


class DirectoryVersion:
    """A version that is rebuilt from the log in the directory."""

    def __init__(self, store: DirectoryStorage, point: Point, table: TableHandle) -> None:
        handle = TableHandle(store, clock=table.clock)
        self.snapshot: Snapshot = find_snapshot(handle, version=point.version, timestamp_ms=point.timestamp_ms)
        self.store, self._files = store, handle.files()
        self._paths: dict[str, str] = {}
        self._vectors: dict[str, Mapping[str, Any]] = {}

    def adds(self) -> Iterator[dict[str, Any]]:
        """Yield the live files as dictionaries, without absent fields."""
        for add in list_adds(self.snapshot.files()):
            path, vector = add["path"], add.get("deletionVector")
            name = data_file_name(HASHES[IdHash.DELTA](path.encode("utf-8", "surrogatepass")))
            self._paths[name] = path
            if vector is not None and vector["storageType"] != "i":
                add["deletionVector"] = self._named(vector)
            yield add | {"path": name}

    def _named(self, vector: dict[str, Any]) -> dict[str, Any]:
        """Return the descriptor of a vector whose file has a name in the local directory."""
        text = str(vector["pathOrInlineDv"])
        place = vector_file(text) if vector["storageType"] == "u" else text
        if place is None:
            raise invalid_answer("a deletion vector has no name")
        own = vector_uuid(HASHES[IdHash.DELTA](place.encode("utf-8", "surrogatepass")), "")
        self._vectors[vector_file_name(own)] = vector
        return {**vector, "storageType": "u", "pathOrInlineDv": vector_text(own)}

    def downloads(self, to: Destination) -> Downloads:
        """Return what downloads the files."""
        return DirectoryDownloads(to, self._places)

    def _places(self, name: str) -> Iterator[tuple[ReadStorage, str]]:
        """Yield where a file can be: at its path, and at the path as written, because some writers do not encode it."""
        if (vector := self._vectors.get(name)) is not None:
            place = find_vector(self._files, vector)
            assert place is not None
            yield place.storage, place.path
            return
        yield self._files.locate(self._paths[name])
        if (written := self._files.locate_undecoded(self._paths[name])) is not None:
            yield written


class DirectoryDownloads(Downloads):
    """Downloads files from a directory, each in one stream that continues an earlier one of the same content."""

    def __init__(self, to: Destination, places: Callable[[str], Iterator[tuple[ReadStorage, str]]]) -> None:
        super().__init__(to)
        self._places = places

    def _fill(self, wanted: WantedFile, part: Part) -> int:
        """Receive the rest of a file. Raises FilesMovedOn for one that is gone, and DataUnreadable."""
        store, path, opened = self._open(wanted.name)
        with opened:
            size: int = opened.seek(0, os.SEEK_END)
            if wanted.size_bytes is not None and size != wanted.size_bytes:
                raise other_size(wanted.name, wanted.size_bytes, size)
            if size > MOST_UNSIZED_BYTES and wanted.size_bytes is None:
                raise invalid_answer("a file of deletion vectors is too large", {"file": path, "bytes": size})
            tag = store.tag(path, opened)
            if not part.can_continue or part.tag != tag or part.size_bytes > size:
                self._forget(part)
                part.restart(tag, is_large=self._is_large(wanted))
            begin = part.size_bytes
            opened.seek(begin)
            while part.size_bytes < size:
                self._require_running()
                if not (block := opened.read(min(_BLOCK_BYTES, size - part.size_bytes))):
                    raise other_size(wanted.name, size, part.size_bytes)
                part.write(block)
                self._advance(len(block))
        return size - begin

    def _open(self, name: str) -> tuple[ReadStorage, str, BinaryFile]:
        for store, path in self._places(name):
            try:
                return store, path, store.open(path)
            except FileMissing:
                continue
        raise FilesMovedOn("a file of this version is gone from the directory", facts={"file": name})


def version_of(store: Share, point: Point, table: TableHandle, progress: Progress) -> UrlVersion | DirectoryVersion:
    """Return a version of a shared table that is pulled. Raises what requests and `find_snapshot` raise."""
    if isinstance(store, DirectoryStorage):
        return DirectoryVersion(store, point, table)
    return UrlVersion(ShareStorage(store.address, store.requests, Query(point, FORMATS), progress=progress), table)
