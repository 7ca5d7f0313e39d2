"""Pools of threads whose owner may be abandoned.

A generator that nobody closes can be part of a cycle, which the garbage collector ends: in any thread, in the middle of
any call, while that thread holds any lock. Waiting for other threads there can wait for ever.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from deltacli.collecting import is_collecting


class ThreadPool(ThreadPoolExecutor):
    """A pool whose end waits for its threads, unless the garbage collector ends it, which drops tasks that wait."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        abandoned = is_collecting()
        super().shutdown(wait=wait and not abandoned, cancel_futures=cancel_futures or abandoned)
