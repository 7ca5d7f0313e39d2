"""Tables with staged commits that other engines made, read through a catalog that holds these commits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.catalogs.lockstep import named_table
from deltacli.catalogs.managed_store import open_managed
from deltacli.core.errors import Refused, VersionAbsent
from deltacli.storage import LocalStorage
from deltacli.table.time_travel import find_version_at
from tests.support import corpus
from tests.support.catalog_state import MANAGED, NAME, UUID, CatalogState, MemoryCatalog, Row, ServerTable

STAMPS = (1_749_830_855_993, 1_749_830_871_085, 1_749_830_881_799)
TABLES = ("kernel-java/catalog-owned-preview", "kernel-rs-uc/catalog_managed_0")


def _named_table(root: Path) -> str | None:
    """Return the id that the log has of the table in its catalog."""
    first = (root / "_delta_log" / f"{0:020d}.json").read_bytes()
    actions = [json.loads(line) for line in first.splitlines()]
    (configuration,) = (action["metaData"]["configuration"] for action in actions if "metaData" in action)
    return named_table(configuration)


def _opened(table_id: str, tmp_path: Path) -> tuple[Table, CatalogState]:
    """Copy a table of the corpus, and open it in a catalog that has ratified its staged commits."""
    root = tmp_path / "table"
    shutil.copytree(corpus.unpacked() / "tables" / table_id, root)
    state, server = CatalogState(), ServerTable(str(root))
    server.properties = {MANAGED: "supported"}
    server.uuid = _named_table(root) or UUID
    for path in sorted((root / "_delta_log" / "_staged_commits").glob("*.json")):
        info = json.loads(path.read_bytes().splitlines()[0])["commitInfo"]
        server.rows.append(
            Row(
                {
                    "version": int(path.name[:20]),
                    "timestamp": info["inCommitTimestamp"],
                    "file-name": path.name,
                    "file-size": path.stat().st_size,
                    "file-modification-timestamp": info["inCommitTimestamp"],
                }
            )
        )
    state.tables[NAME] = server
    catalog = MemoryCatalog(state)
    store = open_managed(LocalStorage(str(root)), catalog, catalog.load(NAME))
    return Table(store, name=str(NAME)), state


@pytest.mark.parametrize("table_id", TABLES)
def test_the_commits_of_a_catalog_are_read(table_id: str, tmp_path: Path) -> None:
    table, _ = _opened(table_id, tmp_path)
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.counts()[0].rows) == (2, 200)
    rows = pa.Table.from_batches(list(snapshot.scan()))
    assert {part: rows["part1"].to_pylist().count(part) for part in (0, 1)} == {0: 100, 1: 100}
    assert [one.time.timestamp_ms if one.time else None for one in table.history(limit=0).items] == [*reversed(STAMPS)]
    assert [find_version_at(table, at) for at in (STAMPS[1] - 1, STAMPS[1], STAMPS[2], STAMPS[2] + 1)] == [0, 1, 2, 2]
    assert (table.snapshot(version=1).counts()[0].rows, table.snapshot(version=0).counts()[0].rows) == (100, 0)
    with pytest.raises(VersionAbsent):
        table.snapshot(version=3)


@pytest.mark.parametrize("table_id", TABLES)
def test_they_are_published_and_read_by_path(table_id: str, tmp_path: Path) -> None:
    table, state = _opened(table_id, tmp_path)
    assert table.publish_catalog().published == (1, 2)
    assert Table(LocalStorage(str(tmp_path / "table"))).snapshot().counts()[0].rows == 200
    assert state.tables[NAME].unpublished == []


def test_a_table_without_the_id_of_its_catalog_is_not_changed(tmp_path: Path) -> None:
    table, state = _opened("kernel-java/catalog-owned-preview", tmp_path)
    with pytest.raises(Refused) as raised:
        table.set_properties({"owner": "me"})
    assert (raised.value.code, state.tables[NAME].latest) == ("catalog.diverged", 2)
