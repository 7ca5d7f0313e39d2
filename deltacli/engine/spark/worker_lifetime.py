"""End a Python worker of Spark as soon as its task is cancelled.

When a task is cancelled, Spark closes the connection to the Python worker, but does not kill the process: it could
continue to write or delete files. And Spark notices the cancellation only when it receives the next row, which may take
minutes. So:

* While a piece is running, the worker sends a row without content several times per second, a beat. The driver ignores
  these rows (`interleave_beats`).
* A thread of the worker ends the process when the connection is closed (`exit_when_disconnected`). This works on Linux
  only. On other systems, a cancelled task ends after the piece that it is running.
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

Item = TypeVar("Item")

_BEAT_INTERVAL_SECONDS = 0.15
_POLL_INTERVAL_MS = 100
_OPEN_DESCRIPTORS = "/proc/self/fd"


def _find_connections() -> list[int]:
    """Return the descriptors of sockets that are connected to a process of this host."""
    if not hasattr(select, "POLLRDHUP") or not os.path.isdir(_OPEN_DESCRIPTORS):
        return []
    descriptors = []
    for name in os.listdir(_OPEN_DESCRIPTORS):
        # The directory was opened for this listing, so one of the descriptors is closed already.
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
"""The connections when this module was imported, for the first task, before a store has opened connections."""


def _find_spark_connection() -> int | None:
    """Return the descriptor of the connection to Spark; None if it cannot be determined.

    PySpark does not pass the connection to functions. It is a local variable of `pyspark.worker.main`, which is looked
    up in the frames of the stack. If another worker module is configured, the connection to this host that was open
    when this module was imported is used, if there was only one. With several, one may be a connection of a function of
    the user, which may close it at any time.
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
    """End this process immediately if Spark closes its connection during the `with` block."""
    has_left_block = Event()
    descriptor = _find_spark_connection()
    if descriptor is not None:
        arguments = (descriptor, has_left_block)
        Thread(target=_exit_if_disconnected, args=arguments, name="deltacli-orphan", daemon=True).start()
    try:
        yield
    finally:
        has_left_block.set()


def _exit_if_disconnected(descriptor: int, has_left_block: Event) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    while not has_left_block.is_set():
        is_disconnected = bool(poll.poll(_POLL_INTERVAL_MS))
        if is_disconnected and not has_left_block.is_set():
            os._exit(1)


def interleave_beats(rows: Iterator[Item], beat: Item) -> Iterator[Item]:
    """Yield the rows of an iterator, and a beat whenever the next row takes longer than 0.15 seconds.

    The iterator runs in another thread. Its exceptions are raised here.
    """
    queue: SimpleQueue[Item | _End] = SimpleQueue()
    Thread(target=_put_rows, args=(rows, queue), name="deltacli-task", daemon=True).start()
    while True:
        try:
            row = queue.get(timeout=_BEAT_INTERVAL_SECONDS)
        except Empty:
            yield beat
            continue
        if not isinstance(row, _End):
            yield row
        elif row.error is not None:
            raise row.error
        else:
            return


class _End:
    """The last item of the queue.

    Attributes:
        error: The exception that the iterator has raised; None if it has ended normally.
    """

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _put_rows(rows: Iterator[Item], queue: SimpleQueue[Item | _End]) -> None:
    """Put the rows of an iterator into a queue, and an `_End` after them."""
    error: BaseException | None = None
    try:
        for row in rows:
            queue.put(row)
    except BaseException as caught:  # noqa: BLE001  (raised again in the other thread)
        error = caught
    queue.put(_End(error))
