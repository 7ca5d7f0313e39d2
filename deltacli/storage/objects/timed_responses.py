"""Responses of the standard library whose whole, or whose head, has to arrive within a time limit.

The timeout of a socket limits the wait for the next byte. A server that sends one byte every 50
seconds never exceeds it, and would keep a run for ever.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Any

from deltacli.storage.objects.http_errors import AnswerTooSlow

# Limits of the standard library for headers. It has none for trailers.
_MOST_TRAILERS = 100
_LONGEST_TRAILER = 65_536


class _TimedSocketReader(io.RawIOBase):
    """The bytes that come from a socket. Until `end_limit`, they have to come within a time limit."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, seconds: float, now: Callable[[], float]) -> None:
        self._raw = raw
        self._socket = connected
        self._now = now
        self._usual_timeout = connected.gettimeout()
        self._until: float | None = now() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # Any: as in io
        if self._until is not None:
            left = self._until - self._now()
            if left <= 0:
                raise AnswerTooSlow("the answer took too long")
            self._socket.settimeout(left if self._usual_timeout is None else min(left, self._usual_timeout))
        return self._raw.readinto(buffer)

    @property
    def is_over(self) -> bool:
        """Return whether the time is used up."""
        return self._until is not None and self._until <= self._now()

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Let everything that the block reads come within so many seconds."""
        self._until = self._now() + seconds
        try:
            yield
        finally:
            self.end_limit()

    def end_limit(self) -> None:
        """Leave what follows to the timeout of the socket."""
        self._until = None
        if self._socket.gettimeout() != self._usual_timeout:
            self._socket.settimeout(self._usual_timeout)

    def close(self) -> None:
        with suppress(OSError):
            self.end_limit()
        self._raw.close()
        super().close()


def make_timed_response_class(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a class of answers that arrive as a whole in so many seconds by a clock, or raise TimeoutError."""

    class TimedResponse(HTTPResponse):
        def __init__(self, connected: socket.socket, *arguments: Any, **named: Any) -> None:  # Any: as there
            super().__init__(connected, *arguments, **named)
            self._timed = _TimedSocketReader(self.fp.detach(), connected, seconds, now)
            self.fp = io.BufferedReader(self._timed)

        def _read_status(self) -> Any:  # Any: as there
            # Interim answers (1xx) may follow each other without a pause, so that no read waits.
            if self._timed.is_over:
                raise AnswerTooSlow("the head of the answer took too long")
            return super()._read_status()  # type: ignore[misc]  # of the standard library

    return TimedResponse


def make_timed_head_class(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a class of answers whose head, each size of a chunk, and trailers arrive in so many seconds each.

    The content itself has no limit: it may be a file of any size.
    """
    base: Any = make_timed_response_class(seconds, now)  # Any: mypy takes no class from a call as a base

    class TimedHeadResponse(base):  # type: ignore[misc]
        def begin(self) -> None:
            super().begin()
            self._timed.end_limit()

        def _read_next_chunk_size(self) -> Any:  # Any: as there
            with self._timed.limited(seconds):
                return super()._read_next_chunk_size()

        def _read_and_discard_trailer(self) -> None:
            with self._timed.limited(seconds):
                for _ in range(_MOST_TRAILERS):
                    line = self.fp.readline(_LONGEST_TRAILER + 1)
                    if len(line) > _LONGEST_TRAILER:
                        raise HTTPException("a trailer of the answer is too long")
                    if line in (b"", b"\n", b"\r\n"):
                        return
            raise HTTPException("the answer has too many trailers")

    return TimedHeadResponse
