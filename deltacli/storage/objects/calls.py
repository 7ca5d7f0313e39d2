"""The calls of one bucket or container that `ObjectStorage` is built on.

`ObjectCalls` is what a cloud has to implement: list, read, write, copy and delete, one request
each. Everything else of the interface is built on these in `store.py`, the same for all clouds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.storage.objects.body import Body
from deltacli.storage.objects.dialect import Dialect
from deltacli.storage.objects.http_calls import repeat_call
from deltacli.storage.objects.http_errors import HttpError, RequestOutcome
from deltacli.storage.outcomes import Creation
from deltacli.storage.retry import Retry

Result = TypeVar("Result")

# The condition of a write that no object of the name exists. Any other condition is the tag of the
# object to replace.
ABSENT = ""

_MD5_BYTES = 16


class ListedObject(NamedTuple):
    """An object of a listing.

    Attributes:
        key: The key.
        size_bytes: The size.
        modified_ms: When it was written, in epoch milliseconds.
        md5: The MD5 of its bytes in hexadecimal digits, if one object was asked for and the store
            reports it.
        archive_class: The storage class of an object that cannot be read before the store has
            restored it; '' for others.
        is_restored: Whether a restored copy can be read, if one object was asked for and the store
            reports it.
    """

    key: str
    size_bytes: int
    modified_ms: int
    md5: str = ""
    archive_class: str = ""
    is_restored: bool = False


class ListedPage(NamedTuple):
    """A page of a listing.

    Attributes:
        entries: The objects.
        prefixes: The prefixes below the one that was listed, as directories are shown.
        token: The token of the next page; '' at the end.
    """

    entries: list[ListedObject]
    prefixes: list[str]
    token: str


class ObjectContent(NamedTuple):
    """Bytes of an object.

    Attributes:
        data: The bytes.
        offset: Where the first of them is in the object.
        size: The size of the whole object.
        tag: Identifies the content.
    """

    data: bytes
    offset: int
    size: int
    tag: str


class CopySource(NamedTuple):
    """An object, or a version of one, to copy within its bucket.

    Attributes:
        key: The key.
        version_id: The version; '' for the current one.
        size_bytes: The size.
        tag: If it is not '', the object is copied only while it has this content.
    """

    key: str
    version_id: str
    size_bytes: int
    tag: str = ""


class Uploads(Protocol):
    """Uploads of large objects, which repeat and judge each of their requests themselves. Raises StorageFailed."""

    def create(self, key: str, body: Body) -> Creation | None:
        """Create an object unless its key exists. None, with nothing done, if `ObjectCalls.write` has to send it."""

    def replace(self, key: str, body: Body) -> bool:
        """Write an object, replacing an existing one. False, with nothing done, if `write` has to send it."""

    def copy(self, source: CopySource, key: str, condition: str) -> Creation | None:
        """Copy an object on the condition of `ObjectCalls.copy`. None, with nothing done, if that has to do it."""


class ObjectCalls(Protocol):
    """The calls of one bucket or container. Thread-safe.

    Each call raises HttpError. A call with a condition is sent once.

    Attributes:
        max_bulk_deletes: The most objects of one `delete_in_bulk`.
        can_start_anywhere: Whether listings are in bytewise order, and `start` of a page is honoured.
    """

    max_bulk_deletes: int
    can_start_anywhere: bool

    @property
    def dialect(self) -> Dialect: ...

    @property
    def uploads(self) -> Uploads | None:
        """Uploads of large objects; None if `write` sends objects of any size."""

    @property
    def max_attempts(self) -> int | None:
        """The limit of attempts of a call within the budget of the run; None: no limit."""

    @property
    def endpoint(self) -> str:
        """The URL that requests are sent to, without its path."""

    @property
    def identity(self) -> str:
        """The source of the credentials in use, for messages."""

    @property
    def is_known_atomic(self) -> bool:
        """True if the endpoint is one of the cloud itself, which honours conditions."""

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        """Return a page of the listing of keys with a prefix, in bytewise order.

        Args:
            prefix: How the keys begin.
            delimiter: "/" to list one level, '' for everything below the prefix.
            token: The token of the page; '' for the first.
            start: Keys below it may be left out.
            limit: Most entries of the page; 0 for as many as the store returns.
        """

    def head(self, key: str) -> tuple[ListedObject, str]:
        """Return the properties of an object and its tag."""

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        """Return an object or a range of it.

        Args:
            key: The key.
            span: The range in the form of the header Range, such as "bytes=0-99"; '' for the whole
                object.
            tag: If it is not '', the content that the object must have.
            version_id: The version to read; '' for the current one.

        Raises:
            HttpError: With status 416 for a range after the end, and 412 if the object has another tag.
        """

    def write(self, key: str, body: Body, condition: str | None) -> None:
        """Write an object of any size. If no error is raised, the object is complete.

        Args:
            key: The key.
            body: The content.
            condition: ABSENT, the tag that the object must have, or None.
        """

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        """Copy an object within the store.

        If no error is raised, the copy is complete. Before, nothing of it is visible under the key.

        Args:
            source: What to copy.
            key: The key of the copy.
            condition: ABSENT, or the tag of the object to replace.
        """

    def delete(self, key: str) -> None:
        """Delete an object. Status 404 if there is none."""

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        """Delete up to `max_bulk_deletes` objects in one request, and return the error of each."""

    def can_delete_in_bulk(self, key: str, /) -> bool:
        """Return whether `delete_in_bulk` can delete an object.

        It cannot if its form has no way to name the object, or once the store has refused such a request.
        """

    def is_valid_key(self, key: str) -> bool:
        """Return False for a key that no object can have."""

    def translate_error(self, error: HttpError, location: str, verb: str) -> StorageFailed | UsageError:
        """Return the error of deltacli, without secrets.

        Args:
            error: The error of a request.
            location: The URI of the object.
            verb: What could not be done to it, as a participle: "written".
        """


def call_store(calls: ObjectCalls, retry: Retry, call: Callable[[], Result], location: str, verb: str) -> Result:
    """Make an idempotent call with retries, and translate its errors.

    Args:
        calls: The calls of the bucket.
        retry: The retry policy.
        call: Makes the call.
        location: The URI of the object, for messages.
        verb: What could not be done to it, as a participle: "written".
    """
    try:
        return repeat_call(retry, call, host=calls.endpoint, max_attempts=calls.max_attempts)
    except HttpError as http_error:
        error = calls.translate_error(http_error, location, verb)
        raise error from error.__cause__


def find_missing_error(calls: ObjectCalls, key: str) -> HttpError | None:
    """Return the error for a missing object after a 403, if a listing shows that it is missing; else None.

    A store answers 404 only to those who may list the whole bucket. Credentials for a directory do
    not permit that, so a missing object looks like a lack of permission.
    """
    try:
        page = calls.page(key, "", "", "", 1)
    except HttpError:
        return None
    if any(entry.key == key for entry in page.entries):
        return None
    return HttpError(RequestOutcome.ANSWERED, "the object is not listed", status=404, reason="NoSuchKey")


def drop_repeated(entries: list[ListedObject], previous: list[ListedObject]) -> list[ListedObject]:
    """Return the entries of a page that were not on the page before. Pages of some stores overlap."""
    if not previous or not entries or entries[0].key > previous[-1].key:
        return entries
    known_keys = {entry.key for entry in previous}
    return [entry for entry in entries if entry.key not in known_keys]


def sort_by_bytes(entries: Iterable[ListedObject]) -> Iterator[ListedObject]:
    """Yield the entries of a listing in the order of their UTF-8 bytes, if a store sorts by UTF-16 instead.

    Both orders differ only among names that contain a character from U+E000 on: UTF-16 writes those
    above U+FFFF with surrogates, which are below U+E000. All other names are in the same order in
    both, so it suffices to sort runs of such names. Nothing else is held in memory.
    """
    run: list[ListedObject] = []
    for entry in entries:
        if not entry.key.isascii() and max(entry.key) >= "\ue000":
            run.append(entry)
            continue
        if run:
            yield from sorted(run)
            run.clear()
        yield entry
    yield from sorted(run)


def decode_md5(text: str) -> str:
    """Return an MD5 in hexadecimal digits from one in base64; '' for anything else."""
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return digest.hex() if len(digest) == _MD5_BYTES else ""


def parse_range_length(span: str) -> int:
    """Return the number of bytes of a range in the form of the header Range: "bytes=0-99", or "bytes=-64"; 0 for ''."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    if first:
        return int(last or 0) - int(first) + 1
    return int(last or 0)
