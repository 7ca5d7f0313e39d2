"""The storage port on top of the calls of one bucket or container: creating, reading, deleting, and versions."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import groupby, islice, pairwise, takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import uuid4

from deltacli.core.errors import FileMissing, NoAtomicCreate, PermissionRefused, StorageFailed, UsageError, command
from deltacli.core.lock_free_property import cached_property
from deltacli.core.pools import ThreadPool
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
from deltacli.storage.objects.http import Body, HttpFault, ObjectReader, Sent, fate_of_create, passing_cause
from deltacli.storage.outcomes import Created, Creation, Deleted, Deletion, Existed, Failed, Missing, Unknown
from deltacli.storage.retry import CREATE_FIRST_WAIT, DELETE_FIRST_WAIT, Retry, may_send, permission, sending_while
from deltacli.storage.versions import Keeping, ObjectVersion, VersionedObjects, VersionState

if TYPE_CHECKING:
    from deltacli.storage.grants import HeldGrant

# -- creating and copying an object by one conditional request ---------------------------------------------------------

_ATTEMPTS = 3
_BLOCK_BYTES = 64 << 20
_PROBE = b"probe"

_proven: set[str] = set()
"""Addresses of buckets and containers, and of copies within them, that have passed the test in this process."""
_tested: dict[str, bool] = {}
"""The same for copies, with the result of the test."""
_testing = Lock()
"""Threads that copy begin together: one of them makes the test."""


class _BulkDeletion(NamedTuple):
    """The answer to a bulk deletion: outcomes by path, which files to send again because the store was busy, and how
    long it asks to be left alone before.
    """

    outcomes: dict[str, Deletion]
    busy: Sequence[str] = ()
    wait_seconds: float = 0.0


class ConditionUnsupported(Exception):
    """The store refuses the condition."""


def create_object(
    calls: ObjectCalls, retry: Retry, send: Callable[[], object], place: str, what: str = "written"
) -> Creation:
    """Send a conditional request, again only where nothing was done. Raises ConditionUnsupported, and our error."""
    fault: HttpFault | None = None

    def asked_seconds() -> float:
        return 0.0 if fault is None else fault.wait_seconds

    for _ in retry.rounds(CREATE_FIRST_WAIT, asked=asked_seconds):
        try:
            with retry.watched(calls.endpoint):
                send()
            return Created()
        except HttpFault as caught:
            fault = caught
        match fate_of_create(fault, calls.dialect):
            case Sent.EXISTS:
                return Existed()
            case Sent.UNKNOWN:
                return Unknown(calls.translated(fault, place, what).facts.get("store says", str(fault)))
            case Sent.UNSUPPORTED:
                raise ConditionUnsupported from fault
            case Sent.REFUSED:
                break
    assert fault is not None
    raise calls.translated(fault, place, what)


def honours_condition(
    address: str, path: str, create: Callable[[str], Creation], delete: Callable[[str], object]
) -> bool:
    """Create an object with a random name next to a path twice; the second request must fail. `address` names endpoint
    and bucket, which are tested once per process. A lost answer proves nothing, so that other names are tried then.
    """
    if address in _proven:
        return True
    causes: list[str] = []
    for _ in range(_ATTEMPTS):
        match _try(path, create, delete):
            case (Created(), Existed()):
                _proven.add(address)
                return True
            case (Created(), Created()):
                return False
            case outcomes:
                causes = [outcome.cause for outcome in outcomes if isinstance(outcome, Unknown)]
    raise StorageFailed(
        f"cannot determine whether {address} can create files atomically",
        facts={"store says": "; ".join(causes) or "the name of the probe exists"},
    )


def _try(path: str, create: Callable[[str], Creation], delete: Callable[[str], object]) -> tuple[Creation, Creation]:
    directory = path.rpartition("/")[0]
    probe = f"{directory}/.{uuid4().hex}.probe" if directory else f".{uuid4().hex}.probe"
    try:
        return create(probe), create(probe)
    finally:
        delete(probe)


def copy(calls: ObjectCalls, retry: Retry, source: Source, key: str, place: str, condition: str) -> Creation:
    """Copy an object conditionally: by the store, or through this process where it ignores conditions on copies."""
    if _honours_condition(calls, retry, key, place):
        try:
            uploads = calls.uploads
            if uploads is not None and (outcome := uploads.copy(source, key, condition)) is not None:
                return outcome
            return create_object(calls, retry, lambda: calls.copy(source, key, condition), place)
        except ConditionUnsupported:
            pass
    return _through_here(calls, retry, source, key, place, condition)


def _honours_condition(calls: ObjectCalls, retry: Retry, key: str, place: str) -> bool:
    """Return whether the store refuses to copy to an existing name; tested once per bucket of a foreign endpoint."""
    if calls.is_known_atomic:
        return True
    address = f"{calls.endpoint}/{place.split('/')[2]} by copies"
    with _testing:
        if address not in _tested:
            _tested[address] = _passes_test(calls, retry, key, place, address)
    return _tested[address]


def _passes_test(calls: ObjectCalls, retry: Retry, key: str, place: str, address: str) -> bool:
    directory = key.rpartition("/")[0]
    origin = Source(f"{directory}/.{uuid4().hex}.probe".removeprefix("/"), "", len(_PROBE))

    def make(probe: str) -> Creation:
        return create_object(calls, retry, lambda: calls.copy(origin, probe, ABSENT), place)

    def delete(probe: str) -> None:
        with suppress(StorageFailed):
            ask(calls, retry, lambda: calls.delete(probe), place, "deleted")

    try:
        ask(calls, retry, lambda: calls.write(origin.key, Body(_PROBE), None), place, "written")
        return honours_condition(address, key, make, delete)
    except (ConditionUnsupported, StorageFailed):
        return False
    finally:
        delete(origin.key)


def _through_here(calls: ObjectCalls, retry: Retry, source: Source, key: str, place: str, condition: str) -> Creation:
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix="deltacli-copy-") as file:
        for start in range(0, source.size_bytes, _BLOCK_BYTES):
            end = min(start + _BLOCK_BYTES, source.size_bytes) - 1
            get = partial(calls.get, source.key, f"bytes={start}-{end}", source.tag, source.version_id)
            file.write(ask(calls, retry, get, place, "copied").data)
        file.flush()
        body, uploads = Body(file.name), calls.uploads
        if condition == ABSENT and uploads is not None and (outcome := uploads.create(key, body)) is not None:
            return outcome
        return create_object(calls, retry, lambda: calls.write(key, body, condition), place)


# -- the storage port on top of the calls of one bucket or container ---------------------------------------------------

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
        self.grant: HeldGrant | None = None
        """The credentials that the store was opened with, where a server gave them."""

    def begin_to_write(self) -> None:
        """Ask for credentials that suffice to write, where those of a server so far are to read."""
        if self.grant is not None:
            self.grant.begin_to_write()

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def root(self) -> str:
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
                yield FileStat(name, entry.size_bytes, entry.modified_ms, archive_class=entry.archive_class)
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
        """Open a version of a file, '' for the current one: its end and its size are read in one request."""
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

    def with_above(self, name: str) -> str | None:
        """Return the URI of the nearest prefix above the root that has a directory of a name; None without one."""
        parts = self._root.split("/")
        for depth in range(len(parts) - 1, -1, -1):
            if self._holds_any("/".join([*parts[:depth], name, ""])):
                return self._uri.removesuffix("/".join(parts[depth:])).rstrip("/")
        return None

    def below(self, directory: str) -> ObjectStorage:
        """Return the store of a directory, which shares client, connections and credentials."""
        store = ObjectStorage(
            f"{self._uri}/{directory}",
            self._key(directory),
            self._calls,
            aliases=tuple(f"{alias}/{directory}" for alias in self._aliases),
            retry=self._retry,
            versions=self._make_versions,
        )
        store.grant = self.grant
        return store

    def page_from(self, start: str) -> tuple[list[FileStat], bool]:
        """Return the files of one request from a path on, and whether they are the last; ([], False) if unordered."""
        if not self._calls.starts_anywhere:
            return [], False
        prefix = self._prefix("")
        page = self._page(prefix, "", "", prefix + start)
        files = [FileStat(one.key[len(prefix) :], one.size_bytes, one.modified_ms) for one in page.entries]
        is_ordered = all(first.name < second.name for first, second in pairwise(files))
        return (files, not page.token) if is_ordered else ([], False)

    def stat(self, path: str) -> FileStat:
        entry, tag = self._ask(lambda: self._calls.look(self._key(path)), path, "read")
        name = path.rsplit("/", 1)[-1]
        return FileStat(
            name, entry.size_bytes, entry.modified_ms, tag, entry.md5, entry.archive_class, entry.is_restored
        )

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
        from deltacli.storage.local_write import ScratchDraft

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
            return create_object(
                self._calls, self._retry, lambda: self._calls.write(self._key(path), body, ABSENT), self._place(path)
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
        """Delete files in bulk, throttled ones in further requests, and alone those that no bulk request can."""
        outcomes: dict[str, Deletion] = {path: Missing() for path in paths if not self._calls.can_hold(self._key(path))}
        size, may_repeat = self._calls.deletes_per_request, permission()

        def send_alone(path: str) -> Deletion:
            with sending_while(may_repeat):
                return self._delete_one(path) if may_send() else _NOT_SENT

        def send(part: list[str]) -> _BulkDeletion:
            with sending_while(may_repeat):
                return self._delete_together(part)

        paths = [path for path in paths if path not in outcomes]
        together = [path for path in paths if self._can_delete_together(path)]
        asked_seconds = 0.0

        def asked() -> float:
            return asked_seconds

        for number in self._retry.rounds(DELETE_FIRST_WAIT, asked=asked):
            if not together or (number and not may_send()):
                break
            parts = [together[start : start + size] for start in range(0, len(together), size)]
            together, asked_seconds = [], 0.0
            for deletion in pool.map(send, parts):
                outcomes |= deletion.outcomes
                together += deletion.busy
                asked_seconds = max(asked_seconds, deletion.wait_seconds)
            if not together:
                break  # the next round begins with a wait
        alone = [path for path in paths if path not in outcomes and not self._can_delete_together(path)]
        return outcomes | dict(zip(alone, pool.map(send_alone, alone), strict=True))

    def _delete_together(self, paths: list[str]) -> _BulkDeletion:
        """Send one bulk deletion. Files that turned out to be deleted alone have no outcome."""
        keys = {self._key(path): path for path in paths}
        try:
            found = self._ask(lambda: self._calls.delete_together(list(keys)), paths[0], "deleted")
        except StorageFailed as failed:
            return _BulkDeletion({path: _failed(failed) for path in paths if self._can_delete_together(path)})
        outcomes: dict[str, Deletion] = dict.fromkeys(paths, Failed("the store did not report its outcome"))
        outcomes |= {keys[key]: self._outcome(keys[key], fault) for key, fault in found.items()}
        busy = {keys[key]: fault for key, fault in found.items() if fault is not None and passing_cause(fault)}
        if busy:
            self._retry.slow_down(self._calls.endpoint)
        wait_seconds = max((fault.wait_seconds for fault in busy.values()), default=0.0)
        return _BulkDeletion(outcomes, [*busy], wait_seconds)

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
        error = self._calls.translated(fault, self._place(path), "deleted")
        return Missing() if isinstance(error, FileMissing) else _failed(error)

    def _range(self, path: str, offset: int, length: int, tag: str = "", version_id: str = "") -> bytes:
        """Return a range of a file; of the content with this tag, if one is given."""
        if length <= 0:
            return b""
        content = self._get(path, f"bytes={offset}-{offset + length - 1}", tag, version_id)
        return _part(content, offset, length) if content else b""

    def _get(self, path: str, span: str, tag: str = "", version_id: str = "") -> Content | None:
        """Return the bytes of a file or a range; None after its end. Raises StorageFailed for another tag."""
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

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}" if self._root and path else self._root or path

    def _prefix(self, directory: str) -> str:
        return f"{key}/" if (key := self._key(directory)) else ""

    def _place(self, path: str) -> str:
        return f"{self._uri}/{path}" if path else self._uri


def _part(content: Content, offset: int, length: int) -> bytes:
    start = offset - content.offset
    return content.data[start : start + length]


def _failed(fault: StorageFailed | UsageError) -> Failed:
    reason = fault.facts.get("store says") or fault.facts.get("seen", fault.message)
    return Failed(reason, fault if isinstance(fault, PermissionRefused) else None)


# -- the versions of the objects below a prefix ------------------------------------------------------------------------

PERMISSION = "permission"
"""The fact of an error that names what the caller lacks."""


class VersionPage(NamedTuple):
    """A page of a listing of versions, with keys as paths, and the token of the next page ('' at the end)."""

    versions: list[ObjectVersion]
    token: str


class ObjectVersions(ABC):
    """The versions of the objects of a store. A cloud lists, orders and brings them back."""

    listings: Sequence[str] = ("",)
    """The listings whose entries are merged; each one is in the order of keys where there are several."""
    list_permission: str
    read_permission: str

    def __init__(self, store: ObjectStorage) -> None:
        self._store = store
        self._bucket = store.uri.removesuffix(store.root).removesuffix("/")

    @abstractmethod
    def keeping(self) -> Keeping: ...

    @abstractmethod
    def page(self, listing: str, prefix: str, token: str) -> VersionPage:
        """Return a page of versions of keys with a prefix, in order of keys. Raises HttpFault."""

    @abstractmethod
    def in_order(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Return the versions of one key, which are in the order of the listing, newest first."""

    @abstractmethod
    def bring_back(self, version: ObjectVersion, *, instead_of: ObjectVersion | None = None) -> Creation: ...

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        root = f"{self._store.root}/" if self._store.root else ""
        for version in self.listed(root + prefix):
            yield version._replace(path=version.path.removeprefix(root))

    def listed(self, prefix: str) -> Iterator[ObjectVersion]:
        for _, group in groupby(self.entries(prefix), key=lambda entry: entry.path):
            yield from self.in_order([*group])

    def of_key(self, key: str) -> Sequence[ObjectVersion]:
        """Return the versions of one key, newest first, with the key as path. It is the first with itself as prefix."""
        return self.in_order([*takewhile(lambda entry: entry.path == key, self.entries(key))])

    def entries(self, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the versions of all keys with a prefix, those of one key in a row."""
        streams = [self.pages(listing, prefix) for listing in self.listings]
        return streams[0] if len(streams) == 1 else merge(*streams, key=lambda entry: entry.path.encode())

    def read(self, version: ObjectVersion) -> bytes:
        self._require_readable(version)
        return self.permitted(lambda: self._store.read_version(version.path, version.version_id), self.read_permission)

    def open(self, version: ObjectVersion) -> BinaryFile:
        self._require_readable(version)
        return self.permitted(lambda: self._store.open_version(version.path, version.version_id), self.read_permission)

    def copy(self, version: ObjectVersion, instead_of: ObjectVersion | None, permission: str) -> Creation:
        """Bring a version back by copying it to its own name."""
        source = Source(self.key(version.path), version.version_id, version.size_bytes, version.tag)
        condition = instead_of.tag if instead_of is not None else ABSENT
        return self.permitted(lambda: self._store.copy(source, version.path, condition), permission)

    def ask(self, call: Callable[[], Answer], key: str, what: str, permission: str) -> Answer:
        """Make a call with retries and translate its errors, which name the permission that is missing."""
        place = f"{self._bucket}/{key}".removesuffix("/")
        return self.permitted(lambda: ask(self._store.calls, self._store.retry, call, place, what), permission)

    def key(self, path: str) -> str:
        return f"{self._store.root}/{path}" if self._store.root else path

    def kept_before(self, ways: str) -> Keeping:
        """Return whether there are versions although nothing that keeps them is enabled (any more)."""
        if any(version.state is not VersionState.CURRENT for version in self.list()):
            return Keeping(is_kept=True, how=f"{ways} are disabled, but older versions remain")
        return Keeping(is_kept=False, how=f"{ways} are disabled")

    def gone(self, version: ObjectVersion) -> FileMissing:
        return FileMissing(f"version {version.version_id} of {self._store.uri}/{version.path} does not exist")

    def pages(self, listing: str, prefix: str) -> Iterator[ObjectVersion]:
        """Yield the entries of a listing, page by page."""
        token = ""
        while True:
            page = self.ask(
                lambda token=token: self.page(listing, prefix, token),  # type: ignore[misc]  # of the loop
                prefix,
                "listed with its versions",
                self.list_permission,
            )
            yield from page.versions
            if not page.token:
                return
            if page.token == token:
                raise StorageFailed(
                    f"{self._bucket}/{prefix} cannot be listed with its versions: the store repeats a page",
                    code="storage.unexpected-answer",
                )
            token = page.token

    def _require_readable(self, version: ObjectVersion) -> None:
        if not version.is_readable:
            raise FileMissing(
                f"version {version.version_id} of {self._store.uri}/{version.path} has no content to read",
                facts={"state": version.state.value},
            )

    def permitted(self, call: Callable[[], Answer], permission: str) -> Answer:
        """Make a call whose error names the permission that is missing."""
        try:
            return call()
        except PermissionRefused as refused:
            refused.facts[PERMISSION] = permission
            raise


def is_denied(fault: BaseException | None) -> bool:
    """Return whether a store refused a request for lack of permission."""
    return isinstance(fault, HttpFault) and fault.status in (401, 403)


def current(versions: Sequence[ObjectVersion]) -> ObjectVersion | None:
    return next((version for version in versions if version.state is VersionState.CURRENT), None)
