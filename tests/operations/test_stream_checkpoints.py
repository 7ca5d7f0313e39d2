"""Checkpoint directories that change while they are read, what reading one costs, and what a pattern finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import FileMissing, PermissionRefused, Refused, Unreadable
from deltacli.delta.streams import Position
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.streams.checkpoints import (
    StreamCheckpoint,
    Verdict,
    find_checkpoints,
    read_checkpoint,
)
from deltacli.storage import LocalStorage, open_storage
from deltacli.storage.objects.calls import ListedPage
from deltacli.storage.s3.calls import S3Calls
from tests.support.in_memory import MemoryStorage
from tests.support.s3 import Fault, S3Server, says
from tests.support.storage import RecordingStorage
from tests.support.stream_checkpoints import QUERY_ID, checkpoint_files, entry, offset, write_checkpoint

OFFSETS = [offset("T", version) for version in (12, 15, 19)]


class Busy(MemoryStorage):
    """A directory in which something happens before each read."""

    def __init__(self, happens: Callable[[Busy, str], None]) -> None:
        super().__init__("chk")
        self.happens = happens
        for path, data in checkpoint_files(OFFSETS).items():
            self.write(path, data)

    def read(self, path: str) -> bytes:
        self.happens(self, path)
        return super().read(path)

    def batch(self, number: int) -> None:
        """Finish one more batch, and purge the oldest."""
        self.write(f"offsets/{number}", entry(offset("T", 10 + number)))
        self.write(f"commits/{number}", b"v1\n{}")
        list(self.delete_many([f"{directory}/{number - 3}" for directory in ("offsets", "commits")]))


def _read(storage: MemoryStorage | RecordingStorage) -> StreamCheckpoint:
    found = read_checkpoint("chk", storage)
    assert found is not None
    return found


def _storage(files: dict[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage("chk")
    for path, data in files.items():
        storage.write(path, data)
    return storage


def test_a_directory_costs_two_listings_and_four_reads() -> None:
    storage = RecordingStorage(_storage({**checkpoint_files(OFFSETS), "state/0/0/1.delta": b"", "sources/0/0": b""}))

    found = _read(storage)

    assert {"list_from": 2, "read": 4, "kind_of": 2} == dict(storage.calls)
    assert ["commits/", "offsets/"] == storage.touched("list_from")
    assert ["commits/8", "metadata", "offsets/7", "offsets/8"] == sorted(storage.touched("read"))
    assert (QUERY_ID, 8, 7, 8, True) == (found.query_id, found.newest, found.before, found.batch, found.is_committed)


def test_a_purge_while_it_is_read_leads_to_the_later_batch() -> None:
    def purge(storage: Busy, path: str) -> None:
        if path == "offsets/8" and storage.happens is purge:
            storage.happens = lambda *_: None
            for number in (9, 10, 11):
                storage.batch(number)

    found = _read(Busy(purge))

    assert (11, Verdict.OK) == (found.newest, found.finding.verdict)
    (source,) = found.sources
    assert isinstance(source.start, Position)
    assert isinstance(source.end, Position)
    assert (20, 21) == (source.start.version, source.end.version)


def test_a_directory_that_never_rests_is_unknown() -> None:
    def vanish(_: Busy, path: str) -> None:
        if path.startswith("offsets/"):
            raise FileMissing(path)

    assert Verdict.UNKNOWN == _read(Busy(vanish)).finding.verdict


def test_a_batch_that_ends_between_the_listings_counts_as_unfinished() -> None:
    class Ending(MemoryStorage):
        def list_from(self, directory: str, start: str = "") -> object:  # type: ignore[override]
            if directory == "offsets":
                self.write("offsets/9", entry(offset("T", 20)))
                self.write("commits/9", b"v1\n{}")
            return super().list_from(directory, start)

    storage = Ending("chk")
    for path, data in checkpoint_files(OFFSETS).items():
        storage.write(path, data)

    found = _read(storage)

    assert (9, False, 8) == (found.newest, found.is_committed, found.batch)


def test_a_directory_that_may_not_be_read_is_unknown_and_still_named() -> None:
    def refuse(_: Busy, path: str) -> None:
        raise PermissionRefused(f"{path}: access denied")

    found = _read(Busy(refuse))

    assert (Verdict.UNKNOWN, "chk", ()) == (found.finding.verdict, found.name, found.sources)
    assert found.is_named("memory://chk")


@pytest.mark.parametrize(
    ("change", "verdict", "because"),
    [
        ({"metadata": None}, Verdict.UNKNOWN, "metadata"),
        ({"metadata": b"{"}, Verdict.DEAD, "metadata"),
        ({"offsets/8": b""}, Verdict.DEAD, "offsets/8 cannot be read: it is empty"),
        ({"offsets/7": b"v1\n{}"}, Verdict.DEAD, "offsets/7"),
        ({"offsets/6": b"?"}, Verdict.OK, ""),
        ({"offsets/7": None}, Verdict.AT_RISK, "async progress"),
        ({"offsets/7": None, "offsets/6": None}, Verdict.DEAD, "offsets/7 is missing"),
        ({"commits/9": b""}, Verdict.DEAD, "commits/9 has no offsets/9"),
        ({"offsets/8": entry(OFFSETS[2], OFFSETS[2])}, Verdict.DEAD, "2"),
        ({"offsets/8": b"v9\n{}\n{}"}, Verdict.UNKNOWN, "v9"),
        ({"offsets/.9.tmp": b"", "offsets/.8.crc": b"", "offsets/999/a": b""}, Verdict.OK, ""),
    ],
)
def test_damages_of_a_directory(change: dict[str, bytes | None], verdict: Verdict, because: str) -> None:
    files = {**checkpoint_files(OFFSETS), **change}

    found = _read(_storage({path: data for path, data in files.items() if data is not None}))

    assert verdict == found.finding.verdict
    assert because in found.finding.because


@pytest.mark.parametrize(
    ("content", "verdict", "because"),
    [
        (b"", Verdict.DEAD, "commits/8 cannot be read: it is empty. Once commits/8 and commits/.8.crc are deleted"),
        (b'v1\n{"next', Verdict.DEAD, "commits/8 cannot be read: its second line is not JSON"),
        (b"\0\0\0", Verdict.DEAD, "commits/8 cannot be read: it does not begin with a format"),
        (b"v9\n{}", Verdict.UNKNOWN, "commits/8 cannot be read: its format, v9, is not known"),
    ],
)
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_batch_counts_as_unfinished_while_its_commit_file_cannot_be_read(
    content: bytes, verdict: Verdict, because: str, *, is_in_flight: bool
) -> None:
    """Spark reads the newest commit file at every start, also while a later batch is in flight."""
    files = {**checkpoint_files(OFFSETS), "commits/8": content}
    if is_in_flight:
        files["offsets/9"] = files["offsets/8"]

    found = _read(_storage(files))

    assert (verdict, False) == (found.finding.verdict, found.is_committed)
    assert found.batch == (8 if is_in_flight else 7)
    assert found.finding.because.startswith(because)
    newest = 9 if is_in_flight else 8
    assert found.finding.because.endswith(f"a restart runs batch {newest} again") == (verdict is Verdict.DEAD)


def test_in_an_object_store_no_checksum_file_has_to_be_deleted(s3: S3Server) -> None:
    root = _put(s3, {"chk": {**checkpoint_files(OFFSETS), "commits/8": b""}})

    (found,) = _together(f"{root}/chk")

    assert "Once commits/8 is deleted, a restart runs batch 8 again" in found.finding.because


def test_an_older_commit_file_is_not_read() -> None:
    found = _read(_storage({**checkpoint_files(OFFSETS), "commits/7": b""}))

    assert (Verdict.OK, True) == (found.finding.verdict, found.is_committed)


@pytest.mark.parametrize(
    ("commit", "is_committed", "because"),
    [
        ({"commits/08": b"v1\n{}"}, False, "Spark looks for commits/8, not commits/08"),
        ({"commits/8/x": b""}, False, "commits/8 is a directory"),
        ({"commits/.8.0a0a.tmp": b""}, False, ""),
        ({"commits/8": b"v1", "commits/.9.0a0a.tmp": b""}, True, ""),
    ],
)
def test_what_is_not_a_commit_file_finishes_no_batch(
    commit: dict[str, bytes], is_committed: bool, because: str
) -> None:
    files = checkpoint_files(OFFSETS)
    del files["commits/8"]

    found = _read(_storage({**files, **commit}))

    assert (Verdict.DEAD if because else Verdict.OK, is_committed) == (found.finding.verdict, found.is_committed)
    assert because in found.finding.because


def test_a_commit_file_that_is_purged_while_it_is_read_leads_to_the_later_batch() -> None:
    def purge(storage: Busy, path: str) -> None:
        if path == "commits/8":
            storage.happens = lambda *_: None
            for number in (9, 10, 11):
                storage.batch(number)

    found = _read(Busy(purge))

    assert (11, True, Verdict.OK) == (found.newest, found.is_committed, found.finding.verdict)


def test_a_pattern_finds_checkpoints_at_any_depth_and_enters_none(tmp_path: Path) -> None:
    for name in ("a/orders", "a/totals", "b"):
        write_checkpoint(tmp_path / name, OFFSETS)
    write_checkpoint(tmp_path / "b" / "state" / "inner", OFFSETS)
    (tmp_path / "a" / "notes").mkdir()

    def names(*patterns: str) -> list[str]:
        found = find_checkpoints([str(tmp_path / one) for one in patterns], LocalStorage, EmbeddedEngine())
        return [str(Path(one.name).relative_to(tmp_path)) for one in found]

    assert ["a/orders", "a/totals"] == names("a/*")
    assert ["a/orders", "a/totals", "b"] == names("**")
    assert ["b", "a/orders"] == names("b", "*/ord*", "b")
    with pytest.raises(Refused, match="no checkpoint") as refusal:
        names("b", "a/n*")
    assert ("streams.none-found", 4) == (refusal.value.code, refusal.value.exit_code)
    with pytest.raises(Unreadable, match="not a checkpoint"):
        names("a")


# -- many directories, which pages of all keys list --------------------------------------------------------------------


def _put(s3: S3Server, directories: Mapping[str, Mapping[str, bytes]]) -> str:
    """Put directories into a bucket, and return its address."""
    bucket = s3.make_bucket()
    for number, (name, files) in enumerate(directories.items()):
        for path, data in files.items():
            s3.put(bucket, f"{name}/{path}", data, 1_700_000_000_000 + number * 1_000)
    return f"s3://{bucket}"


def _many(more: Mapping[str, Mapping[str, bytes]] | None = None) -> dict[str, Mapping[str, bytes]]:
    """So many directories that they are listed together, and others among them."""
    return {f"chk/q{number}": checkpoint_files(OFFSETS) for number in range(20)} | dict(more or {})


def _together(*patterns: str) -> list[StreamCheckpoint]:
    return find_checkpoints(patterns, open_storage, EmbeddedEngine())


def _listed_alone(s3: S3Server) -> list[str]:
    """The directories whose commits or offsets were listed, once for each."""
    prefixes = [query["prefix"][0] for _, _, query in s3.requests if "list-type" in query]
    return sorted(one.rsplit("/", 2)[0] for one in prefixes if one.endswith(("/commits/", "/offsets/")))


_PAGE = 3
"""The first page of all keys, after a look for something of the name of the pattern, and for what matches."""
_LATER = {"offsets/10": entry(OFFSETS[2]), "commits/10": b"v1\n{}"}
_OF_ALL_KINDS: Mapping[str, Mapping[str, bytes]] = {
    "chk/never-ran": {"metadata": b'{"id":"q"}'},
    "chk/unfinished": checkpoint_files(OFFSETS, is_committed=False),
    "chk/without-metadata": {"offsets/0": entry(OFFSETS[0])},
    "chk/commit-ahead": {**checkpoint_files(OFFSETS), "commits/9": b""},
    "chk/two-digits": checkpoint_files(OFFSETS, first=9),
    "chk/gap": {**checkpoint_files(OFFSETS), **_LATER},
    "chk/cut": {**checkpoint_files(OFFSETS), "offsets/8": b""},
    "chk/commit-cut": {**checkpoint_files(OFFSETS), "commits/8": b""},
    "chk/odd-names": {
        **checkpoint_files(OFFSETS),
        "offsets/.9.tmp": b"",
        "offsets/99/a": b"",
        "offsets/": b"",
        "/": b"",
    },
    "chk/only-offsets": {path: data for path, data in checkpoint_files(OFFSETS).items() if "commits" not in path},
    "chk/q1-more": checkpoint_files(OFFSETS),
    "chk/q1.more": checkpoint_files(OFFSETS),
    "chk/é\U0001f600": checkpoint_files(OFFSETS),
    "chk/é\ufb00": checkpoint_files(OFFSETS),
    "chk/q%20 2": checkpoint_files(OFFSETS),
    "chk/offsets/own": checkpoint_files(OFFSETS),
    "chk/table/_delta_log": {f"{number:020}.json": b"{}" for number in range(30)},
    "chk/group/inner": checkpoint_files(OFFSETS),
    "chk/group": checkpoint_files(OFFSETS),
    "chk/large": {**checkpoint_files(OFFSETS), **{f"state/0/{number}/1.delta": b"" for number in range(300)}},
    "chk/many-batches": checkpoint_files([OFFSETS[0]] * 300, first=0),
}

_NONE = ("chk/offsets", "chk/table")


@pytest.mark.quartered
@pytest.mark.parametrize(
    ("pattern", "keys", "fewest"),
    [("chk/*", 0, 16), ("chk/*", 7, 1), ("chk/*", 40, 2), ("**", 200, 16), ("*/[q-u]*", 30, 1), ("chk/*/*", 25, 1)],
)
def test_directories_listed_together_are_read_as_each_alone(
    pattern: str, keys: int, fewest: int, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, pages = S3Calls.page, 0

    def small_page(self: S3Calls, prefix: str, delimiter: str, token: str, start: str, limit: int) -> ListedPage:
        nonlocal pages
        pages += not delimiter and not limit
        return page(self, prefix, delimiter, token, start, limit or (0 if delimiter else keys))

    root = _put(s3, _many(_OF_ALL_KINDS) | {f"chk/group/{number}": checkpoint_files(OFFSETS) for number in range(20)})
    monkeypatch.setattr(S3Calls, "page", small_page)
    monkeypatch.setattr("deltacli.operations.streams.checkpoints._FEWEST", fewest)

    found = _together(f"{root}/{pattern}")

    assert [read_checkpoint(one.name, one.storage) for one in found] == found
    assert pages > 1 or not keys
    assert len(found) >= 20
    if pattern == "chk/*":
        names = [name for name in _many(_OF_ALL_KINDS) if name not in _NONE and name.count("/") == 1]
        assert sorted(f"{root}/{name}" for name in names) == [one.name for one in found]


def test_a_batch_purged_after_the_page_leads_to_the_later_one(s3: S3Server) -> None:
    root = _put(s3, _many())
    bucket = root.removeprefix("s3://")

    def purge(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        for path, data in checkpoint_files(OFFSETS, first=7).items():
            server.put(bucket, f"chk/q3/{path}", data)
        for path in ("offsets/6", "commits/6", "offsets/7", "commits/7"):
            open_storage(root).delete_many([f"chk/q3/{path}"])
        return server.answer(environ, start_response)

    s3.fail("GET", "chk/q3/offsets/8", purge)

    found = {one.name: one for one in _together(f"{root}/chk/*")}

    assert {Verdict.OK} == {one.finding.verdict for one in found.values()}


def test_a_page_is_not_believed_where_a_commit_is_ahead_or_a_directory_has_no_batch(s3: S3Server) -> None:
    """Because a store may look for the keys of a page at several moments, or list them in another order."""
    root = _put(s3, _many())

    def without_some(server: S3Server, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        said = b"".join(server.answer(environ, lambda *_: None)).decode()
        start_response("200 OK", [("Content-Type", "application/xml")])
        return [re.sub(r"<Contents><Key>chk/(q3/offsets/8|q5/[^<]*)</Key>.*?</Contents>", "", said).encode()]

    s3.fail_at(_PAGE, without_some)

    found = _together(f"{root}/chk/*")

    assert [(8, True, Verdict.OK)] * 20 == [(one.newest, one.is_committed, one.finding.verdict) for one in found]
    assert ["chk/q3", "chk/q3", "chk/q5", "chk/q5"] == _listed_alone(s3)


@pytest.mark.parametrize("fault", [says("403 FORBIDDEN", "AccessDenied"), says("400 BAD REQUEST", "InvalidArgument")])
def test_where_pages_of_all_keys_are_refused_each_directory_is_listed(fault: Fault, s3: S3Server) -> None:
    root = _put(s3, _many())
    s3.fail_at(_PAGE, fault)

    assert 20 == len(_together(f"{root}/chk/*"))
    assert 2 * 20 == len(_listed_alone(s3))


def test_a_later_look_lists_anew(s3: S3Server) -> None:
    root = _put(s3, _many())
    before = _together(f"{root}/chk/*")
    for path, data in checkpoint_files(OFFSETS, first=8).items():
        s3.put(root.removeprefix("s3://"), f"chk/q7/{path}", data)

    after = _together(f"{root}/chk/*")

    assert {8} == {one.newest for one in before}
    assert [10 if one.name.endswith("/q7") else 8 for one in after] == [one.newest for one in after]
