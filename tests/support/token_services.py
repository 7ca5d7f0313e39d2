"""The services that make credentials, on loopback: STS of AWS, and the token service of Google."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from tests.support.cloud import Asked, CloudServer, Said
from tests.support.gcs import token_answer

SECRET, SESSION = "a-session-secret-nobody-may-see", "a-session-token-nobody-may-see"
GOOGLE_SECRET = "a-narrow-token-nobody-may-see"
_ANSWER = """\
<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA{number:012d}WXYZ</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>{session}</SessionToken><Expiration>{expires}</Expiration></Credentials>
<PackedPolicySize>7</PackedPolicySize></AssumeRoleResult></AssumeRoleResponse>"""
_PROBLEM = "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>no</Message></Error></ErrorResponse>"


class TokenServices(CloudServer):
    """A server thread. `lifetime_seconds`: what a session gets at the most; sessions begin at `now_ms`."""

    def __init__(self) -> None:
        self.lifetime_seconds = 43_200
        super().__init__()

    def sessions(self) -> list[dict[str, str]]:
        """The parameters of the sessions that were asked for."""
        return [_form(one) for one in self.requests if "AssumeRole" in _form(one).get("Action", "")]

    def boundaries(self) -> list[dict[str, Any]]:
        """The boundaries of the tokens that were asked for."""
        return [json.loads(_form(one)["options"]) for one in self.requests if "options" in _form(one)]

    def answer(self, asked: Asked) -> Said:
        form = _form(asked)
        if form.get("Action") == "AssumeRole":
            seconds = min(int(form["DurationSeconds"]), self.lifetime_seconds)
            moment = datetime.fromtimestamp((self.now_ms or 0) / 1_000 + seconds, UTC)
            number = sum("Action=AssumeRole" in one.body.decode() for one in self.requests)
            text = _ANSWER.format(
                number=number, secret=SECRET, session=SESSION, expires=moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            )
            return Said(200, text.encode(), {"Content-Type": "text/xml"})
        if "subject_token" in form:
            assert form["subject_token"] == "a-wide-token"
            answer = {"access_token": GOOGLE_SECRET, "expires_in": 1_800, "token_type": "Bearer"}
            return Said(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})
        return Said(200, token_answer("a-wide-token"), {"Content-Type": "application/json"})


def sts_problem(status: int, code: str) -> Said:
    """An error of STS."""
    return Said(status, _PROBLEM.format(code=code).encode(), {"Content-Type": "text/xml"})


def _form(asked: Asked) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(asked.body.decode("latin-1")).items()}
