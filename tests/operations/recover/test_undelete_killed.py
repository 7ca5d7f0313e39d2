"""An undelete that dies before one of its calls: the next run ends the work, and nothing is lost that was there."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from deltacli.changing.change import execute_change
from deltacli.operations.recover.plan import UndeleteRequest
from deltacli.operations.recover.undelete import Undelete, plan_undelete
from deltacli.storage import LocalStorage, Storage, open_storage
from tests.operations.recover.test_find_and_put import content_of, table_at
from tests.support import accidents
from tests.support.azure import ACCOUNT
from tests.support.effort import InTurn
from tests.support.faulty import Fault
from tests.support.reading import open_at
from tests.support.vacuuming import Killed, MortalStorage

WRITES = ("put_if_absent", "put", "begin", "publish", "replace", "bring_back")


def undelete(storage: Storage, *sources: str) -> None:
    execute_change(Undelete(UndeleteRequest(sources=sources)), open_at(storage))


@pytest.mark.halved
def test_a_run_that_dies_before_a_call_is_ended_by_the_next(tmp_path: Path) -> None:
    table_at(tmp_path / "copy")
    before = content_of(tmp_path / "copy")
    counting = MortalStorage(LocalStorage(str(tmp_path / "counted")))
    (tmp_path / "counted").mkdir()
    undelete(counting, str(tmp_path / "copy"))
    calls = [verb for verb, _ in counting.calls]
    assert len([verb for verb in calls if verb in WRITES]) == 11

    for at in range(1, len(calls) + 1):
        root = tmp_path / "t"
        root.mkdir()
        for name in ("p=2", "_delta_log") if at % 2 else ():
            shutil.copytree(tmp_path / "copy" / name, root / name, copy_function=shutil.copy2)
        with suppress(Killed):
            undelete(MortalStorage(LocalStorage(str(root)), at, Fault.KILLED_BEFORE, dies=True), str(tmp_path / "copy"))
        assert content_of(root).items() <= before.items()
        undelete(LocalStorage(str(root)), str(tmp_path / "copy"))
        assert content_of(root) == before
        shutil.rmtree(root)


KEPT_BY = ("s3 versions", "gcs versions", "gcs soft deletes", "azure versions", "azure soft deletes")


def place_at(store: str, request: pytest.FixtureRequest) -> str:
    """A new place that keeps what is deleted."""
    name, _, kept = store.partition(" ")
    server, how = (
        request.getfixturevalue(name),
        {"deletes_softly": kept != "versions", "is_versioned": kept == "versions"},
    )
    match name:
        case "s3":
            return f"s3://{server.make_bucket('Enabled')}/t"
        case "gcs":
            return f"gs://{server.make_bucket(**how)}/t"
        case _:
            return f"abfss://{server.make_container(**how)}@{ACCOUNT}.dfs.core.windows.net/t"


@pytest.mark.parametrize("store", [KEPT_BY[0], *(pytest.param(one, marks=pytest.mark.soak) for one in KEPT_BY[1:])])
def test_a_run_on_object_versions_that_dies_is_ended_by_the_next(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, in_turn: InTurn
) -> None:
    """
    Each in a table of its own; before each call in `dev.py soak`.
    """

    def accident(number: int) -> accidents.Accident:
        made = accidents.make(5, tmp_path / str(number), place_at(store, request))
        accidents.lose_both(made, Random(1))
        return made

    def die(made: accidents.Accident, at: int) -> MortalStorage:
        mortal = MortalStorage(open_storage(made.uri), 0, Fault.KILLED_BEFORE, dies=True)
        table = open_at(mortal)
        plan = plan_undelete(table, UndeleteRequest())
        mortal.calls.clear()
        mortal.fail(at, Fault.KILLED_BEFORE)
        with suppress(Killed):
            execute_change(Undelete(plan.request), table, plan=plan)
        return mortal

    whole = accident(0)
    wanted = {path: data for path, data in whole.before.items() if not path.startswith("p=")}
    calls = len(die(whole, 0).calls)
    assert whole.left().items() >= wanted.items()
    # a version that can be read needs no checkpoint without a hint
    needed = {path: data for path, data in whole.left().items() if "checkpoint" not in path}
    for at in in_turn(range(1, calls + 1), calls):
        made = accident(at)
        die(made, at)
        assert made.left().items() <= made.before.items()
        undelete(open_storage(made.uri))
        assert made.left().items() >= needed.items()
