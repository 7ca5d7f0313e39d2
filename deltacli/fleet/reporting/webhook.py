"""The webhook of a policy file: a signed POST of the summary of a run.

The signature is an HMAC-SHA256 over the timestamp, a full stop and the content, so that a receiver can reject old and
altered requests.
"""

from __future__ import annotations

import hmac
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from deltacli.core.errors import UsageError
from deltacli.core.loopback import is_loopback
from deltacli.core.release import VERSION
from deltacli.fleet.policy_file.model import Webhook
from deltacli.storage.retry import PASSING_STATUS, asked_seconds

_ATTEMPT_SECONDS = 10.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_MOST_ANSWER_BYTES = 65_536
_FAULT = "fleet.webhook"


def read_secret(webhook: Webhook, environment: Mapping[str, str]) -> bytes | None:
    """Return the secret, None where the policy file names none. Raises UsageError where it is missing or empty."""
    if webhook.secret_env is not None:
        place, secret = (
            f"the environment variable {webhook.secret_env}",
            environment.get(webhook.secret_env, "").encode(),
        )
    elif webhook.secret_file is not None:
        place = f"the file {webhook.secret_file}"
        try:
            secret = Path(webhook.secret_file).read_bytes()
        except OSError as fault:
            reason = (fault.strerror or str(fault)).lower()
            raise UsageError(f"the secret of the webhook cannot be read: {place}: {reason}", code=_FAULT) from fault
    else:
        return None
    if not secret.strip():
        raise UsageError(f"the secret of the webhook is missing: {place} is empty or not set", code=_FAULT)
    return secret.rstrip(b"\r\n")


def signature(secret: bytes, timestamp: int, content: bytes) -> str:
    """Return the value of `X-Deltacli-Signature`. `timestamp` is in seconds."""
    return f"sha256={hmac.new(secret, f'{timestamp}.'.encode() + content, sha256).hexdigest()}"


@dataclass(frozen=True)
class Sender:
    """Sends summaries. `clock` returns milliseconds since the epoch, `ticks` seconds."""

    webhook: Webhook
    secret: bytes | None
    clock: Callable[[], int]
    ticks: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def send(self, content: bytes, run: str) -> str | None:
        """Send a summary until it is accepted, and return why it was not; None where it was.

        Redirects are not followed, because the request is signed for one receiver.
        """
        deadline = self.ticks() + self.webhook.retry_budget / 1_000
        wait = _FIRST_PAUSE
        while True:
            left = max(deadline - self.ticks(), 1.0)
            reason, is_temporary, retry_after = self._attempt(content, run, min(left, _ATTEMPT_SECONDS))
            if reason is None or not is_temporary:
                return reason
            wait = max(wait, retry_after)
            if self.ticks() + wait >= deadline:
                return reason
            self.pause(wait)
            wait = min(2 * wait, _LONGEST_PAUSE)

    def _attempt(self, content: bytes, run: str, seconds: float) -> tuple[str | None, bool, float]:
        """Return why the request failed, whether it can be repeated, and after how many seconds."""
        parts = urlsplit(self.webhook.url)
        target = parts._replace(scheme="", netloc="").geturl() or "/"
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port, seconds)
        try:
            connection.connect()
            if parts.scheme == "http" and not is_loopback(str(connection.sock.getpeername()[0])):
                return f"{parts.hostname} is not on loopback", False, 0
            connection.request("POST", target, content, self._headers(content, run))
            answer = connection.getresponse()
            answer.read(_MOST_ANSWER_BYTES)
        except ssl.SSLCertVerificationError as fault:
            return f"the certificate of {parts.hostname} is not valid: {fault.verify_message.rstrip('.')}", False, 0
        except (OSError, HTTPException) as fault:
            return f"{parts.hostname} does not answer: {str(fault).lower() or type(fault).__name__}", True, 0
        finally:
            connection.close()
        if 200 <= answer.status < 300:
            return None, False, 0
        if 300 <= answer.status < 400:
            return f"{parts.hostname} answered {answer.status}, and redirects are not followed", False, 0
        seconds = asked_seconds(answer.getheader("Retry-After", ""), self.clock() / 1_000)
        return f"{parts.hostname} answered {answer.status}", answer.status in PASSING_STATUS, seconds

    @staticmethod
    def _connection(scheme: str, host: str, port: int | None, seconds: float) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=seconds)
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return HTTPSConnection(host, port, timeout=seconds, context=context)

    def _headers(self, content: bytes, run: str) -> dict[str, str]:
        timestamp = self.clock() // 1_000
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"deltacli/{VERSION}",
            "X-Deltacli-Run": run,
            "X-Deltacli-Timestamp": str(timestamp),
        }
        if self.secret is not None:
            headers["X-Deltacli-Signature"] = signature(self.secret, timestamp, content)
        return headers


def make_sender(webhook: Webhook | None, clock: Callable[[], int]) -> Sender | None:
    """Return the sender of a policy file, None where it has no webhook. Raises UsageError."""
    return None if webhook is None else Sender(webhook, read_secret(webhook, os.environ), clock)
