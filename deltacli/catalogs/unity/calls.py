"""Requests to a Unity Catalog: each sent once, with a token for its own origin only; what its errors say.

No redirect is followed, answers are bounded in bytes and in time, and no library repeats anything.

Spec: Unity Catalog API, errors; OAuth 2.0, Client Credentials Grant.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from threading import Lock
from typing import NamedTuple, Protocol
from urllib.parse import quote, quote_plus, urlencode, urlsplit

import orjson

from deltacli.catalogs.unity.addresses import DATABRICKS_HOST, ENDPOINT, CatalogProfile, is_header_text
from deltacli.core import errors
from deltacli.core.hosts import is_loopback
from deltacli.core.machine import Clock, system_clock
from deltacli.core.typing import Json, JsonObject
from deltacli.storage.listing_limit import get_answer_limit_seconds
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.http import HttpResponse, Request, Transport
from deltacli.storage.objects.http_calls import repeat_call
from deltacli.storage.objects.http_errors import (
    CERTIFICATES_HINT,
    TOO_SLOW,
    UNTRUSTED,
    HttpError,
    RequestOutcome,
    shorten_message,
)
from deltacli.storage.retry import TEMPORARY_STATUSES, Retry, describe_attempts
from deltacli.storage.retry_after import read_retry_after
from deltacli.storage.secrets import MaskedCause, remember_secrets
from deltacli.storage.tally import Call

MAX_RESPONSE_BYTES = 64 << 20
BODY_SECONDS = 300.0
"""Most seconds of one answer, however large the retry budget is."""
_LONGEST_ASKED_S = 3_600.0
_EARLY_MS = 30_000
_USUAL_LIFETIME_S, _LONGEST_LIFETIME_S = 3_600, 30 * 86_400
_REASON_OF_PRIVILEGE = ("UNITY_CATALOG_EXTERNAL_", "EXTERNAL_")

_KINDS = {
    **dict.fromkeys(("CATALOG_NOT_FOUND", "CATALOG_DOES_NOT_EXIST"), "NoSuchCatalog"),
    **dict.fromkeys(("SCHEMA_NOT_FOUND", "SCHEMA_DOES_NOT_EXIST"), "NoSuchSchema"),
    **dict.fromkeys(("TABLE_NOT_FOUND", "TABLE_DOES_NOT_EXIST"), "NoSuchTable"),
    "PERMISSION_DENIED": "PermissionDenied",
    "UNAUTHENTICATED": "NotAuthorized",
    **dict.fromkeys(("INVALID_ARGUMENT", "INVALID_PARAMETER_VALUE"), "InvalidParameterValue"),
    "RESOURCE_EXHAUSTED": "ResourceExhausted",
    "COMMIT_VERSION_CONFLICT": "CommitVersionConflict",
}
"""Codes of older paths -> the names that the Delta API has for them."""


class Refusal(NamedTuple):
    """What an answer without success says. `kind`: the name of the error, without `Exception`; '' where it has none."""

    status: int
    kind: str = ""
    message: str = ""
    code: str = ""
    """The reason in the details of the answer, such as `UNITY_CATALOG_EXTERNAL_…_DENIED`."""
    request_id: str = ""
    wait_seconds: float = 0.0

    @property
    def is_of_privilege(self) -> bool:
        """Return True for a missing privilege, which no other token of the same user has."""
        return self.status == 403 or (self.code.startswith(_REASON_OF_PRIVILEGE) and "DENIED" in self.code)

    def facts(self) -> dict[str, str]:
        """Return it as facts of an error."""
        every = {
            "status": str(self.status),
            "error": self.kind,
            "catalog says": self.message,
            "reason": self.code,
            "request": self.request_id,
        }
        return {name: text for name, text in every.items() if text}


class RefusedCall(HttpError):
    """An answer without success."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(
            RequestOutcome.ANSWERED,
            refusal.message,
            status=refusal.status,
            reason=refusal.kind,
            wait_seconds=refusal.wait_seconds,
        )
        self.refusal = refusal


def _one_line(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return shorten_message("".join(letter if letter.isprintable() else " " for letter in text))


def refusal_of(answer: HttpResponse, now_ms: int) -> Refusal:
    """Return what an answer without success says: in the form of the Delta API, of the older paths, or in none."""
    wait = min(read_retry_after(answer.headers, now=lambda: now_ms / 1_000), _LONGEST_ASKED_S)
    try:
        document = orjson.loads(answer.data)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        return Refusal(answer.status, wait_seconds=wait)
    inner = document.get("error")
    body = inner if isinstance(inner, dict) else document
    kind = _one_line(body.get("type") or body.get("error_code") or (inner if isinstance(inner, str) else ""))
    kind = _KINDS.get(kind, kind.removesuffix("Exception"))
    message = _one_line(body.get("message") or body.get("error_description"))
    reason = request_id = ""
    details = body.get("details") or document.get("details")
    for one in details if isinstance(details, list) else ():
        if isinstance(one, dict):
            reason = reason or _one_line(one.get("reason"))
            request_id = request_id or _one_line(one.get("request_id"))
    return Refusal(answer.status, kind, message, reason, request_id, wait)


class Tokens(Protocol):
    """The token of requests."""

    def now(self) -> str:
        """Return the token, '' for none."""

    def renew(self, refused: str, /) -> bool:
        """Forget a token that was refused; return True where another one can be had."""

    def accepted(self) -> None:
        """Note that the token was accepted."""


class FixedToken:
    """The same token for every request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def now(self) -> str:
        return self._token

    def renew(self, _: str, /) -> bool:
        return False

    def accepted(self) -> None:
        pass


class ClientTokens:
    """Tokens that an OAuth server gives a client, each used until shortly before it ends."""

    def __init__(self, fetch: Callable[[], tuple[str, int]], clock: Clock) -> None:
        """`fetch` returns a token and its seconds."""
        self._fetch, self._clock, self._lock = fetch, clock, Lock()
        self._token, self._until_ms, self._is_second = "", 0, False

    def now(self) -> str:
        with self._lock:
            if not self._token or self._clock() >= self._until_ms:
                self._token, seconds = self._fetch()
                self._until_ms = self._clock() + max(seconds * 1_000 - _EARLY_MS, seconds * 500)
            return self._token

    def renew(self, refused: str, /) -> bool:
        with self._lock:
            if self._token != refused:
                return True  # another thread has renewed it
            if self._is_second:
                return False
            self._token, self._is_second = "", True
            return True

    def accepted(self) -> None:
        self._is_second = False


class Calls:
    """Sends requests to one catalog, from any thread. Paths are below its base, each name encoded by `path_of`."""

    def __init__(
        self,
        profile: CatalogProfile,
        retry: Retry,
        clock: Clock = system_clock,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if find_spec("urllib3") is None:
            raise errors.UsageError(
                "tables of catalogs require urllib3, which is not installed",
                code="usage.missing-extra",
                hint=errors.install_command("catalog"),
            )
        self.profile, self.retry, self.clock, self._now = profile, retry, clock, now
        self._answer_seconds = min(get_answer_limit_seconds(retry), BODY_SECONDS)
        self._transport = self._connect(profile.endpoint)
        self._tokens: Tokens = FixedToken(profile.token)
        if profile.client_id:
            self._oauth = self._connect(profile.oauth_uri)
            self._tokens = ClientTokens(self._fetch_token, clock)

    def __repr__(self) -> str:
        return f"Calls({self.profile.endpoint!r})"

    def _connect(self, url: str) -> Transport:
        parts = urlsplit(url)
        is_near = is_loopback(parts.hostname or "")
        transport = Transport(url, is_direct=is_near, answer_seconds=self._answer_seconds, now=self._now)
        transport.tally = self.retry.tally.get_host(parts.netloc, None)
        return transport

    def ask(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        body: JsonObject | None = None,
        *,
        method: str = "GET",
    ) -> Json:
        """Return the JSON object of an answer to a request that changes nothing, repeated within the budget.

        Raises HttpError, RefusedCall for an answer without success, and what a token server makes of it.
        """
        request = self._request(method, path, query, None if body is None else orjson.dumps(body))
        return self._repeated(lambda: self._fields(self._with_token(request)), self._transport.host)

    def send_once(self, path: str, body: bytes) -> Json:
        """Send a change once, and return the JSON object of the answer. Raises as `ask` does.

        A token that was refused is replaced for the next request, and RefusedCall with status 401 has `reason`
        'token-renewed'.
        """
        request = self._request("POST", path, None, body)
        token = self._tokens.now()
        with self.retry.track_request(self._transport.host):
            try:
                return self._fields(self._send(request, token))
            except RefusedCall as fault:
                if _may_renew(fault.refusal) and self._tokens.renew(token):
                    fault.reason = RENEWED
                raise

    def _request(self, method: str, path: str, query: Mapping[str, str | int] | None, body: bytes | None) -> Request:
        url = f"{self.profile.base}{path}{'?' if query else ''}{urlencode(query or {})}"
        headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
        content = None if body is None else Body(body)
        call = None if method == "POST" else Call.GET
        return Request(method, url, headers, content, call, limit=MAX_RESPONSE_BYTES, seconds=self._answer_seconds)

    def _with_token(self, request: Request) -> HttpResponse:
        token = self._tokens.now()
        try:
            return self._send(request, token)
        except RefusedCall as fault:
            if not _may_renew(fault.refusal) or not self._tokens.renew(token):
                raise
        return self._send(request, self._tokens.now())

    def _send(self, request: Request, token: str) -> HttpResponse:
        headers = {**request.headers} | ({"Authorization": f"Bearer {token}"} if token else {})
        answer = self._transport.send(replace(request, headers=headers))
        if answer.status not in (200, 204):
            raise RefusedCall(refusal_of(answer, self.clock()))
        self._tokens.accepted()
        return answer

    def _fields(self, answer: HttpResponse) -> Json:
        """Return the JSON object of an answer. Raises HttpError for anything else, also one that is nested too deep."""
        try:
            found = orjson.loads(answer.data)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise answer.unexpected("no JSON object")
        return found

    def _repeated(self, send: Callable[[], Json], host: str) -> Json:
        return repeat_call(self.retry, send, host=host)

    def _fetch_token(self) -> tuple[str, int]:
        """Return a new token and its seconds. Raises CatalogDenied and CatalogUnavailable."""
        pair = f"{quote_plus(self.profile.client_id)}:{quote_plus(self.profile.client_secret)}".encode()
        headers = {
            "Authorization": f"Basic {base64.b64encode(pair).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        form = Body(urlencode({"grant_type": "client_credentials", "scope": "all-apis"}).encode())
        request = Request("POST", self.profile.oauth_uri, headers, form, seconds=self._answer_seconds)

        def send() -> Json:
            answer = self._oauth.send(request)
            if answer.status != 200:
                raise RefusedCall(refusal_of(answer, self.clock()))
            return self._fields(answer)

        host = self._oauth.host
        try:
            answer = self._repeated(send, host)
        except RefusedCall as fault:
            if fault.status in TEMPORARY_STATUSES or not 400 <= fault.status < 500:
                raise self._unavailable(fault, host) from MaskedCause.of(fault)
            facts = fault.refusal.facts()
            raise errors.CatalogDenied(f"the token server {host} refuses the client", facts=facts) from None
        except HttpError as fault:
            raise self._unavailable(fault, host) from MaskedCause.of(fault)
        token, lifetime = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not is_header_text(token):
            raise errors.CatalogDenied(f"the token server {host} sent no access_token")
        remember_secrets({"token": token})
        is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
        return token, int(min(max(lifetime, 0), _LONGEST_LIFETIME_S)) if is_number else _USUAL_LIFETIME_S

    def error_of(self, fault: HttpError, what: str, name: str) -> errors.DeltacliError:
        """Return the error for a request about a table, schema or catalog of a name. `what` could not be done."""
        found = self._judge(fault, what, name)
        found.facts |= describe_attempts(fault)
        found.__cause__ = MaskedCause.of(fault)
        return found

    def _judge(self, fault: HttpError, what: str, name: str) -> errors.DeltacliError:
        host = self._transport.host
        if not isinstance(fault, RefusedCall):
            if fault.outcome is RequestOutcome.UNEXPECTED and fault.status not in TEMPORARY_STATUSES:
                seen = {"seen": fault.message, "expected": "Unity Catalog instead of a proxy or a login page"}
                return errors.CatalogAnswerInvalid(f"{what}: the answer is not one of a catalog", facts=seen)
            return self._unavailable(fault, host)
        refusal = fault.refusal
        if refusal.status in (401, 403):
            return self._denied(refusal, what, name)
        if refusal.status == 404:
            return _unknown(refusal, name)
        if refusal.kind == "UnsupportedTableFormat":
            return errors.NotATable(f"{name} is not a Delta table", code=NOT_DELTA, facts=refusal.facts())
        if refusal.status in TEMPORARY_STATUSES or refusal.status >= 500:
            return self._unavailable(fault, host)
        if 300 <= refusal.status < 400:
            return errors.CatalogUnavailable(
                f"the catalog {host} answers with a redirect, which is not followed", facts=refusal.facts()
            )
        if "EXTERNAL_WRITE_NOT_ALLOWED" in refusal.code:
            return errors.CatalogDenied(
                f"{what}: the catalog refuses writes by external clients", facts=refusal.facts()
            )
        return errors.CatalogAnswerInvalid(f"{what}: the catalog refuses the request", facts=refusal.facts())

    def _denied(self, refusal: Refusal, what: str, name: str) -> errors.CatalogDenied:
        hint = None
        if refusal.is_of_privilege:
            why = "the catalog denies access"
            hint = (
                "ask an owner for USE CATALOG, USE SCHEMA, SELECT (and MODIFY to change it) and, on Databricks, "
                f"EXTERNAL USE SCHEMA for {name}"
            )
        elif not self.profile.token and not self.profile.client_id:
            why, source = "the catalog requires a token, and none is configured", self.profile.source
            hint = "export UC_TOKEN=TOKEN" if source == ENDPOINT else f"add a token to {source}"
        else:
            why, hint = "the catalog does not accept the token", f"check {_credentials_of(self.profile)}"
        return errors.CatalogDenied(f"{what}: {why}", facts=refusal.facts(), hint=hint)

    def _unavailable(self, fault: HttpError, host: str) -> errors.CatalogUnavailable:
        facts = fault.refusal.facts() if isinstance(fault, RefusedCall) else {"reason": str(fault)}
        if fault.reason == "unreachable":
            facts = {"reason": fault.message}
        if fault.reason == TOO_SLOW:
            budget = errors.parameter("open_table.retry_budget")
            facts = {"reason": fault.message, "limit": f"{self._answer_seconds:g} s for an answer ({budget})"}
        if fault.outcome is RequestOutcome.UNSENT:
            hint = f"check the endpoint of {self.profile.source}, and HTTPS_PROXY and NO_PROXY"
            return errors.CatalogUnavailable(f"the catalog {host} cannot be reached", facts=facts, hint=hint)
        advice = CERTIFICATES_HINT if fault.reason == UNTRUSTED else None
        return errors.CatalogUnavailable(f"the catalog {host} failed", facts=facts, hint=advice)


RENEWED = "token-renewed"
NOT_DELTA = "catalog.not-delta"


_VARIABLES = {
    (ENDPOINT, False): "UC_TOKEN",
    (DATABRICKS_HOST, False): "DATABRICKS_TOKEN",
    (DATABRICKS_HOST, True): "DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET",
}
"""Variable of the endpoint, and whether a client signs in -> the variables of the credentials."""


def _credentials_of(profile: CatalogProfile) -> str:
    """Return where the credentials of a profile come from."""
    has_client = bool(profile.client_id)
    keys = "client-id and client-secret" if has_client else "the token"
    return _VARIABLES.get((profile.source, has_client), f"{keys} of {profile.source}")


def _may_renew(refusal: Refusal) -> bool:
    return refusal.status == 401 and not refusal.is_of_privilege


def _unknown(refusal: Refusal, name: str) -> errors.CatalogNameUnknown:
    kind = {"NoSuchCatalog": "catalog", "NoSuchSchema": "schema"}.get(refusal.kind)
    names = name.removeprefix("uc://").split(".")
    if kind is None:
        kind = ("catalog", "schema", "table")[min(len(names), 3) - 1]
    count = ("catalog", "schema", "table").index(kind) + 1
    hint = errors.command("catalog ls", table=f"uc://{'.'.join(names[: count - 1])}") if count > 1 else None
    return errors.CatalogNameUnknown(
        f"the catalog has no {kind} {'.'.join(names[:count])}", facts=refusal.facts(), hint=hint
    )


def path_of(*words: str) -> str:
    return "".join(f"/{quote(word, safe='')}" for word in words)
