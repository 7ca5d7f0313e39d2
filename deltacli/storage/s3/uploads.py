"""Uploads to S3 in parts, for objects that are too large for one request.

An upload belongs to one writer, so its parts may be repeated. Its completion creates the object. Like a conditional PUT
it is sent once: a repeated one could find the object that the first one created. A mark in the metadata of the object
identifies the upload, so that the object shows who created it when the answer to the completion is lost.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self
from uuid import uuid4

from deltacli.errors import DeltacliError, FileMissing, PermissionRefused, StorageFailed
from deltacli.storage.base import Created, Creation, Existed, Unknown
from deltacli.storage.objects.body import Body
from deltacli.storage.retry import CREATE_FIRST_WAIT, permission, sending_while
from deltacli.storage.s3.answers import is_stored, unexpected
from deltacli.storage.s3.calls import S3Calls

LARGEST_SINGLE = 64 << 20
"""Bytes up to which an object is sent in one request."""
LARGEST_PUT = 5 << 30
"""Bytes that S3 takes in one request."""
PART_BYTES = 64 << 20
MOST_PARTS = 10_000
_PARALLEL_PARTS = 4
_MARK = "deltacli-upload"
_CONFLICT = 409


class Unsupported(Exception):
    """The store has no conditional completion."""


class S3Uploads:
    """Uploads in parts to one bucket."""

    def __init__(self, calls: S3Calls) -> None:
        self._calls = calls

    def create(self, key: str, place: str, body: Body) -> Creation:
        """Create an object unless its key exists. Raises Unsupported where the store refuses the condition."""
        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            with _Upload(self._calls, key, place) as upload:
                outcome = upload.complete(upload.send(body), IfNoneMatch="*")
            if outcome is not None:
                return outcome
        raise StorageFailed(f"{place} cannot be written: other requests for the same name were running")

    def replace(self, key: str, place: str, body: Body) -> None:
        """Write an object, replacing an existing one."""
        with _Upload(self._calls, key, place) as upload:
            outcome = upload.complete(upload.send(body))
        if not isinstance(outcome, Created):
            raise StorageFailed(
                f"{place} cannot be written: the upload was not completed",
                facts={"store says": outcome.cause} if isinstance(outcome, Unknown) else {},
            )


class _Upload:
    """One upload. Unless it is completed, its parts are removed at the end."""

    def __init__(self, calls: S3Calls, key: str, place: str) -> None:
        self._calls, self._key, self._place = calls, key, place
        self._mark = uuid4().hex
        self._target: dict[str, Any] = {}  # Any: parameters of botocore
        self._is_done = False

    def __enter__(self) -> Self:
        target = self._calls.of(self._key)
        answer = self._ask(lambda client: client.create_multipart_upload(**target, Metadata={_MARK: self._mark}))
        if not answer.get("UploadId"):
            raise unexpected(self._place, "written", "an upload without its id")
        self._target = {**target, "UploadId": answer["UploadId"]}
        return self

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> None:
        if self._is_done:
            return
        from deltacli.storage.s3.faults import code_of

        try:
            self._ask(lambda client: client.abort_multipart_upload(**self._target))
        except StorageFailed as failed:
            is_gone = isinstance(failed, FileMissing) or code_of(failed.__context__) == "NoSuchUpload"
            if isinstance(fault, DeltacliError) and not is_gone:
                reason = failed.facts.get("store says", failed.message)
                fault.facts["left behind"] = f"the parts of an unfinished upload, which cannot be aborted: {reason}"

    def send(self, body: Body) -> list[dict[str, Any]]:  # Any: parameters of botocore
        """Send all parts, several at a time, and return what the completion lists. No part is in flight afterwards."""
        size = max(PART_BYTES, -(-body.size // MOST_PARTS))
        starts = range(0, max(body.size, 1), size)
        may_repeat = permission()

        def send_part(number: int) -> dict[str, Any]:
            with sending_while(may_repeat):
                return self._send_part(number, body.part(starts[number - 1], size))

        pool = ThreadPoolExecutor(_PARALLEL_PARTS, thread_name_prefix="deltacli-upload")
        try:
            return list(pool.map(send_part, range(1, len(starts) + 1)))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _send_part(self, number: int, part: Body) -> dict[str, Any]:
        digest = base64.b64encode(part.md5()).decode()

        def send(client: Any) -> Any:  # Any: botocore has no types
            with part.opened() as content:
                return client.upload_part(**self._target, PartNumber=number, Body=content, ContentMD5=digest)

        answer = self._ask(send)
        if not is_stored(answer):
            raise unexpected(self._place, "written", "a part without an entity tag")
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def complete(self, parts: list[dict[str, Any]], **condition: str) -> Creation | None:
        """Create the object once. None: nothing was done, and the upload has to begin anew."""
        from deltacli.storage.s3.faults import FAULTS, Sent, fate_of_create, status_of

        listed = {"Parts": parts}
        fault: Exception | None = None
        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            try:
                answer = self._calls.once(
                    lambda client: client.complete_multipart_upload(**self._target, MultipartUpload=listed, **condition)
                )
                if is_stored(answer):
                    self._is_done = True
                    return Created()
                return self._found("the answer has no entity tag, so it may not come from the store")
            except FAULTS as caught:
                fault = caught
            match fate_of_create(fault):
                case Sent.REFUSED_EXISTS:
                    return Existed()
                case Sent.UNKNOWN:
                    said = self._calls.translated(fault, self._place, "written")
                    return self._found(said.facts.get("store says", said.message))
                case Sent.UNSUPPORTED:
                    raise Unsupported from fault
                case Sent.REFUSED:
                    break
            if status_of(fault) == _CONFLICT:
                return None
        assert fault is not None
        raise self._calls.translated(fault, self._place, "written")

    def _found(self, cause: str) -> Creation:
        """Return the outcome of a completion without an answer, by the mark of the object.

        An upload that did not create it is aborted, so that it cannot create it later.
        """
        target = self._calls.of(self._key)
        try:
            answer = self._ask(lambda client: client.head_object(**target))
        except (FileMissing, PermissionRefused):
            return Unknown(cause)  # the completion may still be running
        except StorageFailed as failed:
            return Unknown(f"{cause}; {failed.facts.get('store says', failed.message)}")
        if answer.get("Metadata", {}).get(_MARK) != self._mark:
            return Existed()
        self._is_done = True
        return Created()

    def _ask(self, call: Callable[[Any], Any]) -> Any:  # Any: botocore has no types
        return self._calls.ask(call, self._place, "written")
