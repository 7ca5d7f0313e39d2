"""The proxy and the authorities of the environment: what the client sends where, and what it still refuses."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deltacli.core.errors import DeltacliError
from deltacli.sharing.client.faults import ServerUnavailable, UrlRefused, origin_of
from deltacli.sharing.client.table_requests import list_shares
from deltacli.sharing.client.transport import FixedCredentials, Transport
from deltacli.storage.objects.http import Request as StoreRequest
from deltacli.storage.objects.http import Transport as StoreTransport
from deltacli.storage.retry import Retry
from tests.support.certificates import certify
from tests.support.waiting import join

ENDPOINT = "https://share.test"
ADDRESSES = {"public.test": ["93.184.216.34"], "inner.test": ["10.0.0.7"]}


@dataclass
class Network:
    """A TLS server that only a proxy reaches."""

    proxy: str
    tunnels: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Clients may refuse the certificate."""


class _Shares(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"items": [{"name": "sales"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # one side has ended the connection
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    root = certify(tmp_path)
    server = _Server(("127.0.0.1", 0), _Shares)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)

    class Tunnel(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            found.tunnels.append(self.path)
            found.headers.append(self.headers.get("Proxy-Authorization", ""))
            with socket.create_connection(server.server_address[:2]) as there:  # type: ignore[arg-type]  # of IPv4
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_copy, args=(there, self.connection))
                back.start()
                _copy(self.connection, there)
                join(back)

        def log_message(self, *_: object) -> None: ...

    proxy = _Server(("127.0.0.1", 0), Tunnel)
    found = Network(f"http://user:p%40ss@127.0.0.1:{proxy.server_address[1]}")
    monkeypatch.setenv("HTTPS_PROXY", found.proxy)
    monkeypatch.setenv("SSL_CERT_FILE", str(root))
    threads = [threading.Thread(target=one.serve_forever, args=(0.01,)) for one in (server, proxy)]
    for thread in threads:
        thread.start()
    yield found
    for one, thread in zip((server, proxy), threads, strict=True):
        one.shutdown()
        join(thread)
        one.server_close()


def lookup(host: str, port: int) -> list[str]:
    if host[0].isdigit():
        return [host]
    if host not in ADDRESSES:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return ADDRESSES[host]


def client() -> Transport:
    origin = origin_of(urlsplit(ENDPOINT))
    assert origin is not None
    made = Transport(ENDPOINT, origin, retry=Retry(0.0), lookup=lookup)
    made.credentials = FixedCredentials("Bearer secret")
    return made


def test_shares_and_stores_are_reached_through_the_proxy_by_the_authority_of_the_environment(network: Network) -> None:
    assert ["sales"] == [share.name for share in list_shares(client())]
    assert 200 == StoreTransport(ENDPOINT).send(StoreRequest("GET", f"{ENDPOINT}/shares")).status
    assert ["share.test:443"] * 2 == network.tunnels
    assert "Basic dXNlcjpwQHNz" == network.headers[0]


def test_a_host_of_no_proxy_is_reached_without_it(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "share.test")

    with pytest.raises(ServerUnavailable, match=r"share\.test cannot be reached"):
        list(list_shares(client()))

    assert [] == network.tunnels


def test_an_authority_that_nobody_trusts_names_the_variable(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")

    with pytest.raises(ServerUnavailable) as refused:
        list(list_shares(client()))

    assert "SSL_CERT_FILE" in str(refused.value.hint)


def test_a_proxy_that_cannot_be_reached_is_named_in_the_hint(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:9")

    with pytest.raises(ServerUnavailable) as refused:
        list(list_shares(client()))

    assert "HTTPS_PROXY" in str(refused.value.hint)
    assert "secret" not in str(refused.value) + str(refused.value.facts)


@pytest.mark.parametrize("url", ["https://inner.test/file", "https://10.0.0.7/file", "https://127.0.0.1:9/file"])
def test_no_file_of_a_private_network_is_asked_for_through_a_proxy(url: str, network: Network) -> None:
    with pytest.raises(DeltacliError) as refused:
        client().fetch(url, {}, lambda reply: reply.status)

    assert isinstance(refused.value, UrlRefused)
    assert [] == network.tunnels


def test_a_file_with_a_public_address_is_asked_for_through_the_proxy(network: Network) -> None:
    with pytest.raises(ServerUnavailable):  # the certificate is that of another name
        client().fetch("https://public.test/file", {}, lambda reply: reply.status)

    assert ["public.test:443"] == network.tunnels
