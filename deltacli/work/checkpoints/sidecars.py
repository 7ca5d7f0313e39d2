"""Turn file actions into rows of a checkpoint, and write them as sidecars.

Spec: Action Reconciliation; V2 Spec; Sidecar Files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError
from deltacli.core.typing import ArrowArray
from deltacli.delta.checkpoint.content import (
    Columns,
    checkpoint_schema,
    parsed_columns,
    struct_of_actions,
)
from deltacli.delta.checkpoint.layout import sidecar_name, sidecar_path
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import FileBatch, find_unexpired_tombstones
from deltacli.delta.log.state import TableConfiguration
from deltacli.storage import Storage
from deltacli.work.checkpoints.encoding import EncodedFile, FileEncoder
from deltacli.work.checkpoints.full_rows import read_all_full_actions
from deltacli.work.checkpoints.parquet_files import CheckpointPiece
from deltacli.work.checkpoints.verifying import publish_unique_file, require_proven_draft
from deltacli.work.parquet_encoding import Encoding
from deltacli.work.task import TaskContext

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


FILE_KINDS = ("add", "remove")
SIDECARS_A_PIECE = 4
"""A piece fills as many sidecars; only its last one may be smaller than the limit.

One sidecar per piece would make many small ones, because row groups rarely add up to the limit.
"""

Prove = Callable[[str, str, EncodedFile], None]
"""Gets the place and the path of a draft, and what was encoded. Raises StorageFailed unless that is its content."""


@dataclass
class RowBatch:
    """File actions as structs of the checkpoint, and their totals."""

    actions: dict[str, ArrowArray] = field(default_factory=dict)
    add_bytes: int = 0
    expired: int = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self.actions.values()))


@dataclass(frozen=True)
class RowConverter:
    """Converts file actions to rows of a checkpoint. Tombstones with a time before `cutoff_ms` (epoch milliseconds) are
    dropped, unless they `are_young` (`find_unexpired_tombstones`).
    """

    columns: Columns
    config: TableConfiguration
    cutoff_ms: int
    are_young: bool = False

    def __call__(self, batch: FileBatch) -> RowBatch:
        """Return live files and unexpired tombstones. Runs in the reading threads."""
        types = {field.name: field.type for field in checkpoint_schema(self.columns, kinds=FILE_KINDS)}
        row_batch = RowBatch()
        if batch.removes is not None:
            times = batch.removes.column("deletionTimestamp")
            unexpired_removes = batch.removes.filter(
                find_unexpired_tombstones(times, self.cutoff_ms, are_young=self.are_young)
            )
            row_batch.expired = batch.removes.num_rows - unexpired_removes.num_rows
            if unexpired_removes.num_rows:
                row_batch.actions["remove"] = struct_of_actions(unexpired_removes, types["remove"], {})
        if batch.adds is not None and batch.adds.num_rows:
            adds = batch.adds
            extra = parsed_columns(adds, self.config, self.columns.partition_values, self.columns.stats)
            row_batch.actions["add"] = struct_of_actions(adds, types["add"], extra)
            row_batch.add_bytes = pc.sum(adds.column("size")).as_py() or 0
        return row_batch


@dataclass(frozen=True, slots=True)
class WrittenSidecar:
    """A published sidecar: `actions` counts those of each kind."""

    name: str
    size_bytes: int
    modified_ms: int
    actions: Mapping[str, int]

    @property
    def path(self) -> str:
        """Below the table."""
        return sidecar_path(self.name)

    @property
    def rows(self) -> int:
        return sum(self.actions.values())

    def make_action(self) -> Action:
        """Return the action that references it."""
        return {"path": self.name, "sizeInBytes": self.size_bytes, "modificationTime": self.modified_ms}


@dataclass(frozen=True, slots=True)
class SidecarPiece:
    """Row groups whose file actions become sidecars, numbered from `first_number`."""

    first_number: int
    groups: tuple[CheckpointPiece, ...]

    @property
    def rows(self) -> int:
        """Return the number of rows of the row groups, including those that are not written."""
        return sum(piece.group.rows for piece in self.groups)


@dataclass(frozen=True, slots=True)
class WrittenPiece:
    """The sidecars of a piece, the total size of its live files, and its expired tombstones."""

    sidecars: tuple[WrittenSidecar, ...]
    add_bytes: int
    expired: int


def plan_sidecar_pieces(groups: Sequence[CheckpointPiece], most_rows: int) -> list[tuple[CheckpointPiece, ...]]:
    """Divide row groups, in their order, into pieces of similar size for sidecars of at most this many rows.

    Returns none where they fit into one piece: they are written together with the rows of newer commits, which would
    otherwise need a sidecar of their own.
    """
    # A row group belongs to the piece in which its middle lies:
    #
    #     row groups   |--- 0 ---|------ 1 ------|-- 2 --|---- 3 ----|
    #     pieces       |---------- 0 ----------|---------- 1 --------|       0 and 1, 2 and 3
    total = max(1, sum(piece.group.rows for piece in groups))
    count = -(-total // (SIDECARS_A_PIECE * most_rows))
    groups_by_piece: dict[int, list[CheckpointPiece]] = {}
    before = 0
    for piece in groups:
        middle = before + piece.group.rows / 2
        groups_by_piece.setdefault(int(middle * count / total), []).append(piece)
        before += piece.group.rows
    return [tuple(piece_groups) for piece_groups in groups_by_piece.values()] if len(groups_by_piece) > 1 else []


@dataclass(frozen=True)
class SidecarWriter:
    """Encodes, proves and publishes sidecars of at most `most_rows` rows. `unique` makes their names unique."""

    storage: Storage
    version: int
    unique: str
    schema: pyarrow.Schema
    encoding: Encoding
    most_rows: int
    prove: Prove = require_proven_draft

    def write(self, batches: Iterator[RowBatch], number: int) -> Iterator[WrittenSidecar]:
        """Publish and yield the sidecars of some rows, numbered from `number`. If one fails, its file is deleted."""
        queue = _ActionQueue(_cut_actions(batches, self.most_rows))
        while queue:
            yield self._write_one(queue, sidecar_name(self.version, number, self.unique))
            number += 1

    def _write_one(self, queue: _ActionQueue, name: str) -> WrittenSidecar:
        path = sidecar_path(name)
        with self.storage.draft(path) as draft:
            with FileEncoder(draft.local_path, self.schema, self.encoding, name=path) as encoder:
                while queue and encoder.rows < self.most_rows:
                    encoder.add(*queue.take(self.most_rows - encoder.rows))
                encoded = encoder.finish()
            self.prove(draft.local_path, path, encoded)
            # A draft is proven before it is published: readers may use a sidecar as soon as the checkpoint names it.
            try:
                published = publish_unique_file(self.storage, draft, path, encoded.size_bytes)
            except BaseException:
                delete_sidecars(self.storage, [path])
                raise
        return WrittenSidecar(name, encoded.size_bytes, published.modified_ms, encoded.actions)


@dataclass(frozen=True, slots=True)
class WriteSidecars:
    """Writes the live files and unexpired tombstones of some row groups as sidecars of at most `most_rows` rows.

    Newer commits have not decided them (shared `touched`). The shared `converter` makes their rows. The names of the
    files are unique to the attempt; an attempt that fails deletes its files.
    """

    version: int
    unique: str
    encoding: Encoding
    most_rows: int

    def __call__(self, piece: SidecarPiece, context: TaskContext) -> WrittenPiece:
        """Write the sidecars. Raises CheckpointUnreadable and what writing a file raises."""
        converter: RowConverter = context.shared("converter")
        writer = SidecarWriter(
            context.storage,
            self.version,
            f"{self.unique}.{context.attempt}",
            checkpoint_schema(converter.columns, kinds=FILE_KINDS),
            self.encoding,
            self.most_rows,
        )
        totals = RowBatch()
        written: list[WrittenSidecar] = []
        try:
            for sidecar in writer.write(_read_rows(piece, context, converter, totals), piece.first_number):
                written.append(sidecar)
        except BaseException:
            delete_sidecars(context.storage, (sidecar.path for sidecar in written))
            raise
        return WrittenPiece(tuple(written), totals.add_bytes, totals.expired)


def weigh_sidecar_piece(piece: SidecarPiece) -> int:
    """Return the relative cost of a piece."""
    return piece.rows


def delete_sidecars(storage: Storage, paths: Iterable[str]) -> None:
    """Delete sidecars that no file references, as far as the store allows it."""
    with suppress(DeltacliError):
        for _ in storage.delete_many(paths):
            pass


def _read_rows(
    piece: SidecarPiece, context: TaskContext, converter: RowConverter, totals: RowBatch
) -> Iterator[RowBatch]:
    for group in piece.groups:
        for batch in read_all_full_actions(context.stores, group, context.shared("touched")):
            # Nobody would delete the sidecars of a task that goes on after the run has ended.
            if context.is_cancelled():
                raise CancelledError
            rows = converter(batch)
            totals.add_bytes += rows.add_bytes
            totals.expired += rows.expired
            yield rows


def _cut_actions(batches: Iterator[RowBatch], most: int) -> Iterator[tuple[str, ArrowArray]]:
    """Yield actions of one kind, at most this many at a time."""
    for batch in batches:
        for kind, actions in batch.actions.items():
            yield from ((kind, actions.slice(start, most)) for start in range(0, len(actions), most))


class _ActionQueue:
    """Actions of one kind, taken in pieces of any size. False when there are no more."""

    def __init__(self, pieces: Iterator[tuple[str, ArrowArray]]) -> None:
        self._remaining = pieces
        self._next = next(pieces, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def take(self, most: int) -> tuple[str, Any]:
        """Take at most this many actions."""
        assert self._next is not None
        kind, actions = self._next
        left = actions.slice(most)
        self._next = (kind, left) if len(left) else next(self._remaining, None)
        return kind, actions.slice(0, most)
