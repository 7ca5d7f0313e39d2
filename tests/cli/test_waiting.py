"""A signal that arrives just before a blocking call ends the wait all the same."""

from __future__ import annotations

import _thread
import contextlib
import operator
import os
import select
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from deltacli.cli.terminal.signals import Interrupted, raise_on_signals
from deltacli.cli.terminal.waiting import read_line, wait_for_end, write_all

_A_LIMIT = 20.0
"""Seconds after which a wait that missed its signal is given up."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def _read(pipe: tuple[int, int]) -> None:
    read_line(pipe[0])


def _write(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe[1], bytes(1 << 16))
    write_all(pipe[1], b"more than fits")


def _wait(_: tuple[int, int]) -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        wait_for_end(process)
    finally:
        process.communicate(b"")


@pytest.mark.parametrize("wait", [_read, _write, _wait])
def test_a_signal_right_before_the_system_call_ends_the_wait(
    wait: Callable[[tuple[int, int]], None], pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = select.select
    found: list[Any] = []  # Any: what the two calls return

    def interrupted_select(reads: list[int], writes: list[int], faults: list[int]) -> Any:
        # The calls run within one instruction of the interpreter: no handler runs between them.
        call: Callable[[Callable[[], Any]], Any] = operator.call
        calls: list[Callable[[], Any]] = [_thread.interrupt_main, partial(real, reads, writes, faults, _A_LIMIT)]
        found.extend(map(call, calls))
        return found[-1]

    monkeypatch.setattr(select, "select", interrupted_select)
    with raise_on_signals(), pytest.raises(Interrupted):
        wait(pipe)

    ready, _, _ = found[1]
    assert 1 == len(ready)


def test_a_line_is_read_and_the_end_of_the_input_is_empty(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.write(writing, b"yes\n")
    line = read_line(reading)
    with open("/dev/null", "rb") as nothing:
        at_the_end = read_line(nothing.fileno())

    assert (b"yes\n", b"") == (line, at_the_end)


def test_a_block_larger_than_a_pipe_is_written_completely() -> None:
    process = subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None

    write_all(process.stdin.fileno(), bytes(1 << 20))
    process.stdin.close()
    code = wait_for_end(process)
    counted = process.stdout.read()
    process.stdout.close()

    assert (0, 1 << 20) == (code, int(counted))
