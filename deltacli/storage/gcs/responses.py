"""Validation of the responses of Google Cloud Storage.

Responses are validated, because a proxy or a captive portal may answer instead of the store. Its response must not
become an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from deltacli.core.typing import JsonObject
from deltacli.storage.objects.calls import (
    ListedObject,
    ObjectContent,
    decode_md5,
)
from deltacli.storage.objects.http import HttpResponse
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome, shorten_message

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_MAX_SIZE_DIGITS = 19
_BUCKET_MISSING = "bucket does not exist"
Fields = JsonObject


def read_gcs_error(response: HttpResponse) -> HttpError:
    """Return the error for a response with an error status."""
    try:
        error_field = json.loads(response.data)["error"]
        gcs_reason, message = _parse_error_field(error_field)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        gcs_reason = ""
        message = (
            _get_content_type(response) if _is_web_page(response) else response.data[:400].decode("utf-8", "replace")
        )
    reason = "bucketNotFound" if response.status == 404 and _BUCKET_MISSING in message else gcs_reason
    if response.status == 404 and _is_web_page(response):
        # Only the store can say that a file is missing. This is the 404 of a proxy.
        return HttpError(RequestOutcome.UNEXPECTED, shorten_message(f"HTTP 404, {_get_content_type(response)}"))
    return response.error(shorten_message(message), reason)


def _parse_error_field(error_field: object) -> tuple[str, str]:
    """Return the reason and the message of an error response.

    The JSON API sends an object: `{"message": "…", "errors": [{"reason": "notFound"}]}`. Token services send a text.

    Raises:
        LookupError, TypeError, AttributeError: If the object has another form.
    """
    if not isinstance(error_field, dict):
        return "", str(error_field)
    details = error_field.get("errors") or [{}]
    return str(details[0].get("reason", "")), str(error_field.get("message", ""))


def parse_gcs_properties(response: HttpResponse, key: str) -> tuple[ListedObject, str]:
    """Parse the properties of an object. Return them and the generation.

    Raises:
        HttpError: If the response has no properties of this object.
    """
    fields = response.fields()
    if fields.get("name") != key or not fields.get("generation"):
        raise response.unexpected("no properties of the object")
    return parse_listed_object(fields, key, response)._replace(md5=decode_md5(str(fields.get("md5Hash", "")))), str(
        fields["generation"]
    )


def parse_gcs_content(response: HttpResponse, span: str) -> ObjectContent:
    """Validate a response with an object or a range.

    Args:
        response: The response.
        span: The requested range in the form of the header Range; '' for the complete object.

    Raises:
        HttpError: If the response contains another range than the requested one, or if the object was compressed.
    """
    tag = response.headers.get("x-goog-generation", "")
    data = response.data
    if not tag:
        raise response.unexpected("no generation of an object")
    if response.headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        raise response.unexpected("an object that is stored compressed (Content-Encoding), which has no ranges")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise response.unexpected("an object that was compressed on its way, which was not asked for")
    if response.status == 200:
        return ObjectContent(data, 0, len(data), tag)
    match = _RANGE.fullmatch(response.headers.get("content-range", ""))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    if end - start + 1 != len(data) or end >= size or not _is_requested_range(span, start, end, size):
        raise response.unexpected(f"{len(data)} bytes as {response.headers.get('content-range', '')[:80]} for {span}")
    return ObjectContent(data, start, size, tag)


def require_stored_in_gcs(response: HttpResponse, size: int) -> None:
    """Raise HttpError if the response to an upload does not have the generation and the size of the object."""
    fields = response.fields()
    if not fields.get("generation") or str(fields.get("size")) != str(size):
        raise response.unexpected(f"no properties of an object of {size} bytes")


def parse_rewrite_token(response: HttpResponse, size: int) -> str:
    """Return the token for the next request of a copy; '' if the copy is complete.

    Raises:
        HttpError: If the response is not the response to a copy.
    """
    fields = response.fields()
    resource = fields.get("resource")
    if fields.get("kind") != "storage#rewriteResponse":
        raise response.unexpected("no answer to a copy")
    if fields.get("done") is not True:
        if not fields.get("rewriteToken"):
            raise response.unexpected("a copy that is not done, without the token of the next request")
        return str(fields["rewriteToken"])
    if not isinstance(resource, dict) or str(resource.get("size")) != str(size):
        raise response.unexpected(f"no properties of a copy of {size} bytes")
    return ""


def _is_requested_range(span: str, start: int, end: int, size: int) -> bool:
    """Return whether a range is the requested one. It may be shorter only at the end of the object.

    Args:
        span: The requested range, for example "bytes=0-99" or "bytes=-64".
        start: The offset of the first received byte.
        end: The offset of the last received byte.
        size: The size of the object.
    """
    first, _, last = span.removeprefix("bytes=").partition("-")
    if not first:
        return end + 1 == size and start == max(0, size - int(last))
    return start == int(first) and end == min(int(last), size - 1)


def parse_listed_object(item: object, prefix: str, response: HttpResponse) -> ListedObject:
    fields: Fields = item if isinstance(item, dict) else {}
    key = require_prefix(fields.get("name"), prefix, response)
    size = str(fields.get("size", ""))
    modified = parse_milliseconds(fields.get("updated"))
    if not size.isdecimal() or len(size) > _MAX_SIZE_DIGITS or modified is None:
        raise response.unexpected(f"an object without its size or time: {key[:80]!r}")
    return ListedObject(key, int(size), modified)


def require_prefix(key: object, prefix: str, response: HttpResponse) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise response.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def get_list(fields: Fields, name: str, response: HttpResponse) -> list[Any]:
    values = fields.get(name, [])
    if not isinstance(values, list):
        raise response.unexpected(f"{name} is not a list")
    return values


def parse_milliseconds(text: object) -> int | None:
    """Convert a time such as "2026-12-01T10:00:00.000Z" to epoch milliseconds. Return None if it is invalid."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    # Calculate with integers, because a rounded float could be one millisecond too small.
    return None if moment.tzinfo is None else int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _get_content_type(response: HttpResponse) -> str:
    return response.headers.get("content-type", "")[:80]


def _is_web_page(response: HttpResponse) -> bool:
    """Return whether a response is a web page. Its content type does not show it: the store itself sends text/html."""
    return b"<html" in response.data[:1000].lower() or b"<!doctype html" in response.data[:1000].lower()
