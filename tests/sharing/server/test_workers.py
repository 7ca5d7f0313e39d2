"""What becomes of workers that have not begun to serve."""

from __future__ import annotations

import os
import signal
import socket
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NoReturn

import pytest

from deltacli.sharing.server.serving import Sockets
from deltacli.sharing.server.workers import LogChoice, _Workers


def never_made(begun: Connection, end: Connection) -> NoReturn:
    """A service that takes for ever to be made."""
    begun.send_bytes(b"begun")
    end.recv_bytes()
    raise AssertionError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_that_is_still_starting(number: signal.Signals) -> None:
    pipe = get_context("spawn").Pipe
    (begun, beginning), (ending, end) = pipe(duplex=False), pipe(duplex=False)
    with socket.socket() as bound:
        pool = _Workers(partial(never_made, beginning, ending), Sockets(bound), 1, LogChoice())
        worker = pool._start()
        try:
            assert begun.poll(60)
            os.kill(worker.pid or 0, number)
            worker.join(30)
            code = worker.exitcode
        finally:
            worker.kill()

    end.close()
    assert 128 + number == code
