"""Write the files of an output directory: rows of data files, and file actions of checkpoints.

Every attempt of a piece writes other files, and the driver deletes those that are not in its list. An attempt that a
cluster has lost may still run after that. The run therefore holds a claim file in the directory and deletes it before
it looks for such files. An attempt that does not find the claim of its run after it has published a file deletes the
file again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import pyarrow as pa

from deltacli.arrow.batches import limit_rows
from deltacli.core.errors import FileMissing, StorageFailed
from deltacli.delta.log.file_actions import action_schemas
from deltacli.storage import Created, Draft, Existed, Failed, ReadStorage, Storage, Unknown
from deltacli.storage.os_errors import translate_write_errors
from deltacli.work.checkpoints.reading import CheckpointPiece, read_whole
from deltacli.work.parquet_writing import ParquetStream
from deltacli.work.rows.data_files import DataFile, ReadSpec, open_data_file, require_valid_values
from deltacli.work.rows.row_reader import read_opened, read_rows
from deltacli.work.task import TableFiles, TaskContext

# -- the files of a directory ------------------------------------------------------------------------------------------

CLAIM = "_deltacli_writing"
"""The file that marks a directory as being written; it contains the id of the run. Readers ignore names with `_`."""

_MOST_FILE_BYTES = 1 << 30
"""A larger file is continued in another one: object stores limit the size of one upload, and disks the drafts."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A written file of an output directory."""

    name: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """A directory that one run writes: its URI, and the id of the run, which is part of the names of its files."""

    uri: str
    run: str

    def file_name(self, number: int, attempt: str, part: int) -> str:
        """Return the name of a file that an attempt of piece `number` writes; `part` counts its files."""
        return f"part-{number:05}-{self.run}-{attempt}{f'-{part}' if part else ''}.parquet"

    def owns(self, name: str) -> bool:
        """Return whether a name is that of a file that an attempt of this run has written."""
        return re.fullmatch(rf"part-\d{{5,}}-{self.run}-[0-9a-f]{{32}}(-\d+)?\.parquet", name) is not None

    def is_claimed(self, storage: ReadStorage) -> bool:
        """Return whether the directory has the claim of this run."""
        try:
            return storage.read(CLAIM) == self.run.encode()
        except FileMissing:
            return False


def write_batches(
    context: TaskContext,
    target: OutputTarget,
    number: int,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    *,
    limit: int | None = None,
    is_needed: bool = False,
) -> tuple[OutputFile, ...]:
    """Write up to `limit` rows to files of the target, and return the files; no rows are a file only if `is_needed`.

    Raises StorageFailed, Unreadable for values that are not of their type, and what the batches raise.
    """
    storage = context.stores.other(target.uri)
    remaining = (batch for batch in limit_rows(batches, limit) if batch.num_rows)
    written: list[OutputFile] = []
    batch = next(remaining, None)
    while batch is not None or (is_needed and not written):
        name = target.file_name(number, context.attempt, len(written))
        rows = remaining if batch is None else chain([batch], remaining)
        written.append(_write_file(storage, target, name, schema, rows))
        batch = next(remaining, None)
    return tuple(written)


def _write_file(
    storage: Storage, target: OutputTarget, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> OutputFile:
    """Write batches to one file up to its largest size, and publish it."""
    with storage.draft(name) as draft:
        file = _encode(draft, name, schema, batches)
        _require_claim(storage, target)
        _publish(storage, draft, file)
    try:
        _require_claim(storage, target)
    except StorageFailed as fault:
        for _, outcome in storage.delete_many([name]):
            if isinstance(outcome, Failed):
                fault.facts["left behind"] = name
        raise
    return file


def _encode(draft: Draft, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> OutputFile:
    with (
        translate_write_errors(draft.local_path, name),
        open(draft.local_path, "wb") as sink,
        ParquetStream(sink, schema) as stream,
    ):
        for batch in batches:
            require_valid_values(batch)
            stream.add(batch)
            if stream.size_bytes >= _MOST_FILE_BYTES:
                break
    return OutputFile(name, stream.rows, stream.size_bytes)


def _require_claim(storage: ReadStorage, target: OutputTarget) -> None:
    if not target.is_claimed(storage):
        raise StorageFailed(
            f"{target.uri} is no longer written by this run", code="output.run-ended", facts={"missing": CLAIM}
        )


def _publish(storage: ReadStorage, draft: Draft, file: OutputFile) -> None:
    """Publish a draft under a name that no other attempt uses. Raises StorageFailed."""
    match draft.publish():
        case Created():
            return
        case Existed():
            cause = "the name exists"  # the reply to an earlier request of this attempt was lost
        case Unknown(cause):
            pass
    try:
        size = storage.stat(file.name).size_bytes
    except FileMissing as fault:
        raise StorageFailed(f"{file.name} was not written", facts={"why": cause}) from fault
    if size != file.size_bytes:
        raise StorageFailed(f"{file.name} has {size} bytes, expected {file.size_bytes}", facts={"why": cause})


# -- file actions of checkpoints ---------------------------------------------------------------------------------------

_ROWS_PER_PIECE = 200_000
"""Rows of a checkpoint per piece: about half a second of reading and writing."""
_TYPE = "type"


@dataclass(frozen=True, slots=True)
class ActionColumns:
    """The kinds of actions to write (`add`, `remove`), and their fields (None: `type`, then all fields)."""

    kinds: tuple[str, ...]
    fields: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (_TYPE, *fields_of(self.kinds)) if self.fields is None else self.fields

    def schema(self) -> pa.Schema:
        types = {field.name: field.type for kind in self.kinds for field in _schema_of(kind)}
        return pa.schema([(name, types.get(name, pa.string())) for name in self.names])

    def of(self, kind: str, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of actions; fields that their kind does not have are null."""
        schema, names = self.schema(), actions.schema.names
        columns = [
            actions.column(field.name)
            if field.name in names
            else pa.repeat(kind, actions.num_rows)
            if field.name == _TYPE
            else pa.nulls(actions.num_rows, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class ActionsPiece:
    """Row groups of a checkpoint whose actions are written together, at most `limit` of them (None: all)."""

    number: int
    groups: tuple[CheckpointPiece, ...]
    limit: int | None = None

    @property
    def amount(self) -> int:
        return sum(piece.group.rows for piece in self.groups)

    @property
    def weight(self) -> int:
        return self.amount


@dataclass(frozen=True, slots=True)
class WriteActions:
    """Writes the actions of a piece that newer commits have not decided (shared `touched`), and returns the files."""

    target: OutputTarget
    columns: ActionColumns

    def __call__(self, piece: ActionsPiece, context: TaskContext) -> tuple[OutputFile, ...]:
        """Return the files, none without actions. Raises CheckpointUnreadable, StorageFailed."""
        batches = self._batches(piece, context)
        return write_batches(context, self.target, piece.number, self.columns.schema(), batches, limit=piece.limit)

    def _batches(self, piece: ActionsPiece, context: TaskContext) -> Iterator[pa.RecordBatch]:
        touched = context.shared("touched")
        for kind in self.columns.kinds:
            for group in piece.groups:
                for batch in read_whole(context.stores, group, touched, kind, self.columns.fields):
                    yield self.columns.of(kind, batch)


def plan_action_pieces(groups: Iterable[CheckpointPiece], first: int) -> Iterator[ActionsPiece]:
    """Yield pieces of consecutive row groups, numbered from `first` on."""
    held: list[CheckpointPiece] = []
    for group in groups:
        held.append(group)
        if sum(piece.group.rows for piece in held) >= _ROWS_PER_PIECE:
            yield ActionsPiece(first, tuple(held))
            held, first = [], first + 1
    if held:
        yield ActionsPiece(first, tuple(held))


def fields_of(kinds: Sequence[str]) -> dict[str, None]:
    """Return the fields of actions of these kinds, in order, each once."""
    return dict.fromkeys(field.name for kind in kinds for field in _schema_of(kind))


def _schema_of(kind: str) -> pa.Schema:
    schemas = action_schemas()
    return schemas.add if kind == "add" else schemas.remove


# -- rows of data files ------------------------------------------------------------------------------------------------

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
        return sum(map(_weight_of, self.files)) // self.part[1]


@dataclass(frozen=True, slots=True)
class WriteRows:
    """Writes the rows of a piece as the shared `spec` describes them, and returns the files."""

    target: OutputTarget

    def __call__(self, piece: RowsPiece, context: TaskContext) -> tuple[OutputFile, ...]:
        """Return the files, none without rows. Raises DataUnreadable, StorageFailed."""
        spec: ReadSpec = context.shared("spec")
        rows = rows_of_piece(context.files, spec, piece)
        return write_batches(context, self.target, piece.number, spec.schema, rows, limit=piece.limit)


def plan_row_pieces(files: Iterable[DataFile]) -> Iterator[RowsPiece]:
    """Yield pieces of similar weight, in the order of the files. A large file is split without reading its footer."""
    remaining, first, total = iter(files), list[DataFile](), 0
    for file in remaining:
        first.append(file)
        total += _weight_of(file)
        if total >= _FEW_PIECES * PIECE_WEIGHT:
            break
    most = min(max(total // _FEW_PIECES, _LEAST_WEIGHT), PIECE_WEIGHT)
    numbers = count()
    for group in _groups(chain(first, remaining), most):
        parts = min(_weight_of(group[0]) // most, _MOST_PARTS) if len(group) == 1 else 1
        yield from (RowsPiece(next(numbers), group, (part, max(parts, 1))) for part in range(max(parts, 1)))


def _groups(files: Iterable[DataFile], most: int) -> Iterator[tuple[DataFile, ...]]:
    """Yield consecutive files that together weigh at most `most`, or a single file."""
    group: list[DataFile] = []
    held = 0
    for file in files:
        weight = _weight_of(file)
        if group and held + weight > most:
            yield tuple(group)
            group, held = [], 0
        group.append(file)
        held += weight
    if group:
        yield tuple(group)


def _weight_of(file: DataFile) -> int:
    return max(file.size_bytes or 0, 0) + _FILE_WEIGHT


def rows_of_piece(files: TableFiles, spec: ReadSpec, piece: RowsPiece) -> Iterator[pa.RecordBatch]:
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
