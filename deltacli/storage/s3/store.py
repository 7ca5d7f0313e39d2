"""S3 and compatible stores.

Uses botocore, the library below s3fs and boto3, instead of s3fs, whose asynchronous transport repeats a PUT when a
connection breaks. A repeated conditional PUT finds its own first attempt and takes it for another writer's.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

from deltacli.errors import FileMissing, PermissionRefused, StorageFailed, UsageError
from deltacli.storage.base import (
    PARALLEL_READS,
    Capabilities,
    Created,
    Creation,
    Deleted,
    Deletion,
    Draft,
    Existed,
    Failed,
    FileStat,
    Missing,
    PathKind,
    ShouldDescend,
    Unknown,
    WalkEntry,
    no_atomic_create,
)
from deltacli.storage.object_reader import ObjectReader
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.listing import ListedPage
from deltacli.storage.objects.probe import honours_condition
from deltacli.storage.retry import BODY_ATTEMPTS, CREATE_FIRST_WAIT, DELETE_FIRST_WAIT, Retry, may_send
from deltacli.storage.s3 import uploads
from deltacli.storage.s3.answers import (
    body_of,
    directly_below,
    is_stored,
    just_below,
    page_of,
    part_of,
    require_object,
    size_by_tail,
    stat_of,
    unexpected,
)
from deltacli.storage.s3.calls import S3Calls
from deltacli.storage.s3.options import read_options
from deltacli.storage.s3.uploads import S3Uploads, Unsupported

Answer = TypeVar("Answer")

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_DELETES_A_REQUEST = 1_000
_AGAIN = {"SlowDown", "InternalError", "ServiceUnavailable", "OperationAborted"}
_NO_CONTENT = 204
_TAIL_BYTES = 64 << 10
_READ_AHEAD_BYTES = 1 << 20
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class S3Storage:
    """Objects below a prefix of a bucket. No request is sent, and no credentials are looked up, before they are needed.

    Idempotent calls are retried by `retry`; a conditional create is retried only after an answer that nothing was done.
    """

    def __init__(self, uri: str, options: Mapping[str, str], *, retry: Retry | None = None) -> None:
        try:
            import botocore.session  # noqa: F401
        except ImportError as fault:
            from deltacli.storage.remote import scheme_unavailable

            raise scheme_unavailable(uri.partition("://")[0]) from fault
        self._uri = uri.rstrip("/")
        self._bucket, _, self._root = self._uri.partition("://")[2].partition("/")
        if "@" in self._bucket:
            raise UsageError(
                "invalid character @ in the name of the bucket: pass credentials outside the URI",
                code="usage.secret",
                facts={"instead": "AWS_PROFILE, or the environment variables of AWS"},
            )
        if not _BUCKET.fullmatch(self._bucket):
            raise UsageError(f"{self._uri} does not name a bucket", code="usage.table", hint="s3://BUCKET/PATH")
        self._options = read_options(options)
        self._retry = retry or Retry()
        self._calls = S3Calls(self._uri, self._bucket, self._options, self._retry)
        self._uploads = S3Uploads(self._calls)
        self._lock = Lock()
        self._honours_condition: bool | None = None
        self._honours_in_parts: bool | None = None

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def root(self) -> str:
        """The part of the keys that all objects begin with."""
        return self._root

    @property
    def retry(self) -> Retry:
        return self._retry

    @property
    def calls(self) -> S3Calls:
        """The requests that the store stands on, for probes that must see their answers."""
        return self._calls

    @property
    def capabilities(self) -> Capabilities:
        """`atomic_create` is assumed until a probe before the first write shows otherwise."""
        is_atomic = self._honours_condition is not False
        return Capabilities(
            cheap_listing=False, parallel_reads=PARALLEL_READS, atomic_create=is_atomic, lists_flat=True
        )

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = self._prefix(directory)
        is_there, last, recent = not prefix, "", frozenset[str]()
        for page in self._pages(prefix, prefix + just_below(start) if start else ""):
            is_there = is_there or bool(page.entries or page.prefixes)
            names = [entry.key.removeprefix(prefix) for entry in page.entries]
            for name, entry in zip(names, page.entries, strict=True):
                if name <= last and name not in recent and name:
                    raise StorageFailed(
                        f"{self._place(directory)} is listed out of order, as directory buckets are",
                        code="storage.listing-disorder",
                        facts={"seen": f"{name} after {last}"},
                    )
                if name > last and name >= start:
                    yield FileStat(name, entry.size_bytes, entry.modified_ms)
                last = max(last, name)
            recent = frozenset(names)
        if not is_there and not (start and self._holds_any(prefix)):
            raise FileMissing(f"{self._place(directory)} does not exist")

    def list_directories(self, directory: str) -> list[str]:
        prefix, found, is_there = self._prefix(directory), set[str](), False
        for page in self._pages(prefix, ""):
            is_there = is_there or bool(page.entries or page.prefixes)
            found.update(below.removeprefix(prefix).rstrip("/") for below in page.prefixes)
        if prefix and not is_there:
            raise FileMissing(f"{self._place(directory)} does not exist")
        return sorted(found - {""})

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        from deltacli.storage.objects.walk import Lister, walk

        def ask(prefix: str, delimiter: str, token: str, start: str) -> ListedPage:
            return self._page(prefix, delimiter, token, directly_below(start))

        is_there = yield from walk(Lister(ask, can_start=True), self._prefix, directory, enter)
        if not is_there and self._prefix(directory):
            raise FileMissing(f"{self._place(directory)} does not exist")

    def read(self, path: str) -> bytes:
        return self._get(path)[0]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._range(path, offset, length)

    def _range(self, path: str, offset: int, length: int, tag: str = "") -> bytes:
        """Return a range of a file; of the content with this tag, if one is given."""
        if length <= 0:
            return b""
        data, answer = self._get(path, f"bytes={offset}-{offset + length - 1}", tag)
        return part_of(data, answer, self._place(path), offset, length) if answer else b""

    def open(self, path: str) -> Any:  # Any: as in the port
        """Read the end of the file, which has the footer of Parquet, and the size in one request."""
        tail, answer = self._get(path, f"bytes=-{_TAIL_BYTES}")
        size = size_by_tail(tail, answer, self._place(path))
        tag = str(answer.get("ETag", ""))
        reader = ObjectReader(lambda offset, length: self._range(path, offset, length, tag), size, tail, tag)
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        """Return the entity tag of the first read; every later request for the file requires it."""
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
        answer = self._ask(lambda client: client.head_object(**self._calls.of(self._key(path))), path, "read")
        return stat_of(answer, self._place(path))

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        from deltacli.storage.objects.many import stat_each

        return stat_each(self.stat, paths)

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:  # noqa: ARG002
        self._require_condition(path)
        return self._create(path, Body(data))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:  # noqa: ARG002
        self._require_condition(path)
        self._replace(path, Body(data))

    def draft(self, path: str) -> Draft:
        from deltacli.storage.scratch import ScratchDraft

        self._require_condition(path)

        return ScratchDraft(
            lambda place: self._create(path, Body(place)), lambda place: self._replace(path, Body(place))
        )

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        """Delete in bulk requests. S3 does not report whether an object existed; Deleted means that it does
        not now.
        """
        if self._honours_condition is False:
            raise self._read_only()
        remaining = iter(paths)
        while batch := list(islice(remaining, _DELETES_A_REQUEST)):
            odd = {path for path in batch if _NOT_IN_XML.search(path)}
            outcomes = self._delete([path for path in dict.fromkeys(batch) if path not in odd])
            outcomes |= {path: self._delete_one(path) for path in sorted(odd) if may_send()}
            yield from ((path, outcomes.get(path, Failed("the time to send it was over"))) for path in batch)

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the port)
        return Missing()

    def _replace(self, path: str, body: Body) -> None:
        if self._sends_parts(path, body):
            self._uploads.replace(self._key(path), self._place(path), body)
            return

        def send(client: Any) -> Any:  # Any: botocore has no types
            with body.opened() as content:
                return client.put_object(**self._calls.of(self._key(path)), Body=content)

        require_object(self._ask(send, path, "written"), self._place(path), "written")

    def _create(self, path: str, body: Body) -> Creation:
        """Send one conditional PUT; retry only after an answer that nothing was done."""
        from deltacli.storage.s3.faults import FAULTS, Sent, fate_of_create

        if self._sends_parts(path, body):
            return self._create_in_parts(path, body)
        fault: BaseException | None = None
        for _ in self._retry.rounds(CREATE_FIRST_WAIT):
            try:
                if is_stored(self._calls.once(lambda client: self._put_if_absent(client, path, body))):
                    return Created()
                return Unknown("the answer has no entity tag, so it may not come from the store")
            except FAULTS as caught:
                fault = caught
            match fate_of_create(fault):
                case Sent.REFUSED_EXISTS:
                    return Existed()
                case Sent.UNKNOWN:
                    said = self._calls.translated(fault, self._place(path), "written")
                    return Unknown(said.facts.get("store says", said.message))
                case Sent.UNSUPPORTED:
                    self._honours_condition = False
                    raise self._read_only()
                case Sent.REFUSED:
                    break
                case Sent.REFUSED_AGAIN:
                    continue
        assert fault is not None
        raise self._calls.translated(fault, self._place(path), "written")

    def _put_if_absent(self, client: Any, path: str, body: Body) -> Any:  # Any: botocore has no types
        with body.opened() as content:
            return client.put_object(**self._calls.of(self._key(path)), Body=content, IfNoneMatch="*")

    def _create_in_parts(self, path: str, body: Body) -> Creation:
        try:
            return self._uploads.create(self._key(path), self._place(path), body)
        except Unsupported:
            self._honours_in_parts = False
            return self._create(path, body)

    def _sends_parts(self, path: str, body: Body) -> bool:
        """Return whether an object is sent in parts. A store that cannot create one atomically gets it in one request.

        Raises StorageFailed where the object is too large for that.
        """
        if body.size <= uploads.LARGEST_SINGLE:
            return False
        if self._honours_in_parts is None:
            self._honours_in_parts = self._calls.is_aws or self._proves_parts(path)
        if not self._honours_in_parts and body.size > uploads.LARGEST_PUT:
            raise self._too_large(path)
        return self._honours_in_parts

    def _proves_parts(self, path: str) -> bool:
        """Return whether the store honours the condition when an upload is completed; probed once per bucket."""
        try:
            return honours_condition(
                f"{self._calls.host}/{self._bucket} in parts",
                path,
                lambda probe: self._uploads.create(self._key(probe), self._place(probe), Body(b"probe")),
                self._delete_one,
            )
        except (Unsupported, StorageFailed):
            return False

    def _too_large(self, path: str) -> StorageFailed:
        return StorageFailed(
            f"{self._place(path)} cannot be written: it exceeds the limit of 5 GiB for one request",
            facts={"why": "the store ignores or refuses If-None-Match when an upload in parts is completed"},
        )

    def _require_condition(self, path: str) -> None:
        """Raise NoAtomicCreate where the store ignores the condition; probed once per bucket, and not for AWS."""
        with self._lock:
            if self._honours_condition is None:
                self._honours_condition = self._calls.is_aws or honours_condition(
                    f"{self._calls.host}/{self._bucket}",
                    path,
                    lambda probe: self._create(probe, Body(b"")),
                    self._delete_one,
                )
        if not self._honours_condition:
            raise self._read_only()

    def _read_only(self) -> Exception:
        return no_atomic_create(
            self._uri, "the store ignores If-None-Match, so two writers could create the same version"
        )

    def _delete(self, paths: list[str]) -> dict[str, Deletion]:
        """Delete the objects in one request, and throttled ones in further requests."""
        outcomes: dict[str, Deletion] = {}
        for number in self._retry.rounds(DELETE_FIRST_WAIT):
            if number and not may_send():
                break
            found, again = self._delete_at_once(paths)
            outcomes |= found
            if not (paths := again):
                break
        return outcomes

    def _delete_at_once(self, paths: list[str]) -> tuple[dict[str, Deletion], list[str]]:
        """Return the outcomes of the objects, and those to retry."""
        if not paths:
            return {}, []
        by_key = {self._key(path): path for path in paths}
        objects = [{"Key": key} for key in by_key]
        try:
            answer = self._ask(
                lambda client: client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": objects}, **self._calls.payer
                ),
                paths[0],
                "deleted",
            )
        except StorageFailed as failed:
            return dict.fromkeys(paths, _failed(failed)), []
        outcomes: dict[str, Deletion] = dict.fromkeys(paths, Failed("the store did not report its outcome"))
        told = [entry.get("Key") for entry in answer.get("Deleted", [])]
        outcomes |= {by_key[key]: Deleted() for key in told if key in by_key}
        for entry in answer.get("Errors", []):
            gone = entry.get("Code") == "NoSuchKey"
            if entry.get("Key") in by_key:
                path = by_key[entry["Key"]]
                outcomes[path] = Missing() if gone else self._refused(path, entry)
        busy = {entry.get("Key") for entry in answer.get("Errors", []) if entry.get("Code") in _AGAIN}
        if busy:
            self._retry.slow_down(self._calls.host)
        return outcomes, [path for key, path in by_key.items() if key in busy]

    def _refused(self, path: str, entry: Mapping[str, Any]) -> Failed:
        """Return the outcome of one object that was not deleted."""
        from deltacli.storage.s3.faults import denied

        reason = f"{entry.get('Code')}: {entry.get('Message')}"
        return Failed(reason, denied(str(entry.get("Code")), f"{self._uri}/{path}", self._options))

    def _delete_one(self, path: str) -> Deletion:
        try:
            answer = self._ask(
                lambda client: client.delete_object(**self._calls.of(self._key(path))),
                path,
                "deleted",
            )
            if (status := answer["ResponseMetadata"]["HTTPStatusCode"]) != _NO_CONTENT:
                return Failed(f"the store answers {status} where S3 answers {_NO_CONTENT}")
        except FileMissing:
            return Missing()
        except StorageFailed as failed:
            return _failed(failed)
        return Deleted()

    def _get(self, path: str, span: str = "", tag: str = "") -> tuple[bytes, dict[str, Any]]:
        """Return the bytes of a file or of a range, and the answer; empty and None after the end of the file.

        Raises StorageFailed where a tag is given and the file has another one.
        """
        from deltacli.storage.s3.faults import FAULTS, code_of, is_broken_off

        asked = self._calls.of(self._key(path))
        asked |= ({"Range": span} if span else {}) | ({"IfMatch": tag} if tag else {})

        def send(client: Any) -> tuple[bytes, dict[str, Any]]:  # Any: botocore has no types
            for left in reversed(range(BODY_ATTEMPTS)):
                answer: dict[str, Any] = client.get_object(**asked)
                try:
                    return body_of(answer, self._place(path), span, self._calls.host), answer
                except FAULTS as fault:
                    if not left or not is_broken_off(fault):
                        raise
            raise AssertionError("unreachable")

        try:
            data, answer = self._ask(send, path, "read")
        except StorageFailed as failed:
            match code_of(failed.__context__):
                case "InvalidRange" | "416" if span:
                    return b"", {}
                case "PreconditionFailed" | "412" if tag:
                    raise self._written_again(path) from None
            raise
        require_object(answer, self._place(path), "read")
        return data, answer

    def _written_again(self, path: str) -> StorageFailed:
        return StorageFailed(
            f"{self._place(path)} was changed while it was read",
            facts={"next": "run the same command again"},
            hint="deltacli snapshot {table}",
        )

    def _pages(self, prefix: str, after: str) -> Iterator[ListedPage]:
        """Yield the pages of a listing lazily."""
        token = ""
        while True:
            page = self._page(prefix, "/", token, after)
            yield page
            if not (token := page.token):
                return

    def _page(self, prefix: str, delimiter: str, token: str, after: str = "") -> ListedPage:
        """Return the page of a listing for a token, or the first."""
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix, **self._calls.payer}
        asked |= {"Delimiter": delimiter} if delimiter else {}
        asked |= {"StartAfter": after} if after else {}
        asked |= {"ContinuationToken": token} if token else {}
        page = self._list(asked, prefix)
        if token and page.token == token:
            raise unexpected(self._listed(prefix), "listed", "a repeated page")
        return page

    def _holds_any(self, prefix: str) -> bool:
        page = self._list({"Bucket": self._bucket, "Prefix": prefix, "MaxKeys": 1, **self._calls.payer}, prefix)
        return bool(page.entries)

    def _list(self, asked: dict[str, Any], prefix: str) -> ListedPage:
        place = self._listed(prefix)
        return page_of(self._ask(lambda client: client.list_objects_v2(**asked), "", "listed", place), place, prefix)

    def _listed(self, prefix: str) -> str:
        return f"{self._uri.partition('://')[0]}://{self._bucket}/{prefix}"

    def _ask(self, call: Callable[[Any], Answer], path: str, what: str, place: str | None = None) -> Answer:
        return self._calls.ask(call, place or self._place(path), what)

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}" if self._root and path else self._root or path

    def _prefix(self, directory: str) -> str:
        return f"{key}/" if (key := self._key(directory)) else ""

    def _place(self, path: str) -> str:
        return f"{self._uri}/{path}" if path else self._uri


def _failed(fault: StorageFailed) -> Failed:
    """Return the outcome of a deletion from a fault of the store."""
    reason = fault.facts.get("store says", fault.message)
    return Failed(reason, fault if isinstance(fault, PermissionRefused) else None)
