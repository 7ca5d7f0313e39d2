"""Every answer: its status, the body of an error, and that it needs the token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltacli.core.hints import parameter
from deltacli.rules.framework.base import Area, Level, Rule
from deltacli.sharing.conformance.wire import (
    MOST_BYTES,
    Suite,
    ThrottledError,
    TooLargeError,
    Wire,
    WireAnswer,
    WireRequest,
)

ANSWERS_AREA = Area("Answers", Level.API)

NO_ANSWER = ANSWERS_AREA.error(
    "share.no-answer",
    "Every request gets an answer, and the whole of it.",
    spec="REST APIs",
    broken="clients repeat the request, then fail",
    repair="look into the log of the server for the request; keep proxies from cutting answers short",
    example="a connection that ends in the middle of a line",
)
SERVER_ERROR = ANSWERS_AREA.error(
    "share.server-error",
    "No request is answered with a status of 500 or more; what a client did wrong is 400 to 499.",
    spec="REST APIs (500: not handled correctly due to a server error)",
    broken="clients repeat the request, the Python client for more than a minute, and show no reason",
    repair="answer 400 with an errorCode for a request that cannot be served",
    example="500 for a table that does not exist",
)
ERROR_BODY = ANSWERS_AREA.error(
    "share.error-body",
    "The body of an error is a JSON object with the strings `errorCode` and `message`.",
    spec="REST APIs (400, 401, 403, 404, 500: Body)",
    broken="clients show an error of their own parser instead of the reason",
    repair='send {"errorCode": "…", "message": "…"}, also from the proxy in front of the server',
    example="404 with a page in HTML",
)
ERROR_TYPE = ANSWERS_AREA.warning(
    "share.error-content-type",
    "The Content-Type of an error is application/json.",
    spec="REST APIs (400, 401, 403, 404, 500: Header)",
    broken="clients that look at the header do not parse the reason",
    repair="send Content-Type: application/json",
    example="text/plain",
)
REDIRECT = ANSWERS_AREA.error(
    "share.redirect",
    "No request is answered with a redirect, which would lead the token elsewhere.",
    spec="REST APIs",
    broken="clients lose the token on the way or send it to another host",
    repair="name the final address in the profile",
    example="301 from http to https",
)
TOKEN_NOT_REQUIRED = ANSWERS_AREA.error(
    "share.token-not-required",
    "A request without a token is refused.",
    spec="REST APIs (all of the REST APIs use bearer tokens for authorization)",
    broken="everyone who reaches the server reads the shared tables",
    repair="configure the authorization of the server",
    example="200 for GET /shares without Authorization",
)
WRONG_TOKEN = ANSWERS_AREA.error(
    "share.token-not-checked",
    "A request with another token is refused.",
    spec="List Shares (401: the bearer token is missing or incorrect)",
    broken="everyone who reaches the server reads the shared tables",
    repair="compare the whole token",
    example="200 for GET /shares with Bearer xyz",
)
UNAUTHENTICATED = ANSWERS_AREA.error(
    "share.unauthenticated-status",
    "A request with a missing or an incorrect token is answered with 401.",
    spec="List Shares (401: the request is unauthenticated)",
    broken="clients do not know that the profile is the reason",
    repair="answer 401",
    example="403, or 400",
)
NOT_FOUND = ANSWERS_AREA.error(
    "share.unknown-not-404",
    "A share, schema or table that does not exist is answered with 404; 403 is as good.",
    spec="Get Share; List Schemas in a Share; List Tables in a Schema; Query Table Version (404)",
    broken="clients take a wrong name for an empty list or a fault of the server",
    repair="answer 404 with RESOURCE_DOES_NOT_EXIST",
    example="200 with no items for a share that does not exist",
)

EVERYWHERE = (NO_ANSWER, SERVER_ERROR, ERROR_BODY, ERROR_TYPE, REDIRECT)
"""The rules of every answer, of the API of a table as well."""

_THROTTLED = 429
UNKNOWN = "deltacli-share-test-no-such-name"
_OTHER_TOKEN = "deltacli-share-test-wrong-token"


@dataclass
class Tester:
    """Sends requests and checks what holds of every answer. `now_ms`: epoch milliseconds at the start of the run."""

    wire: Wire
    now_ms: int

    def ask(
        self,
        suite: Suite,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        method: str = "GET",
        token: str | None = None,
    ) -> WireAnswer:
        """Return the answer to a request. Raises BudgetSpentError, NoAnswerError, TooLargeError."""
        answer = self.wire.send(WireRequest(path, query or {}, headers or {}, body, method, token))
        suite.require(NO_ANSWER, True, answer, "")
        if answer.status == _THROTTLED:
            again = parameter("share test.pause", "1s")
            raise ThrottledError(f"the limit of the server on requests is reached: it answers 429; try {again}")
        if not answer.is_whole:
            raise TooLargeError(f"an answer is larger than {MOST_BYTES >> 20} MiB")
        _check_status(suite, answer)
        return answer


def _check_status(suite: Suite, answer: WireAnswer) -> None:
    status = answer.status
    suite.require(SERVER_ERROR, status < 500, answer, f"the server answers {status}", seen=status, expected="below 500")
    is_redirect = 300 <= status < 400
    suite.require(REDIRECT, not is_redirect, answer, f"the server answers {status}, a redirect", seen=status)
    if status < 400 or answer.request.method == "HEAD":
        return
    fields = answer.json
    is_told = isinstance(fields, dict) and all(isinstance(fields.get(name), str) for name in ("errorCode", "message"))
    suite.require(
        ERROR_BODY,
        is_told,
        answer,
        f"the body of the answer {status} is not an object with errorCode and message",
        seen=_shape(answer),
        expected='{"errorCode": "…", "message": "…"}',
    )
    suite.require(
        ERROR_TYPE,
        answer.media_type == "application/json",
        answer,
        f"the Content-Type of the answer {status} is not application/json",
        seen=answer.headers.get("content-type", "missing"),
        expected="application/json",
    )


def _shape(answer: WireAnswer) -> str:
    fields = answer.json
    if isinstance(fields, dict):
        return f"an object with {', '.join(sorted(fields)) or 'nothing'}"
    return "no body" if not answer.body else f"{len(answer.body):,} bytes of {answer.media_type or 'no type'}"


def check_tokens(tester: Tester, suite: Suite) -> None:
    """Check requests without a token and with another one."""
    pairs: tuple[tuple[str, str, Rule], ...] = (
        ("without a token", "", TOKEN_NOT_REQUIRED),
        ("with another token", _OTHER_TOKEN, WRONG_TOKEN),
    )
    for words, token, rule in pairs:
        answer = tester.ask(suite, "shares", token=token)
        refused = suite.require(
            rule, answer.status >= 300, answer, f"a request {words} is answered with {answer.status}", expected=401
        )
        if refused and answer.status < 500:
            suite.require_status(UNAUTHENTICATED, answer.status == 401, answer, f"a request {words}", expected=401)


def check_unknown_names(tester: Tester, suite: Suite, share: str | None, schema: str | None) -> None:
    """Check names that do not exist, as far as there are names around them."""
    paths = [f"shares/{UNKNOWN}", f"shares/{UNKNOWN}/schemas", f"shares/{UNKNOWN}/all-tables"]
    if share is not None and schema is not None:
        inside = f"shares/{share}/schemas"
        paths += [f"{inside}/{UNKNOWN}/tables", f"{inside}/{schema}/tables/{UNKNOWN}/version"]
        paths.append(f"{inside}/{schema}/tables/{UNKNOWN}/metadata")
    for path in paths:
        answer = tester.ask(suite, path)
        is_refused = answer.status in (403, 404) or answer.status >= 500
        suite.require_status(NOT_FOUND, is_refused, answer, "a name that does not exist", expected=404)
