"""Signed URLs of local files: ranges, conditions, expiry, forgery, links."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import StorageFailed
from deltacli.sharing.model import Catalog
from tests.sharing.asgi import Reply
from tests.sharing.served import Served, shared, urls_of
from tests.support.actions import add, birth
from tests.support.builder import TableBuilder
from tests.support.effort import InTurn

CONTENT = bytes(range(256)) * 4


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """A server of a table with one file of 1,024 bytes."""
    table = TableBuilder().commit(*birth(), add("p=1/f.parquet", size=1_024)).file("p=1/f.parquet", CONTENT)
    return Served((shared(table.write(tmp_path / "t")),))


@pytest.mark.parametrize(
    "wanted, status, first, last",
    [
        ("bytes=0-9", 206, 0, 9),
        ("bytes=1000-", 206, 1_000, 1_023),
        ("bytes=1000-5000", 206, 1_000, 1_023),
        ("bytes=-4", 206, 1_020, 1_023),
        ("bytes=-5000", 206, 0, 1_023),
        ("bytes=9-0", 200, 0, 1_023),
        ("bytes=0-1,3-4", 200, 0, 1_023),
        ("lines=0-1", 200, 0, 1_023),
        ("bytes=-", 200, 0, 1_023),
    ],
)
def test_ranges_are_answered_with_their_bytes(served: Served, wanted: str, status: int, first: int, last: int) -> None:
    url = urls_of(served.query())[0]

    reply, head = served.get(url, Range=wanted), served.get(url, method="HEAD", Range=wanted)

    assert (status, CONTENT[first : last + 1]) == (reply.status, reply.body)
    assert str(last + 1 - first) == reply.headers["content-length"] == head.headers["content-length"]
    assert (status, b"") == (head.status, head.body)
    assert status == 200 or f"bytes {first}-{last}/1024" == reply.headers["content-range"]


@pytest.mark.parametrize("wanted", ["bytes=1024-", "bytes=5000-6000", "bytes=-0"])
def test_a_range_outside_the_file_is_refused_with_its_size(served: Served, wanted: str) -> None:
    reply = served.get(urls_of(served.query())[0], Range=wanted)

    assert (416, "bytes */1024") == (reply.status, reply.headers["content-range"])


def test_a_range_of_a_file_that_changed_is_the_whole_file(served: Served, tmp_path: Path) -> None:
    url = urls_of(served.query())[0]
    first = served.get(url)
    same = served.get(url, Range="bytes=0-1", If_Range=first.headers["etag"])
    dated = served.get(url, Range="bytes=0-1", If_Range=first.headers["last-modified"])
    os.utime(tmp_path / "t/p=1/f.parquet", (1, 1))

    changed = served.get(url, Range="bytes=0-1", If_Range=first.headers["etag"])

    assert [206, 206, 200] == [reply.status for reply in (same, dated, changed)]


def test_a_url_ends_at_its_expiry(served: Served) -> None:
    url = urls_of(served.query())[0]
    served.now_ms += 3_599_999
    before = served.get(url)
    served.now_ms += 1

    after = served.get(url)

    assert (200, 403) == (before.status, after.status)


def test_a_url_of_a_table_that_is_no_longer_shared_is_refused(served: Served) -> None:
    url = urls_of(served.query())[0]
    configuration = replace(served.state.configuration, catalog=Catalog(()))
    served.state = replace(served.state, configuration=configuration)

    reply = served.get(url)

    assert (403, "PERMISSION_DENIED") == (reply.status, reply.json["errorCode"])


def test_a_slash_behind_the_signature_makes_it_another_url(served: Served) -> None:
    url = urls_of(served.query())[0]

    replies = [served.get(f"{url}/"), served.get(url.replace("?", "/?"))]

    assert [403, 200] == [reply.status for reply in replies]  # a slash behind a path is left out on all routes
    assert "not signed by this server, or was changed" in replies[0].json["message"]


def test_a_url_with_any_bit_changed_is_refused(served: Served, in_turn: InTurn) -> None:
    url = urls_of(served.query())[0]
    start = url.index("/_files/") + len("/_files/")
    changed = [
        url[:place] + chr(ord(url[place]) ^ 1 << bit) + url[place + 1 :]
        for place in in_turn(range(start, len(url)))
        for bit in range(7)
    ]

    replies = [served.get(other) for other in changed if "#" not in other]

    assert set() == {(reply.status, reply.body) for reply in replies if reply.status == 200} or _only_sp(replies)
    assert {reply.status for reply in replies} <= {200, 400, 403, 404}


def _only_sp(replies: list[Reply]) -> bool:
    """Return True if the changed URLs that were accepted are those of `sp=r`, which says nothing."""
    return sum(reply.status == 200 for reply in replies) <= 7 * len("sp=r&")


@pytest.mark.parametrize("what", ["link", "linked directory", "directory", "pipe", "gone"])
def test_what_is_not_a_file_of_the_table_is_not_served(served: Served, tmp_path: Path, what: str) -> None:
    url, place = urls_of(served.query())[0], tmp_path / "t/p=1/f.parquet"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/f.parquet").write_bytes(b"secret")
    place.unlink()
    match what:
        case "link":
            place.symlink_to(tmp_path / "elsewhere/f.parquet")
        case "linked directory":
            place.parent.rmdir()
            place.parent.symlink_to(tmp_path / "elsewhere")
        case "directory":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)

    reply = served.get(url)

    assert (404, "RESOURCE_DOES_NOT_EXIST") == (reply.status, reply.json["errorCode"])


def test_a_path_as_written_is_found_where_the_decoded_one_is_not(tmp_path: Path) -> None:
    table = TableBuilder().commit(*birth(), add("a%20b.parquet", size=3)).file("a%20b.parquet", b"abc")
    served = Served((shared(table.write(tmp_path / "t")),))

    reply = served.get(urls_of(served.query())[0])

    assert b"abc" == reply.body


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_a_file_is_closed_also_when_its_answer_is_not_sent(served: Served) -> None:
    url = urls_of(served.query())[0]
    served.get(url)
    gc.collect()  # what tests before have left open
    before = len(os.listdir("/proc/self/fd"))

    class Full:
        def write(self, _entry: Mapping[str, Any]) -> None:  # Any: JSON values
            raise StorageFailed("the disk is full")

    served.live.guard.audit = Full()
    statuses = {served.get(url).status for _ in range(5)}

    assert {503} == statuses
    gc.collect()
    assert before >= len(os.listdir("/proc/self/fd"))  # fewer where more of what tests before left is closed by now
