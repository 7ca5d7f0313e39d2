"""The requests to one bucket or container, which each cloud implements.

`ObjectCalls` has a method for each request: list, read, write, copy and delete. `store.py` implements the storage
interface with these methods, for all clouds.
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

# The condition of a write that the key has no object. Any other condition is the tag of the object to replace.
ABSENT = ""

_MD5_BYTES = 16


class ListedObject(NamedTuple):
    """An object of a listing.

    Attributes:
        key: The key.
        size_bytes: The size in bytes.
        modified_ms: The modification time in epoch milliseconds.
        md5: The MD5 digest of the content in hexadecimal digits; '' in a listing, or if the store does not report it.
        archive_class: The storage class or access tier if the object must be restored before it can be read, for
            example "GLACIER"; otherwise ''.
        is_restored: True if an archived object has a restored copy. Always False in a listing.
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
        prefixes: The prefixes of the subdirectories, for a listing with a delimiter.
        token: The token of the next page; '' for the last page.
    """

    entries: list[ListedObject]
    prefixes: list[str]
    token: str


class ObjectContent(NamedTuple):
    """The response to a request for an object or a range.

    Attributes:
        data: The bytes.
        offset: The offset of the first byte within the object.
        size: The size of the complete object in bytes.
        tag: Identifies the content of the object: an entity tag, or a generation in Google Cloud Storage.
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
        size_bytes: The size in bytes.
        tag: The tag that the object must have; '' for any content.
    """

    key: str
    version_id: str
    size_bytes: int
    tag: str = ""


class Uploads(Protocol):
    """Uploads of large objects in several requests.

    Unlike the methods of `ObjectCalls`, these methods retry their requests and translate errors by themselves. They
    raise StorageFailed.
    """

    def create(self, key: str, body: Body) -> Creation | None:
        """Create an object unless its key exists. Return None, without a request, if `write` is sufficient."""

    def replace(self, key: str, body: Body) -> bool:
        """Create or replace an object. Return False, without a request, if `ObjectCalls.write` is sufficient."""

    def copy(self, source: CopySource, key: str, condition: str) -> Creation | None:
        """Copy an object conditionally. Return None, without a request, if `ObjectCalls.copy` is sufficient."""


class ObjectCalls(Protocol):
    """The requests to one bucket or container. Thread-safe.

    Methods that send a request raise HttpError. They do not retry: the caller decides whether that is safe. A request
    with a condition is sent exactly once.

    Attributes:
        max_bulk_deletes: The maximum number of objects per `delete_in_bulk`.
        can_start_anywhere: True if listings are in bytewise order and can begin at any key.
    """

    max_bulk_deletes: int
    can_start_anywhere: bool

    @property
    def dialect(self) -> Dialect: ...

    @property
    def uploads(self) -> Uploads | None:
        """The uploads of large objects; None if `write` supports objects of any size."""

    @property
    def max_attempts(self) -> int | None:
        """The maximum number of attempts of a call; None for no limit except the retry budget."""

    @property
    def endpoint(self) -> str:
        """The host and port that requests are sent to."""

    @property
    def identity(self) -> str:
        """The source of the credentials in use, for messages."""

    @property
    def is_known_atomic(self) -> bool:
        """True if the endpoint belongs to the cloud provider, which supports conditional creation."""

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        """Request a page of the listing of keys with a prefix.

        Args:
            prefix: The prefix.
            delimiter: "/" to list one directory level; '' to list recursively.
            token: The token of the page; '' for the first page.
            start: Keys less than this one may be omitted; '' for none.
            limit: The maximum number of entries; 0 for the default of the store.
        """

    def head(self, key: str) -> tuple[ListedObject, str]:
        """Request the properties of an object. Return them and the tag."""

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> ObjectContent:
        """Request an object or a range of it.

        Args:
            key: The key.
            span: The value of the header Range, for example "bytes=0-99" or "bytes=-64"; '' for the complete object.
            tag: The tag that the object must have; '' for any content.
            version_id: The version to read; '' for the current one.

        Raises:
            HttpError: With status 416 if the range begins after the end, and 412 if the object has another tag.
        """

    def write(self, key: str, body: Body, condition: str | None) -> None:
        """Write an object. If no error is raised, the object is complete.

        Args:
            key: The key.
            body: The content.
            condition: ABSENT, the tag of the object to replace, or None for an unconditional write.
        """

    def copy(self, source: CopySource, key: str, condition: str) -> None:
        """Copy an object within the store.

        The copy becomes visible when it is complete.

        Args:
            source: The object or version to copy.
            key: The key of the copy.
            condition: ABSENT, or the tag of the object to replace.
        """

    def delete(self, key: str) -> None:
        """Delete an object. If it does not exist, the store may return status 404."""

    def delete_in_bulk(self, keys: Sequence[str]) -> Mapping[str, HttpError | None]:
        """Delete up to `max_bulk_deletes` objects in one request. Return the error of each key, or None."""

    def can_delete_in_bulk(self, key: str, /) -> bool:
        """Return whether `delete_in_bulk` can delete an object.

        It cannot if the key is not representable in the format of the request, or after the store has refused a bulk
        request.
        """

    def is_valid_key(self, key: str) -> bool:
        """Return whether the store allows objects with this key."""

    def translate_error(self, error: HttpError, location: str, verb: str) -> StorageFailed | UsageError:
        """Return the error that the user sees. It contains no secrets.

        Args:
            error: The error of a request.
            location: The URI of the object.
            verb: A participle that says what could not be done, such as "written".
        """


def call_store(calls: ObjectCalls, retry: Retry, call: Callable[[], Result], location: str, verb: str) -> Result:
    """Make an idempotent call with retries, and translate its errors.

    Do not use it for conditional creations, see `repeat_call`.

    Args:
        calls: The calls of the bucket.
        retry: The retry policy.
        call: Sends the request once.
        location: The URI of the object, for error messages.
        verb: A participle for error messages, such as "written".

    Raises:
        StorageFailed: If the error is permanent, or if the last attempt fails.
    """
    try:
        return repeat_call(retry, call, host=calls.endpoint, max_attempts=calls.max_attempts)
    except HttpError as http_error:
        error = calls.translate_error(http_error, location, verb)
        raise error from error.__cause__


def find_missing_error(calls: ObjectCalls, key: str) -> HttpError | None:
    """Determine whether a 403 means that the object is missing.

    S3 and Google Cloud Storage return 404 only to callers that may list the bucket, and 403 to all others. Vended
    credentials may list only the directory of the table, so a missing object looks like a missing permission.

    Returns:
        The error with status 404 if a listing of the key shows that the object is missing. None if it exists, or if
        the listing fails.
    """
    try:
        page = calls.page(key, "", "", "", 1)
    except HttpError:
        return None
    if any(entry.key == key for entry in page.entries):
        return None
    return HttpError(RequestOutcome.ANSWERED, "the object is not listed", status=404, reason="NoSuchKey")


def drop_repeated(entries: list[ListedObject], previous: list[ListedObject]) -> list[ListedObject]:
    """Return the entries of a page without those of the previous page. The pages of some stores overlap."""
    if not previous or not entries or entries[0].key > previous[-1].key:
        return entries
    previous_keys = {entry.key for entry in previous}
    return [entry for entry in entries if entry.key not in previous_keys]


def sort_by_bytes(entries: Iterable[ListedObject]) -> Iterator[ListedObject]:
    """Convert a listing in the order of UTF-16 code units to the order of UTF-8 bytes.

    Azurite, for example, sorts by UTF-16. The two orders differ only for keys with characters from U+E000 on: UTF-16
    encodes characters above U+FFFF with surrogates (D800 to DFFF), so it sorts them before U+E000 to U+FFFF.

        UTF-16 order: a, 😀, \uffee, …       UTF-8 order: a, \uffee, 😀, …

    So only runs of adjacent keys with such characters are held in memory and sorted. A listing that is in UTF-8 order
    already does not change.
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
    """Convert an MD5 digest from base64 to hexadecimal digits. Return '' if the text is not a digest."""
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return digest.hex() if len(digest) == _MD5_BYTES else ""


def parse_range_length(span: str) -> int:
    """Return the length of a range: 100 for "bytes=0-99", 64 for "bytes=-64" (the last bytes), and 0 for ''."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    if first:
        return int(last or 0) - int(first) + 1
    return int(last or 0)
