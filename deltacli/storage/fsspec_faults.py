"""Translation of errors of file systems behind fsspec. Each cloud's library has its own exceptions, which cannot be
imported here, so errors are classified by their causes: system errors, statuses and names.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from deltacli.arrow.startup import allow_optional_packages
from deltacli.core.errors import CredentialsMissing, FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.core.hints import install_command
from deltacli.storage.base import CONNECT_SECONDS
from deltacli.storage.retry import PASSING_STATUS, tried
from deltacli.storage.secrets import StoreFault

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


def translate(fault: BaseException, place: str) -> StorageFailed:
    """Return the error of deltacli, without secrets, for a fault of a file system."""
    said = StoreFault.of(fault)
    error = _judge(fault, place, said)
    error.facts |= tried(fault)
    error.__cause__ = said
    return error


def _judge(fault: BaseException, place: str, said: StoreFault) -> StorageFailed:
    facts = {"store says": str(said)}
    if isinstance(fault, FileNotFoundError):
        return FileMissing(f"{place} does not exist")
    if isinstance(fault, PermissionError):
        return PermissionRefused("the store refuses access", said_first=f"{place} cannot be read: ", facts=facts)
    if _lacks_credentials(fault):
        return CredentialsMissing("no usable credentials", said_first=f"{place} cannot be read: ", facts=facts)
    if any(type(error).__name__ in _AUTHENTICATION_NAMES for error in _behind(fault)):
        return PermissionRefused("the store refuses access", said_first=f"{place} cannot be read: ", facts=facts)
    if is_unreachable(fault):
        return unreachable(place, facts)
    return StorageFailed(f"{place} cannot be read", facts=facts)


def unreachable(place: str, facts: Mapping[str, str]) -> StorageFailed:
    """Return the error for a store whose host is not found or does not accept connections."""
    return StorageFailed(
        "the endpoint is unreachable",
        said_first=f"{place} cannot be read: ",
        code="storage.unreachable",
        facts=facts,
        hint="check the name of the store, the network and the proxy settings",
    )


def passing(fault: Exception) -> str | None:
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
    """Yield a fault and its causes, up to a depth."""
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


def scheme_unavailable(scheme: str) -> UsageError:
    """Return the error for an unknown scheme, or one whose extra is not installed."""
    if scheme in _EXTRAS:
        extra = _EXTRAS[scheme]
        return UsageError(
            f"{scheme}:// needs the extra {extra!r}, which is not installed",
            code="usage.missing-extra",
            hint=install_command(extra),
        )
    return UsageError(
        f"the scheme {scheme}:// is not supported",
        code="usage.scheme",
        facts={
            "supported": "a path, file://, memory://, s3://, gs://, abfss://, az://, "
            "or any scheme with an installed file system of fsspec"
        },
    )
