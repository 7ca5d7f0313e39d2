"""Validation of answers of Google Cloud Storage. A proxy or a captive portal may answer instead. Such an answer is an
error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from deltacli.storage.objects.http import Answer, Fate, HttpFault, said_of
from deltacli.storage.objects.listing import Content, Entry, ListedPage
from deltacli.typing import JsonObject

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_TOO_LONG = 19
_BUCKET_GONE = "bucket does not exist"

Fields = JsonObject


def fault_of(answer: Answer) -> HttpFault:
    """Return the fault of an answer whose status is an error."""
    try:
        found = json.loads(answer.data)["error"]
        word = (found.get("errors") or [{}])[0].get("reason", "") if isinstance(found, dict) else ""
        message = str(found.get("message", "")) if isinstance(found, dict) else str(found)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        word, message = "", _text(answer)
    reason = "bucketNotFound" if answer.status == 404 and _BUCKET_GONE in message else str(word)
    if answer.status == 404 and _is_page(answer):
        # A file is missing only if the store says so, not if a proxy does not find a page.
        return HttpFault(Fate.UNEXPECTED, said_of(f"HTTP 404, {_kind(answer)}"))
    return HttpFault(Fate.ANSWERED, said_of(message), status=answer.status, reason=reason)


def page_of(answer: Answer, prefix: str) -> ListedPage:
    """Return a page of a listing."""
    fields = answer.fields()
    if fields.get("kind") != "storage#objects":
        raise answer.unexpected("no listing")
    entries = [_entry(item, prefix, answer) for item in _list(fields, "items", answer)]
    prefixes = [_below(item, prefix, answer) for item in _list(fields, "prefixes", answer)]
    return ListedPage(entries, prefixes, str(fields.get("nextPageToken") or ""))


def properties_of(answer: Answer, key: str) -> tuple[Entry, str]:
    """Return the properties of an object and its generation."""
    fields = answer.fields()
    if fields.get("name") != key or not fields.get("generation"):
        raise answer.unexpected("no properties of the object")
    return _entry(fields, key, answer), str(fields["generation"])


def content_of(answer: Answer, span: str) -> Content:
    """Return the content of an object, or of the range that was asked for."""
    tag, data = answer.headers.get("x-goog-generation", ""), answer.data
    if not tag:
        raise answer.unexpected("no generation of an object")
    if answer.headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        raise answer.unexpected("an object that is stored compressed (Content-Encoding), which has no ranges")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise answer.unexpected("an object that was compressed on its way, which was not asked for")
    if answer.status == 200:
        return Content(data, 0, len(data), tag)
    match = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    if end - start + 1 != len(data) or end >= size or not _answers(span, start, end, size):
        raise answer.unexpected(f"{len(data)} bytes as {answer.headers.get('content-range', '')[:80]} for {span}")
    return Content(data, start, size, tag)


def require_stored(answer: Answer, size: int) -> None:
    """Raise HttpFault unless an answer to an upload has the generation and the size of the object."""
    fields = answer.fields()
    if not fields.get("generation") or str(fields.get("size")) != str(size):
        raise answer.unexpected(f"no properties of an object of {size} bytes")


def rewrite_token_of(answer: Answer, size: int) -> str:
    """Return the token of the next request of a copy, '' for one that is done. Raises HttpFault unless the answer has
    one of them, or the properties of a copy of this size.
    """
    fields = answer.fields()
    resource = fields.get("resource")
    if fields.get("kind") != "storage#rewriteResponse":
        raise answer.unexpected("no answer to a copy")
    if fields.get("done") is not True:
        if not fields.get("rewriteToken"):
            raise answer.unexpected("a copy that is not done, without the token of the next request")
        return str(fields["rewriteToken"])
    if not isinstance(resource, dict) or str(resource.get("size")) != str(size):
        raise answer.unexpected(f"no properties of a copy of {size} bytes")
    return ""


def _answers(span: str, start: int, end: int, size: int) -> bool:
    """Return whether a range is the one that was asked for; shorter only at the end of the object."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    if not first:
        return end + 1 == size and start == max(0, size - int(last))
    return start == int(first) and end == min(int(last), size - 1)


def _entry(item: object, prefix: str, answer: Answer) -> Entry:
    fields: Fields = item if isinstance(item, dict) else {}
    key = _below(fields.get("name"), prefix, answer)
    size, modified = str(fields.get("size", "")), milliseconds(fields.get("updated"))
    if not size.isdecimal() or len(size) > _TOO_LONG or modified is None:
        raise answer.unexpected(f"an object without its size or time: {key[:80]!r}")
    return Entry(key, int(size), modified)


def _below(key: object, prefix: str, answer: Answer) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise answer.unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _list(fields: Fields, name: str, answer: Answer) -> list[Any]:
    found = fields.get(name, [])
    if not isinstance(found, list):
        raise answer.unexpected(f"{name} is not a list")
    return found


def milliseconds(text: object) -> int | None:
    """Return a time of the store (RFC 3339) in milliseconds."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    # Without a float: its rounding could move a time to the millisecond before.
    return None if moment.tzinfo is None else int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _kind(answer: Answer) -> str:
    return answer.headers.get("content-type", "")[:80]


def _is_page(answer: Answer) -> bool:
    """Return whether an answer is a web page. The store calls its short messages text/html as well."""
    return b"<html" in answer.data[:1000].lower() or b"<!doctype html" in answer.data[:1000].lower()


def _text(answer: Answer) -> str:
    """Return a message that is not JSON, such as those of reads; of a web page only its type."""
    return _kind(answer) if _is_page(answer) else answer.data[:400].decode("utf-8", "replace")
