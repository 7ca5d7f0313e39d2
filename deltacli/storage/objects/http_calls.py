"""The calls that Google and Azure have in common, and the repetition of HTTP requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from deltacli.core.errors import StorageFailed
from deltacli.storage.objects.dialect import Dialect, translate_http_error
from deltacli.storage.objects.http import Transport
from deltacli.storage.objects.http_errors import HttpError, find_temporary_cause
from deltacli.storage.retry import Retry

Result = TypeVar("Result")


class HasIdentity(Protocol):
    """Credentials that can be named in messages."""

    @property
    def identity(self) -> str:
        """The account, or the source of the credentials."""


class HttpCalls:
    """The calls of a bucket or a container over a `Transport`, as far as two clouds have them in common.

    Attributes:
        dialect: The words of the store.
        credentials: The credentials in use.
    """

    dialect: Dialect
    credentials: HasIdentity
    uploads = None
    max_attempts = None

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Until the store refuses one.
        self._has_batches = True

    @property
    def endpoint(self) -> str:
        return self._transport.host

    @property
    def identity(self) -> str:
        return self.credentials.identity

    def can_delete_in_bulk(self, _key: str, /) -> bool:
        return self._has_batches

    def translate_error(self, error: HttpError, location: str, verb: str) -> StorageFailed:
        return translate_http_error(error, location, verb, self.dialect, self.endpoint, self.identity)


def repeat_call(
    retry: Retry,
    send: Callable[[], Result],
    *,
    host: str,
    max_attempts: int | None = None,
) -> Result:
    """Return what `send` returns, repeated after temporary errors within the budget of the run.

    If the server asks to be left alone for some time, it is, as long as the budget permits.

    Raises:
        HttpError: The last error.
    """
    return retry.call(
        send,
        host=host,
        errors=(HttpError,),
        temporary_cause=find_temporary_cause,
        max_attempts=max_attempts,
        retry_after=lambda error: error.wait_seconds if isinstance(error, HttpError) else 0.0,
    )
