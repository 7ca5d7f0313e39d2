"""The errors of the wire: a status, and a JSON object with `errorCode` and `message`.

Clients repeat requests that were answered with 429 or 5xx, the Python client for more than a minute. So everything that
a repetition cannot change is answered with 4xx, faults of the shared table included. Spec: REST APIs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from deltacli.core.errors import DeltacliError, FileMissing, NotATable, PathExternal, StorageFailed, VersionAbsent


class ErrorCode(StrEnum):
    """The value of `errorCode`. The first five are those of the reference server."""

    INVALID = "INVALID_PARAMETER_VALUE"
    MALFORMED = "MALFORMED_REQUEST"
    UNSUPPORTED = "UNSUPPORTED_OPERATION"
    MISSING = "RESOURCE_DOES_NOT_EXIST"
    INTERNAL = "INTERNAL_ERROR"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "PERMISSION_DENIED"
    METHOD = "METHOD_NOT_ALLOWED"
    TOO_LARGE = "REQUEST_TOO_LARGE"
    MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    TOO_MANY = "TOO_MANY_REQUESTS"
    UNAVAILABLE = "SERVICE_UNAVAILABLE"
    TIMEOUT = "REQUEST_TIMEOUT"


class WireError(Exception):
    """An answer other than 200. The message is for the client: it contains no location and no secret."""

    def __init__(self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers: dict[str, str] = dict(headers or {})

    def body(self) -> bytes:
        """Return the body of the answer, in ASCII."""
        return json.dumps({"errorCode": str(self.code), "message": self.message}).encode("ascii")


def invalid(message: str) -> WireError:
    """Return the answer to a parameter with an invalid value."""
    return WireError(400, ErrorCode.INVALID, message)


def malformed(message: str) -> WireError:
    """Return the answer to a request that cannot be parsed."""
    return WireError(400, ErrorCode.MALFORMED, message)


def unsupported(message: str) -> WireError:
    """Return the answer to a request that the table, or its sharing, does not allow."""
    return WireError(400, ErrorCode.UNSUPPORTED, message)


def missing(kind: str, name: str) -> WireError:
    """Return the answer for a share, schema or table that does not exist, or is not granted to the recipient."""
    return WireError(404, ErrorCode.MISSING, f"{kind} {name!r} does not exist, or is not shared with you")


def not_allowed(method: str, allowed: str) -> WireError:
    """Return the answer to a method that a URL does not have."""
    message = f"{method} is not allowed here (expected: {allowed})"
    return WireError(405, ErrorCode.METHOD, message, headers={"Allow": allowed})


def internal() -> WireError:
    """Return the answer to a request that failed because of a bug."""
    return WireError(500, ErrorCode.INTERNAL, "the server failed; its log has the reason")


def of_fault(fault: DeltacliError, table: str) -> WireError:
    """Return the answer to a request that a fault of the shared table prevents, without its location."""
    match fault:
        case VersionAbsent():
            text = f"the log of the table {table} no longer reaches back to this version or time"
            return WireError(400, ErrorCode.INVALID, text)
        case NotATable() | FileMissing():
            status, code, message = 400, ErrorCode.MISSING, "has no data at its location"
        case PathExternal():
            status, code, message = 400, ErrorCode.UNSUPPORTED, "has files outside its own directory"
        case StorageFailed():
            status, code, message = 503, ErrorCode.UNAVAILABLE, "cannot be reached at the moment"
        case _:
            status, code, message = 400, ErrorCode.UNSUPPORTED, "cannot be read"
    text = f"the table {table} {message} ({fault.code}); its provider has to correct this"
    return WireError(status, code, text)
