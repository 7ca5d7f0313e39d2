"""Repeating calls of a store: which, for how long, and what is noted meanwhile."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from deltacli.core.errors import StorageFailed
from deltacli.storage import Created, Deleted, Deletion, Failed, Storage, Unknown, open_storage
from deltacli.storage.repeat_condition import repeat_only_while
from deltacli.storage.retry import Retry
from tests.support.clocks import FakeClock
from tests.support.s3 import Fault, S3Server, breaks, says

_BUSY = says("503 SERVICE UNAVAILABLE", "ServiceUnavailable")
_READS: dict[str, Callable[[Storage], object]] = {
    "read": lambda store: store.read("a"),
    "stat": lambda store: store.stat("a"),
    "list_from": lambda store: list(store.list_from("")),
    "walk": lambda store: list(store.walk("", lambda _, names: names)),
}


class Flaky:
    """A call that fails so many times."""

    def __init__(self, faults: int, fault: Exception | None = None, clock: FakeClock | None = None) -> None:
        self.left, self.fault, self.sent, self.clock = faults, fault or ConnectionResetError(), 0, clock

    def __call__(self) -> str:
        self.sent += 1
        if self.left:
            self.left -= 1
            raise self.fault
        return "answer"


def send(retry: Retry, flaky: Flaky, cause: str | None = "HTTP 503", max_attempts: int | None = None) -> str:
    return retry.call(
        flaky, host="s3.example", errors=(OSError,), temporary_cause=lambda _: cause, max_attempts=max_attempts
    )


def test_a_call_is_retried_until_it_succeeds() -> None:
    clock, flaky = FakeClock(), Flaky(8)

    assert "answer" == send(clock.retry(), flaky)
    assert (9, 8) == (flaky.sent, len(clock.waits))
    assert 5 < clock.now < 60


def test_a_call_that_never_succeeds_ends_with_the_retry_budget() -> None:
    clock, flaky = FakeClock(), Flaky(10**9)

    with pytest.raises(ConnectionResetError) as raised:
        send(clock.retry(60), flaky)

    assert 50 < clock.now <= 60
    assert [f"tried: {flaky.sent} times in {clock.now:.0f} s (--retry-budget)"] == raised.value.__notes__


def test_a_busy_host_gets_half_as_many_requests_from_all_threads_and_more_later() -> None:
    clock = FakeClock()
    retry = clock.retry()
    for _ in range(200):  # 100 per second
        send(retry, Flaky(0))
        clock.now += 0.01
    send(retry, Flaky(1))
    busy = clock.now

    for _ in range(50):  # other threads, each for the first time
        send(retry, Flaky(0))
    seconds, later = clock.now - busy, clock.now + 300
    retry.call(Flaky(0), host="other.example", errors=(OSError,), temporary_cause=lambda _: None)
    waits = len(clock.waits)
    clock.now = later
    for _ in range(100):
        send(retry, Flaky(0))

    assert 0.8 < seconds < 1.2
    assert waits == len(clock.waits)


@pytest.mark.parametrize(
    ("budget", "cause", "attempts", "is_stopping"),
    [(0, "HTTP 503", None, False), (60, None, None, False), (60, "HTTP 503", 1, False), (60, "HTTP 503", None, True)],
    ids=["no budget", "not passing", "one attempt", "interrupted"],
)
def test_a_call_is_not_repeated(budget: float, cause: str | None, attempts: int | None, is_stopping: bool) -> None:
    clock, flaky = FakeClock(), Flaky(1)

    with pytest.raises(ConnectionResetError):
        send(clock.retry(budget, is_stopping=lambda: is_stopping), flaky, cause, attempts)

    assert (1, []) == (flaky.sent, clock.waits)


def test_a_lasting_fault_is_noted_within_20_seconds_with_host_and_cause_and_not_too_often() -> None:
    clock, notes = FakeClock(), list[tuple[float, str]]()
    retry = clock.retry(120, note=lambda text: notes.append((clock.now, text)))

    with pytest.raises(ConnectionResetError):
        send(retry, Flaky(10**9))

    first, text = notes[0]
    assert 5 <= first <= 20
    assert "note: s3.example: HTTP 503; retrying each request for up to 120 s" == text
    assert 3 <= len(notes) <= 4


def test_a_short_fault_is_not_noted() -> None:
    clock, notes = FakeClock(), list[str]()
    retry = clock.retry(note=notes.append)

    for _ in range(5):
        send(retry, Flaky(1))
        clock.now += 100

    assert [] == notes


def test_a_request_without_an_answer_is_noted_within_20_seconds() -> None:
    clock, notes = FakeClock(), list[str]()
    retry = Retry(note=notes.append, clock=lambda: clock.now)

    with retry.track_request("s3.example"):
        for clock.now in (5, 14, 16, 20):
            retry.note_slow_request()
    clock.now = 100
    retry.note_slow_request()

    assert ["note: a request to s3.example has been running for 16 s"] == notes


def test_commands_succeed_when_30_percent_of_the_answers_are_503_or_resets(s3: S3Server) -> None:
    bucket, clock, chance = s3.make_bucket(), FakeClock(), random.Random(7)
    s3.put(bucket, "t/a", b"content")

    def sometimes(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if chance.random() < 0.3:
            return chance.choice([_BUSY, breaks])(server, environ, start_response)
        return server.answer(environ, start_response)

    for method in ("GET", "HEAD"):
        s3.fail(method, bucket, *[sometimes] * 1_000)
    storage = open_storage(f"s3://{bucket}/t", retry=clock.retry())

    for _ in range(20):
        for call in _READS.values():
            call(storage)

    s3.forget_faults()
    assert clock.waits


@pytest.mark.parametrize("verb", _READS)
def test_reads_of_s3_are_repeated_within_the_budget(verb: str, s3: S3Server) -> None:
    bucket, clock = s3.make_bucket(), FakeClock()
    storage = open_storage(f"s3://{bucket}/t", retry=clock.retry())
    for method in ("GET", "HEAD"):
        s3.fail(method, bucket, *[_BUSY] * 100)

    with pytest.raises(StorageFailed) as raised:
        _READS[verb](storage)

    s3.forget_faults()
    assert 50 < clock.now <= 60
    assert "(--retry-budget)" in raised.value.facts["tried"]


@pytest.mark.parametrize("fault", [_BUSY, breaks], ids=["503", "reset"])
def test_a_conditional_create_is_never_repeated(fault: Fault, s3: S3Server) -> None:
    bucket, clock = s3.make_bucket(), FakeClock()
    storage = open_storage(f"s3://{bucket}/t", retry=clock.retry())
    storage.put("proved", b"")
    s3.fail("PUT", "/t/new", fault)

    outcome = storage.put_if_absent("new", b"mine")

    assert (Unknown, 1, []) == (type(outcome), s3.asked("PUT", "/t/new"), clock.waits)
    assert Created() == storage.put_if_absent("new", b"mine")


@pytest.mark.parametrize("fault", [ConnectionRefusedError(), socket.gaierror(-2, "Name not known")])
def test_a_host_that_refuses_or_is_not_found_ends_the_run_at_once(
    fault: OSError, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()

    def look_up(*_: object) -> object:
        raise fault

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    with pytest.raises(StorageFailed) as raised:
        open_storage("s3://bucket/t", retry=clock.retry()).read("a")

    assert ("storage.unreachable", []) == (raised.value.code, clock.waits)


def test_missing_credentials_end_the_run_at_once(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")

    with pytest.raises(StorageFailed) as raised:
        open_storage("s3://bucket/t", retry=clock.retry()).read("a")

    assert ("storage.credentials", []) == (raised.value.code, clock.waits)


def test_the_environment_limits_attempts_unless_the_budget_is_set(s3: S3Server) -> None:
    bucket, found = s3.make_bucket(), list[object]()

    for is_explicit in (False, True):
        clock = FakeClock()
        s3.fail("GET", bucket, _BUSY, _BUSY)
        storage = open_storage(f"s3://{bucket}/t", retry=clock.retry(is_explicit=is_explicit))
        try:
            found.append(storage.list_directories("") if is_explicit else list(storage.list_from("")))
        except StorageFailed as failed:
            found.append(failed.code)
        s3.forget_faults()
        s3.put(bucket, "t/a", b"")

    assert ["storage.failed", []] == found


@pytest.mark.parametrize(("faults", "outcome"), [(8, Deleted), (100, Failed)])
def test_a_key_that_no_list_can_name_is_deleted_alone_within_the_budget(
    faults: int, outcome: type[Deletion], s3: S3Server
) -> None:
    bucket, clock = s3.make_bucket(), FakeClock()
    for name in ("plain", "page\fbreak"):
        s3.put(bucket, f"t/{name}", b"")
    storage = open_storage(f"s3://{bucket}/t", retry=clock.retry())
    s3.fail("DELETE", "page", *[_BUSY] * faults)

    (_, plain), (_, odd) = storage.delete_many(["plain", "page\fbreak"])

    s3.forget_faults()
    assert (Deleted(), outcome) == (plain, type(odd))
    assert (1, len(clock.waits) + 1) == (s3.asked("POST", "delete"), s3.asked("DELETE", "page"))
    assert clock.now <= 60
    if isinstance(odd, Failed):
        assert "ServiceUnavailable" in odd.reason
        assert clock.now > 50


def test_a_key_that_no_list_can_name_is_not_sent_after_the_time(s3: S3Server) -> None:
    storage = open_storage(f"s3://{s3.make_bucket()}/t", retry=FakeClock().retry())

    with repeat_only_while(lambda: False):
        [(_, outcome)] = storage.delete_many(["page\fbreak"])

    assert (Failed("the time limit for sending it was reached"), 0) == (outcome, s3.asked("DELETE"))
