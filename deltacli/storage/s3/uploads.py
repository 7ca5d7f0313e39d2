"""Multipart uploads to S3, for objects that are too large for one request.

An upload has three steps: begin, send the parts, and complete. An upload id belongs to one writer, so repeating a part
is safe. The completion creates the object, and it carries the condition of the creation. Like a conditional PUT it is
sent once: a repeated completion could find the object that the first one created.

If the response to the completion is lost, the object itself shows who created it. Each upload stores a random mark in
the metadata of its object:

    the object has the mark of this upload     Created
    the object has another mark or none        Existed, and this upload is aborted
    there is no object                         Unknown: the completion may still be running
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self
from uuid import uuid4

from deltacli.core.errors import DeltacliError, FileMissing, PermissionRefused, StorageFailed
from deltacli.core.typing import Botocore
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.calls import ABSENT, CopySource, call_store
from deltacli.storage.objects.conditional import ConditionUnsupported, probe_condition
from deltacli.storage.objects.dialect import CreationAnswer, classify_failed_creation
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown
from deltacli.storage.repeat_condition import get_repeat_condition, repeat_only_while
from deltacli.storage.retry import CREATE_FIRST_WAIT
from deltacli.storage.s3.calls import S3Calls, build_condition_arguments
from deltacli.storage.s3.responses import build_unexpected_error, require_copied, require_stored_in_s3

MAX_SINGLE_REQUEST_BYTES = 64 << 20
"""Size up to which an object is sent in one request."""
MAX_PUT_BYTES = 5 << 30
"""The limit of S3 for one PUT or one copy request."""
COPY_PART_BYTES = 1 << 30
"""Size of the parts of a copy."""
PART_BYTES = 64 << 20
MAX_PARTS = 10_000
_PARALLEL_PARTS = 4
_MARK = "deltacli-upload"
_CONFLICT = 409
_Parts = list[dict[str, Botocore]]


class S3Uploads:
    """Multipart uploads to one bucket. Implements `Uploads`.

    If the store ignores the condition when an upload is completed, objects are sent in one request instead, and
    objects that are too large for one request are refused with StorageFailed.
    """

    def __init__(self, calls: S3Calls) -> None:
        self._calls = calls
        self._supports_condition: bool | None = None

    def create(self, key: str, body: Body) -> Creation | None:
        if self._needs_upload(key, body):
            try:
                return self._create(key, body)
            except ConditionUnsupported:
                self._supports_condition = False
                # Refuse the object if it is too large for one request.
                self._needs_upload(key, body)
        return None

    def replace(self, key: str, body: Body) -> bool:
        if not self._needs_upload(key, body):
            return False
        with _Upload(self._calls, key) as upload:
            outcome = upload.complete(upload.send(body))
        if not isinstance(outcome, Created):
            raise StorageFailed(
                f"{self._calls.uri_of(key)} cannot be written: the upload was not completed",
                facts={"store says": outcome.cause} if isinstance(outcome, Unknown) else {},
            )
        return True

    def copy(self, source: CopySource, key: str, condition: str) -> Creation | None:
        if source.size_bytes <= MAX_PUT_BYTES:
            return None
        return self._upload(key, lambda upload: upload.copy(source), condition)

    def _create(self, key: str, body: Body) -> Creation:
        return self._upload(key, lambda upload: upload.send(body), ABSENT)

    def _upload(self, key: str, send: Callable[[_Upload], _Parts], condition: str) -> Creation:
        """Send all parts and complete the upload. Begin a new upload if S3 rejects the completion with 409.

        Args:
            key: The key of the object.
            send: Sends the parts of an upload.
            condition: ABSENT, or the tag of the object to replace.

        Raises:
            StorageFailed: If the upload fails, or if each completion is rejected because of concurrent requests.
        """
        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            with _Upload(self._calls, key) as upload:
                outcome = upload.complete(send(upload), **build_condition_arguments(condition))
            if outcome is not None:
                return outcome
        raise StorageFailed(
            f"{self._calls.uri_of(key)} cannot be written: other requests for the same name were running"
        )

    def _needs_upload(self, key: str, body: Body) -> bool:
        """Return whether to send an object as a multipart upload.

        Raises:
            StorageFailed: If the object is too large for one request, and the store does not support conditional
                uploads.
        """
        if body.size <= MAX_SINGLE_REQUEST_BYTES:
            return False
        if self._supports_condition is None:
            self._supports_condition = self._calls.is_known_atomic or self._probe_condition(key)
        if not self._supports_condition and body.size > MAX_PUT_BYTES:
            raise StorageFailed(
                f"{self._calls.uri_of(key)} cannot be written: it exceeds the limit of 5 GiB for one request",
                facts={"why": "the store ignores or refuses If-None-Match when an upload in parts is completed"},
            )
        return self._supports_condition

    def _probe_condition(self, key: str) -> bool:
        """Determine by small uploads whether the store checks the condition of a completion."""
        calls = self._calls

        def delete(probe: str) -> None:
            with suppress(StorageFailed):
                call_store(calls, calls.retry, lambda: calls.delete(probe), calls.uri_of(probe), "deleted")

        address = f"{calls.endpoint}/{calls.bucket} in parts"
        try:
            return probe_condition(address, key, lambda probe: self._create(probe, Body(b"probe")), delete)
        except (ConditionUnsupported, StorageFailed):
            return False


class _Upload:
    """A multipart upload, for use in a `with` statement. Unless it was completed, it is aborted at the end."""

    def __init__(self, calls: S3Calls, key: str) -> None:
        self._calls = calls
        self._key = key
        self._location = calls.uri_of(key)
        self._mark = uuid4().hex
        self._target: dict[str, Botocore] = {}
        self._is_completed = False

    def __enter__(self) -> Self:
        target = self._calls.object_arguments(self._key)

        def begin(client: Botocore) -> Botocore:
            response = client.create_multipart_upload(**target, Metadata={_MARK: self._mark})
            if not response.get("UploadId"):
                raise build_unexpected_error("an upload without its id")
            return response["UploadId"]

        self._target = {**target, "UploadId": self._call(begin)}
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._is_completed:
            return
        try:
            self._call(lambda client: client.abort_multipart_upload(**self._target))
        except StorageFailed as failed:
            has_ended = isinstance(failed, FileMissing) or getattr(failed.__context__, "reason", "") == "NoSuchUpload"
            if isinstance(error, DeltacliError) and not has_ended:
                reason = failed.facts.get("store says", failed.message)
                error.facts["left behind"] = f"the parts of an unfinished upload, which cannot be aborted: {reason}"

    def send(self, body: Body) -> _Parts:
        """Send all parts. Return the list of parts for the completion."""
        size = max(PART_BYTES, -(-body.size // MAX_PARTS))
        return self._send_parts(body.size, size, lambda number, start: self._send_part(number, body.slice(start, size)))

    def copy(self, source: CopySource) -> _Parts:
        """Copy all parts within the store. Return the list of parts for the completion."""
        size = max(COPY_PART_BYTES, -(-source.size_bytes // MAX_PARTS))
        return self._send_parts(
            source.size_bytes, size, lambda number, start: self._copy_part(number, source, start, size)
        )

    def _send_parts(self, total_size: int, part_size: int, send_part: Callable[[int, int], dict[str, Any]]) -> _Parts:
        """Send all parts, several at the same time. No request is running afterwards, even after an error.

        Args:
            total_size: The size of the object. An empty object has one empty part.
            part_size: The size of a part.
            send_part: Sends a part. Its arguments are the number of the part, from 1, and the offset.
        """
        starts = range(0, max(total_size, 1), part_size)
        may_repeat = get_repeat_condition()

        def send_numbered_part(number: int) -> dict[str, Any]:
            with repeat_only_while(may_repeat):
                return send_part(number, starts[number - 1])

        pool = ThreadPoolExecutor(_PARALLEL_PARTS, thread_name_prefix="deltacli-upload")
        try:
            return list(pool.map(send_numbered_part, range(1, len(starts) + 1)))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _send_part(self, number: int, part: Body) -> dict[str, Any]:
        digest = base64.b64encode(part.compute_md5()).decode()

        def send(client: Botocore) -> Botocore:
            with part.open() as content:
                response = client.upload_part(**self._target, PartNumber=number, Body=content, ContentMD5=digest)
            require_stored_in_s3(response)
            return response["ETag"]

        return {"PartNumber": number, "ETag": self._call(send)}

    def _copy_part(self, number: int, source: CopySource, start: int, size: int) -> dict[str, Any]:
        span = f"bytes={start}-{min(start + size, source.size_bytes) - 1}"
        arguments = {
            **self._target,
            **self._calls.build_copy_source(source),
            "PartNumber": number,
            "CopySourceRange": span,
        }

        def send(client: Botocore) -> str:
            return require_copied(client.upload_part_copy(**arguments), "CopyPartResult")

        return {"PartNumber": number, "ETag": self._call(send)}

    def complete(self, parts: _Parts, **condition: str) -> Creation | None:
        """Create the object from its parts.

        Like a conditional PUT, the completion is repeated only if the store certainly has not executed it. If its
        response is lost, the mark in the metadata of the object shows whether this upload created it.

        Args:
            parts: The list of parts.
            condition: The arguments for the condition.

        Returns:
            The outcome. None if S3 rejected the completion with 409 because of a concurrent request for the key. Then
            nothing was created, and a new upload must be begun.

        Raises:
            ConditionUnsupported: If the store does not support the condition.
            StorageFailed: If the store refused the completion. Nothing was created.
        """
        arguments = {**self._target, "MultipartUpload": {"Parts": parts}, **condition}
        last_error: HttpError | None = None
        for this_round in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            try:
                with self._calls.retry.track_request(self._calls.endpoint):
                    require_stored_in_s3(self._calls.send(lambda client: client.complete_multipart_upload(**arguments)))
                self._is_completed = True
                return Created()
            except HttpError as error:
                last_error = error

            match classify_failed_creation(last_error, self._calls.dialect):
                case CreationAnswer.EXISTS:
                    return Existed()
                case CreationAnswer.UNKNOWN:
                    translated = self._calls.translate_error(last_error, self._location, "written")
                    return self._resolve_unknown(translated.facts.get("store says", str(last_error)))
                case CreationAnswer.UNSUPPORTED:
                    raise ConditionUnsupported from last_error
                case CreationAnswer.REFUSED:
                    break
            if last_error.status == _CONFLICT:
                return None
            this_round.retry_after_seconds = last_error.wait_seconds
        assert last_error is not None
        raise self._calls.translate_error(last_error, self._location, "written")

    def _resolve_unknown(self, cause: str) -> Creation:
        """Determine the outcome of a completion without response, from the mark in the metadata of the object.

        Unless this upload created the object, it is aborted at the end of the `with` block, so that its completion
        cannot be executed later.

        Args:
            cause: The reason why there is no response.
        """
        target = self._calls.object_arguments(self._key)
        try:
            response = self._call(lambda client: client.head_object(**target))
        except (FileMissing, PermissionRefused):
            # The completion may still be running.
            return Unknown(cause)
        except StorageFailed as error:
            return Unknown(f"{cause}; {error.facts.get('store says', error.message)}")
        if response.get("Metadata", {}).get(_MARK) != self._mark:
            return Existed()
        self._is_completed = True
        return Created()

    def _call(self, call: Callable[[Botocore], Botocore]) -> Botocore:
        return call_store(self._calls, self._calls.retry, lambda: self._calls.send(call), self._location, "written")
