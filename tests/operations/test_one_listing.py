"""`reach` and `doctor table` list each directory of a table once, for all that they look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.delta.data_files import MANIFESTS
from deltacli.storage import Storage, open_storage
from tests.support.actions import add, remove
from tests.support.builder import TableBuilder
from tests.support.reading import open_at
from tests.support.storage import FAR, RecordingStorage

LIVE = ["a/1.parquet", "_b/1.parquet", "%20.parquet", "inner/t.parquet", "part-00000.parquet"]
"""Hidden names, a name that is not encoded, and files in another table, all of which a vacuum does not look at."""
REMOVED = ["a/old.parquet", "a/gone.parquet", "_b/gone.parquet"]
LOST = ["_b/lost.parquet", "lost.parquet"]
OTHERS = ["unknown/1.parquet", "inner/_delta_log/0.json", "inner/deep/1.parquet"]
Look = Callable[[Table], object]


@pytest.fixture(scope="module")
def builder() -> TableBuilder:
    made = TableBuilder().commits(1).commit(*(add(path, size=7) for path in [*LIVE[:-1], *REMOVED]))
    made.commit(*(remove(path) for path in REMOVED)).commit(*(add(path, size=7) for path in LOST))
    for path in [*LIVE, REMOVED[0], *OTHERS]:
        made.file(path, bytes(100 if path == LIVE[-1] else 7))
    return made


def readable(table: Table) -> object:
    return table.reach(retention_ms=0).readable


def lost(table: Table) -> object:
    return [(one.code, dict(one.now)) for one in table.doctor().advice]


@pytest.mark.parametrize(("look", "expected"), [(readable, [0, 2]), (lost, [("files.lost", {"lostFiles": 2})])])
def test_each_directory_is_listed_once(look: Look, expected: object, builder: TableBuilder, tmp_path: Path) -> None:
    """
    On disks and far away: what the listing of a vacuum leaves out is looked for as well.
    """
    builder.write(tmp_path / "t")
    stores: list[Storage] = [builder.in_memory(), open_storage(str(tmp_path / "t"))]
    for storage in stores:
        recording = RecordingStorage(storage, capabilities=FAR if storage is stores[0] else None)

        assert expected == look(open_at(recording))

        found = (path.rstrip("/") for verb, path in recording.paths if verb == "walk" or _is_of_table(verb, path))
        listings = Counter(found)
        assert 2 >= listings.pop(MANIFESTS)  # each plan of a vacuum asks for it
        if storage is stores[1]:
            del listings["_b"]  # a vacuum looks for links there, where the log names files in it
        assert 1 == listings[""] == max(listings.values()), listings


def _is_of_table(verb: str, path: str) -> bool:
    return verb == "list_from" and not path.startswith("_delta_log")
