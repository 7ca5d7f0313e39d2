"""Where the files of actions are: paths below the table, for signers. Nothing outside the table is ever signed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltacli.delta.paths.locate_paths import locate, text_of
from deltacli.sharing.tables.checking import outside
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
