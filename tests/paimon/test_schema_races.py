"""Processes that change the schema of one table at the same time, and pypaimon beside them."""

from __future__ import annotations

import multiprocessing
from itertools import pairwise
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from deltacli.changing.change import execute_change
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.paimon import alter as commit_schema
from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration
from deltacli.operations.paimon.table_files import list_schemas, read_schemas
from deltacli.paimon.conversions import parse_sql_type
from deltacli.paimon.evolution.requests import AddColumn
from deltacli.paimon.schema import Schema
from deltacli.paimon.schema_changes import ChangeKind, changes_between
from deltacli.paimon.types import walk_fields
from deltacli.storage import open_storage
from deltacli.table.handle import TableHandle
from tests.support.paimon_builder import PaimonBuilder
from tests.support.pypaimon import Pypaimon

pytestmark = pytest.mark.long

RUNS = [0, *(pytest.param(run, marks=pytest.mark.soak) for run in range(1, 5))]
"""Runs of one pass; `dev.py soak races` has four passes, so 20 in all."""


def _alter(uri: str, racer: int, count: int, together: Barrier) -> None:
    commit_schema._PATIENCE_SECONDS = 60  # no other engine is slower, however busy the machine is
    together.wait()
    for number in range(count):
        request = AlterRequest((AddColumn((f"r{racer}_{number}",), parse_sql_type("INT")),))
        outcome = execute_change(SchemaAlteration(request), TableHandle(open_storage(uri)))
        assert outcome.committed is not None


class Racers:
    """Processes that add columns, as soon as all of them are there."""

    def __init__(self, uri: str, racers: int, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.together = context.Barrier(racers + 1, timeout=120)
        self._processes = [
            context.Process(target=_alter, args=(uri, racer, count, self.together), daemon=True)
            for racer in range(racers)
        ]
        for process in self._processes:
            process.start()

    def wait(self) -> list[int | None]:
        """Return the exit codes."""
        for process in self._processes:
            process.join(timeout=300)
        return [process.exitcode for process in self._processes]


def history(root: Path) -> list[Schema]:
    storage = open_storage(str(root))
    found = read_schemas(storage, EmbeddedEngine(), list_schemas(storage).ids).values()
    return [schema for schema in found if isinstance(schema, Schema)]


def added(schemas: list[Schema]) -> list[str]:
    """Return the columns that were added, by the differences between neighbouring schemas."""
    changes = [change for before, after in pairwise(schemas) for change in changes_between(before, after)]
    return sorted(change.path[0] for change in changes if change.kind is ChangeKind.ADD_COLUMN)


@pytest.mark.parametrize("run", RUNS)
def test_the_history_has_every_change_of_six_processes(run: int, tmp_path: Path) -> None:
    PaimonBuilder(tmp_path / "t").schema()

    racers = Racers(str(tmp_path / "t"), 6, 25)
    racers.together.wait()

    assert [0] * 6 == racers.wait()
    schemas = history(tmp_path / "t")
    assert list(range(151)) == [schema.id for schema in schemas]
    assert sorted(f"r{racer}_{number}" for racer in range(6) for number in range(25)) == added(schemas)
    ids = [field.id for _, field in walk_fields(schemas[-1].fields)]
    assert len(set(ids)) == len(ids) == 152


@pytest.mark.parametrize("run", RUNS)
def test_pypaimon_loses_no_change_of_ours(run: int, tmp_path: Path) -> None:
    """
    pypaimon's writers replace files that others just created. What deltacli said it changed is there in the end.
    """
    home = tmp_path / "wh"
    with Pypaimon(home) as first, Pypaimon(home) as second:
        fields = [("id", "long"), ("name", "string")]
        first.ask("create", table="t", fields=fields, keys=["id"], options={"bucket": "1"})
        racers = Racers(str(first.root("t")), 8, 6)
        second.ask("add", table="t", names=["warm"])
        for peer in (first, second):
            peer.ask("slow_down", seconds=0.003)

        racers.together.wait()
        for peer, who in ((first, "first"), (second, "second")):
            peer.start("add", table="t", names=[f"{who}_{number}" for number in range(30)])
        codes = racers.wait()
        theirs = {*first.answer(), *second.answer()}

    schemas = history(home / "db.db" / "t")
    names = {field.name for field in schemas[-1].fields}
    assert [0] * 8 == codes
    assert set() == {f"r{racer}_{number}" for racer in range(8) for number in range(6)} - names
    assert 60 == len(theirs)
    ids = [field.id for _, field in walk_fields(schemas[-1].fields)]
    assert len(set(ids)) == len(ids)
