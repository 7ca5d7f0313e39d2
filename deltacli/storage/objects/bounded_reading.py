"""Size limits for responses.

A faulty or hostile server may send an endless response, which would fill the memory. So every response has a limit:
the largest possible error, token or page of a listing, the length of the requested range, or the declared size of
an object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

# Limit for responses with properties, an error or a token.
MAX_RESPONSE_BYTES = 1 << 20

# Limit for a page of a listing: 1,000 names of 1,024 bytes. JSON and XML may escape a byte with six. The rest is for
# properties.
MAX_LISTING_BYTES = 16 << 20

# Limit for an object whose response declares no length.
MAX_UNSIZED_OBJECT_BYTES = 128 << 20

# Largest read. More memory is not allocated before the bytes have arrived.
_MAX_READ_BYTES = 128 << 20


def read_up_to(limit: int, read: Callable[[int], bytes]) -> bytes | None:
    """Return the bytes of a body, or None if it has more than `limit` bytes.

    Args:
        limit: The maximum number of bytes.
        read: Reads the next bytes of the body. Its argument is the maximum number of bytes; it returns b"" at the end.
    """
    blocks = list[bytes]()
    # Read one byte more than the limit, which shows that the body is too long.
    remaining = limit + 1
    while remaining and (block := read(min(remaining, _MAX_READ_BYTES))):
        blocks.append(block)
        remaining -= len(block)
    return b"".join(blocks) if remaining else None


def make_bounded_session() -> Any:  # Any: a session of requests, an import of 100 ms
    """Return a session of the library requests whose responses have at most `MAX_RESPONSE_BYTES` when decoded.

    google-auth and azure-identity request tokens with this session. Environment variables can direct these requests
    to any server.
    """
    import requests
    from requests.adapters import HTTPAdapter

    class BoundedAdapter(HTTPAdapter):
        def build_response(self, req: Any, resp: Any) -> Any:  # Any: of requests
            """Return a response that counts the bytes of its body while they are read."""
            response = super().build_response(req, resp)
            response.raw = _LimitedResponse(resp, requests.exceptions.ContentDecodingError, urlsplit(req.url).netloc)
            return response

    session = requests.Session()
    session.mount("https://", BoundedAdapter())
    session.mount("http://", BoundedAdapter())
    return session


class _LimitedResponse:
    """Wraps a response of urllib3, and raises `error` after `MAX_RESPONSE_BYTES`."""

    def __init__(self, response: Any, error: type[Exception], host: str) -> None:  # Any: of urllib3
        self._response = response
        self._error = error
        self._host = host

    def stream(self, amount: int, decode_content: bool = True) -> Iterator[bytes]:
        remaining = MAX_RESPONSE_BYTES
        while block := self._response.read(amount, decode_content=decode_content):
            remaining -= len(block)
            if remaining < 0:
                self._response.close()
                raise self._error(f"more than {MAX_RESPONSE_BYTES:,} bytes, from {self._host}")
            yield block

    def __getattr__(self, name: str) -> Any:  # Any: of urllib3
        return getattr(self._response, name)
