"""`snapshot`: the state of a version in numbers, with digests on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deltacli.delta.log.counts import FileCounts, TombstoneCounts
from deltacli.errors import CheckpointUnreadable, Unreadable
from deltacli.operations.read.state_digests import StateDigests, count_and_digest
from deltacli.operations.table.handle import TableHandle
from deltacli.operations.table.rebuild import without_checkpoint
from deltacli.operations.table.time_travel import find_snapshot
from deltacli.operations.table.version import Snapshot
from deltacli.units import format_timestamp


@dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """A snapshot with counts. `now_ms` is the time at which tombstones were judged."""

    snapshot: Snapshot
    files: FileCounts
    tombstones: TombstoneCounts
    digests: StateDigests | None
    now_ms: int

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.snapshot`, without the envelope."""
        snapshot = self.snapshot
        return {
            "version": snapshot.version,
            "timestampMs": snapshot.time.timestamp_ms if snapshot.time else None,
            "timestamp": format_timestamp(snapshot.time.timestamp_ms) if snapshot.time else None,
            "timestampSource": snapshot.time.source.value if snapshot.time else None,
            "protocol": snapshot.protocol.as_json(),
            "metadata": snapshot.metadata.as_json(),
            "files": self._files_json(),
            "tombstones": {
                "count": self.tombstones.count,
                "expired": self.tombstones.expired,
                **({"keysSha256": self.digests.tombstone_keys} if self.digests else {}),
            },
            "transactions": [
                {
                    "appId": t.app_id,
                    "version": t.version,
                    **({} if t.last_updated is None else {"lastUpdated": t.last_updated}),
                }
                for t in snapshot.transactions
            ],
            "domains": [{"domain": d.domain, "configuration": d.configuration} for d in snapshot.domains],
            "logSegment": _segment_json(snapshot),
        }

    def _files_json(self) -> dict[str, Any]:
        counts = self.files
        document: dict[str, Any] = {
            "count": counts.count,
            "sizeBytes": counts.size_bytes,
            "records": counts.records,
            "filesWithoutRecords": counts.files_without_records,
            "rows": counts.rows,
            "deletionVectors": {"count": counts.deletion_vectors, "deletedRows": counts.deleted_rows},
        }
        if self.digests:
            document |= {
                "pathsSha256": self.digests.paths,
                "rawPathsSha256": self.digests.raw_paths,
                "keysSha256": self.digests.keys,
            }
        return document


def _segment_json(snapshot: Snapshot) -> dict[str, Any]:
    segment = snapshot.segment
    document: dict[str, Any] = {}
    if segment.checkpoint is not None:
        document["checkpoint"] = {
            "version": segment.checkpoint.version,
            "layout": snapshot.checkpoint_layout,
            "files": len(segment.checkpoint.files),
            "sidecars": snapshot.sidecars,
        }
    if segment.commits:
        document |= {"firstCommit": segment.commits[0].version, "lastCommit": segment.commits[-1].version}
    return document | {"problems": list(snapshot.problems)}


def summarize(
    table: TableHandle,
    *,
    version: int | None = None,
    timestamp_ms: int | None = None,
    digest: bool = False,
    now_ms: int | None = None,
) -> SnapshotSummary:
    """Rebuild a version and count it; with `digest`, sort and hash it as well (in bounded memory, in temporary files
    when large).

    A checkpoint whose pages turn out corrupt while counting is skipped like one that cannot be opened. Raises what
    `read_snapshot` raises.
    """
    now = table.clock() if now_ms is None else now_ms
    snapshot = find_snapshot(table, version=version, timestamp_ms=timestamp_ms)
    while True:
        try:
            if digest:
                return summarize_with_digests(snapshot, now)
            files, tombstones = snapshot.counts(now_ms=now)
            return SnapshotSummary(snapshot, files, tombstones, None, now)
        except CheckpointUnreadable as fault:
            if snapshot.segment.checkpoint is None:
                raise
            try:
                snapshot = without_checkpoint(snapshot, fault.code)
            except Unreadable:
                raise fault from None


def summarize_with_digests(snapshot: Snapshot, now_ms: int) -> SnapshotSummary:
    """Count a snapshot, and sort and hash it. Raises CheckpointUnreadable."""
    return SnapshotSummary(snapshot, *count_and_digest(snapshot, now_ms), now_ms)
