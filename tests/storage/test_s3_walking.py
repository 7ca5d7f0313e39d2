"""Walking through S3: what is asked, how many at a time, and what is left when somebody stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from threading import Barrier
from threading import enumerate as threads
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.errors import PermissionRefused
from deltacli.storage import WalkEntry
from deltacli.storage.base import PARALLEL_READS
from deltacli.storage.objects.listing import Entry, ListedPage
from deltacli.storage.objects.walk import walk
from deltacli.storage.s3.store import S3Storage
from tests.storage.test_walking import everything, paths
from tests.support.s3 import S3Server, page, says


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.make_bucket()


@pytest.fixture
def store(bucket: str) -> S3Storage:
    return S3Storage(f"s3://{bucket}/t", {})


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


def test_more_than_a_page_is_told_whole(s3: S3Server, bucket: str, store: S3Storage) -> None:
    files = [f"{place}{number:05d}" for place in ("", "p=1/", "p=1/q=1/r=1/") for number in range(1_500)]
    for path in files:
        s3.put(bucket, f"t/{path}", b"12")

    found = list(store.walk("", everything))

    assert Counter(files) == Counter(paths(found))
    assert max(len(each.names) for each in found) <= 1_000
    assert {2} == {size for each in found for size in each.sizes or []}


def test_many_partitions_are_listed_flat_after_one_level(s3: S3Server, bucket: str, store: S3Storage) -> None:
    for number in range(20):
        s3.put(bucket, f"t/p={number:02d}/q=1/r=1/file", b"")
    s3.put(bucket, "t/_delta_log/0.json", b"")

    list(store.walk("", lambda _, names: [name for name in names if name[0] != "_"]))

    assert [("", False), *((f"p={number:02d}/", True) for number in range(20))] == sorted(listed(s3))


def test_few_partitions_are_listed_flat_after_two_levels(s3: S3Server, bucket: str, store: S3Storage) -> None:
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


def test_markers_are_odd_and_no_files(s3: S3Server, bucket: str, store: S3Storage) -> None:
    for key in ("", "p=1/", "p=1/q=1/", "p=1/q=1/r=1/", "p=1/q=1/r=1/file"):
        s3.put(bucket, f"t/{key}", b"")

    found = list(store.walk("", everything))

    assert ["p=1/q=1/r=1/file"] == paths(found)
    assert [("", [""]), ("p=1", [""]), ("p=1/q=1", ["", "r=1/"])] == [(each.directory, each.odd) for each in found]
    assert not any(each.is_empty or each.directory_modified_ms for each in found)


def test_pages_that_overlap_tell_each_file_once(s3: S3Server, bucket: str, store: S3Storage) -> None:
    s3.fail("GET", bucket, page("a", "b", "c", token="1"), page("b", "c", "d", token="2"), page("d", "e"))

    assert ["a", "b", "c", "d", "e"] == paths(store.walk("", everything))


def test_sixteen_parts_are_asked_for_at_a_time(s3: S3Server, bucket: str, store: S3Storage) -> None:
    together = Barrier(PARALLEL_READS, timeout=60)
    for number in range(PARALLEL_READS):
        s3.put(bucket, f"t/p={number:02d}/file", b"")

    def waits(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        together.wait()
        return server.answer(environ, start_response)

    s3.fail("GET", bucket, answered, *[waits] * PARALLEL_READS)

    assert PARALLEL_READS == len(paths(store.walk("", everything)))


def test_an_abandoned_walk_asks_no_more_and_leaves_no_thread(s3: S3Server, bucket: str, store: S3Storage) -> None:
    for number in range(100):
        s3.put(bucket, f"t/p={number:03d}/file", b"")
    found = store.walk("", everything)
    next(found)

    found.close()  # type: ignore[attr-defined]

    assert [] == listing_threads()
    assert len(listed(s3)) <= 1 + 2 * PARALLEL_READS


def test_a_fault_ends_the_walk_and_every_thread(s3: S3Server, bucket: str, store: S3Storage) -> None:
    for number in range(100):
        s3.put(bucket, f"t/p={number:03d}/file", b"")
    s3.fail("GET", bucket, answered, answered, says("403 FORBIDDEN", "AccessDenied"))

    with pytest.raises(PermissionRefused):
        list(store.walk("", everything))

    assert [] == listing_threads()
    assert len(listed(s3)) <= 2 + 2 * PARALLEL_READS


def test_one_head_a_file_and_denied_is_not_missing(s3: S3Server, bucket: str, store: S3Storage) -> None:
    for number in range(40):
        s3.put(bucket, f"t/{number}", b"x" * number)

    assert [*range(40), -1] == store.stat_many([str(number) for number in range(41)])[0]
    assert 41 == s3.asked("HEAD")

    s3.fail("HEAD", "/t/7", says("403 FORBIDDEN", "403"))
    with pytest.raises(PermissionRefused, match="t/7"):
        store.stat_many([str(number) for number in range(40)])


PARTS = st.sampled_from(["a", "b", "b-", "", "x=1", "."])
KEYS = st.sets(st.lists(PARTS, min_size=1, max_size=5).map("/".join), max_size=30)


class Listing:
    """S3 as far as a listing shows it, in pages of a few entries."""

    def __init__(self, keys: set[str], size: int) -> None:
        self._keys, self._size = sorted(keys), size

    def page(self, prefix: str, delimiter: str, token: str) -> ListedPage:
        found: dict[str, bool] = {}
        for key in self._keys:
            if key.startswith(prefix):
                head, slash, _ = key[len(prefix) :].partition("/")
                found[f"{prefix}{head}/" if delimiter and slash else key] = bool(delimiter and slash)
        entries = list(found.items())[int(token or 0) :]
        shown = entries[: self._size]
        objects = [Entry(name, 1, 0) for name, is_prefix in shown if not is_prefix]
        following = str(int(token or 0) + len(shown)) if len(entries) > len(shown) else ""
        return ListedPage(objects, [name for name, is_prefix in shown if is_prefix], following)


@given(KEYS, st.integers(1, 4), st.sets(PARTS, max_size=2))
def test_each_key_is_told_once_whatever_it_is_called(names: set[str], size: int, left_out: set[str]) -> None:
    """
    What is left out may still be told where the store lists flat, but nothing else is ever missing.
    """
    keys = {f"t/{name}" for name in names}

    found: list[WalkEntry] = list(
        walk(
            Listing(keys, size).page,
            lambda directory: f"t/{directory}/" if directory else "t/",
            "",
            lambda _, directories: [name for name in directories if name not in left_out],
        )
    )

    told = Counter(
        f"{each.directory}/{name}" if each.directory else name for each in found for name in [*each.names, *each.odd]
    )
    wanted = {name for name in names if not left_out & set(name.split("/")[:-1])}
    assert max(told.values(), default=1) == 1
    assert wanted <= told.keys() <= names
    assert all(not name.endswith("/") for each in found for name in each.names)
