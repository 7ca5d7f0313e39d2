"""Validation of the answers of Google Cloud Storage.

A proxy or a captive portal may answer instead of the store. Such an answer is an error, not an
empty listing, a missing file or a created object.
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
_TOO_LONG = 19
_BUCKET_GONE = "bucket does not exist"
Fields = JsonObject


def read_gcs_error(response: HttpResponse) -> HttpError:
    """Return the error of an answer whose status is an error."""
    try:
        error_field = json.loads(response.data)["error"]
        word = (error_field.get("errors") or [{}])[0].get("reason", "") if isinstance(error_field, dict) else ""
        message = str(error_field.get("message", "")) if isinstance(error_field, dict) else str(error_field)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        word = ""
        message = _kind(response) if _is_page(response) else response.data[:400].decode("utf-8", "replace")
    reason = "bucketNotFound" if response.status == 404 and _BUCKET_GONE in message else str(word)
    if response.status == 404 and _is_page(response):
        # A file is missing only if the store says so, not if a proxy does not find a page.
        return HttpError(RequestOutcome.UNEXPECTED, shorten_message(f"HTTP 404, {_kind(response)}"))
    return response.error(shorten_message(message), reason)


def parse_gcs_properties(response: HttpResponse, key: str) -> tuple[ListedObject, str]:
    fields = response.fields()
    if fields.get("name") != key or not fields.get("generation"):
        raise response.unexpected("no properties of the object")
    return _entry(fields, key, response)._replace(md5=decode_md5(str(fields.get("md5Hash", "")))), str(
        fields["generation"]
    )


def parse_gcs_content(response: HttpResponse, span: str) -> ObjectContent:
    """Return the content of an object, or of the range that was asked for."""
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
    if end - start + 1 != len(data) or end >= size or not _answers(span, start, end, size):
        raise response.unexpected(f"{len(data)} bytes as {response.headers.get('content-range', '')[:80]} for {span}")
    return ObjectContent(data, start, size, tag)


def require_stored_in_gcs(response: HttpResponse, size: int) -> None:
    """Raise HttpError unless an answer to an upload has the generation and the size of the object."""
    fields = response.fields()
    if not fields.get("generation") or str(fields.get("size")) != str(size):
        raise response.unexpected(f"no properties of an object of {size} bytes")


def parse_rewrite_token(response: HttpResponse, size: int) -> str:
    """Return the token of the next request of a copy, '' for one that is done. Raises HttpError for another answer."""
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


def _answers(span: str, start: int, end: int, size: int) -> bool:
    """Return whether a range is the one that was asked for; shorter only at the end of the object."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    if not first:
        return end + 1 == size and start == max(0, size - int(last))
    return start == int(first) and end == min(int(last), size - 1)


def _entry(item: object, prefix: str, response: HttpResponse) -> ListedObject:
    fields: Fields = item if isinstance(item, dict) else {}
    key = _below(fields.get("name"), prefix, response)
    size = str(fields.get("size", ""))
    modified = parse_milliseconds(fields.get("updated"))
    if not size.isdecimal() or len(size) > _TOO_LONG or modified is None:
        raise response.unexpected(f"an object without its size or time: {key[:80]!r}")
    return ListedObject(key, int(size), modified)


def _below(key: object, prefix: str, response: HttpResponse) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise response.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _list(fields: Fields, name: str, response: HttpResponse) -> list[Any]:
    values = fields.get(name, [])
    if not isinstance(values, list):
        raise response.unexpected(f"{name} is not a list")
    return values


def parse_milliseconds(text: object) -> int | None:
    """Return a time of the store (RFC 3339) in milliseconds."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    # Without a float: its rounding could move a time to the millisecond before.
    return None if moment.tzinfo is None else int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _kind(response: HttpResponse) -> str:
    return response.headers.get("content-type", "")[:80]


def _is_page(response: HttpResponse) -> bool:
    """Return whether an answer is a web page. The store calls its short messages text/html as well."""
    return b"<html" in response.data[:1000].lower() or b"<!doctype html" in response.data[:1000].lower()
