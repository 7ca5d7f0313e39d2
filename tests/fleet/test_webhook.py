"""The webhook: what is sent, what is repeated, and what a failure does to a run."""

from __future__ import annotations

import hmac
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from deltacli.cli.app import run
from deltacli.core.errors import UsageError
from deltacli.fleet.policy_file.model import Webhook
from deltacli.fleet.reporting.monitoring import Sender, read_secret
from tests.cli.test_documents import validate
from tests.support.builder import TableBuilder
from tests.support.certificates import certify
from tests.support.waiting import join

SECRET = b"s3cret"


@dataclass
class Receiver:
    """A server that answers with these statuses, one after the other, the last one for ever."""

    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(204, {})])
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    server: HTTPServer = field(init=False)


class Quiet(HTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that turn away are part of the tests."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            found.received.append((self.path, dict(self.headers), content))
            status, headers = found.answers[0] if len(found.answers) == 1 else found.answers.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        found.server = server
        found.url = f"http://127.0.0.1:{server.server_address[1]}/hook?a=1"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        server.shutdown()
        join(thread)


def sender(receiver: Receiver, pauses: list[float], **settings: object) -> Sender:
    webhook = Webhook(receiver.url, **settings)  # type: ignore[arg-type]  # settings of one test
    return Sender(webhook, SECRET, lambda: 5_000, ticks=lambda: sum(pauses), pause=pauses.append)


@pytest.mark.parametrize("after", ["7", "Thu, 01 Jan 1970 00:00:12 GMT"])
def test_requests_are_signed_and_repeated_within_their_budget(receiver: Receiver, after: str) -> None:
    receiver.answers = [(503, {}), (429, {"Retry-After": after}), (200, {})]
    pauses: list[float] = []

    reason = sender(receiver, pauses).send(b"{}", "run-1")

    expected = f"sha256={hmac.new(SECRET, b'5.{}', sha256).hexdigest()}"
    assert (None, [1.0, 7.0]) == (reason, pauses)
    assert [("/hook?a=1", expected, "5", "run-1")] * 3 == [
        (path, headers["X-Deltacli-Signature"], headers["X-Deltacli-Timestamp"], headers["X-Deltacli-Run"])
        for path, headers, _ in receiver.received
    ]


@pytest.mark.parametrize(
    ("answer", "requests", "reason"),
    [
        ((302, {"Location": "http://127.0.0.1:1/"}), 1, "redirects are not followed"),
        ((401, {}), 1, "answered 401"),
        ((500, {}), 4, "answered 500"),
        ((429, {"Retry-After": "3600"}), 1, "answered 429"),
    ],
)
def test_only_what_may_pass_is_repeated(
    receiver: Receiver, answer: tuple[int, dict[str, str]], requests: int, reason: str
) -> None:
    receiver.answers = [answer]
    pauses: list[float] = []

    found = sender(receiver, pauses, retry_budget=10_000).send(b"{}", "run-1")

    assert reason in (found or "")
    assert requests == len(receiver.received)


@pytest.mark.parametrize(
    ("trusted", "host", "reason"),
    [
        (True, "127.0.0.1", None),
        (True, "localhost", "the certificate of localhost is not valid: hostname mismatch"),
        (False, "127.0.0.1", "the certificate of 127.0.0.1 is not valid: unable to get local issuer certificate"),
    ],
)
def test_a_certificate_must_be_of_the_host_and_by_somebody_trusted(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, host: str, reason: str | None
) -> None:
    authority = certify(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    receiver.url = receiver.url.replace("http://127.0.0.1", f"https://{host}")

    found = sender(receiver, [], retry_budget=1_000).send(b"{}", "run-1")

    assert (found or "").lower().startswith(reason or "")
    assert bool(reason) == bool(found)
    assert (0 if reason else 1) == len(receiver.received)


def test_the_secret_comes_from_elsewhere_and_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    (tmp_path / "empty").write_bytes(b"\n")

    assert SECRET == read_secret(Webhook("https://e", secret_file=str(tmp_path / "secret")), {})
    assert SECRET == read_secret(Webhook("https://e", secret_env="S"), {"S": "s3cret"})
    assert read_secret(Webhook("https://e"), {}) is None
    for missing in (
        Webhook("https://e", secret_env="S"),
        Webhook("https://e", secret_file=str(tmp_path / "empty")),
        Webhook("https://e", secret_file=str(tmp_path / "none")),
    ):
        with pytest.raises(UsageError):
            read_secret(missing, {})


def test_a_run_sends_its_summary_and_a_failure_is_told(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    TableBuilder().commits(1).write(tmp_path / "t")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK", "s3cret")
    policy = '[policies.p]\nvacuum = {}\n[groups.g]\npolicy = "p"\ntables = ["t"]\n'
    webhook = f'[webhook]\nurl = "{receiver.url}"\nsecret-env = "HOOK"\nretry-budget = "0s"\n'
    Path("fleet.toml").write_text(policy + webhook)

    refused = run(["fleet", "run"])
    receiver.answers = [(500, {})]
    Path("fleet.toml").write_text(policy.replace("vacuum", "checkpoint") + webhook)
    unsent = run(["fleet", "run"])
    monkeypatch.delenv("HOOK")
    unset = run(["fleet", "run"])

    document = json.loads(receiver.received[0][2])
    validate(document, "fleet-run")
    assert (5, 7, 2, 2) == (refused, unsent, unset, len(receiver.received))
    assert (5, 1) == (document["exit"], document["summary"]["refused"])
    assert "was not sent to the webhook: 127.0.0.1 answered 500" in capfd.readouterr().err
