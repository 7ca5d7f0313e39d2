"""Answers of the standard library that arrive within a time limit: the whole of them, or what is around their content.

The timeout of a socket is that of each byte, so that a server which sends one at a time has no limit by that.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Any

_MOST_TRAILERS, _LONGEST_TRAILER = 100, 65_536
"""As the standard library limits headers."""


class _TimedRaw(io.RawIOBase):
    """What comes from a socket, within a time limit until `end_limit`."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, seconds: float, now: Callable[[], float]) -> None:
        self._raw, self._socket, self._now = raw, connected, now
        self._usual = connected.gettimeout()
        self._until: float | None = now() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # Any: as in io
        if self._until is not None:
            left = self._until - self._now()
            if left <= 0:
                raise TimeoutError("the answer took too long")
            self._socket.settimeout(left if self._usual is None else min(left, self._usual))
        return self._raw.readinto(buffer)

    @property
    def is_over(self) -> bool:
        return self._until is not None and self._until <= self._now()

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        self._until = self._now() + seconds
        try:
            yield
        finally:
            self.end_limit()

    def end_limit(self) -> None:
        """Leave what follows to the timeout of the socket."""
        self._until = None
        if self._socket.gettimeout() != self._usual:
            self._socket.settimeout(self._usual)

    def close(self) -> None:
        with suppress(OSError):
            self.end_limit()
        self._raw.close()
        super().close()


def timed_answers(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a class of answers that arrive as a whole in so many seconds by a clock, or raise TimeoutError."""

    class Timed(HTTPResponse):
        def __init__(self, connected: socket.socket, *arguments: Any, **named: Any) -> None:  # Any: as there
            super().__init__(connected, *arguments, **named)
            self._timed = _TimedRaw(self.fp.detach(), connected, seconds, now)
            self.fp = io.BufferedReader(self._timed)

        def _read_status(self) -> Any:  # Any: as there
            if self._timed.is_over:  # interim answers come without a pause
                raise TimeoutError("the head of the answer took too long")
            return super()._read_status()  # type: ignore[misc]  # of the standard library

    return Timed


def timed_heads(seconds: float, now: Callable[[], float]) -> type[HTTPResponse]:
    """Return a class of answers whose head, each size of a chunk, and trailers arrive in so many seconds each."""
    base: Any = timed_answers(seconds, now)  # Any: mypy takes no class from a call as a base

    class Timed(base):  # type: ignore[misc]
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

    return Timed
