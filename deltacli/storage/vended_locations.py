"""Parse and compare the table locations that catalogs and Delta Sharing servers return.

Vended credentials are valid for one directory. Before they are used, the location of the
credentials is compared with the location of the table (`Location.covers`). To make the comparison
safe, `parse_location` only accepts URIs that every client resolves to the same directory. It
rejects `.` and `..`, empty path segments, encoded slashes (`%2F`) and control characters:

    s3a://lake/sales/day%3D1/     Location("s3", "lake", ("sales", "day=1"))
    s3://lake/sales/../hr         ValueError
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb"), "abfss"),
    "file": "file",
}
"""Maps each URI scheme to the scheme that a `Location` uses for it."""

LONGEST_LOCATION = 4096
"""The maximum number of characters of a location. Keys of object stores have at most 1,024 bytes."""

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/]*)(?P<path>/.*)?", re.DOTALL)
_AZURE_DNS_SUFFIX = r"core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net|cloudapi\.de)"
_AUTHORITIES: Mapping[str, re.Pattern[str]] = {
    # Buckets from before 2018 may contain capitals. S3 distinguishes these from small letters.
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}"),
    "gs": re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "abfss": re.compile(
        rf"(?P<container>\$?[a-z0-9][a-z0-9-]{{1,62}})@(?P<account>[a-z0-9-]{{1,63}})"
        rf"\.(?:blob|dfs)\.(?P<suffix>{_AZURE_DNS_SUFFIX})"
    ),
    "file": re.compile("(?:localhost)?"),
}
_BACKSLASH_OR_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


class Location(NamedTuple):
    """A directory in a store. Two locations are equal if they refer to the same directory.

    Attributes:
        family: The scheme: `s3`, `gs`, `abfss` or `file`.
        authority: The bucket, or `CONTAINER@ACCOUNT.dfs.core.windows.net`; empty for `file`.
        segments: The segments of the path, percent-decoded.
    """

    family: str
    authority: str
    segments: tuple[str, ...]

    @property
    def uri(self) -> str:
        """The URI without percent-encoding and without a trailing slash. Equal locations have equal URIs."""
        return "/".join((f"{self.family}://{self.authority}", *self.segments))

    def list_uris(self, scheme: str) -> Iterator[str]:
        """Yield the URIs of the directory with another scheme of the same family, not percent-encoded.

        For Azure, these are two: with the host of the Blob endpoint and of the Data Lake endpoint.

        Args:
            scheme: A key of `FAMILIES`, such as `s3a`.
        """
        authorities = [self.authority]
        if self.family == "abfss":
            authorities.append(self.authority.replace(".dfs.", ".blob."))
        for authority in authorities:
            yield "/".join((f"{scheme}://{authority}", *self.segments))

    def covers(self, other: Location) -> bool:
        """Return whether `other` is this directory or a directory inside it.

        Whole segments are compared: `s3://lake/sales` does not cover `s3://lake/sales2`.
        """
        is_same_bucket = (self.family, self.authority) == (other.family, other.authority)
        return is_same_bucket and self.segments == other.segments[: len(self.segments)]


def parse_location(uri: str) -> Location:
    """Parse a percent-encoded URI.

    Raises:
        ValueError: If the URI is not a location in a supported store, or is ambiguous. The message
            does not contain the URI.

    Spec: PROTOCOL.md of Delta Sharing, location; RFC 3986.
    """
    if len(uri) > LONGEST_LOCATION:
        raise ValueError(f"more than {LONGEST_LOCATION:,} characters")

    match = _URI.fullmatch(uri)
    family = FAMILIES.get(match["scheme"].lower()) if match else None
    if match is None or family is None:
        scheme = uri.partition("://")[0][:20] if "://" in uri else ""
        raise ValueError(f"{scheme!r} is not the scheme of a cloud store" if scheme else "not an absolute URI")
    if "?" in uri or "#" in uri:
        raise ValueError("it has a query or a fragment")

    authority = _parse_authority(family, match["authority"])
    return Location(family, authority, _parse_path(match["path"] or ""))


def _parse_authority(family: str, authority: str) -> str:
    """Return the authority of a `Location`.

    Raises:
        ValueError: If the authority is not the name of a bucket or container.
    """
    # Only S3 distinguishes capitals.
    match = _AUTHORITIES[family].fullmatch(authority if family == "s3" else authority.lower())
    if match is None:
        raise ValueError("it does not name a bucket, or a container and an account of Azure")

    if family == "file":
        return ""
    if family == "abfss":
        # The Blob endpoint and the Data Lake endpoint of an account contain the same files.
        return f"{match['container']}@{match['account']}.dfs.{match['suffix']}"
    return match[0]


def _parse_path(encoded_path: str) -> tuple[str, ...]:
    """Return the decoded segments of a path such as `/sales/day%3D1/`.

    Raises:
        ValueError: If a client could resolve the path to another directory.
    """
    try:
        path = unquote_to_bytes(encoded_path.removesuffix("/").encode()).decode()
    except UnicodeError:
        raise ValueError("its path is not UTF-8") from None
    if _BACKSLASH_OR_CONTROL.search(path):
        raise ValueError("it has a backslash or a control character")

    segments = tuple(path.split("/")[1:])
    if not {"", ".", ".."}.isdisjoint(segments) or "%2f" in encoded_path.lower():
        raise ValueError("a segment of its path is empty, '.', '..' or has an encoded slash")
    return segments
