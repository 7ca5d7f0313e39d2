"""Contradictions to the state that a vacuum is planned from: commits, an older checkpoint, the checksum file.

A wrong checkpoint makes a live file look unreferenced. Such a file is kept; if a contradiction cannot be traced to
files, nothing is deleted. Spec: Checkpoints; Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.protocol.property_values import deleted_file_retention_ms
from deltacli.errors import Unreadable
from deltacli.hints import command, parameter
from deltacli.operations.log.checksum_guard import contradiction
from deltacli.operations.log.file_history import NamedKeys, live_keys, logical_keys
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.vacuum.candidates import Doubts
from deltacli.operations.vacuum.plan import Refusal
from deltacli.typing import ArrowArray
from deltacli.units import duration, format_duration

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.version import Snapshot
    from deltacli.operations.vacuum.plan_context import PlanContext


def doubts(setting: PlanContext, files: pyarrow.Array) -> Doubts:
    """Return which files (hashes of candidates) the newest version may have lost.

    Commits are checked first. For files that no commit names, the oldest checkpoint is read from which the commits
    reach the newest version. Raises StorageFailed, MemoryExhausted and PathExternal where the checkpoint is unreadable
    because of the store.
    """
    history, fault = setting.references.history, None
    if pc.any(_unknown(setting, files)).as_py():
        fault = _take_older_checkpoints(setting, files)
    unread = _unknown(setting, files)
    if fault is None:
        unread = pc.and_not(unread, unread)
    return Doubts(history.unremoved(files), unread, fault)


def _unknown(setting: PlanContext, files: ArrowArray) -> ArrowArray:
    """Return the files that the part read so far does not add, remove or write as change data."""
    references = setting.references
    known = references.history.adds(files)
    for removed in (references.removed.hashes, references.changes.hashes):
        known = pc.or_(known, pc.is_in(files, value_set=removed))
    return pc.invert(known)


def _take_older_checkpoints(setting: PlanContext, files: ArrowArray) -> Unreadable | None:
    """Record the adds of the oldest readable checkpoint; return why older ones cannot be read, None where all can."""
    fault: Unreadable | None = None
    for version in _older_versions(setting):
        try:
            _take_checkpoint(setting, version, files)
        except Unreadable as found:
            fault = fault or found
        else:
            break
    return fault


def _take_checkpoint(setting: PlanContext, version: int, files: ArrowArray) -> None:
    """Record the adds of a version in the history that name these files."""
    import pyarrow as pa

    keys, history = setting.keys, setting.references.history
    for batch in read_snapshot(setting.table, version=version).file_actions.narrow(with_records=False):
        if batch.adds is None or not batch.adds.num_rows:
            continue
        ids = batch.adds.column("dv_id")
        paths = keys.of_log(batch.adds.column("path")).hashes
        versions = pa.repeat(pa.scalar(version, pa.int64()), len(paths))
        rows = NamedKeys(paths, logical_keys(paths, ids), versions)
        history.take_adds(rows.where(pc.is_in(paths, value_set=files)))
        vectors = keys.of_vectors(ids).hashes
        history.take_vectors(rows._replace(files=vectors).where(pc.is_in(vectors, value_set=files)))


def _older_versions(setting: PlanContext) -> list[int]:
    """Return the versions, ascending, of checkpoints older than the one in use from which no commit is missing; none
    where the commits reach back to the first version and therefore name all files.
    """
    listing, used = setting.references.listing, setting.snapshot.segment.checkpoint
    if used is None or not listing.commit_runs or not listing.commit_runs[-1][0]:
        return []
    first = listing.commit_runs[-1][0]
    complete, torn = (
        (checkpoint.version for checkpoint in listing.checkpoints),
        (version for version, _ in listing.problems),
    )
    return sorted({version for version in (*complete, *torn) if first - 1 <= version < used.version})


def checksum_refusals(setting: PlanContext) -> Iterator[Refusal]:
    """Yield a refusal unless the newest checksum file counts the files of the log, or the commits explain why it counts
    more."""
    snapshot = _checked_state(setting)
    if snapshot is None:
        return
    references = setting.references
    files, size_bytes = references.live_count
    if snapshot is not setting.snapshot:
        counts, _ = snapshot.counts()
        files, size_bytes = counts.count, counts.size_bytes
    difference = contradiction(snapshot, files, size_bytes)
    if difference is None:
        return
    is_more = difference.field == "numFiles" and difference.of_checksum > difference.of_log
    if is_more and difference.of_checksum - difference.of_log == _lost_count(setting):
        return
    yield Refusal(difference.rule, difference.message, hint=command("validate"))


def _lost_count(setting: PlanContext) -> int:
    return setting.references.history.unremoved_count(live_keys(setting.snapshot, setting.keys))


def _checked_state(setting: PlanContext) -> Snapshot | None:
    """Return the newest version that has a checksum file and is rebuilt from the same checkpoint; None without one."""
    snapshot, used = setting.snapshot, setting.snapshot.segment.checkpoint
    least = 0 if used is None else used.version
    checked = [one for one in setting.references.listing.checksums if least <= one <= snapshot.version]
    if not checked:
        return None
    if checked[-1] == snapshot.version:
        return snapshot
    try:
        return read_snapshot(setting.table, version=checked[-1])
    except Unreadable:
        return None


def retention_contradictions(setting: PlanContext) -> Iterator[Refusal]:
    """Yield a refusal unless the state keeps removed files for as long as the newest metaData of the commits."""
    references, used = setting.references, setting.snapshot.segment.checkpoint
    runs = references.listing.commit_runs
    if used is None or not references.metadata or len(runs) != 1 or runs[0][1] < used.version:
        return
    configuration = references.metadata[0].get("configuration")
    if not isinstance(configuration, dict):
        return
    wanted_ms = deleted_file_retention_ms(configuration)
    if wanted_ms > setting.own_ms and setting.retention_ms < wanted_ms:
        wanted = format_duration(wanted_ms)
        yield Refusal(
            "checkpoint.metadata-differs",
            f"the commits keep removed files for {wanted}, but the checkpoint for {format_duration(setting.own_ms)}",
            parameter("vacuum.retention_ms", duration(wanted_ms)),
            hint=command("validate"),
        )
