"""Limits of one request and of one recipient: headers, bodies, rate, concurrency."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any

from deltacli.sharing.configuration.settings import Limits
from deltacli.sharing.server.guarding.refusals import (
    body_too_large,
    body_too_slow,
    encoding_refused,
    headers_too_large,
    host_refused,
    too_many,
)

Message = MutableMapping[str, Any]  # Any: ASGI
Receive = Callable[[], Awaitable[Message]]
Headers = Iterable[tuple[bytes, bytes]]

_BURST_SECONDS = 2
_MOST_IDLE = 10_000


def check_headers(headers: Headers, limits: Limits, allowed_hosts: tuple[str, ...] = ()) -> None:
    """Raise WireError for headers that are too large, a compressed or announced too large body, another host."""
    found = list(headers)
    if sum(len(name) + len(value) + 4 for name, value in found) > limits.header_bytes:
        raise headers_too_large(limits.header_bytes)
    hosts = [value for name, value in found if name == b"host"]
    if allowed_hosts and [_host_of(host) in allowed_hosts for host in hosts] != [True]:
        raise host_refused()
    for name, value in found:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise encoding_refused(value.decode("latin-1"))
        if name == b"content-length" and (not value.isdigit() or int(value[:19]) > limits.body_bytes):
            raise body_too_large(limits.body_bytes)


def _host_of(host: bytes) -> str:
    """Return the name or address of a Host header, without the port."""
    text = host.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def limited_body(receive: Receive, limits: Limits) -> Receive:
    """Return a `receive` that raises WireError for a body that is too large or too slow, also for a chunked one.

    The time counts from the first call, and only until the body is complete.
    """
    taken = 0
    deadline: float | None = None
    is_complete = False

    async def receive_limited() -> Message:
        nonlocal taken, deadline, is_complete
        if is_complete:
            return await receive()
        now = asyncio.get_running_loop().time()
        deadline = now + limits.body_seconds if deadline is None else deadline
        try:
            message = await asyncio.wait_for(receive(), max(deadline - now, 0))
        except TimeoutError:
            raise body_too_slow(limits.body_seconds) from None
        taken += len(message.get("body", b""))
        if taken > limits.body_bytes:
            raise body_too_large(limits.body_bytes)
        is_complete = not message.get("more_body", False)
        return message

    return receive_limited


class Allowance:
    """How much one recipient has left: requests in this moment, and requests at once."""

    __slots__ = ("at", "running", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at
        self.running = 0


class RecipientLimits:
    """Rate and concurrency of each recipient, in one process. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}

    def enter(self, name: str, limits: Limits) -> Callable[[], None]:
        """Count a request of a recipient and return a function that ends it; further calls of that do nothing.

        Raises WireError where the recipient asks too often or has too many requests running.
        """
        allowance = self._refilled(name, limits)
        if limits.concurrent_requests and allowance.running >= limits.concurrent_requests:
            raise too_many(f"{allowance.running} are running (limit: {limits.concurrent_requests})", 1)
        if limits.requests_per_second:
            if allowance.tokens < 1:
                raise too_many(f"more than {limits.requests_per_second} per second", 1)
            allowance.tokens -= 1
        allowance.running += 1
        has_ended = False

        def leave() -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                allowance.running -= 1

        return leave

    def running(self) -> int:
        """Return how many requests are running."""
        return sum(allowance.running for allowance in self._allowances.values())

    def _refilled(self, name: str, limits: Limits) -> Allowance:
        now = self._clock()
        most = float(limits.requests_per_second * _BURST_SECONDS)
        allowance = self._allowances.get(name)
        if allowance is None:
            if len(self._allowances) >= _MOST_IDLE:
                self._forget_idle()
            allowance = self._allowances[name] = Allowance(most, now)
        allowance.tokens = min(most, allowance.tokens + (now - allowance.at) * limits.requests_per_second)
        allowance.at = now
        return allowance

    def _forget_idle(self) -> None:
        for name in [name for name, one in self._allowances.items() if not one.running]:
            with suppress(KeyError):
                del self._allowances[name]
