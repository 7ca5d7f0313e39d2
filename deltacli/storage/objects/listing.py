"""What listings and reads of object stores return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Entry(NamedTuple):
    """An object of a listing."""

    key: str
    size_bytes: int
    modified_ms: int


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
