"""Answers of S3: whatever status line, headers and body come back, each verb gives a value or an error of ours."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import datetime
from threading import Thread

from deltacli.core.errors import DeltacliError
from deltacli.storage import Created, PathKind, Storage
from deltacli.storage.retry import Retry
from deltacli.storage.s3.store import open_s3

_XML = b'<?xml version="1.0" encoding="UTF-8"?>\n'
_TIME = b"2026-01-01T00:00:00.000Z"
_KEY = b"<Contents><Key>t/%s</Key><LastModified>" + _TIME + b"</LastModified><Size>7</Size></Contents>"

TOKENS = (
    b"\r\n\r\n",
    b"\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 999999 X\r\n",
    b"HTTP/0.9 200\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: 7, 8\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Range: bytes 0-6/7\r\n",
    b"Content-Range: bytes */7\r\n",
    b"Last-Modified: yesterday\r\n",
    b"Last-Modified: Thu, 01 Jan 99999 00:00:00 GMT\r\n",
    b"Location: http://127.0.0.1:1/\r\n",
    b"x-amz-bucket-region: eu-north-1\r\n",
    b"x-amz-bucket-region: ../../\r\n",
    b"x-amz-checksum-crc32: AAAA\r\n",
    b"x-amz-missing-meta: x\r\n",
    b"<!DOCTYPE html><html>",
    b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>',
    b"<Contents></Contents>",
    b"<Contents/>",
    b"<Size></Size>",
    b"<Size>99999999999999999999999</Size>",
    b"<LastModified>0000-00-00T00:00:00Z</LastModified>",
    b"<LastModified>1e999</LastModified>",
    b"<IsTruncated>true</IsTruncated>",
    b"<IsTruncated>perhaps</IsTruncated>",
    b"<NextContinuationToken>x</NextContinuationToken>",
    b"<EncodingType>url</EncodingType>",
    b"<CommonPrefixes><Prefix>t/%</Prefix></CommonPrefixes>",
    b"<Error><Code>InternalError</Code></Error>",
    b"<Error><Code>PermanentRedirect</Code><Endpoint>x</Endpoint></Error>",
    b"<Code></Code>",
    b"&#0;",
    b"\xff\xfe",
)
_DEEPEST_PAGES = 40


def _answer(status: bytes, body: bytes, *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), b"Connection: close", *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def seeds() -> list[bytes]:
    """What S3 answers, and what answers in its place."""
    tag, time = b'ETag: "0123"', b"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"
    listing = _XML + b"<ListBucketResult><Name>b</Name><Prefix>t/</Prefix><KeyCount>2</KeyCount>"
    listing += b"<IsTruncated>false</IsTruncated>" + _KEY % b"a" + _KEY % b"b"
    listing += b"<CommonPrefixes><Prefix>t/d/</Prefix></CommonPrefixes></ListBucketResult>"
    page = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken>"
    error = _XML + b"<Error><Code>%s</Code><Message>no</Message><Region>eu-north-1</Region></Error>"
    deleted = (
        _XML + b"<DeleteResult><Deleted><Key>t/a</Key></Deleted><Error><Key>t/b</Key><Code>SlowDown</Code></Error>"
    )
    xml = b"Content-Type: application/xml"
    return [
        _answer(b"200 OK", b"content", tag, time),
        _answer(b"206 Partial Content", b"cont", tag, time, b"Content-Range: bytes 0-3/7"),
        _answer(b"200 OK", b"", tag, time),
        _answer(b"200 OK", listing, xml),
        _answer(b"200 OK", page + _KEY % b"a" + b"</ListBucketResult>", xml),
        _answer(b"200 OK", deleted + b"</DeleteResult>", xml),
        _answer(b"204 No Content", b""),
        _answer(b"200 OK", b"<html><body>Sign in</body></html>", b"Content-Type: text/html"),
        _answer(b"301 Moved Permanently", error % b"PermanentRedirect", xml),
        _answer(b"307 Temporary Redirect", b"", b"Location: http://127.0.0.1:1/x"),
        _answer(b"400 Bad Request", error % b"AuthorizationHeaderMalformed", xml),
        _answer(b"403 Forbidden", error % b"AccessDenied", xml),
        _answer(b"404 Not Found", error % b"NoSuchKey", xml),
        _answer(b"412 Precondition Failed", error % b"PreconditionFailed", xml),
        _answer(b"416 Range Not Satisfiable", error % b"InvalidRange", xml),
        _answer(b"503 Slow Down", error % b"SlowDown", xml),
    ]


def test_one_input(data: bytes) -> None:
    """Every verb answers within its contract; a creation is believed only with the tag of an object."""
    _SERVER.answer = data
    for verb, call in _VERBS.items():
        try:
            found = call(_store())
        except DeltacliError as error:
            if error.exit_code not in (4, 7):
                raise AssertionError(f"{verb}: exit {error.exit_code} by an answer: {error}") from error
            continue
        if isinstance(found, Created) and b"etag" not in data.lower():
            raise AssertionError(f"{verb}: created, by {data[:200]!r}")


class _Server:
    """Answers each request with the same bytes, whatever it asks."""

    def __init__(self) -> None:
        self.answer = b""
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._socket.getsockname()[1]
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            Thread(target=self._reply, args=(connection,), daemon=True).start()

    def _reply(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        try:
            with connection:
                head = b""
                while b"\r\n\r\n" not in head and (more := connection.recv(65_536)):
                    head += more
                connection.sendall(self.answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass
        except OSError:
            pass  # the client had enough


def _store() -> Storage:
    """Return the store of this process. It sends each request once."""
    if not _STORES:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        options = {
            "endpoint_url": f"http://127.0.0.1:{_SERVER.port}",
            "region": "us-east-1",
            "key": "testing",
            "secret": "not-a-secret",
            "config_kwargs": '{"read_timeout": 5, "proxies": {}}',
        }
        store = open_s3("s3://bucket/t", options, retry=Retry(0, is_explicit=True, pause=lambda _: None))
        store._is_atomic = True
        _STORES.append(store)
    return _STORES[0]


def _listed(store: Storage) -> None:
    for number, stat in enumerate(store.list_from("", "")):
        if not (isinstance(stat.name, str) and stat.size_bytes >= 0 and isinstance(stat.modified_ms, int)):
            raise AssertionError(f"{stat}")
        if number > _DEEPEST_PAGES:
            return


def _walked(store: Storage) -> None:
    for number, walked in enumerate(store.walk("", lambda path, names: names if path.count("/") < 2 else ())):
        if any(not isinstance(name, str) for name in walked.names) or number > _DEEPEST_PAGES:
            return


def _ranged(store: Storage) -> None:
    if len(found := store.read_range("a", 0, 4)) > 4:
        raise AssertionError(f"{found!r} for four bytes")


def _opened(store: Storage) -> None:
    with store.open("a") as file:
        file.seek(0)
        file.read(1 << 16)


def _looked_at(store: Storage) -> None:
    stat = store.stat("a")
    if stat.name != "a" or stat.size_bytes < 0 or not -(10**15) < stat.modified_ms < datetime.max.year * 10**12:
        raise AssertionError(f"{stat}")


def _kind(store: Storage) -> None:
    if not isinstance(store.kind_of("a"), PathKind):
        raise AssertionError("a kind that is none")


_VERBS: dict[str, Callable[[Storage], object]] = {
    "read": lambda store: store.read("a"),
    "read_range": _ranged,
    "open": _opened,
    "stat": _looked_at,
    "stat_many": lambda store: store.stat_many(["a"]),
    "kind_of": _kind,
    "list_from": _listed,
    "list_directories": lambda store: store.list_directories(""),
    "walk": _walked,
    "put": lambda store: store.put("a", b"data"),
    "put_if_absent": lambda store: store.put_if_absent("a", b"data"),
    "delete_many": lambda store: list(store.delete_many(["a", "b"])),
    "delete one": lambda store: list(store.delete_many(["a\nb"])),
}
_SERVER = _Server()
_STORES: list[Storage] = []
