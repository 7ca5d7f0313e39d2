"""Validation of the answers of S3 and compatible stores.

A proxy, a captive portal or another server may answer instead of the store. Such an answer is an
error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from deltacli.core.typing import Botocore
from deltacli.storage.objects.bounded_reading import MAX_UNSIZED_OBJECT_BYTES, read_up_to
from deltacli.storage.objects.calls import (
    ListedObject,
    ListedPage,
    ObjectContent,
    parse_range_length,
)
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome

Fields = Mapping[str, Botocore]
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_STATUSES = {
    "NoSuchKey": 404,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "OperationAborted": 503,
}
"""Statuses for the codes of a bulk deletion, which has none. A single request is answered
OperationAborted with 409, a status that is not temporary in general.
"""
_ARCHIVE_CLASSES = {"GLACIER", "DEEP_ARCHIVE"}
"""Classes whose objects are restored before they can be read. GLACIER_IR is read at once, as STANDARD_IA is."""
_RESTORED = 'ongoing-request="false"'
"""In the header x-amz-restore of an object whose restored copy can be read."""
_OF_A_LISTING = {"Contents", "CommonPrefixes", "IsTruncated", "KeyCount", "MaxKeys", "Name", "Prefix"}


def build_unexpected_error(seen: str) -> HttpError:
    """Return the error of an answer that S3 does not give."""
    return HttpError(RequestOutcome.UNEXPECTED, seen)


def parse_s3_page(response: Fields, prefix: str) -> ListedPage:
    """Return a page of the listing below `prefix`."""
    if not _OF_A_LISTING & response.keys():
        raise build_unexpected_error(_described(response))
    entries = [_entry(entry, prefix) for entry in _dictionaries(response, "Contents")]
    prefixes = [_below(entry.get("Prefix"), prefix) for entry in _dictionaries(response, "CommonPrefixes")]
    token = str(response.get("NextContinuationToken") or "") if response.get("IsTruncated") else ""
    if response.get("IsTruncated") and not token:
        raise build_unexpected_error("a page without the token of the next page")
    return ListedPage(entries, prefixes, token)


def require_stored_in_s3(response: Fields) -> None:
    """Raise HttpError unless the answer to a PUT has the tag of the object that was stored."""
    if not response.get("ETag"):
        raise build_unexpected_error("the answer has no entity tag, so it may not come from the store")


def require_copied(response: Fields, name: str) -> str:
    """Return the tag of what was copied. Raises HttpError for an answer without one."""
    result = response.get(name)
    if not isinstance(result, dict) or not result.get("ETag"):
        raise build_unexpected_error("the answer has no entity tag of the copy, so it may not come from the store")
    return str(result["ETag"])


def read_body(response: Fields, span: str) -> bytes:
    """Return the body of an object or of a range ('' for all). Raises HttpError where it is too long or cut off."""
    declared = response.get("ContentLength")
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if declared is None and "transfer-encoding" not in headers:
        response["Body"].close()
        raise build_unexpected_error("an object without its length")
    limit = declared if isinstance(declared, int) else MAX_UNSIZED_OBJECT_BYTES
    limit = parse_range_length(span) if span and response.get("ContentRange") else limit
    data = None if isinstance(declared, int) and declared > limit else read_up_to(limit, response["Body"].read)
    if data is None:
        response["Body"].close()
        raise build_unexpected_error(f"more than {limit:,} bytes")
    return data


def parse_s3_content(response: Fields, data: bytes, span: str) -> ObjectContent:
    """Return the content of an object, or of the range that was asked for; all of it where the store ignores ranges."""
    _require_object(response)
    tag = str(response.get("ETag", ""))
    shown = response.get("ContentRange") if span else None
    if shown is None:
        return ObjectContent(data, 0, len(data), tag)
    match = _RANGE.fullmatch(str(shown))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    first, _, last = span.removeprefix("bytes=").partition("-")
    is_asked = start == int(first) and end == min(int(last), size - 1) if first else end + 1 == size
    if end - start + 1 != len(data) or end >= size or not is_asked:
        raise build_unexpected_error(f"{len(data)} bytes as the range {str(shown)[:80]} for {span}")
    return ObjectContent(data, start, size, tag)


def read_bulk_errors(response: Fields, keys: Sequence[str]) -> dict[str, HttpError | None]:
    """Return what a bulk deletion reports of these keys."""
    outcomes: dict[str, HttpError | None] = {entry.get("Key"): None for entry in response.get("Deleted", [])}
    for entry in response.get("Errors", []):
        reason = str(entry.get("Code"))
        message = f"{reason}: {entry.get('Message')}"
        outcomes[entry.get("Key")] = HttpError(
            RequestOutcome.ANSWERED, message, status=_STATUSES.get(reason, 0), reason=reason
        )
    return {key: outcomes[key] for key in keys if key in outcomes}


def _require_object(response: Fields) -> None:
    """Raise HttpError where an answer lacks the headers of an object."""
    if not response.get("ETag") and not isinstance(response.get("LastModified"), datetime):
        raise build_unexpected_error(_described(response))


def _entry(fields: Fields, prefix: str) -> ListedObject:
    key = _below(fields.get("Key"), prefix)
    size = fields.get("Size")
    modified = fields.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise build_unexpected_error(f"an object without its size or time: {key[:80]!r}")
    return ListedObject(key, size, milliseconds(modified), archive_class=get_archive_class(fields))


def get_archive_class(fields: Fields) -> str:
    """Return the class of an object that S3 cannot read before it is restored; '' for every other object.

    An object keeps its class while a restored copy of it can be read. A listing has only the class;
    the answer for a single object also says whether it is restored. Archive tiers of
    INTELLIGENT_TIERING are in no listing.

    Args:
        fields: An object of a listing, or the answer to HeadObject.
    """
    storage_class = str(fields.get("StorageClass") or "")
    return storage_class if storage_class in _ARCHIVE_CLASSES else ""


def _below(key: object, prefix: str) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise build_unexpected_error(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _dictionaries(response: Fields, name: str) -> list[Fields]:
    values = response.get(name) or []
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise build_unexpected_error(f"{name} is not a list")
    return values


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _described(response: Fields) -> str:
    """Return status and type of an answer, which distinguish a web page from S3."""
    metadata = response.get("ResponseMetadata", {})
    headers = metadata.get("HTTPHeaders", {})
    seen = f"HTTP {metadata.get('HTTPStatusCode', 'without a status')}"
    kind = str(headers.get("content-type", ""))[:80]
    return f"{seen}, {kind}" if kind else seen
