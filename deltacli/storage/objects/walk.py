"""Listing everything below a prefix of an object store: a few levels one by one, to find parts to list in parallel."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import groupby
from typing import NamedTuple

from deltacli.storage.base import PARALLEL_READS, ShouldDescend, WalkEntry, is_flat_level
from deltacli.storage.objects.listing import Entry, ListedPage
from deltacli.storage.objects.ranges import Part, Range, Share
from deltacli.thread_pool import ThreadPool

Ask = Callable[[str, str, str, str], ListedPage]
"""Returns the page for a prefix, a delimiter, a token ('' for the first) and a key to begin at ('' for the first)."""


class Lister(NamedTuple):
    """How a store is listed. `can_start`: pages are in bytewise order, and a listing may begin at any key."""

    ask: Ask
    can_start: bool


class _Listed(NamedTuple):
    """What was listed of a part."""

    part: Part
    objects: list[Entry]
    directories: list[str]
    is_last: bool


def walk(
    lister: Lister, prefix_of: Callable[[str], str], directory: str, enter: ShouldDescend
) -> Generator[WalkEntry, None, bool]:
    """Yield the entries below a directory, and return whether there are any."""
    pool = ThreadPool(PARALLEL_READS, thread_name_prefix="deltacli-list")
    try:
        return (yield from _walk(pool, lister, Part(prefix_of(directory), directory, prefix_of(directory)), enter))
    finally:
        # A caller that stops early waits for the running requests, so that no thread outlives the walk.
        pool.shutdown(wait=True, cancel_futures=True)


def _walk(pool: ThreadPool, lister: Lister, root: Part, enter: ShouldDescend) -> Generator[WalkEntry, None, bool]:
    runs, flat, is_there = [[root]], list[Part](), False
    depth = 0
    while not is_flat_level(depth, sum(map(len, runs))):
        below: list[list[Part]] = []
        level = [part for run in runs for part in run]
        found: dict[Part, set[str]] = {part: set() for part in level}
        for listed in _list(pool, lister, [Range.of([part]) for part in level], "/"):
            part = listed.part
            found[part].update(listed.directories)
            is_there = is_there or bool(listed.objects or listed.directories)
            yield from _tell(listed)
            if not listed.is_last:
                continue
            names = found.pop(part)
            if "" in names:  # two slashes in a row: a path cannot name such a directory
                flat.append(Part(f"{part.prefix}/", part.directory, part.base))
            below += _runs(part, names, set(enter(part.directory, [name for name in sorted(names) if name])))
        runs, depth = below, depth + 1
    ranges = [*_ranges(runs, lister), *(Range.of([part]) for part in flat)]
    for listed in _list(pool, lister, ranges, ""):
        yield from _tell(listed)
    return is_there


def _runs(part: Part, names: set[str], entered: set[str]) -> Iterator[list[Part]]:
    """Yield the directories to walk into that are neighbours: without one between them that is left out."""
    in_order = sorted(names, key=lambda name: f"{name}/")
    for is_entered, run in groupby(in_order, key=lambda name: name in entered):
        if is_entered:
            yield [_below(part, name) for name in run]


def _below(part: Part, name: str) -> Part:
    prefix = f"{part.prefix}{name}/"
    return Part(prefix, f"{part.directory}/{name}" if part.directory else name, prefix)


def _ranges(runs: Sequence[Sequence[Part]], lister: Lister) -> Iterator[Range]:
    """Yield ranges to begin with: one per connection, as far as the directories are neighbours."""
    each = -(-sum(map(len, runs)) // PARALLEL_READS) if lister.can_start else 1
    for run in runs:
        yield from (Range.of(run[start : start + each]) for start in range(0, len(run), each))


def _list(pool: ThreadPool, lister: Lister, ranges: Sequence[Range], delimiter: str) -> Iterator[_Listed]:
    """Yield the pages of ranges as they arrive, those of one range in order. The next ones are prefetched."""
    waiting = deque(ranges)
    unfinished = Counter(part for each in ranges for part in each.parts)
    running: dict[Future[ListedPage], Range] = {}
    may_split = lister.can_start

    def begin(each: Range) -> None:
        running[pool.submit(lister.ask, each.prefix, delimiter, each.token, each.start)] = each

    def fill() -> None:
        while waiting and len(running) < PARALLEL_READS:
            begin(waiting.popleft())
        while may_split and len(running) < PARALLEL_READS and (upper := _split(running.values())):
            unfinished.update(upper.parts if len(upper.parts) == 1 else ())
            begin(upper)

    fill()
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            each = running.pop(future)
            shares, is_last = each.take(future.result(), is_ordered=lister.can_start)
            may_split = may_split and not each.began_early
            if not is_last:
                begin(each)
            fill()
            yield from (_listed(share) for share in shares)
            if is_last and len(each.parts) == 1:
                unfinished[each.parts[0]] -= 1
                if not unfinished[each.parts[0]]:
                    yield _Listed(each.parts[0], [], [], is_last=True)


def _split(running: Iterable[Range]) -> Range | None:
    """Return the upper half of the range with the longest rest; None where none is worth another connection."""
    for each in sorted(running, key=lambda each: each.pages_left, reverse=True):
        if (upper := each.split()) is not None:
            return upper
    return None


def _listed(share: Share) -> _Listed:
    start = len(share.part.prefix)
    return _Listed(share.part, share.objects, [below[start:-1] for below in share.prefixes], is_last=False)


def _tell(listed: _Listed) -> Iterator[WalkEntry]:
    """Yield the files of the page, if there are any."""
    if not listed.objects:
        return
    start = len(listed.part.base)
    files = [entry for entry in listed.objects if not entry.key.endswith("/")]
    special = [entry.key[start:] for entry in listed.objects if entry.key.endswith("/")]
    yield WalkEntry(
        listed.part.directory,
        [entry.key[start:] for entry in files],
        [entry.size_bytes for entry in files],
        [entry.modified_ms for entry in files],
        special,
    )
