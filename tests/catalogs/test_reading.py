"""Tables that a catalog manages as readers see them: cases of the log, of requests, and of files that are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.core.errors import (
    CatalogAnswerInvalid,
    DeltacliError,
    FileMissing,
    LogIncomplete,
    PermissionRefused,
    VersionAbsent,
)
from deltacli.storage import PathKind
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot
from deltacli.table.time_travel import find_snapshot, find_version_at
from tests.support.actions import to_bytes
from tests.support.builder import EPOCH_MS, StoredFile, commit_path
from tests.support.catalog_state import FEATURES, NAME, UUID, MemoryCatalog
from tests.support.in_memory import MemoryStorage
from tests.support.managed_tables import (
    PROPERTIES,
    ManagedTable,
    managed_birth,
    managed_lines,
    quiet_machine,
    rewritten,
    stamp_of,
)


def _rows(table: ManagedTable, **of: Any) -> tuple[int, int]:
    snapshot = find_snapshot(table.open()[0], **of)
    return snapshot.version, snapshot.counts()[0].rows or 0


def test_a_new_table_has_version_0() -> None:
    assert _rows(ManagedTable([0])) == (0, 100)


@pytest.mark.parametrize("order", ["", "ascending", "shuffled"])
def test_commits_that_are_not_published_are_read(order: str) -> None:
    table = ManagedTable([0], [1, 2, 3, 4])
    table.state.order = order
    assert _rows(table) == (4, 500)
    assert _rows(table, version=1) == (1, 200)
    assert _rows(table, version=0) == (0, 100)
    with pytest.raises(VersionAbsent, match="version 5 does not exist; the newest is 4"):
        _rows(table, version=5)


@pytest.mark.parametrize(
    ("at_ms", "version"), [(stamp_of(1) - 1, 0), (stamp_of(1), 1), (stamp_of(2), 2), (stamp_of(2) + 1, 2)]
)
def test_times_are_those_in_the_commits(at_ms: int, version: int) -> None:
    table = ManagedTable([0, 1], [1, 2])
    table.builder.files[commit_path(1)] = StoredFile(table.commits[1], EPOCH_MS * 2)
    assert find_version_at(table.open()[0], at_ms) == version


def test_times_before_in_commit_timestamps_are_those_of_files() -> None:
    since = {
        "delta.inCommitTimestampEnablementVersion": "5",
        "delta.inCommitTimestampEnablementTimestamp": str(stamp_of(5)),
    }
    table = ManagedTable(range(7), [7])
    enabled = managed_lines(5, first=managed_birth(properties=PROPERTIES | since))
    table.builder.files[commit_path(5)] = StoredFile(to_bytes(enabled), EPOCH_MS * 2)
    handle = table.open()[0]
    found = [
        find_version_at(handle, at) for at in (stamp_of(3), stamp_of(5) - 1, stamp_of(5), stamp_of(6), stamp_of(7) + 9)
    ]
    assert found == [3, 4, 5, 6, 7]


def test_the_catalog_wins_over_a_published_file_and_over_staged_ones() -> None:
    table = ManagedTable(range(8), [7, 8, 9])
    table.stage(10, b"{", "bbbb")
    table.stage(10, table.commits[9], "cccc")
    table.builder.files[commit_path(7)] = StoredFile(rewritten(table.commits[7]))
    handle, _ = table.open()
    snapshot = read_snapshot(handle)
    assert (snapshot.version, snapshot.counts()[0].count) == (9, 10)
    assert handle.storage.read(commit_path(7)) == table.commits[7]
    assert {version: file.size_bytes for version, file in snapshot.listing.commits.items()}[7] == len(table.commits[7])


def test_what_is_above_the_latest_version_is_not_there() -> None:
    table = ManagedTable(range(13), latest=11).builder.checkpoint(12).hint(12)
    managed = ManagedTable(range(13), latest=11)
    managed.builder.files |= table.files
    managed.builder.checkpoint(4)
    for name in (f"{12:020d}.crc", f"{11:020d}.{12:020d}.compacted.json"):
        managed.builder.file(f"_delta_log/{name}", b"{}")
    handle, _ = managed.open()
    snapshot = read_snapshot(handle)
    assert (snapshot.version, snapshot.segment.checkpoint.version if snapshot.segment.checkpoint else None) == (11, 4)
    assert snapshot.listing.checksums == ()
    assert snapshot.listing.last_compacted_version == -1
    assert snapshot.problems == ()
    for read in (handle.storage.read, handle.storage.open, handle.storage.stat):
        with pytest.raises(FileMissing):
            read(commit_path(12))
    assert handle.storage.kind_of(commit_path(12)) is PathKind.MISSING


def test_checksums_count_before_publication_and_compactions_do_not() -> None:
    table = ManagedTable(range(5), [5, 6])
    table.builder.file(f"_delta_log/{6:020d}.crc", b"{}")
    table.builder.file(f"_delta_log/{4:020d}.{5:020d}.compacted.json", b"{}")
    table.builder.file(f"_delta_log/{1:020d}.{3:020d}.compacted.json", b"{}")
    listing = list_log(table.open()[0].storage)
    assert (listing.checksums, listing.last_compacted_version) == ((6,), 3)


def test_commits_of_the_catalog_may_lie_below_a_checkpoint() -> None:
    table = ManagedTable([10, 11, 12], [8, 9])
    table.builder.checkpoint(10)
    handle, catalog = _with_answer(table, lambda found: found._replace(latest=12))
    assert read_snapshot(handle).version == 12
    assert catalog.requests == ["load"]


GAP = {10, 11, 12}


def test_a_gap_is_an_error_that_names_the_version() -> None:
    table = _with_gap()
    handle, catalog = table.open()
    with pytest.raises(LogIncomplete, match="commit 13 is missing"):
        read_snapshot(handle)
    assert catalog.requests[:2] == ["load", "load"]


def test_a_gap_heals_when_somebody_publishes_between_the_requests() -> None:
    table = _with_gap()
    handle, catalog = table.open()
    catalog.before = lambda _: table.memory.write(commit_path(13), table.commits[13])
    assert (read_snapshot(handle).version, catalog.requests) == (15, ["load", "load"])


def test_a_publisher_that_is_faster_than_the_listing_costs_one_more_request() -> None:
    table = ManagedTable(range(3), latest=2)
    stale = ManagedTable(range(2), [2])
    handle, catalog = table.open()
    handle.storage.log.take(_answer(stale)._replace(latest=3, commits=()))  # type: ignore[attr-defined]
    assert (read_snapshot(handle).version, catalog.requests) == (2, ["load", "load"])


def test_a_latest_version_that_is_nowhere_is_lost() -> None:
    table = ManagedTable(range(3), latest=5)
    with pytest.raises(LogIncomplete, match="version 5 is lost"):
        read_snapshot(table.open()[0])


def _with_gap() -> ManagedTable:
    table = ManagedTable(GAP, [14, 15])
    table.builder.checkpoint(10)
    return table


BAD = {
    "no name": ("", "not one of a staged commit"),
    "climbs": ("../00000000000000000002.x.json", "not one of a staged commit"),
    "two parts": ("a/00000000000000000002.b.json", "not one of a staged commit"),
    "encoded": ("00000000000000000002.%2e%2e.json", "not one of a staged commit"),
    "of another version": (f"{8:020d}.aaaa.json", "is that of version 8"),
}


@pytest.mark.parametrize("case", BAD)
def test_names_that_lead_elsewhere_are_refused_before_the_store_is_asked(case: str) -> None:
    name, said = BAD[case]
    table = ManagedTable([0], [1, 2])
    table.now.rows[-1].commit["file-name"] = name
    with pytest.raises(CatalogAnswerInvalid, match=said):
        table.open()


CONTRADICTIONS: dict[str, Callable[[Any], Any]] = {
    "twice, the same name": lambda t: t._replace(commits=(*t.commits, t.commits[0])),
    "twice, another name": lambda t: t._replace(
        commits=(*t.commits, t.commits[0]._replace(file_name=f"{1:020d}.bb.json"))
    ),
    "older than the latest": lambda t: t._replace(latest=4),
    "newer than the latest": lambda t: t._replace(latest=2),
    "a hole": lambda t: t._replace(commits=(t.commits[0], t.commits[2])),
    "no latest": lambda t: t._replace(latest=None),
    "latest is text": lambda t: t._replace(latest="3"),
    "latest is negative": lambda t: t._replace(latest=-1, commits=()),
    "latest is too large": lambda t: t._replace(latest=2**63, commits=()),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_answers_that_contradict_themselves_are_errors(case: str) -> None:
    with pytest.raises(CatalogAnswerInvalid):
        read_snapshot(_with_answer(ManagedTable([0], [1, 2, 3]), CONTRADICTIONS[case])[0])


def test_a_read_costs_one_request() -> None:
    handle, catalog = ManagedTable([0], [1, 2]).open()
    find_snapshot(handle, timestamp_ms=stamp_of(1))
    assert catalog.requests == ["load"]


def test_a_later_read_asks_again() -> None:
    table, machine = ManagedTable([0], [1]), quiet_machine()
    handle, catalog = table.open(machine=machine)
    assert read_snapshot(handle).version == 1
    machine.sleep(1.5)
    assert read_snapshot(handle).version == 1
    assert catalog.requests == ["load", "load"]


@pytest.mark.parametrize(("seconds", "requests"), [(4.5, 1), (5.5, 2)])
def test_the_answer_of_the_opening_is_used_for_some_seconds(seconds: float, requests: int) -> None:
    table, machine = ManagedTable([0], [1]), quiet_machine()
    handle, catalog = table.open(machine=machine)
    machine.sleep(seconds)
    assert (read_snapshot(handle).version, len(catalog.requests)) == (1, requests)


def test_a_table_that_is_changed_is_asked_for_at_each_listing() -> None:
    handle, catalog = ManagedTable([0], [1]).open()
    held = handle.bind_to_directory()
    assert [read_snapshot(held).version for _ in range(3)] == [1, 1, 1]
    assert catalog.requests == ["load"] * 3


# -- a staged file that is gone ----------------------------------------------------------------------------------------


def test_a_commit_that_was_published_meanwhile_is_read_there() -> None:
    table = ManagedTable([0], [1])
    handle, _ = table.open()
    _publish_behind(table)
    assert read_snapshot(handle).version == 1
    assert table.notes == []


def _publish_behind(table: ManagedTable) -> None:
    table.memory.write(commit_path(1), table.commits[1], modified_ms=7)
    list(table.memory.delete_many([f"_delta_log/_staged_commits/{table.now.rows[0].file_name}"]))
    table.now.rows[0].is_backfilled = True


def test_a_staged_file_that_is_gone_with_a_published_one_of_its_size_is_a_note() -> None:
    table = ManagedTable([0], [1])
    handle, _ = table.open()
    _publish_behind(table)
    table.now.rows[0].is_backfilled = False
    assert read_snapshot(handle).version == 1
    said = "the staged file of version 1 is gone, although the catalog holds it"
    assert table.notes == [f"{said}: the published one, of the same size, is read"]


@pytest.mark.parametrize("published", [None, b"{}\n"])
def test_a_staged_file_that_is_gone_without_one_is_an_error(published: bytes | None) -> None:
    table = ManagedTable([0], [1])
    handle, _ = table.open()
    list(table.memory.delete_many([f"_delta_log/_staged_commits/{table.now.rows[0].file_name}"]))
    if published is not None:
        table.memory.write(commit_path(1), published)
    with pytest.raises(DeltacliError, match=r"version 1 is (lost|gone)"):
        read_snapshot(handle)


class Denying(MemoryStorage):
    """A store that denies access to files that are missing, as S3 does with credentials for a prefix."""

    def _get(self, path: str) -> tuple[bytes, int]:
        try:
            return super()._get(path)
        except FileMissing as missing:
            raise PermissionRefused("access denied") from missing


def test_a_store_that_denies_what_is_missing_is_no_other_store() -> None:
    table = ManagedTable([0], [1, 2], store=Denying())
    handle, catalog = table.open()
    store = table.store
    list(store.delete_many([f"_delta_log/_staged_commits/{table.now.rows[0].file_name}"]))
    store.put(commit_path(1), table.commits[1])
    assert read_snapshot(handle).version == 2
    assert len(table.notes) == 1
    healthy = ManagedTable([0], [1, 2], store=Denying())
    opened, catalog = healthy.open()
    assert opened.publish_catalog().published == (1, 2)
    assert catalog.reported == [2]


def test_the_hint_of_a_gap_names_what_works_on_a_table_of_a_catalog() -> None:
    table = ManagedTable([0, 1, 2, 3], [4])
    list(table.store.delete_many([commit_path(2)]))

    with pytest.raises(LogIncomplete) as raised:
        read_snapshot(table.open()[0])

    assert raised.value.code == "log.gap"
    hint = str(raised.value.hint)
    assert hint.startswith("deltacli snapshot")
    assert "--version 1   # or see what the catalog has: deltacli catalog status" in hint


@pytest.mark.parametrize("by", [-1, 1])
def test_another_size_than_the_catalog_has_is_an_error(by: int) -> None:
    table = ManagedTable([0], [1])
    table.now.rows[0].commit["file-size"] += by
    with pytest.raises(DeltacliError) as raised:
        read_snapshot(table.open()[0])
    assert raised.value.exit_code == 3


def test_versions_stay_the_same_files_when_they_are_published() -> None:
    table = ManagedTable([0], [1])
    handle, _ = table.open()
    before = list_log(handle.storage).commits[1]
    table.memory.write(commit_path(1), table.commits[1], modified_ms=7)
    table.now.rows[0].is_backfilled = True
    handle = handle.bind_to_directory()
    assert list_log(handle.storage).commits[1] == before
    assert handle.storage.stat(commit_path(1)).modified_ms == before.modified_ms


def _answer(table: ManagedTable) -> Any:
    return table.catalog().load(NAME)


def _with_answer(table: ManagedTable, change: Callable[[Any], Any]) -> tuple[Any, MemoryCatalog]:
    catalog = table.catalog()
    load = catalog.load
    catalog.load = lambda name: change(load(name))  # type: ignore[method-assign]
    return table.open(catalog)


def test_the_table_of_tests_is_as_the_contract_says() -> None:
    snapshot = read_snapshot(ManagedTable([0]).open()[0])
    assert {*FEATURES} <= snapshot.protocol.supported_features
    assert snapshot.properties["io.unitycatalog.tableId"] == UUID
