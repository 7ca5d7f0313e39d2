"""Listing everything below a prefix of an object store: a few levels one by one, to find parts to list in parallel."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import NamedTuple

from deltacli.storage.base import PARALLEL_READS, ShouldDescend, WalkEntry, is_flat_level
from deltacli.storage.objects.listing import Entry, ListedPage

Ask = Callable[[str, str, str], ListedPage]
"""Returns the page for a prefix, a delimiter and a token ('' for the first)."""


class _Part(NamedTuple):
    """A prefix to list. Names are relative to `directory`, whose own prefix is `base`."""

    prefix: str
    directory: str
    base: str


class _Listed(NamedTuple):
    """A page of a part."""

    part: _Part
    objects: list[Entry]
    directories: list[str]
    is_last: bool


def walk(
    ask: Ask, prefix_of: Callable[[str], str], directory: str, enter: ShouldDescend
) -> Generator[WalkEntry, None, bool]:
    """Yield the entries below a directory, and return whether there are any."""
    pool = ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="deltacli-list")
    try:
        return (yield from _walk(pool, ask, _Part(prefix_of(directory), directory, prefix_of(directory)), enter))
    finally:
        # A caller that stops early waits for the running requests, so that no thread outlives the walk.
        pool.shutdown(wait=True, cancel_futures=True)


def _walk(pool: ThreadPoolExecutor, ask: Ask, root: _Part, enter: ShouldDescend) -> Generator[WalkEntry, None, bool]:
    level, flat, is_there = [root], list[_Part](), False
    depth = 0
    while not is_flat_level(depth, len(level)):
        below: list[_Part] = []
        found: dict[_Part, set[str]] = {part: set() for part in level}
        for listed in _list(pool, ask, level, "/"):
            part = listed.part
            found[part].update(listed.directories)
            is_there = is_there or bool(listed.objects or listed.directories)
            yield from _tell(listed)
            if not listed.is_last:
                continue
            names = sorted(found.pop(part))
            if "" in names:  # two slashes in a row: a path cannot name such a directory
                flat.append(_Part(f"{part.prefix}/", part.directory, part.base))
            entered = enter(part.directory, [name for name in names if name])
            below += [_below(part, name) for name in entered]
        level, depth = below, depth + 1
    for listed in _list(pool, ask, level + flat, ""):
        yield from _tell(listed)
    return is_there


def _below(part: _Part, name: str) -> _Part:
    prefix = f"{part.prefix}{name}/"
    return _Part(prefix, f"{part.directory}/{name}" if part.directory else name, prefix)


def _list(pool: ThreadPoolExecutor, ask: Ask, parts: Iterable[_Part], delimiter: str) -> Iterator[_Listed]:
    """Yield the pages of several parts as they arrive, those of one part in order. The next ones are prefetched."""
    waiting = iter(parts)
    running: dict[Future[ListedPage], _Part] = {}
    before: dict[_Part, list[Entry]] = {}

    def begin(part: _Part, token: str = "") -> None:
        running[pool.submit(ask, part.prefix, delimiter, token)] = part

    for part in islice(waiting, PARALLEL_READS):
        begin(part)
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            part = running.pop(future)
            page = future.result()
            if page.token:
                begin(part, page.token)
            elif (following := next(waiting, None)) is not None:
                begin(following)
            objects = _without(page.entries, before.pop(part, []))
            if page.token:
                before[part] = page.entries
            directories = [below[len(part.prefix) : -1] for below in page.prefixes]
            yield _Listed(part, objects, directories, is_last=not page.token)


def _without(objects: list[Entry], before: list[Entry]) -> list[Entry]:
    """Return the objects that were not on the previous page, because pages of some stores overlap."""
    if not before or not objects or objects[0].key > before[-1].key:
        return objects
    known = {entry.key for entry in before}
    return [entry for entry in objects if entry.key not in known]


def _tell(listed: _Listed) -> Iterator[WalkEntry]:
    """Yield the files of the page, if there are any."""
    if not listed.objects:
        return
    start = len(listed.part.base)
    files = [entry for entry in listed.objects if not entry.key.endswith("/")]
    odd = [entry.key[start:] for entry in listed.objects if entry.key.endswith("/")]
    yield WalkEntry(
        listed.part.directory,
        [entry.key[start:] for entry in files],
        [entry.size_bytes for entry in files],
        [entry.modified_ms for entry in files],
        odd,
    )
