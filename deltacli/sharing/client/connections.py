"""Connections of urllib3 that go only to addresses that were checked after the name was resolved."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from deltacli.core.hosts import is_loopback
from deltacli.core.lock_free_property import cached_property
from deltacli.sharing.client.faults import DEFAULTS
from deltacli.storage.objects.proxies import find_proxy
from deltacli.storage.objects.timed_responses import make_timed_head_class

_MOST_POOLS = 16
_NO_RETRIES = urllib3.Retry(False, redirect=False)

Resolve = Callable[[str, int], list[str]]
"""Returns the addresses of a host, in the order to try them. Raises socket.gaierror."""
Vet = Callable[[str, str], None]
"""Gets a host and one of its addresses; raises for an address that must not be connected to."""


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host by the resolver of this machine."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def make_pools(
    vet: Vet,
    *,
    connections: int,
    lookup: Resolve = resolve,
    head_seconds: float = DEFAULTS.head_seconds,
    now: Callable[[], float] = time.monotonic,
) -> urllib3.PoolManager:
    """Return pools of connections. `vet` sees every address before anything is sent to it."""
    answers = make_timed_head_class(head_seconds, now)

    class Plain(HTTPConnection):
        response_class = answers

        def _new_conn(self) -> socket.socket:
            return _connect(self, vet, lookup)

    class Secured(HTTPSConnection):
        response_class = answers

        def _new_conn(self) -> socket.socket:
            return _connect(self, vet, lookup)

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecuredPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secured

    class Tunnelled(HTTPSConnection):
        response_class = answers

    class TunnelledPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Tunnelled

    def vet_name(host: str) -> None:
        """Vet the addresses of a host that a proxy connects to, as far as this machine knows them."""
        with suppress(OSError, UnicodeError):
            for address in lookup(host.strip("[]"), 443):
                vet(host, address)

    manager = _Pools(vet_name, TunnelledPool, num_pools=_MOST_POOLS, maxsize=connections, block=False)
    manager.pool_classes_by_scheme = {"http": PlainPool, "https": SecuredPool}
    return manager


class _Pools(urllib3.PoolManager):
    """Pools that are found by the text of an origin, which saves a quarter of the processor time of a small file.

    https goes through the proxy of the environment, as that of stores does. Plain http goes to loopback only, where
    there is none.
    """

    def __init__(
        self, vet_name: Callable[[str], None], tunnelled: type[urllib3.HTTPSConnectionPool], **options: Any
    ) -> None:  # Any: of urllib3
        super().__init__(**options)
        self._vet_name, self._tunnelled = vet_name, tunnelled
        self._known: dict[tuple[str, str], urllib3.HTTPConnectionPool] = {}

    def _new_pool(self, scheme: str, host: str, port: int, request_context: Any = None) -> Any:  # Any: as there
        more = {"ssl_context": self._tls} if scheme == "https" else {}
        return super()._new_pool(scheme, host, port, {**(request_context or self.connection_pool_kw), **more})

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()  # reads the certificates of the system, 25 ms
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def _through(self, proxy: str) -> urllib3.ProxyManager:
        auth = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(auth)) if auth else None
        options = {**self.connection_pool_kw, "ssl_context": self._tls}
        manager = urllib3.ProxyManager(proxy, num_pools=1, proxy_headers=headers, **options)
        manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "https": self._tunnelled}
        return manager

    def urlopen(self, method: str, url: str, redirect: bool = True, **options: Any) -> Any:  # type: ignore[override]  # noqa: ARG002  (never redirects)
        parts = urlsplit(url)
        origin = (parts.scheme, parts.netloc)
        pool = self._known.get(origin)
        if pool is None or pool.pool is None:  # closed because of newer ones
            proxy = find_proxy(parts) if parts.scheme == "https" and not is_loopback(parts.hostname or "") else None
            if proxy is None:
                pool = self.connection_from_url(f"{parts.scheme}://{parts.netloc}")
            else:
                self._vet_name(parts.hostname or "")
                pool = self._through(proxy).connection_from_url(f"https://{parts.netloc}")
            if len(self._known) >= _MOST_POOLS:
                self._known.clear()
            self._known[origin] = pool
        target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        options |= {"retries": _NO_RETRIES, "redirect": False, "assert_same_host": False}
        return pool.urlopen(method, target, **options)


def _connect(connection: Any, vet: Vet, lookup: Resolve) -> socket.socket:  # Any: either kind of connection
    """Return a socket connected to the first address that answers and that may be connected to."""
    host, port = connection.host.strip("[]"), connection.port
    try:
        addresses = lookup(host, port)
    except (socket.gaierror, UnicodeError) as fault:
        reason = fault if isinstance(fault, socket.gaierror) else socket.gaierror(str(fault))
        raise NameResolutionError(host, connection, reason) from fault
    for address in addresses:
        vet(host, address)
    reason_of_last, last = "it has no address", None
    for address in addresses:
        try:
            return _open_socket(connection, address, port)
        except TimeoutError as found:
            raise ConnectTimeoutError(connection, f"connecting to {host} timed out") from found
        except OSError as found:
            reason_of_last, last = found.strerror or str(found), found
    raise NewConnectionError(connection, f"connecting to {host} at port {port} failed: {reason_of_last}") from last


def _open_socket(connection: Any, address: str, port: int) -> socket.socket:  # Any: as above
    timeout = connection.timeout
    opened = socket.create_connection((address, port), timeout if isinstance(timeout, int | float) else None)
    for option in connection.socket_options or ():
        opened.setsockopt(*option)
    return opened
