"""Listing everything below a prefix of an object store: a few levels one by one, to find parts to list in parallel.

Ranges of keys are listed at the same time, and split while they are listed. A range covers directories
next to each other, or a part of one. A range that is still long gives its upper half to a connection without work: at
the border of two directories, or inside a large one at a key that is guessed from the names so far. That needs a store
that lists in bytewise order, from any key on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple

from deltacli.core.errors import StorageFailed
from deltacli.core.pools import ThreadPool
from deltacli.storage.base import PARALLEL_READS, ShouldDescend, WalkEntry, is_flat_level
from deltacli.storage.objects.calls import Entry, ListedPage, not_repeated

Ask = Callable[[str, str, str, str], ListedPage]
"""Returns the page for a prefix, a delimiter, a token ('' for the first) and a key to begin at ('' for the first)."""


class Lister(NamedTuple):
    """How a store is listed. `can_start`: pages are in bytewise order, and a listing may begin at any key."""

    ask: Ask
    can_start: bool


class _Listed(NamedTuple):
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
        archived=tuple((entry.key[start:], entry.archive_class) for entry in files if entry.archive_class),
    )


_FEWEST_PAGES = 2
"""Pages that a range must probably still have to be split."""
_DIGITS = "0123456789"
_HEXADECIMAL = "0123456789abcdef"
_LETTERS = "-.0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


class Part(NamedTuple):
    """A directory to list. Names are relative to `directory`, whose own prefix is `base`."""

    prefix: str
    directory: str
    base: str

    @property
    def end(self) -> str:
        """Return the first key after all those of the directory."""
        return self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1) if self.prefix else "\U0010ffff"


class Share(NamedTuple):
    """What a page has of one part: objects, and the prefixes below it."""

    part: Part
    objects: list[Entry]
    prefixes: list[str]


@dataclass(eq=False)
class Range:
    """The keys of some directories, ascending, from `start` ('': all) to before `end`, and how far they are listed.

    `prefix` is what is asked for: that of the only part, or that of the directory which holds them all.
    """

    prefix: str
    parts: Sequence[Part]
    start: str = ""
    end: str = ""
    token: str = ""
    pages: int = 0
    began_early: bool = False
    """The store ignored the key to begin at, so that it is not asked to begin anywhere again."""
    _first: str = ""
    _last: str = ""
    _passed: int = 0
    """Parts that are listed."""
    _is_guessed: bool = False
    """The range was split by a guess after its last page."""
    _before: list[Entry] = field(default_factory=list)
    """The objects of the last page."""

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Range:
        """Return the range of parts, which are neighbours in one directory."""
        first = parts[0]
        if len(parts) == 1:
            return cls(first.prefix, parts)
        return cls(first.prefix[: first.prefix[:-1].rfind("/") + 1], parts, first.prefix, parts[-1].end)

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == 1 and not self.start and not self.end

    @property
    def pages_left(self) -> float:
        """Return an estimate: a directory without neighbours has as many pages left as it had so far."""
        return self.pages * len(self.parts) / max(1, self._passed)

    def take(self, page: ListedPage, *, is_ordered: bool) -> tuple[list[Share], bool]:
        """Return what a page adds, and whether the range ends with it. Raises StorageFailed for keys out of order."""
        objects = not_repeated(page.entries, self._before)
        keys = [entry.key for entry in objects]
        if is_ordered:
            self._require_order(keys, page.prefixes)
        self.pages, self._is_guessed = self.pages + 1, False
        self.began_early = self.began_early or any(key < self.start for key in (*keys[:1], *page.prefixes[:1]))
        self._before = page.entries if page.token else []
        seen = [*keys[:1], *keys[-1:], *page.prefixes[:1], *page.prefixes[-1:]]
        self._first, self._last = self._first or min(seen, default=""), max(self._last, *seen, "")
        shares = [self._share(part, keys, objects, page.prefixes) for part in self._touched(seen)]
        return shares, not page.token or self._ends(page.token)

    def split(self) -> Range | None:
        """Cut off the upper half, and return it; None where the rest is probably short, or no border is known."""
        if self.pages_left < _FEWEST_PAGES:
            return None
        if len(self.parts) > 1:
            middle = (len(self.parts) + 1) // 2
            upper = Range.of(self.parts[middle:])
            self.parts = self.parts[:middle]
            self.end = self.parts[-1].end
            return upper
        if self._is_guessed or not (border := self._guess()):
            return None
        upper = Range(self.parts[0].prefix, self.parts, border, self.end)
        self.end, self._is_guessed = border, True
        return upper

    def _require_order(self, keys: list[str], prefixes: list[str]) -> None:
        known = [self._before[-1].key] if self._before else []
        for names in ([*known, *keys], prefixes):
            for first, second in pairwise(names):
                if second < first:
                    raise StorageFailed(
                        f"{self.prefix} is listed out of order",
                        code="storage.listing-disorder",
                        facts={"seen": f"{second} after {first}"},
                    )

    def _touched(self, seen: list[str]) -> Sequence[Part]:
        """Return the parts between the first and the last key of a page."""
        if len(self.parts) == 1 or not seen:
            return self.parts[:1]
        begins = [part.prefix for part in self.parts]
        return self.parts[max(0, bisect_left(begins, min(seen)) - 1) : bisect_left(begins, max(seen)) + 1]

    def _share(self, part: Part, keys: list[str], objects: list[Entry], prefixes: list[str]) -> Share:
        if self.is_whole:
            return Share(part, objects, prefixes)
        begin, end = max(part.prefix, self.start), min(part.end, self.end or part.end)
        found = objects[bisect_left(keys, begin) : bisect_left(keys, end)]
        return Share(part, found, prefixes[bisect_left(prefixes, begin) : bisect_left(prefixes, end)])

    def _ends(self, token: str) -> bool:
        """Go on to the page of a token, or at the next part if other keys are before it. Return True at the end."""
        if self.end and self._last >= self.end:
            return True
        while len(self.parts) > 1 and self.parts[0].end <= self._last:
            self.parts, self._passed = self.parts[1:], self._passed + 1
            if len(self.parts) == 1:
                self._first, self.pages, self._passed = "", 0, 0
        part = self.parts[0]
        if not self.is_whole and self._last < part.prefix and not self.began_early:
            is_alone = len(self.parts) == 1
            self.prefix, self.start = (part.prefix, "") if is_alone else (self.prefix, part.prefix)
            self.token, self._before = "", []
        else:
            self.token = token
        return False

    def _guess(self) -> str:
        """Return a key that is probably in the middle of the rest; '' where none is known.

        The names so far have the same beginning. The first character after it is assumed to take all values above its
        last one: hexadecimal digits, as in the ids of writers, decimal ones, or letters. An id varies from its start.
        """
        low, high, fixed = self._first, self._last, len(self.parts[0].prefix)
        place = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
        if place >= len(high) or place < fixed:
            return ""
        start, alphabet = _varying(high, place, fixed)
        for at in dict.fromkeys((start, place)):
            borders = [high[:at] + char for char in alphabet if char > high[at]]
            borders = [border for border in borders if not self.end or border < self.end]
            if borders:
                return borders[len(borders) // 2]
        return ""


def _varying(name: str, place: int, fixed: int) -> tuple[int, str]:
    """Return where names probably begin to vary, and their characters there; `fixed`: length of their common part."""
    if name[place] not in _HEXADECIMAL:
        return place, _LETTERS
    start, end = place, place
    while start > fixed and name[start - 1] in _HEXADECIMAL:
        start -= 1
    while end < len(name) and name[end] in _HEXADECIMAL:
        end += 1
    return (place, _DIGITS) if name[start:end].isdecimal() else (start, _HEXADECIMAL)
