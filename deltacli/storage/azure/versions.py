"""Object versions in Azure Blob Storage: versions, snapshots and soft-deleted blobs.

The kind of account decides how overwritten and deleted blobs are kept:

    flat namespace            versions, snapshots and soft-deleted blobs, in one listing
    hierarchical namespace    soft-deleted blobs only, in a listing of their own; overwritten content is lost

A version or a snapshot is restored by copying it over the current blob. A soft-deleted blob is undeleted, which
copies nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.core.lock_free_property import cached_property
from deltacli.storage.azure.calls import MAX_PAGE_BYTES, AzureCalls
from deltacli.storage.azure.responses import is_directory, parse_listed_blob, parse_listing
from deltacli.storage.objects.calls import ListedObject
from deltacli.storage.objects.http import HttpResponse, Request
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.versions import ObjectVersions, VersionPage, is_access_denied
from deltacli.storage.outcomes import Created, Creation, Existed
from deltacli.storage.tally import Call
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

SNAPSHOT = "snapshot="
"""Prefix of the version id of a snapshot, which distinguishes it from the id of a version: both are timestamps."""

_READ = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
_WRITE = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write"

# The listings. The first one is the value of the parameter `include`.
_FLAT = "metadata,versions,snapshots,deleted"
_LIVE = "live"
_DELETED = "deleted"


class AzureVersions(ObjectVersions):
    """The versions of the blobs in a container."""

    list_permission = _READ
    read_permission = _READ

    def __init__(self, store: ObjectStorage, calls: AzureCalls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> VersionRetention:
        """Return whether versioning or soft delete keeps overwritten or deleted blobs.

        The properties of the blob service contain the soft delete policy, but no setting of versioning. So
        versioning is detected by a version in the listing.
        """
        url = f"{self._calls.service_url}?restype=service&comp=properties"
        try:
            response = self._get_properties(url)
            policy = ElementTree.fromstring(response.data).find("DeleteRetentionPolicy")
        except (StorageFailed, ElementTree.ParseError) as error:
            if not (isinstance(error, ElementTree.ParseError) or is_access_denied(error.__context__)):
                raise
            unreadable = VersionRetention(is_kept=None, how="the properties of the service cannot be read")
            return self._find_kept_versions() or unreadable

        if policy is not None and policy.findtext("Enabled") == "true":
            return VersionRetention(is_kept=True, how=f"deleted objects are kept for {policy.findtext('Days')} days")
        disabled = VersionRetention(is_kept=False, how="versioning and soft delete are disabled")
        return self._find_kept_versions() or disabled

    def _find_kept_versions(self) -> VersionRetention | None:
        """Return that the container keeps versions if the listing contains one; None otherwise."""
        if any(version.version_id or version.state is not VersionState.CURRENT for version in self.list()):
            return VersionRetention(is_kept=True, how="there are versions or deleted objects")
        return None

    @cached_property
    def _is_hierarchical(self) -> bool:
        try:
            response = self._get_properties(self._calls.url("", restype="account", comp="properties"))
        except StorageFailed:
            # If the account is hierarchical, the store will refuse the flat listing.
            return False
        return response.headers.get("x-ms-is-hns-enabled") == "true"

    def _get_properties(self, url: str) -> HttpResponse:
        """Request the properties of the account or of the blob service."""
        return self.call(lambda: self._calls.send(Request("GET", url, call=Call.HEAD), (200,)), "", "read", "")

    def list_entries(self, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the versions of all keys with a prefix. The versions of a key are adjacent, but not sorted."""
        if not self._is_hierarchical:
            yield from self.list_pages(_FLAT, prefix)
            return

        # A hierarchical account lists live and deleted blobs separately, and not in bytewise order. Two listings
        # in unknown order cannot be merged, so the deleted blobs are held in memory.
        deleted: defaultdict[str, list[ObjectVersion]] = defaultdict(list)
        for version in self.list_pages(_DELETED, prefix):
            deleted[version.path].append(version)
        for version in self.list_pages(_LIVE, prefix):
            yield version
            yield from deleted.pop(version.path, ())
        for versions in deleted.values():
            yield from versions

    def list_page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Return a page of the flat listing, of the live blobs or of the deleted blobs."""
        parameters = {"prefix": prefix, "marker": token}
        parameters["include"] = "metadata" if listing in (_LIVE, _DELETED) else listing
        if listing == _DELETED:
            parameters["showonly"] = "deleted"
        set_parameters = {name: text for name, text in parameters.items() if text}

        url = self._calls.url("", restype="container", comp="list", **set_parameters)
        response = self._calls.send(Request("GET", url, call=Call.LIST, limit=MAX_PAGE_BYTES), (200,))
        blobs, marker = parse_listing(response)
        versions = []
        for blob in blobs.iterfind("Blob"):
            if not is_directory(blob):
                entry = parse_listed_blob(blob, prefix, response)
                versions.append(_build_version(blob, entry, is_deleted=listing == _DELETED))
        return VersionPage(versions, marker)

    def sort_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Sort the versions of one key, newest first.

        Version ids and snapshot ids are timestamps. A soft-deleted blob without an id was the current blob until
        it was deleted, so it follows directly after the current blob.
        """

        def get_sort_key(version: ObjectVersion) -> tuple[bool, bool, str]:
            timestamp = version.version_id.removeprefix(SNAPSHOT)
            return version.state is VersionState.CURRENT, not timestamp, timestamp

        return sorted(versions, key=get_sort_key, reverse=True)

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        """Make a version current, by undeleting it if it is soft-deleted, or else by copying it."""
        try:
            if version.state is not VersionState.SOFT_DELETED:
                return self.copy(version, instead_of, _WRITE)
            return self._undelete(version, instead_of)
        except FileMissing:
            raise self.build_missing_error(version) from None

    def _undelete(self, version: ObjectVersion, instead_of: ObjectVersion | None) -> Creation:
        """Undelete a blob.

        An undeleted blob becomes the current blob. A soft-deleted version or snapshot becomes readable only, so it
        is copied afterwards.

        The request has no condition. So the current blob is read before the request, which finds an existing blob,
        and after it, which detects a blob that another writer created in the meantime.
        """
        key = self.get_key(version.path)
        live = self._find_live_blob(key)
        if live is not None and (instead_of is None or live.tag != instead_of.tag):
            return Existed()
        becomes_current = self._is_hierarchical or not version.version_id
        if live is not None and becomes_current:
            return Existed()

        headers = {}
        if self._is_hierarchical:
            headers["x-ms-undelete-source"] = f"{quote(key, safe='/')}?deletionid={quote(version.version_id)}"
        request = Request("PUT", f"{self._calls.object_url(key)}?comp=undelete", headers)
        try:
            self.call(lambda: self._calls.send(request, (200,)), key, "brought back", _WRITE)
        except StorageFailed as failed:
            # If the response to the first attempt was lost, the repeated request fails because the blob is not
            # deleted any more.
            http_error = failed.__context__
            may_be_repeated = isinstance(http_error, HttpError) and http_error.status in (404, 409)
            if not (becomes_current and may_be_repeated) or self._find_live_blob(key) is None:
                raise

        if not becomes_current:
            return self.copy(version, instead_of, _WRITE)
        restored = self._find_live_blob(key)
        if restored is not None and restored.blob.size_bytes == version.size_bytes:
            return Created()
        return Existed()

    def _find_live_blob(self, key: str) -> _LiveBlob | None:
        """Return the properties of the current blob; None if there is none."""
        try:
            blob, tag = self.call(lambda: self._calls.head(key), key, "read", _READ)
        except FileMissing:
            return None
        return _LiveBlob(blob, tag)


class _LiveBlob(NamedTuple):
    """The current blob of a key, with its entity tag."""

    blob: ListedObject
    tag: str


def _build_version(blob: ElementTree.Element, entry: ListedObject, *, is_deleted: bool) -> ObjectVersion:
    """Build a version from an element of a listing.

    Args:
        blob: The XML element.
        entry: The name, size and time in the element.
        is_deleted: True if the listing contains only deleted blobs.
    """
    snapshot = blob.findtext("Snapshot")
    if snapshot:
        version_id = f"{SNAPSHOT}{snapshot}"
    else:
        version_id = blob.findtext("VersionId") or blob.findtext("DeletionId") or ""

    if is_deleted or blob.findtext("Deleted") == "true":
        state = VersionState.SOFT_DELETED
    elif not version_id or blob.findtext("IsCurrentVersion") == "true":
        state = VersionState.CURRENT
    else:
        state = VersionState.NONCURRENT

    # Listings contain the entity tag without quotes, headers with them.
    tag = (blob.findtext("Properties/Etag") or "").strip('"')
    quoted_tag = f'"{tag}"' if tag else ""
    return ObjectVersion(entry.key, version_id, entry.size_bytes, entry.modified_ms, state, quoted_tag)
