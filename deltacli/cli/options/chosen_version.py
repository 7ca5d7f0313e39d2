"""The options that select a version, and the notes about the selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.options.moments import parse_moment
from deltacli.errors import UsageError
from deltacli.units import format_timestamp

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot

EXPLAINED: Mapping[str, str] = {
    "action.missing-required": "the metaData has no schemaString; read as an empty schema",
    "catalog.unpublished-possible": "a catalog manages this table; newer commits may exist there",
    "checkpoint.multipart-incomplete": "a multi-part checkpoint lacks parts; not used",
    "checkpoint.no-metadata": "a checkpoint has no metaData; an older start was used",
    "checkpoint.no-protocol": "a checkpoint has no protocol; an older start was used",
    "checkpoint.unreadable": "a checkpoint cannot be read; an older start was used",
    "checkpoint.zero-length": "a checkpoint file is empty; not used",
    "commit.empty": "a commit before the checkpoint is empty; it was not needed",
    "compaction.beyond-log": "a log compaction covers versions after the newest commit, which seem to be lost",
    "hint.bad-json": "_last_checkpoint cannot be read; the log was listed instead",
    "hint.checkpoint-missing": "_last_checkpoint names a missing checkpoint; the log was listed instead",
    "hint.checksum-bad": "_last_checkpoint has a wrong checksum; the log was listed instead",
    "hint.missing-field": "_last_checkpoint names no version; the log was listed instead",
    "ict.missing": "the commit has no in-commit timestamp; the file's time is shown",
    "log.checkpoint-commit-missing": "the commit file of this version is missing; it was rebuilt from its checkpoint",
    "log.name-not-padded": "a log file's version is not 20 digits; not read",
    "sidecar.missing": "a checkpoint names a missing sidecar; an older start was used",
}


def parse_moment_of(version: int | None, timestamp: str | None) -> int | None:
    """Return `--timestamp` as epoch milliseconds. Raises UsageError, also for an invalid `--version`."""
    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    return parse_moment("--timestamp", timestamp, invocation.arguments) if timestamp is not None else None


def chosen_version(table: TableHandle, version: int | None, timestamp: str | None) -> int | None:
    """Return the version that `--version` or `--timestamp` selects; None for neither. Raises UsageError, and
    VersionAbsent for a time before the first commit.
    """
    at_ms = parse_moment_of(version, timestamp)
    if at_ms is None:
        return version
    from deltacli.operations.table.time_travel import version_at

    return version_at(table, at_ms)


def note_findings(run: Run, found: Snapshot, at_ms: int | None) -> None:
    """Note which problems were worked around, and that a time is later than the newest version."""
    from deltacli.storage.base import StoreOfVersions

    for problem in found.problems:
        files = ", ".join(name for name, rule in found.set_aside.items() if rule == problem)
        run.note(f"note: {problem}: {EXPLAINED[problem]}{f' ({files})' if files else ''}")
    is_newest = found.version == found.newest_version and not isinstance(found.table.storage, StoreOfVersions)
    if at_ms is not None and is_newest and found.time is not None and at_ms > found.time.timestamp_ms:
        run.note(f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}")
