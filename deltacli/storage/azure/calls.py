"""The calls of a container of Azure Blob Storage, by its REST API.

The requests are our own instead of a library's (docs/decisions/0099-own-requests-for-gcs-and-azure.md).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4
from xml.etree import ElementTree

from deltacli.storage.azure.addresses import is_azure_host
from deltacli.storage.azure.credentials import AzureCredentials
from deltacli.storage.azure.options import AzureOptions
from deltacli.storage.azure.responses import (
    _name,
    is_directory,
    parse_blob_content,
    parse_blob_properties,
    parse_listed_blob,
    parse_listing,
    read_azure_error,
    require_stored_in_azure,
)
from deltacli.storage.grants import ASK_PROVIDER
from deltacli.storage.objects.batches import BATCH_CONTENT_TYPE, BatchPart, build_batch, read_batch_errors
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.bounded_reading import MAX_LISTING_BYTES
from deltacli.storage.objects.calls import (
    ABSENT,
    CopySource,
    ListedObject,
    ListedPage,
    ObjectContent,
    parse_range_length,
)
from deltacli.storage.objects.dialect import Dialect
from deltacli.storage.objects.http import HttpResponse, Request, Transport
from deltacli.storage.objects.http_calls import HttpCalls, repeat_call
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.retry import Retry
from deltacli.storage.tally import AZURE_PRICES, Call

DIALECT = Dialect(
    store="Azure Blob Storage",
    container_noun="container",
    container_missing_codes=frozenset({"ContainerNotFound", "FilesystemNotFound"}),
    exists_codes=frozenset({"BlobAlreadyExists", "PathAlreadyExists"}),
    identity_command="az account show",
    list_command="az storage container list --auth-mode login --account-name ACCOUNT",
    endpoint_check="check the name of the account, the network and the proxy settings",
    create_condition="If-None-Match",
)
MAX_SINGLE_REQUEST_BYTES = 8 << 20
"""Bytes up to which an object is sent in one request."""
MAX_SINGLE_COPY_BYTES = 4_000 << 20
"""Bytes that are copied in one request."""
_BLOCK_BYTES = 64 << 20
_MOST_BLOCKS = 50_000
MAX_PAGE_BYTES = 4 * MAX_LISTING_BYTES
"""Bytes of a page: of 5,000 objects with their properties and metadata."""
_XML_HEAD = '<?xml version="1.0" encoding="utf-8"?>'
_NOT_PUBLIC = {"ResourceNotFound", "PublicAccessNotPermitted", "NoAuthenticationInformation"}
"""Codes of anonymous requests, with the statuses 404, 409 and 401, to what is not public."""
_REFUSED = {"AuthenticationFailed", "InvalidAuthenticationInfo"}
"""Codes for a signature that has ended or was revoked. An answer to HEAD has them in a header."""
_NO_BATCHES = {400, 404, 405, 409, 501}


class AzureCalls(HttpCalls):
    """Calls of one container. A token that the store refuses is renewed once per request."""

    max_bulk_deletes = 256
    can_start_anywhere = False
    dialect: Dialect = DIALECT
    credentials: AzureCredentials

    def __init__(self, container: str, options: AzureOptions, credentials: AzureCredentials, retry: Retry) -> None:
        super().__init__(Transport(options.endpoint, options.verify))
        self._container = container
        self.credentials = credentials
        self._retry = retry
        if options.held is not None:
            self.dialect = replace(DIALECT, identity_command=ASK_PROVIDER, list_command=ASK_PROVIDER)
        self._transport.tally = retry.tally.get_host(self.endpoint, AZURE_PRICES if self.is_known_atomic else None)

    @property
    def is_known_atomic(self) -> bool:
        return is_azure_host(urlsplit(self._transport.endpoint).hostname or "")

    @property
    def service_url(self) -> str:
        return f"{self._transport.endpoint}/"

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        """Return a page. `start` is not sent: its meaning with hierarchical namespaces is not known for certain."""
        del start
        parameters = {"prefix": prefix, "delimiter": delimiter, "marker": token, "maxresults": str(limit or "")}
        set_parameters = {name: text for name, text in parameters.items() if text}
        url = self.url("", restype="container", comp="list", include="metadata", **set_parameters)
        response = self.send(Request("GET", url, call=Call.LIST, limit=MAX_PAGE_BYTES), (200,))
        blobs, marker = parse_listing(response)
        entries = [
            parse_listed_blob(blob, prefix, response) for blob in blobs.iterfind("Blob") if not is_directory(blob)
        ]
        prefixes = [_name(blob_prefix, prefix, response) for blob_prefix in blobs.iterfind("BlobPrefix")]
        return ListedPage(entries, prefixes, marker)

    def head(self, key: str) -> tuple[ListedObject, str]:
        return parse_blob_properties(self.send(Request("HEAD", self.object_url(key)), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        """Return an object or a range of it. The end of an object takes two requests."""
        offset = 0
        length = parse_range_length(span) if span else None
        if span:
            first = span.removeprefix("bytes=").partition("-")[0]
            if not first:
                return self._end(key, parse_range_length(span), version_id)
            offset = int(first)
        headers = {"x-ms-range": span} if span else {}
        if tag:
            headers["If-Match"] = tag
        url = self.object_url(key, version_id)
        request = Request("GET", url, headers, limit=parse_range_length(span), reads_object=True)
        response = self.send(request, (200, 206) if span else (200,))
        parse_blob_properties(response, key)
        return parse_blob_content(response, offset, length)

    def _end(self, key: str, length: int, version_id: str) -> ObjectContent:
        """Return the end of an object. Azure has no such ranges, so the size is asked for first."""
        request = Request("HEAD", self.object_url(key, version_id))
        entry, tag = parse_blob_properties(self.send(request, (200,)), key)
        if not entry.size_bytes:
            return ObjectContent(b"", 0, 0, tag)
        start = max(0, entry.size_bytes - length)
        return self.get(key, f"bytes={start}-{entry.size_bytes - 1}", tag, version_id)

    def write(self, key: str, body: Body, condition: str | None) -> None:
        """Write an object: a small one in one request, a large one in blocks, whose list is the conditional request."""
        headers = _condition_headers(condition)
        url = self.object_url(key)
        if body.size > MAX_SINGLE_REQUEST_BYTES:
            size = max(_BLOCK_BYTES, -(-body.size // _MOST_BLOCKS))

            def write_block(start: int, block_url: str) -> None:
                part = body.slice(start, size)
                self._write_block(Request("PUT", block_url, {"Content-MD5": _digest(part)}, part))

            self._write_blocks(key, range(0, body.size, size), write_block, headers)
            return
        headers |= {"x-ms-blob-type": "BlockBlob", "Content-MD5": _digest(body)}
        require_stored_in_azure(self.send(Request("PUT", url, headers, body), (201,)))

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
        listed = Body(f"{_XML_HEAD}<BlockList>{latest}</BlockList>".encode())
        headers = {**condition, "Content-Type": "application/xml", "Content-MD5": _digest(listed)}
        try:
            response = self.send(Request("PUT", f"{self.object_url(key)}?comp=blocklist", headers, listed), (201,))
        except HttpError as error:
            if error.reason == "InvalidBlockList" and "If-None-Match" in condition:
                self._require_absent(key)  # another writer's creation discards the blocks of all others
            raise
        require_stored_in_azure(response)

    def _write_block(self, request: Request) -> None:
        def send() -> HttpResponse:
            return self.send(request, (201,))

        try:
            repeat_call(self._retry, send, host=self.endpoint)
        except HttpError as error:
            if error.outcome is RequestOutcome.ANSWERED and error.status < 500:
                raise
            # Blocks that are not committed are no object.
            raise error.as_unsent() from error

    def _require_absent(self, key: str) -> None:
        try:
            self.head(key)
        except HttpError as error:
            if error.status == 404:
                return
            raise
        raise HttpError(RequestOutcome.ANSWERED, "the object exists", status=409, reason="BlobAlreadyExists")

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        """Copy an object in one request, or a large one in blocks; its name appears with all of them."""
        headers = self.credentials.build_copy_source_headers(self.object_url(source.key, source.version_id))
        headers |= {"x-ms-source-if-match": source.tag} if source.tag else {}
        given = {"If-None-Match": "*"} if condition == ABSENT else {"If-Match": condition}
        url = self.object_url(key)
        if source.size_bytes <= MAX_SINGLE_COPY_BYTES:
            headers |= {"x-ms-blob-type": "BlockBlob", **given}
            require_stored_in_azure(self.send(Request("PUT", url, headers), (201,)))
            return

        def copy_block(start: int, block_url: str) -> None:
            end = min(start + MAX_SINGLE_COPY_BYTES, source.size_bytes) - 1
            self._write_block(Request("PUT", block_url, {**headers, "x-ms-source-range": f"bytes={start}-{end}"}))

        self._write_blocks(key, range(0, source.size_bytes, MAX_SINGLE_COPY_BYTES), copy_block, given)

    def delete(self, key: str) -> None:
        response = self.send(Request("DELETE", self.object_url(key)), (200, 202))
        if response.status != 202:
            raise response.unexpected("no deletion")

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        """Delete objects by one batch. Each part is authorized by itself, and names its path without the host."""
        start = len(self._transport.endpoint.partition("://")[0]) + 3 + len(self._transport.host)
        parts = []
        for key in keys:
            headers = {"Content-Length": "0"}
            url, headers = self.credentials.authorize("DELETE", self.object_url(key), headers, is_batch_part=True)
            parts.append(BatchPart(url[start:], headers))
        url = self.url("", restype="container", comp="batch")
        body = Body(build_batch(parts))
        request = Request("POST", url, {"Content-Type": BATCH_CONTENT_TYPE}, body, Call.DELETE, MAX_LISTING_BYTES)
        try:
            return read_batch_errors(self.send(request, (200, 202)), keys, 202, read_azure_error)
        except HttpError as error:
            if error.status in _NO_BATCHES and error.reason not in DIALECT.container_missing_codes:
                self._supports_bulk_deletion = False  # some kinds of accounts and emulators have none
            raise

    def request_delegation_key(self, key_info: bytes) -> Mapping[str, str]:
        """Request a user delegation key.

        Args:
            key_info: The body of the request: an XML document with the validity.

        Returns:
            The texts of the XML elements of the key, by their names.

        Raises:
            HttpError: If the request fails, or if the response is not a key.
        """
        url = f"{self.service_url}?restype=service&comp=userdelegationkey"
        response = self.send(Request("POST", url, {"Content-Type": "application/xml"}, Body(key_info)), (200,))
        try:
            root = ElementTree.fromstring(response.data)
        except ElementTree.ParseError:
            raise response.unexpected("no XML") from None
        elements = {element.tag: element.text or "" for element in root}
        if root.tag != "UserDelegationKey" or not {"SignedOid", "SignedExpiry", "Value"} <= elements.keys():
            raise response.unexpected("no user delegation key")
        return elements

    def is_valid_key(self, key: str) -> bool:
        return bool(key) and not {"", ".", ".."} & set(key.split("/"))

    def object_url(self, key: str, version_id: str = "") -> str:
        """Return the URL of an object or a version. Raises HttpError for a key that would be another address."""
        if not self.is_valid_key(key):
            raise HttpError(RequestOutcome.ANSWERED, "no object can have this name", status=404, reason="BlobNotFound")
        name, _, text = version_id.rpartition("=")  # a snapshot has its name before it
        given = {name or "versionid": text} if version_id else {}
        return self.url(f"/{quote(key, safe='/', errors='surrogateescape')}", **given)

    def url(self, path: str, **query: str) -> str:
        text = urlencode(query, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}/{self._container}{path}" + (f"?{text}" if text else "")

    def send(self, request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        """Send a request once, and again with new credentials where the store refused the first ones."""
        length = {"Content-Length": str(request.body.size)} if request.body is not None else {}
        held = self.credentials.options.held
        for is_last in (False, True):
            given = held.options() if held is not None else {}
            url, headers = self.credentials.authorize(request.method, request.url, {**request.headers, **length})
            response = self._transport.send(replace(request, url=url, headers=headers))
            if is_last or response.status not in (401, 403):
                break
            if held is not None:
                if read_azure_error(response).reason not in _REFUSED or not held.replace_refused(given):
                    break
            elif response.status == 403 or not self.credentials.renew(headers):
                break
        if response.status in statuses:
            return response
        response.require_error()
        error = read_azure_error(response)
        if self.credentials.options.anonymous and error.reason in _NOT_PUBLIC:
            error.status = 403
        if error.status in (401, 403):
            error.renewal_command = self.credentials.renewal_command
        raise error


def _condition_headers(condition: str | None) -> dict[str, str]:
    """Return the headers for a condition of `ObjectCalls.write`."""
    if condition is None:
        return {}
    return {"If-None-Match": "*"} if condition == ABSENT else {"If-Match": condition}


def _digest(body: Body) -> str:
    return base64.b64encode(body.compute_md5()).decode()
