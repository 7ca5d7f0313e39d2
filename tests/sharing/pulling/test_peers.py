"""Pulled tables as other engines read them: the rows that they read in the shared table itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.core.errors import DeltacliError
from tests.sharing.client.serving import Proxy, proxied
from tests.sharing.client.test_corpus import OTHER_SIZE, shared_corpus
from tests.sharing.pulling.origin import Origin, pull, pull_from
from tests.sharing.served import shared
from tests.support.peers import ENVIRONMENT_VARIABLE, PeerRows, Task, ask_for_rows, has_peer, peer_python
from tests.support.row_counts import Rows, count_rows

pytestmark = pytest.mark.long
_PARQUET = """
import duckdb, json, sys
found = duckdb.sql(f"SELECT a FROM read_parquet({json.loads(sys.argv[1])}) ORDER BY a").fetchall()
print(json.dumps([a for a, in found]))
"""


def python_of(peer: str) -> str:
    """The interpreter that has a peer; skips where there is none."""
    python = peer_python()
    if python is None:
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE} names no interpreter")
    if not has_peer(python, peer):
        pytest.skip(f"{python} has no {peer}")
    return python


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Proxy]:
    with proxied(tmp_path, *(shared(Path(table.location), table.name) for table in shared_corpus())) as proxy:
        yield proxy


def test_deltalake_reads_the_rows_of_the_shared_table(server: Proxy, tmp_path: Path) -> None:
    python, pulled = python_of("deltalake"), []
    for table in server.served.tables[::2]:
        try:
            pull_from(server.store(table.name), tmp_path / table.name)
        except DeltacliError:  # not readable; the corpus of the client names those
            continue
        if table.name != OTHER_SIZE:
            pulled.append(table)

    truly = _rows(python, [Task(table.name, table.location, None) for table in pulled], tmp_path)
    found = _rows(python, [Task(table.name, str(tmp_path / table.name), None) for table in pulled], tmp_path)

    readable = [name for name, rows in truly.items() if not isinstance(rows, str)]
    assert {name: truly[name] for name in readable} == {name: found[name] for name in readable}
    assert len(readable) > 50


def _rows(python: str, tasks: list[Task], place: Path) -> dict[str, Rows | str]:
    """The rows of tables by name, or why there are none."""
    return {
        answer.task.table: answer.refusal or "" if answer.place is None else _counted(answer)
        for answer in ask_for_rows(python, "rows_with_deltalake.py", tasks, place)
    }


def _counted(answer: PeerRows) -> Rows:
    with pa.memory_map(str(answer.place)) as source:
        table = pa.ipc.open_file(source).read_all()
        return count_rows([table], sorted(table.schema.names))


def test_duckdb_reads_the_files_of_a_pulled_table(tmp_path: Path) -> None:
    python, target = python_of("duckdb"), tmp_path / "local"
    origin = Origin(tmp_path / "origin").append(range(100)).append(range(100, 150), removing=1)
    with proxied(tmp_path, shared(origin.path)) as proxy:
        pull(proxy, target)

    files = json.dumps([str(path) for path in target.glob("*.parquet")])
    done = subprocess.run([python, "-c", _PARQUET, files], capture_output=True, text=True, check=True)

    assert list(range(100, 150)) == json.loads(done.stdout)
