"""Spellings of paths in Arrow columns: the functions of `spelling` for many paths at once.

Spec: Add File and Remove File.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.segment import LOG_DIRECTORY
from deltacli.delta.paths.spelling import (
    ABSOLUTE_PATTERN,
    DOT_PATTERN,
    ODD_PATTERN,
    canonicalize_path,
    canonicalize_root,
    decode,
    decode_path_bytes,
    encode_path_bytes,
    name_below_roots,
    possible_roots,
    resolve_dots,
)

STRAY_PERCENT = r"%([^0-9A-Fa-f]|[0-9A-Fa-f]([^0-9A-Fa-f]|$)|$)"
"""Matches a percent sign that begins no escape; in the dialect of Arrow."""
_NOT_IN_TABLE = r"^(\.\.(/|$)|_delta_log(/|$)|$)"
_ESCAPE = rb"%[0-9A-Fa-f]{2}"
_ODD_SEGMENT = rb"/[/.]"
"""The start of an empty segment, or of a dot segment that is not the first; faster to find than two substrings."""
_ODD_MARKS = (b"%", b":", b"//", b"/.")
"""One of them is in each path that is not the name of its file, unless that begins with `.` or `/`."""
_CHECKED_AT_ONCE = 65_536
"""Rows whose bytes are copied to be searched."""


def are_absolute(paths: pa.Array) -> pa.Array:
    """Return which paths have a scheme or begin with `/`."""
    if not pc.any(pc.starts_with(paths, "/")).as_py() and not _may_have_scheme(paths):
        return pa.repeat(pa.scalar(False), len(paths))
    return pc.match_substring_regex(paths, ABSOLUTE_PATTERN)


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


def canonicalize_paths(paths: pa.Array) -> pa.Array:
    """Return `canonicalize_path` for a column: string array in, binary array out.

    Plain relative paths, the usual case, need one check of the bytes. Only rows with a scheme, a dot segment or a
    double slash are processed one by one.
    """
    parts = [paths.slice(begin, _CHECKED_AT_ONCE) for begin in range(0, len(paths), _CHECKED_AT_ONCE)]
    odd = pc.match_substring_regex(paths, ODD_PATTERN) if any(map(_may_be_odd, parts)) else None
    is_plain = not any(b"%" in content_of(part) for part in parts)
    column = pc.cast(paths, pa.binary()) if is_plain else decode_column(paths)
    return column if odd is None else _replace_rows(column, paths, odd, canonicalize_path)


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
    rows = pc.fill_null(pc.match_substring_regex(paths, DOT_PATTERN), False)
    if not pc.any(rows).as_py():
        return paths
    spelled = [encode_path_bytes(resolve_dots(decode_path_bytes(path))) for path in pc.filter(paths, rows).to_pylist()]
    return pc.replace_with_mask(paths, rows, pa.array(spelled, pa.binary()))


def _replace_rows(column: pa.Array, paths: pa.Array, rows: pa.Array, spell: Callable[[str], str]) -> pa.Array:
    """Replace the marked rows by the result of `spell` for each distinct path."""
    if not pc.any(rows).as_py():
        return column
    distinct = pc.dictionary_encode(pc.filter(paths, rows))
    spelled = [encode_path_bytes(spell(path)) for path in distinct.dictionary.to_pylist()]
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


def made_absolute(paths: ArrowArray, root: str) -> ArrowArray:
    """Return paths of the log of a table, which do not depend on where that log is. `root`: `encoded_root` of it."""
    return pc.if_else(are_absolute(paths), paths, pc.binary_join_element_wise(root, paths, ""))


def locate(paths: pa.Array, uri: str, *, in_doubt_inside: bool = False) -> tuple[pa.Array, list[int]]:
    """Return where raw paths of the log point: keys, paths relative to the table at `uri`, decoded, as bytes, and the
    rows of absolute paths that point elsewhere.

    A key is null outside of the table, and where other rules report the path (empty, leaving the table by `..`, inside
    the log). Dots that appear only after decoding are resolved as in a file system.

    With `in_doubt_inside`, an absolute path is in the table if its writer may have meant that: it did not encode the
    name of the table, or encoded it twice. Only who wants to keep files asks so.
    """
    keys = without_dots_column(canonicalize_paths(paths))
    absolute = are_absolute(paths)
    begins_empty = pc.and_not(pc.starts_with(keys, "/"), absolute)
    if pc.any(begins_empty).as_py():
        # As `name_below`: what begins with an escaped slash is relative.
        below = without_dots_column(pc.replace_substring_regex(keys, "^/+", ""))
        keys = pc.if_else(begins_empty, below, keys)
    rows = pc.indices_nonzero(absolute).to_pylist()
    outside: list[int] = []
    if rows:
        places = possible_roots(uri) if in_doubt_inside else {canonicalize_root(uri)}
        roots = tuple(encode_path_bytes(f"{place}/") for place in places)
        inside = [name_below_roots(key, roots) for key in pc.filter(keys, absolute).to_pylist()]
        outside = [row for row, key in zip(rows, inside, strict=True) if key is None]
        keys = pc.replace_with_mask(keys, absolute, pa.array(inside, pa.binary()))
    if not any(pc.any(pc.starts_with(keys, start)).as_py() for start in ("..", LOG_DIRECTORY)) and not _has_empty(keys):
        return keys, outside
    elsewhere = pc.match_substring_regex(keys, _NOT_IN_TABLE)
    return pc.if_else(elsewhere, pa.scalar(None, pa.binary()), keys), outside


def _has_empty(keys: ArrowArray) -> bool:
    return bool(pc.any(pc.equal(pc.binary_length(keys), 0)).as_py())


def locate_all(paths: Iterable[object], uri: str) -> list[str | None]:
    """Return the same for paths of any type, as text, or None if it is not a path of this table."""
    texts = [path if isinstance(path, str) and is_utf8_encodable(path) else None for path in paths]
    keys: list[bytes | None] = locate(pa.array(texts, pa.string()), uri)[0].to_pylist()
    return [None if key is None else decode_path_bytes(key) for key in keys]


def resolve_file_names(paths: ArrowArray, uris: Sequence[str]) -> ArrowArray:
    """Return one name for all spellings of a file: string array in, binary array out.

    The name of a file in the table is its decoded path below the root, whether the log has a relative or an absolute
    path. Other files have the absolute path in the spelling of `canonicalize_path`.

    Args:
        paths: Paths as the log has them.
        uris: The URIs of the table's root.
    """
    names = locate(paths, uris[0])[0]
    for uri in uris[1:]:
        names = pc.coalesce(names, locate(paths, uri)[0])
    return pc.coalesce(names, canonicalize_paths(paths)) if names.null_count else names
