"""Bringing a snapshot up to a newer version by the commits between, instead of rebuilding it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.log.commit_lines import read_actions
from deltacli.delta.log.file_actions import action_schemas, whole_actions
from deltacli.delta.log.replay import TouchedFiles, reconcile_commit
from deltacli.delta.log.segment import LogFile, LogListing
from deltacli.delta.log.state import StateBuilder, plain_action
from deltacli.delta.protocol.protocol_action import require_readable
from deltacli.delta.vectors.descriptor import unique_id_column
from deltacli.sharing.tables.shareable import find_fault, spelled_alike
from deltacli.sharing.tables.shared_snapshot import SharedSnapshot
from deltacli.work.commits.reading import read_commit

if TYPE_CHECKING:
    import pyarrow

    from deltacli.storage import Storage

MOST_COMMITS = 200
MOST_COMMIT_BYTES = 64 << 20
"""Beyond these, rebuilding from a checkpoint costs less."""
_MOST_CHUNKS = 512


def commits_between(older: SharedSnapshot, listing: LogListing, version: int) -> tuple[LogFile, ...] | None:
    """Return the commits that lead from a snapshot to a version; None where it has to be rebuilt instead: a commit is
    missing, they are too many, or the log was replaced since.
    """
    if older.commit is None or listing.commits.get(older.version) != older.commit:
        return None
    files = [listing.commits.get(number) for number in range(older.version + 1, version + 1)]
    found = tuple(file for file in files if file is not None)
    if len(found) < len(files) or len(found) > MOST_COMMITS:
        return None
    return found if sum(file.size_bytes for file in found) <= MOST_COMMIT_BYTES else None


def apply_commits(older: SharedSnapshot, storage: Storage, commits: Sequence[LogFile]) -> SharedSnapshot:
    """Return the version after these commits, ascending. Raises CommitCorrupt and ProtocolUnsupported."""
    state, seen = StateBuilder(), set[str]()
    adds: list[pyarrow.RecordBatch] = []
    for file in reversed(commits):
        actions = read_actions(read_commit(storage, file), file.name)
        survived = reconcile_commit(actions, seen, file.name).adds
        if survived:
            adds.append(whole_actions(survived, action_schemas().add, file.name))
        state.take([(kind, action) for kind, action in actions if kind not in ("add", "remove")], file.name)
    if state.protocol is not None:
        require_readable(state.protocol, commits[-1].version)
    raw_protocol, raw_metadata = state.raw_protocol, state.raw_metadata
    newer = replace(
        older,
        version=commits[-1].version,
        protocol=state.protocol or older.protocol,
        raw_protocol=older.raw_protocol if raw_protocol is None else plain_action(raw_protocol),
        metadata=state.metadata or older.metadata,
        raw_metadata=older.raw_metadata if raw_metadata is None else plain_action(raw_metadata),
        commit=commits[-1],
    )
    adds = [spelled_alike(batch, newer.config) for batch in adds]
    files = _with_adds(older.files, TouchedFiles(seen) if seen else None, adds)
    checked = files.to_batches() if older.fault or state.metadata else adds
    return replace(newer, files=files, fault=find_fault(checked, newer.config, storage.uri))


def _with_adds(files: pyarrow.Table, touched: TouchedFiles | None, adds: list[pyarrow.RecordBatch]) -> pyarrow.Table:
    """Return the files that no newer commit has decided, and those that newer commits add."""
    import pyarrow as pa

    kept = []
    for batch in files.to_batches():
        untouched = None
        if touched is not None:
            ids = unique_id_column(batch.column("deletionVector"))
            untouched = touched.untouched(batch.column("path"), ids)
        kept.append(batch if untouched is None else pc.filter(batch, untouched))
    found = pa.Table.from_batches([*kept, *adds], schema=files.schema)
    return found if len(kept) + len(adds) <= _MOST_CHUNKS else found.combine_chunks()
