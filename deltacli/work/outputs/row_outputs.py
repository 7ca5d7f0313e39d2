"""Write the rows of data files to an output directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count

import pyarrow as pa

from deltacli.work.outputs.output_files import OutputFile, OutputTarget, write_batches
from deltacli.work.rows.data_files import DataFile, ReadSpec, open_data_file
from deltacli.work.rows.row_reader import read_opened, read_rows
from deltacli.work.table_files import TableFiles
from deltacli.work.task import TaskContext

PIECE_WEIGHT = 64 << 20
"""Bytes of data files per piece: about a second of reading and writing, and files of a useful size."""
_LEAST_WEIGHT = 8 << 20
"""The same for small tables: about 0.2 s, so that all threads are used."""
_FEW_PIECES = 8
"""Below this many whole pieces a table is small."""
_FILE_WEIGHT = 256 << 10
"""What opening a file costs, in bytes; with it, a piece has at most 256 small files."""
_MOST_PARTS = 1_024
"""Maximum number of pieces of one file, because the log may state any size."""


@dataclass(frozen=True, slots=True)
class RowsPiece:
    """Data files whose rows are written together. `part` (index, number of parts) selects row groups of a single file.

    At most `limit` rows are written (None: all).
    """

    number: int
    files: tuple[DataFile, ...]
    part: tuple[int, int] = (0, 1)
    limit: int | None = None

    @property
    def amount(self) -> int:
        """The number of files that are finished with this piece, for progress."""
        return 0 if self.part[0] else len(self.files)

    @property
    def weight(self) -> int:
        return sum(map(_weigh_file, self.files)) // self.part[1]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes the rows of a piece as the shared `spec` describes them, and returns the files."""

    target: OutputTarget

    def __call__(self, piece: RowsPiece, context: TaskContext) -> tuple[OutputFile, ...]:
        """Return the files, none without rows. Raises DataUnreadable, StorageFailed."""
        spec: ReadSpec = context.shared("spec")
        rows = read_piece_rows(context.files, spec, piece)
        return write_batches(context, self.target, piece.number, spec.schema, rows, limit=piece.limit)


def plan_row_pieces(files: Iterable[DataFile]) -> Iterator[RowsPiece]:
    """Yield pieces of similar weight, in the order of the files. A large file is split without reading its footer."""
    remaining = iter(files)
    first = list[DataFile]()
    total = 0
    for file in remaining:
        first.append(file)
        total += _weigh_file(file)
        if total >= _FEW_PIECES * PIECE_WEIGHT:
            break
    # Small tables are divided further, so that all threads have something to do.
    most = min(max(total // _FEW_PIECES, _LEAST_WEIGHT), PIECE_WEIGHT)
    numbers = count()
    for group in _group_files(chain(first, remaining), most):
        parts = min(_weigh_file(group[0]) // most, _MOST_PARTS) if len(group) == 1 else 1
        yield from (RowsPiece(next(numbers), group, (part, max(parts, 1))) for part in range(max(parts, 1)))


def _group_files(files: Iterable[DataFile], most: int) -> Iterator[tuple[DataFile, ...]]:
    """Yield consecutive files that together weigh at most `most`, or a single file."""
    group: list[DataFile] = []
    held = 0
    for file in files:
        weight = _weigh_file(file)
        if group and held + weight > most:
            yield tuple(group)
            group = []
            held = 0
        group.append(file)
        held += weight
    if group:
        yield tuple(group)


def _weigh_file(file: DataFile) -> int:
    return max(file.size_bytes or 0, 0) + _FILE_WEIGHT


def read_piece_rows(files: TableFiles, spec: ReadSpec, piece: RowsPiece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece, without its limit. Raises DataUnreadable as `read_rows` does."""
    part, parts = piece.part
    if parts == 1:
        for file in piece.files:
            yield from read_rows(files, spec, file)
        return
    (file,) = piece.files
    with open_data_file(files, file) as opened:
        metadata = opened.parquet.metadata
        groups = range(metadata.num_row_groups)
        chosen = tuple(group for group in groups if group * parts // len(groups) == part)
        yield from read_opened(files, spec, replace(file, groups=chosen, metadata=metadata), opened)
