"""Notes on problems of a table that were worked around when a version was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import DeltacliError
from deltacli.core.times import format_timestamp
from deltacli.delta.log.disputed_readings import DECISIONS
from deltacli.storage.base import PathKind

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot
    from deltacli.table.version_from_checksum import VersionFromChecksum

_UNPUBLISHED_COMMITS = "catalog.unpublished-possible"
"""The rule for a table that a catalog manages: the log may lack commits that the catalog has."""

PROBLEM_DESCRIPTIONS: Mapping[str, str] = {
    "action.missing-required": "the metaData has no schemaString; read as an empty schema",
    "catalog.unpublished-possible": "a catalog manages this table; newer commits may exist there",
    "checkpoint.multipart-incomplete": "a multi-part checkpoint lacks parts; not used",
    "checkpoint.no-metadata": "a checkpoint has no metaData or two; an older start was used, or the last metaData",
    "checkpoint.no-protocol": "a checkpoint has no protocol or two; an older start was used, or the last protocol",
    "checkpoint.unreadable": "a checkpoint cannot be read; an older start was used",
    "checkpoint.zero-length": "a checkpoint file is empty; not used",
    "commit.empty": "a commit before the checkpoint is empty; it was not needed",
    "compaction.beyond-log": "a log compaction covers versions after the newest commit, which seem to be lost",
    "crc.without-commit": "a version checksum is of a version after the newest commit; commits seem to be lost",
    "hint.ahead-of-log": "_last_checkpoint names a version after the newest commit; commits seem to be lost",
    "hint.bad-json": "_last_checkpoint cannot be read; the log was listed instead",
    "hint.checkpoint-missing": "_last_checkpoint names a missing checkpoint; the log was listed instead",
    "hint.checksum-bad": "_last_checkpoint has a wrong checksum; the log was listed instead",
    "hint.missing-field": "_last_checkpoint names no version; the log was listed instead",
    "ict.missing": "the commit has no in-commit timestamp; the file's time is shown",
    "log.checkpoint-commit-missing": "the commit file of this version is missing; it was rebuilt from its checkpoint",
    "log.name-not-padded": "a log file's version is not 20 digits; not read",
    "sidecar.missing": "a checkpoint names a missing sidecar; an older start was used",
    **DECISIONS,
}
"""Maps the id of a rule of `validate` to the note on a table that violates it."""


def note_problems(run: CommandContext, problems: Iterable[str]) -> None:
    """Note problems that were worked around. `problems` are ids of rules, such as `hint.bad-json`."""
    for problem in problems:
        run.note(f"note: {problem}: {PROBLEM_DESCRIPTIONS[problem]}")


def note_version_problems(run: CommandContext, version: Snapshot | VersionFromChecksum, at_ms: int | None) -> None:
    """Note the problems of a version, and whether the requested time is later than the newest version.

    Args:
        run: The run of the command.
        version: The version that was read.
        at_ms: The value of `--timestamp` in epoch milliseconds.
    """
    for problem in version.problems:
        files = ", ".join(name for name, rule in version.skipped_checkpoints.items() if rule == problem)
        suffix = f" ({files})" if files else ""
        run.note(f"note: {problem}: {PROBLEM_DESCRIPTIONS[problem]}{suffix}")

    is_newest = version.version == version.newest_version and not version.table.is_shared
    if at_ms is None or version.time is None or not is_newest:
        return
    if at_ms > version.time.timestamp_ms:
        committed_at = format_timestamp(version.time.timestamp_ms)
        run.note(f"note: version {version.version} is the newest, committed {committed_at}")


def note_disputed_damages(run: CommandContext, *snapshots: Snapshot) -> None:
    """Note damages of the log that engines read differently, and how they were read. Each damage is noted once."""
    for decision in dict.fromkeys(decision for snapshot in snapshots for decision in snapshot.decisions):
        run.note(f"note: {decision}")


def note_unpublished_versions(run: CommandContext, *snapshots: Snapshot, name: str = "") -> None:
    """Note that the catalog of a table may have newer versions, if the table was opened by its path.

    Args:
        run: The run of the command.
        snapshots: Versions of the table that were read.
        name: The name of the table if the command works on several tables.
    """
    if any(_UNPUBLISHED_COMMITS in snapshot.problems for snapshot in snapshots):
        prefix = f"{name}: " if name else ""
        run.note(f"note: {prefix}{_UNPUBLISHED_COMMITS}: {PROBLEM_DESCRIPTIONS[_UNPUBLISHED_COMMITS]}")


def note_staged_commits(run: CommandContext, table: TableHandle, name: str = "") -> None:
    """Note that the catalog of a table may have newer versions, if the command has read no version of it.

    A version is read only if the log contains the directory of staged commits. An error is ignored: the command has
    succeeded without that version.

    Args:
        run: The run of the command.
        table: The table.
        name: The name of the table if the command works on several tables.
    """
    from deltacli.table.handle import managed_store
    from deltacli.table.rebuild import read_snapshot

    storage = table.storage
    if table.is_shared or managed_store(storage) is not None:
        return
    with suppress(DeltacliError):
        if storage.kind_of("_delta_log/_staged_commits") is PathKind.DIRECTORY:
            note_unpublished_versions(run, read_snapshot(table), name=name)
