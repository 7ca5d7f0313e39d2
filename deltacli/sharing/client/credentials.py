"""Credentials of a profile as headers: a bearer token, a token of an OAuth server, or a user name with its password.

Spec: Profile File Format; OAuth 2.0, Client Credentials Grant.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Protocol
from urllib.parse import quote_plus, urlencode

import orjson

from deltacli.core.clock import Clock
from deltacli.core.errors import UsageError
from deltacli.core.hints import command
from deltacli.core.typing import Json
from deltacli.sharing.client.faults import AccessRefused, invalid
from deltacli.sharing.client.guards import Origin, require_endpoint
from deltacli.sharing.configuration.profiles import CODE, Profile, problems_of

EARLY_MS = 60_000
"""A token is replaced this long before it expires."""
_USUAL_LIFETIME_S = 3_600
_LONGEST_LIFETIME_S = 10 * 365 * 86_400

PostForm = Callable[[str, Mapping[str, str], bytes], bytes]
"""Sends a form to a URL with headers and returns the body of the answer."""


class Credentials(Protocol):
    """Makes the header of a request to the endpoint."""

    def authorization(self) -> str:
        """Return the value of `Authorization`."""

    def renew(self) -> bool:
        """Forget a token that was not accepted; return True where another one can be had."""


@dataclass(frozen=True, slots=True)
class FixedCredentials:
    """The same header for every request."""

    header: str

    def authorization(self) -> str:
        return self.header

    def renew(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "FixedCredentials()"


class OAuthCredentials:
    """Tokens of an OAuth server, each used until shortly before it expires."""

    def __init__(self, fields: Mapping[str, object], post: PostForm, clock: Clock) -> None:
        self._url, _ = require_endpoint(fields.get("tokenEndpoint"), "the tokenEndpoint")
        self._client, self._secret = _text(fields, "clientId"), _text(fields, "clientSecret")
        scope = fields.get("scope")
        self._scope = scope if isinstance(scope, str) and scope else None
        self._post, self._clock, self._lock = post, clock, Lock()
        self._token, self._until_ms = "", 0

    def authorization(self) -> str:
        with self._lock:
            if not self._token or self._clock() >= self._until_ms:
                self._token, self._until_ms = self._fetch()
            return f"Bearer {self._token}"

    def renew(self) -> bool:
        with self._lock:
            self._token = ""
        return True

    def _fetch(self) -> tuple[str, int]:
        form = {"grant_type": "client_credentials"} | ({} if self._scope is None else {"scope": self._scope})
        pair = f"{quote_plus(self._client)}:{quote_plus(self._secret)}".encode()
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        answer = _parse(self._post(self._url, headers, urlencode(form).encode()))
        token, lifetime = answer.get("access_token"), answer.get("expires_in", _USUAL_LIFETIME_S)
        if not isinstance(token, str) or not is_header_text(token):
            raise AccessRefused("the token server of the profile sent no access_token")
        try:
            seconds = min(max(int(lifetime), 0), _LONGEST_LIFETIME_S)
        except (TypeError, ValueError, OverflowError):
            seconds = _USUAL_LIFETIME_S
        return token, self._clock() + max(seconds * 1_000 - EARLY_MS, seconds * 500)


def _parse(body: bytes) -> dict[str, Json]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise invalid("the answer of the token server is not a JSON object")
    return document


def is_header_text(text: str) -> bool:
    """Return True for a text that a header can contain."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"the profile has no {name}", code=CODE)
    return value


def require_usable(profile: Profile, clock: Clock) -> tuple[str, Origin, list[str]]:
    """Return the endpoint of a profile, its origin, and warnings. Raises UsageError for a profile that cannot work."""
    problems = problems_of(profile, clock())
    for problem in problems:
        if problem.is_error:
            raise UsageError(
                f"the profile {profile.path} cannot be used: {problem.message}",
                code=CODE,
                facts={"problem": problem.code},
                hint=command("share profile check", profile.path),
            )
    endpoint, origin = require_endpoint(profile.endpoint)
    return endpoint, origin, [f"{profile.path}: {problem.message}" for problem in problems]


def credentials_of(profile: Profile, post: PostForm, clock: Clock) -> Credentials:
    """Return the credentials of a profile. Raises UsageError for a type that this client does not support."""
    fields = profile.credentials
    match profile.kind:
        case "bearer_token":
            return FixedCredentials(f"Bearer {_text(fields, 'bearerToken')}")
        case "basic":
            pair = f"{_text(fields, 'username')}:{_text(fields, 'password')}".encode()
            return FixedCredentials(f"Basic {base64.b64encode(pair).decode()}")
        case "oauth_client_credentials":
            return OAuthCredentials(fields, post, clock)
    raise UsageError(
        f"the profile {profile.path} has credentials of type {profile.kind[:60]}, which is not supported",
        code=CODE,
        facts={"supported": "bearer_token, oauth_client_credentials, basic"},
    )
