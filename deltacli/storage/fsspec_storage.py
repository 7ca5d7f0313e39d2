"""Read-only stores on file systems of fsspec: HDFS, SFTP, FTP, SMB, HTTP and `memory://`.

S3, Google Cloud Storage and Azure have back ends of their own. This one serves all other schemes
for which an fsspec file system is installed. It is read-only: none of these file systems is known
to create files atomically. fsspec's mode `xb` checks whether the file exists and then writes it, so
two writers could both commit the same version.

The fsspec file system finds its credentials itself, for example in `~/.ssh`.
"""

from __future__ import annotations

import io
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, NamedTuple, NoReturn, TypeVar
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
    no_atomic_create_error,
)
from deltacli.storage.fsspec_errors import (
    Connect,
    find_endpoint,
    find_temporary_fsspec_cause,
    read_fsspec_retry_after,
    require_reachable,
    translate_fsspec_error,
)
from deltacli.storage.libraries import scheme_unavailable_error
from deltacli.storage.objects.body import ObjectReader
from deltacli.storage.read_only import ReadOnlyFiles
from deltacli.storage.retry import Retry
from deltacli.storage.secrets import mask_secrets, remember_secrets

Result = TypeVar("Result")

_READ_AHEAD_BYTES = 1 << 20
_HADOOP_SCHEMES = frozenset({"hdfs", "arrow_hdfs"})

# pyarrow's message continues with every path that it searched, or with a Java stack trace.
_LIBRARY_NOT_LOADED = re.compile(r"Unable to load (lib\w+)")

# The keys under which file systems report the modification time, the most reliable one first.
_TIME_KEYS = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")

# The keys of an entry that change when a file is rewritten. No file system has all of them.
_TAG_KEYS = ("size", "ETag", "etag", "generation", "ino")


class _OpenedFileSystem(NamedTuple):
    """An fsspec file system, and the path of the store's root in it."""

    file_system: Any
    root: str


class FsspecStorage(ReadOnlyFiles):
    """The files below a URI of an fsspec file system.

    The file system is created at the first access. Its listing cache is disabled, because a table
    may change while it is read.
    """

    def __init__(
        self,
        uri: str,
        options: Mapping[str, str],
        *,
        retry: Retry | None = None,
        connect: Connect = socket.create_connection,
    ) -> None:
        """Create a store without sending a request.

        Args:
            uri: The root of the store.
            options: Arguments of the fsspec file system.
            retry: The retry policy of the run.
            connect: Opens a TCP connection to a host and port, with a timeout in seconds.

        Raises:
            UsageError: If no file system of the scheme is installed, or Hadoop is not configured.
        """
        allow_optional_packages("dateutil", "pytz")
        import fsspec

        remember_secrets({**options, "uri": uri})
        self._uri = uri.rstrip("/")
        self._options = options
        self._retry = retry or Retry()
        self._connect = connect
        self._lock = Lock()
        self._opened: _OpenedFileSystem | None = None
        self._scheme = self._uri.partition("://")[0]
        try:
            fsspec.get_filesystem_class(self._scheme)
        except (ImportError, ValueError) as error:
            raise scheme_unavailable_error(self._scheme) from error

        # libhdfs finds the classes of Hadoop by this variable. Its own message would be a Java stack trace.
        if self._scheme in _HADOOP_SCHEMES and not os.environ.get("CLASSPATH"):
            raise _hadoop_required_error(self._scheme, "the environment variable CLASSPATH is not set")

    @property
    def uri(self) -> str:
        return mask_secrets(self._uri)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(has_cheap_requests=False, parallel_reads=PARALLEL_READS, atomic_create=False)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        entries = self._list_entries(self._full_path(directory))
        files = {_get_name(entry): entry for entry in entries if entry["type"] == "file"}
        for name in sorted(files):
            if name >= start:
                yield FileStat(name, int(files[name]["size"] or 0), _get_modified_ms(files[name]))

    def list_directories(self, directory: str) -> list[str]:
        entries = self._list_entries(self._full_path(directory))
        return sorted(_get_name(entry) for entry in entries if entry["type"] == "directory")

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        """Yield all entries below a directory. Each directory takes one listing."""
        pending = [directory]
        while pending:
            path = pending.pop()
            full_path = self._full_path(path)
            try:
                entries = self._list_entries(full_path)
            except errors.FileMissing:
                if path == directory:
                    raise
                # The directory was deleted after its parent was listed.
                continue

            listing = _classify_entries(path, full_path, entries)
            if listing.walk_entry.names or listing.walk_entry.special:
                yield listing.walk_entry
            pending += [f"{path}/{name}" if path else name for name in enter(path, listing.subdirectories)]

    def read(self, path: str) -> bytes:
        full_path = self._full_path(path)
        return bytes(self._call(lambda: self._file_system.cat_file(full_path), full_path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        full_path = self._full_path(path)
        end = offset + length
        return bytes(self._call(lambda: self._file_system.cat_file(full_path, start=offset, end=end), full_path))

    def open(self, path: str) -> Any:
        """Open a file for random access.

        The reader uses `read_range` instead of fsspec's file object, so that its reads are retried
        and its errors translated.
        """
        size_bytes = self._read_info(path).get("size")
        if size_bytes is None:
            # Some HTTP servers do not report the size before the whole file was sent.
            return io.BytesIO(self.read(path))
        reader = ObjectReader(lambda offset, length: self.read_range(path, offset, length), int(size_bytes), b"", "")
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the interface)
        entry = self._read_info(path)
        values = [str(entry.get(key, "")) for key in _TAG_KEYS]
        return "-".join([*values, str(_get_modified_ms(entry))])

    def kind_of(self, path: str) -> PathKind:
        try:
            entry = self._read_info(path)
        except errors.FileMissing:
            return PathKind.MISSING
        return PathKind.DIRECTORY if entry["type"] == "directory" else PathKind.FILE

    def stat(self, path: str) -> FileStat:
        entry = self._read_info(path)
        if entry["type"] != "file":
            raise errors.FileMissing(f"{mask_secrets(self._full_path(path))} is not a file")
        return FileStat(path.rsplit("/", 1)[-1], int(entry["size"] or 0), _get_modified_ms(entry))

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        from deltacli.core.pools import ThreadPool

        with ThreadPool(PARALLEL_READS) as pool:
            stats = list(pool.map(self._read_size_and_time, paths))
        return [size for size, _ in stats], [modified_ms for _, modified_ms in stats]

    def _read_size_and_time(self, path: str) -> tuple[int, int]:
        """Return size and modification time of a file; (-1, -1) if it is missing, a link, or has no known time."""
        try:
            entry = self._read_info(path)
        except errors.FileMissing:
            return -1, -1
        modified_ms = _get_modified_ms(entry)
        if not _is_regular_file(entry) or not modified_ms:
            return -1, -1
        return int(entry["size"] or 0), modified_ms

    def _refuse(self) -> NoReturn:
        raise no_atomic_create_error(
            self.uri, f"atomic creation is not known to work on {self._scheme}:// through fsspec"
        )

    def _list_entries(self, full_path: str) -> list[dict[str, Any]]:
        """List a directory. The path is that in the file system, not relative to the root."""
        entries: list[dict[str, Any]] = self._call(lambda: self._file_system.ls(full_path, detail=True), full_path)
        return entries

    def _read_info(self, path: str) -> Any:  # Any: a dictionary of fsspec
        full_path = self._full_path(path)
        return self._call(lambda: self._file_system.info(full_path), full_path)

    def _full_path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    @cached_property
    def _file_system(self) -> Any:  # Any: fsspec has no type annotations
        return self._open_file_system().file_system

    @cached_property
    def _root(self) -> str:
        return self._open_file_system().root.rstrip("/")

    def _open_file_system(self) -> _OpenedFileSystem:
        """Return the file system. The first call creates it.

        Raises:
            StorageFailed: If the host does not exist or refuses connections.
        """
        import fsspec

        options = {"use_listings_cache": False, "skip_instance_cache": True, **self._options}
        with self._lock:
            if self._opened is None:
                require_reachable(find_endpoint(self._uri), self.uri, self._connect)
                file_system, root = self._send(lambda: fsspec.core.url_to_fs(self._uri, **options), self.uri)
                self._opened = _OpenedFileSystem(file_system, root)
            return self._opened

    def _call(self, call: Callable[[], Result], full_path: str) -> Result:
        """Call the file system for a path, as `_send` does."""
        return self._send(call, self.uri + full_path.removeprefix(self._root))

    def _send(self, call: Callable[[], Result], uri: str) -> Result:
        """Call the file system, retry temporary errors, and translate errors.

        Args:
            call: Calls fsspec.
            uri: The URI of the file, for error messages.
        """
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
            if missing_library := missing_hadoop_error(self._scheme, fault):
                raise missing_library from None
            error = translate_fsspec_error(fault, uri)
            raise error from error.__cause__


class _DirectoryListing(NamedTuple):
    """The files of a directory, and the names of its subdirectories."""

    walk_entry: WalkEntry
    subdirectories: list[str]


def _classify_entries(path: str, full_path: str, entries: list[dict[str, Any]]) -> _DirectoryListing:
    """Divide the listing of a directory into files, subdirectories and other entries.

    Args:
        path: The path of the directory below the root of the store.
        full_path: Its path in the file system.
        entries: The entries that fsspec lists.
    """
    # Some file systems list the directory itself as well.
    entries_by_name = {_get_name(entry): entry for entry in entries if entry["name"].rstrip("/") != full_path}
    files = {name: entry for name, entry in entries_by_name.items() if _is_regular_file(entry)}
    subdirectories = sorted(name for name, entry in entries_by_name.items() if _is_real_directory(entry))
    special = sorted(entries_by_name.keys() - files.keys() - set(subdirectories))

    sizes = [int(entry["size"] or 0) for entry in files.values()]
    times = [_get_modified_ms(entry) for entry in files.values()]
    # A file without a known time must not look old: vacuum would delete it.
    known_times = times if all(times) else None
    return _DirectoryListing(WalkEntry(path, list(files), sizes, known_times, special), subdirectories)


def _get_name(entry: Mapping[str, Any]) -> str:
    """Return the file name of an entry. fsspec reports the path in the file system."""
    name: str = entry["name"].rstrip("/").rsplit("/", 1)[-1]
    return name


def _is_real_directory(entry: Mapping[str, Any]) -> bool:
    return entry["type"] == "directory" and not entry.get("islink")


def _is_regular_file(entry: Mapping[str, Any]) -> bool:
    return entry["type"] == "file" and not entry.get("islink")


def _get_modified_ms(entry: Mapping[str, Any]) -> int:
    """Return the modification time in epoch milliseconds; 0 if the file system does not report it."""
    for key in _TIME_KEYS:
        value = entry.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


def missing_hadoop_error(scheme: str, error: BaseException) -> errors.UsageError | None:
    """Return the error for a Hadoop library that cannot be loaded; None if `error` has another cause."""
    if scheme not in _HADOOP_SCHEMES:
        return None
    match = _LIBRARY_NOT_LOADED.search(str(error))
    return None if match is None else _hadoop_required_error(scheme, f"{match[1]} cannot be loaded")


def _hadoop_required_error(scheme: str, why: str) -> errors.UsageError:
    return errors.UsageError(
        f"{scheme}:// needs Java and Hadoop on this machine: {why}",
        code="usage.missing-library",
        facts={"needed": "JAVA_HOME for libjvm, HADOOP_HOME for libhdfs, CLASSPATH for the classes of Hadoop"},
        hint='export CLASSPATH="$(hadoop classpath --glob)"',
    )
