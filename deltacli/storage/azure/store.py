"""Tables in Azure Blob Storage: the calls of a container by its REST API, and the versions of its objects.

Own requests instead of a library (docs/decisions/0099-own-requests-for-gcs-and-azure.md).

Answers are validated: a proxy or a captive portal may answer instead of the store. Such an answer is an error, not an
empty listing, a missing file or a created object.

Accounts with hierarchical namespaces have the latter only, and nothing of what was overwritten.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import quote, unquote, urlencode, urlsplit
from uuid import uuid4
from xml.etree import ElementTree

from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.core.lock_free_property import cached_property
from deltacli.storage.azure.credentials import (
    AzureCredentials,
    AzureOptions,
    is_of_the_cloud,
    read_address,
    read_azure_options,
)
from deltacli.storage.fsspec_storage import require_libraries
from deltacli.storage.grants import ASK_PROVIDER, HeldGrant
from deltacli.storage.objects import http
from deltacli.storage.objects.calls import ABSENT, Content, Entry, ListedPage, Source, length_of, md5_of
from deltacli.storage.objects.store import ObjectStorage, ObjectVersions, VersionPage, is_denied
from deltacli.storage.outcomes import Created, Creation, Existed
from deltacli.storage.retry import AZURE_PRICES, Call, Retry
from deltacli.storage.versions import Keeping, ObjectVersion, VersionedObjects, VersionState

DIALECT = http.Dialect(
    store="Azure Blob Storage",
    holder="container",
    holder_missing=frozenset({"ContainerNotFound", "FilesystemNotFound"}),
    exists=frozenset({"BlobAlreadyExists", "PathAlreadyExists"}),
    who="az account show",
    list_holders="az storage container list --auth-mode login --account-name ACCOUNT",
    check_endpoint="check the name of the account, the network and the proxy settings",
    condition="If-None-Match",
)
LARGEST_SINGLE = 8 << 20
"""Bytes up to which an object is sent in one request."""
LARGEST_COPY = 4_000 << 20
"""Bytes that are copied in one request."""
_BLOCK_BYTES = 64 << 20
_MOST_BLOCKS = 50_000
LARGEST_PAGE = 4 * http.LARGEST_LIST
"""Bytes of a page: of 5,000 objects with their properties and metadata."""
_XML_HEAD = '<?xml version="1.0" encoding="utf-8"?>'
_NOT_PUBLIC = {"ResourceNotFound", "PublicAccessNotPermitted", "NoAuthenticationInformation"}
"""Codes of anonymous requests, with the statuses 404, 409 and 401, to what is not public."""
_REFUSED = {"AuthenticationFailed", "InvalidAuthenticationInfo"}
"""Codes for a signature that has ended or was revoked. An answer to HEAD has them in a header."""
_NO_BATCHES = {400, 404, 405, 409, 501}
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_NUMBER = re.compile(r"\d{1,19}")
_MESSAGE = re.compile(rb"<Message>(.*?)(?:\n|</Message>)", re.DOTALL)
_CODE = re.compile(rb"<Code>([A-Za-z]{1,80})</Code>")


class AzureCalls(http.HttpCalls):
    """Calls of one container. A token that the store refuses is renewed once per request."""

    deletes_per_request = 256
    starts_anywhere = False
    dialect: http.Dialect = DIALECT
    credentials: AzureCredentials

    def __init__(self, container: str, options: AzureOptions, credentials: AzureCredentials, retry: Retry) -> None:
        super().__init__(http.Transport(options.endpoint, options.verify))
        self._container, self.credentials, self._retry = container, credentials, retry
        if options.held is not None:
            self.dialect = replace(DIALECT, who=ASK_PROVIDER, list_holders=ASK_PROVIDER)
        self._transport.tally = retry.tally.of(self.endpoint, AZURE_PRICES if self.is_known_atomic else None)

    @property
    def is_known_atomic(self) -> bool:
        return is_of_the_cloud(urlsplit(self._transport.endpoint).hostname or "")

    @property
    def service_url(self) -> str:
        return f"{self._transport.endpoint}/"

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        """Return a page. `start` is not sent: its meaning with hierarchical namespaces is not known for certain."""
        del start
        asked = {"prefix": prefix, "delimiter": delimiter, "marker": token, "maxresults": str(limit or "")}
        given = {name: text for name, text in asked.items() if text}
        url = self.url("", restype="container", comp="list", include="metadata", **given)
        answer = self.send(http.Request("GET", url, call=Call.LIST, limit=LARGEST_PAGE), (200,))
        blobs, marker = listing_of(answer)
        entries = [entry_of(blob, prefix, answer) for blob in blobs.iterfind("Blob") if not is_directory(blob)]
        prefixes = [_name(found, prefix, answer) for found in blobs.iterfind("BlobPrefix")]
        return ListedPage(entries, prefixes, marker)

    def look(self, key: str) -> tuple[Entry, str]:
        return azure_properties(self.send(http.Request("HEAD", self.object_url(key)), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> Content:
        offset, length = 0, length_of(span) if span else None
        if span:
            first = span.removeprefix("bytes=").partition("-")[0]
            if not first:
                return self._end(key, length_of(span), version_id)
            offset = int(first)
        headers = ({"x-ms-range": span} if span else {}) | ({"If-Match": tag} if tag else {})
        url = self.object_url(key, version_id)
        request = http.Request("GET", url, headers, limit=length_of(span), reads_object=True)
        answer = self.send(request, (200, 206) if span else (200,))
        azure_properties(answer, key)
        return azure_content(answer, offset, length)

    def _end(self, key: str, length: int, version_id: str) -> Content:
        """Return the end of an object. Azure has no such ranges, so the size is asked for first."""
        request = http.Request("HEAD", self.object_url(key, version_id))
        entry, tag = azure_properties(self.send(request, (200,)), key)
        if not entry.size_bytes:
            return Content(b"", 0, 0, tag)
        start = max(0, entry.size_bytes - length)
        return self.get(key, f"bytes={start}-{entry.size_bytes - 1}", tag, version_id)

    def write(self, key: str, body: http.Body, condition: str | None) -> None:
        headers = (
            {} if condition is None else {"If-None-Match": "*"} if condition == ABSENT else {"If-Match": condition}
        )
        url = self.object_url(key)
        if body.size > LARGEST_SINGLE:
            size = max(_BLOCK_BYTES, -(-body.size // _MOST_BLOCKS))

            def write_block(start: int, block_url: str) -> None:
                part = body.part(start, size)
                self._write_block(http.Request("PUT", block_url, {"Content-MD5": _digest(part)}, part))

            self._write_blocks(key, range(0, body.size, size), write_block, headers)
            return
        headers |= {"x-ms-blob-type": "BlockBlob", "Content-MD5": _digest(body)}
        require_stored_in_azure(self.send(http.Request("PUT", url, headers, body), (201,)))

    def _write_blocks(
        self, key: str, starts: Iterable[int], write: Callable[[int, str], None], condition: Mapping[str, str]
    ) -> None:
        """Send a large object in blocks. They belong to the name and not to a writer, so their ids are random."""
        upload = uuid4().hex
        names = []
        for number, start in enumerate(starts):
            names.append(base64.b64encode(f"{upload}-{number:06d}".encode()).decode())
            write(start, f"{self.object_url(key)}?comp=block&blockid={quote(names[-1], safe='')}")
        latest = "".join(f"<Uncommitted>{name}</Uncommitted>" for name in names)
        listed = http.Body(f"{_XML_HEAD}<BlockList>{latest}</BlockList>".encode())
        headers = {**condition, "Content-Type": "application/xml", "Content-MD5": _digest(listed)}
        try:
            answer = self.send(http.Request("PUT", f"{self.object_url(key)}?comp=blocklist", headers, listed), (201,))
        except http.HttpFault as fault:
            if fault.reason == "InvalidBlockList" and "If-None-Match" in condition:
                self._require_absent(key)  # another writer's creation discards the blocks of all others
            raise
        require_stored_in_azure(answer)

    def _write_block(self, request: http.Request) -> None:
        def send() -> http.Answer:
            return self.send(request, (201,))

        try:
            http.repeat_call(self._retry, send, host=self.endpoint)
        except http.HttpFault as fault:
            if fault.fate is http.Fate.ANSWERED and fault.status < 500:
                raise
            # Blocks that are not committed are no object.
            raise fault.unsent() from fault

    def _require_absent(self, key: str) -> None:
        try:
            self.look(key)
        except http.HttpFault as fault:
            if fault.status == 404:
                return
            raise
        raise http.HttpFault(http.Fate.ANSWERED, "the object exists", status=409, reason="BlobAlreadyExists")

    def copy(self, source: Source, key: str, condition: str) -> None:
        """Copy an object in one request, or a large one in blocks; its name appears with all of them."""
        headers = self.credentials.of_source(self.object_url(source.key, source.version_id))
        headers |= {"x-ms-source-if-match": source.tag} if source.tag else {}
        given = {"If-None-Match": "*"} if condition == ABSENT else {"If-Match": condition}
        url = self.object_url(key)
        if source.size_bytes <= LARGEST_COPY:
            headers |= {"x-ms-blob-type": "BlockBlob", **given}
            require_stored_in_azure(self.send(http.Request("PUT", url, headers), (201,)))
            return

        def copy_block(start: int, block_url: str) -> None:
            end = min(start + LARGEST_COPY, source.size_bytes) - 1
            self._write_block(http.Request("PUT", block_url, {**headers, "x-ms-source-range": f"bytes={start}-{end}"}))

        self._write_blocks(key, range(0, source.size_bytes, LARGEST_COPY), copy_block, given)

    def delete(self, key: str) -> None:
        answer = self.send(http.Request("DELETE", self.object_url(key)), (200, 202))
        if answer.status != 202:
            raise answer.unexpected("no deletion")

    def delete_together(self, keys: Sequence[str]) -> Mapping[str, http.HttpFault | None]:
        start = len(self._transport.endpoint.partition("://")[0]) + 3 + len(self._transport.host)
        parts = []
        for key in keys:
            headers = {"Content-Length": "0"}
            url, headers = self.credentials.authorized("DELETE", self.object_url(key), headers, is_part=True)
            parts.append(http.BatchPart(url[start:], headers))
        url = self.url("", restype="container", comp="batch")
        body = http.Body(http.batch_of(parts))
        request = http.Request(
            "POST", url, {"Content-Type": http.BATCH_CONTENT_TYPE}, body, Call.DELETE, http.LARGEST_LIST
        )
        try:
            return http.faults_of_batch(self.send(request, (200, 202)), keys, 202, azure_fault)
        except http.HttpFault as fault:
            if fault.status in _NO_BATCHES and fault.reason not in DIALECT.holder_missing:
                self._has_batches = False  # some kinds of accounts and emulators have none
            raise

    def delegation_key(self, asked: bytes) -> Mapping[str, str]:
        url = f"{self.service_url}?restype=service&comp=userdelegationkey"
        answer = self.send(http.Request("POST", url, {"Content-Type": "application/xml"}, http.Body(asked)), (200,))
        try:
            root = ElementTree.fromstring(answer.data)
        except ElementTree.ParseError:
            raise answer.unexpected("no XML") from None
        found = {element.tag: element.text or "" for element in root}
        if root.tag != "UserDelegationKey" or not {"SignedOid", "SignedExpiry", "Value"} <= found.keys():
            raise answer.unexpected("no user delegation key")
        return found

    def can_hold(self, key: str) -> bool:
        return bool(key) and not {"", ".", ".."} & set(key.split("/"))

    def object_url(self, key: str, version_id: str = "") -> str:
        """Return the URL of an object or a version. Raises HttpFault for a key that would be another address."""
        if not self.can_hold(key):
            raise http.HttpFault(http.Fate.ANSWERED, "no object can have this name", status=404, reason="BlobNotFound")
        name, _, text = version_id.rpartition("=")  # a snapshot has its name before it
        given = {name or "versionid": text} if version_id else {}
        return self.url(f"/{quote(key, safe='/', errors='surrogateescape')}", **given)

    def url(self, path: str, **query: str) -> str:
        text = urlencode(query, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}/{self._container}{path}" + (f"?{text}" if text else "")

    def send(self, request: http.Request, statuses: tuple[int, ...]) -> http.Answer:
        """Send a request once, and again with new credentials where the store refused the first ones."""
        length = {"Content-Length": str(request.body.size)} if request.body is not None else {}
        held = self.credentials.options.held
        for is_last in (False, True):
            given = held.options() if held is not None else {}
            url, headers = self.credentials.authorized(request.method, request.url, {**request.headers, **length})
            answer = self._transport.send(replace(request, url=url, headers=headers))
            if is_last or answer.status not in (401, 403):
                break
            if held is not None:
                if azure_fault(answer).reason not in _REFUSED or not held.replace_refused(given):
                    break
            elif answer.status == 403 or not self.credentials.renew(headers):
                break
        if answer.status in statuses:
            return answer
        answer.require_error()
        fault = azure_fault(answer)
        if self.credentials.options.anonymous and fault.reason in _NOT_PUBLIC:
            fault.status = 403
        if fault.status in (401, 403):
            fault.expired = self.credentials.renewal
        raise fault


def _digest(body: http.Body) -> str:
    return base64.b64encode(body.md5()).decode()


def azure_fault(answer: http.Answer) -> http.HttpFault:
    """Return the fault of an answer whose status is an error."""
    code, message = _CODE.search(answer.data), _MESSAGE.search(answer.data)
    name = answer.headers.get("x-ms-error-code") or (code[1].decode() if code else "")
    if not (name or "x-ms-request-id" in answer.headers or "x-ms-version" in answer.headers):
        kind = answer.headers.get("content-type", "")[:80]
        if answer.status == 404:
            # A file is missing only if the store says so, not if a proxy does not find a page.
            return http.HttpFault(http.Fate.UNEXPECTED, f"HTTP 404, {kind}")
        return answer.error(kind)
    said = http.said_of(message[1].decode("utf-8", "replace")) if message else ""
    return answer.error(said, name)


def listing_of(answer: http.Answer) -> tuple[ElementTree.Element, str]:
    """Return the objects of a listing, and the marker of its next page."""
    try:
        root = ElementTree.fromstring(answer.data)
    except ElementTree.ParseError:
        raise answer.unexpected("no XML") from None
    blobs = root.find("Blobs")
    if root.tag != "EnumerationResults" or blobs is None:
        raise answer.unexpected("no listing")
    return blobs, root.findtext("NextMarker") or ""


def azure_properties(answer: http.Answer, key: str) -> tuple[Entry, str]:
    """Return the properties of an object and its entity tag. Status 404 for a directory."""
    headers = answer.headers
    if headers.get("x-ms-resource-type") == "directory" or headers.get("x-ms-meta-hdi_isfolder") == "true":
        raise http.HttpFault(http.Fate.ANSWERED, "a directory", status=404, reason="IsDirectory")
    size, modified = headers.get("content-length", ""), _milliseconds(headers.get("last-modified", ""))
    if not headers.get("etag") or not _NUMBER.fullmatch(size) or modified is None or "x-ms-blob-type" not in headers:
        raise answer.unexpected("no properties of an object")
    archive_class = _archive_class(headers.get("x-ms-access-tier", ""))
    return Entry(key, int(size), modified, md5_of(headers.get("content-md5", "")), archive_class), headers["etag"]


def azure_content(answer: http.Answer, offset: int, length: int | None) -> Content:
    """Return the content of an object, or `length` bytes from an offset."""
    tag, data = answer.headers.get("etag", ""), answer.data
    if not tag or "x-ms-blob-type" not in answer.headers:
        raise answer.unexpected("no content of an object")
    if answer.status == 200:
        return Content(data, 0, len(data), tag)
    match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    wanted = min(offset + (length or 0), size) - 1
    if start != offset or end != wanted or end - start + 1 != len(data):
        seen = answer.headers.get("content-range", "")[:80]
        raise answer.unexpected(f"{len(data)} bytes as {seen} for {length} bytes from {offset}")
    return Content(data, start, size, tag)


def require_stored_in_azure(answer: http.Answer) -> None:
    """Raise HttpFault unless an answer to an upload has the tag of the object."""
    if not answer.headers.get("etag") or "x-ms-request-id" not in answer.headers:
        raise answer.unexpected("no tag of an object")


def entry_of(blob: ElementTree.Element, prefix: str, answer: http.Answer) -> Entry:
    """Return name, size and time of an object of a listing."""
    key = _name(blob, prefix, answer)
    size = blob.findtext("Properties/Content-Length") or ""
    modified = _milliseconds(blob.findtext("Properties/Last-Modified") or "")
    if not _NUMBER.fullmatch(size) or modified is None:
        raise answer.unexpected(f"an object without its size or time: {key[:80]!r}")
    archive_class = _archive_class(blob.findtext("Properties/AccessTier") or "")
    return Entry(key, int(size), modified, archive_class=archive_class)


def _archive_class(access_tier: str) -> str:
    """Return the access tier of a blob that cannot be read before it is rehydrated; '' for every other blob.

    A blob remains in this tier until it has been rehydrated, so that the tier alone decides.
    """
    return access_tier if access_tier == "Archive" else ""


def is_directory(blob: ElementTree.Element) -> bool:
    """Return whether an entry is a directory: of a hierarchical namespace, or a marker that other tools write."""
    kind, marker = blob.findtext("Properties/ResourceType"), blob.findtext("Metadata/hdi_isfolder")
    return kind == "directory" or marker == "true"


def _name(element: ElementTree.Element, prefix: str, answer: http.Answer) -> str:
    found = element.find("Name")
    name = "" if found is None else found.text or ""
    if found is not None and found.get("Encoded") == "true":
        name = unquote(name, errors="surrogateescape")
    if not name.startswith(prefix):
        raise answer.unexpected(f"{name[:80]!r} in a listing of {prefix[:80]!r}")
    return name


@lru_cache(maxsize=4096)
def _milliseconds(text: str) -> int | None:
    """Return a time of the store (RFC 1123) in milliseconds."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 1000
    except ValueError:
        return None


# -- versions of objects of Azure --------------------------------------------------------------------------------------

SNAPSHOT = "snapshot="
"""How the id of a snapshot begins."""
_READ = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/read"
_WRITE = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs/write"
_FLAT, _LIVE, _DELETED = "metadata,versions,snapshots,deleted", "live", "deleted"


class AzureVersions(ObjectVersions):
    """The versions of the objects of a container."""

    list_permission = _READ
    read_permission = _READ

    def __init__(self, store: ObjectStorage, calls: AzureCalls) -> None:
        super().__init__(store)
        self._calls = calls

    def keeping(self) -> Keeping:
        url = f"{self._calls.service_url}?restype=service&comp=properties"
        try:
            answer = self.ask(
                lambda: self._calls.send(http.Request("GET", url, call=Call.HEAD), (200,)), "", "read", ""
            )
            policy = ElementTree.fromstring(answer.data).find("DeleteRetentionPolicy")
        except (StorageFailed, ElementTree.ParseError) as failed:
            if not (isinstance(failed, ElementTree.ParseError) or is_denied(failed.__context__)):
                raise
            return self._seen() or Keeping(is_kept=None, how="the properties of the service cannot be read")
        if policy is not None and policy.findtext("Enabled") == "true":
            return Keeping(is_kept=True, how=f"deleted objects are kept for {policy.findtext('Days')} days")
        return self._seen() or Keeping(is_kept=False, how="versioning and soft delete are disabled")

    def _seen(self) -> Keeping | None:
        """Return that versions are kept where one is found. Only they show whether versioning is enabled."""
        if any(version.version_id or version.state is not VersionState.CURRENT for version in self.list()):
            return Keeping(is_kept=True, how="there are versions or deleted objects")
        return None

    @cached_property
    def _is_hierarchical(self) -> bool:
        url = self._calls.url("", restype="account", comp="properties")
        try:
            answer = self.ask(
                lambda: self._calls.send(http.Request("GET", url, call=Call.HEAD), (200,)), "", "read", ""
            )
        except StorageFailed:
            return False  # with an hierarchical namespace, the listing of versions will be refused
        return answer.headers.get("x-ms-is-hns-enabled") == "true"

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
        answer = self._calls.send(http.Request("GET", url, call=Call.LIST, limit=LARGEST_PAGE), (200,))
        blobs, marker = listing_of(answer)
        versions = [
            _version(blob, entry_of(blob, prefix, answer), is_deleted=listing == _DELETED)
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
        request = http.Request("PUT", f"{self._calls.object_url(key)}?comp=undelete", headers)
        try:
            self.ask(lambda: self._calls.send(request, (200,)), key, "brought back", _WRITE)
        except StorageFailed as failed:
            fault = failed.__context__
            # A repeated request finds what the first one did, whose answer was lost.
            if not (is_itself and isinstance(fault, http.HttpFault) and fault.status in (404, 409)):
                raise
            if self._live(key) is None:
                raise
        if not is_itself:
            return self.copy(version, instead_of, _WRITE)
        found = self._live(key)
        return Created() if found is not None and found[0].size_bytes == version.size_bytes else Existed()

    def _live(self, key: str) -> tuple[Entry, str] | None:
        try:
            return self.ask(lambda: self._calls.look(key), key, "read", _READ)
        except FileMissing:
            return None


def _version(blob: ElementTree.Element, entry: Entry, *, is_deleted: bool) -> ObjectVersion:
    snapshot, number = blob.findtext("Snapshot"), blob.findtext("VersionId") or blob.findtext("DeletionId") or ""
    if snapshot:
        number = f"{SNAPSHOT}{snapshot}"
    state = VersionState.NONCURRENT
    if is_deleted or blob.findtext("Deleted") == "true":
        state = VersionState.SOFT_DELETED
    elif not number or blob.findtext("IsCurrentVersion") == "true":
        state = VersionState.CURRENT
    tag = (blob.findtext("Properties/Etag") or "").strip('"')
    return ObjectVersion(entry.key, number, entry.size_bytes, entry.modified_ms, state, f'"{tag}"' if tag else "")


# -- tables in Azure Blob Storage --------------------------------------------------------------------------------------


def open_azure(
    uri: str, options: Mapping[str, str], *, retry: Retry | None = None, held: HeldGrant | None = None
) -> ObjectStorage:
    """Return the store of a URI of Azure, with the credentials of a grant if there is one. Raises UsageError."""
    address = read_address(uri)
    read = read_azure_options(options, address)
    if held is not None:
        read = replace(read_azure_options(options, address, {}), held=held)
    scheme = uri.partition("://")[0]
    require_libraries(scheme, "urllib3")
    place = address.uri.removesuffix(f"/{address.root}")
    credentials = AzureCredentials(read, place)
    if credentials.needs_library:
        require_libraries(scheme, "azure.identity")
    policy = retry or Retry()

    def make() -> AzureCalls:
        return AzureCalls(address.container, read, credentials, policy)

    calls = make() if held is not None else policy.shared(place, options, make)
    aliases = address.aliases(read.account, read.suffix)

    def versions(store: ObjectStorage) -> VersionedObjects:
        return AzureVersions(store, calls)

    return ObjectStorage(address.uri, address.root, calls, aliases=aliases, retry=policy, versions=versions)
