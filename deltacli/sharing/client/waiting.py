"""Queries that a server answers later: what it says until then, and asking again until the answer is there.

Spec: PROTOCOL.md of Delta Sharing, Asynchronous Query; Get Query Results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from deltacli.core.typing import Json
from deltacli.sharing.client.faults import RequestRefused, ServerUnavailable, ShareAbsent, clean, invalid_answer

if TYPE_CHECKING:
    from deltacli.storage.retry import Retry

CAPABILITY = "asyncquery=true"
STATUS = "queryStatus"
_ERROR_NAMES = ("errorMessage", "message", "error")
"""The protocol does not name the member."""
_LONGEST_ID = 1_024
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 10.0

Answer = TypeVar("Answer")


class NotReadyError(Exception):
    """An answer that begins with a queryStatus. `asked_s`: the seconds that the server wants to be left alone."""

    def __init__(self, fields: Mapping[str, Json], asked_s: float) -> None:
        super().__init__(STATUS)
        self.fields, self.asked_s = fields, asked_s


class QueryStatus(NamedTuple):
    """What a server says of a query. `error` is None while the query is pending."""

    query_id: str
    error: str | None = None


def read_status(fields: Mapping[str, Json], query_id: str | None = None) -> QueryStatus:
    """Return a queryStatus. Raises AnswerInvalid for one of another query than `query_id`, or of an unknown status."""
    found, status = fields.get("queryId"), fields.get("status")
    if not isinstance(found, str) or not found or len(found) > _LONGEST_ID:
        raise invalid_answer("a queryStatus has no queryId", {"queryId": found})
    if query_id is not None and found != query_id:
        raise invalid_answer("a queryStatus is that of another query", {"asked": query_id, "found": found})
    match status.lower() if isinstance(status, str) else None:
        case "pending":
            return QueryStatus(found)
        case "failed":
            texts = (fields.get(name) for name in _ERROR_NAMES)
            return QueryStatus(found, next((clean(text) for text in texts if isinstance(text, str) and text), ""))
    raise invalid_answer("the status of a query is neither pending nor failed", {"status": status})


def path_of(query_id: str) -> str:
    """Return the path of a query below its table."""
    return f"/queries/{quote(query_id, safe='')}"


def wait_for(ask: Callable[[str | None], Answer], retry: Retry, limit_s: float, what: str) -> tuple[Answer, str | None]:
    """Return the answer to a query, and the id of the query where it was not there at once. `ask` submits the query for
    None, and asks for the result of an id; it raises NotReadyError. A query that the server has forgotten is submitted
    once more.

    Raises RequestRefused where the query failed, ServerUnavailable where it takes longer than `limit_s`.
    """
    query_id: str | None = None
    began, wait_s, may_submit = retry.now(), _FIRST_WAIT_S, True
    while True:
        try:
            return ask(query_id), query_id
        except NotReadyError as fault:
            status, asked_s = read_status(fault.fields, query_id), fault.asked_s
        except ShareAbsent:
            if query_id is None or not may_submit:
                raise
            query_id, may_submit = None, False
            continue
        if status.error is not None:
            said = f": {status.error}" if status.error else ""
            raise RequestRefused(f"the server could not complete {what}{said}", code="share.query-failed")
        query_id, waited_s = status.query_id, retry.now() - began
        pause_s = max(SystemRandom().uniform(wait_s / 2, wait_s), asked_s)
        if waited_s + pause_s > limit_s or retry.is_stopping():
            asked = {"asked to wait": f"{asked_s:.0f} s"} if asked_s else {}
            raise ServerUnavailable(
                f"the server did not complete {what} in {waited_s:.0f} s",
                code="share.query-timeout",
                facts={"query": clean(query_id), **asked, "limit": f"{limit_s:.0f} s"},
                hint="run the command again later",
            )
        since = f"has been preparing {what} for {waited_s:.0f} s" if waited_s >= 1 else f"is preparing {what}"
        retry.say(f"the server {since}")
        retry.wait(pause_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
