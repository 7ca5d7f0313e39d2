"""Batch requests of Google Cloud Storage and Azure, used for bulk deletions.

A batch is one HTTP request with a multipart body. Each part is the deletion of one object:

    --batch_deltacli
    Content-Type: application/http
    Content-ID: 0

    DELETE /storage/v1/b/bucket/o/name HTTP/1.1

    --batch_deltacli--

The response has the same format, with the status of each deletion in its part.

Spec: RFC 2046, multipart/mixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deltacli.storage.objects.http import HttpResponse
from deltacli.storage.objects.http_errors import HttpError

_BOUNDARY = "batch_deltacli"
BATCH_CONTENT_TYPE = f"multipart/mixed; boundary={_BOUNDARY}"

_RESPONSE_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_CONTENT_ID = re.compile(rb"content-id:[^\r\n]*?(\d+)>?[ \t]*\r?\n", re.IGNORECASE)
_STATUS_AND_HEADERS = re.compile(rb"HTTP/[\d.]+ (\d{3})[^\r\n]*\r?\n(.*?)\r?\n\r?\n", re.DOTALL)


class BatchPart(NamedTuple):
    """The deletion of one object.

    Attributes:
        target: The path and query of the object, percent-encoded.
        headers: The headers of the part.
    """

    target: str
    headers: Mapping[str, str] = {}


def build_batch(parts: Sequence[BatchPart]) -> bytes:
    """Return the multipart body with the deletions. `Content-ID` is the index of a part."""
    texts = []
    for number, part in enumerate(parts):
        headers = "".join(f"{name}: {text}\r\n" for name, text in part.headers.items())
        texts.append(
            f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
            f"Content-ID: {number}\r\n\r\nDELETE {part.target} HTTP/1.1\r\n{headers}\r\n"
        )
    return ("".join(texts) + f"--{_BOUNDARY}--\r\n").encode("ascii")


def read_batch_errors(
    response: HttpResponse, keys: Sequence[str], deleted: int, read_error: Callable[[HttpResponse], HttpError]
) -> dict[str, HttpError | None]:
    """Return the error of each key in a batch; None if the object is deleted.

    Keys without a part in the response are omitted.

    Args:
        response: The response to the batch.
        keys: The keys, in the order of the parts.
        deleted: The HTTP status of a successful deletion.
        read_error: Returns the error for a part with another status.

    Raises:
        HttpError: If the response is not the response to a batch.
    """
    return {
        keys[number]: None if part.status == deleted else read_error(part)
        for number, part in _read_parts(response).items()
        if number < len(keys)
    }


def _read_parts(response: HttpResponse) -> Mapping[int, HttpResponse]:
    """Return the parts of a response by the index of their deletion."""
    content_type = response.headers.get("content-type", "")
    boundary = _RESPONSE_BOUNDARY.search(content_type)
    if boundary is None or not content_type.lower().startswith("multipart/mixed"):
        raise response.unexpected("no answer of a batch")

    parts: dict[int, HttpResponse] = {}
    for part in response.data.split(b"--" + boundary[1].encode()):
        number = _CONTENT_ID.search(part)
        # Some servers omit the empty line after the headers of a part without a body.
        head = _STATUS_AND_HEADERS.search(part + b"\r\n\r\n")
        if number and head:
            parts[int(number[1])] = HttpResponse(int(head[1]), _parse_headers(head[2]), part[head.end() :].strip())
    return parts


def _parse_headers(text: bytes) -> dict[str, str]:
    headers = {}
    for line in text.decode("latin-1").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return headers
