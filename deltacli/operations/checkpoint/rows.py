"""The rows of a checkpoint of one state: its small actions, and its file actions in batches.

Spec: Checkpoints; Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deltacli.arrow import compute as pc
from deltacli.delta.checkpoint.content import Columns, checkpoint_schema, struct_of_actions
from deltacli.delta.checkpoint.parsed import parsed_columns
from deltacli.delta.checkpoint.retention import live_transactions, tombstone_cutoff, unexpired
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.operations.table.version import Snapshot
from deltacli.work.checkpoints.reading import FileBatch

FILE_KINDS = ("add", "remove")


@dataclass
class RowBatch:
    """File actions as structs of the checkpoint, and their totals."""

    actions: dict[str, Any] = field(default_factory=dict)  # Any: struct arrays
    add_bytes: int = 0
    expired: int = 0


class StateRows:
    """The content of a checkpoint of a state. `expired` and `add_bytes` are set once `batches` is exhausted."""

    def __init__(self, snapshot: Snapshot, columns: Columns, config: TableConfiguration, now_ms: int) -> None:
        self._snapshot = snapshot
        self._columns = columns
        self._config = config
        self._now_ms = now_ms
        self._cutoff_ms = tombstone_cutoff(snapshot.properties, now_ms)
        self.expired = 0
        self.add_bytes = 0

    def small(self) -> list[tuple[str, Action]]:
        """Return protocol, metadata, unexpired transactions and domains, in this order."""
        snapshot = self._snapshot
        actions: list[tuple[str, Action]] = [
            ("protocol", snapshot.protocol.as_json()),
            ("metaData", snapshot.metadata.as_json()),
        ]
        for txn in live_transactions(snapshot.transactions, snapshot.properties, self._now_ms):
            action: Action = {"appId": txn.app_id, "version": txn.version}
            actions.append(("txn", action if txn.last_updated is None else action | {"lastUpdated": txn.last_updated}))
        for domain in snapshot.domains:
            action = {"domain": domain.domain, "configuration": domain.configuration, "removed": False}
            actions.append(("domainMetadata", action))
        return actions

    def batches(self) -> Iterator[RowBatch]:
        """Yield live files and unexpired tombstones."""
        with self._snapshot.table.progress.step("writing the checkpoint", unit="rows") as step:
            for batch in self._snapshot.map_file_actions(self._converted):
                self.expired += batch.expired
                self.add_bytes += batch.add_bytes
                yield batch
                step.advance(sum(map(len, batch.actions.values())))

    def cut(self, most: int) -> Iterator[tuple[str, Any]]:  # Any: struct arrays
        """Yield the same as actions of one kind, at most this many at a time."""
        for batch in self.batches():
            for kind, actions in batch.actions.items():
                for start in range(0, len(actions), most):
                    yield kind, actions.slice(start, most)

    def _converted(self, batch: FileBatch) -> RowBatch:
        """Runs in the reading threads."""
        types = {field.name: field.type for field in checkpoint_schema(self._columns, kinds=FILE_KINDS)}
        converted = RowBatch()
        if batch.removes is not None:
            kept = unexpired(batch.removes, self._cutoff_ms)
            converted.expired = batch.removes.num_rows - kept.num_rows
            if kept.num_rows:
                converted.actions["remove"] = struct_of_actions(kept, types["remove"], {})
        if batch.adds is not None and batch.adds.num_rows:
            adds = batch.adds
            extra = parsed_columns(adds, self._config, self._columns.partition_values, self._columns.stats)
            converted.actions["add"] = struct_of_actions(adds, types["add"], extra)
            converted.add_bytes = pc.sum(adds.column("size")).as_py() or 0
        return converted
