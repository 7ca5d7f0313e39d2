"""Validation of the responses of S3 and compatible stores.

A proxy, a captive portal or another server may answer instead of the store. Its response must not become an empty
listing, a missing file or a created object.
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
_STATUS_BY_CODE = {
    "NoSuchKey": 404,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "OperationAborted": 503,
}
"""HTTP statuses for error codes in a bulk deletion, which contains codes only. They decide whether an error is
temporary. S3 answers a single request that was aborted with 409, which is not temporary in general, so 503 is used.
"""
_ARCHIVE_CLASSES = {"GLACIER", "DEEP_ARCHIVE"}
"""Storage classes whose objects must be restored before they can be read. GLACIER_IR needs no restoration."""
RESTORED_MARK = 'ongoing-request="false"'
"""Part of the header x-amz-restore if a restored copy can be read."""
_LISTING_FIELDS = {"Contents", "CommonPrefixes", "IsTruncated", "KeyCount", "MaxKeys", "Name", "Prefix"}


def build_unexpected_error(seen: str) -> HttpError:
    """Return the error for a response that does not come from S3.

    Args:
        seen: What is wrong with the response, for the error message.
    """
    return HttpError(RequestOutcome.UNEXPECTED, seen)


def parse_s3_page(response: Fields, prefix: str) -> ListedPage:
    """Parse a page of a listing.

    Raises:
        HttpError: If the response is not a listing, or if a key does not begin with the prefix.
    """
    if not _LISTING_FIELDS & response.keys():
        raise build_unexpected_error(describe_response(response))
    entries = [_parse_listed_object(entry, prefix) for entry in _get_dictionaries(response, "Contents")]
    prefixes = [_require_prefix(entry.get("Prefix"), prefix) for entry in _get_dictionaries(response, "CommonPrefixes")]
    token = str(response.get("NextContinuationToken") or "") if response.get("IsTruncated") else ""
    if response.get("IsTruncated") and not token:
        raise build_unexpected_error("a page without the token of the next page")
    return ListedPage(entries, prefixes, token)


def require_stored_in_s3(response: Fields) -> None:
    """Raise HttpError if the response to an upload has no entity tag: S3 always sends one."""
    if not response.get("ETag"):
        raise build_unexpected_error("the answer has no entity tag, so it may not come from the store")


def require_copied(response: Fields, name: str) -> str:
    """Return the entity tag of a copy. Raise HttpError if the response has none.

    Args:
        response: The response.
        name: The field with the result, for example "CopyObjectResult".
    """
    result = response.get(name)
    if not isinstance(result, dict) or not result.get("ETag"):
        raise build_unexpected_error("the answer has no entity tag of the copy, so it may not come from the store")
    return str(result["ETag"])


def read_body(response: Fields, span: str) -> bytes:
    """Read the body of a response with an object or a range.

    Args:
        response: The response.
        span: The requested range in the form of the header Range; '' for the complete object.

    Raises:
        HttpError: If the body is longer than declared or requested, or if its end cannot be recognized.
    """
    declared = response.get("ContentLength")
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if declared is None and "transfer-encoding" not in headers:
        response["Body"].close()
        raise build_unexpected_error("an object without its length")

    if span and response.get("ContentRange"):
        limit = parse_range_length(span)
    else:
        limit = declared if isinstance(declared, int) else MAX_UNSIZED_OBJECT_BYTES
    is_declared_too_long = isinstance(declared, int) and declared > limit
    data = None if is_declared_too_long else read_up_to(limit, response["Body"].read)
    if data is None:
        response["Body"].close()
        raise build_unexpected_error(f"more than {limit:,} bytes")
    return data


def parse_s3_content(response: Fields, data: bytes, span: str) -> ObjectContent:
    """Validate a response with an object or a range.

    Args:
        response: The response.
        data: Its body.
        span: The requested range in the form of the header Range; '' for the complete object.

    Returns:
        The content. It is the complete object if the store does not support ranges.

    Raises:
        HttpError: If the response contains another range than the requested one.
    """
    require_object(response)
    tag = str(response.get("ETag", ""))
    content_range = response.get("ContentRange") if span else None
    if content_range is None:
        return ObjectContent(data, 0, len(data), tag)
    match = _RANGE.fullmatch(str(content_range))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    first, _, last = span.removeprefix("bytes=").partition("-")
    if first:
        is_requested_range = start == int(first) and end == min(int(last), size - 1)
    else:
        # The last bytes of the object, for example "bytes=-64".
        is_requested_range = end + 1 == size
    if end - start + 1 != len(data) or end >= size or not is_requested_range:
        raise build_unexpected_error(f"{len(data)} bytes as the range {str(content_range)[:80]} for {span}")
    return ObjectContent(data, start, size, tag)


def read_bulk_errors(response: Fields, keys: Sequence[str]) -> dict[str, HttpError | None]:
    """Return the error of each key in the response to a bulk deletion; None if it is deleted."""
    outcomes: dict[str, HttpError | None] = {entry.get("Key"): None for entry in response.get("Deleted", [])}
    for entry in response.get("Errors", []):
        reason = str(entry.get("Code"))
        message = f"{reason}: {entry.get('Message')}"
        outcomes[entry.get("Key")] = HttpError(
            RequestOutcome.ANSWERED, message, status=_STATUS_BY_CODE.get(reason, 0), reason=reason
        )
    return {key: outcomes[key] for key in keys if key in outcomes}


def require_object(response: Fields) -> None:
    """Raise HttpError if the response does not have the headers of an object."""
    if not response.get("ETag") and not isinstance(response.get("LastModified"), datetime):
        raise build_unexpected_error(describe_response(response))


def _parse_listed_object(fields: Fields, prefix: str) -> ListedObject:
    key = _require_prefix(fields.get("Key"), prefix)
    size = fields.get("Size")
    modified = fields.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise build_unexpected_error(f"an object without its size or time: {key[:80]!r}")
    return ListedObject(key, size, milliseconds(modified), archive_class=get_archive_class(fields))


def get_archive_class(fields: Fields) -> str:
    """Return the storage class of an object that must be restored before it can be read; otherwise ''.

    A restored object keeps its storage class. Only the response for a single object says whether it is restored.
    Listings do not contain the archive tiers of INTELLIGENT_TIERING.

    Args:
        fields: An object of a listing, or the response to HeadObject.
    """
    storage_class = str(fields.get("StorageClass") or "")
    return storage_class if storage_class in _ARCHIVE_CLASSES else ""


def _require_prefix(key: object, prefix: str) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise build_unexpected_error(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _get_dictionaries(response: Fields, name: str) -> list[Fields]:
    values = response.get(name) or []
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise build_unexpected_error(f"{name} is not a list")
    return values


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def describe_response(response: Fields) -> str:
    """Return the status and the content type, which show that a response is a web page, for example."""
    metadata = response.get("ResponseMetadata", {})
    headers = metadata.get("HTTPHeaders", {})
    seen = f"HTTP {metadata.get('HTTPStatusCode', 'without a status')}"
    kind = str(headers.get("content-type", ""))[:80]
    return f"{seen}, {kind}" if kind else seen
