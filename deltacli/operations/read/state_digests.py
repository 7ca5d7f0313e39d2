"""The digests of a state: lines of its live files and tombstones, sorted and hashed while they are counted."""

from __future__ import annotations

from contextlib import ExitStack, closing
from itertools import chain
from typing import NamedTuple

from deltacli.delta.log.counts import FileCounts, TombstoneCounts
from deltacli.delta.protocol.retention import deleted_file_retention_ms
from deltacli.operations.table.version import Snapshot
from deltacli.progress import reported
from deltacli.work.checkpoints.counting import count_batch


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


def count_and_digest(snapshot: Snapshot, now_ms: int) -> tuple[FileCounts, TombstoneCounts, StateDigests]:
    """Count a snapshot, and sort and hash it. Raises CheckpointUnreadable."""
    from deltacli.work.checkpoints.state_digest_lines import MOST_ROWS, SortLines, state_lines
    from deltacli.work.sorted_sha256 import SortedSha256

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
