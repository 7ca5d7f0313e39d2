"""The versions of objects in Azure: versions, snapshots and soft-deleted objects.

Accounts with hierarchical namespaces have the latter only, and nothing of what was overwritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import quote
from xml.etree import ElementTree

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.core.lock_free_property import cached_property
from deltacli.storage.azure.calls import LARGEST_PAGE, AzureCalls
from deltacli.storage.azure.responses import entry_of, is_directory, listing_of
from deltacli.storage.objects.calls import ListedObject
from deltacli.storage.objects.http import Request
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.versions import ObjectVersions, VersionPage, is_denied
from deltacli.storage.outcomes import Created, Creation, Existed
from deltacli.storage.tally import Call
from deltacli.storage.versions import ObjectVersion, VersionRetention, VersionState

SNAPSHOT = "snapshot="
"""How the id of a snapshot begins."""
_READ = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
_WRITE = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write"
_FLAT = "metadata,versions,snapshots,deleted"
_LIVE = "live"
_DELETED = "deleted"


class AzureVersions(ObjectVersions):
    """The versions of the objects of a container."""

    list_permission = _READ
    read_permission = _READ

    def __init__(self, store: ObjectStorage, calls: AzureCalls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> VersionRetention:
        url = f"{self._calls.service_url}?restype=service&comp=properties"
        try:
            response = self.ask(lambda: self._calls.send(Request("GET", url, call=Call.HEAD), (200,)), "", "read", "")
            policy = ElementTree.fromstring(response.data).find("DeleteRetentionPolicy")
        except (StorageFailed, ElementTree.ParseError) as error:
            if not (isinstance(error, ElementTree.ParseError) or is_denied(error.__context__)):
                raise
            return self._seen() or VersionRetention(is_kept=None, how="the properties of the service cannot be read")
        if policy is not None and policy.findtext("Enabled") == "true":
            return VersionRetention(is_kept=True, how=f"deleted objects are kept for {policy.findtext('Days')} days")
        return self._seen() or VersionRetention(is_kept=False, how="versioning and soft delete are disabled")

    def _seen(self) -> VersionRetention | None:
        """Return that versions are kept where one is found. Only they show whether versioning is enabled."""
        if any(version.version_id or version.state is not VersionState.CURRENT for version in self.list()):
            return VersionRetention(is_kept=True, how="there are versions or deleted objects")
        return None

    @cached_property
    def _is_hierarchical(self) -> bool:
        url = self._calls.url("", restype="account", comp="properties")
        try:
            response = self.ask(lambda: self._calls.send(Request("GET", url, call=Call.HEAD), (200,)), "", "read", "")
        except StorageFailed:
            return False  # with an hierarchical namespace, the listing of versions will be refused
        return response.headers.get("x-ms-is-hns-enabled") == "true"

    def entries(self, prefix: str) -> Iterator[ObjectVersion]:
        if not self._is_hierarchical:
            yield from self.pages(_FLAT, prefix)
            return
        deleted: defaultdict[str, list[ObjectVersion]] = defaultdict(list)  # the order of names is not that of bytes
        for version in self.pages(_DELETED, prefix):
            deleted[version.path].append(version)
        for version in self.pages(_LIVE, prefix):
            yield version
            yield from deleted.pop(version.path, ())
        for versions in deleted.values():
            yield from versions

    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        given = {"prefix": prefix, "marker": token, "include": "metadata" if listing in (_LIVE, _DELETED) else listing}
        given |= {"showonly": "deleted"} if listing == _DELETED else {}
        asked = {name: text for name, text in given.items() if text}
        url = self._calls.url("", restype="container", comp="list", **asked)
        response = self._calls.send(Request("GET", url, call=Call.LIST, limit=LARGEST_PAGE), (200,))
        blobs, marker = listing_of(response)
        versions = [
            _version(blob, entry_of(blob, prefix, response), is_deleted=listing == _DELETED)
            for blob in blobs.iterfind("Blob")
            if not is_directory(blob)
        ]
        return VersionPage(versions, marker)

    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Return the versions newest first: their ids are times. A deleted object without an id is what was current."""

        def age(version: ObjectVersion) -> tuple[bool, bool, str]:
            version_id = version.version_id.removeprefix(SNAPSHOT)
            return version.state is VersionState.CURRENT, not version_id, version_id

        return sorted(versions, key=age, reverse=True)

    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation:
        try:
            if version.state is not VersionState.SOFT_DELETED:
                return self.copy(version, instead_of, _WRITE)
            return self._undelete(version, instead_of)
        except FileMissing:
            raise self.gone(version) from None

    def _undelete(self, version: ObjectVersion, instead_of: ObjectVersion | None) -> Creation:
        """Undelete an object. It becomes current itself, unless it is a version or a snapshot, which is copied then."""
        key = self.key(version.path)
        live = self._live(key)
        if live is not None and (instead_of is None or live[1] != instead_of.tag):
            return Existed()
        is_itself = self._is_hierarchical or not version.version_id
        if live is not None and is_itself:
            return Existed()
        headers = {}
        if self._is_hierarchical:
            headers["x-ms-undelete-source"] = f"{quote(key, safe='/')}?deletionid={quote(version.version_id)}"
        request = Request("PUT", f"{self._calls.object_url(key)}?comp=undelete", headers)
        try:
            self.ask(lambda: self._calls.send(request, (200,)), key, "brought back", _WRITE)
        except StorageFailed as failed:
            error = failed.__context__
            # A repeated request finds what the first one did, whose answer was lost.
            if not (is_itself and isinstance(error, HttpError) and error.status in (404, 409)):
                raise
            if self._live(key) is None:
                raise
        if not is_itself:
            return self.copy(version, instead_of, _WRITE)
        live_after = self._live(key)
        return Created() if live_after is not None and live_after[0].size_bytes == version.size_bytes else Existed()

    def _live(self, key: str) -> tuple[ListedObject, str] | None:
        try:
            return self.ask(lambda: self._calls.head(key), key, "read", _READ)
        except FileMissing:
            return None


def _version(blob: ElementTree.Element, entry: ListedObject, *, is_deleted: bool) -> ObjectVersion:
    snapshot = blob.findtext("Snapshot")
    number = blob.findtext("VersionId") or blob.findtext("DeletionId") or ""
    if snapshot:
        number = f"{SNAPSHOT}{snapshot}"
    state = VersionState.NONCURRENT
    if is_deleted or blob.findtext("Deleted") == "true":
        state = VersionState.SOFT_DELETED
    elif not number or blob.findtext("IsCurrentVersion") == "true":
        state = VersionState.CURRENT
    tag = (blob.findtext("Properties/Etag") or "").strip('"')
    return ObjectVersion(entry.key, number, entry.size_bytes, entry.modified_ms, state, f'"{tag}"' if tag else "")
