"""The lines of the digests of a state, of one row group of a checkpoint, sorted where the row group is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.delta.log.counts import FileCounts, TombstoneCounts, count_batch
from deltacli.delta.log.file_actions import FileBatch
from deltacli.delta.paths.path_decoding import decode_column
from deltacli.work.checkpoints.reading import CheckpointPiece, read_narrow
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow

MOST_ROWS = 300_000
"""Maximum number of rows of a row group whose lines are a result: about 50 MB. Larger ones are read as a stream."""


class StateLines(NamedTuple):
    """Lines of live files and tombstones, as binary columns; see `StateDigests`."""

    paths: pyarrow.Array
    raw_paths: pyarrow.Array
    keys: pyarrow.Array
    tombstone_keys: pyarrow.Array


class SortedPiece(NamedTuple):
    """The counts of a row group, and its lines, each column sorted."""

    files: FileCounts
    tombstones: TombstoneCounts
    lines: StateLines


@dataclass(frozen=True, slots=True)
class SortLines:
    """Reads the file actions of a row group that newer commits have not decided (shared `touched`).

    Tombstones with a time before `cutoff_ms` (epoch milliseconds) count as expired.
    """

    cutoff_ms: int

    def __call__(self, piece: CheckpointPiece, context: TaskContext) -> SortedPiece:
        """Return the counts and the sorted lines. Raises CheckpointUnreadable."""
        import pyarrow as pa

        files, tombstones = FileCounts(), TombstoneCounts()
        found: list[StateLines] = [state_lines(FileBatch())]
        for batch in read_narrow(context.stores, piece, context.shared("touched"), with_paths=True):
            files, tombstones = count_batch(batch, self.cutoff_ms, files, tombstones)
            found.append(state_lines(batch))
        paths, raw, keys, tombstone_keys = (
            pa.concat_arrays([pc.cast(part, pa.large_binary()) for part in column])
            for column in zip(*found, strict=True)
        )
        is_plain = paths.equals(raw)
        order = pc.sort_indices(raw)
        raw = pc.take(raw, order)
        paths = raw if is_plain else _sorted(paths, order)  # usually the same, and then it is sent once
        return SortedPiece(
            files, tombstones, StateLines(paths, raw, _sorted(keys, order), _sorted(tombstone_keys, None))
        )


def state_lines(batch: FileBatch) -> StateLines:
    """Return the lines of a narrow batch."""
    import pyarrow as pa

    none = pa.array([], pa.binary())
    paths = raw = keys = none
    if batch.adds is not None:
        raw = pc.cast(batch.adds.column("path"), pa.binary())
        paths, keys = decode_column(batch.adds.column("path")), _key_lines(batch.adds)
    return StateLines(paths, raw, keys, none if batch.removes is None else _key_lines(batch.removes))


def _key_lines(rows: pyarrow.RecordBatch) -> pyarrow.Array:
    import pyarrow as pa

    lines = pc.binary_join_element_wise(rows.column("path"), rows.column("dv_id"), "\t")
    return pc.cast(lines, pa.binary())


def _sorted(lines: Any, order: Any) -> Any:  # Any: pyarrow has no types
    """Return lines sorted: in an order of other lines if that is theirs as well, which it nearly always is."""
    if order is not None:
        taken = pc.take(lines, order)
        if len(taken) < 2 or pc.all(pc.less_equal(taken.slice(0, len(taken) - 1), taken.slice(1))).as_py():
            return taken
    return pc.take(lines, pc.sort_indices(lines))
