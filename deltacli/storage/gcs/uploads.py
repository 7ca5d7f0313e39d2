"""Uploads to Google Cloud Storage: small objects in one request, larger ones in a resumable session.

A session belongs to one upload. If the answer to its last piece is lost, the session still says
whether the object was created, so that a repeated piece cannot be taken for another writer's
object.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from uuid import uuid4

from deltacli.storage.gcs.responses import require_stored_in_gcs
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.http import HttpResponse, Request
from deltacli.storage.objects.http_calls import repeat_call
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome, find_temporary_cause
from deltacli.storage.retry import Retry

MAX_SINGLE_REQUEST_BYTES = 8 << 20
"""Bytes up to which an object is sent in one request."""
CHUNK_BYTES = 64 << 20
"""Bytes per request of a session: a multiple of 256 KiB."""
_RECEIVED = re.compile(r"bytes=0-(\d{1,19})")
_RESUME = 308
_MOST_WITHOUT_PROGRESS = 5
"""Requests in a row of a session after which the store has no more bytes than before."""
Send = Callable[[Request, tuple[int, ...]], HttpResponse]
"""Sends a request once, with credentials; statuses besides those given raise HttpError."""


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
    """Send an object in pieces. Raises HttpError; with UNSENT where nothing was certainly written."""

    def ask(request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        return repeat_call(retry, lambda: send(request, statuses), host=host)

    session = _begin(ask, url, key, body)
    done = 0
    size = body.size
    idle = 0
    while idle < _MOST_WITHOUT_PROGRESS:
        piece = body.slice(done, CHUNK_BYTES)
        span = f"bytes {done}-{done + piece.size - 1}/{size}" if piece.size else f"bytes */{size}"
        try:
            response = send(Request("PUT", session, {"Content-Range": span}, piece), (200, 201, _RESUME))
        except HttpError as error:
            if error.outcome is RequestOutcome.ANSWERED and not find_temporary_cause(error):
                raise
            response = _state(ask, session, size)
        if response.status != _RESUME:
            require_stored_in_gcs(response, size)
            return
        text = response.headers.get("range", "")
        match = _RECEIVED.fullmatch(text)
        if (text and not match) or (match and int(match[1]) >= size):
            raise response.unexpected(f"the range {text[:80]} of {size} bytes")
        received = int(match[1]) + 1 if match else 0
        idle = 0 if received > done else idle + 1
        done = received
    raise HttpError(
        RequestOutcome.BROKEN, f"the upload stopped at {done} of {size} bytes: the store accepts no more of it"
    )


def _begin(ask: Send, url: str, key: str, body: Body) -> str:
    """Return the URL of a new session. Nothing is created by it, so it may be repeated."""
    headers = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(body.size),
    }
    request = Request("POST", f"{url}&uploadType=resumable", headers, Body(_metadata(key, body).encode()))
    try:
        response = ask(request, (200, 201))
    except HttpError as error:
        if error.outcome is RequestOutcome.ANSWERED and error.status < 500:
            raise
        raise error.as_unsent() from error
    session = response.headers.get("location", "")
    if not session.startswith(("http://", "https://")):
        raise response.unexpected("a session without its address")
    return session


def _state(ask: Send, session: str, size: int) -> HttpResponse:
    """Return what a session has received after the answer to a piece was lost."""
    try:
        return ask(Request("PUT", session, {"Content-Range": f"bytes */{size}"}), (200, 201, _RESUME))
    except HttpError as error:
        if error.outcome is not RequestOutcome.ANSWERED or find_temporary_cause(error):
            raise
        # The piece may have been the last one, and the session is gone: whether it created the
        # object is unknown.
        raise HttpError(RequestOutcome.BROKEN, f"the state of the upload is unknown: {error}") from error


def _metadata(key: str, body: Body) -> str:
    fields: Mapping[str, str] = {"name": key, "md5Hash": base64.b64encode(body.compute_md5()).decode()}
    return json.dumps(fields)
