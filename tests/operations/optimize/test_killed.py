"""An optimization that dies, is interrupted or fails: no row is lost, and the next run ends the work."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import PartlyDone, StorageFailed
from deltacli.core.machine import fixed_clock
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.optimize import plan as plans
from deltacli.operations.optimize.execute import OptimizeOutcome
from deltacli.operations.optimize.plan import plan_optimize
from deltacli.operations.optimize.request import OptimizeRequest
from deltacli.storage import LocalStorage, Storage
from deltacli.work.rewrite.rewriting import RewriteFiles
from tests.operations.test_commit_killed import kill_all
from tests.support.effort import InTurn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.killed_commits import optimize
from tests.support.optimizing import Ids, data_files, execute, live_paths, rows_of
from tests.support.reading import open_at
from tests.support.shipping import ShippingEngine

MONTH_MS = 30 * 86_400_000


class Stop(BaseException):
    """What a signal raises."""


def two_partitions() -> Ids:
    return Ids().append("a", "b").append("c", "d", p="1")


def left_by_vacuum(storage: LocalStorage) -> set[str]:
    """The files of a table, apart from its log, after a vacuum a month after the youngest was written."""
    root = Path(storage.root)
    now_ms = max(path.stat().st_mtime_ns // 1_000_000 for path in root.rglob("*")) + MONTH_MS
    Table(storage, clock=fixed_clock(now_ms)).vacuum(max_delete="100%")
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith("_delta_log/")}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals that kill here")
def test_a_run_that_is_killed_at_any_call_is_ended_by_the_next(tmp_path: Path, in_turn: InTurn) -> None:
    counting = FaultyStorage(LocalStorage(str(two_partitions().builder.write(tmp_path / "first"))))
    before = rows_of(open_at(counting))
    counting.calls.clear()
    optimize(counting)
    verbs = [verb for verb, _ in counting.calls]
    calls = [*range(verbs.index("begin") + 1, len(verbs) + 1), len(verbs) + 1]
    faults = [Fault.KILLED_BEFORE] * (len(calls) - 1) + [Fault.KILLED_AFTER]
    cases = [
        (str(two_partitions().builder.write(tmp_path / f"{at}")), min(at, len(verbs)), fault)
        for at, fault in in_turn(list(zip(calls, faults, strict=True)))
    ]

    signals = kill_all(cases, "optimize")

    assert 3 == verbs.count("publish")
    assert [signal.SIGKILL] * len(cases) == signals
    for place, *case in cases:
        storage = LocalStorage(place)
        table = open_at(storage)
        assert before == rows_of(table), case
        table.optimize()
        assert before == rows_of(table), case
        assert 2 == len(live_paths(table)), case
        assert live_paths(table) == left_by_vacuum(storage), case
        assert before == rows_of(table), case


def failing(storage: Storage, fault: BaseException, monkeypatch: pytest.MonkeyPatch, *, at: int) -> OptimizeOutcome:
    """Optimize until the result of a piece is received, which raises, while other pieces are done or in flight."""
    monkeypatch.setattr(plans, "COMMIT_BINS", 2)
    engine = EmbeddedEngine(threads=2)
    plan = plan_optimize(open_at(storage, engine=engine), OptimizeRequest())
    outcome = OptimizeOutcome(plan)
    real = engine.run_tasks

    def run_tasks(*given: Any, **how: Any) -> Iterator[Any]:
        for count, result in enumerate(real(*given, **how), 1):
            yield result
            if count == at:
                raise fault

    monkeypatch.setattr(engine, "run_tasks", run_tasks)
    with pytest.raises(PartlyDone if isinstance(fault, StorageFailed) and at > 1 else type(fault)):
        execute(plan, outcome)
    return outcome


@pytest.mark.parametrize("fault", [Stop(), StorageFailed("no answer"), MemoryError()])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_new_files_of_pieces_whose_results_nobody_reads_are_deleted(
    fault: BaseException, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = Ids()
    for partition in "012345":
        ids.append(f"a{partition}", f"b{partition}", p=partition)
    storage = ids.builder.in_memory()
    before = rows_of(open_at(storage))
    outcome = failing(storage, fault, monkeypatch, at=at)

    table = open_at(storage)
    assert before == rows_of(table)
    assert ([], len(outcome.versions)) == (outcome.left_behind, at // 2)
    new = {path for path in data_files(storage) if "part-" in path}
    assert new == {path for path in live_paths(table) if "part-" in path}
    table.optimize()
    assert 6 == len(live_paths(table))


def test_an_interruption_while_the_commit_is_sent_keeps_the_new_files_and_names_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = two_partitions().builder.in_memory()
    plan = plan_optimize(open_at(storage), OptimizeRequest())
    outcome = OptimizeOutcome(plan)

    def interrupted(*_: Any, **__: Any) -> None:
        raise Stop

    monkeypatch.setattr("deltacli.changing.commit.commit", interrupted)
    with pytest.raises(Stop):
        execute(plan, outcome)

    assert {path for path in data_files(storage) if "part-" in path} == set(outcome.left_behind)
    assert 2 == len(outcome.left_behind)


def test_a_task_ends_early_once_nobody_waits_for_it() -> None:
    from concurrent.futures import CancelledError

    from deltacli.work.rewrite.pieces import SPEC
    from deltacli.work.table_stores import TableStores
    from deltacli.work.task import TaskContext
    from tests.support.rewriting import live_adds, pieces

    table = two_partitions().table()
    plan = plan_optimize(table, OptimizeRequest())
    context = TaskContext(TableStores(table.writable()), {SPEC: plan.spec}, is_cancelled=lambda: True)

    with pytest.raises(CancelledError):
        RewriteFiles()(next(iter(pieces(live_adds(table.snapshot())))), context)

    assert {"a", "b", "c", "d"} == live_paths(table)


def test_tasks_that_run_twice_elsewhere_leave_only_what_vacuum_finds(tmp_path: Path) -> None:
    storage = LocalStorage(str(two_partitions().builder.write(tmp_path / "t")))
    engine = ShippingEngine(varying=("RewriteFiles",))
    table = open_at(storage, engine=engine)
    before = rows_of(table)

    table.optimize(verify=True)

    assert {"FindRefused", "RewriteFiles", "digest_piece"} <= set(engine.shipped.pieces)
    assert (before, 2) == (rows_of(table), len(live_paths(table)))
    assert live_paths(table) == left_by_vacuum(storage)
