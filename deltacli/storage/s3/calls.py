"""The calls of a bucket of S3 or a compatible store.

Uses botocore, the library below s3fs and boto3, instead of s3fs, whose asynchronous transport repeats a PUT when a
connection breaks. A repeated conditional PUT finds its own first attempt and takes it for another writer's.

Answers are validated: a proxy, a captive portal or another server may answer instead of the store. Such an answer is an
error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.core.typing import Botocore
from deltacli.storage.objects import http
from deltacli.storage.objects.calls import ABSENT, Content, Entry, ListedPage, Source, Uploads, length_of, missing_fault
from deltacli.storage.retry import BODY_ATTEMPTS, S3_PRICES, Call, HostTally, Retry
from deltacli.storage.s3.options import S3Options, make_client, make_session

Answer = TypeVar("Answer")

DIALECT = http.Dialect(
    store="S3",
    holder="bucket",
    holder_missing=frozenset({"NoSuchBucket"}),
    exists=frozenset(),
    who="aws sts get-caller-identity",
    list_holders="aws s3api list-buckets",
    check_endpoint="check AWS_ENDPOINT_URL and AWS_REGION",
    condition="If-None-Match",
    undone=frozenset({409}),
    undone_reasons=http.THROTTLED,
    disorder=", as directory buckets are",
)
_NO_CONTENT = 204
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_AWS = re.compile(r"\.(?:amazonaws\.com(?:\.cn)?|api\.aws|c2s\.ic\.gov|sc2s\.sgov\.gov)$")
_CALLS = {
    "ListObjectsV2": Call.LIST,
    "GetObject": Call.GET,
    "HeadObject": Call.HEAD,
    "HeadBucket": Call.HEAD,
    "DeleteObject": Call.DELETE,
    "DeleteObjects": Call.DELETE,
    "AbortMultipartUpload": Call.DELETE,
}
"""Operations that are no PUT."""
Fields = Mapping[str, Botocore]

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_STATUSES = {
    "NoSuchKey": 404,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "OperationAborted": 503,
}
"""Statuses for the codes of a bulk deletion, which has none. A single request is answered OperationAborted with 409, a
status that is not temporary in general.
"""
_ARCHIVE_CLASSES = {"GLACIER", "DEEP_ARCHIVE"}
"""Classes whose objects are restored before they can be read. GLACIER_IR is read at once, as STANDARD_IA is."""
_RESTORED = 'ongoing-request="false"'
"""In the header x-amz-restore of an object whose restored copy can be read."""
_OF_A_LISTING = {"Contents", "CommonPrefixes", "IsTruncated", "KeyCount", "MaxKeys", "Name", "Prefix"}


class S3Calls:
    """Calls of one bucket, by a client that is made on first use. Thread-safe."""

    deletes_per_request = 1_000
    starts_anywhere = True
    dialect = DIALECT

    def __init__(self, uri: str, bucket: str, options: S3Options, retry: Retry) -> None:
        self._uri, self.bucket, self.options, self.retry = uri, bucket, options, retry
        self.uploads: Uploads | None = None
        self.max_attempts = None if retry.is_explicit else options.max_attempts
        self.payer = {"RequestPayer": "requester"} if options.requester_pays else {}
        self._has_bulk_deletions = True
        self._lock = Lock()
        self._made: Botocore = None
        self._session: Any = None  # Any: as above

    @property
    def client(self) -> Botocore:
        if self._made is None:
            from deltacli.storage.s3.faults import FAULTS, translate_options

            with self._lock:
                if self._made is None:
                    try:
                        self._connect(make_session(self.options))
                    except FAULTS as fault:
                        error = translate_options(fault, self._uri, self.options)
                        raise error from error.__cause__
        return self._made

    def _connect(self, session: Botocore) -> None:
        made = make_client(self.options, session)
        bound_answers(made)
        count_calls(made, self.retry.tally.of(_host(made), S3_PRICES if is_aws(made) else None))
        self._made, self._session = made, session

    @property
    def endpoint(self) -> str:
        return _host(self.client)

    @property
    def identity(self) -> str:
        from deltacli.storage.s3.faults import used_credentials

        return used_credentials(self.client, self.options)

    @property
    def is_known_atomic(self) -> bool:
        return is_aws(self.client)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        asked = {"Delimiter": delimiter, "StartAfter": just_below(start), "ContinuationToken": token, "MaxKeys": limit}
        given = {name: value for name, value in asked.items() if value} | self.payer
        return s3_page(
            self.send(lambda client: client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **given)), prefix
        )

    def look(self, key: str) -> tuple[Entry, str]:
        answer = self._send_for(key, lambda client: client.head_object(**self.of(key)))
        _require_object(answer)
        size, modified = answer.get("ContentLength"), answer.get("LastModified")
        if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
            raise unexpected(_described(answer))
        is_restored = _RESTORED in str(answer.get("Restore") or "")
        entry = Entry(
            key, size, milliseconds(modified), archive_class=archive_class_of(answer), is_restored=is_restored
        )
        return entry, str(answer.get("ETag", ""))

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> Content:
        """Return an object or a range, asked for again where its body breaks off: not one of `max_attempts`."""
        from deltacli.storage.s3.faults import FAULTS, is_broken_off

        given = {"Range": span, "IfMatch": tag, "VersionId": version_id}
        asked = self.of(key) | {name: value for name, value in given.items() if value}

        def send(client: Botocore) -> Content:
            for left in reversed(range(BODY_ATTEMPTS)):
                answer: dict[str, Any] = client.get_object(**asked)
                try:
                    return s3_content(answer, body_of(answer, span), span)
                except FAULTS as fault:
                    if not left or not is_broken_off(fault):
                        raise
            raise AssertionError("unreachable")

        return self._send_for(key, send)

    def _send_for(self, key: str, call: Callable[[Botocore], Answer]) -> Answer:
        try:
            return self.send(call)
        except http.HttpFault as fault:
            if self.options.held is None or fault.status != 403 or not (missing := missing_fault(self, key)):
                raise
            raise missing from None

    def write(self, key: str, body: http.Body, condition: str | None) -> None:
        given = {} if condition is None else if_of(condition)

        def send(client: Botocore) -> Botocore:
            with body.opened() as content:
                return client.put_object(**self.of(key), Body=content, **given)

        require_stored_in_s3(self.send(send))

    def copy(self, source: Source, key: str, condition: str) -> None:
        asked = {**self.of(key), **self.copied(source), **if_of(condition)}
        require_copied(self.send(lambda client: client.copy_object(**asked)), "CopyObjectResult")

    def copied(self, source: Source) -> dict[str, Botocore]:
        named = {"Bucket": self.bucket, "Key": source.key}
        named |= {"VersionId": source.version_id} if source.version_id else {}
        return {"CopySource": named} | ({"CopySourceIfMatch": source.tag} if source.tag else {})

    def delete(self, key: str) -> None:
        answer = self.send(lambda client: client.delete_object(**self.of(key)))
        if (status := answer["ResponseMetadata"]["HTTPStatusCode"]) != _NO_CONTENT:
            raise unexpected(f"the store answers {status} where S3 answers {_NO_CONTENT}")

    def delete_together(self, keys: Sequence[str]) -> Mapping[str, http.HttpFault | None]:
        """Delete objects in one request. S3 does not report whether an object existed."""
        asked = {"Bucket": self.bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}, **self.payer}
        try:
            return faults_of(self.send(lambda client: client.delete_objects(**asked)), keys)
        except http.HttpFault as fault:
            if http.refuses_together(fault):
                self._has_bulk_deletions = False
            raise

    def can_delete_together(self, key: str, /) -> bool:
        return self._has_bulk_deletions and not _NOT_IN_XML.search(key)

    def can_hold(self, key: str) -> bool:  # noqa: ARG002  (of the port)
        return True

    def place(self, key: str) -> str:
        """Return the URI of an object."""
        return f"{self._uri.partition('://')[0]}://{self.bucket}/{key}"

    def of(self, key: str) -> dict[str, Botocore]:
        return {"Bucket": self.bucket, "Key": key, **self.payer}

    def send(self, call: Callable[[Botocore], Answer]) -> Answer:
        """Make a call once. If the store refuses its credentials, it has done nothing: where the chain has other
        credentials by now, make the call again with those.
        """
        from deltacli.storage.s3.faults import FAULTS, refuses_credentials, s3_fault

        client, held = self.client, self.options.held
        keys = held.options() if held is not None else {}
        try:
            try:
                return call(client)
            except FAULTS as fault:
                if not refuses_credentials(fault) or not self._has_others(client, keys):
                    raise
            return call(self.client)
        except FAULTS as fault:
            raise s3_fault(fault) from fault

    def _has_others(self, refused: Botocore, keys: Mapping[str, str]) -> bool:
        """Return whether credentials other than the refused ones are there now, and use them from now on."""
        from deltacli.storage.s3.faults import FAULTS

        if self.options.held is not None:
            return self.options.held.replace_refused(keys)
        with self._lock:
            if self._made is not refused:
                return True
            try:
                session = make_session(self.options)
                if _key_of(session) in (None, _key_of(self._session)):
                    return False
                self._connect(session)
            except FAULTS:
                return False
        return True

    def translated(self, fault: http.HttpFault, place: str, what: str) -> StorageFailed | UsageError:
        from deltacli.storage.s3.faults import translate_boto

        return translate_boto(fault, place, what, self.options, self.client)


def _key_of(session: Botocore) -> tuple[str, str | None] | None:
    found = session.get_credentials()
    frozen = found.get_frozen_credentials() if found else None
    return (frozen.access_key, frozen.token) if frozen else None


def if_of(condition: str) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if condition == ABSENT else {"IfMatch": condition}


def is_aws(client: Botocore) -> bool:
    return bool(_AWS.search(urlsplit(str(client.meta.endpoint_url)).hostname or ""))


def count_calls(client: Botocore, tally: HostTally) -> None:
    """Count each request of a client when it is sent, and the bytes of its answer."""

    def sent(request: Botocore, event_name: str, **_: object) -> None:
        tally.sent(_CALLS.get(event_name.rpartition(".")[2], Call.PUT), _length(request.headers, "Content-Length"))

    def received(response_dict: Mapping[str, Botocore] | None = None, **_: object) -> None:
        answer = response_dict or {}
        body = answer.get("body")  # of a download, it is read later
        tally.received(len(body) if isinstance(body, bytes) else _length(answer.get("headers", {}), "content-length"))

    client.meta.events.register("before-send.s3", sent)
    client.meta.events.register("response-received.s3", received)


def bound_answers(client: Botocore) -> None:
    """Make a client read no more of an answer than one has that is no object; botocore itself reads to the end."""
    from deltacli.storage.s3.bounded_botocore import BoundedSession

    endpoint = client._endpoint  # nothing public sends its requests
    endpoint.http_session = BoundedSession(endpoint.http_session)


def _length(headers: Mapping[str, Any], name: str) -> int:  # Any: values of headers
    value = headers.get(name, b"0")
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _host(client: Botocore) -> str:
    return urlsplit(str(client.meta.endpoint_url)).netloc.rpartition("@")[2]


def unexpected(seen: str) -> http.HttpFault:
    """Return the fault of an answer that S3 does not give."""
    return http.HttpFault(http.Fate.UNEXPECTED, seen)


def s3_page(answer: Fields, prefix: str) -> ListedPage:
    """Return a page of the listing below `prefix`."""
    if not _OF_A_LISTING & answer.keys():
        raise unexpected(_described(answer))
    entries = [_entry(entry, prefix) for entry in _dictionaries(answer, "Contents")]
    prefixes = [_below(entry.get("Prefix"), prefix) for entry in _dictionaries(answer, "CommonPrefixes")]
    token = str(answer.get("NextContinuationToken") or "") if answer.get("IsTruncated") else ""
    if answer.get("IsTruncated") and not token:
        raise unexpected("a page without the token of the next page")
    return ListedPage(entries, prefixes, token)


def require_stored_in_s3(answer: Fields) -> None:
    """Raise HttpFault unless the answer to a PUT has the tag of the object that was stored."""
    if not answer.get("ETag"):
        raise unexpected("the answer has no entity tag, so it may not come from the store")


def require_copied(answer: Fields, name: str) -> str:
    """Return the tag of what was copied. Raises HttpFault for an answer without one."""
    result = answer.get(name)
    if not isinstance(result, dict) or not result.get("ETag"):
        raise unexpected("the answer has no entity tag of the copy, so it may not come from the store")
    return str(result["ETag"])


def body_of(answer: Fields, span: str) -> bytes:
    """Return the body of an object or of a range ('' for all). Raises HttpFault where it is too long or cut off."""
    declared = answer.get("ContentLength")
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if declared is None and "transfer-encoding" not in headers:
        answer["Body"].close()
        raise unexpected("an object without its length")
    limit = declared if isinstance(declared, int) else http.LARGEST_UNDECLARED
    limit = length_of(span) if span and answer.get("ContentRange") else limit
    data = None if isinstance(declared, int) and declared > limit else http.read_up_to(limit, answer["Body"].read)
    if data is None:
        answer["Body"].close()
        raise unexpected(f"more than {limit:,} bytes")
    return data


def s3_content(answer: Fields, data: bytes, span: str) -> Content:
    """Return the content of an object, or of the range that was asked for; all of it where the store ignores ranges."""
    _require_object(answer)
    tag, shown = str(answer.get("ETag", "")), answer.get("ContentRange") if span else None
    if shown is None:
        return Content(data, 0, len(data), tag)
    match = _RANGE.fullmatch(str(shown))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    first, _, last = span.removeprefix("bytes=").partition("-")
    is_asked = start == int(first) and end == min(int(last), size - 1) if first else end + 1 == size
    if end - start + 1 != len(data) or end >= size or not is_asked:
        raise unexpected(f"{len(data)} bytes as the range {str(shown)[:80]} for {span}")
    return Content(data, start, size, tag)


def faults_of(answer: Fields, keys: Sequence[str]) -> dict[str, http.HttpFault | None]:
    """Return what a bulk deletion reports of these keys."""
    found: dict[str, http.HttpFault | None] = {entry.get("Key"): None for entry in answer.get("Deleted", [])}
    for entry in answer.get("Errors", []):
        reason = str(entry.get("Code"))
        said = f"{reason}: {entry.get('Message')}"
        found[entry.get("Key")] = http.HttpFault(
            http.Fate.ANSWERED, said, status=_STATUSES.get(reason, 0), reason=reason
        )
    return {key: found[key] for key in keys if key in found}


def just_below(key: str) -> str:
    """Return a key closely before another one, because S3 lists the keys after a key, the port those from one on. The
    keys between them are unusual ones; `p=1.5/`, which is before `p=1/`, is before both.
    """
    if not key:
        return ""
    last = ord(key[-1])
    if last == 0:
        return key[:-1]
    return f"{key[:-1]}{chr(0xD7FF if last == 0xE000 else last - 1)}~"


def _require_object(answer: Fields) -> None:
    """Raise HttpFault where an answer lacks the headers of an object."""
    if not answer.get("ETag") and not isinstance(answer.get("LastModified"), datetime):
        raise unexpected(_described(answer))


def _entry(fields: Fields, prefix: str) -> Entry:
    key, size, modified = _below(fields.get("Key"), prefix), fields.get("Size"), fields.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise unexpected(f"an object without its size or time: {key[:80]!r}")
    return Entry(key, size, milliseconds(modified), archive_class=archive_class_of(fields))


def archive_class_of(fields: Fields) -> str:
    """Return the class of an object that S3 cannot read before it is restored; '' for every other object.

    An object keeps its class while a restored copy of it can be read. A listing has only the class; the answer for a
    single object also says whether it is restored. Archive tiers of INTELLIGENT_TIERING are in no listing.

    Args:
        fields: An object of a listing, or the answer to HeadObject.
    """
    storage_class = str(fields.get("StorageClass") or "")
    return storage_class if storage_class in _ARCHIVE_CLASSES else ""


def _below(key: object, prefix: str) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _dictionaries(answer: Fields, name: str) -> list[Fields]:
    values = answer.get(name) or []
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise unexpected(f"{name} is not a list")
    return values


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _described(answer: Fields) -> str:
    """Return status and type of an answer, which distinguish a web page from S3."""
    metadata = answer.get("ResponseMetadata", {})
    headers = metadata.get("HTTPHeaders", {})
    seen = f"HTTP {metadata.get('HTTPStatusCode', 'without a status')}"
    kind = str(headers.get("content-type", ""))[:80]
    return f"{seen}, {kind}" if kind else seen
