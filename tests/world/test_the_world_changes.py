"""Whatever happens to a table while it is changed, the change is refused, spares what is needed, or is right.

Nothing is lost, doubled or invented, in the table or in what takes its place, and what is said to be done is done.

`python -m tests.world` plays all cells and says what is wrong about them.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltacli.operations
from deltacli.changing.change_kind import ChangeKind
from deltacli.operations.catalog import Publish
from deltacli.operations.change.convert import Convert
from deltacli.operations.change.manifest import Manifests
from deltacli.operations.clone import Clone
from deltacli.operations.copy.execute import Copy
from deltacli.operations.paimon.alter import SchemaAlteration
from deltacli.operations.paimon.vacuum_schemas import SchemaVacuum
from tests.support.builder import Files, StoredFile, commit_path
from tests.world import changes
from tests.world.cells import Cell, all_cells, played, small_and_quick
from tests.world.changes import CHANGES
from tests.world.events import Moment
from tests.world.judge import Interruption, play
from tests.world.oracle import Damaged, Reading
from tests.world.places import DiskWorld, ObjectWorld, World
from tests.world.tables import LOST_FILE, NEWEST, TARGET, VECTORS, a_diverged_copy, the_table
from tests.world.wrong import read_wrong

NOW_MS = 1_702_419_200_000
SHARE = 6
"""Of so many cells, the ordinary suite plays one."""
ELSEWHERE = {
    Clone: "its table is new, and its source is not changed: test_clone.py",
    Convert: "there is no table before it: test_convert.py",
    Copy: "its table is not changed: tests/operations/copy",
    Publish: "it copies what the catalog ratified, which asks no base_version: tests/catalogs/test_publishing.py",
    Manifests: "they are no part of the table: test_manifests.py",
    SchemaAlteration: "a Paimon table has no log: test_paimon_schemas.py",
    SchemaVacuum: "a Paimon table has no log: test_paimon_schemas.py",
}


def _cells() -> Iterator[Any]:  # Any: parameters of pytest
    wrong = read_wrong()
    for cell in all_cells():
        in_the_suite = zlib.crc32(str(cell).encode()) % SHARE == 0
        marks: list[Any] = [] if in_the_suite else [pytest.mark.long]
        if (what := wrong.pop(cell, None)) is not None:
            marks.append(pytest.mark.xfail(reason=what, strict=True))
        yield pytest.param(cell, id=str(cell), marks=marks)
    assert not wrong, f"no such cells: {[*map(str, wrong)]}"


@pytest.mark.quartered
@pytest.mark.parametrize("cell", [*_cells()])
def test_the_world_changes(cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [] == played(cell, tmp_path / "w", monkeypatch)


@pytest.mark.parametrize("kind", ["disk", "objects"])
@pytest.mark.parametrize("name", [name for name, change in CHANGES.items() if change.is_sound])
def test_where_nothing_happens_every_change_is_done(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = CHANGES[name]
    if kind not in change.kinds:
        pytest.skip("not in such a store")
    small_and_quick(monkeypatch)
    moment = min(change.has_moments, key=[*Moment].index)
    listener = Interruption(moment)
    world: World = DiskWorld(tmp_path / "w", listener) if kind == "disk" else ObjectWorld(listener)

    assert [] == play(world, change, None, moment)


def test_every_change_says_what_it_does_and_has_a_row() -> None:
    found = [*_changes()]

    assert SchemaAlteration in found
    assert [] == [kind.__name__ for kind in found if not isinstance(getattr(kind, "kind", None), ChangeKind)]
    used_by_rows = vars(changes).values()
    assert [] == [kind.__name__ for kind in found if kind not in used_by_rows and kind not in ELSEWHERE]


def _changes() -> Iterator[type]:
    """Every class that is planned and executed as a change is."""
    for module in pkgutil.walk_packages(deltacli.operations.__path__, "deltacli.operations."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            methods = {"plan", "outcome", "execute"}
            if kind.__module__ == module.name and methods <= vars(kind).keys():
                yield kind


def test_the_oracle_reads_what_was_written() -> None:
    table = Reading(the_table(NOW_MS))

    assert [*range(NEWEST + 1)] == [*table.versions]
    assert {20, 22, 40, 41, 42, 50, 51, 52} == {dict(row)["id"] for row in table.versions[TARGET]}
    assert 17 == table.versions[NEWEST].total()


def test_the_oracle_misses_what_is_gone() -> None:
    for path in (LOST_FILE, VECTORS):
        table = Reading(_without(the_table(NOW_MS), path))
        with pytest.raises(Damaged, match=path):
            table.rows(NEWEST)
    assert NEWEST not in Reading(_without(the_table(NOW_MS), commit_path(NEWEST - 1))).versions


def test_the_oracle_sees_a_checkpoint_of_another_state() -> None:
    files, copy = the_table(NOW_MS), a_diverged_copy(NOW_MS)
    path = "_delta_log/00000000000000000003.checkpoint.parquet"

    assert [] == [*Reading(files).contradictions(path)]
    files[path] = StoredFile(_checkpoint_of(copy))
    assert ["checkpoint 3 is not the state of its version"] == [*Reading(files).contradictions(path)]


def _without(files: Files, path: str) -> Files:
    return {name: file for name, file in files.items() if name != path}


def _checkpoint_of(files: Files) -> bytes:
    from tests.world.tables import Writer

    writer = Writer(dict(files), NOW_MS)
    writer.checkpoint()
    return writer.files[f"_delta_log/{writer.reading.newest:020d}.checkpoint.parquet"].data
