"""Data files that are newer than a log that is put back: that log may be too old."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.paths import text_of
from deltacli.delta.vacuum.keys import binary_paths
from deltacli.errors import FileMissing
from deltacli.operations.table.needed import whole
from deltacli.operations.table.walk import TableWalk, hidden_names
from deltacli.storage import FileStat, ReadStorage
from deltacli.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.needed import NeededFiles
    from deltacli.operations.table.version import Snapshot


def notes_on_later_files(table: TableHandle, snapshot: Snapshot, needed: NeededFiles) -> Iterator[str]:
    """Yield a note on the data files of the table that were written after a version and that it does not need.
    `snapshot` is the newest version of the log that is put back. Raises StorageFailed.
    """
    if snapshot.time is None:
        return
    names, unknown = hidden_names(snapshot, ()), list[str]()
    with table.progress.step("listing the table", unit="files") as step:
        for files in TableWalk(table.storage, names).files():
            paths = binary_paths(files.paths) if isinstance(files.paths, list) else files.paths
            is_needed = pc.is_in(paths, value_set=whole(needed.files["path"]))
            unknown += map(text_of, pc.filter(paths, pc.invert(pc.or_(is_needed, names.mask(paths)))).to_pylist())
            step.advance(len(paths))
    at_once = table.storage.capabilities.parallel_reads
    stats = list(table.engine.run(partial(_stat, table.storage), unknown, at_once=at_once))
    later = [one.size_bytes for one in stats if one is not None and one.modified_ms > snapshot.time.timestamp_ms]
    count = len(later)
    if count:
        verb = "is" if count == 1 else "are"
        yield (
            f"{plural(count, 'data file')} ({format_size(sum(later))}) {verb} newer than version {snapshot.version}, "
            "the newest of the log that is put back: that log may be too old; do not vacuum the table before a newer "
            "one is ruled out"
        )


def _stat(storage: ReadStorage, path: str) -> FileStat | None:
    try:
        return storage.stat(path)
    except FileMissing:
        return None
