"""Read log files as lines of JSON, as `log cat` prints them: commits unchanged, rows of checkpoints encoded."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import RecordBatch
from deltacli.delta.checkpoint.content import SMALL_ACTIONS
from deltacli.delta.encoding.value_text import json_column
from deltacli.delta.log.actions import MAX_LINE_BYTES, kinds_of, line_too_long, stream_actions
from deltacli.delta.log.segment import LOG_DIRECTORY, CheckpointInstance, LogFile
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.storage import ReadStorage
from deltacli.work.checkpoints.parquet_files import (
    open_parquet,
    replace_view_types,
)
from deltacli.work.checkpoints.reading import read_small_actions
from deltacli.work.commits.reading import read_blocks

_SIDECAR = b'"sidecar"'
_FILE_ACTIONS = frozenset({"add", "remove"})
"""The only actions that a sidecar may contain. Spec: Sidecar Files."""

_RAW_ROWS_A_BATCH = 8_192

Kinds = frozenset[str] | None
"""The kinds of action to return; None: everything, unchanged."""


@dataclass(slots=True)
class SkippedLines:
    """Number of lines left out because they cannot be parsed."""

    lines: int = 0


def read_commit_lines(storage: ReadStorage, file: LogFile, kinds: Kinds, unjudged: SkippedLines) -> Iterator[bytes]:
    """Yield a commit of any size in blocks of whole lines: all lines, or the lines of the given kinds."""
    for block in _split_at_line_ends(read_blocks(storage, file), None if kinds is None else file.name):
        chosen = block if kinds is None else _select_lines(block, kinds, unjudged)
        if chosen:
            yield chosen


def read_checkpoint_lines(
    storage: ReadStorage, instance: CheckpointInstance, kinds: Kinds, unjudged: SkippedLines
) -> Iterator[bytes]:
    """Yield a checkpoint in blocks of whole lines, its sidecars last. Raises CheckpointUnreadable, naming the file."""
    sidecars: list[str] = []
    for file in instance.files:
        if file.path.is_json:
            for block in _split_at_line_ends(read_blocks(storage, file), file.name):
                sidecars += _find_sidecars(block)
                chosen = block if kinds is None else _select_lines(block, kinds, unjudged)
                if chosen:
                    yield chosen if chosen.endswith(b"\n") else chosen + b"\n"
        else:
            with open_parquet(storage, f"{LOG_DIRECTORY}/{file.name}") as parquet:
                sidecars += [sidecar_location(action) for _, action in read_small_actions(parquet, ("sidecar",))]
                yield from _read_parquet_lines(parquet, kinds)
    if kinds is None or kinds & _FILE_ACTIONS:
        for path in sidecars:
            with open_parquet(storage, path) as parquet:
                yield from _read_parquet_lines(parquet, kinds)


def _split_at_line_ends(blocks: Iterable[bytes], name: str | None) -> Iterator[bytes]:
    """Split blocks at line ends. A line above the limit is yielded in pieces, or with `name` raises CommitCorrupt."""
    unfinished_line = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield unfinished_line + block[:end]
            unfinished_line = block[end:]
            continue
        # The block is in the middle of a line.
        unfinished_line += block
        if len(unfinished_line) > MAX_LINE_BYTES:
            if name is not None:
                raise line_too_long(name)
            yield unfinished_line
            unfinished_line = b""
    if unfinished_line:
        yield unfinished_line


def _select_lines(block: bytes, kinds: frozenset[str], unjudged: SkippedLines) -> bytes:
    """Return the lines of a block with an action of these kinds, each unchanged, terminated by LF."""
    chosen = []
    for line in io.BytesIO(block):
        result = kinds_of(line)
        if result is None:
            unjudged.lines += 1
        elif not kinds.isdisjoint(result):
            chosen.append(line if line.endswith(b"\n") else line + b"\n")
    return b"".join(chosen)


def _find_sidecars(block: bytes) -> list[str]:
    sidecars = []
    for line in io.BytesIO(block) if _SIDECAR in block else ():
        if _SIDECAR in line:
            try:
                actions = list(stream_actions([line], "line"))
            except CommitCorrupt:
                continue  # written unchanged; its kind cannot be determined
            sidecars += [sidecar_location(action) for kind, action in actions if kind == "sidecar"]
    return sidecars


def _read_parquet_lines(
    parquet: Any, kinds: Kinds
) -> Iterator[bytes]:  # Any: OpenParquet, whose module imports pyarrow
    """Yield the rows of a Parquet file as lines, one row group at a time, in order."""
    names = [name for name in parquet.file.schema_arrow.names if kinds is None or name in kinds]
    for group in range(parquet.file.metadata.num_row_groups):
        wanted = [name for name in names if _may_hold(parquet.columns, group, name)]
        if wanted:
            for batch in parquet.batches(group, wanted, rows=_RAW_ROWS_A_BATCH):
                lines = _encode_rows(batch)
                if lines:
                    yield lines


def _may_hold(columns: Any, group: int, kind: str) -> bool:  # Any: CheckpointColumns
    """Return False if the footer proves that no row of a row group is an action of this kind."""
    leaf = "path" if kind in _FILE_ACTIONS else SMALL_ACTIONS.get(kind)
    # A missing leaf may be a fault of the writer. The rest of the action is still shown.
    return leaf is None or not columns.has(f"{kind}.{leaf}") or bool(columns.holds(group, f"{kind}.{leaf}"))


def _encode_rows(batch: RecordBatch) -> bytes:
    """Return the rows of a batch as `{"add":{…}}`, without null fields. Rows without any action are skipped."""
    batch.validate(full=True)  # invalid UTF-8 would reach the output
    columns = [
        pc.cast(column, replace_view_types(column.type)) if "_view" in str(column.type) else column
        for column in batch.columns
    ]
    rows = pa.StructArray.from_arrays(columns, names=batch.schema.names)
    present = reduce(pc.or_, [pc.is_valid(column) for column in columns])
    if present.true_count < len(rows):
        rows = pc.filter(rows, present)
    if len(rows) == 0:
        return b""
    lines = pc.binary_join_element_wise(json_column(rows), "\n", "")
    first, last = memoryview(lines.buffers()[1]).cast("i")[lines.offset : lines.offset + len(lines) + 1 : len(lines)]
    return bytes(memoryview(lines.buffers()[2])[first:last])
