"""Requests for tokens, which the libraries of the clouds send, with answers of limited size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from deltacli.storage.objects.http import LARGEST_ANSWER


def bounded_session() -> Any:  # Any: a session of requests, an import of 100 ms
    """Return a session of requests that reads no more of an answer, decoded, than one with a token has."""
    import requests
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def build_response(self, req: Any, resp: Any) -> Any:  # Any: of requests
            """Return a response whose body is counted while it is read."""
            answer = super().build_response(req, resp)
            answer.raw = _Counted(resp, requests.exceptions.ContentDecodingError, urlsplit(req.url).netloc)
            return answer

    session = requests.Session()
    session.mount("https://", Adapter())
    session.mount("http://", Adapter())
    return session


class _Counted:
    """A response of urllib3. `error` is raised where it is too long."""

    def __init__(self, found: Any, error: type[Exception], host: str) -> None:  # Any: of urllib3
        self._found, self._error, self._host = found, error, host

    def stream(self, amount: int, decode_content: bool = True) -> Iterator[bytes]:
        """Yield the body in blocks."""
        left = LARGEST_ANSWER
        while block := self._found.read(amount, decode_content=decode_content):
            left -= len(block)
            if left < 0:
                self._found.close()
                raise self._error(f"more than {LARGEST_ANSWER:,} bytes, from {self._host}")
            yield block

    def __getattr__(self, name: str) -> Any:  # Any: of urllib3
        return getattr(self._found, name)
