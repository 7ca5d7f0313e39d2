"""Errors of single HTTP requests.

After an error, two questions decide how to continue. Was the request executed? `RequestOutcome` answers it, and a
conditional creation is repeated only if it was certainly not executed. Is the error temporary?
`find_temporary_cause` answers it, and idempotent requests are repeated after temporary errors.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from deltacli.storage.retry import TEMPORARY_STATUSES
from deltacli.storage.secrets import mask_secrets

# The identity of requests without credentials.
ANONYMOUS = "none (anonymous)"

# Error codes of S3 for throttled requests, which were not executed. Their statuses vary (400, 429, 503). The codes do
# not occur in other clouds, so `find_temporary_cause` accepts them from every cloud.
THROTTLED = frozenset(
    {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "RequestTimeout"}
)

# Reasons of errors without a response.
UNREACHABLE = "unreachable"
INVALID_REQUEST = "invalid-request"
CONNECT_TIMEOUT = "connect-timeout"
TLS = "tls"

# The response did not end within the time limit for a complete response.
TOO_SLOW = "too-slow"

# The certificate of the server is signed by an unknown authority.
UNTRUSTED = "tls-untrusted"
CERTIFICATES_HINT = "export SSL_CERT_FILE=CERTIFICATES.pem, with that of the authority that signed the server's"

# Verification errors of OpenSSL: a self-signed certificate (18), one in the chain (19), or a missing certificate of
# the issuer (20, 21).
_UNKNOWN_AUTHORITY_CODES = (18, 19, 20, 21)

_MAX_MESSAGE_CHARACTERS = 200


class RequestOutcome(Enum):
    """What is known about the execution of a failed request.

    Attributes:
        ANSWERED: The store returned an error. Its status and code say whether the request was executed.
        UNSENT: No connection was made, so the request was not executed.
        BROKEN: The connection broke or timed out. The request may have been executed.
        UNEXPECTED: The response does not come from the store, but for example from a proxy. The request may have
            been executed.
    """

    ANSWERED = auto()
    UNSENT = auto()
    BROKEN = auto()
    UNEXPECTED = auto()


class HttpError(Exception):
    """A failed request.

    Attributes:
        outcome: Whether the request may have been executed.
        message: The message of the store or of the library, without secrets.
        status: The HTTP status; 0 if there is no response.
        reason: The error code of the store, for example "NoSuchKey", or a reason of this module.
        renewal_command: The command that renews expired credentials; '' for other errors.
        wait_seconds: The seconds of the header Retry-After; 0 without it.
        is_cut_tls: True if the peer closed a TLS connection without a closing message.
    """

    def __init__(
        self, outcome: RequestOutcome, message: str, *, status: int = 0, reason: str = "", wait_seconds: float = 0.0
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.status = status
        self.reason = reason
        self.renewal_command = ""
        self.wait_seconds = wait_seconds
        self.is_cut_tls = False

    def as_unsent(self) -> HttpError:
        """Return the same error with the outcome UNSENT.

        For requests without a visible effect, such as a part of an upload that is never completed. Even if such a
        request was executed, no object exists.
        """
        error = HttpError(
            RequestOutcome.UNSENT, self.message, status=self.status, reason=self.reason, wait_seconds=self.wait_seconds
        )
        error.__notes__ = getattr(self, "__notes__", [])
        return error

    def __str__(self) -> str:
        status = f"HTTP {self.status}" if self.status else ""
        return " ".join(part for part in (status, self.reason, self.message) if part)


class AnswerTooSlow(TimeoutError):
    """A response did not arrive completely within its time limit."""


def shorten_message(text: str) -> str:
    """Return a message on one line, with a limited length and without secrets.

    Secrets are masked first, because half a secret would not be recognized after shortening.
    """
    return " ".join(mask_secrets(text).split())[:_MAX_MESSAGE_CHARACTERS]


def find_temporary_cause(error: Exception) -> str | None:
    """Return the cause of a temporary error, for messages; None for a permanent error.

    | error                                                           | temporary |
    |-----------------------------------------------------------------|-----------|
    | status 408, 425, 429, 500, 502, 503, 504, or a throttling code  | yes       |
    | connection broken, no connection in time, no response in time   | yes       |
    | unknown host, connection refused: the endpoint is wrong or down | no        |
    | response exceeds its total time: the next may take as long      | no        |
    | invalid certificate                                             | no        |
    | TLS connection closed by the peer: a broken connection          | yes       |

    Whether a temporary error justifies repeating a request depends on the request: see `http_calls.repeat_call` and
    `dialect.classify_failed_creation`.
    """
    if not isinstance(error, HttpError):
        return None
    if error.status in TEMPORARY_STATUSES or error.reason in THROTTLED:
        return f"HTTP {error.status} {error.reason}".rstrip()
    if error.reason == TOO_SLOW:
        return None
    if error.outcome is RequestOutcome.BROKEN:
        is_tls_error = error.reason in (TLS, UNTRUSTED)
        return error.message if not is_tls_error or error.is_cut_tls else None
    return error.message if error.reason == CONNECT_TIMEOUT else None


def convert_urllib3_error(error: Exception) -> HttpError:
    """Return the error for a request without a complete response."""
    from urllib3 import exceptions

    cause = error
    while isinstance(cause, exceptions.ProxyError) and isinstance(cause.original_error, Exception):
        cause = cause.original_error

    # No connection was made, so the request was not executed.
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
        reason = UNTRUSTED if _has_unknown_authority(cause) else TLS
        message = shorten_message(str(cause))
        tls_error = HttpError(RequestOutcome.BROKEN, message, reason=reason)
        # The message of OpenSSL is "EOF occurred in violation of protocol".
        tls_error.is_cut_tls = "EOF" in message
        return tls_error
    return HttpError(RequestOutcome.BROKEN, "connection closed without a complete answer")


def _is_too_slow(error: BaseException) -> bool:
    """Return whether `AnswerTooSlow` caused an error of urllib3."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AnswerTooSlow):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _has_unknown_authority(error: Exception) -> bool:
    """Return whether the certificate of the server is signed by an unknown authority."""
    from ssl import SSLCertVerificationError

    reason = error.args[0] if error.args else None
    return isinstance(reason, SSLCertVerificationError) and reason.verify_code in _UNKNOWN_AUTHORITY_CODES
