"""Which version a command is about: the options that say so, and what there is to say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.errors import UsageError
from deltacli.quantities import format_timestamp, parse_timestamp

if TYPE_CHECKING:
    from deltacli.cli.options import Run
    from deltacli.operations.version import Snapshot


def parse_moment_of(version: int | None, timestamp: str | None) -> int | None:
    """Return `--timestamp` as epoch milliseconds. Raises UsageError, also for a `--version` that can't be meant."""
    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    return parse_timestamp(timestamp) if timestamp is not None else None


def note_findings(run: Run, found: Snapshot, at_ms: int | None) -> None:
    """Say what had to be worked around, and when a moment lies after the newest version."""
    from deltacli.operations.problems import EXPLAINED

    for problem in found.problems:
        files = ", ".join(name for name, rule in found.set_aside.items() if rule == problem)
        run.note(f"note: {problem}: {EXPLAINED[problem]}{f' ({files})' if files else ''}")
    is_newest = found.version == found.newest_version
    if at_ms is not None and is_newest and found.time is not None and at_ms > found.time.timestamp_ms:
        run.note(f"note: version {found.version} is the newest, committed {format_timestamp(found.time.timestamp_ms)}")
