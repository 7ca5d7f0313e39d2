"""The newest version that can be read although files are gone; and data files that are newer than a log that is put
back, which may be too old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import CommitCorrupt, FileMissing, Unreadable
from deltacli.core.typing import ArrowArray, ArrowTable
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import LogListing
from deltacli.delta.paths import text_of
from deltacli.delta.vacuum.keys import PathKeys, binary_paths
from deltacli.operations.recover.sources import FoundFiles
from deltacli.storage import FileStat, ReadStorage
from deltacli.table.file_history import named_files
from deltacli.table.find_log import list_log
from deltacli.table.needed import live_files, look_for, whole
from deltacli.table.rebuild import read_snapshot
from deltacli.table.walk import TableWalk, hidden_names

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.needed import NeededFiles
    from deltacli.table.version import Snapshot

_TRIED = 20
"""Versions that are rebuilt to look for their files."""


def newest_complete(table: TableHandle, snapshot: Snapshot, found: FoundFiles) -> int | None:
    """Return the newest version below a snapshot, all of whose files are there or were found; None if none is known."""
    uris = (table.storage.uri, *table.storage.aliases)
    kept = pc.filter(whole(found.needed.files["path"]), found.is_found)
    lost = pc.filter(whole(found.needed.files["path"]), pc.invert(found.is_found))

    def lost_of(version: Snapshot) -> ArrowArray:
        files, sizes = look_for(table.storage, live_files(version, uris), table.engine, table.progress)
        is_other = pc.fill_null(pc.not_equal(sizes, whole(files.files["sizeBytes"])), False)
        is_lost = pc.and_(pc.or_(pc.is_null(sizes), is_other), pc.invert(pc.is_in(files.files["path"], value_set=kept)))
        return pc.filter(whole(files.files["path"]), whole(is_lost))

    complete = complete_versions(snapshot.table, snapshot.version, lost, lost_of, uris)
    return next((version.version for version in complete), None)


def complete_versions(
    table: TableHandle, below: int, lost: ArrowArray, lost_of: Callable[[Snapshot], ArrowArray], uris: tuple[str, ...]
) -> Iterator[Snapshot]:
    """Yield versions below one, the newest first, that need no file that is gone: `lost` are such files, `lost_of`
    returns those of a version, as bytes below the root, whose URIs are `uris`.

    A version is passed over where it is not older than the commits that added files which are gone.
    """
    listing = list_log(table.storage)
    added = _added(table, listing, uris)
    for _ in range(_TRIED):
        if len(lost):
            first = pc.min(added.filter(pc.is_in(added["path"], value_set=lost))["version"]).as_py()
            below = min(below, first or 0)
        below = max((version for version in listing.reconstructable if version < below), default=-1)
        if below < 0:
            return
        try:
            snapshot = read_snapshot(table, version=below)
            lost = lost_of(snapshot)
        except (Unreadable, CommitCorrupt):
            continue
        if not len(lost):
            yield snapshot


def _added(table: TableHandle, listing: LogListing, uris: tuple[str, ...]) -> ArrowTable:
    """Return the files and the files of vectors that commits added, with the versions."""
    import pyarrow as pa

    keys = PathKeys(uris)
    parts = [pa.table({"path": pa.array([], pa.binary()), "version": pa.array([], pa.int64())})]
    for rows in named_files(table, listing, [], []):
        if rows.kind == "add":
            paths = (keys.of_log(whole(rows.path)).keys, keys.of_vectors(whole(rows.vector)).keys)
            parts += [_part(one, rows.version) for one in paths]
    return pa.concat_tables(parts)


def _part(paths: ArrowArray, versions: ArrowArray) -> ArrowTable:
    import pyarrow as pa

    return pa.table({"path": paths, "version": pc.cast(whole(versions), pa.int64())}).filter(pc.is_valid(paths))


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
