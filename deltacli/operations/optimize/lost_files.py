"""Leaving files out of a plan that are not in storage, or cut short: one request per chosen file, or a listing of
their directories where that takes fewer, and one per file that is smaller than the log says. Files outside the table
are not looked for. Spec: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from deltacli.arrow import compute as pc
from deltacli.core.errors import FileMissing
from deltacli.core.typing import ArrowArray
from deltacli.delta.paths import text_of
from deltacli.delta.vacuum.keys import PathKeys
from deltacli.delta.vectors import unique_id_column
from deltacli.operations.optimize.live_files import LiveFiles
from deltacli.operations.optimize.plan import OptimizePlan
from deltacli.operations.optimize.select import Selection
from deltacli.storage import ReadStorage
from deltacli.table.handle import TableHandle
from deltacli.table.keyed_files import marked_actions
from deltacli.table.needed import joined, look_for, needed_files
from deltacli.work.rewrite.pieces import RefusedFile

_ENDS = (b"PAR1", b"PARE")
_FIELDS = ("path", "size", "deletionVector")


def without_lost(plan: OptimizePlan, choose: Callable[[LiveFiles], Selection]) -> OptimizePlan:
    """Return the plan without files that are missing or cut short, or whose deletion vector is missing.

    Raises StorageFailed.
    """
    import pyarrow as pa

    every = pa.array(range(len(plan.live.keys)), pa.int64())
    unknown = pa.repeat(pa.scalar(True), len(every))
    while True:
        chosen = pc.is_in(every, value_set=pa.array(plan.selection.places(plan.selection.bins), pa.int64()))
        chosen, unknown = pc.and_(chosen, unknown), pc.and_not(unknown, chosen)
        lost = dict(_lost(plan, chosen)) if pc.any(chosen).as_py() else {}
        if not lost:
            return plan
        live = plan.live.excluding({place: one.code for place, one in lost.items()})
        plan = replace(plan, live=live, selection=choose(live), damaged=(*plan.damaged, *lost.values()))


def _lost(plan: OptimizePlan, chosen: ArrowArray) -> Iterator[tuple[int, RefusedFile]]:
    """Yield the places of the chosen files that are missing or cut short."""
    import pyarrow as pa

    table, places = plan.table, pc.indices_nonzero(chosen)
    marked = marked_actions(plan.snapshot, plan.live.keys, chosen, plan.condition, _FIELDS)
    adds = pa.Table.from_batches([pc.filter(rows, mask) for rows, mask in marked]).combine_chunks()
    uris = (table.storage.uri, *table.storage.aliases)
    paths, vectors = (adds[name].combine_chunks() for name in ("path", "deletionVector"))
    needed = needed_files(uris, paths, adds["size"], pa.nulls(len(paths), pa.int64()), vectors)
    found, sizes = look_for(table.storage, joined([needed]), table.engine, table.progress)
    missing = pc.filter(found.files["path"], pc.is_null(sizes))
    is_smaller = pc.less(sizes, found.files["sizeBytes"])
    seen = zip(*(pc.filter(one, is_smaller).to_pylist() for one in (found.files["path"], sizes)), strict=True)
    cut = pa.array(_cut_short(table, [*seen]), pa.binary())
    if not (len(missing) or len(cut)):
        return
    keys = PathKeys(uris)
    of_vectors, of_data = keys.of_vectors(unique_id_column(vectors)).keys, keys.of_log(paths).keys
    for code, files, faulty, what in (
        ("dv.file-missing", of_vectors, missing, "does not exist"),
        ("data.file-missing", of_data, missing, "does not exist"),
        ("data.not-parquet", of_data, cut, "is cut short"),
    ):
        for row in pc.indices_nonzero(pc.is_in(files, value_set=faulty)).to_pylist():
            name = text_of(files[row].as_py())
            yield places[row].as_py(), RefusedFile(paths[row].as_py(), code, f"{name} {what}")


def _cut_short(table: TableHandle, files: Sequence[tuple[bytes, int]]) -> list[bytes]:
    """Return the files, given with their sizes, that do not end as Parquet files."""

    def look(file: tuple[bytes, int]) -> bool:
        return _is_cut_short(table.storage, text_of(file[0]), file[1])

    found = table.engine.run(look, files, at_once=table.storage.capabilities.parallel_reads)
    return [path for (path, _), is_cut in zip(files, found, strict=True) if is_cut]


def _is_cut_short(storage: ReadStorage, path: str, size: int) -> bool:
    """Return whether a file does not end as a Parquet file. An empty one has no range to ask for; what happens to one
    that is gone meanwhile is up to the run.
    """
    length = len(_ENDS[0])
    try:
        return size < length or storage.read_range(path, size - length, length) not in _ENDS
    except FileMissing:
        return False
