"""Requests as they are sent, and answers as they come: no retry, no redirect, nothing decoded but a content encoding;
and the suites that collect what the rules report about answers.

One request at a time, with a pause between them, and a limited number of them. The token is sent to the endpoint only.
A rule counts as checked only where a check compared something. All others are reported as not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from deltacli.core.lock_free_property import cached_property
from deltacli.core.typing import Json
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import Area, Finding, Level, Rule, Severity
from deltacli.sharing.client.faults import Reach, missing_extra, reach_of, require_reach
from deltacli.sharing.protocol.directories import AccessFault

CAPABILITIES = "delta-sharing-capabilities"
MOST_BYTES = 64 << 20
"""The size of an answer that is still read."""
_STATUS_WAIT = (429, 503)
_MOST_WAITS = 3
_LONGEST_WAIT = 30.0
_BLOCK_BYTES = 64 << 10
_UNSTABLE = frozenset({"pageToken", "refreshToken", "idempotencyKey", "idempotency_key"})
_QUERY_ID = re.compile(r"(?<=/queries/)[^/]+")
_SHOWN = (CAPABILITIES, "fileidhash", "Range")


_LONG = re.compile(r"(?<=readerfeatures=)[^;]{41,}", re.IGNORECASE)
"""The list of all features, which says nothing in a finding."""


class BudgetSpentError(Exception):
    """The run may send no more requests."""


class ThrottledError(BudgetSpentError):
    """The server asks for a longer break than the run takes."""


class TooLargeError(Exception):
    """An answer is larger than what is read of one."""


class NoAnswerError(Exception):
    """The connection failed, or ended before the answer did."""


@dataclass(frozen=True)
class WireRequest:
    """A request below the endpoint. `token`: None sends the token of the profile, an empty text sends none."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    method: str = "GET"
    token: str | None = None

    @property
    def about(self) -> str:
        """Return what the request sends besides its path, without what differs from run to run."""
        parts = [f"{self.method} "] if self.method == "HEAD" else []
        parts += [f"{name}={'…' if name in _UNSTABLE else value}" for name, value in self.query.items()]
        parts += [f"{name}: {_LONG.sub('…', value)}" for name, value in self.headers.items() if name in _SHOWN]
        if self.body not in (None, b"{}"):
            parts.append(_shown_body(self.body or b""))
        if self.token is not None:
            parts.append("without a token" if not self.token else "with another token")
        return "; ".join(part.strip() for part in parts)[:300]


@dataclass(frozen=True)
class WireAnswer:
    """An answer; the names of its headers are in lower case. `is_whole`: nothing was cut off at `MOST_BYTES`."""

    request: WireRequest
    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True

    is_ok = cached_property(lambda self: self.status == 200)
    media_type = cached_property(lambda self: self.headers.get("content-type", "").partition(";")[0].strip().lower())

    @property
    def json(self) -> Json:
        """Return the body as a JSON value, None where it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass
class Budget:
    """How many requests may still be sent, and how long the whole run may take."""

    requests: int
    seconds: float | None = None


class Wire:
    """The connection to a server. `sleep` and `clock` (seconds) are those of the `time` module, except in tests."""

    def __init__(
        self,
        endpoint: str,
        authorize: Callable[[], str],
        budget: Budget,
        *,
        pause: float = 0.0,
        timeout: float = 60.0,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        on_request: Callable[[], None] = lambda: None,
        pool: Any = None,  # Any: a PoolManager, or what a test puts in its place
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.sent = 0
        self.received = 0
        self._authorize = authorize
        self._budget = budget
        self._pause, self._sleep, self._clock, self._on_request = pause, sleep, clock, on_request
        self._started = clock()
        self._timeout = timeout
        self._host = (urlsplit(self.endpoint).hostname or "").rstrip(".")
        self._reaches: set[Reach] = set()
        self._pool = self._make_pools() if pool is None else pool

    def _make_pools(self) -> Any:  # Any: a PoolManager
        """Return connections that go only to allowed addresses. Raises UsageError without urllib3."""
        try:
            from deltacli.sharing.client.connections import make_pools
        except ImportError as fault:
            raise missing_extra() from fault
        return make_pools(self._vet, connections=1)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _vet(self, host: str, address: str) -> None:
        """Raise UrlRefused for an address in a range that is not public, unless the endpoint lies in that range."""
        if host.lower().rstrip(".") == self._host:
            self._reaches.add(reach_of(address))
        else:
            require_reach(host, address, frozenset(self._reaches))

    def wait(self, seconds: float) -> None:
        """Wait before the next request. Raises BudgetSpentError."""
        self._require_time()
        self._sleep(seconds)

    def send(self, request: WireRequest) -> WireAnswer:
        """Return the answer to a request; waits if the server asks for it. Raises BudgetSpentError, NoAnswerError."""
        value = self._authorize() if request.token is None else f"Bearer {request.token}" if request.token else ""
        headers = {**({"Authorization": value} if value else {}), **request.headers}
        query = f"?{urlencode(request.query)}" if request.query else ""
        url = f"{self.endpoint}/{request.path}{query}"
        for _ in range(_MOST_WAITS):
            answer = self._exchange(request, url, headers, MOST_BYTES)
            if answer.status not in _STATUS_WAIT or "retry-after" not in answer.headers:
                break
            text = answer.headers["retry-after"].strip()  # a date counts as a second
            self._sleep(min(float(text[:9]), _LONGEST_WAIT) if text.isascii() and text.isdigit() else 1.0)
        return answer

    def fetch(self, url: str, *, byte_range: str | None = None, most: int = MOST_BYTES) -> WireAnswer:
        """Return the answer of a URL, without the token. Raises as `send` does; UrlRefused for a private address."""
        headers = {} if byte_range is None else {"Range": f"bytes={byte_range}"}
        return self._exchange(WireRequest(urlsplit(url).path, headers=headers, token=""), url, headers, most)

    def _exchange(self, request: WireRequest, url: str, headers: Mapping[str, str], most: int) -> WireAnswer:
        import urllib3

        self._spend()
        body_headers = {"Content-Type": "application/json; charset=utf-8"} if request.body is not None else {}
        try:
            response = self._pool.request(
                request.method,
                url,
                body=request.body,
                headers={**body_headers, **headers, "User-Agent": "deltacli-share-test"},
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(connect=min(self._timeout, 10), read=self._timeout),
                preload_content=False,
            )
            try:
                body, is_whole = self._read(response, most)
            finally:
                response.release_conn() if response.closed else response.close()
        except (urllib3.exceptions.HTTPError, UnicodeError, ValueError) as fault:
            raise NoAnswerError(_reason(fault)) from fault
        self.received += len(body)
        found = {name.lower(): value for name, value in response.headers.items()}
        return WireAnswer(request, response.status, found, body, is_whole)

    def _read(self, response: Any, most: int) -> tuple[bytes, bool]:  # Any: a response of urllib3
        """Return the body, at most `most` bytes of it, and whether that is all. Raises BudgetSpentError."""
        blocks, size = list[bytes](), 0
        while block := response.read1(_BLOCK_BYTES, decode_content=True):
            blocks.append(block)
            size += len(block)
            if size > most:
                return b"".join(blocks)[:most], False
            self._require_time()
        return b"".join(blocks), True

    def _require_time(self) -> None:
        if self._budget.seconds is not None and self._clock() - self._started > self._budget.seconds:
            raise BudgetSpentError(f"the limit of {self._budget.seconds:g} seconds is reached")

    def _spend(self) -> None:
        if self._budget.requests <= self.sent:
            raise BudgetSpentError(f"the limit of {self._budget.requests:,} requests is reached")
        self._require_time()
        if self._pause and self.sent:
            self._sleep(self._pause)
        self.sent += 1
        self._on_request()


def _reason(fault: Exception) -> str:
    """Return why a connection failed, without the address that urllib3 puts before it."""
    return str(fault).rpartition(": ")[2].strip("<>()'") or type(fault).__name__


def _shown_body(body: bytes) -> str:
    try:
        fields = json.loads(body)
    except ValueError:
        return body[:100].decode("utf-8", "replace")
    if isinstance(fields, dict):
        fields = {name: "…" if name in _UNSTABLE else value for name, value in fields.items()}
    return json.dumps(fields, ensure_ascii=False)


class Rules(Area):
    """An area whose rules are rows: `SEVERITY [LEVEL] ID | rule | specification | broken | repair | example`."""

    def row(self, text: str) -> Rule:
        """Add the rule of a row, which may have line ends, and return it."""
        head, checks, spec, broken, repair, example = (" ".join(part.split()) for part in text.split("|"))
        severity, *levels, rule_id = head.split()
        level = Level(levels[0]) if levels else None
        return self._add(Severity(severity), rule_id, checks, broken, repair, spec=spec, example=example, level=level)


UNEXPLAINED = "the server shares nothing that they apply to"


@dataclass
class Suite:
    """The findings about a server or about one table. `uri` is its address, `base` the path of its requests below the
    endpoint. `checked` are the rules that were checked, `skipped` the reasons why others were not.
    """

    name: str
    uri: str
    base: str
    takes: Callable[[Rule], bool]
    on_finding: Callable[[Finding], None] = lambda _: None
    version: int | None = None
    findings: list[Finding] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    def require(
        self,
        rule: Rule,
        holds: bool,
        answer: WireAnswer,
        message: str,
        *,
        seen: object = None,
        expected: object = None,
        line: int | None = None,
        severity: Severity | None = None,
    ) -> bool:
        """Report an answer that breaks a rule, once per route and message; return whether the rule `holds`."""
        self.checked.add(rule.id)
        if not holds and self.takes(rule):
            place = self.place(answer, line)
            told = (rule.id, place.path, message)
            if told not in self._told:
                self._told.add(told)
                finding = rule.at(place, message, seen=seen, expected=expected, severity=severity)
                self.findings.append(finding)
                self.on_finding(finding)
        return holds

    def require_status(self, rule: Rule, holds: bool, answer: WireAnswer, words: str, *, expected: int = 400) -> bool:
        """Report a request, described in words, whose answer has another status than the rule says."""
        message = f"{words} is answered with {answer.status}"
        return self.require(rule, holds, answer, message, seen=answer.status, expected=expected)

    def require_same(
        self, rule: Rule, same: Mapping[str, bool], answer: WireAnswer, words: str, **shown: object
    ) -> None:
        """Report an answer, described in words, that is not the same as another one in some respects."""
        differing = [name for name, equal in same.items() if not equal]
        message, seen, expected = f"{words} {', '.join(differing)}", shown.get("seen"), shown.get("expected")
        self.require(rule, not differing, answer, message, seen=seen, expected=expected)

    def require_answered(self, rule: Rule, answer: WireAnswer, words: str) -> None:
        """Report a request, described in words, that is refused."""
        self.require_status(rule, answer.is_ok or answer.status >= 500, answer, words, expected=200)

    def require_type(self, rule: Rule, answer: WireAnswer, what: str, expected: str) -> bool:
        """Report an answer, described in words, whose Content-Type is another media type than `expected`."""
        wanted = expected.partition(";")[0]
        message, seen = f"the Content-Type of {what} is not {wanted}", answer.headers.get("content-type", "missing")
        return self.require(rule, answer.media_type == wanted, answer, message, seen=seen, expected=expected)

    def report(self, faults: Sequence[AccessFault], answer: WireAnswer, *rules: Rule) -> None:
        """Report the faults that a reader of the protocol found in an answer, of the rules that it checks."""
        for rule in rules:
            found = [fault.message for fault in faults if rule.id == f"share.{fault.rule}"]
            self.require(rule, not found, answer, "; ".join(dict.fromkeys(found)))

    def skip(self, reason: str, *rules: Rule) -> None:
        """Note why rules cannot be checked. The first reason is kept."""
        for rule in rules:
            self.skipped.setdefault(rule.id, reason)

    def place(self, answer: WireAnswer, line: int | None = None) -> Place:
        """Return an answer as a place: the path of the request, and as the key what else was sent."""
        path = _QUERY_ID.sub("…", answer.request.path.removeprefix(self.base)).lstrip("/")
        return Place(path, line, None, answer.request.about or None)

    def not_checked(self, rules: Iterable[Rule]) -> dict[str, list[str]]:
        """Return reason -> the ids of the rules that were not checked because of it."""
        reasons: dict[str, list[str]] = {}
        for rule in rules:
            if rule.id not in self.checked:
                reasons.setdefault(self.skipped.get(rule.id, UNEXPLAINED), []).append(rule.id)
        return reasons
