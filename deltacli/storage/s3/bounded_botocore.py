"""The requests of botocore, with answers of limited size: it reads all that comes, however much that is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError, UnknownCredentialError
from urllib3 import exceptions

from deltacli.core.typing import Botocore
from deltacli.storage.objects.bounded_reading import MAX_LISTING_BYTES, MAX_RESPONSE_BYTES, read_up_to


class TooLong(ValueError):
    """An answer that is longer than those of S3."""


class BoundedSession:
    """Sends requests as a session of botocore does. Objects are left for the caller to read, all else is read here."""

    def __init__(self, session: Botocore) -> None:
        self._session = session

    def send(self, request: Any) -> AWSResponse:  # Any: as above
        """Send a request. Raises TooLong, and what botocore raises."""
        is_object = request.stream_output
        request.stream_output = True
        response = self._session.send(request)
        if is_object and response.status_code < 300:
            return response
        limit = MAX_LISTING_BYTES if response.status_code < 300 else MAX_RESPONSE_BYTES
        try:
            content = read_up_to(limit, response.raw.read)
        except exceptions.ReadTimeoutError as error:
            raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
        except exceptions.HTTPError as error:
            raise ConnectionClosedError(endpoint_url=request.url, error=error) from error
        if content is None:
            response.raw.close()
            if response.status_code < 500:  # of the others, the status says enough
                raise TooLong(f"more than {limit:,} bytes, from {urlsplit(request.url).netloc}")
        return _Whole(response, content or b"")

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

    def __init__(self, response: AWSResponse, content: bytes) -> None:
        super().__init__(response.url, response.status_code, response.headers, response.raw)
        self._whole = content

    @property
    def content(self) -> bytes:
        return self._whole
