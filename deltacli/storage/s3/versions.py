"""The versions of objects in S3.

A deletion adds a delete marker. Removing it, by its version, makes the newest version current again
with its own time, and copies nothing; it cannot replace an object that was written meanwhile. An
older version is copied.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from deltacli.core.errors import FileMissing, PermissionRefused, StorageFailed
from deltacli.core.typing import Botocore
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.versions import PERMISSION, ObjectVersions, VersionPage, current
from deltacli.storage.outcomes import Created, Creation, Existed
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.responses import milliseconds, unexpected
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

PAGE = 1_000
_NULL = "null"
"""The version of what was written while versioning was not enabled, which the next write replaces for good."""
_MOST_ROUNDS = 100
"""Delete markers of one key, which are removed one by one."""
_OF_A_LISTING = {"Versions", "DeleteMarkers", "IsTruncated", "MaxKeys", "Name", "Prefix"}
_STATES: Mapping[str, VersionRetention] = {
    "Enabled": VersionRetention(is_kept=True, how="versioning is enabled"),
    "Suspended": VersionRetention(is_kept=True, how="versioning is suspended: nothing deleted since then is kept"),
}


class S3Versions(ObjectVersions):
    """The versions of the objects of a bucket."""

    list_permission = "s3:ListBucketVersions"
    read_permission = "s3:GetObjectVersion"

    def __init__(self, store: ObjectStorage, calls: S3Calls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> VersionRetention:
        """Return the state of versioning of the bucket."""
        asked = {"Bucket": self._calls.bucket}
        permission = "s3:GetBucketVersioning"
        try:
            response = self.ask(
                lambda: self._calls.send(lambda client: client.get_bucket_versioning(**asked)), "", "read", permission
            )
        except PermissionRefused:
            return VersionRetention(is_kept=None, how=f"{permission} is denied")
        except StorageFailed as failed:
            error = failed.__context__
            if isinstance(error, HttpError) and error.status in (400, 405, 501):
                return VersionRetention(is_kept=False, how="the store has no versioning")
            raise
        return _STATES.get(
            str(response.get("Status")), VersionRetention(is_kept=False, how="versioning was never enabled")
        )

    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        del listing
        asked: dict[str, Any] = {"Bucket": self._calls.bucket, "Prefix": prefix, "MaxKeys": PAGE}
        if token:
            asked["KeyMarker"], asked["VersionIdMarker"] = json.loads(token)
        asked |= self._calls.payer
        return _page_of(self._calls.send(lambda client: client.list_object_versions(**asked)), prefix)

    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Return the versions newest first. botocore returns versions and markers apart, both in
        this order, and times are whole seconds: which of a version and a marker of one second is
        older is not known, and not needed.
        """
        data = [version for version in versions if version.state is not VersionState.DELETE_MARKER]
        markers = [version for version in versions if version.state is VersionState.DELETE_MARKER]
        if data and _is_below_markers(data[0], data, markers):
            data[0] = data[0]._replace(keeps_time=True)
        is_hidden = current(data) is None
        ordered = [*markers[:1], *data, *markers[1:]] if is_hidden else [*data, *markers]
        first = ordered[:1]
        older = ordered[1:]
        return first + sorted(older, key=lambda version: -version.modified_ms)

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Make a version current: by removing the delete markers above it, else by copying it."""
        key = self.key(version.path)
        for _ in range(_MOST_ROUNDS):
            versions = self.of_key(key)
            data = [each for each in versions if each.state is not VersionState.DELETE_MARKER]
            markers = [each for each in versions if each.state is VersionState.DELETE_MARKER]
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
        raise StorageFailed(f"{self._calls.uri_of(key)} cannot be brought back: it has too many delete markers")

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
            response = self.ask(
                lambda: self._calls.send(lambda client: client.head_object(**self._calls.of(key))),
                key,
                "read",
                "s3:GetObject",
            )
            return str(response.get("VersionId") or _NULL)
        return ""


def _is_below_markers(version: ObjectVersion, data: list[ObjectVersion], markers: list[ObjectVersion]) -> bool:
    """Return whether a version becomes current when the markers of its key are removed: it is the
    newest one, and none of them is one that a write of somebody else could have replaced by the
    time it is removed.
    """
    is_newest = bool(data) and data[0].version_id == version.version_id and current(data) is None
    return is_newest and bool(markers) and all(marker.version_id != _NULL for marker in markers)


def _page_of(response: Mapping[str, Botocore], prefix: str) -> VersionPage:
    if not _OF_A_LISTING & response.keys():
        raise unexpected("no listing of versions")
    versions = [_version(entry, prefix, is_marker=False) for entry in response.get("Versions", [])]
    markers = [_version(entry, prefix, is_marker=True) for entry in response.get("DeleteMarkers", [])]
    token = ""
    if response.get("IsTruncated"):
        key = response.get("NextKeyMarker")
        version = response.get("NextVersionIdMarker")
        if not key or not version:
            raise unexpected("a page without the markers of the next page")
        token = json.dumps([key, version])
    return VersionPage(sorted([*versions, *markers], key=lambda entry: entry.path.encode()), token)


def _version(entry: Mapping[str, Any], prefix: str, *, is_marker: bool) -> ObjectVersion:  # Any: as above
    key = entry.get("Key")
    number = entry.get("VersionId")
    modified = entry.get("LastModified")
    size = 0 if is_marker else entry.get("Size")
    if not isinstance(key, str) or not key.startswith(prefix):
        raise unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    if not isinstance(number, str) or not isinstance(modified, datetime) or not isinstance(size, int) or size < 0:
        raise unexpected(f"a version without its id, size or time: {key[:80]!r}")
    state = VersionState.CURRENT if entry.get("IsLatest") else VersionState.NONCURRENT
    if is_marker:
        state = VersionState.DELETE_MARKER
    return ObjectVersion(key, number, size, milliseconds(modified), state, str(entry.get("ETag", "")))
