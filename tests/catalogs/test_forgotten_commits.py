"""Commits that a catalog has forgotten: readers say so, and the same staged file is proposed again."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from deltacli.core.errors import DeltacliError, PartlyDone, Refused
from deltacli.table.rebuild import read_snapshot
from tests.support.actions import add, metadata, to_bytes
from tests.support.builder import commit_path
from tests.support.catalog_state import Fault
from tests.support.managed_tables import (
    PROPERTIES,
    TAG,
    ManagedTable,
    managed_birth,
    managed_lines,
    paths_of,
    proposed,
    rewritten,
    stamp_of,
)

NOW_MS = stamp_of(20)


def forgetting(*forgotten: int) -> ManagedTable:
    """A table whose versions up to the last forgotten one are staged and published; the catalog lacks the last ones."""
    newest = max(forgotten)
    table = ManagedTable(range(newest + 1), range(1, newest + 1))
    table.now.rows = [row for row in table.now.rows if row.version not in forgotten]
    for version in range(newest + 1):
        table.memory.write(f"part-{version:05d}.parquet", b"x" * 100)
    return table


def staged_path(version: int) -> str:
    return f"_delta_log/_staged_commits/{version:020d}.{TAG}.json"


def test_a_reader_says_which_version_is_left_out_once() -> None:
    table = forgetting(3)
    opened, _ = table.open()

    versions = [opened.snapshot().version for _ in range(3)]

    assert versions == [2, 2, 2]
    assert len([note for note in table.notes if "version 3 is published" in note]) == 1


def test_a_version_that_is_ratified_and_published_meanwhile_is_read_without_a_note() -> None:
    table = ManagedTable(range(4), range(1, 4))
    ratified = table.now.rows.pop()
    opened, catalog = table.open()
    catalog.before = lambda what: table.now.rows.append(ratified) if what == "load" else None

    assert opened.snapshot().version == 3
    assert [note for note in table.notes if "left out" in note] == []


@pytest.mark.parametrize("forgotten", [(3,), (3, 4, 5)])
def test_a_publication_proposes_the_same_staged_file_again(forgotten: tuple[int, ...]) -> None:
    table = forgetting(*forgotten)
    opened, catalog = table.open()

    plan = opened.plan_publish_catalog()
    done = opened.publish_catalog()

    assert tuple(item.version for item in plan.items if item.is_forgotten) == forgotten
    assert done.published == (1, 2, *forgotten)
    assert done.reported == forgotten[-1]
    commits = [proposed(body)["add-commit"]["commit"] for body in catalog.bodies]
    assert [(commit["version"], commit["file-name"]) for commit in commits] == [
        (version, staged_path(version).rpartition("/")[2]) for version in forgotten
    ]
    assert [table.store.read(commit_path(version)) for version in forgotten] == [
        table.commits[version] for version in forgotten
    ]
    opened, _ = table.open()
    assert opened.set_properties({"owner": "me"}).committed_version == forgotten[-1] + 1
    assert len(paths_of(read_snapshot(opened))) == forgotten[-1] + 1


def test_a_commit_that_changes_metadata_tells_the_catalog_so() -> None:
    table = forgetting(3)
    changed = metadata(configuration={**PROPERTIES, "owner": "me"})
    changed["metaData"]["id"] = managed_birth()[1]["metaData"]["id"]
    data = to_bytes(managed_lines(3, changed))
    for path in (staged_path(3), commit_path(3)):
        table.memory.write(path, data)
    opened, catalog = table.open()

    opened.publish_catalog()

    assert proposed(catalog.bodies[0])["set-properties"] == {"action": "set-properties", "updates": {"owner": "me"}}
    assert table.now.properties["owner"] == "me"


def test_a_dry_run_and_a_status_change_nothing_and_name_the_way_back() -> None:
    table = forgetting(3)
    opened, catalog = table.open()

    status = opened.status_catalog()
    opened.publish_catalog(dry_run=True)
    (finding,) = [
        finding for finding in table.open(now_ms=NOW_MS)[0].validate().findings if finding.rule.id == "catalog.diverged"
    ]

    assert (status.proposable, status.agrees) == ((3,), False)
    assert any("catalog publish" in note and staged_path(3) in note for note in status.notes)
    assert ("catalog publish" in finding.rule.fix.repair, finding.rule.fix.loss) == (True, "nothing")
    assert (catalog.bodies, table.now.latest) == ([], 2)


def lost_staged_file(table: ManagedTable) -> None:
    list(table.memory.delete_many([staged_path(3)]))


def other_staged_file(table: ManagedTable) -> None:
    table.memory.write(staged_path(3), rewritten(table.commits[3]))


def missing_data_file(table: ManagedTable) -> None:
    list(table.memory.delete_many(["part-00003.parquet"]))


def missing_vector(table: ManagedTable) -> None:
    descriptor = {"storageType": "u", "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA", "sizeInBytes": 3, "cardinality": 1}
    data = to_bytes(managed_lines(3, add("part-00003.parquet", size=100, records=100, deletionVector=descriptor)))
    for path in (staged_path(3), commit_path(3)):
        table.memory.write(path, data)


def without_id(table: ManagedTable) -> None:
    info, *lines = [json.loads(line) for line in table.commits[3].splitlines()]
    del info["commitInfo"]["txnId"]
    for path in (staged_path(3), commit_path(3)):
        table.memory.write(path, to_bytes([info, *lines]))


def without_an_end(table: ManagedTable) -> None:
    for path in (staged_path(3), commit_path(3)):
        table.memory.write(path, table.commits[3].removesuffix(b"\n"))


OBSTACLES: dict[str, Callable[[ManagedTable], None]] = {
    "no staged file": lost_staged_file,
    "other lines": other_staged_file,
    "a data file is missing": missing_data_file,
    "a deletion vector is missing": missing_vector,
    "no transaction id": without_id,
    "the last line has no end": without_an_end,
}


@pytest.mark.parametrize("case", OBSTACLES)
def test_what_cannot_be_proposed_is_said_and_never_sent(case: str) -> None:
    table = forgetting(3, 4)
    OBSTACLES[case](table)
    opened, catalog = table.open()

    status = opened.status_catalog()
    done = opened.publish_catalog()

    assert status.proposable == ()
    assert len([note for note in status.notes if "cannot be proposed again" in note]) == 2
    assert (done.published, catalog.bodies, table.now.latest) == ((1, 2), [], 2)


def test_a_gap_between_the_catalog_and_the_published_version_is_an_obstacle() -> None:
    table = forgetting(3, 4)
    list(table.memory.delete_many([commit_path(3)]))
    opened, catalog = table.open()

    assert opened.status_catalog().proposable == ()
    assert any("an earlier version is missing" in note for note in opened.status_catalog().notes)
    assert catalog.bodies == []


def test_another_commit_that_was_ratified_meanwhile_wins() -> None:
    table = forgetting(3)
    opened, catalog = table.open()
    plan = opened.plan_publish_catalog()
    # Another client commits its own version 3 while the question is open; it does not look at the log.
    other = rewritten(table.commits[3])
    row_source = ManagedTable(range(3), range(1, 3))
    row_source.stage(3, other, "other", ratified=True)
    table.memory.write(f"_delta_log/_staged_commits/{3:020d}.other.json", other)
    table.now.rows.append(row_source.server.rows[-1])

    with pytest.raises(PartlyDone) as raised:
        opened.execute_publish_catalog(plan)

    assert raised.value.code == "catalog.diverged"
    assert catalog.bodies == []


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.UNKNOWN_DONE])
def test_a_lost_answer_is_resolved_by_the_state_of_the_catalog(fault: Fault) -> None:
    table = forgetting(3)
    faults = iter([fault])
    opened, catalog = table.open()
    catalog.decide = lambda what: next(faults, None) if what == "ratify" else None

    try:
        opened.publish_catalog()
    except DeltacliError:
        catalog.decide = lambda _: None
        table.open()[0].publish_catalog()

    assert (table.now.latest, table.open()[0].snapshot().version) == (3, 3)
    assert {proposed(body)["add-commit"]["commit"]["file-name"] for body in catalog.bodies} == {
        staged_path(3).rpartition("/")[2]
    }


def test_a_change_is_refused_as_long_as_the_catalog_has_forgotten_a_commit() -> None:
    table = forgetting(3)
    opened, _ = table.open()

    with pytest.raises(Refused) as raised:
        opened.set_properties({"owner": "me"})

    assert raised.value.code == "catalog.diverged"
    assert table.now.latest == 2


@pytest.mark.parametrize("log_entries", [True, False])
def test_a_vacuum_keeps_the_files_of_a_forgotten_commit(*, log_entries: bool) -> None:
    table = forgetting(3)
    table.now.operations = ["DATA_CLEANUP"]
    opened, _ = table.open(now_ms=stamp_of(0) + 90 * 86_400_000)

    with pytest.raises(DeltacliError) as raised:
        opened.vacuum(log_entries=log_entries, max_delete="100%")

    assert raised.value.code == "catalog.diverged"
    assert table.memory.read("part-00003.parquet")
