"""What another thread is doing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Thread


def callers(thread: Thread) -> Iterator[str]:
    """The names of the functions a thread is in, innermost first."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back
