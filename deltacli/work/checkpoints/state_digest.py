"""The digests of a state: the lines of a row group of a checkpoint, sorted where it is read, and SHA-256 over sorted
lines in bounded memory (sorted runs in temporary files, merged in columns).
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import tempfiles
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.file_actions import FileBatch, FileCounts, TombstoneCounts, add_counts_of_batch
from deltacli.delta.paths.spelling_columns import decode_column
from deltacli.work.checkpoints.narrow_rows import read_narrow_actions
from deltacli.work.checkpoints.parquet_files import CheckpointPiece
from deltacli.work.task import TaskContext

MOST_ROWS = 300_000
"""Maximum number of rows of a row group whose lines are a result: about 50 MB. Larger ones are read as a stream."""
_RUN_BYTES = 64 << 20
_ROWS_A_BLOCK = 32_768
_BLOCK_BYTES = 4 << 20
"""Block size. One block of every run is held in memory during the merge."""
_ROWS_MERGED = 65_536
"""Number of rows that a step of a merge sorts: few enough for the processor cache, which is four times as fast."""


class StateLines(NamedTuple):
    """Lines of live files and tombstones, as binary columns; see `StateDigests`."""

    paths: pa.Array
    raw_paths: pa.Array
    keys: pa.Array
    tombstone_keys: pa.Array


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
        files = FileCounts()
        tombstones = TombstoneCounts()
        parts: list[StateLines] = [make_state_lines(FileBatch())]
        for batch in read_narrow_actions(context.stores, piece, context.shared("touched"), with_paths=True):
            files, tombstones = add_counts_of_batch(batch, self.cutoff_ms, files, tombstones)
            parts.append(make_state_lines(batch))
        paths, raw_paths, keys, tombstone_keys = (
            pa.concat_arrays([pc.cast(part, pa.large_binary()) for part in column])
            for column in zip(*parts, strict=True)
        )
        is_plain = paths.equals(raw_paths)
        order = pc.sort_indices(raw_paths)
        raw_paths = pc.take(raw_paths, order)
        paths = raw_paths if is_plain else _sort_lines(paths, order)  # usually the same, and then it is sent once
        return SortedPiece(
            files, tombstones, StateLines(paths, raw_paths, _sort_lines(keys, order), _sort_lines(tombstone_keys, None))
        )


def make_state_lines(batch: FileBatch) -> StateLines:
    """Return the lines of a narrow batch."""
    no_lines = pa.array([], pa.binary())
    paths = raw_paths = keys = no_lines
    if batch.adds is not None:
        raw_paths = pc.cast(batch.adds.column("path"), pa.binary())
        paths = decode_column(batch.adds.column("path"))
        keys = make_key_lines(batch.adds)
    return StateLines(paths, raw_paths, keys, no_lines if batch.removes is None else make_key_lines(batch.removes))


def make_key_lines(rows: pa.RecordBatch) -> pa.Array:
    """Return the raw path and the id of the vector of each file of a narrow batch, as a line."""
    lines = pc.binary_join_element_wise(rows.column("path"), rows.column("dv_id"), "\t")
    return pc.cast(lines, pa.binary())


def _sort_lines(lines: Any, order: Any) -> Any:  # Any: pyarrow has no types
    """Return lines sorted: in an order of other lines if that is theirs as well, which it nearly always is."""
    if order is not None:
        taken = pc.take(lines, order)
        if len(taken) < 2 or pc.all(pc.less_equal(taken.slice(0, len(taken) - 1), taken.slice(1))).as_py():
            return taken
    return pc.take(lines, pc.sort_indices(lines))


class SortedSha256:
    """Takes lines in any order and digests them sorted bytewise, joined by LF, duplicates kept, no final LF.

    Up to 64 MiB of lines are held in memory. More are written to a temporary directory that `close` removes.
    """

    def __init__(self, *, run_bytes: int = _RUN_BYTES) -> None:
        self._run_bytes = run_bytes
        self._held: list[pa.Array] = []
        self._sorted: list[pa.Array] = []
        self._held_bytes = 0
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._runs: list[Path] = []

    def add(self, lines: pa.Array) -> None:
        """Add a string or binary column of lines."""
        if len(lines):
            self._held.append(pc.cast(lines, pa.binary()))
            self._held_bytes += lines.nbytes
            if self._held_bytes >= self._run_bytes:
                self._spill()

    def add_sorted(self, lines: pa.Array) -> None:
        """Add a column of lines that is sorted bytewise already."""
        if len(lines):
            self._sorted.append(pc.cast(lines, pa.large_binary()))
            self._held_bytes += lines.nbytes
            if self._held_bytes >= self._run_bytes:
                self._spill()

    def hexdigest(self) -> str:
        """Return the digest of all lines added, and clear them."""
        digest = hashlib.sha256()
        joint = b""
        try:
            for block in self._sorted_blocks():
                digest.update(joint + _join_lines(block))
                joint = b"\n"
        finally:
            self.close()
        return digest.hexdigest()

    def close(self) -> None:
        """Remove the temporary files."""
        self._held = []
        self._sorted = []
        self._held_bytes = 0
        self._runs = []
        if self._directory is not None:
            self._directory.cleanup()
            tempfiles.forget(Path(self._directory.name))
            self._directory = None

    def _held_blocks(self) -> Iterator[pa.Array]:
        runs = list(self._sorted)
        if self._held:
            lines = pa.concat_arrays([pc.cast(chunk, pa.large_binary()) for chunk in self._held])
            runs.append(pc.take(lines, pc.sort_indices(lines)))
        if len(runs) == 1:
            return _cut_into_blocks(runs[0])
        rows = max(1, _ROWS_MERGED // max(len(runs), 1))
        return _merge([_cut_into_blocks(run, most_rows=rows) for run in runs])

    def _spill(self) -> None:
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="deltacli-digest-")
            tempfiles.remember(Path(self._directory.name))
        path = Path(self._directory.name) / f"run-{len(self._runs)}.arrow"
        schema = pa.schema([("line", pa.large_binary())])
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for block in self._held_blocks():
                writer.write_batch(pa.RecordBatch.from_arrays([block], schema=schema))
        self._runs.append(path)
        self._held = []
        self._sorted = []
        self._held_bytes = 0

    def _sorted_blocks(self) -> Iterator[pa.Array]:

        if not self._runs:
            yield from self._held_blocks()
            return
        if self._held or self._sorted:
            self._spill()
        yield from _merge([_read_run(path) for path in self._runs])


def _cut_into_blocks(lines: Any, *, most_rows: int = _ROWS_A_BLOCK) -> Iterator[Any]:  # Any: pyarrow has no types
    """Yield the lines in blocks of limited bytes and rows."""
    rows = max(1, min(most_rows, _BLOCK_BYTES * len(lines) // max(lines.nbytes, 1)))
    yield from (lines.slice(start, rows) for start in range(0, len(lines), rows))


def _read_run(path: Path) -> Iterator[Any]:  # Any: pyarrow has no types
    with pa.OSFile(str(path), "rb") as source:
        reader = pa.ipc.open_file(source)
        yield from (reader.get_batch(index).column(0) for index in range(reader.num_record_batches))


def _merge(runs: list[Iterator[Any]]) -> Iterator[Any]:
    """Merge sorted runs block by block. All lines up to the smallest block end can be sorted and yielded."""
    heads = {index: block for index, run in enumerate(runs) if (block := next(run, None)) is not None}
    while heads:
        # Any line up to the smallest last line of the blocks is in memory: later blocks of each run are larger.
        bound = min(block[len(block) - 1].as_py() for block in heads.values())
        ready = []
        for index, block in list(heads.items()):
            within = pc.sum(pc.less_equal(block, pa.scalar(bound, pa.large_binary()))).as_py() or 0
            ready.append(block.slice(0, within))
            remaining = block.slice(within)
            following = remaining if len(remaining) else next(runs[index], None)
            if following is None:
                del heads[index]
            else:
                heads[index] = following
        merged = pa.concat_arrays(ready)
        if len(merged):
            yield pc.take(merged, pc.sort_indices(merged))


def _join_lines(lines: ArrowArray) -> bytes:
    single_list = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines)
    joined: bytes = pc.binary_join(single_list, pa.scalar(b"\n", pa.large_binary()))[0].as_py()
    return joined
