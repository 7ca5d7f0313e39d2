"""The requests that Google Cloud Storage and Azure have in common, and the repetition of HTTP requests."""

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
    """Credentials that can be described in messages."""

    @property
    def identity(self) -> str:
        """The account, or the source of the credentials."""


class HttpCalls:
    """Base class of the `ObjectCalls` of Google Cloud Storage and Azure, which send requests with a `Transport`.

    S3 does not use it, because botocore sends its requests.

    Attributes:
        dialect: The error codes and terms of the cloud.
        credentials: The credentials in use.
    """

    dialect: Dialect
    credentials: HasIdentity
    uploads = None
    max_attempts = None

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        # Set to False when the store refuses a bulk deletion.
        self._supports_bulk_deletion = True

    @property
    def endpoint(self) -> str:
        return self._transport.host

    @property
    def identity(self) -> str:
        return self.credentials.identity

    def can_delete_in_bulk(self, _key: str, /) -> bool:
        return self._supports_bulk_deletion

    def translate_error(self, error: HttpError, location: str, verb: str) -> StorageFailed:
        return translate_http_error(error, location, verb, self.dialect, self.endpoint, self.identity)


def repeat_call(
    retry: Retry,
    send: Callable[[], Result],
    *,
    host: str,
    max_attempts: int | None = None,
) -> Result:
    """Send an idempotent request, and repeat it after temporary errors.

    Repeating is safe only for requests that have the same effect if they are executed twice: reads, listings,
    deletions, unconditional writes, and parts of an upload. A conditional creation is not one of them: the second
    request finds the object of the first one and fails, as if another writer had created it.
    `conditional.create_object` sends those.

    Args:
        retry: The retry policy. All requests of a run have one common time budget.
        send: Sends the request once.
        host: The host, whose other requests are slowed down as well if it is overloaded.
        max_attempts: The maximum number of attempts; None for no limit except the budget.

    Returns:
        The result of `send`. If the server sends Retry-After, the next attempt waits as long as it says, within
        the budget.

    Raises:
        HttpError: If the error is permanent, or if the last attempt fails.
    """
    return retry.call(
        send,
        host=host,
        errors=(HttpError,),
        temporary_cause=find_temporary_cause,
        max_attempts=max_attempts,
        retry_after=lambda error: error.wait_seconds if isinstance(error, HttpError) else 0.0,
    )
