"""Whether this thread collects garbage: what runs as a finalizer must not wait for other threads (`thread_pool`)."""

from __future__ import annotations

import gc
from threading import get_ident

_collector = [0]
"""The thread that collects garbage; 0 if none does."""


def is_collecting() -> bool:
    """Return True if this thread is collecting garbage, so that the caller runs as a finalizer."""
    return _collector[0] == get_ident()


def _note(phase: str, _: dict[str, int]) -> None:
    _collector[0] = get_ident() if phase == "start" else 0


gc.callbacks.append(_note)
