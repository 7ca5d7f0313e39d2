"""Write the file actions of a checkpoint to an output directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltacli.delta.log.file_actions import action_schemas
from deltacli.work.checkpoints.full_rows import read_full_actions
from deltacli.work.checkpoints.parquet_files import CheckpointPiece
from deltacli.work.outputs.output_files import OutputFile, OutputTarget, write_batches
from deltacli.work.task import TaskContext

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
        return (_TYPE, *list_action_fields(self.kinds)) if self.fields is None else self.fields

    def schema(self) -> pa.Schema:
        types = {field.name: field.type for kind in self.kinds for field in _get_action_schema(kind)}
        return pa.schema([(name, types.get(name, pa.string())) for name in self.names])

    def of(self, kind: str, actions: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of actions; fields that their kind does not have are null."""
        schema = self.schema()
        names = actions.schema.names
        columns = []
        for field in schema:
            if field.name in names:
                columns.append(actions.column(field.name))
            elif field.name == _TYPE:
                columns.append(pa.repeat(kind, actions.num_rows))
            else:
                columns.append(pa.nulls(actions.num_rows, field.type))
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
                for batch in read_full_actions(context.stores, group, touched, kind, self.columns.fields):
                    yield self.columns.of(kind, batch)


def plan_action_pieces(groups: Iterable[CheckpointPiece], first: int) -> Iterator[ActionsPiece]:
    """Yield pieces of consecutive row groups, numbered from `first` on."""
    held: list[CheckpointPiece] = []
    for group in groups:
        held.append(group)
        if sum(piece.group.rows for piece in held) >= _ROWS_PER_PIECE:
            yield ActionsPiece(first, tuple(held))
            held = []
            first = first + 1
    if held:
        yield ActionsPiece(first, tuple(held))


def list_action_fields(kinds: Sequence[str]) -> dict[str, None]:
    """Return the fields of actions of these kinds, in order, each once."""
    return dict.fromkeys(field.name for kind in kinds for field in _get_action_schema(kind))


def _get_action_schema(kind: str) -> pa.Schema:
    schemas = action_schemas()
    return schemas.add if kind == "add" else schemas.remove
