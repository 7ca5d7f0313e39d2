"""The requests to a container of Azure Blob Storage, with its REST API.

deltacli sends the requests by itself: the SDKs that were examined repeat a conditional creation by default
(docs/decisions/0099-own-requests-for-gcs-and-azure.md).
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
    is_directory,
    parse_blob_content,
    parse_blob_name,
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
"""Size up to which an object is sent in one request."""
MAX_SINGLE_COPY_BYTES = 4_000 << 20
"""Size up to which an object is copied in one request, and size of the blocks of larger copies."""
_BLOCK_BYTES = 64 << 20
_MAX_BLOCKS = 50_000
MAX_PAGE_BYTES = 4 * MAX_LISTING_BYTES
"""Limit for a page of a listing: 5,000 objects with properties and metadata."""
_XML_HEAD = '<?xml version="1.0" encoding="utf-8"?>'
_NOT_PUBLIC_CODES = {"ResourceNotFound", "PublicAccessNotPermitted", "NoAuthenticationInformation"}
"""Error codes for anonymous requests to private data. Their statuses are 404, 409 and 401."""
_REFUSED_SIGNATURE_CODES = {"AuthenticationFailed", "InvalidAuthenticationInfo"}
"""Error codes for a shared access signature that has expired or was revoked."""
_BATCH_REFUSAL_STATUSES = {400, 404, 405, 409, 501}


class AzureCalls(HttpCalls):
    """The requests to one container. If the store refuses a token, it is renewed, once per request."""

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
        """Request a page of a listing.

        `start` is ignored. The parameter of Azure for it is new, and its effect in a hierarchical namespace is not
        documented. A wrong guess would hide commits.
        """
        del start
        parameters = {"prefix": prefix, "delimiter": delimiter, "marker": token, "maxresults": str(limit or "")}
        set_parameters = {name: text for name, text in parameters.items() if text}
        url = self.url("", restype="container", comp="list", include="metadata", **set_parameters)
        response = self.send(Request("GET", url, call=Call.LIST, limit=MAX_PAGE_BYTES), (200,))
        blobs, marker = parse_listing(response)
        entries = [
            parse_listed_blob(blob, prefix, response) for blob in blobs.iterfind("Blob") if not is_directory(blob)
        ]
        prefixes = [parse_blob_name(blob_prefix, prefix, response) for blob_prefix in blobs.iterfind("BlobPrefix")]
        return ListedPage(entries, prefixes, marker)

    def head(self, key: str) -> tuple[ListedObject, str]:
        return parse_blob_properties(self.send(Request("HEAD", self.object_url(key)), (200,)), key)

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        """Request an object or a range of it. The last bytes of an object require two requests, see `_get_end`."""
        offset = 0
        length = parse_range_length(span) if span else None
        if span:
            first_offset = span.removeprefix("bytes=").partition("-")[0]
            if not first_offset:
                return self._get_end(key, parse_range_length(span), version_id)
            offset = int(first_offset)
        headers = {"x-ms-range": span} if span else {}
        # With If-Match, Azure returns 412 if the object was replaced.
        if tag:
            headers["If-Match"] = tag
        url = self.object_url(key, version_id)
        request = Request("GET", url, headers, limit=parse_range_length(span), reads_object=True)
        response = self.send(request, (200, 206) if span else (200,))
        parse_blob_properties(response, key)
        return parse_blob_content(response, offset, length)

    def _get_end(self, key: str, length: int, version_id: str) -> ObjectContent:
        """Request the last bytes of an object. Azure does not support such ranges, so request the size first.

        The second request requires the tag of the first response, so that both refer to the same content.
        """
        request = Request("HEAD", self.object_url(key, version_id))
        entry, tag = parse_blob_properties(self.send(request, (200,)), key)
        if not entry.size_bytes:
            return ObjectContent(b"", 0, 0, tag)
        start = max(0, entry.size_bytes - length)
        return self.get(key, f"bytes={start}-{entry.size_bytes - 1}", tag, version_id)

    def write(self, key: str, body: Body, condition: str | None) -> None:
        """Write an object. A large one is sent in blocks. The request that commits the blocks carries the condition."""
        headers = _build_condition_headers(condition)
        url = self.object_url(key)
        if body.size > MAX_SINGLE_REQUEST_BYTES:
            size = max(_BLOCK_BYTES, -(-body.size // _MAX_BLOCKS))

            def write_block(start: int, block_url: str) -> None:
                part = body.slice(start, size)
                self._write_block(Request("PUT", block_url, {"Content-MD5": _encode_md5(part)}, part))

            self._write_blocks(key, range(0, body.size, size), write_block, headers)
            return
        headers |= {"x-ms-blob-type": "BlockBlob", "Content-MD5": _encode_md5(body)}
        require_stored_in_azure(self.send(Request("PUT", url, headers, body), (201,)))

    def _write_blocks(
        self, key: str, starts: Iterable[int], write: Callable[[int, str], None], condition: Mapping[str, str]
    ) -> None:
        """Upload blocks, and create the object from them.

        Uncommitted blocks belong to a key, not to a writer. So the ids are random: with equal ids, two writers would
        overwrite the blocks of each other.

        Args:
            key: The key of the object.
            starts: The offsets of the blocks.
            write: Uploads a block. Its arguments are the offset and the URL of the block.
            condition: The headers with the condition of the creation.

        Raises:
            HttpError: If a request fails. If another writer created the object, the code is BlobAlreadyExists.
        """
        upload_id = uuid4().hex
        block_ids = []
        for number, start in enumerate(starts):
            block_ids.append(base64.b64encode(f"{upload_id}-{number:06d}".encode()).decode())
            write(start, f"{self.object_url(key)}?comp=block&blockid={quote(block_ids[-1], safe='')}")
        elements = "".join(f"<Uncommitted>{block_id}</Uncommitted>" for block_id in block_ids)
        block_list = Body(f"{_XML_HEAD}<BlockList>{elements}</BlockList>".encode())
        headers = {**condition, "Content-Type": "application/xml", "Content-MD5": _encode_md5(block_list)}
        try:
            response = self.send(Request("PUT", f"{self.object_url(key)}?comp=blocklist", headers, block_list), (201,))
        except HttpError as error:
            # When a writer creates the object, Azure discards the uncommitted blocks of all other writers.
            if error.reason == "InvalidBlockList" and "If-None-Match" in condition:
                self._require_absent(key)
            raise
        require_stored_in_azure(response)

    def _write_block(self, request: Request) -> None:
        """Upload a block. Repeating the request is safe, because blocks are invisible until they are committed.

        Raises:
            HttpError: If the upload fails. The outcome is never BROKEN: without all blocks, no object is created.
        """

        def send() -> HttpResponse:
            return self.send(request, (201,))

        try:
            repeat_call(self._retry, send, host=self.endpoint)
        except HttpError as error:
            if error.outcome is RequestOutcome.ANSWERED and error.status < 500:
                raise
            raise error.as_unsent() from error

    def _require_absent(self, key: str) -> None:
        """Raise HttpError with the code BlobAlreadyExists if the object exists."""
        try:
            self.head(key)
        except HttpError as error:
            if error.status == 404:
                return
            raise
        raise HttpError(RequestOutcome.ANSWERED, "the object exists", status=409, reason="BlobAlreadyExists")

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        """Copy an object, a large one in blocks. It becomes visible when all blocks are committed."""
        headers = self.credentials.build_copy_source_headers(self.object_url(source.key, source.version_id))
        headers |= {"x-ms-source-if-match": source.tag} if source.tag else {}
        condition_headers = _build_condition_headers(condition)
        url = self.object_url(key)
        if source.size_bytes <= MAX_SINGLE_COPY_BYTES:
            headers |= {"x-ms-blob-type": "BlockBlob", **condition_headers}
            require_stored_in_azure(self.send(Request("PUT", url, headers), (201,)))
            return

        def copy_block(start: int, block_url: str) -> None:
            end = min(start + MAX_SINGLE_COPY_BYTES, source.size_bytes) - 1
            self._write_block(Request("PUT", block_url, {**headers, "x-ms-source-range": f"bytes={start}-{end}"}))

        self._write_blocks(key, range(0, source.size_bytes, MAX_SINGLE_COPY_BYTES), copy_block, condition_headers)

    def delete(self, key: str) -> None:
        response = self.send(Request("DELETE", self.object_url(key)), (200, 202))
        if response.status != 202:
            raise response.unexpected("no deletion")

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        """Delete objects with one batch. Each part has its own authorization, and a URL without the host."""
        scheme = self._transport.endpoint.partition("://")[0]
        origin_length = len(f"{scheme}://{self._transport.host}")
        parts = []
        for key in keys:
            headers = {"Content-Length": "0"}
            url, headers = self.credentials.authorize("DELETE", self.object_url(key), headers, is_batch_part=True)
            parts.append(BatchPart(url[origin_length:], headers))
        url = self.url("", restype="container", comp="batch")
        body = Body(build_batch(parts))
        request = Request("POST", url, {"Content-Type": BATCH_CONTENT_TYPE}, body, Call.DELETE, MAX_LISTING_BYTES)
        try:
            return read_batch_errors(self.send(request, (200, 202)), keys, 202, read_azure_error)
        except HttpError as error:
            if error.status in _BATCH_REFUSAL_STATUSES and error.reason not in DIALECT.container_missing_codes:
                # Some kinds of accounts and emulators do not support batches.
                self._supports_bulk_deletion = False
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
        """Return the URL of an object or of a version.

        Raises:
            HttpError: With status 404 if the key is invalid. For example, `a/../b` would be the URL of `b`.
        """
        if not self.is_valid_key(key):
            raise HttpError(RequestOutcome.ANSWERED, "no object can have this name", status=404, reason="BlobNotFound")
        # The id of a snapshot is "snapshot=TIME", the id of a version is the time only.
        parameter_name, _, timestamp = version_id.rpartition("=")
        parameters = {parameter_name or "versionid": timestamp} if version_id else {}
        return self.url(f"/{quote(key, safe='/', errors='surrogateescape')}", **parameters)

    def url(self, path: str, **query: str) -> str:
        """Return a URL within the container.

        Args:
            path: The percent-encoded path, with a slash at its start; '' for the container itself.
            query: The query parameters.
        """
        text = urlencode(query, quote_via=quote, safe="", errors="surrogateescape")
        return f"{self._transport.endpoint}/{self._container}{path}" + (f"?{text}" if text else "")

    def send(self, request: Request, statuses: tuple[int, ...]) -> HttpResponse:
        """Send a request once.

        If the store refuses the credentials, it has not executed the request. So the request is sent a second time if
        other credentials are available. This is safe for conditional requests as well.

        Args:
            request: The request, without credentials.
            statuses: The statuses of a successful response.

        Raises:
            HttpError: If the response has another status.
        """
        length = {"Content-Length": str(request.body.size)} if request.body is not None else {}
        held = self.credentials.options.held
        for is_last in (False, True):
            vended_options = held.options() if held is not None else {}
            url, headers = self.credentials.authorize(request.method, request.url, {**request.headers, **length})
            response = self._transport.send(replace(request, url=url, headers=headers))
            if is_last or response.status not in (401, 403):
                break
            if held is not None:
                if read_azure_error(response).reason not in _REFUSED_SIGNATURE_CODES or not held.replace_refused(
                    vended_options
                ):
                    break
            elif response.status == 403 or not self.credentials.renew(headers):
                break
        if response.status in statuses:
            return response
        response.require_error()
        error = read_azure_error(response)
        if self.credentials.options.anonymous and error.reason in _NOT_PUBLIC_CODES:
            error.status = 403
        if error.status in (401, 403):
            error.renewal_command = self.credentials.renewal_command
        raise error


def _build_condition_headers(condition: str | None) -> dict[str, str]:
    """Return the headers for a condition: ABSENT, the tag of the object to replace, or None."""
    if condition is None:
        return {}
    return {"If-None-Match": "*"} if condition == ABSENT else {"If-Match": condition}


def _encode_md5(body: Body) -> str:
    """Return the MD5 digest in base64, for the header Content-MD5. Azure compares it with the received bytes."""
    return base64.b64encode(body.compute_md5()).decode()
