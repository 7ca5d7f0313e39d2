"""`restore` on real tables: rows, schema and types are those of the version afterwards, also for other engines.

A sample of the pairs of tables and versions runs in the suite, all of them in the long one.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, PathExternal, Refused, StorageFailed
from tests.corpus.test_checkpoints import TABLES, UNWRITABLE, known_versions
from tests.corpus.test_widen_corpus import HUGE
from tests.differential.test_rows import PEERS
from tests.support.corpus_checkpoints import copy_log, open_copy
from tests.support.effort import is_soaking
from tests.support.peers import Task, ask_for_rows, peer_python
from tests.support.row_counts import Rows, count_rows

SAMPLE, SEED = 15, 1
_AT_ONCE = 50
"""Tables that are on disk together."""
NOW_MS = 1_800_000_000_000
Pair = tuple[str, int]

BY_ID = {table.id: table for table in TABLES}
PAIRS: list[Pair] = [
    (table.id, version["version"])
    for table in TABLES
    if table not in UNWRITABLE and table.id not in HUGE
    for version in known_versions(table)
]
CHOSEN = sorted(random.Random(SEED).sample(PAIRS, min(SAMPLE, len(PAIRS))))


def rows_of(table: Table, version: int | None = None) -> tuple[pa.Schema, Rows]:
    scan = table.snapshot(version=version).scan()
    return scan.schema, count_rows(scan, scan.schema.names)


def restored(pair: Pair, root: Path, place: Path) -> str | None:
    """Restore a copy, and compare what can be read before and after; return why it was not restored, None if it was."""
    name, version = pair
    shutil.rmtree(place, ignore_errors=True)
    table = open_copy(copy_log(BY_ID[name], root, place, with_data=True), now_ms=NOW_MS)
    try:
        before = rows_of(table, version)
    except DeltacliError as fault:
        return f"unreadable: {fault.code}"
    newest = table.snapshot().version
    try:
        done = table.restore(version=version)
    except (PathExternal, Refused, StorageFailed) as refused:
        assert table.snapshot().version == newest
        return f"refused: {refused.code}"
    after = rows_of(table)
    assert before[0].equals(after[0], check_metadata=False), pair
    assert before[1] == after[1], pair
    found = done.plan.difference
    assert newest + (done.committed_version is not None) == table.snapshot().version
    assert found.files_after == table.snapshot().counts()[0].count, pair
    return None


@pytest.mark.parametrize("pair", CHOSEN, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_a_version_comes_back(pair: Pair, root: Path, tmp_path: Path) -> None:
    why = restored(pair, root, tmp_path / "t")

    assert why is None or why.partition(": ")[2] not in ("restore.file-damaged", "bug"), why


@pytest.mark.soak
def test_every_version_that_can_be_read_comes_back(root: Path, tmp_path: Path) -> None:
    outcomes = {pair: restored(pair, root, tmp_path / "t") for pair in PAIRS}

    other_size = {("derived/two-adds-in-one-commit-a", 1): "refused: restore.file-damaged"}  # by the log, not on disk
    lost = {pair: "refused: hint.ahead-of-log" for pair in PAIRS if pair[0] == "derived/last-checkpoint-dangling-a"}
    assert other_size | lost == {
        pair: why for pair, why in outcomes.items() if why is not None and not why.startswith("unreadable")
    }
    assert sum(why is None for why in outcomes.values()) > len(outcomes) * 4 // 5


@pytest.mark.long
@pytest.mark.skipif(peer_python() is None, reason="no environment with peers")
def test_other_engines_read_what_came_back(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """
    A peer that refuses the restored version refuses the version itself as well, or the table before the restore.
    """
    pairs = PAIRS if is_soaking() else CHOSEN
    compared, differs, restores = Counter[str](), list[object](), 0
    for start in range(0, len(pairs), _AT_ONCE):
        places: list[tuple[Path, Pair]] = []
        for number, pair in enumerate(pairs[start : start + _AT_ONCE]):
            place = tmp_path / str(number)
            if restored(pair, root, place) is None:
                places.append((place, pair))
        restores += len(places)
        for peer, script in PEERS.items():
            differs += _told_by(peer, script, places, root, tmp_path / f"{peer}-{start}", compared)
    assert not differs, "\n".join(map(str, differs))
    assert all(compared[peer] > restores // 2 for peer in PEERS), compared
    with capfd.disabled():
        sys.stderr.write(f"\nother engines read {dict(compared)} of {restores} restores as the version itself\n")


def _told_by(
    peer: str, script: str, places: Sequence[tuple[Path, Pair]], root: Path, directory: Path, compared: Counter[str]
) -> list[object]:
    """Return the tables of which a peer reads other rows or types after the restore than it reads of the version;
    count those that are the same.
    """
    python = peer_python()
    assert python is not None
    directory.mkdir()
    tasks = []
    for place, (name, version) in places:
        original = str(BY_ID[name].path(root))
        tasks += [Task(name, str(place), version), Task(name, original, None), Task(name, str(place), None)]
    answers = ask_for_rows(python, script, tasks, directory)
    differs: list[object] = []
    for then, before, now in zip(answers[::3], answers[1::3], answers[2::3], strict=True):
        if then.place is None or before.place is None:
            continue
        if now.place is None:
            differs.append((peer, then.task, now.refusal))
            continue
        tables = [pa.ipc.open_file(str(one.place)).read_all() for one in (then, now)]
        names = tables[0].schema.names
        if not tables[0].schema.equals(tables[1].schema):
            differs.append((peer, then.task, "other types", str(tables[0].schema), str(tables[1].schema)))
        elif count_rows([tables[0]], names) != count_rows([tables[1]], names):
            differs.append((peer, then.task, "other rows"))
        else:
            compared[peer] += 1
    shutil.rmtree(directory)
    return differs
