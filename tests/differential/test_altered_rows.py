"""Other engines on altered tables: the same rows under the new names, in the same types.

What the facts about clients say of column mapping is proven here.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from deltacli.table.known_clients import find_affected_clients
from tests.differential.test_rows import PEERS
from tests.support.altering import MAPPED, add, change, drop, rename
from tests.support.peers import ENVIRONMENT_VARIABLE, Task, ask_for_rows, has_peer, peer_python
from tests.support.renamed_columns import VERSIONS, in_order, make_renamed
from tests.support.rows import parquet_bytes, schema_of, table_of

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": pa.array([{"p": 1, "q": "x"}, None, {"p": None, "q": "z"}]),
        "xs": pa.array([[{"u": 1}], [], None]),
        "gone": ["a", "b", "c"],
    }
)
STEPS = {
    "described": [change("comment", "id", comment="c"), change("move", "gone", position="first"), add("n", "int")],
    "mapped": [MAPPED],
    "renamed": [MAPPED, rename("id", "key"), rename("s.p", "r"), rename("xs.element.u", "v")],
    "reused": [MAPPED, drop("gone"), rename("id", "gone"), add("id", "string"), drop("s.q")],
    "constrained": [change("not-null", "id"), change("add-constraint", name="c", expression="id > 0")],
}


@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_altered_tables(peer: str, tmp_path: Path) -> None:
    python = peer_python()
    if python is None or not has_peer(python, peer):
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE}")
    tasks = []
    for name, changes in STEPS.items():
        place = table_of({"f": parquet_bytes(ROWS)}, schema_of(ROWS)).write(tmp_path / name)
        for one in changes:
            open_table(place).alter([one], upgrade_protocol=True)
        tasks.append(Task(name, str(place), None))

    for answer in ask_for_rows(python, PEERS[peer], tasks, tmp_path):
        assert answer.refusal is None, answer
        assert answer.place is not None
        with pa.ipc.open_file(answer.place) as opened:
            found = opened.read_all()
        expected = [row for batch in open_table(answer.task.path).snapshot().scan() for row in batch.to_pylist()]
        assert expected == found.to_pylist(), answer.task.table
        assert [field.name for field in open_table(answer.task.path).snapshot().schema.fields] == found.column_names

    known = {one.client.name: one for one in find_affected_clients(["columnMapping"], used=True)}
    assert known[peer].reads


@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_each_version_by_its_own_names(peer: str, tmp_path: Path) -> None:
    """They do not read changes of such tables: deltalake 1.6.6 refuses, DuckDB 1.5.5 has no change feed."""
    python = peer_python()
    if python is None or not has_peer(python, peer):
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE}")
    make_renamed(tmp_path / "t")
    tasks = [Task(str(version), str(tmp_path / "t"), version) for version in VERSIONS]

    for answer in ask_for_rows(python, PEERS[peer], tasks, tmp_path):
        assert answer.refusal is None, answer
        assert answer.place is not None
        assert answer.task.version is not None
        with pa.ipc.open_file(answer.place) as opened:
            found = opened.read_all()
        assert in_order(VERSIONS[answer.task.version]) == in_order(found.to_pylist()), answer.task.version
