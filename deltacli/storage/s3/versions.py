"""Object versions in S3.

Deleting an object in a bucket with versioning adds a delete marker, which hides the older versions:

    before the deletion      after it
    v2  current              marker  current
    v1  noncurrent           v2      noncurrent
                             v1      noncurrent

There are two ways to restore a version. Removing the markers makes the newest version (v2) current again. No bytes
are copied, the object keeps its modification time, and an object that was written in the meantime cannot be
overwritten. Any other version (v1) is copied over the current one, which gives it a new modification time.
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
from deltacli.storage.objects.versions import PERMISSION, ObjectVersions, VersionPage, find_current
from deltacli.storage.outcomes import Created, Creation, Existed
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.responses import build_unexpected_error, milliseconds
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

PAGE = 1_000
"""Number of versions per request."""

_NULL = "null"
"""Version id of objects and markers that were written while versioning was disabled or suspended. The next write
during a suspension replaces the `null` version permanently.
"""

_MAX_ROUNDS = 100
"""Maximum number of delete markers of a key that are removed, one request each."""

_LISTING_FIELDS = {"Versions", "DeleteMarkers", "IsTruncated", "MaxKeys", "Name", "Prefix"}
"""Fields of ListObjectVersions. A response without any of them does not come from S3."""

_RETENTION_BY_STATUS: Mapping[str, VersionRetention] = {
    "Enabled": VersionRetention(is_kept=True, how="versioning is enabled"),
    "Suspended": VersionRetention(is_kept=True, how="versioning is suspended: nothing deleted since then is kept"),
}


class S3Versions(ObjectVersions):
    """The versions of the objects in a bucket."""

    list_permission = "s3:ListBucketVersions"
    read_permission = "s3:GetObjectVersion"

    def __init__(self, store: ObjectStorage, calls: S3Calls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> VersionRetention:
        """Return the versioning state of the bucket."""
        permission = "s3:GetBucketVersioning"

        def send() -> Botocore:
            return self._calls.send(lambda client: client.get_bucket_versioning(Bucket=self._calls.bucket))

        try:
            response = self.call(send, "", "read", permission)
        except PermissionRefused:
            return VersionRetention(is_kept=None, how=f"{permission} is denied")
        except StorageFailed as failed:
            # S3-compatible stores without versioning reject the request in different ways.
            http_error = failed.__context__
            if isinstance(http_error, HttpError) and http_error.status in (400, 405, 501):
                return VersionRetention(is_kept=False, how="the store has no versioning")
            raise
        never_enabled = VersionRetention(is_kept=False, how="versioning was never enabled")
        return _RETENTION_BY_STATUS.get(str(response.get("Status")), never_enabled)

    def list_page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Return a page of versions and delete markers.

        Args:
            listing: Unused, because S3 has one listing for both.
            prefix: A prefix of keys.
            token: A JSON array of the key marker and the version id marker; '' for the first page.
        """
        del listing
        arguments: dict[str, Any] = {"Bucket": self._calls.bucket, "Prefix": prefix, "MaxKeys": PAGE}
        if token:
            key_marker, version_id_marker = json.loads(token)
            arguments |= {"KeyMarker": key_marker, "VersionIdMarker": version_id_marker}
        arguments |= self._calls.payer
        return _parse_page(self._calls.send(lambda client: client.list_object_versions(**arguments)), prefix)

    def sort_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Sort the versions and delete markers of one key, newest first.

        botocore returns versions and markers in two lists, each newest first. Times are whole seconds, so the
        order of a version and a marker of the same second is unknown. No caller depends on it.
        """
        data = [version for version in versions if version.state is not VersionState.DELETE_MARKER]
        markers = [version for version in versions if version.state is VersionState.DELETE_MARKER]
        if data and _can_be_unhidden(data[0], data, markers):
            data[0] = data[0]._replace(keeps_time=True)

        # The first entry is the current one: a marker if it hides all versions, otherwise a version.
        is_hidden = find_current(data) is None
        ordered = [*markers[:1], *data, *markers[1:]] if is_hidden else [*data, *markers]
        current = ordered[:1]
        older = sorted(ordered[1:], key=lambda version: -version.modified_ms)
        return current + older

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Make a version current, by removing the delete markers that hide it, or else by copying it.

        Other writers may add versions or markers between the requests. So the key is listed again before each
        marker is removed, and the object is read after each removal.
        """
        key = self.get_key(version.path)
        for _ in range(_MAX_ROUNDS):
            versions = self.list_key_versions(key)
            data = [entry for entry in versions if entry.state is not VersionState.DELETE_MARKER]
            markers = [entry for entry in versions if entry.state is VersionState.DELETE_MARKER]
            if version.version_id not in {entry.version_id for entry in data}:
                raise self.build_missing_error(version)

            # The caller allows replacing only the version `instead_of`.
            live = find_current(data)
            if live is not None and (instead_of is None or live.version_id != instead_of.version_id):
                return Existed()

            if live is not None or not _can_be_unhidden(version, data, markers):
                return self.copy(version, live, "s3:GetObjectVersion, s3:PutObject")

            self._remove_marker(key, markers[0].version_id)
            if self._read_current_id(key) == version.version_id:
                return Created()
        raise StorageFailed(f"{self._calls.uri_of(key)} cannot be brought back: it has too many delete markers")

    def _remove_marker(self, key: str, marker_id: str) -> None:
        """Remove a delete marker. It is not an error if the marker does not exist any more.

        Raises:
            PermissionRefused: If the caller may not delete versions, or if the bucket requires multi-factor
                authentication for it (MFA Delete).
        """
        arguments = {**self._calls.object_arguments(key), "VersionId": marker_id}

        def send() -> Botocore:
            return self._calls.send(lambda client: client.delete_object(**arguments))

        try:
            self.call(send, key, "brought back", "s3:DeleteObjectVersion")
        except FileMissing:
            return
        except PermissionRefused as refused:
            if "mfa" in refused.facts.get("store says", "").lower():
                refused.facts["why"] = "deleting a version needs multi-factor authentication (MFA Delete of the bucket)"
                # No permission would help.
                del refused.facts[PERMISSION]
            raise

    def _read_current_id(self, key: str) -> str:
        """Return the id of the current version of a key; '' if the key has no current version."""

        def send() -> Botocore:
            return self._calls.send(lambda client: client.head_object(**self._calls.object_arguments(key)))

        with suppress(FileMissing):
            response = self.call(send, key, "read", "s3:GetObject")
            return str(response.get("VersionId") or _NULL)
        return ""


def _can_be_unhidden(version: ObjectVersion, data: list[ObjectVersion], markers: list[ObjectVersion]) -> bool:
    """Return whether a version becomes current when the delete markers of its key are removed.

    That is so if it is the newest version and hidden. No marker may have the id `null`: another writer could
    replace it with an object that has the id `null` as well, and the removal would then delete that object.

    Args:
        version: The version to restore.
        data: The versions of the key, newest first, without markers.
        markers: The delete markers of the key.
    """
    is_newest = bool(data) and data[0].version_id == version.version_id and find_current(data) is None
    return is_newest and bool(markers) and all(marker.version_id != _NULL for marker in markers)


def _parse_page(response: Mapping[str, Botocore], prefix: str) -> VersionPage:
    """Parse a response to ListObjectVersions.

    Raises:
        HttpError: If the response is invalid.
    """
    if not _LISTING_FIELDS & response.keys():
        raise build_unexpected_error("no listing of versions")

    versions = [_parse_version(entry, prefix, is_marker=False) for entry in response.get("Versions", [])]
    markers = [_parse_version(entry, prefix, is_marker=True) for entry in response.get("DeleteMarkers", [])]
    token = ""
    if response.get("IsTruncated"):
        key_marker = response.get("NextKeyMarker")
        version_id_marker = response.get("NextVersionIdMarker")
        if not key_marker or not version_id_marker:
            raise build_unexpected_error("a page without the markers of the next page")
        token = json.dumps([key_marker, version_id_marker])
    # The sort is stable, so the versions and the markers of a key remain newest first.
    return VersionPage(sorted([*versions, *markers], key=lambda entry: entry.path.encode()), token)


def _parse_version(entry: Mapping[str, Any], prefix: str, *, is_marker: bool) -> ObjectVersion:  # Any: of botocore
    """Parse a version or a delete marker of a listing.

    Raises:
        HttpError: If a field is missing or invalid.
    """
    key = entry.get("Key")
    version_id = entry.get("VersionId")
    modified = entry.get("LastModified")
    size = 0 if is_marker else entry.get("Size")
    if not isinstance(key, str) or not key.startswith(prefix):
        raise build_unexpected_error(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    has_valid_size = isinstance(size, int) and size >= 0
    if not isinstance(version_id, str) or not isinstance(modified, datetime) or not has_valid_size:
        raise build_unexpected_error(f"a version without its id, size or time: {key[:80]!r}")
    assert isinstance(size, int)

    if is_marker:
        state = VersionState.DELETE_MARKER
    elif entry.get("IsLatest"):
        state = VersionState.CURRENT
    else:
        state = VersionState.NONCURRENT
    return ObjectVersion(key, version_id, size, milliseconds(modified), state, str(entry.get("ETag", "")))
