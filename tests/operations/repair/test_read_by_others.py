"""Repaired tables as other engines read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.operations.repair.execute import execute_repair
from deltacli.operations.repair.planning import plan_repair
from tests.operations.repair.test_amendments import MENDED
from tests.operations.repair.test_damages import IN_COMMITS
from tests.support.damaged_tables import TABLE_DAMAGES, DamagedTable
from tests.support.peers import Task, ask_for_rows, has_peer, peer_python
from tests.support.repairing import open_damaged, readable_rows, request

PYTHON = peer_python()
ENGINES = {"deltalake": "rows_with_deltalake.py", "duckdb": "rows_with_duckdb.py"}

pytestmark = pytest.mark.skipif(PYTHON is None, reason="no environment with other engines")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_rows_of_repaired_tables(engine: str, tmp_path: Path) -> None:
    """
    What came back from a copy, and what was written anew from the rest of the table, has the rows of before.
    """
    assert PYTHON is not None
    if not has_peer(PYTHON, engine):
        pytest.skip(f"{engine} is not there")
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

    answers = ask_for_rows(PYTHON, ENGINES[engine], tasks, tmp_path)

    assert len(tasks) > 15
    assert {} == {one.task.table: one.refusal for one in answers if one.refusal}
    for one in answers:
        assert one.place is not None
        with pa.memory_map(str(one.place)) as file:
            found = pa.ipc.open_file(file).read_all().select(["id", "name", "p"]).to_pylist()
        assert rows == sorted(tuple(row.values()) for row in found), one.task.table
