"""Object versions in Google Cloud Storage: noncurrent generations and soft-deleted objects.

Every write creates a generation with a number that increases over time. If versioning is enabled, overwritten and
deleted generations become noncurrent. If soft delete is enabled, they become soft-deleted. Restoring either kind
creates a new generation with a new modification time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltacli.core.errors import FileMissing, PermissionRefused
from deltacli.core.typing import Json
from deltacli.storage.gcs.calls import GcsCalls, build_object_path
from deltacli.storage.gcs.responses import parse_milliseconds
from deltacli.storage.objects.bounded_reading import MAX_LISTING_BYTES
from deltacli.storage.objects.conditional import create_object
from deltacli.storage.objects.http import HttpResponse, Request
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.versions import ObjectVersions, VersionPage
from deltacli.storage.outcomes import Creation
from deltacli.storage.tally import Call
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

PAGE = 1_000
"""Number of versions per request."""

# The listings. Each name is a parameter of the request.
_VERSIONS = "versions"
_SOFT_DELETED = "softDeleted"

_FIELDS = "kind,nextPageToken,items(name,size,updated,generation,timeDeleted)"
_POLICY = "softdeletepolicy"
"""Part of the reason, in lower case, why a bucket without soft delete cannot list soft-deleted objects."""

_SECONDS_PER_DAY = 86_400


class GcsVersions(ObjectVersions):
    """The versions of the objects in a bucket."""

    listings = (_VERSIONS, _SOFT_DELETED)
    list_permission = "storage.objects.list"
    read_permission = "storage.objects.get"

    def __init__(self, store: ObjectStorage, calls: GcsCalls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> VersionRetention:
        """Return whether versioning or soft delete is enabled, as configured for the bucket."""
        permission = "storage.buckets.get"
        request = Request("GET", self._calls.url("", fields="versioning,softDeletePolicy"), call=Call.HEAD)
        try:
            fields: dict[str, Any] = self.call(
                lambda: self._calls.send(request, (200,)).fields(), "", "read", permission
            )
        except PermissionRefused:
            return VersionRetention(is_kept=None, how=f"{permission} is denied")

        settings = []
        if (fields.get("versioning") or {}).get("enabled"):
            settings.append("versioning is enabled")
        seconds = str((fields.get("softDeletePolicy") or {}).get("retentionDurationSeconds", "0"))
        if seconds.isdecimal() and int(seconds):
            settings.append(f"deleted objects are kept for {int(seconds) // _SECONDS_PER_DAY} days")
        if not settings:
            return self.find_remaining_versions("versioning and soft delete")
        return VersionRetention(is_kept=True, how=", ".join(settings))

    def list_page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Return a page of the generations or of the soft-deleted objects.

        A bucket without soft delete refuses to list soft-deleted objects. Then the page is empty.
        """
        parameters = {listing: "true", "prefix": prefix, "pageToken": token}
        set_parameters = {name: text for name, text in parameters.items() if text}
        url = self._calls.url("/o", maxResults=str(PAGE), fields=_FIELDS, **set_parameters)
        try:
            response = self._calls.send(Request("GET", url, call=Call.LIST, limit=MAX_LISTING_BYTES), (200,))
        except HttpError as error:
            if listing == _SOFT_DELETED and error.status in (400, 412) and _POLICY in error.reason.lower():
                return VersionPage([], "")
            raise

        fields: dict[str, Any] = response.fields()
        items = fields.get("items", [])
        if fields.get("kind") != "storage#objects" or not isinstance(items, list):
            raise response.unexpected("no listing of versions")
        versions = [_parse_version(item, prefix, response, is_soft=listing == _SOFT_DELETED) for item in items]
        return VersionPage(versions, str(fields.get("nextPageToken") or ""))

    def sort_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Sort the generations of one key, newest first."""
        return sorted(versions, key=lambda version: -int(version.version_id))

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Make a generation current, by a restore request if it is soft-deleted, or else by copying it."""
        try:
            if version.state is VersionState.SOFT_DELETED:
                return self._restore(version, instead_of)
            return self.copy(version, instead_of, "storage.objects.get, storage.objects.create")
        except FileMissing:
            raise self.build_missing_error(version) from None

    def _restore(self, version: ObjectVersion, instead_of: ObjectVersion | None) -> Creation:
        """Restore a soft-deleted object, on condition that `instead_of` is still the current generation."""
        key = self.get_key(version.path)
        # Generation 0 is the condition that the key has no current generation.
        current_generation = "0" if instead_of is None else instead_of.version_id
        url = self._calls.url(
            f"{build_object_path(key)}/restore",
            generation=version.version_id,
            ifGenerationMatch=current_generation,
            fields="name,size",
        )

        def send() -> None:
            response = self._calls.send(Request("POST", url), (200,))
            if str(response.fields().get("size")) != str(version.size_bytes):
                raise response.unexpected(f"no properties of an object of {version.size_bytes} bytes")

        location = f"{self._store.uri}/{version.path}"
        return self.call_with_permission(
            lambda: create_object(self._calls, self._store.retry, send, location, "brought back"),
            "storage.objects.restore, storage.objects.create",
        )


def _parse_version(item: Json, prefix: str, response: HttpResponse, *, is_soft: bool) -> ObjectVersion:
    """Parse an item of a listing.

    Args:
        item: The JSON value.
        prefix: The prefix of the listing.
        response: The response, for error messages.
        is_soft: True for the listing of soft-deleted objects.

    Raises:
        HttpError: If a field is missing or invalid.
    """
    fields = item if isinstance(item, dict) else {}
    key = fields.get("name")
    size = str(fields.get("size", ""))
    generation = str(fields.get("generation", ""))
    modified = parse_milliseconds(fields.get("updated"))
    if not isinstance(key, str) or not key.startswith(prefix):
        raise response.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    if not size.isdecimal() or not generation.isdecimal() or modified is None:
        raise response.unexpected(f"a version without its size, generation or time: {key[:80]!r}")

    if is_soft:
        state = VersionState.SOFT_DELETED
    elif fields.get("timeDeleted"):
        state = VersionState.NONCURRENT
    else:
        state = VersionState.CURRENT
    return ObjectVersion(key, generation, int(size), modified, state, generation)
