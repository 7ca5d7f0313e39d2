"""Read checkpoints as lines of JSON, as `log cat` prints them: rows of Parquet files are encoded, JSON is unchanged."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CommitCorrupt
from deltacli.core.typing import RecordBatch
from deltacli.delta.checkpoint.content import SMALL_ACTIONS
from deltacli.delta.encoding.value_text import json_column
from deltacli.delta.log.actions import stream_actions
from deltacli.delta.log.segment import LOG_DIRECTORY, CheckpointInstance
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.storage import ReadStorage
from deltacli.work.checkpoints.parquet_files import open_parquet, replace_view_types
from deltacli.work.checkpoints.reading import read_small_actions
from deltacli.work.commits.raw_lines import Kinds, SkippedLines, select_lines, split_at_line_ends
from deltacli.work.commits.reading import read_blocks

_SIDECAR = b'"sidecar"'
_FILE_ACTIONS = frozenset({"add", "remove"})
"""The only actions that a sidecar may contain. Spec: Sidecar Files."""

_RAW_ROWS_A_BATCH = 8_192


def read_checkpoint_lines(
    storage: ReadStorage, instance: CheckpointInstance, kinds: Kinds, unjudged: SkippedLines
) -> Iterator[bytes]:
    """Yield a checkpoint in blocks of whole lines, its sidecars last. Raises CheckpointUnreadable, naming the file."""
    sidecars: list[str] = []
    for file in instance.files:
        if file.path.is_json:
            for block in split_at_line_ends(read_blocks(storage, file), file.name):
                sidecars += _find_sidecars(block)
                chosen = block if kinds is None else select_lines(block, kinds, unjudged)
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
