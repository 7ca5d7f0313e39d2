"""Servers that send a little all the time: every wait has an end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from deltacli.sharing.client.faults import AnswerBroken, AnswerLimits, ServerUnavailable, origin_of
from deltacli.sharing.client.transport import FixedCredentials, Reply, Request, Transport
from deltacli.sharing.conformance.wire import Budget, BudgetSpentError, Wire, WireRequest
from deltacli.storage.retry import Retry
from tests.support.slow_answers import (
    endless_trailers,
    interim,
    serving,
    unfinished_head,
    unfinished_size_of_a_chunk,
    unfinished_trailer,
)


@pytest.mark.parametrize("answer", [interim, unfinished_head])
def test_a_head_that_never_ends_is_an_error(answer: Callable[[socket.socket], None]) -> None:
    with serving(answer) as url:
        origin = origin_of(urlsplit(url))
        assert origin is not None
        transport = Transport(url, origin, retry=Retry(0), limits=AnswerLimits(head_seconds=0.05))
        transport.credentials = FixedCredentials("Bearer t")

        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            transport.document(Request("GET", "/shares"))


@pytest.mark.parametrize("answer", [endless_trailers, unfinished_trailer, unfinished_size_of_a_chunk])
def test_the_framing_of_a_body_that_never_ends_is_an_error(answer: Callable[[socket.socket], None]) -> None:
    with serving(answer) as url:
        origin = origin_of(urlsplit(url))
        assert origin is not None
        transport = Transport(url, origin, retry=Retry(0), limits=AnswerLimits(head_seconds=0.3))
        transport.credentials = FixedCredentials("Bearer t")

        with pytest.raises(AnswerBroken, match="broke off"):
            transport.document(Request("GET", "/shares"))


def test_the_body_of_an_error_is_not_read_for_ever() -> None:
    response = SimpleNamespace(status=400, headers={}, read1=lambda _: b" ")
    seconds = count()

    found = Reply(response, AnswerLimits(), lambda: float(next(seconds))).head(64 << 10)

    assert len(found) < 100


class _Drips:
    """A pool whose answers never end, and of one server that asks for a break of no number of seconds."""

    headers: ClassVar[dict[str, str]] = {}
    status, closed = 200, True

    def request(self, *_: object, **__: object) -> _Drips:
        return self

    def read1(self, _: int, *, decode_content: bool) -> bytes:
        return b" " if decode_content else b""

    def release_conn(self) -> None:
        """Nothing is held."""


def test_the_time_of_a_conformance_run_ends_in_the_middle_of_an_answer() -> None:
    seconds = count()
    wire = Wire(
        "http://127.0.0.1:1",
        lambda: "",
        Budget(10, 60.0),
        sleep=lambda _: None,
        clock=lambda: float(next(seconds)),
        pool=_Drips(),
    )

    with pytest.raises(BudgetSpentError, match="60 seconds"):
        wire.send(WireRequest("shares"))


@pytest.mark.parametrize("text", ["nan", "-5", "1e9", "Fri, 31 Dec 2999 23:59:59 GMT", "\u0664"])
def test_a_break_that_is_not_a_number_of_seconds_takes_one(text: str) -> None:
    class Busy(_Drips):
        headers: ClassVar = {"Retry-After": text}
        status = 429

        def read1(self, _: int, *, decode_content: bool) -> bytes:  # noqa: ARG002  (as there)
            return b""

    waited: list[float] = []
    wire = Wire("http://127.0.0.1:1", lambda: "", Budget(10), sleep=waited.append, clock=lambda: 0.0, pool=Busy())

    wire.send(WireRequest("shares"))

    assert {1.0} == set(waited)
