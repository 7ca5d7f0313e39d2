"""The storage interface for all clouds, implemented with the requests of `ObjectCalls`.

Three properties of a table depend on this module:

* A commit is created by exactly one writer. `put_if_absent` sends one conditional request (`conditional.py`), after
  the store has proved that it supports the condition.
* Requests are repeated only if that is safe. Reads, listings, deletions and unconditional writes have the same effect
  when they are executed twice, so `_call` repeats them after temporary errors. A conditional creation has not.
* A reader gets the bytes of one content. `open` reads the tag of the object together with its size and its end. All
  later range requests require the same tag, and the store refuses them with 412 if the object was replaced.

Deletion is in `deletion.py`, the recursive listing in `walk.py`, and old versions of objects are in `versions.py`.
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
    no_atomic_create_error,
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
    from deltacli.storage.grants import RenewableGrant

Result = TypeVar("Result")

# Bytes at the end of an object that are read when it is opened. They usually include the footer of a Parquet file.
_TAIL_BYTES = 64 << 10

_READ_AHEAD_BYTES = 1 << 20


class ObjectStorage:
    """The objects below a prefix of a bucket or container.

    No request is sent, and no credentials are looked up, before they are needed.

    Attributes:
        grant: The vended credentials of the store; None if it was opened with the credentials of the user.
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
        """Create a store.

        Args:
            uri: The URI of the prefix. It ends with `root`.
            root: The prefix of all keys, without a slash at its end; '' for the whole bucket.
            calls: The calls of the bucket.
            aliases: Other URIs of the prefix.
            retry: The retry policy.
            versions: Returns the access to old versions of objects; None if the cloud keeps none.
        """
        self.grant: RenewableGrant | None = None
        self._uri = uri
        self._root = root
        self._calls = calls
        self._aliases = aliases
        self._retry = retry or Retry()
        self._make_versions = versions
        self._deleter = Deleter(calls, self._retry, self._get_key, self._get_uri)
        self._lock = Lock()
        # Whether the store supports conditional creation; None before the first write.
        self._is_atomic: bool | None = None

    def request_write_access(self) -> None:
        """Request credentials with write access if the store was opened with vended credentials for reading."""
        if self.grant is not None:
            self.grant.request_write_access()

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def root(self) -> str:
        return self._root

    @property
    def calls(self) -> ObjectCalls:
        """The requests of the bucket, for probes that need the unmodified responses."""
        return self._calls

    @property
    def retry(self) -> Retry:
        return self._retry

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities. `atomic_create` is True until a probe before the first write disproves it."""
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

        The listing of the log determines the newest version. Callers begin in the middle, at the newest checkpoint,
        or stop early. In an unordered listing they would miss commits, so it is an error.

        Args:
            directory: The directory.
            start: The first name to yield; '' for all.

        Raises:
            FileMissing: If the directory does not exist.
            StorageFailed: If the listing is out of order, or fails.
        """
        prefix = self._get_prefix(directory)
        exists = not prefix

        def read_entries() -> Iterator[ListedObject]:
            nonlocal exists
            previous = list[ListedObject]()
            for page in self._list_pages(prefix, prefix + start if start else ""):
                exists = exists or bool(page.entries or page.prefixes)
                yield from drop_repeated(page.entries, previous)
                previous = page.entries

        last = ""
        for entry in sort_by_bytes(read_entries()):
            name = entry.key.removeprefix(prefix)
            if name < last:
                raise StorageFailed(
                    f"{self._get_uri(directory)} is listed out of order{self._calls.dialect.unordered_note}",
                    code="storage.listing-disorder",
                    facts={"seen": f"{name} after {last}"},
                )
            if name > last and name >= start:
                yield FileStat(name, entry.size_bytes, entry.modified_ms, archive_class=entry.archive_class)
            last = name

        # A directory exists if any key begins with its prefix. All its names may be less than `start`.
        if not exists and not (start and self._has_keys(prefix)):
            raise FileMissing(f"{self._get_uri(directory)} does not exist")

    def list_directories(self, directory: str) -> list[str]:
        prefix = self._get_prefix(directory)
        exists = not prefix
        names = set[str]()
        for page in self._list_pages(prefix, ""):
            exists = exists or bool(page.entries or page.prefixes)
            names.update(subdirectory.removeprefix(prefix).rstrip("/") for subdirectory in page.prefixes)
        if not exists:
            raise FileMissing(f"{self._get_uri(directory)} does not exist")
        # A key such as `a//b` contains a directory with an empty name. No path refers to it.
        return sorted(names - {""})

    def walk(self, directory: str, enter: ShouldDescend) -> Iterator[WalkEntry]:
        from deltacli.storage.objects.walk import Lister, walk

        lister = Lister(self._request_page, can_start=self._calls.can_start_anywhere)
        exists = yield from walk(lister, self._get_prefix, directory, enter)
        if not exists and self._get_prefix(directory):
            raise FileMissing(f"{self._get_uri(directory)} does not exist")

    def read(self, path: str) -> bytes:
        return self.read_version(path, "")

    def read_version(self, path: str, version_id: str) -> bytes:
        """Return the content of a version of a file. The version id '' is the current version."""
        content = self._get(path, "", version_id=version_id)
        return b"" if content is None else content.data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._read_range(path, offset, length)

    def open(self, path: str) -> BinaryFile:
        return self.open_version(path, "")

    def open_version(self, path: str, version_id: str) -> BinaryFile:
        """Open a version of a file for random access. The version id '' is the current version.

        One request reads the size, the tag and the end of the object. Each later range request requires this tag
        (`If-Match`, or the generation in Google Cloud Storage). If the object is replaced while it is open, the store
        refuses the next range with 412, and the read fails. So a reader never gets bytes of two different contents.
        """
        content = self._get(path, f"bytes=-{_TAIL_BYTES}", version_id=version_id)
        if content is None:
            # The store refuses every range of an empty object with 416.
            return io.BufferedReader(ObjectReader(lambda *_: b"", 0, b"", ""))

        tag = content.tag

        def read_range(offset: int, length: int) -> bytes:
            return self._read_range(path, offset, length, tag, version_id)

        reader = ObjectReader(read_range, content.size, content.data, tag)
        return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def tag(self, path: str, opened: Any) -> str:  # noqa: ARG002  (of the interface)
        """Return the tag that identifies the content of an opened file."""
        return str(opened.raw.tag)

    def kind_of(self, path: str) -> PathKind:
        if self._get_key(path):
            try:
                self.stat(path)
            except FileMissing:
                pass
            else:
                return PathKind.FILE
        prefix = self._get_prefix(path)
        return PathKind.DIRECTORY if self._has_keys(prefix) or not prefix else PathKind.MISSING

    def find_ancestor_with(self, name: str) -> str | None:
        """Return the URI of the nearest ancestor that contains a directory with a name; None if there is none."""
        parts = self._root.split("/")
        for depth in range(len(parts) - 1, -1, -1):
            if self._has_keys("/".join([*parts[:depth], name, ""])):
                return self._uri.removesuffix("/".join(parts[depth:])).rstrip("/")
        return None

    def below(self, directory: str) -> ObjectStorage:
        """Return a store for a subdirectory. It has the same connections and credentials."""
        store = ObjectStorage(
            f"{self._uri}/{directory}",
            self._get_key(directory),
            self._calls,
            aliases=tuple(f"{alias}/{directory}" for alias in self._aliases),
            retry=self._retry,
            versions=self._make_versions,
        )
        store.grant = self.grant
        return store

    def list_page_from(self, start: str) -> tuple[list[FileStat], bool]:
        """Return the files of one page of the listing, beginning at a path.

        Args:
            start: The path.

        Returns:
            The files, and whether there are no further ones. ([], False) if the store cannot begin at a path, or if
            its listing is not in order.
        """
        if not self._calls.can_start_anywhere:
            return [], False
        prefix = self._get_prefix("")
        page = self._request_page(prefix, "", "", prefix + start)
        files = [FileStat(entry.key[len(prefix) :], entry.size_bytes, entry.modified_ms) for entry in page.entries]
        if any(first.name >= second.name for first, second in pairwise(files)):
            return [], False
        return files, not page.token

    def stat(self, path: str) -> FileStat:
        entry, tag = self._call(lambda: self._calls.head(self._get_key(path)), path, "read")
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
            raise self._build_read_only_error()
        yield from self._deleter.delete_many(paths)

    def copy_within(self, source: str, target: str) -> Creation:
        entry, tag = self._call(lambda: self._calls.head(self._get_key(source)), source, "read")
        outcome = self.copy(CopySource(entry.key, "", entry.size_bytes, tag), target, ABSENT)
        if not isinstance(outcome, Created):
            return outcome

        size = self.stat(target).size_bytes
        if size != entry.size_bytes:
            raise StorageFailed(
                f"{self._get_uri(target)} is not a complete copy of {self._get_uri(source)}",
                facts={"expected": f"{entry.size_bytes:,} bytes", "found": f"{size:,} bytes"},
            )
        return outcome

    def copy(self, source: CopySource, path: str, condition: str) -> Creation:
        """Copy an object or a version to a path.

        Args:
            source: The object or version to copy.
            path: The path of the copy.
            condition: ABSENT, or the tag of the object that may be replaced.
        """
        self._require_condition(path)
        return copy(self._calls, self._retry, source, self._get_key(path), self._get_uri(path), condition)

    def remove_directory(self, path: str) -> Deletion:  # noqa: ARG002  (of the interface)
        return Missing()

    def _replace(self, path: str, body: Body) -> None:
        uploads = self._calls.uploads
        if uploads is not None and uploads.replace(self._get_key(path), body):
            # The object was large, so it was uploaded in parts.
            return
        self._call(lambda: self._calls.write(self._get_key(path), body, None), path, "written")

    def _create(self, path: str, body: Body) -> Creation:
        """Create an object unless its key exists, with one conditional request (see `conditional.py`).

        Raises:
            NoAtomicCreate: If the store does not support the condition.
        """
        uploads = self._calls.uploads
        if uploads is not None:
            outcome = uploads.create(self._get_key(path), body)
            if outcome is not None:
                # The object was large, so it was uploaded in parts.
                return outcome
        try:
            return create_object(
                self._calls,
                self._retry,
                lambda: self._calls.write(self._get_key(path), body, ABSENT),
                self._get_uri(path),
            )
        except ConditionUnsupported:
            self._is_atomic = False
            raise self._build_read_only_error() from None

    def _require_condition(self, path: str) -> None:
        """Require that the store supports conditional creation.

        The cloud providers do. Other endpoints are probed before the first write of this store.

        Raises:
            NoAtomicCreate: If the store ignores or refuses the condition.
        """
        with self._lock:
            if self._is_atomic is None:
                address = f"{self._calls.endpoint}/{self._uri.split('/')[2]}"
                self._is_atomic = self._calls.is_known_atomic or probe_condition(
                    address, path, lambda probe: self._create(probe, Body(b"")), self._deleter.delete_one
                )
        if not self._is_atomic:
            raise self._build_read_only_error()

    def _build_read_only_error(self) -> NoAtomicCreate:
        condition = self._calls.dialect.create_condition
        return no_atomic_create_error(
            self._uri, f"the store ignores {condition}, so two writers could create the same version"
        )

    def _read_range(self, path: str, offset: int, length: int, tag: str = "", version_id: str = "") -> bytes:
        """Return a range of a file. It is shorter if the file ends before.

        Args:
            path: The path.
            offset: The offset of the first byte.
            length: The number of bytes.
            tag: The tag that the content must have; '' for any content.
            version_id: The version; '' for the current one.

        Raises:
            StorageFailed: If the content has another tag, because the object was replaced.
        """
        if length <= 0:
            return b""
        content = self._get(path, f"bytes={offset}-{offset + length - 1}", tag, version_id)
        if content is None:
            return b""
        # A store that does not support ranges sends the complete object, with offset 0.
        start = offset - content.offset
        return content.data[start : start + length]

    def _get(self, path: str, span: str, tag: str = "", version_id: str = "") -> ObjectContent | None:
        """Request a file or a range of it.

        Args:
            path: The path.
            span: The value of the header Range, for example "bytes=0-99"; '' for the complete file.
            tag: The tag that the content must have; '' for any content.
            version_id: The version; '' for the current one.

        Returns:
            The content; None if the range begins after the end of the file (416).

        Raises:
            StorageFailed: If the content has another tag (412), or if the request fails.
        """
        try:
            return self._call(lambda: self._calls.get(self._get_key(path), span, tag, version_id), path, "read")
        except StorageFailed as error:
            http_error = error.__context__
            status = http_error.status if isinstance(http_error, HttpError) else 0
            if status == 416 and span:
                return None
            if tag and status == 412:
                # Another process replaced the object after it was opened.
                raise StorageFailed(
                    f"{self._get_uri(path)} was changed while it was read",
                    facts={"next": "run the same command again"},
                    hint=command("snapshot"),
                ) from None
            raise

    def _list_pages(self, prefix: str, start: str) -> Iterator[ListedPage]:
        """Yield the pages of the listing of one directory level."""
        page = self._request_page(prefix, "/", "", start)
        yield page
        while page.token:
            page = self._request_page(prefix, "/", page.token, start)
            yield page

    def _request_page(self, prefix: str, delimiter: str, token: str, start: str = "", limit: int = 0) -> ListedPage:
        """Request a page of a listing. The arguments are those of `ObjectCalls.page`.

        Raises:
            StorageFailed: If the request fails, or if the store returns the same token again: the listing would never
                end.
        """
        location = f"{self._uri.removesuffix(self._root).removesuffix('/')}/{prefix}"
        page = self._call(lambda: self._calls.page(prefix, delimiter, token, start, limit), "", "listed", location)
        if token and page.token == token:
            raise StorageFailed(
                f"{location} cannot be listed: the store repeats a page", code="storage.unexpected-answer"
            )
        return page

    def _has_keys(self, prefix: str) -> bool:
        """Return whether any key begins with a prefix. Stores may send empty pages before the first object."""
        token = ""
        while True:
            page = self._request_page(prefix, "", token, limit=1)
            if page.entries or not page.token:
                return bool(page.entries)
            token = page.token

    def _call(self, call: Callable[[], Result], path: str, verb: str, location: str | None = None) -> Result:
        """Make an idempotent call with retries, and translate its errors, see `call_store`."""
        return call_store(self._calls, self._retry, call, location or self._get_uri(path), verb)

    def _get_key(self, path: str) -> str:
        """Return the key of a path. The path '' is the root of the store."""
        if self._root and path:
            return f"{self._root}/{path}"
        return self._root or path

    def _get_prefix(self, directory: str) -> str:
        """Return the prefix of all keys in a directory, with a slash at its end; '' for the root of the bucket."""
        key = self._get_key(directory)
        return f"{key}/" if key else ""

    def _get_uri(self, path: str) -> str:
        """Return the URI of a path."""
        return f"{self._uri}/{path}" if path else self._uri
