"""File actions of a state as rows of a checkpoint: read with all their fields, and converted to its columns.

Spec: Checkpoints; Action Reconciliation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltacli.arrow import compute as pc
from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, struct_of_actions
from deltacli.delta.checkpoint.expired_actions import unexpired
from deltacli.delta.checkpoint.parsed import parsed_columns
from deltacli.delta.log.file_actions import FileBatch
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.typing import ArrowArray

FILE_KINDS = ("add", "remove")


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
    dropped.
    """

    columns: Columns
    config: TableConfiguration
    cutoff_ms: int

    def __call__(self, batch: FileBatch) -> RowBatch:
        """Return live files and unexpired tombstones. Runs in the reading threads."""
        types = {field.name: field.type for field in checkpoint_schema(self.columns, kinds=FILE_KINDS)}
        found = RowBatch()
        if batch.removes is not None:
            kept = unexpired(batch.removes, self.cutoff_ms)
            found.expired = batch.removes.num_rows - kept.num_rows
            if kept.num_rows:
                found.actions["remove"] = struct_of_actions(kept, types["remove"], {})
        if batch.adds is not None and batch.adds.num_rows:
            adds = batch.adds
            extra = parsed_columns(adds, self.config, self.columns.partition_values, self.columns.stats)
            found.actions["add"] = struct_of_actions(adds, types["add"], extra)
            found.add_bytes = pc.sum(adds.column("size")).as_py() or 0
        return found
