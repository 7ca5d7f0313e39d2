"""An S3 on loopback: moto behind a lock that makes its conditional PUT atomic, with a log of requests and faults on
demand.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from tests.support.waiting import join

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""WSGI."""
Fault = Callable[["S3Server", dict[str, Any], Callable[..., Any]], Iterable[bytes]]

ENVIRONMENT: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "a-secret-nobody-may-see",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
    "AWS_CONFIG_FILE": "/nowhere/config",
    "AWS_MAX_ATTEMPTS": "1",
}


class S3Server:
    """A server thread. `requests` holds method, path and query of each, in the order they came; `now_ms` is the time of
    what is written by requests, None for that of the clock.
    """

    def __init__(self) -> None:
        from moto.core import serialize
        from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
        from werkzeug.serving import make_server

        # A listing parses the time of each object, which is a text by then, and takes half of its time for that.
        serialize.parse_to_aware_datetime = lru_cache(10_000)(serialize.parse_to_aware_datetime)
        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
        self._moto: Application = create_backend_app("s3")
        self._writing = Lock()
        self._noting = Lock()
        self._faults: list[tuple[str, str, Fault]] = []
        self._at: tuple[int, Fault] | None = None
        self.requests: list[tuple[str, str, dict[str, list[str]]]] = []
        self.now_ms: int | None = None
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=MotoRequestHandler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url}

    def stop(self) -> None:
        self._server.shutdown()
        join(self._thread)
        self._server.server_close()

    def make_bucket(self, versioning: str = "") -> str:
        """Make an empty bucket and return its name. `versioning`: Enabled or Suspended."""
        name = f"b-{uuid4()}"
        self._backend.create_bucket(name, "us-east-1")
        if versioning:
            self.set_versioning(name, versioning)
        return name

    def set_versioning(self, bucket: str, state: str) -> None:
        """Enable or suspend the versioning of a bucket."""
        self._backend.put_bucket_versioning(bucket, state)

    def put(self, bucket: str, key: str, data: bytes, modified_ms: int | None = None) -> None:
        """Put an object in place without a request, with a time of its own if there is one."""
        made = self._backend.put_object(bucket, key, data)
        if modified_ms is not None:
            made.last_modified = _moment(modified_ms)

    def move_to_class(self, bucket: str, key: str, storage_class: str) -> None:
        """Move an object to a storage class, as a lifecycle rule does. Archived ones cannot be read."""
        self._backend.get_object(bucket, key).set_storage_class(storage_class)

    def restore(self, bucket: str, key: str) -> None:
        """Restore an archived object, which keeps its class."""
        self._backend.get_object(bucket, key).restore(7)

    def clear(self, bucket: str) -> None:
        """Delete all objects without a request."""
        self._backend.buckets[bucket].keys.clear()

    def publish(self, bucket: str, key: str) -> None:
        """Let anybody read an object, signed or not."""
        from moto.s3.models import get_canned_acl

        self._backend.get_object(bucket, key).set_acl(get_canned_acl("public-read"))

    def keys(self, bucket: str) -> list[str]:
        """The keys of a bucket."""
        return sorted(self._backend.buckets[bucket].keys)

    def live(self, bucket: str) -> list[str]:
        """The keys of a bucket whose newest version is not a delete marker."""
        return [key for key in self.keys(bucket) if self._live(bucket, key) is not None]

    def objects(self, bucket: str) -> dict[str, bytes]:
        """The contents of a bucket by key."""
        return {key: bytes(self._backend.get_object(bucket, key).value) for key in self.keys(bucket)}

    def uploads(self, bucket: str) -> list[str]:
        """The keys of uploads that are neither completed nor aborted."""
        return sorted(upload.key_name for upload in self._backend.buckets[bucket].multiparts.values())

    def asked(self, method: str, part: str = "") -> int:
        """How many requests there were of a method whose path or query holds `part`."""
        return sum(found == method and (part in path or part in query) for found, path, query in self.requests)

    def fail(self, method: str, part: str, *faults: Fault) -> None:
        """Answer the next requests of a method, whose path holds `part`, by these faults, one each."""
        self._faults += [(method, part, fault) for fault in faults]

    def fail_at(self, number: int, fault: Fault) -> None:
        """Answer one request by a fault, counted from 0 over those to come."""
        self._at = len(self.requests) + number, fault

    def forget_faults(self) -> None:
        """Answer everything as it should be from now on."""
        self._faults.clear()
        self._at = None

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """What moto says. It looks for the key first and puts it later: without the lock several writers would win.

        Its own refusal takes 10 ms to render, so a taken name is refused here.
        """
        if environ["REQUEST_METHOD"] not in ("PUT", "POST"):
            return self._moto(environ, start_response)
        bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode()[1:].partition("/")
        with self._writing:
            live = self._live(bucket, key)
            is_taken = environ.get("HTTP_IF_NONE_MATCH") == "*" and live is not None
            wanted = environ.get("HTTP_IF_MATCH")
            if is_taken or (wanted is not None and (live is None or live.etag != wanted)):
                return says("412 PRECONDITION FAILED", "PreconditionFailed")(self, environ, start_response)
            said = list(self._moto(environ, start_response))
            written = self._live(bucket, key)
            if self.now_ms is not None and written is not None:
                # Versions of one key are sorted by their time.
                count = len(self._backend.buckets[bucket].keys.getlist(key))
                written.last_modified = _moment(self.now_ms) + timedelta(microseconds=count)
            return said

    def _live(self, bucket: str, key: str) -> Any:
        """The current object of a key, None where there is none or it is deleted."""
        found = self._backend.buckets[bucket].keys.get(key)
        return found if hasattr(found, "etag") else None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._noting:
            self.requests.append((method, path, parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)))
            found = next((entry for entry in self._faults if entry[0] == method and entry[1] in path), None)
            if found is not None:
                self._faults.remove(found)
            at, fault = self._at or (0, None)
            is_it = fault is not None and len(self.requests) - 1 == at
            self._at = None if is_it else self._at
        if fault is not None and is_it:
            return fault(self, environ, start_response)
        if found is not None:
            return found[2](self, environ, start_response)
        return self.answer(environ, start_response)

    @property
    def _backend(self) -> Any:
        from moto.s3.models import s3_backends

        return s3_backends["123456789012"]["aws"]


def _moment(modified_ms: int) -> datetime:
    return datetime.fromtimestamp(modified_ms / 1_000, UTC).replace(tzinfo=None)


def says(status: str, code: str, message: str = "so it is", **headers: str) -> Fault:
    """A fault that answers in the words of S3 without doing anything."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()

    def fault(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(status, [("Content-Type", "application/xml"), *headers.items()])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    return fault


def works(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """No fault: the request before the one that fails."""
    return server.answer(environ, start_response)


def loses_reply(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A fault that does what was asked, and then the connection breaks."""
    list(server.answer(environ, lambda *_: None))
    return breaks(server, environ, start_response)


def breaks(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A fault that breaks the connection without doing anything."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError


def half_a_body(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A fault that breaks the connection in the middle of the answer."""
    body = b"".join(server.answer(environ, start_response))
    yield body[: len(body) // 2]
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def forgets_condition(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """A fault that takes no notice of If-None-Match, as old stores do."""
    environ.pop("HTTP_IF_NONE_MATCH", None)
    return server.answer(environ, start_response)


def page(*names: str, token: str | None = None) -> Fault:
    """A page of a listing of `t/`."""
    entries = "".join(
        f"<Contents><Key>t/{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"
        for name in names
    )
    rest = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    body = f"<ListBucketResult>{entries}{rest}</ListBucketResult>".encode()

    def fault(server: object, environ: object, start_response: Callable[..., object]) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/xml")])
        return [body]

    return fault


@contextmanager
def running() -> Iterator[S3Server]:
    """A server for as long as it is needed."""
    server = S3Server()
    try:
        yield server
    finally:
        server.stop()
