"""A small S3 on loopback for measurements: any number of files, a fixed latency per call, and counts of calls.

  python3 benchmarks/s3_stub.py --files 1000000 [--latency-ms 200] [--log TABLE] [--port 0]

Prints its URL. The bucket is `lake`, the table `t`: its data files are names in a sorted array that share one small
Parquet file as content; its log is a copy of the local TABLE. Signatures are accepted unread. A call that waits for its
latency occupies no thread, and a call counts as served in the time the stub itself takes, without that latency.

`/-/calls` returns calls and seconds of service by kind since the last such request, `/-/latency?ms=N` sets the latency,
and `/-/restore` brings deleted files back. These three answer at once.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import sys
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

BUCKET, TABLE = "lake", "t"
_MODIFIED = 1_700_000_000.0
"""The time of every data file and of the copy of the log, in epoch seconds."""
_OLD = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(_MODIFIED))
_XML = "application/xml"
_KEY = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Answer(NamedTuple):
    """Status, headers and body of a response, and the kind of the call for the counts."""

    kind: str
    status: str = "200 OK"
    body: bytes = b""
    headers: Mapping[str, str] = {}


@dataclass
class Bucket:
    """The objects of a bucket: `content` is what every key without an object of its own has."""

    content: bytes = b""
    keys: list[str] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    written: dict[str, float] = field(default_factory=dict)
    """Times of the objects that were written since."""

    def read(self, key: str) -> bytes | None:
        """Return the content of an object; None if there is none."""
        if key in self.objects:
            return self.objects[key]
        place = bisect_left(self.keys, key)
        is_there = place < len(self.keys) and self.keys[place] == key and key not in self.gone
        return self.content if is_there else None

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        if self.read(key) is None and key not in self.gone:
            insort(self.keys, key)
        self.gone.discard(key)
        self.objects[key] = data
        self.written[key] = time.time()

    def modified(self, key: str) -> float:
        """Return the time of an object in epoch seconds."""
        return self.written.get(key, _MODIFIED)

    def delete(self, key: str) -> None:
        """Delete an object, if there is one."""
        self.objects.pop(key, None)
        self.gone.add(key)

    def restore(self) -> None:
        """Bring deleted files of the array back; written objects stay deleted."""
        self.gone = {key for key in self.gone if not key.endswith(".snappy.parquet")}

    def entries(self, prefix: str, delimiter: str, after: str) -> Iterator[str]:
        """Yield keys and common prefixes below a prefix and after a name, ascending."""
        place = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        if delimiter and after.endswith(delimiter) and after > prefix:
            place = bisect_left(self.keys, _end_of(after), lo=place)
        while place < len(self.keys) and self.keys[place].startswith(prefix):
            key = self.keys[place]
            if key in self.gone:
                place += 1
                continue
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                common = key[: end + len(delimiter)]
                yield common
                place = bisect_left(self.keys, _end_of(common), lo=place)
            else:
                yield key
                place += 1

    def page(self, query: Mapping[str, str]) -> Answer:
        """Answer ListObjectsV2."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = min(int(query.get("max-keys", "1000")), 1_000)
        after = query.get("continuation-token") or query.get("start-after", "")
        is_quoted = query.get("encoding-type") == "url"
        show = (lambda text: quote(text, safe="/")) if is_quoted else escape
        encoding = "<EncodingType>url</EncodingType>" if is_quoted else ""
        found: list[str] = []
        rest = self.entries(prefix, delimiter, after)
        for entry in rest:
            found.append(entry)
            if len(found) == most:
                break
        is_cut = next(rest, None) is not None
        token = f"<NextContinuationToken>{escape(found[-1])}</NextContinuationToken>" if is_cut and found else ""
        whole = delimiter or "\0"
        lines = [
            f"<CommonPrefixes><Prefix>{show(entry)}</Prefix></CommonPrefixes>"
            if entry.endswith(whole)
            else f"<Contents><Key>{show(entry)}</Key><LastModified>{self._time(entry)}</LastModified>"
            f'<ETag>"e"</ETag><Size>{self._size(entry)}</Size><StorageClass>STANDARD</StorageClass></Contents>'
            for entry in found
        ]
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{show(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(is_cut).lower()}</IsTruncated>{encoding}{token}"
            f"{''.join(lines)}</ListBucketResult>"
        )
        return Answer("LIST", body=body.encode(), headers={"Content-Type": _XML})

    def _time(self, key: str) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.written[key])) if key in self.written else _OLD

    def _size(self, key: str) -> int:
        data = self.objects.get(key)
        return len(self.content) if data is None else len(data)


def _end_of(common: str) -> str:
    """Return the first name after all those that begin with a common prefix."""
    return common[:-1] + chr(ord(common[-1]) + 1)


@dataclass(frozen=True)
class Request:
    """One HTTP request. Header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """Return the key of the object, '' for the bucket."""
        return unquote(self.path).removeprefix(f"/{BUCKET}").removeprefix("/")


def answer(bucket: Bucket, request: Request) -> Answer:
    """Answer a call of S3."""
    match request.method:
        case "GET" if not request.key:
            return bucket.page(request.query)
        case "GET" | "HEAD":
            return _read(bucket, request)
        case "PUT":
            return _put(bucket, request)
        case "DELETE":
            bucket.delete(request.key)
            return Answer("DELETE", "204 No Content")
        case "POST" if "delete" in request.query:
            return _delete_many(bucket, request.body)
    return _refusal("OTHER", "400 Bad Request", "InvalidRequest")


def _refusal(kind: str, status: str, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    return Answer(kind, status, body, {"Content-Type": _XML})


def _read(bucket: Bucket, request: Request) -> Answer:
    data = bucket.read(request.key)
    if data is None:
        return _refusal(request.method, "404 Not Found", "NoSuchKey")
    headers = {
        "Last-Modified": formatdate(bucket.modified(request.key), usegmt=True),
        "ETag": _tag(data),
        "Accept-Ranges": "bytes",
    }
    if request.headers.get("if-match", headers["ETag"]) != headers["ETag"]:
        return _refusal(request.method, "412 Precondition Failed", "PreconditionFailed")
    span = _RANGE.fullmatch(request.headers.get("range", ""))
    if span is None:
        return Answer(request.method, body=data, headers=headers)
    first = int(span[1]) if span[1] else max(len(data) - int(span[2]), 0)
    last = min(int(span[2]), len(data) - 1) if span[1] and span[2] else len(data) - 1
    if first > last:
        return _refusal(request.method, "416 Range Not Satisfiable", "InvalidRange")
    headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
    return Answer(request.method, "206 Partial Content", data[first : last + 1], headers)


def _put(bucket: Bucket, request: Request) -> Answer:
    if request.headers.get("if-none-match") == "*" and bucket.read(request.key) is not None:
        return _refusal("PUT", "412 Precondition Failed", "PreconditionFailed")
    is_chunked = "aws-chunked" in request.headers.get("content-encoding", "")
    data = b"".join(_chunks(request.body)) if is_chunked else request.body
    bucket.put(request.key, data)
    return Answer("PUT", headers={"ETag": _tag(data)})


def _chunks(body: bytes) -> Iterator[bytes]:
    """Yield the chunks of a body in the encoding of S3, each of which follows a line with its size in hexadecimal."""
    place = 0
    while True:
        end = body.index(b"\r\n", place)
        size = int(body[place:end].split(b";")[0], 16)
        if not size:
            return
        yield body[end + 2 : end + 2 + size]
        place = end + 2 + size + 2


def _delete_many(bucket: Bucket, body: bytes) -> Answer:
    keys = [unescape(key.decode()) for key in _KEY.findall(body)]
    for key in keys:
        bucket.delete(key)
    is_quiet = b"<Quiet>true</Quiet>" in body
    lines = "" if is_quiet else "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
    return Answer("DELETES", body=f"<DeleteResult>{lines}</DeleteResult>".encode(), headers={"Content-Type": _XML})


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"' if len(data) < 1 << 16 else f'"{len(data)}"'


@dataclass
class Stub:
    """The bucket, the latency of its calls in seconds, and the calls since they were last asked for."""

    bucket: Bucket
    latency: float = 0.2
    calls: dict[str, list[float]] = field(default_factory=dict)
    connections: set[asyncio.Transport] = field(default_factory=set)

    def disconnect(self) -> None:
        """Close the open connections; clients keep theirs for later requests."""
        for transport in list(self.connections):
            transport.abort()

    def serve(self, request: Request, began: float) -> tuple[Answer, float]:
        """Return the answer to a request, and how long it is held back."""
        if request.path.startswith("/-/"):
            return self._control(request), 0.0
        answered = answer(self.bucket, request)
        known = self.calls.setdefault(answered.kind, [0, 0.0])
        known[0] += 1
        known[1] += time.perf_counter() - began
        return answered, self.latency

    def _control(self, request: Request) -> Answer:
        match request.path.removeprefix("/-/"):
            case "latency":
                self.latency = float(request.query["ms"]) / 1_000
            case "restore":
                self.bucket.restore()
        calls, self.calls = self.calls, {}
        return Answer("", body=json.dumps(calls).encode())


class _Connection(asyncio.Protocol):
    """One connection, kept alive; the next request is read after the answer to the last one."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._received = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._stub.connections.add(transport)

    def connection_lost(self, _: Exception | None) -> None:
        self._stub.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        began = time.perf_counter()
        self._received += data
        if self._head is None and not self._read_head():
            return
        assert self._head is not None
        method, target, headers = self._head
        size = int(headers.get("content-length", 0))
        if len(self._received) < size:
            return
        body = bytes(self._received[:size])
        del self._received[:size]
        self._head = None
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        answered, delay = self._stub.serve(Request(method, parts.path, query, headers, body), began)
        asyncio.get_running_loop().call_later(delay, self._write, _encoded(answered, has_body=method != "HEAD"))

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self._received[:end].decode("latin-1").split("\r\n")
        del self._received[: end + 4]
        method, target, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        self._head = method, target, headers
        if headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def _encoded(answered: Answer, *, has_body: bool) -> bytes:
    headers = {"x-amz-request-id": "stub", "Content-Length": str(len(answered.body)), **answered.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {answered.status}\r\n{lines}\r\n".encode()
    return head + answered.body if has_body else head


def filled(names: Iterable[str], content: bytes, log: Path | None = None) -> Bucket:
    """Return a bucket with the data files of a table, by ascending names, and a copy of its log."""
    found = {
        f"{TABLE}/{path.relative_to(log).as_posix()}": path.read_bytes()
        for path in (sorted(log.glob("_delta_log/**/*")) if log is not None else ())
        if path.is_file()
    }
    keys = [f"{TABLE}/{name}" for name in names]
    return Bucket(content, sorted([*found, *keys]), found)


async def serving(stub: Stub, port: int) -> asyncio.Server:
    """Start the server on loopback."""
    return await asyncio.get_running_loop().create_server(lambda: _Connection(stub), "127.0.0.1", port, backlog=1024)


async def _main(stub: Stub, port: int) -> None:
    server = await serving(stub, port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve until the process is ended."""
    from benchmarks.synthetic import FILES_A_DIRECTORY, data_file, name_of

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--files-a-directory", type=int, default=FILES_A_DIRECTORY)
    parser.add_argument("--latency-ms", type=float, default=200)
    parser.add_argument("--log", type=Path, help="a local table whose log is served")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    names = (name_of(number, given.files_a_directory) for number in range(given.files))
    bucket = filled(names, data_file(), given.log)
    asyncio.run(_main(Stub(bucket, given.latency_ms / 1_000), given.port))


if __name__ == "__main__":
    main()
