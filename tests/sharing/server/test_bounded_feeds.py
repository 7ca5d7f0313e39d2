"""Change feeds that do not fit into what an answer may hold, and logs that grow and shrink between requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.core.errors import CommitCorrupt
from deltacli.sharing.protocol.parameters import WireError
from deltacli.sharing.server.table_answers import RecentRanges
from deltacli.sharing.tables import changes
from deltacli.sharing.tables import snapshots as snapshots_module
from deltacli.sharing.tables.changes import first_version_since, read_changes
from deltacli.sharing.tables.snapshots import SharedSnapshots
from deltacli.storage import Created
from deltacli.table.handle import TableHandle
from deltacli.work.commits import reading
from tests.sharing.served import DELTA, Served, shared
from tests.support.actions import add, metadata, protocol, remove
from tests.support.builder import EPOCH_MS, TableBuilder, commit_path
from tests.support.faulty import FaultyStorage

FEED = {"delta.enableChangeDataFeed": "true"}


def _grown(commits: int, files: int) -> TableBuilder:
    """A table whose versions replace all of their files."""
    table = TableBuilder().commit(protocol(1, 4), metadata(configuration=FEED))
    for version in range(1, commits):
        gone = (remove(f"{version - 1}-{number}", dataChange=True) for number in range(files if version > 1 else 0))
        table.commit(*gone, *(add(f"{version}-{number}", size=1) for number in range(files)))
    return table


@pytest.mark.parametrize("large", [1 << 40, 1], ids=["whole commits", "commits in blocks"])
def test_a_feed_is_the_same_whatever_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    served = Served((shared(_grown(6, 40).write(tmp_path / "t")),))
    whole = served.table("/changes?startingVersion=0", delta_sharing_capabilities=DELTA)

    monkeypatch.setattr(changes, "HELD_BYTES", 0)
    monkeypatch.setattr(changes, "ROWS_A_BATCH", 7)
    monkeypatch.setattr(reading, "LARGE_COMMIT_BYTES", large)
    again = served.table("/changes?startingVersion=0", delta_sharing_capabilities=DELTA)
    pages = list(_pages(served))

    assert 2 + 9 * 40 == len(whole.lines)
    assert sorted(whole.body.splitlines()) == sorted(again.body.splitlines())
    assert sorted(whole.body.splitlines()[2:]) == sorted(line for page in pages for line in page[2:-1])
    assert {tuple(whole.body.splitlines()[:2])} == {tuple(page[:2]) for page in pages}


def _pages(served: Served) -> Iterator[list[bytes]]:
    token = ""
    while True:
        reply = served.table(f"/changes?startingVersion=0&maxFiles=33{token}", delta_sharing_capabilities=DELTA)
        yield reply.body.splitlines()
        following = reply.lines[-1]["endStreamAction"].get("nextPageToken")
        if following is None:
            return
        token = f"&pageToken={following}"


def test_a_range_holds_a_limited_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "HELD_BYTES", 256 << 10)
    table, snapshots = shared(_grown(60, 100).write(tmp_path / "t")), SharedSnapshots()
    before = pa.total_allocated_bytes()

    found = read_changes(snapshots, table, 0, 59, is_feed=True)

    held = [commit for commit in found.commits if commit.held is not None]
    assert 59 * 100 + 58 * 100 == found.file_count
    assert 2 <= len(held) < 30
    assert pa.total_allocated_bytes() - before < 512 << 10


def test_a_commit_that_is_replaced_while_it_is_answered_breaks_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "HELD_BYTES", 0)
    served = Served((shared(_grown(3, 5).write(tmp_path / "t")),))
    read = changes.CommitChanges.batches

    def replaced(commit: changes.CommitChanges) -> Iterator[changes.FileBatch]:
        _grown(3, 6).write(tmp_path / "t")
        return read(commit)

    monkeypatch.setattr(changes.CommitChanges, "batches", replaced)

    told = served.table("/changes?startingVersion=0", delta_sharing_capabilities=f"{DELTA};includeEndStreamAction=true")
    _grown(3, 5).write(tmp_path / "t")
    with pytest.raises(CommitCorrupt, match="was replaced while it was read"):
        served.table("/changes?startingVersion=0", delta_sharing_capabilities=DELTA)

    assert {"errorMessage"} == set(told.lines[-1]["endStreamAction"])


@dataclass
class Grown:
    """A table on a store whose calls are counted, and the clock of the snapshots."""

    table: TableBuilder
    now: float = 0.0
    storage: FaultyStorage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = FaultyStorage(self.table.in_memory())
        self.snapshots = SharedSnapshots(clock=lambda: self.now, open_table=lambda _: TableHandle(self.storage))

    def commit(self) -> None:
        """Write one more version."""
        path = commit_path(len(self.table.states))
        self.table.commit(add(f"new-{path[-9:]}", size=1))
        file = self.table.files[path]
        assert Created() == self.storage.put_if_absent(path, file.data, modified_ms=file.modified_ms)

    def listings(self) -> int:
        """How often the log was listed since the last call."""
        count = sum(verb == "list_from" for verb, _ in self.storage.calls)
        self.storage.calls.clear()
        return count


def test_a_further_page_reads_its_own_commits_only(tmp_path: Path) -> None:
    grown, table, recent = Grown(_grown(20, 3)), shared(tmp_path), RecentRanges()
    first = recent.read(grown.snapshots, table, 0, 19, is_feed=True)
    grown.storage.calls.clear()

    again = recent.read(grown.snapshots, table, 0, 19, is_feed=True)
    files = sum(batch.num_rows for _, batch in again.commits[5].batches())

    reads = [path for verb, path in grown.storage.calls if verb.startswith("read")]
    assert (6, [commit_path(5)]) == (files, reads)
    assert first.file_count == again.file_count


def test_a_range_whose_commits_were_replaced_is_checked_again(tmp_path: Path) -> None:
    grown, table, recent = Grown(_grown(5, 3)), shared(tmp_path), RecentRanges()
    recent.read(grown.snapshots, table, 0, 4, is_feed=True)
    for path, file in _grown(6, 4).files.items():
        grown.storage.put(path, file.data, modified_ms=file.modified_ms)
    grown.now = 2.0

    found = recent.read(grown.snapshots, table, 0, 4, is_feed=True)

    assert 4 * 4 + 3 * 4 == found.file_count


def test_times_of_commits_are_found_without_listing_the_log_again(tmp_path: Path) -> None:
    grown, table = Grown(TableBuilder().commits(30)), shared(tmp_path)
    first = first_version_since(grown.snapshots, table, EPOCH_MS + 5_000)
    listings = [grown.listings()]

    for second in range(1, 4):
        grown.now = float(2 * second)
        grown.commit()
        found = [first_version_since(grown.snapshots, table, EPOCH_MS + at * 1_000) for at in (5, 29 + second)]
        listings.append(grown.listings())
        assert [5, 29 + second] == found

    assert 5 == first
    assert [1, 1, 1] == listings[1:]


def test_older_versions_are_rebuilt_without_listing_the_log_again(tmp_path: Path) -> None:
    grown, table = Grown(TableBuilder().commits(30).checkpoint(20)), shared(tmp_path)
    first = grown.snapshots.at(table, 3)
    grown.listings()

    versions = [grown.snapshots.at(table, version).version for version in (25, 20, 12)]
    changed = read_changes(grown.snapshots, table, 4, 29, is_feed=False)

    assert (3, [25, 20, 12], 4) == (first.version, versions, changed.start.version)
    assert 0 == grown.listings()


def test_whole_logs_are_kept_up_to_a_number_of_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "MOST_COMMITS", 50)
    grown, tables = Grown(TableBuilder().commits(20)), [shared(tmp_path / name, name) for name in "abc"]

    for table in tables:
        grown.snapshots.whole_log(table)
    grown.listings()
    grown.now = 2.0
    listings = []
    for table in reversed(tables):
        grown.snapshots.whole_log(table)
        listings.append(grown.listings())

    assert [1, 1, 2] == listings


def test_a_log_that_was_cleaned_is_listed_again(tmp_path: Path) -> None:
    grown, table = Grown(TableBuilder().commits(30).checkpoint(20)), shared(tmp_path)
    whole = read_changes(grown.snapshots, table, 3, 29, is_feed=False)
    list(grown.storage.delete_many([commit_path(version) for version in range(9, 20)]))

    with pytest.raises(WireError, match="the changes of version 9 are no longer in the log"):
        read_changes(grown.snapshots, table, 3, 29, is_feed=False)

    assert 27 == len(whole.commits)
