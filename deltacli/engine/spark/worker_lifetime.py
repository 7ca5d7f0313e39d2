"""End a worker of Spark when its task ends.

Spark notices that a task was cancelled when it next receives something from the worker, or after some seconds, and then
closes the connection; the process may go on writing and deleting. So a worker sends a beat several times per second,
which Spark drops, and ends as soon as its connection is closed. The second part is for Linux only; elsewhere a
cancelled task ends with the piece that it runs.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import FrameType
from typing import TypeVar

One = TypeVar("One")

_BEAT_SECONDS = 0.15
_TICK_MS = 100
_DESCRIPTORS = "/proc/self/fd"


def _find_connections() -> list[int]:
    """Return the descriptors of sockets that are connected to a process of this host."""
    if not hasattr(select, "POLLRDHUP") or not os.path.isdir(_DESCRIPTORS):
        return []
    descriptors = []
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError, ValueError):
            if _is_socket(int(name)) and _is_local_connection(int(name)):
                descriptors.append(int(name))
    return descriptors


def _is_socket(descriptor: int) -> bool:
    return stat.S_ISSOCK(os.fstat(descriptor).st_mode)


def _is_local_connection(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        peer = connection.getpeername()
        return connection.family == socket.AF_UNIX or str(peer[0]).startswith(("127.", "::1", "::ffff:127."))


_OPEN_AT_FIRST = _find_connections()
"""Found when a process imports this module for its first task, before a store opens connections of its own."""


def _find_spark_connection() -> int | None:
    """Return the descriptor from which the worker reads its task; None where it is not certain.

    PySpark hands its stream to nobody, so it is taken from the frame of `pyspark.worker.main`. Under another worker
    module it is the connection to this host that was open at first, if there was only one: the user's own functions
    may have opened others in the same process, which they may close at any time.
    """
    if not hasattr(select, "POLLRDHUP"):
        return None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and frame.f_globals.get("__name__") == "pyspark.worker":
            with suppress(AttributeError, KeyError, OSError, ValueError):
                descriptor: int = frame.f_locals["infile"].fileno()
                if _is_socket(descriptor):
                    return descriptor
        frame = frame.f_back
    return _OPEN_AT_FIRST[0] if len(_OPEN_AT_FIRST) == 1 else None


@contextmanager
def exit_when_disconnected() -> Iterator[None]:
    """End this process at once if Spark closes its connection while the block runs."""
    done = Event()
    descriptor = _find_spark_connection()
    if descriptor is not None:
        Thread(target=_watch_connection, args=(descriptor, done), name="deltacli-orphan", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch_connection(descriptor: int, done: Event) -> None:
    watcher = select.poll()
    watcher.register(descriptor, select.POLLRDHUP)
    while not done.is_set():
        if watcher.poll(_TICK_MS) and not done.is_set():
            os._exit(1)


def interleave_beats(rows: Iterator[One], beat: One) -> Iterator[One]:
    """Yield what a thread gets from `rows`, and `beat` whenever there is nothing else for a while."""
    ready: SimpleQueue[One | _End] = SimpleQueue()
    Thread(target=_collect_rows, args=(rows, ready), name="deltacli-task", daemon=True).start()
    while True:
        try:
            row = ready.get(timeout=_BEAT_SECONDS)
        except Empty:
            yield beat
            continue
        if not isinstance(row, _End):
            yield row
        elif row.cause is not None:
            raise row.cause
        else:
            return


class _End:
    """The end of the rows, with the exception that ended them early."""

    def __init__(self, cause: BaseException | None) -> None:
        self.cause = cause


def _collect_rows(rows: Iterator[One], ready: SimpleQueue[One | _End]) -> None:
    cause: BaseException | None = None
    try:
        for row in rows:
            ready.put(row)
    except BaseException as fault:  # noqa: BLE001  (raised again in the thread that yields)
        cause = fault
    ready.put(_End(cause))
