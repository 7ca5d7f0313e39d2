"""Tasks of the tests. They are sent to executors in an archive of their own, as those of deltacli are."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from deltacli.core.errors import DeltacliError
from deltacli.work.task import TaskContext


def double(piece: int, context: TaskContext) -> int:
    """A task that fails for one piece."""
    if piece == context.shared("broken"):
        raise DeltacliError(f"piece {piece} is broken", code="test.broken")
    return 2 * piece


def fail(piece: int, context: TaskContext) -> int:
    """A task with a bug."""
    return [][piece]


def touch_slowly(piece: int, context: TaskContext) -> None:
    """Leave a file when it begins, and one when it ends, much later."""
    Path(context.shared("place"), f"begun-{piece}").touch()
    time.sleep(context.shared("seconds"))
    Path(context.shared("place"), f"ended-{piece}").touch()


@dataclass(frozen=True)
class ClockInFile:
    """A clock that all processes read from a file, and that a test sets."""

    place: str

    def __call__(self) -> int:
        return int(Path(self.place).read_text())

    def set(self, now_ms: int) -> None:
        """Set it for all processes at once."""
        draft = Path(f"{self.place}.draft")
        draft.write_text(str(now_ms))
        draft.replace(self.place)


def use_keys(piece: int, context: TaskContext) -> int:
    """A task that looks into a large shared value."""
    return piece if context.shared("keys")[piece] == piece else -1


def leak(piece: int, context: TaskContext) -> int:
    """A task with a bug that quotes a secret of the executor."""
    raise ValueError(f"piece {piece}: {os.environ['AWS_SECRET_ACCESS_KEY']}")
