"""Every table of the corpus whose protocol deltacli writes, rewritten: the same rows."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltacli import open_table
from deltacli.core.errors import DeltacliError, Refused
from deltacli.table.version import Snapshot
from tests.support import corpus
from tests.support.effort import sampled
from tests.support.rewriting import rewrite
from tests.support.small_types import plain

NOT_WRITTEN = {"catalog.managed", "protocol.unknown-feature"}
"""Why deltacli commits nothing to a table."""
SHREDDED = {
    "derived/crc-wrong-a",
    "spark/variant-stats-nested-no-checkpoint",
    "spark/variant-stats-with-struct-no-checkpoint",
}
"""Tables with shredded variants, which are left alone."""


def is_small(table: corpus.CorpusTable) -> bool:
    newest = table.newest or {}
    few = newest.get("live_files", 0) <= 3_000 and (newest.get("num_records") or 0) <= 200_000
    return few and 0 < (newest.get("live_bytes") or 0) <= 20_000_000


TABLES = [table for table in corpus.tables() if is_small(table)]


def rows_of(snapshot: Snapshot) -> Counter[Any]:
    return Counter(plain(tuple(row.values())) for batch in snapshot.scan() for row in batch.to_pylist())


def check(table: corpus.CorpusTable, copy: Path) -> None:
    """Rewrite a copy of a table; one whose rows cannot be read is none to rewrite."""
    shutil.copytree(table.path(corpus.unpacked()), copy)
    opened = open_table(str(copy))
    try:
        before = rows_of(opened.snapshot())
    except DeltacliError:
        return
    try:
        results = rewrite(opened)
    except Refused as fault:
        if fault.code not in NOT_WRITTEN:
            raise
        return
    refused = {each.code for result in results for each in result.refused}
    assert ({"optimize.value-not-exact"} if table.id in SHREDDED else set()) == refused
    assert before == rows_of(opened.snapshot())


@pytest.mark.parametrize("table", sampled(TABLES, 12), ids=lambda table: table.id)
def test_rewritten_tables_have_the_same_rows(table: corpus.CorpusTable, tmp_path: Path) -> None:
    check(table, tmp_path / "t")
