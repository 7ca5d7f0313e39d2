"""What a shared table looks like as a store: a log, which no server sends, with one checkpoint per version that is
written in columns while the answer comes, and data files behind URLs.

Spec: Checkpoints.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, small_rows, struct_of_actions
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.sharing.client.answers import AnswerHead
from deltacli.sharing.client.faults import FilesMovedOn
from deltacli.sharing.client.table_requests import TableRequests
from deltacli.sharing.client.tables.shared_files import FileUrl, StoredUrls
from deltacli.storage.disk_faults import writing_faults
from deltacli.work.checkpoints.writing import Encoding, FileEncoder

if TYPE_CHECKING:
    import pyarrow


EARLY_MS = 30_000
"""A URL is replaced this long before it expires."""


class LogFileBytes(NamedTuple):
    """A file of the log. `read` gets an offset and a length."""

    size_bytes: int
    modified_ms: int
    read: Callable[[int, int], bytes]


class SharedLog(Protocol):
    """A log, and the URLs of the files that it names."""

    @property
    def version(self) -> int:
        """The newest version."""

    @property
    def urls(self) -> StoredUrls: ...

    @property
    def log_files(self) -> Mapping[str, LogFileBytes]:
        """The files of `_delta_log` by their names."""

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file, None for an unknown name. One that expires soon, or that is `not_this`, is renewed.

        Raises FilesMovedOn where the server does not share the file any more.
        """


@dataclass
class RenewedLog(ABC):
    """A log whose URLs are renewed before they expire, and when one is not accepted any more: once for all threads.

    Where new ones would have to be renewed at once, the clocks of server and client differ too much, and URLs are used
    until one is not accepted.
    """

    requests: TableRequests
    urls: StoredUrls
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _ignores_times: bool = field(default=False, init=False)

    @abstractmethod
    def renewed(self) -> StoredUrls:
        """Return new URLs of the same files."""

    def url_of(self, name: str, *, not_this: str | None = None) -> FileUrl | None:
        """Return the URL of a file as `SharedLog.url_of` does."""
        found = self.urls.find(name)
        if found is None or not self._is_stale(found, not_this):
            return found
        with self._lock:
            found = self.urls.find(name)
            if found is not None and not self._is_stale(found, not_this):
                return found
            self.urls = self.renewed()
            found = self.urls.find(name)
            if found is None:
                raise FilesMovedOn("the server does not share a file of this version any more", facts={"file": name})
            self._ignores_times = self._ignores_times or self._is_late(found)
            return found

    def _is_stale(self, url: FileUrl, not_this: str | None) -> bool:
        return url.url == not_this or (not self._ignores_times and self._is_late(url))

    def _is_late(self, url: FileUrl) -> bool:
        return url.expires_ms is not None and url.expires_ms - EARLY_MS <= self.requests.transport.clock()


_ACTIONS_A_BATCH = 8_192
_KINDS = ("add", "metaData", "protocol")
_SOURCE = "the answer of the sharing server"


class CheckpointOfAnswer:
    """Collects the adds of an answer and writes them to a file without a name."""

    def __init__(self, place: str, head: AnswerHead) -> None:
        self._schema = checkpoint_schema(Columns(), kinds=_KINDS)
        self._encoder = FileEncoder(place, self._schema, Encoding(), name="the list of shared files")
        self._pending: list[Action] = []
        small = [("protocol", head.delta_protocol), ("metaData", head.delta_metadata)]
        self._encoder.add_rows(small_rows(small, self._schema))

    def add(self, action: Action) -> None:
        """Add a file."""
        self._pending.append(action)
        if len(self._pending) >= _ACTIONS_A_BATCH:
            self._flush()

    def add_rows(self, rows: pyarrow.RecordBatch) -> None:
        """Add many files, in columns of adds."""
        self._flush()
        self._encoder.add("add", struct_of_actions(rows, self._schema.field("add").type, {}))

    def finish(self) -> int:
        """Write the rest and return the bytes of the checkpoint."""
        self._flush()
        return self._encoder.finish().size_bytes

    def close(self) -> None:
        """Release the file."""
        self._encoder.__exit__()

    def _flush(self) -> None:
        if self._pending:
            self._encoder.add("add", adds_of(self._pending, self._schema.field("add").type))
            self._pending = []


def adds_of(actions: list[Action], kind: Any) -> Any:  # Any: an Arrow struct type, a struct array
    """Return adds as found as the struct of a checkpoint. Raises CommitCorrupt."""
    rows: pyarrow.RecordBatch = whole_actions(actions, action_schemas().add, _SOURCE)
    return struct_of_actions(rows, kind, {})


class HiddenFile:
    """The bytes of a file without a name, released with this object."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self._descriptor, self.size_bytes = descriptor, size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        parts, end = [], min(offset + length, self.size_bytes)
        while offset < end and (data := os.pread(self._descriptor, end - offset, offset)):
            parts.append(data)
            offset += len(data)
        return b"".join(parts)

    def __del__(self) -> None:
        os.close(self._descriptor)


@contextmanager
def hidden_file() -> Iterator[tuple[str, list[int]]]:
    """Yield the path of an empty file, and a list that has its open descriptor afterwards, when its name is gone."""
    with writing_faults(tempfile.gettempdir(), "a temporary file"):
        written, place = tempfile.mkstemp(prefix="deltacli-share-")
    os.close(written)
    opened: list[int] = []
    try:
        yield place, opened
        opened.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        with suppress(OSError):
            os.unlink(place)
