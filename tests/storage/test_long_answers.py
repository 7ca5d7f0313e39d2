"""Answers that are longer than any of the store, or compressed, do not fill the memory: they are left where they exceed
what is expected, and objects are the bytes that are stored.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from deltacli.core.errors import CredentialsMissing, StorageFailed
from deltacli.storage import Failed, Storage, open_storage
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.probing.s3 import S3Caller
from deltacli.storage.retry import Retry
from tests.support.azure import AzureServer
from tests.support.cloud import Asked, CloudServer, Said
from tests.support.gcs import GcsServer, service_account
from tests.support.s3 import S3Server

MIB = 1 << 20
LONG = 272
"""Mebibytes that no limit allows, and that no sockets hold of an answer that nobody reads."""
_BLOCK = b"x" * MIB


class Flood(ThreadingHTTPServer):
    """Answers any request with a long body, and notes how much of each body it got rid of."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Flooding)
        self.status, self.headers = 200, dict[str, str]()
        self.mebibytes = LONG
        self.sent: list[int] = []
        self.host = f"127.0.0.1:{self.server_port}"
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def all_were_left(self) -> bool:
        """Whether no client read an answer to its end."""
        return bool(self.sent) and max(self.sent) < self.mebibytes * MIB

    def handle_error(self, request: object, client_address: object) -> None:
        """Connections that break are part of the tests."""


class _Flooding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Flood

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        number = len(self.server.sent)
        self.server.sent.append(0)
        for _ in range(self.server.mebibytes):
            self.wfile.write(b"%x\r\n%s\r\n" % (MIB, _BLOCK))
            self.server.sent[number] += MIB
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()


@pytest.fixture
def flood() -> Iterator[Flood]:
    server = Flood()
    yield server
    server.shutdown()
    server.server_close()


def opened(cloud: str, server: Flood, retry: Retry | None = None) -> Storage:
    """A table of a cloud at an endpoint that floods."""
    uri, options = {
        "gcs": ("gs://bucket/t", {}),
        "azure": ("abfss://container@account.dfs.core.windows.net/t", {}),
        "s3": ("s3://bucket/t", {"region": "us-east-1"}),
    }[cloud]
    given = {**options, "anon": "true", "endpoint_url": f"http://{server.host}"}
    return open_storage(uri, given, retry=retry or Retry(0, pause=lambda _: None))


def listed(store: Storage) -> object:
    return list(store.list_from(""))


def read(store: Storage) -> object:
    return store.read("a")


def read_in_part(store: Storage) -> object:
    return store.read_range("a", 0, 100)


OBJECT = {"ETag": '"1"', "x-goog-generation": "1", "x-ms-blob-type": "BlockBlob", "Content-Range": "bytes 0-99/1000"}


@pytest.mark.parametrize(
    ("cloud", "verb", "status", "limit"),
    [
        ("gcs", listed, 200, 16 * MIB),
        ("azure", listed, 200, 64 * MIB),
        ("s3", listed, 200, 16 * MIB),
        *((cloud, read, 404, MIB) for cloud in ("gcs", "azure", "s3")),
        *((cloud, read_in_part, 206, 100) for cloud in ("gcs", "azure", "s3")),
        *((cloud, read, 200, 128 * MIB) for cloud in ("gcs", "azure", "s3")),
    ],
)
def test_an_answer_without_end_is_left_at_its_limit_and_named(
    cloud: str, verb: Callable[[Storage], object], status: int, limit: int, flood: Flood
) -> None:
    flood.status, flood.mebibytes = status, limit // MIB + LONG
    flood.headers = {name: text for name, text in OBJECT.items() if status == 206 or name != "Content-Range"}
    store = opened(cloud, flood)

    with pytest.raises(StorageFailed) as raised:
        verb(store)

    error = raised.value
    assert "storage.unexpected-answer" == error.code
    assert f"more than {limit:,} bytes" in error.facts["seen"]
    assert flood.host in str(error.facts)
    assert flood.all_were_left


@pytest.mark.parametrize("cloud", ["gcs", "s3"])
def test_an_answer_to_deletions_without_end_deletes_nothing_for_certain(cloud: str, flood: Flood) -> None:

    (outcome,) = dict(opened(cloud, flood).delete_many(["a"])).values()

    assert isinstance(outcome, Failed)
    assert re.search("more than 16,777,216 bytes|not a valid answer of S3", outcome.reason)
    assert flood.all_were_left


@pytest.mark.parametrize("cloud", ["gcs", "azure", "s3"])
def test_a_long_page_of_a_server_that_is_busy_is_asked_again(cloud: str, flood: Flood) -> None:
    flood.status = 503
    waits = list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        flood.status, flood.mebibytes = 404, 0

    with pytest.raises(StorageFailed):
        read(opened(cloud, flood, Retry(pause=wait)))

    assert (1, 2) == (len(waits), len(flood.sent))
    assert flood.sent[0] < LONG * MIB


def compressed(server: CloudServer, asked: Asked) -> Said:
    """A fault that compresses an answer, which was not asked for."""
    said = server.answer(asked)
    return said._replace(body=gzip.compress(said.body), headers={**said.headers, "Content-Encoding": "gzip"})


@pytest.mark.parametrize("cloud", ["gcs", "azure"])
def test_a_list_that_is_compressed_is_not_decoded(cloud: str, request: pytest.FixtureRequest) -> None:
    server, store = stub(cloud, request)
    server.fail("GET", "prefix=", compressed)

    with pytest.raises(StorageFailed) as raised:
        listed(store)

    assert "compressed (gzip)" in raised.value.facts["seen"]


def test_an_object_that_google_compresses_on_its_way_is_refused(request: pytest.FixtureRequest) -> None:
    server, store = stub("gcs", request)
    server.fail("GET", "alt=media", compressed)

    with pytest.raises(StorageFailed) as raised:
        read(store)

    assert "compressed on its way" in raised.value.facts["seen"]
    assert "identity" == server.requests[-1].headers["accept-encoding"]


def test_an_object_of_azure_that_is_stored_compressed_is_read_as_it_is_stored(request: pytest.FixtureRequest) -> None:
    server, store = stub("azure", request)
    stored = gzip.compress(b"1" * MIB)
    store.put("a", stored)

    def as_stored(server: CloudServer, asked: Asked) -> Said:
        said = server.answer(asked)
        return said._replace(headers={**said.headers, "Content-Encoding": "gzip"})

    server.fail("GET", "/a", as_stored, as_stored, as_stored)

    assert stored == store.read("a")
    assert stored[10:20] == store.read_range("a", 10, 10)
    assert stored == store.open("a").read()


def test_an_object_of_s3_that_is_stored_compressed_is_read_as_it_is_stored(s3: S3Server) -> None:
    bucket, stored = s3.make_bucket(), gzip.compress(b"1" * MIB)
    store = open_storage(f"s3://{bucket}/t")
    store.calls.client.put_object(Bucket=bucket, Key="t/a", Body=stored, ContentEncoding="gzip")  # type: ignore[attr-defined]  # of S3

    assert stored == store.read("a")
    assert stored[10:20] == store.read_range("a", 10, 10)


def test_a_token_without_end_is_left_and_named(flood: Flood, gcs: GcsServer) -> None:
    account = {**service_account(gcs.url), "token_uri": f"http://{flood.host}/token"}
    store = open_storage(
        f"gs://{gcs.make_bucket()}/t", {"token": json.dumps(account)}, retry=Retry(0, pause=lambda _: None)
    )

    with pytest.raises(CredentialsMissing) as raised:
        read(store)

    assert "more than 1,048,576 bytes" in raised.value.facts["library says"]
    assert flood.host in raised.value.facts["library says"]
    assert flood.all_were_left


@pytest.mark.parametrize("variable", ["AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI"])
def test_credentials_of_a_machine_of_aws_without_end_are_left_and_named(
    variable: str, flood: Flood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, f"http://{flood.host}/")
    store = open_storage("s3://bucket/t", {"region": "us-east-1"}, retry=Retry(0, pause=lambda _: None))

    with pytest.raises(StorageFailed) as raised:
        read(store)

    assert f"more than 16,777,216 bytes, from {flood.host}" in raised.value.facts["seen"]
    assert flood.all_were_left


def test_probes_of_s3_leave_answers_without_end_and_do_not_repeat_them(
    flood: Flood, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://{flood.host}")
    given = {"key": "A", "secret": "B", "region": "us-east-1", "endpoint_url": f"http://{flood.host}"}
    store = open_storage("s3://bucket/t", given)
    probed = S3Caller(store.calls)  # type: ignore[attr-defined]  # of S3

    details = probed.identity().details
    with pytest.raises(HttpError) as raised:
        probed.calls.page("", "", "", "", 0)

    assert "TooLong" in details["name"]
    assert (RequestOutcome.UNEXPECTED, 2) == (raised.value.outcome, len(flood.sent))
    assert flood.all_were_left


def stub(cloud: str, request: pytest.FixtureRequest) -> tuple[CloudServer, Storage]:
    """A server that knows its store, and a table there with a file."""
    server: GcsServer | AzureServer = request.getfixturevalue(cloud)
    if isinstance(server, GcsServer):
        uri = f"gs://{server.make_bucket()}/t"
    else:
        uri = f"az://{server.make_container()}/t"
    store = open_storage(uri, retry=Retry(0, pause=lambda _: None))
    store.put("a", b"1")
    return server, store


class _Cut(BaseHTTPRequestHandler):
    """Sends the first lines of a commit, without a length: the end of the connection is the end of the body."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in OBJECT.items():
            if name != "Content-Range":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n')


@pytest.mark.parametrize("cloud", ["gcs", "azure", "s3"])
def test_an_object_that_ends_with_the_connection_is_refused(cloud: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Cut) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        uri = {
            "gcs": "gs://bucket/t",
            "azure": "abfss://container@account.dfs.core.windows.net/t",
            "s3": "s3://bucket/t",
        }
        given = {"anon": "true", "endpoint_url": f"http://127.0.0.1:{server.server_port}"}
        options = {**given, "region": "us-east-1"} if cloud == "s3" else given
        store = open_storage(uri[cloud], options, retry=Retry(0, pause=lambda _: None))

        with pytest.raises(StorageFailed) as caught:
            store.read("_delta_log/00000000000000000000.json")
        server.shutdown()

    assert "without its length" in str(caught.value) + str(caught.value.facts)
