"""Versions of objects of Google Cloud Storage: noncurrent generations, which are copied, and soft-deleted ones, which
are restored. Either way the object gets a new generation and a new time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltacli.core.errors import FileMissing, PermissionRefused
from deltacli.core.typing import Json
from deltacli.storage.gcs.calls import GcsCalls, milliseconds, object_path
from deltacli.storage.objects.creation import create
from deltacli.storage.objects.http import LARGEST_LIST, Answer, HttpFault, Request
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.versions import ObjectVersions, VersionPage
from deltacli.storage.outcomes import Creation
from deltacli.storage.tally import Call
from deltacli.storage.versions import Keeping, ObjectVersion, VersionState

PAGE = 1_000
_VERSIONS, _SOFT_DELETED = "versions", "softDeleted"
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

    def keeping(self) -> Keeping:
        permission = "storage.buckets.get"
        request = Request("GET", self._calls.url("", fields="versioning,softDeletePolicy"), call=Call.HEAD)
        try:
            fields: dict[str, Any] = self.ask(
                lambda: self._calls.send(request, (200,)).fields(), "", "read", permission
            )
        except PermissionRefused:
            return Keeping(is_kept=None, how=f"{permission} is denied")
        seconds = str((fields.get("softDeletePolicy") or {}).get("retentionDurationSeconds", "0"))
        on = ["versioning is enabled"] if (fields.get("versioning") or {}).get("enabled") else []
        on += (
            [f"deleted objects are kept for {int(seconds) // 86_400} days"]
            if seconds.isdecimal() and int(seconds)
            else []
        )
        return Keeping(is_kept=True, how=", ".join(on)) if on else self.kept_before("versioning and soft delete")

    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        given = {listing: "true", "prefix": prefix, "pageToken": token}
        url = self._calls.url(
            "/o", maxResults=str(PAGE), fields=_FIELDS, **{name: text for name, text in given.items() if text}
        )
        try:
            answer = self._calls.send(Request("GET", url, call=Call.LIST, limit=LARGEST_LIST), (200,))
        except HttpFault as fault:
            if listing == _SOFT_DELETED and fault.status in (400, 412) and _POLICY in fault.reason.lower():
                return VersionPage([], "")  # the bucket has no soft delete
            raise
        fields: dict[str, Any] = answer.fields()
        items = fields.get("items", [])
        if fields.get("kind") != "storage#objects" or not isinstance(items, list):
            raise answer.unexpected("no listing of versions")
        versions = [_version(item, prefix, answer, is_soft=listing == _SOFT_DELETED) for item in items]
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
        key = self.key(version.path)
        live = instead_of.version_id if instead_of is not None else "0"
        url = self._calls.url(
            f"{object_path(key)}/restore", generation=version.version_id, ifGenerationMatch=live, fields="name,size"
        )

        def send() -> None:
            answer = self._calls.send(Request("POST", url), (200,))
            if str(answer.fields().get("size")) != str(version.size_bytes):
                raise answer.unexpected(f"no properties of an object of {version.size_bytes} bytes")

        place = f"{self._store.uri}/{version.path}"
        return self.permitted(
            lambda: create(self._calls, self._store.retry, send, place, "brought back"),
            "storage.objects.restore, storage.objects.create",
        )


def _version(item: Json, prefix: str, answer: Answer, *, is_soft: bool) -> ObjectVersion:
    fields = item if isinstance(item, dict) else {}
    key, size, generation = fields.get("name"), str(fields.get("size", "")), str(fields.get("generation", ""))
    modified = milliseconds(fields.get("updated"))
    if not isinstance(key, str) or not key.startswith(prefix):
        raise answer.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    if not size.isdecimal() or not generation.isdecimal() or modified is None:
        raise answer.unexpected(f"a version without its size, generation or time: {key[:80]!r}")
    state = VersionState.NONCURRENT if fields.get("timeDeleted") else VersionState.CURRENT
    state = VersionState.SOFT_DELETED if is_soft else state
    return ObjectVersion(key, generation, int(size), modified, state, generation)
