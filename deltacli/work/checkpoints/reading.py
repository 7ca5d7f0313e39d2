"""Open checkpoints, read their small actions as values, and plan the row groups that have file actions.

Spec: Checkpoint Schema.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import CheckpointUnreadable, CommitCorrupt
from deltacli.delta.checkpoint.content import SMALL_ACTIONS
from deltacli.delta.log.actions import Action, read_actions, take_whole_numbers
from deltacli.delta.log.segment import LOG_DIRECTORY, CheckpointInstance, LogFile
from deltacli.delta.paths.spelling import sidecar_location
from deltacli.storage import ReadStorage
from deltacli.work.checkpoints.parquet_files import (
    CheckpointPiece,
    OpenParquet,
    checkpoint_faults,
    open_parquet,
    require_struct,
)
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext, light

MAX_JSON_BYTES = 256 << 20
"""Most bytes of a JSON checkpoint, which takes six times its size in memory: writers put file actions into sidecars."""


class CheckpointContents(NamedTuple):
    """The contents of an opened checkpoint.

    Holds its small actions, file actions read from JSON, the row groups with file actions in its own Parquet files, and
    the sidecars with the remaining file actions.
    """

    small: list[tuple[str, Action]]
    json_actions: list[tuple[str, Action]]
    pieces: list[CheckpointPiece]
    sidecars: tuple[str, ...]

    @property
    def is_v2(self) -> bool:
        return any(kind in ("checkpointMetadata", "sidecar") for kind, _ in self.small)


def open_checkpoint(stores: TableStores, instance: CheckpointInstance) -> CheckpointContents:
    """Open a checkpoint without its sidecars, and read its small actions. Raises CheckpointUnreadable."""
    contents = CheckpointContents([], [], [], ())
    for file in instance.files:
        path = f"{LOG_DIRECTORY}/{file.name}"
        if file.path.is_json:
            actions = _read_json_checkpoint(stores.storage, path, file)
            contents.small.extend((kind, action) for kind, action in actions if kind in SMALL_ACTIONS)
            contents.json_actions.extend((kind, action) for kind, action in actions if kind in ("add", "remove"))
        else:
            with open_parquet(stores.storage, path) as parquet:
                contents.small.extend(read_small_actions(parquet))
                contents.pieces.extend(_plan_pieces(parquet, stores))

    # A checkpoint without them describes no table, whatever file actions it has.
    kinds = {kind for kind, _ in contents.small}
    for needed, rule in (("protocol", "checkpoint.no-protocol"), ("metaData", "checkpoint.no-metadata")):
        if needed not in kinds:
            first = f"{LOG_DIRECTORY}/{instance.files[0].name}"
            raise CheckpointUnreadable(f"{first} has no {needed} action", code=rule, facts={"file": first})
    return contents._replace(
        sidecars=tuple(sidecar_location(action) for kind, action in contents.small if kind == "sidecar")
    )


def _read_json_checkpoint(storage: ReadStorage, path: str, file: LogFile) -> list[tuple[str, Action]]:
    if file.size_bytes > MAX_JSON_BYTES:
        raise CheckpointUnreadable(
            f"{path} is a JSON checkpoint of more than {MAX_JSON_BYTES >> 20} MiB",
            facts={"file": path, "size": f"{file.size_bytes} bytes"},
        )
    with checkpoint_faults(path):
        try:
            return read_actions(storage.read(path), file.name)
        except CommitCorrupt as corrupt:
            raise CheckpointUnreadable(corrupt.message, facts=corrupt.facts) from corrupt


def read_small_actions(parquet: OpenParquet, kinds: Iterable[str] = SMALL_ACTIONS) -> Iterator[tuple[str, Action]]:
    """Yield the protocol, metaData, txn, domainMetadata, sidecar and checkpointMetadata rows.

    Row groups whose footer proves that they have none are not read.
    """
    columns = parquet.columns
    for group in range(parquet.file.metadata.num_row_groups):
        held = {kind: leaf for kind in kinds if columns.holds(group, leaf := f"{kind}.{SMALL_ACTIONS[kind]}")}
        if held:
            rows = parquet.choose_rows_per_batch(group, [*held, *held.values()])
            yield from _read_row_group(parquet, group, held, rows)


def _read_row_group(
    parquet: OpenParquet, group: int, held: Mapping[str, str], rows: int
) -> Iterator[tuple[str, Action]]:
    """Yield the rows of small actions in one row group whose columns have been measured, one kind after the other.

    Where the footer does not say whether there are rows, the leaves that show it are read first. Whole structs are read
    only if there are some.
    """
    absent = {kind for kind, leaf in held.items() if not parquet.columns.knows(group, leaf)}
    if absent:
        for batch in parquet.read_measured_batches(group, [held[kind] for kind in held if kind in absent], rows):
            absent -= {
                kind
                for kind in absent
                if require_struct(batch.column(kind), parquet.path).flatten()[0].null_count < batch.num_rows
            }
    actions_by_kind: dict[str, list[Action]] = {kind: [] for kind in held if kind not in absent}
    if actions_by_kind:
        for batch in parquet.read_measured_batches(group, [*actions_by_kind], rows):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # for a duplicate key in a map, the last one counts
                for kind, actions in actions_by_kind.items():
                    column = require_struct(batch.column(kind), parquet.path)
                    actions += pc.filter(column, pc.is_valid(column)).to_pylist(maps_as_pydicts="lossy")
    for kind, actions in actions_by_kind.items():
        for action in actions:
            take_whole_numbers(kind, action)
            yield kind, action


@light
def plan_checkpoint_pieces(path: str, context: TaskContext) -> list[CheckpointPiece]:
    """Return the row groups of a file that may contain file actions. A task. Raises CheckpointUnreadable."""
    with open_parquet(context.storage, path) as parquet:
        return _plan_pieces(parquet, context.stores)


def _plan_pieces(parquet: OpenParquet, stores: TableStores) -> list[CheckpointPiece]:
    stores.footers.put(parquet.path, parquet.tag, parquet.file.metadata)
    groups = (group for group in parquet.columns.row_groups() if group.has_adds or group.has_removes)
    is_parsed = parquet.columns.has("add.stats_parsed")
    return [CheckpointPiece(parquet.path, group, parquet.tag, is_parsed) for group in groups]
