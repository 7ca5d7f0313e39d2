"""Repaired tables as other engines read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.operations.repair.repair import plan_repair
from tests.operations.repair.test_amendments import MENDED
from tests.operations.repair.test_damages import IN_COMMITS
from tests.operations.repair.test_rebuilt_features import HEALTHY, written
from tests.support.damaged_tables import DELETION, LAST, MIDDLE, TABLE_DAMAGES, DamagedTable
from tests.support.peers import PeerRows, Task, ask_for_rows, has_peer, peer_python
from tests.support.repairing import execute_repair, open_damaged, readable_rows, request

PYTHON = peer_python()
ENGINES = {"deltalake": "rows_with_deltalake.py", "duckdb": "rows_with_duckdb.py"}

pytestmark = pytest.mark.skipif(PYTHON is None, reason="no environment with other engines")


@pytest.mark.long
def test_the_rows_of_repaired_tables(tmp_path: Path) -> None:
    """
    What came back from a copy, and what was written anew from the rest of the table, has the rows of before.
    """
    healthy = DamagedTable().write(tmp_path / "healthy")
    rows = sorted(readable_rows(open_damaged(healthy)).elements())
    tasks = []
    for damage in TABLE_DAMAGES:
        if damage.name in IN_COMMITS - MENDED.keys():
            continue
        damage.apply(damaged := DamagedTable())
        root = damaged.write(tmp_path / damage.name)
        sources = [] if damage.name in MENDED else [healthy]
        done = execute_repair(plan_repair(open_damaged(root), request(sources=sources, accept_loss=False)))
        assert not [step.reason for step in done.steps if step.reason], damage.name
        tasks.append(Task(damage.name, str(root), None))

    assert len(tasks) > 15
    for _, answers in ask_engines(tasks, tmp_path):
        assert {} == {one.task.table: one.refusal for one in answers if one.refusal}
        assert [] == [one.task.table for one in answers if rows != rows_in(one)]


@pytest.mark.halved
def test_the_rows_of_every_version_around_a_commit_that_was_written_anew(tmp_path: Path) -> None:
    """
    In tables with features. What an engine refuses of the healthy table it refuses of the repaired one.
    """
    tasks = []
    makers = {"plain": DamagedTable} | HEALTHY
    for name, make in makers.items():
        for gap in (None, MIDDLE if name in ("timestamps", "row ids") else DELETION):
            root = written(make(), tmp_path / f"{name} {gap}", checksums=[] if gap is None else [gap])
            if gap is not None:
                (root / f"_delta_log/{gap:020d}.json").unlink()
                done = execute_repair(plan_repair(open_damaged(root), request(level="log")))
                assert ["log.gap"] == [step.rule for step in done.steps]
            tasks += [Task(name, str(root), version) for version in range(MIDDLE - 1, LAST + 1)]

    for engine, answers in ask_engines(tasks, tmp_path):
        found = [(one.task.table, one.task.version, rows_in(one)) for one in answers]
        healthy = {(one.task.table, one.task.version): rows_in(one) for one in answers if "None" in one.task.path}
        assert [] == [(name, version) for name, version, rows in found if rows != healthy[name, version]]
        read = {name for (name, _), rows in healthy.items() if rows is not None}
        assert read >= makers.keys() - ({"a vector"} if engine == "deltalake" else set())


def ask_engines(tasks: list[Task], place: Path) -> Iterator[tuple[str, list[PeerRows]]]:
    """Yield each engine that is there with its answers."""
    assert PYTHON is not None
    engines = [engine for engine in ENGINES if has_peer(PYTHON, engine)]
    if not engines:
        pytest.skip("no other engine is there")
    for engine in engines:
        (own := place / f"read by {engine}").mkdir()
        yield engine, list(ask_for_rows(PYTHON, ENGINES[engine], tasks, own))


def rows_in(answer: PeerRows) -> list[tuple[object, ...]] | None:
    if answer.place is None:
        return None
    with pa.memory_map(str(answer.place)) as file:
        found = pa.ipc.open_file(file).read_all().select(["id", "name", "p"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)
