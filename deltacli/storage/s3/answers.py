"""Validation of answers of S3. A proxy, a captive portal or another server may answer instead. Such an answer is an
error, not an empty listing, a missing file or a created object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from deltacli.storage.objects.http import LARGEST_UNDECLARED, Fate, HttpFault, read_up_to
from deltacli.storage.objects.listing import Content, Entry, ListedPage, length_of
from deltacli.typing import Botocore

Fields = Mapping[str, Botocore]

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
_STATUSES = {
    "NoSuchKey": 404,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "OperationAborted": 503,
}
"""Statuses for the codes of a bulk deletion, which has none. A single request is answered OperationAborted with 409, a
status that is not temporary in general.
"""
_OF_A_LISTING = {"Contents", "CommonPrefixes", "IsTruncated", "KeyCount", "MaxKeys", "Name", "Prefix"}


def unexpected(seen: str) -> HttpFault:
    """Return the fault of an answer that S3 does not give."""
    return HttpFault(Fate.UNEXPECTED, seen)


def page_of(answer: Fields, prefix: str) -> ListedPage:
    """Return a page of the listing below `prefix`."""
    if not _OF_A_LISTING & answer.keys():
        raise unexpected(_described(answer))
    entries = [_entry(entry, prefix) for entry in _dictionaries(answer, "Contents")]
    prefixes = [_below(entry.get("Prefix"), prefix) for entry in _dictionaries(answer, "CommonPrefixes")]
    token = str(answer.get("NextContinuationToken") or "") if answer.get("IsTruncated") else ""
    if answer.get("IsTruncated") and not token:
        raise unexpected("a page without the token of the next page")
    return ListedPage(entries, prefixes, token)


def properties_of(answer: Fields, key: str) -> tuple[Entry, str]:
    """Return the properties of an object from a HEAD answer, and its tag."""
    _require_object(answer)
    size, modified = answer.get("ContentLength"), answer.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise unexpected(_described(answer))
    return Entry(key, size, milliseconds(modified)), str(answer.get("ETag", ""))


def require_stored(answer: Fields) -> None:
    """Raise HttpFault unless the answer to a PUT has the tag of the object that was stored."""
    if not answer.get("ETag"):
        raise unexpected("the answer has no entity tag, so it may not come from the store")


def require_copied(answer: Fields, name: str) -> str:
    """Return the tag of what was copied. Raises HttpFault for an answer without one."""
    result = answer.get(name)
    if not isinstance(result, dict) or not result.get("ETag"):
        raise unexpected("the answer has no entity tag of the copy, so it may not come from the store")
    return str(result["ETag"])


def body_of(answer: Fields, span: str) -> bytes:
    """Return the body of an answer with an object, or with the range that was asked for ('' for all). Raises HttpFault
    where it is too long, or where it does not show its end.
    """
    declared = answer.get("ContentLength")
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if declared is None and "transfer-encoding" not in headers:
        answer["Body"].close()
        raise unexpected("an object without its length")
    limit = declared if isinstance(declared, int) else LARGEST_UNDECLARED
    limit = length_of(span) if span and answer.get("ContentRange") else limit
    data = None if isinstance(declared, int) and declared > limit else read_up_to(limit, answer["Body"].read)
    if data is None:
        answer["Body"].close()
        raise unexpected(f"more than {limit:,} bytes")
    return data


def content_of(answer: Fields, data: bytes, span: str) -> Content:
    """Return the content of an object, or of the range that was asked for; all of it where the store ignores ranges."""
    _require_object(answer)
    tag, shown = str(answer.get("ETag", "")), answer.get("ContentRange") if span else None
    if shown is None:
        return Content(data, 0, len(data), tag)
    match = _RANGE.fullmatch(str(shown))
    start, end, size = (int(part) for part in match.groups()) if match else (0, -1, -1)
    first, _, last = span.removeprefix("bytes=").partition("-")
    is_asked = start == int(first) and end == min(int(last), size - 1) if first else end + 1 == size
    if end - start + 1 != len(data) or end >= size or not is_asked:
        raise unexpected(f"{len(data)} bytes as the range {str(shown)[:80]} for {span}")
    return Content(data, start, size, tag)


def faults_of(answer: Fields, keys: Sequence[str]) -> dict[str, HttpFault | None]:
    """Return what a bulk deletion reports of these keys."""
    found: dict[str, HttpFault | None] = {entry.get("Key"): None for entry in answer.get("Deleted", [])}
    for entry in answer.get("Errors", []):
        reason = str(entry.get("Code"))
        said = f"{reason}: {entry.get('Message')}"
        found[entry.get("Key")] = HttpFault(Fate.ANSWERED, said, status=_STATUSES.get(reason, 0), reason=reason)
    return {key: found[key] for key in keys if key in found}


def just_below(key: str) -> str:
    """Return a key closely before another one, because S3 lists the keys after a key, the port those from one on. The
    keys between them are unusual ones; `p=1.5/`, which is before `p=1/`, is before both.
    """
    if not key:
        return ""
    last = ord(key[-1])
    if last == 0:
        return key[:-1]
    return f"{key[:-1]}{chr(0xD7FF if last == 0xE000 else last - 1)}~"


def _require_object(answer: Fields) -> None:
    """Raise HttpFault where an answer lacks the headers of an object."""
    if not answer.get("ETag") and not isinstance(answer.get("LastModified"), datetime):
        raise unexpected(_described(answer))


def _entry(fields: Fields, prefix: str) -> Entry:
    key, size, modified = _below(fields.get("Key"), prefix), fields.get("Size"), fields.get("LastModified")
    if not isinstance(size, int) or size < 0 or not isinstance(modified, datetime):
        raise unexpected(f"an object without its size or time: {key[:80]!r}")
    return Entry(key, size, milliseconds(modified))


def _below(key: object, prefix: str) -> str:
    if not isinstance(key, str) or not key.startswith(prefix):
        raise unexpected(f"{str(key)[:80]!r} in a listing of {prefix[:80]!r}")
    return key


def _dictionaries(answer: Fields, name: str) -> list[Fields]:
    values = answer.get(name) or []
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise unexpected(f"{name} is not a list")
    return values


def milliseconds(moment: datetime) -> int:
    """Return a time of the store in milliseconds."""
    return int(moment.timestamp() * 1000)


def _described(answer: Fields) -> str:
    """Return status and type of an answer, which distinguish a web page from S3."""
    metadata = answer.get("ResponseMetadata", {})
    headers = metadata.get("HTTPHeaders", {})
    seen = f"HTTP {metadata.get('HTTPStatusCode', 'without a status')}"
    kind = str(headers.get("content-type", ""))[:80]
    return f"{seen}, {kind}" if kind else seen
