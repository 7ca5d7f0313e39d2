"""Errors for a table that was replaced or rolled back after a plan was made. Their codes begin with `plan.`.

The base commit is the commit file of the version that the plan was made from (`base_version.py`). If it was replaced or
deleted, the log has another history, and the plan must not be executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.core.errors import NOTHING_CHANGED, Refused, command
from deltacli.core.times import format_timestamp
from deltacli.core.units import format_size
from deltacli.delta.log.segment import parse_log_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltacli.delta.log.segment import LogFile

BASE_COMMIT_REPLACED = "plan.other-past"
"""The base commit was replaced or deleted: the log was rolled back and continued, or another log was copied over it."""

COMMITS_MISSING = "plan.too-old"
"""Commits after the version of the plan have expired or are lost, so their effects are unknown."""

LOG_ROLLED_BACK = "plan.newer"
"""The version that the plan was made from is newer than the newest version of the log, which was rolled back."""

CLOCK_BEHIND = "plan.clock"
"""The clock is behind the plan, or behind the newest commit."""


def build_replaced_error(name: str, facts: Mapping[str, str]) -> Refused:
    """Return the error for a log file that was replaced after the plan was made.

    Args:
        name: The name of the file.
        facts: The differences between the two files, see `describe_size_and_time` and `CONTENT_DIFFERS`.
    """
    return Refused(
        f"{name} was replaced after this was planned, so the log has another past",
        preamble=NOTHING_CHANGED,
        code=BASE_COMMIT_REPLACED,
        facts=facts,
        hint=command("history", limit=10),
    )


CONTENT_DIFFERS = {"why": "its content differs"}
"""The facts for a log file whose content has changed, although its size has not."""


def describe_size_and_time(base_commit: LogFile, size_bytes: int, modified_ms: int) -> dict[str, str]:
    """Return the facts for a base commit whose size or time has changed since the plan was made.

    Args:
        base_commit: The file as it was listed for the plan.
        size_bytes: The current size.
        modified_ms: The current modification time in epoch milliseconds.

    Returns:
        For example `{"planned on": "812 B, 2026-05-01T10:01:00Z", "found": "640 B, 2026-05-01T10:07:00Z"}`.
    """
    return {
        "planned on": _format_size_and_time(base_commit.size_bytes, base_commit.modified_ms),
        "found": _format_size_and_time(size_bytes, modified_ms),
    }


def _format_size_and_time(size_bytes: int, modified_ms: int) -> str:
    return f"{format_size(size_bytes)}, {format_timestamp(modified_ms)}"


def build_missing_commit_error(name: str) -> Refused:
    """Return the error for a base commit that was deleted.

    Args:
        name: The name of the file: `00000000000000000006.json`.
    """
    return Refused(
        f"{name}, on which this was planned, is no longer in the log",
        preamble=NOTHING_CHANGED,
        code=BASE_COMMIT_REPLACED,
        facts={"planned on": f"version {parse_log_path(name).version}"},
        hint=command("history", limit=10),
    )
