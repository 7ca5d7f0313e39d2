"""Paths of a log as names of files below the table.

Spec: Add File and Remove File (paths); Data Files (hidden names).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.encoding.value_text import has_bytes
from deltacli.delta.log.log_path import LOG_DIRECTORY
from deltacli.delta.paths.path_decoding import canonical, canonical_column, without_dots_column
from deltacli.patterns import pattern
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    import pyarrow

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"
_NOT_IN_TABLE = r"^(\.\.(/|$)|_delta_log(/|$)|$)"
_HIDDEN = pattern(r"(?:^|/)[._](?:[^/=]*/|[^/]*\Z)")


class Located(NamedTuple):
    """Where paths of the log point. `keys`: path relative to the table, decoded, as bytes; null if it is outside, or if
    other rules report it (empty, leaving the table by `..`, inside the log). `outside`: rows of absolute paths that
    point elsewhere.
    """

    keys: pyarrow.Array
    outside: list[int]


def are_absolute(paths: pyarrow.Array) -> pyarrow.Array:
    """Return which paths have a scheme or begin with `/`."""
    import pyarrow as pa

    if not pc.any(pc.starts_with(paths, "/")).as_py() and not _may_have_scheme(paths):
        return pa.repeat(pa.scalar(False), len(paths))
    return pc.match_substring_regex(paths, _ABSOLUTE)


def locate(paths: pyarrow.Array, uri: str) -> Located:
    """Find the files below the table at `uri` that raw paths of the log name. Dots that appear only after decoding are
    resolved as in a file system.
    """
    import pyarrow as pa

    keys = without_dots_column(canonical_column(paths))
    absolute = are_absolute(paths)
    rows = pc.indices_nonzero(absolute).to_pylist()
    outside: list[int] = []
    if rows:
        roots = _roots(uri)
        inside = [_below(key, roots) for key in pc.filter(keys, absolute).to_pylist()]
        outside = [row for row, key in zip(rows, inside, strict=True) if key is None]
        keys = pc.replace_with_mask(keys, absolute, pa.array(inside, pa.binary()))
    if not any(pc.any(pc.starts_with(keys, start)).as_py() for start in ("..", LOG_DIRECTORY)) and not _has_empty(keys):
        return Located(keys, outside)
    elsewhere = pc.match_substring_regex(keys, _NOT_IN_TABLE)
    return Located(pc.if_else(elsewhere, pa.scalar(None, pa.binary()), keys), outside)


def _may_have_scheme(paths: ArrowArray) -> bool:
    data = paths.buffers()[2]
    return data is not None and b":" in data.to_pybytes()


def _has_empty(keys: ArrowArray) -> bool:
    return bool(pc.any(pc.equal(pc.binary_length(keys), 0)).as_py())


def locate_all(paths: Iterable[object], uri: str) -> list[str | None]:
    """Return the same for paths of any type, as text, or None if it is not a path of this table."""
    import pyarrow as pa

    texts = [path if isinstance(path, str) and has_bytes(path) else None for path in paths]
    keys: list[bytes | None] = locate(pa.array(texts, pa.string()), uri).keys.to_pylist()
    return [None if key is None else text_of(key) for key in keys]


def text_of(key: bytes) -> str:
    """Return a key as the name of a file in a listing."""
    return key.decode("utf-8", "surrogateescape")


def is_hidden(path: str) -> bool:
    """Return True if a directory or file name starts with `_` or `.` (except directories `key=value`), which vacuum
    ignores. Spec: Data Files.
    """
    return ("/_" in path or "/." in path or path.startswith(("_", "."))) and _HIDDEN.search(path) is not None


def _roots(uri: str) -> tuple[bytes, ...]:
    """Return the table's directory as keys spell it. The store determines whether a `%` in `uri` is an escape or a
    character.
    """
    spellings = {canonical(uri), canonical(uri.replace("%", "%25"))}
    return tuple(spelling.rstrip("/").encode("utf-8", "surrogateescape") + b"/" for spelling in spellings)


def _below(key: bytes, roots: tuple[bytes, ...]) -> bytes | None:
    return next((key[len(root) :] for root in roots if key.startswith(root)), None)
