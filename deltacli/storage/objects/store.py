"""The storage port on top of the calls of one bucket or container."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from deltacli.core.cached import cached_property
from deltacli.core.errors import FileMissing, NoAtomicCreate, PermissionRefused, StorageFailed, UsageError
from deltacli.core.hints import command
from deltacli.core.threads import ThreadPool
from deltacli.core.typing import BinaryFile
from deltacli.storage.base import (
    PARALLEL_READS,
    Capabilities,
    Draft,
    FileStat,
    PathKind,
    ShouldDescend,
    WalkEntry,
    no_atomic_create,
)
from deltacli.storage.objects.calls import (
    ABSENT,
    Content,
    Entry,
    ListedPage,
    ObjectCalls,
    Source,
    ask,
    in_byte_order,
    not_repeated,
)
from deltacli.storage.objects.contents import Body, ObjectReader
from deltacli.storage.objects.creation import ConditionUnsupported, create, honours_condition
from deltacli.storage.objects.faults import passing
from deltacli.storage.objects.http import HttpFault
from deltacli.storage.outcomes import Created, Creation, Deleted, Deletion, Failed, Missing
from deltacli.storage.retry import DELETE_FIRST_WAIT, Retry, may_send, permission, sending_while

if TYPE_CHECKING:
    from deltacli.storage.versions import VersionedObjects

Answer = TypeVar("Answer")

_TAIL_BYTES = 64 << 10
_READ_AHEAD_BYTES = 1 << 20
_PARALLEL_DELETES = 16
"""Concurrent requests for a batch of deletions, where one request takes few files."""
_DELETES_TOGETHER = 1_000
_NOT_SENT = Failed("the time limit for sending it was reached")


class ObjectStorage:
    """Objects below a prefix. No request is sent, and no credentials are looked up, before they are needed.

    Idempotent calls are retried by `retry`; a conditional create is retried only after an answer that nothing was done.
    """

    def __init__(
        self,
        uri: str,
        root: str,
        calls: ObjectCalls,
        *,
        aliases: tuple[str, ...] = (),
        retry: Retry | None = None,
        versions: Callable[[ObjectStorage], VersionedObjects] | None = None,
    ) -> None:
        """`uri` ends with `root`, the part of the keys that all objects begin with. `versions` returns those of the
        objects of a store.
        """
        self._uri, self._root, self._calls = uri, root, calls
        self._aliases, self._make_versions = aliases, versions
        self._retry = retry or Retry()
        self._lock = Lock()
        self._is_atomic: bool | None = None

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def root(self) -> str:
        """The part of the keys that all objects begin with."""
        return self._root

    @property
    def calls(self) -> ObjectCalls:
        """The calls that the store stands on, for probes that must see their answers."""
        return self._calls

    @property
    def retry(self) -> Retry:
        return self._retry

    @property
    def capabilities(self) -> Capabilities:
        """`atomic_create` is assumed until a probe before the first write shows otherwise."""
        return Capabilities(
            cheap_listing=False,
            parallel_reads=PARALLEL_READS,
            atomic_create=self._is_atomic is not False,
            lists_flat=True,
        )

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._aliases

    @cached_property
    def versions(self) -> VersionedObjects | None:
        return None if self._make_versions is None else self._make_versions(self)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = self._prefix(directory)
        is_there, last = not prefix, ""

        def entries() -> Iterator[Entry]:
            nonlocal is_there
            before = list[Entry]()
            for page in self._pages(prefix, prefix + start if start else ""):
                is_there = is_there or bool(page.entries or page.prefixes)
                yield from not_repeated(page.entries, before)
                before = page.entries

        for entry in in_byte_order(entries()):
            name = entry.key.removeprefix(prefix)
            if name < last:
                raise StorageFailed(
                    f"{self._place(directory)} is listed out of order{self._calls.dialect.disorder}",
                    code="storage.listing-disorder",
                    facts={"seen": f"{name} after {last}"},
                )
            if name > last and name >= start:
                yield FileStat(name, entry.size_bytes, entry.modified_ms)
            last = name
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
            return self._page(prefix, delimiter, token, start)

        lister = Lister(ask, can_start=self._calls.starts_anywhere)
        is_there = yield from walk(lister, self._prefix, directory, enter)
        if not is_there and self._prefix(directory):
            raise FileMissing(f"{self._place(directory)} does not exist")

    def read(self, path: str) -> bytes:
        return self.read_version(path, "")

    def read_version(self, path: str, version_id: str) -> bytes:
        """Return the whole content of a version of a file, '' for the current one."""
        content = self._get(path, "", version_id=version_id)
        return content.data if content else b""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._range(path, offset, length)

    def open(self, path: str) -> BinaryFile:
        return self.open_version(path, "")

    def open_version(self, path: str, version_id: str) -> BinaryFile:
        """Open a version of a file, '' for the current one. Read its end, which has the footer of Parquet, and its size
        in one request.
        """
        content = self._get(path, f"bytes=-{_TAIL_BYTES}", version_id=version_id)
        if content is None:
            return io.BufferedReader(ObjectReader(lambda *_: b"", 0, b"", ""))
        tag = content.tag
        reader = ObjectReader(
            lambda offset, length: self._range(path, offset, length, tag, version_id), content.size, content.data, tag
        )
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the port)
        """Return the tag of the first read; every later request for the file requires it."""
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
        entry, tag = self._ask(lambda: self._calls.look(self._key(path)), path, "read")
        return FileStat(path.rsplit("/", 1)[-1], entry.size_bytes, entry.modified_ms, tag)

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        def look(path: str) -> tuple[int, int]:
            try:
                found = self.stat(path)
            except FileMissing:
                return -1, -1
            return found.size_bytes, found.modified_ms

        with ThreadPool(PARALLEL_READS) as pool:
            found = list(pool.map(look, paths))
        return [size for size, _ in found], [modified_ms for _, modified_ms in found]

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:  # noqa: ARG002
        self._require_condition(path)
        return self._create(path, Body(data))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:  # noqa: ARG002
        self._require_condition(path)
        self._replace(path, Body(data))

    def draft(self, path: str) -> Draft:
        from deltacli.storage.drafts import ScratchDraft

        self._require_condition(path)

        return ScratchDraft(
            lambda place: self._create(path, Body(place)), lambda place: self._replace(path, Body(place))
        )

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        if self._is_atomic is False:
            raise self._read_only()
        remaining = iter(paths)
        with ThreadPool(_PARALLEL_DELETES, thread_name_prefix="deltacli-delete") as pool:
            while batch := list(islice(remaining, _DELETES_TOGETHER)):
                outcomes = self._delete(pool, list(dict.fromkeys(batch)))
                yield from ((path, outcomes.get(path, _NOT_SENT)) for path in batch)

    def copy_within(self, source: str, target: str) -> Creation:
        entry, tag = self._ask(lambda: self._calls.look(self._key(source)), source, "read")
        outcome = self.copy(Source(entry.key, "", entry.size_bytes, tag), target, ABSENT)
        if isinstance(outcome, Created) and (size := self.stat(target).size_bytes) != entry.size_bytes:
            raise StorageFailed(
                f"{self._place(target)} is not a complete copy of {self._place(source)}",
                facts={"expected": f"{entry.size_bytes:,} bytes", "found": f"{size:,} bytes"},
            )
        return outcome

    def copy(self, source: Source, path: str, condition: str) -> Creation:
        """Copy an object or a version to a path. `condition`: ABSENT, or the tag of the object that may be replaced."""
        from deltacli.storage.objects.creation import copy

        self._require_condition(path)
        return copy(self._calls, self._retry, source, self._key(path), self._place(path), condition)

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the port)
        return Missing()

    def _replace(self, path: str, body: Body) -> None:
        uploads = self._calls.uploads
        if uploads is not None and uploads.replace(self._key(path), body):
            return
        self._ask(lambda: self._calls.write(self._key(path), body, None), path, "written")

    def _create(self, path: str, body: Body) -> Creation:
        """Send one conditional request; repeat it only after an answer that nothing was done."""
        uploads = self._calls.uploads
        if uploads is not None and (outcome := uploads.create(self._key(path), body)) is not None:
            return outcome
        try:
            return create(
                self._calls,
                self._retry,
                lambda: self._calls.write(self._key(path), body, ABSENT),
                self._place(path),
            )
        except ConditionUnsupported:
            self._is_atomic = False
            raise self._read_only() from None

    def _require_condition(self, path: str) -> None:
        """Raise NoAtomicCreate where the store ignores the condition; probed once, and not for the cloud itself."""
        with self._lock:
            if self._is_atomic is None:
                address = f"{self._calls.endpoint}/{self._uri.split('/')[2]}"
                self._is_atomic = self._calls.is_known_atomic or honours_condition(
                    address, path, lambda probe: self._create(probe, Body(b"")), self._delete_one
                )
        if not self._is_atomic:
            raise self._read_only()

    def _read_only(self) -> NoAtomicCreate:
        condition = self._calls.dialect.condition
        return no_atomic_create(
            self._uri, f"the store ignores {condition}, so two writers could create the same version"
        )

    def _delete(self, pool: ThreadPool, paths: list[str]) -> dict[str, Deletion]:
        """Delete files in bulk requests, and throttled ones in further requests; alone those that no such request can
        delete.
        """
        outcomes: dict[str, Deletion] = {path: Missing() for path in paths if not self._calls.can_hold(self._key(path))}
        size, may_repeat = self._calls.deletes_per_request, permission()

        def send_alone(path: str) -> Deletion:
            with sending_while(may_repeat):
                return self._delete_one(path) if may_send() else _NOT_SENT

        def send(part: list[str]) -> tuple[dict[str, Deletion], list[str]]:
            with sending_while(may_repeat):
                return self._delete_together(part)

        paths = [path for path in paths if path not in outcomes]
        together = [path for path in paths if self._can_delete_together(path)]
        for number in self._retry.rounds(DELETE_FIRST_WAIT):
            if not together or (number and not may_send()):
                break
            parts = [together[start : start + size] for start in range(0, len(together), size)]
            together = []
            for found, again in pool.map(send, parts):
                outcomes |= found
                together += again
            if not together:
                break  # the next round begins with a wait
        alone = [path for path in paths if path not in outcomes and not self._can_delete_together(path)]
        return outcomes | dict(zip(alone, pool.map(send_alone, alone), strict=True))

    def _delete_together(self, paths: list[str]) -> tuple[dict[str, Deletion], list[str]]:
        """Return the outcomes of the files, and those to repeat because the store was busy. No outcome of files that
        turned out to be deleted alone.
        """
        keys = {self._key(path): path for path in paths}
        try:
            found = self._ask(lambda: self._calls.delete_together(list(keys)), paths[0], "deleted")
        except StorageFailed as failed:
            return {path: _failed(failed) for path in paths if self._can_delete_together(path)}, []
        outcomes: dict[str, Deletion] = dict.fromkeys(paths, Failed("the store did not report its outcome"))
        outcomes |= {keys[key]: self._outcome(keys[key], fault) for key, fault in found.items()}
        busy = [keys[key] for key, fault in found.items() if fault is not None and passing(fault)]
        if busy:
            self._retry.slow_down(self._calls.endpoint)
        return outcomes, busy

    def _can_delete_together(self, path: str) -> bool:
        return self._calls.can_delete_together(self._key(path))

    def _delete_one(self, path: str) -> Deletion:
        try:
            self._ask(lambda: self._calls.delete(self._key(path)), path, "deleted")
        except FileMissing:
            return Missing()
        except (StorageFailed, UsageError) as failed:
            return _failed(failed)
        return Deleted()

    def _outcome(self, path: str, fault: HttpFault | None) -> Deletion:
        if fault is None:
            return Deleted()
        error = self._translated(fault, path, "deleted")
        return Missing() if isinstance(error, FileMissing) else _failed(error)

    def _range(self, path: str, offset: int, length: int, tag: str = "", version_id: str = "") -> bytes:
        """Return a range of a file; of the content with this tag, if one is given."""
        if length <= 0:
            return b""
        content = self._get(path, f"bytes={offset}-{offset + length - 1}", tag, version_id)
        return _part(content, offset, length) if content else b""

    def _get(self, path: str, span: str, tag: str = "", version_id: str = "") -> Content | None:
        """Return the bytes of a file or of a range; None after the end of the file.

        Raises StorageFailed where a tag is given and the file has another one.
        """
        try:
            return self._ask(lambda: self._calls.get(self._key(path), span, tag, version_id), path, "read")
        except StorageFailed as failed:
            fault = failed.__context__
            status = fault.status if isinstance(fault, HttpFault) else 0
            if status == 416 and span:
                return None
            if tag and status == 412:
                raise StorageFailed(
                    f"{self._place(path)} was changed while it was read",
                    facts={"next": "run the same command again"},
                    hint=command("snapshot"),
                ) from None
            raise

    def _pages(self, prefix: str, start: str) -> Iterator[ListedPage]:
        token = ""
        while True:
            page = self._page(prefix, "/", token, start)
            yield page
            if not (token := page.token):
                return

    def _page(self, prefix: str, delimiter: str, token: str, start: str = "", limit: int = 0) -> ListedPage:
        """Return the page of a listing for a token, or the first."""
        place = f"{self._uri.removesuffix(self._root).removesuffix('/')}/{prefix}"
        page = self._ask(lambda: self._calls.page(prefix, delimiter, token, start, limit), "", "listed", place)
        if token and page.token == token:
            raise StorageFailed(f"{place} cannot be listed: the store repeats a page", code="storage.unexpected-answer")
        return page

    def _holds_any(self, prefix: str) -> bool:
        token = ""
        while True:
            page = self._page(prefix, "", token, limit=1)
            if page.entries or not page.token:
                return bool(page.entries)
            token = page.token

    def _ask(self, call: Callable[[], Answer], path: str, what: str, place: str | None = None) -> Answer:
        """Make a call with retries and translate its errors."""
        return ask(self._calls, self._retry, call, place or self._place(path), what)

    def _translated(self, fault: HttpFault, path: str, what: str) -> StorageFailed | UsageError:
        return self._calls.translated(fault, self._place(path), what)

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}" if self._root and path else self._root or path

    def _prefix(self, directory: str) -> str:
        return f"{key}/" if (key := self._key(directory)) else ""

    def _place(self, path: str) -> str:
        return f"{self._uri}/{path}" if path else self._uri


def _part(content: Content, offset: int, length: int) -> bytes:
    """Return the requested bytes, also where the store ignored the range."""
    start = offset - content.offset
    return content.data[start : start + length]


def _failed(fault: StorageFailed | UsageError) -> Failed:
    """Return the outcome of a deletion from a fault of the store."""
    reason = fault.facts.get("store says") or fault.facts.get("seen", fault.message)
    return Failed(reason, fault if isinstance(fault, PermissionRefused) else None)
