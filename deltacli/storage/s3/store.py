"""Tables in S3 and compatible stores, and the versions of their objects.

A deletion adds a delete marker. Removing it, by its version, makes the newest version current again with its own time,
and copies nothing; it cannot replace an object that was written meanwhile. An older version is copied.

Objects that are too large for one request are uploaded in parts. An upload belongs to one writer, so its parts
may be repeated. Its completion creates the object. Like a conditional PUT it is sent once: a repeated one could find
the object that the first one created. A mark in the metadata of the object identifies the upload, so that the object
shows who created it when the answer to the completion is lost.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from deltacli.core.errors import DeltacliError, FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.core.typing import Botocore
from deltacli.storage.fsspec_storage import require_libraries
from deltacli.storage.objects.calls import ABSENT, Source, ask
from deltacli.storage.objects.http import Body, HttpFault, Sent, fate_of_create
from deltacli.storage.objects.store import (
    PERMISSION,
    ConditionUnsupported,
    ObjectStorage,
    ObjectVersions,
    VersionPage,
    current,
    honours_condition,
)
from deltacli.storage.outcomes import Created, Creation, Existed, Unknown
from deltacli.storage.retry import CREATE_FIRST_WAIT, Retry, permission, sending_while
from deltacli.storage.s3.calls import S3Calls, if_of, milliseconds, require_copied, require_stored_in_s3, unexpected
from deltacli.storage.s3.options import read_s3_options
from deltacli.storage.versions import Keeping, ObjectVersion, VersionedObjects, VersionState

if TYPE_CHECKING:
    from deltacli.storage.grants import HeldGrant

# -- versions of objects of S3 -----------------------------------------------------------------------------------------

PAGE = 1_000
_NULL = "null"
"""The version of what was written while versioning was not enabled, which the next write replaces for good."""
_MOST_ROUNDS = 100
"""Delete markers of one key, which are removed one by one."""
_OF_A_LISTING = {"Versions", "DeleteMarkers", "IsTruncated", "MaxKeys", "Name", "Prefix"}
_STATES: Mapping[str, Keeping] = {
    "Enabled": Keeping(is_kept=True, how="versioning is enabled"),
    "Suspended": Keeping(is_kept=True, how="versioning is suspended: nothing deleted since then is kept"),
}


class S3Versions(ObjectVersions):
    """The versions of the objects of a bucket."""

    list_permission = "s3:ListBucketVersions"
    read_permission = "s3:GetObjectVersion"

    def __init__(self, store: ObjectStorage, calls: S3Calls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> Keeping:
        asked = {"Bucket": self._calls.bucket}
        permission = "s3:GetBucketVersioning"
        try:
            answer = self.ask(
                lambda: self._calls.send(lambda client: client.get_bucket_versioning(**asked)), "", "read", permission
            )
        except PermissionRefused:
            return Keeping(is_kept=None, how=f"{permission} is denied")
        except StorageFailed as failed:
            fault = failed.__context__
            if isinstance(fault, HttpFault) and fault.status in (400, 405, 501):
                return Keeping(is_kept=False, how="the store has no versioning")
            raise
        return _STATES.get(str(answer.get("Status")), Keeping(is_kept=False, how="versioning was never enabled"))

    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        del listing
        asked: dict[str, Any] = {"Bucket": self._calls.bucket, "Prefix": prefix, "MaxKeys": PAGE}
        if token:
            asked["KeyMarker"], asked["VersionIdMarker"] = json.loads(token)
        asked |= self._calls.payer
        return _page_of(self._calls.send(lambda client: client.list_object_versions(**asked)), prefix)

    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Return the versions newest first. botocore returns versions and markers apart, both in this order, and times
        are whole seconds: which of a version and a marker of one second is older is not known, and not needed.
        """
        data = [version for version in versions if version.state is not VersionState.DELETE_MARKER]
        markers = [version for version in versions if version.state is VersionState.DELETE_MARKER]
        if data and _is_below_markers(data[0], data, markers):
            data[0] = data[0]._replace(keeps_time=True)
        is_hidden = current(data) is None
        ordered = [*markers[:1], *data, *markers[1:]] if is_hidden else [*data, *markers]
        first, rest = ordered[:1], ordered[1:]
        return first + sorted(rest, key=lambda version: -version.modified_ms)

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        key = self.key(version.path)
        for _ in range(_MOST_ROUNDS):
            found = self.of_key(key)
            data = [each for each in found if each.state is not VersionState.DELETE_MARKER]
            markers = [each for each in found if each.state is VersionState.DELETE_MARKER]
            if version.version_id not in {each.version_id for each in data}:
                raise self.gone(version)
            live = current(data)
            if live is not None and (instead_of is None or live.version_id != instead_of.version_id):
                return Existed()
            if live is not None or not _is_below_markers(version, data, markers):
                return self.copy(version, live, "s3:GetObjectVersion, s3:PutObject")
            self._remove(key, markers[0].version_id)
            if self._current_id(key) == version.version_id:
                return Created()
        raise StorageFailed(f"{self._calls.place(key)} cannot be brought back: it has too many delete markers")

    def _remove(self, key: str, marker: str) -> None:
        """Remove a delete marker. S3 does the same where it is gone."""
        asked = {**self._calls.of(key), "VersionId": marker}
        try:
            self.ask(
                lambda: self._calls.send(lambda client: client.delete_object(**asked)),
                key,
                "brought back",
                "s3:DeleteObjectVersion",
            )
        except FileMissing:
            return
        except PermissionRefused as refused:
            if "mfa" in refused.facts.get("store says", "").lower():
                refused.facts["why"] = "deleting a version needs multi-factor authentication (MFA Delete of the bucket)"
                del refused.facts[PERMISSION]
            raise

    def _current_id(self, key: str) -> str:
        """Return the version that a key leads to, '' where it leads to none."""
        with suppress(FileMissing):
            answer = self.ask(
                lambda: self._calls.send(lambda client: client.head_object(**self._calls.of(key))),
                key,
                "read",
                "s3:GetObject",
            )
            return str(answer.get("VersionId") or _NULL)
        return ""


def _is_below_markers(version: ObjectVersion, data: list[ObjectVersion], markers: list[ObjectVersion]) -> bool:
    """Return whether a version becomes current when the markers of its key are removed: it is the newest one, and none
    of them is one that a write of somebody else could have replaced by the time it is removed.
    """
    is_newest = bool(data) and data[0].version_id == version.version_id and current(data) is None
    return is_newest and bool(markers) and all(marker.version_id != _NULL for marker in markers)


def _page_of(answer: Mapping[str, Botocore], prefix: str) -> VersionPage:
    if not _OF_A_LISTING & answer.keys():
        raise unexpected("no listing of versions")
    versions = [_version(entry, prefix, is_marker=False) for entry in answer.get("Versions", [])]
    markers = [_version(entry, prefix, is_marker=True) for entry in answer.get("DeleteMarkers", [])]
    token = ""
    if answer.get("IsTruncated"):
        key, version = answer.get("NextKeyMarker"), answer.get("NextVersionIdMarker")
        if not key or not version:
            raise unexpected("a page without the markers of the next page")
        token = json.dumps([key, version])
    return VersionPage(sorted([*versions, *markers], key=lambda entry: entry.path.encode()), token)


def _version(entry: Mapping[str, Any], prefix: str, *, is_marker: bool) -> ObjectVersion:  # Any: as above
    key, number, modified = entry.get("Key"), entry.get("VersionId"), entry.get("LastModified")
    size = 0 if is_marker else entry.get("Size")
    if not isinstance(key, str) or not key.startswith(prefix):
        raise unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    if not isinstance(number, str) or not isinstance(modified, datetime) or not isinstance(size, int) or size < 0:
        raise unexpected(f"a version without its id, size or time: {key[:80]!r}")
    state = VersionState.CURRENT if entry.get("IsLatest") else VersionState.NONCURRENT
    if is_marker:
        state = VersionState.DELETE_MARKER
    return ObjectVersion(key, number, size, milliseconds(modified), state, str(entry.get("ETag", "")))


# -- tables in S3 and compatible stores --------------------------------------------------------------------------------

_SCHEMES = ("s3", "s3a", "s3n")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def open_s3(
    uri: str, options: Mapping[str, str], *, retry: Retry | None = None, held: HeldGrant | None = None
) -> ObjectStorage:
    """Return the store of an S3 URI, with the credentials of a grant if there is one. Raises UsageError."""
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

    def make() -> S3Calls:
        made = S3Calls(f"{scheme}://{bucket}", bucket, replace(read_s3_options(options), held=held), policy)
        made.uploads = S3Uploads(made)
        return made

    calls = make() if held is not None else policy.shared(f"{scheme}://{bucket}", options, make)
    aliases = tuple(f"{other}://{rest}" for other in _SCHEMES if other != scheme)

    def versions(store: ObjectStorage) -> VersionedObjects:
        return S3Versions(store, calls)

    return ObjectStorage(uri, root, calls, aliases=aliases, retry=policy, versions=versions)


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
            require_stored_in_s3(answer)
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

        def asked_seconds() -> float:
            return 0.0 if fault is None else fault.wait_seconds

        for _ in self._calls.retry.rounds(CREATE_FIRST_WAIT, asked=asked_seconds):
            try:
                with self._calls.retry.watched(self._calls.endpoint):
                    require_stored_in_s3(self._calls.send(lambda client: client.complete_multipart_upload(**asked)))
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
