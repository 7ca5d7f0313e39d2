"""Errors of single HTTP requests: what is known about the request, and whether the error is temporary."""

from __future__ import annotations

import re
from enum import Enum, auto

from deltacli.storage.retry import TEMPORARY_STATUSES
from deltacli.storage.secrets import mask_secrets

# The identity of requests without credentials.
ANONYMOUS = "none (anonymous)"

# Codes by which S3, with several statuses, says that it did nothing. No other cloud has them, so
# that they are accepted from each.
THROTTLED = frozenset(
    {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "RequestTimeout"}
)

# Reasons of errors without a status.
UNREACHABLE = "unreachable"
INVALID_REQUEST = "invalid-request"
CONNECT_TIMEOUT = "connect-timeout"
TLS = "tls"

# Bytes of an answer arrived for as long as it may take, and not its end.
TOO_SLOW = "too-slow"

# An unknown authority signed the certificate of the server.
UNTRUSTED = "tls-untrusted"
CERTIFICATES_HINT = "export SSL_CERT_FILE=CERTIFICATES.pem, with that of the authority that signed the server's"

# Codes of OpenSSL: self-signed, also above, and without the certificate of the authority.
_UNKNOWN_AUTHORITY_CODES = (18, 19, 20, 21)

_LONGEST_MESSAGE = 200


class RequestOutcome(Enum):
    """The state of knowledge about a request that failed.

    Attributes:
        ANSWERED: The store answered with an error.
        UNSENT: No connection was made, so nothing was done.
        BROKEN: The connection broke or timed out. The request may have been executed.
        UNEXPECTED: An answer that is not one of the store. The request may have been executed.
    """

    ANSWERED = auto()
    UNSENT = auto()
    BROKEN = auto()
    UNEXPECTED = auto()


class HttpError(Exception):
    """A request that did not do what it was sent for.

    Attributes:
        outcome: What is known about the request.
        message: The words of the store or of the library, without secrets.
        status: The status of the answer; 0 if there is none.
        reason: The store's code for the error, or one of this module's.
        expired: How credentials that have expired are renewed; '' for any other error.
        wait_seconds: How long the server asks to be left alone before the next request.
        is_cut_tls: Whether a TLS connection was closed by the other side before its end.
    """

    def __init__(
        self, outcome: RequestOutcome, message: str, *, status: int = 0, reason: str = "", wait_seconds: float = 0.0
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.status = status
        self.reason = reason
        self.expired = ""
        self.wait_seconds = wait_seconds
        self.is_cut_tls = False

    def as_unsent(self) -> HttpError:
        """Return the same error for a request that has no effect, as if it had not been sent."""
        error = HttpError(
            RequestOutcome.UNSENT, self.message, status=self.status, reason=self.reason, wait_seconds=self.wait_seconds
        )
        error.__notes__ = getattr(self, "__notes__", [])
        return error

    def __str__(self) -> str:
        status = f"HTTP {self.status}" if self.status else ""
        return " ".join(part for part in (status, self.reason, self.message) if part)


class AnswerTooSlow(TimeoutError):
    """An answer did not end in the time that it may take as a whole."""


def shorten_message(text: str) -> str:
    """Return a message on one line of limited length.

    Secrets are removed before it is shortened: half a secret would not be recognized later.
    """
    return " ".join(mask_secrets(text).split())[:_LONGEST_MESSAGE]


def find_temporary_cause(error: Exception) -> str | None:
    """Return the cause of a temporary error; None for a permanent one.

    An unknown host and a refused connection are permanent: the endpoint is wrong, or down. An
    answer that took all of its time and did not end is permanent as well, because the next one may
    take as long. A certificate does not become valid by asking again, but a TLS connection that was
    cut is like any other broken connection.
    """
    if not isinstance(error, HttpError):
        return None
    if error.status in TEMPORARY_STATUSES or error.reason in THROTTLED:
        return f"HTTP {error.status} {error.reason}".rstrip()
    if error.reason == TOO_SLOW:
        return None
    if error.outcome is RequestOutcome.BROKEN:
        is_about_tls = error.reason in (TLS, UNTRUSTED)
        return error.message if not is_about_tls or error.is_cut_tls else None
    return error.message if error.reason == CONNECT_TIMEOUT else None


def convert_urllib3_error(error: Exception) -> HttpError:
    """Return the error for a request to which no complete answer arrived."""
    from urllib3 import exceptions

    cause = error
    while isinstance(cause, exceptions.ProxyError) and isinstance(cause.original_error, Exception):
        cause = cause.original_error

    # No connection was made: nothing was done.
    if isinstance(cause, exceptions.NewConnectionError):
        message = re.sub(r"\[Errno -?\d+\] ", "", str(cause).rpartition(": ")[2])
        return HttpError(RequestOutcome.UNSENT, shorten_message(message), reason=UNREACHABLE)
    if isinstance(cause, exceptions.ConnectTimeoutError):
        return HttpError(RequestOutcome.UNSENT, "no connection in time", reason=CONNECT_TIMEOUT)
    if isinstance(cause, exceptions.LocationParseError | ValueError) and not isinstance(cause, UnicodeError):
        return HttpError(RequestOutcome.UNSENT, shorten_message(str(cause)), reason=INVALID_REQUEST)

    # The request may have been executed.
    if isinstance(cause, exceptions.ReadTimeoutError | TimeoutError):
        reason = TOO_SLOW if _is_too_slow(error) else ""
        return HttpError(RequestOutcome.BROKEN, "no answer in time", reason=reason)
    if isinstance(cause, exceptions.SSLError):
        reason = UNTRUSTED if _is_of_unknown_authority(cause) else TLS
        message = shorten_message(str(cause))
        tls_error = HttpError(RequestOutcome.BROKEN, message, reason=reason)
        # The words of OpenSSL are "EOF occurred in violation of protocol".
        tls_error.is_cut_tls = "EOF" in message
        return tls_error
    return HttpError(RequestOutcome.BROKEN, "connection closed without a complete answer")


def _is_too_slow(error: BaseException) -> bool:
    """Return whether an error of urllib3 comes from an answer that took all of its time."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AnswerTooSlow):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _is_of_unknown_authority(error: Exception) -> bool:
    """Return whether an unknown authority signed the certificate of a server."""
    from ssl import SSLCertVerificationError

    reason = error.args[0] if error.args else None
    return isinstance(reason, SSLCertVerificationError) and reason.verify_code in _UNKNOWN_AUTHORITY_CODES
