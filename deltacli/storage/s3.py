"""S3, and stores that speak its language.

On botocore, the library beneath s3fs and boto3, and not on s3fs itself: its asynchronous transport sends a PUT again by
itself when a connection breaks, and a conditional PUT that is sent twice finds its own first attempt and takes it for
somebody else's.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from deltacli.errors import FileMissing, StorageFailed, UsageError
from deltacli.storage.base import (
    MANY_READS,
    Capabilities,
    Created,
    Creation,
    Deleted,
    Deletion,
    Draft,
    Enter,
    Existed,
    Failed,
    FileStat,
    Missing,
    PathKind,
    Unknown,
    Walked,
    no_atomic_create,
)
from deltacli.storage.s3_body import Body, require_one_put
from deltacli.storage.s3_options import make_clients, read_options

Answer = TypeVar("Answer")

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_AWS = re.compile(r"\.(?:amazonaws\.com(?:\.cn)?|api\.aws|c2s\.ic\.gov|sc2s\.sgov\.gov)$")
_DELETES_A_REQUEST = 1_000
_ATTEMPTS = 5
_AGAIN = {"SlowDown", "InternalError", "ServiceUnavailable", "OperationAborted"}
_BODY_ATTEMPTS = 3
_TAIL_BYTES = 64 << 10
_READ_AHEAD_BYTES = 1 << 20
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class S3Storage:
    """Objects below a prefix of a bucket. Nothing is asked of the store, nor of the credential chain, before it is
    needed.

    `pause` waits between attempts to create an object while another creation of it is in flight.
    """

    def __init__(self, uri: str, options: Mapping[str, str], *, pause: Callable[[float], None] = time.sleep) -> None:
        try:
            import botocore.session  # noqa: F401
        except ImportError as fault:
            from deltacli.storage.remote import scheme_unavailable

            raise scheme_unavailable(uri.partition("://")[0]) from fault
        self._uri = uri.rstrip("/")
        self._bucket, _, self._root = self._uri.partition("://")[2].partition("/")
        if "@" in self._bucket:
            raise UsageError(
                "a bucket's name holds no @: credentials don't belong into the URI",
                code="usage.secret",
                facts={"instead": "AWS_PROFILE, or the environment variables of AWS"},
            )
        if not _BUCKET.fullmatch(self._bucket):
            raise UsageError(f"{self._uri} names no bucket", code="usage.table", hint="s3://BUCKET/PATH")
        self._options = read_options(options)
        self._payer = {"RequestPayer": "requester"} if self._options.requester_pays else {}
        self._pause = pause
        self._lock = Lock()
        self._made: tuple[Any, Any] | None = None  # Any: botocore makes its classes at run time
        self._honours_condition: bool | None = None

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def capabilities(self) -> Capabilities:
        """`atomic_create` is believed until the store, asked before the first write, shows that it lacks it."""
        return Capabilities(
            cheap_listing=False, parallel_reads=MANY_READS, atomic_create=self._honours_condition is not False
        )

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = self._prefix(directory)
        is_there, last, recent = not prefix, "", frozenset[str]()
        for page in self._pages(prefix, _just_below(start)):
            entries = page.get("Contents", [])
            is_there = is_there or bool(entries or page.get("CommonPrefixes"))
            names = [entry["Key"].removeprefix(prefix) for entry in entries]
            for name, entry in zip(names, entries, strict=True):
                if name <= last and name not in recent and name:
                    raise StorageFailed(
                        f"{self._place(directory)} is listed out of order, as directory buckets are",
                        code="storage.listing-disorder",
                        facts={"seen": f"{name} after {last}"},
                    )
                if name > last and name >= start:
                    yield FileStat(name, int(entry["Size"]), int(entry["LastModified"].timestamp() * 1000))
                last = max(last, name)
            recent = frozenset(names)
        if not is_there and not (start and self._holds_any(prefix)):
            raise FileMissing(f"{self._place(directory)} does not exist")

    def list_directories(self, directory: str) -> list[str]:
        prefix, found, is_there = self._prefix(directory), set[str](), False
        for page in self._pages(prefix, ""):
            is_there = is_there or bool(page.get("Contents") or page.get("CommonPrefixes"))
            found.update(entry["Prefix"].removeprefix(prefix).rstrip("/") for entry in page.get("CommonPrefixes", []))
        if prefix and not is_there:
            raise FileMissing(f"{self._place(directory)} does not exist")
        return sorted(found - {""})

    def walk(self, directory: str, enter: Enter) -> Iterator[Walked]:
        from deltacli.storage.s3_walk import walk

        is_there = yield from walk(self._page, self._prefix, directory, enter)
        if not is_there and self._prefix(directory):
            raise FileMissing(f"{self._place(directory)} does not exist")

    def read(self, path: str) -> bytes:
        return self._get(path)[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._range(path, offset, length)

    def _range(self, path: str, offset: int, length: int, tag: str = "") -> bytes:
        """A range of a file; of the content with that tag, where one is given."""
        if length <= 0:
            return b""
        data, answer = self._get(path, f"bytes={offset}-{offset + length - 1}", tag)
        return data if "ContentRange" in answer else data[offset : offset + length]

    def open(self, path: str) -> Any:  # Any: as in the port
        """One request brings the end of the file, where Parquet keeps its footer, and the size with it."""
        tail, answer = self._get(path, f"bytes=-{_TAIL_BYTES}")
        size = int(str(answer.get("ContentRange", f"/{len(tail)}")).rpartition("/")[2])
        reader = _ObjectReader(self, path, size, tail, str(answer.get("ETag", "")))
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        """The entity tag that came with the first bytes; every later request of that file insists on it."""
        return str(opened.raw.tag)

    def kind_of(self, path: str) -> PathKind:
        if self._key(path):
            try:
                self.stat(path)
            except FileMissing:
                pass
            else:
                return PathKind.FILE
        prefix = self._prefix(path)
        return PathKind.DIRECTORY if self._holds_any(prefix) or not prefix else PathKind.MISSING

    def stat(self, path: str) -> FileStat:
        answer = self._ask(
            lambda client: client.head_object(Bucket=self._bucket, Key=self._key(path), **self._payer), path, "read"
        )
        modified_ms = int(answer["LastModified"].timestamp() * 1000)
        return FileStat(path.rsplit("/", 1)[-1], int(answer["ContentLength"]), modified_ms)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        from concurrent.futures import ThreadPoolExecutor

        def look(path: str) -> tuple[int, int]:
            try:
                found = self.stat(path)
            except FileMissing:
                return -1, -1
            return found.size_bytes, found.modified_ms

        with ThreadPoolExecutor(MANY_READS) as pool:
            found = list(pool.map(look, paths))
        return [size for size, _ in found], [modified_ms for _, modified_ms in found]

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:  # noqa: ARG002
        self._require_condition(path)
        return self._create(path, Body(data))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:  # noqa: ARG002
        self._require_condition(path)
        self._replace(path, Body(data))

    def draft(self, path: str) -> Draft:
        from deltacli.storage.scratch import ScratchDraft

        self._require_condition(path)

        def send(place: str, replace: bool) -> Creation:
            if not replace:
                return self._create(path, Body(place))
            self._replace(path, Body(place))
            return Created()

        return ScratchDraft(send)

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """A thousand a request. S3 does not tell whether an object was there: Deleted then means that it is not."""
        if self._honours_condition is False:
            raise self._read_only()
        remaining = iter(paths)
        while batch := list(islice(remaining, _DELETES_A_REQUEST)):
            odd = {path for path in batch if _NOT_IN_XML.search(path)}
            outcomes = self._delete([path for path in dict.fromkeys(batch) if path not in odd])
            outcomes |= {path: self._delete_one(path) for path in sorted(odd)}
            yield from ((path, outcomes[path]) for path in batch)

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the port)
        return Missing()

    def _replace(self, path: str, body: Body) -> None:
        require_one_put(self._place(path), body.size)

        def send(client: Any) -> None:  # Any: botocore has no types
            with body.opened() as content:
                client.put_object(Bucket=self._bucket, Key=self._key(path), Body=content, **self._payer)

        self._ask(send, path, "written")

    def _create(self, path: str, body: Body) -> Creation:
        """Send one conditional PUT, and again only after an answer that nothing was done."""
        from deltacli.storage.s3_faults import FAULTS, Sent, fate_of_create, translate

        require_one_put(self._place(path), body.size)
        _, once = self._clients()
        fault: BaseException | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._pause(0.05 * 2**attempt)
            try:
                with body.opened() as content:
                    once.put_object(
                        Bucket=self._bucket, Key=self._key(path), Body=content, IfNoneMatch="*", **self._payer
                    )
                return Created()
            except FAULTS as caught:
                fault = caught
            match fate_of_create(fault):
                case Sent.REFUSED_EXISTS:
                    return Existed()
                case Sent.UNKNOWN:
                    said = translate(fault, self._place(path), "written", self._options, once)
                    return Unknown(said.facts.get("store says", said.message))
                case Sent.UNSUPPORTED:
                    self._honours_condition = False
                    raise self._read_only()
                case Sent.REFUSED:
                    break
                case Sent.REFUSED_AGAIN:
                    continue
        assert fault is not None
        raise translate(fault, self._place(path), "written", self._options, once)

    def _require_condition(self, path: str) -> None:
        """Raise NoAtomicCreate where the store takes no notice of the condition; asked once, and not of AWS."""
        patient, _ = self._clients()
        with self._lock:
            if self._honours_condition is None:
                host = urlsplit(str(patient.meta.endpoint_url)).hostname or ""
                self._honours_condition = bool(_AWS.search(host)) or self._proves_condition(path)
        if not self._honours_condition:
            raise self._read_only()

    def _proves_condition(self, path: str) -> bool:
        """Create an object of a random name twice: the second time must fail."""
        directory = path.rpartition("/")[0]
        probe = f"{directory}/.{uuid4().hex}.probe" if directory else f".{uuid4().hex}.probe"
        try:
            outcomes = (self._create(probe, Body(b"")), self._create(probe, Body(b"")))
        finally:
            self._delete_one(probe)
        match outcomes:
            case (Created(), Existed()):
                return True
            case (Created(), Created()):
                return False
            case (first, second):
                causes = [outcome.cause for outcome in (first, second) if isinstance(outcome, Unknown)]
                raise StorageFailed(
                    f"{self._uri} does not answer whether it can create atomically",
                    facts={"store says": "; ".join(causes) or "the name of a probe was taken"},
                )

    def _read_only(self) -> Exception:
        return no_atomic_create(self._uri, "the store takes no notice of If-None-Match: two writers would both win")

    def _delete(self, paths: list[str]) -> dict[str, Deletion]:
        """Delete up to a thousand objects in one request, and those the store was too busy for in more."""
        outcomes: dict[str, Deletion] = {}
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._pause(0.1 * 2**attempt)
            found, again = self._delete_at_once(paths)
            outcomes |= found
            if not (paths := again):
                break
        return outcomes

    def _delete_at_once(self, paths: list[str]) -> tuple[dict[str, Deletion], list[str]]:
        """Return what became of the objects, and for which of them asking again is right."""
        if not paths:
            return {}, []
        by_key = {self._key(path): path for path in paths}
        objects = [{"Key": key} for key in by_key]
        try:
            answer = self._ask(
                lambda client: client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects}, **self._payer),
                paths[0],
                "deleted",
            )
        except StorageFailed as failed:
            # The client has asked again as often as it may.
            return dict.fromkeys(paths, Failed(failed.facts.get("store says", failed.message))), []
        outcomes: dict[str, Deletion] = dict.fromkeys(paths, Failed("the store did not say what became of it"))
        outcomes |= {by_key[entry["Key"]]: Deleted() for entry in answer.get("Deleted", []) if entry["Key"] in by_key}
        for entry in answer.get("Errors", []):
            gone = entry.get("Code") == "NoSuchKey"
            if entry["Key"] in by_key:
                outcomes[by_key[entry["Key"]]] = (
                    Missing() if gone else Failed(f"{entry.get('Code')}: {entry.get('Message')}")
                )
        busy = {entry["Key"] for entry in answer.get("Errors", []) if entry.get("Code") in _AGAIN}
        return outcomes, [path for key, path in by_key.items() if key in busy]

    def _delete_one(self, path: str) -> Deletion:
        try:
            self._ask(
                lambda client: client.delete_object(Bucket=self._bucket, Key=self._key(path), **self._payer),
                path,
                "deleted",
            )
        except FileMissing:
            return Missing()
        except StorageFailed as failed:
            return Failed(failed.facts.get("store says", failed.message))
        return Deleted()

    def _get(self, path: str, span: str | None = None, tag: str = "") -> tuple[bytes, dict[str, Any]]:
        """Return a file's bytes, or a range of them (none behind its end), and the answer they came with.

        Raises StorageFailed where a tag is asked for and the file has another one.
        """
        from deltacli.storage.s3_faults import FAULTS, code_of, translate

        patient, _ = self._clients()
        wanted = ({"Range": span} if span else {}) | ({"IfMatch": tag} if tag else {})
        for attempt in range(_BODY_ATTEMPTS):
            answer: dict[str, Any] | None = None
            try:
                answer = patient.get_object(Bucket=self._bucket, Key=self._key(path), **wanted, **self._payer)
                assert answer is not None
                return answer["Body"].read(), answer
            except FAULTS as fault:
                if span and code_of(fault) in ("InvalidRange", "416"):
                    return b"", {"ContentRange": "bytes */0"}
                if tag and code_of(fault) in ("PreconditionFailed", "412"):
                    raise StorageFailed(
                        f"{self._place(path)} was written again while it was read",
                        facts={"next": "run the same command again"},
                        hint="deltacli snapshot {table}",
                    ) from None
                # The library repeats requests, but not the reading of an answer that breaks off.
                if answer is None or attempt == _BODY_ATTEMPTS - 1:
                    error = translate(fault, self._place(path), "read", self._options, patient)
                    raise error from error.__cause__
        raise AssertionError("unreachable")

    def _pages(self, prefix: str, after: str) -> Iterator[dict[str, Any]]:
        """Yield the pages of a listing, each when it is needed."""
        token = ""
        while True:
            page, token = self._page(prefix, "/", token, after)
            yield page
            if not token:
                return

    def _page(self, prefix: str, delimiter: str, token: str, after: str = "") -> tuple[dict[str, Any], str]:
        """Return the page of a listing that a token stands for, or the first, and the next one's token, if any."""
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix, **self._payer}
        asked |= {"Delimiter": delimiter} if delimiter else {}
        asked |= {"StartAfter": prefix + after} if after else {}
        asked |= {"ContinuationToken": token} if token else {}
        page = self._list(asked, prefix)
        if not page.get("IsTruncated"):
            return page, ""
        following = str(page.get("NextContinuationToken") or "")
        if following in ("", token):
            raise StorageFailed(f"s3://{self._bucket}/{prefix} can't be listed: the store repeats one page")
        return page, following

    def _holds_any(self, prefix: str) -> bool:
        page = self._list({"Bucket": self._bucket, "Prefix": prefix, "MaxKeys": 1, **self._payer}, prefix)
        return bool(page.get("Contents"))

    def _list(self, asked: dict[str, Any], prefix: str) -> dict[str, Any]:
        page: dict[str, Any] = self._ask(lambda client: client.list_objects_v2(**asked), "", "listed", prefix)
        return page

    def _ask(self, call: Callable[[Any], Answer], path: str, what: str, prefix: str | None = None) -> Answer:
        """Make a call that may be repeated and turn its faults into ours."""
        from deltacli.storage.s3_faults import FAULTS, translate

        patient, _ = self._clients()
        try:
            return call(patient)
        except FAULTS as fault:
            place = (
                self._place(path) if prefix is None else f"{self._uri.partition('://')[0]}://{self._bucket}/{prefix}"
            )
            error = translate(fault, place, what, self._options, patient)
            raise error from error.__cause__

    def _clients(self) -> tuple[Any, Any]:
        """The patient client and the one that sends once, made on first use."""
        if self._made is None:
            from deltacli.storage.s3_faults import FAULTS, translate

            with self._lock:
                if self._made is None:
                    try:
                        self._made = make_clients(self._options)
                    except (*FAULTS, ValueError, TypeError) as fault:
                        error = translate(fault, self._uri, "read", self._options)
                        raise error from error.__cause__
        return self._made

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}" if self._root and path else self._root or path

    def _prefix(self, directory: str) -> str:
        return f"{key}/" if (key := self._key(directory)) else ""

    def _place(self, path: str) -> str:
        return f"{self._uri}/{path}" if path else self._uri


class _ObjectReader(io.RawIOBase):
    """An object as a seekable file, its end in memory."""

    def __init__(self, storage: S3Storage, path: str, size: int, tail: bytes, tag: str) -> None:
        self._storage, self._path, self._size, self._tail = storage, path, size, tail
        self.tag = tag
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a position before the start")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:  # Any: collections.abc.Buffer comes with Python 3.12
        view = memoryview(buffer).cast("B")
        in_tail = self._position - (self._size - len(self._tail))
        if in_tail >= 0:
            data = self._tail[in_tail : in_tail + len(view)]
        else:
            data = self._storage._range(self._path, self._position, len(view), self.tag)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


def _just_below(name: str) -> str:
    """Return a name below `name` with next to nothing between: S3 lists what is behind a name, the port what is not
    before it.
    """
    if not name:
        return ""
    last = ord(name[-1])
    if last == 0:
        return name[:-1]
    return name[:-1] + chr(0xD7FF if last == 0xE000 else last - 1)
