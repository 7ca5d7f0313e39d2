"""How much of a log is held at a time while its commits become columns."""

from __future__ import annotations

import pytest

from deltacli.operations.table import replay
from tests.support.builder import TableBuilder
from tests.support.reading import open_built


def test_large_commits_are_converted_to_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_BYTES_A_BATCH", 1)
    table = TableBuilder().commits(2)

    snapshot = open_built(table).snapshot()

    assert [1, 1] == [batch.num_rows for batch in snapshot.files()]
    assert 2 == len(snapshot._tail.adds)
