"""Requests to one bucket of S3: repeated where that is safe, and with their errors translated."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from deltacli.errors import StorageFailed, UsageError
from deltacli.storage.retry import Retry
from deltacli.storage.s3.options import S3Options, make_client

Answer = TypeVar("Answer")


class S3Calls:
    """A client that is made on first use, and the policy of its requests. Thread-safe."""

    def __init__(self, uri: str, bucket: str, options: S3Options, retry: Retry) -> None:
        self._uri, self._bucket, self.options, self.retry = uri, bucket, options, retry
        self.payer = {"RequestPayer": "requester"} if options.requester_pays else {}
        self._lock = Lock()
        self._made: Any = None  # Any: botocore makes its classes at run time

    @property
    def client(self) -> Any:  # Any: botocore makes its classes at run time
        """Return the client, created on first use."""
        if self._made is None:
            from deltacli.storage.s3.faults import FAULTS, translate_options

            with self._lock:
                if self._made is None:
                    try:
                        self._made = make_client(self.options)
                    except FAULTS as fault:
                        error = translate_options(fault, self._uri, self.options)
                        raise error from error.__cause__
        return self._made

    @property
    def host(self) -> str:
        """Return host and port."""
        return urlsplit(str(self.client.meta.endpoint_url)).netloc.rpartition("@")[2]

    def of(self, key: str) -> dict[str, Any]:  # Any: parameters of botocore
        """Return the parameters that name an object."""
        return {"Bucket": self._bucket, "Key": key, **self.payer}

    def ask(self, call: Callable[[Any], Answer], place: str, what: str) -> Answer:  # Any: a client
        """Make a call with retries and translate its errors; `what` could not be done to `place`."""
        from deltacli.storage.s3.faults import FAULTS, passing

        client = self.client
        try:
            return self.retry.call(
                lambda: call(client),
                host=self.host,
                faults=FAULTS,
                passing=passing,
                max_attempts=None if self.retry.is_explicit else self.options.max_attempts,
            )
        except FAULTS as fault:
            error = self.translated(fault, place, what)
            raise error from error.__cause__

    def once(self, call: Callable[[Any], Answer]) -> Answer:  # Any: a client
        """Make a call once, and raise its errors as they are."""
        with self.retry.watched(self.host):
            return call(self.client)

    def translated(self, fault: BaseException, place: str, what: str) -> StorageFailed | UsageError:
        """Return the error of deltacli for a fault."""
        from deltacli.storage.s3.faults import translate

        return translate(fault, place, what, self.options, self.client)
