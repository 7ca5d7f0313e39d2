"""Signing requests to Azure with the key of an account. Spec: Authorize with Shared Key."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

_SIGNED = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip


def authorization(method: str, url: str, headers: Mapping[str, str], account: str, key: bytes) -> str:
    """Return the Authorization header of a request by an account key. Spec: Authorize with Shared Key."""
    headers_by_name = {name.lower(): " ".join(text.split()) for name, text in headers.items()}
    if headers_by_name.get("content-length") == "0":
        headers_by_name["content-length"] = ""
    lines = [method, *(headers_by_name.get(name, "") for name in _SIGNED)]
    lines += [f"{name}:{text}" for name, text in sorted(headers_by_name.items()) if name.startswith("x-ms-")]
    text = "\n".join(lines) + f"\n{_resource(url, account)}"
    digest = hmac.new(key, text.encode(), hashlib.sha256).digest()
    return f"SharedKey {account}:{base64.b64encode(digest).decode()}"


def _resource(url: str, account: str) -> str:
    """Return the account, the path as it is sent, and the decoded parameters by their names."""
    parts = urlsplit(url)
    parameters: dict[str, list[str]] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        parameters.setdefault(name.lower(), []).append(text)
    lines = [f"{name}:{','.join(sorted(texts))}" for name, texts in sorted(parameters.items())]
    return "\n".join([f"/{account}{parts.path or '/'}", *lines])
