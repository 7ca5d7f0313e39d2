"""The guard around an application: tokens, limits, what is recorded before the first byte, and what is released."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltacli.core.errors import NoSpace
from deltacli.sharing.configuration.recipients import (
    add_recipient,
    add_token,
    remove_recipient,
    revoke_from,
    revoke_tokens,
    rotate_tokens,
)
from deltacli.sharing.configuration.settings import Audit, Limits
from deltacli.sharing.model import Grant
from deltacli.sharing.protocol.parameters import WireError
from deltacli.sharing.server.exchange import AuditFile, note_route
from deltacli.sharing.server.guard import RequestGuard, ServingState
from tests.sharing.server.guarding.asgi import NOW_MS, Answer, Client, make_scope, make_state


class Recorded:
    """An audit log in memory; `is_full`: it fails."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.is_full = False

    def write(self, entry: Any) -> None:
        if self.is_full:
            raise NoSpace("the audit log cannot be written: no space left on device")
        self.entries.append(dict(entry))


class Server:
    """A guarded application that answers with what the caller sees, in parts."""

    def __init__(self, state: ServingState, now_ms: int = NOW_MS) -> None:
        self.state = state
        self.now_ms = now_ms
        self.audit = Recorded()
        self.seconds = 0.0
        self.guard = RequestGuard(
            lambda: self.state, audit=self.audit, clock=lambda: self.now_ms, seconds=lambda: self.seconds
        )
        self.client = Client(self.guard.wrap(self.answer))
        self.parts = [b"one", b"two"]
        self.admitted = 0
        self.held: asyncio.Event | None = None

    async def answer(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        request: Any = SimpleNamespace(scope=scope)
        access = await self.guard.admit(request)
        self.admitted += 1
        note_route(scope, "query", share="s", files=3)
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if self.held is not None:
            await self.held.wait()
        names = [share.name for share in access.catalog.shares]
        self.parts = self.parts or [json.dumps(names).encode()]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for place, part in enumerate(self.parts):
            await send({"type": "http.response.body", "body": part, "more_body": place + 1 < len(self.parts)})


def server(*grants: Grant, **options: Any) -> tuple[Server, str]:
    now_ms = options.pop("now_ms", NOW_MS)
    state, token = make_state(*grants, **options)
    return Server(state, now_ms), token


def refusal(answer: Answer) -> tuple[int, str]:
    assert {"errorCode", "message"} == set(answer.document)
    assert "application/json; charset=utf-8" == answer.headers["content-type"]
    assert answer.is_complete
    return answer.status, answer.document["errorCode"]


def test_a_token_shows_what_is_granted_and_the_rest_is_not_there() -> None:
    made, token = server(Grant("s", "c", "u"))

    answer = made.client.get(token=token)

    assert 200 == answer.status
    access = asyncio.run(made.guard.admit(SimpleNamespace(scope={"headers": bearer(token)})))  # type: ignore[arg-type]
    assert access.catalog.find_table("s", "c", "u") is not None
    assert access.catalog.find_table("s", "c", "t") is None
    assert access.catalog.find_share("other") is None


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"bearer  {token}".encode())]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Basic YTpi")],
        [(b"authorization", b"Bearer wrong")],
        [(b"authorization", b"Bearer \xff\xfe")],
        [(b"authorization", b"Bearer a b")],
        [(b"authorization", b"Bearer " + b"x" * 5_000)],
        [(b"authorization", b"Bearer x"), (b"authorization", b"Bearer y")],
        [(b"authorization", b"")],
    ],
)
def test_a_request_without_a_valid_token_is_401_with_a_challenge(headers: list[tuple[bytes, bytes]]) -> None:
    made, _ = server()

    answer = made.client.send("GET", headers=headers)

    assert (401, "UNAUTHENTICATED") == refusal(answer)
    assert answer.headers["www-authenticate"].startswith('Bearer realm="delta-sharing"')
    assert 0 == made.admitted


def test_an_expired_token_says_so_to_its_owner() -> None:
    made, token = server(expires_ms=NOW_MS)

    answer = made.client.get(token=token)

    assert 401 == answer.status
    assert "expired at 2027-01-15T08:00:00.000Z" in answer.document["message"]


def test_the_token_of_the_configuration_sees_everything() -> None:
    made, _ = server()
    made.state = replace(made.state, configuration=replace(made.state.configuration, bearer_token="old-token"))

    request: Any = SimpleNamespace(scope={"headers": bearer("old-token")})
    access = asyncio.run(made.guard.admit(request))

    assert access.catalog is made.state.configuration.catalog
    assert access.caller == made.guard.readmit(access.caller.name, access.caller.token_epoch).caller
    made.state = replace(made.state, configuration=replace(made.state.configuration, bearer_token="new-token"))
    with pytest.raises(WireError):
        made.guard.readmit(access.caller.name, access.caller.token_epoch)


def test_a_revoked_token_ends_its_own_urls_and_no_others() -> None:
    made, _ = server(Grant("s"), Grant("other"))
    both, second = add_token(made.state.recipients, "acme", NOW_MS, expires_ms=None)
    first = both.items[0].tokens[0]
    made.state = replace(made.state, recipients=both)
    before = [made.guard.readmit("acme", record.epoch).caller.token_id for record in (first, second.record)]

    changed = revoke_from(revoke_tokens(both, "acme", [first.token_id]), "acme", [Grant("other")])
    made.state = replace(made.state, recipients=changed)

    assert [first.token_id, second.record.token_id] == before
    catalog = made.guard.readmit("acme", second.record.epoch).catalog
    assert catalog.find_table("s", "c", "t")
    assert catalog.find_table("other", "c", "t") is None
    for name, at in (("acme", first.epoch), ("acme", 0), ("nobody", 0), ("anonymous", 0), ("bearerToken", 0)):
        with pytest.raises(WireError) as fault:
            made.guard.readmit(name, at)
        assert 403 == fault.value.status


def test_urls_of_a_rotated_token_end_with_its_overlap_and_with_the_recipient() -> None:
    made, _ = server(Grant("s"))
    old = made.state.recipients.items[0].tokens[0]
    rotated, new = rotate_tokens(made.state.recipients, "acme", NOW_MS, expires_ms=None, overlap_ms=100)
    made.state = replace(made.state, recipients=rotated)

    made.now_ms = NOW_MS + 99
    assert old.token_id == made.guard.readmit("acme", old.epoch).caller.token_id
    made.now_ms = NOW_MS + 100
    with pytest.raises(WireError):
        made.guard.readmit("acme", old.epoch)
    assert made.guard.readmit("acme", new.record.epoch)
    made.state = replace(
        made.state, recipients=add_recipient(remove_recipient(rotated, "acme"), "acme", [Grant("s")], NOW_MS)
    )
    with pytest.raises(WireError):
        made.guard.readmit("acme", new.record.epoch)


LIMITS = Limits(body_bytes=10, header_bytes=1_024, body_seconds=1, requests_per_second=0)


@pytest.mark.parametrize(
    "headers, body, expected",
    [
        ([(b"content-length", b"11")], [b"x"], 413),
        ([(b"content-length", b"9" * 40)], [b"x"], 413),
        ([(b"content-length", b"-1")], [b"x"], 413),
        ([], [b"12345", b"67890", b"1"], 413),
        ([], [b"12345", b"67890"], 200),
        ([(b"x", b"y" * 1_100)], [b""], 431),
        ([(b"content-encoding", b"gzip")], [b""], 415),
        ([(b"content-encoding", b"identity")], [b""], 200),
    ],
)
def test_limits_of_a_request(headers: list[tuple[bytes, bytes]], body: list[bytes], expected: int) -> None:
    made, token = server(limits=LIMITS)

    answer = made.client.send("POST", headers=[*bearer(token), *headers], body=body)

    assert expected == answer.status
    assert 200 == expected or refusal(answer)


def test_a_slow_body_is_408() -> None:
    made, token = server(limits=replace(LIMITS, body_seconds=0))

    answer = made.client.send("POST", headers=bearer(token), body=[])

    assert (408, "REQUEST_TIMEOUT") == refusal(answer)


@pytest.mark.parametrize(
    "host, expected", [(b"localhost:8080", 200), (b"127.0.0.1", 200), (b"[::1]:1", 200), (b"evil.example", 421)]
)
def test_another_host_is_refused_where_hosts_are_named(host: bytes, expected: int) -> None:
    made, token = server(allowed_hosts=("localhost", "127.0.0.1", "::1"))

    assert expected == made.client.send("GET", headers=[*bearer(token), (b"host", host)]).status
    assert 421 == made.client.send("GET", headers=bearer(token)).status


def test_the_rate_of_a_recipient_is_limited_and_recovers() -> None:
    made, token = server(limits=Limits(requests_per_second=2))

    codes = [made.client.get(token=token).status for _ in range(5)]
    made.seconds += 0.5
    later = [made.client.get(token=token) for _ in range(2)]

    assert [200, 200, 200, 200, 429] == codes
    assert [200, 429] == [answer.status for answer in later]
    assert "1" == later[1].headers["retry-after"]


def test_running_requests_of_a_recipient_are_limited_and_released_however_they_end() -> None:
    made, token = server(limits=Limits(requests_per_second=0, concurrent_requests=1))

    async def both() -> list[int]:
        made.held = asyncio.Event()
        first = asyncio.create_task(made.client.exchange("GET", headers=bearer(token)))
        await asyncio.sleep(0)
        second = await made.client.exchange("GET", headers=bearer(token))
        made.held.set()
        made.held = None
        return [(await first).status, second.status]

    assert [200, 429] == asyncio.run(both())
    with pytest.raises(OSError, match="the client has gone"):
        made.client.get(token=token, fails_after=1)
    assert 200 == made.client.get(token=token).status


def test_a_request_is_recorded_before_its_first_byte_and_its_end_after_it() -> None:
    made, token = server()

    made.client.get("/x?pageToken=secret", token=token)

    first, last = made.audit.entries
    known = {"event", "recipient", "token", "client", "route", "status", "share", "files", "method"}
    assert {
        "event": "request",
        "recipient": "acme",
        "token": made.state.recipients.items[0].tokens[0].token_id,
        "client": "10.0.0.9",
        "route": "query",
        "status": 200,
        "share": "s",
        "files": 3,
        "method": "GET",
    } == {name: first[name] for name in known}
    assert ("end", first["request"], 6, True) == (last["event"], last["request"], last["bytes"], last["complete"])
    assert "secret" not in json.dumps(made.audit.entries)
    assert token not in json.dumps(made.audit.entries)


def test_a_broken_stream_is_recorded_as_incomplete() -> None:
    made, token = server()
    made.parts = [b"one", b"two", b"three"]

    with pytest.raises(OSError, match="gone"):
        made.client.get(token=token, fails_after=2)

    assert [False] == [entry["complete"] for entry in made.audit.entries if entry["event"] == "end"]


def test_nothing_is_served_that_cannot_be_recorded() -> None:
    made, token = server()
    made.audit.is_full = True

    answer = made.client.get(token=token)

    assert (503, "SERVICE_UNAVAILABLE") == refusal(answer)
    assert b"one" not in answer.body
    assert {"audit"} == set(made.guard.problems)
    assert 401 == made.client.get().status  # says nothing about the shares
    made.audit.is_full = False
    assert 200 == made.client.get(token=token).status
    assert {} == made.guard.problems


def test_a_full_disk_in_the_middle_of_a_stream_keeps_the_stream() -> None:
    made, token = server()

    class FullLater(Recorded):
        def write(self, entry: Any) -> None:
            super().write(entry)
            self.is_full = True

    made.guard.audit = FullLater()

    answer = made.client.get(token=token)

    assert (200, b"onetwo", True) == (answer.status, answer.body, answer.is_complete)


def test_strangers_cannot_fill_the_audit_log() -> None:
    made, _ = server()

    codes = {made.client.get().status for _ in range(100)}
    made.seconds += 2
    made.client.get()

    assert {401} == codes
    assert 21 == len(made.audit.entries)


def test_requests_are_counted_by_route_code_and_recipient() -> None:
    made, token = server()

    made.client.get(token=token)
    made.client.get()

    text = made.guard.metrics.text().decode()
    assert 'deltacli_share_requests_total{code="200",recipient="acme",route="query"} 1.0' in text
    assert 'deltacli_share_requests_total{code="401",recipient="",route="other"} 1.0' in text
    assert 'deltacli_share_sent_bytes_total{route="query"} 6.0' in text
    assert "deltacli_share_running_requests 0.0" in text


def test_a_real_audit_file_gets_the_lines(tmp_path: Path) -> None:
    made, token = server()
    made.guard.audit = AuditFile(Audit(tmp_path / "audit.log"))

    made.client.get(token=token)

    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert ["request", "end"] == [json.loads(line)["event"] for line in lines]


@pytest.mark.parametrize("limit", ["stream_seconds", "stream_idle_seconds"])
def test_an_answer_that_takes_too_long_is_cut_and_does_not_look_complete(
    limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, token = server(limits=Limits(requests_per_second=0, concurrent_requests=1, **{limit: 0}))
    for_ever = asyncio.Event

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await made.guard.admit(SimpleNamespace(scope=scope))  # type: ignore[arg-type]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await for_ever().wait()

    async def never(_: Any = None) -> Any:
        await for_ever().wait()

    guarded = made.guard.wrap(application)
    if limit == "stream_seconds":
        Client(guarded).get(token=token)
    else:
        asyncio.run(guarded(make_scope(headers=bearer(token)), never, never))

    assert caplog.messages[0].startswith("an answer was cut because it took too long: other of acme (")
    ends = [entry for entry in made.audit.entries if entry["event"] == "end"]
    assert [False] == [entry["complete"] for entry in ends]
    assert {} == made.guard.problems


@pytest.mark.parametrize("is_full, status, body", [(False, 200, b"onetwo"), (True, 503, None)])
def test_streams_of_the_framework_are_guarded_too(is_full: bool, status: int, body: bytes | None) -> None:
    from starlette.responses import StreamingResponse

    made, token = server()
    made.audit.is_full = is_full
    read = []

    async def parts() -> Any:
        for part in (b"one", b"two"):
            read.append(part)
            yield part

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await made.guard.admit(SimpleNamespace(scope=scope))  # type: ignore[arg-type]
        await StreamingResponse(parts())(scope, receive, send)

    answer = Client(made.guard.wrap(application)).get(token=token)

    assert status == answer.status
    assert answer.is_complete
    assert body in (answer.body, None)
    assert not is_full or (b"one" not in answer.body and len(read) <= 1)
