"""Tables in Google Cloud Storage: the calls of a bucket by its JSON API, and the versions of its objects.

Own requests instead of a library: those that were tried send a conditional creation again by default when its answer is
lost, and find their own object (docs/decisions/0099-own-requests-for-gcs-and-azure.md).

Small objects are uploaded in one request, larger ones in a resumable session. A session belongs to
one upload. When the answer to its last piece is lost, the session still says whether the object was created, so that a
repeated piece cannot be taken for another writer's object.

Answers are validated: a proxy or a captive portal may answer instead of the store. Such an answer is an error, not an
empty listing, a missing file or a created object.

Either way the object gets a new generation and a new time.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from deltacli.core.errors import FileMissing, PermissionRefused, UsageError, parameter
from deltacli.core.typing import Json, JsonObject
from deltacli.storage.fsspec_storage import require_libraries
from deltacli.storage.gcs.credentials import GcsCredentials, GcsOptions, read_gcs_options
from deltacli.storage.grants import ASK_PROVIDER, HeldGrant
from deltacli.storage.objects import http
from deltacli.storage.objects.calls import ABSENT, Content, Entry, ListedPage, Source, length_of, md5_of, missing_fault
from deltacli.storage.objects.store import ObjectStorage, ObjectVersions, VersionPage, create_object
from deltacli.storage.outcomes import Creation
from deltacli.storage.retry import GCS_PRICES, Call, Retry
from deltacli.storage.versions import Keeping, ObjectVersion, VersionedObjects, VersionState

DIALECT = http.Dialect(
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
_PROPERTIES = "name,size,updated,generation,md5Hash"
_MOST_REWRITES = 10_000
_NOT_IN_NAMES = ("\r", "\n")
_NO_NAMES = ("", ".", "..")
"""No names of objects. In a URL they would name a collection or the bucket."""
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_TOO_LONG = 19
_BUCKET_GONE = "bucket does not exist"

_NO_BATCHES = {404, 405, 501}
Fields = JsonObject


class GcsCalls(http.HttpCalls):
    """Calls of one bucket. A token that the store refuses is renewed once per request."""

    deletes_per_request = 100
    starts_anywhere = True
    dialect: http.Dialect = DIALECT
    credentials: GcsCredentials

    def __init__(self, bucket: str, options: GcsOptions, credentials: GcsCredentials, retry: Retry) -> None:
        super().__init__(http.Transport(options.endpoint, options.verify))
        self._bucket, self._payer, self._retry, self.credentials = bucket, options.payer, retry, credentials
        if options.held is not None:
            check = "check the network and the proxy settings"
            self.dialect = replace(DIALECT, who=ASK_PROVIDER, list_holders=ASK_PROVIDER, check_endpoint=check)
        self._transport.tally = retry.tally.of(self.endpoint, GCS_PRICES if self.is_known_atomic else None)

    @property
    def is_known_atomic(self) -> bool:
        host = f".{urlsplit(self._transport.endpoint).hostname or ''}"
        return host.endswith(_OF_GOOGLE)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        asked = {"prefix": prefix, "delimiter": delimiter, "startOffset": start, "pageToken": token}
        given = {name: text for name, text in asked.items() if text}
        url = self.url("/o", maxResults=str(limit or _PAGE), fields=_LISTED, **given)
        answer = self.send(http.Request("GET", url, call=Call.LIST, limit=http.LARGEST_LIST), (200,))
        fields = answer.fields()
        if fields.get("kind") != "storage#objects":
            raise answer.unexpected("no listing")
        entries = [_entry(item, prefix, answer) for item in _list(fields, "items", answer)]
        prefixes = [_below(item, prefix, answer) for item in _list(fields, "prefixes", answer)]
        return ListedPage(entries, prefixes, str(fields.get("nextPageToken") or ""))

    def look(self, key: str) -> tuple[Entry, str]:
        url = self.url(object_path(key), fields=_PROPERTIES)
        return gcs_properties(self._send_for(key, http.Request("GET", url, call=Call.HEAD), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> Content:
        condition = {"ifGenerationMatch": tag} if tag else {}
        condition |= {"generation": version_id} if version_id else {}
        url = self.url(object_path(key), alt="media", **condition)
        headers = {"Range": span} if span else {}
        request = http.Request("GET", url, headers, limit=length_of(span), reads_object=True)
        return gcs_content(self._send_for(key, request, (200, 206) if span else (200,)), span)

    def _send_for(self, key: str, request: http.Request, statuses: tuple[int, ...]) -> http.Answer:
        try:
            return self.send(request, statuses)
        except http.HttpFault as fault:
            held = self.credentials.options.held
            if held is None or fault.status != 403 or not (missing := missing_fault(self, key)):
                raise
            raise missing from None

    def write(self, key: str, body: http.Body, condition: str | None) -> None:
        generation = {} if condition is None else {"ifGenerationMatch": "0" if condition == ABSENT else condition}
        url = self.url("/o", base="/upload/storage/v1/b/", name=key, **generation)
        if body.size <= LARGEST_SINGLE:
            require_stored_in_gcs(self.send(single(url, key, body), (200, 201)), body.size)
        else:
            send_in_session(self.send, self._retry, self.endpoint, url, key, body)

    def copy(self, source: Source, key: str, condition: str) -> None:
        """Copy an object. Each request of a copy is sent once: only the store knows which of them was the last."""
        given = {"ifGenerationMatch": "0" if condition == ABSENT else condition}
        given |= {"sourceGeneration": version} if (version := source.version_id or source.tag) else {}
        path = f"{object_path(source.key)}/rewriteTo/b/{_quoted(self._bucket)}{object_path(key)}"
        for _ in range(_MOST_REWRITES):
            answer = self.send(http.Request("POST", self.url(path, **given)), (200,))
            if token := rewrite_token_of(answer, source.size_bytes):
                given["rewriteToken"] = token
            else:
                return
        raise http.HttpFault(http.Fate.BROKEN, "the copy was not finished")

    def delete(self, key: str) -> None:
        answer = self.send(http.Request("DELETE", self.url(object_path(key))), (200, 204))
        if answer.status != 204:
            raise answer.unexpected("no deletion")

    def delete_together(self, keys: Sequence[str]) -> Mapping[str, http.HttpFault | None]:
        start = len(self._transport.endpoint)
        parts = [http.BatchPart(self.url(object_path(key))[start:]) for key in keys]
        url, headers = f"{self._transport.endpoint}/batch/storage/v1", {"Content-Type": http.BATCH_CONTENT_TYPE}
        request = http.Request("POST", url, headers, http.Body(http.batch_of(parts)), Call.DELETE, http.LARGEST_LIST)
        try:
            return http.faults_of_batch(self.send(request, (200,)), keys, 204, gcs_fault)
        except http.HttpFault as fault:
            if fault.status in _NO_BATCHES:
                self._has_batches = False  # emulators and private endpoints may have none
            raise

    def granted(self, permissions: Sequence[str]) -> frozenset[str]:
        """Return which of these permissions the bucket grants to the caller."""
        text = "&".join(f"permissions={name}" for name in permissions)
        url = self.url("/iam/testPermissions")
        answer = self.send(http.Request("GET", f"{url}{'&' if '?' in url else '?'}{text}"), (200,)).fields()
        found = answer.get("permissions", [])
        return frozenset(map(str, found)) if isinstance(found, list) else frozenset()

    def can_hold(self, key: str) -> bool:
        return key not in _NO_NAMES and not any(character in key for character in _NOT_IN_NAMES)

    def url(self, path: str, *, base: str = "/storage/v1/b/", **query: str) -> str:
        given = {**query, **({"userProject": self._payer} if self._payer else {})}
        text = urlencode(given, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}{base}{_quoted(self._bucket)}{path}" + (f"?{text}" if text else "")

    def send(self, request: http.Request, statuses: tuple[int, ...]) -> http.Answer:
        """Send a request once, and again with new credentials where the store refused the first ones."""
        for is_last in (False, True):
            is_ours = request.url.startswith(f"{self._transport.endpoint}/")
            headers = {**request.headers, **(self.credentials.headers() if is_ours else {})}
            answer = self._transport.send(replace(request, headers=headers))
            if answer.status != 401 or is_last or not self.credentials.renew(headers):
                break
        if answer.status in statuses:
            return answer
        answer.require_error()
        raise gcs_fault(answer)


def object_path(key: str) -> str:
    """Return the path of an object. Raises HttpFault for a key that no object can have."""
    if key in _NO_NAMES:
        raise http.HttpFault(http.Fate.ANSWERED, "no object can have this name", status=404)
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

Send = Callable[[http.Request, tuple[int, ...]], http.Answer]
"""Sends a request once, with credentials; statuses besides those given raise HttpFault."""


def single(url: str, key: str, body: http.Body) -> http.Request:
    """Return the request that creates an object with its digest, which the store compares."""
    boundary = uuid4().hex
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{_metadata(key, body)}\r\n"
        f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    ).encode()
    content = b"".join((head, body.read(), f"\r\n--{boundary}--\r\n".encode()))
    headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
    return http.Request("POST", f"{url}&uploadType=multipart", headers, http.Body(content))


def send_in_session(send: Send, retry: Retry, host: str, url: str, key: str, body: http.Body) -> None:
    """Send an object in pieces. Raises HttpFault; with Fate.UNSENT where the object was certainly not written."""

    def ask(request: http.Request, statuses: tuple[int, ...]) -> http.Answer:
        return http.repeat_call(retry, lambda: send(request, statuses), host=host)

    session = _begin(ask, url, key, body)
    done, size, idle = 0, body.size, 0
    while idle < _MOST_WITHOUT_PROGRESS:
        piece = body.part(done, PIECE_BYTES)
        span = f"bytes {done}-{done + piece.size - 1}/{size}" if piece.size else f"bytes */{size}"
        try:
            answer = send(http.Request("PUT", session, {"Content-Range": span}, piece), (200, 201, _RESUME))
        except http.HttpFault as fault:
            if fault.fate is http.Fate.ANSWERED and not http.passing_cause(fault):
                raise
            answer = _state(ask, session, size)
        if answer.status != _RESUME:
            require_stored_in_gcs(answer, size)
            return
        text = answer.headers.get("range", "")
        match = _RECEIVED.fullmatch(text)
        if (text and not match) or (match and int(match[1]) >= size):
            raise answer.unexpected(f"the range {text[:80]} of {size} bytes")
        received = int(match[1]) + 1 if match else 0
        done, idle = received, 0 if received > done else idle + 1
    raise http.HttpFault(
        http.Fate.BROKEN, f"the upload stopped at {done} of {size} bytes: the store accepts no more of it"
    )


def _begin(ask: Send, url: str, key: str, body: http.Body) -> str:
    """Return the URL of a new session. Nothing is created by it, so it may be repeated."""
    headers = {
        "Content-Type": "application/json; charset=UTF-8",
        "X-Upload-Content-Type": "application/octet-stream",
        "X-Upload-Content-Length": str(body.size),
    }
    request = http.Request("POST", f"{url}&uploadType=resumable", headers, http.Body(_metadata(key, body).encode()))
    try:
        answer = ask(request, (200, 201))
    except http.HttpFault as fault:
        if fault.fate is http.Fate.ANSWERED and fault.status < 500:
            raise
        raise fault.unsent() from fault
    session = answer.headers.get("location", "")
    if not session.startswith(("http://", "https://")):
        raise answer.unexpected("a session without its address")
    return session


def _state(ask: Send, session: str, size: int) -> http.Answer:
    """Return what a session has received after the answer to a piece was lost."""
    try:
        return ask(http.Request("PUT", session, {"Content-Range": f"bytes */{size}"}), (200, 201, _RESUME))
    except http.HttpFault as fault:
        if fault.fate is not http.Fate.ANSWERED or http.passing_cause(fault):
            raise
        # The piece may have been the last one, and the session is gone: whether it created the object is unknown.
        raise http.HttpFault(http.Fate.BROKEN, f"the state of the upload is unknown: {fault}") from fault


def _metadata(key: str, body: http.Body) -> str:
    fields: Mapping[str, str] = {"name": key, "md5Hash": base64.b64encode(body.md5()).decode()}
    return json.dumps(fields)


def gcs_fault(answer: http.Answer) -> http.HttpFault:
    """Return the fault of an answer whose status is an error."""
    try:
        found = json.loads(answer.data)["error"]
        word = (found.get("errors") or [{}])[0].get("reason", "") if isinstance(found, dict) else ""
        message = str(found.get("message", "")) if isinstance(found, dict) else str(found)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        word, message = "", _kind(answer) if _is_page(answer) else answer.data[:400].decode("utf-8", "replace")
    reason = "bucketNotFound" if answer.status == 404 and _BUCKET_GONE in message else str(word)
    if answer.status == 404 and _is_page(answer):
        # A file is missing only if the store says so, not if a proxy does not find a page.
        return http.HttpFault(http.Fate.UNEXPECTED, http.said_of(f"HTTP 404, {_kind(answer)}"))
    return answer.error(http.said_of(message), reason)


def gcs_properties(answer: http.Answer, key: str) -> tuple[Entry, str]:
    fields = answer.fields()
    if fields.get("name") != key or not fields.get("generation"):
        raise answer.unexpected("no properties of the object")
    return _entry(fields, key, answer)._replace(md5=md5_of(str(fields.get("md5Hash", "")))), str(fields["generation"])


def gcs_content(answer: http.Answer, span: str) -> Content:
    """Return the content of an object, or of the range that was asked for."""
    tag, data = answer.headers.get("x-goog-generation", ""), answer.data
    if not tag:
        raise answer.unexpected("no generation of an object")
    if answer.headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        raise answer.unexpected("an object that is stored compressed (Content-Encoding), which has no ranges")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise answer.unexpected("an object that was compressed on its way, which was not asked for")
    if answer.status == 200:
        return Content(data, 0, len(data), tag)
    match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    if end - start + 1 != len(data) or end >= size or not _answers(span, start, end, size):
        raise answer.unexpected(f"{len(data)} bytes as {answer.headers.get('content-range', '')[:80]} for {span}")
    return Content(data, start, size, tag)


def require_stored_in_gcs(answer: http.Answer, size: int) -> None:
    """Raise HttpFault unless an answer to an upload has the generation and the size of the object."""
    fields = answer.fields()
    if not fields.get("generation") or str(fields.get("size")) != str(size):
        raise answer.unexpected(f"no properties of an object of {size} bytes")


def rewrite_token_of(answer: http.Answer, size: int) -> str:
    """Return the token of the next request of a copy, '' for one that is done. Raises HttpFault for another answer."""
    fields = answer.fields()
    resource = fields.get("resource")
    if fields.get("kind") != "storage#rewriteResponse":
        raise answer.unexpected("no answer to a copy")
    if fields.get("done") is not True:
        if not fields.get("rewriteToken"):
            raise answer.unexpected("a copy that is not done, without the token of the next request")
        return str(fields["rewriteToken"])
    if not isinstance(resource, dict) or str(resource.get("size")) != str(size):
        raise answer.unexpected(f"no properties of a copy of {size} bytes")
    return ""


def _answers(span: str, start: int, end: int, size: int) -> bool:
    """Return whether a range is the one that was asked for; shorter only at the end of the object."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    if not first:
        return end + 1 == size and start == max(0, size - int(last))
    return start == int(first) and end == min(int(last), size - 1)


def _entry(item: object, prefix: str, answer: http.Answer) -> Entry:
    fields: Fields = item if isinstance(item, dict) else {}
    key = _below(fields.get("name"), prefix, answer)
    size, modified = str(fields.get("size", "")), parse_milliseconds(fields.get("updated"))
    if not size.isdecimal() or len(size) > _TOO_LONG or modified is None:
        raise answer.unexpected(f"an object without its size or time: {key[:80]!r}")
    return Entry(key, int(size), modified)


def _below(key: object, prefix: str, answer: http.Answer) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise answer.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _list(fields: Fields, name: str, answer: http.Answer) -> list[Any]:
    found = fields.get(name, [])
    if not isinstance(found, list):
        raise answer.unexpected(f"{name} is not a list")
    return found


def parse_milliseconds(text: object) -> int | None:
    """Return a time of the store (RFC 3339) in milliseconds."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    # Without a float: its rounding could move a time to the millisecond before.
    return None if moment.tzinfo is None else int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _kind(answer: http.Answer) -> str:
    return answer.headers.get("content-type", "")[:80]


def _is_page(answer: http.Answer) -> bool:
    """Return whether an answer is a web page. The store calls its short messages text/html as well."""
    return b"<html" in answer.data[:1000].lower() or b"<!doctype html" in answer.data[:1000].lower()


# -- versions of objects of Google Cloud Storage -----------------------------------------------------------------------

PAGE = 1_000
_VERSIONS, _SOFT_DELETED = "versions", "softDeleted"
_FIELDS = "kind,nextPageToken,items(name,size,updated,generation,timeDeleted)"
_POLICY = "softdeletepolicy"


class GcsVersions(ObjectVersions):
    """The versions of the objects of a bucket."""

    listings = (_VERSIONS, _SOFT_DELETED)
    list_permission = "storage.objects.list"
    read_permission = "storage.objects.get"

    def __init__(self, store: ObjectStorage, calls: GcsCalls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> Keeping:
        permission = "storage.buckets.get"
        request = http.Request("GET", self._calls.url("", fields="versioning,softDeletePolicy"), call=Call.HEAD)
        try:
            fields: dict[str, Any] = self.ask(
                lambda: self._calls.send(request, (200,)).fields(), "", "read", permission
            )
        except PermissionRefused:
            return Keeping(is_kept=None, how=f"{permission} is denied")
        seconds = str((fields.get("softDeletePolicy") or {}).get("retentionDurationSeconds", "0"))
        on = ["versioning is enabled"] if (fields.get("versioning") or {}).get("enabled") else []
        on += (
            [f"deleted objects are kept for {int(seconds) // 86_400} days"]
            if seconds.isdecimal() and int(seconds)
            else []
        )
        return Keeping(is_kept=True, how=", ".join(on)) if on else self.kept_before("versioning and soft delete")

    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        given = {listing: "true", "prefix": prefix, "pageToken": token}
        url = self._calls.url(
            "/o", maxResults=str(PAGE), fields=_FIELDS, **{name: text for name, text in given.items() if text}
        )
        try:
            answer = self._calls.send(http.Request("GET", url, call=Call.LIST, limit=http.LARGEST_LIST), (200,))
        except http.HttpFault as fault:
            if listing == _SOFT_DELETED and fault.status in (400, 412) and _POLICY in fault.reason.lower():
                return VersionPage([], "")  # the bucket has no soft delete
            raise
        fields: dict[str, Any] = answer.fields()
        items = fields.get("items", [])
        if fields.get("kind") != "storage#objects" or not isinstance(items, list):
            raise answer.unexpected("no listing of versions")
        versions = [_version(item, prefix, answer, is_soft=listing == _SOFT_DELETED) for item in items]
        return VersionPage(versions, str(fields.get("nextPageToken") or ""))

    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        return sorted(versions, key=lambda version: -int(version.version_id))

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        try:
            if version.state is VersionState.SOFT_DELETED:
                return self._restore(version, instead_of)
            return self.copy(version, instead_of, "storage.objects.get, storage.objects.create")
        except FileMissing:
            raise self.gone(version) from None

    def _restore(self, version: ObjectVersion, instead_of: ObjectVersion | None) -> Creation:
        key = self.key(version.path)
        live = instead_of.version_id if instead_of is not None else "0"
        url = self._calls.url(
            f"{object_path(key)}/restore", generation=version.version_id, ifGenerationMatch=live, fields="name,size"
        )

        def send() -> None:
            answer = self._calls.send(http.Request("POST", url), (200,))
            if str(answer.fields().get("size")) != str(version.size_bytes):
                raise answer.unexpected(f"no properties of an object of {version.size_bytes} bytes")

        place = f"{self._store.uri}/{version.path}"
        return self.permitted(
            lambda: create_object(self._calls, self._store.retry, send, place, "brought back"),
            "storage.objects.restore, storage.objects.create",
        )


def _version(item: Json, prefix: str, answer: http.Answer, *, is_soft: bool) -> ObjectVersion:
    fields = item if isinstance(item, dict) else {}
    key, size, generation = fields.get("name"), str(fields.get("size", "")), str(fields.get("generation", ""))
    modified = parse_milliseconds(fields.get("updated"))
    if not isinstance(key, str) or not key.startswith(prefix):
        raise answer.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    if not size.isdecimal() or not generation.isdecimal() or modified is None:
        raise answer.unexpected(f"a version without its size, generation or time: {key[:80]!r}")
    state = VersionState.NONCURRENT if fields.get("timeDeleted") else VersionState.CURRENT
    state = VersionState.SOFT_DELETED if is_soft else state
    return ObjectVersion(key, generation, int(size), modified, state, generation)


# -- tables in Google Cloud Storage ------------------------------------------------------------------------------------

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_SCHEMES = ("gs", "gcs")
LIBRARIES = ("urllib3", "google.auth.transport.requests")


def open_gcs(
    uri: str, options: Mapping[str, str], *, retry: Retry | None = None, held: HeldGrant | None = None
) -> ObjectStorage:
    """Return the store of a `gs` or `gcs` URI, with the credentials of a grant if there is one. Raises UsageError."""
    uri = uri.rstrip("/")
    scheme, _, rest = uri.partition("://")
    bucket, _, root = rest.partition("/")
    if "@" in bucket:
        raise UsageError(
            "invalid character @ in the name of the bucket: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": f"the application default credentials, or {parameter('storage_options.token', '@FILE')}"},
        )
    if not _BUCKET.fullmatch(bucket):
        said = f"invalid name of a bucket: {bucket!r}" if bucket else f"{scheme.rstrip(':')}:// does not name a bucket"
        raise UsageError(said, code="usage.table", hint="gs://BUCKET/PATH")
    read = read_gcs_options(options) if held is None else replace(read_gcs_options(options, {}), held=held)
    has_token = read.anonymous or held is not None or read.access_token
    require_libraries(scheme, *(LIBRARIES[:1] if has_token else LIBRARIES))
    policy = retry or Retry()

    def make() -> GcsCalls:
        return GcsCalls(bucket, read, GcsCredentials(read, f"{scheme}://{bucket}"), policy)

    calls = make() if held is not None else policy.shared(f"{scheme}://{bucket}", options, make)
    aliases = tuple(f"{other}://{rest}" for other in _SCHEMES if other != scheme)

    def versions(store: ObjectStorage) -> VersionedObjects:
        return GcsVersions(store, calls)

    return ObjectStorage(uri, root, calls, aliases=aliases, retry=policy, versions=versions)
