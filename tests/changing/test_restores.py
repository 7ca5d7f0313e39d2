"""Vacuums while a restore waits: for a person, or for other writers. Nothing is committed whose files are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.changing import execution
from deltacli.changing.change import execute_change, plan_change
from deltacli.changing.consent import Consent, consent_to_command, consent_to_plan
from deltacli.changing.plan import Plan
from deltacli.core.errors import ConflictLost, DeltacliError, Refused
from deltacli.core.machine import Machine
from deltacli.operations.optimize.execute import Optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.operations.restore import restore as execute
from deltacli.operations.restore.restore import Restore, RestoreRequest
from deltacli.storage import Storage
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot
from tests.changing.test_rewrites import FarStorage
from tests.support.actions import Line, add, commit_info, remove, to_bytes
from tests.support.builder import commit_path
from tests.support.committing import commits
from tests.support.optimizing import Ids
from tests.support.reading import NOW_MS, open_at

Event = Callable[[Storage], object]
CHANGE = Restore(RestoreRequest(version=1))


@pytest.fixture(params=["near", "far"])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Version 1 has a and b, version 2 only b."""
    ids = Ids().append("a", "b")
    ids.builder.commit(commit_info("DELETE"), remove("a", partitionValues={"p": "0"}, extendedFileMetadata=True))
    near = ids.builder.in_memory()
    if request.param == "near":
        return near
    storage = FarStorage()
    storage._files = near._files
    return storage


def commit(storage: Storage, version: int, *lines: Line) -> None:
    storage.put(commit_path(version), to_bytes([*lines]))


def quiet_vacuum(storage: Storage) -> None:
    """Without entries in the log."""
    list(storage.delete_many(["a"]))


def vacuum(storage: Storage) -> None:
    commit(storage, 3, commit_info("VACUUM START"))
    quiet_vacuum(storage)


def append(storage: Storage) -> None:
    commit(storage, 3, commit_info("WRITE"), add("x", size=1, records=1, partition_values={"p": "0"}))


def vacuum_behind_an_append(storage: Storage) -> None:
    append(storage)
    commit(storage, 4, commit_info("VACUUM START"))
    quiet_vacuum(storage)


def vacuum_of_others(storage: Storage) -> None:
    """It deletes nothing that the restore needs."""
    commit(storage, 3, commit_info("VACUUM START"))
    commit(storage, 4, commit_info("VACUUM END"))


def restore(storage: Storage, event: Event, consent: Callable[[Plan], Consent]) -> Any:
    def ask(plan: Plan) -> Consent:
        event(storage)
        return consent(plan)

    table = open_at(storage)
    return execute_change(CHANGE, table, plan=plan_change(CHANGE, table), ask=ask)


@pytest.mark.parametrize("consent", [consent_to_plan, consent_to_command])
@pytest.mark.parametrize("event", [quiet_vacuum, vacuum, vacuum_behind_an_append])
def test_files_that_a_vacuum_deletes_at_the_prompt_are_not_committed(
    storage: Storage, event: Event, consent: Callable[[Plan], Consent], monkeypatch: pytest.MonkeyPatch
) -> None:
    if event is quiet_vacuum and consent is consent_to_command:
        monkeypatch.setattr(execute, "MAX_FILE_CHECK_AGE_SECONDS", -1.0)  # a minute has gone by

    with pytest.raises(DeltacliError) as ended:
        restore(storage, event, consent)

    assert (Refused, "restore.file-missing") == (type(ended.value), ended.value.code)
    assert "a (missing: no such file)" == ended.value.facts["file 1"]
    assert not any("RESTORE" == action.get("operation") for lines in commits(storage) for _, action in lines)


@pytest.mark.parametrize("consent", [consent_to_plan, consent_to_command])
def test_a_vacuum_that_deletes_other_files_does_not_stop_it(
    storage: Storage, consent: Callable[[Plan], Consent]
) -> None:
    done = restore(storage, vacuum_of_others, consent)

    assert (5, ()) == (done.committed_version, done.lost)


@pytest.mark.parametrize("consent", [consent_to_plan, consent_to_command])
@pytest.mark.parametrize("is_before", [False, True])
def test_nothing_is_restored_while_a_vacuum_runs(
    storage: Storage, consent: Callable[[Plan], Consent], is_before: bool
) -> None:
    """
    Its look at the log does not know the restore, and it deletes the files afterwards.
    """

    def begin(storage: Storage) -> None:
        storage.put(commit_path(3), to_bytes([commit_info("VACUUM START")]), modified_ms=NOW_MS)

    if is_before:
        begin(storage)
    with pytest.raises(Refused) as refused:
        restore(storage, (lambda _: None) if is_before else begin, consent)

    assert "restore.vacuum-running" == refused.value.code
    assert 4 == len(commits(storage))


def test_all_files_are_looked_at_again_where_the_plan_is_made_again_behind_a_vacuum(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It begins after the commits were read that won.
    """

    def read(table: TableHandle) -> Snapshot:
        commit(storage, 4, commit_info("VACUUM START"))
        quiet_vacuum(storage)
        return read_snapshot(table)

    monkeypatch.setattr(execution, "read_snapshot", read)

    with pytest.raises(Refused) as refused:
        restore(storage, append, consent_to_command)

    assert "restore.file-missing" == refused.value.code


@pytest.mark.parametrize("event", [append, lambda storage: open_at(storage).set_properties({"owner": "us"})])
def test_what_nobody_agreed_to_is_not_restored(storage: Storage, event: Event) -> None:
    """
    An append would be undone, too; a property that is set would be unset.
    """
    with pytest.raises(ConflictLost) as lost:
        restore(storage, event, consent_to_plan)

    assert {"agreed to 1", "now 1"} <= lost.value.facts.keys()
    assert 4 == len(commits(storage))
    assert 4 == restore(storage, lambda _: None, consent_to_command).committed_version


@pytest.mark.parametrize("change", [CHANGE, Optimize(OptimizeRequest(purge=False, min_files=2))])
def test_a_clock_behind_the_newest_commit_writes_no_tombstone(change: Any) -> None:
    """
    Tombstones would be older than their files, and a vacuum would delete these at once.
    """
    ids = Ids().append("a", "b")
    ids.builder.commit(commit_info("DELETE"), remove("a", partitionValues={"p": "0"}, extendedFileMetadata=True))
    ids.append("c")
    storage = ids.builder.in_memory()
    storage.put(commit_path(3), storage.read(commit_path(3)), modified_ms=NOW_MS + 600_000)
    table = Table(storage, machine=Machine(lambda: NOW_MS))
    with pytest.raises(Refused) as refused:
        execute_change(change, table)
    assert ("plan.clock", 4) == (refused.value.code, len(commits(storage)))

    execute_change(change, open_at(storage))  # a clock that was given is accepted

    assert 5 == len(commits(storage))
