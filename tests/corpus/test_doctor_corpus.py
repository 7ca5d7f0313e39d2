"""`doctor table` of real tables: each that can be opened is examined, and its numbers are those of the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError
from tests.docs.test_schemas import faults
from tests.support.corpus import CorpusTable, tables


def check(table: CorpusTable, root: Path) -> bool:
    path = table.path(root)
    try:
        snapshot = open_table(path).snapshot()
    except DeltacliError:
        return False
    report = open_table(path).doctor()
    found = report.as_json()
    counts, tombstones = snapshot.counts()
    files = found["files"]
    assert isinstance(files, dict)
    assert (counts.count, counts.size_bytes, counts.rows) == (files["count"], files["sizeBytes"], files["rows"])
    assert counts.count == sum(one["files"] for one in files["classes"])
    assert tombstones.count == found["tombstones"]["count"]
    envelope = {"kind": "deltacli.doctor-table", "schemaVersion": 1, "table": report.uri, "tableFormat": "delta"}
    assert not faults({**envelope, "complete": not report.notes, **found}, "deltacli.doctor-table"), table.id
    return True


@pytest.mark.halved
def test_a_sample_is_examined(root: Path) -> None:
    assert sum(check(table, root) for table in tables()[::4]) > 30


@pytest.mark.soak
def test_every_table_is_examined(root: Path) -> None:
    assert sum(check(table, root) for table in tables()) > 150
