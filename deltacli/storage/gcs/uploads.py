"""Uploads to Google Cloud Storage: small objects in one request, larger ones in a resumable session.

A session belongs to one upload and carries the condition of the creation. If the response to a chunk is lost, the
session is asked for its state: it says how many bytes the store has received, or that this session has created the
object. So a chunk can be repeated, and an object that this session created is never taken for the object of another
writer.
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
"""Size up to which an object is sent in one request."""
CHUNK_BYTES = 64 << 20
"""Size of a chunk. It must be a multiple of 256 KiB."""
_RECEIVED = re.compile(r"bytes=0-(\d{1,19})")
_RESUME_INCOMPLETE = 308
_MAX_IDLE_REQUESTS = 5
"""Maximum number of consecutive requests without progress."""
Send = Callable[[Request, tuple[int, ...]], HttpResponse]
"""Sends a request with credentials. The second argument contains the statuses of a successful response."""


def build_multipart_request(url: str, key: str, body: Body) -> Request:
    """Return the request that creates a small object. It contains the MD5 digest, which the store verifies."""
    boundary = uuid4().hex
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{_build_metadata(key, body)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    ).encode()
    content = b"".join((head, body.read(), f"\r\n--{boundary}--\r\n".encode()))
    headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
    return Request("POST", f"{url}&uploadType=multipart", headers, Body(content))


def send_in_session(send: Send, retry: Retry, host: str, url: str, key: str, body: Body) -> None:
    """Upload an object in chunks.

    Args:
        send: Sends a request once.
        retry: The retry policy.
        host: The host of the store.
        url: The URL of the upload, with the condition.
        key: The key of the object.
        body: The content.

    Raises:
        HttpError: If the upload fails. The outcome is UNSENT if certainly no object was created.
    """

    def send_with_retries(request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        return repeat_call(retry, lambda: send(request, statuses), host=host)

    session = _begin_session(send_with_retries, url, key, body)
    sent_bytes = 0
    size = body.size
    idle_requests = 0
    while idle_requests < _MAX_IDLE_REQUESTS:
        chunk = body.slice(sent_bytes, CHUNK_BYTES)
        span = f"bytes {sent_bytes}-{sent_bytes + chunk.size - 1}/{size}" if chunk.size else f"bytes */{size}"
        try:
            response = send(Request("PUT", session, {"Content-Range": span}, chunk), (200, 201, _RESUME_INCOMPLETE))
        except HttpError as error:
            if error.outcome is RequestOutcome.ANSWERED and not find_temporary_cause(error):
                raise
            # The store may have received the chunk, so ask before sending any byte again.
            response = _request_state(send_with_retries, session, size)
        if response.status != _RESUME_INCOMPLETE:
            require_stored_in_gcs(response, size)
            return
        text = response.headers.get("range", "")
        match = _RECEIVED.fullmatch(text)
        if (text and not match) or (match and int(match[1]) >= size):
            raise response.unexpected(f"the range {text[:80]} of {size} bytes")
        received_bytes = int(match[1]) + 1 if match else 0
        idle_requests = 0 if received_bytes > sent_bytes else idle_requests + 1
        sent_bytes = received_bytes
    raise HttpError(
        RequestOutcome.BROKEN, f"the upload stopped at {sent_bytes} of {size} bytes: the store accepts no more of it"
    )


def _begin_session(send_with_retries: Send, url: str, key: str, body: Body) -> str:
    """Begin a session and return its URL. Repeating the request is safe, because a session is not an object."""
    headers = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(body.size),
    }
    request = Request("POST", f"{url}&uploadType=resumable", headers, Body(_build_metadata(key, body).encode()))
    try:
        response = send_with_retries(request, (200, 201))
    except HttpError as error:
        if error.outcome is RequestOutcome.ANSWERED and error.status < 500:
            raise
        raise error.as_unsent() from error
    session = response.headers.get("location", "")
    if not session.startswith(("http://", "https://")):
        raise response.unexpected("a session without its address")
    return session


def _request_state(send_with_retries: Send, session: str, size: int) -> HttpResponse:
    """Ask a session for its state after the response to a chunk was lost.

    Raises:
        HttpError: If the session does not exist any more. The outcome is BROKEN, because the lost chunk may have been
            the last one and may have created the object.
    """
    try:
        return send_with_retries(
            Request("PUT", session, {"Content-Range": f"bytes */{size}"}), (200, 201, _RESUME_INCOMPLETE)
        )
    except HttpError as error:
        if error.outcome is not RequestOutcome.ANSWERED or find_temporary_cause(error):
            raise
        raise HttpError(RequestOutcome.BROKEN, f"the state of the upload is unknown: {error}") from error


def _build_metadata(key: str, body: Body) -> str:
    """Return the JSON document with the key and the MD5 digest of an object."""
    fields: Mapping[str, str] = {"name": key, "md5Hash": base64.b64encode(body.compute_md5()).decode()}
    return json.dumps(fields)
