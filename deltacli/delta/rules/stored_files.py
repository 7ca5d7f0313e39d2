"""Files of a listing against the paths of a log. Spec: Add File and Remove File (paths); Data Files (hidden names)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli import arrow_compute as pc
from deltacli.delta.commit_lines import Action
from deltacli.delta.paths import canonical, canonical_column
from deltacli.delta.rules.base import Place

if TYPE_CHECKING:
    import pyarrow

_ABSOLUTE = r"^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"
_NOT_IN_TABLE = r"^(\.\.(/|$)|_delta_log(/|$)|$)"
_HIDDEN = re.compile(r"(?:^|/)[._](?:[^/=]*/|[^/]*\Z)")


class Located(NamedTuple):
    """Where paths of the log point. `keys`: path relative to the table, decoded, as bytes; null where it lies outside,
    or where other rules object to it (empty, leaving the table by `..`, inside the log). `outside`: rows of absolute
    paths that lie elsewhere.
    """

    keys: pyarrow.Array
    outside: list[int]


def are_absolute(paths: pyarrow.Array) -> pyarrow.Array:
    """Which paths have a scheme or begin with `/`."""
    return pc.match_substring_regex(paths, _ABSOLUTE)


def locate(paths: pyarrow.Array, uri: str) -> Located:
    """Find what paths as found in the log name below the table at `uri`."""
    import pyarrow as pa

    keys = canonical_column(paths)
    absolute = are_absolute(paths)
    rows = pc.indices_nonzero(absolute).to_pylist()
    outside: list[int] = []
    if rows:
        roots = _roots(uri)
        inside = [_below(key, roots) for key in pc.filter(keys, absolute).to_pylist()]
        outside = [row for row, key in zip(rows, inside, strict=True) if key is None]
        keys = pc.replace_with_mask(keys, absolute, pa.array(inside, pa.binary()))
    elsewhere = pc.match_substring_regex(keys, _NOT_IN_TABLE)
    return Located(pc.if_else(elsewhere, pa.scalar(None, pa.binary()), keys), outside)


def locate_all(paths: Iterable[object], uri: str) -> list[str | None]:
    """The same for paths of any type, as text; None for what is no path of this table."""
    import pyarrow as pa

    texts = [path if isinstance(path, str) and not _is_unpaired(path) else None for path in paths]
    found: list[bytes | None] = locate(pa.array(texts, pa.string()), uri).keys.to_pylist()
    return [None if key is None else text_of(key) for key in found]


def text_of(key: bytes) -> str:
    """A key as the name of a file in a listing."""
    return key.decode("utf-8", "surrogateescape")


def is_hidden(path: str) -> bool:
    """True if a name on the way starts with `_` or `.` (directories `key=value` aside): no vacuum looks there.

    Spec: Data Files.
    """
    return ("/_" in path or "/." in path or path.startswith(("_", "."))) and _HIDDEN.search(path) is not None


def place_of(add: Mapping[str, Any]) -> Place:  # Any: values of the columns
    """Where a live file is named, by its row of `StorageView.live_adds`."""
    version = add["version"]
    return Place(add["source"], add["line"], version if version >= 0 else None, add["path"])


def newest_removals(tombstones: Iterable[Action], uri: str) -> dict[str, int]:
    """Path relative to the table -> when it was removed last; 0 where the remove does not say."""
    removes = [remove for remove in tombstones if isinstance(remove.get("path"), str)]
    newest: dict[str, int] = {}
    for path, remove in zip(locate_all((remove["path"] for remove in removes), uri), removes, strict=True):
        if path is not None:
            found = remove.get("deletionTimestamp")
            newest[path] = max(newest.get(path, 0), found if type(found) is int else 0)
    return newest


def _roots(uri: str) -> tuple[bytes, ...]:
    """The table's directory as keys spell it. Whether a `%` in `uri` is an escape or a character, the store knows."""
    spellings = {canonical(uri), canonical(uri.replace("%", "%25"))}
    return tuple(spelling.rstrip("/").encode("utf-8", "surrogateescape") + b"/" for spelling in spellings)


def _below(key: bytes, roots: tuple[bytes, ...]) -> bytes | None:
    return next((key[len(root) :] for root in roots if key.startswith(root)), None)


def _is_unpaired(text: str) -> bool:
    """True for text with half a surrogate pair, which Arrow does not take."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
