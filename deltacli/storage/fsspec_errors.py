"""Translate exceptions of fsspec file systems into deltacli's errors.

Each file system raises the exceptions of its own library (aiohttp, paramiko, smbprotocol, …), often
wrapped several times. These libraries are not installed everywhere, so their classes cannot be
imported here. An exception is classified by walking its chain of causes and looking at the standard
exception classes, HTTP statuses and class names in it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from deltacli.core import errors
from deltacli.storage.base import CONNECT_SECONDS
from deltacli.storage.retry import TEMPORARY_STATUSES, describe_attempts
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.secrets import MaskedCause

Connect = Callable[[tuple[str, int], float], Any]  # Any: a socket
"""Opens a TCP connection to a host and port, with a timeout in seconds."""

# Limits the length of a chain of causes, which may be cyclic.
_MAX_CAUSES = 10

_NO_ROUTE_ERRORS = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN}
_BROKEN_CONNECTION_ERRORS = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, TimeoutError)
_BROKEN_CONNECTION_CLASSES = {
    *("ServerDisconnectedError", "ClientPayloadError", "ServiceResponseError", "IncompleteReadError"),
}
_NO_CREDENTIALS_CLASSES = {
    *("CredentialUnavailableError", "DefaultCredentialsError", "RefreshError", "NoCredentialsError"),
}
_NO_CREDENTIALS_PHRASES = ("with credentials", "credentials were not found", "failed to retrieve a token")
_ACCESS_DENIED_CLASSES = {"ClientAuthenticationError"}

_PROXY_VARIABLES = ("https_proxy", "http_proxy", "all_proxy")
_DEFAULT_PORTS = {"sftp": 22, "ssh": 22, "ftp": 21, "http": 80, "https": 443}


def translate_fsspec_error(fault: BaseException, location: str) -> errors.StorageFailed:
    """Return deltacli's error for an exception of a file system. It contains no secrets.

    Args:
        fault: The exception.
        location: The URI of the file.
    """
    cause = MaskedCause.of(fault)
    error = _classify(fault, location, str(cause))
    error.facts |= describe_attempts(fault)
    error.__cause__ = cause
    return error


def _classify(fault: BaseException, location: str, message: str) -> errors.StorageFailed:
    """Return the error for an exception.

    Args:
        fault: The exception.
        location: The URI of the file.
        message: The text of the exception, without secrets.
    """
    facts = {"store says": message}
    preamble = f"{location} cannot be read: "
    if isinstance(fault, FileNotFoundError):
        return errors.FileMissing(f"{location} does not exist")
    if isinstance(fault, PermissionError):
        return errors.PermissionRefused("the store refuses access", preamble=preamble, facts=facts)
    if _lacks_credentials(fault):
        return errors.CredentialsMissing("no usable credentials", preamble=preamble, facts=facts)
    if any(type(error).__name__ in _ACCESS_DENIED_CLASSES for error in _iterate_causes(fault)):
        return errors.PermissionRefused("the store refuses access", preamble=preamble, facts=facts)
    if is_unreachable(fault):
        return _unreachable_error(location, facts)
    return errors.StorageFailed(f"{location} cannot be read", facts=facts)


def _unreachable_error(location: str, facts: Mapping[str, str]) -> errors.StorageFailed:
    """Return the error for a store whose host does not exist or does not accept connections."""
    return errors.StorageFailed(
        "the endpoint is unreachable",
        preamble=f"{location} cannot be read: ",
        code="storage.unreachable",
        facts=facts,
        hint="check the name of the store, the network and the proxy settings",
    )


def find_temporary_fsspec_cause(fault: Exception) -> str | None:
    """Return why an error is temporary, such as `HTTP 503`; None if a retry cannot help."""
    if isinstance(fault, FileNotFoundError | PermissionError) or _lacks_credentials(fault) or is_unreachable(fault):
        return None

    for error in _iterate_causes(fault):
        status = _get_http_status(error)
        if status in TEMPORARY_STATUSES:
            return f"HTTP {status}"
        if isinstance(error, TimeoutError):
            return "no answer in time"
        if isinstance(error, _BROKEN_CONNECTION_ERRORS) or type(error).__name__ in _BROKEN_CONNECTION_CLASSES:
            return "connection broken"
    return None


def read_fsspec_retry_after(fault: Exception) -> float:
    """Return the seconds to wait before a retry, from the `Retry-After` header of the response.

    Returns 0 if the response has no such header, or the exception does not contain the response.
    """
    for error in _iterate_causes(fault):
        # Exceptions of aiohttp have the headers, those of requests and Azure have the response.
        headers = getattr(error, "headers", None) or getattr(getattr(error, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            return read_retry_after({str(name).lower(): str(value) for name, value in headers.items()})
    return 0.0


def require_reachable(endpoint: tuple[str, int] | None, location: str, connect: Connect) -> None:
    """Check that a host exists and accepts connections.

    Some libraries retry for a minute or longer if it does not. A connection that times out is not
    an error here: the library may have a longer timeout.

    Args:
        endpoint: The host and the port; None to check nothing.
        location: The URI of the store, for the error message.
        connect: Opens the connection.

    Raises:
        StorageFailed: If the host does not exist or refuses the connection.
    """
    if endpoint is None:
        return
    try:
        connect(endpoint, CONNECT_SECONDS).close()
    except OSError as error:
        if is_unreachable(error):
            host, port = endpoint
            raise _unreachable_error(location, {"endpoint": f"{host}:{port}", "system says": str(error)}) from error


def find_endpoint(uri: str, environment: Mapping[str, str] = os.environ) -> tuple[str, int] | None:
    """Return the host and the port of a store.

    Returns None if the URI contains no host, the scheme has no known port, or a proxy is configured:
    then the host may only be reachable through the proxy.
    """
    if any(environment.get(name) or environment.get(name.upper()) for name in _PROXY_VARIABLES):
        return None
    try:
        parts = urlsplit(uri)
        default_port = _DEFAULT_PORTS.get(parts.scheme)
        if default_port is None or not parts.hostname:
            return None
        return parts.hostname, parts.port or default_port
    except ValueError:
        # The port is not a number. The file system reports that.
        return None


def is_unreachable(fault: BaseException) -> bool:
    """Return whether a host does not exist, refuses connections, or has no route."""
    return any(
        isinstance(error, socket.gaierror | ConnectionRefusedError)
        or (isinstance(error, OSError) and error.errno in _NO_ROUTE_ERRORS)
        for error in _iterate_causes(fault)
    )


def _lacks_credentials(fault: BaseException) -> bool:
    """Return whether a library found no credentials."""
    for error in _iterate_causes(fault):
        if type(error).__name__ in _NO_CREDENTIALS_CLASSES:
            return True
        message = str(error).lower()
        if any(phrase in message for phrase in _NO_CREDENTIALS_PHRASES):
            return True
    return False


def _iterate_causes(fault: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its cause, the cause of that, and so on."""
    error: BaseException | None = fault
    for _ in range(_MAX_CAUSES):
        if error is None:
            return
        yield error
        # aiohttp stores the error of the system in this attribute, not as the cause.
        os_error = getattr(error, "os_error", None)
        error = os_error if isinstance(os_error, OSError) else error.__cause__ or error.__context__


def _get_http_status(error: BaseException) -> int | None:
    """Return the HTTP status of a library's exception; None if it has none."""
    for name in ("status_code", "status", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int | str) and str(value).isdecimal():
            return int(value)
    return None
