"""The options that select a version, and the notes about the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.invocation import invocation
from deltacli.cli.options.moments import parse_moment
from deltacli.errors import UsageError
from deltacli.units import format_timestamp

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run
    from deltacli.operations.table.version import Snapshot


def parse_moment_of(version: int | None, timestamp: str | None) -> int | None:
    """Return `--timestamp` as epoch milliseconds. Raises UsageError, also for an invalid `--version`."""
    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    return parse_moment("--timestamp", timestamp, invocation.arguments) if timestamp is not None else None


def note_findings(run: Run, found: Snapshot, at_ms: int | None) -> None:
    """Note which problems were worked around, and that a time is later than the newest version."""
    from deltacli.operations.table.snapshot_problems import EXPLAINED
    from deltacli.storage.base import StoreOfVersions

    for problem in found.problems:
        files = ", ".join(name for name, rule in found.set_aside.items() if rule == problem)
        run.note(f"note: {problem}: {EXPLAINED[problem]}{f' ({files})' if files else ''}")
    is_newest = found.version == found.newest_version and not isinstance(found.table.storage, StoreOfVersions)
    if at_ms is not None and is_newest and found.time is not None and at_ms > found.time.timestamp_ms:
        run.note(f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}")
