"""The same for the schemas of a Paimon table: changed while others change them, or another table takes their place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deltacli.changing.change import execute_change, plan_change
from deltacli.changing.consent import consent_to_command, consent_to_plan
from deltacli.core.errors import DeltacliError, PartlyDone
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration
from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum, SchemaVacuumRequest
from deltacli.paimon.evolution.requests import change_of
from tests.support.builder import Files, StoredFile
from tests.support.paimon_builder import ID, NAME, PaimonBuilder
from tests.world.events import EVENTS, Moment
from tests.world.judge import Interruption
from tests.world.places import DiskWorld, ObjectWorld, World, changed
from tests.world.tables import DAY_MS

NEWEST = 5
PLACES = [name for name, event in EVENTS.items() if event.is_place]


def schema(number: int, *names: str, now_ms: int) -> StoredFile:
    """A schema with these columns, written some days ago."""
    fields = [ID, NAME, *({"id": 2 + at, "name": name, "type": "INT"} for at, name in enumerate(names))]
    at_ms = now_ms - (40 - number) * DAY_MS
    return StoredFile(PaimonBuilder.content(fields, id=number, timeMillis=at_ms, highestFieldId=1 + len(names)), at_ms)


def table(now_ms: int, newest: str = "five") -> Files:
    names = ["one", "two", "three", "four", newest]
    return {f"schema/schema-{at}": schema(at, *names[:at], now_ms=now_ms) for at in range(NEWEST + 1)}


def _rolled_back(files: Files, _: int) -> None:
    del files[f"schema/schema-{NEWEST}"]


def _written_anew(files: Files, now_ms: int) -> None:
    files.update(table(now_ms, "other"))


def _other_schema(files: Files, now_ms: int) -> None:
    at_ms = now_ms - DAY_MS
    file = schema(NEWEST + 1, "one", "two", "three", "four", "five", "winner", now_ms=now_ms)
    files[f"schema/schema-{NEWEST + 1}"] = StoredFile(file.data, at_ms)


OF_FILES: Mapping[str, Callable[[Files, int], None]] = {
    "rolled back": _rolled_back,
    "newest schema written anew": _written_anew,
    "another schema": _other_schema,
}
CHANGES: Mapping[str, Callable[[], Any]] = {
    "alter": lambda: SchemaAlteration(
        AlterRequest((change_of(1, {"action": "addColumn", "fieldNames": ["added"], "dataType": "INT"}),))
    ),
    "vacuum --schemas": lambda: SchemaVacuum(SchemaVacuumRequest(keep_last=1)),
}


def cells() -> Iterator[tuple[str, Moment, str, str]]:
    for change in CHANGES:
        for kind, events in (("disk", [*PLACES, *OF_FILES]), ("objects", [*OF_FILES])):
            for event in events:
                for moment in (Moment.PLANNED, Moment.PROMPT, Moment.BATCH):
                    if moment.is_before or event in (*PLACES, "another schema"):  # a look and what follows it are two
                        yield change, moment, event, kind


@pytest.mark.parametrize(("change", "moment", "event", "kind"), [*cells()])
def test_schemas_stay_and_follow_each_other(change: str, moment: Moment, event: str, kind: str, tmp_path: Path) -> None:
    listener = Interruption(moment)
    world: World = DiskWorld(tmp_path / "w", listener) if kind == "disk" else ObjectWorld(listener)
    begun_ms = world.time.begun_ms
    world.write("own", table(begun_ms))
    if kind == "disk":
        world.write("copy", table(begun_ms, "copied"))
    after: dict[str, Files] = {}

    def happens() -> None:
        if event in OF_FILES:
            files = world.files("own")
            OF_FILES[event](files, begun_ms)
            world.write("own", files)
        else:
            EVENTS[event].happen(world)
        after.update({name: world.files(name) for name in world.names()})

    made, error = CHANGES[change](), None
    opened = world.table()
    plan = plan_change(made, opened)
    listener.expect(happens, lambda: None)
    if moment.is_before:
        listener.happen()
    try:
        execute_change(made, opened, plan=plan, ask=consent_to_plan if moment is Moment.PROMPT else consent_to_command)
    except DeltacliError as fault:
        error = fault

    last = {name: world.files(name) for name in world.names()}
    assert after
    assert {} == {
        name: changed(after[name], last[name]) for name in last if name != "own" and last[name] != after[name]
    }
    if error is not None and not isinstance(error, PartlyDone):
        assert set() == changed(after["own"], last["own"])
    is_in_batch = change == "vacuum --schemas" and moment is Moment.BATCH  # all go from the directory of the plan
    if not is_in_batch and event in (*PLACES, "rolled back"):
        assert error is not None
    if moment is not Moment.PROMPT and event == "another schema":
        assert error is None
    check = _altered if change == "alter" else _vacuumed
    check(after["own"], last["own"], is_done=error is None)


def _altered(before: Files, now: Files, *, is_done: bool) -> None:
    """No schema is gone or another one; the new one has the column, and all of the one before."""
    assert before == {path: now[path] for path in before}
    assert len(now) - len(before) == is_done
    if is_done:
        names = [_columns(now[f"schema/schema-{at}"]) for at in (len(now) - 2, len(now) - 1)]
        assert [*names[0], "added"] == names[1]


def _vacuumed(before: Files, now: Files, *, is_done: bool) -> None:
    """The oldest schema and the newest one are there, and no other was changed."""
    assert now == {path: before[path] for path in now}
    gone = {int(path.rpartition("-")[2]) for path in before.keys() - now.keys()}
    assert gone <= {*range(1, NEWEST)}
    assert gone or not is_done


def _columns(file: StoredFile) -> list[str]:
    return [one["name"] for one in json.loads(file.data)["fields"]]
