"""Locations of tables as catalogs and servers state them: URIs that are read strictly, and compared as values.

Credentials for one directory must not be used for another. A location is therefore refused unless
it has one meaning only: decoded once, without `.`, `..`, empty segments or encoded slashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

_URI = r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?"
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb"), "abfss"),
    "file": "file",
}
_CLOUDS = r"core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)"
_AUTHORITIES: Mapping[str, str] = {
    "s3": r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}",  # old buckets have capitals, which are other letters to S3
    "gs": r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]",
    "abfss": rf"(\$?[a-z0-9][a-z0-9-]{{1,62}})@([a-z0-9-]{{1,63}})\.(?:blob|dfs)\.({_CLOUDS})",
    "file": "(?:localhost)?",
}
_CONTROL = r"[\x00-\x1f\x7f\\]"
LONGEST_LOCATION = 4096
"""Characters of a location; keys of stores have at most 1,024 bytes."""


class Location(NamedTuple):
    """A directory of a store. `family`: `s3`, `gs`, `abfss` or `file`; `segments` are decoded."""

    family: str
    authority: str
    segments: tuple[str, ...]

    @property
    def uri(self) -> str:
        """The URI that a store is opened at: one spelling per directory, not encoded."""
        return "/".join((f"{self.family}://{self.authority}", *self.segments))

    def spelled(self, scheme: str) -> Iterator[str]:
        """Yield the URI, not encoded, with another scheme of its family; of Azure with each kind of host."""
        host = self.authority
        kinds = (host, host.replace(".dfs.", ".blob.")) if self.family == "abfss" else (host,)
        for authority in kinds:
            yield "/".join((f"{scheme}://{authority}", *self.segments))

    def covers(self, other: Location) -> bool:
        """Return True where another directory is this one or below it, by whole segments."""
        return self[:2] == other[:2] and self.segments == other.segments[: len(self.segments)]


def parse_location(uri: str) -> Location:
    """Return a URI as values, decoded once. Raises ValueError, which says what is wrong without the URI.

    Spec: PROTOCOL.md of Delta Sharing, location; RFC 3986.
    """
    if len(uri) > LONGEST_LOCATION:
        raise ValueError(f"more than {LONGEST_LOCATION:,} characters")
    match = re.fullmatch(_URI, uri, re.DOTALL)
    family = FAMILIES.get(match[1].lower()) if match else None
    if match is None or family is None:
        scheme = uri.partition("://")[0][:20] if "://" in uri else ""
        raise ValueError(f"{scheme!r} is not the scheme of a cloud store" if scheme else "not an absolute URI")
    if re.search("[?#]", uri):
        raise ValueError("it has a query or a fragment")
    authority = re.fullmatch(_AUTHORITIES[family], match[2] if family == "s3" else match[2].lower())
    if authority is None:
        raise ValueError("it does not name a bucket, or a container and an account of Azure")
    name = authority[0] if family != "abfss" else f"{authority[1]}@{authority[2]}.dfs.{authority[3]}"
    try:
        path = unquote_to_bytes((match[3] or "").removesuffix("/").encode()).decode()
    except UnicodeError:
        raise ValueError("its path is not UTF-8") from None
    segments = tuple(path.split("/")[1:])
    if re.search(_CONTROL, path):
        raise ValueError("it has a backslash or a control character")
    if set(segments) & {"", ".", ".."} or re.search("%2f", match[3] or "", re.IGNORECASE):
        raise ValueError("a segment of its path is empty, '.', '..' or has an encoded slash")
    return Location(family, "" if family == "file" else name, segments)
