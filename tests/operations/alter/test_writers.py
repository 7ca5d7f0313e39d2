"""`alter` among other writers and on stores that fail: each change is made once, on what the others made."""

from __future__ import annotations

import json
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.clock import system_clock
from deltacli.core.errors import DeltacliError, Refused, StorageFailed
from deltacli.storage import open_storage
from tests.operations.test_file_contention import deltalake
from tests.support.actions import add as add_file
from tests.support.actions import commit_info, metadata
from tests.support.altering import MAPPED, add, change, drop, flat, rename, table_of
from tests.support.committing import Rivals, commits, infos
from tests.support.faulty import Fault, FaultyStorage
from tests.support.reading import open_at
from tests.support.waiting import run_together


def names(table: Table) -> list[str]:
    return [field.name for field in table.snapshot().schema.fields]


def _alter(uri: str, racer: int, count: int, together: Barrier, answers: Any) -> None:  # Any: a queue
    table = Table(open_storage(uri), clock=system_clock)
    found: list[object] = []
    together.wait()
    for number in range(count):
        try:
            done = table.alter([add(f"c{racer}_{number}", "int")])
            found.append(done.committed_version)
        except DeltacliError as error:
            found.append(error.code)
    answers.put(found)


@pytest.mark.parametrize(("racers", "count"), [(4, 3), pytest.param(8, 25, marks=pytest.mark.soak)])
def test_columns_that_processes_add_together_are_all_there(racers: int, count: int, tmp_path: Path) -> None:
    builder = table_of("a int", features=["columnMapping"], properties={"delta.columnMapping.mode": "none"})
    place = str(builder.write(tmp_path / "t"))
    Table(open_storage(place)).alter([MAPPED])

    told = run_together([(_alter, (place, racer, count)) for racer in range(racers)])

    table = open_at(open_storage(place))
    assert [] == [one for found in told for one in found if isinstance(one, str)]
    assert list(range(2, racers * count + 2)) == sorted(version for found in told for version in found)
    assert {f"c{racer}_{number}" for racer in range(racers) for number in range(count)} | {"a"} == set(names(table))
    ids = [field.metadata["delta.columnMapping.id"] for field in table.snapshot().schema.fields]
    assert sorted(ids) == list(range(1, len(ids) + 1))


@pytest.mark.parametrize("count", [pytest.param(3, marks=pytest.mark.long), pytest.param(100, marks=pytest.mark.soak)])
def test_columns_added_beside_appends_of_the_other_engine(count: int, tmp_path: Path) -> None:
    """No row and no column of either is lost, and the schema of each version is that of the one before or one more."""
    place = str(table_of("id bigint, p string", partitions=["p"]).write(tmp_path / "t"))

    with deltalake(place, 2, 2 * count, {}, "append") as made:
        told = run_together([(_alter, (place, racer, count)) for racer in range(2)])

    table = open_at(open_storage(place))
    assert [] == [one for found in told for one in found if isinstance(one, str)]
    assert {f"c{racer}_{number}" for racer in range(2) for number in range(count)} | {"id", "p"} == set(names(table))
    told_of = infos(open_storage(place))
    assert 2 * count + sum(made) + 1 == len(told_of)
    written = sorted(one for info in told_of for one in json.loads(info.get("ids", "[]")))
    assert written == sorted(i for batch in table.snapshot().scan(columns=["id"]) for i in batch["id"].to_pylist())


def test_a_change_is_made_on_what_the_winner_made() -> None:
    storage = flat().in_memory()
    other = '{"type":"struct","fields":[{"name":"V3","type":"long","nullable":true,"metadata":{}}]}'
    rivals = Rivals(storage, [commit_info(), add_file("f")], [commit_info(), metadata(schema_string=other)])

    with pytest.raises(Refused, match="v3 already exists as V3"):
        open_at(rivals).alter([add("v3", "int")])

    assert 3 == len(commits(storage))


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.LOST, Fault.UNSENT, Fault.DUPLICATED])
def test_a_fault_at_any_call_leaves_all_changes_or_none(fault: Fault) -> None:
    changes = [rename("v1", "a"), drop("v2"), add("b", "int"), change("name", name="n")]
    base = flat().in_memory()
    open_at(base).alter([MAPPED], upgrade_protocol=True)
    counting = FaultyStorage(base)
    open_at(counting).alter(changes, dry_run=True)
    calls = len(counting.calls) + 3  # another look at the log, one at its newest commit, and the creation
    seen = set()

    for at in range(1, calls + 1):
        storage = flat().in_memory()
        open_at(storage).alter([MAPPED], upgrade_protocol=True)
        faulty = FaultyStorage(storage, at, fault)
        if fault in (Fault.LOST, Fault.UNSENT) and at != calls:
            continue  # of the creation only, the last call
        try:
            done = open_at(faulty).alter(changes).committed_version
        except StorageFailed:
            done = None
        seen.add(done)
        assert (["a", "b"] if done == 2 else ["v1", "v2"]) == names(open_at(storage))
        assert (3 if done == 2 else 2) == len(commits(storage))
    assert 2 in seen
