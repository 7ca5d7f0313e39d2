"""Changes beside a writer that commits all the while, on a store over a network: they get their turn or say why not."""

from __future__ import annotations

import pytest

from deltacli.changing import commit as committing
from deltacli.changing.log_cache import cache_log_files
from deltacli.changing.rechecks import require_still_newest
from deltacli.core.errors import ConflictLost, Refused
from deltacli.table.find_log import list_log
from tests.support.actions import commit_info, metadata, protocol
from tests.support.builder import TableBuilder, commit_path
from tests.support.busy import BusyStorage
from tests.support.restoring import Restoring, append

VERSIONS = 40


def busy(commits_a_second: int) -> BusyStorage:
    """A table of forty commits without a checkpoint, each with a file."""
    builder = TableBuilder().commit(commit_info(), protocol(), metadata())
    for number in range(1, VERSIONS):
        append(builder, f"f{number}")
    Restoring(builder)
    return BusyStorage(builder.in_memory(), every=1 / commits_a_second, first_version=VERSIONS)


@pytest.mark.parametrize("commits_a_second", [1, 10])
def test_a_restore_gets_its_turn_and_reads_each_commit_of_others_once(commits_a_second: int) -> None:
    storage = busy(commits_a_second)
    began = storage.now

    done = storage.table.restore(version=20, trust_listing=True)

    assert storage.now - began < 10
    version = done.committed_version or 0
    assert {1} == {storage.reads[commit_path(number)] for number in range(VERSIONS, version)}
    live = storage.table.snapshot(version=version).files()
    assert {f"f{number}" for number in range(1, 21)} == {
        path for one in live for path in one.column("path").to_pylist()
    }


@pytest.mark.parametrize("left", ["checkpoint", "checksum", "compaction"])
def test_a_version_that_was_made_and_lost_since_is_not_made_again(left: str) -> None:
    builder = TableBuilder().commit(commit_info(), protocol(), metadata()).commits(3)
    name = {"checkpoint": "{:020d}.checkpoint.parquet", "checksum": "{:020d}.crc"}.get(
        left, f"{builder.newest:020d}.{{:020d}}.compacted.json"
    )
    newest = builder.newest
    storage = builder.in_memory()
    (past,) = [one for one in list_log(storage).commits.values() if one.version == newest]
    require_still_newest(storage, past)

    storage.put(f"_delta_log/{name.format(newest + 1)}", b"{}")
    with pytest.raises(Refused, match="seem to be lost"):
        require_still_newest(storage, past)
    storage.put(commit_path(newest + 1), b"{}")
    require_still_newest(storage, past)  # a commit that is there is found when its number is taken


def test_a_remembered_file_is_forgotten_where_a_listing_shows_another_and_has_its_own_tag() -> None:
    storage, path = busy(1), commit_path(3)
    known = cache_log_files(storage.table).storage
    first, opened = known.read(path), known.open(path)
    tag = known.tag(path, opened)

    storage.put(path, first + b"\n", modified_ms=7)
    remembered = known.read(path), known.open(path).read(), known.tag(path, opened)
    list(known.list_from("_delta_log"))

    assert (first, first, tag) == remembered
    assert first + b"\n" == known.read(path) == known.open(path).read()


def test_a_log_that_is_too_busy_ends_it_after_some_time_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "MAX_RETRY_SECONDS", 3.0)
    storage = busy(100)

    with pytest.raises(ConflictLost) as lost:
        storage.table.set_properties({"delta.checkpointInterval": "20"})

    assert 3 < storage.now - 1000 < 5
    assert {"versions tried", "last lost to", "next"} == set(lost.value.facts)
    assert lost.value.facts["versions tried"].endswith("in 3 s")
