"""The calls of a bucket of Google Cloud Storage, by its JSON API.

Own requests instead of a library: those that were tried send a conditional creation again by default when its answer is
lost, and find their own object (docs/decisions/0099-own-requests-for-gcs-and-azure.md).

Small objects are uploaded in one request, larger ones in a resumable session. A session belongs to
one upload. When the answer to its last piece is lost, the session still says whether the object was created, so that a
repeated piece cannot be taken for another writer's object.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from deltacli.errors import StorageFailed
from deltacli.storage.gcs.answers import content_of, fault_of, page_of, properties_of, require_stored, rewrite_token_of
from deltacli.storage.gcs.credentials import GcsCredentials
from deltacli.storage.gcs.options import GcsOptions
from deltacli.storage.objects import batch
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT, Source
from deltacli.storage.objects.faults import Dialect, passing, translate
from deltacli.storage.objects.http import LARGEST_LIST, Answer, Fate, HttpFault, Request, Transport
from deltacli.storage.objects.listing import Content, Entry, ListedPage, length_of
from deltacli.storage.retry import Retry
from deltacli.storage.tally import GCS_PRICES, Call

DIALECT = Dialect(
    store="Google Cloud Storage",
    holder="bucket",
    holder_missing=frozenset({"bucketNotFound"}),
    exists=frozenset({"conditionNotMet"}),
    who="gcloud auth list",
    list_holders="gcloud storage buckets list",
    check_endpoint="check STORAGE_EMULATOR_HOST, the network and the proxy settings",
    condition="ifGenerationMatch",
)
_OF_GOOGLE = (".googleapis.com", ".googleapis-cn.com")
_PAGE = 1_000
_LISTED = "kind,nextPageToken,prefixes,items(name,size,updated)"
_PROPERTIES = "name,size,updated,generation"
_MOST_REWRITES = 10_000
_NOT_IN_NAMES = ("\r", "\n")
_NO_NAMES = ("", ".", "..")
"""No names of objects. In a URL they would name a collection or the bucket."""


class GcsCalls:
    """Calls of one bucket. A token that the store refuses is renewed once per request."""

    deletes_per_request = 100
    starts_anywhere = True
    dialect = DIALECT
    uploads = None
    max_attempts = None

    def __init__(self, bucket: str, options: GcsOptions, credentials: GcsCredentials, retry: Retry) -> None:
        self._bucket, self._payer, self._retry = bucket, options.payer, retry
        self._credentials = credentials
        self._transport = Transport(options.endpoint, options.verify)
        self._transport.tally = retry.tally.of(self.endpoint, GCS_PRICES if self.is_known_atomic else None)

    @property
    def endpoint(self) -> str:
        return self._transport.host

    @property
    def identity(self) -> str:
        return self._credentials.identity

    @property
    def credentials(self) -> GcsCredentials:
        return self._credentials

    @property
    def is_known_atomic(self) -> bool:
        host = f".{urlsplit(self._transport.endpoint).hostname or ''}"
        return host.endswith(_OF_GOOGLE)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        asked = {"prefix": prefix, "delimiter": delimiter, "startOffset": start, "pageToken": token}
        given = {name: text for name, text in asked.items() if text}
        url = self.url("/o", maxResults=str(limit or _PAGE), fields=_LISTED, **given)
        return page_of(self.send(Request("GET", url, call=Call.LIST, limit=LARGEST_LIST), (200,)), prefix)

    def look(self, key: str) -> tuple[Entry, str]:
        url = self.url(object_path(key), fields=_PROPERTIES)
        return properties_of(self.send(Request("GET", url, call=Call.HEAD), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> Content:
        condition = {"ifGenerationMatch": tag} if tag else {}
        condition |= {"generation": version_id} if version_id else {}
        url = self.url(object_path(key), alt="media", **condition)
        headers = {"Range": span} if span else {}
        request = Request("GET", url, headers, limit=length_of(span), reads_object=True)
        return content_of(self.send(request, (200, 206) if span else (200,)), span)

    def write(self, key: str, body: Body, condition: str | None) -> None:
        generation = {} if condition is None else {"ifGenerationMatch": "0" if condition == ABSENT else condition}
        url = self.url("/o", base="/upload/storage/v1/b/", name=key, **generation)
        if body.size <= LARGEST_SINGLE:
            require_stored(self.send(single(url, key, body), (200, 201)), body.size)
        else:
            send_in_session(self.send, self._retry, self.endpoint, url, key, body)

    def copy(self, source: Source, key: str, condition: str) -> None:
        """Copy an object. Each request of a copy is sent once: only the store knows which of them was the last."""
        given = {"ifGenerationMatch": "0" if condition == ABSENT else condition}
        given |= {"sourceGeneration": version} if (version := source.version_id or source.tag) else {}
        path = f"{object_path(source.key)}/rewriteTo/b/{_quoted(self._bucket)}{object_path(key)}"
        for _ in range(_MOST_REWRITES):
            answer = self.send(Request("POST", self.url(path, **given)), (200,))
            if token := rewrite_token_of(answer, source.size_bytes):
                given["rewriteToken"] = token
            else:
                return
        raise HttpFault(Fate.BROKEN, "the copy was not finished")

    def delete(self, key: str) -> None:
        answer = self.send(Request("DELETE", self.url(object_path(key))), (200, 204))
        if answer.status != 204:
            raise answer.unexpected("no deletion")

    def delete_together(self, keys: Sequence[str]) -> Mapping[str, HttpFault | None]:
        start = len(self._transport.endpoint)
        parts = [batch.BatchPart(self.url(object_path(key))[start:]) for key in keys]
        url, headers = f"{self._transport.endpoint}/batch/storage/v1", {"Content-Type": batch.CONTENT_TYPE}
        request = Request("POST", url, headers, Body(batch.batch_of(parts)), Call.DELETE, LARGEST_LIST)
        answers = batch.answers_of(self.send(request, (200,)))
        return {
            keys[number]: None if answer.status == 204 else fault_of(answer)
            for number, answer in answers.items()
            if number < len(keys)
        }

    def granted(self, permissions: Sequence[str]) -> frozenset[str]:
        """Return which of these permissions the bucket grants to the caller."""
        text = "&".join(f"permissions={name}" for name in permissions)
        url = self.url("/iam/testPermissions")
        answer = self.send(Request("GET", f"{url}{'&' if '?' in url else '?'}{text}"), (200,)).fields()
        found = answer.get("permissions", [])
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    def can_delete_together(self, _key: str, /) -> bool:
        return True

    def can_hold(self, key: str) -> bool:
        return key not in _NO_NAMES and not any(character in key for character in _NOT_IN_NAMES)

    def translated(self, fault: HttpFault, place: str, what: str) -> StorageFailed:
        return translate(fault, place, what, DIALECT, self.endpoint, self.identity)

    def url(self, path: str, *, base: str = "/storage/v1/b/", **query: str) -> str:
        given = {**query, **({"userProject": self._payer} if self._payer else {})}
        text = urlencode(given, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}{base}{_quoted(self._bucket)}{path}" + (f"?{text}" if text else "")

    def send(self, request: Request, statuses: tuple[int, ...]) -> Answer:
        """Send a request once, and again with new credentials where the store refused the first ones."""
        for is_last in (False, True):
            is_ours = request.url.startswith(f"{self._transport.endpoint}/")
            headers = {**request.headers, **(self._credentials.headers() if is_ours else {})}
            answer = self._transport.send(replace(request, headers=headers))
            if answer.status != 401 or is_last or not self._credentials.renew(headers):
                break
        if answer.status in statuses:
            return answer
        if answer.status < 400:
            raise HttpFault(Fate.UNEXPECTED, f"HTTP {answer.status} {answer.headers.get('location', '')[:80]}".rstrip())
        raise fault_of(answer)


def object_path(key: str) -> str:
    """Return the path of an object. Raises HttpFault for a key that no object can have."""
    if key in _NO_NAMES:
        raise HttpFault(Fate.ANSWERED, "no object can have this name", status=404)
    return f"/o/{_quoted(key)}"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")


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
