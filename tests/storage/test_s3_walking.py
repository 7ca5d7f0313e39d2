"""Walking through S3: what is asked, how many at a time, and what is left when somebody stops."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from threading import Barrier
from threading import enumerate as threads
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.core.errors import PermissionRefused, StorageFailed
from deltacli.storage import WalkEntry
from deltacli.storage.base import PARALLEL_READS
from deltacli.storage.objects.calls import ListedObject, ListedPage
from deltacli.storage.objects.store import ObjectStorage
from deltacli.storage.objects.walk import Lister, walk
from deltacli.storage.s3.store import open_s3
from tests.storage.test_walking import everything, paths
from tests.support.s3 import S3Server, page, says


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


@pytest.fixture
def store(bucket: str) -> ObjectStorage:
    return open_s3(f"s3://{bucket}/t", {})


def answered(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """No fault at all."""
    return server.answer(environ, start_response)


def listed(s3: S3Server) -> list[tuple[str, bool]]:
    """The prefixes that were listed, and whether flat, page by page."""
    return [
        (query["prefix"][0].removeprefix("t/"), "delimiter" not in query)
        for method, _, query in s3.requests
        if method == "GET" and "list-type" in query
    ]


def listing_threads() -> list[str]:
    return [thread.name for thread in threads() if thread.name.startswith("deltacli-list")]


@pytest.mark.long
def test_more_than_a_page_is_told_whole(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    files = [f"{place}{number:05d}" for place in ("", "p=1/", "p=1/q=1/r=1/") for number in range(1_500)]
    for path in files:
        s3.put(bucket, f"t/{path}", b"12")

    found = list(store.walk("", everything))

    assert Counter(files) == Counter(paths(found))
    assert max(len(each.names) for each in found) <= 1_000
    assert {2} == {size for each in found for size in each.sizes or []}


def test_many_partitions_are_listed_flat_after_one_level(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for number in range(20):
        s3.put(bucket, f"t/p={number:02d}/q=1/r=1/file", b"")
    s3.put(bucket, "t/_delta_log/0.json", b"")

    list(store.walk("", lambda _, names: [name for name in names if name[0] != "_"]))

    assert [("", False), *[("", True)] * 10] == sorted(listed(s3))  # each range covers two of them


def test_few_partitions_are_listed_flat_after_two_levels(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for path in ("p=1/q=1/r=1/a", "p=1/q=1/_delta_log/0", "p=1/_delta_log/0", "p=2/q=1/r=1/b"):
        s3.put(bucket, f"t/{path}", b"")
    asked: list[tuple[str, Sequence[str]]] = []

    def enter(path: str, names: Sequence[str]) -> list[str]:
        asked.append((path, names))
        return [name for name in names if name != "_delta_log"]

    found = sorted(store.walk("", enter))

    assert [("", False), ("p=1/", False), ("p=1/q=1/", True), ("p=2/", False), ("p=2/q=1/", True)] == sorted(listed(s3))
    assert [("p=1/q=1", ["_delta_log/0", "r=1/a"]), ("p=2/q=1", ["r=1/b"])] == [(each[0], each[1]) for each in found]
    assert [("", ["p=1", "p=2"]), ("p=1", ["_delta_log", "q=1"]), ("p=2", ["q=1"])] == sorted(asked)


def test_markers_are_odd_and_no_files(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for key in ("", "p=1/", "p=1/q=1/", "p=1/q=1/r=1/", "p=1/q=1/r=1/file"):
        s3.put(bucket, f"t/{key}", b"")

    found = list(store.walk("", everything))

    assert ["p=1/q=1/r=1/file"] == paths(found)
    assert [("", [""]), ("p=1", [""]), ("p=1/q=1", ["", "r=1/"])] == [(each.directory, each.special) for each in found]
    assert not any(each.is_empty or each.directory_modified_ms for each in found)


def test_pages_that_overlap_tell_each_file_once(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    s3.fail("GET", bucket, page("a", "b", "c", token="1"), page("b", "c", "d"))

    assert ["a", "b", "c", "d"] == paths(store.walk("", everything))


def test_sixteen_parts_are_asked_for_at_a_time(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    together = Barrier(PARALLEL_READS, timeout=60)
    for number in range(PARALLEL_READS):
        s3.put(bucket, f"t/p={number:02d}/file", b"")

    def waits(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        together.wait()
        return server.answer(environ, start_response)

    s3.fail("GET", bucket, answered, *[waits] * PARALLEL_READS)

    assert PARALLEL_READS == len(paths(store.walk("", everything)))


def test_an_abandoned_walk_asks_no_more_and_leaves_no_thread(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for number in range(100):
        s3.put(bucket, f"t/p={number:03d}/file", b"")
    found = store.walk("", everything)
    next(found)

    found.close()  # type: ignore[attr-defined]

    assert [] == listing_threads()
    assert len(listed(s3)) <= 1 + 2 * PARALLEL_READS


def test_a_fault_ends_the_walk_and_every_thread(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for number in range(100):
        s3.put(bucket, f"t/p={number:03d}/file", b"")
    s3.fail("GET", bucket, answered, answered, says("403 FORBIDDEN", "AccessDenied"))

    with pytest.raises(PermissionRefused):
        list(store.walk("", everything))

    assert [] == listing_threads()
    assert len(listed(s3)) <= 2 + 2 * PARALLEL_READS


def test_one_head_a_file_and_denied_is_not_missing(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    for number in range(40):
        s3.put(bucket, f"t/{number}", b"x" * number)

    assert [*range(40), -1] == store.stat_many([str(number) for number in range(41)])[0]
    assert 41 == s3.asked("HEAD")

    s3.fail("HEAD", "/t/7", says("403 FORBIDDEN", "403"))
    with pytest.raises(PermissionRefused, match="t/7"):
        store.stat_many([str(number) for number in range(40)])


PARTS = st.sampled_from(["a", "b", "b-", "", "x=1", "x=1.5", ".", "a0", "a1", "a7", "af"])
KEYS = st.sets(st.lists(PARTS, min_size=1, max_size=5).map("/".join), max_size=60)


class Listing:
    """A store as far as a listing shows it, in pages of a few entries. `calls` has prefix and start of each page."""

    def __init__(self, keys: Iterable[str], size: int, *, ignores_start: bool = False) -> None:
        self._keys, self._size, self._ignores_start = sorted(keys), size, ignores_start
        self.calls: list[tuple[str, str]] = []

    def page(self, prefix: str, delimiter: str, token: str, start: str) -> ListedPage:
        self.calls.append((prefix, start))
        found: list[tuple[str, bool]] = []
        place = bisect_left(self._keys, max(prefix, "" if self._ignores_start else start, token))
        while place < len(self._keys) and self._keys[place].startswith(prefix) and len(found) <= self._size:
            key = self._keys[place]
            head, slash, _ = key[len(prefix) :].partition("/")
            is_prefix = bool(delimiter and slash)
            found.append((f"{prefix}{head}/" if is_prefix else key, is_prefix))
            place = bisect_left(self._keys, f"{prefix}{head}0") if is_prefix else place + 1
        shown, rest = found[: self._size], found[self._size :]
        objects = [ListedObject(name, 1, 0) for name, is_prefix in shown if not is_prefix]
        prefixes = [name for name, is_prefix in shown if is_prefix]
        return ListedPage(objects, prefixes, rest[0][0] if rest else "")


def walked(listing: Listing, *, can_start: bool = True, left_out: Iterable[str] = ()) -> Counter[str]:
    """How often each name below `t/` is told."""
    found: Iterator[WalkEntry] = walk(
        Lister(listing.page, can_start),
        lambda directory: f"t/{directory}/" if directory else "t/",
        "",
        lambda _, directories: [name for name in directories if name not in set(left_out)],
    )
    entries = list(found)
    assert not any(name.endswith("/") for each in entries for name in each.names)
    return Counter(
        f"{each.directory}/{name}" if each.directory else name
        for each in entries
        for name in [*each.names, *each.special]
    )


@given(KEYS, st.integers(1, 4), st.sets(PARTS, max_size=2), st.booleans(), st.booleans())
def test_each_key_is_told_once_whatever_it_is_called(
    names: set[str], size: int, left_out: set[str], can_start: bool, ignores_start: bool
) -> None:
    """
    What is left out may still be told where the store lists flat, but nothing else is ever missing.
    """
    listing = Listing({f"t/{name}" for name in names}, size, ignores_start=ignores_start)

    told = walked(listing, can_start=can_start, left_out=left_out)

    wanted = {name for name in names if not left_out & set(name.split("/")[:-1])}
    assert max(told.values(), default=1) == 1
    assert wanted <= told.keys() <= names


@pytest.mark.parametrize(
    ("names", "pages"),
    [
        ([f"p={p:03d}/{n:02d}" for p in range(200) for n in range(20)], 420),
        ([f"p={p:03d}/{n}" for p in range(500) for n in range(2)], 150),
        ([f"p={p}/{n:04d}" for p in range(20) for n in range(5 if p else 3_000)], 310),
        ([f"part-00000-{sha256(b'%d' % n).hexdigest()[:12]}.parquet" for n in range(3_000)], 300),
        ([f"part-{n:05d}-c000.parquet" for n in range(3_000)], 300),
    ],
    ids=["partitions", "small partitions", "one large partition", "random names", "numbered names"],
)
def test_ranges_split_and_few_calls_are_wasted(names: list[str], pages: int) -> None:
    """
    Pages have ten entries, and `pages` are needed at least, with those that list the directories.
    """
    listing = Listing([f"t/{name}" for name in names], 10)

    told = walked(listing)

    assert set(names) == told.keys()
    assert 1 == max(told.values())
    assert len(listing.calls) <= 1.2 * pages + 2 * PARALLEL_READS
    assert len(set(listing.calls)) >= PARALLEL_READS


def test_a_listing_out_of_order_ends_the_walk(s3: S3Server, bucket: str, store: ObjectStorage) -> None:
    s3.fail("GET", bucket, page("b", "c", token="1"), page("a"))

    with pytest.raises(StorageFailed) as raised:
        list(store.walk("", everything))

    assert "storage.listing-disorder" == raised.value.code
