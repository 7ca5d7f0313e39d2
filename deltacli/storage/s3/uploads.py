"""Uploads to S3 in parts, of objects that are too large for one request.

An upload belongs to one writer, so its parts may be repeated. Its completion creates the object.
Like a conditional PUT it is sent once: a repeated one could find the object that the first one
created. A mark in the metadata of the object identifies the upload, so that the object shows who
created it when the answer to the completion is lost.
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
"""Bytes up to which an object is sent in one request."""
MAX_PUT_BYTES = 5 << 30
"""Bytes that S3 takes, or copies, in one request."""
COPY_PART_BYTES = 1 << 30
"""Bytes of an object that is copied in parts, per part."""
PART_BYTES = 64 << 20
MAX_PARTS = 10_000
_PARALLEL_PARTS = 4
_MARK = "deltacli-upload"
_CONFLICT = 409
_Parts = list[dict[str, Botocore]]


class S3Uploads:
    """Uploads in parts to one bucket. A store that cannot create an object atomically from parts
    gets it in one request. Raises StorageFailed where it is too large for that.
    """

    def __init__(self, calls: S3Calls) -> None:
        self._calls = calls
        self._honours_condition: bool | None = None

    def create(self, key: str, body: Body) -> Creation | None:
        if self._takes(key, body):
            try:
                return self._create(key, body)
            except ConditionUnsupported:
                self._honours_condition = False
                self._takes(key, body)
        return None

    def replace(self, key: str, body: Body) -> bool:
        if not self._takes(key, body):
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
        return self._finish(key, lambda upload: upload.copy(source), condition)

    def _create(self, key: str, body: Body) -> Creation:
        return self._finish(key, lambda upload: upload.send(body), ABSENT)

    def _finish(self, key: str, send: Callable[[_Upload], _Parts], condition: str) -> Creation:
        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            with _Upload(self._calls, key) as upload:
                outcome = upload.complete(send(upload), **build_condition_arguments(condition))
            if outcome is not None:
                return outcome
        raise StorageFailed(
            f"{self._calls.uri_of(key)} cannot be written: other requests for the same name were running"
        )

    def _takes(self, key: str, body: Body) -> bool:
        if body.size <= MAX_SINGLE_REQUEST_BYTES:
            return False
        if self._honours_condition is None:
            self._honours_condition = self._calls.is_known_atomic or self._proves_condition(key)
        if not self._honours_condition and body.size > MAX_PUT_BYTES:
            raise StorageFailed(
                f"{self._calls.uri_of(key)} cannot be written: it exceeds the limit of 5 GiB for one request",
                facts={"why": "the store ignores or refuses If-None-Match when an upload in parts is completed"},
            )
        return self._honours_condition

    def _proves_condition(self, key: str) -> bool:
        """Return whether the store honours the condition when an upload is completed; probed once per bucket."""
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
    """One upload. Unless it is completed, its parts are removed at the end."""

    def __init__(self, calls: S3Calls, key: str) -> None:
        self._calls = calls
        self._key = key
        self._location = calls.uri_of(key)
        self._mark = uuid4().hex
        self._target: dict[str, Botocore] = {}
        self._is_done = False

    def __enter__(self) -> Self:
        target = self._calls.object_arguments(self._key)

        def begin(client: Botocore) -> Botocore:
            response = client.create_multipart_upload(**target, Metadata={_MARK: self._mark})
            if not response.get("UploadId"):
                raise build_unexpected_error("an upload without its id")
            return response["UploadId"]

        self._target = {**target, "UploadId": self._ask(begin)}
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._is_done:
            return
        try:
            self._ask(lambda client: client.abort_multipart_upload(**self._target))
        except StorageFailed as failed:
            is_gone = isinstance(failed, FileMissing) or getattr(failed.__context__, "reason", "") == "NoSuchUpload"
            if isinstance(error, DeltacliError) and not is_gone:
                reason = failed.facts.get("store says", failed.message)
                error.facts["left behind"] = f"the parts of an unfinished upload, which cannot be aborted: {reason}"

    def send(self, body: Body) -> _Parts:
        """Send all parts, and return what the completion lists."""
        size = max(PART_BYTES, -(-body.size // MAX_PARTS))
        return self._each(body.size, size, lambda number, start: self._send_part(number, body.slice(start, size)))

    def copy(self, source: CopySource) -> _Parts:
        """Have all parts copied, and return what the completion lists."""
        size = max(COPY_PART_BYTES, -(-source.size_bytes // MAX_PARTS))
        return self._each(source.size_bytes, size, lambda number, start: self._copy_part(number, source, start, size))

    def _each(self, whole: int, size: int, make: Callable[[int, int], dict[str, Any]]) -> _Parts:
        """Make all parts, several at a time. None is in flight afterwards."""
        starts = range(0, max(whole, 1), size)
        may_repeat = get_repeat_condition()

        def send_part(number: int) -> dict[str, Any]:
            with repeat_only_while(may_repeat):
                return make(number, starts[number - 1])

        pool = ThreadPoolExecutor(_PARALLEL_PARTS, thread_name_prefix="deltacli-upload")
        try:
            return list(pool.map(send_part, range(1, len(starts) + 1)))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _send_part(self, number: int, part: Body) -> dict[str, Any]:
        digest = base64.b64encode(part.compute_md5()).decode()

        def send(client: Botocore) -> Botocore:
            with part.open() as content:
                response = client.upload_part(**self._target, PartNumber=number, Body=content, ContentMD5=digest)
            require_stored_in_s3(response)
            return response["ETag"]

        return {"PartNumber": number, "ETag": self._ask(send)}

    def _copy_part(self, number: int, source: CopySource, start: int, size: int) -> dict[str, Any]:
        span = f"bytes={start}-{min(start + size, source.size_bytes) - 1}"
        asked = {**self._target, **self._calls.build_copy_source(source), "PartNumber": number, "CopySourceRange": span}

        def send(client: Botocore) -> str:
            return require_copied(client.upload_part_copy(**asked), "CopyPartResult")

        return {"PartNumber": number, "ETag": self._ask(send)}

    def complete(self, parts: _Parts, **condition: str) -> Creation | None:
        """Create the object from its parts, once.

        Like a conditional PUT, the completion is sent again only after an answer that nothing was
        done. If its answer is lost, the mark in the metadata of the object shows whether this
        upload created it.

        Returns:
            The outcome; None if nothing was done and the upload has to begin anew, because another
            request for the name
            was running.
        """
        arguments = {**self._target, "MultipartUpload": {"Parts": parts}, **condition}
        last_error: HttpError | None = None
        for this_round in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            try:
                with self._calls.retry.track_request(self._calls.endpoint):
                    require_stored_in_s3(self._calls.send(lambda client: client.complete_multipart_upload(**arguments)))
                self._is_done = True
                return Created()
            except HttpError as error:
                last_error = error

            match classify_failed_creation(last_error, self._calls.dialect):
                case CreationAnswer.EXISTS:
                    return Existed()
                case CreationAnswer.UNKNOWN:
                    translated = self._calls.translate_error(last_error, self._location, "written")
                    return self._found(translated.facts.get("store says", str(last_error)))
                case CreationAnswer.UNSUPPORTED:
                    raise ConditionUnsupported from last_error
                case CreationAnswer.REFUSED:
                    break
            if last_error.status == _CONFLICT:
                return None
            this_round.retry_after_seconds = last_error.wait_seconds
        assert last_error is not None
        raise self._calls.translate_error(last_error, self._location, "written")

    def _found(self, cause: str) -> Creation:
        """Return the outcome of a completion without an answer, by the mark of the object.

        An upload that did not create it is aborted, so that it cannot create it later.
        """
        target = self._calls.object_arguments(self._key)
        try:
            response = self._ask(lambda client: client.head_object(**target))
        except (FileMissing, PermissionRefused):
            return Unknown(cause)  # the completion may still be running
        except StorageFailed as error:
            return Unknown(f"{cause}; {error.facts.get('store says', error.message)}")
        if response.get("Metadata", {}).get(_MARK) != self._mark:
            return Existed()
        self._is_done = True
        return Created()

    def _ask(self, call: Callable[[Botocore], Botocore]) -> Botocore:
        return call_store(self._calls, self._calls.retry, lambda: self._calls.send(call), self._location, "written")
