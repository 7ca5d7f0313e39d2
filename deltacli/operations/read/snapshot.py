"""`snapshot`: the state of a version in numbers, with digests on request, and which numbers of rows the log gets wrong.

The log counts a file's rows as numRecords less the cardinality of its vector. This is wrong where numRecords leaves
deleted rows out already, which tight bounds beside a vector suggest, and where two adds of one path disagree; and where
a vector deletes rows that its file does not have, which readers ignore. Spec: Per-file Statistics; Deletion Vectors.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import CheckpointUnreadable, Unreadable
from deltacli.core.progress import report_items
from deltacli.core.typing import ArrowArray, RecordBatch
from deltacli.delta.log.segment import format_time_as_json
from deltacli.delta.log.state import deleted_file_retention_ms
from deltacli.storage.optional_interfaces import is_shared_table
from deltacli.table.handle import TableHandle

if TYPE_CHECKING:
    from deltacli.delta.log.file_actions import FileCounts, TombstoneCounts
    from deltacli.table.version import Snapshot
    from deltacli.table.version_from_checksum import VersionFromChecksum
    from deltacli.work.rows.deletion_vectors import Descriptor
    from deltacli.work.table_files import TableFiles


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
            **format_time_as_json(snapshot.time),
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


def knows_protocol(snapshot: Snapshot | VersionFromChecksum) -> bool:
    """Return False for a version of a share whose answer has no protocol of the table."""
    storage = snapshot.table.storage
    return not is_shared_table(storage) or storage.knows_protocol()


def _segment_json(snapshot: Snapshot, doubts: tuple[str, ...]) -> dict[str, Any]:
    segment = snapshot.segment
    document: dict[str, Any] = {}
    if is_shared_table(snapshot.table.storage):  # whose log is made of answers
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
    from deltacli.table.time_travel import find_snapshot

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
    from deltacli.work.checkpoints.state_digest import SortedSha256, make_key_lines

    actions = snapshot.file_actions
    with closing(SortedSha256(run_bytes=_RUN_BYTES)) as lines:
        try:
            for batch in actions.read_narrow_commit_batches():
                if batch.adds is not None:
                    lines.add(make_key_lines(batch.adds))
            for part in actions.map_narrow_adds(make_key_lines) if actions.pieces else ():
                lines.add(part)
            pa.default_memory_pool().release_unused()
        except CheckpointUnreadable as fault:
            return digest_of_keys(_without_checkpoint(snapshot, fault))
        return lines.hexdigest()


def _without_checkpoint(snapshot: Snapshot, fault: CheckpointUnreadable) -> Snapshot:
    """Rebuild a version whose checkpoint turns out to be corrupt. Raises the fault where that is not possible."""
    from deltacli.table.rebuild import rebuild_without_checkpoint

    if snapshot.segment.checkpoint is None:
        raise fault
    try:
        return rebuild_without_checkpoint(snapshot, fault.code)
    except Unreadable:
        raise fault from None


def summarize_with_digests(snapshot: Snapshot, now_ms: int) -> SnapshotSummary:
    """Count a snapshot, and sort and hash it. Raises CheckpointUnreadable."""
    files, tombstones, digests = _count_and_digest(snapshot, now_ms)
    return SnapshotSummary(snapshot, files, tombstones, digests, now_ms, doubts_of_rows(snapshot, files))


def _count_and_digest(snapshot: Snapshot, now_ms: int) -> tuple[FileCounts, TombstoneCounts, StateDigests]:
    """Count a snapshot, and sort and hash it. Raises CheckpointUnreadable."""
    from deltacli.delta.log.file_actions import FileCounts, TombstoneCounts, add_counts_of_batch
    from deltacli.work.checkpoints.state_digest import MOST_ROWS, SortedSha256, SortLines, make_state_lines

    files, tombstones = FileCounts(), TombstoneCounts()
    cutoff = now_ms - deleted_file_retention_ms(snapshot.properties)
    small = [piece for piece in snapshot.file_actions.pieces if piece.group.rows <= MOST_ROWS]
    large = [piece for piece in snapshot.file_actions.pieces if piece.group.rows > MOST_ROWS]
    with ExitStack() as stack:
        parts = [stack.enter_context(closing(SortedSha256())) for _ in range(4)]
        for batch in chain(
            snapshot.file_actions.read_narrow_commit_batches(),
            snapshot.file_actions.read_narrow_pieces(large) if large else (),
        ):
            files, tombstones = add_counts_of_batch(batch, cutoff, files, tombstones)
            for part, column in zip(parts, make_state_lines(batch), strict=True):
                part.add(column)
        for found in snapshot.file_actions.run_on_pieces(SortLines(cutoff), small, "reading the checkpoint"):
            files, tombstones = files + found.files, tombstones + found.tombstones
            for part, column in zip(parts, found.lines, strict=True):
                part.add_sorted(column)
        hexdigests = report_items(
            (part.hexdigest() for part in parts),
            snapshot.table.progress,
            "sorting and hashing",
            unit="digests",
            total=len(parts),
        )
        digests = StateDigests(*hexdigests)
    return files, tombstones, digests


# -- how many rows a version has, and where the log cannot be trusted to say so ----------------------------------------

TIGHT, EXCEEDS, DISAGREE = "stats.tight-with-dv", "stats.cardinality-exceeds", "stats.records-disagree"


def doubts_of_rows(snapshot: Snapshot, counts: FileCounts) -> tuple[str, ...]:
    """Return the rules by which the log's row counts of a version cannot be trusted."""
    if not snapshot.has_contradictory_counts and not counts.unjudged:
        return tuple(rule for rule, files in ((EXCEEDS, counts.exceeding), (TIGHT, counts.tight)) if files)
    judge = partial(_rules_of, snapshot.paths_with_contradictory_counts)
    found = set(chain.from_iterable(snapshot.file_actions.map_actions("add", judge, fields=_FIELDS)))
    return tuple(sorted(found))


def count_rows(snapshot: Snapshot) -> tuple[int | None, bool]:
    """Return how many rows a version has, None where the log lacks the number of a file, and whether the log alone says
    so. Vectors are opened, and footers where the log cannot be trusted. Raises DataUnreadable.

    A file that the checkpoint has twice counts twice, see `deduplicate_live_files`.
    """
    counts = snapshot.counts()[0]
    if counts.rows is None or not (counts.deletion_vectors or snapshot.has_contradictory_counts):
        return counts.rows, True
    table, rows = snapshot.table, 0
    files: list[_Counted] = []
    read = partial(_counted, snapshot.paths_with_contradictory_counts)
    for known, found in snapshot.file_actions.map_actions("add", read, fields=_FIELDS):
        rows += known
        files += found
    with table.progress.step("reading row counts", unit="files", total=len(files)) as step:
        for counted in table.engine.run(partial(_rows_left, table.files()), files):
            rows += counted
            step.advance(1)
    return rows, False


_FIELDS = ("path", "size", "stats", "deletionVector")


class _Counted(NamedTuple):
    """A file whose rows are counted from its vector, and from its footer where `records` is None."""

    path: str
    size_bytes: int
    records: int | None
    vector: Descriptor | None


def _masks(contradicted: frozenset[bytes], adds: RecordBatch) -> tuple[ArrowArray, dict[str, ArrowArray]]:
    """Return which adds have a vector, and which the log may count wrongly by which rule."""
    from deltacli.delta.log.file_actions import compute_file_keys, extract_num_records_column, find_tight_bounds

    vectors, stats = adds.column("deletionVector"), adds.column("stats")
    has_vector = pc.is_valid(vectors)
    cardinality = pc.cast(pc.struct_field(vectors, ["cardinality"]), pa.int64())
    exceeds = pc.greater(cardinality, extract_num_records_column(stats))
    paths = compute_file_keys(adds.column("path"), pa.repeat(pa.scalar(""), adds.num_rows))
    disagrees = pc.is_in(paths, value_set=pa.array(sorted(contradicted), pa.binary()))
    return has_vector, {
        TIGHT: find_tight_bounds(stats, cardinality),
        EXCEEDS: pc.fill_null(exceeds, pa.scalar(False)),
        DISAGREE: disagrees,
    }


def doubtful_counts(snapshot: Snapshot, adds: RecordBatch) -> ArrowArray:
    """Return which live files the log may count wrongly: bool array out."""
    return reduce(pc.or_, _masks(snapshot.paths_with_contradictory_counts, adds)[1].values())


def _rules_of(contradicted: frozenset[bytes], adds: RecordBatch) -> list[str]:
    return [rule for rule, mask in _masks(contradicted, adds)[1].items() if pc.any(mask).as_py()]


def _counted(contradicted: frozenset[bytes], adds: RecordBatch) -> tuple[int, list[_Counted]]:
    """Return the rows of the adds that the log counts, and the other adds."""
    from deltacli.delta.log.file_actions import extract_num_records_column

    has_vector, doubts = _masks(contradicted, adds)
    records = extract_num_records_column(adds.column("stats"))
    doubtful = reduce(pc.or_, doubts.values())
    special = pc.or_(has_vector, doubtful)
    known = pc.sum(pc.filter(records, pc.invert(special))).as_py() or 0
    found = [
        _Counted(
            adds.column("path")[row].as_py(),
            adds.column("size")[row].as_py(),
            None if doubtful[row].as_py() else records[row].as_py(),
            adds.column("deletionVector")[row].as_py(),
        )
        for row in pc.indices_nonzero(special).to_pylist()
    ]
    return known, found


def _rows_left(files: TableFiles, file: _Counted) -> int:
    from deltacli.work.rows.data_files import DataFile, open_data_file
    from deltacli.work.rows.deletion_vectors import read_vector

    rows = file.records
    if rows is None:
        with open_data_file(files, DataFile(file.path, file.size_bytes)) as opened:
            rows = opened.parquet.metadata.num_rows
    return rows if file.vector is None else rows - read_vector(files, file.vector).count_below(rows)
