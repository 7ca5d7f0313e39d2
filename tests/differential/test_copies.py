"""Other engines on copies: each version has the rows of the source."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltacli import open_table
from tests.differential.test_rows import PEERS
from tests.operations.copy.tables import SHAPES, copy, versions_of
from tests.support.peers import ENVIRONMENT_VARIABLE, Task, ask_for_rows, has_peer, peer_python


@pytest.mark.parametrize("is_replica", [True, False])
@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_each_version_of_a_copy(peer: str, is_replica: bool, tmp_path: Path) -> None:
    python = peer_python()
    if python is None or not has_peer(python, peer):
        pytest.skip(f"no other engine: {ENVIRONMENT_VARIABLE}")
    tasks = []
    for shape, make in SHAPES.items():
        make(tmp_path / shape)
        copy(tmp_path / shape, tmp_path / f"{shape}-copy", replica=is_replica)
        versions = versions_of(tmp_path / shape)
        tasks += [Task(shape, str(tmp_path / f"{shape}-copy"), version) for version in versions]

    for answer in ask_for_rows(python, PEERS[peer], tasks, tmp_path):
        assert answer.refusal is None, answer
        assert answer.place is not None
        with pa.ipc.open_file(answer.place) as opened:
            found = opened.read_all().to_pylist()
        source = open_table(tmp_path / answer.task.table).snapshot(version=answer.task.version)
        expected = [row for batch in source.scan() for row in batch.to_pylist()]
        assert sorted(map(repr, expected)) == sorted(map(repr, found)), answer.task
