"""`snapshot`: the state of a version in numbers, with digests on request."""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import CheckpointUnreadable, Unreadable
from deltacli.core.progress import reported
from deltacli.delta.log.segment import time_as_json
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.storage.base import StoreOfVersions
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.delta.log.file_actions import FileCounts, TombstoneCounts
    from deltacli.table.stated_version import StatedVersion
    from deltacli.table.version import Snapshot


_RUN_BYTES = 8 << 20
"""Of lines that are sorted at once where a digest is computed beside a plan: they take four times that."""


class StateDigests(NamedTuple):
    """SHA-256 of a state, independent of order: sorted lines, joined by LF (the contract is in docs/scripting.md)."""

    paths: str
    """Live paths, percent-decoded once."""
    raw_paths: str
    """Live paths as in the log."""
    keys: str
    """Live `raw path TAB deletion vector id`."""
    tombstone_keys: str
    """The same for the tombstones."""


class SnapshotSummary(NamedTuple):
    """A snapshot with counts. `now_ms` is the time at which tombstones were judged."""

    snapshot: Snapshot
    files: FileCounts
    tombstones: TombstoneCounts
    digests: StateDigests | None
    now_ms: int
    doubts: tuple[str, ...] = ()
    """The rules by which the number of rows in the log cannot be trusted."""

    def as_json(self) -> dict[str, Any]:
        """Return the document `deltacli.snapshot`, without the envelope."""
        snapshot = self.snapshot
        return {
            "version": snapshot.version,
            **time_as_json(snapshot.time),
            "protocol": snapshot.protocol.as_json() if knows_protocol(snapshot) else None,
            "metadata": snapshot.metadata.as_json(),
            "files": self._files_json(),
            "tombstones": {
                "count": self.tombstones.count,
                "expired": self.tombstones.expired,
                **({"keysSha256": self.digests.tombstone_keys} if self.digests else {}),
            },
            "transactions": [transaction.as_json() for transaction in snapshot.transactions],
            "domains": [domain.as_json() for domain in snapshot.domains],
            "logSegment": _segment_json(snapshot, self.doubts),
        }

    def _files_json(self) -> dict[str, Any]:
        counts = self.files
        document: dict[str, Any] = {
            "count": counts.count,
            "sizeBytes": counts.size_bytes,
            "records": counts.records,
            "filesWithoutRecords": counts.files_without_records,
            "rows": None if self.doubts else counts.rows,
            "deletionVectors": {"count": counts.deletion_vectors, "deletedRows": counts.deleted_rows},
        }
        if self.digests:
            document |= {
                "pathsSha256": self.digests.paths,
                "rawPathsSha256": self.digests.raw_paths,
                "keysSha256": self.digests.keys,
            }
        return document


def knows_protocol(snapshot: Snapshot | StatedVersion) -> bool:
    """Return False for a version of a share whose answer has no protocol of the table."""
    storage = snapshot.table.storage
    return not isinstance(storage, StoreOfVersions) or storage.knows_protocol()


def _segment_json(snapshot: Snapshot, doubts: tuple[str, ...]) -> dict[str, Any]:
    segment = snapshot.segment
    document: dict[str, Any] = {}
    if isinstance(snapshot.table.storage, StoreOfVersions):  # whose log is made of answers
        return {"problems": sorted({*snapshot.problems, *doubts})}
    if segment.checkpoint is not None:
        document["checkpoint"] = {
            "version": segment.checkpoint.version,
            "layout": snapshot.checkpoint_layout,
            "files": len(segment.checkpoint.files),
            "sidecars": snapshot.sidecars,
        }
    if segment.commits:
        document |= {"firstCommit": segment.commits[0].version, "lastCommit": segment.commits[-1].version}
    return document | {"problems": sorted({*snapshot.problems, *doubts})}


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
    from deltacli.table.rebuild import find_snapshot
    from deltacli.table.row_counts import doubts_of_rows

    now = table.clock() if now_ms is None else now_ms
    snapshot = find_snapshot(table, version=version, timestamp_ms=timestamp_ms)
    while True:
        try:
            if digest:
                return summarize_with_digests(snapshot, now)
            files, tombstones = snapshot.counts(now_ms=now)
            return SnapshotSummary(snapshot, files, tombstones, None, now, doubts_of_rows(snapshot, files))
        except CheckpointUnreadable as fault:
            snapshot = _without_checkpoint(snapshot, fault)


def digest_of_keys(snapshot: Snapshot) -> str:
    """Return `StateDigests.keys` alone, in less memory and time. Raises CheckpointUnreadable."""
    import pyarrow as pa

    from deltacli.work.checkpoints.state_digest import SortedSha256, key_lines

    actions = snapshot.file_actions
    with closing(SortedSha256(run_bytes=_RUN_BYTES)) as lines:
        try:
            for batch in actions.tail_batches():
                if batch.adds is not None:
                    lines.add(key_lines(batch.adds))
            for part in actions.map_narrow_adds(key_lines) if actions.pieces else ():
                lines.add(part)
            pa.default_memory_pool().release_unused()
        except CheckpointUnreadable as fault:
            return digest_of_keys(_without_checkpoint(snapshot, fault))
        return lines.hexdigest()


def _without_checkpoint(snapshot: Snapshot, fault: CheckpointUnreadable) -> Snapshot:
    """Rebuild a version whose checkpoint turns out to be corrupt. Raises the fault where that is not possible."""
    from deltacli.table.rebuild import without_checkpoint

    if snapshot.segment.checkpoint is None:
        raise fault
    try:
        return without_checkpoint(snapshot, fault.code)
    except Unreadable:
        raise fault from None


def summarize_with_digests(snapshot: Snapshot, now_ms: int) -> SnapshotSummary:
    """Count a snapshot, and sort and hash it. Raises CheckpointUnreadable."""
    from deltacli.table.row_counts import doubts_of_rows

    files, tombstones, digests = _count_and_digest(snapshot, now_ms)
    return SnapshotSummary(snapshot, files, tombstones, digests, now_ms, doubts_of_rows(snapshot, files))


def _count_and_digest(snapshot: Snapshot, now_ms: int) -> tuple[FileCounts, TombstoneCounts, StateDigests]:
    """Count a snapshot, and sort and hash it. Raises CheckpointUnreadable."""
    from deltacli.delta.log.file_actions import FileCounts, TombstoneCounts, count_batch
    from deltacli.work.checkpoints.state_digest import MOST_ROWS, SortedSha256, SortLines, state_lines

    files, tombstones = FileCounts(), TombstoneCounts()
    cutoff = now_ms - deleted_file_retention_ms(snapshot.properties)
    small = [piece for piece in snapshot.file_actions.pieces if piece.group.rows <= MOST_ROWS]
    large = [piece for piece in snapshot.file_actions.pieces if piece.group.rows > MOST_ROWS]
    with ExitStack() as stack:
        parts = [stack.enter_context(closing(SortedSha256())) for _ in range(4)]
        for batch in chain(
            snapshot.file_actions.tail_batches(), snapshot.file_actions.narrow_pieces(large) if large else ()
        ):
            files, tombstones = count_batch(batch, cutoff, files, tombstones)
            for part, column in zip(parts, state_lines(batch), strict=True):
                part.add(column)
        for found in snapshot.file_actions.spread_pieces(SortLines(cutoff), small, "reading the checkpoint"):
            files, tombstones = files + found.files, tombstones + found.tombstones
            for part, column in zip(parts, found.lines, strict=True):
                part.add_sorted(column)
        hexdigests = reported(
            (part.hexdigest() for part in parts),
            snapshot.table.progress,
            "sorting and hashing",
            unit="digests",
            total=len(parts),
        )
        digests = StateDigests(*hexdigests)
    return files, tombstones, digests
