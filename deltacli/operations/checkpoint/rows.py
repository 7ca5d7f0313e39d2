"""The rows of a checkpoint of one state: its small actions, and its file actions in batches.

Spec: Checkpoints; Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from deltacli.core.progress import Step
from deltacli.delta.checkpoint.content import Columns, live_transactions, tombstone_cutoff
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.state import TableConfiguration
from deltacli.table.version import Snapshot
from deltacli.work.checkpoints.writing_sidecars import RowBatch, RowConverter


class StateRows:
    """The content of a checkpoint of a state. `expired` and `add_bytes` are totals of the rows taken so far."""

    def __init__(self, snapshot: Snapshot, columns: Columns, config: TableConfiguration, now_ms: int) -> None:
        self._snapshot = snapshot
        self._now_ms = now_ms
        self.converter = RowConverter(columns, config, tombstone_cutoff(snapshot.properties, now_ms))
        are_young = snapshot.file_actions.commits_are_young(self.converter.cutoff_ms)
        self._of_commits = replace(self.converter, are_young=are_young)
        self.expired = 0
        self.add_bytes = 0

    def small(self) -> list[tuple[str, Action]]:
        """Return protocol, metadata, unexpired transactions and domains, in this order."""
        snapshot = self._snapshot
        found: list[tuple[str, Action]] = [
            ("protocol", snapshot.protocol.as_json()),
            ("metaData", snapshot.metadata.as_json()),
        ]
        for txn in live_transactions(snapshot.transactions, snapshot.properties, self._now_ms):
            action: Action = {"appId": txn.app_id, "version": txn.version}
            found.append(("txn", action if txn.last_updated is None else action | {"lastUpdated": txn.last_updated}))
        for domain in snapshot.domains:
            action = {"domain": domain.domain, "configuration": domain.configuration, "removed": False}
            found.append(("domainMetadata", action))
        return found

    def batches(self) -> Iterator[RowBatch]:
        """Yield live files and unexpired tombstones."""
        with self._snapshot.table.progress.step("writing the checkpoint", unit="rows") as step:
            yield from self._counted(
                self._snapshot.file_actions.map_file_actions(self.converter, self._of_commits), step
            )

    def batches_of_commits(self) -> Iterator[RowBatch]:
        """Yield those of the commits, and of the lines of a JSON checkpoint."""
        with self._snapshot.table.progress.step("writing the checkpoint", unit="rows") as step:
            yield from self._counted(map(self._of_commits, self._snapshot.file_actions.batches_of_commits()), step)

    def take(self, add_bytes: int, expired: int) -> None:
        """Add the totals of rows that were written elsewhere."""
        self.add_bytes += add_bytes
        self.expired += expired

    def _counted(self, batches: Iterable[RowBatch], step: Step) -> Iterator[RowBatch]:
        for batch in batches:
            self.take(batch.add_bytes, batch.expired)
            yield batch
            step.advance(batch.rows)
