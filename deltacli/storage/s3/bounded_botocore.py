"""The requests of botocore, with answers of limited size: it reads all that comes, however much that is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError, UnknownCredentialError
from urllib3 import exceptions

from deltacli.core.typing import Botocore
from deltacli.storage.objects.http import LARGEST_ANSWER, LARGEST_LIST, read_up_to


class TooLong(ValueError):
    """An answer that is longer than those of S3."""


class BoundedSession:
    """Sends requests as a session of botocore does. Objects are left for the caller to read, all else is read here."""

    def __init__(self, session: Botocore) -> None:
        self._session = session

    def send(self, request: Any) -> AWSResponse:  # Any: as above
        """Send a request. Raises TooLong, and what botocore raises."""
        is_object, request.stream_output = request.stream_output, True
        answer = self._session.send(request)
        if is_object and answer.status_code < 300:
            return answer
        limit = LARGEST_LIST if answer.status_code < 300 else LARGEST_ANSWER
        try:
            content = read_up_to(limit, answer.raw.read)
        except exceptions.ReadTimeoutError as fault:
            raise ReadTimeoutError(endpoint_url=request.url, error=fault) from fault
        except exceptions.HTTPError as fault:
            raise ConnectionClosedError(endpoint_url=request.url, error=fault) from fault
        if content is None:
            answer.raw.close()
            if answer.status_code < 500:  # of the others, the status says enough
                raise TooLong(f"more than {limit:,} bytes, from {urlsplit(request.url).netloc}")
        return _Whole(answer, content or b"")

    def close(self) -> None:
        self._session.close()


def bound_metadata(session: Botocore) -> None:
    """Make a session read no more of an answer of a metadata server than one has."""
    chain = session.get_component("credential_provider")
    for name, attribute in (("iam-role", "_role_fetcher"), ("container-role", "_fetcher")):
        with suppress(UnknownCredentialError, AttributeError):  # a profile excludes some; no name of them is public
            fetcher = getattr(chain.get_provider(name), attribute)
            fetcher._session = BoundedSession(fetcher._session)


class _Whole(AWSResponse):  # type: ignore[misc]  # botocore has no types
    """An answer whose body was read."""

    def __init__(self, answer: AWSResponse, content: bytes) -> None:
        super().__init__(answer.url, answer.status_code, answer.headers, answer.raw)
        self._whole = content

    @property
    def content(self) -> bytes:
        return self._whole
