"""Validation of answers of S3. A proxy, a captive portal or another server may answer instead. Such an answer is an
error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from deltacli.errors import StorageFailed
from deltacli.storage.base import FileStat
from deltacli.storage.objects.http import LARGEST_UNDECLARED, read_up_to
from deltacli.storage.objects.listing import Entry, ListedPage, length_of

Fields = Mapping[str, Any]  # Any: botocore has no types

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_OF_A_LISTING = {"Contents", "CommonPrefixes", "IsTruncated", "KeyCount", "MaxKeys", "Name", "Prefix"}


def unexpected(place: str, what: str, seen: str, endpoint: str = "") -> StorageFailed:
    """Return the error for an invalid answer; `what` could not be done to `place`."""
    return StorageFailed(
        f"{place} cannot be {what}: the answer is not a valid answer of S3",
        code="storage.unexpected-answer",
        facts={"seen": seen, "expected": "S3 instead of a proxy or login page"}
        | ({"endpoint": endpoint} if endpoint else {}),
        hint="check AWS_ENDPOINT_URL and the proxy settings, or --storage-option endpoint_url=URL",
    )


def page_of(answer: Fields, place: str, prefix: str) -> ListedPage:
    """Return a page of the listing below `prefix`."""
    if not _OF_A_LISTING & answer.keys():
        raise unexpected(place, "listed", _described(answer))
    entries = [_entry(entry, place, prefix) for entry in _dictionaries(answer, "Contents", place)]
    prefixes = [_below(entry.get("Prefix"), place, prefix) for entry in _dictionaries(answer, "CommonPrefixes", place)]
    token = str(answer.get("NextContinuationToken") or "") if answer.get("IsTruncated") else ""
    if answer.get("IsTruncated") and not token:
        raise unexpected(place, "listed", "a page without the token of the next page")
    return ListedPage(entries, prefixes, token)


def stat_of(answer: Fields, place: str) -> FileStat:
    """Return the properties of an object from a HEAD answer."""
    require_object(answer, place, "read")
    size, modified = answer.get("ContentLength"), answer.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise unexpected(place, "read", _described(answer))
    return FileStat(place.rsplit("/", 1)[-1], size, _milliseconds(modified))


def require_object(answer: Fields, place: str, what: str) -> None:
    """Raise StorageFailed where an answer lacks the headers of an object."""
    if not answer.get("ETag") and not isinstance(answer.get("LastModified"), datetime):
        raise unexpected(place, what, _described(answer))


def is_stored(answer: Fields) -> bool:
    """Return True where the answer to a PUT has the tag of the object that was stored."""
    return bool(answer.get("ETag"))


def body_of(answer: Fields, place: str, span: str, endpoint: str) -> bytes:
    """Return the body of an answer with an object, or with the range that was asked for ('' for all). Raises
    StorageFailed where it is too long, or where it does not show its end.
    """
    declared = answer.get("ContentLength")
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if declared is None and "transfer-encoding" not in headers:
        answer["Body"].close()
        raise unexpected(place, "read", "an object without its length", endpoint)
    limit = declared if isinstance(declared, int) else LARGEST_UNDECLARED
    limit = length_of(span) if span and answer.get("ContentRange") else limit
    data = None if isinstance(declared, int) and declared > limit else read_up_to(limit, answer["Body"].read)
    if data is None:
        answer["Body"].close()
        raise unexpected(place, "read", f"more than {limit:,} bytes", endpoint)
    return data


def part_of(data: bytes, answer: Fields, place: str, offset: int, length: int) -> bytes:
    """Return the requested bytes; fewer only at the end of the file."""
    span = answer.get("ContentRange")
    if span is None:
        return data[offset : offset + length]  # the store ignores ranges
    start, end, size = _range(span, data, place)
    is_whole = len(data) == length or end + 1 == size
    if start != offset or len(data) > length or not is_whole:
        raise unexpected(place, "read", f"the range {str(span)[:80]} for {length} bytes from {offset}")
    return data


def size_by_tail(data: bytes, answer: Fields, place: str) -> int:
    """Return the size of a file from the answer with its end."""
    span = answer.get("ContentRange")
    if span is None:
        return len(data)  # the store ignores ranges: this is the whole file
    _, end, size = _range(span, data, place)
    if end + 1 != size:
        raise unexpected(place, "read", f"the range {str(span)[:80]} for the end of the file")
    return size


def just_below(name: str) -> str:
    """Return the closest practical name before `name`, because S3 lists names after a name, the port from a name on."""
    if not name:
        return ""
    last = ord(name[-1])
    if last == 0:
        return name[:-1]
    return name[:-1] + chr(0xD7FF if last == 0xE000 else last - 1)


def directly_below(key: str) -> str:
    """Return a key below which all keys before another one are, except for unusual ones: `p=1.5/` is before `p=1/`, so
    that `just_below` would name a key before a whole directory.
    """
    below = just_below(key)
    return f"{below}\U0010fffd" if below and len(below) == len(key) else below


def _range(span: object, data: bytes, place: str) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(str(span))
    start, end, size = (int(match[1]), int(match[2]), int(match[3])) if match else (0, -1, -1)
    if match is None or end - start + 1 != len(data) or end >= size:
        raise unexpected(place, "read", f"{len(data)} bytes as the range {str(span)[:80]}")
    return start, end, size


def _entry(fields: Fields, place: str, prefix: str) -> Entry:
    key, size, modified = _below(fields.get("Key"), place, prefix), fields.get("Size"), fields.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise unexpected(place, "listed", f"an object without its size or time: {key[:80]!r}")
    return Entry(key, size, _milliseconds(modified))


def _below(key: object, place: str, prefix: str) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise unexpected(place, "listed", f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _dictionaries(answer: Fields, name: str, place: str) -> list[Fields]:
    values = answer.get(name) or []
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise unexpected(place, "listed", f"{name} is not a list")
    return values


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _described(answer: Fields) -> str:
    """Return status and type of an answer, which distinguish a web page from S3."""
    metadata = answer.get("ResponseMetadata", {})
    headers = metadata.get("HTTPHeaders", {})
    seen = f"HTTP {metadata.get('HTTPStatusCode', 'without a status')}"
    kind = str(headers.get("content-type", ""))[:80]
    return f"{seen}, {kind}" if kind else seen
