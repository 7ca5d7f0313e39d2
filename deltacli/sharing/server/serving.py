"""Running the application by uvicorn: the socket, signals, and a shutdown that finishes running answers; in this
process, or in several that answer at one address. One of those that ends is replaced; a signal ends all after their
answers.

Each process has a cache of its own. They share the socket and the key, so a URL or a token of one is good for all.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from deltacli.core import errors, tempfiles
from deltacli.delta.log.file_actions import action_schemas
from deltacli.sharing.configuration.settings import Limits, Settings, Tls
from deltacli.sharing.server.exchange import NAME, log_to_stderr

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    import uvicorn
    from starlette.types import ASGIApp

    from deltacli.sharing.server.connections import Connections


SHUTDOWN_SECONDS = 30
_BACKLOG = 2048
_ADMIN_CONNECTIONS = 100


def require_server() -> None:
    """Raise UsageError unless the packages of the server are installed."""
    for name in ("starlette", "uvicorn", "httptools", "yaml", "prometheus_client"):
        if find_spec(name) is None:
            message = f"the server needs the package {name}, which is not installed"
            raise errors.UsageError(message, code="usage.missing-extra", hint=errors.install_command("share"))


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; port 0 is any free one. Raises UsageError and StorageFailed."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as fault:
        raise _no_host(host) from fault
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as fault:
        bound.close()
        raise _not_bound(host, port, fault) from fault
    bound.set_inheritable(True)
    return bound


def _not_bound(host: str, port: int, fault: OSError) -> errors.StorageFailed | errors.UsageError:
    any_port = errors.suggest_parameters(errors.parameter("share serve.port", 0), also=" for any free port")
    match fault.errno:
        case errno.EADDRINUSE:
            return errors.UsageError(f"port {port} of {host} is in use", code="share.port-in-use", hint=any_port)
        case errno.EACCES:
            hint = errors.suggest_parameters(errors.parameter("share serve.port", 8080))
            return errors.UsageError(
                f"port {port} of {host} needs more privileges", code="share.port-denied", hint=hint
            )
        case errno.EADDRNOTAVAIL:
            return _no_host(host)
    return errors.StorageFailed(
        f"port {port} of {host} cannot be opened: {fault.strerror}", code="share.port", hint=any_port
    )


def _no_host(host: str) -> errors.UsageError:
    hint = errors.suggest_parameters(errors.parameter("share serve.host", "127.0.0.1"))
    return errors.UsageError(f"{host} is not an address of this machine", code="share.host", hint=hint)


def address_of(bound: socket.socket) -> tuple[str, int]:
    """Return host and port of a bound socket."""
    host, port = bound.getsockname()[:2]
    return str(host), int(port)


@dataclass(frozen=True)
class Service:
    """What one process runs: the application, what else runs beside it, and what SIGHUP does (None: it ends the run).

    `admin` is answered at another address, where there is one.
    """

    application: ASGIApp
    connections: Connections
    admin: ASGIApp | None = None
    background: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = ()
    on_hangup: Callable[[], None] | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Sockets:
    """The bound addresses of the application and of `admin`."""

    main: socket.socket
    admin: socket.socket | None = None

    def close(self) -> None:
        """Close both."""
        self.main.close()
        if self.admin is not None:
            self.admin.close()


def run_service(service: Service, sockets: Sockets) -> None:
    """Answer requests until a signal; then finish the running ones, for up to 30 seconds. A second signal ends them."""
    with _tls_options(service.certificate) as options:
        server = _server(service.application, service.connections, options)
    # What queries need, before the first request: all others would wait for half a second while one imports it.
    import_module("deltacli.api.table")
    import_module("pyarrow")
    action_schemas()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_run(service, server, sockets))


async def _run(service: Service, server: uvicorn.Server, sockets: Sockets) -> None:
    from deltacli.sharing.server.connections import Connections

    loop = asyncio.get_running_loop()
    beside = [asyncio.create_task(work()) for work in (service.connections.run, *service.background)]
    if service.admin is not None and sockets.admin is not None:
        connections = Connections(lambda: Settings(limits=Limits(connections=_ADMIN_CONNECTIONS)))
        beside.append(asyncio.create_task(connections.run()))
        beside.append(asyncio.create_task(_without_signals(_server(service.admin, connections, {}), sockets.admin)))
    if service.on_hangup is not None:
        loop.add_signal_handler(signal.SIGHUP, service.on_hangup)
    parent = parent_process()
    if parent is not None:  # where it was killed, nobody else ends this process
        loop.add_reader(parent.sentinel, lambda: server.handle_exit(signal.SIGTERM, None))
    try:
        await server.serve(sockets=[sockets.main])
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


async def _without_signals(server: uvicorn.Server, bound: socket.socket) -> None:
    """Serve until cancelled, and leave signals to the other server."""
    server.capture_signals = nullcontext  # type: ignore[assignment]
    await server.serve(sockets=[bound])


def _server(application: ASGIApp, connections: Connections, options: Mapping[str, Any]) -> uvicorn.Server:
    import uvicorn

    from deltacli.sharing.server.connections import GuardedProtocol, TlsServer

    make = partial(GuardedProtocol, connections)
    config = uvicorn.Config(
        application,
        http=make,  # type: ignore[arg-type]  # called like a class
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        **options,
    )
    try:
        config.load()
    except OSError as fault:
        raise _unusable(fault) from fault
    return uvicorn.Server(config) if config.ssl is None else TlsServer(config, connections)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its chain, and its key, as read when the server began. Later workers present it, too."""

    chain: bytes
    key: bytes = field(repr=False)
    password: str | None = field(repr=False)


def read_certificate(tls: Tls | None) -> Certificate | None:
    """Return the certificate of a configuration. Raises UsageError where a file cannot be read."""
    if tls is None or tls.certificate_file is None or tls.key_file is None:
        return None
    try:
        password = tls.password()
    except (OSError, UnicodeDecodeError) as fault:
        raise errors.UsageError(
            "ssl.certificatePasswordFile cannot be read",
            code="share.certificate",
            hint=f"ls -l {errors.quote_word(str(tls.password_file))}",
        ) from fault
    try:
        found = Certificate(tls.certificate_file.read_bytes(), tls.key_file.read_bytes(), password)
        with _tls_options(found) as options:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*options.values())
    except OSError as fault:
        raise _unusable(fault) from fault
    return found


def _unusable(fault: OSError) -> errors.UsageError:
    return errors.UsageError(
        f"the certificate cannot be used: {fault.strerror or fault}",
        code="share.certificate",
        hint="check ssl.certificateFile, ssl.certificateKeyFile and ssl.certificatePasswordFile",
    )


@contextmanager
def _tls_options(certificate: Certificate | None) -> Iterator[dict[str, Any]]:  # Any: options of uvicorn
    """Yield the options of a certificate, which OpenSSL takes from files only: here they have no names."""
    if certificate is None:
        yield {}
        return
    with _unnamed() as chain, _unnamed() as key:
        for file, content in ((chain, certificate.chain), (key, certificate.key)):
            file.write(content)
            file.flush()
            file.seek(0)
        yield {
            "ssl_certfile": f"/dev/fd/{chain.fileno()}",
            "ssl_keyfile": f"/dev/fd/{key.fileno()}",
            "ssl_keyfile_password": certificate.password,
        }


def _unnamed() -> IO[bytes]:
    """Return a file in memory where the system has such, else one that is on no path."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("deltacli"), "w+b")
    return TemporaryFile()


_log = logging.getLogger(NAME)
_SOON_SECONDS = 5.0
_MOST_SOON = 5
"""So many processes may end right after their start before the server gives up, unless one of them is at work."""
_LONGEST_PAUSE = 60.0

METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""Names the directory in which all processes count."""

MakeService = Callable[[], Service]
"""Makes the service in the process that runs it; it is sent there, so it has to be picklable."""


@dataclass(frozen=True)
class LogChoice:
    """How the log is written: `level` is one of `logging`."""

    as_json: bool = False
    level: int = logging.INFO


def serve(make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    """Answer requests in this process until a signal."""
    log_to_stderr(as_json=log.as_json, level=log.level)
    run_service(make(), sockets)


def serve_by_workers(following: Callable[[], MakeService], sockets: Sockets, workers: int, log: LogChoice) -> None:
    """Answer requests in several other processes until a signal. `following` returns the service of the next one.
    Raises StorageFailed where none can start.
    """
    log_to_stderr(as_json=log.as_json, level=log.level)
    with tempfile.TemporaryDirectory(prefix="deltacli-share-") as metrics:
        tempfiles.remember(Path(metrics))
        os.environ[METRICS] = metrics  # workers inherit it
        pool = _Workers(following, sockets, workers, log)
        hang_up = signal.signal(signal.SIGHUP, lambda *_: _signal(pool.running, signal.SIGHUP))
        try:
            pool.run()
        finally:
            pool.end()
            signal.signal(signal.SIGHUP, hang_up)
            del os.environ[METRICS]
            tempfiles.forget(Path(metrics))


def _begin(chosen: errors.HintSyntax, make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    with errors.use_hint_syntax(chosen):
        _work(make, sockets, log)


def _work(make: MakeService, sockets: Sockets, log: LogChoice) -> None:
    """Run one worker. A signal during startup ends the process immediately; later, the server shuts down cleanly."""
    is_serving = False

    async def begin() -> None:
        nonlocal is_serving
        is_serving = True  # by now the server handles signals; after its shutdown it raises them again

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: None if is_serving else os._exit(128 + number))
    log_to_stderr(as_json=log.as_json, level=log.level)
    try:
        service = make()
        run_service(replace(service, background=(*service.background, begin)), sockets)
    except errors.DeltacliError as fault:
        _log.error("the worker cannot start: %s", fault)
        raise SystemExit(fault.exit_code) from None


@dataclass
class _Workers:
    """The running processes."""

    following: Callable[[], MakeService]
    sockets: Sockets
    count: int
    log: LogChoice
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[list[int], float | None], Sequence[object]] = wait
    running: list[SpawnProcess] = field(default_factory=list)
    began: dict[int, float] = field(default_factory=dict)
    ended_soon: int = 0
    next_start: float = 0.0

    def run(self) -> None:
        """Start the processes and replace those that end: the next one later, where one ended as soon as it started."""
        while True:
            now = self.clock()
            while len(self.running) < self.count and now >= self.next_start:
                self._start_worker(self.following())
            pause = None if len(self.running) == self.count else max(self.next_start - now, 0.0)
            for sentinel in self.wait([process.sentinel for process in self.running], pause):
                process = next(found for found in self.running if found.sentinel == sentinel)
                process.join()
                self.running.remove(process)
                self._count_end(process, self.clock() - self.began.pop(process.sentinel))

    def _start_worker(self, make: MakeService) -> SpawnProcess:
        """Start a process. The command line does not interrupt it: nobody would wait for the end of the process."""
        process = get_context("spawn").Process(
            target=_begin, args=(errors.get_hint_syntax(), make, self.sockets, self.log)
        )
        process.start()
        self.running.append(process)
        self.began[process.sentinel] = self.clock()
        return process

    def _count_end(self, process: SpawnProcess, seconds: float) -> None:
        """Log the end of a process. Raises StorageFailed where they end as soon as they start, and none is at work."""
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(process.pid, os.environ[METRICS])  # type: ignore[no-untyped-call]  # its cache, its requests
        self.ended_soon = self.ended_soon + 1 if seconds < _SOON_SECONDS else 0
        pause = min(2.0 ** (self.ended_soon - 1), _LONGEST_PAUSE) if self.ended_soon else 0.0
        now = self.clock()
        self.next_start = now + pause
        when = f"in {pause:.0f} s" if pause else "now"
        _log.error("worker %s ended with %s; another one is started %s", process.pid, process.exitcode, when)
        is_at_work = any(now - begun >= _SOON_SECONDS for begun in self.began.values())
        if self.ended_soon > _MOST_SOON and not is_at_work:
            raise errors.StorageFailed(
                "the workers of the server end as soon as they start",
                code="share.workers",
                facts={"exit code": str(process.exitcode)},
                hint=f"start it with {errors.parameter('share serve.workers', 1)} to see why",
            )

    def end(self) -> None:
        """Let the processes finish their answers, and end those that take too long."""
        _signal(self.running, signal.SIGTERM)
        deadline = time.monotonic() + SHUTDOWN_SECONDS + 5
        for process in self.running:
            process.join(max(0.0, deadline - time.monotonic()))
        _signal(self.running, signal.SIGKILL)
        for process in self.running:
            process.join(1)


def _signal(processes: Sequence[SpawnProcess], number: int) -> None:
    for process in processes:
        if process.is_alive() and process.pid is not None:
            with suppress(ProcessLookupError):  # it has ended, and the wait for it was interrupted
                os.kill(process.pid, number)
