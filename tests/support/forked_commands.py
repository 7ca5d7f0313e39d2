"""`python -m tests.support.forked_commands CHANNEL LISTENER`: runs deltacli in forks of this process.

Orders come from the process at the other end of the channel, and from programs that connect to the listener. Both are
descriptors that it inherits.

Starting Python and importing the product and pyarrow takes most of the time of a short command, and it is done once
here. A command has arguments, a directory, an environment and pipes of its own, and its fork ends as the command does.
This process has one thread: no lock of another one is held in a fork.

Commands that have the same environment run in one fork, one after the other, until one leaves anything behind: a fork
takes 15 ms and starts with cold caches, which is half of the time of most commands. Programs have a fork each.
"""

from __future__ import annotations

import gc
import marshal
import os
import pickle
import pkgutil
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    length, outputs, _, _ = socket.recv_fds(channel, _LENGTH.size, 3)
    if not length:
        return None
    data = b""
    while len(data) < _LENGTH.unpack(length)[0]:
        data += channel.recv(1 << 20)
    return (pickle.loads(data) if len(outputs) == 2 else Order(*marshal.loads(data))), outputs


_PROGRAM = """\
#!{python} -IS
import _socket, marshal, os, struct, sys
channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
channel.connect({name!r})
os.umask(mask := os.umask(0))
order = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ), mask))
passed = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("3i", 1, 2, 0))]
channel.sendmsg([struct.pack("!I", len(order))], passed)
channel.sendall(order)
code = int.from_bytes(channel.recv(4), "big", signed=True)
os.kill(os.getpid(), -code) if code < 0 else os._exit(code)
"""


def program_text(name: str) -> str:
    """Return a program that has its command line run, with its own input and output: it takes 15 ms to start."""
    return _PROGRAM.format(python=sys.executable, name=name)


def exit_code(channel: socket.socket) -> int:
    """Return how the command ended, negative for a signal."""
    data = channel.recv(4)
    assert data, "the process that forks has ended"
    return int.from_bytes(data, signed=True)


def _prepare_for(order: Order, outputs: Sequence[int]) -> None:
    for number, output in zip((1, 2, 0), outputs, strict=False):
        os.dup2(output, number)
        os.close(output)
    os.chdir(order.directory)
    os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    if "OWN_TERMINAL" in order.environment:
        _take_terminal()
    if "WITHOUT_RICH" in order.environment:
        sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails
    sys.argv[1:] = order.arguments


def _take_terminal() -> None:
    """Begin a session with the terminal of this process, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(next(number for number in (0, 1, 2) if os.isatty(number)), termios.TIOCSCTTY, 0)


def _serve(channel: socket.socket, listener: socket.socket, plain: socket.socket) -> None:
    """Answer the orders of the channel one after the other, and those of programs each in a fork that waits for it."""
    shared = _SharedFork(channel, listener, plain)
    with listener:
        while True:
            ready, _, _ = select.select([channel, listener], [], [])
            if listener in ready:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    channel.close()
                    plain.close()
                    channel = connection
                    break
                connection.close()
            elif (found := receive(channel)) is None:
                return
            elif "WITHOUT_RICH" in found[0].environment:
                send(plain, found[0], *found[1])
                for output in found[1]:
                    os.close(output)
                channel.sendall(exit_code(plain).to_bytes(4, signed=True))
            else:
                channel.sendall(shared.run(*found).to_bytes(4, signed=True))
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    if (found := receive(channel)) is not None:
        _answer_in_a_fork(found, channel)
        os._exit(0)


def _answer_in_a_fork(found: tuple[Order, list[int]], channel: socket.socket) -> None:
    """Run an order in a fork of its own and send its exit code."""
    order, outputs = found
    process = os.fork()
    if process == 0:
        channel.close()
        _prepare_for(order, outputs)
        from deltacli.__main__ import main

        main()
        sys.exit()
    for output in outputs:
        os.close(output)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    channel.sendall(code.to_bytes(4, signed=True))


class _SharedFork:
    """A fork that runs commands one after the other, and another one when it has ended or the environment changes."""

    def __init__(self, *sockets: socket.socket) -> None:
        self._sockets = sockets
        self._process, self._environment = 0, dict[str, str]()
        self._channel: socket.socket | None = None

    def run(self, order: Order, outputs: Sequence[int]) -> int:
        """Run an order and return its exit code."""
        # The name of a test is none of a command's business.
        environment = {name: value for name, value in order.environment.items() if name != "PYTEST_CURRENT_TEST"}
        if environment != self._environment:
            self._end()
        self._environment = environment
        channel = self._channel or self._started(outputs)
        send(channel, order, *outputs)
        for output in outputs:
            os.close(output)
        answer = channel.recv(5)
        stays = len(answer) == 5 and bool(answer[4])
        ended = 0 if stays else self._end()
        return int.from_bytes(answer[:4], signed=True) if answer else ended

    def _end(self) -> int:
        """Let the fork end, and return its exit code."""
        if self._channel is None:
            return 0
        with suppress(OSError):  # a program that was forked meanwhile has the socket, too
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()
        self._channel = None
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])

    def _started(self, outputs: Sequence[int]) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._process, self._channel = os.fork(), ours
        if self._process:
            theirs.close()
            return ours
        for other in (ours, *self._sockets):
            other.close()
        for output in outputs:
            os.close(output)
        _run_each(theirs)
        os._exit(0)


_MOST = 30
"""So many commands run in one process."""


class _Left(BaseException):
    """A command has ended."""


def _run_each(channel: socket.socket) -> None:
    """Run orders until one leaves anything behind that a process takes along at its end; say so with its exit code."""
    from deltacli import __main__ as program
    from deltacli.storage import secrets

    def leave(code: int) -> None:
        raise _Left(code)

    program._leave = leave  # the fork is left at its own end
    nobody, before = os.open(os.devnull, os.O_RDWR), None
    for number in range(_MOST):
        if (found := receive(channel)) is None:
            return
        _prepare_for(*found)
        if number == 1:  # the first one may leave what a process has once
            gc.collect()
            before = _traces()
        code = 0
        try:
            program.main()
        except _Left as left:
            (code,) = left.args
        for output, stream in ((1, sys.stdout), (2, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
            os.dup2(nobody, output)
        secrets._remembered.clear()
        if before and before != _traces():
            gc.collect()  # handles of tables that are tied in a circle
        stays = number + 1 < _MOST and (before is None or before == _traces())
        channel.sendall(code.to_bytes(4, signed=True) + bytes([stays]))
        if not stays:
            return


def _traces() -> tuple[object, ...]:
    """Return what a command can leave in its process."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)]
    streams = [sys.stdin, sys.stdout, sys.stderr]
    return os.listdir("/proc/self/fd"), threading.active_count(), handlers, streams, gc.isenabled(), gc.get_threshold()


def _prepare() -> socket.socket:
    """Import what commands on local tables need, as the command line does, and compile its patterns. Clouds are left to
    the forks. Return the channel of a process that has not imported rich, and what draws on terminals with it.
    """
    from deltacli.core.memory import choose_allocator
    from deltacli.core.optional_packages import leave_out_optional_packages

    leave_out_optional_packages()
    choose_allocator()
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # the environment of a fork is its order's
    for module in ("compute", "dataset", "fs", "json", "parquet"):
        import_module(f"pyarrow.{module}")
    sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails
    drawing = []
    for part in ("cli", "changing", "delta", "fleet", "work", "operations", "rules", "sharing", "api"):
        package = import_module(f"deltacli.{part}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                import_module(found.name)
            except ModuleNotFoundError as fault:
                if (fault.name or "").partition(".")[0] != "rich":
                    raise
                drawing.append(found.name)
    from tests.support.built_commands import build_commands

    build_commands()
    del sys.modules["rich"]
    assert not [name for name in sys.modules if name.partition(".")[0] == "rich"]
    plain = _without_rich()
    for name in drawing:
        import_module(name)
    gc.collect()
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    assert 1 == len(threads), "a lock of another thread would never be released in a fork"
    return plain


def _without_rich() -> socket.socket:
    """Fork this process as it is, and return the channel on which the fork takes orders."""
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours
    ours.close()
    gc.freeze()
    shared = _SharedFork(theirs)
    while (found := receive(theirs)) is not None:
        theirs.sendall(shared.run(*found).to_bytes(4, signed=True))
    os._exit(0)


if __name__ == "__main__":
    prepared = _prepare()
    orders, programs = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:])
    _serve(orders, programs, prepared)
