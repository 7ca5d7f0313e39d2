"""The requests to a bucket of S3 or of a compatible store.

botocore sends them. s3fs, which is built on botocore, is not used, because its asynchronous transport repeats a PUT
when a connection breaks. A repeated conditional PUT may find the object of its own first attempt, and then fails as if
another writer had created it.

Responses are validated, because a proxy, a captive portal or another server may answer instead of the store. Its
response must not become an empty listing, a missing file or a created object.
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
from deltacli.storage.s3.clients import bound_answers, count_calls, get_host, is_aws
from deltacli.storage.s3.options import S3Options, make_client, make_session
from deltacli.storage.s3.responses import (
    RESTORED_MARK,
    build_unexpected_error,
    describe_response,
    get_archive_class,
    milliseconds,
    parse_s3_content,
    parse_s3_page,
    read_body,
    read_bulk_errors,
    require_copied,
    require_object,
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
_INVALID_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class S3Calls:
    """The requests to one bucket. Thread-safe.

    The client of botocore is created on first use. If the store refuses its credentials and botocore finds other ones,
    a client with these credentials replaces it.

    Attributes:
        bucket: The name of the bucket.
        options: The options of the store.
        payer: The argument for requester-pays buckets; empty for others.
    """

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
        self._supports_bulk_deletion = True
        self._lock = Lock()
        self._client: Botocore = None
        self._session: Any = None  # Any: as above

    @property
    def client(self) -> Botocore:
        if self._client is None:
            from deltacli.storage.s3.errors import BOTOCORE_ERRORS, translate_setup_error

            with self._lock:
                if self._client is None:
                    try:
                        self._connect(make_session(self.options))
                    except BOTOCORE_ERRORS as botocore_error:
                        error = translate_setup_error(botocore_error, self._uri, self.options)
                        raise error from error.__cause__
        return self._client

    def _connect(self, session: Botocore) -> None:
        client = make_client(self.options, session)
        bound_answers(client)
        count_calls(client, self.retry.tally.get_host(get_host(client), S3_PRICES if is_aws(client) else None))
        self._client = client
        self._session = session

    @property
    def endpoint(self) -> str:
        return get_host(self.client)

    @property
    def identity(self) -> str:
        from deltacli.storage.s3.errors import describe_used_credentials

        return describe_used_credentials(self.client, self.options)

    @property
    def is_known_atomic(self) -> bool:
        return is_aws(self.client)

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        parameters = {
            "Delimiter": delimiter,
            "StartAfter": find_preceding_key(start),
            "ContinuationToken": token,
            "MaxKeys": limit,
        }
        arguments = {name: value for name, value in parameters.items() if value} | self.payer
        response = self.send(lambda client: client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **arguments))
        return parse_s3_page(response, prefix)

    def head(self, key: str) -> tuple[ListedObject, str]:
        response = self._send_for_object(key, lambda client: client.head_object(**self.object_arguments(key)))
        require_object(response)
        size = response.get("ContentLength")
        modified = response.get("LastModified")
        if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
            raise build_unexpected_error(describe_response(response))
        is_restored = RESTORED_MARK in str(response.get("Restore") or "")
        entry = ListedObject(
            key, size, milliseconds(modified), archive_class=get_archive_class(response), is_restored=is_restored
        )
        return entry, str(response.get("ETag", ""))

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        """Request an object or a range of it.

        If the connection breaks within the body, the request is repeated, because a read is safe to repeat. These
        repetitions do not count as attempts of the call.
        """
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS, is_connection_broken

        # With IfMatch, S3 returns 412 if the object was replaced.
        parameters = {"Range": span, "IfMatch": tag, "VersionId": version_id}
        arguments = self.object_arguments(key) | {name: value for name, value in parameters.items() if value}

        def send(client: Botocore) -> ObjectContent:
            for remaining_attempts in reversed(range(BODY_ATTEMPTS)):
                response: dict[str, Any] = client.get_object(**arguments)
                try:
                    return parse_s3_content(response, read_body(response, span), span)
                except BOTOCORE_ERRORS as error:
                    if not remaining_attempts or not is_connection_broken(error):
                        raise
            raise AssertionError("unreachable")

        return self._send_for_object(key, send)

    def _send_for_object(self, key: str, call: Callable[[Botocore], Answer]) -> Answer:
        """Send a request for an object. With vended credentials, distinguish a missing object from denied access."""
        try:
            return self.send(call)
        except HttpError as error:
            may_be_missing = self.options.held is not None and error.status == 403
            missing_error = find_missing_error(self, key) if may_be_missing else None
            if missing_error is None:
                raise
            raise missing_error from None

    def write(self, key: str, body: Body, condition: str | None) -> None:
        condition_arguments = {} if condition is None else build_condition_arguments(condition)

        def send(client: Botocore) -> Botocore:
            with body.open() as content:
                return client.put_object(**self.object_arguments(key), Body=content, **condition_arguments)

        require_stored_in_s3(self.send(send))

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        arguments = {
            **self.object_arguments(key),
            **self.build_copy_source(source),
            **build_condition_arguments(condition),
        }
        require_copied(self.send(lambda client: client.copy_object(**arguments)), "CopyObjectResult")

    def build_copy_source(self, source: CopySource) -> dict[str, Botocore]:
        """Return the arguments that identify the source of a copy."""
        source_object = {"Bucket": self.bucket, "Key": source.key}
        if source.version_id:
            source_object["VersionId"] = source.version_id
        arguments: dict[str, Botocore] = {"CopySource": source_object}
        if source.tag:
            arguments["CopySourceIfMatch"] = source.tag
        return arguments

    def delete(self, key: str) -> None:
        response = self.send(lambda client: client.delete_object(**self.object_arguments(key)))
        status = response["ResponseMetadata"]["HTTPStatusCode"]
        if status != _NO_CONTENT:
            raise build_unexpected_error(f"the store answers {status} where S3 answers {_NO_CONTENT}")

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        """Delete objects in one request. S3 reports a missing object as deleted."""
        objects = [{"Key": key} for key in keys]
        arguments = {"Bucket": self.bucket, "Delete": {"Objects": objects}, **self.payer}
        try:
            return read_bulk_errors(self.send(lambda client: client.delete_objects(**arguments)), keys)
        except HttpError as error:
            if is_bulk_deletion_refused(error):
                self._supports_bulk_deletion = False
            raise

    def can_delete_in_bulk(self, key: str, /) -> bool:
        return self._supports_bulk_deletion and not _INVALID_IN_XML.search(key)

    def is_valid_key(self, key: str) -> bool:  # noqa: ARG002  (of the interface)
        return True

    def uri_of(self, key: str) -> str:
        """Return the URI of an object."""
        return f"{self._uri.partition('://')[0]}://{self.bucket}/{key}"

    def object_arguments(self, key: str) -> dict[str, Botocore]:
        """Return the arguments that identify an object."""
        return {"Bucket": self.bucket, "Key": key, **self.payer}

    def send(self, call: Callable[[Botocore], Answer]) -> Answer:
        """Send a request once.

        If the store refuses the credentials, it has not executed the request. So the request is sent again if other
        credentials are available now, for example after a login in another terminal. This is safe for conditional
        requests as well.

        Args:
            call: Sends the request with a client.

        Raises:
            HttpError: If the request fails.
        """
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS, are_credentials_refused, convert_botocore_error

        client = self.client
        held = self.options.held
        vended_keys = held.options() if held is not None else {}
        try:
            try:
                return call(client)
            except BOTOCORE_ERRORS as error:
                if not are_credentials_refused(error) or not self._replace_credentials(client, vended_keys):
                    raise
            return call(self.client)
        except BOTOCORE_ERRORS as error:
            raise convert_botocore_error(error) from error

    def _replace_credentials(self, refused_client: Botocore, refused_keys: Mapping[str, str]) -> bool:
        """Look for other credentials after the store refused some, and use them for all further requests.

        Args:
            refused_client: The client whose credentials were refused.
            refused_keys: The vended credentials that were refused; empty without vended credentials.

        Returns:
            True if there are other credentials. Another thread may have found them before.
        """
        from deltacli.storage.s3.errors import BOTOCORE_ERRORS

        if self.options.held is not None:
            return self.options.held.replace_refused(refused_keys)
        with self._lock:
            if self._client is not refused_client:
                return True
            try:
                session = make_session(self.options)
                if _get_keys(session) in (None, _get_keys(self._session)):
                    return False
                self._connect(session)
            except BOTOCORE_ERRORS:
                return False
        return True

    def translate_error(self, error: HttpError, location: str, verb: str) -> StorageFailed | UsageError:
        from deltacli.storage.s3.errors import translate_botocore_error

        return translate_botocore_error(error, location, verb, self.options, self.client)


def _get_keys(session: Botocore) -> tuple[str, str | None] | None:
    """Return the key id and the session token of a session; None if it has no credentials."""
    credentials = session.get_credentials()
    frozen = credentials.get_frozen_credentials() if credentials else None
    return (frozen.access_key, frozen.token) if frozen else None


def build_condition_arguments(condition: str) -> dict[str, str]:
    """Return the arguments for a condition: ABSENT, or the tag of the object to replace."""
    return {"IfNoneMatch": "*"} if condition == ABSENT else {"IfMatch": condition}


def find_preceding_key(key: str) -> str:
    """Return a key that is slightly less than another key; '' for ''.

    `ObjectCalls.page` begins with the key `start` itself, while StartAfter of S3 excludes the key. For example,
    `find_preceding_key("p=1/")` is `p=1.~`. Hardly any key of a table is between the two. Callers ignore keys before
    `start`.
    """
    if not key:
        return ""
    last_code = ord(key[-1])
    if last_code == 0:
        return key[:-1]
    # U+D800 to U+DFFF are surrogates, which are not valid in UTF-8.
    preceding_code = 0xD7FF if last_code == 0xE000 else last_code - 1
    return f"{key[:-1]}{chr(preceding_code)}~"
