"""End a Python worker whose task was cancelled: Spark closes its connection, but lets the process finish its work.

Without this, a cancelled task goes on writing and deleting until it next sends a result. Linux only; elsewhere a
cancelled task ends with the piece that it runs, or at the time up to which it may start requests.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

_TICK_MS = 200
_DESCRIPTORS = "/proc/self/fd"


def _connections() -> list[int]:
    """Return the descriptors of sockets that are connected to a process of this host."""
    if not hasattr(select, "POLLRDHUP") or not os.path.isdir(_DESCRIPTORS):
        return []
    descriptors = []
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError, ValueError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode) and _is_of_this_host(int(name)):
                descriptors.append(int(name))
    return descriptors


def _is_of_this_host(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        peer = connection.getpeername()
        return connection.family == socket.AF_UNIX or str(peer[0]).startswith(("127.", "::1", "::ffff:127."))


_OF_THE_WORKER = _connections()
"""Found when a process imports this module for its first task, before a store opens connections of its own."""


@contextmanager
def ending_with_the_task() -> Iterator[None]:
    """End this process at once if Spark closes its connection while the block runs."""
    done = Event()
    if _OF_THE_WORKER:
        Thread(target=_watch, args=(_OF_THE_WORKER, done), name="deltacli-orphan", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(descriptors: list[int], done: Event) -> None:
    watcher = select.poll()
    for descriptor in descriptors:
        watcher.register(descriptor, select.POLLRDHUP)
    while not done.is_set():
        if watcher.poll(_TICK_MS) and not done.is_set():
            os._exit(1)
