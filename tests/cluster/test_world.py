"""A link to a table that is switched to a copy between the tasks of executors: nothing is written to the copy or
deleted from it, and no version of either has lost a file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.engine.spark.engine import SparkEngine
from deltacli.spark import register
from tests.cluster.gates import Gates, Step
from tests.world.oracle import Reading
from tests.world.places import DiskWorld, Listener, changed
from tests.world.tables import a_diverged_copy, the_table

NEW_FILE = Step("publish", "part-", "after", executor=True)
DELETION = Step("delete", "p=", "after", executor=True)


@pytest.fixture(autouse=True)
def gate_left_open(gates: Gates) -> Iterator[None]:
    yield
    gates.open()


@pytest.fixture
def world(tmp_path: Path) -> DiskWorld:
    """A table behind a link, and a copy that went its own way."""
    world = DiskWorld(tmp_path / "w", Listener())
    world.write("own", the_table(world.time.begun_ms))
    world.write("copy", a_diverged_copy(world.time.begun_ms))
    return world


def test_an_optimization_stays_in_its_directory(world: DiskWorld, gates: Gates, spark_engine: SparkEngine) -> None:
    table = open_table(str(world.root / "table"), engine=spark_engine)

    _require_nothing_is_lost(world, gates, NEW_FILE, table.optimize)


def test_a_vacuum_stays_in_its_directory(world: DiskWorld, gates: Gates, spark_engine: SparkEngine) -> None:
    table = open_table(str(world.root / "table"), engine=spark_engine)

    _require_nothing_is_lost(world, gates, DELETION, lambda: table.vacuum(rate=1.0))


def test_an_append_stays_in_its_directory(world: DiskWorld, gates: Gates, session: Any) -> None:
    register(session)
    frame = session.range(1000, 1008).selectExpr("id", "cast(1 as int) as n", "'a' as p").repartition(4)
    path = str(world.root / "table")

    _require_nothing_is_lost(world, gates, NEW_FILE, lambda: frame.write.format("deltacli").mode("append").save(path))


def _require_nothing_is_lost(world: DiskWorld, gates: Gates, step: Step, change: Callable[[], object]) -> None:
    """Switch the link after a step of the first task; the change has to end with an error."""
    before = {name: world.files(name) for name in ("own", "copy")}
    gates.close(step)
    switching = threading.Thread(target=_switch, args=(world, gates))
    switching.start()
    ended = "done"
    try:
        change()
    except Exception as fault:  # noqa: BLE001  (of deltacli, or of Spark)
        ended = str(fault)
    switching.join()

    assert "done" != ended
    assert set() == changed(before["copy"], world.files("copy"))
    own, was = Reading(world.files("own")), Reading(before["own"])
    assert was.versions[was.newest] == own.versions[own.newest]


def _switch(world: DiskWorld, gates: Gates) -> None:
    gates.wait()
    world.switch_link("copy")
    gates.open()
