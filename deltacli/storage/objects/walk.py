"""Recursive listing of a prefix with many concurrent requests.

A listing is a sequence of pages, and each page contains the token of the next one. So a table with a million files
needs a thousand requests, one after the other. Two methods make the listing parallel:

1. The first directory levels are listed one by one, with a delimiter. The subdirectories that are found are listed at
   the same time.
2. If the store lists in bytewise order and can begin at any key, adjacent directories are combined to ranges of keys,
   one for each connection. When a connection is free, the longest range is split, and the connection lists the upper
   half:

       p=1/ ... p=9/        one range; after a few pages:
       p=1/ ... p=5/        lower half
       p=6/ ... p=9/        upper half

   Within one large directory, the key between the halves is guessed from the names so far (`_guess_border`). A wrong
   guess costs one request. No object is lost or listed twice, because one half ends at the key at which the other
   begins.
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
"""Requests a page. The arguments are the prefix, the delimiter, the token ('' for the first page) and the start key."""

# Minimum number of remaining pages, by estimation, that makes splitting a range worth a request.
_MIN_PAGES_TO_SPLIT = 2

_DIGITS = "0123456789"
_HEXADECIMAL = "0123456789abcdef"
_LETTERS = "-.0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


class Lister(NamedTuple):
    """Access to the listing of a store.

    Attributes:
        list_page: Requests a page.
        can_start: True if pages are in bytewise order, and a listing can begin at any key.
    """

    list_page: ListPage
    can_start: bool


class Part(NamedTuple):
    """A directory to list.

    Attributes:
        prefix: The prefix of its keys.
        directory: Its path, relative to the root of the store.
        base: The prefix that is removed from keys to get the names of files. It equals `prefix`, except for a
            directory with an empty name (`a//b`). No path refers to such a directory, so its files belong to the
            parent, here `a`, with names such as `/b`.
    """

    prefix: str
    directory: str
    base: str

    @property
    def end(self) -> str:
        """The least key after all keys of the directory. For the prefix `p=1/` it is `p=10`, since 0 follows /."""
        return self.prefix[:-1] + chr(ord(self.prefix[-1]) + 1) if self.prefix else "\U0010ffff"


class PageShare(NamedTuple):
    """The entries of a page that belong to one directory: objects, and prefixes of subdirectories."""

    part: Part
    objects: list[ListedObject]
    prefixes: list[str]


class _PartListing(NamedTuple):
    """Entries of a directory, or the end of its listing.

    Attributes:
        part: The directory.
        objects: Objects in the directory.
        subdirectories: Names of subdirectories.
        is_last: True if the directory is listed completely.
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
        lister: Access to the listing of the store.
        prefix_of: Returns the prefix of the keys in a directory.
        directory: The directory to walk.
        enter: Selects the subdirectories to walk into, see `ReadStorage.walk`.
    """
    pool = ThreadPool(PARALLEL_READS, thread_name_prefix="deltacli-list")
    try:
        root = Part(prefix_of(directory), directory, prefix_of(directory))
        return (yield from _walk(pool, lister, root, enter))
    finally:
        # If the caller stops early, wait for the running requests, so that no thread outlives the walk.
        pool.shutdown(wait=True, cancel_futures=True)


def _walk(pool: ThreadPool, lister: Lister, root: Part, enter: ShouldDescend) -> Generator[WalkEntry, None, bool]:
    """List small levels directory by directory, and then all directories of the next level recursively."""
    exists = False
    depth = 0
    # Each run contains adjacent directories of the level. Directories with an empty name are listed at the end.
    runs = [[root]]
    unnamed_parts = list[Part]()
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
            # A key with two adjacent slashes, for example `a//b`.
            if "" in names:
                unnamed_parts.append(Part(f"{part.prefix}/", part.directory, part.base))
            entered = set(enter(part.directory, [name for name in sorted(names) if name]))
            next_runs += _find_runs(part, names, entered)
        runs = next_runs
        depth += 1

    ranges = [*_make_ranges(runs, lister), *(Range.of([part]) for part in unnamed_parts)]
    for listing in _list_ranges(pool, lister, ranges, ""):
        yield from _make_entries(listing)
    return exists


def _find_runs(part: Part, names: set[str], entered: set[str]) -> Iterator[list[Part]]:
    """Yield runs of subdirectories to walk into. A run is interrupted by a subdirectory that is not walked into."""
    names_in_order = sorted(names, key=lambda name: f"{name}/")
    for is_entered, run in groupby(names_in_order, key=lambda name: name in entered):
        if is_entered:
            yield [_make_subdirectory(part, name) for name in run]


def _make_subdirectory(part: Part, name: str) -> Part:
    prefix = f"{part.prefix}{name}/"
    directory = f"{part.directory}/{name}" if part.directory else name
    return Part(prefix, directory, prefix)


def _make_ranges(runs: Sequence[Sequence[Part]], lister: Lister) -> Iterator[Range]:
    """Divide runs of directories into ranges, about one per connection."""
    parts_per_range = 1
    if lister.can_start:
        part_count = sum(map(len, runs))
        parts_per_range = -(-part_count // PARALLEL_READS)
    for run in runs:
        for start in range(0, len(run), parts_per_range):
            yield Range.of(run[start : start + parts_per_range])


def _list_ranges(pool: ThreadPool, lister: Lister, ranges: Sequence[Range], delimiter: str) -> Iterator[_PartListing]:
    """Yield the entries of ranges as the pages arrive. The pages of one range are in order.

    The next page of a range is requested before the entries of the current page are yielded, so that the store works
    while the caller processes them. If a directory is split into several ranges, its end is yielded after the end of
    the last of these ranges.
    """
    waiting = deque(ranges)
    unfinished_ranges = Counter(part for key_range in ranges for part in key_range.parts)
    running: dict[Future[ListedPage], Range] = {}
    may_split = lister.can_start

    def request_page(key_range: Range) -> None:
        future = pool.submit(lister.list_page, key_range.prefix, delimiter, key_range.token, key_range.start)
        running[future] = key_range

    def use_free_connections() -> None:
        while waiting and len(running) < PARALLEL_READS:
            request_page(waiting.popleft())
        while may_split and len(running) < PARALLEL_READS:
            upper = _split_longest(running.values())
            if upper is None:
                break
            # The directory was split, so it ends when both halves are listed.
            if len(upper.parts) == 1:
                unfinished_ranges.update(upper.parts)
            request_page(upper)

    use_free_connections()
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            key_range = running.pop(future)
            shares, is_last = key_range.take_page(future.result(), is_ordered=lister.can_start)
            may_split = may_split and not key_range.began_early
            if not is_last:
                request_page(key_range)
            use_free_connections()

            yield from (_make_listing(share) for share in shares)
            if is_last and len(key_range.parts) == 1:
                part = key_range.parts[0]
                unfinished_ranges[part] -= 1
                if not unfinished_ranges[part]:
                    yield _PartListing(part, [], [], is_last=True)


def _split_longest(running: Iterable[Range]) -> Range | None:
    """Split the range with the most remaining pages, and return its upper half. Return None if no range is worth it."""
    for key_range in sorted(running, key=lambda key_range: key_range.pages_left, reverse=True):
        upper = key_range.split()
        if upper is not None:
            return upper
    return None


def _make_listing(share: PageShare) -> _PartListing:
    start = len(share.part.prefix)
    subdirectories = [prefix[start:-1] for prefix in share.prefixes]
    return _PartListing(share.part, share.objects, subdirectories, is_last=False)


def _make_entries(listing: _PartListing) -> Iterator[WalkEntry]:
    """Yield the files of a listing, if there are any. Keys that end with `/` are directory markers."""
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
    """A range of keys: several adjacent directories, or a part of one. It knows how far it is listed.

    Attributes:
        prefix: The prefix that is listed. It is the prefix of the only directory, or the prefix of the parent of all
            directories.
        parts: The directories that are not listed completely, in ascending order.
        start: The first key of the range; '' for no limit.
        end: The first key after the range; '' for no limit.
        token: The token of the next page.
        pages: The number of pages of the current directory, or of all directories so far.
        began_early: True if the store ignored the start key. No further listing begins at a key then.
    """

    prefix: str
    parts: Sequence[Part]
    start: str = ""
    end: str = ""
    token: str = ""
    pages: int = 0
    began_early: bool = False

    # The first and the last key that are listed.
    _first: str = ""
    _last: str = ""
    # The number of directories that are listed completely.
    _listed_parts: int = 0
    # Whether the range was split at a guessed key since its last page. The next page improves the next guess.
    _was_split_by_guess: bool = False
    _last_entries: list[ListedObject] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Range:
        """Return the range of adjacent directories with the same parent."""
        first = parts[0]
        if len(parts) == 1:
            return cls(first.prefix, parts)
        prefix_of_parent = first.prefix[: first.prefix[:-1].rfind("/") + 1]
        return cls(prefix_of_parent, parts, first.prefix, parts[-1].end)

    @property
    def is_whole(self) -> bool:
        """Whether the range is exactly one directory."""
        return len(self.parts) == 1 and not self.start and not self.end

    @property
    def pages_left(self) -> float:
        """An estimate of the number of remaining pages.

        A single directory is assumed to have as many pages again. Several directories are assumed to have equally many
        pages each.
        """
        return self.pages * len(self.parts) / max(1, self._listed_parts)

    def take_page(self, page: ListedPage, *, is_ordered: bool) -> tuple[list[PageShare], bool]:
        """Process the next page. Return its entries by directory, and whether the range ends with the page.

        Raises:
            StorageFailed: If keys are out of order although the store lists in order.
        """
        objects = drop_repeated(page.entries, self._last_entries)
        keys = [entry.key for entry in objects]
        if is_ordered:
            self._require_order(keys, page.prefixes)

        self.pages += 1
        self._was_split_by_guess = False
        first_names = (*keys[:1], *page.prefixes[:1])
        self.began_early = self.began_early or any(name < self.start for name in first_names)
        self._last_entries = page.entries if page.token else []

        outer_names = [*first_names, *keys[-1:], *page.prefixes[-1:]]
        self._first = self._first or min(outer_names, default="")
        self._last = max(self._last, *outer_names, "")
        shares = [self._select_share(part, keys, objects, page.prefixes) for part in self._parts_between(outer_names)]
        is_last = not page.token or self._is_finished(page.token)
        return shares, is_last

    def split(self) -> Range | None:
        """Shorten the range to its lower half, and return the upper half.

        Return None, and change nothing, if few pages remain, or if no border can be guessed.
        """
        if self.pages_left < _MIN_PAGES_TO_SPLIT:
            return None

        # Between two directories.
        if len(self.parts) > 1:
            middle = (len(self.parts) + 1) // 2
            upper = Range.of(self.parts[middle:])
            self.parts = self.parts[:middle]
            self.end = self.parts[-1].end
            return upper

        # Inside one.
        if self._was_split_by_guess:
            return None
        border = self._guess_border()
        if not border:
            return None
        upper = Range(self.parts[0].prefix, self.parts, border, self.end)
        self.end = border
        self._was_split_by_guess = True
        return upper

    def _require_order(self, keys: list[str], prefixes: list[str]) -> None:
        """Raise StorageFailed if the names are out of order: splitting such a listing at a key would lose names."""
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

    def _select_share(self, part: Part, keys: list[str], objects: list[ListedObject], prefixes: list[str]) -> PageShare:
        """Return the entries of a page that belong to a directory. Entries outside the range are dropped."""
        if self.is_whole:
            return PageShare(part, objects, prefixes)
        first_key = max(part.prefix, self.start)
        end_key = min(part.end, self.end or part.end)
        objects_in_range = objects[bisect_left(keys, first_key) : bisect_left(keys, end_key)]
        prefixes_in_range = prefixes[bisect_left(prefixes, first_key) : bisect_left(prefixes, end_key)]
        return PageShare(part, objects_in_range, prefixes_in_range)

    def _is_finished(self, token: str) -> bool:
        """Return whether the range ends with the current page. If not, prepare the request for the next page.

        Usually the next page continues with the token. If the keys before the next directory belong to directories
        that are not walked into, a new listing begins at the next directory instead.

        Args:
            token: The token of the next page.
        """
        if self.end and self._last >= self.end:
            return True

        while len(self.parts) > 1 and self.parts[0].end <= self._last:
            self.parts = self.parts[1:]
            self._listed_parts += 1
            if len(self.parts) == 1:
                # From here on, the estimates are about the last directory only.
                self._first = ""
                self.pages = 0
                self._listed_parts = 0

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
        """Guess a key in the middle of the remaining keys; '' if there is no base_version for a guess.

        The names so far have a common prefix. The first character after it is assumed to take all greater values
        equally often: hexadecimal digits in random ids, decimal digits in numbers, otherwise letters. A random id
        varies from its first character.

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
    """Return the position at which names probably begin to vary, and the characters that occur there.

    Args:
        name: A name.
        position: The first position at which the names so far differ.
        fixed_length: The length of the directory prefix, which all names have in common.
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
