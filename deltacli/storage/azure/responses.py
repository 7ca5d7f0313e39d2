"""Validation of the responses of Azure Blob Storage.

Responses are validated, because a proxy or a captive portal may answer instead of the store. Its response must not
become an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import unquote
from xml.etree import ElementTree

from deltacli.storage.objects.calls import ListedObject, ObjectContent, decode_md5
from deltacli.storage.objects.http import HttpResponse
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome, shorten_message

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_NUMBER = re.compile(r"\d{1,19}")
_MESSAGE = re.compile(rb"<Message>(.*?)(?:\n|</Message>)", re.DOTALL)
_CODE = re.compile(rb"<Code>([A-Za-z]{1,80})</Code>")


def read_azure_error(response: HttpResponse) -> HttpError:
    """Return the error for a response with an error status."""
    code = _CODE.search(response.data)
    message = _MESSAGE.search(response.data)
    name = response.headers.get("x-ms-error-code") or (code[1].decode() if code else "")
    if not (name or "x-ms-request-id" in response.headers or "x-ms-version" in response.headers):
        kind = response.headers.get("content-type", "")[:80]
        if response.status == 404:
            # Only the store can say that a file is missing. This is the 404 of a proxy.
            return HttpError(RequestOutcome.UNEXPECTED, f"HTTP 404, {kind}")
        return response.error(kind)
    text = shorten_message(message[1].decode("utf-8", "replace")) if message else ""
    return response.error(text, name)


def parse_listing(response: HttpResponse) -> tuple[ElementTree.Element, str]:
    """Parse a page of a listing. Return the XML element with the objects, and the marker of the next page."""
    try:
        root = ElementTree.fromstring(response.data)
    except ElementTree.ParseError:
        raise response.unexpected("no XML") from None
    blobs = root.find("Blobs")
    if root.tag != "EnumerationResults" or blobs is None:
        raise response.unexpected("no listing")
    return blobs, root.findtext("NextMarker") or ""


def parse_blob_properties(response: HttpResponse, key: str) -> tuple[ListedObject, str]:
    """Parse the properties in the headers of a response. Return them and the entity tag.

    Raises:
        HttpError: With status 404 if the key is a directory, or if the response has no properties.
    """
    headers = response.headers
    if headers.get("x-ms-resource-type") == "directory" or headers.get("x-ms-meta-hdi_isfolder") == "true":
        raise HttpError(RequestOutcome.ANSWERED, "a directory", status=404, reason="IsDirectory")
    size = headers.get("content-length", "")
    modified = _parse_milliseconds(headers.get("last-modified", ""))
    if not headers.get("etag") or not _NUMBER.fullmatch(size) or modified is None or "x-ms-blob-type" not in headers:
        raise response.unexpected("no properties of an object")
    archive_class = _archive_class(headers.get("x-ms-access-tier", ""))
    return ListedObject(key, int(size), modified, decode_md5(headers.get("content-md5", "")), archive_class), headers[
        "etag"
    ]


def parse_blob_content(response: HttpResponse, offset: int, length: int | None) -> ObjectContent:
    """Validate a response with an object or a range.

    Args:
        response: The response.
        offset: The offset of the requested range.
        length: The length of the requested range; None for the complete object.

    Raises:
        HttpError: If the response contains another range than the requested one.
    """
    tag = response.headers.get("etag", "")
    data = response.data
    if not tag or "x-ms-blob-type" not in response.headers:
        raise response.unexpected("no content of an object")
    if response.status == 200:
        return ObjectContent(data, 0, len(data), tag)
    match = _RANGE.fullmatch(response.headers.get("content-range", ""))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    expected_end = min(offset + (length or 0), size) - 1
    if start != offset or end != expected_end or end - start + 1 != len(data):
        seen = response.headers.get("content-range", "")[:80]
        raise response.unexpected(f"{len(data)} bytes as {seen} for {length} bytes from {offset}")
    return ObjectContent(data, start, size, tag)


def require_stored_in_azure(response: HttpResponse) -> None:
    """Raise HttpError if the response to an upload has no entity tag: Azure always sends one."""
    if not response.headers.get("etag") or "x-ms-request-id" not in response.headers:
        raise response.unexpected("no tag of an object")


def parse_listed_blob(blob: ElementTree.Element, prefix: str, response: HttpResponse) -> ListedObject:
    """Parse an object of a listing."""
    key = parse_blob_name(blob, prefix, response)
    size = blob.findtext("Properties/Content-Length") or ""
    modified = _parse_milliseconds(blob.findtext("Properties/Last-Modified") or "")
    if not _NUMBER.fullmatch(size) or modified is None:
        raise response.unexpected(f"an object without its size or time: {key[:80]!r}")
    archive_class = _archive_class(blob.findtext("Properties/AccessTier") or "")
    return ListedObject(key, int(size), modified, archive_class=archive_class)


def _archive_class(access_tier: str) -> str:
    """Return the access tier of a blob that must be rehydrated before it can be read; otherwise ''.

    A blob remains in the tier Archive until it is rehydrated.
    """
    return access_tier if access_tier == "Archive" else ""


def is_directory(blob: ElementTree.Element) -> bool:
    """Return whether an entry is a directory of a hierarchical namespace, or a directory marker of Hadoop."""
    kind = blob.findtext("Properties/ResourceType")
    marker = blob.findtext("Metadata/hdi_isfolder")
    return kind == "directory" or marker == "true"


def parse_blob_name(element: ElementTree.Element, prefix: str, response: HttpResponse) -> str:
    element_name = element.find("Name")
    name = "" if element_name is None else element_name.text or ""
    if element_name is not None and element_name.get("Encoded") == "true":
        name = unquote(name, errors="surrogateescape")
    if not name.startswith(prefix):
        raise response.unexpected(f"{name[:80]!r} in a listing of {prefix[:80]!r}")
    return name


@lru_cache(maxsize=4096)
def _parse_milliseconds(text: str) -> int | None:
    """Convert a time such as "Tue, 01 Dec 2026 10:00:00 GMT" to epoch milliseconds. Return None if it is invalid."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 1000
    except ValueError:
        return None
