"""`optimize` on real tables: the same rows afterwards, also for other engines, nothing wrong, and nothing left to do.

A sample of the tables runs in the suite, other engines read it in the long one, and all tables are soaked.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, Refused, StorageFailed, UsageError, quote_identifier
from deltacli.delta.clustering.order_columns import order_columns
from tests.corpus.test_checkpoints import TABLES, UNWRITABLE
from tests.corpus.test_widen_corpus import HUGE
from tests.differential.test_rows import LARGE, PEERS
from tests.support.corpus_checkpoints import copy_log, open_copy
from tests.support.effort import is_soaking, sampled
from tests.support.peers import Task, ask_for_rows, peer_python
from tests.support.row_counts import Rows, count_rows

SAMPLE, SEED = 12, 3
NOW_MS = 1_800_000_000_000
BY_ID = {table.id: table for table in TABLES}
NAMES = [table.id for table in TABLES if table not in UNWRITABLE and table.id not in HUGE | LARGE]
CHOSEN = sorted(random.Random(SEED).sample(NAMES, min(SAMPLE, len(NAMES))))
NOTHING = "nothing to do"
SORTED = CHOSEN[:4]
CLUSTERED = [
    name
    for name in NAMES
    if any("clustering" in (one.get("writerFeatures") or ()) for one in BY_ID[name].entry["protocols"])
]


def rows_of(table: Table) -> tuple[pa.Schema, Rows]:
    scan = table.snapshot().scan()
    return scan.schema, count_rows(scan, scan.schema.names)


def errors_of(table: Table) -> set[str]:
    return {found.rule.id for found in table.validate(level="data").findings if found.severity.value == "error"}


def order_of(table: Table) -> dict[str, Any]:
    """How the rows of a table can be sorted: by its clustering columns, else by the first ones that can be."""
    snapshot = table.snapshot()
    if "clustering" in snapshot.config.features:
        return {"cluster": True}
    found = []
    for field in snapshot.config.schema.fields if snapshot.config.schema else ():
        with suppress(UsageError):
            found += [order_columns(snapshot.config, [quote_identifier(field.name)])[0].text]
    return {"zorder": found[:2]}


def optimized(name: str, root: Path, place: Path, *, is_sorted: bool = False, **how: Any) -> str | None:
    """Optimize a copy, and compare what can be read before and after; return why it was not changed, None if it was."""
    shutil.rmtree(place, ignore_errors=True)
    table = open_copy(copy_log(BY_ID[name], root, place, with_data=True), now_ms=NOW_MS)
    try:
        before = rows_of(table)
    except DeltacliError as fault:
        return f"unreadable: {fault.code}"
    how |= order_of(table) if is_sorted else {}
    wrong = errors_of(table)
    newest = table.snapshot().version
    try:
        done = table.optimize(**how)
    except (Refused, StorageFailed, UsageError) as refused:
        assert table.snapshot().version == newest
        return f"refused: {refused.code}"
    after = rows_of(table)
    assert before[0].equals(after[0], check_metadata=False), name
    assert before[1] == after[1], name
    assert errors_of(table) <= wrong, name
    if not done.versions:
        return NOTHING
    again = table.optimize(**how)
    assert not again.versions, name
    return None


@pytest.mark.parametrize("name", CHOSEN)
def test_the_rows_stay(name: str, root: Path, tmp_path: Path) -> None:
    why = optimized(name, root, tmp_path / "t")

    assert why is None or why == NOTHING or why.startswith("unreadable"), why


REFUSED = ("catalog.managed", "hint.ahead-of-log", "action.duplicate-path")
"""Why tables of the corpus are not rewritten; the last one is of a commit that adds a file with two sizes."""


@pytest.mark.soak
@pytest.mark.parametrize("purge", [False, True])
def test_the_rows_of_every_table_stay(purge: bool, root: Path, tmp_path: Path) -> None:
    outcomes = {name: optimized(name, root, tmp_path / "t", purge=purge) for name in NAMES}

    refused = {name: why for name, why in outcomes.items() if why is not None and why.startswith("refused")}
    assert {f"refused: {code}" for code in REFUSED} >= set(refused.values())
    assert sum(why is None for why in outcomes.values()) >= 10


@pytest.mark.parametrize("name", [*SORTED, *CLUSTERED])
def test_the_rows_stay_when_they_are_sorted(name: str, root: Path, tmp_path: Path) -> None:
    why = optimized(name, root, tmp_path / "t", is_sorted=True)

    assert why is None or why == NOTHING or why.startswith(("unreadable", "refused: optimize.not-clustered")), why


@pytest.mark.sampled
@pytest.mark.long
def test_the_rows_of_every_table_stay_when_they_are_sorted(root: Path, tmp_path: Path) -> None:
    outcomes = {name: optimized(name, root, tmp_path / "t", is_sorted=True) for name in sampled(NAMES, 60)}

    refused = {name: why for name, why in outcomes.items() if why is not None and why.startswith("refused")}
    assert {f"refused: {code}" for code in (*REFUSED, "optimize.not-clustered")} >= set(refused.values())
    assert sum(why is None for why in outcomes.values()) >= (80 if is_soaking() else 25)


@pytest.mark.long
@pytest.mark.skipif(peer_python() is None, reason="no environment with peers")
@pytest.mark.parametrize("is_sorted", [False, True])
def test_other_engines_read_the_same_rows(is_sorted: bool, root: Path, tmp_path: Path) -> None:
    """A peer that refuses the newest version refuses the one before as well."""
    names = [*CHOSEN, *CLUSTERED] if is_sorted else CHOSEN
    assert not peers_read_differently(names, root, tmp_path, is_sorted=is_sorted)


@pytest.mark.soak
@pytest.mark.skipif(peer_python() is None, reason="no environment with peers")
@pytest.mark.parametrize("is_sorted", [False, True])
def test_other_engines_read_the_same_rows_of_every_table(is_sorted: bool, root: Path, tmp_path: Path) -> None:
    assert not peers_read_differently(NAMES, root, tmp_path, is_sorted=is_sorted)


def peers_read_differently(names: Sequence[str], root: Path, place: Path, *, is_sorted: bool) -> list[object]:
    """Optimize copies, and return those of which a peer reads other rows of the newest version than of the one before
    the first commit.
    """
    copies: list[tuple[str, Path, int, int]] = []
    for number, name in enumerate(names):
        copy = place / str(number)
        if optimized(name, root, copy, is_sorted=is_sorted) is None:
            items = open_copy(copy, now_ms=NOW_MS).history().items
            ours = [item.version for item in items if "deltacli" in str((item.commit_info or {}).get("engineInfo"))]
            copies.append((name, copy, min(ours) - 1, items[0].version))
    assert copies
    python = peer_python()
    assert python is not None
    differs: list[object] = []
    for peer, script in PEERS.items():
        (place / peer).mkdir()
        tasks = [Task(name, str(copy), version) for name, copy, *both in copies for version in both]
        answers = ask_for_rows(python, script, tasks, place / peer)
        for then, now in zip(answers[::2], answers[1::2], strict=True):
            if then.place is None:
                continue
            if now.place is None:
                differs.append((peer, then.task, now.refusal))
                continue
            tables = [pa.ipc.open_file(str(one.place)).read_all() for one in (then, now)]
            columns = tables[0].schema.names
            if count_rows([tables[0]], columns) != count_rows([tables[1]], columns):
                differs.append((peer, then.task, "other rows"))
        assert any(one.place is not None for one in answers[1::2]), peer
    return differs
