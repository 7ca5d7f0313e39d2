"""The versions of objects in Google Cloud Storage: generations, noncurrent ones and soft-deleted ones.

Whatever is brought back gets a new generation and a new time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltacli.core.errors import FileMissing, PermissionRefused
from deltacli.core.typing import Json
from deltacli.storage.gcs.calls import GcsCalls, object_path
from deltacli.storage.gcs.responses import parse_milliseconds
from deltacli.storage.objects.bounded_reading import LARGEST_LIST
from deltacli.storage.objects.conditional import create_object
from deltacli.storage.objects.http import HttpResponse, Request
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.versions import ObjectVersions, VersionPage
from deltacli.storage.outcomes import Creation
from deltacli.storage.tally import Call
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

PAGE = 1_000
_VERSIONS = "versions"
_SOFT_DELETED = "softDeleted"
_FIELDS = "kind,nextPageToken,items(name,size,updated,generation,timeDeleted)"
_POLICY = "softdeletepolicy"


class GcsVersions(ObjectVersions):
    """The versions of the objects of a bucket."""

    listings = (_VERSIONS, _SOFT_DELETED)
    list_permission = "storage.objects.list"
    read_permission = "storage.objects.get"

    def __init__(self, store: ObjectStorage, calls: GcsCalls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> VersionRetention:
        """Return whether versioning or soft delete is enabled, by the settings of the bucket."""
        permission = "storage.buckets.get"
        request = Request("GET", self._calls.url("", fields="versioning,softDeletePolicy"), call=Call.HEAD)
        try:
            fields: dict[str, Any] = self.ask(
                lambda: self._calls.send(request, (200,)).fields(), "", "read", permission
            )
        except PermissionRefused:
            return VersionRetention(is_kept=None, how=f"{permission} is denied")
        settings = []
        if (fields.get("versioning") or {}).get("enabled"):
            settings.append("versioning is enabled")
        seconds = str((fields.get("softDeletePolicy") or {}).get("retentionDurationSeconds", "0"))
        if seconds.isdecimal() and int(seconds):
            settings.append(f"deleted objects are kept for {int(seconds) // 86_400} days")
        if not settings:
            return self.kept_before("versioning and soft delete")
        return VersionRetention(is_kept=True, how=", ".join(settings))

    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Return a page of noncurrent or of soft-deleted versions; an empty one if the bucket has no soft delete."""
        given = {listing: "true", "prefix": prefix, "pageToken": token}
        url = self._calls.url(
            "/o", maxResults=str(PAGE), fields=_FIELDS, **{name: text for name, text in given.items() if text}
        )
        try:
            response = self._calls.send(Request("GET", url, call=Call.LIST, limit=LARGEST_LIST), (200,))
        except HttpError as error:
            if listing == _SOFT_DELETED and error.status in (400, 412) and _POLICY in error.reason.lower():
                return VersionPage([], "")  # the bucket has no soft delete
            raise
        fields: dict[str, Any] = response.fields()
        items = fields.get("items", [])
        if fields.get("kind") != "storage#objects" or not isinstance(items, list):
            raise response.unexpected("no listing of versions")
        versions = [_version(item, prefix, response, is_soft=listing == _SOFT_DELETED) for item in items]
        return VersionPage(versions, str(fields.get("nextPageToken") or ""))

    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        return sorted(versions, key=lambda version: -int(version.version_id))

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        try:
            if version.state is VersionState.SOFT_DELETED:
                return self._restore(version, instead_of)
            return self.copy(version, instead_of, "storage.objects.get, storage.objects.create")
        except FileMissing:
            raise self.gone(version) from None

    def _restore(self, version: ObjectVersion, instead_of: ObjectVersion | None) -> Creation:
        """Restore a soft-deleted object, on the condition that what it replaces is still current."""
        key = self.key(version.path)
        live = instead_of.version_id if instead_of is not None else "0"
        url = self._calls.url(
            f"{object_path(key)}/restore", generation=version.version_id, ifGenerationMatch=live, fields="name,size"
        )

        def send() -> None:
            response = self._calls.send(Request("POST", url), (200,))
            if str(response.fields().get("size")) != str(version.size_bytes):
                raise response.unexpected(f"no properties of an object of {version.size_bytes} bytes")

        location = f"{self._store.uri}/{version.path}"
        return self.permitted(
            lambda: create_object(self._calls, self._store.retry, send, location, "brought back"),
            "storage.objects.restore, storage.objects.create",
        )


def _version(item: Json, prefix: str, response: HttpResponse, *, is_soft: bool) -> ObjectVersion:
    fields = item if isinstance(item, dict) else {}
    key = fields.get("name")
    size = str(fields.get("size", ""))
    generation = str(fields.get("generation", ""))
    modified = parse_milliseconds(fields.get("updated"))
    if not isinstance(key, str) or not key.startswith(prefix):
        raise response.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    if not size.isdecimal() or not generation.isdecimal() or modified is None:
        raise response.unexpected(f"a version without its size, generation or time: {key[:80]!r}")
    state = VersionState.NONCURRENT if fields.get("timeDeleted") else VersionState.CURRENT
    state = VersionState.SOFT_DELETED if is_soft else state
    return ObjectVersion(key, generation, int(size), modified, state, generation)
