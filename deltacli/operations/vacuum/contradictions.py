"""What contradicts the state that a vacuum is planned from: commits, an older checkpoint, the checksum file.

A wrong checkpoint makes a live file look like one that no version names. Such a file is kept; where a contradiction
cannot be traced to files, nothing is deleted. Spec: Checkpoints; Version Checksum File.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.delta.protocol.properties import deleted_file_retention_ms
from deltacli.errors import DeltacliError
from deltacli.operations.log.checksum_guard import contradiction
from deltacli.operations.log.file_history import RULE, NamedKeys, live_keys, logical_keys
from deltacli.operations.vacuum.plan import Refusal
from deltacli.quantities import format_duration, plural

if TYPE_CHECKING:
    import pyarrow

    from deltacli.operations.table.version import Snapshot
    from deltacli.operations.vacuum.planning import Setting


def lost_files(setting: Setting, files: pyarrow.Array) -> pyarrow.Array:
    """Return which files (hashes of candidates) the log adds and never removes, though the newest version lacks them.

    Commits are asked first. For files that no commit names, the oldest checkpoint is read from which the commits reach
    the newest version.
    """
    history, removed = setting.references.history, setting.references.removed.hashes
    unknown = pc.filter(files, pc.invert(pc.or_(history.adds(files), pc.is_in(files, value_set=removed))))
    if len(unknown):
        _take_oldest_checkpoint(setting, files)
    return history.unremoved(files)


def _take_oldest_checkpoint(setting: Setting, files: Any) -> None:  # Any: an int64 array
    """Note the adds of an older checkpoint in the history, as far as they name these files."""
    import pyarrow as pa

    snapshot = _oldest_state(setting)
    if snapshot is None:
        return
    keys, history = setting.keys, setting.references.history
    try:
        for batch in snapshot.narrow(with_records=False):
            if batch.adds is None or not batch.adds.num_rows:
                continue
            ids = batch.adds.column("dv_id")
            paths = keys.of_log(batch.adds.column("path")).hashes
            versions = pa.repeat(pa.scalar(snapshot.version, pa.int64()), len(paths))
            rows = NamedKeys(paths, logical_keys(paths, ids), versions)
            history.take_adds(rows.where(pc.is_in(paths, value_set=files)))
            vectors = keys.of_vectors(ids).hashes
            history.take_vectors(rows._replace(files=vectors).where(pc.is_in(vectors, value_set=files)))
    except DeltacliError:
        return  # what cannot be read contradicts nothing


def _oldest_state(setting: Setting) -> Snapshot | None:
    """The oldest version that a checkpoint holds and from which no commit is missing; None where it is the one in use,
    or cannot be read.
    """
    listing, used = setting.references.listing, setting.snapshot.segment.checkpoint
    if used is None or not listing.commit_runs:
        return None
    first = listing.commit_runs[-1][0]
    older = [found.version for found in listing.checkpoints if first - 1 <= found.version < used.version]
    if not older:
        return None
    try:
        return setting.table.snapshot(version=min(older))
    except DeltacliError:
        return None


def lost_note(setting: Setting, count: int, example: str | None) -> str:
    """Say which files were kept for a contradiction, by what rule, and what helps."""
    uri = shlex.quote(setting.table.uri)
    return (
        f"{plural(count, 'file')} that the log adds and never removes {'is' if count == 1 else 'are'} missing from "
        f"version {setting.snapshot.version} and {'is' if count == 1 else 'are'} kept"
        f"{f' ({example})' if example else ''}: a checkpoint lost {'it' if count == 1 else 'them'} [{RULE}]; to see "
        f"why: deltacli validate {uri}; to repair the checkpoint: deltacli checkpoint {uri} --force"
    )


def checksum_refusals(setting: Setting) -> Iterator[Refusal]:
    """The newest checksum file counts the files that the log has, or the commits explain why it counts more."""
    snapshot = _checked_state(setting)
    if snapshot is None:
        return
    references = setting.references
    files, size_bytes = references.live_count
    if snapshot is not setting.snapshot:
        counts, _ = snapshot.counts()
        files, size_bytes = counts.count, counts.size_bytes
    found = contradiction(snapshot, files, size_bytes)
    if found is None:
        return
    is_more = found.field == "numFiles" and found.of_checksum > found.of_log
    if is_more and found.of_checksum - found.of_log == _lost_count(setting):
        return
    yield Refusal(found.rule, found.message, hint="deltacli validate {table}")


def _lost_count(setting: Setting) -> int:
    return setting.references.history.unremoved_count(live_keys(setting.snapshot, setting.keys))


def _checked_state(setting: Setting) -> Snapshot | None:
    """The newest version that has a checksum file and is rebuilt from the same checkpoint; None without one."""
    snapshot, used = setting.snapshot, setting.snapshot.segment.checkpoint
    least = 0 if used is None else used.version
    checked = [one for one in setting.references.listing.checksums if least <= one <= snapshot.version]
    if not checked:
        return None
    if checked[-1] == snapshot.version:
        return snapshot
    try:
        return setting.table.snapshot(version=checked[-1])
    except DeltacliError:
        return None


def retention_contradictions(setting: Setting) -> Iterator[Refusal]:
    """The state keeps removed files as long as the newest metaData of the commits does."""
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
            f"the commits keep removed files for {wanted}, the checkpoint for {format_duration(setting.own_ms)}: one "
            "of the two is wrong",
            f"--retention {wanted}",
            hint="deltacli validate {table}",
        )
