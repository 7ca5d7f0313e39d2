"""Names of shares, schemas and tables in URLs. Spec: Names."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from deltacli.sharing.protocol.wire_errors import invalid

LONGEST_NAME = 255
_REFUSED = re.compile(r"[\x00-\x1f\x7f-\x9f/\\]")


def split_path(raw_path: bytes, prefix: str) -> list[str] | None:
    """Return the segments of a URL's path below a prefix, each decoded once; None for a URL outside the prefix.

    Slashes behind the prefix count as one, as on the reference server: profiles may end their endpoint with one.

    Raises WireError for segments that no name can have: empty ones, `.` and `..`, control characters, an encoded slash,
    bytes that are not UTF-8, more than 255 characters.
    """
    path = raw_path.split(b"?", 1)[0]
    start = prefix.rstrip("/").encode()
    if path != start and not path.startswith(start + b"/"):
        return None
    inner = path[len(start) :].lstrip(b"/").removesuffix(b"/")
    return [_decoded(segment) for segment in inner.split(b"/")] if inner else []


def _decoded(segment: bytes) -> str:
    try:
        name = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("the URL is not UTF-8") from None
    if not name or name in (".", "..") or _REFUSED.search(name):
        raise invalid("the URL has an invalid segment")
    return name


def require_name(name: str) -> str:
    """Return a name that is not longer than names can be. Raises WireError."""
    if len(name) > LONGEST_NAME:
        raise invalid(f"a name has more than {LONGEST_NAME} characters")
    return name
