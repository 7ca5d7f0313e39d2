"""Signatures of requests with the key of a storage account.

Spec: Authorize with Shared Key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

_SIGNED_HEADERS = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)
"""Standard headers in the order of the string to sign."""


def build_authorization_header(method: str, url: str, headers: Mapping[str, str], account: str, key: bytes) -> str:
    """Return the value of the header Authorization, which contains the signature of a request.

    The string to sign has one line for the method, each standard header and each `x-ms-` header, and then the
    resource. For example, for `GET https://lake.blob.core.windows.net/data?comp=list` (empty lines are shown as one):

        GET
        …
        x-ms-date:Tue, 01 Dec 2026 10:00:00 GMT
        x-ms-version:2021-12-02
        /lake/data
        comp:list

    Args:
        method: The HTTP method.
        url: The URL, percent-encoded.
        headers: All headers of the request that are signed.
        account: The name of the account.
        key: The decoded account key.
    """
    headers_by_name = {name.lower(): " ".join(text.split()) for name, text in headers.items()}
    # The service signs an empty body as a missing length.
    if headers_by_name.get("content-length") == "0":
        headers_by_name["content-length"] = ""

    lines = [method, *(headers_by_name.get(name, "") for name in _SIGNED_HEADERS)]
    lines += [f"{name}:{text}" for name, text in sorted(headers_by_name.items()) if name.startswith("x-ms-")]
    lines.append(_canonicalize_resource(url, account))
    digest = hmac.new(key, "\n".join(lines).encode(), hashlib.sha256).digest()
    return f"SharedKey {account}:{base64.b64encode(digest).decode()}"


def _canonicalize_resource(url: str, account: str) -> str:
    """Return the account and the encoded path, followed by one line for each decoded query parameter, sorted."""
    parts = urlsplit(url)
    parameters: dict[str, list[str]] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        parameters.setdefault(name.lower(), []).append(text)
    lines = [f"{name}:{','.join(sorted(texts))}" for name, texts in sorted(parameters.items())]
    return "\n".join([f"/{account}{parts.path or '/'}", *lines])
