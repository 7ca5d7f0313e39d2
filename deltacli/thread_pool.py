"""Pools of threads whose owner may be abandoned.

A generator that nobody closes can be part of a cycle, which the garbage collector ends: in any thread, in the middle of
any call, while that thread holds any lock. Waiting for other threads there can wait for ever.
"""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import get_ident

_collector = 0
"""The thread that collects garbage; 0 if none does."""


def is_collecting() -> bool:
    """Return True if this thread is collecting garbage, so that the caller runs as a finalizer."""
    return _collector == get_ident()


def _note(phase: str, _: dict[str, int]) -> None:
    global _collector  # noqa: PLW0603  (the collector belongs to the process)
    _collector = get_ident() if phase == "start" else 0


gc.callbacks.append(_note)


class ThreadPool(ThreadPoolExecutor):
    """A pool whose end waits for its threads, unless the garbage collector ends it, which drops tasks that wait."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        abandoned = is_collecting()
        super().shutdown(wait=wait and not abandoned, cancel_futures=cancel_futures or abandoned)
