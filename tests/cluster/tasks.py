"""Tasks of the tests. They are sent to executors in an archive of their own, as those of deltacli are."""

from __future__ import annotations

import time
from pathlib import Path

from deltacli.errors import DeltacliError
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
