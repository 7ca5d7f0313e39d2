"""Additions to a client of botocore: counted requests, and answers of limited size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from deltacli.core.typing import Botocore
from deltacli.storage.tally import Call, HostTally

_AWS = re.compile(r"\.(?:amazonaws\.com(?:\.cn)?|api\.aws|c2s\.ic\.gov|sc2s\.sgov\.gov)$")
_CALLS = {
    "ListObjectsV2": Call.LIST,
    "GetObject": Call.GET,
    "HeadObject": Call.HEAD,
    "HeadBucket": Call.HEAD,
    "DeleteObject": Call.DELETE,
    "DeleteObjects": Call.DELETE,
    "AbortMultipartUpload": Call.DELETE,
}
"""Operations that are no PUT."""


def is_aws(client: Botocore) -> bool:
    return bool(_AWS.search(urlsplit(str(client.meta.endpoint_url)).hostname or ""))


def count_calls(client: Botocore, tally: HostTally) -> None:
    """Count each request of a client when it is sent, and the bytes of its answer."""

    def sent(request: Botocore, event_name: str, **_: object) -> None:
        tally.count_sent(
            _CALLS.get(event_name.rpartition(".")[2], Call.PUT), _length(request.headers, "Content-Length")
        )

    def received(response_dict: Mapping[str, Botocore] | None = None, **_: object) -> None:
        response = response_dict or {}
        body = response.get("body")  # of a download, it is read later
        tally.count_received(
            len(body) if isinstance(body, bytes) else _length(response.get("headers", {}), "content-length")
        )

    client.meta.events.register("before-send.s3", sent)
    client.meta.events.register("response-received.s3", received)


def bound_answers(client: Botocore) -> None:
    """Make a client read no more of an answer than one has that is no object; botocore itself reads to the end."""
    from deltacli.storage.s3.bounded_botocore import BoundedSession

    endpoint = client._endpoint  # nothing public sends its requests
    endpoint.http_session = BoundedSession(endpoint.http_session)


def _length(headers: Mapping[str, Any], name: str) -> int:  # Any: values of headers
    value = headers.get(name, b"0")
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0


def _host(client: Botocore) -> str:
    return urlsplit(str(client.meta.endpoint_url)).netloc.rpartition("@")[2]
