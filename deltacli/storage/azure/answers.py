"""Validation of answers of Azure Blob Storage. A proxy or a captive portal may answer instead. Such an answer is an
error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import unquote
from xml.etree import ElementTree

from deltacli.storage.objects.http import Answer, Fate, HttpFault, said_of
from deltacli.storage.objects.listing import Content, Entry, ListedPage

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_NUMBER = re.compile(r"\d{1,19}")
_MESSAGE = re.compile(rb"<Message>(.*?)(?:\n|</Message>)", re.DOTALL)
_CODE = re.compile(rb"<Code>([A-Za-z]{1,80})</Code>")


def fault_of(answer: Answer) -> HttpFault:
    """Return the fault of an answer whose status is an error."""
    code, message = _CODE.search(answer.data), _MESSAGE.search(answer.data)
    name = answer.headers.get("x-ms-error-code") or (code[1].decode() if code else "")
    if not (name or "x-ms-request-id" in answer.headers or "x-ms-version" in answer.headers):
        kind = answer.headers.get("content-type", "")[:80]
        if answer.status == 404:
            # A file is missing only if the store says so, not if a proxy does not find a page.
            return HttpFault(Fate.UNEXPECTED, f"HTTP 404, {kind}")
        return HttpFault(Fate.ANSWERED, kind, status=answer.status)
    said = said_of(message[1].decode("utf-8", "replace")) if message else ""
    return HttpFault(Fate.ANSWERED, said, status=answer.status, reason=name)


def page_of(answer: Answer, prefix: str) -> ListedPage:
    """Return a page of a listing, without the directories of hierarchical namespaces."""
    blobs, marker = listing_of(answer)
    entries = [entry_of(blob, prefix, answer) for blob in blobs.iterfind("Blob") if not is_directory(blob)]
    prefixes = [_name(found, prefix, answer) for found in blobs.iterfind("BlobPrefix")]
    return ListedPage(entries, prefixes, marker)


def listing_of(answer: Answer) -> tuple[ElementTree.Element, str]:
    """Return the objects of a listing, and the marker of its next page."""
    try:
        root = ElementTree.fromstring(answer.data)
    except ElementTree.ParseError:
        raise answer.unexpected("no XML") from None
    blobs = root.find("Blobs")
    if root.tag != "EnumerationResults" or blobs is None:
        raise answer.unexpected("no listing")
    return blobs, root.findtext("NextMarker") or ""


def properties_of(answer: Answer, key: str) -> tuple[Entry, str]:
    """Return the properties of an object and its entity tag. Status 404 for a directory."""
    headers = answer.headers
    if headers.get("x-ms-resource-type") == "directory" or headers.get("x-ms-meta-hdi_isfolder") == "true":
        raise HttpFault(Fate.ANSWERED, "a directory", status=404, reason="IsDirectory")
    size, modified = headers.get("content-length", ""), _milliseconds(headers.get("last-modified", ""))
    if not headers.get("etag") or not _NUMBER.fullmatch(size) or modified is None or "x-ms-blob-type" not in headers:
        raise answer.unexpected("no properties of an object")
    return Entry(key, int(size), modified), headers["etag"]


def content_of(answer: Answer, offset: int, length: int | None) -> Content:
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


def require_stored(answer: Answer) -> None:
    """Raise HttpFault unless an answer to an upload has the tag of the object."""
    if not answer.headers.get("etag") or "x-ms-request-id" not in answer.headers:
        raise answer.unexpected("no tag of an object")


def delegation_key_of(answer: Answer) -> dict[str, str]:
    """Return the elements of a user delegation key."""
    try:
        root = ElementTree.fromstring(answer.data)
    except ElementTree.ParseError:
        raise answer.unexpected("no XML") from None
    found = {element.tag: element.text or "" for element in root}
    if root.tag != "UserDelegationKey" or not {"SignedOid", "SignedExpiry", "Value"} <= found.keys():
        raise answer.unexpected("no user delegation key")
    return found


def entry_of(blob: ElementTree.Element, prefix: str, answer: Answer) -> Entry:
    """Return name, size and time of an object of a listing."""
    key = _name(blob, prefix, answer)
    size = blob.findtext("Properties/Content-Length") or ""
    modified = _milliseconds(blob.findtext("Properties/Last-Modified") or "")
    if not _NUMBER.fullmatch(size) or modified is None:
        raise answer.unexpected(f"an object without its size or time: {key[:80]!r}")
    return Entry(key, int(size), modified)


def is_directory(blob: ElementTree.Element) -> bool:
    """Return whether an entry is a directory: of a hierarchical namespace, or a marker that other tools write."""
    kind, marker = blob.findtext("Properties/ResourceType"), blob.findtext("Metadata/hdi_isfolder")
    return kind == "directory" or marker == "true"


def _name(element: ElementTree.Element, prefix: str, answer: Answer) -> str:
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
