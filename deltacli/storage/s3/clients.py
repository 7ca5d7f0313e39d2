"""Extensions of a client of botocore: counting of requests, and size limits for responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from deltacli.core.typing import Botocore
from deltacli.storage.tally import Call, HostTally

_AWS = re.compile(r"\.(?:amazonaws\.com(?:\.cn)?|api\.aws|c2s\.ic\.gov|sc2s\.sgov\.gov)$")
_CALLS_BY_OPERATION = {
    "ListObjectsV2": Call.LIST,
    "GetObject": Call.GET,
    "HeadObject": Call.HEAD,
    "HeadBucket": Call.HEAD,
    "DeleteObject": Call.DELETE,
    "DeleteObjects": Call.DELETE,
    "AbortMultipartUpload": Call.DELETE,
}
"""The kinds of operations for the statistics. All other operations count as PUT."""


def is_aws(client: Botocore) -> bool:
    """Return whether the endpoint belongs to AWS."""
    return bool(_AWS.search(urlsplit(str(client.meta.endpoint_url)).hostname or ""))


def count_calls(client: Botocore, tally: HostTally) -> None:
    """Count the requests of a client and the bytes of their responses."""

    def count_request(request: Botocore, event_name: str, **_: object) -> None:
        tally.count_sent(
            _CALLS_BY_OPERATION.get(event_name.rpartition(".")[2], Call.PUT),
            _parse_length(request.headers, "Content-Length"),
        )

    def count_response(response_dict: Mapping[str, Botocore] | None = None, **_: object) -> None:
        response = response_dict or {}
        # The body of an object is a stream that is read later, so count its declared length.
        body = response.get("body")
        tally.count_received(
            len(body) if isinstance(body, bytes) else _parse_length(response.get("headers", {}), "content-length")
        )

    client.meta.events.register("before-send.s3", count_request)
    client.meta.events.register("response-received.s3", count_response)


def bound_answers(client: Botocore) -> None:
    """Limit the size of all responses except objects. botocore itself reads responses of any size."""
    from deltacli.storage.s3.bounded_botocore import BoundedSession

    # botocore has no public way to replace the HTTP session of a client.
    endpoint = client._endpoint
    endpoint.http_session = BoundedSession(endpoint.http_session)


def _parse_length(headers: Mapping[str, Any], name: str) -> int:  # Any: values of headers
    value = headers.get(name, b"0")
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return int(text) if text.isascii() and text.isdecimal() else 0


def get_host(client: Botocore) -> str:
    """Return the host and port of the endpoint."""
    return urlsplit(str(client.meta.endpoint_url)).netloc.rpartition("@")[2]
