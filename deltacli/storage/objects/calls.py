"""The calls of one bucket or container that `ObjectStorage` stands on, and what its listings and reads return."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from deltacli.core.errors import StorageFailed, UsageError
from deltacli.storage.objects.http import Body, Dialect, Fate, HttpFault, repeat_call
from deltacli.storage.outcomes import Creation
from deltacli.storage.retry import Retry

Answer = TypeVar("Answer")

ABSENT = ""
"""The condition of a write that no object of the name exists."""


_MD5_BYTES = 16


class Entry(NamedTuple):
    """An object of a listing."""

    key: str
    size_bytes: int
    modified_ms: int
    md5: str = ""
    """The MD5 of its bytes in hexadecimal digits, where one object was asked for and the store reports it."""
    archive_class: str = ""
    """The storage class of an object that cannot be read before the store has restored it; '' for every other one."""
    is_restored: bool = False
    """Whether a restored copy of it can be read, where one object was asked for and the store reports it."""


def md5_of(text: str) -> str:
    """Return an MD5 in hexadecimal digits from one in base64; '' for anything else."""
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return found.hex() if len(found) == _MD5_BYTES else ""


class ListedPage(NamedTuple):
    """A page of a listing: objects, the prefixes below it, and the token of the next page ('' at the end)."""

    entries: list[Entry]
    prefixes: list[str]
    token: str


class Content(NamedTuple):
    """Bytes of an object: the first of them is at `offset`, and the whole object has `size` bytes."""

    data: bytes
    offset: int
    size: int
    tag: str


def length_of(span: str) -> int:
    """Return the number of bytes of a range in the form of the header Range; 0 for ''."""
    first, _, last = span.removeprefix("bytes=").partition("-")
    return int(last or 0) - int(first) + 1 if first else int(last or 0)


def not_repeated(entries: list[Entry], before: list[Entry]) -> list[Entry]:
    """Return the entries of a page that were not on the one before; pages of some stores overlap."""
    if not before or not entries or entries[0].key > before[-1].key:
        return entries
    known = {entry.key for entry in before}
    return [entry for entry in entries if entry.key not in known]


def in_byte_order(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries of a listing in the order of their UTF-8 bytes, where a store sorts by UTF-16 instead.

    Both orders differ only among names that hold a character from U+E000 on. Those between two other names are the same
    in both, so that only runs of them are sorted.
    """
    run: list[Entry] = []
    for entry in entries:
        if not entry.key.isascii() and max(entry.key) >= "\ue000":
            run.append(entry)
            continue
        if run:
            yield from sorted(run)
            run.clear()
        yield entry
    yield from sorted(run)


def missing_fault(calls: ObjectCalls, key: str) -> HttpFault | None:
    """Return the fault of a missing object after a 403, where a listing agrees; else None.

    A store says 404 only to those who may list all of it, which a grant for a directory does not permit.
    """
    try:
        if any(entry.key == key for entry in calls.page(key, "", "", "", 1).entries):
            return None
    except HttpFault:
        return None
    return HttpFault(Fate.ANSWERED, "the object is not listed", status=404, reason="NoSuchKey")


class Source(NamedTuple):
    """An object, or a version of one, to copy within its bucket. With a tag, only while it has this content."""

    key: str
    version_id: str
    size_bytes: int
    tag: str = ""


class Uploads(Protocol):
    """Uploads of large objects, which repeat and judge each of their requests themselves. Raises StorageFailed."""

    def create(self, key: str, body: Body) -> Creation | None:
        """Create an object unless its key exists. None, with nothing done, where `write` has to send it."""

    def replace(self, key: str, body: Body) -> bool:
        """Write an object, replacing an existing one. False, with nothing done, where `write` has to send it."""

    def copy(self, source: Source, key: str, condition: str) -> Creation | None:
        """Copy an object on the condition of `ObjectCalls.copy`. None, with nothing done, where that has to do it."""


class ObjectCalls(Protocol):
    """Each call raises HttpFault, and is sent once where it has a condition. Thread-safe."""

    deletes_per_request: int
    starts_anywhere: bool
    """Listings are in bytewise order, and `start` of a page is honoured."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def uploads(self) -> Uploads | None:
        """None where `write` sends objects of any size."""

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
        """Whether the endpoint is one of the cloud itself, which honours conditions."""

    def page(self, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        """Return a page of the listing of keys with a prefix, in bytewise order, for a token ('' for the first). Keys
        below `start` may be left out. `limit`: maximum number of entries; 0 for as many as the store returns.
        """

    def look(self, key: str) -> tuple[Entry, str]:
        """Return the properties of an object and its tag."""

    def get(self, key: str, span: str, tag: str, version_id: str = "") -> Content:
        """Return an object, or a range of it ('' for all; the form of the header Range). Status 416 after its end,
        412 where a tag is given and the object has another one. `version_id`: of this version.
        """

    def write(self, key: str, body: Body, condition: str | None) -> None:
        """Write an object of any size. `condition`: ABSENT, the tag that it must have, or None. Without an error, the
        object is complete.
        """

    def copy(self, source: Source, key: str, condition: str) -> None:
        """Copy an object within the store. `condition`: ABSENT, or the tag of the object to replace. Without an error,
        the copy is complete; before, the key leads to nothing of it.
        """

    def delete(self, key: str) -> None:
        """Delete an object. Status 404 where there is none."""

    def delete_together(self, keys: Sequence[str]) -> Mapping[str, HttpFault | None]:
        """Delete up to `deletes_per_request` objects in one request, and return the fault of each."""

    def can_delete_together(self, key: str, /) -> bool:
        """Return False for an object that is deleted alone: `delete_together` cannot name it, or it has found that the
        store has no such requests.
        """

    def can_hold(self, key: str) -> bool:
        """Return False for a key that no object can have."""

    def translated(self, fault: HttpFault, place: str, what: str) -> StorageFailed | UsageError:
        """Return the error of deltacli, without secrets, for a fault; `what` could not be done to `place`."""


def ask(calls: ObjectCalls, retry: Retry, call: Callable[[], Answer], place: str, what: str) -> Answer:
    """Make a call with retries and translate its errors; `what` could not be done to `place`."""
    try:
        return repeat_call(retry, call, host=calls.endpoint, max_attempts=calls.max_attempts)
    except HttpFault as fault:
        error = calls.translated(fault, place, what)
        raise error from error.__cause__
