"""The calls of a bucket of S3 or a compatible store.

Uses botocore, the library below s3fs and boto3, instead of s3fs, whose asynchronous transport
repeats a PUT when a connection breaks. A repeated conditional PUT finds its own first attempt and
takes it for another writer's.

Answers are validated: a proxy, a captive portal or another server may answer instead of the store.
Such an answer is an error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, TypeVar

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.core.typing import Botocore
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import (
    ABSENT,
    CopySource,
    ListedObject,
    ListedPage,
    ObjectContent,
    Uploads,
    find_missing_error,
)
from deltacli.storage.objects.dialect import Dialect, is_bulk_deletion_refused
from deltacli.storage.objects.http_errors import THROTTLED, HttpError
from deltacli.storage.retry import BODY_ATTEMPTS, Retry
from deltacli.storage.s3.clients import _host, bound_answers, count_calls, is_aws
from deltacli.storage.s3.options import S3Options, make_client, make_session
from deltacli.storage.s3.responses import (
    _RESTORED,
    _described,
    _require_object,
    build_unexpected_error,
    get_archive_class,
    milliseconds,
    parse_s3_content,
    parse_s3_page,
    read_body,
    read_bulk_errors,
    require_copied,
    require_stored_in_s3,
)
from deltacli.storage.tally import S3_PRICES

Answer = TypeVar("Answer")
DIALECT = Dialect(
    store="S3",
    container_noun="bucket",
    container_missing_codes=frozenset({"NoSuchBucket"}),
    exists_codes=frozenset(),
    identity_command="aws sts get-caller-identity",
    list_command="aws s3api list-buckets",
    endpoint_check="check AWS_ENDPOINT_URL and AWS_REGION",
    create_condition="If-None-Match",
    not_executed_statuses=frozenset({409}),
    not_executed_codes=THROTTLED,
    unordered_note=", as directory buckets are",
)
_NO_CONTENT = 204
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class S3Calls:
    """Calls of one bucket, by a client that is made on first use. Thread-safe."""

    max_bulk_deletes = 1_000
    can_start_anywhere = True
    dialect = DIALECT

    def __init__(self, uri: str, bucket: str, options: S3Options, retry: Retry) -> None:
        self._uri = uri
        self.bucket = bucket
        self.options = options
        self.retry = retry
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
            from deltacli.storage.s3.errors import BOTOCORE_ERRORS, translate_setup_error

            with self._lock:
                if self._made is None:
                    try:
                        self._connect(make_session(self.options))
                    except BOTOCORE_ERRORS as fault:
                        error = translate_setup_error(fault, self._uri, self.options)
                        raise error from error.__cause__
        return self._made

    def _connect(self, session: Botocore) -> None:
        made = make_client(self.options, session)
        bound_answers(made)
        count_calls(made, self.retry.tally.get_host(_host(made), S3_PRICES if is_aws(made) else None))
        self._made = made
        self._session = session

    @property
    def endpoint(self) -> str:
        return _host(self.client)

    @property
    def identity(self) -> str:
        from deltacli.storage.s3.errors import describe_used_credentials

        return describe_used_credentials(self.client, self.options)

    @property
    def is_known_atomic(self) -> bool:
        return is_aws(self.client)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        asked = {
            "Delimiter": delimiter,
            "StartAfter": find_preceding_key(start),
            "ContinuationToken": token,
            "MaxKeys": limit,
        }
        given = {name: value for name, value in asked.items() if value} | self.payer
        return parse_s3_page(
            self.send(lambda client: client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **given)), prefix
        )

    def head(self, key: str) -> tuple[ListedObject, str]:
        response = self._send_for(key, lambda client: client.head_object(**self.object_arguments(key)))
        _require_object(response)
        size = response.get("ContentLength")
        modified = response.get("LastModified")
        if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
            raise build_unexpected_error(_described(response))
        is_restored = _RESTORED in str(response.get("Restore") or "")
        entry = ListedObject(
            key, size, milliseconds(modified), archive_class=get_archive_class(response), is_restored=is_restored
        )
        return entry, str(response.get("ETag", ""))

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        """Return an object or a range, asked for again where its body breaks off: not one of `max_attempts`."""
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS, is_connection_broken

        given = {"Range": span, "IfMatch": tag, "VersionId": version_id}
        asked = self.object_arguments(key) | {name: value for name, value in given.items() if value}

        def send(client: Botocore) -> ObjectContent:
            for left in reversed(range(BODY_ATTEMPTS)):
                response: dict[str, Any] = client.get_object(**asked)
                try:
                    return parse_s3_content(response, read_body(response, span), span)
                except BOTOCORE_ERRORS as error:
                    if not left or not is_connection_broken(error):
                        raise
            raise AssertionError("unreachable")

        return self._send_for(key, send)

    def _send_for(self, key: str, call: Callable[[Botocore], Answer]) -> Answer:
        try:
            return self.send(call)
        except HttpError as error:
            if self.options.held is None or error.status != 403 or not (missing := find_missing_error(self, key)):
                raise
            raise missing from None

    def write(self, key: str, body: Body, condition: str | None) -> None:
        given = {} if condition is None else build_condition_arguments(condition)

        def send(client: Botocore) -> Botocore:
            with body.open() as content:
                return client.put_object(**self.object_arguments(key), Body=content, **given)

        require_stored_in_s3(self.send(send))

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        asked = {**self.object_arguments(key), **self.build_copy_source(source), **build_condition_arguments(condition)}
        require_copied(self.send(lambda client: client.copy_object(**asked)), "CopyObjectResult")

    def build_copy_source(self, source: CopySource) -> dict[str, Botocore]:
        named = {"Bucket": self.bucket, "Key": source.key}
        named |= {"VersionId": source.version_id} if source.version_id else {}
        return {"CopySource": named} | ({"CopySourceIfMatch": source.tag} if source.tag else {})

    def delete(self, key: str) -> None:
        response = self.send(lambda client: client.delete_object(**self.object_arguments(key)))
        if (status := response["ResponseMetadata"]["HTTPStatusCode"]) != _NO_CONTENT:
            raise build_unexpected_error(f"the store answers {status} where S3 answers {_NO_CONTENT}")

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        """Delete objects in one request. S3 does not report whether an object existed."""
        asked = {"Bucket": self.bucket, "Delete": {"Objects": [{"Key": key} for key in keys]}, **self.payer}
        try:
            return read_bulk_errors(self.send(lambda client: client.delete_objects(**asked)), keys)
        except HttpError as error:
            if is_bulk_deletion_refused(error):
                self._has_bulk_deletions = False
            raise

    def can_delete_in_bulk(self, key: str, /) -> bool:
        return self._has_bulk_deletions and not _NOT_IN_XML.search(key)

    def is_valid_key(self, key: str) -> bool:  # noqa: ARG002  (of the interface)
        return True

    def uri_of(self, key: str) -> str:
        """Return the URI of an object."""
        return f"{self._uri.partition('://')[0]}://{self.bucket}/{key}"

    def object_arguments(self, key: str) -> dict[str, Botocore]:
        return {"Bucket": self.bucket, "Key": key, **self.payer}

    def send(self, call: Callable[[Botocore], Answer]) -> Answer:
        """Make a call once. If the store refuses its credentials, it has done nothing: where the
        chain has other credentials by now, make the call again with those.
        """
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS, are_credentials_refused, convert_botocore_error

        client = self.client
        held = self.options.held
        keys = held.options() if held is not None else {}
        try:
            try:
                return call(client)
            except BOTOCORE_ERRORS as error:
                if not are_credentials_refused(error) or not self._has_others(client, keys):
                    raise
            return call(self.client)
        except BOTOCORE_ERRORS as error:
            raise convert_botocore_error(error) from error

    def _has_others(self, refused: Botocore, keys: Mapping[str, str]) -> bool:
        """Return whether credentials other than the refused ones are there now, and use them from now on."""
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS

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
            except BOTOCORE_ERRORS:
                return False
        return True

    def translate_error(self, error: HttpError, location: str, what: str) -> StorageFailed | UsageError:
        from deltacli.storage.s3.errors import translate_botocore_error

        return translate_botocore_error(error, location, what, self.options, self.client)


def _key_of(session: Botocore) -> tuple[str, str | None] | None:
    credentials = session.get_credentials()
    frozen = credentials.get_frozen_credentials() if credentials else None
    return (frozen.access_key, frozen.token) if frozen else None


def build_condition_arguments(condition: str) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if condition == ABSENT else {"IfMatch": condition}


def find_preceding_key(key: str) -> str:
    """Return a key closely before another one, because S3 lists the keys after a key, the port
    those from one on. The keys between them are unusual ones; `p=1.5/`, which is before `p=1/`, is
    before both.
    """
    if not key:
        return ""
    last = ord(key[-1])
    if last == 0:
        return key[:-1]
    return f"{key[:-1]}{chr(0xD7FF if last == 0xE000 else last - 1)}~"
