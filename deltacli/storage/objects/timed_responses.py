"""HTTP responses that must arrive within a time limit.

A socket timeout limits the wait for the next byte only. A faulty or hostile server that sends one byte every 50
seconds never exceeds a timeout of 60 seconds, and the command never ends. The response classes of this module
limit the total time:

    make_timed_response_class    the complete response, for example a token or the JSON of a catalog
    make_timed_head_class        everything except the body, which may be a large file

Both are subclasses of `http.client.HTTPResponse` and override methods that the standard library does not document.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Any

from deltacli.storage.objects.http_errors import AnswerTooSlow

# The limits of `http.client` for headers. It has no limit for trailers.
_MAX_TRAILERS = 100
_MAX_TRAILER_BYTES = 65_536


class _TimedSocketReader(io.RawIOBase):
    """Reads from a socket, with a deadline until `end_limit` is called.

    Before each read, the socket timeout is reduced to the time that remains until the deadline.
    """

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, seconds: float, now: Callable[[], float]) -> None:
        """Create a reader whose deadline begins now.

        Args:
            raw: The file object of the socket.
            connected: The socket.
            seconds: The time until the deadline.
            now: Returns the time in seconds.
        """
        self._raw = raw
        self._socket = connected
        self._now = now
        self._usual_timeout = connected.gettimeout()
        self._deadline: float | None = now() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # Any: as in io
        """Read bytes into the buffer.

        Raises:
            AnswerTooSlow: If the deadline has passed.
            TimeoutError: If no byte arrives before the deadline.
        """
        if self._deadline is not None:
            remaining = self._deadline - self._now()
            if remaining <= 0:
                raise AnswerTooSlow("the answer took too long")
            timeout = remaining if self._usual_timeout is None else min(remaining, self._usual_timeout)
            self._socket.settimeout(timeout)
        return self._raw.readinto(buffer)

    @property
    def is_expired(self) -> bool:
        """Return whether the deadline has passed."""
        return self._deadline is not None and self._deadline <= self._now()

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Set a deadline for the reads within a `with` block."""
        self._deadline = self._now() + seconds
        try:
            yield
        finally:
            self.end_limit()

    def end_limit(self) -> None:
        """Remove the deadline and restore the usual timeout of the socket."""
        self._deadline = None
        if self._socket.gettimeout() != self._usual_timeout:
            self._socket.settimeout(self._usual_timeout)

    def close(self) -> None:
        with suppress(OSError):
            self.end_limit()
        self._raw.close()
        super().close()


def make_timed_response_class(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a response class for connections. A complete response must arrive within the time limit.

    Its reads raise TimeoutError after the limit.

    Args:
        seconds: The time limit. It begins when the request has been sent.
        now: Returns the time in seconds.
    """

    class TimedResponse(HTTPResponse):
        def __init__(self, connected: socket.socket, *arguments: Any, **named: Any) -> None:  # Any: as in http.client
            super().__init__(connected, *arguments, **named)
            self._timed = _TimedSocketReader(self.fp.detach(), connected, seconds, now)
            self.fp = io.BufferedReader(self._timed)

        def _read_status(self) -> Any:  # Any: as in http.client
            # `http.client` skips any number of interim responses (1xx). Those that are in the buffer already are
            # skipped without a read from the socket, so check the deadline here as well.
            if self._timed.is_expired:
                raise AnswerTooSlow("the head of the answer took too long")
            return super()._read_status()  # type: ignore[misc]  # of the standard library

    return TimedResponse


def make_timed_head_class(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a response class for connections, with limits for everything except the bytes of the body.

    The status line and the headers must arrive within the time limit, and so must each chunk size and the trailers
    of a chunked body.

    Args:
        seconds: The time limit for each of these parts.
        now: Returns the time in seconds.
    """
    base: Any = make_timed_response_class(seconds, now)  # Any: mypy accepts no returned class as a base

    class TimedHeadResponse(base):  # type: ignore[misc]
        def begin(self) -> None:
            super().begin()
            self._timed.end_limit()

        def _read_next_chunk_size(self) -> Any:  # Any: as in http.client
            with self._timed.limited(seconds):
                return super()._read_next_chunk_size()

        def _read_and_discard_trailer(self) -> None:
            with self._timed.limited(seconds):
                for _ in range(_MAX_TRAILERS):
                    line = self.fp.readline(_MAX_TRAILER_BYTES + 1)
                    if len(line) > _MAX_TRAILER_BYTES:
                        raise HTTPException("a trailer of the answer is too long")
                    if line in (b"", b"\n", b"\r\n"):
                        return
            raise HTTPException("the answer has too many trailers")

    return TimedHeadResponse
