"""A path of the log: decoding, normal form, and the file that it leads to.

    path in the log          decode           canonical          below the root (`locate`)
    a%20b.parquet            a b.parquet      a b.parquet        a b.parquet
    a+b.parquet              a+b.parquet      a+b.parquet        a+b.parquet
    ./d//a.parquet           ./d//a.parquet   d/a.parquet        d/a.parquet
    file:///t/a.parquet      (as it is)       /t/a.parquet       a.parquet, in the table at file:///t
    s3a://b/t/a.parquet      (as it is)       s3://b/t/a.parquet a.parquet, in the table at s3://b/t
    ../u/a.parquet           (as it is)       ../u/a.parquet     none

deltacli compares the results of `canonicalize_path`. It leaves a relative and an absolute path of one file different,
as the reference implementation does; `locate` and `resolve_file_names` do not.

Functions named `…_column` do the same for Arrow columns. Their results are binary, because a decoded path may be any
bytes; as text such bytes are surrogates (`decode_path_bytes`, `encode_path_bytes`).

Spec: Add File and Remove File (RFC 2396).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote, unquote_to_bytes

from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY

ABSOLUTE_PATTERN = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"
IS_ABSOLUTE = re.compile(ABSOLUTE_PATTERN)
"""Matches absolute paths: those that begin with `/`, or with a scheme and a slash. Without the slash, a colon is part
of a name, as in a directory of times, although some engines take what is before it for a scheme."""

_UNESCAPED = "/=-._~"
"""The characters besides ASCII letters and digits that deltacli leaves as they are in paths that it writes."""
_NOT_UTF_8 = re.compile(r"[\udc80-\udcff]+")
"""Bytes of a name that are not UTF-8, as `decode` represents them. A log, which is UTF-8, has escapes for them."""
ODD_PATTERN = r"^[A-Za-z][A-Za-z0-9+.-]*:|//|(^|/)[.][.]?(/|$)"
"""A scheme, an empty segment or a dot segment: the paths that have more than one spelling."""
_ODD = re.compile(ODD_PATTERN.replace("$", r"\Z"))  # Arrow's `$` is Python's `\Z`
DOT_PATTERN = r"(^|/)[.][.]?(/|$)"
_DOT_SEGMENT = re.compile(DOT_PATTERN.replace("$", r"\Z"))
_FILE_SCHEME = r"(?i)file:(?://(?:localhost)?(?=/))?"
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):(//?[^/]*)?"
_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Scheme of Hadoop -> the scheme of the same store that `canonicalize_path` uses."""


def decode(path: str) -> str:
    """Percent-decode exactly once. `+` and malformed escapes stay; bytes that are not UTF-8 become surrogates."""
    if "%" not in path:
        return path
    return unquote_to_bytes(path.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")


def encode(name: str) -> str:
    """Return the path with which deltacli writes a file into a log.

    Args:
        name: The path of the file below the root, as in a listing.
    """
    return quote(name, safe=_UNESCAPED, errors="surrogateescape")


def encode_percent_signs(name: str) -> str:
    """Return a path of the log that means a name, or a URI, as it stands: only its percent signs are escaped."""
    return name.replace("%", "%25")


def encode_least(name: str) -> str:
    """Return a path of the log that means a name, with as few escapes as possible. It never looks absolute.

    Args:
        name: The path of a file below the root, which does not begin with a slash.
    """
    encoded = encode_percent_signs(name)
    if not encoded.isascii():
        encoded = _NOT_UTF_8.sub(lambda match: encode(match[0]), encoded)
    return encoded.replace(":", "%3A", 1) if IS_ABSOLUTE.match(encoded) else encoded


def schemes_of_store(scheme: str) -> Sequence[str]:
    """Return the schemes that name the same store as a scheme, itself included: `s3`, `s3a` and `s3n`."""
    name = scheme.lower()
    common = _ALIASES.get(name, name)
    return (common, *(alias for alias, of_store in _ALIASES.items() if of_store == common))


def encode_path_bytes(name: str) -> bytes:
    """Return the name of a file in a listing as a key."""
    return name.encode("utf-8", "surrogateescape")


def canonicalize_path(path: str) -> str:
    """Return the spelling by which replay compares paths.

    It is decoded once, without `file:`, with lower-case schemes without Hadoop's aliases, and without `.` and empty
    segments. A relative and an absolute spelling of one file remain different, as in the reference implementation.
    """
    if "/." not in path and ":" not in path and "//" not in path and not path.startswith("."):
        return decode(path)  # nearly every path
    if not _ODD.search(path):
        return decode(path)
    scheme, rest = "", path
    if re.match(_FILE_SCHEME, path):
        rest = re.sub(r"^/+", "/", re.sub(_FILE_SCHEME, "", path, count=1))
    elif (match := re.match(_SCHEME, path)) and match[2]:
        name = match[1].lower()
        scheme, rest = f"{_ALIASES.get(name, name)}:{match[2]}", path[match.end() :]
    is_plain = "//" not in rest and "./" not in rest and not rest.endswith("/.")
    return scheme + decode(rest if is_plain else resolve_dots(rest))


def canonical_all(paths: Sequence[str]) -> Sequence[str]:
    """Return `canonicalize_path` of each path, with one check of all of them together if none is unusual."""
    together = "\n".join(("", *paths))
    if "%" in together or ":" in together or "//" in together or "/." in together or "\n." in together:
        return [canonicalize_path(path) for path in paths]
    return paths


def resolve_dots(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return ("/" if path.startswith("/") else "") + "/".join(kept)


def without_dots(path: str) -> str:
    """Remove the `.` segments and `x/..` pairs of a decoded path, also those with `%2E`. A leading `..` is kept."""
    return resolve_dots(path) if _DOT_SEGMENT.search(path) else path


def leaves_directory(name: str) -> bool:
    """Return whether a decoded path leads out of the directory that it begins in, by `..`."""
    return climbs(name_below(name))


def name_below(path: str) -> str:
    """Return a decoded relative path as the name of a file below a directory, without inner dot segments.

    A slash at the beginning was escaped in the log. It is an empty segment, which stores skip.
    """
    return without_dots(path.lstrip("/"))


def climbs(name: str) -> bool:
    """Return the same for a path without inner dot segments."""
    return name == ".." or name.startswith("../")


def sidecar_location(action: Mapping[str, object]) -> str:
    """Return the location of a sidecar that a checkpoint names, which is always in `_delta_log/_sidecars`.

    Only the last segment of the path is used. Spec: Sidecar File Information.
    """
    name = unquote(str(action.get("path"))).rstrip("/").rsplit("/", 1)[-1]
    return f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}/{name}"


def decode_hive(name: bytes) -> bytes:
    """Return a part of a partition directory's name without the escapes of Hive, which the directory itself has."""
    return unquote_to_bytes(name)


def decode_hive_text(text: str) -> str:
    """Return the same for text. Bytes that are not UTF-8 become U+FFFD, so that they are no value of a column."""
    return unquote(text)


def decode_path_bytes(key: bytes) -> str:
    """Return a key as the name of a file in a listing: the reverse of `encode_path_bytes`."""
    return key.decode("utf-8", "surrogateescape")


def encoded_root(uri: str) -> str:
    """Return the URI of a table as the beginning of paths in a log, which are percent-encoded. That of a local
    directory is already; a name of an object store is plain.
    """
    scheme, _, rest = uri.partition("://")
    return (uri if scheme == "file" else f"{scheme}://{quote(rest, safe='/@:!$&()*+,;=~')}").rstrip("/") + "/"


def canonicalize_root(uri: str) -> str:
    """Return the place of a table, without a slash at its end, as `canonicalize_path` spells the absolute paths in it.

    Args:
        uri: The URI of the table's root, as its store has it.
    """
    return canonicalize_path(encode_uri(uri)).rstrip("/")


def encode_uri(uri: str) -> str:
    """Return the URI of a directory as an absolute path of a log, which is percent-encoded.

    Args:
        uri: As a store has it. That of a local directory is encoded, the names of objects are plain.
    """
    return uri if uri[:5].lower() == "file:" else encode_percent_signs(uri)


def possible_roots(text: str) -> frozenset[str]:
    """Return all results that `canonicalize_root` may have for the ways to write the URI of a table."""
    return frozenset(place.rstrip("/") for place in possible_places(text))


def spellings_of_root(uri: str) -> Sequence[bytes]:
    """Return how absolute paths into a table may begin where paths are not encoded, as in an inventory of files.

    Args:
        uri: The URI of the table's root, or the path of a local directory.
    """
    scheme, separator, rest = uri.partition("://")
    if separator and scheme.lower() != "file":
        return [encode_path_bytes(f"{name}://{rest.rstrip('/')}/") for name in schemes_of_store(scheme)]
    path = unquote_to_bytes(rest) if separator else encode_path_bytes(uri)
    root = b"/" + path.strip(b"/")
    return [start + root.rstrip(b"/") + b"/" for start in (b"", b"file:", b"file://", b"file://localhost")]


def possible_places(uri: str) -> Sequence[str]:
    """Return both places that a URI may mean that was not written by a store: one if it has no percent sign.

    Only the store can decide whether a `%` is an escape or a literal character.
    """
    return tuple(dict.fromkeys((canonicalize_path(uri), canonicalize_path(encode_percent_signs(uri)))))


def name_below_roots(key: bytes, roots: tuple[bytes, ...]) -> bytes | None:
    return next((key[len(root) :] for root in roots if key.startswith(root)), None)


def spell_from_elsewhere(key: str, uri: str) -> str | None:
    """Return the absolute path of a file in the table for its relative one, and the reverse.

    Args:
        key: A path in the spelling of `canonicalize_path`.
        uri: The URI of the table's root.

    Returns:
        The other path, in the spelling of `canonicalize_path`. None for an absolute path outside of the table.
    """
    root = f"{canonicalize_root(uri)}/"
    if key.startswith(root):
        return key.removeprefix(root)
    return None if IS_ABSOLUTE.match(key) else f"{root}{key}"
