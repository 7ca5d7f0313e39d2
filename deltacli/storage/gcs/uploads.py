"""Uploads to Google Cloud Storage: small objects in one request, larger ones in a resumable session.

A session belongs to one upload. When the answer to its last piece is lost, the session still says whether the object
was created, so that a repeated piece cannot be taken for another writer's object.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from uuid import uuid4

from deltacli.storage.gcs.answers import require_stored
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.faults import passing
from deltacli.storage.objects.http import Answer, Fate, HttpFault, Request
from deltacli.storage.retry import Retry

LARGEST_SINGLE = 8 << 20
"""Bytes up to which an object is sent in one request."""
PIECE_BYTES = 64 << 20
"""Bytes per request of a session: a multiple of 256 KiB."""
_RECEIVED = re.compile(r"bytes=0-(\d{1,19})")
_RESUME = 308
_MOST_WITHOUT_PROGRESS = 5
"""Requests in a row of a session after which the store has no more bytes than before."""

Send = Callable[[Request, tuple[int, ...]], Answer]
"""Sends a request once, with credentials; statuses besides those given raise HttpFault."""


def single(url: str, key: str, body: Body) -> Request:
    """Return the request that creates an object with its digest, which the store compares."""
    boundary = uuid4().hex
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{_metadata(key, body)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    ).encode()
    content = b"".join((head, body.read(), f"\r\n--{boundary}--\r\n".encode()))
    headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
    return Request("POST", f"{url}&uploadType=multipart", headers, Body(content))


def send_in_session(send: Send, retry: Retry, host: str, url: str, key: str, body: Body) -> None:
    """Send an object in pieces. Raises HttpFault; with Fate.UNSENT where the object was certainly not written."""

    def ask(request: Request, statuses: tuple[int, ...]) -> Answer:
        return retry.call(lambda: send(request, statuses), host=host, faults=(HttpFault,), passing=passing)

    session = _begin(ask, url, key, body)
    done, size, idle = 0, body.size, 0
    while idle < _MOST_WITHOUT_PROGRESS:
        piece = body.part(done, PIECE_BYTES)
        span = f"bytes {done}-{done + piece.size - 1}/{size}" if piece.size else f"bytes */{size}"
        try:
            answer = send(Request("PUT", session, {"Content-Range": span}, piece), (200, 201, _RESUME))
        except HttpFault as fault:
            if fault.fate is Fate.ANSWERED and not passing(fault):
                raise
            answer = _state(ask, session, size)
        if answer.status != _RESUME:
            require_stored(answer, size)
            return
        received = _received(answer, size)
        done, idle = received, 0 if received > done else idle + 1
    raise HttpFault(Fate.BROKEN, f"the upload stopped at {done} of {size} bytes: the store accepts no more of it")


def _begin(ask: Send, url: str, key: str, body: Body) -> str:
    """Return the URL of a new session. Nothing is created by it, so it may be repeated."""
    headers = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(body.size),
    }
    request = Request("POST", f"{url}&uploadType=resumable", headers, Body(_metadata(key, body).encode()))
    try:
        answer = ask(request, (200, 201))
    except HttpFault as fault:
        if fault.fate is Fate.ANSWERED and fault.status < 500:
            raise
        undone = HttpFault(Fate.UNSENT, fault.said, status=fault.status, reason=fault.reason)
        undone.__notes__ = getattr(fault, "__notes__", [])
        raise undone from fault
    session = answer.headers.get("location", "")
    if not session.startswith(("http://", "https://")):
        raise answer.unexpected("a session without its address")
    return session


def _state(ask: Send, session: str, size: int) -> Answer:
    """Return what a session has received after the answer to a piece was lost."""
    try:
        return ask(Request("PUT", session, {"Content-Range": f"bytes */{size}"}), (200, 201, _RESUME))
    except HttpFault as fault:
        if fault.fate is not Fate.ANSWERED or passing(fault):
            raise
        # The piece may have been the last one, and the session is gone: whether it created the object is unknown.
        raise HttpFault(Fate.BROKEN, f"the state of the upload is unknown: {fault}") from fault


def _received(answer: Answer, size: int) -> int:
    """Return how many bytes the store has."""
    text = answer.headers.get("range", "")
    match = _RECEIVED.fullmatch(text)
    if (text and not match) or (match and int(match[1]) >= size):
        raise answer.unexpected(f"the range {text[:80]} of {size} bytes")
    return int(match[1]) + 1 if match else 0


def _metadata(key: str, body: Body) -> str:
    fields: Mapping[str, str] = {"name": key, "md5Hash": base64.b64encode(body.md5()).decode()}
    return json.dumps(fields)
