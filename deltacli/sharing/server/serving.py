"""Running the application by uvicorn: the socket, signals, and a shutdown that finishes running answers."""

from __future__ import annotations

import errno
import os
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import parent_process
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from deltacli.delta.log.file_actions import action_schemas
from deltacli.errors import StorageFailed, UsageError
from deltacli.hints import parameter, quoted
from deltacli.sharing.configuration.settings import Limits, Settings

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from deltacli.sharing.configuration.settings import Tls
    from deltacli.sharing.server.guarding.connections import Connections

SHUTDOWN_SECONDS = 30
_BACKLOG = 2048
_ADMIN_CONNECTIONS = 100


def require_server() -> None:
    """Raise UsageError unless the packages of the server are installed."""
    for name in ("starlette", "uvicorn", "httptools", "yaml", "prometheus_client"):
        if find_spec(name) is None:
            raise UsageError(
                f"the server needs the package {name}, which is not installed",
                code="usage.missing-extra",
                hint="pip install 'deltacli[share]'",
            )


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


def _not_bound(host: str, port: int, fault: OSError) -> StorageFailed | UsageError:
    any_port = f"add {parameter('share serve.port', 0)} for any free port"
    match fault.errno:
        case errno.EADDRINUSE:
            return UsageError(f"port {port} of {host} is in use", code="share.port-in-use", hint=any_port)
        case errno.EACCES:
            hint = f"add {parameter('share serve.port', 8080)}"
            return UsageError(f"port {port} of {host} needs more privileges", code="share.port-denied", hint=hint)
        case errno.EADDRNOTAVAIL:
            return _no_host(host)
    return StorageFailed(f"port {port} of {host} cannot be opened: {fault.strerror}", code="share.port", hint=any_port)


def _no_host(host: str) -> UsageError:
    hint = f"add {parameter('share serve.host', '127.0.0.1')}"
    return UsageError(f"{host} is not an address of this machine", code="share.host", hint=hint)


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
    import asyncio

    with _tls_options(service.certificate) as options:
        server = _server(service.application, service.connections, options)
    _import_what_queries_need()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_run(service, server, sockets))


def _import_what_queries_need() -> None:
    """Import it before the first request: all other requests would wait for half a second, while one imports it."""
    import_module("deltacli.api.table")
    import_module("pyarrow")
    action_schemas()


async def _run(service: Service, server: uvicorn.Server, sockets: Sockets) -> None:
    import asyncio

    from deltacli.sharing.server.guarding.connections import Connections

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

    from deltacli.sharing.server.guarding.connections import GuardedProtocol
    from deltacli.sharing.server.guarding.handshakes import TlsServer

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
        raise UsageError(
            "ssl.certificatePasswordFile cannot be read",
            code="share.certificate",
            hint=f"ls -l {quoted(str(tls.password_file))}",
        ) from fault
    try:
        found = Certificate(tls.certificate_file.read_bytes(), tls.key_file.read_bytes(), password)
        with _tls_options(found) as options:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*options.values())
    except OSError as fault:
        raise _unusable(fault) from fault
    return found


def _unusable(fault: OSError) -> UsageError:
    return UsageError(
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
