"""Options for commits that a change can set. A module of its own, because plans do not need `commit.py` and pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Pause = Callable[[int], None]
"""Waits before a retry. Receives the number of the retry, counted from 1."""

MAX_ATTEMPTS = 400
"""Maximum number of versions to try. When eight processes commit without a pause, one of them may lose dozens of times
in a row (docs/decisions/0011).
"""


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """Options for the commits of a change.

    Attributes:
        metadata: Additional keys of the commitInfo: `{"job": "nightly"}`.
        recheck: Called before each attempt, for example to check that new data files still exist. If it returns False,
            the request is built again from the newest version. None to check nothing.
        pause: Waits before a retry. None to wait for a random time that grows with each retry.
        max_attempts: Maximum number of versions to try.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    recheck: Callable[[], bool] | None = None
    pause: Pause | None = None
    max_attempts: int = MAX_ATTEMPTS


DEFAULT_OPTIONS = CommitOptions()
