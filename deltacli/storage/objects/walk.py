"""Listing everything below a prefix of an object store, with many requests at the same time.

A listing is a chain of pages: each one has the token of the next. A table of a million files in one
chain takes a thousand requests one after the other. Two things are done about it:

1. The first levels are listed directory by directory. The directories that this finds are listed at
   the same time.
2. If the store lists in bytewise order and from any key on, neighbouring directories are joined to
   ranges of keys. A range that turns out to be long gives its upper half to a connection without
   work:

       p=1/ ... p=9/        one range; after a few pages:
       p=1/ ... p=5/   p=6/ ... p=9/

   Inside one large directory the border is a key that is guessed from the names so far
   (`_guess_border`). A wrong guess costs a request; nothing is lost or listed twice, because the
   two parts are cut at the same key.
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
from deltacli.storage.objects.calls import ListedObject, ListedPage, drop_repeated

ListPage = Callable[[str, str, str, str], ListedPage]
"""Returns the page for a prefix, a delimiter, a token ('' for the first) and a key to begin at ('' for the first)."""

# Pages that a range must probably still have to be split.
_FEWEST_PAGES_TO_SPLIT = 2

_DIGITS = "0123456789"
_HEXADECIMAL = "0123456789abcdef"
_LETTERS = "-.0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


class Lister(NamedTuple):
    """The way to list a store.

    Attributes:
        list_page: Returns a page.
        can_start: Whether pages are in bytewise order, and a listing may begin at any key.
    """

    list_page: ListPage
    can_start: bool


class Part(NamedTuple):
    """A directory to list.

    Attributes:
        prefix: How the keys in it begin.
        directory: Its path below the root of the store.
        base: The prefix of `directory`, to which the names of files are relative. It differs from
            `prefix` only for a directory without a name (`a//b`), which belongs to the one above.
    """

    prefix: str
    directory: str
    base: str

    @property
    def end(self) -> str:
        """Return the first key after all those of the directory."""
        return self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1) if self.prefix else "\U0010ffff"


class PageShare(NamedTuple):
    """The part of a page that belongs to one directory: objects, and the prefixes below it."""

    part: Part
    objects: list[ListedObject]
    prefixes: list[str]


class _PartListing(NamedTuple):
    """Some entries of a directory, or the end of its listing.

    Attributes:
        part: The directory.
        objects: Objects in it.
        subdirectories: Names of subdirectories.
        is_last: Whether the directory is listed completely.
    """

    part: Part
    objects: list[ListedObject]
    subdirectories: list[str]
    is_last: bool


def walk(
    lister: Lister, prefix_of: Callable[[str], str], directory: str, enter: ShouldDescend
) -> Generator[WalkEntry, None, bool]:
    """Yield the entries below a directory, and return whether there are any.

    Args:
        lister: How the store is listed.
        prefix_of: Returns the prefix of the keys in a directory.
        directory: Where to begin.
        enter: Decides which subdirectories to walk into (`ReadStorage.walk`).
    """
    pool = ThreadPool(PARALLEL_READS, thread_name_prefix="deltacli-list")
    try:
        root = Part(prefix_of(directory), directory, prefix_of(directory))
        return (yield from _walk(pool, lister, root, enter))
    finally:
        # A caller that stops early waits for the running requests, so that no thread outlives the
        # walk.
        pool.shutdown(wait=True, cancel_futures=True)


def _walk(pool: ThreadPool, lister: Lister, root: Part, enter: ShouldDescend) -> Generator[WalkEntry, None, bool]:
    """Walk level by level while the levels are small, then list all directories of the next level flat."""
    exists = False
    depth = 0
    # Neighbouring directories of the level, and directories without a name, which are listed flat
    # at the end.
    runs = [[root]]
    nameless = list[Part]()
    while not is_flat_level(depth, sum(map(len, runs))):
        next_runs: list[list[Part]] = []
        level = [part for run in runs for part in run]
        subdirectories: dict[Part, set[str]] = {part: set() for part in level}
        for listing in _list_ranges(pool, lister, [Range.of([part]) for part in level], "/"):
            part = listing.part
            subdirectories[part].update(listing.subdirectories)
            exists = exists or bool(listing.objects or listing.subdirectories)
            yield from _make_entries(listing)
            if not listing.is_last:
                continue

            names = subdirectories.pop(part)
            if "" in names:  # two slashes in a row: a path cannot name such a directory
                nameless.append(Part(f"{part.prefix}/", part.directory, part.base))
            entered = set(enter(part.directory, [name for name in sorted(names) if name]))
            next_runs += _find_runs(part, names, entered)
        runs = next_runs
        depth += 1

    ranges = [*_make_ranges(runs, lister), *(Range.of([part]) for part in nameless)]
    for listing in _list_ranges(pool, lister, ranges, ""):
        yield from _make_entries(listing)
    return exists


def _find_runs(part: Part, names: set[str], entered: set[str]) -> Iterator[list[Part]]:
    """Yield the directories to walk into, in runs of neighbours: without one between them that is left out."""
    names_in_order = sorted(names, key=lambda name: f"{name}/")
    for is_entered, run in groupby(names_in_order, key=lambda name: name in entered):
        if is_entered:
            yield [_subdirectory(part, name) for name in run]


def _subdirectory(part: Part, name: str) -> Part:
    prefix = f"{part.prefix}{name}/"
    return Part(prefix, f"{part.directory}/{name}" if part.directory else name, prefix)


def _make_ranges(runs: Sequence[Sequence[Part]], lister: Lister) -> Iterator[Range]:
    """Yield the ranges to begin with: one per connection, as far as the directories are neighbours."""
    parts_per_range = 1
    if lister.can_start:
        part_count = sum(map(len, runs))
        parts_per_range = -(-part_count // PARALLEL_READS)
    for run in runs:
        for start in range(0, len(run), parts_per_range):
            yield Range.of(run[start : start + parts_per_range])


def _list_ranges(pool: ThreadPool, lister: Lister, ranges: Sequence[Range], delimiter: str) -> Iterator[_PartListing]:
    """Yield the pages of ranges as they arrive, those of one range in order.

    The next page of a range is requested before what has arrived is yielded, so that the store
    works while the caller does. A directory may be spread over several ranges; its end is yielded
    once the last of them is listed.
    """
    waiting = deque(ranges)
    unfinished_ranges = Counter(part for some_range in ranges for part in some_range.parts)
    running: dict[Future[ListedPage], Range] = {}
    may_split = lister.can_start

    def request_page(some_range: Range) -> None:
        future = pool.submit(lister.list_page, some_range.prefix, delimiter, some_range.token, some_range.start)
        running[future] = some_range

    def use_free_connections() -> None:
        while waiting and len(running) < PARALLEL_READS:
            request_page(waiting.popleft())
        while may_split and len(running) < PARALLEL_READS:
            upper = _split_longest(running.values())
            if upper is None:
                break
            # Half of one directory: its end comes when both halves are listed.
            if len(upper.parts) == 1:
                unfinished_ranges.update(upper.parts)
            request_page(upper)

    use_free_connections()
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            some_range = running.pop(future)
            shares, is_last = some_range.take_page(future.result(), is_ordered=lister.can_start)
            may_split = may_split and not some_range.began_early
            if not is_last:
                request_page(some_range)
            use_free_connections()

            yield from (_make_listing(share) for share in shares)
            if is_last and len(some_range.parts) == 1:
                part = some_range.parts[0]
                unfinished_ranges[part] -= 1
                if not unfinished_ranges[part]:
                    yield _PartListing(part, [], [], is_last=True)


def _split_longest(running: Iterable[Range]) -> Range | None:
    """Return the upper half of the range that probably has most left; None if none is worth another connection."""
    for some_range in sorted(running, key=lambda some_range: some_range.pages_left, reverse=True):
        upper = some_range.split()
        if upper is not None:
            return upper
    return None


def _make_listing(share: PageShare) -> _PartListing:
    start = len(share.part.prefix)
    subdirectories = [prefix[start:-1] for prefix in share.prefixes]
    return _PartListing(share.part, share.objects, subdirectories, is_last=False)


def _make_entries(listing: _PartListing) -> Iterator[WalkEntry]:
    """Yield the files of a listing, if there are any. Keys that end with `/` are markers of directories."""
    if not listing.objects:
        return

    start = len(listing.part.base)
    files = [entry for entry in listing.objects if not entry.key.endswith("/")]
    special = [entry.key[start:] for entry in listing.objects if entry.key.endswith("/")]
    yield WalkEntry(
        listing.part.directory,
        [entry.key[start:] for entry in files],
        [entry.size_bytes for entry in files],
        [entry.modified_ms for entry in files],
        special,
        archived=tuple((entry.key[start:], entry.archive_class) for entry in files if entry.archive_class),
    )


@dataclass(eq=False)
class Range:
    """The keys of some neighbouring directories, and how far they are listed.

    Attributes:
        prefix: What is listed: the prefix of the only directory, or that of the directory which
            holds them all.
        parts: The directories that are not listed yet, ascending.
        start: The first key of the range; '' for all from the beginning.
        end: The first key after the range; '' for all to the end.
        token: The token of the next page.
        pages: The number of pages since the current directory began.
        began_early: Whether the store ignored the key to begin at. It is not asked to begin
            anywhere again.
    """

    prefix: str
    parts: Sequence[Part]
    start: str = ""
    end: str = ""
    token: str = ""
    pages: int = 0
    began_early: bool = False

    # The first and the last key so far.
    _first: str = ""
    _last: str = ""
    # Directories that are listed.
    _passed: int = 0
    # Whether the range was split by a guess since its last page. It is not split again without
    # knowing more.
    _is_guessed: bool = False
    _last_entries: list[ListedObject] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Range:
        """Return the range of directories, which are neighbours in one directory."""
        first = parts[0]
        if len(parts) == 1:
            return cls(first.prefix, parts)
        prefix_of_parent = first.prefix[: first.prefix[:-1].rfind("/") + 1]
        return cls(prefix_of_parent, parts, first.prefix, parts[-1].end)

    @property
    def is_whole(self) -> bool:
        """Return whether the range is one directory, all of it."""
        return len(self.parts) == 1 and not self.start and not self.end

    @property
    def pages_left(self) -> float:
        """Return an estimate of the pages left.

        A directory without neighbours has as many left as it had so far; of several, all are as long as those so far.
        """
        return self.pages * len(self.parts) / max(1, self._passed)

    def take_page(self, page: ListedPage, *, is_ordered: bool) -> tuple[list[PageShare], bool]:
        """Return what a page adds, by directory, and whether the range ends with it.

        Raises:
            StorageFailed: If keys are out of order although the store lists in order.
        """
        objects = drop_repeated(page.entries, self._last_entries)
        keys = [entry.key for entry in objects]
        if is_ordered:
            self._require_order(keys, page.prefixes)

        self.pages += 1
        self._is_guessed = False
        first_names = (*keys[:1], *page.prefixes[:1])
        self.began_early = self.began_early or any(name < self.start for name in first_names)
        self._last_entries = page.entries if page.token else []

        outer_names = [*first_names, *keys[-1:], *page.prefixes[-1:]]
        self._first = self._first or min(outer_names, default="")
        self._last = max(self._last, *outer_names, "")
        shares = [self._share_of(part, keys, objects, page.prefixes) for part in self._parts_between(outer_names)]
        is_last = not page.token or self._is_finished(page.token)
        return shares, is_last

    def split(self) -> Range | None:
        """Cut off the upper half and return it; None if little is probably left, or no border is known."""
        if self.pages_left < _FEWEST_PAGES_TO_SPLIT:
            return None

        # Between two directories.
        if len(self.parts) > 1:
            middle = (len(self.parts) + 1) // 2
            upper = Range.of(self.parts[middle:])
            self.parts = self.parts[:middle]
            self.end = self.parts[-1].end
            return upper

        # Inside one.
        if self._is_guessed:
            return None
        border = self._guess_border()
        if not border:
            return None
        upper = Range(self.parts[0].prefix, self.parts, border, self.end)
        self.end = border
        self._is_guessed = True
        return upper

    def _require_order(self, keys: list[str], prefixes: list[str]) -> None:
        """Raise StorageFailed for names out of order: a cut at a key would lose some of them."""
        last_key = [self._last_entries[-1].key] if self._last_entries else []
        for names in ([*last_key, *keys], prefixes):
            for first, second in pairwise(names):
                if second < first:
                    raise StorageFailed(
                        f"{self.prefix} is listed out of order",
                        code="storage.listing-disorder",
                        facts={"seen": f"{second} after {first}"},
                    )

    def _parts_between(self, names: list[str]) -> Sequence[Part]:
        """Return the directories between the first and the last name of a page."""
        if len(self.parts) == 1 or not names:
            return self.parts[:1]
        prefixes = [part.prefix for part in self.parts]
        first = max(0, bisect_left(prefixes, min(names)) - 1)
        after_last = bisect_left(prefixes, max(names)) + 1
        return self.parts[first:after_last]

    def _share_of(self, part: Part, keys: list[str], objects: list[ListedObject], prefixes: list[str]) -> PageShare:
        """Return what a page has of a directory within the range. A page may go beyond both ends of it."""
        if self.is_whole:
            return PageShare(part, objects, prefixes)
        first_key = max(part.prefix, self.start)
        end_key = min(part.end, self.end or part.end)
        objects_in_range = objects[bisect_left(keys, first_key) : bisect_left(keys, end_key)]
        prefixes_in_range = prefixes[bisect_left(prefixes, first_key) : bisect_left(prefixes, end_key)]
        return PageShare(part, objects_in_range, prefixes_in_range)

    def _is_finished(self, token: str) -> bool:
        """Return whether the range ends with the page that has a token, and prepare the next page if it does not.

        The next page is that of the token. If there are keys between the last one and the next
        directory, which belong to directories that are left out, a new listing begins at that
        directory instead.
        """
        if self.end and self._last >= self.end:
            return True

        while len(self.parts) > 1 and self.parts[0].end <= self._last:
            self.parts = self.parts[1:]
            self._passed += 1
            if len(self.parts) == 1:
                # What is known now is about this directory only.
                self._first = ""
                self.pages = 0
                self._passed = 0

        part = self.parts[0]
        is_before_part = not self.is_whole and self._last < part.prefix
        if not is_before_part or self.began_early:
            self.token = token
            return False

        if len(self.parts) == 1:
            self.prefix = part.prefix
            self.start = ""
        else:
            self.start = part.prefix
        self.token = ""
        self._last_entries = []
        return False

    def _guess_border(self) -> str:
        """Return a key that is probably in the middle of what is left; '' if none is known.

        The names so far have the same beginning. The first character after it is assumed to take
        all values above its last one: hexadecimal digits, as in the ids of writers, decimal ones,
        or letters. An id varies from its start.

            part-00000-… to part-00417-…    border: part-007, in the middle of 5 to 9
        """
        low = self._first
        high = self._last
        fixed_length = len(self.parts[0].prefix)
        differing = [at for at, (first, second) in enumerate(zip(low, high, strict=False)) if first != second]
        position = differing[0] if differing else len(low)
        if position >= len(high) or position < fixed_length:
            return ""

        start, alphabet = _find_varying_characters(high, position, fixed_length)
        for at in dict.fromkeys((start, position)):
            borders = [high[:at] + character for character in alphabet if character > high[at]]
            borders_in_range = [border for border in borders if not self.end or border < self.end]
            if borders_in_range:
                return borders_in_range[len(borders_in_range) // 2]
        return ""


def _find_varying_characters(name: str, position: int, fixed_length: int) -> tuple[int, str]:
    """Return where names probably begin to vary, and the characters that they have there.

    Args:
        name: A name.
        position: Where it differs from others.
        fixed_length: The length of the part that all names have in common for certain.
    """
    if name[position] not in _HEXADECIMAL:
        return position, _LETTERS

    start = position
    while start > fixed_length and name[start - 1] in _HEXADECIMAL:
        start -= 1
    end = position
    while end < len(name) and name[end] in _HEXADECIMAL:
        end += 1
    if name[start:end].isdecimal():
        return position, _DIGITS
    return start, _HEXADECIMAL
