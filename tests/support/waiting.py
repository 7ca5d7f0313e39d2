"""Waiting for other threads and processes, never for ever: a failure names what did not come."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from signal import SIGKILL
from subprocess import Popen
from threading import Event, Thread, Timer
from typing import Any

SECONDS = 120
"""Nothing that a test waits for takes that long, however busy the machine is."""

_TICK = 0.002


def wait_until(is_so: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Return when it is so. `what` says what was awaited where it is not in time. For what gives no signal: prefer an
    event, a pipe or the end of a process.
    """
    last, never = time.monotonic() + seconds, Event()
    while not is_so():
        assert time.monotonic() < last, f"waited {seconds:.0f} seconds in vain: {what}"
        never.wait(_TICK)  # lets others run


async def wait_in_loop(is_so: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    """Let the event loop go on until it is so."""
    last = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < last, f"waited {seconds:.0f} seconds in vain: {what}"
        await asyncio.sleep(0)


def join(thread: Thread, seconds: float = SECONDS) -> None:
    """Wait for the end of a thread."""
    thread.join(seconds)
    assert not thread.is_alive(), f"waited {seconds:.0f} seconds in vain for the end of {thread.name}"


@contextmanager
def in_time(process: Popen[Any], what: str, seconds: float = SECONDS) -> Iterator[None]:
    """Kill a process, and what it started, if the block has not ended in time: then no pipe of it keeps a reader."""
    is_late = Event()

    def end() -> None:
        is_late.set()
        for each in (*children_of(process.pid), process.pid):
            with suppress(OSError):
                os.kill(each, SIGKILL)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        assert not is_late.is_set(), f"waited {seconds:.0f} seconds in vain: {what}"


def children_of(process: int) -> list[int]:
    """Return the processes that a process started, from Linux's /proc; none elsewhere."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(entry.name))
    return found


def answer_of(process: Any, queue: Any, seconds: float = 300) -> Any:  # Any: of multiprocessing; what is in the queue
    """Return what a process puts into its queue. One that ends without a word fails the test at once."""
    assert wait([queue._reader, process.sentinel], seconds), f"waited {seconds:.0f} seconds in vain for {process.name}"
    assert not queue.empty(), f"{process.name} ended with {process.exitcode} and said nothing"
    return queue.get()


def run_together(
    targets: Sequence[tuple[Callable[..., None], tuple[Any, ...]]], seconds: float = 300
) -> list[Any]:  # Any: what they say
    """Start processes, each with its arguments, a barrier of all and a queue; return what each puts there, in order."""
    context = multiprocessing.get_context("spawn")
    together, queues = context.Barrier(len(targets), timeout=SECONDS), [context.SimpleQueue() for _ in targets]
    processes = [
        context.Process(target=target, args=(*arguments, together, queue), daemon=True)
        for (target, arguments), queue in zip(targets, queues, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        found = [answer_of(process, queue, seconds) for process, queue in zip(processes, queues, strict=True)]
        for process in processes:
            process.join(SECONDS)
        return found
    finally:
        for process in processes:
            process.kill()
