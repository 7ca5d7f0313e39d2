"""Size limits for the responses that botocore reads. botocore itself reads responses of any size."""

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
    """A response is longer than any response of S3."""


class BoundedSession:
    """Wraps an HTTP session of botocore. Reads all responses with a limit, except objects, which the caller reads."""

    def __init__(self, session: Botocore) -> None:
        self._session = session

    def send(self, request: Any) -> AWSResponse:  # Any: as above
        """Send a request.

        Raises:
            TooLong: If the response is too long.
            BotoCoreError: If there is no complete response.
        """
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
            # The status of a server error is sufficient to repeat the request.
            if response.status_code < 500:
                raise TooLong(f"more than {limit:,} bytes, from {urlsplit(request.url).netloc}")
        return _BufferedResponse(response, content or b"")

    def close(self) -> None:
        self._session.close()


def bound_metadata(session: Botocore) -> None:
    """Limit the size of responses of the metadata servers that provide credentials."""
    chain = session.get_component("credential_provider")
    for name, attribute in (("iam-role", "_role_fetcher"), ("container-role", "_fetcher")):
        # If a profile is selected, some providers do not exist. The attributes are not public and may change.
        with suppress(UnknownCredentialError, AttributeError):
            fetcher = getattr(chain.get_provider(name), attribute)
            fetcher._session = BoundedSession(fetcher._session)


class _BufferedResponse(AWSResponse):  # type: ignore[misc]  # botocore has no types
    """A response whose body is in memory."""

    def __init__(self, response: AWSResponse, content: bytes) -> None:
        super().__init__(response.url, response.status_code, response.headers, response.raw)
        self._buffered_content = content

    @property
    def content(self) -> bytes:
        return self._buffered_content
