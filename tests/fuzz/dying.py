"""A fuzz target that does all that a target must not: which of it, the input says."""

from __future__ import annotations

import os
import signal

TOKENS = (b"\0",)


def seeds() -> list[bytes]:
    """One input of each kind."""
    return [b"fine", b"raise", b"die", b"fine", b"hang", b"fine"]


def test_one_input(data: bytes) -> None:
    """Raise, die, hang, or nothing."""
    if data == b"raise":
        raise ValueError("raised")
    if data == b"die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if data == b"hang":
        signal.pause()
