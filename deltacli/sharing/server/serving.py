"""Running the application by uvicorn: sockets, signals, reloads, and a shutdown that finishes running answers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltacli.errors import StorageFailed, UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from deltacli.sharing.configuration.settings import Tls
    from deltacli.sharing.server.guarding.reloading import Reloader

SHUTDOWN_SECONDS = 30
KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048


def require_server() -> None:
    """Raise UsageError unless the packages of the server are installed."""
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as fault:
        raise UsageError(
            f"the server needs the package {fault.name}, which is not installed",
            code="usage.missing-extra",
            hint="pip install 'deltacli[share]'",
        ) from fault


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; port 0 is any free one. Raises UsageError and StorageFailed."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as fault:
        raise UsageError(f"{host} is not an address of this machine: {fault.strerror}", code="share.host") from fault
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
    match fault.errno:
        case errno.EADDRINUSE:
            return UsageError(
                f"port {port} of {host} is in use", code="share.port-in-use", hint="add --port 0 for any free port"
            )
        case errno.EACCES:
            return UsageError(
                f"port {port} of {host} needs more privileges", code="share.port-denied", hint="add --port 8080"
            )
        case errno.EADDRNOTAVAIL:
            return UsageError(f"{host} is not an address of this machine", code="share.host")
    return StorageFailed(f"port {port} of {host} cannot be opened: {fault.strerror}", code="share.port")


def address_of(bound: socket.socket) -> tuple[str, int]:
    """Return host and port of a bound socket."""
    host, port = bound.getsockname()[:2]
    return str(host), int(port)


@dataclass(frozen=True)
class Port:
    """An application and the socket that it answers on."""

    application: ASGIApp
    bound: socket.socket


@dataclass
class Serving:
    """A server of shares, and one for operators. `reloader` is None where nothing can change."""

    main: Port
    admin: Port | None = None
    reloader: Reloader | None = None
    tls: Tls | None = None
    has_parent: bool = False
    """True for a worker: it ends with the process that started it."""
    is_ending: bool = False

    def run(self) -> None:
        """Answer requests until a signal; then finish the running ones, for up to 30 seconds. A second signal ends
        them. Raises UsageError for a certificate that cannot be used.
        """
        with contextlib.suppress(ImportError):
            import uvloop

            uvloop.run(self._run())
            return
        asyncio.run(self._run())

    async def _run(self) -> None:
        server = _make_server(self.main.application, _tls_options(self.tls))
        beside = [asyncio.create_task(self._serve_admin())] if self.admin is not None else []
        if self.reloader is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reloader.request)
            beside.append(asyncio.create_task(self.reloader.run()))
        if self.has_parent:
            beside.append(asyncio.create_task(_end_with_parent(server)))
        try:
            await server.serve(sockets=[self.main.bound])
        finally:
            self.is_ending = True
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _serve_admin(self) -> None:
        assert self.admin is not None
        server = _make_server(self.admin.application, {}, is_alone=False)
        await server.serve(sockets=[self.admin.bound])


async def _end_with_parent(server: Any) -> None:  # Any: uvicorn's
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(1)
    server.should_exit = True


def _make_server(application: ASGIApp, options: Mapping[str, Any], *, is_alone: bool = True) -> Any:  # Any: uvicorn's
    """Return a server; one that is not alone leaves signals to the other."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """End by signals, without raising them again at the end: they are how a server is stopped."""
            if not is_alone:
                yield
                return
            before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        **options,
    )
    try:
        config.load()
    except OSError as fault:  # of the certificate, its key, or the password
        raise UsageError(
            f"the certificate cannot be used: {fault.strerror or fault}",
            code="share.certificate",
            hint="check ssl.certificateFile, ssl.certificateKeyFile and ssl.certificatePasswordFile",
        ) from fault
    return Server(config)


def _tls_options(tls: Tls | None) -> dict[str, Any]:  # Any: options of uvicorn
    if tls is None:
        return {}
    try:
        password = tls.password()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError("ssl.certificatePasswordFile cannot be read", code="share.certificate") from fault
    return {
        "ssl_certfile": str(tls.certificate_file),
        "ssl_keyfile": str(tls.key_file),
        "ssl_keyfile_password": password,
    }
