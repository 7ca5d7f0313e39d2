"""Reading no more of an answer than one can have.

A faulty or hostile server may send for ever. Each answer has a limit: what a page, an error or a
token can have at most, the length of the range that was asked for, or the size that an object
declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

# Bytes of an answer without objects and lists: properties, an error, a token.
MAX_RESPONSE_BYTES = 1 << 20

# Bytes of a page of 1,000 names of 1,024 bytes, each byte escaped by six, with their properties.
MAX_LISTING_BYTES = 16 << 20

# Bytes of an object that is sent without its length.
MAX_UNSIZED_OBJECT_BYTES = 128 << 20

# Bytes that memory is taken for before they have arrived.
_MOST_AT_ONCE = 128 << 20


def read_up_to(limit: int, read: Callable[[int], bytes]) -> bytes | None:
    """Return all bytes of a body, or None if it has more than `limit`.

    At most one byte more than the limit is ever in memory: it shows that there is more.

    Args:
        limit: Largest number of bytes.
        read: Returns the next bytes, at most as many as it is given; b"" at the end.
    """
    blocks = list[bytes]()
    left = limit + 1
    while left and (block := read(min(left, _MOST_AT_ONCE))):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks) if left else None


def make_bounded_session() -> Any:  # Any: a session of requests, an import of 100 ms
    """Return a session of requests that reads no more of an answer, decoded, than one with a token has.

    google-auth and azure-identity send their own requests with it, to servers that environment variables may name.
    """
    import requests
    from requests.adapters import HTTPAdapter

    class BoundedAdapter(HTTPAdapter):
        def build_response(self, req: Any, resp: Any) -> Any:  # Any: of requests
            """Return a response whose body is counted while it is read."""
            response = super().build_response(req, resp)
            response.raw = _CountedResponse(resp, requests.exceptions.ContentDecodingError, urlsplit(req.url).netloc)
            return response

    session = requests.Session()
    session.mount("https://", BoundedAdapter())
    session.mount("http://", BoundedAdapter())
    return session


class _CountedResponse:
    """A response of urllib3 that raises `error` if it is too long."""

    def __init__(self, response: Any, error: type[Exception], host: str) -> None:  # Any: of urllib3
        self._response = response
        self._error = error
        self._host = host

    def stream(self, amount: int, decode_content: bool = True) -> Iterator[bytes]:
        left = MAX_RESPONSE_BYTES
        while block := self._response.read(amount, decode_content=decode_content):
            left -= len(block)
            if left < 0:
                self._response.close()
                raise self._error(f"more than {MAX_RESPONSE_BYTES:,} bytes, from {self._host}")
            yield block

    def __getattr__(self, name: str) -> Any:  # Any: of urllib3
        return getattr(self._response, name)
