"""Any file system of fsspec, read-only: HDFS, SSH, FTP, its own `memory://`.

None of them is verified to create atomically, and fsspec's own exclusive modes check first and then
write. A store becomes writable with a back end of its own that passes the contract tests.
Credentials come from the store's own chain.
"""

from __future__ import annotations

import io
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.core.optional_packages import allow_optional_packages
from deltacli.storage.base import (
    PARALLEL_READS,
    Capabilities,
    FileStat,
    PathKind,
    ShouldDescend,
    WalkEntry,
    no_atomic_create,
)
from deltacli.storage.fsspec_errors import (
    Connect,
    endpoint_of,
    find_temporary_fsspec_cause,
    read_fsspec_retry_after,
    require_endpoint,
    translate_fsspec,
)
from deltacli.storage.libraries import scheme_unavailable
from deltacli.storage.objects.body import ObjectReader
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.retry import Retry
from deltacli.storage.secrets import remember_secrets, without_secrets

Answer = TypeVar("Answer")
_READ_AHEAD_BYTES = 1 << 20
_HADOOP = frozenset({"hdfs", "arrow_hdfs"})
_UNLOADABLE = re.compile(r"Unable to load (lib\w+)")
"""What libraries print every searched path for, or a stack trace of Java."""


class RemoteStorage(ReadOnlyFiles):
    """Files below a URI of an fsspec file system, opened without its listing cache.

    No request is sent, and no library loaded, before it is needed. `connect` opens a connection to a host.
    """

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        *,
        retry: Retry | None = None,
        connect: Connect = socket.create_connection,
    ) -> None:
        """Make a store. Raises UsageError if the library of the scheme is not installed."""
        allow_optional_packages("dateutil", "pytz")
        import fsspec

        remember_secrets({**options, "uri": uri})
        self._uri = uri.rstrip("/")
        self._options = options
        self._retry = retry or Retry()
        self._connect = connect
        self._lock = Lock()
        self._made: tuple[Any, str] | None = None
        self._scheme = self._uri.partition("://")[0]
        try:
            fsspec.get_filesystem_class(self._scheme)
        except (ImportError, ValueError) as error:
            raise scheme_unavailable(self._scheme) from error
        if self._scheme in _HADOOP and not os.environ.get("CLASSPATH"):
            raise _without_hadoop(self._scheme, "the environment variable CLASSPATH is not set")

    @property
    def uri(self) -> str:
        return without_secrets(self._uri)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(has_cheap_requests=False, parallel_reads=PARALLEL_READS, atomic_create=False)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        location = self._at(directory)
        entries = self._ask(lambda: self._fs.ls(location, detail=True), location)
        files = {entry["name"].rstrip("/").rsplit("/", 1)[-1]: entry for entry in entries if entry["type"] == "file"}
        for name in sorted(files):
            if name >= start:
                yield FileStat(name, int(files[name]["size"] or 0), _modified_ms(files[name]))

    def list_directories(self, directory: str) -> list[str]:
        location = self._at(directory)
        entries = self._ask(lambda: self._fs.ls(location, detail=True), location)
        return sorted(entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory")

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield all entries below a directory, one listing per directory."""
        waiting = [directory]
        while waiting:
            path = waiting.pop()
            location = self._at(path)
            try:
                entries = self._entries(location)
            except errors.FileMissing:
                if path == directory:
                    raise
                continue
            walked, directories = _sort_out(path, location, entries)
            if walked.names or walked.special:
                yield walked
            waiting += [f"{path}/{name}" if path else name for name in enter(path, directories)]

    def read(self, path: str) -> bytes:
        location = self._at(path)
        return bytes(self._ask(lambda: self._fs.cat_file(location), location))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        location = self._at(path)
        return bytes(self._ask(lambda: self._fs.cat_file(location, start=offset, end=offset + length), location))

    def open(self, path: str) -> Any:
        """Later reads use `read_range`, which translates errors and retries temporary ones."""
        location = self._at(path)
        size = self._ask(lambda: self._fs.info(location), location).get("size")
        if size is None:  # its length is known only after reading it to the end
            return io.BytesIO(self.read(path))
        reader = ObjectReader(lambda offset, length: self.read_range(path, offset, length), int(size), b"", "")
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the interface)
        entry = self._info(path)
        return "-".join(str(entry.get(name, "")) for name in ("size", "ETag", "etag", "generation", "ino")) + (
            f"-{_modified_ms(entry)}"
        )

    def kind_of(self, path: str) -> PathKind:
        try:
            entry = self._info(path)
        except errors.FileMissing:
            return PathKind.MISSING
        return PathKind.DIRECTORY if entry["type"] == "directory" else PathKind.FILE

    def stat(self, path: str) -> FileStat:
        entry = self._info(path)
        if entry["type"] != "file":
            raise errors.FileMissing(f"{without_secrets(self._at(path))} is not a file")
        return FileStat(path.rsplit("/", 1)[-1], int(entry["size"] or 0), _modified_ms(entry))

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        from deltacli.core.pools import ThreadPool

        def look(path: str) -> tuple[int, int]:
            try:
                entry = self._info(path)
            except errors.FileMissing:
                return -1, -1
            modified_ms = _modified_ms(entry)
            return (int(entry["size"] or 0), modified_ms) if _is_plain(entry) and modified_ms else (-1, -1)

        with ThreadPool(PARALLEL_READS) as pool:
            stats = list(pool.map(look, paths))
        return [size for size, _ in stats], [modified_ms for _, modified_ms in stats]

    def _refuse(self) -> NoReturn:
        raise no_atomic_create(self.uri, f"atomic creation is not known to work on {self._scheme}:// through fsspec")

    def _entries(self, location: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._ask(lambda: self._fs.ls(location, detail=True), location)
        return entries

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    @cached_property
    def _fs(self) -> Any:  # Any: a file system of fsspec
        return self.opened()[0]

    @cached_property
    def _root(self) -> str:
        return self.opened()[1].rstrip("/")

    def opened(self) -> tuple[Any, str]:
        """Return the file system, made on first use, and the path of the root in it."""
        import fsspec

        chosen = {"use_listings_cache": False, "skip_instance_cache": True, **self._options}
        with self._lock:
            if self._made is None:
                require_endpoint(endpoint_of(self._uri), self.uri, self._connect)
                self._made = self._call(lambda: fsspec.core.url_to_fs(self._uri, **chosen), self.uri)
            return self._made

    def _info(self, path: str) -> Any:  # Any: of fsspec
        location = self._at(path)
        return self._ask(lambda: self._fs.info(location), location)

    def _ask(self, call: Callable[[], Answer], location: str) -> Answer:
        return self._call(call, self.uri + location.removeprefix(self._root))

    def _call(self, call: Callable[[], Answer], location: str) -> Answer:
        """Make a call with retries, and translate its errors."""
        host = urlsplit(self.uri).netloc.rpartition("@")[2] or self._scheme
        try:
            return self._retry.call(
                call,
                host=host,
                errors=(Exception,),
                temporary_cause=find_temporary_fsspec_cause,
                retry_after=read_fsspec_retry_after,
            )
        except Exception as fault:  # noqa: BLE001  (the libraries of stores have no common base exception)
            if missing := unloadable_library(self._scheme, fault):
                raise missing from None
            error = translate_fsspec(fault, location)
            raise error from error.__cause__


def _sort_out(path: str, location: str, entries: list[dict[str, Any]]) -> tuple[WalkEntry, list[str]]:
    """Return the entries of a listing of a directory, and the names of its subdirectories."""
    entries = [entry for entry in entries if entry["name"].rstrip("/") != location]  # not the directory's own marker
    named = {entry["name"].rstrip("/").rsplit("/", 1)[-1]: entry for entry in entries}
    files = {name: entry for name, entry in named.items() if _is_plain(entry)}
    directories = sorted(name for name, entry in named.items() if _is_directory(entry))
    special = sorted(named.keys() - files.keys() - set(directories))
    sizes = [int(entry["size"] or 0) for entry in files.values()]
    times = [_modified_ms(entry) for entry in files.values()]
    # An unknown time must not look like an old one.
    return WalkEntry(path, list(files), sizes, times if all(times) else None, special), directories


def _is_directory(entry: Mapping[str, Any]) -> bool:
    return entry["type"] == "directory" and not entry.get("islink")


def _is_plain(entry: Mapping[str, Any]) -> bool:
    return entry["type"] == "file" and not entry.get("islink")


def _modified_ms(entry: Mapping[str, Any]) -> int:
    """Return the modification time under any of its usual names, or 0."""
    for key in ("LastModified", "last_modified", "mtime", "modified", "updated", "created"):
        value = entry.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


def unloadable_library(scheme: str, error: BaseException) -> errors.UsageError | None:
    """Return the error for an error caused by a missing library; None for any other error."""
    match = _UNLOADABLE.search(str(error)) if scheme in _HADOOP else None
    return None if match is None else _without_hadoop(scheme, f"{match[1]} cannot be loaded")


def _without_hadoop(scheme: str, why: str) -> errors.UsageError:
    return errors.UsageError(
        f"{scheme}:// needs Java and Hadoop on this machine: {why}",
        code="usage.missing-library",
        facts={"needed": "JAVA_HOME for libjvm, HADOOP_HOME for libhdfs, CLASSPATH for the classes of Hadoop"},
        hint='export CLASSPATH="$(hadoop classpath --glob)"',
    )
