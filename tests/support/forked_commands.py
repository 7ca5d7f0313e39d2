"""`python -m tests.support.forked_commands DESCRIPTOR`: runs deltacli in a fork of this process for each order.

Starting Python and importing the product and pyarrow takes most of the time of a short command, and it is done once
here. A fork has arguments, a directory, an environment and pipes of its own, and ends as the command does. This process
has one thread: no lock of another one is held in a fork.
"""

from __future__ import annotations

import gc
import os
import pickle
import pkgutil
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

_LENGTH = struct.Struct("!I")


class Order(NamedTuple):
    """What to run, and where."""

    arguments: Sequence[str]
    directory: str
    environment: Mapping[str, str]
    umask: int


def send(channel: socket.socket, order: Order, out: int, err: int) -> None:
    """Send an order, and the descriptors of its output."""
    data = pickle.dumps(order)
    socket.send_fds(channel, [_LENGTH.pack(len(data))], [out, err])
    channel.sendall(data)


def receive(channel: socket.socket) -> tuple[Order, list[int]] | None:
    """Return the next order with its descriptors; None at the end."""
    length, outputs, _, _ = socket.recv_fds(channel, _LENGTH.size, 2)
    if not length:
        return None
    data = b""
    while len(data) < _LENGTH.unpack(length)[0]:
        data += channel.recv(1 << 20)
    return pickle.loads(data), outputs


def exit_code(channel: socket.socket) -> int:
    """Return how the command ended, negative for a signal."""
    data = channel.recv(4)
    assert data, "the process that forks has ended"
    return int.from_bytes(data, signed=True)


def _become(order: Order, outputs: Sequence[int]) -> None:
    for number, output in enumerate(outputs, start=1):
        os.dup2(output, number)
        os.close(output)
    os.chdir(order.directory)
    os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    if "WITHOUT_RICH" in order.environment:
        sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails
    sys.argv[1:] = order.arguments
    from deltacli.__main__ import main

    main()


def _serve(channel: socket.socket) -> None:
    while (found := receive(channel)) is not None:
        process = os.fork()
        if process == 0:
            channel.close()
            _become(*found)
            return
        for output in found[1]:
            os.close(output)
        _, status = os.waitpid(process, 0)
        channel.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, signed=True))


def _prepare() -> None:
    """Import what commands on local tables need, as the command line does. Clouds, and rich with what draws on
    terminals, are left to the forks.
    """
    from deltacli.arrow.startup import skip_optional_packages
    from deltacli.memory_limit import choose_allocator

    skip_optional_packages()
    choose_allocator()
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # the environment of a fork is its order's
    for module in ("compute", "dataset", "fs", "parquet"):
        import_module(f"pyarrow.{module}")
    sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails
    for part in ("cli", "delta", "fleet", "work", "operations", "sharing", "api"):
        package = import_module(f"deltacli.{part}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                import_module(found.name)
            except ModuleNotFoundError as fault:
                if (fault.name or "").partition(".")[0] != "rich":
                    raise
    del sys.modules["rich"]
    assert not [name for name in sys.modules if name.partition(".")[0] == "rich"]
    gc.collect()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    assert 1 == len(threads), "a lock of another thread would never be released in a fork"


if __name__ == "__main__":
    _prepare()
    _serve(socket.socket(fileno=int(sys.argv[1])))
