"""Looking for the files that a log names, by their paths and the ids of their vectors, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import FileMissing, PathExternal
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.delta.listing import PathKeys
from deltacli.table.live_files import FileKind, look_for, needed_files, whole

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

Names = tuple[ArrowArray, ArrowArray]
"""Paths of data files, and ids of vectors, as in the log."""


def missing_files(
    table: TableHandle, paths: ArrowArray, ids: ArrowArray, listed: Callable[[ArrowArray], ArrowArray] | None = None
) -> tuple[Names, Names]:
    """Return the files that are missing, and those that may not be looked at. `listed` is as for `look_for`.

    Raises StorageFailed.
    """
    import pyarrow as pa

    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    paths, ids = pc.unique(paths), pc.unique(ids)
    of_paths, of_ids = keys.of_log(paths), keys.of_vectors(ids)
    parts = [
        _needed(of_paths.keys, of_paths.written, FileKind.DATA),
        _needed(of_ids.keys, of_ids.keys, FileKind.VECTOR),
    ]
    nothing = needed_files((table.uri,), *(pa.array([], kind) for kind in (pa.string(), pa.int64(), pa.int64())))
    needed = nothing._replace(files=pa.concat_tables(parts))
    _, sizes = look_for(table.storage, needed, table.engine, table.progress, listed)
    count = parts[0].num_rows
    lost, unseen = [], []
    here = ((paths, of_paths.keys, whole(sizes).slice(0, count)), (ids, of_ids.keys, whole(sizes).slice(count)))
    for names, places, found in here:
        absent = pc.filter(pc.filter(names, pc.is_valid(places)), pc.is_null(found))
        gone, refused = _elsewhere(table, pc.filter(names, pc.is_null(places)), are_vectors=names is ids)
        lost.append(pa.concat_arrays([whole(absent), gone]))
        unseen.append(refused)
    return (lost[0], lost[1]), (unseen[0], unseen[1])


def _needed(places: ArrowArray, written: ArrowArray, kind: FileKind) -> ArrowTable:
    import pyarrow as pa

    is_here = pc.is_valid(places)
    places, written = pc.filter(places, is_here), pc.filter(written, is_here)
    differs = pc.fill_null(pc.not_equal(places, written), False)
    unknown = pa.nulls(len(places), pa.int64())
    return pa.table(
        {
            "path": places,
            "written": pc.if_else(differs, written, pa.scalar(None, pa.binary())),
            "kind": pa.repeat(kind.value, len(places)),
            "sizeBytes": unknown,
            "rows": unknown,
        }
    )


def _elsewhere(table: TableHandle, names: ArrowArray, *, are_vectors: bool) -> Names:
    """Return which files outside of the table are missing, and which may not be looked at."""
    import pyarrow as pa

    files = table.files()

    def look(name: str) -> bool | None:
        try:
            storage, inner = files.locate(name)
            storage.stat(inner)
        except FileMissing:
            return False
        except PathExternal:
            return None
        return True

    every = [name for name in names.to_pylist() if not are_vectors or name[:1] == "p"]
    places = [name[1:].rpartition("@")[0] or name[1:] for name in every] if are_vectors else every
    parts = list(zip(every, table.engine.run(look, places), strict=True))
    told = [[name for name, is_there in parts if is_there is one] for one in (False, None)]
    return pa.array(told[0], pa.string()), pa.array(told[1], pa.string())
