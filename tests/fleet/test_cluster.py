"""The work of a run on a cluster: the same outcome, from pieces that can be sent, and what is never sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltacli.core.errors import ClusterFailed
from deltacli.core.machine import Machine, system_clock
from deltacli.engine.base import Engine
from deltacli.fleet.policy_file.model import OptimizePolicy, Policy
from deltacli.fleet.running.run import FleetReport
from deltacli.fleet.running.steps import FleetCluster, StepPiece, carry_out_there
from deltacli.storage import open_storage
from deltacli.storage.location import StoreLocation
from deltacli.table.handle import TableHandle
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext
from tests.fleet.lake import DAMAGED, HEALTHY, NOW_MS, data_files, live_digest, tree_of
from tests.fleet.sessions import session_of
from tests.support.optimizing import Ids
from tests.support.shipping import ShippingEngine

VARYING = ("carry_out_there", "DeleteBatch")
"""The second attempt of a checkpoint finds that of the first, and that of a deletion finds no file."""


def stores_of(name: str) -> TableStores:
    return TableStores(open_storage(name), location=StoreLocation.of(name))


def run_on(root: Path, engine: Engine | None, **others: Any) -> FleetReport:  # Any: fields of FleetCluster
    fields: dict[str, Any] = {"is_sent": lambda _: True, "clock": lambda: NOW_MS, "jobs": 2}
    cluster = None if engine is None else FleetCluster(engine, stores_of, **(fields | others))
    session = session_of(root, cluster=cluster)
    session.request = replace(session.request, jobs=4)
    if engine is not None:
        session.open_table = lambda name: TableHandle(
            open_storage(name), engine=engine, clock=lambda: NOW_MS, name=name, location=StoreLocation.of(name)
        )
    else:
        session.open_table = lambda name: TableHandle(open_storage(name), clock=lambda: NOW_MS, name=name)
    return session.run()


def result_of(report: FleetReport, root: Path) -> object:
    """Return what a run did and left behind; `nothing` and `done` are one for a checkpoint."""
    steps = {
        Path(table.name).name: [
            (one.step.kind, "done" if one.step.kind == "checkpoint" else one.outcome.state, one.outcome.exit_code)
            for one in table.steps
        ]
        for table in report.tables
    }
    lake = root / "lake"
    files = {name: (data_files(lake / name), live_digest(lake / name)) for name in HEALTHY}
    logs = {name: sorted(path for path in tree_of(lake / name) if "checkpoint.parquet" in path) for name in HEALTHY}
    return steps, files, logs, {name: tree_of(lake / name) for name in DAMAGED}


@pytest.mark.parametrize(
    ("others", "sent"),
    [
        ({}, {"look_there": 6, "carry_out_there": 6}),
        ({"large_seconds": 0.0}, {"look_there": 6, "carry_out_there": 0}),
        ({"is_sent": lambda _: False}, {"look_there": 0, "carry_out_there": 0}),
    ],
)
def test_a_cluster_leaves_what_this_process_leaves(tmp_path: Path, others: Any, sent: dict[str, int]) -> None:
    engine = ShippingEngine(varying=VARYING)
    here = run_on(tmp_path / "here", None)

    there = run_on(tmp_path / "there", engine, **others)

    assert result_of(here, tmp_path / "here") == result_of(there, tmp_path / "there")
    assert sent == {name: engine.shipped.pieces.get(name, 0) for name in sent}
    assert 2_000 > max(engine.shipped.piece_bytes.values(), default=0)


def test_a_job_that_fails_costs_its_steps_and_not_the_run(tmp_path: Path) -> None:
    class Broken(ShippingEngine):
        def run_tasks(
            self, task: Any, pieces: Any, *others: Any, **options: Any
        ) -> Iterator[Any]:  # Any: as in the port
            if task is carry_out_there:
                raise ClusterFailed("the cluster is gone")
            return super().run_tasks(task, pieces, *others, **options)

    report = run_on(tmp_path, Broken())

    states = {
        (one.step.kind, one.outcome.state, one.outcome.exit_code) for table in report.tables for one in table.steps
    }
    assert {
        ("validate", "failed", 7),
        ("checkpoint", "failed", 7),
        ("vacuum", "refused", 4),
        ("log-expire", "refused", 4),
    } == states
    assert 0 == report.left


def test_executors_that_see_another_table_do_nothing(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    table = tmp_path / "lake" / "behind"
    policy = session.file.policies[0]
    newest = ("00000000000000000011.json", 1)

    done = carry_out_there(
        StepPiece("checkpoint", str(table), policy, NOW_MS, newest, 1), TaskContext(stores_of(str(table)))
    )

    assert done is not None
    assert ("refused", "cluster.other-table") == (done.state, done.code)
    assert not list((table / "_delta_log").glob("*.parquet"))


@pytest.mark.parametrize("is_given", [False, True])
def test_executors_take_the_time_that_was_given_or_their_own(tmp_path: Path, is_given: bool) -> None:
    sent: list[StepPiece] = []

    class Noting(ShippingEngine):
        def run_tasks(
            self, task: Any, pieces: Any, *others: Any, **options: Any
        ) -> Iterator[Any]:  # Any: as in the port
            if task is carry_out_there:
                sent.extend(pieces)
                raise ClusterFailed("the cluster is gone")
            return super().run_tasks(task, pieces, *others, **options)

    run_on(tmp_path, Noting(), **({} if is_given else {"clock": system_clock}))

    assert {NOW_MS if is_given else None} == {piece.now_ms for piece in sent}


@pytest.mark.parametrize(("now_ms", "expected"), [(None, "plan.clock"), (NOW_MS, "ok")])
def test_a_step_looks_at_its_own_clock(now_ms: int | None, expected: str, tmp_path: Path) -> None:
    table = Ids(partitioned=False).append(*"abcd").builder.write(tmp_path / "t")
    policy = Policy("p", {"optimize": OptimizePolicy()})
    stores = replace(stores_of(str(table)), machine=Machine(lambda: 0))

    done = carry_out_there(StepPiece("optimize", str(table), policy, now_ms, None, 1), TaskContext(stores))

    assert done is not None
    assert expected == (done.code or "ok")
