"""Streamed answers, whose lines are made in few threads, so that short requests are answered in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse

from deltacli.sharing.server.answers import Answer

THREADS, WAITING_THREADS = 2, 20
"""How many answers make lines at a time: those that take processor time only, and those that wait for other machines.
Every further thread of the first kind delays requests for the version: with ten, the slowest 1 % of them took 105 ms
instead of 50 ms while 200 clients asked."""


class LineStream:
    """Makes the bodies of answers, in a limited number of threads."""

    def __init__(self) -> None:
        self._busy, self._waiting = CapacityLimiter(THREADS), CapacityLimiter(WAITING_THREADS)

    def response(self, answer: Answer) -> StreamingResponse:
        """Return an answer as a response."""
        limiter = self._waiting if answer.waits else self._busy
        return StreamingResponse(_made(iter(answer.parts), limiter), headers=dict(answer.headers))


async def _made(parts: Iterator[bytes], limiter: CapacityLimiter) -> AsyncIterator[bytes]:
    following = partial(next, parts, None)
    while (part := await to_thread.run_sync(following, limiter=limiter)) is not None:
        yield part
