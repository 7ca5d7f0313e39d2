"""What listings and reads of object stores return."""

from __future__ import annotations

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
