"""`stats` on real tables: the same rows, nothing new that is wrong, nothing left to do, and no more files than before.

A sample of the tables runs in the suite, all tables are soaked.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from deltacli.api.table import Table
from deltacli.core.errors import DeltacliError, Refused, quote_identifier
from tests.corpus.test_checkpoints import TABLES
from tests.corpus.test_optimize_corpus import BY_ID, CHOSEN, NAMES, NOW_MS, rows_of
from tests.support.corpus_checkpoints import copy_log, open_copy


def wrong(table: Table) -> Counter[tuple[str, str | None]]:
    found = table.validate(level="data").findings
    return Counter((one.rule.id, one.place.key) for one in found if not one.rule.id.startswith(("history", "log")))


def opened(table: Table) -> list[int]:
    """How many files some conditions open."""
    snapshot, counts = table.snapshot(), list[int]()
    for field in snapshot.config.schema.fields if snapshot.config.schema else ():
        for condition in ("IS NULL", "IS NOT NULL", "= 3", "> 3", "< 'b'"):
            try:
                counts.append(
                    len(list(snapshot.scan(where=f"{quote_identifier(field.name)} {condition}").data_files()))
                )
            except DeltacliError:
                counts.append(-1)
    return counts


def computed(name: str, root: Path, place: Path, read: str) -> str | None:
    """Compute the statistics of a copy; return why it was not changed, None if it was looked at."""
    shutil.rmtree(place, ignore_errors=True)
    table = open_copy(copy_log(BY_ID[name], root, place, with_data=True), now_ms=NOW_MS)
    try:
        before, known, files = rows_of(table), wrong(table), opened(table)
    except DeltacliError as fault:
        return f"unreadable: {fault.code}"
    try:
        table.stats(read=read, all=True)
    except Refused as refused:
        return f"refused: {refused.code}"

    assert before[1] == rows_of(table)[1], name
    assert not wrong(table) - known, name
    is_right = not any(rule.startswith("stats.") for rule, _ in known)  # wrong bounds leave out files that have rows
    assert not is_right or all(now <= then for then, now in zip(files, opened(table), strict=True)), name
    assert not table.stats(read=read, all=True).versions, name
    return None


@pytest.mark.parametrize("read", ["footers", "rows"])
@pytest.mark.parametrize("name", CHOSEN)
def test_nothing_is_wrong_afterwards(name: str, read: str, root: Path, tmp_path: Path) -> None:
    why = computed(name, root, tmp_path / "t", read)

    assert why is None or why.startswith("unreadable"), why


@pytest.mark.soak
@pytest.mark.parametrize("read", ["footers", "rows"])
def test_nothing_is_wrong_in_any_table(read: str, root: Path, tmp_path: Path) -> None:
    found = {name: computed(name, root, tmp_path / "t", read) for name in NAMES}

    assert {"refused: catalog.managed", "refused: hint.ahead-of-log"} == {
        why for why in found.values() if why and why.startswith("refused")
    }
    assert sum(why is None for why in found.values()) >= len(TABLES) // 3
