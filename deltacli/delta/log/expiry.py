"""When commits may be deleted by the cleanup of the log that writers do by themselves.

Spec: Metadata Cleanup. Delta-Spark deletes more than that section allows: with each checkpoint that it writes, all
commits that are older than the retention and below any newer checkpoint, even if that checkpoint is younger than the
retention. `log expire` waits until a checkpoint is older than the retention, so that every version within it can be
rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltacli.delta.log.state import LOG_CLEANUP, is_false, log_expires_at_ms, log_retention_ms


def commit_expires_at_ms(
    version: int, times: Mapping[int, int], newest_checkpoint: int, properties: Mapping[str, str]
) -> int | None:
    """Return from when on Spark may delete a commit, with its next checkpoint; epoch milliseconds.

    Args:
        version: The version of the commit.
        times: The time of each commit.
        newest_checkpoint: The version of the newest checkpoint; -1 without one.
        properties: The properties of the table.

    Returns:
        The time; it may be past. None if the table forbids the cleanup, no checkpoint is newer, or the time of the
        commit is not known.
    """
    if is_false(properties, LOG_CLEANUP) or version >= newest_checkpoint or version not in times:
        return None
    return log_expires_at_ms(times[version], log_retention_ms(properties))
