"""Translation of errors of file systems behind fsspec.

Each cloud's library has exceptions of its own, which cannot be imported here. Errors are classified
by their causes: errors of the system, statuses and names of classes.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from deltacli.core import errors
from deltacli.storage.base import (
    CONNECT_SECONDS,
)
from deltacli.storage.retry import TEMPORARY_STATUSES, describe_attempts
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.secrets import MaskedCause

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


def translate_fsspec(fault: BaseException, location: str) -> errors.StorageFailed:
    """Return the error of deltacli, without secrets, for an error of a file system."""
    message = MaskedCause.of(fault)
    error = _judge(fault, location, message)
    error.facts |= describe_attempts(fault)
    error.__cause__ = message
    return error


def _judge(fault: BaseException, location: str, message: MaskedCause) -> errors.StorageFailed:
    """Return the error for a failure, by its cause."""
    facts = {"store says": str(message)}
    if isinstance(fault, FileNotFoundError):
        return errors.FileMissing(f"{location} does not exist")
    if isinstance(fault, PermissionError):
        return errors.PermissionRefused(
            "the store refuses access", preamble=f"{location} cannot be read: ", facts=facts
        )
    if _lacks_credentials(fault):
        return errors.CredentialsMissing("no usable credentials", preamble=f"{location} cannot be read: ", facts=facts)
    if any(type(error).__name__ in _AUTHENTICATION_NAMES for error in _behind(fault)):
        return errors.PermissionRefused(
            "the store refuses access", preamble=f"{location} cannot be read: ", facts=facts
        )
    if is_unreachable(fault):
        return unreachable(location, facts)
    return errors.StorageFailed(f"{location} cannot be read", facts=facts)


def unreachable(location: str, facts: Mapping[str, str]) -> errors.StorageFailed:
    """Return the error for a store whose host is not found or does not accept connections."""
    return errors.StorageFailed(
        "the endpoint is unreachable",
        preamble=f"{location} cannot be read: ",
        code="storage.unreachable",
        facts=facts,
        hint="check the name of the store, the network and the proxy settings",
    )


def find_temporary_fsspec_cause(fault: Exception) -> str | None:
    """Return the cause of a temporary error; None for a permanent one."""
    if isinstance(fault, FileNotFoundError | PermissionError) or _lacks_credentials(fault) or is_unreachable(fault):
        return None
    for error in _behind(fault):
        if (status := _status(error)) in TEMPORARY_STATUSES:
            return f"HTTP {status}"
        if isinstance(error, TimeoutError):
            return "no answer in time"
        if isinstance(error, _BREAKS) or type(error).__name__ in _BREAK_NAMES:
            return "connection broken"
    return None


def read_fsspec_retry_after(fault: Exception) -> float:
    """Return the seconds for which the server behind an error asks to be left alone; 0 if its headers are not known."""
    for error in _behind(fault):
        # aiohttp has the headers on its errors, requests and the libraries of Azure have them on
        # the answer.
        headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            return read_retry_after({str(name).lower(): str(value) for name, value in headers.items()})
    return 0.0


def require_endpoint(endpoint: tuple[str, int] | None, location: str, connect: Connect) -> None:
    """Raise StorageFailed where a store's host is not found or refuses connections, which its
    library would retry for a minute or longer. Timeouts are left to the library.
    """
    if endpoint is None:
        return
    try:
        connect(endpoint, CONNECT_SECONDS).close()
    except OSError as error:
        if is_unreachable(error):
            host, port = endpoint
            raise unreachable(location, {"endpoint": f"{host}:{port}", "system says": str(error)}) from error


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


def _status(error: BaseException) -> int | None:
    """Return the HTTP status under any of its names in the libraries."""
    for name in ("status_code", "status", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int | str) and str(value).isdecimal():
            return int(value)
    return None
