"""The interface of a store on top of the calls of one bucket or container: the same for every cloud.

What a cloud does is in its `calls.py`; what is decided on top of it is here. Creation is in
`conditional.py`, deletion in `deletion.py`, the listing of everything below a prefix in `walk.py`,
and older versions of objects in `versions.py`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from deltacli.core.errors import FileMissing, NoAtomicCreate, StorageFailed, command
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
from deltacli.storage.objects.body import Body, ObjectReader
from deltacli.storage.objects.calls import (
    ABSENT,
    CopySource,
    ListedObject,
    ListedPage,
    ObjectCalls,
    ObjectContent,
    call_store,
    drop_repeated,
    sort_by_bytes,
)
from deltacli.storage.objects.conditional import ConditionUnsupported, copy, create_object, probe_condition
from deltacli.storage.objects.deletion import Deleter
from deltacli.storage.objects.http_errors import HttpError
from deltacli.storage.outcomes import Created, Creation, Deletion, Missing
from deltacli.storage.retry import Retry
from deltacli.storage.versions import VersionedObjects

if TYPE_CHECKING:
    from deltacli.storage.grants import HeldGrant

Result = TypeVar("Result")

# Bytes at the end of an object that are read when it is opened, together with its size: a footer of
# Parquet is there.
_TAIL_BYTES = 64 << 10

_READ_AHEAD_BYTES = 1 << 20


class ObjectStorage:
    """Objects below a prefix of a bucket or container.

    No request is sent, and no credentials are looked up, before they are needed. Idempotent calls
    are repeated after temporary errors; a conditional creation is repeated only after an answer
    that nothing was done.

    Attributes:
        grant: The credentials that the store was opened with, if a server gave them.
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
        """Make a store.

        Args:
            uri: The URI of the prefix. It ends with `root`.
            root: The prefix: the part of the keys that all objects begin with, without a slash at
                its end.
            calls: The calls of the bucket.
            aliases: Other URIs of the prefix.
            retry: The retry policy.
            versions: Returns the versions of the objects of a store; None if the cloud keeps none.
        """
        self.grant: HeldGrant | None = None
        self._uri = uri
        self._root = root
        self._calls = calls
        self._aliases = aliases
        self._retry = retry or Retry()
        self._make_versions = versions
        self._deleter = Deleter(calls, self._retry, self._key, self._uri_of)
        self._lock = Lock()
        # Whether the store honours conditions; None before the first write.
        self._is_atomic: bool | None = None

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
            has_cheap_requests=False,
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
        """Yield the files of a directory in the order of their names.

        The listing of the log decides which version is the newest. An answer out of order is
        therefore an error: of a reader that stops early, or begins in the middle, it would hide a
        commit.
        """
        prefix = self._prefix(directory)
        exists = not prefix

        def read_entries() -> Iterator[ListedObject]:
            nonlocal exists
            previous = list[ListedObject]()
            for page in self._pages(prefix, prefix + start if start else ""):
                exists = exists or bool(page.entries or page.prefixes)
                yield from drop_repeated(page.entries, previous)
                previous = page.entries

        last = ""
        for entry in sort_by_bytes(read_entries()):
            name = entry.key.removeprefix(prefix)
            if name < last:
                raise StorageFailed(
                    f"{self._uri_of(directory)} is listed out of order{self._calls.dialect.disorder}",
                    code="storage.listing-disorder",
                    facts={"seen": f"{name} after {last}"},
                )
            if name > last and name >= start:
                yield FileStat(name, entry.size_bytes, entry.modified_ms, archive_class=entry.archive_class)
            last = name

        # A directory exists if it holds anything. All of its names may be below `start`.
        if not exists and not (start and self._holds_any(prefix)):
            raise FileMissing(f"{self._uri_of(directory)} does not exist")

    def list_directories(self, directory: str) -> list[str]:
        prefix = self._prefix(directory)
        exists = not prefix
        names = set[str]()
        for page in self._pages(prefix, ""):
            exists = exists or bool(page.entries or page.prefixes)
            names.update(subdirectory.removeprefix(prefix).rstrip("/") for subdirectory in page.prefixes)
        if not exists:
            raise FileMissing(f"{self._uri_of(directory)} does not exist")
        # Two slashes in a row make a directory without a name, which no path can lead to.
        return sorted(names - {""})

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        from deltacli.storage.objects.walk import Lister, walk

        lister = Lister(self._page, can_start=self._calls.starts_anywhere)
        exists = yield from walk(lister, self._prefix, directory, enter)
        if not exists and self._prefix(directory):
            raise FileMissing(f"{self._uri_of(directory)} does not exist")

    def read(self, path: str) -> bytes:
        return self.read_version(path, "")

    def read_version(self, path: str, version_id: str) -> bytes:
        """Return the whole content of a version of a file, '' for the current one."""
        content = self._get(path, "", version_id=version_id)
        return b"" if content is None else content.data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._read_range(path, offset, length)

    def open(self, path: str) -> BinaryFile:
        return self.open_version(path, "")

    def open_version(self, path: str, version_id: str) -> BinaryFile:
        """Open a version of a file, '' for the current one.

        One request reads its size, its tag and its end. Every later request for the file requires
        the same tag, so that a reader never sees parts of two contents.
        """
        content = self._get(path, f"bytes=-{_TAIL_BYTES}", version_id=version_id)
        if content is None:
            # An empty object has no range at its end.
            return io.BufferedReader(ObjectReader(lambda *_: b"", 0, b"", ""))

        tag = content.tag

        def read_range(offset: int, length: int) -> bytes:
            return self._read_range(path, offset, length, tag, version_id)

        reader = ObjectReader(read_range, content.size, content.data, tag)
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the interface)
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

    def find_prefix_above(self, name: str) -> str | None:
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

    def list_page_from(self, start: str) -> tuple[list[FileStat], bool]:
        """Return the files of one request from a path on, and whether they are the last; ([], False) if unordered."""
        if not self._calls.starts_anywhere:
            return [], False
        prefix = self._prefix("")
        page = self._page(prefix, "", "", prefix + start)
        files = [FileStat(entry.key[len(prefix) :], entry.size_bytes, entry.modified_ms) for entry in page.entries]
        if any(first.name >= second.name for first, second in pairwise(files)):
            return [], False
        return files, not page.token

    def stat(self, path: str) -> FileStat:
        entry, tag = self._ask(lambda: self._calls.head(self._key(path)), path, "read")
        name = path.rsplit("/", 1)[-1]
        return FileStat(
            name, entry.size_bytes, entry.modified_ms, tag, entry.md5, entry.archive_class, entry.is_restored
        )

    def stat_many(self, paths: Sequence[str]) -> tuple[list[int], list[int]]:
        def stat_or_missing(path: str) -> tuple[int, int]:
            try:
                file = self.stat(path)
            except FileMissing:
                return -1, -1
            return file.size_bytes, file.modified_ms

        with ThreadPool(PARALLEL_READS) as pool:
            stats = list(pool.map(stat_or_missing, paths))
        return [size for size, _ in stats], [modified_ms for _, modified_ms in stats]

    def put_if_absent(self, path: str, data: bytes, *, modified_ms: int | None = None) -> Creation:  # noqa: ARG002
        self._require_condition(path)
        return self._create(path, Body(data))

    def put(self, path: str, data: bytes, *, modified_ms: int | None = None) -> None:  # noqa: ARG002
        self._require_condition(path)
        self._replace(path, Body(data))

    def draft(self, path: str) -> Draft:
        from deltacli.storage.scratch_draft import ScratchDraft

        self._require_condition(path)

        return ScratchDraft(
            lambda location: self._create(path, Body(location)), lambda location: self._replace(path, Body(location))
        )

    def delete_many(self, paths: Iterable[str]) -> Iterator[tuple[str, Deletion]]:
        if self._is_atomic is False:
            raise self._read_only()
        yield from self._deleter.delete_many(paths)

    def copy_within(self, source: str, target: str) -> Creation:
        entry, tag = self._ask(lambda: self._calls.head(self._key(source)), source, "read")
        outcome = self.copy(CopySource(entry.key, "", entry.size_bytes, tag), target, ABSENT)
        if not isinstance(outcome, Created):
            return outcome

        size = self.stat(target).size_bytes
        if size != entry.size_bytes:
            raise StorageFailed(
                f"{self._uri_of(target)} is not a complete copy of {self._uri_of(source)}",
                facts={"expected": f"{entry.size_bytes:,} bytes", "found": f"{size:,} bytes"},
            )
        return outcome

    def copy(self, source: CopySource, path: str, condition: str) -> Creation:
        """Copy an object or a version to a path.

        Args:
            source: What to copy.
            path: Where to.
            condition: ABSENT, or the tag of the object that may be replaced.
        """
        self._require_condition(path)
        return copy(self._calls, self._retry, source, self._key(path), self._uri_of(path), condition)

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the interface)
        return Missing()

    def _replace(self, path: str, body: Body) -> None:
        uploads = self._calls.uploads
        if uploads is not None and uploads.replace(self._key(path), body):
            return  # it was large, and sent in parts
        self._ask(lambda: self._calls.write(self._key(path), body, None), path, "written")

    def _create(self, path: str, body: Body) -> Creation:
        """Send one conditional request; repeat it only after an answer that nothing was done."""
        uploads = self._calls.uploads
        if uploads is not None:
            outcome = uploads.create(self._key(path), body)
            if outcome is not None:
                return outcome  # it was large, and sent in parts
        try:
            return create_object(
                self._calls, self._retry, lambda: self._calls.write(self._key(path), body, ABSENT), self._uri_of(path)
            )
        except ConditionUnsupported:
            self._is_atomic = False
            raise self._read_only() from None

    def _require_condition(self, path: str) -> None:
        """Raise NoAtomicCreate where the store ignores the condition; probed once, and not for the cloud itself."""
        with self._lock:
            if self._is_atomic is None:
                address = f"{self._calls.endpoint}/{self._uri.split('/')[2]}"
                self._is_atomic = self._calls.is_known_atomic or probe_condition(
                    address, path, lambda probe: self._create(probe, Body(b"")), self._deleter.delete_one
                )
        if not self._is_atomic:
            raise self._read_only()

    def _read_only(self) -> NoAtomicCreate:
        condition = self._calls.dialect.condition
        return no_atomic_create(
            self._uri, f"the store ignores {condition}, so two writers could create the same version"
        )

    def _read_range(self, path: str, offset: int, length: int, tag: str = "", version_id: str = "") -> bytes:
        """Return a range of a file; of the content with this tag, if one is given."""
        if length <= 0:
            return b""
        content = self._get(path, f"bytes={offset}-{offset + length - 1}", tag, version_id)
        if content is None:
            return b""
        # The store may have sent the whole object.
        start = offset - content.offset
        return content.data[start : start + length]

    def _get(self, path: str, span: str, tag: str = "", version_id: str = "") -> ObjectContent | None:
        """Return the bytes of a file or of a range.

        Args:
            path: The path.
            span: The range in the form of the header Range; '' for the whole file.
            tag: If it is not '', the content that the file must have.
            version_id: The version; '' for the current one.

        Returns:
            The content; None for a range after the end of the file.

        Raises:
            StorageFailed: If the file has another tag, or cannot be read.
        """
        try:
            return self._ask(lambda: self._calls.get(self._key(path), span, tag, version_id), path, "read")
        except StorageFailed as error:
            http_error = error.__context__
            status = http_error.status if isinstance(http_error, HttpError) else 0
            if status == 416 and span:
                return None
            if tag and status == 412:
                raise StorageFailed(
                    f"{self._uri_of(path)} was changed while it was read",
                    facts={"next": "run the same command again"},
                    hint=command("snapshot"),
                ) from None
            raise

    def _pages(self, prefix: str, start: str) -> Iterator[ListedPage]:
        """Yield the pages of the listing of one level."""
        page = self._page(prefix, "/", "", start)
        yield page
        while page.token:
            page = self._page(prefix, "/", page.token, start)
            yield page

    def _page(self, prefix: str, delimiter: str, token: str, start: str = "", limit: int = 0) -> ListedPage:
        """Return the page of a listing for a token, or the first. The arguments are those of `ObjectCalls.page`."""
        location = f"{self._uri.removesuffix(self._root).removesuffix('/')}/{prefix}"
        page = self._ask(lambda: self._calls.page(prefix, delimiter, token, start, limit), "", "listed", location)
        if token and page.token == token:
            raise StorageFailed(
                f"{location} cannot be listed: the store repeats a page", code="storage.unexpected-answer"
            )
        return page

    def _holds_any(self, prefix: str) -> bool:
        """Return whether any key begins with a prefix. A store may send empty pages before one with an object."""
        token = ""
        while True:
            page = self._page(prefix, "", token, limit=1)
            if page.entries or not page.token:
                return bool(page.entries)
            token = page.token

    def _ask(self, call: Callable[[], Result], path: str, verb: str, location: str | None = None) -> Result:
        """Make an idempotent call with retries, and translate its errors (`call_store`)."""
        return call_store(self._calls, self._retry, call, location or self._uri_of(path), verb)

    def _key(self, path: str) -> str:
        """Return the key of a path. The path of the root is ''."""
        if self._root and path:
            return f"{self._root}/{path}"
        return self._root or path

    def _prefix(self, directory: str) -> str:
        """Return the prefix of the keys in a directory."""
        key = self._key(directory)
        return f"{key}/" if key else ""

    def _uri_of(self, path: str) -> str:
        """Return the URI of a path."""
        return f"{self._uri}/{path}" if path else self._uri
