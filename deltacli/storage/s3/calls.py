"""Requests to one bucket of S3: repeated where that is safe, and with their errors translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from deltacli.errors import StorageFailed, UsageError
from deltacli.storage.retry import Retry
from deltacli.storage.s3.options import S3Options, make_client, make_session
from deltacli.storage.tally import S3_PRICES, Call, HostTally

Answer = TypeVar("Answer")

_AWS = re.compile(r"\.(?:amazonaws\.com(?:\.cn)?|api\.aws|c2s\.ic\.gov|sc2s\.sgov\.gov)$")
_CALLS = {
    "ListObjectsV2": Call.LIST,
    "GetObject": Call.GET,
    "HeadObject": Call.HEAD,
    "HeadBucket": Call.HEAD,
    "DeleteObject": Call.DELETE,
    "DeleteObjects": Call.DELETE,
    "AbortMultipartUpload": Call.DELETE,
}
"""Operations that are no PUT."""


class S3Calls:
    """A client that is made on first use, and the policy of its requests. Thread-safe."""

    def __init__(self, uri: str, bucket: str, options: S3Options, retry: Retry) -> None:
        self._uri, self._bucket, self.options, self.retry = uri, bucket, options, retry
        self.payer = {"RequestPayer": "requester"} if options.requester_pays else {}
        self._lock = Lock()
        self._made: Any = None  # Any: botocore makes its classes at run time
        self._session: Any = None  # Any: as above

    @property
    def client(self) -> Any:  # Any: botocore makes its classes at run time
        """Return the client, created on first use."""
        if self._made is None:
            from deltacli.storage.s3.faults import FAULTS, translate_options

            with self._lock:
                if self._made is None:
                    try:
                        self._connect(make_session(self.options))
                    except FAULTS as fault:
                        error = translate_options(fault, self._uri, self.options)
                        raise error from error.__cause__
        return self._made

    def _connect(self, session: Any) -> None:  # Any: a session of botocore's
        made = make_client(self.options, session)
        bound_answers(made)
        count_calls(made, self.retry.tally.of(_host(made), S3_PRICES if is_aws(made) else None))
        self._made, self._session = made, session

    @property
    def bucket(self) -> str:
        return self._bucket

    @property
    def host(self) -> str:
        """Return host and port."""
        return _host(self.client)

    @property
    def is_aws(self) -> bool:
        """Return whether the endpoint is one of AWS itself."""
        return is_aws(self.client)

    def of(self, key: str) -> dict[str, Any]:  # Any: parameters of botocore
        """Return the parameters that name an object."""
        return {"Bucket": self._bucket, "Key": key, **self.payer}

    def ask(self, call: Callable[[Any], Answer], place: str, what: str) -> Answer:  # Any: a client
        """Make a call with retries and translate its errors; `what` could not be done to `place`."""
        from deltacli.storage.s3.faults import FAULTS, passing

        host = self.host  # makes the client: errors of its options are not of the call
        try:
            return self.retry.call(
                lambda: self._send(call),
                host=host,
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
            return self._send(call)

    def _send(self, call: Callable[[Any], Answer]) -> Answer:  # Any: a client
        """Make a call. If the store refuses its credentials, it has done nothing: where the chain has other credentials
        by now, make the call again with those.
        """
        from deltacli.storage.s3.faults import FAULTS, refuses_credentials

        client = self.client
        try:
            return call(client)
        except FAULTS as fault:
            if not refuses_credentials(fault) or not self._has_others(client):
                raise
        return call(self.client)

    def _has_others(self, refused: Any) -> bool:  # Any: a client
        """Return whether there are credentials that differ from those of a client, and use them from now on."""
        from deltacli.storage.s3.faults import FAULTS

        with self._lock:
            if self._made is not refused:
                return True
            try:
                session = make_session(self.options)
                if _key_of(session) in (None, _key_of(self._session)):
                    return False
                self._connect(session)
            except FAULTS:
                return False
        return True

    def translated(self, fault: BaseException, place: str, what: str) -> StorageFailed | UsageError:
        """Return the error of deltacli for a fault."""
        from deltacli.storage.s3.faults import translate

        return translate(fault, place, what, self.options, self.client)


def _key_of(session: Any) -> tuple[str, str | None] | None:  # Any: a session of botocore's
    """Return the access key and the session token of a session; None if it finds no credentials."""
    found = session.get_credentials()
    frozen = found.get_frozen_credentials() if found else None
    return (frozen.access_key, frozen.token) if frozen else None


def is_aws(client: Any) -> bool:  # Any: a botocore client
    """Return whether a client's endpoint is one of AWS itself."""
    return bool(_AWS.search(urlsplit(str(client.meta.endpoint_url)).hostname or ""))


def count_calls(client: Any, tally: HostTally) -> None:  # Any: a botocore client
    """Count each request of a client when it is sent, and the bytes of its answer."""

    def sent(request: Any, event_name: str, **_: object) -> None:  # Any: a request of botocore's
        tally.sent(_CALLS.get(event_name.rpartition(".")[2], Call.PUT), _length(request.headers, "Content-Length"))

    def received(response_dict: Mapping[str, Any] | None = None, **_: object) -> None:  # Any: parts of an answer
        answer = response_dict or {}
        body = answer.get("body")  # of a download, it is read later
        tally.received(len(body) if isinstance(body, bytes) else _length(answer.get("headers", {}), "content-length"))

    client.meta.events.register("before-send.s3", sent)
    client.meta.events.register("response-received.s3", received)


def bound_answers(client: Any) -> None:  # Any: a botocore client
    """Make a client read no more of an answer than one has that is no object; botocore itself reads to the end."""
    from deltacli.storage.s3.sending import BoundedSession

    endpoint = client._endpoint  # nothing public sends its requests
    endpoint.http_session = BoundedSession(endpoint.http_session)


def _length(headers: Mapping[str, Any], name: str) -> int:  # Any: values of headers
    value = headers.get(name, b"0")
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _host(client: Any) -> str:  # Any: a botocore client
    return urlsplit(str(client.meta.endpoint_url)).netloc.rpartition("@")[2]
