"""Any file system of fsspec, read-only: object stores, HDFS, SSH, its own `memory://`; and its errors.

Each cloud's library has its own exceptions, which cannot be imported here, so errors are classified by their causes:
system errors, statuses and names.

Read-only.

None of them is verified to create atomically, and fsspec's own exclusive modes check first and then write. A store
becomes writable with a back end of its own that passes the contract tests. Credentials come from the store's own chain.
"""

from __future__ import annotations

import errno
import io
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from threading import Lock
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from deltacli.core import errors
from deltacli.core.lock_free_property import cached_property
from deltacli.core.optional_packages import allow_optional_packages
from deltacli.storage.base import (
    CONNECT_SECONDS,
    PARALLEL_READS,
    Capabilities,
    FileStat,
    PathKind,
    ReadOnlyFiles,
    ShouldDescend,
    WalkEntry,
    no_atomic_create,
)
from deltacli.storage.objects.http import ObjectReader
from deltacli.storage.retry import PASSING_STATUS, Retry, asked_by, tried
from deltacli.storage.secrets import StoreFault, remember_secrets, without_secrets

# -- translation of errors of file systems behind fsspec ---------------------------------------------------------------

Connect = Callable[[tuple[str, int], float], Any]  # Any: a socket, which is closed at once

_DEEPEST_CAUSE = 10
_NO_WAY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN}
_BREAKS = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, TimeoutError)
_BREAK_NAMES = {"ServerDisconnectedError", "ClientPayloadError", "ServiceResponseError", "IncompleteReadError"}
_CREDENTIAL_NAMES = {"CredentialUnavailableError", "DefaultCredentialsError", "RefreshError", "NoCredentialsError"}
_AUTHENTICATION_NAMES = {"ClientAuthenticationError"}
_CREDENTIAL_WORDS = ("with credentials", "credentials were not found", "failed to retrieve a token")

_PROXIES = ("https_proxy", "http_proxy", "all_proxy")
_PORTS = {"sftp": 22, "ssh": 22, "ftp": 21, "http": 80, "https": 443}


def translate_fsspec(fault: BaseException, place: str) -> errors.StorageFailed:
    """Return the error of deltacli, without secrets, for a fault of a file system."""
    said = StoreFault.of(fault)
    error = _judge(fault, place, said)
    error.facts |= tried(fault)
    error.__cause__ = said
    return error


def _judge(fault: BaseException, place: str, said: StoreFault) -> errors.StorageFailed:
    facts = {"store says": str(said)}
    if isinstance(fault, FileNotFoundError):
        return errors.FileMissing(f"{place} does not exist")
    if isinstance(fault, PermissionError):
        return errors.PermissionRefused("the store refuses access", preamble=f"{place} cannot be read: ", facts=facts)
    if _lacks_credentials(fault):
        return errors.CredentialsMissing("no usable credentials", preamble=f"{place} cannot be read: ", facts=facts)
    if any(type(error).__name__ in _AUTHENTICATION_NAMES for error in _behind(fault)):
        return errors.PermissionRefused("the store refuses access", preamble=f"{place} cannot be read: ", facts=facts)
    if is_unreachable(fault):
        return unreachable(place, facts)
    return errors.StorageFailed(f"{place} cannot be read", facts=facts)


def unreachable(place: str, facts: Mapping[str, str]) -> errors.StorageFailed:
    """Return the error for a store whose host is not found or does not accept connections."""
    return errors.StorageFailed(
        "the endpoint is unreachable",
        preamble=f"{place} cannot be read: ",
        code="storage.unreachable",
        facts=facts,
        hint="check the name of the store, the network and the proxy settings",
    )


def passing_fsspec_cause(fault: Exception) -> str | None:
    """Return the cause of a temporary fault; None for a permanent one."""
    if isinstance(fault, FileNotFoundError | PermissionError) or _lacks_credentials(fault) or is_unreachable(fault):
        return None
    for error in _behind(fault):
        if (status := _status(error)) in PASSING_STATUS:
            return f"HTTP {status}"
        if isinstance(error, TimeoutError):
            return "no answer in time"
        if isinstance(error, _BREAKS) or type(error).__name__ in _BREAK_NAMES:
            return "connection broken"
    return None


def asked_by_fsspec(fault: Exception) -> float:
    """Return the seconds for which the server behind a fault asks to be left alone; 0 if its headers are not known."""
    for error in _behind(fault):
        # aiohttp has the headers on its errors, requests and the libraries of Azure have them on the answer.
        headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            return asked_by({str(name).lower(): str(value) for name, value in headers.items()})
    return 0.0


def require_endpoint(endpoint: tuple[str, int] | None, place: str, connect: Connect) -> None:
    """Raise StorageFailed where a store's host is not found or refuses connections, which its library would retry for a
    minute or longer. Timeouts are left to the library.
    """
    if endpoint is None:
        return
    try:
        connect(endpoint, CONNECT_SECONDS).close()
    except OSError as fault:
        if is_unreachable(fault):
            host, port = endpoint
            raise unreachable(place, {"endpoint": f"{host}:{port}", "system says": str(fault)}) from fault


def endpoint_of(uri: str, environment: Mapping[str, str] = os.environ) -> tuple[str, int] | None:
    """Return host and port of a store; None where unknown, or where a proxy is used instead."""
    if any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES):
        return None
    try:
        parts = urlsplit(uri)
        port = _PORTS.get(parts.scheme)
        return (parts.hostname, parts.port or port) if port and parts.hostname else None
    except ValueError:
        return None  # not a number: the file system reports it


def _behind(fault: BaseException) -> Iterator[BaseException]:
    error: BaseException | None = fault
    for _ in range(_DEEPEST_CAUSE):
        if error is None:
            return
        yield error
        inner = getattr(error, "os_error", None)  # aiohttp stores the system error in this attribute
        error = inner if isinstance(inner, OSError) else error.__cause__ or error.__context__


def _lacks_credentials(fault: BaseException) -> bool:
    return any(
        type(error).__name__ in _CREDENTIAL_NAMES or any(word in str(error).lower() for word in _CREDENTIAL_WORDS)
        for error in _behind(fault)
    )


def is_unreachable(fault: BaseException) -> bool:
    """Return whether a host is unknown, refuses connections or has no route: it is wrong, or down."""
    return any(
        isinstance(error, socket.gaierror | ConnectionRefusedError)
        or (isinstance(error, OSError) and error.errno in _NO_WAY)
        for error in _behind(fault)
    )


def _status(fault: BaseException) -> int | None:
    """Return the HTTP status under any of its names in the libraries."""
    for name in ("status_code", "status", "code"):
        value = getattr(fault, name, None)
        if isinstance(value, int | str) and str(value).isdecimal():
            return int(value)
    return None


_EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "wasb": "azure",
    "wasbs": "azure",
}
"""Scheme -> the extra of this package that it needs."""


def require_libraries(scheme: str, *modules: str) -> None:
    """Import libraries of a scheme's extra. Raises UsageError unless they are installed."""
    allow_optional_packages("dateutil", "pytz")  # botocore needs it
    try:
        for name in modules:
            import_module(name)
    except ImportError as fault:
        raise scheme_unavailable(scheme) from fault


def scheme_unavailable(scheme: str) -> errors.UsageError:
    """Return the error for an unknown scheme, or one whose extra is not installed."""
    if scheme in _EXTRAS:
        extra = _EXTRAS[scheme]
        return errors.UsageError(
            f"{scheme}:// needs the extra {extra!r}, which is not installed",
            code="usage.missing-extra",
            hint=errors.install_command(extra),
        )
    return errors.UsageError(
        f"the scheme {scheme}:// is not supported",
        code="usage.scheme",
        facts={
            "supported": "a path, file://, memory://, s3://, gs://, abfss://, az://, "
            "or any scheme with an installed file system of fsspec"
        },
    )


# -- any file system of fsspec -----------------------------------------------------------------------------------------

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
        except (ImportError, ValueError) as fault:
            raise scheme_unavailable(self._scheme) from fault
        if self._scheme in _HADOOP and not os.environ.get("CLASSPATH"):
            raise _without_hadoop(self._scheme, "the environment variable CLASSPATH is not set")

    @property
    def uri(self) -> str:
        return without_secrets(self._uri)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(cheap_listing=False, parallel_reads=PARALLEL_READS, atomic_create=False)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        place = self._at(directory)
        entries = self._ask(lambda: self._fs.ls(place, detail=True), place)
        files = {entry["name"].rstrip("/").rsplit("/", 1)[-1]: entry for entry in entries if entry["type"] == "file"}
        for name in sorted(files):
            if name >= start:
                yield FileStat(name, int(files[name]["size"] or 0), _modified_ms(files[name]))

    def list_directories(self, directory: str) -> list[str]:
        place = self._at(directory)
        entries = self._ask(lambda: self._fs.ls(place, detail=True), place)
        return sorted(entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in entries if entry["type"] == "directory")

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        waiting = [directory]
        while waiting:
            path = waiting.pop()
            place = self._at(path)
            try:
                entries = self._entries(place)
            except errors.FileMissing:
                if path == directory:
                    raise
                continue
            walked, directories = _sort_out(path, place, entries)
            if walked.names or walked.special:
                yield walked
            waiting += [f"{path}/{name}" if path else name for name in enter(path, directories)]

    def read(self, path: str) -> bytes:
        place = self._at(path)
        return bytes(self._ask(lambda: self._fs.cat_file(place), place))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        place = self._at(path)
        return bytes(self._ask(lambda: self._fs.cat_file(place, start=offset, end=offset + length), place))

    def open(self, path: str) -> Any:
        """Later reads use `read_range`, which translates errors and retries temporary ones."""
        place = self._at(path)
        size = self._ask(lambda: self._fs.info(place), place).get("size")
        if size is None:  # its length is known only after reading it to the end
            return io.BytesIO(self.read(path))
        reader = ObjectReader(lambda offset, length: self.read_range(path, offset, length), int(size), b"", "")
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
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
            found = list(pool.map(look, paths))
        return [size for size, _ in found], [modified_ms for _, modified_ms in found]

    def _refuse(self) -> NoReturn:
        raise no_atomic_create(self.uri, f"atomic creation is not known to work on {self._scheme}:// through fsspec")

    def _entries(self, place: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._ask(lambda: self._fs.ls(place, detail=True), place)
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
        place = self._at(path)
        return self._ask(lambda: self._fs.info(place), place)

    def _ask(self, call: Callable[[], Answer], place: str) -> Answer:
        return self._call(call, self.uri + place.removeprefix(self._root))

    def _call(self, call: Callable[[], Answer], place: str) -> Answer:
        host = urlsplit(self.uri).netloc.rpartition("@")[2] or self._scheme
        try:
            return self._retry.call(
                call, host=host, faults=(Exception,), passing=passing_fsspec_cause, asked=asked_by_fsspec
            )
        except Exception as fault:  # noqa: BLE001  (the libraries of stores have no common base exception)
            if missing := unloadable_library(self._scheme, fault):
                raise missing from None
            error = translate_fsspec(fault, place)
            raise error from error.__cause__


def _sort_out(path: str, place: str, entries: list[dict[str, Any]]) -> tuple[WalkEntry, list[str]]:
    """Return the entries of a listing of a directory, and the names of its subdirectories."""
    entries = [entry for entry in entries if entry["name"].rstrip("/") != place]  # not the directory's own marker
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


def unloadable_library(scheme: str, fault: BaseException) -> errors.UsageError | None:
    """Return the error for a fault caused by a missing library; None for any other fault."""
    match = _UNLOADABLE.search(str(fault)) if scheme in _HADOOP else None
    return None if match is None else _without_hadoop(scheme, f"{match[1]} cannot be loaded")


def _without_hadoop(scheme: str, why: str) -> errors.UsageError:
    return errors.UsageError(
        f"{scheme}:// needs Java and Hadoop on this machine: {why}",
        code="usage.missing-library",
        facts={"needed": "JAVA_HOME for libjvm, HADOOP_HOME for libhdfs, CLASSPATH for the classes of Hadoop"},
        hint='export CLASSPATH="$(hadoop classpath --glob)"',
    )
