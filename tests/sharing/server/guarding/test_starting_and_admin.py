"""What the server does not start with, the port for operators, and logs without secrets."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from deltacli.sharing.configuration.secrets import create_token
from deltacli.sharing.configuration.settings import Settings, Tls
from deltacli.sharing.configuration.share_check import refusals_to_start
from deltacli.sharing.server.connections import Metrics
from deltacli.sharing.server.exchange import Scrubbing, scrubbed
from deltacli.sharing.server.services import AdminApplication
from tests.sharing.server.guarding.asgi import Client

TLS = Tls(Path("c"), Path("k"))
OPEN, PLAIN, SELF = "share.unauthenticated", "share.plain-http", "share.self-signed"
HTTPS = "https://share.example.com/delta-sharing"


@pytest.mark.parametrize(
    "settings, is_authenticated, expected",
    [
        (Settings(), True, []),
        (Settings(), False, []),
        (Settings(host="127.9.9.9"), False, []),
        (Settings(host="::1"), False, []),
        (Settings(host="0.0.0.0"), False, [OPEN, PLAIN]),
        (Settings(host="::"), True, [PLAIN]),
        (Settings(host="10.0.0.1", tls=TLS), True, []),
        (Settings(host="10.0.0.1", tls=TLS), False, [OPEN]),
        (Settings(host="share.example.com", tls=Tls(self_signed=True)), True, [SELF]),
        (Settings(host="0.0.0.0", public_url=HTTPS), True, [PLAIN]),
        (Settings(host="0.0.0.0", public_url=HTTPS, behind_proxy=True), True, []),
        (Settings(host="0.0.0.0", public_url="http://x", behind_proxy=True), True, [PLAIN]),
        (Settings(host="0.0.0.0", behind_proxy=True), True, [PLAIN]),
        (Settings(public_url=HTTPS, behind_proxy=True), False, [OPEN]),
        (Settings(public_url="http://localhost:1/x"), False, []),
    ],
)
def test_what_the_server_does_not_start_with(settings: Settings, is_authenticated: bool, expected: list[str]) -> None:
    refusals = refusals_to_start(settings, is_authenticated=is_authenticated)

    assert expected == [refusal.code for refusal in refusals]
    assert all(refusal.message and refusal.hint for refusal in refusals)


def test_the_port_for_operators() -> None:
    reasons: dict[str, str] = {}
    client = Client(AdminApplication(Metrics(), lambda: reasons))

    assert b'{"status": "ok"}\n' == client.get("/healthz").body
    assert 200 == client.get("/readyz").status
    reasons["audit"] = "no space"
    not_ready = client.get("/readyz")
    assert (503, {"status": "not ready", "reasons": {"audit": "no space"}}) == (not_ready.status, not_ready.document)
    assert 200 == client.get("/healthz").status
    metrics = client.get("/metrics")
    assert b"deltacli_share_configuration_current 1.0" in metrics.body
    assert str(len(metrics.body)) == client.send("HEAD", "/metrics").headers["content-length"]
    assert (404, 405) == (client.get("/shares").status, client.send("POST", "/metrics").status)


SECRET = "Zm9vYmFyMTIz"


@pytest.mark.parametrize(
    "text",
    [
        f"GET /shares?pageToken={SECRET}&maxResults=1",
        f"GET /_files/x?sp=r&se=1&sig={SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"{{'authorization': 'bearer {SECRET}'}}",
        f"https://b.s3.amazonaws.com/x?X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}",
        f'{{"nextPageToken":"{SECRET}", "refreshToken": "{SECRET}"}}',
    ],
)
def test_secrets_are_removed_from_logs(text: str) -> None:
    assert SECRET not in scrubbed(text)
    assert "maxResults=1" in scrubbed(text) or "maxResults" not in text


def test_records_are_written_without_tokens_and_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    token = create_token()
    log = logging.getLogger("tests.scrubbing")
    caplog.handler.addFilter(Scrubbing())
    try:
        raise ValueError(f"bad token {token}")
    except ValueError:
        log.exception("request of %s: %s", token, "a\x1b[31mb")
    log.warning("%d", "no number")

    assert token not in caplog.text
    assert "ValueError: bad token dct_…" in caplog.text
    assert "\x1b" not in caplog.text
