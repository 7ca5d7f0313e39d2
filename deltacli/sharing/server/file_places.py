"""Where the files of actions are: paths below the table, for signers. Nothing outside the table is ever signed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from deltacli.delta.paths.locate_paths import locate, text_of
from deltacli.delta.vectors.z85 import vector_file
from deltacli.sharing.protocol.wire_errors import WireError, unsupported
from deltacli.storage import LocalStorage, Storage

if TYPE_CHECKING:
    import pyarrow


def outside(table: str) -> WireError:
    """Return the answer for a table whose log names a file that is not below the table."""
    return unsupported(f"the table {table} has files outside its own directory, which are not shared")


def require_inside(actions: pyarrow.RecordBatch, storage: Storage, table: str) -> None:
    """Raise WireError if a file or a deletion vector is outside the table."""
    if locate(actions.column("path"), storage.uri).keys.null_count:
        raise outside(table)
    for descriptor in vectors_of(actions):
        if descriptor is not None and descriptor["storageType"] != "i":
            vector_place(descriptor, storage, table)


def places_of(actions: pyarrow.RecordBatch, storage: Storage, table: str) -> list[str]:
    """Return the path of each file below the table, decoded. Raises WireError."""
    raw = actions.column("path")
    keys = locate(raw, storage.uri).keys
    if keys.null_count:
        raise outside(table)
    places = [text_of(key) for key in keys.to_pylist()]
    if not isinstance(storage, LocalStorage):
        return places
    return [_as_stored(storage, path, place) for path, place in zip(raw.to_pylist(), places, strict=True)]


def _as_stored(storage: LocalStorage, path: str, place: str) -> str:
    """Return the place, or the path as written where only that exists: some writers do not encode paths."""
    if path == place or "%" not in path or os.path.lexists(os.path.join(storage.root, place)):
        return place
    return path if os.path.lexists(os.path.join(storage.root, path)) else place


def vectors_of(actions: pyarrow.RecordBatch) -> list[dict[str, Any] | None]:  # Any: descriptors as found
    """Return the descriptor of each row; an empty list where no row has one."""
    place = actions.schema.get_field_index("deletionVector")
    column = None if place < 0 else actions.column(place)
    return [] if column is None or column.null_count == len(column) else column.to_pylist()


def vector_place(descriptor: dict[str, Any], storage: Storage, table: str) -> str:
    """Return the path of the file of a deletion vector below the table. Raises WireError."""
    import pyarrow as pa

    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "u":
        path = vector_file(text)
        text = "" if path is None else path.replace("%", "%25")
    key = locate(pa.array([text], pa.string()), storage.uri).keys[0].as_py()
    if not key:
        raise outside(table)
    return text_of(key)
