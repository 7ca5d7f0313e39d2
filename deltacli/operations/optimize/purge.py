"""Which files a purge rewrites besides those with deletion vectors, such as those that still hold dropped columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from deltacli.arrow import compute as pc
from deltacli.operations.optimize.live import LiveFiles
from deltacli.operations.table.keyed_files import Mask, chosen_actions
from deltacli.typing import RecordBatch
from deltacli.work.rewrite.outdated_columns import CONFIG
from deltacli.work.rows.data_files import DataFile
from deltacli.work.task import Task

if TYPE_CHECKING:
    from deltacli.operations.table.version import Snapshot

_FILES_PER_PIECE = 32


Find: TypeAlias = Task[Sequence[DataFile], list[bool]]
"""Says of each file whether it holds what is to be purged; the shared value `CONFIG` is the table's configuration."""


def with_named_files(snapshot: Snapshot, live: LiveFiles, condition: Mask | None, find: Find) -> LiveFiles:
    """Return the files with those marked that hold what is to be purged, as `find` says from their footers."""
    import pyarrow as pa

    columns, table = live.columns, snapshot.table
    unknown = pc.invert(pc.or_(columns.has_vector, columns.is_excluded))
    places = pc.indices_nonzero(unknown)
    adds = chosen_actions(snapshot, live.keys, unknown, condition, ("path", "size", "deletionVector"))
    pieces = chain.from_iterable(map(_pieces, adds))
    found: list[bool] = []
    with table.progress.step("reading footers", unit="files", total=len(places)) as step:
        for answers in table.engine.spread(find, pieces, table.stores, shared={CONFIG: snapshot.config}, weigh=len):
            found += answers
            step.advance(len(answers))
    named = pc.take(places, pc.indices_nonzero(pa.array(found, pa.bool_())))
    every = pa.array(range(len(live.keys)), pa.uint64())
    return live.naming(pc.is_in(every, value_set=pc.cast(named, pa.uint64())))


def _pieces(adds: RecordBatch) -> Iterator[list[DataFile]]:
    paths, sizes = adds.column("path").to_pylist(), adds.column("size").to_pylist()
    files = [DataFile(path, size) for path, size in zip(paths, sizes, strict=True)]
    yield from (files[begin : begin + _FILES_PER_PIECE] for begin in range(0, len(files), _FILES_PER_PIECE))
