"""Tables in S3 and compatible stores.

Objects that are too large for one request are uploaded in parts. An upload belongs to one writer, so its parts
may be repeated. Its completion creates the object. Like a conditional PUT it is sent once: a repeated one could find
the object that the first one created. A mark in the metadata of the object identifies the upload, so that the object
shows who created it when the answer to the completion is lost.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from deltacli.core.errors import DeltacliError, FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.core.typing import Botocore
from deltacli.storage.fsspec_faults import require_libraries
from deltacli.storage.objects.calls import ABSENT, Source, ask
from deltacli.storage.objects.contents import Body
from deltacli.storage.objects.creation import ConditionUnsupported, honours_condition
from deltacli.storage.objects.faults import Sent, fate_of_create
from deltacli.storage.objects.http import HttpFault
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown
from deltacli.storage.retry import CREATE_FIRST_WAIT, Retry, permission, sending_while
from deltacli.storage.s3.calls import S3Calls, if_of, require_copied, require_stored, unexpected
from deltacli.storage.s3.options import read_options

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects


_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def open_s3(uri: str, options: Mapping[str, str], *, retry: Retry | None = None) -> ObjectStorage:
    """Return the store of a URI whose scheme is `s3`, `s3a` or `s3n`. Raises UsageError."""
    uri = uri.rstrip("/")
    scheme, _, rest = uri.partition("://")
    require_libraries(scheme, "botocore.session")
    bucket, _, root = rest.partition("/")
    if "@" in bucket:
        raise UsageError(
            "invalid character @ in the name of the bucket: pass credentials outside the URI",
            code="usage.secret",
            facts={"instead": "AWS_PROFILE, or the environment variables of AWS"},
        )
    if not _BUCKET.fullmatch(bucket):
        said = f"invalid name of a bucket: {bucket!r}" if bucket else f"{scheme.rstrip(':')}:// does not name a bucket"
        raise UsageError(said, code="usage.table", hint="s3://BUCKET/PATH")
    policy = retry or Retry()
    calls = S3Calls(uri, bucket, read_options(options), policy)
    calls.uploads = S3Uploads(calls)

    def versions(store: ObjectStorage) -> VersionedObjects:
        from deltacli.storage.s3.versions import S3Versions

        return S3Versions(store, calls)

    return ObjectStorage(uri, root, calls, retry=policy, versions=versions)


LARGEST_SINGLE = 64 << 20
"""Bytes up to which an object is sent in one request."""
LARGEST_PUT = 5 << 30
"""Bytes that S3 takes, or copies, in one request."""
COPIED_BYTES = 1 << 30
"""Bytes of an object that is copied in parts, per part."""
PART_BYTES = 64 << 20
MOST_PARTS = 10_000
_PARALLEL_PARTS = 4
_MARK = "deltacli-upload"
_CONFLICT = 409

_Parts = list[dict[str, Botocore]]


class S3Uploads:
    """Uploads in parts to one bucket. A store that cannot create an object atomically from parts gets it in one
    request. Raises StorageFailed where it is too large for that.
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
                f"{self._calls.place(key)} cannot be written: the upload was not completed",
                facts={"store says": outcome.cause} if isinstance(outcome, Unknown) else {},
            )
        return True

    def copy(self, source: Source, key: str, condition: str) -> Creation | None:
        if source.size_bytes <= LARGEST_PUT:
            return None
        return self._finish(key, lambda upload: upload.copy(source), condition)

    def _create(self, key: str, body: Body) -> Creation:
        return self._finish(key, lambda upload: upload.send(body), ABSENT)

    def _finish(self, key: str, send: Callable[[_Upload], _Parts], condition: str) -> Creation:
        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            with _Upload(self._calls, key) as upload:
                outcome = upload.complete(send(upload), **if_of(condition))
            if outcome is not None:
                return outcome
        raise StorageFailed(
            f"{self._calls.place(key)} cannot be written: other requests for the same name were running"
        )

    def _takes(self, key: str, body: Body) -> bool:
        if body.size <= LARGEST_SINGLE:
            return False
        if self._honours_condition is None:
            self._honours_condition = self._calls.is_known_atomic or self._proves_condition(key)
        if not self._honours_condition and body.size > LARGEST_PUT:
            raise StorageFailed(
                f"{self._calls.place(key)} cannot be written: it exceeds the limit of 5 GiB for one request",
                facts={"why": "the store ignores or refuses If-None-Match when an upload in parts is completed"},
            )
        return self._honours_condition

    def _proves_condition(self, key: str) -> bool:
        """Return whether the store honours the condition when an upload is completed; probed once per bucket."""
        calls = self._calls

        def delete(probe: str) -> None:
            with suppress(StorageFailed):
                ask(calls, calls.retry, lambda: calls.delete(probe), calls.place(probe), "deleted")

        address = f"{calls.endpoint}/{calls.bucket} in parts"
        try:
            return honours_condition(address, key, lambda probe: self._create(probe, Body(b"probe")), delete)
        except (ConditionUnsupported, StorageFailed):
            return False


class _Upload:
    """One upload. Unless it is completed, its parts are removed at the end."""

    def __init__(self, calls: S3Calls, key: str) -> None:
        self._calls, self._key, self._place = calls, key, calls.place(key)
        self._mark = uuid4().hex
        self._target: dict[str, Botocore] = {}
        self._is_done = False

    def __enter__(self) -> Self:
        target = self._calls.of(self._key)

        def begin(client: Botocore) -> Botocore:
            answer = client.create_multipart_upload(**target, Metadata={_MARK: self._mark})
            if not answer.get("UploadId"):
                raise unexpected("an upload without its id")
            return answer["UploadId"]

        self._target = {**target, "UploadId": self._ask(begin)}
        return self

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> None:
        if self._is_done:
            return
        try:
            self._ask(lambda client: client.abort_multipart_upload(**self._target))
        except StorageFailed as failed:
            is_gone = isinstance(failed, FileMissing) or getattr(failed.__context__, "reason", "") == "NoSuchUpload"
            if isinstance(fault, DeltacliError) and not is_gone:
                reason = failed.facts.get("store says", failed.message)
                fault.facts["left behind"] = f"the parts of an unfinished upload, which cannot be aborted: {reason}"

    def send(self, body: Body) -> _Parts:
        """Send all parts, and return what the completion lists."""
        size = max(PART_BYTES, -(-body.size // MOST_PARTS))
        return self._each(body.size, size, lambda number, start: self._send_part(number, body.part(start, size)))

    def copy(self, source: Source) -> _Parts:
        """Have all parts copied, and return what the completion lists."""
        size = max(COPIED_BYTES, -(-source.size_bytes // MOST_PARTS))
        return self._each(source.size_bytes, size, lambda number, start: self._copy_part(number, source, start, size))

    def _each(self, whole: int, size: int, make: Callable[[int, int], dict[str, Any]]) -> _Parts:
        """Make all parts, several at a time. None is in flight afterwards."""
        starts = range(0, max(whole, 1), size)
        may_repeat = permission()

        def send_part(number: int) -> dict[str, Any]:
            with sending_while(may_repeat):
                return make(number, starts[number - 1])

        pool = ThreadPoolExecutor(_PARALLEL_PARTS, thread_name_prefix="deltacli-upload")
        try:
            return list(pool.map(send_part, range(1, len(starts) + 1)))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _send_part(self, number: int, part: Body) -> dict[str, Any]:
        digest = base64.b64encode(part.md5()).decode()

        def send(client: Botocore) -> Botocore:
            with part.opened() as content:
                answer = client.upload_part(**self._target, PartNumber=number, Body=content, ContentMD5=digest)
            require_stored(answer)
            return answer["ETag"]

        return {"PartNumber": number, "ETag": self._ask(send)}

    def _copy_part(self, number: int, source: Source, start: int, size: int) -> dict[str, Any]:
        span = f"bytes={start}-{min(start + size, source.size_bytes) - 1}"
        asked = {**self._target, **self._calls.copied(source), "PartNumber": number, "CopySourceRange": span}

        def send(client: Botocore) -> str:
            return require_copied(client.upload_part_copy(**asked), "CopyPartResult")

        return {"PartNumber": number, "ETag": self._ask(send)}

    def complete(self, parts: _Parts, **condition: str) -> Creation | None:
        """Create the object once. None: nothing was done, and the upload has to begin anew."""
        asked = {**self._target, "MultipartUpload": {"Parts": parts}, **condition}
        fault: HttpFault | None = None
        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT):
            try:
                with self._calls.retry.watched(self._calls.endpoint):
                    require_stored(self._calls.send(lambda client: client.complete_multipart_upload(**asked)))
                self._is_done = True
                return Created()
            except HttpFault as caught:
                fault = caught
            match fate_of_create(fault, self._calls.dialect):
                case Sent.EXISTS:
                    return Existed()
                case Sent.UNKNOWN:
                    said = self._calls.translated(fault, self._place, "written")
                    return self._found(said.facts.get("store says", str(fault)))
                case Sent.UNSUPPORTED:
                    raise ConditionUnsupported from fault
                case Sent.REFUSED:
                    break
            if fault.status == _CONFLICT:
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

    def _ask(self, call: Callable[[Botocore], Botocore]) -> Botocore:
        return ask(self._calls, self._calls.retry, lambda: self._calls.send(call), self._place, "written")
