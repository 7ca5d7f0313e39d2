"""Where the files of actions are: paths below the table, for signers. Nothing outside the table is ever signed.

Also whether recipients can get them, as the server would find when they are requested.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.delta.paths.locate_paths import locate, text_of
from deltacli.sharing.tables.shareable import outside, vector_place, vectors_of
from deltacli.storage import LocalStorage, Storage

if TYPE_CHECKING:
    import pyarrow


def places_of(actions: pyarrow.RecordBatch, storage: Storage) -> list[str]:
    """Return the path of each file below the table, decoded. Raises PathExternal."""
    raw = actions.column("path")
    keys = locate(raw, storage.uri).keys
    if keys.null_count:
        raise outside()
    places = [text_of(key) for key in keys.to_pylist()]
    if not isinstance(storage, LocalStorage):
        return places
    return [_as_stored(storage, path, place) for path, place in zip(raw.to_pylist(), places, strict=True)]


def _as_stored(storage: LocalStorage, path: str, place: str) -> str:
    """Return the place, or the path as written where only that exists: some writers do not encode paths."""
    if path == place or "%" not in path or os.path.lexists(os.path.join(storage.root, place)):
        return place
    return path if os.path.lexists(os.path.join(storage.root, path)) else place


_MOST_SINGLE_LOOKS = 1_000
"""Files that are looked at one by one on an object store; of more of them the table is listed, 1,000 per request."""


def unavailable_files(files: pyarrow.Table, storage: Storage) -> dict[str, list[str]]:
    """Return the data files and files of deletion vectors that the server cannot return, by the reason: their paths
    below the table. Raises PathExternal, and what the store raises.
    """
    wanted: dict[str, int | None] = {}
    for batch in files.to_batches():
        vectors = [one for one in vectors_of(batch) if one is not None and one["storageType"] != "i"]
        wanted |= dict.fromkeys((vector_place(one, storage.uri) for one in vectors), None)
        wanted |= zip(places_of(batch, storage), batch.column("size").to_pylist(), strict=True)
    found: dict[str, list[str]] = {}
    for (place, declared), size in zip(wanted.items(), _sizes_of(storage, list(wanted)), strict=True):
        reason = _reason(storage, place, declared, size)
        if reason is not None:
            found.setdefault(reason, []).append(place)
    return {reason: sorted(paths) for reason, paths in found.items()}


def _reason(storage: Storage, place: str, declared: int | None, size: int) -> str | None:
    local = os.path.join(storage.root, place) if isinstance(storage, LocalStorage) else None
    if size < 0:
        return "missing" if local is None or not os.path.lexists(local) else "behind a link or not a regular file"
    if declared not in (None, size):
        return "of another size than in the log"
    return None if local is None or os.access(local, os.R_OK) else "not readable by this user"


def _sizes_of(storage: Storage, places: Sequence[str]) -> Sequence[int]:
    """Return the size of each file, -1 for one that the server does not return."""
    if not storage.capabilities.lists_flat or len(places) <= _MOST_SINGLE_LOOKS:
        return storage.stat_many(places)[0]
    left = dict.fromkeys(places, -1)
    for entry in storage.walk("", lambda _, names: names):
        for name, size in zip(entry.names, entry.sizes or (), strict=bool(entry.sizes)):
            place = f"{entry.directory}/{name}" if entry.directory else name
            if place in left:
                left[place] = size
    return list(left.values())
