"""A path of the log: decoding, normal form, and the file that it leads to.

    path in the log          decode           canonical          below the root (`locate`)
    a%20b.parquet            a b.parquet      a b.parquet        a b.parquet
    a+b.parquet              a+b.parquet      a+b.parquet        a+b.parquet
    ./d//a.parquet           ./d//a.parquet   d/a.parquet        d/a.parquet
    file:///t/a.parquet      (as it is)       /t/a.parquet       a.parquet, in the table at file:///t
    s3a://b/t/a.parquet      (as it is)       s3://b/t/a.parquet a.parquet, in the table at s3://b/t
    ../u/a.parquet           (as it is)       ../u/a.parquet     none

`canonical` is what deltacli compares. It leaves a relative and an absolute path of one file different, as the reference
implementation does; `locate` and `name_files` do not.

Functions named `…_column` do the same for Arrow columns. Their results are binary, because a decoded path may be any
bytes; as text such bytes are surrogates (`key_text`, `key_bytes`).

Spec: Add File and Remove File (RFC 2396).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote, unquote, unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.segment import LOG_DIRECTORY, SIDECAR_DIRECTORY

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"
IS_ABSOLUTE = re.compile(_ABSOLUTE)
"""Matches absolute paths: those that begin with `/`, or with a scheme and a slash. Without the slash, a colon is part
of a name, as in a directory of times, although some engines take what is before it for a scheme."""
STRAY_PERCENT = r"%([^0-9A-Fa-f]|[0-9A-Fa-f]([^0-9A-Fa-f]|$)|$)"
"""Matches a percent sign that begins no escape; in the dialect of Arrow."""

_NOT_IN_TABLE = r"^(\.\.(/|$)|_delta_log(/|$)|$)"
_UNESCAPED = "/=-._~"
"""The characters besides ASCII letters and digits that deltacli leaves as they are in paths that it writes."""
_NOT_UTF_8 = re.compile(r"[\udc80-\udcff]+")
"""Bytes of a name that are not UTF-8, as `decode` represents them. A log, which is UTF-8, has escapes for them."""
_ESCAPE = rb"%[0-9A-Fa-f]{2}"
_ODD_PATTERN = r"^[A-Za-z][A-Za-z0-9+.-]*:|//|(^|/)[.][.]?(/|$)"
"""A scheme, an empty segment or a dot segment: the paths that have more than one spelling."""
_ODD = re.compile(_ODD_PATTERN.replace("$", r"\Z"))  # Arrow's `$` is Python's `\Z`
_DOT_PATTERN = r"(^|/)[.][.]?(/|$)"
_DOT_SEGMENT = re.compile(_DOT_PATTERN.replace("$", r"\Z"))
_ODD_SEGMENT = rb"/[/.]"
"""The start of an empty segment, or of a dot segment that is not the first; faster to find than two substrings."""
_ODD_MARKS = (b"%", b":", b"//", b"/.")
"""One of them is in each path that is not the name of its file, unless that begins with `.` or `/`."""
_CHECKED_AT_ONCE = 65_536
"""Rows whose bytes are copied to be searched."""
_FILE_SCHEME = r"(?i)file:(?://(?:localhost)?(?=/))?"
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):(//?[^/]*)?"
_ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Scheme of Hadoop -> the scheme of the same store that `canonical` uses."""


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


def key_bytes(name: str) -> bytes:
    """Return the name of a file in a listing as a key."""
    return name.encode("utf-8", "surrogateescape")


def canonical(path: str) -> str:
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
    return scheme + decode(rest if is_plain else _resolved(rest))


def canonical_all(paths: Sequence[str]) -> Sequence[str]:
    """Return `canonical` of each path, with one check of all of them together if none is unusual."""
    together = "\n".join(("", *paths))
    if "%" in together or ":" in together or "//" in together or "/." in together or "\n." in together:
        return [canonical(path) for path in paths]
    return paths


def _resolved(path: str) -> str:
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return ("/" if path.startswith("/") else "") + "/".join(kept)


def without_dots(path: str) -> str:
    """Remove the `.` segments and `x/..` pairs of a decoded path, also those with `%2E`. A leading `..` is kept."""
    return _resolved(path) if _DOT_SEGMENT.search(path) else path


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


def key_text(key: bytes) -> str:
    """Return a key as the name of a file in a listing: the reverse of `key_bytes`."""
    return key.decode("utf-8", "surrogateescape")


def are_absolute(paths: pa.Array) -> pa.Array:
    """Return which paths have a scheme or begin with `/`."""
    if not pc.any(pc.starts_with(paths, "/")).as_py() and not _may_have_scheme(paths):
        return pa.repeat(pa.scalar(False), len(paths))
    return pc.match_substring_regex(paths, _ABSOLUTE)


def _may_have_scheme(paths: ArrowArray) -> bool:
    data = paths.buffers()[2]
    return data is not None and b":" in data.to_pybytes()


def decode_column(paths: pa.Array) -> pa.Array:
    """`decode` for a column: string array in, binary array out.

    One vectorised pass per escape that occurs, `%25` last, so that nothing is decoded twice. That holds only where
    every `%` begins an escape; the rare rows where one does not are taken one by one.
    """
    column = pc.cast(paths, pa.binary())
    content = content_of(column)
    if b"%" not in content:
        return column
    malformed = pc.match_substring_regex(paths, STRAY_PERCENT)
    decoded = column
    for escape in sorted(set(re.findall(_ESCAPE, content)), key=lambda found: found == b"%25"):
        decoded = pc.replace_substring(decoded, escape, bytes([int(escape[1:], 16)]))
    return _replace_rows(decoded, paths, malformed, decode)


def encode_percent_signs_column(paths: ArrowArray) -> ArrowArray:
    """`encode_percent_signs` for a column: string array in, string array out."""
    return pc.replace_substring(paths, "%", "%25")


def canonical_column(paths: pa.Array) -> pa.Array:
    """Return `canonical` for a column: string array in, binary array out.

    Plain relative paths, the usual case, need one check of the bytes. Only rows with a scheme, a dot segment or a
    double slash are processed one by one.
    """
    parts = [paths.slice(begin, _CHECKED_AT_ONCE) for begin in range(0, len(paths), _CHECKED_AT_ONCE)]
    odd = pc.match_substring_regex(paths, _ODD_PATTERN) if any(map(_may_be_odd, parts)) else None
    is_plain = not any(b"%" in content_of(part) for part in parts)
    column = pc.cast(paths, pa.binary()) if is_plain else decode_column(paths)
    return column if odd is None else _replace_rows(column, paths, odd, canonical)


def _may_be_odd(paths: pa.Array) -> bool:
    content = content_of(paths)
    has_odd = b":" in content or re.search(_ODD_SEGMENT, content) is not None
    return has_odd or bool(pc.any(pc.starts_with(paths, ".")).as_py())


def may_have_spellings(paths: ArrowArray) -> bool:
    """Return False if every path is certainly the name of its file, as almost all are. This is a look at the bytes."""
    data = paths.buffers()[2]
    text = b"" if data is None else data.to_pybytes()
    if any(mark in text for mark in _ODD_MARKS):
        return True
    return bool(pc.any(pc.match_substring_regex(paths, "^[./]")).as_py())


def without_dots_column(paths: pa.Array) -> pa.Array:
    """`without_dots` for a column: binary array in, binary array out."""
    content = content_of(paths)
    if b"/." not in content and not pc.any(pc.starts_with(paths, ".")).as_py():
        return paths
    rows = pc.fill_null(pc.match_substring_regex(paths, _DOT_PATTERN), False)
    if not pc.any(rows).as_py():
        return paths
    spelled = [key_bytes(_resolved(key_text(path))) for path in pc.filter(paths, rows).to_pylist()]
    return pc.replace_with_mask(paths, rows, pa.array(spelled, pa.binary()))


def _replace_rows(column: pa.Array, paths: pa.Array, rows: pa.Array, spell: Callable[[str], str]) -> pa.Array:
    """Replace the marked rows by the result of `spell` for each distinct path."""
    if not pc.any(rows).as_py():
        return column
    distinct = pc.dictionary_encode(pc.filter(paths, rows))
    spelled = [key_bytes(spell(path)) for path in distinct.dictionary.to_pylist()]
    return pc.replace_with_mask(column, rows, pc.take(pa.array(spelled, pa.binary()), distinct.indices))


def content_of(paths: pa.BinaryArray) -> bytes:
    """Return the bytes of all paths, one after the other. A byte that does not occur in them is in no path."""
    data = paths.buffers()[2]
    if data is None or not len(paths):
        return b""
    offsets = memoryview(paths.buffers()[1]).cast("i")
    return bytes(memoryview(data)[offsets[paths.offset] : offsets[paths.offset + len(paths)]])


_LONGEST_BINARY_VALUE = 2**31 - 1
"""Bytes: the most that one value of an Arrow column with 32-bit offsets can have."""


def drop_first_bytes(values: ArrowArray, count: int) -> ArrowArray:
    """Return binary values without their first `count` bytes. A shorter value becomes empty.

    The slice has an end although it means "up to the end": without one, pyarrow 26.0.1 multiplies its default end by
    the number of values, which overflows, and fails with "Negative buffer resize" for every even number of values.
    """
    return pc.binary_slice(values, count, _LONGEST_BINARY_VALUE)


def encoded_root(uri: str) -> str:
    """Return the URI of a table as the beginning of paths in a log, which are percent-encoded. That of a local
    directory is already; a name of an object store is plain.
    """
    scheme, _, rest = uri.partition("://")
    return (uri if scheme == "file" else f"{scheme}://{quote(rest, safe='/@:!$&()*+,;=~')}").rstrip("/") + "/"


def made_absolute(paths: ArrowArray, root: str) -> ArrowArray:
    """Return paths of the log of a table, which do not depend on where that log is. `root`: `encoded_root` of it."""
    return pc.if_else(are_absolute(paths), paths, pc.binary_join_element_wise(root, paths, ""))


def root_of(uri: str) -> str:
    """Return the place of a table, without a slash at its end, as `canonical` spells the absolute paths in it.

    Args:
        uri: The URI of the table's root, as its store has it.
    """
    return canonical(encode_uri(uri)).rstrip("/")


def encode_uri(uri: str) -> str:
    """Return the URI of a directory as an absolute path of a log, which is percent-encoded.

    Args:
        uri: As a store has it. That of a local directory is encoded, the names of objects are plain.
    """
    return uri if uri[:5].lower() == "file:" else encode_percent_signs(uri)


def possible_roots(text: str) -> frozenset[str]:
    """Return the places that `root_of` may return for a text that is the URI of a table as anybody has written it."""
    return frozenset(place.rstrip("/") for place in possible_places(text))


def spellings_of_root(uri: str) -> Sequence[bytes]:
    """Return how absolute paths into a table may begin where paths are not encoded, as in an inventory of files.

    Args:
        uri: The URI of the table's root, or the path of a local directory.
    """
    scheme, separator, rest = uri.partition("://")
    if separator and scheme.lower() != "file":
        return [key_bytes(f"{name}://{rest.rstrip('/')}/") for name in schemes_of_store(scheme)]
    path = unquote_to_bytes(rest) if separator else key_bytes(uri)
    root = b"/" + path.strip(b"/")
    return [start + root.rstrip(b"/") + b"/" for start in (b"", b"file:", b"file://", b"file://localhost")]


def possible_places(uri: str) -> Sequence[str]:
    """Return both places that a URI may mean that was not written by a store: one if it has no percent sign.

    Only the store can decide whether a `%` is an escape or a literal character.
    """
    return tuple(dict.fromkeys((canonical(uri), canonical(encode_percent_signs(uri)))))


def locate(paths: pa.Array, uri: str, *, in_doubt_inside: bool = False) -> tuple[pa.Array, list[int]]:
    """Return where raw paths of the log point: keys, paths relative to the table at `uri`, decoded, as bytes, and the
    rows of absolute paths that point elsewhere.

    A key is null outside of the table, and where other rules report the path (empty, leaving the table by `..`, inside
    the log). Dots that appear only after decoding are resolved as in a file system.

    With `in_doubt_inside`, an absolute path is in the table if its writer may have meant that: it did not encode the
    name of the table, or encoded it twice. Only who wants to keep files asks so.
    """
    keys = without_dots_column(canonical_column(paths))
    absolute = are_absolute(paths)
    begins_empty = pc.and_not(pc.starts_with(keys, "/"), absolute)
    if pc.any(begins_empty).as_py():
        # As `name_below`: what begins with an escaped slash is relative.
        below = without_dots_column(pc.replace_substring_regex(keys, "^/+", ""))
        keys = pc.if_else(begins_empty, below, keys)
    rows = pc.indices_nonzero(absolute).to_pylist()
    outside: list[int] = []
    if rows:
        places = possible_roots(uri) if in_doubt_inside else {root_of(uri)}
        roots = tuple(key_bytes(f"{place}/") for place in places)
        inside = [_below(key, roots) for key in pc.filter(keys, absolute).to_pylist()]
        outside = [row for row, key in zip(rows, inside, strict=True) if key is None]
        keys = pc.replace_with_mask(keys, absolute, pa.array(inside, pa.binary()))
    if not any(pc.any(pc.starts_with(keys, start)).as_py() for start in ("..", LOG_DIRECTORY)) and not _has_empty(keys):
        return keys, outside
    elsewhere = pc.match_substring_regex(keys, _NOT_IN_TABLE)
    return pc.if_else(elsewhere, pa.scalar(None, pa.binary()), keys), outside


def _has_empty(keys: ArrowArray) -> bool:
    return bool(pc.any(pc.equal(pc.binary_length(keys), 0)).as_py())


def _below(key: bytes, roots: tuple[bytes, ...]) -> bytes | None:
    return next((key[len(root) :] for root in roots if key.startswith(root)), None)


def locate_all(paths: Iterable[object], uri: str) -> list[str | None]:
    """Return the same for paths of any type, as text, or None if it is not a path of this table."""
    texts = [path if isinstance(path, str) and is_utf8_encodable(path) else None for path in paths]
    keys: list[bytes | None] = locate(pa.array(texts, pa.string()), uri)[0].to_pylist()
    return [None if key is None else key_text(key) for key in keys]


def name_files(paths: ArrowArray, uris: Sequence[str]) -> ArrowArray:
    """Return one name for all spellings of a file: string array in, binary array out.

    The name of a file in the table is its decoded path below the root, whether the log has a relative or an absolute
    path. Other files have the absolute path in the spelling of `canonical`.

    Args:
        paths: Paths as the log has them.
        uris: The URIs of the table's root.
    """
    names = locate(paths, uris[0])[0]
    for uri in uris[1:]:
        names = pc.coalesce(names, locate(paths, uri)[0])
    return pc.coalesce(names, canonical_column(paths)) if names.null_count else names


def spell_from_elsewhere(key: str, uri: str) -> str | None:
    """Return the absolute path of a file in the table for its relative one, and the reverse.

    Args:
        key: A path in the spelling of `canonical`.
        uri: The URI of the table's root.

    Returns:
        The other path, in the spelling of `canonical`. None for an absolute path outside of the table.
    """
    root = f"{root_of(uri)}/"
    if key.startswith(root):
        return key.removeprefix(root)
    return None if IS_ABSOLUTE.match(key) else f"{root}{key}"
